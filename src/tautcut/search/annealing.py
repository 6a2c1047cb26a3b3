"""Partitions by annealing and tabu search: starts of several kinds, most of them not balanced, and children in which
what two parents agree on is contracted, or clusters are melted, or merged and split. The work is counted, never timed,
so that the answer is the same on any machine. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu.annealing import anneal
from tautcut.kernels.cpu.coarsening import Level, contract_matching, contract_pieces, induced, weights_between
from tautcut.kernels.cpu.moves import bisect
from tautcut.kernels.cpu.tabu import SHORT, tabu
from tautcut.problem import Partition, Problem, balanced_terms
from tautcut.search.cycles import VCycles, pockets
from tautcut.search.plan import SMALL
from tautcut.search.population import clusters_to_merge_and_split, is_better

_LEAST_WORK = 20_000  # of one annealing,
_WORK_OF_VERTEX = 20  # or this for each vertex
_TABU_OF_VERTEX = 2_500  # work of the tabu search that follows, for each vertex,
_MOST_TABU = 500_000  # but no more than this,
_MOST_TABU_OF_LARGE = 1_000_000  # or this where there are more than 2,000 vertices, whose borders are long
_BANS = (0.02, 0.25)  # shares of the borders for which a vertex may not go back, drawn anew each time
_LONG = 6  # times as much for a start from nothing
_COLD = 0.02  # where annealing ends, of where it began
_COARSEST = 8  # vertices per cluster at which coarsening stops, for annealing from nothing
_STRANGERS, _CYCLED, _OVERLAID, _MELTED = 0.1, 0.1, 0.5, 0.2  # shares of the kinds of children; the rest are split
_PATIENCE = (40, 120)  # children that find no lower (P) before a search may end, on large and on tiny graphs


class Annealing:
    """Partitions of one problem by annealing; holds the finest level and the bounds, no partition."""

    def __init__(self, problem: Problem, smallest: FloatArray, cycles: VCycles) -> None:
        self._problem, self._lam = problem, problem.lam
        self._smallest = smallest
        self._cycles, self._finest = cycles, cycles.levels.finest
        self._are_alike = bool(np.ptp(problem.lam) == 0 and np.ptp(smallest) == 0)
        n = problem.n_vertices
        self._work = max(_LEAST_WORK, _WORK_OF_VERTEX * n)
        self._short_border = n if n <= SMALL else SHORT  # whole borders of small graphs are looked at
        self._tabu_work = min(_TABU_OF_VERTEX * n, _MOST_TABU if n <= SMALL else _MOST_TABU_OF_LARGE)
        self.patience = int(np.clip(_PATIENCE[0] * _MOST_TABU / self._tabu_work, *_PATIENCE))

    def start(self, number: int, rng: np.random.Generator) -> Partition:
        """A partition from nothing; the kinds take turns."""
        kind = number % 4
        taken_out = pockets(self._finest, self._lam, self._smallest, rng=rng) if kind == 1 else None
        if taken_out is not None:
            return self._finished(taken_out, _drawn(rng, 0.1, 5.0), rng)
        if kind < 3:
            return self._finished(self._cycles.start(number // 2, rng).labels, _drawn(rng, 0.05, 0.5), rng)
        return self._finished(self._cooled(rng, is_coarse=number % 8 == 3), 0.2, rng)

    def child(self, parents: Sequence[Partition], rng: np.random.Generator) -> Partition:
        """A partition made of one or two parents, of which the better ones are more often taken alone."""
        n = len(parents)
        good = parents[min(int(rng.geometric(0.4)) - 1, n - 1)]
        warm = _drawn(rng, 0.05, 1.0)
        kind = rng.random()
        if kind < _STRANGERS:
            return self._finished(self._overlaid(good, self.start(int(rng.integers(3)), rng), rng), warm, rng)
        kind -= _STRANGERS
        if kind < _CYCLED + _OVERLAID and n > 1:
            better, other = (parents[place] for place in sorted(rng.choice(n, 2, replace=False)))
            is_cycled = kind < _CYCLED and self._cycles.levels.are_several
            labels = self._cycles.combine(better, other, rng=rng).labels if is_cycled else None
            return self._finished(self._overlaid(better, other, rng) if labels is None else labels, warm, rng)
        if kind < _CYCLED + _OVERLAID + _MELTED:
            return self._finished(self._melted(good, rng), 0.1, rng)
        return self._finished(self._merged_and_split(good, rng), warm, rng)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """The partition annealed a little; never higher in (P)."""
        found = self._finished(partition.labels, 0.1, rng)
        return found if is_better(found, partition, self._smallest) else partition

    def _cooled(self, rng: np.random.Generator, *, is_coarse: bool) -> IntArray:
        """Noise, annealed from hot on a coarse level and from warm on the finer ones, or on the graph alone."""
        level, levels = self._finest, list[tuple[Level, IntArray]]()
        heaviest = max(2.0, 0.25 * self._problem.total_mass / self._lam.size)
        while is_coarse and level.n_vertices > max(_COARSEST * self._lam.size, 30):
            coarse, parent = contract_matching(level, np.zeros(level.n_vertices, np.int64), heaviest=heaviest, rng=rng)
            if coarse.n_vertices > 0.95 * level.n_vertices:
                break
            levels.append((level, parent))
            level = coarse
        labels = self._annealed(level, self._noise(level, rng), _drawn(rng, 2.0, 40.0), rng, work=_LONG * self._work)
        for level, parent in reversed(levels):
            labels = self._annealed(level, labels[parent], 0.5, rng)
        return labels

    def _noise(self, level: Level, rng: np.random.Generator) -> IntArray:
        """Vertices in a random order, dealt out so that the masses fit the shares."""
        labels = np.empty(level.n_vertices, dtype=np.int64)
        order = rng.permutation(level.n_vertices)
        ends = np.cumsum(self._problem.shares) * level.masses.sum()
        middles = np.cumsum(level.masses[order]) - level.masses[order] / 2
        labels[order] = np.minimum(np.searchsorted(ends, middles), self._lam.size - 1)
        return labels

    def _overlaid(self, better: Partition, other: Partition, rng: np.random.Generator) -> IntArray:
        """What two partitions agree on contracted, and the better one annealed on that."""
        coarse, parent = contract_pieces(self._finest, better.labels * self._lam.size + other.labels)
        labels = np.empty(coarse.n_vertices, dtype=np.int64)
        labels[parent] = better.labels
        return self._annealed(coarse, labels, _drawn(rng, 0.2, 20.0), rng)[parent]

    def _melted(self, partition: Partition, rng: np.random.Generator) -> IntArray:
        """Up to three clusters that touch annealed from hot, while the others stay."""
        R = self._lam.size
        first = int(rng.integers(R))
        closeness = weights_between(self._finest, partition.labels, R)[first] + 1e-12
        closeness[first] = 0.0
        others = rng.choice(R, min(2, R - 1), replace=False, p=closeness / closeness.sum())
        is_fixed = ~np.isin(partition.labels, np.append(others, first))
        is_fixed.setflags(write=False)
        return self._annealed(self._finest._replace(is_fixed=is_fixed), partition.labels, _drawn(rng, 0.3, 10.0), rng)

    def _merged_and_split(self, partition: Partition, rng: np.random.Generator) -> IntArray:
        """Two clusters merged, and one cut along a seam."""
        between = weights_between(self._finest, partition.labels, self._lam.size)
        a, b, large = clusters_to_merge_and_split(between.sum(axis=1), partition.masses, between, self._lam, rng=rng)
        labels = np.where(partition.labels == b, a, partition.labels)
        members = np.flatnonzero(labels == large)
        if members.size > 1:
            labels[members[bisect(induced(self._finest, members), rng=rng)]] = b
        return labels

    def _finished(self, labels: IntArray, hot: float, rng: np.random.Generator) -> Partition:
        """The labels annealed from warm; whole pieces of clusters moved; a tabu search; and names given out best."""
        labels = self._annealed(self._finest, labels, hot, rng)
        coarse, parent = contract_pieces(self._finest, labels)
        if coarse.n_vertices > self._lam.size:
            of_pieces = np.empty(coarse.n_vertices, dtype=np.int64)
            of_pieces[parent] = labels
            labels = self._descended(coarse, of_pieces)[parent]
        found, cut, masses = tabu(
            self._finest, labels, self._lam, self._smallest,
            ban=_drawn(rng, *_BANS), work=self._tabu_work, seed=_seed(rng), short=self._short_border,
        )  # fmt: skip
        if not self._are_alike:
            cost = np.stack([balanced_terms(cut, masses, np.full(masses.size, one)) for one in self._lam], axis=1)
            cost[masses[:, None] < self._smallest] = np.inf
            most = 1.0 + np.max(cost[np.isfinite(cost)], initial=0.0) * self._lam.size
            found = linear_sum_assignment(np.minimum(cost, most))[1][found]
        return self._problem.partition(found)

    def _annealed(
        self, level: Level, labels: IntArray, hot: float, rng: np.random.Generator, work: int | None = None
    ) -> IntArray:
        work = work or self._work
        cooled, _, _ = anneal(
            level, labels, self._lam, self._smallest, hot=hot, cold=_COLD * hot, work=work, seed=_seed(rng)
        )
        return cooled

    def _descended(self, level: Level, labels: IntArray) -> IntArray:
        return anneal(level, labels, self._lam, self._smallest, hot=0.0, cold=0.0, work=0, seed=0)[0]


def _drawn(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between these, whose logarithm is uniform: no one temperature suits all graphs."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))
