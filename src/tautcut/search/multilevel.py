"""The search for a partition of low (P) around the solver. A partition is refined on coarsenings of the graph that
respect it (a V-cycle), where whole groups of vertices move at once; children merge two clusters and split another;
two partitions are combined on a coarsening that respects both. Every step is kept only if (P) falls, and no cluster
shrinks below a size that the caller sets. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.kernels.cpu.moves import (
    Level,
    bisect,
    contract_matching,
    descend,
    finest_level,
    induced,
    weights_between,
)
from tautcut.kernels.devices import thread_count
from tautcut.problem import Partition, Problem, balanced_terms
from tautcut.search.starts import imbalance_of_start, partition_level

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

SMALLEST_SHARE = 0.25  # of a cluster's expected size: the default of min_cluster_size
_COARSEST = 60  # vertices per cluster at which coarsening stops
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_PLATEAU = 0.97  # how much of the kink of (P) is cut off while vertices change places (decision 0012)
_MAX_LEVELS = 30
_GENERATION = 4  # combinations at a time; a constant, so that the answer does not depend on the cores


@dataclass(frozen=True)
class Effort:
    """How long to search: merge–split children per V-cycle, combinations at most, rounds of Algorithm 1 and V-cycle,
    how many times the starts that n_init="auto" gives, generations on a GPU (decision 0022), and the imbalances of
    strong partitions that join the starts, on any graph or on noisy ones alone (decision 0021).
    """

    children: int
    combinations: int
    rounds: int
    starts: int
    generations: int
    strong: tuple[float, ...] = ()
    strong_if_noisy: tuple[float, ...] = ()


EFFORTS = {
    "none": Effort(0, 0, 0, 1, 0),
    "short": Effort(40, 24, 1, 1, 16, strong_if_noisy=(0.03,)),
    "thorough": Effort(80, 120, 5, 2, 64, strong=(0.03, 0.1, 0.3)),
}


def smallest_sizes(problem: Problem, min_cluster_size: int | None) -> IntArray:
    """The fewest vertices each cluster may keep: the caller's number, or a quarter of the expected size."""
    if min_cluster_size is not None:
        is_whole = isinstance(min_cluster_size, int | np.integer) and not isinstance(min_cluster_size, bool)
        if not is_whole or min_cluster_size < 1:
            raise InputError(f"min_cluster_size must be a whole number ≥ 1; found {min_cluster_size!r}.")
        if min_cluster_size * problem.n_clusters > problem.n_vertices:
            raise InputError(
                f"min_cluster_size={min_cluster_size} asks for more than the {problem.n_vertices} vertices "
                f"there are for {problem.n_clusters} clusters. Lower it."
            )
        return np.full(problem.n_clusters, int(min_cluster_size))
    expected = problem.n_vertices * problem.shares
    return np.maximum(np.floor(SMALLEST_SHARE * expected), 1).astype(np.int64)


def is_better(challenger: Partition, champion: Partition, smallest: IntArray) -> bool:
    """Lower (P) wins; but a partition whose clusters are all large enough beats one that has too small a cluster."""
    fits, fitted = (bool((p.sizes >= smallest).all()) for p in (challenger, champion))
    return challenger.energy < champion.energy if fits == fitted else fits


@dataclass(frozen=True, eq=False)
class _Found:
    """A partition of a level, with what it costs."""

    labels: IntArray
    cut: FloatArray
    sizes: FloatArray
    energy: float


class MultilevelSearch:
    """Search on one problem; holds the finest level and the bounds, no partition."""

    def __init__(self, problem: Problem, smallest: IntArray, children: int) -> None:
        self._problem = problem
        self._lam = problem.lam
        self._smallest = smallest
        self._bounds = smallest.astype(np.float64)
        # merging and splitting needs a third cluster, and clusters without names; tiny graphs need few children
        is_childless = problem.n_clusters < 3 or bool(problem.is_labelled.any())
        self._children = 0 if is_childless else min(children, problem.n_vertices // problem.n_clusters)
        self._finest = finest_level(problem.graph, problem.is_labelled)
        self._heaviest = max(2.0, _HEAVIEST_SHARE * problem.n_vertices / problem.n_clusters)

    def start(self, number: int, *, rng: np.random.Generator) -> Partition:
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

    def evolve(
        self, population: Iterable[Partition], combinations: int, *, rng: np.random.Generator
    ) -> Iterator[Partition]:
        """Combine pairs of the population; a new child replaces the worst. Yields the best so far, after each.

        The pairs of a generation are drawn together and combined at the same time.
        """
        ranked = _ranked(population, self._smallest)
        yield ranked[0]
        rngs = rng.spawn(combinations if len(ranked) > 1 else 0)
        for begin in range(0, len(rngs), _GENERATION):
            mate = partial(self._offspring, tuple(ranked))
            for child in in_threads(mate, rngs[begin : begin + _GENERATION]):
                is_new = all(abs(child.energy - other.energy) > 1e-12 * child.energy for other in ranked)
                if is_new and is_better(child, ranked[-1], self._smallest):
                    ranked = _ranked([*ranked[:-1], child], self._smallest)
                yield ranked[0]

    def _offspring(self, ranked: tuple[Partition, ...], rng: np.random.Generator) -> Partition:
        first, second = sorted(rng.choice(len(ranked), 2, replace=False))
        return self.combine(ranked[first], ranked[second], rng=rng)

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


def clusters_to_merge_and_split(
    cut: FloatArray, sizes: FloatArray, between: FloatArray, lam: FloatArray, *, rng: np.random.Generator
) -> tuple[int, int, int]:
    """A pair of clusters to merge, the cheapest union most often, and a large one of those then left to split.

    `between` is the weight between each two clusters. The first of the pair takes the second in, whose name is free.
    """
    first, second = np.triu_indices(lam.size, 1)
    joint = sizes[first] + sizes[second]
    room = np.minimum(np.minimum(lam[first], lam[second]) * joint, sizes.sum() - joint)
    union = (cut[first] + cut[second] - 2 * between[first, second]) / np.maximum(room, 1.0)
    terms = balanced_terms(cut, sizes, lam)
    order = np.argsort(union - terms[first] - terms[second], kind="stable")
    chosen = order[min(int(rng.geometric(0.3)) - 1, order.size - 1)]
    a, b = int(first[chosen]), int(second[chosen])
    merged = np.array(sizes)
    merged[a], merged[b] = sizes[a] + sizes[b], 0.0
    return a, b, int(rng.choice(lam.size, p=merged**2 / (merged**2).sum()))


def in_threads(function: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterator[Outcome]:
    """function(item) for each item, in order, several at a time: the compiled loops run outside Python's lock."""
    n_threads = min(thread_count(), len(items))
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


def _ranked(population: Iterable[Partition], smallest: IntArray) -> list[Partition]:
    """Best first: partitions whose clusters are large enough, by (P), then the others."""
    return sorted(population, key=lambda p: (bool((p.sizes < smallest).any()), p.energy))


def _inherit(values: IntArray, parent: IntArray, coarse: Level) -> IntArray:
    """The value of each coarse vertex, which all of its vertices share."""
    coarse_values = np.empty(coarse.n_vertices, dtype=np.int64)
    coarse_values[parent] = values
    return coarse_values
