"""Where vertices lie in memory: whether neighbours are near each other, and a graph, or a part of one, with its
vertices in another order. Which order that is, others decide (decisions 0015 and 0054); of a part, it is here (0064).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.graph.shard import Shard
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.sharing import LIGHT, even_shares, share

_CACHE_BYTES = 2**20  # rows that fit in this, about a core's own cache, need no particular order (decision 0015)
_NEAR = 0.05  # mean distance of neighbours, as a share of all vertices, that is near enough (decision 0015)
_FEW = 64  # neighbours that are sorted by insertion
_ALIGNMENT = 64  # bytes of a cache line: a row that begins at one lies in as few as it can


def aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Zeros that begin at a cache line."""
    size = shape[0] * shape[1] * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(dtype).reshape(shape)


def is_scattered(graph: Graph | Shard, row_bytes: int) -> bool:
    """Whether rows of this size lie far from those of their neighbours, and are too many for a cache."""
    n = graph.indptr.size - 1
    if graph.indices.size == 0 or n * row_bytes < _CACHE_BYTES:
        return False
    places = even_shares(graph.indptr, lightness=LIGHT)
    distances = np.zeros(n)
    share(_add_distances, places, graph.indptr, graph.indices, distances)
    return bool(distances.sum() >= _NEAR * n * graph.indices.size)


def permuted(graph: Graph, order: IntArray) -> Graph:
    """The graph with vertex order[k] in place k."""
    return Graph(*_permuted_rows(graph, order, _places(order, order.size)), graph.masses[order])


def permuted_part(shard: Shard, order: IntArray) -> Shard:
    """The part with its own vertex order[k] in place k, and its ghosts as they were; the boundary has to stay first."""
    places = _places(order, shard.n_local)
    indptr, indices, weights = _permuted_rows(shard, order, places)
    return replace(
        shard, vertices=shard.vertices[order], indptr=indptr, indices=indices, weights=weights,
        masses=shard.masses[order], sent=places[shard.sent].astype(np.int32),
    )  # fmt: skip


def grouped_order(shard: Shard, groups: IntArray, row_bytes: int) -> IntArray | None:
    """A part's own vertices by their groups, the boundary's first; None where neighbours are near already, or few."""
    if not is_scattered(shard, row_bytes):
        return None
    return np.lexsort((groups, np.arange(shard.n_own) >= shard.n_boundary))


def _places(order: IntArray, n: int) -> IntArray:
    """Where each vertex goes; those that the order does not name stay."""
    places = np.arange(n)
    places[order] = np.arange(order.size)
    return places


def _permuted_rows(graph: Graph | Shard, order: IntArray, places: IntArray) -> tuple[IntArray, Array, FloatArray]:
    """The rows in this order, in CSR form, each neighbour by its new place."""
    indptr = np.concatenate([[0], np.cumsum(np.diff(graph.indptr)[order])])
    indices, weights = np.empty_like(graph.indices), np.empty_like(graph.weights)
    share(
        _fill_rows, even_shares(indptr), graph.indptr, graph.indices, graph.weights, order, places, indptr, indices,
        weights,
    )  # fmt: skip
    for one in (indptr, indices, weights):
        one.setflags(write=False)  # as the arrays of a graph are: Numba compiles once for both
    return indptr, indices, weights


@compiled
def _add_distances(first: int, last: int, indptr: IntArray, indices: Array, distances: FloatArray) -> None:
    for i in range(first, last):
        for e in range(indptr[i], indptr[i + 1]):
            distances[i] += abs(indices[e] - i)


@compiled
def _fill_rows(
    first: int, last: int, indptr: IntArray, indices: Array, weights: FloatArray, order: IntArray, rank: IntArray,
    new_indptr: IntArray, new_indices: Array, new_weights: FloatArray,
) -> None:  # fmt: skip
    """Write the rows [first, last) of the new graph, their neighbours sorted."""
    for k in range(first, last):
        old, new, degree = indptr[order[k]], new_indptr[k], new_indptr[k + 1] - new_indptr[k]
        if degree <= _FEW:
            for d in range(degree):
                j, w, at = rank[indices[old + d]], weights[old + d], new + d
                while at > new and new_indices[at - 1] > j:
                    new_indices[at], new_weights[at] = new_indices[at - 1], new_weights[at - 1]
                    at -= 1
                new_indices[at], new_weights[at] = j, w
        else:
            places = rank[indices[old : old + degree]]
            for d, one in enumerate(np.argsort(places)):
                new_indices[new + d], new_weights[new + d] = places[one], weights[old + one]
