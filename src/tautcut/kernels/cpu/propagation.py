"""Labels that spread along the edges of a graph whose rows come in blocks: vertices join the cluster that they are
joined to most strongly, as long as there is room in it. Compiled with Numba; the draws come from the seed alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.kernels.cpu.compiling import compiled


@compiled
def propagate(
    first: int, indptr: IntArray, indices: Array, weights: FloatArray, labels: NDArray[np.int32], sizes: IntArray,
    work: IntArray, largest: int, strength: FloatArray, seen: NDArray[np.int32], seed: int,
) -> int:  # fmt: skip
    """How many vertices of a block moved; overwrites `labels` and `sizes`.

    The block has the rows of vertices first, first + 1, …; a vertex leaves its cluster for another that it is joined to
    more strongly, and that has `largest` at most with it. Of equals one is drawn. `strength` is 0 for every cluster,
    and `seen` as long as the longest row; both are for work.
    """
    moved = 0
    for row in range(indptr.size - 1):
        vertex = first + row
        own = labels[vertex]
        n_seen = 0
        for e in range(indptr[row], indptr[row + 1]):
            there = labels[indices[e]]
            if strength[there] == 0.0:
                seen[n_seen] = there
                n_seen += 1
            strength[there] += weights[e]
        best, strongest, lot = own, strength[own], -1
        for s in range(n_seen):
            there = seen[s]
            if there == own or strength[there] < strongest or sizes[there] + work[vertex] > largest:
                continue
            drawn = _lot(there, vertex, seed)
            if strength[there] > strongest or (best != own and drawn > lot):
                best, strongest, lot = there, strength[there], drawn
        for s in range(n_seen):
            strength[seen[s]] = 0.0
        if best != own:
            sizes[own] -= work[vertex]
            sizes[best] += work[vertex]
            labels[vertex] = best
            moved += 1
    return moved


@compiled
def _lot(label: int, vertex: int, seed: int) -> np.int64:
    """A number ≥ 0 that depends on nothing else, and looks random."""
    mixed = np.int64(label) * np.int64(2654435761) ^ (np.int64(vertex) + np.int64(seed)) * np.int64(40503)
    mixed = (mixed ^ (mixed >> np.int64(15))) * np.int64(2246822519)
    return (mixed ^ (mixed >> np.int64(13))) & np.int64(0x7FFFFFFF)
