"""Coarsenings against what they stand for: masses and cuts are kept, groups are respected, and hubs shrink too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import planted_graph, problems, random_graph
from tautcut.graph import Graph
from tautcut.kernels.cpu import coarsening
from tautcut.kernels.cpu.coarsening import contract_matching, finest_level
from tautcut.kernels.cpu.moves import descend
from tautcut.problem import cuts


def star(n: int) -> Graph:
    return Graph.from_edges([(0, i) for i in range(1, n)])


def shared_neighbors(graph: Graph) -> np.ndarray:
    A = (graph.to_scipy() > 0).astype(float)
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    return np.asarray((A @ A)[rows, graph.indices]).ravel()


@given(problems(has_labels=True), st.integers(0, 2**31))
def test_a_contraction_keeps_masses_and_the_cut_of_every_coarse_partition(problem, seed):
    level = finest_level(problem.graph, problem.is_labelled)
    groups = np.random.default_rng(seed).integers(0, problem.n_clusters, problem.n_vertices)
    coarse, parent = contract_matching(level, groups, heaviest=3.0, rng=np.random.default_rng(0))
    assert coarse.masses == pytest.approx(np.bincount(parent, problem.graph.masses))
    assert all(len(set(groups[parent == c])) == 1 for c in range(coarse.n_vertices))
    coarse_labels = np.arange(coarse.n_vertices) % problem.n_clusters
    bounds = np.full(problem.n_clusters, np.inf)  # nothing may move
    _, cut, masses = descend(coarse, coarse_labels, problem.lam, bounds)
    fine = coarse_labels[parent]
    np.testing.assert_allclose(cut, cuts(problem.graph, fine, problem.n_clusters), atol=1e-9)
    assert masses == pytest.approx(problem.partition(fine).masses)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_an_edge_is_rated_by_the_neighbors_that_its_ends_share(is_weighted):
    graph = random_graph(80, 600, seed=3, is_weighted=is_weighted, n_isolated=2)
    level = finest_level(graph, np.zeros(80, bool))
    np.testing.assert_array_equal(level.rating, graph.weights * (0.1 + shared_neighbors(graph)))


@pytest.mark.parametrize("n_groups", [1, 3])
def test_a_list_of_mates_spares_looks_and_changes_nothing(n_groups, monkeypatch):
    """Few threads make no list, several do; of an unweighted graph many ratings are equal."""
    graph = random_graph(80, 300, seed=4, n_isolated=2)
    level, groups = finest_level(graph, np.zeros(80, bool)), np.arange(80) % n_groups
    monkeypatch.setattr("tautcut.kernels.cpu.sharing._LEAST_SHARE", 10)
    levels, parents = [], []
    for n_threads in ("1", "4"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", n_threads)
        assert len(coarsening._listed_mates(level, groups, 4.0)) == (80 if n_threads == "4" else 0)
        coarse, parent = contract_matching(level, groups, heaviest=4.0, rng=np.random.default_rng(1))
        levels.append(coarse)
        parents.append(parent)
    np.testing.assert_array_equal(*parents)
    for one, other in zip(*levels, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_two_hubs_share_is_estimated():
    """Hubs that are joined to one another and to all leaves; what a leaf and a hub share, the hubs, is counted."""
    n_hubs, n_leaves = 60, 2 * coarsening._MOST_LOOKS + 100
    n = n_hubs + n_leaves
    edges = [(hub, other) for hub in range(n_hubs) for other in range(hub + 1, n)]
    graph = Graph.from_edges(edges)
    rating = finest_level(graph, np.zeros(n, bool)).rating
    joins_hubs = (np.repeat(np.arange(n), np.diff(graph.indptr)) < n_hubs) & (graph.indices < n_hubs)
    assert joins_hubs.sum() == n_hubs * (n_hubs - 1)
    assert rating[joins_hubs] == pytest.approx(np.full(joins_hubs.sum(), n - 2), rel=0.05)
    assert rating[~joins_hubs] == pytest.approx(np.full((~joins_hubs).sum(), 0.1 + n_hubs - 1))


@pytest.mark.parametrize("n_groups", [1, 3])
def test_the_leaves_of_a_star_are_paired(n_groups):
    level = finest_level(star(400), np.zeros(400, bool))
    groups = np.arange(400) % n_groups
    coarse, parent = contract_matching(level, groups, heaviest=40.0, rng=np.random.default_rng(0))
    assert coarse.n_vertices <= 210
    assert coarse.masses.max() <= 2
    assert all(np.unique(groups[parent == c]).size == 1 for c in range(coarse.n_vertices))


def test_vertices_whose_masses_multiply_to_nothing_are_paired():
    masses = np.where(np.arange(40) < 20, 1e-200, 1.0)
    level = finest_level(planted_graph(4, 10, seed=0).with_masses(masses), np.zeros(40, np.bool_))
    coarse, _ = contract_matching(level, np.zeros(40, np.int64), heaviest=2.0, rng=np.random.default_rng(0))
    assert coarse.n_vertices <= 28
    assert coarse.masses.sum() == pytest.approx(masses.sum())


def test_vertices_without_edges_are_paired():
    level = finest_level(Graph.from_edges([(0, 1)], n_vertices=100), np.zeros(100, bool))
    coarse, _ = contract_matching(level, np.zeros(100, np.int64), heaviest=5.0, rng=np.random.default_rng(0))
    assert coarse.n_vertices <= 51
