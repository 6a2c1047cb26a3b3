"""Points that count more than others: sample_weight, balance by volume, copies merged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from tautcut import Graph, MTVClassifier, MTVClustering, balanced_cut_energy, knn_graph
from tautcut.errors import InputError

X, TRUTH = load_iris(return_X_y=True)
X = np.unique(X, axis=0)
N = len(X)
pytestmark = [
    pytest.mark.filterwarnings("ignore::tautcut.errors.GraphWarning"),
    pytest.mark.usefixtures("light_search"),
]


def fitted(X=X, sample_weight=None, **params):
    return MTVClustering(3, random_state=0, **params).fit(X, sample_weight=sample_weight)


def test_weights_are_the_masses_of_the_energy():
    weights = np.random.default_rng(0).uniform(0.5, 3, N)
    model = fitted(sample_weight=weights)
    assert model.energy_ == pytest.approx(balanced_cut_energy(model.graph_, model.labels_, masses=weights))
    assert np.array_equal(model.graph_.masses, weights)
    assert model.result_.partition.masses.sum() == pytest.approx(weights.sum())
    assert model.result_.partition.sizes.sum() == N


def test_equal_weights_change_the_unit_alone():
    plain, weighed = fitted(), fitted(sample_weight=np.full(N, 3.0))
    assert np.array_equal(plain.labels_, weighed.labels_)
    assert 3 * weighed.energy_ == pytest.approx(plain.energy_, rel=1e-12)


def test_a_point_of_weight_three_is_three_copies_that_were_merged():
    weights = np.ones(N)
    weights[:20] = 3
    weighed = fitted(sample_weight=weights)
    copied = fitted(np.repeat(X, weights.astype(int), axis=0), duplicates="merge")
    kinds = np.repeat(np.arange(N), weights.astype(int))
    assert np.array_equal(copied.labels_, weighed.labels_[kinds])
    assert copied.energy_ == pytest.approx(weighed.energy_, rel=1e-12)


def test_merged_copies_share_a_label_and_mend_a_graph_that_falls_apart():
    many = np.concatenate([X, np.repeat(X[:4], 30, axis=0)])
    kept, merged = fitted(many), fitted(many, duplicates="merge")
    assert kept.graph_.components()[0] > merged.graph_.components()[0]
    for i in range(4):
        assert len(set(merged.labels_[np.flatnonzero((many == X[i]).all(axis=1))])) == 1
    assert merged.graph_.n_vertices == len(many)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_merged_graphs_have_the_distinct_rows_as_vertices(kind):
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [3.0, 0.5], [-0.0, 0.0], [1.0, 0.0]])
    graph = knn_graph(kind(rows), 1, duplicates="merge")
    assert graph.masses.tolist() == [3.0, 2.0, 1.0]
    assert graph.n_edges == 2


def test_volume_is_the_sum_of_degrees():
    model = fitted(balance="volume")
    degrees = model.graph_.degrees
    assert np.array_equal(model.graph_.masses, degrees)
    assert model.energy_ == pytest.approx(balanced_cut_energy(model.graph_, model.labels_, masses=degrees))
    both = fitted(balance="volume", sample_weight=np.arange(1, N + 1))
    assert np.array_equal(both.graph_.masses, degrees * np.arange(1, N + 1))


def test_isolated_vertices_have_the_least_volume():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)], n_vertices=7)
    model = MTVClustering(2, affinity="precomputed", balance="volume", random_state=0).fit(graph)
    assert model.graph_.masses.tolist() == [2.0, 2.0, 3.0, 3.0, 2.0, 2.0, 2.0]
    empty = Graph.from_edges(np.empty((0, 2), int), n_vertices=3)
    assert MTVClustering(2, affinity="precomputed", balance="volume").fit(empty).graph_.masses.tolist() == [1, 1, 1]


def test_a_graph_keeps_the_masses_that_it_has():
    graph = knn_graph(X, 10).with_masses(np.linspace(1, 2, N))
    model = MTVClustering(3, affinity="precomputed", random_state=0).fit(graph)
    assert np.array_equal(model.graph_.masses, np.linspace(1, 2, N))
    both = MTVClustering(3, affinity="precomputed", random_state=0).fit(graph, sample_weight=np.full(N, 2.0))
    assert both.graph_.masses == pytest.approx(2 * np.linspace(1, 2, N))


def test_points_of_no_weight_are_labelled_and_count_for_nothing():
    weights = np.ones(N)
    weights[::7] = 0
    model = fitted(sample_weight=weights)
    assert model.labels_.shape == (N,)
    by_hand = np.bincount(model.labels_, weights)
    assert model.result_.partition.masses == pytest.approx(by_hand, rel=1e-6)


def test_one_point_may_outweigh_all_others():
    weights = np.ones(N)
    weights[0] = 1e6
    model = fitted(sample_weight=weights)
    assert np.isfinite(model.energy_)
    assert not model.result_.partition.has_empty_cluster


def test_the_classifier_weighs_its_classes():
    y = np.full(N, -1)
    y[[0, 60, 120]] = 0, 1, 2
    weights = np.random.default_rng(0).uniform(0.5, 3, N)
    model = MTVClassifier(random_state=0).fit(X, y, sample_weight=weights)
    problem = model.result_.problem
    assert model.energy_ == pytest.approx(
        balanced_cut_energy(model.graph_, model.result_.partition.labels, problem.lam, masses=weights)
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0], "shape"), (np.zeros(N), "are zero"), (np.full(N, np.nan), "found nan"),
     (-np.ones(N), "found -1.0"), (np.full(N, np.inf), "found inf"), (["a"] * N, "could not convert"),
     (np.full(N, 1e308), "overflows")],
)  # fmt: skip
def test_weights_that_are_no_masses_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        fitted(sample_weight=weights)


@pytest.mark.parametrize("params", [{"balance": "mass"}, {"duplicates": "drop"}])
def test_unknown_names_are_refused(params):
    with pytest.raises(InputError, match="must be one of"):
        fitted(**params)
