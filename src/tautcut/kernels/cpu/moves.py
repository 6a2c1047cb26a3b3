"""The discrete companion of the fused passes: single-vertex moves on a hard partition, and the coarsening that lets
whole groups of vertices move at once. Compiled with Numba, sequential and free of randomness of their own, so the
same input gives the same answer on any number of threads. What to search for is decided elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tautcut.arrays import FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled

Array = NDArray[Any]

_MAX_SWEEPS = 20
_SMOOTHINGS = 100  # steps of the random walk of a bisection
_SMALLEST_SIDES = (0.1, 0.3)  # the share of the mass that its smaller side has at least is drawn from here


class Level(NamedTuple):
    """A graph on which a partition is searched: the graph itself, or a coarsening of it.

    `masses` counts the original vertices in each; `rating` says how much an edge deserves to be contracted.
    """

    indptr: Array
    indices: Array
    weights: Array
    rating: Array
    degrees: Array
    masses: Array
    is_fixed: Array

    @property
    def n_vertices(self) -> int:
        return int(self.masses.size)


def finest_level(graph: Graph, is_fixed: NDArray[np.bool_]) -> Level:
    """The graph itself. An edge's rating grows with the neighbours its ends share: such edges lie inside clusters."""
    rating = _shared_neighbor_rating(graph.indptr, graph.indices, graph.weights)
    masses = np.ones(graph.n_vertices)
    return _level(graph.indptr, graph.indices, graph.weights, rating, masses, is_fixed)


def contract_matching(
    level: Level, groups: IntArray, *, heaviest: float, rng: np.random.Generator
) -> tuple[Level, IntArray]:
    """Contract a matching of well-rated edges inside `groups`; the coarse level, and each vertex's place in it."""
    order = rng.permutation(level.n_vertices)
    parent, n_coarse = _match(level, groups, order, heaviest)
    parts = _contract(level, parent, n_coarse)
    return _level(*parts), parent


def descend(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *, plateau: float = 1.0
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Move single vertices while that lowers (P); labels, cuts and sizes where no move does.

    `plateau` < 1 caps every denominator at that fraction of its largest value: near the balanced size, where (P) has
    a kink that pins sizes, vertices can then change places. Fixed vertices stay; no cluster shrinks below `smallest`.
    """
    moved = np.array(labels, dtype=np.int64)
    cut = np.zeros(lam.size)
    sizes = np.bincount(moved, level.masses, lam.size).astype(np.float64)
    _sweep(level, moved, sizes, cut, lam, smallest, plateau, _MAX_SWEEPS)
    return moved, cut, sizes


def weights_between(level: Level, labels: IntArray, n_clusters: int) -> FloatArray:
    """The weight of the edges between each two clusters, zero on the diagonal, shape (R, R)."""
    between: FloatArray = _between(level, labels, n_clusters)
    return between


def induced(level: Level, members: IntArray) -> Level:
    """The level on `members` alone, renumbered in their order."""
    place = np.full(level.n_vertices, -1, dtype=np.int64)
    place[members] = np.arange(members.size)
    indptr, indices, weights, rating = _induced(level, members, place)
    return _level(indptr, indices, weights, rating, level.masses[members], level.is_fixed[members])


def bisect(level: Level, *, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The vertices on one side of a seam; neither side is empty if there are two vertices.

    A random walk smooths noise along the edges, and the order that this gives is cut where the cut is lowest for the
    mass of the smaller side.
    """
    smallest = rng.uniform(*_SMALLEST_SIDES)
    x = _smoothed(level, rng.standard_normal(level.n_vertices), _SMOOTHINGS)
    order = np.argsort(x, kind="stable")
    is_before = np.zeros(level.n_vertices, dtype=np.bool_)
    is_before[order[: _lowest_cut(level, order, smallest)]] = True
    return is_before


def _level(indptr: Array, indices: Array, weights: Array, rating: Array, masses: Array, is_fixed: Array) -> Level:
    """A level of read-only arrays: one compiled version serves the graph and its coarsenings."""
    degrees = np.zeros(masses.size)
    has_edges = np.diff(indptr) > 0
    if weights.size:
        degrees[has_edges] = np.add.reduceat(weights, indptr[:-1][has_edges])
    arrays = (indptr, indices, weights, rating, degrees, masses, is_fixed)
    for array in arrays:
        array.setflags(write=False)
    return Level(*arrays)


@compiled
def _shared_neighbor_rating(indptr: Array, indices: Array, weights: Array) -> Array:
    n = indptr.size - 1
    rating = np.empty(indices.size, np.float64)
    mark = np.full(n, -1, np.int64)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            mark[indices[e]] = i
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            shared = 0
            for f in range(indptr[j], indptr[j + 1]):
                if mark[indices[f]] == i:
                    shared += 1
            rating[e] = weights[e] * (0.1 + shared)
    return rating


@compiled
def _match(level: Any, groups: Array, order: Array, heaviest: float) -> tuple[Array, int]:
    """Pair each vertex, in this order, with the unpaired neighbour of its group that rates highest per mass."""
    n = level.masses.size
    mate = np.full(n, -1, np.int64)
    for i in order:
        if mate[i] >= 0:
            continue
        best, score = i, 0.0
        for e in range(level.indptr[i], level.indptr[i + 1]):
            j = level.indices[e]
            if mate[j] < 0 and groups[j] == groups[i] and level.masses[i] + level.masses[j] <= heaviest:
                rating = level.rating[e] / (level.masses[i] * level.masses[j])
                if rating > score:
                    best, score = j, rating
        mate[i] = best
        mate[best] = i
    parent = np.full(n, -1, np.int64)
    n_coarse = 0
    for i in range(n):
        if parent[i] < 0:
            parent[i] = n_coarse
            parent[mate[i]] = n_coarse
            n_coarse += 1
    return parent, n_coarse


@compiled
def _contract(level: Any, parent: Array, n_coarse: int) -> Any:
    """The level whose vertices are the parents; parallel edges are summed, loops dropped."""
    n = parent.size
    first = np.zeros(n_coarse + 1, np.int64)
    for i in range(n):
        first[parent[i] + 1] += 1
    for c in range(n_coarse):
        first[c + 1] += first[c]
    members = np.empty(n, np.int64)
    fill = first[:-1].copy()
    masses = np.zeros(n_coarse)
    is_fixed = np.zeros(n_coarse, np.bool_)
    for i in range(n):
        c = parent[i]
        members[fill[c]] = i
        fill[c] += 1
        masses[c] += level.masses[i]
        is_fixed[c] = is_fixed[c] or level.is_fixed[i]
    indptr = np.zeros(n_coarse + 1, np.int64)
    indices = np.empty_like(level.indices)
    weights = np.empty(level.weights.size)
    rating = np.empty(level.weights.size)
    seen = np.full(n_coarse, -1, np.int64)
    end = 0
    for c in range(n_coarse):
        begin = end
        for m in range(first[c], first[c + 1]):
            i = members[m]
            for e in range(level.indptr[i], level.indptr[i + 1]):
                t = parent[level.indices[e]]
                if t == c:
                    continue
                if seen[t] >= begin:
                    weights[seen[t]] += level.weights[e]
                    rating[seen[t]] += level.rating[e]
                else:
                    seen[t] = end
                    indices[end], weights[end], rating[end] = t, level.weights[e], level.rating[e]
                    end += 1
        indptr[c + 1] = end
    return indptr, indices[:end].copy(), weights[:end].copy(), rating[:end].copy(), masses, is_fixed


@compiled
def _between(level: Any, labels: Array, n_clusters: int) -> Array:
    between = np.zeros((n_clusters, n_clusters))
    for i in range(labels.size):
        for e in range(level.indptr[i], level.indptr[i + 1]):
            between[labels[i], labels[level.indices[e]]] += level.weights[e]
    for r in range(n_clusters):
        between[r, r] = 0.0
    return between


@compiled
def _induced(level: Any, members: Array, place: Array) -> Any:
    indptr = np.zeros(members.size + 1, np.int64)
    end = 0
    for k in range(members.size):
        for e in range(level.indptr[members[k]], level.indptr[members[k] + 1]):
            end += place[level.indices[e]] >= 0
        indptr[k + 1] = end
    indices = np.empty(end, level.indices.dtype)
    weights, rating = np.empty(end), np.empty(end)
    at = 0
    for k in range(members.size):
        for e in range(level.indptr[members[k]], level.indptr[members[k] + 1]):
            t = place[level.indices[e]]
            if t >= 0:
                indices[at], weights[at], rating[at] = t, level.weights[e], level.rating[e]
                at += 1
    return indptr, indices, weights, rating


@compiled
def _smoothed(level: Any, noise: Array, steps: int) -> Array:
    """The noise after so many steps of a lazy random walk, its mean removed: along the edges it changes little."""
    n = noise.size
    x, y = noise.copy(), np.empty(n)
    volume = level.degrees.sum()
    for _ in range(steps):
        mean = 0.0
        for i in range(n):
            total = 0.0
            for e in range(level.indptr[i], level.indptr[i + 1]):
                total += level.weights[e] * x[level.indices[e]]
            y[i] = 0.5 * (x[i] + total / level.degrees[i]) if level.degrees[i] > 0 else x[i]
            mean += level.degrees[i] * y[i]
        mean /= volume if volume > 0 else 1.0
        largest = 0.0
        for i in range(n):
            x[i] = y[i] - mean
            largest = max(largest, abs(x[i]))
        for i in range(n):
            x[i] /= largest if largest > 0 else 1.0
    return x


@compiled
def _lowest_cut(level: Any, order: Array, smallest: float) -> int:
    """How many vertices of this order to cut off, so that the cut is lowest for the mass of its smaller side.

    That side has at least this share of the mass, if there is such a place; else the cut is in the middle.
    """
    n = order.size
    is_before = np.zeros(n, np.bool_)
    whole, mass, cut = level.masses.sum(), 0.0, 0.0
    place, lowest = n // 2, np.inf
    for k in range(n - 1):
        i = order[k]
        for e in range(level.indptr[i], level.indptr[i + 1]):
            cut += -level.weights[e] if is_before[level.indices[e]] else level.weights[e]
        is_before[i] = True
        mass += level.masses[i]
        smaller = min(mass, whole - mass)
        if smaller >= smallest * whole and cut < lowest * smaller:
            place, lowest = k + 1, cut / smaller
    return place


@compiled
def _term(cut: float, size: float, lam: float, n: float, plateau: float) -> float:
    """Cut / min{λ|A|, |Aᶜ|, plateau · largest}, the term of (P) where plateau is 1."""
    balance = min(min(lam * size, n - size), plateau * n * lam / (1.0 + lam))
    return cut / balance if balance > 0 else np.inf


@compiled
def _sweep(
    level: Any, labels: Array, sizes: Array, cut: Array, lam: Array, smallest: Array, plateau: float, max_sweeps: int
) -> None:
    """Sweeps over the vertices, each moved to the cluster that lowers (P) most; a move changes two terms only.

    After the first sweep only vertices beside one that moved are looked at again; when none of them moves, all of the
    boundary is, once more. Overwrites labels, sizes and cut.
    """
    n_vertices = labels.size
    n = sizes.sum()
    towards = np.zeros(lam.size)  # weight from the vertex at hand to each cluster
    touched = np.empty(lam.size, np.int64)
    is_active = np.ones(n_vertices, np.bool_)
    for i in range(n_vertices):
        for e in range(level.indptr[i], level.indptr[i + 1]):
            if labels[level.indices[e]] != labels[i]:
                cut[labels[i]] += level.weights[e]
    is_full = True
    for _ in range(max_sweeps):
        n_moves = 0
        for i in range(n_vertices):
            own, mass, degree = labels[i], level.masses[i], level.degrees[i]
            if not is_active[i] or level.is_fixed[i]:
                continue
            is_active[i] = False
            if sizes[own] - mass < smallest[own]:
                continue
            n_touched = 0
            for e in range(level.indptr[i], level.indptr[i + 1]):
                r = labels[level.indices[e]]
                if towards[r] == 0.0:
                    touched[n_touched] = r
                    n_touched += 1
                towards[r] += level.weights[e]
            best = own
            if n_touched > 1 or (n_touched == 1 and touched[0] != own):
                now = _term(cut[own], sizes[own], lam[own], n, plateau)
                left = _term(cut[own] - degree + 2 * towards[own], sizes[own] - mass, lam[own], n, plateau)
                gain = 1e-12 * now
                for t in range(n_touched):
                    r = touched[t]
                    if r != own:
                        was = _term(cut[r], sizes[r], lam[r], n, plateau)
                        joined = _term(cut[r] + degree - 2 * towards[r], sizes[r] + mass, lam[r], n, plateau)
                        if now - left + was - joined > gain:
                            best, gain = r, now - left + was - joined
            if best != own:
                cut[own] += 2 * towards[own] - degree
                cut[best] += degree - 2 * towards[best]
                sizes[own] -= mass
                sizes[best] += mass
                labels[i] = best
                n_moves += 1
                for e in range(level.indptr[i], level.indptr[i + 1]):
                    is_active[level.indices[e]] = True
            for t in range(n_touched):
                towards[touched[t]] = 0.0
        if n_moves == 0:
            if is_full:
                break
            is_active[:] = True
        is_full = n_moves == 0
