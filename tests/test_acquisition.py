"""Which point to label next: invariances of the choice, its edges, and that it is worth more than chance."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits

from strategies import graphs, use_threads
from tautcut import Acquisition, Graph, MTVClassifier, knn_graph, next_to_label
from tautcut import acquisition as module
from tautcut.arrays import IntArray
from tautcut.errors import GraphWarning, InputError

pytestmark = pytest.mark.usefixtures("light_search")


def acquisition(graph: Graph, seed: int = 0, **more: Any) -> Acquisition:
    return Acquisition(graph, rng=np.random.default_rng(seed), **more)


def cliques(*sizes: int, is_chain: bool = False) -> Graph:
    """Complete graphs of these sizes; in a chain, each is joined to the next by an edge."""
    edges, first = [], 0
    for size in sizes:
        edges += [(first + i, first + j) for i in range(size) for j in range(i)]
        if is_chain and first:
            edges.append((first - 1, first))
        first += size
    return Graph.from_edges(np.array(edges, dtype=int).reshape(-1, 2), n_vertices=first)


def clique_of(*sizes: int) -> IntArray:
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, IntArray]:
    X, y = load_digits(return_X_y=True)
    return knn_graph(X[:900], 10), y[:900]


# ---------------------------------------------------------------- for every graph


@given(graph=graphs(min_vertices=1, max_vertices=12), data=st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_is_asked_for_is_new_and_asked_once(graph: Graph, data: st.DataObject) -> None:
    codes = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=graph.n_vertices, max_size=graph.n_vertices)))
    n_free = int((codes < 0).sum())
    for n_points in {1, n_free // 2, n_free} - {0}:
        if n_points > n_free:
            continue
        found = acquisition(graph).next(codes, n_points)
        assert found.shape == (n_points,)
        assert len(set(found.tolist())) == n_points
        assert (codes[found] == -1).all()
    with pytest.raises(InputError, match="without a label"):
        acquisition(graph).next(codes, n_free + 1)


@given(graph=graphs(min_vertices=4, max_vertices=12), factor=st.sampled_from([1e-200, 1e-9, 3.0, 1e150]))
@settings(max_examples=20, deadline=None)
def test_units_of_weights_and_masses_change_nothing(graph: Graph, factor: float) -> None:
    scaled = Graph.from_any(graph.to_scipy() * factor).with_masses(np.full(graph.n_vertices, factor))
    codes = np.r_[0, 1, np.full(graph.n_vertices - 2, -1)]
    assert acquisition(graph).next(codes, 2).tolist() == acquisition(scaled).next(codes, 2).tolist()


@given(graph=graphs(min_vertices=6, max_vertices=14, is_connected=True))
@settings(max_examples=20, deadline=None)
def test_names_of_classes_do_not_matter(graph: Graph) -> None:
    codes = np.r_[0, 1, 2, np.full(graph.n_vertices - 3, -1)]
    other = np.where(codes >= 0, 7 * codes + 3, -1)
    assert acquisition(graph).next(codes, 2).tolist() == acquisition(graph).next(other, 2).tolist()


# ---------------------------------------------------------------- which they are


@pytest.mark.parametrize("is_chain", [True, False])
def test_each_clique_is_asked_in_once(is_chain: bool) -> None:
    sizes = (9, 8, 8, 7)
    graph = cliques(*sizes, is_chain=is_chain)
    found = acquisition(graph).next([-1] * 32, 4)
    assert sorted(clique_of(*sizes)[found].tolist()) == [0, 1, 2, 3]
    codes = np.full(32, -1)
    codes[[0, 10]] = [0, 1]
    assert sorted(clique_of(*sizes)[acquisition(graph).next(codes, 2)].tolist()) == [2, 3]


def test_a_heavy_component_is_asked_in_before_another_is_asked_in_twice() -> None:
    sizes = (40, 12, 8, 1, 1)
    graph, of = cliques(*sizes), clique_of(*sizes)
    assert sorted(of[acquisition(graph).next([-1] * 62, 4)].tolist())[:1] == [0]
    assert set(of[acquisition(graph).next([-1] * 62, 4)].tolist()) >= {0, 1, 2}
    # A vertex alone is worth a label where its mass is.
    heavy = graph.with_masses(np.where(np.arange(62) == 61, 30.0, 1.0))
    assert 61 in acquisition(heavy).next([-1] * 62, 3)


def test_the_middle_of_a_star_is_asked_for() -> None:
    star = Graph.from_edges([(0, i) for i in range(1, 8)])
    assert acquisition(star).next([-1] * 8).tolist() == [0]


def test_no_two_neighbours_are_asked_for_while_others_are_left() -> None:
    graph = knn_graph(np.random.default_rng(0).standard_normal((200, 3)), 6)
    found = acquisition(graph).next([-1] * 200, 12)
    assert not graph.to_scipy()[found][:, found].nnz
    complete = cliques(6)
    assert sorted(acquisition(complete).next([-1] * 6, 6).tolist()) == list(range(6))


def test_where_classes_meet_is_asked_for_once_each_class_has_labels() -> None:
    """A ring road of two classes: with five labels each, what is asked lies near one of the two borders."""
    n = 240
    graph = Graph.from_edges([(i, (i + step) % n) for i in range(n) for step in (1, 2, 3)])
    known = np.full(n, -1)
    known[[20, 40, 60, 80, 100]], known[[140, 160, 180, 200, 220]] = 0, 1
    found = acquisition(graph).next(known, 2)
    assert (np.minimum(np.abs(found - 120), np.minimum(found, n - found)) < 20).all()


def test_copies_are_asked_for_last() -> None:
    X = np.repeat(np.random.default_rng(1).standard_normal((15, 2)), 4, axis=0)
    found = next_to_label(X, None, 15, n_neighbors=4, random_state=0)
    assert sorted(found // 4) == list(range(15))
    known = np.full(60, -1)
    known[3] = 0  # its copies are rows 0, 1 and 2
    more = next_to_label(X, known, 16, n_neighbors=4, random_state=0)
    assert len(set(more.tolist())) == 16
    assert sorted(set((more[:14] // 4).tolist())) == list(range(1, 15))
    assert sorted(next_to_label(X, known, 59, n_neighbors=4, random_state=0).tolist()) == sorted({*range(60)} - {3})


def test_twenty_labels_are_worth_more_than_twenty_drawn_ones(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits

    def right(ask: IntArray) -> float:
        known = np.full(truth.size, -1)
        known[ask] = truth[ask]
        model = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, known)
        return float((model.transduction_ == truth)[known < 0].mean())

    drawn = [right(np.random.default_rng(seed).choice(truth.size, 20, replace=False)) for seed in range(4)]
    assert right(next_to_label(graph, None, 20, random_state=0)) > np.mean(drawn) + 0.05


# ---------------------------------------------------------------- again, and on other machines


def test_what_was_asked_before_does_not_matter(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits
    known, busy = np.full(truth.size, -1), acquisition(graph)
    for n_points in (3, 1, 7, 20):
        ask = busy.next(known, n_points)
        assert ask.tolist() == acquisition(graph).next(known, n_points).tolist()
        known[ask] = truth[ask]


def test_the_number_of_threads_changes_nothing(digits: tuple[Graph, IntArray], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, truth = digits
    known = np.where(np.arange(truth.size) % 40 == 0, truth, -1)
    found = []
    for n_threads in (1, 2):
        use_threads(monkeypatch, n_threads)
        found.append([next_to_label(graph, y, 8, random_state=3).tolist() for y in (None, known)])
    assert found[0] == found[1]


def test_a_large_graph_is_contracted_before_it_is_cut(
    digits: tuple[Graph, IntArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, truth = digits
    monkeypatch.setattr(module, "_COARSE", 200)
    known = np.where(np.arange(truth.size) < 5, truth, -1)
    choice = acquisition(graph)
    found = choice.next(known, 5)
    assert choice._coarse[0].n_vertices <= 450
    assert len(set(found.tolist())) == 5
    assert (known[found] < 0).all()
    star = Graph.from_edges([(0, i) for i in range(1, 900)])
    assert acquisition(star).next([0] + [-1] * 899, 2).size == 2  # which no matching contracts


# ---------------------------------------------------------------- what is given


def test_labels_come_in_the_forms_of_the_classifier() -> None:
    X = load_digits().data[:60]
    plain = np.full(60, -1)
    plain[[0, 1]] = [0, 1]
    words: list[Any] = [None] * 60
    words[0], words[1] = "zero", "one"
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(60)])
    forms: list[tuple[Any, Any]] = [
        (X, plain), (X, np.where(plain < 0, np.nan, plain)), (X, words), (X, {0: "zero", 1: "one"}),
        (frame, {"row 0": 0, "row 1": 1}),
    ]  # fmt: skip
    found = [next_to_label(rows, y, 3, random_state=0).tolist() for rows, y in forms]
    assert all(one == found[0] for one in found)
    for nothing in (None, [None] * 60, [""] * 60, plain * 0 - 1, {}):
        assert (
            next_to_label(X, nothing, 3, random_state=0).tolist() == next_to_label(X, None, 3, random_state=0).tolist()
        )


def test_a_network_is_a_graph_and_points_are_numbers() -> None:
    network = networkx.karate_club_graph()
    names = {node: f"member {node}" for node in network}
    found = next_to_label(networkx.relabel_nodes(network, names), {"member 0": "a"}, 2, random_state=0)
    assert found.dtype == np.int64
    assert 0 not in found


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_smallest_graphs(n: int) -> None:
    lonely = Graph.from_edges(np.empty((0, 2), dtype=int), n_vertices=n)
    for graph in (lonely, cliques(n)):
        assert sorted(next_to_label(graph, None, n, random_state=0).tolist()) == list(range(n))
        assert next_to_label(graph, [0] * (n - 1) + [-1], random_state=0).tolist() == [n - 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        assert sorted(next_to_label(np.arange(n)[:, None], None, n).tolist()) == list(range(n))
    assert sorted(next_to_label(np.zeros((n, 2)), None, n).tolist()) == list(range(n))


def test_weights_over_many_decades(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits
    weights = 10.0 ** np.random.default_rng(0).uniform(-150, 150, graph.n_edges)
    upper = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr)) < graph.indices
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))[upper]
    wild = Graph.from_edges(np.column_stack([rows, graph.indices[upper]]), weights)
    for known in (None, np.where(np.arange(truth.size) < 30, truth, -1)):
        assert len(set(next_to_label(wild, known, 12, random_state=0).tolist())) == 12


def test_too_many_are_refused_with_the_number_that_is_left() -> None:
    graph = cliques(4, 4)
    with pytest.raises(InputError, match=r"n_points=9 is more than the 8 points without a label\. Ask for 8 or fewer"):
        next_to_label(graph, None, 9)
    with pytest.raises(InputError, match="Nothing is left"):
        next_to_label(graph, [0] * 8)
    with pytest.raises(InputError, match="n_points must be a whole number ≥ 1; found 0"):
        next_to_label(graph, None, 0)
    with pytest.raises(InputError, match="one label per sample"):
        next_to_label(graph, [[0, 1]] * 8)


# ---------------------------------------------------------------- a fitted model


def test_a_model_asks_what_the_function_asks(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits
    known = np.where(np.arange(truth.size) < 40, truth, -1)
    model = MTVClassifier(affinity="precomputed", random_state=5).fit(graph, known)
    expected = next_to_label(graph, known, 6, random_state=5).tolist()
    assert model.query(6).tolist() == expected
    assert pickle.loads(pickle.dumps(model)).query(6).tolist() == expected
    assert not hasattr(clone(model), "result_")


def test_a_model_asks_once_for_points_that_stay_together() -> None:
    graph, groups = cliques(6, 6, 6, is_chain=True), [[0, 1, 2, 3, 4], [7, 8, 9], [13, 16]]
    known = np.full(18, -1)
    known[[0, 6]] = [0, 1]
    model = MTVClassifier(affinity="precomputed", must_link=groups, random_state=0).fit(graph, known)
    ask = model.query(9)
    assert not {0, 1, 2, 3, 4} & set(ask.tolist())
    assert len({7, 8, 9} & set(ask.tolist())) == 1
    assert len({13, 16} & set(ask.tolist())) == 1
    with pytest.raises(InputError, match="more than the 9 groups of points that stay together without a label"):
        model.query(10)


def test_reasons_are_sentences(digits: tuple[Graph, IntArray]) -> None:
    graph, truth = digits
    assert "points without a label" in acquisition(graph).questions([-1] * truth.size)[0].reason
    known = np.where(np.arange(truth.size) < 40, truth, -1)
    assert "in doubt" in acquisition(graph).questions(known)[0].reason
    lonely = Graph.from_edges([(0, 1)], n_vertices=3).with_masses([1, 1, 9])
    assert acquisition(lonely).questions([-1] * 3)[0].reason == "a point apart from the others"
