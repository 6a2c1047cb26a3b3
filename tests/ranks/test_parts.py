"""Which part a vertex gets: parts of the same work with a low cut, of graphs that fit a partitioner and of such that do
not, nodes before the parts inside them.
"""

from __future__ import annotations

import numpy as np
import pytest

from tautcut import Graph, knn_graph
from tautcut.errors import NotEnoughMemoryError
from tautcut.kernels.cpu.propagation import propagate
from tautcut.ranks import metis
from tautcut.ranks.parts import WORK_OF_VERTEX, distributed, divided
from tautcut.ranks.rows import Rows

AMPLE, TIGHT = 2**30, 2**17  # bytes: all in memory; blocks of a few thousand entries


@pytest.fixture(scope="module")
def plane():
    points = np.random.default_rng(0).uniform(size=(3000, 2))
    return knn_graph(points, 8, weights="self-tuning")


@pytest.fixture
def small_metis(monkeypatch):
    """A partitioner that has room for a tenth of the plane."""
    monkeypatch.setattr(metis, "takes", lambda n, entries: 0 if entries < 6000 else 2**40)


def cut_share(graph: Graph, parts) -> float:
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    return float((parts[rows] != parts[graph.indices]).mean())


def unevenness(graph: Graph, parts) -> float:
    work = np.bincount(parts, np.diff(graph.indptr) + WORK_OF_VERTEX)
    return float(work.max() / work.mean())


def divide(graph, hierarchy, folder, room=AMPLE, seed=0):
    return divided(Rows.of(graph), hierarchy, folder=folder, room=room, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("small", [2**30, 0], ids=["here", "in a process of its own"])
@pytest.mark.parametrize("weighted", [True, False])
def test_parts_are_even_and_hardly_cut(plane, tmp_path, monkeypatch, small, weighted):
    monkeypatch.setattr(metis, "_SMALL", small)
    plane = plane if weighted else Graph(plane.indptr, plane.indices, np.ones(plane.weights.size))
    parts = divide(plane, (6,), tmp_path)
    assert cut_share(plane, parts) < 0.1
    assert unevenness(plane, parts) < 1.04
    assert list(tmp_path.iterdir()) == []


def test_a_graph_too_large_for_the_partitioner_is_divided_by_its_clusters(plane, tmp_path, small_metis):
    whole = cut_share(plane, divided(Rows.of(plane), (4,), folder=tmp_path, room=2**41, rng=np.random.default_rng(0)))
    parts = divide(plane, (4,), tmp_path, TIGHT)
    assert sorted(set(parts.tolist())) == [0, 1, 2, 3]
    assert unevenness(plane, parts) < 1.04
    assert cut_share(plane, parts) < 1.5 * whole
    assert np.array_equal(parts, divide(plane, (4,), tmp_path, TIGHT))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [AMPLE, TIGHT])
def test_nodes_are_divided_before_the_parts_inside_them(plane, tmp_path, room, request):
    if room == TIGHT:
        request.getfixturevalue("small_metis")
    nodes, parts = divide(plane, (2,), tmp_path, room), divide(plane, (2, 3), tmp_path, room)
    assert np.array_equal(parts // 3, nodes)
    assert np.unique(parts).tolist() == list(range(6))
    assert unevenness(plane, parts) < 1.08
    assert list(tmp_path.iterdir()) == []


def test_without_metis_the_other_partitioner_serves(plane, tmp_path, monkeypatch):
    monkeypatch.setattr("tautcut.search.partitioners._is_installed", lambda name: name != "pymetis")
    parts = divide(plane, (3,), tmp_path)
    assert cut_share(plane, parts) < 0.1
    assert unevenness(plane, parts) < 1.05


def test_what_no_clusters_can_be_found_in_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(metis, "takes", lambda n, entries: 2**40)
    hollow = Graph.from_edges([(0, 1)], n_vertices=50)
    with pytest.raises(NotEnoughMemoryError, match="--memory"):
        divide(hollow, (2,), tmp_path, TIGHT)


def test_a_partitioner_that_comes_to_grief_is_told(plane, tmp_path, monkeypatch):
    monkeypatch.setattr(metis, "_SMALL", 0)
    monkeypatch.setattr(metis.sys, "executable", "/bin/false")
    with pytest.raises(NotEnoughMemoryError, match="METIS failed"):
        divide(plane, (2,), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [AMPLE, TIGHT])
def test_rows_are_distributed_to_their_parts(plane, tmp_path, room):
    rng = np.random.default_rng(0)
    parts = rng.integers(0, 5, plane.n_vertices).astype(np.int32)
    parts[parts == 2] = 3  # which leaves one empty
    matrix = plane.to_scipy()
    seen = []
    for number, own, rows in distributed(Rows.of(plane), parts, 5, folder=tmp_path, room=room, is_inside=True):
        wanted = matrix[own][:, own].tocsr()
        wanted.sort_indices()
        assert np.array_equal(own, np.flatnonzero(parts == number))
        assert np.array_equal(rows.indptr, wanted.indptr)
        assert np.array_equal(rows.read(0, own.size)[1], wanted.indices)
        assert np.array_equal(rows.read(0, own.size)[2], wanted.data)
        seen.append(number)
    assert seen == [0, 1, 2, 3, 4]


def test_a_vertex_joins_what_it_is_joined_to_most_if_there_is_room():
    graph = Graph.from_edges([(0, 1), (0, 2), (0, 3), (2, 3)], [2.0, 1.5, 1.5, 1.0])
    labels, work = np.array([0, 1, 2, 2], dtype=np.int32), np.ones(4, dtype=np.int64)

    def spread(largest):
        mine, sizes = labels.copy(), np.bincount(labels, minlength=4).astype(np.int64)
        moved = propagate(
            0, graph.indptr[:2], graph.indices, graph.weights, mine, sizes, work, largest, np.zeros(4),
            np.empty(3, dtype=np.int32), 0,
        )  # fmt: skip
        assert np.array_equal(sizes, np.bincount(mine, minlength=4))
        return moved, mine[0]

    assert spread(3) == (1, 2)
    assert spread(2) == (1, 1)
    assert spread(1) == (0, 0)
