"""The normalised cut as an estimator, and what every baseline inherits: the graph, the seed, the refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

import tautcut.baselines
from strategies import graphs, planted_graph, random_graph
from tautcut import Graph, purity
from tautcut.baselines import INCRES, LSD, NMFR, NormalisedCut
from tautcut.baselines.ncut import normalised_cut_value
from tautcut.errors import InputError
from tautcut.graph.laplacian import normalised_cut

FEW_STEPS = [
    NormalisedCut(3, random_state=0),
    LSD(3, max_iter=20, random_state=0),
    NMFR(3, max_iter=20, random_state=0),
    INCRES(3, max_iter=20, random_state=0),
]


def named(estimator: object) -> str:
    return type(estimator).__name__


@given(graphs(), st.integers(1, 4), st.data())
def test_the_value_is_the_sum_of_cut_over_volume(graph, R, data):
    labels = np.array([data.draw(st.integers(0, R - 1)) for _ in range(graph.n_vertices)])
    W = graph.to_scipy().toarray()
    expected = 0.0
    for r in range(R):
        inside = labels == r
        if W[inside].sum() > 0:
            expected += W[inside][:, ~inside].sum() / W[inside].sum()
    assert normalised_cut_value(graph, labels, R) == pytest.approx(expected)


def test_the_labels_are_those_of_the_laplacian_module():
    X, y = load_digits(return_X_y=True)
    W = kneighbors_graph(X, 10)
    graph = Graph.from_any(W.maximum(W.T))
    model = NormalisedCut(10, random_state=3).fit(graph)
    np.testing.assert_array_equal(model.labels_, normalised_cut(graph, 10, rng=np.random.default_rng(3)))
    assert model.objective_ == normalised_cut_value(graph, model.labels_, 10)
    assert purity(model.labels_, y) > 0.87


# Of every baseline here


@pytest.mark.parametrize("estimator", FEW_STEPS, ids=named)
def test_any_form_of_the_graph_gives_the_same_labels(estimator):
    graph = planted_graph(3, 20, seed=1, is_weighted=True)
    model = clone(estimator)
    labels = model.fit_predict(graph)
    assert labels.dtype == np.int64
    assert set(labels) <= {0, 1, 2}
    assert model.n_features_in_ == 60
    for form in (graph.to_scipy(), graph.to_scipy().toarray()):
        np.testing.assert_array_equal(clone(estimator).fit(form).labels_, labels)


@pytest.mark.parametrize("estimator", FEW_STEPS, ids=named)
def test_planted_blocks_are_found(estimator):
    truth = np.repeat(np.arange(3), 40)
    model = clone(estimator).set_params(**({} if named(estimator) == "NormalisedCut" else {"max_iter": 400}))
    assert purity(model.fit_predict(planted_graph(3, 40, seed=2)), truth) > 0.95


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("estimator", FEW_STEPS, ids=named)
@pytest.mark.parametrize(
    "graph",
    [
        random_graph(30, 40, seed=0, n_isolated=5),
        Graph.from_edges([(0, 1)], n_vertices=6),
        Graph.from_edges([], n_vertices=4),
        Graph.from_edges([(i, i + 1) for i in range(9)]),
        planted_graph(2, 6, seed=0),
        Graph.from_any(1e-9 * planted_graph(3, 6, seed=0).to_scipy()),
    ],
    ids=["isolated", "one edge", "edgeless", "path", "blocks", "tiny weights"],
)
def test_awkward_graphs_give_finite_results(estimator, graph):
    model = clone(estimator).fit(graph)
    assert model.labels_.shape == (graph.n_vertices,)
    assert model.labels_.min() >= 0
    assert model.labels_.max() < 3
    assert np.isfinite(getattr(model, "objective_", 0.0))
    assert np.isfinite(getattr(model, "memberships_", np.zeros(1))).all()


@pytest.mark.parametrize("estimator", FEW_STEPS, ids=named)
def test_one_cluster_holds_everything(estimator):
    labels = clone(estimator).set_params(n_clusters=1).fit_predict(planted_graph(2, 10, seed=0))
    assert not labels.any()


@pytest.mark.parametrize("estimator", FEW_STEPS, ids=named)
def test_seeds_may_be_of_any_kind(estimator):
    graph = planted_graph(3, 15, seed=4)
    for make in (lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)):
        first, second = (clone(estimator).set_params(random_state=make()).fit_predict(graph) for _ in range(2))
        np.testing.assert_array_equal(first, second)
    with pytest.raises(InputError, match="random_state"):
        clone(estimator).set_params(random_state="five").fit(graph)


@pytest.mark.parametrize("estimator", FEW_STEPS, ids=named)
def test_bad_numbers_of_clusters_are_refused(estimator):
    for bad in (0, 2.5, True, 31):
        with pytest.raises(InputError, match="n_clusters"):
            clone(estimator).set_params(n_clusters=bad).fit(random_graph(30, 60, seed=0))


@pytest.mark.parametrize("estimator", FEW_STEPS[1:], ids=named)
def test_bad_limits_are_refused(estimator):
    for bad in (0, 1.5, "many", True):
        with pytest.raises(InputError, match="max_iter"):
            clone(estimator).set_params(max_iter=bad).fit(random_graph(30, 60, seed=0))


def test_estimators_know_that_X_is_a_graph():
    tags = NormalisedCut().__sklearn_tags__()
    assert tags.input_tags.pairwise
    assert tags.input_tags.sparse


def test_the_package_names_its_methods():
    assert {"INCRES", "LSD", "NCCTV", "NMFR", "NormalisedCut", "OneSpectral"} <= set(dir(tautcut.baselines))
    with pytest.raises(AttributeError, match="KMeans"):
        _ = tautcut.baselines.KMeans
