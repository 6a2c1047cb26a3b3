"""The search for a partition of low (P) on a GPU. Algorithm 1 runs from many starts side by side, greedy moves improve
the best of what they find, and generations of children follow, by Algorithm 1 again: some merge two clusters of a
parent and split another, some start half way between two parents. What `tautcut.search.multilevel` does on coarsenings,
on the processor. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.observers import Observer
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import FloatArray, IntArray
from tautcut.problem import Partition, Problem
from tautcut.search.multilevel import Effort, clusters_to_merge_and_split
from tautcut.search.starts import SOFTNESS

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

STARTS = 15  # starts, or children of a generation (decision 0022)
_MIXED = 3  # every third child has two parents
_PARENTS = 6
_REFINED = 8  # partitions of a generation that greedy moves are tried on
_MARGIN = 0.05  # by which (P) may be higher than the best for them to be
_SHARES = (0.3, 0.7)  # of a cluster that is split
_LARGE = 300_000  # directed edges, from which on there are fewer generations


def n_generations(problem: Problem, effort: Effort) -> int:
    """How many generations; none where clusters have names, or there is no third one to split."""
    if problem.n_clusters < 3 or problem.is_labelled.any():
        return 0
    affordable = effort.generations * _LARGE // max(problem.graph.indices.size, 1)
    return int(np.clip(affordable, 1, effort.generations))


class Generations:
    """A population on one GPU: the partitions of lowest (P) so far."""

    def __init__(
        self, kernels: GpuKernels, smallest: IntArray, *, stop: StopRule, observers: Iterable[Observer] = ()
    ) -> None:
        from tautcut.kernels.gpu.moves import GpuMoves

        self._problem, self._kernels = kernels.problem, kernels
        self._moves = GpuMoves(kernels, smallest)
        self._stop, self._observers = stop, tuple(observers)
        self._labels: Any = None  # of the population, (partition, row) on the card, the best first
        self._energies: FloatArray = np.array([np.inf])
        self._champion: Partition | None = None

    def solve(self, starts: Any) -> tuple[Result, Partition]:
        """Algorithm 1 from each start, then greedy moves; the best join the population.

        What Algorithm 1 found, and the best partition so far.
        """
        outcome = run_batch(self._problem, starts, self._kernels, stop=self._stop, observers=self._observers)
        energies = self._moves.energies(outcome.labels)
        order = np.argsort(energies, kind="stable")[:_REFINED]
        is_near = energies[order] <= (1 + _MARGIN) * min(energies[order[0]], self._energies[0])
        is_near[0] = True
        refined = self._moves.descend(outcome.labels[order[is_near]])
        return outcome.best, self._join(self._kernels.joined([refined, outcome.labels[order[~is_near]]]))

    def generations(self, count: int, *, rng: np.random.Generator) -> Iterator[tuple[Result, Partition]]:
        """Children of the population, a generation at a time, solved."""
        for _ in range(count):
            yield self.solve(self._children(rng))

    def refine(self, partition: Partition) -> Partition:
        """Greedy moves; never higher in (P)."""
        return self._partition(self._moves.descend(self._moves.labels_of(partition.labels))[0])

    def _partition(self, labels: Any) -> Partition:
        return self._problem.partition(self._kernels.in_graph_order(labels).astype(np.int64))

    def _join(self, labels: Any) -> Partition:
        """Keep the best, one of each (P); the first of them."""
        energies, best = self._moves.energies(labels), self._energies[0]
        if self._labels is not None:
            labels = self._kernels.joined([self._labels, labels])
            energies = np.concatenate([self._energies, energies])
        order = np.argsort(energies, kind="stable")
        is_new = np.r_[True, energies[order][1:] > (1 + 1e-9) * energies[order][:-1]]
        kept = order[is_new][:_PARENTS]
        self._labels, self._energies = labels[kept], energies[kept]
        if self._champion is None or self._energies[0] < best:
            self._champion = self._partition(self._labels[0])
        return self._champion

    def _children(self, rng: np.random.Generator) -> Any:
        """Starts of a generation; the better a parent, the more of its children there are."""
        moves, parents = self._moves, self._labels
        n_children = self._kernels.starts_of_gpu(STARTS)
        n_mixed = n_children // _MIXED if len(parents) > 1 else 0
        clusters = [(*moves.clusters(labels), self._problem.lam) for labels in parents]
        chosen = np.minimum(rng.geometric(0.5, n_children - n_mixed) - 1, len(parents) - 1)
        plans = [clusters_to_merge_and_split(*clusters[p], rng=rng) for p in chosen]
        shares, seed = rng.uniform(*_SHARES, len(plans)), int(rng.integers(2**31))
        split = moves.merge_and_split(parents[chosen], plans, shares, seed)
        pairs = [rng.choice(len(parents), 2, replace=False) for _ in range(n_mixed)]
        mixed = [moves.mix(parents[int(i)], parents[int(j)], SOFTNESS)[None] for i, j in pairs]
        return self._kernels.joined([moves.soften(split, SOFTNESS), *mixed])
