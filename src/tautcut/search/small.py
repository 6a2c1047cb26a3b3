"""The search on a small graph, which is to be solved and not only searched. Up to sixteen vertices all partitions are
compared. Above, annealed starts make a population, and children improve it until none finds a lower (P), the lowest
mended by exchanges; where too few starts have ended at the lowest, others begin anew and join it. Nothing here looks at
true labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.kernels.cpu.enumeration import LARGEST, lowest_partition
from tautcut.problem import Partition
from tautcut.search.annealing import Annealing
from tautcut.search.cycles import VCycles
from tautcut.search.exchange import exchanged
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population, is_better, is_same
from tautcut.search.threads import in_threads

_STARTS = 16
_PARENTS = 16
_GENERATION = 4  # children at a time; a constant, so that the answer does not depend on the cores
_POPULATIONS = 3  # each from starts of its own, unless enough starts have ended at the lowest (P) before
_BELIEVED_SHARE = 0.25  # of all starts so far: so many at the lowest (P) are enough
_EASY_SHARE = 0.5  # of them: a few children then have to confirm it, and not as many as when starts disagree
_FEWER = 4  # times fewer children of V-cycles than on large graphs, since tabu search follows
_CONFIRMED = 8  # children that have to confirm it
_SETTLED = 10  # children that have come to a population's lowest (P) again, and
_SETTLED_SHARE = 0.4  # of those since it was found: it then has settled, and need not be given all its patience


class SmallSearcher:
    """The searcher of small graphs. Algorithm 1 then runs from its answer as `solve` does, on whatever device."""

    capacity: int | None = _PARENTS

    def __init__(self, task: Task, solve: Callable[..., Result]) -> None:
        self._task, self._problem = task, task.problem
        self.solve = solve
        self.is_exact = task.problem.n_vertices <= LARGEST
        self.n_starts = 1 if self.is_exact else task.n_starts(lambda: _STARTS)
        self.n_children = 0 if self.is_exact else task.effort.small_children
        self.n_polishes = task.effort.polishes
        self._ended: list[Partition] = []

    @cached_property
    def _annealing(self) -> Annealing:
        problem, smallest = self._problem, self._task.smallest
        return Annealing(problem, smallest, VCycles(self._task.levels, smallest, self._task.effort.children // _FEWER))

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The lowest of all partitions, or starts of all kinds, annealed."""
        if self.is_exact:
            problem = self._problem
            yield Found(problem.partition(lowest_partition(problem.graph, problem.lam, self._task.smallest)))
            return
        yield from self._begun(rng)

    def _begun(self, rng: np.random.Generator) -> Iterator[Found]:
        """Starts of all kinds, annealed; remembered, since they know nothing of each other."""
        annealing = self._annealing
        for start in in_threads(lambda one: annealing.start(*one), list(enumerate(rng.spawn(self.n_starts)))):
            self._ended.append(start)
            yield Found(start)

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """Children of the population and, while too few starts have ended at the lowest, of others that begin anew.

        What the others find joins the first; what that has become gets all the children that are left. But where
        another comes to the same lowest (P), of which it knows nothing, the search ends.
        """
        n_left = self.n_children
        for turn in range(0 if self.is_exact else _POPULATIONS + 1):
            bred, lowest = population, population[0]
            if 0 < turn < _POPULATIONS:
                bred = Population(self._task.smallest, self.capacity)
                for start in self._begun(rng):
                    bred.found(start.partition)
                    yield start
            patience = self._annealing.patience if turn < _POPULATIONS else n_left
            for child in self._bred(bred, n_left, patience, rng):
                n_left -= 1
                if bred is not population:
                    bred.add(child.partition)
                yield child
            is_found_again = bred is not population and is_same(bred[0], lowest)
            n_agreeing = sum(is_same(one, population[0]) for one in self._ended)
            if is_found_again or n_agreeing >= _BELIEVED_SHARE * len(self._ended):
                return

    def _bred(
        self, population: Population, n_children: int, patience: int, rng: np.random.Generator
    ) -> Iterator[Found]:
        """Children a generation at a time, until so many in a row have not helped; fewer where many find it again.

        What is lower than all of its population is made lower yet by exchanges, if they can.
        """
        mended = self._mended(population[0])
        if mended is not population[0]:
            yield Found(mended)
            n_children -= 1
        lowest, n_stale, n_again = population[0], 0, 0
        is_easy = population.share_of_best() >= _EASY_SHARE
        for begin in range(0, n_children, _GENERATION):
            generators = rng.spawn(min(_GENERATION, n_children - begin))
            for child in in_threads(partial(self._annealing.child, _distinct(population)), generators):
                n_again += is_same(child, lowest)
                is_lowest = is_better(child, population[0], self._task.smallest)
                yield Found(self._mended(child) if is_lowest else child)
            n_stale += len(generators)
            if not is_same(population[0], lowest):
                lowest, n_stale, n_again, is_easy = population[0], 0, 0, False
            has_settled = n_again >= max(_SETTLED, _SETTLED_SHARE * n_stale) or (is_easy and n_stale >= _CONFIRMED)
            if has_settled or n_stale >= patience:
                return

    def _mended(self, partition: Partition) -> Partition:
        return exchanged(self._problem, partition, self._task.smallest)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """The partition annealed a little; never higher in (P)."""
        return partition if self.is_exact else self._annealing.refine(partition, rng=rng)


def _distinct(population: Population) -> list[Partition]:
    """The parents, best first, those of one energy once."""
    parents: list[Partition] = []
    for one in population:
        if not parents or not is_same(one, parents[-1]):
            parents.append(one)
    return parents
