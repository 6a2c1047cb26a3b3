"""The search on the processor: V-cycles make the starts, and pairs of them are combined; where the graph is not large,
partitions are also annealed. Nothing here looks at true labels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import starmap
from typing import Any, TypeVar

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import run
from tautcut.arrays import FloatArray
from tautcut.interrupts import outlive_never
from tautcut.kernels import devices
from tautcut.kernels.cpu.layout import is_scattered
from tautcut.kernels.protocol import Kernels
from tautcut.problem import Partition, Problem, cuts
from tautcut.search.annealing import Annealing
from tautcut.search.cycles import VCycles, lightest_apart
from tautcut.search.partitioners import strong_partition
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population, is_same
from tautcut.search.starts import start_maker
from tautcut.search.threads import in_threads, meanwhile

Item = TypeVar("Item")

_AUTO_WORK = 2_000_000  # directed edges over all starts of n_init="auto" (decision 0014)
_AUTO_RANGE = (4, 8)  # and the limits on their number (decision 0074)
_NOISY_SHARE = 0.1  # of the edge weight: a partition that cuts more is one of a noisy graph (decision 0021)
_STRONG_WORK = 500_000  # directed edges up to which the strong partitioner is worth its time
_STRONG_DEGREE = 5000  # neighbours of a vertex with which it takes minutes, and cuts through the hub whatever it does
_ANNEALED_WORK = 500_000  # directed edges up to which partitions are annealed too (decision 0029)
_ANNEALED_VALUES = 5_000_000  # and vertices times clusters
_CHEAP = 1.5  # times the lowest (P): a start that costs more as it is would not be refined to less (decision 0065)
_REGROUPED = 4  # partitions with other clusters are made of the best
_GENERATION = 4  # combinations at a time; a constant, so that the answer does not depend on the cores


class MultilevelSearcher:
    """The searcher of the processor: multilevel starts, V-cycles, combinations of two partitions."""

    is_exact = False
    capacity: int | None = None  # as many parents as there were starts: a child takes the place of the worst

    def __init__(self, task: Task) -> None:
        self._task, self._effort = task, task.effort
        self._init = task.init("multilevel")
        is_multilevel = isinstance(self._init, str) and self._init == "multilevel"
        # Partitions that the search takes as they are, before Algorithm 1 runs at all.
        self._are_searched = is_multilevel and self._effort.start_factor > 0 and task.plan.algorithm == "fast"
        self.n_starts = task.n_starts(self._affordable_starts)
        self.n_children = self._effort.combinations
        self.n_polishes = self._effort.polishes
        self._engine: Callable[[], Kernels] | None = None

    def _affordable_starts(self) -> int:
        """How many starts are searched: more on smaller graphs; one where they would be solved in full."""
        if not self._are_searched:
            return 0
        affordable = _AUTO_WORK // max(2 * self._task.problem.graph.n_edges, 1)
        return int(np.clip(affordable, *_AUTO_RANGE))

    @cached_property
    def _cycles(self) -> VCycles:
        return VCycles(self._task.levels, self._task.smallest, self._effort.children)

    @cached_property
    def _annealing(self) -> Annealing | None:
        """What anneals partitions, where that is worth its time."""
        problem = self._task.problem
        is_large = problem.n_vertices * problem.n_clusters > _ANNEALED_VALUES
        if not self._are_searched or is_large or problem.graph.indices.size > _ANNEALED_WORK:
            return None
        return Annealing(problem, self._task.smallest, self._cycles)

    def _start(self, number: int, rng: np.random.Generator) -> Partition:
        partition = self._cycles.start(number, rng)
        return self._annealing.refine(partition, rng=rng) if self._annealing else partition

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The starts, searched as they are or solved and refined; then a strong partitioner's, if one is wanted."""
        make = start_maker(self._task.problem, self._init, rng=rng)
        generators = rng.spawn(self.n_starts)
        if self._are_searched:
            self._prepare_engine()
            light = meanwhile(self._light_partition)
            yield from map(Found, self._searched(generators))
            yield from self._strong_starts(population, rng)
            yield from self._light_start(light(), population, rng)
            return
        starts = ((make(number, one), number) for number, one in enumerate(generators))
        for run_of_start, one in zip(self._solved(starts), generators, strict=True):
            partition = run_of_start.partition
            yield Found(self.refine(partition, rng=one) if self._effort.is_refined else partition, run_of_start)

    def _searched(self, generators: list[np.random.Generator]) -> Iterator[Partition]:
        """Each multilevel start, in their order; in threads, or in processes where n_jobs asks for it."""
        if self._task.plan.n_jobs in (None, 1):
            _ = self._task.levels.shared  # made before the threads that share it begin
            return in_threads(lambda one: self._start(*one), list(enumerate(generators)))
        return self._in_processes(self._silent()._start, enumerate(generators))

    def _solved(self, starts: Iterable[tuple[FloatArray, int]]) -> Iterator[Result]:
        """Each start solved, in their order, as soon as it is there; in processes where n_jobs asks for it."""
        if self._task.plan.n_jobs in (None, 1):
            return starmap(self.solve, starts)
        return self._in_processes(self._silent().solve, starts)

    def _silent(self) -> MultilevelSearcher:
        """The same without observers: a bar cannot be drawn from another process."""
        task = self._task
        return MultilevelSearcher(Task(task.problem, task.plan, deadline=task.deadline, keeps_small=task.keeps_small))

    def _in_processes(self, work: Callable[..., Item], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Item]:
        from joblib import Parallel, delayed
        from joblib.parallel import get_active_backend

        # Processes that joblib starts for this one end with it; those of another backend are somebody else's.
        is_own = type(get_active_backend()[0]).__name__ == "LokyBackend"
        begin = {"initializer": outlive_never, "initargs": (os.getpid(),)} if is_own else {}
        tasks = (delayed(work)(*one) for one in arguments)
        done: Iterator[Item] = Parallel(n_jobs=self._task.plan.n_jobs, return_as="generator", **begin)(tasks)
        return done

    def _strong_starts(self, population: Population, rng: np.random.Generator) -> Iterator[Found]:
        """Another partitioner's best, refined, where the effort asks for it."""
        problem, effort = self._task.problem, self._effort
        wanted = effort.strong or (effort.strong_if_noisy if is_noisy(problem, population[0]) else ())
        for imbalance in wanted:
            labels = strong_partition(problem, imbalance=imbalance)
            if labels is not None:
                yield Found(self.refine(problem.partition(labels), rng=rng))

    def _light_partition(self) -> Partition:
        problem = self._task.problem
        return problem.partition(lightest_apart(problem, self._task.smallest))

    def _light_start(self, light: Partition, population: Population, rng: np.random.Generator) -> Iterator[Found]:
        """The lightest vertices cut off, refined, where that costs about as little as what is there (decision 0065)."""
        if light.energy < _CHEAP * population[0].energy:
            yield Found(self.refine(light, rng=rng))

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """Combinations of pairs; those of a generation are drawn together and combined at the same time."""
        n = len(population)
        self.n_children = min(self._effort.combinations, n * (n - 1) // 2)
        if self._annealing and n > 1:  # a child that is annealed is another one each time
            self.n_children = self._effort.annealed_children * n
        yield from self._combinations(population, rng)
        if self._are_searched:
            yield from map(Found, in_threads(self._cycles.settled, self._finalists(population, rng)))

    def _finalists(self, population: Population, rng: np.random.Generator) -> list[Partition]:
        """The best partition of each kind, and the lowest with the best one's clusters regrouped: which clusters are
        best, the levels that starts and combinations share may rank wrongly (decision 0075).
        """
        regroup = partial(self._cycles.regrouped, population[0])
        regrouped = filter(None, in_threads(regroup, rng.spawn(_REGROUPED)))
        lowest = sorted(regrouped, key=lambda one: one.energy)[:1]
        return self._cycles.with_other_clusters([*population, *lowest])

    def _combinations(self, population: Population, rng: np.random.Generator) -> Iterator[Found]:
        lowest, n_stale = population[0], 0
        rngs = rng.spawn(self.n_children)
        for begin in range(0, len(rngs), _GENERATION):
            mate = partial(self._offspring, tuple(population))
            yield from map(Found, in_threads(mate, rngs[begin : begin + _GENERATION]))
            n_stale = n_stale + _GENERATION if is_same(lowest, population[0]) else 0
            lowest = population[0]
            if n_stale >= self._effort.combinations:
                return

    def _offspring(self, parents: tuple[Partition, ...], rng: np.random.Generator) -> Partition:
        if self._annealing and rng.random() < 0.5:
            return self._annealing.child(parents, rng)
        first, second = sorted(rng.choice(len(parents), 2, replace=False))
        return self._cycles.combine(parents[first], parents[second], rng=rng)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """A V-cycle from the partition; never higher in (P)."""
        return self._cycles.refine(partition, rng=rng)

    def _prepare_engine(self) -> None:
        """Make the engine of Algorithm 1 while starts are searched, if there is time, and if it needs no partition: a
        graph whose rows are near one another is left in its order (decision 0015).
        """
        problem, plan = self._task.problem, self._task.plan
        is_ours = self.n_polishes and devices.resolved(plan.device) == "cpu" and problem.numerator == "tv"
        if is_ours and not is_scattered(problem.graph, problem.n_clusters * plan.bytes_of_value):
            self._engine = meanwhile(lambda: devices.choose(problem, device=plan.device, dtype=plan.dtype))

    def solve(self, F: FloatArray, number: int = 0) -> Result:
        """Algorithm 1 from F, on an engine whose rows follow its clusters."""
        problem, plan = self._task.problem, self._task.plan
        if self._engine is not None:
            kernels = self._engine()
        else:
            kernels = devices.choose(problem, device=plan.device, dtype=plan.dtype, groups=F.argmax(axis=1))
        found = run(
            problem, F, kernels, stop=plan.stop_rule, observers=self._task.observers, start_number=number,
            deadline=self._task.deadline,
        )  # fmt: skip
        self._task.keep(found)
        return found


def is_noisy(problem: Problem, partition: Partition) -> bool:
    """Whether a good partition cuts many edges, on a graph small enough for a slow partitioner (decision 0021)."""
    graph = problem.graph
    if graph.indices.size > _STRONG_WORK or np.diff(graph.indptr).max() > _STRONG_DEGREE:
        return False
    return bool(cuts(graph, partition.labels, problem.n_clusters).sum() > _NOISY_SHARE * graph.weights.sum())
