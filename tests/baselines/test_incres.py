"""INCRES: planting, growing, harvesting, and when it stops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from strategies import graphs, planted_graph, random_graph
from tautcut import Graph, purity
from tautcut.baselines import INCRES
from tautcut.baselines.incres import grow, plant, reseed, walk_matrix, without_empty
from tautcut.errors import InputError

PATH = Graph.from_edges([(i, i + 1) for i in range(9)])
CYCLE = Graph.from_edges([(i, (i + 1) % 31) for i in range(31)])  # odd, so not bipartite


@given(graphs())
def test_the_walk_keeps_the_mass_on_vertices_with_edges(graph):
    mass = np.asarray(walk_matrix(graph).sum(axis=0)).ravel()
    np.testing.assert_allclose(mass, (graph.degrees > 0).astype(float))


@given(st.lists(st.integers(0, 3), min_size=4, max_size=40), st.integers(0, 99))
def test_seeds_are_distinct_vertices_of_their_cluster(listed, seed):
    rng = np.random.default_rng(seed)
    labels = without_empty(np.array(listed), 4, rng=rng)
    n_seeds = int(np.bincount(labels).min())
    F = plant(labels, 4, n_seeds, rng=rng)
    np.testing.assert_array_equal(F.sum(axis=0), np.full(4, n_seeds))
    assert set(F.ravel()) <= {0.0, 1.0}
    assert (F[np.arange(labels.size), labels] == F.sum(axis=1)).all()


def test_every_vertex_can_be_a_seed():
    labels, rng = np.repeat([0, 1], 6), np.random.default_rng(0)
    drawn = sum(plant(labels, 2, 2, rng=rng) for _ in range(300)).sum(axis=1)
    assert drawn.min() > 70  # 100 each on average
    assert drawn.max() < 130


@given(st.lists(st.integers(0, 5), min_size=6, max_size=20), st.integers(0, 99))
def test_empty_clusters_get_one_vertex_each(listed, seed):
    labels = np.array(listed)
    filled = without_empty(labels, 6, rng=np.random.default_rng(seed))
    sizes = np.bincount(filled, minlength=6)
    assert (sizes > 0).all()
    assert (filled != labels).sum() == 6 - np.unique(labels).size
    assert (sizes[np.setdiff1d(np.arange(6), labels)] == 1).all()


def test_growth_ends_when_every_cluster_is_everywhere():
    walk = walk_matrix(CYCLE)
    F = np.zeros((31, 2))
    F[3, 0] = F[20, 1] = 1.0
    expected = np.linalg.matrix_power(walk.toarray(), 30) @ F  # the far side is reached from both directions
    assert (expected > 0).all()
    assert (np.linalg.matrix_power(walk.toarray(), 29) @ F == 0).any()
    np.testing.assert_array_equal(grow(walk, F, np.zeros(31, dtype=np.int64)), expected.argmax(axis=1))


def test_growth_ends_on_a_bipartite_graph():
    F = np.zeros((10, 2))
    F[0, 0] = F[9, 1] = 1.0
    labels = grow(walk_matrix(PATH), F, np.full(10, -1))
    np.testing.assert_array_equal(labels, np.repeat([0, 1], 5))


def test_what_nothing_reaches_keeps_its_label():
    graph = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (6, 7)])
    F = np.zeros((8, 2))
    F[0, 1] = F[3, 0] = 1.0
    labels = grow(walk_matrix(graph), F, np.array([0, 0, 0, 1, 1, 1, 1, 0]))
    np.testing.assert_array_equal(labels, [1, 1, 1, 0, 0, 0, 1, 0])


def test_it_stops_when_the_partition_settles():
    graph = Graph.from_any(np.kron(np.eye(2), np.ones((20, 20))))
    model = INCRES(2, random_state=0).fit(graph)
    assert purity(model.labels_, np.repeat([0, 1], 20)) == 1
    assert model.n_iter_ < 100


def test_it_stops_when_the_seeds_can_grow_no_further():
    labels, n_rounds = reseed(
        walk_matrix(CYCLE), np.arange(31) % 3, 3, growth=1.0, max_iter=10_000, rng=np.random.default_rng(0)
    )
    assert 50 <= n_rounds < 2000
    assert set(labels) <= {0, 1, 2}


def test_it_stops_at_the_limit():
    assert INCRES(3, max_iter=4, random_state=0).fit(random_graph(60, 200, seed=0)).n_iter_ == 4


def test_the_published_purity_of_digits():
    X, y = load_digits(return_X_y=True)
    W = kneighbors_graph(X, 10)
    graph = Graph.from_any(W.maximum(W.T))
    purities = [purity(INCRES(10, max_iter=150, random_state=seed).fit_predict(graph), y) for seed in range(4)]
    assert min(purities) > 0.82
    assert max(purities) > 0.91


def test_too_few_vertices_with_edges_leave_random_labels():
    model = INCRES(3, random_state=0).fit(Graph.from_edges([(0, 1)], n_vertices=8))
    assert model.n_iter_ == 0
    assert set(model.labels_) <= {0, 1, 2}


def test_isolated_vertices_do_not_hinder_the_others():
    graph = planted_graph(2, 30, seed=0).to_scipy()
    graph.resize((70, 70))
    labels = INCRES(2, max_iter=300, random_state=0).fit_predict(graph)
    assert purity(labels[:60], np.repeat([0, 1], 30)) > 0.95


@pytest.mark.parametrize("speed", [0.0, -1, np.inf, np.nan, "fast", True])
def test_bad_speeds_are_refused(speed):
    with pytest.raises(InputError, match="speed"):
        INCRES(2, speed=speed).fit(PATH)
