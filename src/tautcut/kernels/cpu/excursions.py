"""Excursions of small groups on a hard partition: vertices follow each other from one cluster to a neighbouring one,
at first even if that raises (P), and those behind the lowest (P) on the way go back. So pockets change place whose
vertices would not move alone. Compiled with Numba, free of randomness, and sequential but for what no order changes, so
the same input gives the same answer on any number of threads. What to search for is decided elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.compiling import absorbed, compiled
from tautcut.kernels.cpu.moves import add_up, border, is_wide
from tautcut.kernels.cpu.sharing import even_shares, share

_CLIMB = 40.0  # edges of mean weight: where what they add to (P) when they are cut is lost, an excursion ends
_LONGEST = 300  # vertices of an excursion,
_PATIENCE = 60  # and so many in a row that find no lower (P)
_BESIDE = 1000  # vertices that wait to follow, at most,
_HUB = 1000  # neighbours: a vertex with more of them stays where it is, as it would be looked at from each of them
_MOST_SWEEPS = 10  # over the vertices beside which something has moved
_WORK_OF_EDGE = 400  # looks at edges and at waiting vertices, for each directed edge, that all may take together
_LEAST_GAIN = 1e-9  # of the two terms: what an excursion gains less is rounding


class _Clusters(NamedTuple):
    """What the terms of (P) need of a partition, and what bounds an excursion; compiled code makes it."""

    cut: FloatArray
    masses: FloatArray
    lam: FloatArray
    smallest: FloatArray
    whole: float  # the mass of all vertices
    climb: float  # `_CLIMB` edges, as weight
    most: int  # looks that an excursion may take


class _Room(NamedTuple):
    """What an excursion needs beside the partition; compiled code makes it."""

    place: IntArray  # where each vertex waits, −1 if it does not
    waiting: IntArray  # vertices that may follow,
    inside: FloatArray  # the weight from each to the cluster that it would leave,
    ahead: FloatArray  # and to the one that it would join
    trail: IntArray  # vertices that have moved
    towards: FloatArray  # of each cluster, zero between two uses


def excursions(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The partition after excursions that lower (P), from each vertex of a border; labels, cuts and masses.

    Sizes and fixed vertices are kept as in `moves.descend`. Where weights differ so much that sums of them cannot be
    trusted, none begins.
    """
    moved = np.array(labels, dtype=np.int64)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    add_up(level, moved, cut, masses)
    is_border = border(level, moved)
    may_move = ~level.is_fixed & (np.diff(level.indptr) <= _HUB)
    is_active = is_border & may_move
    n_active = int(is_active.sum())
    if n_active and not is_wide(level):
        climb, most = _CLIMB * float(level.weights.mean()), _WORK_OF_EDGE * level.indices.size // n_active
        bounds = (cut, masses, lam, smallest, climb, most)
        n_places = even_shares(level.indptr).size
        places = np.searchsorted(np.cumsum(is_active), np.linspace(0, n_active, n_places))
        places[-1] = moved.size
        share(_look_out, places, level, moved, may_move, is_border, is_active, *bounds)
        _excursions(level, moved, may_move, is_border, is_active, *bounds)
        add_up(level, moved, cut, masses)
    return moved, cut, masses


@compiled
def _look_out(
    first: int, last: int, level: Level, labels: IntArray, may_move: BoolArray, is_border: BoolArray,
    is_active: BoolArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray, climb: float,
    most: int,
) -> None:  # fmt: skip
    """Let those of the vertices [first, last) rest from which no excursion would lower (P) as things are.

    It overwrites their `is_active` and nothing else, so that several threads may look at the same time.
    """
    clusters, room = _Clusters(cut, masses, lam, smallest, masses.sum(), climb, most), _room(labels.size, lam.size)
    own_labels = labels.copy()
    for seed in range(first, last):
        if is_active[seed]:
            is_active[seed] = _excursion(level, own_labels, clusters, seed, may_move, is_border, room, False) > 0


@compiled
def _excursions(
    level: Level, labels: IntArray, may_move: BoolArray, is_border: BoolArray, is_active: BoolArray, cut: FloatArray,
    masses: FloatArray, lam: FloatArray, smallest: FloatArray, climb: float, most: int,
) -> None:  # fmt: skip
    """Excursions from active vertices, and from those beside what they have moved. Overwrites all arrays but bounds."""
    clusters, room = _Clusters(cut, masses, lam, smallest, masses.sum(), climb, most), _room(labels.size, lam.size)
    for _ in range(_MOST_SWEEPS):
        has_gained = False
        for seed in range(labels.size):
            if not is_active[seed] or not may_move[seed]:
                continue
            is_active[seed] = False
            n_kept = _excursion(level, labels, clusters, seed, may_move, is_border, room, True)
            has_gained |= n_kept > 0
            for k in range(n_kept):
                for e in range(level.indptr[room.trail[k]], level.indptr[room.trail[k] + 1]):
                    is_border[level.indices[e]] = is_active[level.indices[e]] = True
        if not has_gained:
            return


@compiled
def _room(n_vertices: int, n_clusters: int) -> _Room:
    return _Room(
        np.full(n_vertices, -1, np.int64), np.empty(_BESIDE, np.int64), np.empty(_BESIDE), np.empty(_BESIDE),
        np.empty(_LONGEST, np.int64), np.zeros(n_clusters),
    )  # fmt: skip


@absorbed
def _nearest_other(level: Level, labels: IntArray, i: int, towards: FloatArray) -> Any:
    """The other cluster that vertex i has most weight to, or its own; `towards` is zero before and after."""
    own = labels[i]
    best, most = own, 0.0
    for e in range(level.indptr[i], level.indptr[i + 1]):
        r = labels[level.indices[e]]
        if r != own:
            towards[r] += level.weights[e]
            if towards[r] > most:
                best, most = r, towards[r]
    for e in range(level.indptr[i], level.indptr[i + 1]):
        towards[labels[level.indices[e]]] = 0.0
    return best


@absorbed
def _excursion(
    level: Level, labels: IntArray, clusters: _Clusters, seed: int, may_move: BoolArray, is_border: BoolArray,
    room: _Room, stays: bool,
) -> Any:  # fmt: skip
    """One excursion that `seed` begins, to the other cluster that it has most weight to.

    Returns how many vertices of the trail lower (P) most; they stay, and are booked, if it `stays`.
    """
    cut, masses, lam, smallest, whole, climb, most = clusters
    a, b = labels[seed], _nearest_other(level, labels, seed, room.towards)
    cut_a, cut_b, mass_a, mass_b = cut[a], cut[b], masses[a], masses[b]
    balance_a, balance_b = _balance(lam[a], mass_a, whole), _balance(lam[b], mass_b, whole)
    if a == b or min(balance_a, balance_b) <= 0:
        return 0
    before = cut_a / balance_a + cut_b / balance_b
    # Who follows is decided by what (P) would change by if both denominators changed little.
    of_degree = 1.0 / balance_b - 1.0 / balance_a
    of_mass = _slope(lam[b], cut_b, mass_b, whole) - _slope(lam[a], cut_a, mass_a, whole)
    highest = climb * (1.0 / balance_a + 1.0 / balance_b)
    n_trail, n_kept, lowest = 0, 0, -_LEAST_GAIN * before
    room.inside[0], room.ahead[0] = _held(level, labels, seed, a, b)
    room.place[seed], room.waiting[0], n_waiting = 0, seed, 1
    while n_waiting > 0 and n_trail < _LONGEST and n_trail - n_kept < _PATIENCE and most > 0:
        best, least = 0, np.inf
        for k in range(n_waiting):
            j = room.waiting[k]
            of_edges = 2.0 * (room.inside[k] / balance_a - room.ahead[k] / balance_b)
            change = of_edges + of_degree * level.degrees[j] + of_mass * level.masses[j]
            if change < least:
                best, least = k, change
        j, to_a, to_b = room.waiting[best], room.inside[best], room.ahead[best]
        n_waiting = _leave(room, best, n_waiting)
        most -= n_waiting + 1
        if mass_a - level.masses[j] < smallest[a]:
            continue
        labels[j], room.trail[n_trail] = b, j
        n_trail += 1
        cut_a += 2.0 * to_a - level.degrees[j]
        cut_b += level.degrees[j] - 2.0 * to_b
        mass_a -= level.masses[j]
        mass_b += level.masses[j]
        left, joined = _balance(lam[a], mass_a, whole), _balance(lam[b], mass_b, whole)
        if min(left, joined) <= 0:
            break
        change = cut_a / left + cut_b / joined - before
        if change > highest:
            break
        if change < lowest:
            lowest, n_kept = change, n_trail
            if stays:
                cut[a], cut[b], masses[a], masses[b] = cut_a, cut_b, mass_a, mass_b
        most -= level.indptr[j + 1] - level.indptr[j]
        for e in range(level.indptr[j], level.indptr[j + 1]):
            i, w = level.indices[e], level.weights[e]
            if labels[i] != a or not may_move[i]:
                continue
            if room.place[i] >= 0:
                room.inside[room.place[i]] -= w
                room.ahead[room.place[i]] += w
            elif n_waiting < _BESIDE:
                to_a, to_b = level.degrees[i] - w, w
                if is_border[i]:
                    to_a, to_b = _held(level, labels, i, a, b)
                    most -= level.indptr[i + 1] - level.indptr[i]
                room.place[i], room.waiting[n_waiting] = n_waiting, i
                room.inside[n_waiting], room.ahead[n_waiting] = to_a, to_b
                n_waiting += 1
    for k in range(n_waiting):
        room.place[room.waiting[k]] = -1
    for k in range(n_kept if stays else 0, n_trail):
        labels[room.trail[k]] = a
    return n_kept


@absorbed
def _leave(room: _Room, k: int, n_waiting: int) -> Any:
    """Let the k-th no longer wait: the last takes its place; how many still wait."""
    last = n_waiting - 1
    i = room.waiting[last]
    room.place[room.waiting[k]] = -1
    room.waiting[k], room.inside[k], room.ahead[k] = i, room.inside[last], room.ahead[last]
    if k != last:
        room.place[i] = k
    return last


@absorbed
def _held(level: Level, labels: IntArray, i: int, a: int, b: int) -> Any:
    """The weight from vertex i to clusters a and b."""
    to_a, to_b = 0.0, 0.0
    for e in range(level.indptr[i], level.indptr[i + 1]):
        r = labels[level.indices[e]]
        if r == a:
            to_a += level.weights[e]
        elif r == b:
            to_b += level.weights[e]
    return to_a, to_b


@absorbed
def _balance(lam: float, mass: float, whole: float) -> Any:
    """The denominator of a cluster's term of (P)."""
    return min(lam * mass, whole - mass)


@absorbed
def _slope(lam: float, cut: float, mass: float, whole: float) -> Any:
    """What a unit of mass adds to a term: less than nothing below the balance, more beyond it."""
    if lam * mass < whole - mass:
        return -cut / (lam * mass) / mass
    return cut / (whole - mass) / (whole - mass)
