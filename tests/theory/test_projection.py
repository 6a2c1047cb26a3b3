"""The projection onto C: its KKT conditions, in the reference engine and inside the compiled iteration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from strategies import random_graph
from tautcut.kernels.cpu.engine import CpuKernels
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.kernels.reference import project, project_simplex
from tautcut.problem import Problem

N, R = 6, 3
ENTRIES = st.one_of(st.sampled_from([0.0, 1.0, 1 / 3, -1.0]), st.floats(-50, 50, width=32))
MATRICES = hnp.arrays(np.float64, (N, R), elements=ENTRIES)


def assert_is_projection(F: np.ndarray, X: np.ndarray, *, tolerance: float) -> None:
    """KKT: F ≥ 0, rows sum to one, x − f is one number t on the support and at most t off it."""
    scale = tolerance * (1 + np.abs(X).max(axis=1, keepdims=True))
    assert (F >= 0).all()
    assert (1 + tolerance >= F).all()
    assert (np.abs(F.sum(axis=1, keepdims=True) - 1) <= scale).all()
    gap = X - F
    threshold = np.where(F > 0, gap, -np.inf).max(axis=1, keepdims=True)
    assert (np.where(F > 0, threshold - gap, 0) <= scale).all()
    assert (np.where(F == 0, gap - threshold, 0) <= scale).all()


def projected_by_cpu(X: np.ndarray, dtype: str) -> np.ndarray:
    """One compiled iteration whose duals and target change nothing: what is left is the projection of X."""
    n, width = X.shape
    kernels = CpuKernels(Problem(random_graph(n, 3 * n, seed=0), width), dtype=np.dtype(dtype))
    arrays = kernels.allocate(X)
    nothing, ones = np.zeros(width), np.ones(width)
    kernels.linearise(arrays, Measures(nothing, ones, nothing, nothing, 0.0), 1.0)
    kernels.iterate(arrays, ones, StepSizes(tau=1.0, sigma=0.0, theta=0.5))
    return kernels.memberships(arrays)


@given(MATRICES)
def test_reference_projection_satisfies_kkt(X):
    assert_is_projection(project_simplex(X), X, tolerance=1e-12)


@given(MATRICES)
def test_projecting_twice_changes_nothing(X):
    F = project_simplex(X)
    assert project_simplex(F) == pytest.approx(F, abs=1e-14)


@given(MATRICES, st.lists(st.integers(-1, R - 1), min_size=N, max_size=N))
def test_labelled_rows_become_unit_vectors_and_others_do_not_notice(X, labels):
    labels = np.array(labels)
    before = X.copy()
    F = project(X, labels)
    assert np.array_equal(F[labels >= 0], np.eye(R)[labels[labels >= 0]])
    assert np.array_equal(F[labels < 0], project_simplex(X)[labels < 0])
    assert np.array_equal(X, before)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 4e-7), ("float64", 1e-14)])
def test_compiled_projection_satisfies_kkt(dtype, tolerance):
    @given(MATRICES)
    @example(np.full((N, R), 1 / 3))
    @example(np.zeros((N, R)))
    def check(X: np.ndarray) -> None:
        X = X.astype(dtype).astype(float)
        assert_is_projection(projected_by_cpu(X, dtype), X, tolerance=tolerance)

    check()


@pytest.mark.parametrize("engine", ["float32", "float64", "reference"])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12, 1e18])
def test_rows_stay_on_the_simplex_however_far_the_step(engine, size):
    """A fading cluster makes Δ/B, and with it the primal step, very large; no row may leave C for that."""
    X = size * np.random.default_rng(1).uniform(-1, 1, (40, R))
    X[:3] = size * np.array([[1, 0, 0], [1, 0, -1], [-1, -0.5, -1]])
    F = project_simplex(X) if engine == "reference" else projected_by_cpu(X, engine)
    rounding = size * float(np.finfo("float32" if engine == "float32" else "float64").eps)
    assert (F >= 0).all()
    assert F.sum(axis=1) == pytest.approx(1, abs=1e-6)
    ordered = np.sort(X, axis=1)
    is_clear = ordered[:, -1] - ordered[:, -2] > 1 + 8 * rounding
    assert is_clear.any()
    assert np.array_equal(F[is_clear], np.eye(R)[X[is_clear].argmax(axis=1)])
