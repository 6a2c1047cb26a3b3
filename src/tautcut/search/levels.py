"""The multilevel search of a GPU. A large graph is coarsened there, generations evolve on the coarsest one, where they
cost little, and Algorithm 1 with greedy moves polishes the best of them on each finer one. A further cycle coarsens
anew, but keeps apart what any partition found so far keeps apart. Smaller graphs evolve as they are, and noisy ones are
handed to the processor's search. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tautcut.algorithm.observers import Observer, Progress
from tautcut.algorithm.results import Result
from tautcut.arrays import FloatArray
from tautcut.problem import Partition, Problem
from tautcut.search import cycles
from tautcut.search.generations import LARGE, PARENTS, GenerationSearcher
from tautcut.search.multilevel import MultilevelSearcher, is_noisy
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population

COARSEST = 200  # vertices per cluster, and
FEWEST = 2000  # vertices at least, on the coarsest graph (decision 0057)
_RATIO = 64  # of the vertices of a graph and of the next coarser one, at most
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_FINALISTS = (1, 4)  # partitions of a coarse graph that are polished on the next finer one, at least and at most
_FINALIST_WORK = 4_000_000  # directed edges over the finalists


class LevelSearcher:
    """The searcher of a GPU that begins with starts of its own; see `suits`."""

    is_exact = False
    capacity: int | None = PARENTS

    def __init__(self, task: Task) -> None:
        self._task = replace(task, observers=(_Latch(task.observers),))
        self._finest = GenerationSearcher(self._task)
        problem = task.problem
        self._coarsest = _coarsest(problem)
        per_vertex = problem.total_mass / problem.n_vertices
        self._heaviest = max(2.0 * per_vertex, _HEAVIEST_SHARE * problem.total_mass / problem.n_clusters)
        is_large = problem.graph.indices.size > LARGE and problem.n_vertices > 2 * self._coarsest
        self._has_levels = is_large
        # On levels, what is found has been through Algorithm 1 on the finest graph.
        self.n_polishes = max(0, task.effort.polishes - 1) if is_large else task.effort.polishes
        self.n_starts = _n_finalists(problem) if is_large else self._finest.n_starts
        self.n_children = task.effort.cycles * self.n_starts if is_large else self._finest.n_children

    @staticmethod
    def suits(task: Task) -> bool:
        """Whether this search is meant: the device's own starts, and no label is fixed."""
        is_own = isinstance(task.plan.init, str) and task.plan.init == "auto" and task.plan.algorithm == "fast"
        return is_own and task.effort.is_refined and not task.problem.has_labels

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """What a first cycle finds, or the starts on a graph that is not large."""
        if self._has_levels:
            yield from self._cycle(self._finest, (), population, rng)
        else:
            yield from self._finest.starts(population, rng=rng)

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """What further cycles find, or generations; on noisy graphs, what the processor's search does."""
        if is_noisy(self._task.problem, population[0]) and cycles.can_run():
            host = MultilevelSearcher(self._task)
            self.n_polishes = host.n_polishes
            yield from host.starts(population, rng=rng)
            yield from host.children(population, rng=rng)
        elif self._has_levels:
            for _ in range(self._task.effort.cycles):
                yield from self._cycle(self._finest, tuple(population), population, rng)
        else:
            yield from self._finest.children(population, rng=rng)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """Greedy moves; never higher in (P)."""
        return self._finest.refine(partition, rng=rng)

    def solve(self, F: FloatArray, number: int = 0) -> Result:
        """Algorithm 1 from F."""
        return self._finest.solve(F, number)

    def _cycle(
        self, searcher: GenerationSearcher, founders: Sequence[Partition], population: Population,
        rng: np.random.Generator,
    ) -> Iterator[Found]:  # fmt: skip
        """Partitions of the searcher's problem: found on coarser graphs, polished on its own."""
        problem = searcher.problem
        n_coarse = max(self._coarsest, problem.n_vertices // _RATIO)
        coarse, restricted = searcher.coarsened(n_coarse, self._heaviest, founders, int(rng.integers(2**31)))
        lower_problem = Problem(coarse.graph, problem.n_clusters, problem.lam)
        n_points = self._task.plan.n_points or self._task.problem.n_vertices
        above = self._task
        lower = GenerationSearcher(
            Task(
                lower_problem, replace(above.plan, n_points=n_points), above.observers, above.deadline,
                keeps_small=above.keeps_small,
            )
        )  # fmt: skip
        images = [lower_problem.partition(labels) for labels in restricted]
        if 2 * self._coarsest < lower_problem.n_vertices <= problem.n_vertices // 2:
            found = Population(lower.smallest, self.capacity)
            for one in self._cycle(lower, images, found, rng):
                found.found(one.partition)
        else:
            found = lower.evolved(images, rng=rng)
        finalists = np.stack([one.labels for one in list(found)[: _n_finalists(problem)]])
        is_last = searcher is self._finest and not self.n_polishes
        yield from searcher.polished(coarse.projected(finalists), population, is_last=is_last)


class _Latch:
    """Observers as one, which goes on asking to stop once any of them has: every level must hear of it."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers, self._has_stopped = observers, False

    def __call__(self, seen: Progress) -> bool:
        self._has_stopped |= any([observer(seen) for observer in self._observers])
        return self._has_stopped


def _coarsest(problem: Problem) -> int:
    return max(FEWEST, COARSEST * problem.n_clusters)


def _n_finalists(problem: Problem) -> int:
    return int(np.clip(_FINALIST_WORK // max(problem.graph.indices.size, 1), *_FINALISTS))
