"""Graphs in memory into parts: every vertex once, parts that take the same work, nodes before the parts inside them."""

from __future__ import annotations

import numpy as np
import pytest

from tautcut import Graph, knn_graph
from tautcut.ranks.sharding import shard_graph


@pytest.fixture(scope="module")
def plane():
    return knn_graph(np.random.default_rng(0).uniform(size=(1500, 2)), 6)


def joined(sharded) -> Graph:
    """The whole graph again, from its parts."""
    edges, weights, masses = [], [], np.empty(sharded.whole.n_vertices)
    for number in range(sharded.n_parts):
        part = sharded.part(number)
        names = np.concatenate([part.vertices, part.ghosts])
        rows = np.repeat(part.vertices, np.diff(part.indptr))
        edges.append(np.column_stack([rows, names[part.indices]]))
        weights.append(part.weights)
        masses[part.vertices] = part.masses
    graph = Graph.from_edges(np.concatenate(edges), np.concatenate(weights), n_vertices=sharded.whole.n_vertices)
    return graph.with_masses(masses)


def test_the_parts_are_the_whole(tmp_path, plane):
    graph = plane.with_masses(1.0 + np.arange(1500) % 2)
    back = joined(shard_graph(graph, (4,), tmp_path / "a.shards", rng=np.random.default_rng(0)))
    for name in ("indptr", "indices", "weights", "masses"):
        assert np.array_equal(getattr(back, name), getattr(graph, name))


def test_parts_take_the_same_work_and_have_small_halos(tmp_path, plane):
    made = shard_graph(plane, (4,), tmp_path / "a.shards", rng=np.random.default_rng(0))
    work = np.array([one.n_entries + 3 * one.n_own for one in made.parts])
    assert work.max() <= 1.05 * work.mean()
    assert made.halo_share < 0.25


def test_a_graph_without_edges_has_parts_too(tmp_path):
    made = shard_graph(
        Graph.from_edges(np.empty((0, 2), int), n_vertices=5), (2,), tmp_path / "a.shards",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert sorted(one.n_own for one in made.parts) == [2, 3]
