"""NumPy's .npy and .npz files and Matrix Market's .mtx: arrays and sparse matrices. It never unpickles, and checks the
indices of a sparse matrix before anything computes with them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, Features, TextArray
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
    return _of_array(array, path, selection, None)


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
            return _of_sparse(sp.load_npz(file), path, selection, labels)
        if selection.array is None and set(stored.files) >= _SPARSE:
            return _of_sparse(_csr_of_parts(stored), path, selection, labels)
        name = selection.array or _features_name(stored, path)
        if name not in stored.files:
            raise InputError(f"'{path}' holds no array {name!r}; it holds {', '.join(stored.files)}.")
        array = stored[name]
    return _of_array(array, path, selection, labels)


def read_mtx(path: Path, selection: Selection) -> Data:
    """A Matrix Market file; its rows are numbered from 1, as in the file."""
    _refuse_names(path, selection)
    if selection.label_column is not None:
        raise InputError(f"'{path}' has no columns with names; give the labels in a file of their own.")
    from scipy.io import mminfo, mmread

    with reading(path, "a Matrix Market file"):
        entries = int(mminfo(path)[2])
        if entries > path.stat().st_size:  # before anything is allocated for them
            raise InputError(f"'{path}' is cut short: it announces {entries} entries. Get the whole file.")
        matrix: Any = mmread(path)
    ids = np.arange(1, matrix.shape[0] + 1)
    if not sp.issparse(matrix):
        return decided(real(matrix, path), ids, selection.kind)
    return decided(checked_sparse(matrix, path), ids, selection.kind)


def _of_array(array: Array, path: Path, selection: Selection, labels: TextArray | None) -> Data:
    array = real(array, path)
    if array.ndim not in (2, 3):
        raise InputError(f"'{path}' must hold a row of numbers, or a picture, per point; found shape {array.shape}.")
    image_shape = (array.shape[1], array.shape[2]) if array.ndim == 3 else None
    matrix = array.reshape(len(array), int(np.prod(array.shape[1:])))
    notes = () if image_shape is None else (f"Each row is a picture of {image_shape[0]} × {image_shape[1]} pixels.",)
    _check_length(labels, len(array), selection)
    return decided(
        matrix, np.arange(len(array)), selection.kind, notes=notes, labels=labels, image_shape=image_shape
    )  # fmt: skip


def _of_sparse(matrix: Any, path: Path, selection: Selection, labels: TextArray | None) -> Data:
    _check_length(labels, matrix.shape[0], selection)
    return decided(checked_sparse(matrix, path), np.arange(matrix.shape[0]), selection.kind, labels=labels)


def _csr_of_parts(stored: Any) -> Any:
    """A CSR matrix from its parts; without `data` every stored entry is 1."""
    indices = stored["indices"]
    data = stored["data"] if "data" in stored.files else np.ones(indices.shape)
    return sp.csr_matrix((data, indices, stored["indptr"]), shape=tuple(stored["shape"].tolist()))


def checked_sparse(matrix: Any, path: Path) -> Features:
    """The matrix in CSR order, once its indices are known to lie inside it."""
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


def _check_length(labels: TextArray | None, n: int, selection: Selection) -> None:
    if labels is not None and len(labels) != n:
        raise InputError(f"{selection.label_column!r} holds {len(labels)} labels for {n} rows; give one per row.")


def _refuse_names(path: Path, selection: Selection) -> None:
    """Arrays have no named columns."""
    if selection.columns is not None or selection.id_column is not None:
        raise InputError(f"'{path}' has no columns with names; choose columns of .csv, .tsv, .txt or .parquet files.")
    if path.suffix.lower() == ".npy" and selection.label_column is not None:
        raise InputError(f"'{path}' has no columns with names; give the labels in a file of their own.")
