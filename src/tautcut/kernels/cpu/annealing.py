"""Simulated annealing of a hard partition: moves of single vertices, and swaps of two, that may raise (P) while it is
warm. On a coarse level a vertex stands for a group, so that groups move at once. Compiled with Numba; the draws come
from the seed alone, so the same input gives the same answer on any number of threads. What to search, and for how long,
is decided elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.compiling import absorbed, bare, compiled
from tautcut.kernels.cpu.moves import add_up, is_wide

_EPOCHS = 64  # temperatures of a run, each a constant factor below the one before
_ANYWHERE = 0.05  # share of the proposals that send any vertex to any cluster: isolated ones have no other way
_SWAPS = 0.3  # share of the others that exchange two vertices: at the kink of (P), sizes are pinned
_TRIES = 8  # draws for the partner of a swap
_HOPELESS = 30.0  # temperatures by which a move may raise (P) at most: e⁻³⁰ is as good as never
_FREE_LOOKS = 64  # at edges of one vertex: those of a hub, of which there are more, count as work
_ROUNDING = 1e-11  # of the energy: a change that is smaller is none
_MAX_SWEEPS = 100  # of the last descent, which ends by itself


class State(NamedTuple):
    """A partition of a level with what moves need to know; compiled code makes it, and overwrites its arrays."""

    labels: IntArray
    cut: FloatArray
    masses: FloatArray
    lam: FloatArray
    smallest: FloatArray
    towards: FloatArray  # (vertex, cluster): the weight of the edges between them
    foreign: IntArray  # edges of each vertex that leave its cluster
    border: IntArray  # the vertices that have any, `counted[0]` of them, in no order
    place: IntArray  # where each vertex stands in `border`, −1 if it does not
    counted: IntArray
    whole: float  # the mass of all vertices
    peaks: FloatArray  # what no denominator of (P) exceeds, plateau · m(V) λ / (1 + λ)
    terms: FloatArray  # of (P), as the cuts and masses are


def anneal(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *,
    hot: float, cold: float, work: int, seed: int, plateau: float = 1.0,
) -> tuple[IntArray, FloatArray, FloatArray]:  # fmt: skip
    """Cool the partition from `hot` to `cold`, then move single vertices while that lowers (P); labels, cuts, masses.

    Temperatures are in units of what an edge of mean weight adds to (P) when it is cut at the balance; `hot=0` only
    descends. `work` bounds the proposals and the edges that accepted ones touch, together. No cluster shrinks below
    `smallest`, and one that begins below it is filled first, if there are free vertices to fill it; fixed vertices
    stay. `plateau` is as in `moves.descend`, and is 1 in the last part.
    """
    moved = np.array(labels, dtype=np.int64)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    heat = (float(hot), float(cold), float(plateau))
    _anneal(level, moved, cut, masses, lam, smallest, *heat, int(work), int(seed), is_wide(level))
    return moved, cut, masses


@compiled
def _anneal(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray,
    hot: float, cold: float, plateau: float, work: int, seed: int, is_afresh: bool,
) -> None:  # fmt: skip
    """Overwrites labels, cut and masses. `is_afresh` makes sums anew each time that it is colder."""
    state = begun(level, labels, cut, masses, lam, smallest)
    if hot > 0:
        _set_plateau(state, plateau)
        _cool(level, state, hot, cold, work, seed, is_afresh)
        _set_plateau(state, 1.0)
    quench(level, state, is_afresh)
    add_up(level, labels, cut, masses)


@compiled
def begun(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, lam: FloatArray, smallest: FloatArray
) -> State:
    """The state of these labels, which it changes only where a cluster is too small."""
    n = labels.size
    add_up(level, labels, cut, masses)
    state = State(
        labels, cut, masses, lam, smallest, np.zeros((n, lam.size)), np.zeros(n, np.int64), np.empty(n, np.int64),
        np.full(n, -1, np.int64), np.zeros(1, np.int64), masses.sum(), np.empty(lam.size), np.empty(lam.size),
    )  # fmt: skip
    _book(level, state)
    _set_plateau(state, 1.0)
    _fill(level, state)
    return state


@bare
def _set_plateau(s: State, plateau: float) -> None:
    for r in range(s.lam.size):
        s.peaks[r] = plateau * s.whole * s.lam[r] / (1.0 + s.lam[r])
        s.terms[r] = term(s, r, s.cut[r], s.masses[r])


@bare
def _book(level: Level, s: State) -> None:
    """Add up what the labels imply, whatever was booked before."""
    s.cut[:], s.towards[:], s.foreign[:], s.place[:], s.counted[0] = 0.0, 0.0, 0, -1, 0
    for i in range(s.labels.size):
        for e in range(level.indptr[i], level.indptr[i + 1]):
            r = s.labels[level.indices[e]]
            s.towards[i, r] += level.weights[e]
            if r != s.labels[i]:
                s.foreign[i] += 1
                s.cut[s.labels[i]] += level.weights[e]
        if s.foreign[i] > 0:
            _enter_border(s, i)


@compiled
def book_again(level: Level, s: State) -> None:
    """Add up afresh what moves have added to and taken from: taken away, heavy edges leave rounding behind."""
    _book(level, s)
    add_up(level, s.labels, s.cut, s.masses)
    for r in range(s.lam.size):
        s.terms[r] = term(s, r, s.cut[r], s.masses[r])


@compiled
def _cool(level: Level, s: State, hot: float, cold: float, work: int, seed: int, is_afresh: bool) -> None:
    """The annealing proper; it ends early once it has frozen."""
    random = generator(seed)
    mean_lam = s.lam.mean()
    unit = level.degrees.sum() / max(level.indices.size, 1) * (1.0 + mean_lam) / (s.whole * mean_lam)
    factor = (cold / hot) ** (1.0 / (_EPOCHS - 1))
    temperature = hot * unit
    for epoch in range(_EPOCHS):
        spent, n_changes, least = 0, 0, least_change(s)
        while spent < work // _EPOCHS:
            cost, is_change = _propose(level, s, temperature, least, random)
            spent += cost
            n_changes += is_change
        temperature *= factor
        if n_changes == 0 and epoch > _EPOCHS // 4:
            break
        if is_afresh:
            book_again(level, s)


@bare
def _propose(level: Level, s: State, temperature: float, least: float, random: Any) -> tuple[int, int]:
    """Draw a move or a swap and do it if it is accepted; what it cost, and whether (P) changed."""
    u, cost = uniform(random), 1
    is_anywhere = u < _ANYWHERE or s.counted[0] == 0
    if is_anywhere:
        i, b = below(random, s.labels.size), below(random, s.lam.size)
    else:
        i = s.border[below(random, s.counted[0])]
        first, degree = level.indptr[i], level.indptr[i + 1] - level.indptr[i]
        e = below(random, degree)
        b = s.labels[level.indices[first + e]]
        while b == s.labels[i]:
            e = e + 1 if e + 1 < degree else 0
            b = s.labels[level.indices[first + e]]
            cost += 1
        cost = max(cost - _FREE_LOOKS, 1)
    a, mass = s.labels[i], level.masses[i]
    if level.is_fixed[i] or a == b:
        return cost, 0
    cut_a = s.cut[a] + 2 * s.towards[i, a] - level.degrees[i]
    cut_b = s.cut[b] + level.degrees[i] - 2 * s.towards[i, b]
    if u < 1.0 - _SWAPS and s.masses[a] - mass >= s.smallest[a]:
        change = _change(s, a, b, cut_a, cut_b, mass)
        if not _is_accepted(change, temperature, random):
            return cost, 0
        transfer(level, s, i, b)
        return cost + level.indptr[i + 1] - level.indptr[i], int(abs(change) > least)
    j = -1
    for _ in range(_TRIES):
        other = below(random, s.labels.size) if is_anywhere else s.border[below(random, s.counted[0])]
        if s.labels[other] == b and not level.is_fixed[other]:
            j = other
            break
    if j < 0:
        return cost, 0
    back = level.masses[j]
    if s.masses[a] - mass + back < s.smallest[a] or s.masses[b] - back + mass < s.smallest[b]:
        return cost, 0
    both = 2 * _edge(level, i, j)
    cost += max(min(level.indptr[i + 1] - level.indptr[i], level.indptr[j + 1] - level.indptr[j]) - _FREE_LOOKS, 0)
    cut_a += level.degrees[j] - 2 * s.towards[j, a] + both
    cut_b += 2 * s.towards[j, b] - level.degrees[j] + both
    change = _change(s, a, b, cut_a, cut_b, mass - back)
    if not _is_accepted(change, temperature, random):
        return cost, 0
    transfer(level, s, i, b)
    transfer(level, s, j, a)
    cost += level.indptr[i + 1] - level.indptr[i] + level.indptr[j + 1] - level.indptr[j]
    return cost, int(abs(change) > least)


@absorbed
def _is_accepted(change: float, temperature: float, random: Any) -> bool:
    """Metropolis's rule."""
    if change <= 0:
        return True
    return change < _HOPELESS * temperature and uniform(random) < np.exp(-change / temperature)


@bare
def _fill(level: Level, s: State) -> None:
    """Give each cluster below its smallest size the vertices that raise (P) least."""
    for r in range(s.lam.size):
        for _ in range(s.labels.size):
            if s.masses[r] >= s.smallest[r]:
                break
            best: Any = np.int64(-1)  # for a bare −1, `transfer` would be compiled once more
            lowest = np.inf
            for i in range(s.labels.size):
                a, mass = s.labels[i], level.masses[i]
                if a == r or level.is_fixed[i] or s.masses[a] - mass < s.smallest[a]:
                    continue
                left = term(s, a, s.cut[a] + 2 * s.towards[i, a] - level.degrees[i], s.masses[a] - mass)
                joined = term(s, r, s.cut[r] + level.degrees[i] - 2 * s.towards[i, r], s.masses[r] + mass)
                change = left - s.terms[a] + joined  # less what r was: the same for all i
                if change < lowest:
                    best, lowest = i, change
            if best < 0:
                break
            transfer(level, s, best, r)


@bare
def quench(level: Level, s: State, is_afresh: bool) -> None:
    """Move single vertices, each to the cluster that lowers (P) most, until none does."""
    for _ in range(_MAX_SWEEPS):
        if is_afresh:
            book_again(level, s)
        n_moves, least = 0, least_change(s)
        for i in range(s.labels.size):
            a, mass = s.labels[i], level.masses[i]
            if level.is_fixed[i] or s.masses[a] - mass < s.smallest[a]:
                continue
            cut_a = s.cut[a] + 2 * s.towards[i, a] - level.degrees[i]
            best, lowest = a, -least
            for b in range(s.lam.size):
                if b != a:
                    change = _change(s, a, b, cut_a, s.cut[b] + level.degrees[i] - 2 * s.towards[i, b], mass)
                    if change < lowest:
                        best, lowest = b, change
            if best != a:
                n_moves += 1
                transfer(level, s, i, best)
        if n_moves == 0:
            break


@bare
def least_change(s: State) -> float:
    """What counts as a change of (P) at all."""
    return float(_ROUNDING * s.terms.sum())


@absorbed
def term(s: State, r: int, cut: float, mass: float) -> float:
    """Cut / min{λ m(A), m(Aᶜ), peak} of cluster r with this cut and mass: a term of (P) if the plateau is 1."""
    balance = float(min(min(s.lam[r] * mass, s.whole - mass), s.peaks[r]))
    return cut / balance if balance > 0 else np.inf


@absorbed
def _change(s: State, a: int, b: int, cut_a: float, cut_b: float, shift: float) -> float:
    """What (P) changes by when clusters a and b get these cuts, and this mass passes from a to b."""
    after = term(s, a, cut_a, s.masses[a] - shift) + term(s, b, cut_b, s.masses[b] + shift)
    return float(after - s.terms[a] - s.terms[b])


@bare
def _edge(level: Level, i: int, j: int) -> float:
    """The weight of the edge between i and j, 0 if there is none. A scan: coarse levels are not sorted."""
    if level.indptr[j + 1] - level.indptr[j] < level.indptr[i + 1] - level.indptr[i]:
        i, j = j, i
    for e in range(level.indptr[i], level.indptr[i + 1]):
        if level.indices[e] == j:
            return float(level.weights[e])
    return 0.0


@bare
def transfer(level: Level, s: State, i: int, b: int) -> None:
    """Move vertex i to cluster b and book it."""
    a, degree, mass = s.labels[i], level.degrees[i], level.masses[i]
    s.cut[a] += 2 * s.towards[i, a] - degree
    s.cut[b] += degree - 2 * s.towards[i, b]
    s.masses[a] -= mass
    s.masses[b] += mass
    s.terms[a] = term(s, a, s.cut[a], s.masses[a])
    s.terms[b] = term(s, b, s.cut[b], s.masses[b])
    s.labels[i] = b
    was, own = s.foreign[i], 0
    for e in range(level.indptr[i], level.indptr[i + 1]):
        j, w = level.indices[e], level.weights[e]
        s.towards[j, a] -= w
        s.towards[j, b] += w
        if s.labels[j] == a:
            s.foreign[j] += 1
            if s.foreign[j] == 1:
                _enter_border(s, j)
        elif s.labels[j] == b:
            own += 1
            s.foreign[j] -= 1
            if s.foreign[j] == 0:
                _leave_border(s, j)
    s.foreign[i] = level.indptr[i + 1] - level.indptr[i] - own
    if was > 0 and s.foreign[i] == 0:
        _leave_border(s, i)
    elif was == 0 and s.foreign[i] > 0:
        _enter_border(s, i)


@absorbed
def _enter_border(s: State, i: int) -> None:
    s.place[i], s.border[s.counted[0]] = s.counted[0], i
    s.counted[0] += 1


@absorbed
def _leave_border(s: State, i: int) -> None:
    """Take i from the list of vertices on borders; the last takes its place."""
    s.counted[0] -= 1
    last = s.border[s.counted[0]]
    s.border[s.place[i]], s.place[last] = last, s.place[i]
    s.place[i] = -1


@compiled
def generator(seed: int) -> Any:
    """The state of a random generator for `below`, an array that it overwrites."""
    random = np.empty(1, np.uint64)
    random[0] = np.uint64(2 * seed + 1)  # zero would stay zero
    for _ in range(4):
        _draw(random)
    return random


@absorbed
def _draw(random: Any) -> Any:
    """The next 64 bits of a xorshift generator with a multiplier."""
    z = random[0]
    z ^= z >> np.uint64(12)
    z ^= z << np.uint64(25)
    z ^= z >> np.uint64(27)
    random[0] = z
    return z * np.uint64(2685821657736338717)


@absorbed
def below(random: Any, n: int) -> Any:
    """A number from 0 to n − 1."""
    return np.int64(((_draw(random) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@absorbed
def uniform(random: Any) -> Any:
    """A number in [0, 1)."""
    return np.float64(_draw(random) >> np.uint64(11)) * 2.0**-53
