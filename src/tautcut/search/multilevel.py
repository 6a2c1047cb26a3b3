"""The search on the processor. A partition is refined on coarsenings of the graph that respect it (a V-cycle), where
whole groups of vertices move at once; children merge two clusters and split another; two partitions are combined on a
coarsening that respects both. Every step is kept only if (P) falls, and no cluster shrinks below a size that the caller
sets. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import starmap
from typing import Any, TypeVar

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import run
from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels import devices
from tautcut.kernels.cpu.moves import Level, bisect, contract_matching, descend, finest_level, induced, weights_between
from tautcut.problem import Partition, Problem, balanced_terms, cuts
from tautcut.search.partitioners import imbalance_of_start, partition_level, strong_partition
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population, clusters_to_merge_and_split, is_better
from tautcut.search.starts import start_maker

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_COARSEST = 60  # vertices per cluster at which coarsening stops
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_PLATEAU = 0.97  # how much of the kink of (P) is cut off while vertices change places (decision 0012)
_MAX_LEVELS = 30
_AUTO_WORK = 2_000_000  # directed edges over all starts of n_init="auto" (decision 0014)
_AUTO_RANGE = (2, 8)  # and the limits on their number
_NOISY_SHARE = 0.1  # of the edge weight: a partition that cuts more is one of a noisy graph (decision 0021)
_STRONG_WORK = 500_000  # directed edges up to which the strong partitioner is worth its time
_GENERATION = 4  # combinations at a time; a constant, so that the answer does not depend on the cores


@dataclass(frozen=True, eq=False)
class _Found:
    """A partition of a level, with what it costs."""

    labels: IntArray
    cut: FloatArray
    sizes: FloatArray
    energy: float


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

    def _affordable_starts(self) -> int:
        """How many starts are searched: more on smaller graphs; one where they would be solved in full."""
        if not self._are_searched:
            return 0
        affordable = _AUTO_WORK // max(2 * self._task.problem.graph.n_edges, 1)
        return int(np.clip(affordable, *_AUTO_RANGE))

    @cached_property
    def _cycles(self) -> VCycles:
        return VCycles(self._task.problem, self._task.smallest, self._effort.children)

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The starts, searched as they are or solved and refined; then a strong partitioner's, if one is wanted."""
        make = start_maker(self._task.problem, self._init, rng=rng)
        generators = rng.spawn(self.n_starts)
        if self._are_searched:
            yield from map(Found, self._searched(generators))
            yield from self._strong_starts(population, rng)
            return
        starts = ((make(number, one), number) for number, one in enumerate(generators))
        for run_of_start, one in zip(self._solved(starts), generators, strict=True):
            partition = run_of_start.partition
            yield Found(self.refine(partition, rng=one) if self._effort.is_refined else partition, run_of_start)

    def _searched(self, generators: list[np.random.Generator]) -> Iterator[Partition]:
        """Each multilevel start, in their order; in threads, or in processes where n_jobs asks for it."""
        if self._task.plan.n_jobs in (None, 1):
            return in_threads(lambda one: self._cycles.start(*one), list(enumerate(generators)))
        return self._in_processes(self._cycles.start, enumerate(generators))

    def _solved(self, starts: Iterable[tuple[FloatArray, int]]) -> Iterator[Result]:
        """Each start solved, in their order, as soon as it is there; in processes where n_jobs asks for it."""
        if self._task.plan.n_jobs in (None, 1):
            return starmap(self.solve, starts)
        # a bar cannot be drawn from another process
        silent = MultilevelSearcher(Task(self._task.problem, self._task.plan, deadline=self._task.deadline))
        return self._in_processes(silent.solve, starts)

    def _in_processes(self, work: Callable[..., Item], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Item]:
        from joblib import Parallel, delayed

        tasks = (delayed(work)(*one) for one in arguments)
        done: Iterator[Item] = Parallel(n_jobs=self._task.plan.n_jobs, return_as="generator")(tasks)
        return done

    def _strong_starts(self, population: Population, rng: np.random.Generator) -> Iterator[Found]:
        """Another partitioner's best, refined, where the effort asks for it."""
        problem, effort = self._task.problem, self._effort
        wanted = effort.strong or (effort.strong_if_noisy if _is_noisy(problem, population[0]) else ())
        for imbalance in wanted:
            labels = strong_partition(problem, imbalance=imbalance)
            if labels is not None:
                yield Found(self.refine(problem.partition(labels), rng=rng))

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """Combinations of pairs; those of a generation are drawn together and combined at the same time."""
        n = len(population)
        self.n_children = min(self._effort.combinations, n * (n - 1) // 2)
        rngs = rng.spawn(self.n_children)
        for begin in range(0, len(rngs), _GENERATION):
            parents = tuple(population)
            mate = partial(self._offspring, parents)
            yield from map(Found, in_threads(mate, rngs[begin : begin + _GENERATION]))

    def _offspring(self, parents: tuple[Partition, ...], rng: np.random.Generator) -> Partition:
        first, second = sorted(rng.choice(len(parents), 2, replace=False))
        return self._cycles.combine(parents[first], parents[second], rng=rng)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """A V-cycle from the partition; never higher in (P)."""
        return self._cycles.refine(partition, rng=rng)

    def solve(self, F: FloatArray, number: int = 0) -> Result:
        """Algorithm 1 from F, on an engine whose rows follow its clusters."""
        problem, plan = self._task.problem, self._task.plan
        kernels = devices.choose(problem, device=plan.device, dtype=plan.dtype, groups=F.argmax(axis=1))
        found = run(
            problem, F, kernels, stop=plan.stop_rule, observers=self._task.observers, start_number=number,
            deadline=self._task.deadline,
        )  # fmt: skip
        self._task.keep(found)
        return found


class VCycles:
    """V-cycles on one problem; holds the finest level and the bounds, no partition."""

    def __init__(self, problem: Problem, smallest: IntArray, children: int) -> None:
        self._problem = problem
        self._lam = problem.lam
        self._smallest = smallest
        self._bounds = smallest.astype(np.float64)
        self._children = min(children, problem.n_vertices // problem.n_clusters)  # tiny graphs need few
        self._finest = finest_level(problem.graph, problem.is_labelled)
        self._heaviest = max(2.0, _HEAVIEST_SHARE * problem.n_vertices / problem.n_clusters)

    def start(self, number: int, rng: np.random.Generator) -> Partition:
        """A partition from nothing: coarsen freely, partition the coarsest level, refine on the way back."""
        nowhere = np.zeros(self._problem.n_vertices, dtype=np.int64)
        return self._partition(self._cycle(None, nowhere, rng, imbalance=imbalance_of_start(number)))

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """A V-cycle from the partition; never higher in (P)."""
        return self._better(self._cycle(partition.labels, partition.labels, rng), partition)

    def combine(self, better: Partition, other: Partition, *, rng: np.random.Generator) -> Partition:
        """A child of two partitions: what both keep together is coarsened, and the better one is refined on that."""
        both = better.labels * self._problem.n_clusters + other.labels
        return self._better(self._cycle(better.labels, both, rng), better)

    def _partition(self, found: _Found) -> Partition:
        return self._problem.measured(found.labels, found.cut)

    def _better(self, found: _Found, partition: Partition) -> Partition:
        challenger = self._partition(found)
        return challenger if is_better(challenger, partition, self._smallest) else partition

    def _cycle(
        self, labels: IntArray | None, groups: IntArray, rng: np.random.Generator, *, imbalance: float = 0.1
    ) -> _Found:
        """Coarsen inside `groups`, merge and split on the coarsest level, then descend on each level on the way back.

        Without labels, the coarsest level is partitioned first.
        """
        levels: list[tuple[Level, IntArray]] = []
        level = self._finest
        for _ in range(_MAX_LEVELS):
            if level.n_vertices <= _COARSEST * self._problem.n_clusters:
                break
            coarse, parent = contract_matching(level, groups, heaviest=self._heaviest, rng=rng)
            if coarse.n_vertices > 0.95 * level.n_vertices:
                break
            labels = labels if labels is None else _inherit(labels, parent, coarse)
            groups = _inherit(groups, parent, coarse)
            levels.append((level, parent))
            level = coarse
        if labels is None:
            labels = partition_level(level, self._problem.shares, imbalance=imbalance, rng=rng)
        labels = self._merge_and_split(level, labels, rng)
        for level, parent in reversed(levels):
            labels = self._descend(level, labels[parent], plateau=_PLATEAU).labels
        return self._descend(self._finest, labels)

    def _descend(self, level: Level, labels: IntArray, *, plateau: float = 1.0) -> _Found:
        moved, cut, sizes = descend(level, labels, self._lam, self._bounds, plateau=plateau)
        energy = float(balanced_terms(cut, sizes, self._lam).sum())
        return _Found(moved, cut, sizes, energy)

    def _merge_and_split(self, level: Level, labels: IntArray, rng: np.random.Generator) -> IntArray:
        """Children of the partition on this level, each kept if its (P) is lower and no cluster too small."""
        champion = self._descend(level, labels, plateau=_PLATEAU)
        for _ in range(self._children):
            child = self._descend(level, self._child(level, champion, rng), plateau=_PLATEAU)
            if child.energy < champion.energy and (child.sizes >= self._bounds).all():
                champion = child
        return champion.labels

    def _child(self, level: Level, parent: _Found, rng: np.random.Generator) -> IntArray:
        """Merge two clusters and split one."""
        between = weights_between(level, parent.labels, self._lam.size)
        a, b, large = clusters_to_merge_and_split(parent.cut, parent.sizes, between, self._lam, rng=rng)
        labels = np.where(parent.labels == b, a, parent.labels)
        members = np.flatnonzero(labels == large)
        if members.size > 1:
            labels[members[bisect(induced(level, members), rng=rng)]] = b
        return labels


def _is_noisy(problem: Problem, partition: Partition) -> bool:
    """Whether a good partition cuts many edges, on a graph small enough for a slow partitioner (decision 0021)."""
    graph = problem.graph
    if graph.indices.size > _STRONG_WORK:
        return False
    return bool(cuts(graph, partition.labels, problem.n_clusters).sum() > _NOISY_SHARE * graph.weights.sum())


def in_threads(function: Callable[[Item], Answer], items: Sequence[Item]) -> Iterator[Answer]:
    """function(item) for each item, in order, several at a time: the compiled loops run outside Python's lock."""
    n_threads = min(devices.thread_count(), len(items))
    if n_threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _inherit(values: IntArray, parent: IntArray, coarse: Level) -> IntArray:
    """The value of each coarse vertex, which all of its vertices share."""
    coarse_values = np.empty(coarse.n_vertices, dtype=np.int64)
    coarse_values[parent] = values
    return coarse_values
