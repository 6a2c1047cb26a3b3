"""The k-nearest-neighbour graph against brute force, at ties, duplicates and extreme scales."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tautcut.errors import EngineUnavailableError, GraphWarning, InputError
from tautcut.neighbors import edge_weights, knn_graph, nearest, neighbor_graph
from tautcut.neighbors import search as neighbors

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


def found_of(n_rows: int, k: int) -> neighbors._Neighborhoods:
    return neighbors._Neighborhoods.empty(n_rows, k, neighbors._Threads(), None, total=n_rows)


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


def test_same_neighbors_as_scikit_learn():
    from sklearn.datasets import load_digits
    from sklearn.neighbors import NearestNeighbors

    X = load_digits().data
    reference = NearestNeighbors(n_neighbors=11, algorithm="brute").fit(X)
    distances = reference.kneighbors(X)[0][:, 1:]
    indices, squared = neighbors._exact_neighbors(X, None, 10)
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
    unclear = neighbors._settle_clear(single, np.arange(300), found_of(300, 5))
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


@needs_faiss
def test_approximate_search_is_close_and_repeatable():
    X = np.random.default_rng(6).normal(size=(2000, 8)) + 1e4
    exact = dense(knn_graph(X, 10))
    first, second = (dense(knn_graph(X, 10, method="approximate", random_state=1)) for _ in range(2))
    assert np.array_equal(first, second)
    assert (exact * first).sum() / exact.sum() > 0.98


@needs_faiss
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


@needs_faiss
def test_approximate_search_survives_copies_and_few_points():
    same = knn_graph(np.zeros((200, 2)), 5, method="approximate", random_state=0)
    assert same.n_vertices == 200
    assert np.all(np.diff(same.indptr) >= 5)
    assert knn_graph([[0.0], [1.0], [5.0]], 2, method="approximate").n_edges == 3


@needs_faiss
@pytest.mark.parametrize("dimension", [8, 48])  # as they are, and on principal axes
def test_approximate_search_of_copies_and_ties(dimension):
    X = np.repeat(np.random.default_rng(8).integers(0, 3, size=(150, dimension)), 6, axis=0)
    graph, report = neighbor_graph(X, 10, method="approximate", random_state=0)
    assert np.all(np.diff(graph.indptr) >= 10)
    assert not dense(graph).diagonal().any()
    assert report.recall > 0.95
    copies = np.arange(900) // 6  # the five copies of a point are its nearest
    assert np.all((dense(graph) * (copies[:, None] == copies)).sum(axis=1) == 5)


@needs_faiss
def test_recall_is_estimated_reported_and_warned_of(monkeypatch, caplog):
    X = np.random.default_rng(9).normal(size=(1500, 64))
    with caplog.at_level(logging.INFO, logger="tautcut"):
        graph, report = neighbor_graph(X, 10, method="approximate", random_state=0)
    exact = dense(knn_graph(X, 10))
    assert report.method == "approximate"
    assert report.n_sampled == 500
    assert (exact * dense(graph)).sum() / exact.sum() == pytest.approx(report.recall, abs=0.02)
    assert f"recall {report.recall:.3f} on 500 sampled points" in caplog.text
    monkeypatch.setattr(neighbors, "EFFORTS", (1,))
    monkeypatch.setattr(neighbors, "CANDIDATES", 1)
    monkeypatch.setattr(neighbors, "LINKS", 2)
    with pytest.warns(GraphWarning, match=r"finds \d+% of the nearest neighbours, estimated on 500 points"):
        poor = neighbor_graph(X, 10, method="approximate", random_state=0)
    assert poor[1].recall < 0.9
    assert np.all(np.diff(poor[0].indptr) >= 10)


@needs_faiss
def test_principal_axes_are_used_where_they_keep_the_neighbors():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(1200, 6)) @ rng.normal(size=(6, 80)) + 0.01 * rng.normal(size=(1200, 80))
    search = neighbors._Search.in_precision(np.float32, X, None)
    sample = np.arange(0, 1200, 6)
    truth = neighbors._exact_neighbors(X, None, 10)[0][sample]
    assert neighbors._coordinates(search.queries, sample, truth, 41, rng).shape == (1200, 32)
    flat = neighbors._Search.in_precision(np.float32, rng.normal(size=(1200, 80)), None)
    truth = neighbors._exact_neighbors(flat.points, None, 10)[0][sample]
    assert neighbors._coordinates(flat.queries, sample, truth, 11, rng).shape == (1200, 80)


@contextmanager
def outlines(*axes: int) -> Iterator[None]:
    """Outlines on so many axes, however few rows there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "AXES", axes)
        patch.setattr(neighbors, "OUTLINE_FROM", 1)
        patch.setattr(neighbors, "PAIR_COST", 1)
        yield


@given(integer_points(), st.integers(1, 24))
def test_an_outline_changes_no_neighbor(X, k):
    k = min(k, len(X) - 1)
    with outlines(1, 2):
        assert np.array_equal(dense(knn_graph(X, k)), adjacency(brute_force(X, k)[0]))


@pytest.mark.parametrize("rank", [2, 6, 40])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_an_outline_changes_no_neighbor_of_many_points(rank, offset):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(700, rank)) @ rng.normal(size=(rank, 40)) + 0.05 * rng.normal(size=(700, 40)) + offset
    X[::7] = X[3]
    new = X[:300] + 0.1
    with outlines(2, 8, 16):
        search = neighbors._Search.in_precision(np.float32, X, None)
        assert rank == 40 or neighbors._outline(search, 700, 10) is not None
        assert np.array_equal(dense(knn_graph(X, 10)), adjacency(brute_force(X, 10)[0]))
        outlined = nearest(X, new, 5)
    for one, other in zip(outlined, nearest(X, new, 5), strict=True):
        assert np.array_equal(one, other)


def test_rows_whose_outline_leaves_too_many_are_searched_in_full():
    X = np.random.default_rng(12).normal(size=(400, 30))
    search = neighbors._Search.in_precision(np.float32, X, None)
    axes = np.eye(30, 1, dtype=np.float32)
    found = found_of(400, 5)
    left = neighbors._settle_clear(neighbors._Outline.on_axes(search, axes), np.arange(400), found)
    assert left.size > 0
    done = np.setdiff1d(np.arange(400), left)
    assert np.array_equal(found.indices[done], brute_force(X, 5)[0][done])


@pytest.mark.parametrize(
    ("X", "method"),
    [
        (POINTS, "exact"),
        (sp.csr_matrix(POINTS), "exact"),
        pytest.param(POINTS, "approximate", marks=needs_faiss),
    ],
)
def test_progress_grows_to_its_total(X, method, monkeypatch):
    monkeypatch.setattr(neighbors, "CACHED_ENTRIES", 1)
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 9)
    monkeypatch.setattr(neighbors, "INDEX_ROWS", 13)
    seen: list[tuple[int, int]] = []
    neighbor_graph(X, 3, method=method, random_state=0, progress=lambda *steps: seen.append(steps))
    done, totals = zip(*seen, strict=True)
    assert len(seen) > 5
    assert list(done) == sorted(done)
    assert done[-1] == totals[0] == totals[-1]


def test_an_interrupt_ends_the_search(monkeypatch):
    monkeypatch.setattr(neighbors, "CACHED_ENTRIES", 1)
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 1)
    seen: list[int] = []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neighbor_graph(POINTS, 3, progress=interrupt)
    assert len(seen) == 1
    assert knn_graph(POINTS, 3).n_vertices == 60


def test_without_threadpoolctl_the_calling_thread_searches(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with neighbors._one_product_per_thread() as threads:
        assert (threads.count, threads.pool) == (1, None)
    assert np.array_equal(dense(knn_graph(POINTS, 4)), adjacency(brute_force(POINTS, 4)[0]))


def test_single_precision_is_kept_where_it_loses_nothing():
    X = np.random.default_rng(13).normal(size=(50, 4)).astype(np.float32)
    assert neighbors._features(X, "X") is X
    assert neighbors._features(X.astype(np.uint8), "X").dtype == np.float32
    assert neighbors._features(np.arange(8).reshape(4, 2), "X").dtype == np.float64
    for metric in ("euclidean", "cosine"):
        double = dense(knn_graph(X.astype(np.float64), 5, metric=metric, weights="self-tuning"))
        assert np.array_equal(dense(knn_graph(X, 5, metric=metric, weights="self-tuning")), double)


def test_auto_says_what_it_took(monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger="tautcut"):
        knn_graph(POINTS, 3)
    assert "3 nearest neighbours of 60 points in 3 dimensions, by exact search." in caplog.text
    assert neighbor_graph(POINTS, 3)[1] == neighbors.NeighborReport(60, 3, 3, "exact", recall=1.0, n_sampled=0)
    monkeypatch.setattr(neighbors, "EXACT_BUDGET", 1)
    monkeypatch.setattr(neighbors, "_has_faiss", lambda: True)
    assert neighbors._is_approximate("auto", POINTS)
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
