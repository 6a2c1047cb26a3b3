"""The inner loop's own decisions: its step sizes, formula by formula, and what ends it. That it solves the prox is
in theory/test_prox.py.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from tautcut import Graph, MTVClustering, Problem, solve
from tautcut.algorithm import prox
from tautcut.algorithm.stopping import StopRule
from tautcut.errors import CollapseWarning
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.kernels.reference import ReferenceKernels

BEFORE = Measures(np.array([3.0, 1.0]), np.array([8.0, 2.0]), np.zeros(2), np.zeros(2), 0.0)
SCALE = [1.0, 4.0]  # D_B = Δ/B, Δ = 8


class Recording:
    """An engine that writes down what it is asked for, and whose T falls by a tenth in every iteration."""

    name, unit, lipschitz = "recording", 1.0, 5.0

    def __init__(self) -> None:
        self.deltas: list[float] = []
        self.steps: list[StepSizes] = []
        self.scales: list[list[float]] = []

    def linearise(self, arrays: object, measures: Measures, delta: float) -> None:
        assert measures is BEFORE
        self.deltas.append(delta)

    def iterate(self, arrays: object, scale: np.ndarray, steps: StepSizes) -> None:
        self.scales.append(scale.tolist())
        self.steps.append(steps)

    def measure(self, arrays: object) -> Measures:
        return Measures(BEFORE.T * (1 - 0.1 * len(self.steps)), BEFORE.B, BEFORE.median, BEFORE.tie, 3.0)


def inner(
    *, epsilon: float = 1e-9, max_inner: int = 100, budget: int = 100, late_at: int | None = None, tau: float = 0.3
) -> tuple[prox.Inner, Recording]:
    kernels = Recording()
    stop = StopRule(epsilon=epsilon, max_inner=max_inner)
    found = prox.prox_tv(
        kernels, None, BEFORE, tau, stop=stop, budget=budget, is_late=lambda: len(kernels.steps) == late_at
    )
    return found, kernels


def test_step_sizes_are_those_of_the_accelerated_method():
    """σ τ ‖K D_B‖² = 1 at first and ever after; θ = 1/√(1 + 2τ), τ ← θτ, σ ← σ/θ."""
    found, kernels = inner(max_inner=3, epsilon=1e-9)
    assert kernels.deltas == [8.0]
    assert kernels.scales == [SCALE] * 3
    tau, sigma = 0.3, 1 / (0.3 * (4.0 * 5.0) ** 2)
    for steps in kernels.steps:
        theta = 1 / sqrt(1 + 2 * tau)
        assert (steps.tau, steps.sigma, steps.theta) == pytest.approx((tau, sigma, theta))
        assert steps.tau * steps.sigma * 400.0 == pytest.approx(1)
        tau, sigma = theta * tau, sigma / theta
    assert found.tau == pytest.approx(tau)


def test_it_ends_with_the_first_iteration_that_descends():
    """Σ (E − E') = 0.0875 t after t iterations, against 3/8 (1 − ε): the fifth is enough."""
    found, kernels = inner()
    assert (found.iterations, found.is_descent, len(kernels.steps)) == (5, True, 5)
    assert found.measures.T.tolist() == pytest.approx([1.5, 0.5])
    assert inner(epsilon=0.3)[0].iterations == 3  # 0.2625 is enough


@pytest.mark.parametrize("limits", [{"max_inner": 3}, {"budget": 3}, {"late_at": 3}], ids=str)
def test_a_limit_may_end_it_before_and_then_it_is_no_descent(limits):
    found, kernels = inner(**limits)
    assert (found.iterations, found.is_descent, len(kernels.steps)) == (3, False, 3)
    assert found.measures.T.tolist() == pytest.approx([2.1, 0.7])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("light", [1e-200, 5e-324])
def test_a_column_of_next_to_no_balance_has_a_step_all_the_same(light, monkeypatch):
    """Δ/B, and its square, by which σ is divided, stay numbers: 0 · ∞ would be none."""
    monkeypatch.setitem(globals(), "BEFORE", Measures(BEFORE.T, np.array([8.0, light]), *[np.zeros(2)] * 2, 0.0))
    _, kernels = inner(max_inner=1)
    (steps,), (scale,) = kernels.steps, kernels.scales
    assert steps.sigma > 0
    assert np.isfinite(steps.sigma * np.array(scale)).all()


@pytest.mark.parametrize(
    "precision", [{"dtype": "float32"}, {"dtype": "float64"}, {"device": "reference"}], ids=["32", "64", "reference"]
)
def test_masses_over_hundreds_of_decades_warn_of_nothing(precision):
    rng = np.random.default_rng(0)
    path = Graph.from_edges([(i, i + 1) for i in range(59)], 10.0 ** rng.uniform(-290, 290, 59))
    start = rng.random((60, 60))
    model = MTVClustering(
        60, affinity="precomputed", balance="volume", algorithm="paper", init=start, max_iter=7, min_cluster_size=1,
        random_state=0, **precision,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CollapseWarning)
        model.fit(path)
    assert np.isfinite(model.memberships_).all()


@pytest.mark.parametrize("seed", [0, 6, 8, 11])
def test_steps_beyond_the_precision_leave_rows_that_sum_to_one(seed):
    """Clusters of next to no mass, whose steps no float32 holds."""
    W = np.triu(10.0 ** np.random.default_rng(seed).uniform(-290, 290, (8, 8)), 1)
    graph = Graph.from_any(W + W.T)
    problem = Problem(graph.with_masses(graph.degrees), 4)
    for precision in ({"dtype": "float32"}, {"dtype": "float64"}, {"device": "reference"}):
        F = solve(problem, np.eye(4)[np.arange(8) % 4], **precision).memberships
        np.testing.assert_allclose(F.sum(axis=1), 1.0, atol=1e-5)


def test_the_oracle_takes_the_largest_step_there_is_where_no_number_holds_it():
    problem = Problem(Graph.from_edges([(i, i + 1) for i in range(5)]), 2)
    kernels = ReferenceKernels(problem)
    arrays = kernels.allocate(np.repeat([[0.5, 0.5]], 6, axis=0))
    faint = replace(kernels.measure(arrays), T=np.ones(2), B=np.full(2, 5e-324), tie=np.zeros(2))
    kernels.linearise(arrays, faint, 1.0)
    assert np.isfinite(arrays.G).all()
