"""The inner loop, run far beyond its stopping rule, against a general convex solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from exact_prox import exact_prox
from strategies import planted_graph, soft_start, started
from tautcut.algorithm import prox
from tautcut.algorithm.stopping import StopRule
from tautcut.kernels.reference import ReferenceKernels, project
from tautcut.problem import Problem

ITERATIONS = 2000


@pytest.fixture
def endless(monkeypatch):
    """The inner loop without its early stop."""
    monkeypatch.setattr(prox, "descent_estimate_holds", lambda *_: False)


def assert_inner_loop_solves_the_prox(problem: Problem, F: np.ndarray) -> np.ndarray:
    """Compare what `prox_tv` arrives at with the exact prox of the same outer step; return it.

    The accelerated method promises an error of the order of ‖K D_B‖ / n after n iterations.
    """
    kernels = ReferenceKernels(problem)
    arrays = kernels.allocate(F)
    before = kernels.measure(arrays)
    stop = StopRule(max_inner=ITERATIONS)
    inner = prox.prox_tv(
        kernels, arrays, before, 1 / kernels.lipschitz, stop=stop, budget=ITERATIONS, is_late=lambda: False
    )
    assert inner.iterations == ITERATIONS
    found, scale = kernels.memberships(arrays), before.B.max() / before.B
    error = np.abs(found - exact_prox(problem, arrays.G, scale)).max()
    assert error <= 2 * scale.max() * kernels.lipschitz / ITERATIONS
    return found


@settings(max_examples=6)
@given(started(max_vertices=7, max_clusters=3))
@pytest.mark.usefixtures("endless")
def test_inner_loop_solves_the_prox(drawn):
    assert_inner_loop_solves_the_prox(*drawn)


@pytest.mark.parametrize("has_labels", [False, True])
@pytest.mark.usefixtures("endless")
def test_inner_loop_solves_the_prox_of_a_larger_graph(has_labels):
    graph = planted_graph(3, 10, seed=3, is_weighted=True)
    labels = np.full(30, -1)
    if has_labels:
        labels[[0, 1, 10, 25]] = [0, 0, 1, 2]
    problem = Problem(graph, 3, [1.0, 2.0, 4.0], labels)
    F = project(soft_start(30, 3, seed=4), labels)
    found = assert_inner_loop_solves_the_prox(problem, F)
    assert np.abs(found - F).max() > 0.05  # the step is a real one
