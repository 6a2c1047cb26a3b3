"""LSD: the scale, the multiplicative step against its formula, the fixed points, published values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

import tautcut.baselines.lsd as module
from strategies import graphs, planted_graph, random_graph, soft_start
from tautcut import Graph, purity
from tautcut.arrays import IntArray
from tautcut.baselines import LSD, NormalisedCut
from tautcut.baselines.lsd import _sum_of_inverse, _sum_of_leading_inverse, decompose, decomposition_error
from tautcut.errors import InputError

EPS = np.finfo(float).eps


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, IntArray]:
    X, y = load_digits(return_X_y=True)
    W = kneighbors_graph(X, 10)
    return Graph.from_any(W.maximum(W.T)), y


def plain_step(cW: np.ndarray, F: np.ndarray) -> np.ndarray:
    """One step, as it is written in the paper's terms."""
    N, Q = cW @ F, F @ (F.T @ F)
    a = (F / (Q + EPS)).sum(axis=1, keepdims=True)
    b = (F * N / (Q + EPS)).sum(axis=1, keepdims=True)
    return F * (a * N + 1) / (a * Q + b + EPS)


# The scale


def test_the_scale_of_an_exact_decomposition_is_found():
    F = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    W = sp.csr_matrix(2.5 * F @ F.T)  # of rank 4: the pseudo-inverse has to cut the other singular values
    assert _sum_of_inverse(W) / 4 == pytest.approx(0.4, rel=1e-9)
    assert _sum_of_leading_inverse(W, np.random.default_rng(0)) / 4 == pytest.approx(0.4, rel=1e-9)


@given(graphs(max_vertices=9))
def test_the_sum_of_the_inverse_is_that_of_the_pseudo_inverse(graph):
    W = graph.to_scipy()
    expected = abs(np.linalg.pinv(W.toarray(), rcond=1e-12, hermitian=True).sum())
    assert _sum_of_inverse(W) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("n", [150, 400], ids=["dense", "Lanczos"])
def test_the_triplets_are_the_largest_thirty(n):
    W = random_graph(n, 5 * n, seed=1, is_weighted=True).to_scipy()
    U, s, _ = np.linalg.svd(W.toarray())
    expected = (U.sum(axis=0)[:30] ** 2 / s[:30]).sum()
    assert _sum_of_leading_inverse(W, np.random.default_rng(0)) == pytest.approx(expected, rel=1e-5)


def test_a_graph_without_edges_has_scale_zero():
    for scale in ("pseudo-inverse", "triplets"):
        assert LSD(2, scale=scale, max_iter=1, random_state=0).fit(Graph.from_edges([], n_vertices=250)).scale_ == 0


def test_the_published_scale_of_digits_from_triplets(digits):
    assert LSD(10, max_iter=1, scale="triplets", random_state=0).fit(digits[0]).scale_ == pytest.approx(10.49, abs=0.01)


def test_auto_is_the_pseudo_inverse_on_small_graphs_only(monkeypatch):
    graph = random_graph(250, 900, seed=3)
    scale = {name: LSD(2, scale=name, max_iter=1, random_state=0).fit(graph).scale_ for name in module.SCALES}
    assert scale["auto"] == scale["pseudo-inverse"] != scale["triplets"]
    monkeypatch.setattr(module, "_DENSE_LIMIT", 250)
    assert LSD(2, max_iter=1, random_state=0).fit(graph).scale_ == scale["triplets"]


def test_a_scale_can_be_shared_by_several_starts():
    graph = planted_graph(3, 20, seed=0)
    first = LSD(3, max_iter=50, random_state=0).fit(graph)
    again = LSD(3, max_iter=50, scale=first.scale_, random_state=0).fit(graph)
    np.testing.assert_array_equal(again.memberships_, first.memberships_)


# The iteration


@given(graphs(min_vertices=4), st.integers(1, 4), st.integers(0, 99))
def test_a_step_is_the_formula(graph, R, seed):
    cW = 1.7 * graph.to_scipy()
    F = soft_start(graph.n_vertices, R, seed=seed)
    expected = plain_step(cW.toarray(), F)
    decompose(cW, F, 1)
    np.testing.assert_allclose(F, expected, rtol=1e-10)


def test_rows_may_be_updated_in_blocks(monkeypatch):
    graph = random_graph(50, 150, seed=0)
    whole, parts = soft_start(50, 3, seed=0), soft_start(50, 3, seed=0)
    decompose(graph.to_scipy(), whole, 5)
    monkeypatch.setattr(module, "_BLOCK", 7)
    decompose(graph.to_scipy(), parts, 5)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_the_indicator_of_full_blocks_is_a_fixed_point():
    truth = np.repeat([0, 1, 2], [3, 4, 5])
    F = np.eye(3)[truth] + 0.2
    F /= F.sum(axis=1, keepdims=True)
    decompose(sp.csr_matrix((truth[:, None] == truth).astype(float)), F, 3000)
    assert np.abs(F - np.eye(3)[truth]).max() < 2e-4


def test_rows_sum_to_one_at_the_limit_and_fulfil_its_conditions(digits):
    cW = 10.06 * digits[0].to_scipy()
    F = np.eye(10)[NormalisedCut(10, random_state=0).fit_predict(digits[0])] + 0.2
    F /= F.sum(axis=1, keepdims=True)
    sums, spreads = [], []
    for steps in (5, 495, 1500):
        decompose(cW, F, steps)
        assert (F >= 0).all()
        gap, support = F @ (F.T @ F) - cW @ F, F > 1e-3
        spread = np.where(support, gap, -np.inf).max(axis=1) - np.where(support, gap, np.inf).min(axis=1)
        spreads.append(np.median(spread))
        sums.append([F.sum(axis=1).min(), F.sum(axis=1).max()])
    assert sums[0] == pytest.approx([0.93, 1.39], abs=0.01)
    assert sums[1] == pytest.approx([0.996, 1.0003], abs=3e-3)
    assert sums[2] == pytest.approx([1, 1], abs=2e-3)
    assert spreads[0] > 1 > 0.1 > spreads[1]
    assert spreads[2] < 1e-3


def test_zeros_stay_and_negligible_entries_become_zero():
    graph = planted_graph(2, 10, seed=0)
    F = np.full((20, 2), 0.5)
    F[3] = [1.0, 0.0]
    F[4] = [1.0, 1e-300]
    decompose(graph.to_scipy(), F, 50)
    assert F[3, 1] == 0
    assert F[4, 1] == 0
    assert (np.delete(F, [3, 4], axis=0) > 0).all()


@given(graphs(), st.integers(1, 4), st.integers(0, 99))
def test_the_objective_is_the_squared_distance(graph, R, seed):
    cW, F = 3.0 * graph.to_scipy(), soft_start(graph.n_vertices, R, seed=seed)
    expected = np.linalg.norm(cW.toarray() - F @ F.T) ** 2
    assert decomposition_error(cW, F) == pytest.approx(expected)


# The estimator


def test_the_published_purity_of_digits(digits):
    graph, y = digits
    model = LSD(10, max_iter=2000, random_state=0).fit(graph)
    assert 0.85 < purity(model.labels_, y) < 0.95
    assert model.n_iter_ == 2000
    np.testing.assert_array_equal(model.labels_, model.memberships_.argmax(axis=1))


def test_a_given_start_is_used_and_not_changed():
    graph = planted_graph(3, 20, seed=0)
    truth = np.repeat([0, 1, 2], 20)
    start = np.eye(3)[[2, 0, 1]][truth] + 0.2
    before = start.copy()
    model = LSD(3, init=start, max_iter=200).fit(graph)
    np.testing.assert_array_equal(start, before)
    np.testing.assert_array_equal(model.labels_, np.array([2, 0, 1])[truth])


def test_a_cluster_may_stay_empty():
    start = np.full((40, 3), 0.2)
    start[:20, 0] = start[20:, 2] = 1.2
    start[:, 1] = 0.0
    model = LSD(3, init=start, max_iter=100).fit(planted_graph(2, 20, seed=0))
    assert set(model.labels_) == {0, 2}
    assert model.memberships_.shape == (40, 3)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.ones((5, 2)), "shape"),
        (np.full((6, 2), -1.0), "≥ 0"),
        (np.full((6, 2), np.nan), "finite"),
        (np.eye(6)[:, :2], "row 2"),
        ("random", "array"),
    ],
)
def test_bad_starts_are_refused(init, message):
    with pytest.raises(InputError, match=message):
        LSD(2, init=init).fit(Graph.from_edges([(i, i + 1) for i in range(5)]))


@pytest.mark.parametrize("scale", ["pinv", -1.0, np.inf, np.nan, True, None])
def test_bad_scales_are_refused(scale):
    with pytest.raises(InputError, match="scale"):
        LSD(2, scale=scale).fit(random_graph(10, 20, seed=0))
