"""What a search of neighbours is given: rows of finite numbers, dense or sparse, scaled so that the distance of either
metric follows from a Euclidean one. This module owns the check of features, and that no square of one overflows or
vanishes. It never compares two rows.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, Features, FloatArray, IntArray, RealArray, SparseMatrix
from tautcut.checks import real_dtype
from tautcut.errors import InputError

Metric: TypeAlias = Literal["euclidean", "cosine"]

METRICS: tuple[Metric, ...] = get_args(Metric)


def features_of(X: object, name: str) -> Features:
    """X as rows, dense or CSR; refused unless it is a 2-D array of finite numbers."""
    features = _csr(X, name) if sp.issparse(X) else _dense(X, name)
    if 0 in features.shape:
        raise InputError(f"{name} must have at least one row and one feature; found shape {features.shape}.")
    entries = features if isinstance(features, np.ndarray) else features.data
    with np.errstate(over="ignore", invalid="ignore"):
        is_clean = np.isfinite(entries.sum(dtype=np.float64))  # a sum may overflow, but never hides what is not finite
    bad = np.zeros(0, np.intp) if is_clean else np.flatnonzero(~np.isfinite(entries))
    if bad.size:
        value, at = float(entries.flat[bad[0]]), int(bad[0])
        if isinstance(features, np.ndarray):
            row, column = divmod(at, features.shape[1])
        else:
            row, column = int(np.searchsorted(features.indptr, at, side="right")) - 1, int(features.indices[at])
        where = f"row {row}, column {column} of {name}"
        raise InputError(f"features must be finite; found {value} at {where}. Impute it or remove that row.")
    return features


def _dense(X: object, name: str) -> RealArray:
    """X as a 2-D array, in single precision where that holds all its values and in double where not."""
    try:
        array = np.asarray(X)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"dtype {array.dtype}")
        dtype = np.float32 if np.can_cast(array.dtype, np.float32) else np.float64
        features: Array = np.ascontiguousarray(array, dtype=dtype) if array.ndim else array
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of real numbers; found {error}. Encode it as floats.") from error
    if array.ndim != 2:
        raise InputError(
            f"{name} must be 2-D, one row per point; found shape {array.shape}. Reshape it, e.g. {name}.reshape(-1, 1)."
        )
    return features


def _csr(X: Any, name: str) -> SparseMatrix:
    """A canonical CSR float64 copy of sparse X."""
    real_dtype(name, X.dtype)
    if len(X.shape) != 2:
        raise InputError(f"{name} must be 2-D, one row per point; found shape {X.shape}.")
    features = sp.csr_matrix(X.astype(np.float64, copy=True))  # SciPy cannot copy half precision as it is
    features.sum_duplicates()
    return features


def distinct_rows(features: Features) -> tuple[IntArray, IntArray]:
    """The first row of each kind, in their order, and the number of each row's kind."""
    if isinstance(features, np.ndarray):
        plain = np.ascontiguousarray(features) + 0.0  # −0 is 0
        keys: Array = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()
    else:
        rows = sp.csr_matrix(features, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        keys = np.array([rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in ends], dtype=object)
    _, first, kinds = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return first[order], rank[kinds.ravel()]


def comparable(features: Features, metric: Metric) -> tuple[Features, float]:
    """Rows whose Euclidean distances, times the returned unit, are those of the metric (cosine: chords)."""
    if metric == "cosine":
        return _unit_rows(features), 1.0
    entries = features if isinstance(features, np.ndarray) else features.data
    largest = float(max(entries.max(initial=0.0), -entries.min(initial=0.0)))
    if largest == 0 or 2.0**-400 < largest < 2.0**400:
        return features, 1.0
    # A power of two keeps every digit, and squares neither overflow nor vanish.
    unit = float(np.ldexp(1.0, np.frexp(largest)[1] - 1))
    return _divide_rows(features, np.full(features.shape[0], unit)), unit


def _unit_rows(features: Features) -> Features:
    """Rows divided by their norms; zero rows are refused."""
    if isinstance(features, np.ndarray):
        peaks = np.abs(features).max(axis=1)
    else:
        peaks = abs(features).max(axis=1).toarray().ravel()
    zero = np.flatnonzero(peaks == 0)
    if zero.size:
        raise InputError(
            f"the cosine of a zero row is undefined; found {zero.size} of {peaks.size}, the first is row "
            f"{zero[0]}. Remove them, or use metric='euclidean'."
        )
    # First to about 1 by a power of two, so that no square overflows or vanishes.
    level = _divide_rows(features, np.ldexp(1.0, np.frexp(peaks)[1] - 1))
    return _divide_rows(level, np.sqrt(squared_norms(level)))


def _divide_rows(features: Features, divisors: FloatArray) -> Features:
    if isinstance(features, np.ndarray):
        return features / divisors[:, None]
    data = features.data / np.repeat(divisors, np.diff(features.indptr))
    return sp.csr_matrix((data, features.indices, features.indptr), shape=features.shape)


def distances_of(squared: FloatArray, unit: float, metric: Metric) -> FloatArray:
    """Distances of the metric from squared Euclidean ones: 1 - cos = chord² / 2."""
    return squared / 2 if metric == "cosine" else np.sqrt(squared) * unit


def stacked(points: Features, queries: Features) -> Features:
    """Both sets of rows under one another, to be scaled alike; sparse if either is."""
    if isinstance(points, np.ndarray) and isinstance(queries, np.ndarray):
        return np.concatenate([points, queries])
    return sp.csr_matrix(sp.vstack([sp.csr_matrix(points), sp.csr_matrix(queries)], format="csr"))


def squared_norms(rows: Any) -> Array:
    """The squared norm of each row."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
