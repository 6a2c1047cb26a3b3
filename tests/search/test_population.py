"""What a population keeps, and in which order."""

from __future__ import annotations

import numpy as np

from tautcut import Graph, Problem
from tautcut.problem import Partition
from tautcut.search.population import Population, is_better

RING = Problem(Graph.from_edges([(i, (i + 1) % 12) for i in range(12)]), 2)


def arc(length: int, first: int = 0) -> Partition:
    """An arc of the ring, cut off; the shorter, the higher its (P)."""
    labels = np.zeros(12, dtype=np.int64)
    labels[(first + np.arange(length)) % 12] = 1
    return RING.partition(labels)


def population(*founders: Partition, smallest: int = 1, capacity: int | None = None) -> Population:
    made = Population(np.full(2, smallest), capacity)
    for founder in founders:
        made.found(founder)
    return made


def sizes(found: Population) -> list[int]:
    return [int(partition.sizes[1]) for partition in found]


def test_the_best_comes_first():
    assert sizes(population(arc(2), arc(6), arc(4))) == [6, 4, 2]


def test_a_cluster_that_is_too_small_comes_behind_all_others():
    lower, fits = arc(2), RING.partition(np.arange(12) % 2)
    assert lower.energy < fits.energy
    assert is_better(fits, lower, np.full(2, 3))
    assert not is_better(lower, fits, np.full(2, 3))
    assert population(lower, fits, smallest=3)[0] is fits
    assert population(lower, fits, smallest=1)[0] is lower


def test_founders_are_kept_though_they_are_alike_and_the_first_of_equals_leads():
    first, second = arc(6), arc(6, first=3)
    found = population(first, second, arc(3))
    assert [found[0], found[1]] == [first, second]
    assert len(found) == 3


def test_a_child_takes_the_place_of_the_worst():
    found = population(arc(2), arc(4))
    found.add(arc(6))
    assert sizes(found) == [6, 4]
    found.add(arc(3))
    assert sizes(found) == [6, 4]


def test_a_child_that_is_known_is_not_taken_in():
    found = population(arc(2), arc(6))
    found.add(arc(6, first=5))  # another name of the same (P)
    assert sizes(found) == [6, 2]


def test_children_fill_what_room_there_is():
    found = population(arc(6), arc(6, first=2), capacity=3)
    found.add(arc(6, first=1))
    assert len(found) == 2
    found.add(arc(2))
    assert sizes(found) == [6, 6, 2]
    found.add(arc(4))
    assert sizes(found) == [6, 6, 4]


def test_more_founders_than_room_are_children():
    found = population(arc(2), arc(3), arc(6), arc(6, first=1), capacity=2)
    assert sizes(found) == [6, 3]


def test_infinite_energies_are_one_partition_and_are_replaced():
    empty = RING.partition(np.zeros(12, dtype=np.int64))
    found = population(empty, capacity=2)
    found.add(RING.partition(np.zeros(12, dtype=np.int64)))
    assert len(found) == 1
    found.add(arc(3))
    assert sizes(found) == [3, 0]
