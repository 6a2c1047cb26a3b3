"""Whether a graph shows its clusters clearly: a number without a unit, and a choice by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from strategies import planted_graph
from tautcut import Graph, MTVClustering, Problem, knn_graph, walk_graph
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.search.clarity import is_clear, relative_cut


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


@pytest.mark.parametrize(("between", "expected"), [(0.0, True), (0.05, True), (0.1, False), (1.0, False)])
def test_clusters_are_clear_while_little_is_cut(between, expected):
    # 72 b of 60 + 72 b, over a half: 0.11 at 0.05 and 0.21 at 0.1.
    assert is_clear(result_of(two_cliques(between), HALVES)) == expected


def test_a_walk_makes_digits_clear_and_shows_nothing_in_noise():
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < 3)
    digits = walk_graph(knn_graph(X[few], 10), 30)
    assert is_clear(MTVClustering(3, affinity="precomputed", random_state=0).fit(digits).result_)
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 300, (1500, 2)), axis=1), axis=0)
    noise = walk_graph(Graph.from_edges(pairs[pairs[:, 0] != pairs[:, 1]], n_vertices=300), 30)
    assert not is_clear(MTVClustering(3, affinity="precomputed", random_state=0).fit(noise).result_)
