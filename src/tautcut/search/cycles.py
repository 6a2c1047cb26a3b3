"""V-cycles: a partition is refined on coarsenings of the graph that respect it, where whole groups of vertices move at
once; children merge two clusters and split another; two partitions are combined on a coarsening that respects both.
Every step is kept only if (P) falls, and no cluster shrinks below a size that the caller sets. Nothing here looks at
true labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu.children import best_child
from tautcut.kernels.cpu.coarsening import Level, contract_matching, finest_level
from tautcut.kernels.cpu.moves import descend
from tautcut.kernels.cpu.pockets import pocket_partition
from tautcut.problem import Partition, Problem, balanced_terms
from tautcut.search.partitioners import imbalance_of_start, partition_level
from tautcut.search.population import is_better
from tautcut.search.threads import in_threads

_COARSEST = 60  # vertices per cluster at which coarsening stops
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_PLATEAU = 0.97  # how much of the kink of (P) is cut off while vertices change places (decision 0012)
_MAX_LEVELS = 30
_SHARED_WORK = 500_000  # directed edges beyond which all starts and combinations share the finest coarsenings,
_SHARED_COARSEST = 1000  # down to so many vertices per cluster (decision 0054)
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


@dataclass(frozen=True, eq=False)
class _Ladder:
    """Levels of which each is a coarsening of the one before: each with the places of its vertices in the next."""

    steps: tuple[tuple[Level, IntArray], ...]
    lowest: Level

    def inherited(self, values: IntArray) -> IntArray:
        """The value of each vertex of the lowest level: that of one of its vertices."""
        for _, parent in self.steps:
            values = _inherit(values, parent)
        return values

    def raised(self, values: IntArray) -> IntArray:
        """The value of each vertex of the highest level: that of the lowest one's that it became part of."""
        for _, parent in reversed(self.steps):
            values = values[parent]
        return values


def _inherit(values: IntArray, parent: IntArray) -> IntArray:
    """The value of each coarse vertex: that of its last vertex."""
    coarse_values = np.empty(int(parent.max()) + 1, dtype=np.int64)
    coarse_values[parent] = values
    return coarse_values


class VCycles:
    """V-cycles on one problem; holds the finest level and the bounds, no partition."""

    def __init__(self, problem: Problem, smallest: FloatArray, children: int) -> None:
        self._problem = problem
        self._lam = problem.lam
        self._smallest = smallest
        self._children = min(children, problem.n_vertices // problem.n_clusters)  # tiny graphs need few
        self.finest = finest_level(problem.graph, problem.is_labelled)
        self._whole = _Ladder((), self.finest)
        self._heaviest = max(2.0, _HEAVIEST_SHARE * problem.total_mass / problem.n_clusters)

    @property
    def has_levels(self) -> bool:
        """Whether the graph is coarsened at all."""
        return self.finest.n_vertices > _COARSEST * self._problem.n_clusters

    @cached_property
    def shared(self) -> _Ladder:
        """The finest coarsenings, made once: starts and combinations begin below them (decision 0054).

        Of a graph that is not large, or has labels, which a coarsening must heed, it is the finest level alone.
        """
        if self._problem.has_labels or self.finest.indices.size <= _SHARED_WORK:
            return self._whole
        nowhere = np.zeros(self._problem.n_vertices, dtype=np.int64)
        return self._coarsened(self.finest, nowhere, np.random.default_rng(0), per_cluster=_SHARED_COARSEST)

    def settled(self, partition: Partition) -> Partition:
        """The partition after moves on the levels that starts and combinations share; never higher in (P)."""
        if not self.shared.steps:
            return partition
        return self._better(self._descended(self.shared, self.shared.inherited(partition.labels)), partition)

    def start(self, number: int, rng: np.random.Generator) -> Partition:
        """A partition from nothing: coarsen freely, partition the coarsest level, refine on the way back.

        It is refined down to the levels that are shared, as combinations are: `settled` does the rest, for the best.
        """
        nowhere = np.zeros(self.shared.lowest.n_vertices, dtype=np.int64)
        return self._partition(self._cycle(self.shared, None, nowhere, rng, imbalance=imbalance_of_start(number)))

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """A V-cycle from the partition; never higher in (P)."""
        return self._better(self._cycle(self._whole, partition.labels, partition.labels, rng), partition)

    def combine(self, better: Partition, other: Partition, *, rng: np.random.Generator) -> Partition:
        """A child of two partitions: what both keep together is coarsened, and the better one is refined on that."""
        labels, others = self.shared.inherited(better.labels), self.shared.inherited(other.labels)
        both = labels * self._problem.n_clusters + others
        return self._better(self._cycle(self.shared, labels, both, rng), better)

    def _partition(self, found: _Found) -> Partition:
        return self._problem.measured(found.labels, found.cut)

    def _better(self, found: _Found, partition: Partition) -> Partition:
        challenger = self._partition(found)
        return challenger if is_better(challenger, partition, self._smallest) else partition

    def _coarsened(
        self, level: Level, groups: IntArray, rng: np.random.Generator, *, per_cluster: int = _COARSEST
    ) -> _Ladder:
        """Coarsenings of the level inside `groups`, down to so many vertices per cluster."""
        steps: list[tuple[Level, IntArray]] = []
        for _ in range(_MAX_LEVELS):
            if level.n_vertices <= per_cluster * self._problem.n_clusters:
                break
            coarse, parent = contract_matching(level, groups, heaviest=self._heaviest, rng=rng)
            if coarse.n_vertices > 0.95 * level.n_vertices:
                break
            groups = _inherit(groups, parent)
            steps.append((level, parent))
            level = coarse
        return _Ladder(tuple(steps), level)

    def _cycle(
        self, above: _Ladder, labels: IntArray | None, groups: IntArray, rng: np.random.Generator, *,
        imbalance: float = 0.1,
    ) -> _Found:  # fmt: skip
        """Coarsen inside `groups`, merge and split on the coarsest level, then descend on each level on the way back.

        Labels and groups are those of the lowest level of `above`. Without labels, the coarsest is partitioned first.
        """
        below = self._coarsened(above.lowest, groups, rng)
        level = below.lowest
        labels = labels if labels is None else below.inherited(labels)
        if labels is None:
            ways: list[Callable[..., _Found | None]] = [partial(self._even, imbalance=imbalance), self._taken_out]
            both = list(zip(ways, rng.spawn(len(ways)), strict=True))
            begun = in_threads(lambda one: one[0](level, one[1]), both, least=3)  # two are taken by two starts
            best = min(filter(None, begun), key=lambda one: (bool((one.masses < self._smallest).any()), one.energy))
        else:
            best = self._merge_and_split(level, labels, rng)
        found = self._descended(below, best.labels)
        return replace(found, labels=above.raised(found.labels))

    def _descended(self, ladder: _Ladder, labels: IntArray) -> _Found:
        """A partition of the lowest level after moves on each level above it, up to the highest."""
        for level, parent in reversed(ladder.steps):
            labels = self._descend(level, labels[parent], plateau=_PLATEAU).labels
        return self._descend(ladder.steps[0][0] if ladder.steps else ladder.lowest, labels)

    def _descend(self, level: Level, labels: IntArray, *, plateau: float = 1.0) -> _Found:
        return self._valued(*descend(level, labels, self._lam, self._smallest, plateau=plateau))

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
