"""Tabu search of a hard partition: always the best move of a border vertex, even if it raises (P), but none back to
where the vertex has just been. On short borders all moves are looked at for each step. On long ones the moves between
each two clusters wait in buckets by what they would change, so that a step costs the edges of the vertex that moves and
a look at each pair of clusters. Compiled with Numba; the draws come from the seed alone. For how long is decided
elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.kernels.cpu.annealing import (
    State,
    begun,
    below,
    book_again,
    generator,
    least_change,
    quench,
    term,
    transfer,
)
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.compiling import absorbed, bare, compiled
from tautcut.kernels.cpu.moves import add_up, is_wide

SHORT = 500  # vertices of a border up to which all are looked at for each step
_WORK_OF_STEP = 20  # looks that last as long as what a step takes beside them
_SHORTEST_BAN = 5  # moves for which a vertex may not go back, on the shortest border
_VARIED_BAN = 10  # and up to so many more, by chance: searches would go round in circles
_REACH = 8  # edges of mean weight by which a move may lower or raise the cut, to have a bucket of its own
_BUCKETS = 64  # of each pair of clusters,
_MOST_BUCKETS = 4_000_000  # but no more than these for all pairs,
_FEWEST = 8  # unless a pair had fewer than this
_LOOKS = 8  # at moves in the best bucket of a pair


class _Waiting(NamedTuple):
    """The moves that are allowed, in rings: one for each pair of clusters and bucket. Move i·R + b takes i to b."""

    n_buckets: int
    bucket: Array  # of each move, −1 if it does not wait
    after: Array  # the next in its ring,
    before: Array  # and the one before it
    first: Array  # of each ring, (a·R + b)·n_buckets + bucket, that waits longest; −1 where it is empty
    top: Array  # of each pair, no lower than the best bucket that is not empty
    width: float  # of a bucket, as a weight that is cut
    scales: FloatArray  # of each cluster, what a unit of cut weight adds to its term, as when the buckets were filled,
    finer: FloatArray  # of each pair, the buckets for a unit of (P),
    losing: FloatArray  # and what it adds now with a vertex less,
    winning: FloatArray  # and with a vertex more
    is_banned: Array
    freed: Array  # by step modulo its size, the first of the banned moves that are then free again; −1 if none is,
    also_freed: Array  # and of each of them the next


def tabu(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *,
    ban: float, work: int, seed: int, short: int = SHORT,
) -> tuple[IntArray, FloatArray, FloatArray]:  # fmt: skip
    """The lowest partition on a walk of best moves, never higher in (P); labels, cuts, masses.

    Each step moves the vertex of a border that lowers (P) most, or raises it least; it may not go back for as many
    steps as the share `ban` of the borders' vertices. `work` bounds the vertices looked at, the steps and the edges of
    those that move, together. A border of up to `short` vertices is looked at as a whole. Sizes and fixed vertices are
    kept as in `anneal`.
    """
    moved = np.array(labels, dtype=np.int64)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    # Chosen here, and not in compiled code: the walk by buckets takes seconds to compile, and small graphs need none.
    walk = _walk_on_a_long_border if _border_size(level, moved) > short else _walk_on_a_short_border
    walk(level, moved, cut, masses, lam, smallest, float(ban), int(work), int(seed), is_wide(level))
    return moved, cut, masses


@compiled
def _border_size(level: Level, labels: IntArray) -> int:
    """How many vertices have a neighbour in another cluster."""
    n_border = 0
    for i in range(labels.size):
        for e in range(level.indptr[i], level.indptr[i + 1]):
            if labels[level.indices[e]] != labels[i]:
                n_border += 1
                break
    return n_border


# Both overwrite labels, cut and masses. `is_afresh` makes sums anew, once for as many steps as there are vertices.


@compiled
def _walk_on_a_short_border(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray,
    ban: float, work: int, seed: int, is_afresh: bool,
) -> None:  # fmt: skip
    state = begun(level, labels, cut, masses, lam, smallest)
    _end(level, state, _walk_by_looks(level, state, ban, work, generator(seed), is_afresh), is_afresh)


@compiled
def _walk_on_a_long_border(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray,
    ban: float, work: int, seed: int, is_afresh: bool,
) -> None:  # fmt: skip
    state = begun(level, labels, cut, masses, lam, smallest)
    _end(level, state, _walk_by_buckets(level, state, ban, work, generator(seed), is_afresh), is_afresh)


@compiled
def _end(level: Level, s: State, best: IntArray, is_afresh: bool) -> None:
    """Go back to the best labels of a walk, and down from there."""
    _copy(best, s.labels)
    book_again(level, s)
    quench(level, s, is_afresh)
    add_up(level, s.labels, s.cut, s.masses)


@absorbed
def _copy(labels: IntArray, to: IntArray) -> None:
    """Write the labels there: to assign them as a slice would take two seconds to compile, for a message in it."""
    for i in range(labels.size):
        to[i] = labels[i]


# ---------------------------------------------------------------- short borders


@compiled
def _walk_by_looks(level: Level, s: State, ban: float, work: int, random: Any, is_afresh: bool) -> IntArray:
    """The labels that were lowest on a walk whose every step looks at the whole border."""
    best, lowest = s.labels.copy(), s.terms.sum()
    banned_until, scales = np.zeros(s.towards.shape, np.int64), np.empty((2, s.lam.size))
    step, spent = 0, 0
    while spent < work and s.counted[0] > 0:
        step += 1
        i, b = _best_of_all(level, s, banned_until, step, lowest, scales, random)
        spent += s.counted[0] + _WORK_OF_STEP
        if i < 0:
            continue
        spent += level.indptr[i + 1] - level.indptr[i]
        length = _SHORTEST_BAN + ban * s.counted[0] + below(random, _VARIED_BAN)
        banned_until[i, s.labels[i]] = step + np.int64(length)
        transfer(level, s, i, b)
        if is_afresh and step % s.labels.size == 0:
            book_again(level, s)
        if s.terms.sum() < lowest - least_change(s):
            _copy(s.labels, best)
            lowest = s.terms.sum()
    return best


@bare
def _best_of_all(
    level: Level, s: State, banned_until: IntArray, step: int, lowest: float, scales: FloatArray, random: Any
) -> tuple[int, int]:
    """The allowed move of a border vertex to a neighbour's cluster that changes (P) for the best; −1 if there is none.

    One of equals, by chance. A move that leads below `lowest` is allowed always. Overwrites `scales`: of each term,
    when the cluster has lost or won a vertex of the mass that most have, to divide once for all of them.
    """
    usual = level.masses[0]
    for r in range(s.lam.size):
        scales[0, r], scales[1, r] = term(s, r, 1.0, s.masses[r] - usual), term(s, r, 1.0, s.masses[r] + usual)
    whence, where, fall, n_equal = -1, -1, np.inf, 0
    now, least = s.terms.sum(), least_change(s)
    for i in s.border[: s.counted[0]]:
        a, mass = s.labels[i], level.masses[i]
        if level.is_fixed[i] or s.masses[a] - mass < s.smallest[a]:
            continue
        scale = scales[0, a] if mass == usual else term(s, a, 1.0, s.masses[a] - mass)
        left = scale * (s.cut[a] + 2 * s.towards[i, a] - level.degrees[i]) - s.terms[a]
        for b in range(s.lam.size):
            if b == a or s.towards[i, b] <= 0:
                continue
            scale = scales[1, b] if mass == usual else term(s, b, 1.0, s.masses[b] + mass)
            change = left + scale * (s.cut[b] + level.degrees[i] - 2 * s.towards[i, b]) - s.terms[b]
            if change > fall + least or (banned_until[i, b] > step and now + change >= lowest - least):
                continue
            n_equal = n_equal + 1 if change >= fall - least else 1
            if n_equal == 1 or below(random, n_equal) == 0:
                whence, where, fall = i, b, change
    return whence, where


# ---------------------------------------------------------------- long borders


@compiled
def _walk_by_buckets(level: Level, s: State, ban: float, work: int, random: Any, is_afresh: bool) -> IntArray:
    """The labels that were lowest on a walk whose every step looks at the best bucket of each pair of clusters."""
    n, R = s.labels.size, s.lam.size
    best, lowest, is_kept = s.labels.copy(), s.terms.sum(), True
    length = np.int64(_SHORTEST_BAN + ban * s.counted[0])
    waiting = _empty_buckets(level, n, R, length + _VARIED_BAN + 1)
    _fill_buckets(level, s, waiting)
    step, spent = 0, 0
    while spent < work:
        step += 1
        _free(level, s, waiting, step)
        i, b, change, n_looks = _best_of_buckets(level, s, waiting, random)
        spent += n_looks + R * R // 8 + _WORK_OF_STEP
        if i < 0:
            continue
        spent += level.indptr[i + 1] - level.indptr[i]
        if change > 0 and not is_kept:
            _copy(s.labels, best)
            is_kept = True
        _ban(s, waiting, i, step + length + below(random, _VARIED_BAN))
        _shift(level, s, waiting, i, b)
        if step % n == 0:
            if is_afresh:
                book_again(level, s)
            _fill_buckets(level, s, waiting)
        if s.terms.sum() < lowest - least_change(s):
            lowest, is_kept = s.terms.sum(), False
    return best if is_kept else s.labels.copy()


@compiled
def _empty_buckets(level: Level, n: int, R: int, longest_ban: int) -> _Waiting:
    n_buckets = min(max(_MOST_BUCKETS // (R * R), _FEWEST), _BUCKETS)
    width = 2.0 * _REACH / n_buckets * level.degrees.sum() / max(level.indices.size, 1)
    return _Waiting(
        n_buckets, np.empty(n * R, np.int16), np.empty(n * R, np.int32), np.empty(n * R, np.int32),
        np.empty(R * R * n_buckets, np.int32), np.empty(R * R, np.int32), width, np.empty(R), np.empty(R * R),
        np.empty(R), np.empty(R), np.zeros(n * R, np.bool_), np.full(longest_ban, -1, np.int32),
        np.empty(n * R, np.int32),
    )  # fmt: skip


@bare
def _fill_buckets(level: Level, s: State, w: _Waiting) -> None:
    """All moves that are allowed, in the buckets that are theirs as the clusters are now."""
    w.first[:], w.bucket[:], w.top[:] = -1, -1, 0
    for r in range(s.lam.size):
        w.scales[r] = term(s, r, 1.0, s.masses[r])
        _weigh(level, s, w, r)
    for a in range(s.lam.size):
        for b in range(s.lam.size):
            w.finer[a * s.lam.size + b] = 1.0 / ((w.scales[a] + w.scales[b]) * w.width)
    for i in range(s.labels.size):
        if not level.is_fixed[i]:
            for b in range(s.lam.size):
                _sort_in(level, s, w, i, b)


@absorbed
def _weigh(level: Level, s: State, w: _Waiting, r: int) -> None:
    """What cluster r would lose or win by a vertex of the mass that most have."""
    w.losing[r] = term(s, r, 1.0, s.masses[r] - level.masses[0])
    w.winning[r] = term(s, r, 1.0, s.masses[r] + level.masses[0])


@absorbed
def _sort_in(level: Level, s: State, w: _Waiting, i: int, b: int) -> None:
    """Let the move of i to b wait where it belongs, or not at all."""
    a, move = s.labels[i], i * s.lam.size + b
    pair, place = a * s.lam.size + b, -1
    if s.towards[i, b] > 0 and a != b and not w.is_banned[move]:
        degree = level.degrees[i]
        fall = w.scales[b] * (2 * s.towards[i, b] - degree) - w.scales[a] * (2 * s.towards[i, a] - degree)
        place = int(min(max(fall * w.finer[pair] + w.n_buckets // 2, 0.0), w.n_buckets - 1.0))
    if place == w.bucket[move]:
        return
    _take_out(w, move, pair)
    if place >= 0:
        here = pair * w.n_buckets + place
        follows = w.first[here]
        w.bucket[move] = place
        if follows < 0:
            w.before[move], w.after[move], w.first[here] = move, move, move
        else:  # the last of its ring, or the search would stay with the moves that it has just changed
            last = w.before[follows]
            w.before[move], w.after[move], w.after[last], w.before[follows] = last, follows, move, move
        if place > w.top[pair]:
            w.top[pair] = place


@absorbed
def _take_out(w: _Waiting, move: int, pair: int) -> None:
    """Let the move wait no longer."""
    if w.bucket[move] < 0:
        return
    before, after, here = w.before[move], w.after[move], pair * w.n_buckets + w.bucket[move]
    w.after[before], w.before[after] = after, before
    if w.first[here] == move:
        w.first[here] = after if after != move else -1
    w.bucket[move] = -1


@absorbed
def _ban(s: State, w: _Waiting, i: int, until: int) -> None:
    """Ban i from the cluster where it is, up to a step."""
    move, slot = i * s.lam.size + s.labels[i], until % w.freed.size
    w.is_banned[move], w.also_freed[move], w.freed[slot] = True, w.freed[slot], move


@bare
def _free(level: Level, s: State, w: _Waiting, step: int) -> None:
    """Let the moves wait again whose ban ends with this step."""
    slot = step % w.freed.size
    move = w.freed[slot]
    while move >= 0:
        w.is_banned[move] = False
        _sort_in(level, s, w, move // s.lam.size, move % s.lam.size)
        move = w.also_freed[move]
    w.freed[slot] = -1


@bare
def _best_of_buckets(level: Level, s: State, w: _Waiting, random: Any) -> tuple[int, int, float, int]:
    """The move that changes (P) for the best, of the first few in the best bucket of each pair of clusters.

    One of equals, by chance. −1 if there is none; what it changes, and how many were looked at. A bucket says what its
    moves change when the clusters are what they were as it was filled, and vertices have the mass that most have.
    """
    R, usual = s.lam.size, level.masses[0]
    whence, where, fall, n_equal, n_looks = -1, -1, np.inf, 0, 0
    least = least_change(s)
    for a in range(R):
        left = w.losing[a] * s.cut[a] - s.terms[a]
        for b in range(R):
            rings = (a * R + b) * w.n_buckets
            top = w.top[a * R + b]
            while top > 0 and w.first[rings + top] < 0:
                top -= 1
            w.top[a * R + b] = top
            first = move = w.first[rings + top]
            if first < 0:
                continue
            n_looks += 1
            base = left + w.winning[b] * s.cut[b] - s.terms[b]
            best = (top + 1 - w.n_buckets // 2) * w.width * (w.losing[a] + w.winning[b])
            if top < w.n_buckets - 1 and base - best > fall + least:
                continue
            for _ in range(_LOOKS):
                n_looks += 1
                i = move // R
                degree, mass = level.degrees[i], level.masses[i]
                more, less = degree - 2 * s.towards[i, b], 2 * s.towards[i, a] - degree
                change = base + w.losing[a] * less + w.winning[b] * more
                if mass != usual:
                    change = term(s, a, s.cut[a] + less, s.masses[a] - mass) - s.terms[a]
                    change += term(s, b, s.cut[b] + more, s.masses[b] + mass) - s.terms[b]
                if s.masses[a] - mass >= s.smallest[a] and change <= fall + least and change < np.inf:
                    n_equal = n_equal + 1 if change >= fall - least else 1
                    if n_equal == 1 or below(random, n_equal) == 0:
                        whence, where, fall = i, b, change
                move = w.after[move]
                if move == first:
                    break
    return whence, where, fall, n_looks


@bare
def _shift(level: Level, s: State, w: _Waiting, i: int, b: int) -> None:
    """Move vertex i to cluster b, and its neighbours' moves to the buckets that are now theirs."""
    R, a, degree, mass = s.lam.size, s.labels[i], level.degrees[i], level.masses[i]
    s.cut[a] += 2 * s.towards[i, a] - degree
    s.cut[b] += degree - 2 * s.towards[i, b]
    s.masses[a] -= mass
    s.masses[b] += mass
    s.terms[a] = term(s, a, s.cut[a], s.masses[a])
    s.terms[b] = term(s, b, s.cut[b], s.masses[b])
    _weigh(level, s, w, a)
    _weigh(level, s, w, b)
    for r in range(R):
        _take_out(w, i * R + r, a * R + r)
    s.labels[i] = b
    for r in range(R):
        _sort_in(level, s, w, i, r)
    for e in range(level.indptr[i], level.indptr[i + 1]):
        j, weight = level.indices[e], level.weights[e]
        s.towards[j, a] -= weight
        s.towards[j, b] += weight
        if level.is_fixed[j]:
            continue
        if s.labels[j] in (a, b):
            for r in range(R):
                _sort_in(level, s, w, j, r)
        else:
            _sort_in(level, s, w, j, a)
            _sort_in(level, s, w, j, b)
