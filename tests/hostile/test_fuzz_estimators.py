"""Fixed numbers of the estimators' fuzzer, and that its checks see what they should."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from hostile import fuzz_estimators
from hostile.fuzz_estimators import Case
from hostile.fuzzers import sandbox_of
from hostile.graphs import snapshot
from hostile.sandbox import Sandbox
from tautcut import Graph
from tautcut.problem import Problem

BLOCK, LAST = 15, 30


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with sandbox_of("estimators") as one:
        yield one


@pytest.mark.parametrize("first", range(0, LAST, BLOCK))
def test_a_fit_is_refused_or_keeps_what_it_promises(sandbox, first):
    assert sandbox.failures(range(first, first + BLOCK)) == []


def test_the_same_number_makes_the_same_case():
    for number in range(100):
        one, other = fuzz_estimators.made(number), fuzz_estimators.made(number)
        assert (one.about, one.k, one.given) == (other.about, other.k, other.given)


@pytest.fixture
def fitted() -> tuple[Case, SimpleNamespace]:
    """A path of six vertices cut in the middle, and what a fit of it should leave."""
    W = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    graph, labels = Graph.from_any(W), np.repeat([0, 1], 3)
    problem = Problem(graph, 2)
    model = SimpleNamespace(
        graph_=graph, labels_=labels, energy_=2 / 3, relaxed_energy_=2 / 3, memberships_=np.eye(2)[labels],
        result_=SimpleNamespace(problem=problem),
    )  # fmt: skip
    return Case("path", W, None, 2, {"min_cluster_size": 2}, is_graph=True), model


CHECKS = (fuzz_estimators.check_labels, fuzz_estimators.check_energy, fuzz_estimators.check_memberships)


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        ({}, None),
        ({"labels_": np.repeat([0, 2], 3)}, "labels out of range"),
        ({"labels_": np.zeros(6, int)}, "an empty cluster"),
        ({"labels_": np.repeat([0, 1], [5, 1])}, "below min_cluster_size"),
        ({"energy_": 2 / 3 * (1 + 1e-8)}, "energy_ is not that of its labels"),
        ({"energy_": np.nan}, "NaN"),
        ({"memberships_": np.full((6, 2), 0.6)}, "do not sum to 1"),
        ({"memberships_": np.eye(2)[[0, 0, 1, 1, 1, 1]]}, "the largest membership is not the label's"),
    ],
)
def test_what_a_fit_leaves_is_judged(fitted, left, problem):
    case, model = fitted
    vars(model).update(left)
    checks = CHECKS[:1] if problem == "labels out of range" else CHECKS
    found = [one for check in checks for one in check(case, model, [])]
    assert bool(found) == (problem is not None)
    assert problem is None or any(problem in one for one in found)


def test_a_changed_input_is_seen():
    for number in range(40):
        X = fuzz_estimators.made(number).X
        if isinstance(X, np.ndarray) and X.dtype == float and X.flags.writeable:
            before = snapshot(X)
            X[0, 0] += 1.0
            assert snapshot(X) != before or not np.isfinite(X[0, 0])
