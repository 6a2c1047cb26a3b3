"""The lowest (P) of a tiny graph, by comparing all partitions: a set of vertices costs the same whatever the others do,
so that the best division of each set into r clusters follows from the best divisions into r − 1. Compiled with Numba.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled

LARGEST = 16  # vertices: the 3¹⁶ pairs of a set and a subset, for each cluster, take a few tenths of a second


def lowest_partition(graph: Graph, lam: FloatArray, smallest: FloatArray) -> IntArray:
    """The labels of lowest (P) among all partitions with clusters of at least these sizes; there must be one.

    Of equals, which one is a matter of the vertices' order alone.
    """
    are_alike = bool(np.ptp(lam) == 0 and np.ptp(smallest) == 0)
    weights = graph.to_scipy().toarray()
    labels: IntArray = _divide(weights, lam, smallest.astype(np.int64), are_alike)
    return labels


@compiled
def _divide(weights: FloatArray, lam: FloatArray, smallest: IntArray, are_alike: bool) -> IntArray:
    """Sets are the bits of a number. Where clusters are alike, each takes the first vertex that is left."""
    n, R = weights.shape[0], lam.size
    n_sets = 1 << n
    cut, size = _measure_sets(weights)
    lowest = np.full((R, n_sets), np.inf)
    chosen = np.zeros((R, n_sets), np.int64)
    before, after = 0, smallest.sum()
    for r in range(R):
        before += smallest[r]
        after -= smallest[r]
        term = np.full(n_sets, np.inf)
        for one in range(1, n_sets - 1):
            if size[one] >= smallest[r]:
                term[one] = cut[one] / min(lam[r] * size[one], n - size[one])
        for whole in range(1, n_sets):
            if size[whole] < before or size[whole] > n - after or (r == R - 1 and whole != n_sets - 1):
                continue
            if r == 0:
                lowest[0, whole], chosen[0, whole] = term[whole], whole
                continue
            first = whole & -whole if are_alike else 0
            rest = whole ^ first
            part = rest
            for _ in range(1 << size[rest]):  # all subsets of the rest, the empty one last
                value = term[part | first] + lowest[r - 1, rest ^ part] if part | first else np.inf
                if value < lowest[r, whole]:
                    lowest[r, whole], chosen[r, whole] = value, part | first
                part = (part - 1) & rest
    labels = np.zeros(n, np.int64)
    left = n_sets - 1
    for r in range(R - 1, -1, -1):
        own = chosen[r, left]
        for i in range(n):
            if own >> i & 1:
                labels[i] = r
        left ^= own
    return labels


@compiled
def _measure_sets(weights: FloatArray) -> tuple[FloatArray, IntArray]:
    """The cut and the number of vertices of each set. Weights are only added: of those taken away, rounding is left."""
    n = weights.shape[0]
    cut, size = np.zeros(1 << n), np.zeros(1 << n, np.int64)
    for one in range(1, 1 << n):
        for i in range(n):
            size[one] += one >> i & 1
            for j in range(i):
                if (one >> i ^ one >> j) & 1:
                    cut[one] += weights[i, j]
    return cut, size
