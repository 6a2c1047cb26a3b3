"""The journal of a labelling session: a line of JSON for each answer, on disk before it is acknowledged. It owns the
file: one process writes it at a time, a line that a crash has torn is dropped, and one that could not be written whole
is taken back. What a line means is known elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tautcut.errors import InputError
from tautcut.writing import naming

KIND, VERSION = "labels", 1
_LONGEST = 4_000_000  # bytes of a line: more than any answer has

Entry = dict[str, Any]


class Journal:
    """The answers so far, and the file that further ones are added to. Use as a context, or close it.

    Opening it replays the file: `head` says what data it belongs to, `entries` are the answers in their order.

    Parameters
    ----------
    path : Path
        Created if it is not there.
    head : dict
        What a new journal begins with.
    """

    def __init__(self, path: Path, head: Entry) -> None:
        self.path = path
        self._lock = _Lock(path)
        try:
            with naming(path):
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        except OSError:
            self._lock.release()
            raise
        try:
            self.head, self.entries, size = _replayed(self._content(), path)
            os.ftruncate(self._file, size)
            self._size = size
            if not size:
                self.head = {"tautcut": KIND, "version": VERSION, **head}
                self._write(self.head)
                _flush_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, entry: Entry) -> None:
        """Add a line; when this returns it is on the disk. OSError if it could not be, and then it is not there."""
        self._write(entry)
        self.entries.append(entry)

    def close(self) -> None:
        """Let others write."""
        with suppress(OSError):
            os.close(self._file)
        self._lock.release()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _content(self) -> bytes:
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def _write(self, entry: Entry) -> None:
        line = json.dumps(entry, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            with naming(self.path):
                os.lseek(self._file, self._size, os.SEEK_SET)
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                os.fsync(self._file)
        except OSError:
            with suppress(OSError):  # what there was room for; if that fails too, the next start drops it
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)


def _replayed(content: bytes, path: Path) -> tuple[Entry, list[Entry], int]:
    """The head, the entries and the length of the part that is whole; a torn last line is not."""
    size = content.rfind(b"\n") + 1
    lines = content[:size].split(b"\n")[:-1]
    if not lines:
        if content and not b'{"tautcut":"labels"'.startswith(content[:19]):
            raise InputError(f"'{path}' is no journal of labels. Name another by --journal.")
        return {}, [], 0
    found = []
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None:
            if number == 1:
                raise InputError(f"'{path}' is no journal of labels. Name another by --journal.")
            raise InputError(
                f"line {number} of '{path}' is damaged: {line[:40]!r}. Correct or delete it; the others are whole."
            )
        found.append(entry)
    if found[0].get("tautcut") != KIND:
        raise InputError(f"'{path}' is no journal of labels. Name another by --journal.")
    if found[0].get("version") != VERSION:
        raise InputError(
            f"'{path}' is a journal of version {found[0].get('version')}; this tautcut reads version {VERSION}."
        )
    return found[0], found[1:], size


def _entry(line: bytes) -> Entry | None:
    if len(line) > _LONGEST:
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _flush_folder(folder: Path) -> None:
    """Have the system write that the file is there; not all of them can be asked."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---------------------------------------------------------------- one process at a time


class _Lock:
    """The right to write a journal, which the system takes back when the process ends, however it ends.

    The lock is on a file beside the journal, which holds the number of the process, for whoever comes second.
    """

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(f".{journal.name}.lock")
        self._file: int | None = None
        with naming(journal):
            while self._file is None:
                # A link that somebody planted there is not followed: its target would be emptied.
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
                if not _locked(file):
                    owner = os.pread(file, 20, 0) if hasattr(os, "pread") else b""
                    os.close(file)
                    who = f"process {owner.decode('ascii', 'replace').strip()}" if owner.strip() else "another process"
                    raise InputError(
                        f"'{journal}' is being written by {who}: these things are being labelled already. Use the page "
                        "that is open, or end that process first."
                    )
                if _is_there(file, self._path):
                    self._file = file
                else:  # its last owner has removed it in between
                    os.close(file)
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.write(self._file, str(os.getpid()).encode("ascii"))

    def release(self) -> None:
        if self._file is None:
            return
        with suppress(OSError):
            os.unlink(self._path)
        with suppress(OSError):
            os.close(self._file)
        self._file = None


def _locked(file: int) -> bool:
    """Whether this process has got the lock on the file."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 64, os.SEEK_SET)  # beyond the number, which others may read
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_there(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False
