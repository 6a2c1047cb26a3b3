"""Walks on the GPU, against the dense inverse."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_or_interpreter import DEVICE, let_cuda_pass
from sample_graphs import random_graph
from tautcut.graph import Graph
from tautcut.kernels.gpu import walks
from walk_oracle import cosines, share_found


def nearest(graph: Graph, k: int) -> np.ndarray:
    done = []
    found = walks.nearest_on_gpu(graph, k, 0.9, lambda *step: done.append(step), device=DEVICE)
    assert done[-1] == (graph.n_vertices, graph.n_vertices)
    return found


@pytest.mark.parametrize(("is_weighted", "width"), [(True, 512), (False, 32)])
def test_nearest_are_those_of_the_dense_inverse(monkeypatch, is_weighted, width):
    monkeypatch.setattr(walks, "_COLUMNS", width)
    graph = random_graph(60, 240, seed=0, is_weighted=is_weighted, n_isolated=3)
    assert share_found(nearest(graph, 8), cosines(graph), 8) > 0.99


def test_a_block_need_not_hold_the_whole_graph(monkeypatch):
    """On a long ring few vertices are near any sixteen of it."""
    monkeypatch.setattr(walks, "_COLUMNS", 16)
    parts = []
    around = walks._Steps.around

    def watched(*args):
        parts.append(around(*args))
        return parts[-1]

    monkeypatch.setattr(walks._Steps, "around", watched)
    n = 300
    ring = Graph.from_edges([(i, (i + step) % n) for i in range(n) for step in (1, 2)])
    assert share_found(nearest(ring, 6), cosines(ring), 6) > 0.99
    assert all(inside.numel() < n // 2 for inside, _ in parts)


def test_who_reaches_fewer_is_joined_to_these():
    pieces = Graph.from_edges([(0, 1), (1, 2), (3, 4)], n_vertices=6)
    found = nearest(pieces, 4)
    assert [sorted(row[row >= 0].tolist()) for row in found] == [[1, 2], [0, 2], [0, 1], [4], [3], []]


def test_far_vertices_are_reached_where_there_are_no_others():
    n = 90
    path = Graph.from_edges([(i, i + 1) for i in range(n - 1)])
    assert (nearest(path, 60)[n // 2] >= 0).sum() == 60


def test_walk_graph_takes_the_gpu(monkeypatch):
    from tautcut import walk_graph

    let_cuda_pass(monkeypatch)
    graph = random_graph(40, 120, seed=1, is_weighted=True, n_isolated=0)
    found = walk_graph(graph, 5, device="cuda").to_scipy()
    expected = walk_graph(graph, 5).to_scipy()
    assert abs(found - expected).sum() <= 0.05 * expected.sum()
