"""Random walks with restart on the processor: where those from a few vertices at a time go, by passing on what waits at
a vertex along its edges until little is left anywhere; and which vertices are nearest under them. Work for a vertex
does not grow with the graph. Compiled with Numba; nothing is random, and no group of walks depends on another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, IntArray
from tautcut.kernels.cpu.compiling import absorbed, compiled
from tautcut.kernels.cpu.rows import absolute, full, lanes_above, load, store, where_greater

LANES = 8  # walks side by side, from vertices near each other: what one of them reaches, most of the others do
_OVER = 1.3  # more than what waits is passed on, and some of it taken back later: over-relaxation (decision 0043)
_ROUNDS = 180  # of passing on, each with
_FINER = 0.7  # times the tolerance of the one before: single precision goes no further
_SETTLED = 0.1  # share of the nearest that the last round may have changed (decision 0043)
_SWEEPS = 2  # over the vertices that have passed something on, at the end (decision 0043)
_TIE = 1e-3  # visits that differ by this share of themselves count as equal

# Columns of `Room.waiting` behind the lanes, so that a vertex lies within one line of the cache.
_SHARE = LANES  # its share of the tolerance
_MARKS = LANES + 1  # what a group of walks has seen of it, as bits:
_REACHED, _PASSED, _QUEUED, _START = 1, 2, 4, 8
_OFTEN_BELOW = 4 << 23  # as whole numbers: a sixteenth of a float, where the bar lies more often than not
_NAN = -1  # the bits of one: nothing lies above it, and as a whole number it comes before 0


class Links(NamedTuple):
    """The graph that is walked on."""

    indptr: IntArray
    indices: Array
    chances: Array  # of each step: w_ij / d_i
    roots: Array  # √d_i, in any unit
    inverses: Array  # 1/√d_i


class Room(NamedTuple):
    """What a thread needs for its walks: arrays for all vertices, as empty after a group of walks as before."""

    waiting: Array  # (n, 2 LANES): visits that are still to be passed on, and the two columns above
    marks: Array  # the same memory as whole numbers
    counted: Array  # (n, LANES): visits counted so far
    queue: Array
    reached: Array
    passed: Array  # vertices that have passed something on
    score: Array  # (n, LANES)
    is_near: Array  # a bit for each walk: whether the vertex was among its nearest at the last look


def room_for(indptr: IntArray) -> Room:
    """Room for walks on a graph whose neighbours begin there; the more of them, the larger a vertex's tolerance."""
    n, n_neighbors = indptr.size - 1, np.diff(indptr)
    waiting = np.zeros((n, 2 * LANES), np.float32)
    waiting[:, _SHARE] = n_neighbors / n_neighbors.mean()
    queue, reached, passed = np.empty((3, n + 1), np.int32)  # one more: the place behind the last is written to
    counted, score = np.zeros((n, LANES), np.float32), np.empty((n, LANES), np.float32)
    return Room(waiting, waiting.view(np.int32), counted, queue, reached, passed, score, np.zeros(n, np.uint8))


def room_bytes(n_vertices: int) -> int:
    """What the room of one thread takes."""
    return n_vertices * (4 * (4 * LANES + 3) + 1)


@compiled
def visits(
    first: int, last: int, links: Links, continues: Any, tolerance: Any, most: int, n_neighbors: int, room: Room,
    nearest: Array, scores: Array, roots: Array,
) -> None:  # fmt: skip
    """Walks from the vertices first … last − 1, a group of `LANES` after the other, each step with `continues`.

    Of the vertices j that a walk from i visits G_ij times, `nearest[i]` are those with the largest `scores`
    G_ij / √d_j, in no order, −1 where fewer are reached; `roots[i]` is √G_ii. A group begins with the
    `tolerance`, and takes a finer one until each of its walks tells `n_neighbors` vertices apart, or has passed on
    along `most` edges.
    """
    kept = nearest.shape[1]
    bars, tallies = np.empty((4, LANES), np.float32), np.empty((2, LANES), np.float32)
    found, scored = np.empty(kept + 1, np.int32), np.empty(kept + 1, np.float32)
    for group in range(first, last, LANES):
        n_walks = min(LANES, last - group)
        for lane in range(n_walks):
            room.waiting[group + lane, lane] = 1.0
            room.marks[group + lane, _MARKS] = _REACHED | _QUEUED | _START
            room.queue[lane] = room.reached[lane] = group + lane
        bound, n_waiting, n_reached, n_passed, n_edges = tolerance, n_walks, n_walks, 0, 0
        for _ in range(_ROUNDS):
            n_reached, n_passed, n_edges = _pass_on(
                links, room, continues, bound, most, n_waiting, n_reached, n_passed, n_edges
            )
            if n_edges > most or (
                _is_clear(room, bound, n_neighbors, n_walks, n_reached, n_passed, tallies)
                and _changes(links, room, n_walks, n_passed, n_neighbors, bars) <= _SETTLED * n_neighbors * n_walks
            ):
                break
            bound *= np.float32(_FINER)
            n_waiting = _waiting_again(room, bound, n_reached)
        _sweep(links, room, continues, n_walks, n_reached, n_passed)
        for lane in range(n_walks):
            start = group + lane
            roots[start] = np.sqrt(room.counted[start, lane] * links.roots[start] * links.roots[start])
        # What never passed anything on is near only where little was passed on.
        among = room.passed[:n_passed] if n_passed > 2 * kept else room.reached[:n_reached]
        _score(room, among, n_walks, links.roots)
        _find_bars(room.score, among.size, kept, bars)
        for lane in range(n_walks):
            _select(room, lane, among, bars, found, scored, nearest[group + lane], scores[group + lane])
        _clear(room, n_reached, n_passed)


@absorbed
def _pass_on(
    links: Links, room: Room, continues: Any, bound: Any, most: int, n_waiting: int, n_reached: int, n_passed: int,
    n_edges: int,
) -> Any:  # fmt: skip
    """Pass on what waits, from the queue's vertices and those that join it, until it is empty.

    Not along more edges than `most`: at a vertex with too many of them it ends, unless a walk starts there.
    """
    indptr, indices, chances, _, _ = links
    waiting, marks, counted, queue, reached, passed, _, _ = room
    head, tail = 0, n_waiting
    over = full(np.float32(_OVER), LANES)
    while head != tail:
        i = queue[head]
        mark = marks[i, _MARKS]
        n_edges += indptr[i + 1] - indptr[i]
        if n_edges > most and not mark & _START:
            break
        head = head + 1 if head + 1 < queue.size else 0
        before = load(waiting, i, LANES)
        mass = before * over
        store(waiting, i, before - mass)
        store(counted, i, load(counted, i, LANES) + mass)
        passed[n_passed] = i
        n_passed += not mark & _PASSED
        marks[i, _MARKS] = _REACHED | _PASSED
        mass = mass * full(continues, LANES)
        # Without branches: what happens at a neighbour cannot be foreseen, and a wrong guess costs more than all of it.
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            after = load(waiting, j, LANES) + mass * full(chances[e], LANES)
            store(waiting, j, after)
            mark = marks[j, _MARKS]
            reached[n_reached] = j
            n_reached += not mark & _REACHED
            joins = 1 if _is_much(after, bound * waiting[j, _SHARE]) and not mark & _QUEUED else 0
            marks[j, _MARKS] = mark | _REACHED | joins * _QUEUED
            queue[tail] = j
            tail = tail + joins if tail + joins < queue.size else 0
    return n_reached, n_passed, n_edges


@absorbed
def _is_much(waits: Any, tolerance: Any) -> Any:
    """Whether more than the tolerance waits in any lane, to be passed on or to be taken back."""
    return lanes_above(absolute(waits), full(tolerance, LANES)) != 0


@absorbed
def _is_clear(
    room: Room, bound: Any, n_neighbors: int, n_walks: int, n_reached: int, n_passed: int, tallies: Array
) -> bool:
    """Whether each walk tells as many vertices apart, beside its start, or all that there are: those whose visits
    exceed their tolerance.
    """
    one, nothing = full(np.float32(1), LANES), full(np.float32(0), LANES)
    n_clear, n_visited = nothing, nothing
    for a in range(n_passed):
        i = room.passed[a]
        count = load(room.counted, i, LANES)
        clear = full(bound * room.waiting[i, _SHARE], LANES)
        n_clear = n_clear + where_greater(count, clear, one, nothing)
        n_visited = n_visited + where_greater(count, nothing, one, nothing)
    store(tallies, 0, n_clear)
    store(tallies, 1, n_visited)
    for lane in range(n_walks):
        enough = n_neighbors + 1.0
        if n_passed == n_reached and tallies[1, lane] < enough:
            enough = tallies[1, lane]
        if tallies[0, lane] < enough:
            return False
    return True


@absorbed
def _sweep(links: Links, room: Room, continues: Any, n_walks: int, n_reached: int, n_passed: int) -> None:
    """Count what still waits as visits, and divide them by d; then bring them nearer to where all is passed on.

    That is where v_i = (1 if a walk starts at i) / d_i + continues Σ_j w_ij v_j / d_i. A Gauss–Seidel sweep over the
    vertices that have passed something on only reads at their neighbours, and so costs a part of passing on.
    """
    indptr, indices, chances, _, inverses = links
    counted, waiting = room.counted, room.waiting
    over, further = full(np.float32(_OVER), LANES), full(continues, LANES)
    for a in range(n_reached):
        i = room.reached[a]
        scale = full(inverses[i] * inverses[i], LANES)
        store(counted, i, (load(counted, i, LANES) + load(waiting, i, LANES)) * scale)
        store(waiting, i, full(np.float32(0), LANES))
    for lane in range(n_walks):
        i = room.reached[lane]
        waiting[i, lane] = inverses[i] * inverses[i]
    for _ in range(_SWEEPS):
        for a in range(n_passed):
            i = room.passed[a]
            flow = full(np.float32(0), LANES)
            for e in range(indptr[i], indptr[i + 1]):
                flow = flow + load(counted, indices[e], LANES) * full(chances[e], LANES)
            now = load(counted, i, LANES)
            store(counted, i, now + over * (load(waiting, i, LANES) + further * flow - now))
    for lane in range(n_walks):
        waiting[room.reached[lane], lane] = 0.0


@absorbed
def _score(room: Room, among: Array, n_walks: int, scales: Array) -> None:
    """Visits times these scales, what still waits among them; 0 for a walk's own start: starts stand first."""
    for a in range(among.size):
        i = among[a]
        visits = load(room.counted, i, LANES) + load(room.waiting, i, LANES)
        store(room.score, a, visits * full(scales[i], LANES))
    for lane in range(n_walks):
        room.score[lane, lane] = 0.0


@absorbed
def _find_bars(score: Array, n: int, rank: int, bars: Array) -> None:
    """For each lane the bar bars[0] ≥ 0 above which `rank` of the first n scores lie, or all that are positive.

    Where several are equal at that rank they are the bar, and fewer lie above it; they alone lie between bars[1] and
    it. All lanes are searched in one, by halving whole numbers: the bits of positive floats have the floats' order.
    """
    one, nothing = full(np.float32(1), LANES), full(np.float32(0), LANES)
    numbers = bars.view(np.int32)
    n_above, top = nothing, nothing
    for a in range(n):
        here = load(score, a, LANES)
        n_above = n_above + where_greater(here, nothing, one, nothing)
        top = where_greater(here, top, here, top)
    store(bars, 3, n_above)
    store(bars, 2, top)
    n_open = 0
    for lane in range(LANES):
        if bars[3, lane] <= rank:
            bars[0, lane], numbers[1, lane], bars[2, lane] = 0.0, _NAN, 0.0
        else:
            numbers[0, lane], bars[1, lane] = numbers[2, lane], 0.0
            numbers[2, lane] = max(numbers[2, lane] - _OFTEN_BELOW, numbers[2, lane] // 2)
            n_open += 1
    while n_open:
        bar, n_above = load(bars, 2, LANES), nothing
        for a in range(n):
            n_above = n_above + where_greater(load(score, a, LANES), bar, one, nothing)
        store(bars, 3, n_above)
        n_open = 0
        for lane in range(LANES):
            if numbers[0, lane] - numbers[1, lane] > 1:
                numbers[1 if bars[3, lane] > rank else 0, lane] = numbers[2, lane]
                if bars[3, lane] != rank and numbers[0, lane] - numbers[1, lane] > 1:
                    numbers[2, lane] = (numbers[0, lane] + numbers[1, lane]) // 2
                    n_open += 1


@absorbed
def _changes(links: Links, room: Room, n_walks: int, n_passed: int, n_neighbors: int, bars: Array) -> int:
    """How many vertices have come among the nearest of their walk since the last look; beyond ties."""
    n_changed = 0
    _score(room, room.passed[:n_passed], n_walks, links.inverses)
    _find_bars(room.score, n_passed, n_neighbors, bars)
    bar = load(bars, 0, LANES)
    clear_bar = bar * full(np.float32(1 + _TIE), LANES)
    for a in range(n_passed):
        i, score = room.passed[a], load(room.score, a, LANES)
        are_new = lanes_above(score, clear_bar) & ~room.is_near[i]
        room.is_near[i] = lanes_above(score, bar)
        while are_new:
            are_new &= are_new - 1
            n_changed += 1
    return n_changed


@absorbed
def _waiting_again(room: Room, bound: Any, n_reached: int) -> int:
    """Queue the vertices at which more waits than a finer tolerance allows; how many they are."""
    n_waiting = 0
    for a in range(n_reached):
        i = room.reached[a]
        if _is_much(load(room.waiting, i, LANES), bound * room.waiting[i, _SHARE]):
            room.marks[i, _MARKS] |= _QUEUED
            room.queue[n_waiting] = i
            n_waiting += 1
    return n_waiting


@absorbed
def _select(
    room: Room, lane: int, among: Array, bars: Array, found: Array, scored: Array, nearest: Array, scores: Array
) -> None:
    """Those of this walk whose scores lie above its bar, and as many of those on it as there is room for."""
    filled, bar, below = 0, bars[0, lane], bars[1, lane]
    for a in range(among.size):  # without branches: the place behind the last is written to
        found[filled], scored[filled] = among[a], room.score[a, lane]
        filled += room.score[a, lane] > bar
    if filled < nearest.size:
        for a in range(among.size):
            if below < room.score[a, lane] <= bar and filled < nearest.size:
                found[filled], scored[filled] = among[a], room.score[a, lane]
                filled += 1
    for place in range(nearest.size):
        is_filled = place < filled
        nearest[place] = found[place] if is_filled else -1
        if is_filled:
            scores[place] = scored[place]


@absorbed
def _clear(room: Room, n_reached: int, n_passed: int) -> None:
    """Leave the room as it was before this group; nothing waits after the sweeps."""
    nothing = full(np.float32(0), LANES)
    for a in range(n_reached):
        i = room.reached[a]
        store(room.counted, i, nothing)
        room.marks[i, _MARKS] = 0
    for a in range(n_passed):
        room.is_near[room.passed[a]] = 0


@compiled
def choose(first: int, last: int, order: IntArray, nearest: Array, scores: Array, roots: Array, chosen: Array) -> None:
    """Of the candidates of each vertex the nearest, by scores[i, c] / roots[nearest[i, c]].

    `chosen[order[i]]` are their numbers in the order; −1 stands behind them where there are fewer.
    """
    k = chosen.shape[1]
    cosines, scratch = np.empty(nearest.shape[1], np.float32), np.empty(nearest.shape[1], np.float32)
    for i in range(first, last):
        n = 0
        while n < nearest.shape[1] and nearest[i, n] >= 0:
            cosines[n] = scratch[n] = scores[i, n] / roots[nearest[i, n]]
            n += 1
        bar = largest_of(scratch, n, k)
        row, filled = chosen[order[i]], 0
        for is_bar in (False, True):
            for c in range(n):
                if (cosines[c] == bar if is_bar else cosines[c] > bar) and filled < k:
                    row[filled] = order[nearest[i, c]]
                    filled += 1
        row[filled:] = -1


@compiled
def largest_of(values: Array, n: int, rank: int) -> Any:
    """Of the first n values that at this rank from the largest on, the least where there are fewer, 0 of none.

    Overwrites them: Hoare's selection.
    """
    if n == 0:
        return np.float32(0)
    place, low, high = min(rank, n) - 1, 0, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while pivot > values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


@compiled
def links_in(order: IntArray, indptr: IntArray, indices: Array, weights: Array, degrees: Array, roots: Array) -> Links:
    """The links of a graph whose vertices are numbered anew: number i is for `order[i]`."""
    n = order.size
    number = np.empty(n, np.int32)
    number[order] = np.arange(n).astype(np.int32)
    begins, ends = np.zeros(n + 1, np.int64), np.empty(indices.size, np.int32)
    chances = np.empty(indices.size, np.float32)
    at = 0
    for i in range(n):
        old = order[i]
        for e in range(indptr[old], indptr[old + 1]):
            ends[at], chances[at] = number[indices[e]], weights[e] / degrees[old]
            at += 1
        begins[i + 1] = at
    return Links(begins, ends, chances, roots[order], np.float32(1) / roots[order])


@compiled
def groups(order: IntArray, indptr: IntArray, indices: Array) -> IntArray:
    """The vertices in an order in which each `LANES` of them, from the first on, lie near each other.

    Groups grow around the vertices, as they come in `order`, by those that share most edges with them; what is left of
    groups that could not be filled comes last.
    """
    n = order.size
    grouped, left = np.empty(n, np.int64), np.empty(n, np.int64)
    n_grouped, n_left = 0, 0
    is_taken, shared, seen_by = np.zeros(n, np.bool_), np.zeros(n, np.int32), np.full(n, -1, np.int64)
    beside, members = np.empty(n, np.int64), np.empty(LANES, np.int64)
    for seed in order:
        if is_taken[seed]:
            continue
        n_members, n_beside, newest = 0, 0, seed
        while newest >= 0:
            is_taken[newest] = True
            members[n_members] = newest
            n_members += 1
            if n_members == LANES:
                break
            for e in range(indptr[newest], indptr[newest + 1]):
                j = indices[e]
                if is_taken[j]:
                    continue
                if seen_by[j] != seed:
                    seen_by[j], shared[j], beside[n_beside] = seed, 0, j
                    n_beside += 1
                shared[j] += 1
            newest, most = -1, 0
            for b in range(n_beside):
                if shared[beside[b]] > most and not is_taken[beside[b]]:
                    newest, most = beside[b], shared[beside[b]]
        if n_members == LANES:
            grouped[n_grouped : n_grouped + LANES] = members
            n_grouped += LANES
        else:
            left[n_left : n_left + n_members] = members[:n_members]
            n_left += n_members
    grouped[n_grouped:] = left[:n_left]
    return grouped
