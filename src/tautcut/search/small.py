"""The search on a small graph, which is to be solved and not only searched. Up to sixteen vertices all partitions are
compared. Above, starts of several kinds, most of them not balanced, are annealed; what two of them agree on is
contracted and annealed again, and clusters are melted or merged and split. It goes on until the lowest (P) has been
found often enough, or the work is done. The work is counted, never timed: the answer is the same on any machine. Nothing
here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from tautcut.algorithm.results import Result
from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu.annealing import anneal
from tautcut.kernels.cpu.enumeration import LARGEST, lowest_partition
from tautcut.kernels.cpu.moves import Level, bisect, contract_matching, contract_pieces, finest_level, induced
from tautcut.kernels.cpu.moves import weights_between
from tautcut.kernels.cpu.pockets import pocket_partition
from tautcut.problem import Partition, Problem, balanced_terms
from tautcut.search.multilevel import VCycles, in_threads
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population, clusters_to_merge_and_split, is_better, is_same

_STARTS = 16
_PARENTS = 16
_GENERATION = 4  # starts or children at a time; a constant, so that the answer does not depend on the cores
_EASY_SHARE = 0.5  # of the starts at the lowest (P): no more than one generation of children then has to confirm it
_ENOUGH = 24  # children that find no lower (P), each time that a lower one was found
_WORK = (20_000, 1_000, 100_000)  # of one annealing: at least, for each vertex, at most
_LONG = 6  # times as much for a start from nothing
_COLD = 0.02  # where annealing ends, of where it began
_COARSEST = 8  # vertices per cluster at which coarsening stops, for annealing from nothing


class SmallSearcher:
    """The searcher of small graphs. Algorithm 1 then runs from its answer as `solve` does, on whatever device."""

    capacity: int | None = _PARENTS

    def __init__(self, task: Task, solve: Callable[..., Result]) -> None:
        self._task, self._problem = task, task.problem
        self.solve = solve
        self.is_exact = task.problem.n_vertices <= LARGEST
        self.n_starts = 1 if self.is_exact else task.n_starts(lambda: _STARTS)
        self.n_children = 0 if self.is_exact else task.effort.small_children
        self._annealing = Annealing(task.problem, task.smallest, task.effort.children)

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The lowest of all partitions, or starts of all kinds, annealed."""
        if self.is_exact:
            bounds = self._task.smallest.astype(np.float64)
            yield Found(self._problem.partition(lowest_partition(self._problem.graph, self._problem.lam, bounds)))
            return
        generators = rng.spawn(self.n_starts)
        yield from map(Found, in_threads(lambda one: self._annealing.start(*one), list(enumerate(generators))))

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """Children of what the population has become, a generation at a time, while they may help."""
        lowest, n_stale = population[0], 0
        enough = _GENERATION if population.share_of_best() >= _EASY_SHARE else _ENOUGH
        for generators in _batches(rng.spawn(self.n_children)):
            if n_stale >= enough:
                return
            parents = _distinct(population)
            yield from map(Found, in_threads(partial(self._annealing.child, parents), generators))
            n_stale += len(generators)
            if not is_same(population[0], lowest):
                lowest, n_stale, enough = population[0], 0, _ENOUGH

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """The partition annealed a little; never higher in (P)."""
        return partition if self.is_exact else self._annealing.refine(partition, rng=rng)


class Annealing:
    """Partitions of one problem by annealing; holds the finest level and the bounds, no partition."""

    def __init__(self, problem: Problem, smallest: IntArray, children: int) -> None:
        self._problem, self._lam = problem, problem.lam
        self._smallest, self._bounds = smallest, smallest.astype(np.float64)
        self._cycles = VCycles(problem, smallest, children)
        self._finest = finest_level(problem.graph, problem.is_labelled)
        self._are_alike = bool(np.ptp(problem.lam) == 0 and np.ptp(smallest) == 0)
        least, each, most = _WORK
        self._work = int(np.clip(each * problem.n_vertices, least, most))

    def start(self, number: int, rng: np.random.Generator) -> Partition:
        """A partition from nothing; the kinds take turns."""
        kind = number % 4
        if kind in (0, 2):
            return self._finished(self._cycles.start(number // 2, rng).labels, _drawn(rng, 0.05, 0.5), rng)
        if kind == 1:
            return self._finished(self._pockets(rng), _drawn(rng, 0.1, 5.0), rng)
        return self._finished(self._cooled(rng, is_coarse=number % 8 == 3), 0.2, rng)

    def child(self, parents: list[Partition], rng: np.random.Generator) -> Partition:
        """A partition made of one or two parents, of which the better ones are more often taken alone."""
        n = len(parents)
        good = parents[min(int(rng.geometric(0.4)) - 1, n - 1)]
        kind = rng.random()
        if kind < 0.7 and n > 1:
            better, other = (parents[place] for place in sorted(rng.choice(n, 2, replace=False)))
            if kind < 0.2:
                labels = self._cycles.combine(better, other, rng=rng).labels
                return self._finished(labels, _drawn(rng, 0.05, 0.5), rng)
            return self._finished(self._overlaid(better, other, rng), _drawn(rng, 0.05, 1.0), rng)
        if kind < 0.85:
            return self._finished(self._melted(good, rng), 0.1, rng)
        return self._finished(self._merged_and_split(good, rng), _drawn(rng, 0.05, 1.0), rng)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """The partition annealed a little; never higher in (P)."""
        found = self._finished(partition.labels, 0.1, rng)
        return found if is_better(found, partition, self._smallest) else partition

    def _pockets(self, rng: np.random.Generator) -> IntArray:
        """Pockets taken out in a random order, by walks of random lengths."""
        R = self._lam.size
        steps = np.exp(rng.uniform(np.log(2.0), np.log(100.0), R)).astype(np.int64)
        tries, seed = int(rng.integers(1, 6)), _seed(rng)
        labels: IntArray = pocket_partition(
            self._finest, self._lam, self._bounds, rng.permutation(R), steps, tries, seed
        )
        return labels

    def _cooled(self, rng: np.random.Generator, *, is_coarse: bool) -> IntArray:
        """Noise, annealed from hot on a coarse level and from warm on the finer ones, or on the graph alone."""
        level, levels = self._finest, list[tuple[Level, IntArray]]()
        heaviest = max(2.0, 0.25 * self._problem.n_vertices / self._lam.size)
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
        sizes = partition.sizes.astype(np.float64)
        a, b, large = clusters_to_merge_and_split(between.sum(axis=1), sizes, between, self._lam, rng=rng)
        labels = np.where(partition.labels == b, a, partition.labels)
        members = np.flatnonzero(labels == large)
        if members.size > 1:
            labels[members[bisect(induced(self._finest, members), rng=rng)]] = b
        return labels

    def _finished(self, labels: IntArray, hot: float, rng: np.random.Generator) -> Partition:
        """The labels annealed from warm; then whole pieces of clusters moved, and names given out best."""
        labels = self._annealed(self._finest, labels, hot, rng)
        coarse, parent = contract_pieces(self._finest, labels)
        found, cut, sizes = self._descended(self._finest, labels)
        if coarse.n_vertices > self._lam.size:
            of_pieces = np.empty(coarse.n_vertices, dtype=np.int64)
            of_pieces[parent] = labels
            found, cut, sizes = self._descended(self._finest, self._descended(coarse, of_pieces)[0][parent])
        if not self._are_alike:
            cost = np.stack([balanced_terms(cut, sizes, np.full(sizes.size, one)) for one in self._lam], axis=1)
            cost[sizes[:, None] < self._bounds] = np.inf
            most = 1.0 + np.max(cost[np.isfinite(cost)], initial=0.0) * self._lam.size
            found = linear_sum_assignment(np.minimum(cost, most))[1][found]
        return self._problem.partition(found)

    def _annealed(
        self, level: Level, labels: IntArray, hot: float, rng: np.random.Generator, work: int | None = None
    ) -> IntArray:
        cooled, _, _ = anneal(
            level, labels, self._lam, self._bounds, hot=hot, cold=_COLD * hot, work=work or self._work, seed=_seed(rng)
        )
        return cooled

    def _descended(self, level: Level, labels: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        return anneal(level, labels, self._lam, self._bounds, hot=0.0, cold=0.0, work=0, seed=0)


def _drawn(rng: np.random.Generator, low: float, high: float) -> float:
    """A temperature between these, whose logarithm is uniform: no one temperature suits all graphs."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))


def _distinct(population: Population) -> list[Partition]:
    """The parents, best first, those of one energy once."""
    parents: list[Partition] = []
    for one in population:
        if not parents or not is_same(one, parents[-1]):
            parents.append(one)
    return parents


def _batches(generators: list[np.random.Generator]) -> Iterator[list[np.random.Generator]]:
    for begin in range(0, len(generators), _GENERATION):
        yield generators[begin : begin + _GENERATION]
