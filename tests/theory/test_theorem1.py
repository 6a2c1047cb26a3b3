"""Theorem 1: on an indicator, T/B is the discrete term of (P); on any f, T and B sum over its level sets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import memberships, problems
from tautcut.graph import Graph
from tautcut.kernels.reference import (
    ReferenceKernels,
    balance,
    gradient_matrix,
    lambda_median,
    total_variation,
)
from tautcut.problem import Problem, balanced_cut_energy


def discrete_terms(graph: Graph, inside: np.ndarray, lam: float) -> tuple[float, float]:
    """Cut(A, Aᶜ), each edge once, and min{λ m(A), m(Aᶜ)}."""
    W, m = graph.to_scipy().toarray(), graph.masses
    return float(W[inside][:, ~inside].sum()), min(lam * m[inside].sum(), m[~inside].sum())


def measures_of(problem: Problem, f: np.ndarray) -> tuple[float, float]:
    """T(f) and B(f), in the units of W, for the first cluster's λ."""
    lam, masses, column = problem.lam[:1], problem.graph.masses, f[:, None]
    T = total_variation(gradient_matrix(problem.graph), column)
    return T[0], balance(column, masses, lam, lambda_median(column, masses, problem.median_mass[:1]))[0]


@given(problems(), st.data())
def test_T_of_an_indicator_is_the_cut_and_B_is_the_balance(problem, data):
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=problem.n_vertices, max_size=problem.n_vertices)))
    cut, smaller_side = discrete_terms(problem.graph, inside, problem.lam[0])
    T, B = measures_of(problem, inside.astype(float))
    assert pytest.approx(cut, rel=1e-12) == T
    assert pytest.approx(smaller_side, rel=1e-9) == B


@given(problems(), st.data())
def test_relaxed_energy_of_an_indicator_matrix_is_the_discrete_energy(problem, data):
    R = problem.n_clusters
    free = st.lists(st.integers(0, R - 1), min_size=problem.n_vertices - R, max_size=problem.n_vertices - R)
    labels = np.array([*range(R), *data.draw(free)])  # no cluster is empty
    kernels = ReferenceKernels(problem)
    measures = kernels.measure(kernels.allocate(np.eye(R)[labels]))
    expected = balanced_cut_energy(problem.graph, labels, np.asarray(problem.lam))
    assert measures.relaxed_energy * kernels.unit == pytest.approx(expected, rel=1e-9)
    assert problem.partition(labels).energy == expected


@given(problems(), st.data())
def test_T_and_B_are_sums_over_level_sets(problem, data):
    """T(f) = ∫ Cut{f > t} dt and B(f) = ∫ min{λ m{f > t}, m{f ≤ t}} dt: why the relaxation is tight."""
    f = data.draw(memberships(problem.n_vertices, 2))[:, 0]
    levels = np.unique(f)
    slices = [(high - low, *discrete_terms(problem.graph, f > low, problem.lam[0])) for low, high in pairwise(levels)]
    T, B = measures_of(problem, f)
    assert pytest.approx(sum(height * cut for height, cut, _ in slices), rel=1e-9, abs=1e-12) == T
    assert pytest.approx(sum(height * side for height, _, side in slices), rel=1e-9, abs=1e-12) == B


@given(problems(), st.data(), st.floats(0.01, 100), st.floats(-5, 5))
def test_energy_ignores_scale_and_shift(problem, data, scale, shift):
    f = data.draw(memberships(problem.n_vertices, 2))[:, 0]
    T, B = measures_of(problem, f)
    T_moved, B_moved = measures_of(problem, scale * f + shift)
    assert pytest.approx(scale * T, rel=1e-8, abs=1e-10) == T_moved
    assert pytest.approx(scale * B, rel=1e-8, abs=1e-10) == B_moved
