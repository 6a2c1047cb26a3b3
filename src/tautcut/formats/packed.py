"""Compressed files: .gz, .bz2 and .xz around any other format. It owns how they are unpacked, into a temporary file
that the reader of the format inside gets; and that a small file cannot fill the disk.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tautcut import memory
from tautcut.errors import InputError, NotEnoughMemoryError
from tautcut.formats.base import first_line

_OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
PACKED = tuple(_OPENERS)

_BLOCK = 2**20
# A table of numbers packs ten times, one of zeros some hundred times; a file that unpacks to more is meant to do harm.
_LARGEST_RATIO = 300
_HARMLESS = 2**30  # bytes, whatever the ratio


def inner_suffix(path: Path) -> str:
    """The suffix that says the format, in small letters: .csv of points.csv.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def stem(path: Path) -> str:
    """The name without the suffixes that say format and compression: points of points.csv.gz."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in _OPENERS else path.name
    return Path(name).stem


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file itself, or a temporary one with its content; errors name the file that was given."""
    if path.suffix.lower() not in _OPENERS:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / f"file{inner_suffix(path)}"
        _unpack(path, plain)
        try:
            yield plain
        except InputError as error:
            raise type(error)(str(error).replace(str(plain), str(path))) from error


def _unpack(path: Path, plain: Path) -> None:
    plausible = max(_HARMLESS, _LARGEST_RATIO * path.stat().st_size)
    most = min(plausible, memory.for_reading(), shutil.disk_usage(plain.parent).free // 2)
    written = 0
    try:
        with _OPENERS[path.suffix.lower()](path) as packed, plain.open("wb") as out:
            while block := packed.read(_BLOCK):
                if written + len(block) > most:
                    raise NotEnoughMemoryError(
                        f"'{path}' unpacks to more than the {most >> 20:,} MiB that there is room for. Allow more by "
                        "--memory, or unpack it yourself."
                    )
                written += out.write(block)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"'{path}' cannot be unpacked: {first_line(error)}. Get the whole file.") from error
