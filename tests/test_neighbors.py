"""The k-nearest-neighbour graph against brute force, at ties, duplicates and extreme scales."""

from __future__ import annotations

import importlib
import importlib.util
import logging

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tautcut import neighbors
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.neighbors import edge_weights, knn_graph, nearest

POINTS = np.random.default_rng(0).normal(size=(60, 3))
needs_faiss = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="faiss is not installed")


def brute_force(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours by (distance, index), the point itself left out."""
    X = np.asarray(X, dtype=float)
    squared = np.square(X[:, None] - X[None]).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return indices, np.sqrt(np.take_along_axis(squared, indices, axis=1))


def adjacency(indices: np.ndarray) -> np.ndarray:
    A = np.zeros((len(indices), len(indices)))
    np.put_along_axis(A, indices, 1.0, axis=1)
    return np.maximum(A, A.T)


def dense(graph) -> np.ndarray:
    return graph.to_scipy().toarray()


def integer_points() -> st.SearchStrategy[np.ndarray]:
    """Small integers: many ties and copies."""
    shapes = st.tuples(st.integers(3, 25), st.integers(1, 3))
    return shapes.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(0, 3)))


@given(integer_points(), st.integers(1, 24), st.booleans())
@settings(deadline=None)
def test_ties_and_copies_by_distance_then_index(X, k, is_sparse):
    k = min(k, len(X) - 1)
    graph = knn_graph(sp.csr_matrix(X) if is_sparse else X, k)
    assert np.array_equal(dense(graph), adjacency(brute_force(X, k)[0]))


@given(integer_points(), st.integers(1, 24), st.sampled_from(["self-tuning", "gaussian"]))
@settings(deadline=None)
def test_weights_lie_in_0_1_and_keep_every_edge(X, k, weights):
    k = min(k, len(X) - 1)
    graph = knn_graph(X, k, weights=weights)
    assert np.all((graph.weights > 0) & (graph.weights <= 1))
    assert np.array_equal(dense(graph) > 0, dense(knn_graph(X, k)) > 0)


@pytest.mark.parametrize("k", [1, 5, 59])
def test_exact_graph_is_the_brute_force_graph(k):
    expected = adjacency(brute_force(POINTS, k)[0])
    assert np.array_equal(dense(knn_graph(POINTS, k, method="exact")), expected)
    assert np.array_equal(dense(knn_graph(sp.csr_array(POINTS), k)), expected)
    assert np.all(expected.sum(axis=1) >= k)


def test_many_points_over_several_blocks(monkeypatch):
    X = np.random.default_rng(1).integers(0, 30, size=(500, 4))
    monkeypatch.setattr(neighbors, "CACHED_ENTRIES", 500 * 7)
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 1)
    monkeypatch.setattr(neighbors, "PAIR_ENTRIES", 40)
    # k = 3 takes the bound of groups, k = 10 the plain selection.
    for k in (3, 10):
        assert np.array_equal(dense(knn_graph(X, k)), adjacency(brute_force(X, k)[0]))


def test_same_neighbours_as_scikit_learn():
    from sklearn.datasets import load_digits
    from sklearn.neighbors import NearestNeighbors

    X = load_digits().data
    reference = NearestNeighbors(n_neighbors=11, algorithm="brute").fit(X)
    distances = reference.kneighbors(X)[0][:, 1:]
    indices, squared = neighbors._exact_neighbours(X, None, 10)
    np.testing.assert_allclose(np.sqrt(squared), distances)
    assert not np.any(indices == np.arange(len(X))[:, None])


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_a_large_offset_changes_nothing(offset):
    X = offset + np.random.default_rng(2).integers(0, 1000, size=(300, 5)) / 8
    assert np.array_equal(dense(knn_graph(X, 6)), adjacency(brute_force(X, 6)[0]))


def test_tight_clusters_far_apart_need_double_precision():
    rng = np.random.default_rng(3)
    centres = np.repeat([[0.0, 0.0], [1e4, 0.0], [0.0, 1e4]], 100, axis=0)
    X = centres + rng.integers(0, 1000, size=(300, 2)) / 2**20
    single = neighbors._Search.in_precision(np.float32, X, None)
    unclear = neighbors._settle(single, np.arange(300), np.empty((300, 5), np.intp), np.empty((300, 5)))
    assert unclear.size > 0
    assert np.array_equal(dense(knn_graph(X, 5)), adjacency(brute_force(X, 5)[0]))


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**900])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
def test_extreme_scales_neither_overflow_nor_vanish(scale, convert):
    expected = dense(knn_graph(POINTS, 4, weights="self-tuning"))
    np.testing.assert_allclose(dense(knn_graph(convert(POINTS * scale), 4, weights="self-tuning")), expected)
    cosine = dense(knn_graph(POINTS, 4, metric="cosine"))
    assert np.array_equal(dense(knn_graph(convert(POINTS * scale), 4, metric="cosine")), cosine)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_all_points_equal(k):
    for weights in ("binary", "self-tuning", "gaussian"):
        graph = knn_graph(np.full((10, 3), 0.1), k, weights=weights)
        assert graph.is_unweighted
        assert np.array_equal(dense(graph), adjacency(brute_force(np.zeros((10, 3)), k)[0]))


def test_cosine_ignores_lengths():
    lengths = np.random.default_rng(4).integers(1, 9, size=(60, 1))
    unit = POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)
    expected = adjacency(brute_force(unit, 5)[0])
    for X in (POINTS, POINTS * lengths, sp.csr_matrix(POINTS * lengths)):
        assert np.array_equal(dense(knn_graph(X, 5, metric="cosine")), expected)


def test_self_tuning_weights_by_the_formula():
    indices, distances = brute_force(POINTS, 9)
    W = dense(knn_graph(POINTS, 9, weights="self-tuning"))
    i, j = 3, indices[3, 5]
    expected = np.exp(-(distances[i, 5] ** 2) / (distances[i, 6] * distances[j, 6]))
    assert W[i, j] == pytest.approx(expected)
    W = dense(knn_graph(POINTS, 2, weights="self-tuning"))
    i, j = 3, indices[3, 0]
    assert W[i, j] == pytest.approx(np.exp(-(distances[i, 0] ** 2) / (distances[i, 1] * distances[j, 1])))


def test_gaussian_weights_by_the_formula():
    indices, distances = brute_force(POINTS, 5)
    W = dense(knn_graph(POINTS, 5, weights="gaussian"))
    s2 = 3 * distances[:, 4].mean() ** 2
    assert W[7, indices[7, 2]] == pytest.approx(np.exp(-(distances[7, 2] ** 2) / s2))


def test_weights_never_vanish_in_single_precision():
    indices, distances = brute_force(np.r_[np.zeros(9), 1e-3, 1e9].reshape(-1, 1), 9)
    assert np.all(edge_weights(indices, distances, "self-tuning").astype(np.float32) > 0)


def test_nearest_to_new_points():
    new = np.random.default_rng(5).normal(size=(7, 3))
    squared = np.square(new[:, None] - POINTS[None]).sum(axis=2)
    expected = np.argsort(squared, axis=1)[:, :4]
    for train, query in ((POINTS, new), (sp.csr_matrix(POINTS), new), (POINTS, sp.csr_matrix(new))):
        indices, distances = nearest(train, query, 4)
        assert np.array_equal(indices, expected)
        np.testing.assert_allclose(distances, np.sqrt(np.take_along_axis(squared, expected, axis=1)))


def test_nearest_keeps_the_point_itself_and_takes_all():
    indices, distances = nearest(POINTS, POINTS, 60)
    assert np.array_equal(indices[:, 0], np.arange(60))
    assert np.all(distances[:, 0] == 0)
    assert np.array_equal(np.sort(indices, axis=1), np.tile(np.arange(60), (60, 1)))


def test_nearest_by_cosine():
    indices, distances = nearest([[1, 0], [0, 1], [1, 1]], [[5, 0]], 3, metric="cosine")
    assert indices.tolist() == [[0, 2, 1]]
    np.testing.assert_allclose(distances, [[0, 1 - np.sqrt(0.5), 1]])


@needs_faiss
def test_approximate_search_is_close_and_repeatable():
    X = np.random.default_rng(6).normal(size=(2000, 8)) + 1e4
    exact = dense(knn_graph(X, 10))
    first, second = (dense(knn_graph(X, 10, method="approximate", random_state=1)) for _ in range(2))
    assert np.array_equal(first, second)
    assert (exact * first).sum() / exact.sum() > 0.98


@needs_faiss
def test_approximate_search_survives_copies_and_few_points():
    same = knn_graph(np.zeros((200, 2)), 5, method="approximate", random_state=0)
    assert same.n_vertices == 200
    assert np.all(np.diff(same.indptr) >= 5)
    assert knn_graph([[0.0], [1.0], [5.0]], 2, method="approximate").n_edges == 3


def test_auto_says_what_it_took(monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger="tautcut"):
        knn_graph(POINTS, 3)
        assert "exact search of 60 × 3" in caplog.text
        monkeypatch.setattr(neighbors, "EXACT_BUDGET", 1)
        monkeypatch.setattr(neighbors, "_has_faiss", lambda: True)
        assert neighbors._is_approximate("auto", POINTS)
        assert "approximate search of 60 × 3" in caplog.text
        monkeypatch.setattr(neighbors, "_has_faiss", lambda: False)
        assert not neighbors._is_approximate("auto", POINTS)


def test_without_faiss_exact_works_and_approximate_says_so(monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(neighbors.importlib, "import_module", missing)
    assert knn_graph(POINTS, 3, method="exact").n_vertices == 60
    with pytest.raises(EngineUnavailableError, match="faiss"):
        knn_graph(POINTS, 3, method="approximate")


def test_features_of_every_kind_give_the_same_graph():
    X = np.random.default_rng(7).integers(0, 50, size=(40, 4))
    pandas = importlib.import_module("pandas")
    expected = dense(knn_graph(X, 4))
    before = X.copy()
    kinds = [X.tolist(), X.astype(np.float32), X.astype(np.uint8), np.asfortranarray(X), X.astype(object)]
    for same in [*kinds, pandas.DataFrame(X), sp.coo_matrix(X), sp.csc_array(X)]:
        assert np.array_equal(dense(knn_graph(same, 4)), expected)
    assert np.array_equal(X, before)


def spoiled(value: float) -> np.ndarray:
    X = POINTS.copy()
    X[4, 2] = value
    return X


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (spoiled(np.nan), "found nan at row 4, column 2"),
        (spoiled(np.inf), "found inf at row 4, column 2"),
        (sp.csr_matrix(spoiled(-np.inf)), "found -inf at row 4, column 2"),
        (POINTS[:, 0], r"2-D.*\(60,\)"),
        (np.float64(1.0), r"2-D.*\(\)"),
        (np.ones((5, 0)), r"\(5, 0\)"),
        (np.ones((0, 5)), r"\(0, 5\)"),
        ([["a", "b"], ["c", "d"]], "real numbers"),
        (np.array([[{}, 1]], dtype=object), "real numbers"),
        ([[1.0, 2.0], [3.0]], "real numbers"),
        (POINTS + 1j, "complex128"),
        (sp.csr_matrix(POINTS + 1j), "complex128"),
    ],
)
def test_bad_features_are_refused(X, message):
    with pytest.raises(InputError, match=message):
        knn_graph(X, 3)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "3", None])
def test_bad_neighbour_counts_are_refused(k):
    with pytest.raises(InputError, match="n_neighbors must be an integer"):
        knn_graph(POINTS, k)


def test_too_many_neighbours_names_both_numbers():
    with pytest.raises(InputError, match=r"n_neighbors=60 .* 60 points"):
        knn_graph(POINTS, 60)
    with pytest.raises(InputError, match=r"n_neighbors=61 .* 60 points"):
        nearest(POINTS, POINTS, 61)
    assert knn_graph(POINTS, np.int64(59)).n_edges == 60 * 59 // 2


@pytest.mark.parametrize("option", ["metric", "weights", "method"])
def test_unknown_options_are_named(option):
    with pytest.raises(InputError, match=f"unknown {option} 'magic'. Choose one of '"):
        knn_graph(POINTS, 3, **{option: "magic"})


def test_other_refusals():
    X = POINTS.copy()
    X[[5, 9]] = 0
    for zero in (X, sp.csr_matrix(X)):
        with pytest.raises(InputError, match="found 2 of 60, the first is row 5"):
            knn_graph(zero, 3, metric="cosine")
    with pytest.raises(InputError, match="dense features"):
        knn_graph(sp.csr_matrix(POINTS), 3, method="approximate")
    with pytest.raises(InputError, match="X_new has 2 features but X_train has 3"):
        nearest(POINTS, POINTS[:, :2], 3)
