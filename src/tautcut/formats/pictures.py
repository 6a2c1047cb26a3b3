"""Pictures: a folder of them, or a column of a table that names them, as rows of pixels. It owns which files count as
pictures and what is compared of one. A picture is opened by its content, by a few decoders that run nothing; a file
outside the folder is never opened, whatever links lead there, and one too large to unpack is no picture.
"""

from __future__ import annotations

import io
import os
import re
import stat
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tautcut.arrays import Array, BoolArray
from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection, damaged, foresee
from tautcut.formats.missing import without_rows
from tautcut.kernels.devices import thread_count

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
MIMES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}  # that browsers show

_DECODERS = (*MIMES, "BMP", "TIFF", "PPM")  # others could start programs (EPS), or hold scripts (SVG)
_MOST_PIXELS = 100_000_000  # of a picture: what a bomb would unpack to is more
_NATIVE = 32  # pixels: pictures that are all of one size, and no larger, are compared as they are
_SIDE_GREY, _SIDE_COLOUR = 32, 16  # of others, scaled; colours have three values a pixel
_GREY_SHARE = 0.95  # of the pictures have no colour: then no picture is compared by it
_SAMPLE = 200  # pictures by which it is decided whether colours count
_LARGE = 500_000  # bytes of a file from which a smaller picture is shown in its place
_SHOWN = 1024  # pixels of its longer side
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, eq=False)
class Bitmaps:
    """The pixels of pictures as they are compared.

    `values` are of type uint8, shape (n_pictures, height · width · channels); `is_picture` says which of the files are
    pictures, and the rows are of those alone.
    """

    values: Array
    is_picture: BoolArray
    shape: tuple[int, ...]


PixelMaker: TypeAlias = Callable[[Sequence[Path | None]], Bitmaps]


def read_folder(folder: Path, selection: Selection) -> Data:
    """The pictures of a folder and of those in it, in the natural order of their names, which are the ids."""
    asked = (selection.columns, selection.id_column, selection.label_column, selection.mass_column, selection.array)
    if any(one is not None for one in asked) or selection.kind == "graph":
        raise InputError(f"'{folder}' is a folder of pictures, which has no columns, arrays or edges. Name a file.")
    found = pictures_in(folder)
    if not found:
        raise InputError(f"'{folder}' is a folder without pictures: no file in it ends in {', '.join(SUFFIXES)}.")
    ids = np.array(list(found), dtype=object)
    return of_pictures(list(found.values()), selection, ids=ids, notes=())


def of_pictures(
    paths: Sequence[Path | None], selection: Selection, *, ids: Array, notes: tuple[str, ...], **more: Any
) -> Data:
    """Data of pictures, a path each; those that cannot be opened are left out."""
    files = tuple(paths)
    if selection.brought is not None:
        return Data(selection.brought, ids, notes, files=files, **more)
    found = (selection.pixels or bitmaps)(paths)
    n_lost = int((~found.is_picture).sum())
    if n_lost == len(files):
        raise InputError(f"none of the {n_lost} files is a picture that can be opened; the first is {ids[0]!r}.")
    size = " × ".join(map(str, found.shape[:2]))
    said = [f"Compared by {size} pixels{' in colour' if len(found.shape) == 3 else ''}."]
    if n_lost:
        some = ", ".join(repr(str(one)[:40]) for one in ids[~found.is_picture][:3].tolist())
        said.append(f"Left out because they are not pictures: {some}{f' and {n_lost - 3} more' if n_lost > 3 else ''}.")
    grey = (found.shape[0], found.shape[1]) if len(found.shape) == 2 else None
    data = Data(found.values, ids, (*notes, *said), image_shape=grey, files=files, is_of_one_unit=True, **more)
    return without_rows(data, found.is_picture)


def pictures_in(folder: Path) -> dict[str, Path]:
    """The pictures in a folder and in those below it, by their names relative to it; hidden ones do not count.

    They are told by their suffixes. A name that is no text is written with escapes.
    """
    root = folder.resolve(strict=True)
    found = {}
    for place, folders, names in os.walk(root):  # which follows no link
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            is_listed = path.suffix.lower() in SUFFIXES and not name.startswith(".")
            real = _in_folder(path, root) if is_listed else None
            if real is not None:
                told = path.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
                found[told.decode("utf-8", "backslashreplace")] = real
    return {name: found[name] for name in sorted(found, key=lambda name: (natural(name), name))}


def _in_folder(path: Path, root: Path) -> Path | None:
    """The file at a path below the root, whose folders are no links; where it is one itself, what it leads to."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    return path if stat.S_ISREG(mode) else inside(root, str(path)) if stat.S_ISLNK(mode) else None


def natural(name: str) -> list[tuple[int, int | str]]:
    """The order in which people count: picture2 before picture10."""
    return [(0, int(part)) if part.isdecimal() else (1, part.casefold()) for part in _NUMBERS.split(name) if part]


def inside(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder, if it is an ordinary file and lies there after every link is followed."""
    try:
        root, path = folder.resolve(strict=True), (folder / name).resolve(strict=True)
        return path if path.is_relative_to(root) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # not there; a name with a zero in it; links that go in circles
        return None


# ---------------------------------------------------------------- pixels


def bitmaps(paths: Sequence[Path | None], progress: Callable[[int, int], None] | None = None) -> Bitmaps:
    """The pixels of files: all of one small size as they are, others scaled; grey where next to none has colours."""
    shape = _common_shape(paths)
    foresee(2 * len(paths) * int(np.prod(shape)), f"The pixels of {len(paths):,} pictures")
    values = np.zeros((len(paths), int(np.prod(shape))), dtype=np.uint8)
    is_picture = np.zeros(len(paths), dtype=bool)

    def fill(at: int) -> None:
        found = None if paths[at] is None else _pixels(paths[at], shape)  # type: ignore[arg-type]
        if found is not None:
            values[at], is_picture[at] = found, True

    with ThreadPoolExecutor(thread_count()) as pool:  # decoders work outside Python's lock
        for done, _ in enumerate(pool.map(fill, range(len(paths))), 1):
            if progress is not None and done % 100 == 0:
                progress(done, len(paths))
    return Bitmaps(values[is_picture], is_picture, shape)


def _common_shape(paths: Sequence[Path | None]) -> tuple[int, ...]:
    """Height, width and, if colours count, 3."""
    sizes: set[tuple[int, int]] = set()
    for path in paths:
        if path is not None:
            size = _size(path)
            if size is not None:
                sizes.add(size)
            if len(sizes) > 1:
                break
    step = max(1, len(paths) // _SAMPLE)
    colours = [found for path in paths[::step] if path is not None and (found := _has_colour(path)) is not None]
    is_grey = not colours or 1 - np.mean(colours) >= _GREY_SHARE
    width, height = next(iter(sizes)) if len(sizes) == 1 else (_NATIVE + 1, _NATIVE + 1)
    if max(width, height) > _NATIVE:
        width = height = _SIDE_GREY if is_grey else _SIDE_COLOUR
    return (height, width) if is_grey else (height, width, 3)


def _size(path: Path) -> tuple[int, int] | None:
    try:
        with _opened(path) as image:
            size: tuple[int, int] = image.size
            return size
    except damaged():
        return None


def is_picture(path: Path) -> bool:
    """Whether a file begins as a picture does."""
    return _size(path) is not None


def _has_colour(path: Path) -> bool | None:
    try:
        with _opened(path) as image:
            image.draft("RGB", (64, 64))
            small = np.asarray(_plain(image, "RGB").resize((16, 16))).astype(int)
    except damaged():
        return None
    return bool(np.ptp(small, axis=2).max() > 16)


def _pixels(path: Path, shape: tuple[int, ...]) -> Array | None:
    """The values of one picture; None if it is none."""
    try:
        with _opened(path) as image:
            mode = "L" if len(shape) == 2 else "RGB"
            image.draft(mode, (2 * shape[1], 2 * shape[0]))  # a JPEG is decoded no larger than needed
            plain = _plain(image, mode)
            if plain.size != (shape[1], shape[0]):
                plain = plain.resize((shape[1], shape[0]), resample=4)  # the mean over a box
            return np.asarray(plain, dtype=np.uint8).ravel()
    except damaged():
        return None


def _opened(path: Path) -> Any:
    """The picture, not yet unpacked; ValueError if it would be too large."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            image = Image.open(path, formats=_DECODERS)
        except Image.DecompressionBombError as error:
            raise ValueError(str(error)) from error
    if image.size[0] * image.size[1] > _MOST_PIXELS:
        image.close()
        raise ValueError(f"a picture of {image.size[0]} × {image.size[1]} pixels is too large")
    return image


def _plain(image: Any, mode: str) -> Any:
    """The picture upright, in grey or in colours, on white where it is transparent."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # 16 bits
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert(mode)


def shown(path: Path) -> tuple[bytes, str] | None:
    """The bytes of a picture that a browser shows, and their type; None if it is no picture."""
    try:
        with _opened(path) as image:
            mime = MIMES.get(image.format)
            if mime is not None and path.stat().st_size <= _LARGE:
                image.verify()
                return path.read_bytes(), mime
        with _opened(path) as image:
            image.draft("RGB", (_SHOWN, _SHOWN))
            plain = _plain(image, "RGB")
            plain.thumbnail((_SHOWN, _SHOWN))
            content = io.BytesIO()
            plain.save(content, "JPEG" if mime == "image/jpeg" else "PNG", quality=85)
            return content.getvalue(), "image/jpeg" if mime == "image/jpeg" else "image/png"
    except damaged():
        return None


def encoded(pixels: Array) -> bytes:
    """A grey picture of shape (height, width), from 0 to 255, as a .png file."""
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()
