"""Theorem 2, with masses: the vector v of the paper is a subgradient of B, sums to zero and lies in m·[−1, λ]."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from strategies import lams, vertex_masses
from tautcut.arrays import FloatArray
from tautcut.graph import Graph
from tautcut.kernels.reference import balance, lambda_median, subgradient, tie_value
from tautcut.problem import Problem

VALUES = st.one_of(st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.5]), st.floats(-10, 10))


@st.composite
def columns(draw: st.DrawFn) -> tuple[Problem, FloatArray, FloatArray]:
    """Masses and λ of each column (through a Problem), the matrix F with ties, and another matrix."""
    n, R = draw(st.integers(2, 12)), draw(st.integers(1, 3))
    R = min(n, R)
    lam = draw(lams(R)) if R > 1 else np.array([draw(st.floats(0.05, 20))])
    graph = Graph.from_edges([(0, 1)], n_vertices=n)
    problem = Problem(graph.with_masses(draw(vertex_masses(n))), R, lam)
    shape = (n, R)
    return (
        problem,
        draw(hnp.arrays(float, shape, elements=VALUES)),
        draw(hnp.arrays(float, shape, elements=VALUES)),
    )


def B_of(problem: Problem, F: FloatArray) -> FloatArray:
    masses = problem.graph.masses
    return balance(F, masses, problem.lam, lambda_median(F, masses, problem.median_mass))


def v_of(problem: Problem, F: FloatArray) -> FloatArray:
    masses, lam = problem.graph.masses, problem.lam
    median = lambda_median(F, masses, problem.median_mass)
    return subgradient(F, masses, lam, median, tie_value(F, masses, lam, median))


@given(columns())
def test_the_subgradient_inequality_holds_for_every_other_function(drawn):
    problem, F, other = drawn
    bound = B_of(problem, F) + (v_of(problem, F) * (other - F)).sum(axis=0)
    assert (B_of(problem, other) >= bound - 1e-9 * (1 + np.abs(bound))).all()


@given(columns())
def test_the_subgradient_sums_to_zero(drawn):
    problem, F, _ = drawn
    assert v_of(problem, F).sum(axis=0) == pytest.approx(0, abs=1e-9)


@given(columns())
def test_the_subgradient_lies_between_minus_one_and_lambda(drawn):
    problem, F, _ = drawn
    v = v_of(problem, F) / problem.graph.masses[:, None]
    assert (v >= -1 - 1e-9).all()
    assert (v <= problem.lam + 1e-9).all()


@given(columns())
def test_the_median_has_its_mass_above_and_below(drawn):
    """m{f > c} ≤ m(V) / (λ + 1) ≤ m{f ≥ c}."""
    problem, F, _ = drawn
    masses, bar = problem.graph.masses, problem.total_mass / (problem.lam + 1)
    median = lambda_median(F, masses, problem.median_mass)
    assert (masses @ (median < F) <= bar * (1 + 1e-9)).all()
    assert (masses @ (median <= F) >= bar * (1 - 1e-9)).all()


@given(columns())
def test_the_subgradient_reproduces_B(drawn):
    """⟨v, f⟩ = B(f), since B is homogeneous of degree one."""
    problem, F, _ = drawn
    assert (v_of(problem, F) * F).sum(axis=0) == pytest.approx(B_of(problem, F), rel=1e-9, abs=1e-9)


@given(columns(), st.floats(-10, 10))
def test_the_median_is_the_best_constant(drawn, constant):
    problem, F, _ = drawn
    elsewhere = balance(F, problem.graph.masses, problem.lam, np.full(problem.n_clusters, constant))
    assert (B_of(problem, F) <= elsewhere + 1e-9 * (1 + elsewhere)).all()


@given(columns(), st.floats(0, 1))
def test_B_is_convex(drawn, share):
    problem, F, other = drawn
    between = share * F + (1 - share) * other
    chord = share * B_of(problem, F) + (1 - share) * B_of(problem, other)
    assert (B_of(problem, between) <= chord + 1e-9 * (1 + chord)).all()
