"""The search on a small graph, which is to be solved and not only searched. Up to sixteen vertices all partitions are
compared. Above, annealed starts make a population, and children improve it until the lowest (P) has been found often
enough, or no child finds a lower one. Nothing here looks at true labels.
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
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population, is_same
from tautcut.search.threads import in_threads

_STARTS = 16
_PARENTS = 16
_GENERATION = 4  # children at a time; a constant, so that the answer does not depend on the cores
_EASY_SHARE = 0.5  # of the starts, or of the last children, at the lowest (P): it is then taken for the minimum
_CONFIRMED = 8  # children that have to confirm it


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

    @cached_property
    def _annealing(self) -> Annealing:
        problem, smallest = self._problem, self._task.smallest
        return Annealing(problem, smallest, VCycles(problem, smallest, self._task.effort.children))

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The lowest of all partitions, or starts of all kinds, annealed."""
        if self.is_exact:
            problem = self._problem
            yield Found(problem.partition(lowest_partition(problem.graph, problem.lam, self._task.smallest)))
            return
        annealing = self._annealing
        yield from map(Found, in_threads(lambda one: annealing.start(*one), list(enumerate(rng.spawn(self.n_starts)))))

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """Children of what the population has become, a generation at a time, while they may help."""
        lowest, n_stale, n_again = population[0], 0, 0
        is_easy = population.share_of_best() >= _EASY_SHARE
        for begin in range(0, self.n_children, _GENERATION):
            generators = rng.spawn(min(_GENERATION, self.n_children - begin))
            if n_stale >= self._annealing.patience or (is_easy and n_stale >= _CONFIRMED):
                return
            for child in in_threads(partial(self._annealing.child, _distinct(population)), generators):
                n_again += is_same(child, lowest)
                yield Found(child)
            n_stale += len(generators)
            if not is_same(population[0], lowest):
                lowest, n_stale, n_again = population[0], 0, 0
            is_easy = (is_easy and n_stale > 0) or n_again >= max(_EASY_SHARE * n_stale, _CONFIRMED)

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
