"""Figure 1: on a line of 20 vertices the TV solution is the indicator of half the line, up to its scale."""

from __future__ import annotations

import numpy as np
import pytest

from tautcut.graph import Graph
from tautcut.problem import Problem
from tautcut.solver import solve
from tautcut.stopping import StopRule

N = 20
HALF = np.r_[np.ones(10), np.zeros(10)]
LINE = Graph.from_edges([(i, i + 1) for i in range(N - 1)])


def diffused(*seeds: int) -> np.ndarray:
    """(I + L)⁻¹ of one indicator per cluster; vertices are numbered from 1, as in the figure."""
    W = LINE.to_scipy().toarray()
    laplacian = np.diag(W.sum(axis=1)) - W
    return np.linalg.solve(np.eye(N) + laplacian, np.eye(N)[:, np.array(seeds) - 1])


def rescaled(f: np.ndarray) -> np.ndarray:
    """f stretched to [0, 1]: E does not see the amplitude, so the algorithm may stop at any."""
    return (f - f.min()) / np.ptp(f)


@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float64"), ("cpu", "float32")])
def test_tv_solution_is_the_indicator_of_half_the_line(device, dtype):
    problem = Problem(LINE, 2)
    start = diffused(3, 18)
    # tol=1e-4 stops far too early on this graph.
    result = solve(problem, start, stop=StopRule(tol=0, max_iter=3000), device=device, dtype=dtype)
    assert np.abs(rescaled(start[:, 0]) - HALF).max() > 0.4  # the start is nothing like it
    assert result.history[0].relaxed_energy > 0.35
    assert rescaled(result.memberships[:, 0]) == pytest.approx(HALF, abs=1e-3)
    assert rescaled(result.memberships[:, 1]) == pytest.approx(1 - HALF, abs=1e-3)
    assert result.relaxed_energy == pytest.approx(0.2, abs=1e-4)
    assert result.partition.terms == pytest.approx([0.1, 0.1])
    assert np.array_equal(result.partition.labels, 1 - HALF)


def test_an_asymmetric_start_arrives_at_the_same_cut():
    start = diffused(6, 13)
    result = solve(Problem(LINE, 2), start, stop=StopRule(tol=0, max_iter=8000), device="reference")
    assert not np.array_equal(start.argmax(axis=1), 1 - HALF)
    assert rescaled(result.memberships[:, 0]) == pytest.approx(HALF, abs=0.02)
    assert result.relaxed_energy == pytest.approx(0.2, rel=0.01)
    assert result.partition.energy == pytest.approx(0.2)
