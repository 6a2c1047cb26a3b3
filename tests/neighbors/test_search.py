"""The search in cells against brute force, and what an approximate one says of itself."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from tautcut.errors import GraphWarning
from tautcut.kernels.cpu import compiling
from tautcut.neighbors import few, graphs, knn_graph, nearest, neighbor_graph, outlines, search

RNG = np.random.default_rng(0)
LOW_RANK = RNG.normal(size=(900, 6)) @ RNG.normal(size=(6, 100)) + 0.05 * RNG.normal(size=(900, 100))
HARD = {
    "normal": RNG.normal(size=(900, 8)),
    "one column": RNG.exponential(size=(900, 1)),
    "a grid, full of ties": RNG.integers(0, 6, size=(900, 3)),
    "copies": np.repeat(RNG.normal(size=(30, 5)), 30, axis=0),
    "half of it copies of one": np.where(np.arange(900)[:, None] % 2, RNG.normal(size=(900, 4)), 0.0),
    "heavy tails": RNG.standard_cauchy(size=(900, 5)),
    "tight clusters far apart": np.repeat([[0.0, 0.0], [1e4, 0.0], [0.0, 1e4]], 300, axis=0)
    + RNG.integers(0, 1000, size=(900, 2)) / 2**20,
    "an offset": 1e9 + RNG.integers(0, 1000, size=(900, 5)) / 8,
    "beyond single precision": (1e25 * RNG.normal(size=(900, 6))).astype(np.float32),
    "leading coordinates": LOW_RANK,
    "leading coordinates of whole numbers": np.rint(20 * LOW_RANK),
    "leading coordinates, heavy tails": LOW_RANK * RNG.standard_cauchy(size=(900, 1)),
    "as many coordinates as features": RNG.uniform(size=(900, 70)),
}


@pytest.fixture(autouse=True)
def _as_among_many_points(monkeypatch):
    """Compiled loops, and cells of few points, though there are few of both."""
    monkeypatch.setattr(few, "FEW", 0)
    monkeypatch.setattr(graphs, "_FEW_LISTED", 0)
    monkeypatch.setattr(search, "CELL", 20)


def brute_force(X: np.ndarray, k: int, new: np.ndarray | None = None) -> np.ndarray:
    """Neighbours by (distance, index), the point itself left out."""
    X = np.asarray(X, dtype=float)
    found = np.empty((len(X if new is None else new), k), int)
    for i, x in enumerate(X if new is None else new):
        squared = np.square(X - x).sum(axis=1)
        if new is None:
            squared[i] = np.inf
        found[i] = np.argsort(squared, kind="stable")[:k]
    return found


def found_by(X: np.ndarray, k: int, method: search.Method) -> tuple[np.ndarray, search.NeighborReport]:
    (indices, _), report = search.own_neighbors(
        search.features_of(X, "X"), k, method, random_state=0, progress=None
    )  # fmt: skip
    return indices, report


@pytest.mark.parametrize("name", HARD)
def test_exact_search_is_brute_force(name):
    assert np.array_equal(found_by(HARD[name], 10, "exact")[0], brute_force(HARD[name], 10))


def test_leading_coordinates_are_compared_where_they_carry_the_distances():
    single = outlines.in_single_precision(LOW_RANK).rows
    assert outlines.coordinates_of(single).rows.shape == (900, 32)
    noise = outlines.in_single_precision(HARD["as many coordinates as features"]).rows
    assert outlines.coordinates_of(noise).rows.shape == (900, 70)


def test_distances_of_leading_coordinates_exceed_none_by_more_than_their_errors():
    seen = outlines.coordinates_of(outlines.in_single_precision(HARD["leading coordinates, heavy tails"]).rows)
    X = outlines.in_single_precision(HARD["leading coordinates, heavy tails"]).rows.astype(float)
    i, j = RNG.integers(0, 900, size=(2, 5000))
    short = np.linalg.norm(seen.rows[i].astype(float) - seen.rows[j], axis=1)
    assert np.all(short <= np.linalg.norm(X[i] - X[j], axis=1) * (1 + 1e-6) + seen.errors[i] + seen.errors[j])


@pytest.mark.parametrize("name", ["normal", "leading coordinates", "a grid, full of ties"])
def test_new_points_in_cells_of_their_own(name):
    X = np.asarray(HARD[name], dtype=float)
    new = X[:200] + 0.25
    assert np.array_equal(nearest(X, new, 7)[0], brute_force(X, 7, new))


@pytest.mark.parametrize("is_new", [False, True])
def test_sparse_rows_share_columns_with_few(is_new):
    """Whole numbers, whose distances are exact: ties among rows that share nothing go to the lower index too."""
    rows = np.ceil(3 * sp.random(400, 300, 0.03, random_state=1).toarray())
    rows[7] = rows[3]
    X = sp.csr_matrix(rows)
    if is_new:
        found, expected = nearest(X, X[:50] * 2, 6)[0], brute_force(X.toarray(), 6, X[:50].toarray() * 2)
    else:
        found, expected = found_by(X, 6, "exact")[0], brute_force(X.toarray(), 6)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", HARD)
def test_approximate_search_finds_nearly_all_and_says_how_many(name):
    X = np.asarray(HARD[name], dtype=float)
    indices, report = found_by(X, 10, "approximate")
    assert report.method == "approximate"
    assert report.n_sampled == 450
    assert not np.any(indices == np.arange(900)[:, None])
    assert all(len(set(listed)) == 10 for listed in indices.tolist())
    expected = brute_force(X, 10)
    radii = np.square(X[expected[:, -1]] - X).sum(axis=1)
    recall = (np.square(X[indices] - X[:, None]).sum(axis=2) <= radii[:, None] * (1 + 1e-9)).mean()
    assert recall == pytest.approx(report.recall, abs=0.025)
    assert recall > 0.96 or name == "tight clusters far apart"  # which single precision cannot tell apart


def test_few_points_are_enough_for_an_approximate_search():
    assert knn_graph([[0.0], [1.0], [5.0]], 2, method="approximate").n_edges == 3
    assert np.all(np.diff(knn_graph(np.zeros((200, 2)), 5, method="approximate", random_state=0).indptr) >= 5)


def test_lists_by_leading_coordinates_may_hold_all_points():
    X = LOW_RANK[:40]
    assert np.array_equal(found_by(X, 30, "approximate")[0], brute_force(X, 30))


def test_a_poor_recall_is_reported_and_warned_of(monkeypatch, caplog):
    X = np.random.default_rng(9).normal(size=(1500, 64))
    monkeypatch.setattr(search, "CELL", 100)
    monkeypatch.setattr(search, "_enough", lambda *_: search._Looks(1, 1))
    with (
        caplog.at_level(logging.INFO, logger="tautcut"),
        pytest.warns(GraphWarning, match=r"finds \d+% of the nearest neighbours, estimated on 500 points"),
    ):
        graph, report = neighbor_graph(X, 10, method="approximate", random_state=0)
    assert report.recall < 0.9
    assert report.n_sampled == 500
    assert f"recall {report.recall:.3f} on 500 sampled points" in caplog.text
    assert np.all(np.diff(graph.indptr) >= 10)


def test_auto_is_exact_among_few_points_and_where_it_costs_little(monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger="tautcut"):
        knn_graph(HARD["normal"], 3)
    assert "3 nearest neighbours of 900 points in 8 dimensions, by exact search." in caplog.text
    monkeypatch.setattr(search, "SMALL", 100)
    for dearer, method in ((0.0, "approximate"), (1e9, "exact")):
        monkeypatch.setattr(search, "DEARER", dearer)
        assert neighbor_graph(HARD["normal"], 3, random_state=0)[1].method == method


def test_more_is_looked_at_where_it_is_cheap():
    ranks = np.arange(1, 1001).reshape(100, 10)
    dear = search._enough(ranks, 2 * ranks, 50, 100.0, 1e3)
    assert dear == (986, 1992)  # of the 2 % that may be missed, 1.5 % are by the row and 0.5 % by its block
    assert search._enough(ranks, 2 * ranks, 50, 100.0, 1e9) == (1000, 2000)


def test_cells_are_cut_up_where_copies_fill_them():
    assert search._bounds(np.array([3, 0, 10, 5]), 4).tolist() == [0, 3, 6, 9, 13, 15, 18]


THREADS = """
import numpy as np
from tautcut.neighbors import few, graphs, neighbor_graph, search
search.CELL, few.FEW, graphs._FEW_LISTED = 20, 0, 0
rng = np.random.default_rng(3)
X = np.concatenate([rng.normal(size=(1500, 80)) * np.geomspace(1, 0.01, 80), np.zeros((60, 80))])
for rows in (X, np.rint(3 * X[:, :4])[rng.permutation(len(X))]):
    for method in ("exact", "approximate"):
        graph, report = neighbor_graph(rows, 8, method=method, weights="self-tuning", random_state=1)
        print(hash((graph.indices.tobytes(), graph.weights.tobytes(), report.recall)))
"""


def test_the_same_bits_at_any_number_of_threads():
    answers = set()
    for count in ("1", "2", "3"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": count, "OMP_NUM_THREADS": count, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
        answers.add(done.stdout)
    assert len(answers) == 1


@pytest.mark.parametrize(("X", "method"), [
    (HARD["normal"], "exact"), (HARD["normal"], "approximate"), (sp.csr_matrix(HARD["normal"]), "exact"),
])  # fmt: skip
def test_progress_grows_to_its_total(X, method, monkeypatch):
    monkeypatch.setattr(search, "TASK", 1e5)
    seen: list[tuple[int, int]] = []
    neighbor_graph(X, 3, method=method, random_state=0, progress=lambda *steps: seen.append(steps))
    done, totals = zip(*seen, strict=True)
    assert len(seen) > 5
    assert list(done) == sorted(done)
    assert done[-1] == totals[0] == totals[-1] == 900


def test_an_interrupt_ends_the_search(monkeypatch):
    monkeypatch.setattr(search, "TASK", 1e5)
    seen: list[int] = []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neighbor_graph(HARD["normal"], 3, progress=interrupt)
    assert len(seen) == 1


def test_lists_are_joined_as_without_numba(monkeypatch):
    rng = np.random.default_rng(5)
    indices = np.array([rng.permutation(np.delete(np.arange(60), i))[:5] for i in range(60)])
    weights = rng.uniform(0.1, 1.0, size=(60, 5))
    ours = graphs._joined(indices, weights)
    monkeypatch.setattr(compiling, "is_available", lambda: False)
    plain = graphs._joined(indices, weights)
    for name in ("indptr", "indices", "weights"):
        one, other = getattr(ours, name), getattr(plain, name)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


def test_without_numba_the_search_says_what_it_needs():
    code = (
        "import sys\nsys.modules['numba'] = None\nsys.modules['llvmlite'] = None\n"
        "from tautcut.errors import EngineUnavailableError\nfrom tautcut.neighbors import knn_graph\n"
        "assert knn_graph([[0.0], [1.0]], 1).n_edges == 1\n"  # few points do without
        "try:\n    knn_graph([[0.0], [1.0]], 1, method='approximate')\n"
        "except EngineUnavailableError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the search of neighbours needs numba: install it.\n"
