"""Whether a smoothed graph shows its clusters more clearly: a number without a unit, and a choice by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import planted_graph
from tautcut import Graph, Problem
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.search.clarity import CLEARER, clearer, relative_cut


def result_of(graph: Graph, labels: np.ndarray) -> Result:
    problem = Problem(graph, 2)
    partition = problem.partition(labels)
    F = np.eye(2)[partition.labels]
    return Result(problem, partition, F, partition.energy, Status.TRIVIAL, (), F)


def two_cliques(between: float) -> Graph:
    """Cliques of six with this weight on each edge from the one to the other."""
    W = np.full((12, 12), between)
    W[:6, :6] = W[6:, 6:] = 1.0
    np.fill_diagonal(W, 0.0)
    return Graph.from_any(W)


HALVES = np.repeat([0, 1], 6)


def test_two_halves_by_hand():
    # 36 edges between, each seen from both ends, of 60 + 72 in all; by chance it would be half.
    assert relative_cut(two_cliques(1.0), HALVES) == pytest.approx((72 / 132) / 0.5)


def test_nothing_is_cut():
    assert relative_cut(two_cliques(0.0), HALVES) == 0.0
    assert relative_cut(two_cliques(1.0), np.zeros(12, np.int64)) == 0.0
    assert relative_cut(Graph.from_edges(np.empty((0, 2), np.int64), n_vertices=3), np.array([0, 1, 2])) == 0.0


@given(st.floats(1e-6, 1e6), st.integers(0, 99))
def test_no_unit(factor, seed):
    graph, truth = planted_graph(3, 8, seed=seed), np.repeat(np.arange(3), 8)
    scaled = Graph.from_any(graph.to_scipy() * factor)
    assert relative_cut(scaled, truth) == pytest.approx(relative_cut(graph, truth))


def test_chance_is_one():
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 400, (8000, 2)), axis=1), axis=0)
    graph = Graph.from_edges(pairs[pairs[:, 0] != pairs[:, 1]], n_vertices=400)
    assert relative_cut(graph, rng.integers(0, 4, 400)) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(("between", "is_smoothed"), [(0.01, True), (0.1, False), (0.2, False)])
def test_the_clearer_of_two_is_chosen_and_the_graph_itself_among_equals(between, is_smoothed):
    plain, smoothed = result_of(two_cliques(0.1), HALVES), result_of(two_cliques(between), HALVES)
    assert (clearer(plain, smoothed) is smoothed) == is_smoothed


@pytest.mark.parametrize("between", [0.0, 0.1])
def test_what_cuts_nothing_stays(between):
    plain, smoothed = result_of(two_cliques(0.0), HALVES), result_of(two_cliques(between), HALVES)
    assert clearer(plain, smoothed) is plain
    assert CLEARER < 1
