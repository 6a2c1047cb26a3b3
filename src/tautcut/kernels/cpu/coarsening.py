"""The graphs on which partitions are searched: a graph itself, and coarsenings of it, in which pairs or pieces are one
vertex, so that whole groups of vertices can move at once. Compiled with Numba, free of randomness of their own, and
sequential but for what no order changes, so the same input gives the same answer on any number of threads. How far to
coarsen is decided elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.sharing import even_shares, share

_UNSHARED = 0.1  # added to the neighbours that two ends share, so that an edge whose ends share none has a rating too
_MOST_LOOKS = 256  # at neighbours of one vertex, of which others share some: beyond, they are counted on a sample
_LISTED = 3  # mates of each vertex that are listed before a matching, where several threads can do it
_LISTERS = 3  # threads from which on it is worth while: all vertices are looked at, where half would be
_UNKNOWN = -1  # in place of a vertex
_MOST_ALONE = 0.6  # of the vertices left without a mate by a matching; graphs without hubs leave less than half


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
    return _contracted(level, *_match(level, groups, order, heaviest, _listed_mates(level, groups, heaviest)))


def _listed_mates(level: Level, groups: IntArray, heaviest: float) -> Array:
    """The mates that suit each vertex best, best first, shape (n_vertices, `_LISTED`); no rows where threads are few.

    A matching is sequential, and looks at each neighbour of a vertex: with a list it seldom has to (decision 0067).
    """
    places = even_shares(level.indptr)
    is_worth_while = places.size > _LISTERS
    listed: Array = np.empty((level.n_vertices if is_worth_while else 0, _LISTED), level.indices.dtype)
    if is_worth_while:
        share(_list_mates, places, level, groups, heaviest, listed)
    return listed


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
    if places.size > 2:  # else there are no gaps
        share(lambda k, _: _close_ranks(merged[k], places, room, indptr), list(range(len(merged) + 1)))
    for array in merged:
        array.resize(int(indptr[-1]), refcheck=False)  # in its place: fresh memory would cost more than the merging
    masses = np.bincount(parent, level.masses, n_coarse).astype(np.float64)
    is_fixed = np.bincount(parent[level.is_fixed], minlength=n_coarse) > 0
    return _level(indptr, *merged, masses, is_fixed, degrees), parent


def induced(level: Level, members: IntArray) -> Level:
    """The level on `members` alone, renumbered in their order."""
    place = np.full(level.n_vertices, -1, dtype=np.int64)
    place[members] = np.arange(members.size)
    indptr, indices, weights, rating = induced_edges(level, members, place)
    return _level(indptr, indices, weights, rating, level.masses[members], level.is_fixed[members])


def _level(
    indptr: IntArray, indices: Array, weights: FloatArray, rating: FloatArray, masses: FloatArray, is_fixed: BoolArray,
    degrees: FloatArray | None = None,
) -> Level:  # fmt: skip
    """A level of read-only arrays, as those of a `Graph` are: Numba compiles once for the graph and its coarsenings."""
    if degrees is None:
        degrees = row_sums(indptr, weights)
    arrays = (indptr, indices, weights, rating, degrees, masses, is_fixed)
    for array in arrays:
        array.setflags(write=False)
    return Level(*arrays)


@compiled
def row_sums(indptr: IntArray, values: FloatArray) -> FloatArray:
    """The sum of each row of a CSR matrix."""
    sums = np.zeros(indptr.size - 1)
    for i in range(sums.size):
        for e in range(indptr[i], indptr[i + 1]):
            sums[i] += values[e]
    return sums


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
def _match(level: Level, groups: IntArray, order: IntArray, heaviest: float, listed: Array) -> tuple[IntArray, int]:
    """Pair each vertex, in this order, with the free neighbour of its group that rates highest per mass.

    Returns the number of each vertex's pair, counted from the first vertex on, and how many there are. A vertex
    without such a neighbour is a pair of its own, unless most are: then strangers are paired. `listed` may spare looks
    at neighbours, and changes nothing else.
    """
    mate = np.full(order.size, -1, np.int64)
    n_alone = 0
    for i in order:
        if mate[i] < 0:
            j = _first_free(listed, mate, i) if listed.shape[0] else _UNKNOWN
            if j == _UNKNOWN:
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
    n, n_groups = mate.size, 0
    for j in range(n):
        n_groups = max(n_groups, groups[j] + 1)
    waiting = np.empty(n_groups, np.int64)  # the vertex of each group that waits for a mate at this neighbour
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
def _list_mates(first: int, last: int, level: Level, groups: IntArray, heaviest: float, listed: Array) -> None:
    """List the mates that suit the vertices [first, last) best, as `_best_mate` rates them, all being free; then −1."""
    ratings = np.empty(_LISTED)
    for i in range(first, last):
        ratings[:], listed[i] = 0.0, -1
        for e in range(level.indptr[i], level.indptr[i + 1]):
            j = level.indices[e]
            if groups[j] == groups[i] and level.masses[i] + level.masses[j] <= heaviest:
                product = level.masses[i] * level.masses[j]
                rating = level.rating[e] / product if product > 0 else np.inf
                at = _LISTED
                while at > 0 and rating > ratings[at - 1]:  # of equals the first one first
                    at -= 1
                for k in range(_LISTED - 1, at, -1):
                    ratings[k], listed[i, k] = ratings[k - 1], listed[i, k - 1]
                if at < _LISTED:
                    ratings[at], listed[i, at] = rating, j


@compiled
def _first_free(listed: Array, mate: IntArray, i: int) -> int:
    """The first of the mates listed for i that is free; i if there are no others, `_UNKNOWN` if others may be free."""
    for k in range(_LISTED):
        j = listed[i, k]
        if j < 0:
            return i
        if mate[j] < 0:
            return int(j)
    return _UNKNOWN


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
def induced_edges(level: Level, members: IntArray, place: IntArray) -> tuple[IntArray, Array, FloatArray, FloatArray]:
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
