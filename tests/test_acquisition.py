"""Which point to label next: theorems of the choice, its edges, and that it is worth more than chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from strategies import graphs
from tautcut import Acquisition, Graph, knn_graph
from tautcut.arrays import IntArray
from tautcut.errors import InputError


def acquisition(graph: Graph, seed: int = 0, **more: Any) -> Acquisition:
    return Acquisition(graph, rng=np.random.default_rng(seed), **more)


def cliques(*sizes: int, bridges: bool = False) -> Graph:
    """Complete graphs of these sizes, in a chain if bridged."""
    edges, first = [], 0
    for size in sizes:
        edges += [(first + i, first + j) for i in range(size) for j in range(i)]
        if bridges and first:
            edges.append((first - 1, first))
        first += size
    return Graph.from_edges(edges, n_vertices=first)


def clique_of(sizes: tuple[int, ...]) -> IntArray:
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, IntArray]:
    X, y = load_digits(return_X_y=True)
    return knn_graph(X[:900], 10), y[:900]


@given(graph=graphs(min_vertices=1, max_vertices=12), data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_asked_for_is_new_and_asked_once(graph: Graph, data: st.DataObject) -> None:
    codes = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=graph.n_vertices, max_size=graph.n_vertices)))
    n_free = int((codes < 0).sum())
    for n_points in range(1, n_free + 1):
        found = acquisition(graph).next(codes, n_points)
        assert found.shape == (n_points,)
        assert len(set(found.tolist())) == n_points
        assert (codes[found] == -1).all()
    with pytest.raises(InputError, match="without a label"):
        acquisition(graph).next(codes, n_free + 1)


@given(graph=graphs(max_vertices=12), factor=st.sampled_from([1e-200, 1e-9, 3.0, 1e150]))
@settings(max_examples=20, deadline=None)
def test_the_unit_of_the_weights_changes_nothing(graph: Graph, factor: float) -> None:
    scaled = Graph.from_any(graph.to_scipy() * factor)
    codes = np.where(np.arange(graph.n_vertices) < 2, np.arange(graph.n_vertices), -1)[::-1]
    n_points = max(1, graph.n_vertices // 3)
    if (codes < 0).sum() >= n_points:
        assert acquisition(graph).next(codes, n_points).tolist() == acquisition(scaled).next(codes, n_points).tolist()


def test_each_clique_is_asked_in_once() -> None:
    sizes = (9, 8, 8, 7)
    found = acquisition(cliques(*sizes, bridges=True)).next([-1] * 32, 4)
    assert sorted(clique_of(sizes)[found].tolist()) == [0, 1, 2, 3]


def test_what_was_asked_before_does_not_matter(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits
    known, busy = np.full(truth.size, -1), acquisition(graph)
    for n_points in (3, 1, 7, 20):
        ask = busy.next(known, n_points)
        assert ask.tolist() == acquisition(graph).next(known, n_points).tolist()
        known[ask] = truth[ask]


def test_twenty_labels_are_worth_more_than_twenty_drawn_ones(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits

    def right(ask: IntArray) -> float:
        known = np.full(truth.size, -1)
        known[ask] = truth[ask]
        model = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, known)
        return float((model.transduction_ == truth)[known < 0].mean())

    drawn = [right(np.random.default_rng(seed).choice(truth.size, 20, replace=False)) for seed in range(4)]
    assert right(next_to_label(graph, None, 20, random_state=0)) > np.mean(drawn) + 0.05
