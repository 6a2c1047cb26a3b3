"""Files that are whole or not there: whether a path can be written, writing to a temporary file beside it that takes
its place, and errors of the system that name the file they are about. It knows no format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EIO
from pathlib import Path

from tautcut.errors import InputError


def writable(
    path: str | os.PathLike[str], suffixes: Sequence[str], *, source: str | os.PathLike[str] | None = None
) -> Path:
    """The path, if a file of one of these suffixes can be written there and it is not the `source`."""
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise InputError(f"'{path}' cannot be written: its name must end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise InputError(f"'{path}' cannot be written: it is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"'{path}' cannot be written: there is no folder '{path.parent}'. Create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"'{path}' cannot be written: '{path.parent}' is read-only. Choose another folder.")
    if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
        raise InputError(f"'{path}' is the input, which is never overwritten. Choose another name.")
    return path


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """An error of the system in here is about this path, and says so: a full disk does not say it by itself."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or next(iter(str(error).splitlines()), "") or type(error).__name__
        raise OSError(error.errno or EIO, reason, os.fspath(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary neighbour of `path` to write to; it takes the place of `path` if all went well."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with naming(path):
            yield part
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write the content, text as UTF-8; the file is there whole, or as it was."""
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
