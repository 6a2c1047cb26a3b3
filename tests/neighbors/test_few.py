"""The search among few points gives what the compiled one gives, bit for bit, and leaves to it what it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tautcut.neighbors import few, knn_graph, nearest, search

RNG = np.random.default_rng(1)
BLOCKS = RNG.normal(size=(600, 7)) + 10 * RNG.normal(size=(6, 7))[RNG.integers(0, 6, 600)]
HARD = {
    "blocks": BLOCKS,
    "single precision": BLOCKS.astype(np.float32),
    "one column": RNG.exponential(size=(600, 1)),
    "many columns, three left over": RNG.uniform(size=(600, 131)),
    "a grid, full of ties": RNG.integers(0, 6, size=(600, 3)).astype(float),
    "copies": np.repeat(RNG.normal(size=(30, 5)), 20, axis=0),
    "all the same": np.full((600, 3), 0.3),
    "heavy tails": RNG.standard_cauchy(size=(600, 5)) ** 3,
    "tight clusters far apart": np.repeat([[0.0, 0.0], [1e7, 0.0], [0.0, 1e7]], 200, axis=0)
    + RNG.uniform(0, 1e-6, size=(600, 2)),
    "an offset": 1e9 + RNG.integers(0, 1000, size=(600, 5)) / 8,
    "beyond single precision": (1e25 * RNG.normal(size=(600, 6))).astype(np.float32),
    "squares that vanish": np.where(np.arange(600)[:, None] < 590, 1e-170, 1.0) * RNG.normal(size=(600, 2)),
}


def compiled(points, queries, k: int) -> search.Neighbors:
    if isinstance(points, np.ndarray):
        return search._Search.of(points, queries, k).nearest(search._Steps(None, 0))
    return search._sparse_neighbors(points, queries, k, search._Steps(None, 0))


def assert_same(points, queries, k: int) -> None:
    found = few.nearest_of_few(points, queries, k)
    assert found is not None
    for ours, theirs in zip(found, compiled(points, queries, k), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", HARD)
def test_neighbours_and_distances_are_those_of_the_compiled_search(name):
    assert_same(HARD[name], None, 10)
    assert_same(HARD[name], HARD[name][::-7] * 1.25, 1)


@pytest.mark.parametrize("k", [1, 6, 399])
def test_sparse_rows_too(k):
    rows = sp.random(400, 300, 0.03, random_state=1).toarray()
    rows[7] = rows[3]
    rows[11] = 0
    X = sp.csr_matrix(rows)
    assert_same(X, None, k)
    assert_same(X, X[:50] * 2, k)


VALUES = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1 / 3, 1e-8, 1e8, -7e-3]) | st.floats(-1e3, 1e3, width=32)


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=40), elements=VALUES), st.data())
def test_any_points(X, data):
    k = data.draw(st.integers(1, len(X) - 1))
    assert_same(X, None, k)
    assert_same(X, X[:3] + 0.5, k)


def test_blocks_of_rows_change_nothing(monkeypatch):
    expected = few.nearest_of_few(BLOCKS, None, 10)
    monkeypatch.setattr(few, "BLOCK", 5000)
    for ours, theirs in zip(few.nearest_of_few(BLOCKS, None, 10), expected, strict=True):
        assert np.array_equal(ours, theirs)
    monkeypatch.setattr(few, "BLOCK", 1)  # a row at a time, and no more
    monkeypatch.setattr(few, "MEASURED", 1000)
    assert np.array_equal(few.nearest_of_few(BLOCKS, None, 10)[0], expected[0])


def test_many_points_and_points_too_close_are_left_to_the_compiled_search(monkeypatch):
    called = []
    monkeypatch.setattr(search._Search, "nearest", lambda self, *_: called.append(self) or compiled_before)
    compiled_before = few.nearest_of_few(BLOCKS, None, 3)
    close = np.repeat([[0.0], [1.0]], 300, axis=0) + np.zeros(2000)
    assert few.nearest_of_few(close, None, 3) is None
    knn_graph(close, 3)
    knn_graph(BLOCKS, 3)
    assert len(called) == 1
    monkeypatch.setattr(few, "FEW", 600 * 600 * 7)
    knn_graph(BLOCKS, 3)
    nearest(BLOCKS, BLOCKS, 3)
    assert len(called) == 3
    nearest(BLOCKS, BLOCKS[:1], 3)
    assert len(called) == 3
