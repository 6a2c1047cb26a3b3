"""The k-nearest-neighbour graph against brute force, at ties, duplicates and extreme scales."""

from __future__ import annotations

import importlib
import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tautcut.errors import InputError
from tautcut.neighbors import edge_weights, knn_graph, nearest, neighbor_graph
from tautcut.neighbors import search as neighbors
from tautcut.neighbors.features import features_of

POINTS = np.random.default_rng(0).normal(size=(60, 3))


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


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_points_in_half_precision_are_points(kind):  # SciPy has such matrices, and cannot copy them
    X = sp.coo_matrix(np.round(POINTS * 8) / 8).asformat(kind)
    expected = knn_graph(X, 5)
    X.data = X.data.astype(np.float16)
    assert np.array_equal(dense(knn_graph(X, 5)), dense(expected))
    assert X.data.dtype == np.float16


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_a_large_offset_changes_nothing(offset):
    X = offset + np.random.default_rng(2).integers(0, 1000, size=(300, 5)) / 8
    assert np.array_equal(dense(knn_graph(X, 6)), adjacency(brute_force(X, 6)[0]))


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


def test_points_whose_nearest_are_copies_are_scaled_by_the_first_apart():
    """The 7th neighbour of eight copies at 0 is a copy, so s = 30, whatever the scale of the points far away."""
    X = np.r_[np.zeros(8), 30.0, 70.0, 1000.0 + np.arange(10)][:, None]
    W = dense(knn_graph(X, 9, weights="self-tuning"))
    assert W[0, 1] == 1
    assert W[0, 8] == pytest.approx(np.exp(-(30.0**2) / (30 * 30)))
    assert W[0, 9] == pytest.approx(np.exp(-(70.0**2) / (30 * 70)))
    assert W[8, 9] == pytest.approx(np.exp(-(40.0**2) / (30 * 70)))


def test_points_with_none_but_copies_around_take_the_smallest_scale():
    """Nine copies know no distance at all; the points at 5, 6 and 9 have s = 5, 6 and 9, and are not joined to all."""
    X = np.r_[np.zeros(9), 5.0, 6.0, 9.0][:, None]
    W = dense(knn_graph(X, 8, weights="self-tuning"))
    assert W[0, 1] == 1
    assert W[0, 9] == pytest.approx(np.exp(-(5.0**2) / (5 * 5)))
    assert W[0, 10] == pytest.approx(np.exp(-(6.0**2) / (5 * 6)))


def test_another_search_may_find_the_neighbors():
    """It is asked for dense points alone; what it returns is the graph."""
    asked = []

    def finder(points: np.ndarray, k: int, *, is_exact: bool) -> tuple[np.ndarray, np.ndarray, float, int]:
        asked.append((points.shape, k))
        return (np.arange(len(points)) + 1)[:, None] % len(points), np.ones((len(points), 1)), 0.98, 50

    graph, report = neighbor_graph(POINTS, 1, finder=finder)
    assert asked == [((60, 3), 1)]
    assert np.array_equal(dense(graph), adjacency((np.arange(60) + 1)[:, None] % 60))
    assert report == neighbors.NeighborReport(60, 3, 1, "approximate", 0.98, 50)
    found = dense(neighbor_graph(sp.csr_matrix(POINTS), 1, finder=finder)[0])
    assert np.array_equal(found, adjacency(brute_force(POINTS, 1)[0]))
    assert len(asked) == 1


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


def test_another_finder_is_told_whether_it_must_be_exact():
    """A GPU's search must not overrule method="approximate", nor be passed over without a word otherwise."""
    asked: list[bool] = []

    def finder(points: np.ndarray, k: int, *, is_exact: bool) -> tuple[np.ndarray, np.ndarray, float, int]:
        asked.append(is_exact)
        indices, distances = brute_force(points, k)
        return indices, distances**2, 1.0, 0

    expected = dense(knn_graph(POINTS, 4, method="exact"))
    for method in ("auto", "exact"):
        graph, report = neighbor_graph(POINTS, 4, method=method, finder=finder)
        assert report.method == "exact"
        assert np.array_equal(dense(graph), expected)
    assert asked == [False, True]
    _, report = neighbor_graph(POINTS, 4, method="approximate", random_state=0, finder=finder)
    assert report.method == "approximate"
    assert asked == [False, True]


def test_single_precision_is_kept_where_it_loses_nothing():
    X = np.random.default_rng(13).normal(size=(50, 4)).astype(np.float32)
    assert features_of(X, "X") is X
    assert features_of(X.astype(np.uint8), "X").dtype == np.float32
    assert features_of(np.arange(8).reshape(4, 2), "X").dtype == np.float64
    for metric in ("euclidean", "cosine"):
        double = dense(knn_graph(X.astype(np.float64), 5, metric=metric, weights="self-tuning"))
        assert np.array_equal(dense(knn_graph(X, 5, metric=metric, weights="self-tuning")), double)


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
def test_bad_neighbor_counts_are_refused(k):
    with pytest.raises(InputError, match="n_neighbors must be a whole number ≥ 1"):
        knn_graph(POINTS, k)


def test_too_many_neighbors_names_both_numbers():
    with pytest.raises(InputError, match=r"n_neighbors=60 .* 60 points"):
        knn_graph(POINTS, 60)
    with pytest.raises(InputError, match=r"n_neighbors=61 .* 60 points"):
        nearest(POINTS, POINTS, 61)
    assert knn_graph(POINTS, np.int64(59)).n_edges == 60 * 59 // 2


@pytest.mark.parametrize("option", ["metric", "weights", "method"])
def test_unknown_options_are_named(option):
    with pytest.raises(InputError, match=f"{option} must be one of .*; found 'magic'"):
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
