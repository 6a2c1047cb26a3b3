"""The graph of a walk is that of the dense inverse, by which it is defined: on graphs of many kinds, at any number of
threads, and with a sentence for every mistake.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sample_graphs import planted_graph, random_graph
from strategies import graphs
from tautcut import Graph, errors, interrupts, knn_graph, memory, walk, walk_graph
from walk_oracle import cosines, share_found

pytestmark = pytest.mark.usefixtures("light_search")


def star(n_leaves: int) -> Graph:
    return Graph.from_edges([(0, i) for i in range(1, n_leaves + 1)])


def path(n: int) -> Graph:
    return Graph.from_edges([(i, i + 1) for i in range(n - 1)])


def complete(n: int) -> Graph:
    return Graph.from_any(np.ones((n, n)) - np.eye(n))


def power_law() -> Graph:
    rng = np.random.default_rng(0)
    weights = np.minimum(rng.pareto(1.5, 400) + 1.0, 20)
    pairs = rng.choice(400, (1500, 2), p=weights / weights.sum())
    return Graph.from_edges(np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0), n_vertices=400)


def in_decades() -> Graph:
    graph = random_graph(300, 1500, seed=3)
    rows, columns = sp.triu(graph.to_scipy()).nonzero()
    return Graph.from_edges(np.c_[rows, columns], 10.0 ** np.random.default_rng(0).uniform(-9, 0, rows.size))


def copies() -> Graph:
    return knn_graph(np.repeat(np.random.default_rng(0).normal(size=(20, 3)), 12, axis=0), 15)


KINDS = {
    "points": lambda: knn_graph(np.random.default_rng(0).normal(size=(500, 4)), 8),
    "weighted points": lambda: knn_graph(np.random.default_rng(0).normal(size=(300, 4)), 8, weights="self-tuning"),
    "blocks": lambda: planted_graph(5, 60, seed=0, is_weighted=True),
    "pieces": lambda: random_graph(250, 260, seed=1, n_isolated=9),
    "weights over nine decades": in_decades,
    "power law": power_law,
    "star": lambda: star(200),
    "path": lambda: path(150),
    "complete": lambda: complete(60),
    "copies": copies,
    "one edge": lambda: path(2),
}


def directed(graph: Graph, k: int, **options: float) -> np.ndarray:
    """The k nearest of each vertex, before they become a graph."""
    return walk._nearest(graph, k, 1 - options.get("restart", 0.1), lambda *step: None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 7, 30])
def test_neighbors_are_the_nearest_of_the_dense_inverse(kind, k):
    graph = KINDS[kind]()
    k = min(k, graph.n_vertices - 1)
    assert share_found(directed(graph, k), cosines(graph), k) >= 0.97


@pytest.mark.parametrize("restart", [0.02, 0.5, 0.9])
def test_every_restart_has_its_own_neighbors(restart):
    graph = planted_graph(5, 60, seed=0)
    assert share_found(directed(graph, 10, restart=restart), cosines(graph, restart), 10) >= 0.97


@given(graphs(max_vertices=14), st.integers(1, 14), st.sampled_from([0.05, 0.1, 0.4]))
@settings(max_examples=60, deadline=None)
def test_small_graphs(graph, k, restart):
    k = min(k, graph.n_vertices - 1)
    C, found = cosines(graph, restart), directed(graph, k, restart=restart)
    assert share_found(found, C, k) >= 0.9
    assert_array_equal((found >= 0).sum(axis=1), np.minimum((C > 0).sum(axis=1), k))
    expected = sp.csr_matrix((graph.n_vertices,) * 2).tolil()
    for i, row in enumerate(found):
        expected[i, row[row >= 0]] = 1
    joined = walk_graph(graph, k, restart=restart).to_scipy()
    assert abs(joined - (expected + expected.T)).sum() == 0


def test_the_graph_is_a_valid_one():
    made = walk_graph(KINDS["points"](), 12)
    assert set(np.unique(made.weights)) == {1.0, 2.0}
    again = Graph.from_any(made.to_scipy())  # symmetric, sorted, without loops
    assert_array_equal(again.indices, made.indices)
    assert_array_equal(again.weights, made.weights)


def test_noise_loses_its_say():
    """Of blocks with random edges between them, the smoothed graph has a smaller share that crosses."""
    rng, block = np.random.default_rng(0), np.repeat(np.arange(4), 75)
    inside = block[:, None] == block
    W = np.triu(rng.random((300, 300)) < np.where(inside, 0.2, 0.02), 1)
    graph = Graph.from_any((W + W.T).astype(float))

    def crossing(g: Graph) -> float:
        M = g.to_scipy().toarray()
        return M[~inside].sum() / M.sum()

    assert crossing(walk_graph(graph, 20)) < 0.7 * crossing(graph)


def test_a_common_factor_of_the_weights_changes_nothing():
    graph = planted_graph(5, 60, seed=0, is_weighted=True)
    scaled = walk_graph(Graph(graph.indptr, graph.indices, graph.weights * 1e7 / 3), 10)
    assert_array_equal(scaled.indices, walk_graph(graph, 10).indices)


def test_the_same_bits_at_any_number_of_threads(monkeypatch):
    graph = knn_graph(np.random.default_rng(0).normal(size=(1500, 4)), 8)
    made = []
    for n_threads in ("1", "2", "5"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", n_threads)
        monkeypatch.setattr(walk, "_CHUNK", 128)
        made.append(walk_graph(graph, 10))
    for other in made[1:]:
        assert_array_equal(other.indices, made[0].indices)
        assert_array_equal(other.weights, made[0].weights)


def test_a_hub_costs_its_edges_not_their_square():
    """No walk through a hub of 100,000 neighbours passes on to all of them: that would be 10¹⁰ steps."""
    made = walk_graph(star(100_000), 10)
    assert np.diff(made.indptr).min() >= 1


def test_inputs_may_be_matrices_and_stay_as_they_are():
    W = planted_graph(2, 20, seed=0).to_scipy()
    before = W.copy()
    assert_array_equal(walk_graph(W, 5).indices, walk_graph(W.toarray(), 5).indices)
    assert abs(W - before).sum() == 0


def test_masses_stay_with_their_vertices():
    masses = np.arange(1.0, 41.0)
    graph = planted_graph(2, 20, seed=0)
    made = walk_graph(graph.with_masses(masses), 5)
    assert_array_equal(made.masses, masses)
    assert_array_equal(made.indices, walk_graph(graph, 5).indices)


def test_a_graph_without_edges_stays_one():
    assert walk_graph(sp.csr_matrix((5, 5)), 3).n_vertices == 5
    assert walk_graph(np.zeros((1, 1)), 3).n_edges == 0


def test_more_neighbors_than_there_are_is_all_of_them():
    assert walk_graph(path(4), 30).n_edges == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be a whole number ≥ 1; found 0"),
        ({"n_neighbors": 2.5}, "n_neighbors must be a whole number ≥ 1; found 2.5"),
        ({"restart": 0}, "restart must be a finite number > 0 and < 1; found 0"),
        ({"restart": 1.0}, "restart must be a finite number > 0 and < 1; found 1.0"),
        ({"device": "moon"}, "device must be one of .*; found 'moon'"),
    ],
)
def test_mistakes_name_the_value(options, message):
    with pytest.raises(errors.InputError, match=message):
        walk_graph(path(4), **options)


def test_memory_is_foreseen():
    graph = path(150)
    with memory.limited(1000), pytest.raises(errors.NotEnoughMemoryError, match="30 nearest of 150 vertices"):
        walk_graph(graph, 30)


def test_progress_ends_at_the_number_of_vertices():
    steps = []
    walk_graph(path(50), 3, progress=lambda *step: steps.append(step))
    assert steps[-1] == (50, 50)


def test_an_interrupt_is_heard_between_chunks(monkeypatch):
    """What asks to stop is heard at the next step, and no graph comes back."""
    monkeypatch.setattr(walk, "_CHUNK", 16)
    asked = []

    def apart(work, ask_to_stop):
        asked.append(ask_to_stop)
        return work()

    monkeypatch.setattr(walk, "apart", apart)
    with pytest.raises(KeyboardInterrupt):
        walk_graph(path(200), 3, progress=lambda done, total: asked[0]())
    assert interrupts.first_signal() == 0
