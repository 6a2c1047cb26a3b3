"""NMFR: the smoothing against a dense inverse, the step against its formula, the choice of α, published values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

import tautcut.baselines.nmfr as module
from strategies import graphs, planted_graph, random_graph, soft_start
from tautcut import Graph, purity
from tautcut.arrays import IntArray
from tautcut.baselines import NMFR, NormalisedCut
from tautcut.baselines.nmfr import CANDIDATES, RandomWalk, _Alphas, factorisation_value, factorise, normalised_adjacency
from tautcut.errors import InputError

EPS = np.finfo(float).eps
ALPHAS = st.sampled_from([1e-6, 0.1, 0.5, 0.8, 0.99])


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, IntArray]:
    X, y = load_digits(return_X_y=True)
    W = kneighbors_graph(X, 10)
    return Graph.from_any(W.maximum(W.T)), y


def dense_smoothing(graph: Graph, alpha: float) -> np.ndarray:
    return np.linalg.inv(np.eye(graph.n_vertices) - alpha * normalised_adjacency(graph).toarray())


def ratio_of_step(G: np.ndarray, F: np.ndarray) -> np.ndarray:
    """What a step multiplies F by, as it is written in the paper's terms."""
    H = F.shape[1] / G.sum() * G @ F
    M = (F**2).sum(axis=1, keepdims=True) * F
    return (H + F @ (F.T @ M)) / (M + F @ (F.T @ H) + EPS)


# The smoothing


@given(graphs(), ALPHAS)
def test_the_total_is_that_of_the_inverse(graph, alpha):
    walk = RandomWalk(normalised_adjacency(graph), alpha)
    assert walk.total == pytest.approx(dense_smoothing(graph, alpha).sum(), rel=1e-10)


@given(graphs(), ALPHAS, st.integers(0, 99), st.sampled_from([np.float32, np.float64]))
def test_a_sequence_is_smoothed_as_by_the_inverse(graph, alpha, seed, dtype):
    rng = np.random.default_rng(seed)
    walk, G = RandomWalk(normalised_adjacency(graph), alpha, dtype=dtype), dense_smoothing(graph, alpha)
    F, trend, swing = rng.random((3, graph.n_vertices, 3))
    for t in range(8):
        right_side = F + 0.01 * t * trend + 0.1 * (-1) ** t * swing + 0.1
        expected = G @ right_side
        smoothed = walk.smooth(right_side.astype(dtype))
        assert smoothed.dtype == dtype
        assert np.linalg.norm(smoothed - expected) < 1e-5 * np.linalg.norm(expected)


def test_a_sudden_change_does_no_harm():
    graph = random_graph(40, 100, seed=0)
    walk, G = RandomWalk(normalised_adjacency(graph), 0.8), dense_smoothing(graph, 0.8)
    for factor in (1.0, 1.0, 1.0, 1.0, 1e-6, 1e6, 0.0, 1.0):
        F = factor * soft_start(40, 3, seed=0)
        np.testing.assert_allclose(walk.smooth(F), G @ F, rtol=1e-4)


def test_a_steady_sequence_needs_few_products(monkeypatch):
    degrees: list[int] = []
    series = RandomWalk._series

    def counted(self, X, degree):
        degrees.append(degree)
        return series(self, X, degree)

    monkeypatch.setattr(RandomWalk, "_series", counted)
    walk = RandomWalk(normalised_adjacency(random_graph(40, 100, seed=0)), 0.8)
    for _ in range(6):
        walk.smooth(soft_start(40, 3, seed=0))
    assert max(degrees[1:4]) < 30
    assert degrees[-1] <= 2


def test_the_number_of_products_can_be_limited():
    graph = random_graph(40, 100, seed=0)
    F, G = soft_start(40, 3, seed=0), dense_smoothing(graph, 0.8)
    error = [
        np.linalg.norm(RandomWalk(normalised_adjacency(graph), 0.8, n_products=k).smooth(F) - G @ F) for k in (2, 8, 30)
    ]
    assert error[0] > 10 * error[1] > 100 * error[2]


# The steps


@given(graphs(min_vertices=4), st.integers(1, 4), st.integers(0, 99))
def test_a_step_is_the_formula(graph, R, seed):
    F = soft_start(graph.n_vertices, R, seed=seed) + 0.05
    expected = np.maximum(F * ratio_of_step(dense_smoothing(graph, 0.8), F), EPS)
    expected /= np.linalg.norm(expected, 2)
    factorise(RandomWalk(normalised_adjacency(graph), 0.8), F, 1)
    np.testing.assert_allclose(F, expected, rtol=1e-4)


@given(graphs(), st.integers(1, 4), st.integers(0, 99))
def test_the_objective_is_its_definition(graph, R, seed):
    F, G = soft_start(graph.n_vertices, R, seed=seed), dense_smoothing(graph, 0.8)
    expected = -np.trace(F.T @ G @ F) / G.sum() + ((F**2).sum(axis=1) ** 2).sum() / (2 * R)
    value = factorisation_value(RandomWalk(normalised_adjacency(graph), 0.8), F)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_the_published_invariants_and_purity_of_digits(digits):
    graph, y = digits
    model = NMFR(10, max_iter=1000, random_state=0).fit(graph)
    F = model.memberships_
    assert purity(model.labels_, y) > 0.93
    assert F.dtype == np.float64
    assert (F > 0).all()
    assert np.linalg.norm(F, 2) == pytest.approx(1, abs=1e-5)
    ratio = ratio_of_step(dense_smoothing(graph, 0.8), F)[F > 1e-3]
    assert np.percentile(ratio, [1, 99]) == pytest.approx([1.026, 1.026], abs=0.004)
    assert np.linalg.norm(F.T @ F - np.eye(10)) == pytest.approx(0.9, abs=0.3)
    assert model.objective_ == pytest.approx(factorisation_value(RandomWalk(normalised_adjacency(graph), 0.8), F))


def test_single_precision_gives_the_labels_of_double(digits, monkeypatch):
    single = NMFR(10, max_iter=300, random_state=0).fit_predict(digits[0])
    monkeypatch.setattr(module, "_PRECISION", np.float64)
    double = NMFR(10, max_iter=300, random_state=0).fit_predict(digits[0])
    assert (single != double).sum() <= 2


def test_a_given_start_is_used_and_not_changed():
    truth = np.repeat([0, 1, 2], 20)
    start = np.eye(3)[[2, 0, 1]][truth] + 0.2
    before = start.copy()
    model = NMFR(3, init=start, max_iter=100).fit(planted_graph(3, 20, seed=0))
    np.testing.assert_array_equal(start, before)
    np.testing.assert_array_equal(model.labels_, np.array([2, 0, 1])[truth])


# The choice of α


@given(graphs(min_vertices=4), st.sampled_from(CANDIDATES), st.integers(1, 4), st.data())
def test_the_misfit_is_the_distance_to_the_partition(graph, alpha, R, data):
    labels = np.array([data.draw(st.integers(0, R - 1)) for _ in range(graph.n_vertices)])
    U = np.eye(R)[labels][:, np.unique(labels)]
    U = U / np.linalg.norm(U, axis=0)
    G = dense_smoothing(graph, alpha)
    expected = np.linalg.norm(G / G.sum() - U @ U.T / R) ** 2 - U.shape[1] / R**2
    misfit = _Alphas("auto", normalised_adjacency(graph)).misfit(alpha, labels, R)
    assert misfit == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_the_published_distances_of_digits(digits):
    alphas = _Alphas("auto", normalised_adjacency(digits[0]))
    labels = NormalisedCut(10, random_state=0).fit_predict(digits[0])
    distance = [np.sqrt(alphas.misfit(alpha, labels, 10) + 0.1) for alpha in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.99)]
    published = [0.31519, 0.31493, 0.31475, 0.31464, 0.31463, 0.31469, 0.3153]
    np.testing.assert_allclose(distance, published, atol=3e-5)


def test_alpha_is_chosen_until_it_stays():
    graph = planted_graph(3, 30, seed=0)
    model = NMFR(3, alpha="auto", max_iter=30, random_state=0).fit(graph)
    alphas = _Alphas("auto", normalised_adjacency(graph))
    assert model.alpha_ == alphas.best(model.memberships_)
    assert model.n_iter_ in range(30, 301, 30)
    fixed = NMFR(3, alpha=model.alpha_, max_iter=30, random_state=0).fit(graph)
    assert fixed.n_iter_ == 30


def test_alpha_is_not_searched_on_large_graphs(monkeypatch):
    monkeypatch.setattr(module, "_DENSE_LIMIT", 60)
    assert NMFR(3, alpha="auto", max_iter=5, random_state=0).fit(planted_graph(3, 20, seed=0)).alpha_ == 0.8


@pytest.mark.parametrize(
    "bad", [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": "best"}, {"alpha": 1}, {"n_products": 0}, {"n_products": 2.5}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        NMFR(2, max_iter=2, **bad).fit(random_graph(10, 20, seed=0))
