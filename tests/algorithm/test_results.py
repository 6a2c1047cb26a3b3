"""Results whose memberships and chances are fetched when somebody asks for them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tautcut import Graph, Problem
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status

PROBLEM = Problem(Graph.from_edges([(0, 1), (1, 2), (2, 3)]), 2)
F = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.2, 0.8]])


class Fetch:
    """Returns F, and counts how often it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> np.ndarray:
        self.count += 1
        return F


@pytest.fixture
def fetch() -> Fetch:
    return Fetch()


def result_of(fetch: Any) -> Result:
    partition = PROBLEM.partition([0, 0, 1, 1])
    return Result(PROBLEM, partition, fetch, partition.energy, Status.CONVERGED, (), fetch)


def test_memberships_are_fetched_once_and_late(fetch: Fetch):
    result = result_of(fetch)
    changed = result.changed(status=Status.STOPPED)
    assert fetch.count == 0
    assert changed.status is Status.STOPPED
    assert np.array_equal(changed.memberships, F)
    assert np.array_equal(changed.memberships, F)
    assert fetch.count == 1
    assert np.array_equal(changed.last_memberships, F)
    assert fetch.count == 2


def test_the_chances_of_classes_are_computed_when_the_confidence_is_asked_for(fetch: Fetch):
    result = result_of(F).changed(probabilities=fetch)
    assert fetch.count == 0
    assert result.confidence.tolist() == [1.0, 0.9, 1.0, 0.8]
    assert fetch.count == 1


def test_arrays_are_taken_as_they_are():
    assert result_of(F).memberships is F


def test_a_copy_through_pickle_has_them(fetch: Fetch):
    copy = pickle.loads(pickle.dumps(result_of(fetch)))
    assert np.array_equal(copy.memberships, F)
    assert np.array_equal(copy.last_memberships, F)
    assert copy.partition.energy == PROBLEM.partition([0, 0, 1, 1]).energy
