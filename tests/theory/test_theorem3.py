"""Theorem 3: an outer step with the exact prox descends; the solver's own steps do so in the weak form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from exact_prox import exact_prox
from strategies import noisy_start, planted_graph, started
from tautcut.algorithm import solver
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import FloatArray
from tautcut.kernels.devices import choose
from tautcut.kernels.protocol import Kernels
from tautcut.kernels.reference import (
    ReferenceKernels,
    balance,
    gradient_matrix,
    lambda_median,
    total_variation,
)
from tautcut.problem import Problem

EPSILON = StopRule().epsilon


def T_and_B(problem: Problem, F: FloatArray, kernels: Kernels) -> tuple[FloatArray, FloatArray]:
    """As the kernels have them: in their units of weight and mass."""
    masses, mass_unit = problem.graph.masses, kernels.weight_unit / kernels.unit
    T = total_variation(gradient_matrix(problem.graph), F) / kernels.weight_unit
    return T, balance(F, masses, problem.lam, lambda_median(F, masses, problem.median_mass)) / mass_unit


def descent(problem: Problem, before: FloatArray, after: FloatArray, kernels: Kernels) -> tuple[float, float]:
    """The two sides of the estimate: Σ_r (B'/B)(E − E') and ‖F − F'‖² / Δ."""
    T, B = T_and_B(problem, before, kernels)
    T_new, B_new = T_and_B(problem, after, kernels)
    gain = (T / B * B_new - T_new) / B  # B'E' = T'
    return float(gain.sum()), float(((after - before) ** 2).sum() / B.max())


@settings(max_examples=20)
@given(started(max_vertices=8, max_clusters=3, has_labels=True))
def test_a_step_with_the_exact_prox_descends(drawn):
    problem, F = drawn
    kernels = ReferenceKernels(problem)
    arrays = kernels.allocate(F)
    measures = kernels.measure(arrays)
    delta = measures.B.max()
    kernels.linearise(arrays, measures, delta)
    after = exact_prox(problem, arrays.G, delta / measures.B)
    gain, step = descent(problem, F, after, kernels)
    assert gain >= step - 1e-6 * (1 + abs(gain))
    assert after.sum(axis=1) == pytest.approx(1, abs=1e-7)
    assert after.min() >= -1e-7


def steps_of(problem: Problem, F: FloatArray, kernels: Kernels, n_steps: int) -> list[tuple[FloatArray, bool]]:
    """F after each outer step, the start first, and whether the step was accepted as a descent."""
    stop = StopRule(max_iter=10_000)
    state = solver.init(problem, F, kernels)
    seen = [(kernels.memberships(state.arrays), True)]
    for _ in range(n_steps):
        state = solver.step(problem, state, kernels, stop, deadline=np.inf)
        seen.append((kernels.memberships(state.arrays), state.is_descent))
    return seen


@pytest.mark.parametrize(
    ("device", "dtype", "slack"),
    [("reference", "float64", 1e-12), ("cpu", "float64", 1e-12), ("cpu", "float32", 1e-5)],
)
@pytest.mark.parametrize("has_labels", [False, True])
@pytest.mark.parametrize("has_masses", [False, True])
def test_every_accepted_outer_step_descends_in_the_weak_form(device, dtype, slack, has_labels, has_masses):
    graph = planted_graph(3, 30, seed=1, is_weighted=True)
    graph = graph.with_masses(np.linspace(0.2, 3, 90)) if has_masses else graph
    truth = np.repeat(np.arange(3), 30)
    labels = np.where(np.arange(90) % 10 == 0, truth, -1) if has_labels else None
    problem = Problem(graph, 3, labels=labels)
    kernels = choose(problem, device=device, dtype=dtype)
    start = solver.feasible(problem, noisy_start(truth, 3, seed=2, trust=0.3))
    seen = steps_of(problem, start, kernels, 40)
    accepted = 0
    for (before, _), (after, is_descent) in pairwise(seen):
        gain, step = descent(problem, before, after, kernels)
        if is_descent:
            assert gain >= (1 - EPSILON) * step - slack
            accepted += 1
        assert after.sum(axis=1) == pytest.approx(1, abs=1e-6)
        assert after.min() >= 0
    assert accepted >= 35
