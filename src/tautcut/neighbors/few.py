"""The search among few points, in NumPy: compiling the other one takes longer than this one does. All distances come
from products of matrices, whose rounding is bounded; what may be among the nearest is measured again as differences,
in the order of summation of `kernels.cpu.neighbors`. So the answer is that of its exact search, bit for bit. It leaves
to that search what is not few, and points that products do not tell apart.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from tautcut.arrays import Features, FloatArray, IndexArray, IntArray
from tautcut.neighbors.features import squared_norms
from tautcut.search.threads import in_threads

Found: TypeAlias = tuple[IndexArray, FloatArray]

FEW = 1.5e9  # coordinates of pairs, up to which products take at most 50 ms longer than compiled loops (decision 0063),
PASSES = 64  # where comparing the distance of a pair counts as so many coordinates
BLOCK = 1 << 18  # distances at a time: they stay in the cache of a core
MEASURED = 32  # coordinates, for each distance of a block, that are measured again at most
GROUP = 16  # points at most of which the nearest alone counts, where a distance is sought that k points are within
ROUNDING = float(np.finfo(np.float64).eps)
VANISHING = float(np.finfo(np.float64).tiny)  # squares below this lose digits


def nearest_of_few(points: Features, queries: Features | None, k: int) -> Found | None:
    """The k nearest points of each row, or of each point but itself, by (distance, index), and squared distances.

    None if they are not few, or if so many points are close to one another, beside the rest, that products say little.
    """
    measured = points, points if queries is None else queries
    (n, d), n_asked = points.shape, measured[1].shape[0]
    n_terms = sum(_terms(part) for part in measured) / 2
    if n * n_asked * (n_terms + PASSES) > FEW:
        return None
    rows, asked = _centred(*measured)
    norms, asked_norms = squared_norms(rows), squared_norms(asked)
    # A product is off from the distance that is measured by at most so much of both norms: sums of d terms, thrice.
    off = ROUNDING * (2 * d + 16)
    indices, squared = np.empty((n_asked, k), np.intp), np.empty((n_asked, k))

    def search(part: tuple[int, int]) -> bool:
        first, last = part
        product = (-2.0 * asked[first:last]) @ rows.T
        low: FloatArray = product if isinstance(product, np.ndarray) else product.toarray()
        low += norms * (1 - off)  # what a distance is at least, but for the norm of the row
        if queries is None:
            low[np.arange(last - first), np.arange(first, last)] = np.inf
        reach = _within(low, k)
        at, named = np.divmod(np.flatnonzero(low <= reach), n)
        widest = np.maximum.reduceat(norms[named], np.searchsorted(at, np.arange(last - first)))
        reach += 2 * off * (asked_norms[first:last] + widest)[:, None] + VANISHING
        at, named = np.divmod(np.flatnonzero(low <= reach), n)
        if at.size * n_terms > MEASURED * BLOCK:
            return False
        distances = _measured(*measured, named, first + at)
        order = np.lexsort((distances, at))  # stable: of equal distances the lower index
        chosen = order[np.searchsorted(at, np.arange(last - first))[:, None] + np.arange(k)]
        indices[first:last], squared[first:last] = named[chosen], distances[chosen]
        return True

    n_parts = min(n_asked, -(-n_asked * n // BLOCK))
    bounds = (n_asked * part // n_parts for part in range(n_parts + 1))
    with threadpool_limits(1, user_api="blas"):
        return (indices, squared) if all(in_threads(search, list(pairwise(bounds)))) else None


def _terms(rows: Features) -> float:
    """How many coordinates a row has, on average."""
    return rows.shape[1] if isinstance(rows, np.ndarray) else rows.nnz / rows.shape[0]


def _centred(points: Features, queries: Features) -> tuple[Any, Any]:
    """Both in double precision; dense ones about the mean of the points, where products lose least."""
    if isinstance(points, np.ndarray) and isinstance(queries, np.ndarray):
        centre = points.mean(axis=0, dtype=np.float64)
        rows = points - centre
        return rows, rows if queries is points else queries - centre
    return points, queries


def _within(low: FloatArray, k: int) -> FloatArray:
    """For each row a value that at least k of its entries do not exceed, and hardly more; as a column."""
    n_rows, n = low.shape
    size = max(1, min(GROUP, n // (8 * k)))
    minima = low[:, : n // size * size].reshape(n_rows, size, -1).min(axis=1)
    return np.partition(minima, k - 1, axis=1)[:, k - 1 : k]


def _measured(points: Features, queries: Features, named: IntArray, asked: IntArray) -> FloatArray:
    """The squared distances of these pairs of points and rows, in the order of summation of the compiled search."""
    gaps: Any = queries[asked].astype(np.float64, copy=False) - points[named]
    if isinstance(gaps, np.ndarray):
        gaps *= gaps
        return _summed(gaps)
    gaps.data *= gaps.data
    return np.asarray(gaps @ np.ones(gaps.shape[1]))  # one after the other


def _summed(terms: FloatArray) -> FloatArray:
    """The sum of each row: four sums side by side, of which the first begins with the terms that are left over."""
    sums, first = np.zeros((len(terms), 4)), terms.shape[1] % 4
    for column in range(first):
        sums[:, 0] += terms[:, column]
    for column in range(first, terms.shape[1], 4):
        sums += terms[:, column : column + 4]
    total: FloatArray = (sums[:, 0] + sums[:, 1]) + (sums[:, 2] + sums[:, 3])
    return total
