"""NumPy's .npy and .npz files and Matrix Market's .mtx: arrays and sparse matrices. It never unpickles, and checks the
indices of a sparse matrix before anything computes with them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, TextArray
from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection, decided, reading, real

# The array of a .npz that is taken unless another is named.
FEATURES = "X"
_SPARSE = {"indices", "indptr", "shape"}


def read_npy(path: Path, selection: Selection) -> Data:
    """The rows of a 2-D array, or the pictures of a 3-D one."""
    _refuse_names(path, selection)
    with reading(path, "a .npy array without pickled objects"):
        array = np.array(np.lib.format.open_memmap(path, mode="r"))  # a map first: a false header allocates nothing
    return _rows(array, path, selection, None)


def read_npz(path: Path, selection: Selection) -> Data:
    """A sparse matrix as scipy's save_npz or plain CSR parts store it, or one of the arrays."""
    _refuse_names(path, selection)
    if not zipfile.is_zipfile(path):
        raise InputError(f"'{path}' is not a .npz file, or is cut short. Check its suffix, or get the whole file.")
    with (
        reading(path, "a .npz file without pickled objects"),
        path.open("rb") as file,  # NumPy would leave it open where it is damaged
        np.load(file, allow_pickle=False) as stored,
    ):
        labels = _labels(stored, selection.label_column, path)
        if selection.array is None and set(stored.files) >= _SPARSE | {"format"}:
            file.seek(0)
            return _rows(sp.load_npz(file), path, selection, labels)
        if selection.array is None and set(stored.files) >= _SPARSE:
            return _rows(_csr_of_parts(stored), path, selection, labels)
        name = selection.array or _features_name(stored, path)
        if name not in stored.files:
            raise InputError(f"'{path}' holds no array {name!r}; it holds {', '.join(stored.files)}.")
        array = stored[name]
    return _rows(array, path, selection, labels)


def read_mtx(path: Path, selection: Selection) -> Data:
    """A Matrix Market file; its rows are numbered from 1, as in the file."""
    _refuse_names(path, selection)
    from scipy.io import mminfo, mmread

    with reading(path, "a Matrix Market file"):
        entries = int(mminfo(path)[2])
        if entries > path.stat().st_size:  # before anything is allocated for them
            raise InputError(f"'{path}' is cut short: it announces {entries} entries. Get the whole file.")
        matrix: Any = mmread(path)
    return decided(Data(checked(matrix, path), np.arange(1, matrix.shape[0] + 1)), selection.kind)


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


def _csr_of_parts(stored: Any) -> Any:
    """A CSR matrix from its parts; without `data` every stored entry is 1."""
    indices = stored["indices"]
    data = stored["data"] if "data" in stored.files else np.ones(indices.shape)
    return sp.csr_matrix((data, indices, stored["indptr"]), shape=tuple(stored["shape"].tolist()))


def checked(matrix: Any, path: Path) -> Any:
    """The array, if it holds real numbers, or the matrix in CSR order, if its indices lie inside it too."""
    if isinstance(matrix, np.ndarray):
        return real(matrix, path)
    real(matrix.data, path)
    with reading(path, "a sparse matrix"):
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        csr = sp.csr_matrix(matrix)
        csr.sum_duplicates()
    return csr


def _features_name(stored: Any, path: Path) -> str:
    """X, or the only array of rows; several leave the choice to the user."""
    if FEATURES in stored.files:
        return FEATURES
    names = [name for name in stored.files if stored[name].ndim in (2, 3) and stored[name].dtype.kind in "biuf"]
    if len(names) != 1:
        which = f"several arrays of rows ({', '.join(names)})" if names else "no array of rows"
        raise InputError(f"'{path}' holds {which}; name the features {FEATURES}, or choose an array by its name.")
    return str(names[0])


def _labels(stored: Any, name: str | None, path: Path) -> TextArray | None:
    if name is None:
        return None
    if name not in stored.files:
        raise InputError(f"'{path}' holds no array {name!r} of labels; it holds {', '.join(stored.files)}.")
    labels: Array = stored[name]
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise InputError(f"labels must be one number or string per row; found {labels.dtype} of shape {labels.shape}.")
    return labels.astype(np.str_)


def _refuse_names(path: Path, selection: Selection) -> None:
    """Arrays have no named columns."""
    if selection.columns is not None or selection.id_column is not None:
        raise InputError(f"'{path}' has no columns with names; choose columns of .csv, .tsv, .txt or .parquet files.")
    if path.suffix.lower() != ".npz" and selection.label_column is not None:
        raise InputError(f"'{path}' has no columns with names; give the labels in a file of their own.")
