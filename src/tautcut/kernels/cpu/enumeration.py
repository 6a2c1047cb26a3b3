"""The lowest (P) of a tiny graph, by comparing all partitions: a set of vertices costs the same whatever the others do,
so that the best division of each set into r clusters follows from the best divisions into r − 1. Compiled with Numba.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled

_LESS = 1 - 1e-9  # of a sum of masses, which is rounded
LARGEST = 16  # vertices: the 3¹⁶ pairs of a set and a subset, for each cluster, take a few tenths of a second


def lowest_partition(graph: Graph, lam: FloatArray, smallest: FloatArray) -> IntArray:
    """The labels of lowest (P) among all partitions with clusters of at least these masses; there must be one.

    Of equals, which one is a matter of the vertices' order alone.
    """
    are_alike = bool(np.ptp(lam) == 0 and np.ptp(smallest) == 0)
    weights = graph.to_scipy().toarray()
    labels: IntArray = _divide(weights, graph.masses, lam, smallest, are_alike)
    return labels


@compiled
def _divide(
    weights: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray, are_alike: bool
) -> IntArray:
    """Sets are the bits of a number. Where clusters are alike, each takes the first vertex that is left."""
    n, R = weights.shape[0], lam.size
    n_sets = 1 << n
    everything = n_sets - 1
    cut, size, mass = _measure_sets(weights, masses)
    lowest = np.full((R, n_sets), np.inf)
    chosen = np.zeros((R, n_sets), np.int64)
    for r in range(R):
        before, after = _LESS * smallest[: r + 1].sum(), _LESS * smallest[r + 1 :].sum()
        term = np.full(n_sets, np.inf)
        for one in range(1, n_sets - 1):
            if mass[one] >= smallest[r]:
                term[one] = cut[one] / min(lam[r] * mass[one], mass[everything ^ one])
        for whole in range(1, n_sets):
            # Sets that are too small, or leave too little, are divided in vain.
            if mass[whole] < before or mass[everything ^ whole] < after or (r == R - 1 and whole != everything):
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
    left = everything
    for r in range(R - 1, -1, -1):
        own = chosen[r, left]
        for i in range(n):
            if own >> i & 1:
                labels[i] = r
        left ^= own
    return labels


@compiled
def _measure_sets(weights: FloatArray, masses: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Cut, number of vertices and mass of each set. Numbers are only added: of those taken away, rounding is left."""
    n = weights.shape[0]
    cut, size, mass = np.zeros(1 << n), np.zeros(1 << n, np.int64), np.zeros(1 << n)
    for one in range(1, 1 << n):
        for i in range(n):
            size[one] += one >> i & 1
            mass[one] += masses[i] if one >> i & 1 else 0.0
            for j in range(i):
                if (one >> i ^ one >> j) & 1:
                    cut[one] += weights[i, j]
    return cut, size, mass
