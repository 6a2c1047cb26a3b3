"""Figure 1: on a line of 20 vertices the TV solution is the indicator of half the line, up to its scale, and the
spectral solution is the smooth curve whose exact shape is known.
"""

from __future__ import annotations

import numpy as np
import pytest

from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.kernels.devices import choose
from tautcut.problem import Numerator, Partition, Problem

N = 20
ENGINES = [
    {"device": "reference"},
    {"device": "cpu", "dtype": "float64"},
    {"device": "cpu", "dtype": "float32"},
]
HALF = np.r_[np.ones(10), np.zeros(10)]
DROPS = np.r_[1:10, 10:0:-1]  # Lap f ∝ (+1, …, +1, −1, …, −1) at the spectral optimum
SMOOTH = 1 - np.r_[0, np.cumsum(DROPS)] / DROPS.sum()
LINE = Graph.from_edges([(i, i + 1) for i in range(N - 1)])


def diffused(*seeds: int) -> np.ndarray:
    """(I + L)⁻¹ of one indicator per cluster; vertices are numbered from 1, as in the figure."""
    W = LINE.to_scipy().toarray()
    laplacian = np.diag(W.sum(axis=1)) - W
    return np.linalg.solve(np.eye(N) + laplacian, np.eye(N)[:, np.array(seeds) - 1])


def rescaled(f: np.ndarray) -> np.ndarray:
    """f stretched to [0, 1]: E does not see the amplitude, so the algorithm may stop at any."""
    return (f - f.min()) / np.ptp(f)


def settle(
    start: np.ndarray, max_iter: int, numerator: Numerator = "tv", **engine: str
) -> tuple[np.ndarray, float, Partition]:
    """The last F of a run from this start, its relaxed energy and the best partition."""
    problem = Problem(LINE, 2, numerator=numerator)
    stop = StopRule(tol=0, max_iter=max_iter)  # tol=1e-4 stops far too early on this graph
    result = solve(problem, start, stop=stop, **engine)
    return result.last_memberships, result.relaxed_energy, result.partition


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_tv_solution_is_the_indicator_of_half_the_line(engine):
    start = diffused(3, 18)
    assert np.abs(rescaled(start[:, 0]) - HALF).max() > 0.4  # the start is nothing like it
    F, relaxed_energy, partition = settle(start, 2000, **engine)
    assert rescaled(F[:, 0]) == pytest.approx(HALF, abs=1e-4)
    assert rescaled(F[:, 1]) == pytest.approx(1 - HALF, abs=1e-4)
    assert relaxed_energy == pytest.approx(0.2, abs=1e-5)
    assert partition.terms == pytest.approx([0.1, 0.1])
    assert np.array_equal(partition.labels, 1 - HALF)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_an_asymmetric_start_arrives_at_the_same_solution(engine):
    start = diffused(6, 13)
    assert not np.array_equal(start.argmax(axis=1), 1 - HALF)  # not even the cut is right yet
    F, relaxed_energy, partition = settle(start, 8000, **engine)
    assert rescaled(F[:, 0]) == pytest.approx(HALF, abs=1e-3)
    assert relaxed_energy == pytest.approx(0.2, abs=1e-4)
    assert partition.energy == pytest.approx(0.2)


def test_spectral_solution_is_the_known_smooth_curve():
    F, relaxed_energy, partition = settle(diffused(3, 18), 600, "laplacian")
    assert rescaled(F[:, 0]) == pytest.approx(SMOOTH, abs=1e-3)
    assert rescaled(F[:, 1]) == pytest.approx(1 - SMOOTH, abs=1e-3)
    assert relaxed_energy == pytest.approx(2 / np.sqrt(670), abs=1e-6)
    assert partition.energy == pytest.approx(0.2)  # (P) has one meaning, whatever the relaxation


@pytest.mark.parametrize(
    ("numerator", "f", "energy"),
    [
        ("tv", HALF, 0.1),
        ("tv", SMOOTH, 1 / 6.7),
        ("laplacian", HALF, 0.1),
        ("laplacian", SMOOTH, 1 / np.sqrt(670)),
    ],
)
def test_each_model_prefers_its_own_curve(numerator, f, energy):
    kernels = choose(Problem(LINE, 2, numerator=numerator), device="reference")
    energies = kernels.measure(kernels.allocate(np.column_stack([f, 1 - f]))).E
    assert energies == pytest.approx([energy, energy], rel=1e-12)
