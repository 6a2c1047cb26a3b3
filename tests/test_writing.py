"""Files are there whole, or as they were; nothing that is read is written; and what killed processes left is swept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tautcut import writing
from tautcut.errors import InputError
from tautcut.records import append_record
from tautcut.writing import check_apart, naming, replacing, writable, write_whole

FULL = OSError(28, "No space left on device")


@pytest.fixture(autouse=True)
def unswept(monkeypatch):
    """As a process that has written nothing yet."""
    monkeypatch.setattr(writing, "_swept", set())


@pytest.mark.parametrize("content", ["after ≥\n", "after ≥\n".encode()])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, content):
    path, write = tmp_path / "table.md", Path.write_bytes
    path.write_text("before")

    def torn(self, data):
        write(self, data[:2])
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", torn)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, content)
    assert path.read_text() == "before"
    write_whole(path, content)
    assert path.read_bytes() == "after ≥\n".encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["open", "fsync", "replace"])
def test_each_step_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch, name):
    path = tmp_path / "table.md"
    path.write_text("before")

    def fails(*given, **named):
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fails)
        with pytest.raises(OSError, match=r"No space.*table\.md"):
            write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [FULL, OSError("it failed\nsomehow"), PermissionError(13, "no", "other")])
def test_an_error_of_the_system_names_the_file(tmp_path, error):
    with pytest.raises(OSError, match=r"wanted\.csv") as raised, naming(tmp_path / "wanted.csv"):
        raise error
    assert raised.value.filename == str(tmp_path / "wanted.csv")
    assert raised.value.strerror == (error.strerror or "it failed")
    assert type(raised.value) is type(error)


def test_other_errors_pass(tmp_path):
    with pytest.raises(ValueError, match=r"^no$"), naming(tmp_path / "x"):
        raise ValueError("no")


def test_the_temporary_file_is_not_what_is_named(tmp_path):
    with pytest.raises(OSError, match="No space") as raised, replacing(tmp_path / "table.csv") as part:
        raise OSError(28, "No space left on device", str(part))
    assert raised.value.filename == str(tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_names_the_file_of_records():
    with pytest.raises(OSError, match="/dev/full"), naming("/dev/full"), open("/dev/full", "w") as file:
        file.write("x")
    with pytest.raises(OSError, match="/dev/full"):
        append_record("/dev/full", _Line())


class _Line:
    """What a file of records needs of a record."""

    def to_json(self) -> str:
        return "{}"


# ---------------------------------------------------------------- temporary files


def test_a_link_that_was_planted_is_not_followed(tmp_path, monkeypatch):
    victim, guessed = tmp_path / "victim.txt", "0" * 16
    victim.write_text("precious")
    monkeypatch.setattr(writing.secrets, "token_hex", lambda n: guessed)
    part = tmp_path / f".tautcut-{writing._place()}-{os.getpid()}-{guessed}.part"
    part.symlink_to(victim)
    with pytest.raises(FileExistsError, match=r"out\.csv"):
        write_whole(tmp_path / "out.csv", "content")
    assert victim.read_text() == "precious"


def test_names_of_temporary_files_differ(tmp_path):
    with replacing(tmp_path / "a.csv") as one, replacing(tmp_path / "a.csv") as other:
        assert one != other
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_file_has_the_rights_of_any_new_one(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "ours", "x")
        (tmp_path / "any").write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_name_as_long_as_names_can_be_is_written(tmp_path):
    path = tmp_path / ("y" * 250 + ".csv")
    write_whole(path, "x")
    assert path.read_text() == "x"


# ---------------------------------------------------------------- sweeping

KILLED = """
import os, signal, sys
from pathlib import Path
from tautcut.writing import replacing
with replacing(Path(sys.argv[1])) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def part_of(folder: Path, pid: int, place: str | None = None) -> Path:
    path = folder / f".tautcut-{place or writing._place()}-{pid}-{'ab' * 8}.part"
    path.write_text("half")
    return path


def test_what_a_killed_process_left_is_swept_by_the_next_that_writes(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "l.csv")], check=False)
    (left,) = tmp_path.iterdir()
    assert re.fullmatch(r"\.tautcut-[0-9a-f]{8}-\d+-[0-9a-f]{16}\.part", left.name)
    write_whole(tmp_path / "other.csv", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["other.csv"]


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    part = part_of(tmp_path, os.getppid())
    write_whole(tmp_path / "l.csv", "x")
    assert part.exists()


def test_a_number_that_another_process_has_got_does_not_protect(tmp_path):
    part = part_of(tmp_path, os.getpid())
    os.utime(part, (1, 1))  # long before this process began
    write_whole(tmp_path / "l.csv", "x")
    assert not part.exists()


@pytest.mark.parametrize(("age", "is_swept"), [(0, False), (3 * 24 * 3600, True)])
def test_processes_of_other_machines_have_a_day(tmp_path, age, is_swept):
    part = part_of(tmp_path, 4_000_000, place="0" * 8)
    os.utime(part, (time.time() - age,) * 2)
    write_whole(tmp_path / "l.csv", "x")
    assert part.exists() is not is_swept


def test_nothing_else_is_swept(tmp_path):
    name = part_of(tmp_path, 4_000_000).name
    (tmp_path / name).unlink()
    others = [".l.csv.123.part", f"x{name}", f"{name}.txt", ".tautcut-notes.part", "my.part"]
    for one in others:
        (tmp_path / one).write_text("the user's")
    (tmp_path / name).mkdir()
    os.symlink("my.part", tmp_path / name.replace("ab", "cd"))
    write_whole(tmp_path / "l.csv", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*others, name, name.replace("ab", "cd"), "l.csv"]
    )


# ---------------------------------------------------------------- nothing that is read


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("read")
    (tmp_path / "link.csv").symlink_to("in.csv")
    os.link("in.csv", "hard.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize("out", ["in.csv", "./in.csv", "link.csv", "hard.csv", "folder/../in.csv", "other/in.csv"])
def test_no_input_is_an_output(files, out):
    with pytest.raises(InputError, match="is the input, which is never overwritten"):
        check_apart([None, out], ["absent.csv", None, "in.csv"])
    with pytest.raises(InputError, match="is the input, which is never overwritten"):
        writable(out, [".csv"], source=files / "in.csv")


@pytest.mark.parametrize(
    ("one", "other"), [("new.csv", "./new.csv"), ("new.csv", "other/new.csv"), ("link.csv", "hard.csv")]
)
def test_no_two_outputs_are_the_same(files, one, other):
    with pytest.raises(InputError, match="are the same file, and both would be written"):
        check_apart([one, other])


def test_others_are_free(files):
    os.symlink("circle.csv", "circle.csv")
    check_apart(["new.csv", "newer.csv", "absent/new.csv", "circle.csv", None], ["in.csv", None])


def test_letters_may_not_tell_files_apart(files, monkeypatch):
    check_apart(["new.csv", "NEW.csv"])
    monkeypatch.setattr(writing, "_ignores_case", lambda folder: True)
    with pytest.raises(InputError, match="are the same file"):
        check_apart(["new.csv", "NEW.csv"])


def test_whether_letters_tell_files_apart_is_looked_up(files):
    assert not writing._ignores_case(files / "folder")
    (files / "FOLDER").symlink_to("folder")  # as a file system that ignores them would answer
    assert writing._ignores_case(files / "folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="no ordinary file"):
        writable(tmp_path / "pipe.csv", [".csv"])
