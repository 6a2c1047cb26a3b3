"""Where the arrays of a data set come from: the folder that TAUTCUT_DATA names, then the user's cache, then a
public download, which is kept in the cache. This module owns finding, verifying, reading and keeping files; a
file is used only if its SHA-256 is the expected one. It never unpickles, and knows nothing of what arrays mean.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tautcut.arrays import Array
from tautcut.errors import InputError
from tautcut.writing import write_whole

Arrays: TypeAlias = dict[str, Array]

FOLDER_VARIABLE = "TAUTCUT_DATA"
# How scikit-learn warns that it tries a download again. If that fails too, our own error says all of it.
_RETRYING = r"A network error occurred while downloading .* Retrying|Retry downloading from url"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """A published file of arrays, and where else they can be had.

    Attributes
    ----------
    file : str
        Its name, in whichever folder it lies.
    sha256 : str
        Of the published file.
    arrays : tuple of str
        The names of the arrays to read.
    download : callable, optional
        Makes the same arrays from a public copy of the data.
    """

    file: str
    sha256: str
    arrays: tuple[str, ...]
    download: Callable[[], Arrays] | None = None


def read_arrays(origin: Origin) -> Arrays:
    """The arrays of the origin, from the first place that has them."""
    named, cached = data_folder(), cache_folder() / origin.file
    if named is not None and (named / origin.file).is_file():
        return _read_verified(named / origin.file, origin, [origin.sha256])
    if cached.is_file():
        record = cached.with_name(f"{cached.name}.sha256")  # of what was downloaded, written down then
        recorded = record.read_text(encoding="utf-8", errors="replace").split()[:1] if record.is_file() else []
        return _read_verified(cached, origin, [origin.sha256, *recorded])
    if origin.download is None:
        raise _not_found(origin)
    logger.info("%s is not on this machine: downloading a public copy", origin.file)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _RETRYING)
            arrays = origin.download()
    except (OSError, HTTPException, ValueError) as error:
        raise _not_found(origin, f" and could not be downloaded ({type(error).__name__}: {error})") from error
    _keep(cached, arrays)
    return arrays


def data_folder() -> Path | None:
    """The folder that TAUTCUT_DATA names; None if it is not set."""
    value = os.environ.get(FOLDER_VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"{FOLDER_VARIABLE} must name a folder; found {value!r}. Create it, or unset {FOLDER_VARIABLE}."
        )
    return folder


def cache_folder() -> Path:
    """Where downloads are kept; it need not exist."""
    parent = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache"
    return Path(parent).expanduser() / "tautcut"


def _read_verified(path: Path, origin: Origin, digests: list[str]) -> Arrays:
    """The arrays in the file, whose digest must be among those given."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}. Make it readable.") from error
    found = hashlib.sha256(content).hexdigest()
    if found not in digests:
        raise InputError(
            f"'{path}' is damaged or another file: its SHA-256 begins {found[:12]}, expected {digests[-1][:12]}. "
            f"Replace it by the published {origin.file}, or delete it."
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in origin.arrays}
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"'{path}' does not hold the plain arrays {', '.join(origin.arrays)}: {error}. "
            f"Replace it by the published {origin.file}, or delete it."
        ) from error


def _keep(path: Path, arrays: Arrays) -> None:
    """Save what was downloaded, and its digest beside it; where that is not possible, only log it."""
    buffer = io.BytesIO()
    # without allow_pickle: before NumPy 2.1 that would be one more array
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    content = buffer.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The digest first: alone it does no harm, while a file without one would be refused.
        write_whole(path.with_name(f"{path.name}.sha256"), f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")
        write_whole(path, content)
    except OSError as error:
        logger.warning("'%s' could not be kept and will be downloaded again: %s", path, error)


def _not_found(origin: Origin, also: str = "") -> InputError:
    named = os.environ.get(FOLDER_VARIABLE) or "not set"
    return InputError(
        f"{origin.file} is neither in the folder of {FOLDER_VARIABLE} ({named}) nor in '{cache_folder()}'{also}. "
        f"Put {origin.file} into a folder and set {FOLDER_VARIABLE} to that folder."
    )
