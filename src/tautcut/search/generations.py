"""The search on a GPU. Algorithm 1 runs from many starts side by side, greedy moves improve the best of what they find,
and generations of children follow, by Algorithm 1 again: some merge two clusters of a parent and split another, some
start half way between two parents. Partitions are made and measured in the GPU's memory; what the population keeps is
on the host. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tautcut.algorithm.batch import BatchResult, run_batch
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import CUT_SHORT
from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels import devices
from tautcut.problem import Partition, Problem
from tautcut.search.partitioners import fill_empty
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population, clusters_to_merge_and_split, is_same
from tautcut.search.starts import SOFTNESS, seed_vertices, start_maker

STARTS = 15  # starts, or children of a generation (decision 0022)
_MIXED = 3  # every third child has two parents
PARENTS = 6
_REFINED = 8  # partitions of a generation that greedy moves are tried on
_MARGIN = 0.05  # by which (P) may be higher than the best for them to be
_SHARES = (0.3, 0.7)  # of a cluster that is split
LARGE = 300_000  # directed edges, from which on there are fewer generations
_PATIENCE = 2  # generations that find nothing lower, after which `evolved` ends


class GenerationSearcher:
    """The searcher of a GPU: batches of starts, greedy moves, generations of children."""

    is_exact = False
    capacity: int | None = PARENTS

    def __init__(self, task: Task) -> None:
        self._task, self._effort, self._problem = task, task.effort, task.problem
        self._init = task.init("ncut-seeds")
        self._gpu = devices.gpu_engine(task.problem, task.plan.dtype)
        self._gpu.starts_that_fit()  # refuses what is too large before anything is made
        self._moves = self._gpu.moves(task.smallest)
        self.n_polishes = task.effort.polishes
        is_drawn = isinstance(self._init, str) and self._init != "ncut"
        n_starts = task.n_starts(lambda: STARTS if is_drawn else 0)
        # What happens to be free in its memory must not change an answer, so an empty GPU is asked.
        self.n_starts = self._gpu.starts_of_gpu(n_starts) if task.plan.n_init == "auto" else n_starts
        generations = self._effort.generations
        affordable = generations * LARGE // max(task.problem.graph.indices.size, 1)
        self._n_generations = int(np.clip(affordable, min(1, generations), generations))
        self.n_children = self._n_generations * _REFINED

    @property
    def problem(self) -> Problem:
        return self._problem

    @property
    def smallest(self) -> FloatArray:
        """The least mass that each cluster may keep."""
        return self._task.smallest

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """What Algorithm 1 finds from all starts side by side, refined; the best of them, each once."""
        generators = rng.spawn(self.n_starts)
        yield from self._solved(self._start_matrices(generators, rng), population)

    def _start_matrices(self, generators: list[np.random.Generator], rng: np.random.Generator) -> Any:
        """All starts: an array (start, vertex, cluster), or such a tensor of the GPU's if they are made there."""
        R, tools = self._problem.n_clusters, self._gpu.spectral()
        are_seeds = isinstance(self._init, str) and self._init == "ncut-seeds"
        if are_seeds and len(generators) == self._gpu.starts_of_gpu(len(generators)):
            clusters = fill_empty(tools.normalised_cut(R, rng=rng), R)
            return tools.diffuse_seeds(np.stack([seed_vertices(clusters, R, rng=one) for one in generators]))
        make = start_maker(self._problem, self._init, rng=rng, spectral=tools)
        return np.stack([make(number, one) for number, one in enumerate(generators)])

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """A generation at a time, each of them children of what the population has become."""
        for _ in range(self._n_generations):
            yield from self._solved(self._child_matrices(population, rng), population)

    def evolved(self, founders: Sequence[Partition], *, rng: np.random.Generator) -> Population:
        """What becomes of the founders, or of starts where there are none, while generations find anything lower.

        Two starts that end in one lowest partition are believed, and have no children.
        """
        population, n_stale = Population(self.smallest, self.capacity), 0
        for founder in founders:
            population.found(founder)
        if not founders:
            starts = list(self.starts(population, rng=rng))
            for start in starts:
                population.found(start.partition)
            if starts[0].n_alike > 1 or _is_cut_short(starts[-1]):
                return population
        for _ in range(self._n_generations):
            lowest = population[0]
            for child in self._solved(self._child_matrices(population, rng), population):
                population.add(child.partition)
                if _is_cut_short(child):
                    return population
            n_stale = n_stale + 1 if is_same(lowest, population[0]) else 0
            if n_stale == _PATIENCE:
                break
        return population

    def coarsened(
        self, n_vertices: int, heaviest: float, founders: Sequence[Partition], seed: int
    ) -> tuple[Any, Sequence[IntArray]]:
        """A coarser graph that respects the founders, by `GpuKernels.coarsened`, and the founders' labels on it."""
        respected = self._gpu.joined([self._moves.labels_of(one.labels) for one in founders]) if founders else None
        coarse = self._gpu.coarsened(n_vertices, heaviest=heaviest, seed=seed, respected=respected)
        return coarse, [] if respected is None else list(coarse.restricted(respected))

    def polished(self, labels: Any, population: Population, *, is_last: bool) -> Iterator[Found]:
        """Algorithm 1 from partitions in the GPU's memory, then greedy moves; with the run, if none is to follow."""
        yield from self._solved(self._moves.soften(labels, SOFTNESS), population, is_last=is_last)

    def _solved(self, starts: Any, population: Population, *, is_last: bool = False) -> Iterator[Found]:
        """Algorithm 1 from each start, then greedy moves on those whose (P) is near the best; the lowest first.

        What the population would refuse stays on the GPU, but for the lowest, which shows how it goes.
        """
        outcome = self._run(starts)
        if outcome.best.status in CUT_SHORT or not self._effort.is_refined:
            yield Found(outcome.best.partition, outcome.best)
            return
        unit = self._gpu.unit
        best_energy = population[0].energy / unit if len(population) else np.inf
        energies = self._moves.energies(outcome.labels)
        order = np.argsort(energies, kind="stable")[:_REFINED]
        is_near = energies[order] <= (1 + _MARGIN) * min(energies[order[0]], best_energy)
        is_near[0] = True
        refined = self._moves.descend(outcome.labels[order[is_near]])
        labels = self._gpu.joined([refined, outcome.labels[order[~is_near]]])
        # A run is kept only where none follows that polishes the best partition.
        run = outcome.best if is_last or not self.n_polishes else None
        energies = self._moves.energies(labels)
        is_full = len(population) == self.capacity and (population[-1].masses >= self._task.smallest).all()
        limit = population[-1].energy / unit if is_full else np.inf
        for rank, (number, n_alike) in enumerate(_distinct(energies)):
            if rank and energies[number] > limit:
                return
            yield Found(self._partition(labels[number]), run, n_alike)

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """Greedy moves; never higher in (P)."""
        return self._partition(self._moves.descend(self._moves.labels_of(partition.labels))[0])

    def solve(self, F: FloatArray, number: int = 0) -> Result:
        """Algorithm 1 from F."""
        return self._run(F[None]).best

    def _run(self, starts: Any) -> BatchResult:
        task = self._task
        return run_batch(
            task.problem, starts, self._gpu, stop=task.plan.stop_rule, observers=task.observers, deadline=task.deadline
        )

    def _partition(self, labels: Any) -> Partition:
        """Labels in the GPU's memory as a partition on the host; its cuts are measured there."""
        cut, _, _ = self._moves.clusters(labels)
        return self._problem.measured(self._gpu.in_graph_order(labels).astype(np.int64), cut * self._gpu.weight_unit)

    def _child_matrices(self, population: Population, rng: np.random.Generator) -> Any:
        """Starts of a generation; the better a parent, the more of its children there are."""
        moves, n_parents = self._moves, len(population)
        parents = self._gpu.joined([moves.labels_of(parent.labels) for parent in population])
        n_children = self._gpu.starts_of_gpu(STARTS)
        n_mixed = n_children // _MIXED if n_parents > 1 else 0
        clusters = [(*moves.clusters(labels), self._problem.lam) for labels in parents]
        chosen = np.minimum(rng.geometric(0.5, n_children - n_mixed) - 1, n_parents - 1)
        plans = [clusters_to_merge_and_split(*clusters[p], rng=rng) for p in chosen]
        shares, seed = rng.uniform(*_SHARES, len(plans)), int(rng.integers(2**31))
        split = moves.merge_and_split(parents[chosen], plans, shares, seed)
        pairs = [rng.choice(n_parents, 2, replace=False) for _ in range(n_mixed)]
        mixed = [moves.mix(parents[int(i)], parents[int(j)], SOFTNESS)[None] for i, j in pairs]
        return self._gpu.joined([moves.soften(split, SOFTNESS), *mixed])


def _is_cut_short(found: Found) -> bool:
    return found.run is not None and found.run.status in CUT_SHORT


def _distinct(energies: FloatArray) -> list[tuple[int, int]]:
    """The places of the energies, the lowest first, of equal ones the first alone; and how many are equal to each."""
    order = np.argsort(energies, kind="stable")
    is_new = np.r_[True, energies[order][1:] > (1 + 1e-9) * energies[order][:-1]]
    counts = np.diff(np.append(np.flatnonzero(is_new), order.size))
    return [(int(number), int(count)) for number, count in zip(order[is_new], counts, strict=True)]
