"""The journal: what was acknowledged is there after a crash at any byte, and nobody else writes it meanwhile."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tautcut.errors import InputError
from tautcut.labelling.journal import Journal

ENTRIES = [{"id": f"answer {number}", "label": "ü<&\u2028" * number} for number in range(4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.labels.jsonl"


def written(path: Path) -> bytes:
    with Journal(path, {"title": "things"}) as journal:
        for entry in ENTRIES:
            journal.append(entry)
    return path.read_bytes()


def entries_of(path: Path) -> list[dict[str, object]]:
    with Journal(path, {"title": "another"}) as journal:
        return journal.entries


def test_what_was_appended_is_replayed(path: Path) -> None:
    written(path)
    with Journal(path, {"title": "another"}) as journal:
        assert journal.entries == ENTRIES
        assert journal.head["title"] == "things"


def test_a_line_torn_at_any_byte_is_dropped_and_the_whole_ones_are_kept(path: Path) -> None:
    content = written(path)
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        n_whole = max(0, content[:size].count(b"\n") - 1)
        assert entries_of(path) == ENTRIES[:n_whole], size


def test_a_torn_line_is_gone_before_the_next_is_written(path: Path) -> None:
    content = written(path)
    path.write_bytes(content[:-5])
    with Journal(path, {}) as journal:
        journal.append({"id": "after the crash"})
    assert entries_of(path) == [*ENTRIES[:-1], {"id": "after the crash"}]
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_only_one_process_writes_a_journal(path: Path) -> None:
    with Journal(path, {}):
        code = (
            "import sys; from pathlib import Path; from tautcut.labelling.journal import Journal; "
            "Journal(Path(sys.argv[1]), {})"
        )
        other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        assert f"is being written by process {os.getpid()}" in other.stderr
        with pytest.raises(InputError, match="being labelled already"):
            Journal(path, {})
    Journal(path, {}).close()
    assert not list(path.parent.glob(".*")), "the lock is left"


def test_the_lock_of_a_dead_process_blocks_nobody(path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tautcut.labelling.journal import Journal; "
        "j = Journal(Path(sys.argv[1]), {}); j.append({'id': 'last words'}); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert list(path.parent.glob(".*.lock"))
    assert entries_of(path) == [{"id": "last words"}]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links cannot be told when a file is opened")
def test_a_link_planted_as_the_lock_empties_nothing(path: Path) -> None:
    precious = path.with_name("precious.txt")
    precious.write_text("kept")
    path.with_name(f".{path.name}.lock").symlink_to(precious)
    with pytest.raises(OSError, match="labels"):
        Journal(path, {"title": "things"})
    assert precious.read_text() == "kept"


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_an_answer_that_the_disk_has_no_room_for_is_not_there(
    path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(path, {}) as journal:
        journal.append(ENTRIES[0])
        real = getattr(os, step)

        def fails(file: int, *content: bytes) -> int:
            if step == "write" and len(content[0]) > 8:
                return real(file, content[0][:8])  # a part fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, step, fails)
            with pytest.raises(OSError, match=f"No space.*{path.name}"):
                journal.append(ENTRIES[1])
        assert journal.entries == [ENTRIES[0]]
        journal.append(ENTRIES[2])
    assert entries_of(path) == [ENTRIES[0], ENTRIES[2]]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"name,label\na,b\n", "no journal of labels"),
        (b"a picture without an end of line", "no journal of labels"),
        (b'{"tautcut":"labels","version":7}\n', "version 7"),
        (b'{"tautcut":"labels","version":1}\n{"id":"a"}\nnonsense\n{"id":"b"}\n', "line 3 .* is damaged"),
        (b'{"tautcut":"labels","version":1}\n[1]\n', "line 2 .* is damaged"),
    ],
)
def test_what_is_no_journal_is_refused_and_left_alone(path: Path, content: bytes, complaint: str) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        Journal(path, {})
    assert path.read_bytes() == content
    assert not list(path.parent.glob(".*"))
