"""How well labels agree with a known truth: purity, accuracy under the best matching, and scikit-learn's NMI
and ARI. This module owns the contingency table. It judges finished partitions only; nothing that computes a
partition may import it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from tautcut.arrays import Array, IndexArray, IntArray
from tautcut.errors import InputError


def purity(labels: ArrayLike, truth: ArrayLike) -> float:
    """The share of points in the majority class of their cluster, (1/N) Σ_r max_c |A_r ∩ class c|.

    Examples
    --------
    >>> purity([0, 0, 1, 1], ["a", "a", "a", "b"])
    0.75
    """
    table = _contingency(labels, truth)
    return float(table.max(axis=1).sum() / table.sum())


def accuracy(labels: ArrayLike, truth: ArrayLike) -> float:
    """The share of points whose cluster is matched to their class, under the best one-to-one matching.

    Examples
    --------
    >>> accuracy([1, 1, 0, 0], [0, 0, 1, 1])
    1.0
    """
    table = _contingency(labels, truth)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def nmi(labels: ArrayLike, truth: ArrayLike) -> float:
    """Normalised mutual information (arithmetic mean), by scikit-learn."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_codes(labels, truth)))


def ari(labels: ArrayLike, truth: ArrayLike) -> float:
    """Adjusted Rand index, by scikit-learn."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_codes(labels, truth)))


def _contingency(labels: ArrayLike, truth: ArrayLike) -> IntArray:
    """How many points each cluster (row) shares with each class (column)."""
    cluster, klass = _codes(labels, truth)
    shape = int(cluster.max()) + 1, int(klass.max()) + 1
    counts = np.bincount(cluster * shape[1] + klass, minlength=shape[0] * shape[1])
    return counts.astype(np.int64).reshape(shape)


def _codes(first: ArrayLike, second: ArrayLike) -> tuple[IndexArray, IndexArray]:
    """Both labelings as numbers from 0, one per point, in the same order of points."""
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(f"labels and truth must be 1-D and of equal length; found shapes {a.shape} and {b.shape}.")
    if not a.size:
        raise InputError("labels and truth are empty; give at least one point.")
    return _numbered(a), _numbered(b)


def _numbered(values: Array) -> IndexArray:
    """Equal values as equal numbers, counted from 0."""
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1]
    numbers: dict[object, int] = {}  # objects may have no order, such as None beside strings
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.intp)
