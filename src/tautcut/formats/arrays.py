"""NumPy's .npy and .npz files and Matrix Market's .mtx: arrays and sparse matrices. It never unpickles, believes no
header before it is compared with the file, and checks the indices of a sparse matrix before anything computes with
them.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from tautcut.arrays import Array, FloatArray, TextArray
from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection, decided, foresee, foresee_graph, reading, real, refuse_hollow
from tautcut.formats.numerals import counts_by_line, refuse_words
from tautcut.formats.tables import as_texts

# The array of a .npz that is taken unless another is named.
FEATURES = "X"
MASSES = "masses"  # beside the parts of a sparse matrix that is a graph
_SPARSE, _OF_SCIPY = {"indices", "indptr", "shape"}, {"format", "shape", "data"}
_PER_LABEL = 80  # bytes, as text

_BANNER = re.compile(rb"%%?MatrixMarket[ \t]+(\w+)[ \t]+([\w-]+)[ \t]+([\w-]+)[ \t]+([\w-]+)[ \t]*\r?\n", re.IGNORECASE)
_SIDES = re.compile(rb"(?:[ \t]*(?:%[^\n]*)?\r?\n)*[ \t]*(\d+)[ \t]+(\d+)(?:[ \t]+(\d+))?[ \t]*(?:\r?\n|\Z)")
_WORDS = {"real": 3, "double": 3, "integer": 3, "unsigned-integer": 3, "pattern": 2}  # in the line of an entry
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read_npy(path: Path, selection: Selection) -> Data:
    """The rows of a 2-D array, or the pictures of a 3-D one."""
    _refuse_names(path, selection)
    with reading(path, "a .npy array without pickled objects"), path.open("rb") as file:
        array = _array(file, path.stat().st_size, path)
    return _rows(array, path, selection, None)


def read_npz(path: Path, selection: Selection) -> Data:
    """A sparse matrix as scipy's save_npz or plain CSR parts store it, or one of the arrays."""
    _refuse_names(path, selection)
    if not zipfile.is_zipfile(path):
        raise InputError(f"'{path}' is not a .npz file, or is cut short. Check its suffix, or get the whole file.")
    with reading(path, "a .npz file without pickled objects"), zipfile.ZipFile(path) as archive:
        stored = _Stored(archive, path)
        labels = _labels(stored, selection.label_column, path)
        is_sparse = selection.array is None and ({*stored.names} >= _OF_SCIPY or {*stored.names} >= _SPARSE)
        if is_sparse:
            matrix = _of_scipy(stored) if {*stored.names} >= _OF_SCIPY else _csr_of_parts(stored)
        else:
            name = selection.array or _features_name(stored, path)
            if name not in stored.names:
                raise InputError(f"'{path}' holds no array {name!r}; it holds {stored}.")
            matrix = stored[name]
        data = _rows(matrix, path, selection, labels)
        asked = selection.mass_column
        if asked is None and not (is_sparse and data.kind == "graph" and MASSES in stored.names):
            return data
        notes = (*data.notes, f"Masses are its array {asked or MASSES!r}.")
        return replace(data, notes=notes, masses=_masses(stored, asked or MASSES, path))


def read_mtx(path: Path, selection: Selection) -> Data:
    """A Matrix Market file; its rows are numbered from 1, as in the file."""
    _refuse_names(path, selection)
    from scipy.io import mmread

    with reading(path, "a Matrix Market file"):
        foresee(2 * path.stat().st_size, f"'{path}'")
        _check_mtx(path.read_bytes(), path)  # the reader of SciPy ends the process where it is given garbage
        matrix: Any = mmread(path)
    return decided(Data(checked(matrix, path), np.arange(1, matrix.shape[0] + 1)), selection.kind)


def _check_mtx(text: bytes, path: Path) -> None:
    """Refuse a text that is no Matrix Market file from its first byte to its last, or whose matrix would not fit."""
    banner = _BANNER.match(text)
    if not banner:
        begin = text[:40].decode("latin-1")
        raise InputError(f"'{path}' is not a Matrix Market file: it begins {begin!r}, not with '%%MatrixMarket'.")
    what, layout, field, symmetry = (word.decode().lower() for word in banner.groups())
    if what != "matrix" or layout not in ("coordinate", "array") or symmetry not in _SYMMETRIES or field not in _WORDS:
        said = " ".join((what, layout, field, symmetry))[:60]
        raise InputError(
            f"'{path}' must be a matrix, coordinate or array, of real numbers; its first line says {said!r}."
        )
    sides = _SIDES.match(text, banner.end())
    if not sides or (sides[3] is None) == (layout == "coordinate"):
        raise InputError(f"'{path}' is damaged: its numbers of rows and columns are missing. Get the whole file.")
    rows, columns = int(sides[1][:30]), int(sides[2][:30])
    if not rows or not columns:
        raise InputError(f"'{path}' holds no numbers: it declares {rows} rows and {columns} columns. Give some.")
    body = text[sides.end() :]
    refuse_words(body, path)
    counts = counts_by_line(body)
    n_words = _WORDS[field] if layout == "coordinate" else 1
    if not ((counts == 0) | (counts == n_words)).all():
        raise InputError(f"'{path}' is damaged: the line of an entry must have {n_words} numbers. Correct it.")
    n_below = rows * (rows - 1) // 2
    dense = {"general": rows * columns, "symmetric": n_below + rows, "skew-symmetric": n_below}[symmetry]
    announced, found = int(sides[3][:30]) if layout == "coordinate" else dense, int(np.count_nonzero(counts))
    if announced != found:
        raise InputError(f"'{path}' is cut short: it announces {announced:,} entries and has {found:,}. Get all of it.")
    if layout == "array":
        foresee(16 * rows * columns, f"'{path}', a matrix of {rows:,} × {columns:,},")
        return
    refuse_hollow((rows, columns), found, path)
    foresee_graph(rows, 2 * found)


@dataclass(frozen=True)
class _Stored:
    """The arrays in a .npz file, read one at a time and only if there is room for them."""

    archive: zipfile.ZipFile
    path: Path

    @property
    def names(self) -> list[str]:
        return [name.removesuffix(".npy") for name in self.archive.namelist() if name.endswith(".npy")]

    def __str__(self) -> str:
        return ", ".join(repr(name[:40]) for name in self.names[:8]) + (", …" if len(self.names) > 8 else "")

    def __getitem__(self, name: str) -> Array:
        member = self.archive.getinfo(f"{name}.npy")
        with self.archive.open(member) as file:
            return _array(file, member.file_size, self.path)

    def is_rows(self, name: str) -> bool:
        """Whether an array has a row or a picture of numbers for each point, by its header."""
        with self.archive.open(f"{name}.npy") as file:
            shape, dtype = _header(file)
        return len(shape) in (2, 3) and dtype.kind in "biuf"


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the type that stand before an array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about headers of Python 2, and about what a hostile one looks like
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise InputError(f"a .npy array of version {version} is not known. Save it again with NumPy.")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    return shape, dtype


def _array(file: IO[bytes], size: int, path: Path) -> Array:
    """The array of a .npy file that is so many bytes long, if that is what its header says."""
    shape, dtype = _header(file)
    if dtype.hasobject:
        raise InputError(f"'{path}' is refused: it holds pickled objects, which could do anything. Save numbers.")
    if any(side < 0 for side in shape):
        raise InputError(f"'{path}' is damaged: its shape is {shape}. Save it again.")
    need, there = prod(shape) * max(1, dtype.itemsize), size - file.tell()
    if need > there:
        raise InputError(
            f"'{path}' is cut short: an array of shape {shape} takes {need:,} bytes, and {there:,} are there."
        )
    foresee(2 * need, f"'{path}', an array of shape {shape},")
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array: Array = npy.read_array(file, allow_pickle=False)
    return array


def _rows(stored: Any, path: Path, selection: Selection, labels: TextArray | None) -> Data:
    """A row or a picture per point, from an array or a sparse matrix."""
    matrix = checked(stored, path)
    if matrix.ndim not in (2, 3):
        raise InputError(f"'{path}' must hold a row of numbers, or a picture, per point; found shape {matrix.shape}.")
    n = matrix.shape[0]
    if labels is not None and len(labels) != n:
        raise InputError(f"{selection.label_column!r} holds {len(labels)} labels for {n} rows; give one per row.")
    if matrix.ndim == 2:
        return decided(Data(matrix, np.arange(n), labels=labels), selection.kind)
    height, width = matrix.shape[1:]
    notes = (f"Each row is a picture of {height} × {width} pixels.",)
    pixels = matrix.reshape(n, height * width)
    return decided(Data(pixels, np.arange(n), notes, labels=labels, image_shape=(height, width)), selection.kind)


def _csr_of_parts(stored: _Stored) -> Any:
    """A CSR matrix from its parts; without `data` every stored entry is 1."""
    indices = stored["indices"]
    data = stored["data"] if "data" in stored.names else np.ones(indices.shape)
    return sp.csr_matrix((data, indices, stored["indptr"]), shape=tuple(stored["shape"].tolist()))


def _of_scipy(stored: _Stored) -> Any:
    """A sparse matrix as SciPy's save_npz stores it."""
    form, data, shape = stored["format"].item(), stored["data"], tuple(stored["shape"].tolist())
    form = form.decode("ascii") if isinstance(form, bytes) else str(form)
    if form in ("csr", "csc", "bsr"):
        return getattr(sp, f"{form}_matrix")((data, stored["indices"], stored["indptr"]), shape=shape)
    if form == "dia":
        return sp.dia_matrix((data, stored["offsets"]), shape=shape)
    if form == "coo":
        return sp.coo_matrix((data, (stored["row"], stored["col"])), shape=shape)
    raise InputError(f"a sparse matrix of format {form[:40]!r} is not known. Save it as csr.")


def checked(matrix: Any, path: Path) -> Any:
    """The array, if it holds real numbers, or the matrix in CSR order, if its indices lie inside it too."""
    if isinstance(matrix, np.ndarray):
        return real(matrix, path)
    real(matrix.data, path)
    with reading(path, "a sparse matrix"):
        refuse_hollow(matrix.shape, matrix.data.size, path)
        foresee_graph(matrix.shape[0], matrix.data.size)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        csr = sp.csr_matrix(matrix)
        csr.sum_duplicates()
    return csr


def _features_name(stored: _Stored, path: Path) -> str:
    """X, or the only array of rows; several leave the choice to the user."""
    if FEATURES in stored.names:
        return FEATURES
    names = [name for name in stored.names if stored.is_rows(name)]
    if len(names) != 1:
        which = f"several arrays of rows ({', '.join(map(repr, names[:8]))})" if names else "no array of rows"
        raise InputError(f"'{path}' holds {which}; name the features {FEATURES}, or choose an array by its name.")
    return str(names[0])


def _labels(stored: _Stored, name: str | None, path: Path) -> TextArray | None:
    if name is None:
        return None
    if name not in stored.names:
        raise InputError(f"'{path}' holds no array {name!r} of labels; it holds {stored}.")
    labels: Array = stored[name]
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise InputError(f"labels must be one number or string per row; found {labels.dtype} of shape {labels.shape}.")
    foresee(_PER_LABEL * labels.size, f"'{path}', {labels.size:,} labels,")
    return as_texts([str(label) for label in labels.tolist()])


def _masses(stored: _Stored, name: str, path: Path) -> FloatArray:
    if name not in stored.names:
        raise InputError(f"'{path}' holds no array {name!r} of masses; it holds {stored}.")
    masses = stored[name]
    if masses.ndim != 1 or masses.dtype.kind not in "biuf":
        raise InputError(
            f"masses must be one number > 0 for each row; found {masses.dtype} of shape {masses.shape} in '{path}'."
        )
    return masses.astype(np.float64)


def _refuse_names(path: Path, selection: Selection) -> None:
    """Arrays have no named columns."""
    if selection.columns is not None or selection.id_column is not None:
        raise InputError(f"'{path}' has no columns with names; choose columns of .csv, .tsv, .txt or .parquet files.")
    if path.suffix.lower() != ".npz" and selection.label_column is not None:
        raise InputError(f"'{path}' has no columns with names; give the labels in a file of their own.")
    if path.suffix.lower() != ".npz" and selection.mass_column is not None:
        raise InputError(f"'{path}' has no columns with names; keep the masses beside the array, in a .npz file.")
