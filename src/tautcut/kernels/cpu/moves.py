"""The discrete companion of the fused passes: moves of single vertices on a hard partition, and the seam along which a
cluster is split. Compiled with Numba, free of randomness of their own, and sequential but for what no order changes, so
the same input gives the same answer on any number of threads. What to search for is decided elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.compiling import compiled, inlined
from tautcut.kernels.cpu.sharing import LIGHT, even_shares, share

_MAX_SWEEPS = 20  # (P) falls in every sweep, so a descent ends by itself, but tiny gains could take long
_LONG = 200_000  # directed edges of a level from which on vertices that would stay are passed over (decision 0067)
_WIDE = 1e6  # heaviest by lightest weight, from which on sums are not trusted after weights were taken away
_LEAST_GAIN = 1e-12  # of its cluster's term: what a move gains less is rounding, and could move a vertex to and fro
SMOOTHINGS = 100  # steps of the random walk with which a bisection smooths noise (decision 0012)
SMALLEST_SIDES = (0.1, 0.3)  # share of the mass that its smaller side has at least, drawn from here (decision 0012)


class _Clusters(NamedTuple):
    """What the terms of (P) need of a partition; `whole` is the mass of all vertices, `plateau` as in `descend`.

    Compiled code makes it: an argument of this type would be taken apart, slowly, at every call from Python.
    """

    cut: FloatArray
    masses: FloatArray
    lam: FloatArray
    whole: float
    plateau: float


def descend(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *, plateau: float = 1.0
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Move single vertices while that lowers (P); labels, cuts and masses where no move does.

    `plateau` < 1 caps every denominator at that fraction of its largest value: near the balanced size, where (P) has
    a kink that pins sizes, vertices can then change places. Fixed vertices stay; no cluster shrinks below `smallest`.
    """
    moved = np.array(labels, dtype=np.int64)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    bounds = (lam, smallest, float(plateau))
    if level.indices.size < _LONG:
        descend_alone(level, moved, cut, masses, *bounds, is_wide(level))
        return moved, cut, masses
    is_border, is_afresh = border(level, moved), is_wide(level)
    _add_up_border(level, moved, cut, masses, is_border)
    n_left, n_moves = _MAX_SWEEPS, 1
    while n_moves and n_left:
        is_active = is_border.copy()
        share(_look_ahead, _light_shares(level), level, moved, is_active, cut, masses, *bounds)
        n_left, n_moves = _sweep_active(level, moved, is_border, is_active, cut, masses, *bounds, is_afresh, n_left)
    _add_up_border(level, moved, cut, masses, is_border)
    return moved, cut, masses


def descend_part(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """`descend` on a part of a graph, given the cuts and masses of the whole graph's clusters; what they become.

    Vertices of other parts, which the level has without edges, are fixed: no cut changes but by what moves here.
    """
    moved, cut, masses = np.array(labels, dtype=np.int64), cut.copy(), masses.copy()
    _sweep_part(level, moved, border(level, moved), cut, masses, lam, smallest)
    return moved, cut, masses


def border(level: Level, labels: IntArray) -> BoolArray:
    """The vertices that have a neighbour in another cluster."""
    is_border = np.empty(labels.size, dtype=np.bool_)
    share(_mark_border, _light_shares(level), level.indptr, level.indices, labels, is_border)
    return is_border


def _light_shares(level: Level) -> IntArray:
    return even_shares(level.indptr, lightness=LIGHT)


def settle(graph: Graph, labels: IntArray, pull: FloatArray, is_fixed: BoolArray) -> IntArray:
    """Move single vertices to the cluster that holds them most, by the weight of their edges into it and its `pull`.

    Each move lowers Σ_r Cut(A_r) plus the pull that vertices forgo, which ends the descent. `pull` has shape
    (n_vertices, n_clusters); fixed vertices stay.
    """
    moved = np.array(labels, dtype=np.int64)
    _settle(graph.indptr, graph.indices, graph.weights, moved, np.ascontiguousarray(pull, dtype=np.float64), is_fixed)
    return moved


def bisect(level: Level, *, rng: np.random.Generator) -> BoolArray:
    """The vertices on one side of a seam; neither side is empty if there are two vertices.

    A random walk smooths noise along the edges, and the order that this gives is cut where the cut is lowest for the
    mass of the smaller side.
    """
    smallest = rng.uniform(*SMALLEST_SIDES)
    x = smoothed(level, rng.standard_normal(level.n_vertices), SMOOTHINGS)
    order = np.argsort(x, kind="stable")
    is_before = np.zeros(level.n_vertices, dtype=np.bool_)
    is_before[order[: lowest_cut(level, order, smallest)]] = True
    return is_before


@compiled
def _settle(
    indptr: IntArray, indices: Array, weights: FloatArray, labels: IntArray, pull: FloatArray, is_fixed: BoolArray
) -> None:
    hold = np.empty(pull.shape[1])
    for _ in range(_MAX_SWEEPS):
        has_moved = False
        for i in range(labels.size):
            if is_fixed[i]:
                continue
            hold[:] = pull[i]
            for e in range(indptr[i], indptr[i + 1]):
                hold[labels[indices[e]]] += weights[e]
            best = labels[i]
            least = hold[best] * (1 + _LEAST_GAIN)
            for r in range(hold.size):
                if hold[r] > least:
                    best, least = r, hold[r]
            if best != labels[i]:
                labels[i] = best
                has_moved = True
        if not has_moved:
            break


@compiled
def smoothed(level: Level, noise: FloatArray, steps: int) -> FloatArray:
    """The noise after so many steps of a random walk: it tends to the slowest modes, which change little along edges.

    The walk stays where it is every other time, or it would alternate on a bipartite graph. Its constant mode, the
    mean over the degrees, is removed, and the largest value kept at 1, so that nothing fades to zero.
    """
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
def lowest_cut(level: Level, order: IntArray, smallest: float) -> int:
    """How many vertices of this order to cut off, so that the cut is lowest for the mass of its smaller side.

    That side has at least this share of the mass, if there is such a place; else the cut is in the middle.
    """
    n = order.size
    is_before = np.zeros(n, np.bool_)
    whole, mass, cut = level.masses.sum(), 0.0, 0.0
    place, lowest = n // 2, np.inf
    for k in range(n - 1):  # vertex by vertex to the first side: its edges to that side leave the cut, the others join
        i = order[k]
        for e in range(level.indptr[i], level.indptr[i + 1]):
            cut += -level.weights[e] if is_before[level.indices[e]] else level.weights[e]
        cut = max(cut, 0.0)  # what is taken away leaves rounding
        is_before[i] = True
        mass += level.masses[i]
        smaller = min(mass, whole - mass)
        if smaller >= smallest * whole and cut < lowest * smaller:
            place, lowest = k + 1, cut / smaller
    return place


@compiled
def is_wide(level: Level) -> bool:
    """Whether weights or masses differ so much that sums from which heavy ones are taken say nothing of light ones."""
    for values in (level.weights, level.masses):
        lightest, heaviest = np.inf, 0.0
        for value in values:
            lightest, heaviest = min(lightest, value), max(heaviest, value)
        if heaviest > _WIDE * lightest:
            return True
    return False


@compiled
def add_up(level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray) -> None:
    """Overwrite `cut` with the weight of the edges that leave each cluster, and `masses` with the clusters' own."""
    _add_up_border(level, labels, cut, masses, np.ones(labels.size, np.bool_))


@compiled
def _add_up_border(level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, is_border: BoolArray) -> None:
    """The same, where all vertices that have a neighbour in another cluster are known to be among `is_border`."""
    cut[:], masses[:] = 0.0, 0.0
    for i in range(labels.size):
        masses[labels[i]] += level.masses[i]
        if is_border[i]:
            for e in range(level.indptr[i], level.indptr[i + 1]):
                if labels[level.indices[e]] != labels[i]:
                    cut[labels[i]] += level.weights[e]


@compiled
def _mark_border(
    first: int, last: int, indptr: IntArray, indices: Array, labels: IntArray, is_border: BoolArray
) -> None:  # fmt: skip
    """Mark the vertices that have a neighbour in another cluster: no other can move, nor adds to a cut."""
    for i in range(first, last):
        own = labels[i]
        is_border[i] = False
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] != own:
                is_border[i] = True
                break


@compiled
def descend_alone(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray,
    plateau: float, is_afresh: bool,
) -> None:  # fmt: skip
    """`descend` on one thread, and for compiled code. Overwrites labels, cut and masses."""
    is_border = np.empty(labels.size, np.bool_)
    _mark_border(0, labels.size, level.indptr, level.indices, labels, is_border)
    _sweep(level, labels, is_border, cut, masses, lam, smallest, plateau, is_afresh)


@compiled
def _look_ahead(
    first: int, last: int, level: Level, labels: IntArray, is_active: BoolArray, cut: FloatArray, masses: FloatArray,
    lam: FloatArray, smallest: FloatArray, plateau: float,
) -> None:  # fmt: skip
    """Let those of the vertices [first, last) rest that would stay in their clusters as things are.

    It overwrites their `is_active` and nothing else, so that several threads may look at the same time. Most of a
    border rests; what a sweep then does one vertex after the other is little more than the moves.
    """
    clusters = _Clusters(cut, masses, lam, masses.sum(), plateau)
    towards, touched = np.zeros(cut.size), np.empty(cut.size, np.int64)
    for i in range(first, last):
        own = labels[i]
        if not is_active[i] or level.is_fixed[i] or masses[own] - level.masses[i] < smallest[own]:
            is_active[i] = False
            continue
        n_touched = _gather(level, labels, i, towards, touched)
        is_active[i] = _best_move(level, clusters, i, own, towards, touched, n_touched) != own
        for t in range(n_touched):
            towards[touched[t]] = 0.0


@compiled
def _sweep_active(
    level: Level, labels: IntArray, is_border: BoolArray, is_active: BoolArray, cut: FloatArray, masses: FloatArray,
    lam: FloatArray, smallest: FloatArray, plateau: float, is_afresh: bool, n_left: int,
) -> tuple[int, int]:  # fmt: skip
    """`_move_active` for Python, which cannot make the record of clusters."""
    clusters = _Clusters(cut, masses, lam, masses.sum(), plateau)
    left_and_moves: tuple[int, int] = _move_active(
        level, labels, is_border, is_active, clusters, smallest, is_afresh, n_left
    )
    return left_and_moves


@compiled
def _sweep(
    level: Level, labels: IntArray, is_border: BoolArray, cut: FloatArray, masses: FloatArray, lam: FloatArray,
    smallest: FloatArray, plateau: float, is_afresh: bool,
) -> None:  # fmt: skip
    """Sweeps over the vertices, each moved to the cluster that lowers (P) most. Overwrites labels, cut and masses.

    `is_border` has all vertices with a neighbour in another cluster; those that come to have one are added.

    After the first sweep only the neighbours of moved vertices are looked at again: most others would stay. But a move
    also changes the terms of its two clusters, for all their vertices, so when no neighbour moves, the whole border is
    looked at once more; a descent ends with such a sweep in which nothing moved. Sums are made anew at the end, and
    with `is_afresh` after each sweep: a heavy edge that left a cut takes the digits of light ones with it.
    """
    _add_up_border(level, labels, cut, masses, is_border)
    clusters = _Clusters(cut, masses, lam, masses.sum(), plateau)
    _move_vertices(level, labels, is_border, clusters, smallest, is_afresh)
    _add_up_border(level, labels, cut, masses, is_border)


@compiled
def _sweep_part(
    level: Level, labels: IntArray, is_border: BoolArray, cut: FloatArray, masses: FloatArray, lam: FloatArray,
    smallest: FloatArray,
) -> None:  # fmt: skip
    """The same on a part of a graph, where cuts and masses are those of the whole."""
    _move_vertices(level, labels, is_border, _Clusters(cut, masses, lam, masses.sum(), 1.0), smallest, False)


@compiled
def _move_vertices(
    level: Level, labels: IntArray, is_border: BoolArray, clusters: _Clusters, smallest: FloatArray, is_afresh: bool
) -> None:
    """The sweeps of `_sweep`: overwrites labels, and the cuts and masses of the clusters by what moves change them."""
    n_left: Any = np.int64(_MAX_SWEEPS)  # for a bare number, `_move_active` would be compiled once more
    n_moves = 1
    while n_moves > 0 and n_left > 0:
        is_active = is_border.copy()
        n_left, n_moves = _move_active(level, labels, is_border, is_active, clusters, smallest, is_afresh, n_left)


@compiled
def _move_active(
    level: Level, labels: IntArray, is_border: BoolArray, is_active: BoolArray, clusters: _Clusters,
    smallest: FloatArray, is_afresh: bool, n_left: int,
) -> tuple[int, int]:  # fmt: skip
    """Sweeps over active vertices, at most `n_left`, until one in which nothing moves; how many are left then, and how
    many vertices moved. Overwrites what `_move_vertices` does.
    """
    cut, masses = clusters.cut, clusters.masses
    towards = np.zeros(cut.size)  # weight from the vertex at hand to each cluster
    touched = np.empty(cut.size, np.int64)  # the clusters where it is not zero
    n_moved = 0
    while n_left > 0:
        n_left -= 1
        n_moves = 0
        for i in range(labels.size):
            if not is_active[i] or level.is_fixed[i]:
                continue
            is_active[i] = False
            own = labels[i]
            if masses[own] - level.masses[i] < smallest[own]:
                continue
            n_touched = _gather(level, labels, i, towards, touched)
            if n_touched > 1 or (n_touched == 1 and touched[0] != own):  # else all its neighbours are in its cluster
                best = _best_move(level, clusters, i, own, towards, touched, n_touched)
                if best != own:
                    _move(level, clusters, i, own, best, towards)
                    labels[i] = best
                    n_moves += 1
                    for e in range(level.indptr[i], level.indptr[i + 1]):
                        is_active[level.indices[e]] = is_border[level.indices[e]] = True
            for t in range(n_touched):
                towards[touched[t]] = 0.0
        if n_moves == 0:
            break
        n_moved += n_moves
        if is_afresh:
            _add_up_border(level, labels, cut, masses, is_border)
    return n_left, n_moved


@inlined
def _gather(level: Level, labels: IntArray, i: int, towards: FloatArray, touched: IntArray) -> int:
    """Add up the weights from vertex i `towards` each cluster, list those `touched`; returns how many there are."""
    n_touched = 0 * i  # not a bare 0: as in `_move_vertices`
    for e in range(level.indptr[i], level.indptr[i + 1]):
        r = labels[level.indices[e]]
        if towards[r] == 0.0:
            touched[n_touched] = r
            n_touched += 1
        towards[r] += level.weights[e]
    return n_touched


@compiled
def _best_move(
    level: Level, clusters: _Clusters, i: int, own: int, towards: FloatArray, touched: IntArray, n_touched: int
) -> int:
    """The touched cluster that vertex i lowers (P) most by joining, or `own`; a move changes two terms of (P)."""
    mass, degree = level.masses[i], level.degrees[i]
    cut, masses = clusters.cut, clusters.masses
    now = _term(clusters, own, cut[own], masses[own])
    left = _term(clusters, own, cut[own] - degree + 2 * towards[own], masses[own] - mass)
    best, gain = own, _LEAST_GAIN * now
    for t in range(n_touched):
        r = touched[t]
        if r != own:
            was = _term(clusters, r, cut[r], masses[r])
            joined = _term(clusters, r, cut[r] + degree - 2 * towards[r], masses[r] + mass)
            if now - left + was - joined > gain:
                best, gain = r, now - left + was - joined
    return best


@inlined
def _term(clusters: _Clusters, r: int, cut: float, mass: float) -> float:
    """Cut / min{λ m(A), m(Aᶜ), plateau · largest} of cluster r with this cut and mass: a term of (P) at plateau 1."""
    whole, lam = clusters.whole, clusters.lam[r]
    balance = min(min(lam * mass, whole - mass), clusters.plateau * whole * lam / (1.0 + lam))
    return cut / balance if balance > 0 else np.inf


@compiled
def _move(level: Level, clusters: _Clusters, i: int, own: int, best: int, towards: FloatArray) -> None:
    """Book the move of vertex i: edges into its old cluster join the cuts, edges into the new one leave them."""
    mass, degree = level.masses[i], level.degrees[i]
    clusters.cut[own] += 2 * towards[own] - degree
    clusters.cut[best] += degree - 2 * towards[best]
    clusters.masses[own] -= mass
    clusters.masses[best] += mass
