"""(P-rlx2), the spectral relaxation, is the same algorithm with another numerator: Theorem 3 holds for it too."""

from __future__ import annotations

import warnings
from contextlib import suppress
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from strategies import noisy_start, planted_graph, started
from tautcut.algorithm import solver
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import FloatArray
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.laplacian import laplacian
from tautcut.kernels.devices import choose
from tautcut.kernels.reference import ReferenceKernels, balance, clip_columns, lambda_median
from tautcut.problem import Problem

EPSILON = StopRule().epsilon


def spectral(problem: Problem) -> Problem:
    """The same problem with the other numerator."""
    return Problem(problem.graph, problem.n_clusters, problem.lam, problem.labels, numerator="laplacian")


def mean_one(graph: Graph) -> Graph:
    """The graph as the kernels see it."""
    return Graph(graph.indptr, graph.indices, graph.weights / graph.weights.mean())


def T_and_B(problem: Problem, F: FloatArray) -> tuple[FloatArray, FloatArray]:
    """√⟨f, Lap f⟩ by the Laplacian itself, and B."""
    squares = np.einsum("ir,ir->r", F, laplacian(mean_one(problem.graph)) @ F)
    masses = problem.graph.masses / problem.graph.masses.mean()
    median = lambda_median(F, masses, problem.median_mass / problem.graph.masses.mean())
    return np.sqrt(np.maximum(squares, 0)), balance(F, masses, problem.lam, median)


def descent(problem: Problem, before: FloatArray, after: FloatArray) -> tuple[float, float]:
    """The two sides of the estimate: Σ_r (B'/B)(E − E') and ‖F − F'‖² / Δ."""
    T, B = T_and_B(problem, before)
    T_new, B_new = T_and_B(problem, after)
    gain = (T / B * B_new - T_new) / B  # B'E' = T'
    return float(gain.sum()), float(((after - before) ** 2).sum() / B.max())


def exact_prox(problem: Problem, G: FloatArray, scale: FloatArray) -> FloatArray:
    """argmin over C of Σ_r c_r ‖f_r‖_Lap + ½‖F − G‖², by a general convex solver."""
    W = mean_one(problem.graph).to_scipy().tocoo()
    once = W.row < W.col
    root = np.sqrt(W.data[once])[:, None]
    F = cp.Variable(G.shape)
    drops = cp.multiply(root @ np.ones((1, G.shape[1])), F[W.row[once]] - F[W.col[once]])
    fixed = np.flatnonzero(problem.is_labelled)
    constraints = [F >= 0, cp.sum(F, axis=1) == 1]
    if fixed.size:
        constraints.append(F[fixed] == np.eye(problem.n_clusters)[problem.labels[fixed]])
    target = cp.norm(drops, 2, axis=0) @ scale + 0.5 * cp.sum_squares(F - G)
    tight = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
    program = cp.Problem(cp.Minimize(target), constraints)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        with suppress(cp.SolverError):  # on a busy machine it gives up at times
            program.solve(solver=cp.CLARABEL, **tight)
    assume(program.status == cp.OPTIMAL)  # an oracle that is not sure of itself is none
    return np.asarray(F.value)


@settings(max_examples=20)
@given(started(max_vertices=8, max_clusters=3, has_labels=True))
def test_a_step_with_the_exact_prox_descends(drawn):
    problem, F = spectral(drawn[0]), drawn[1]
    kernels = ReferenceKernels(problem)
    arrays = kernels.allocate(F)
    measures = kernels.measure(arrays)
    delta = measures.B.max()
    kernels.linearise(arrays, measures, delta)
    after = exact_prox(problem, arrays.G, delta / measures.B)
    gain, step = descent(problem, F, after)
    assert gain >= step - 1e-5 * (1 + abs(gain))  # √ of a tiny ⟨f, Lap f⟩ doubles its rounding
    assert after.sum(axis=1) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("has_labels", [False, True])
def test_every_accepted_outer_step_descends_in_the_weak_form(has_labels):
    truth = np.repeat(np.arange(3), 30)
    labels = np.where(np.arange(90) % 10 == 0, truth, -1) if has_labels else None
    problem = Problem(planted_graph(3, 30, seed=1, is_weighted=True), 3, labels=labels, numerator="laplacian")
    kernels = choose(problem, device="reference")
    state = solver.init(problem, solver.feasible(problem, noisy_start(truth, 3, seed=2, trust=0.3)), kernels)
    seen = [(kernels.memberships(state.arrays), True)]
    for _ in range(40):
        state = solver.step(problem, state, kernels, StopRule(max_iter=10_000), deadline=np.inf)
        seen.append((kernels.memberships(state.arrays), state.is_descent))
    accepted = 0
    for (before, _), (after, is_descent) in pairwise(seen):
        gain, step = descent(problem, before, after)
        if is_descent:
            assert gain >= (1 - EPSILON) * step - 1e-12
            accepted += 1
        assert after.sum(axis=1) == pytest.approx(1, abs=1e-9)
    assert accepted >= 35


@settings(max_examples=50)
@given(started(max_vertices=8))
def test_the_numerator_is_the_norm_of_the_laplacian(drawn):
    problem, F = spectral(drawn[0]), drawn[1]
    kernels = ReferenceKernels(problem)
    T = np.sqrt(np.maximum(np.einsum("ir,ir->r", F, laplacian(problem.graph) @ F), 0))
    assert kernels.weight_unit * kernels.measure(kernels.allocate(F)).T == pytest.approx(T, rel=1e-9, abs=1e-6)
    largest = np.linalg.eigvalsh(laplacian(mean_one(problem.graph)).toarray())[-1]
    assert np.sqrt(largest) <= kernels.lipschitz * (1 + 1e-9)
    assert kernels.lipschitz <= np.sqrt(2 * largest) * (1 + 1e-9)


@given(hnp.arrays(np.float64, (4, 3), elements=st.floats(-5, 5)))
def test_duals_are_projected_onto_the_ball_of_each_column(P):
    nearest = clip_columns(P)
    lengths = np.linalg.norm(P, axis=0)
    assert np.linalg.norm(nearest, axis=0) == pytest.approx(np.minimum(lengths, 1))
    assert nearest * np.maximum(lengths, 1) == pytest.approx(P)


def test_the_energy_is_in_the_units_of_the_weights():
    path = Graph.from_edges([(i, i + 1) for i in range(9)])
    heavy = Graph(path.indptr, path.indices, 9 * path.weights)
    start = np.linspace([1.0, 0.0], [0.2, 0.8], 10)
    light, scaled = (solver.solve(Problem(graph, 2, numerator="laplacian"), start) for graph in (path, heavy))
    assert scaled.relaxed_energy == pytest.approx(3 * light.relaxed_energy)
    assert scaled.n_iter == light.n_iter


def test_only_the_reference_engine_has_it_and_devices_are_still_checked():
    problem = Problem(Graph.from_edges([(0, 1), (1, 2)]), 2, numerator="laplacian")
    assert choose(problem, device="cpu").name == "reference"
    with pytest.raises(InputError, match="device must be one of auto, cpu, cuda, reference; found 'abacus'"):
        choose(problem, device="abacus")


def test_an_unknown_numerator_is_refused():
    with pytest.raises(InputError, match="numerator must be one of tv, laplacian; found 'l2'"):
        Problem(Graph.from_edges([(0, 1), (1, 2)]), 2, numerator="l2")
