"""The partitions that a search keeps: ranked, none twice, and those with too small a cluster behind all others; and
which clusters of a parent a child should merge and split. Searchers make the children; this decides who stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.arrays import FloatArray
from tautcut.problem import Partition, balanced_terms

_MANY_PAIRS = 100_000  # of clusters, from which on they are not all put in order
_SAME = 1e-12  # two energies that differ by no more than this share are the same up to rounding


class Found(NamedTuple):
    """A partition, the run of Algorithm 1 that led to it, if it is worth keeping, and how many starts ended there."""

    partition: Partition
    run: Result | None = None
    n_alike: int = 1


def is_better(challenger: Partition, champion: Partition, smallest: FloatArray) -> bool:
    """Lower (P) wins; but a partition whose clusters are all large enough beats one that has too small a cluster."""
    return _rank(challenger, smallest) < _rank(champion, smallest)


def is_same(one: Partition, other: Partition) -> bool:
    """Whether two partitions have the same (P), up to rounding; infinite energies are the same."""
    low, high = sorted((one.energy, other.energy))
    return high <= low or high - low <= _SAME * low


def _rank(partition: Partition, smallest: FloatArray) -> tuple[bool, float]:
    return bool((partition.masses < smallest).any()), partition.energy


class Population:
    """The parents of a search, best first; of equals the one that came first.

    Parameters
    ----------
    smallest : ndarray of shape (n_clusters,)
        The least mass that each cluster should have.
    capacity : int or None
        How many partitions there is room for; None is as many as are founders.
    """

    def __init__(self, smallest: FloatArray, capacity: int | None = None) -> None:
        self._smallest, self._capacity = smallest, capacity
        self._ranked: list[Partition] = []

    def __len__(self) -> int:
        return len(self._ranked)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._ranked)

    def __getitem__(self, rank: int) -> Partition:
        return self._ranked[rank]

    def share_of_best(self) -> float:
        """The share of the partitions that have the lowest (P)."""
        return sum(is_same(one, self[0]) for one in self) / len(self)

    def found(self, partition: Partition) -> None:
        """Take in a founder. Two starts that end in one partition are both kept: they say how good a parent it is."""
        if self._capacity is None or len(self) < self._capacity:
            self._insert(partition)
        else:
            self.add(partition)

    def add(self, child: Partition) -> None:
        """Take in a child that is new: where there is room, or in place of the worst if it is better than that."""
        if any(is_same(child, other) for other in self):
            return
        if self._capacity is not None and len(self) < self._capacity:
            self._insert(child)
        elif is_better(child, self[-1], self._smallest):
            self._ranked.pop()
            self._insert(child)

    def _insert(self, partition: Partition) -> None:
        self._ranked.append(partition)
        self._ranked.sort(key=lambda one: _rank(one, self._smallest))


def clusters_to_merge_and_split(
    cut: FloatArray, masses: FloatArray, between: FloatArray, lam: FloatArray, *, rng: np.random.Generator
) -> tuple[int, int, int]:
    """A pair of clusters to merge, the cheapest union most often, and a large one of those then left to split.

    `between` is the weight between each two clusters. The first of the pair takes the second in, whose name is free.
    """
    first, second = np.triu_indices(lam.size, 1)
    joint = masses[first] + masses[second]
    room = np.minimum(np.minimum(lam[first], lam[second]) * joint, masses.sum() - joint)
    union = (cut[first] + cut[second] - 2 * between[first, second]) / np.maximum(room, 1.0)
    terms = balanced_terms(cut, masses, lam)
    change = union - terms[first] - terms[second]
    place = min(int(rng.geometric(0.3)) - 1, change.size - 1)
    few = np.argpartition(change, place)[: place + 1] if change.size > _MANY_PAIRS else np.arange(change.size)
    chosen = few[np.argsort(change[few], kind="stable")[place]]
    a, b = int(first[chosen]), int(second[chosen])
    merged = np.array(masses)
    merged[a], merged[b] = masses[a] + masses[b], 0.0
    return a, b, int(rng.choice(lam.size, p=merged**2 / (merged**2).sum()))
