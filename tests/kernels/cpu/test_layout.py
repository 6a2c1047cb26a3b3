"""Graphs with their vertices in another order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from strategies import random_graph
from tautcut.graph import Graph
from tautcut.graph.shard import shards_of
from tautcut.kernels.cpu import layout
from tautcut.kernels.cpu.layout import grouped_order, is_scattered, permuted, permuted_part


@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_a_permuted_graph_is_the_same_graph(monkeypatch, n_threads):
    monkeypatch.setenv("NUMBA_NUM_THREADS", n_threads)
    monkeypatch.setattr("tautcut.kernels.cpu.sharing._LEAST_SHARE", 10)
    star = [(0, j) for j in range(1, 200)]  # more neighbours than are sorted by insertion
    graph = random_graph(200, 600, seed=0, is_weighted=True, n_isolated=3)
    hub = Graph.from_edges(star, np.linspace(1, 2, len(star)))
    order = np.random.default_rng(0).permutation(200)
    for one in (graph, hub):
        one = one.with_masses(np.arange(1.0, 201.0))
        moved = permuted(one, order)
        np.testing.assert_array_equal(moved.to_scipy().toarray(), one.to_scipy().toarray()[np.ix_(order, order)])
        np.testing.assert_array_equal(moved.masses, one.masses[order])
        assert all((np.diff(moved.indices[a:b]) > 0).all() for a, b in pairwise(moved.indptr))


def test_a_permuted_part_is_the_same_part(monkeypatch):
    monkeypatch.setattr(layout, "_CACHE_BYTES", 0)
    rng = np.random.default_rng(1)
    graph = random_graph(90, 300, seed=2, is_weighted=True).with_masses(np.arange(1.0, 91.0))
    W = graph.to_scipy().toarray()
    for shard in shards_of(graph, rng.integers(0, 3, 90), 3):
        groups = rng.integers(0, 4, shard.n_own)
        order = grouped_order(shard, groups, 80)
        inner = shard.n_boundary
        assert (np.sort(order[:inner]) == np.arange(inner)).all()
        assert (np.diff(groups[order[:inner]]) >= 0).all()
        assert (np.diff(groups[order[inner:]]) >= 0).all()
        moved = permuted_part(shard, order)
        local = sp.csr_matrix((moved.weights, moved.indices, moved.indptr), shape=(moved.n_own, moved.n_local))
        numbers = np.concatenate([moved.vertices, moved.ghosts])
        np.testing.assert_array_equal(local.toarray(), W[np.ix_(moved.vertices, numbers)])
        np.testing.assert_array_equal(moved.masses, graph.masses[moved.vertices])
        np.testing.assert_array_equal(moved.vertices[moved.sent], shard.vertices[shard.sent])
        assert not moved.indices.flags.writeable


def test_what_is_scattered(monkeypatch):
    near = Graph.from_edges([(i, i + 1) for i in range(99)])
    far = permuted(near, np.random.default_rng(0).permutation(100))
    assert not is_scattered(far, 80)  # all of it fits in a cache
    monkeypatch.setattr(layout, "_CACHE_BYTES", 0)
    assert is_scattered(far, 80)
    assert not is_scattered(near, 80)
