"""Files and folders that are whole or not there: whether a path can be written, and is no file that is read; a
temporary file or folder beside it that takes its place; sweeping those that a killed process left; errors of the system
that name the file they are about. It knows no format.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EEXIST, EIO
from functools import cache
from itertools import combinations, product
from pathlib import Path

from tautcut.errors import InputError

_PART = re.compile(r"\.tautcut-(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{16}\.(?P<kind>part|folder)")
_ABANDONED = 24 * 3600  # seconds without a write after which a part is nobody's, whoever wrote it
_SLACK = 60  # seconds by which the clocks of a file system and of the processes may differ

_under_way: set[Path] = set()  # the parts that this process is writing
_built: set[Path] = set()  # the folders that it is filling, which takes long: they are not waited for
_swept: set[Path] = set()  # the folders in which it has looked for others

AnyPath = str | os.PathLike[str]


def writable(path: AnyPath, suffixes: Sequence[str], *, source: AnyPath | None = None) -> Path:
    """The path, if a file of one of these suffixes can be written there and it is not the `source`."""
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise InputError(f"'{path}' cannot be written: its name must end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise InputError(f"'{path}' cannot be written: it is a folder. Name a file in it.")
    if path.exists() and not path.is_file():
        raise InputError(f"'{path}' cannot be written: it is no ordinary file. Choose another name.")
    if not path.parent.is_dir():
        raise InputError(f"'{path}' cannot be written: there is no folder '{path.parent}'. Create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"'{path}' cannot be written: '{path.parent}' is read-only. Choose another folder.")
    if source is not None:
        check_apart([path], [source])
    return path


def check_apart(outputs: Iterable[AnyPath | None], inputs: Iterable[AnyPath | None] = ()) -> None:
    """No output is a file that is read, nor another output, whatever links and spellings lead there; None is none."""
    written = [Path(one) for one in outputs if one is not None]
    read = [Path(one) for one in inputs if one is not None]
    for out, source in product(written, read):
        if _is_same(out, source):
            raise InputError(f"'{out}' is the input, which is never overwritten. Choose another name.")
    for one, other in combinations(written, 2):
        if _is_same(one, other):
            raise InputError(f"'{one}' and '{other}' are the same file, and both would be written. Rename one of them.")


def _is_same(one: Path, other: Path) -> bool:
    """Whether both names are of one file, or would be."""
    with suppress(OSError, ValueError):
        if one.exists() and other.exists():
            return one.samefile(other)
        one, other = Path(os.path.realpath(one)), Path(os.path.realpath(other))  # which bears links that go in circles
        if one.parent.samefile(other.parent):
            return one.name == other.name or (
                one.name.casefold() == other.name.casefold() and _ignores_case(one.parent)
            )
    return False


def _ignores_case(folder: Path) -> bool:
    """Whether the file system of the folder takes a name in other letters for the same."""
    other = folder.with_name(folder.name.swapcase())
    return other.name != folder.name and other.exists() and other.samefile(folder)


@contextmanager
def naming(path: AnyPath) -> Iterator[None]:
    """An error of the system in here is about this path, and says so: a full disk does not say it by itself."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or next(iter(str(error).splitlines()), "") or type(error).__name__
        raise OSError(error.errno or EIO, reason, os.fspath(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary neighbour of `path` to write to; it takes the place of `path` if all went well.

    Its name cannot be foreseen, it is made by this call or not at all, and has the rights of any new file.
    """
    _sweep(path.parent)
    part = _part_beside(path)
    _under_way.add(part)
    try:
        with naming(path):
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666))
            yield part
            flush_to_disk(part)
            os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        _under_way.discard(part)


@contextmanager
def building(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` to fill; it becomes `path` if all went well, and nothing may be there yet.

    What is in it is not yet on the disk when it gets its name: whoever fills it flushes what has to be whole.
    """
    _sweep(path.parent)
    part = _part_beside(path, "folder")
    _built.add(part)
    try:
        with naming(path):
            part.mkdir()
        yield part
        with naming(path):
            if os.path.lexists(path):
                raise FileExistsError(EEXIST, "something has been put there meanwhile", os.fspath(path))
            os.rename(part, path)
    finally:
        _remove_tree(part)
        _built.discard(part)


def _part_beside(path: Path, kind: str = "part") -> Path:
    """A name beside the path that nobody foresees."""
    return path.with_name(f".tautcut-{_place()}-{os.getpid()}-{secrets.token_hex(8)}.{kind}")


def _remove_tree(part: Path) -> None:
    """Remove a folder, though a thread may still be filling it: under another name nobody adds to it."""
    if part.exists():
        gone = _part_beside(part, "folder")
        with suppress(OSError):
            os.rename(part, gone)
            part = gone
        shutil.rmtree(part, ignore_errors=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write the content, text as UTF-8; the file is there whole, or as it was."""
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def is_under_way() -> bool:
    """Whether a file is being written."""
    return bool(_under_way)


def give_up() -> None:
    """Remove what is being written: the process ends here."""
    for part in list(_under_way):
        with suppress(OSError):
            part.unlink()
    for part in list(_built):
        _remove_tree(part)


def flush_to_disk(part: Path) -> None:
    """Have the system write the file, so that what does not fit or cannot be kept is known before it is moved."""
    file = os.open(part, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# ---------------------------------------------------------------- what killed processes left


def _sweep(folder: Path) -> None:
    """Remove the parts, files and folders, whose writers have died; once in each folder, and quietly."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _PART.fullmatch(entry.name)
            if found and Path(entry.path) not in _under_way | _built:
                with suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if not _is_left_behind(found, about.st_mtime):
                        continue
                    if found["kind"] == "part" and stat.S_ISREG(about.st_mode):
                        os.unlink(entry.path)
                    elif found["kind"] == "folder" and stat.S_ISDIR(about.st_mode):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_left_behind(part: re.Match[str], written: float) -> bool:
    """Whether nobody writes this part any more. Processes of other machines and containers cannot be asked."""
    if part["place"] != _place():
        return time.time() - written > _ABANDONED
    import psutil

    try:
        began: float = psutil.Process(int(part["pid"])).create_time()
    except (psutil.NoSuchProcess, OverflowError):
        return True
    except psutil.Error:
        return False
    return began > written + _SLACK  # another process, which has got the number of the dead one


@cache
def _place() -> str:
    """A name for the processes that can see each other: those of a machine, or of a container on it."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]
