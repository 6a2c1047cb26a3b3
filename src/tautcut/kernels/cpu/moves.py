"""The discrete companion of the fused passes: single-vertex moves on a hard partition, and the coarsening that lets
whole groups of vertices move at once. Compiled with Numba, free of randomness of their own, and sequential but for
what no order changes, so the same input gives the same answer on any number of threads. What to search for is decided
elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled, inlined
from tautcut.kernels.cpu.sharing import even_shares, share

_MAX_SWEEPS = 20  # (P) falls in every sweep, so a descent ends by itself, but tiny gains could take long
_WIDE = 1e6  # heaviest by lightest weight, from which on sums are not trusted after weights were taken away
_LEAST_GAIN = 1e-12  # of its cluster's term: what a move gains less is rounding, and could move a vertex to and fro
_UNSHARED = 0.1  # added to the neighbours that two ends share, so that an edge whose ends share none has a rating too
_MOST_LOOKS = 256  # at neighbours of one vertex, of which others share some: beyond, they are counted on a sample
_MOST_ALONE = 0.6  # of the vertices left without a mate by a matching; graphs without hubs leave less than half
_SMOOTHINGS = 100  # steps of the random walk with which a bisection smooths noise (decision 0012)
_SMALLEST_SIDES = (0.1, 0.3)  # share of the mass that its smaller side has at least, drawn from here (decision 0012)


class Level(NamedTuple):
    """A graph on which a partition is searched: the graph itself, or a coarsening of it. CSR arrays, all read-only.

    `masses` adds up those of the original vertices in each; `rating` says how much an edge deserves to be contracted.
    """

    indptr: IntArray
    indices: Array
    weights: FloatArray
    rating: FloatArray
    degrees: FloatArray
    masses: FloatArray
    is_fixed: BoolArray

    @property
    def n_vertices(self) -> int:
        return int(self.masses.size)


class _Clusters(NamedTuple):
    """What the terms of (P) need of a partition; `whole` is the mass of all vertices, `plateau` as in `descend`.

    Compiled code makes it: an argument of this type would be taken apart, slowly, at every call from Python.
    """

    cut: FloatArray
    masses: FloatArray
    lam: FloatArray
    whole: float
    plateau: float


def finest_level(graph: Graph, is_fixed: BoolArray) -> Level:
    """The graph itself. An edge's rating grows with the neighbours its ends share: such edges lie inside clusters."""
    rating = np.empty(graph.indices.size)
    places = even_shares(graph.indptr)
    share(_rate_by_shared_neighbors, places, graph.indptr, graph.indices, graph.weights, rating)
    return _level(graph.indptr, graph.indices, graph.weights, rating, graph.masses, is_fixed)


def plain_level(graph: Graph) -> Level:
    """The graph itself, with edges rated by their weights alone, and no vertex fixed: for a quick coarsening."""
    is_fixed = np.zeros(graph.n_vertices, dtype=np.bool_)
    return _level(graph.indptr, graph.indices, graph.weights, graph.weights, graph.masses, is_fixed)


def contract_matching(
    level: Level, groups: IntArray, *, heaviest: float, rng: np.random.Generator
) -> tuple[Level, IntArray]:
    """Contract a matching of well-rated edges inside `groups`; the coarse level, and each vertex's place in it."""
    order = rng.permutation(level.n_vertices)
    return _contracted(level, *_match(level, groups, order, heaviest))


def contract_pieces(level: Level, groups: IntArray) -> tuple[Level, IntArray]:
    """Contract every connected piece of each group; the coarse level, and each vertex's place in it."""
    return _contracted(level, *_pieces(level, groups))


def _contracted(level: Level, parent: IntArray, n_coarse: int) -> tuple[Level, IntArray]:
    """The level with the vertices of each parent made one: parallel edges are summed, loops dropped."""
    first, members, room = _by_parent(level.indptr, parent, n_coarse)
    merged = (np.empty_like(level.indices), np.empty(level.weights.size), np.empty(level.weights.size))
    counts, degrees = np.empty(n_coarse, np.int64), np.empty(n_coarse)
    places = even_shares(room)
    edges = (level.indptr, level.indices, level.weights, level.rating)
    share(_merge_edges, places, *edges, parent, first, members, room, *merged, counts, degrees)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    for array in merged:
        _close_ranks(array, places, room, indptr)
        array.resize(int(indptr[-1]), refcheck=False)  # in its place: fresh memory would cost more than the merging
    masses = np.bincount(parent, level.masses, n_coarse).astype(np.float64)
    is_fixed = np.bincount(parent[level.is_fixed], minlength=n_coarse) > 0
    return _level(indptr, *merged, masses, is_fixed, degrees), parent


def descend(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *, plateau: float = 1.0
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Move single vertices while that lowers (P); labels, cuts and masses where no move does.

    `plateau` < 1 caps every denominator at that fraction of its largest value: near the balanced size, where (P) has
    a kink that pins sizes, vertices can then change places. Fixed vertices stay; no cluster shrinks below `smallest`.
    """
    moved = np.array(labels, dtype=np.int64)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    is_border = np.empty(moved.size, dtype=np.bool_)
    share(_mark_border, even_shares(level.indptr), level.indptr, level.indices, moved, is_border)
    _sweep(level, moved, is_border, cut, masses, lam, smallest, plateau, is_wide(level))
    return moved, cut, masses


def descend_part(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """`descend` on a part of a graph, given the cuts and masses of the whole graph's clusters; what they become.

    Vertices of other parts, which the level has without edges, are fixed: no cut changes but by what moves here.
    """
    moved, cut, masses = np.array(labels, dtype=np.int64), cut.copy(), masses.copy()
    is_border = np.empty(moved.size, dtype=np.bool_)
    share(_mark_border, even_shares(level.indptr), level.indptr, level.indices, moved, is_border)
    _sweep_part(level, moved, is_border, cut, masses, lam, smallest)
    return moved, cut, masses


def settle(graph: Graph, labels: IntArray, pull: FloatArray, is_fixed: BoolArray) -> IntArray:
    """Move single vertices to the cluster that holds them most, by the weight of their edges into it and its `pull`.

    Each move lowers Σ_r Cut(A_r) plus the pull that vertices forgo, which ends the descent. `pull` has shape
    (n_vertices, n_clusters); fixed vertices stay.
    """
    moved = np.array(labels, dtype=np.int64)
    _settle(graph.indptr, graph.indices, graph.weights, moved, np.ascontiguousarray(pull, dtype=np.float64), is_fixed)
    return moved


def induced(level: Level, members: IntArray) -> Level:
    """The level on `members` alone, renumbered in their order."""
    place = np.full(level.n_vertices, -1, dtype=np.int64)
    place[members] = np.arange(members.size)
    indptr, indices, weights, rating = _induced(level, members, place)
    return _level(indptr, indices, weights, rating, level.masses[members], level.is_fixed[members])


def bisect(level: Level, *, rng: np.random.Generator) -> BoolArray:
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


def _level(
    indptr: IntArray, indices: Array, weights: FloatArray, rating: FloatArray, masses: FloatArray, is_fixed: BoolArray,
    degrees: FloatArray | None = None,
) -> Level:  # fmt: skip
    """A level of read-only arrays, as those of a `Graph` are: Numba compiles once for the graph and its coarsenings."""
    if degrees is None:
        degrees = _row_sums(indptr, weights)
    arrays = (indptr, indices, weights, rating, degrees, masses, is_fixed)
    for array in arrays:
        array.setflags(write=False)
    return Level(*arrays)


@compiled
def _row_sums(indptr: IntArray, values: FloatArray) -> FloatArray:
    """The sum of each row of a CSR matrix."""
    sums = np.zeros(indptr.size - 1)
    for i in range(sums.size):
        for e in range(indptr[i], indptr[i + 1]):
            sums[i] += values[e]
    return sums


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
def _rate_by_shared_neighbors(
    first: int, last: int, indptr: IntArray, indices: Array, weights: FloatArray, rating: FloatArray
) -> None:
    """Rate each edge of these vertices by its weight times the number of neighbours its ends share, a little if none.

    The neighbours of the end that has fewer are looked up, once for both directions, and of two hubs' a sample: so no
    vertex costs more than its edges times a constant. Neighbours must be sorted.
    """
    mark = np.full(indptr.size - 1, -1, indices.dtype)  # mark[j] == i: j is a neighbour of i, the vertex at hand
    for i in range(first, last):
        degree = indptr[i + 1] - indptr[i]
        for e in range(indptr[i], indptr[i + 1]):
            mark[indices[e]] = i
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            begin, count = indptr[j], indptr[j + 1] - indptr[j]
            if count > degree or (count == degree and j > i):  # seen from j
                continue
            n_looks = min(count, _MOST_LOOKS)
            n_found = 0
            for look in range(n_looks):
                if mark[indices[begin + look * count // n_looks]] == i:
                    n_found += 1
            back = begin + np.searchsorted(indices[begin : begin + count], i)
            rating[e] = weights[e] * (_UNSHARED + n_found * (count / n_looks))
            rating[back] = rating[e]


@compiled
def _match(level: Level, groups: IntArray, order: IntArray, heaviest: float) -> tuple[IntArray, int]:
    """Pair each vertex, in this order, with the free neighbour of its group that rates highest per mass.

    Returns the number of each vertex's pair, counted from the first vertex on, and how many there are. A vertex
    without such a neighbour is a pair of its own, unless most are: then strangers are paired.
    """
    mate = np.full(order.size, -1, np.int64)
    n_alone = 0
    for i in order:
        if mate[i] < 0:
            j = _best_mate(level, groups, mate, i, heaviest)
            mate[i] = j
            mate[j] = i
            n_alone += i == j
    if n_alone > _MOST_ALONE * order.size:
        _match_strangers(level, groups, mate, heaviest)
    parent = np.full(order.size, -1, np.int64)
    n_coarse = 0
    for i in range(order.size):
        if parent[i] < 0:
            parent[i] = n_coarse
            parent[mate[i]] = n_coarse
            n_coarse += 1
    return parent, n_coarse


@compiled
def _match_strangers(level: Level, groups: IntArray, mate: IntArray, heaviest: float) -> None:
    """Pair vertices that are alone and share a neighbour, and such as have none; overwrites `mate`.

    A hub has one mate for all its neighbours, and the leaves of a star no other: a matching of edges hardly shrinks it.
    """
    n = mate.size
    waiting = np.empty(groups.max() + 1, np.int64)  # the vertex of each group that waits for a mate at this neighbour
    seen_at = np.full(waiting.size, -1, np.int64)
    for c in range(n):
        for e in range(level.indptr[c], level.indptr[c + 1]):
            j = level.indices[e]
            if mate[j] == j:
                _pair_or_wait(level, mate, waiting, seen_at, j, groups[j], c, heaviest)
    for j in range(n):
        if mate[j] == j and level.indptr[j] == level.indptr[j + 1]:
            _pair_or_wait(level, mate, waiting, seen_at, j, groups[j], n, heaviest)


@compiled
def _pair_or_wait(
    level: Level, mate: IntArray, waiting: IntArray, seen_at: IntArray, j: int, group: int, place: int, heaviest: float
) -> None:
    """Pair j with the vertex of its group that waits at this place, or let it wait there."""
    other = waiting[group]
    if seen_at[group] == place and mate[other] == other and level.masses[other] + level.masses[j] <= heaviest:
        mate[j], mate[other] = other, j
        seen_at[group] = -1
    else:
        waiting[group], seen_at[group] = j, place


@compiled
def _best_mate(level: Level, groups: IntArray, mate: IntArray, i: int, heaviest: float) -> int:
    """The neighbour to pair i with, i itself if there is none. Per mass: or heavy vertices would attract all others."""
    best, score = i, 0.0
    for e in range(level.indptr[i], level.indptr[i + 1]):
        j = level.indices[e]
        if mate[j] < 0 and groups[j] == groups[i] and level.masses[i] + level.masses[j] <= heaviest:
            product = level.masses[i] * level.masses[j]
            rating = level.rating[e] / product if product > 0 else np.inf  # masses far below others'
            if rating > score:
                best, score = j, rating
    return best


@compiled
def _pieces(level: Level, groups: IntArray) -> tuple[IntArray, int]:
    """The connected pieces of the groups: the number of each vertex's piece, and how many there are."""
    n = groups.size
    piece = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if piece[i] >= 0:
            continue
        piece[i], stack[0], top = count, i, 1
        while top > 0:
            top -= 1
            at = stack[top]
            for e in range(level.indptr[at], level.indptr[at + 1]):
                j = level.indices[e]
                if piece[j] < 0 and groups[j] == groups[i]:
                    piece[j] = count
                    stack[top] = j
                    top += 1
        count += 1
    return piece, count


@compiled
def _merge_edges(
    begin: int, end: int, indptr: IntArray, indices: Array, weights: FloatArray, rating: FloatArray, parent: IntArray,
    first: IntArray, members: IntArray, room: IntArray, merged: Array, merged_weights: FloatArray,
    merged_rating: FloatArray, counts: IntArray, degrees: FloatArray,
) -> None:  # fmt: skip
    """Write the edges of the coarse vertices [begin, end) from `room[begin]` on, and count them and add them up."""
    # Where an edge to each coarse vertex was last written. Before `row` lie the edges of earlier coarse vertices, so
    # that nothing has to be cleared between one and the next.
    place = np.full(first.size - 1, -1, np.int64)
    at = room[begin]
    for c in range(begin, end):
        row = at
        for m in range(first[c], first[c + 1]):
            i = members[m]
            for e in range(indptr[i], indptr[i + 1]):
                t = parent[indices[e]]
                if t == c:
                    continue
                if place[t] >= row:
                    merged_weights[place[t]] += weights[e]
                    merged_rating[place[t]] += rating[e]
                else:
                    place[t] = at
                    merged[at], merged_weights[at], merged_rating[at] = t, weights[e], rating[e]
                    at += 1
        counts[c] = at - row
        degrees[c] = merged_weights[row:at].sum()


@compiled
def _close_ranks(values: Array, places: IntArray, room: IntArray, indptr: IntArray) -> None:
    """Move what was written for each share of the coarse vertices, from its room to where the one before ends."""
    for t in range(places.size - 1):
        source, target = room[places[t]], indptr[places[t]]
        if source > target:
            for k in range(indptr[places[t + 1]] - target):
                values[target + k] = values[source + k]


@compiled
def _by_parent(indptr: IntArray, parent: IntArray, n_coarse: int) -> tuple[IntArray, IntArray, IntArray]:
    """The vertices sorted by parent, in their order within each: a counting sort.

    Returns where each parent's vertices begin, the vertices, and where their edges would begin, one after the other.
    """
    first, room = np.zeros(n_coarse + 1, np.int64), np.zeros(n_coarse + 1, np.int64)
    for i in range(parent.size):
        first[parent[i] + 1] += 1
        room[parent[i] + 1] += indptr[i + 1] - indptr[i]
    for c in range(n_coarse):
        first[c + 1] += first[c]
        room[c + 1] += room[c]
    members = np.empty(parent.size, np.int64)
    fill = first[:-1].copy()
    for i in range(parent.size):
        c = parent[i]
        members[fill[c]] = i
        fill[c] += 1
    return first, members, room


@compiled
def weights_between(level: Level, labels: IntArray, n_clusters: int) -> FloatArray:
    """The weight of the edges between each two clusters, zero on the diagonal, shape (R, R)."""
    between = np.zeros((n_clusters, n_clusters))
    for i in range(labels.size):
        for e in range(level.indptr[i], level.indptr[i + 1]):
            between[labels[i], labels[level.indices[e]]] += level.weights[e]
    for r in range(n_clusters):
        between[r, r] = 0.0
    return between


@compiled
def _induced(level: Level, members: IntArray, place: IntArray) -> tuple[IntArray, Array, FloatArray, FloatArray]:
    """The edges between members, in CSR with their ratings; `place` is −1 elsewhere. Counted first, then written."""
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
def _smoothed(level: Level, noise: FloatArray, steps: int) -> FloatArray:
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
def _lowest_cut(level: Level, order: IntArray, smallest: float) -> int:
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
    cut, masses = clusters.cut, clusters.masses
    towards = np.zeros(cut.size)  # weight from the vertex at hand to each cluster
    touched = np.empty(cut.size, np.int64)  # the clusters where it is not zero
    is_active = is_border.copy()
    is_full = True
    for _ in range(_MAX_SWEEPS):
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
            if is_full:
                break
            is_active[:] = is_border
        elif is_afresh:
            _add_up_border(level, labels, cut, masses, is_border)
        is_full = n_moves == 0


@inlined
def _gather(level: Level, labels: IntArray, i: int, towards: FloatArray, touched: IntArray) -> int:
    """Add up the weights from vertex i `towards` each cluster, list those `touched`; returns how many there are."""
    n_touched = 0
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
