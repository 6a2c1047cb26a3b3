"""Partitions made of pockets: sets of vertices that random walks hardly leave, of whatever size the cut is lowest at.
Partitioners aim at equal sizes; this does not. Compiled with Numba; the draws come from the seed alone.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu.annealing import below, generator
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.compiling import compiled


@compiled
def pocket_partition(
    level: Level, lam: FloatArray, smallest: FloatArray, order: IntArray, steps: IntArray, tries: int, seed: int
) -> IntArray:
    """Clusters taken out one after another, in this order; the last has what is left.

    Each is the best of so many walks, every one from a random vertex that is still free and of `steps[k]` steps for the
    k-th cluster. The vertices are ordered by how often the walk is at them for their degree, and the order is cut where
    the term of (P) is lowest; no cluster is smaller than `smallest`, and what is left suffices for those to come.
    """
    n = level.masses.size
    random = generator(seed)
    labels = np.full(n, order[-1], np.int64)
    is_free = np.ones(n, np.bool_)
    free = np.arange(n)
    left, whole = level.masses.sum(), level.masses.sum()
    needed = smallest.sum()
    for k in range(order.size - 1):
        r = order[k]
        needed -= smallest[r]
        lowest, chosen = np.inf, free[:0]
        for _ in range(tries):
            visits = _walk(level, free, free[below(random, free.size)], steps[k])
            ranked = free[np.argsort(-visits[free], kind="mergesort")]
            count, value = _best_prefix(level, ranked, lam[r], smallest[r], left - needed, whole)
            if count > 0 and (value < lowest or chosen.size == 0):
                lowest, chosen = value, ranked[:count]
        for i in chosen:
            labels[i] = r
            is_free[i] = False
            left -= level.masses[i]
        free = free[is_free[free]]
        if free.size == 0:
            break
    return labels


@compiled
def _walk(level: Level, free: IntArray, start: int, steps: int) -> FloatArray:
    """How often a lazy random walk is at each vertex after so many steps, for its degree; it ends outside `free`."""
    now, then = np.zeros(level.masses.size), np.zeros(level.masses.size)
    now[start] = 1.0 / level.degrees[start] if level.degrees[start] > 0 else 1.0
    for _ in range(steps):
        for i in free:
            total = 0.0
            for e in range(level.indptr[i], level.indptr[i + 1]):
                total += level.weights[e] * now[level.indices[e]]
            then[i] = 0.5 * (now[i] + total / level.degrees[i]) if level.degrees[i] > 0 else 0.5 * now[i]
        now, then = then, now
    return now


@compiled
def _best_prefix(
    level: Level, ranked: IntArray, lam: float, smallest: float, largest: float, whole: float
) -> tuple[int, float]:
    """How many of these vertices make the lowest term of (P), and that term; none if no number has the size."""
    is_in = np.zeros(level.masses.size, np.bool_)
    size, cut = 0.0, 0.0
    count, lowest = 0, np.inf
    for k in range(ranked.size):
        i = ranked[k]
        for e in range(level.indptr[i], level.indptr[i + 1]):
            cut += -level.weights[e] if is_in[level.indices[e]] else level.weights[e]
        cut = max(cut, 0.0)  # what is taken away leaves rounding
        is_in[i] = True
        size += level.masses[i]
        if size > largest:
            break
        balance = min(lam * size, whole - size)
        if size >= smallest and balance > 0 and (count == 0 or cut < lowest * balance):
            count, lowest = k + 1, cut / balance
    return count, lowest
