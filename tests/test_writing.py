"""Files are there whole, or as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from tautcut.records import append_record
from tautcut.writing import naming, replacing, write_whole


@pytest.mark.parametrize("content", ["after ≥\n", "after ≥\n".encode()])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, content):
    path, write = tmp_path / "table.md", Path.write_bytes
    path.write_text("before")

    def torn(self, data):
        write(self, data[:2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", torn)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, content)
    assert path.read_text() == "before"
    write_whole(path, content)
    assert path.read_bytes() == "after ≥\n".encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError("it failed\nsomehow"), PermissionError(13, "no", "other")]
)
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
