"""V-cycles: a partition is refined on coarsenings of the graph that respect it, where whole groups of vertices move at
once; children merge two clusters and split another; two partitions are combined on a coarsening that respects both.
Every step is kept only if (P) falls, and no cluster shrinks below a size that the caller sets. Nothing here looks at
true labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu import compiling
from tautcut.kernels.cpu.children import best_child, best_regrouped, mass_apart
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.excursions import excursions
from tautcut.kernels.cpu.moves import descend
from tautcut.kernels.cpu.pockets import pocket_partition
from tautcut.problem import Partition, Problem, balanced_terms
from tautcut.search import partitioners
from tautcut.search.ladder import Ladder, Levels
from tautcut.search.partitioners import imbalance_of_start, partition_level
from tautcut.search.population import is_better
from tautcut.search.threads import in_threads

_PLATEAU = 0.97  # how much of the kink of (P) is cut off while vertices change places (decision 0012)
_APART = 0.25  # of a cluster's mean mass: partitions that differ in more have other clusters (decision 0075)
_GLANCES = 8  # partitions into pockets that a glance compares with the partitioner's
_WALKS = (2, 100)  # steps of the walks that find pockets, at least and at most
_MOST_TRIES = 5  # walks for one pocket
_WALK_WORK = 1_000_000_000  # vertices and edges that all walks of a partition may pass: a few seconds


@dataclass(frozen=True, eq=False)
class _Found:
    """A partition of a level, with what it costs."""

    labels: IntArray
    cut: FloatArray
    masses: FloatArray
    energy: float


def can_run() -> bool:
    """Whether V-cycles can run here: they need a compiler and a partitioner."""
    return compiling.is_available() and partitioners.is_available()


class VCycles:
    """V-cycles on the levels of one problem; holds the bounds, no partition."""

    def __init__(self, levels: Levels, smallest: FloatArray, children: int) -> None:
        self.levels = levels
        self._problem = levels.problem
        self._lam = levels.problem.lam
        self._smallest = smallest
        self._children = min(children, self._problem.n_vertices // self._problem.n_clusters)  # tiny graphs need few

    def settled(self, partition: Partition) -> Partition:
        """The partition after moves on the levels that starts and combinations share; never higher in (P)."""
        shared = self.levels.shared
        found = self._strayed(shared.lowest, shared.inherited(partition.labels))
        return self._better(self._descended(shared, found.labels), partition)

    def regrouped(self, partition: Partition, rng: np.random.Generator) -> Partition | None:
        """The lowest partition found in which two of the clusters are one and another is two, lower or not."""
        shared = self.levels.shared
        labels = shared.inherited(partition.labels)
        below = self.levels.coarsened(shared.lowest, labels, rng)
        regrouped = best_regrouped(
            below.lowest, below.inherited(labels), self._lam, self._smallest, plateau=_PLATEAU,
            n_children=self._children, seed=int(rng.integers(2**62)), apart=self._apart,
        )  # fmt: skip
        if regrouped is None:
            return None
        found = self._descended(below, regrouped)
        return self._partition(replace(found, labels=shared.raised(found.labels)))

    def with_other_clusters(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those of the partitions whose clusters are others than those of all before them."""
        kept = list[Partition]()
        for one in partitions:
            pairs = ((first.labels, one.labels) for first in kept)
            masses, R = self._problem.graph.masses, self._problem.n_clusters
            if all(mass_apart(masses, *pair, R) > self._apart for pair in pairs):
                kept.append(one)
        return kept

    def glance(self) -> _Found:
        """The best that is found on the coarsest level alone; it belongs to the graph, not to a seed."""
        return self._begun(self.levels.coarsest, _GLANCES, np.random.default_rng(0))

    def start(self, number: int, rng: np.random.Generator) -> Partition:
        """A partition from nothing: coarsen freely, partition the coarsest level, refine on the way back.

        It is refined down to the levels that are shared, as combinations are: `settled` does the rest, for the best.
        """
        shared = self.levels.shared
        nowhere = np.zeros(shared.lowest.n_vertices, dtype=np.int64)
        return self._partition(self._cycle(shared, None, nowhere, rng, imbalance=imbalance_of_start(number)))

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """A V-cycle from the partition; never higher in (P)."""
        found = self._cycle(self.levels.whole, partition.labels, partition.labels, rng)
        return self._better(self._strayed(self.levels.finest, found.labels), partition)

    def combine(self, better: Partition, other: Partition, *, rng: np.random.Generator) -> Partition:
        """A child of two partitions: what both keep together is coarsened, and the better one is refined on that."""
        shared = self.levels.shared
        labels, others = shared.inherited(better.labels), shared.inherited(other.labels)
        both = labels * self._problem.n_clusters + others
        return self._better(self._cycle(shared, labels, both, rng), better)

    def _partition(self, found: _Found) -> Partition:
        return self._problem.measured(found.labels, found.cut)

    def _better(self, found: _Found, partition: Partition) -> Partition:
        challenger = self._partition(found)
        return challenger if is_better(challenger, partition, self._smallest) else partition

    def _cycle(
        self, above: Ladder, labels: IntArray | None, groups: IntArray, rng: np.random.Generator, *,
        imbalance: float = 0.1,
    ) -> _Found:  # fmt: skip
        """Coarsen inside `groups`, merge and split on the coarsest level, then descend on each level on the way back.

        Labels and groups are those of the lowest level of `above`. Without labels, the coarsest is partitioned first.
        """
        below = self.levels.coarsened(above.lowest, groups, rng)
        level = below.lowest
        labels = labels if labels is None else below.inherited(labels)
        if labels is None:
            best = self._begun(level, 1, rng, imbalance=imbalance, least_threads=3)  # two are taken by two starts
        else:
            best = self._merge_and_split(level, labels, rng)
        found = self._descended(below, best.labels)
        return replace(found, labels=above.raised(found.labels))

    def _begun(
        self, level: Level, n_pockets: int, rng: np.random.Generator, *, imbalance: float = 0.1, least_threads: int = 2
    ) -> _Found:
        """The best of the partitioner's clusters and of so many partitions into pockets, with their children."""
        even: Callable[..., _Found | None] = partial(self._even, imbalance=imbalance)
        ways = [even, *n_pockets * [self._taken_out]]
        both = list(zip(ways, rng.spawn(len(ways)), strict=True))
        begun = in_threads(lambda one: one[0](level, one[1]), both, least=least_threads)
        return min(filter(None, begun), key=lambda one: (bool((one.masses < self._smallest).any()), one.energy))

    def _descended(self, ladder: Ladder, labels: IntArray) -> _Found:
        """A partition of the lowest level after moves on each level above it, up to the highest."""
        for level, parent in reversed(ladder.steps):
            labels = self._descend(level, labels[parent], plateau=_PLATEAU).labels
        return self._descend(ladder.steps[0][0] if ladder.steps else ladder.lowest, labels)

    def _descend(self, level: Level, labels: IntArray, *, plateau: float = 1.0) -> _Found:
        return self._valued(*descend(level, labels, self._lam, self._smallest, plateau=plateau))

    def _strayed(self, level: Level, labels: IntArray) -> _Found:
        """The partition after excursions on this level, and moves of single vertices."""
        strayed, _, _ = excursions(level, labels, self._lam, self._smallest)
        return self._descend(level, strayed)

    @property
    def _apart(self) -> float:
        return _APART * self._problem.total_mass / self._problem.n_clusters

    def _valued(self, labels: IntArray, cut: FloatArray, masses: FloatArray) -> _Found:
        return _Found(labels, cut, masses, float(balanced_terms(cut, masses, self._lam).sum()))

    def _even(self, level: Level, rng: np.random.Generator, *, imbalance: float) -> _Found:
        """The partitioner's clusters, which are as large as they are expected to be, and their children."""
        even = partition_level(level, self._problem.shares, imbalance=imbalance, rng=rng)
        return self._merge_and_split(level, even, rng)

    def _taken_out(self, level: Level, rng: np.random.Generator) -> _Found | None:
        """Clusters of whatever size pockets have (decision 0029), and their children."""
        labels = pockets(level, self._lam, self._smallest, rng=rng)
        return None if labels is None else self._merge_and_split(level, labels, rng)

    def _merge_and_split(self, level: Level, labels: IntArray, rng: np.random.Generator) -> _Found:
        """Children of the partition on this level, each kept if its (P) is lower and no cluster too small."""
        if not self._children:
            return self._descend(level, labels, plateau=_PLATEAU)
        seed = int(rng.integers(2**62))
        found = best_child(
            level, labels, self._lam, self._smallest, plateau=_PLATEAU, n_children=self._children, seed=seed
        )
        return self._valued(*found)


def pockets(level: Level, lam: FloatArray, bounds: FloatArray, *, rng: np.random.Generator) -> IntArray | None:
    """A partition of pockets taken out in a random order, by walks of random lengths; their sizes are their own.

    Each pocket costs walks over the whole level: with many clusters walks are shorter, and None if that is too long.
    """
    steps = np.exp(rng.uniform(np.log(_WALKS[0]), np.log(_WALKS[1]), lam.size)).astype(np.int64)
    tries, seed = int(rng.integers(1, _MOST_TRIES + 1)), int(rng.integers(2**62))
    once = level.n_vertices + level.indices.size
    if tries * int(steps.sum()) * once > _WALK_WORK:
        if lam.size * _WALKS[0] * once > _WALK_WORK:
            return None
        tries, steps = 1, np.clip(steps * (_WALK_WORK / (int(steps.sum()) * once)), _WALKS[0], steps).astype(np.int64)
    labels: IntArray = pocket_partition(level, lam, bounds, rng.permutation(lam.size), steps, tries, seed)
    return labels


def lightest_apart(problem: Problem, smallest: FloatArray) -> IntArray:
    """All vertices in the largest cluster but the lightest, which fill the others up to the sizes they have to have.

    Light is what has the least edge weight for its mass. Where a few hubs hold a graph together, nothing is cheaper to
    cut off, and no coarsening knows it: there each light vertex has become a part of a hub.
    """
    graph, largest = problem.graph, int(problem.shares.argmax())
    with np.errstate(over="ignore"):  # a vertex of next to no mass is not light
        order = np.argsort(graph.degrees / graph.masses, kind="stable")
    masses = graph.masses[order]
    others = np.delete(np.arange(smallest.size), largest)
    filled = np.searchsorted(np.cumsum(smallest[others]), np.cumsum(masses) - masses, side="right")
    labels = np.empty(order.size, dtype=np.int64)
    labels[order] = np.r_[others, largest][filled]
    return labels
