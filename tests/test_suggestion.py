"""The suggested number of clusters on planted graphs, and the curve behind it."""

from __future__ import annotations

import json

import networkx
import numpy as np
import pytest

from strategies import planted_graph, random_graph
from tautcut import suggestion
from tautcut.errors import InputError, InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.observers import Progress
from tautcut.problem import balanced_cut_energy
from tautcut.suggestion import CurvePoint, Suggestion, suggest_n_clusters

FOUR = planted_graph(4, 60, seed=0)


@pytest.fixture(scope="module")
def four() -> Suggestion:
    return suggest_n_clusters(FOUR, range(2, 7), random_state=0)


def test_planted_blocks_are_counted(four):
    assert four.n_clusters == 4
    assert four.is_complete
    assert "4 clusters have the highest score" in four.reason


@pytest.mark.parametrize("n_blocks", [2, 3, 6])
def test_other_planted_blocks_are_counted(n_blocks):
    graph = planted_graph(n_blocks, 50, seed=n_blocks)
    assert suggest_n_clusters(graph, [2, 3, 4, 6, 7], random_state=1).n_clusters == n_blocks


def test_the_curve_is_what_it_says(four):
    assert [point.n_clusters for point in four.curve] == [2, 3, 4, 5, 6]
    assert max(four.curve, key=lambda point: point.score).n_clusters == four.n_clusters
    planted = np.repeat(np.arange(4), 60)
    point = four.curve[2]
    assert point.energy == pytest.approx(balanced_cut_energy(FOUR, planted))
    assert point.stability == 1
    assert point.score == point.modularity
    n, energy, stability, modularity = point
    assert (n, energy, stability, modularity) == (4, point.energy, point.stability, point.modularity)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_modularity_is_that_of_networkx(is_weighted):
    graph = random_graph(40, 120, seed=1, is_weighted=is_weighted, n_isolated=2)
    labels = np.random.default_rng(0).integers(0, 3, 40)
    clusters = [set(np.flatnonzero(labels == r).tolist()) for r in range(3)]
    expected = networkx.community.modularity(networkx.from_scipy_sparse_array(graph.to_scipy()), clusters)
    assert suggestion._modularity(graph, labels, 3) == pytest.approx(expected)


def test_the_same_seed_gives_the_same_curve(four):
    assert suggest_n_clusters(FOUR, range(2, 7), random_state=0) == four


def test_a_candidate_does_not_depend_on_those_after_it(four):
    assert suggest_n_clusters(FOUR, [2, 3], random_state=0).curve == four.curve[:2]


def test_text_and_json(four):
    plain = json.loads(json.dumps(four.to_dict(), allow_nan=False))
    assert plain["n_clusters"] == 4
    assert plain["curve"][2]["score"] == pytest.approx(four.curve[2].score)
    lines = str(four).splitlines()
    assert len(lines) == 1 + 5 + 1
    assert [line.split()[0] for line in lines if line.endswith("*")] == ["4"]
    assert lines[-1] == four.reason


def test_an_infinite_energy_is_none_in_json():
    point = CurvePoint(3, np.inf, 1.0, 0.5)
    assert Suggestion(3, (point,), "").to_dict()["curve"][0]["energy"] is None


def test_words_for_a_peak_at_the_end_a_close_second_and_chance():
    def reason(*curve: tuple[int, float, float, float]) -> str:
        return suggestion._suggestion(tuple(CurvePoint(*point) for point in curve), is_complete=True).reason

    assert "It is the largest candidate" in reason((2, 1.0, 1.0, 0.5), (3, 1.0, 1.0, 0.7))
    assert "largest" not in reason((2, 1.0, 1.0, 0.7), (3, 1.0, 1.0, 0.5))
    assert "Close behind: 3." in reason((2, 1.0, 1.0, 0.7), (3, 1.0, 1.0, 0.695), (4, 1.0, 1.0, 0.1))
    assert "stands out of chance" in reason((2, 1.0, 0.1, 0.2))
    assert reason((2, 1.0, 1.0, 0.7), (3, 1.0, 1.0, 0.7)).startswith("2 clusters")


def test_observers_see_every_candidate_and_can_stop():
    seen: list[Progress] = []

    def stop_after_two(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 2

    found = suggest_n_clusters(FOUR, range(2, 7), random_state=0, observers=[stop_after_two])
    assert [(step.iterations, step.max_iter, step.phase) for step in seen] == [(1, 5, "suggest"), (2, 5, "suggest")]
    assert [point.n_clusters for point in found.curve] == [2, 3]
    assert not found.is_complete
    assert "Not all candidates were tried." in found.reason


def test_an_interrupt_returns_what_is_there(monkeypatch, four):
    search, calls = suggestion.best_of_starts, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return search(*arguments, **options)

    monkeypatch.setattr(suggestion, "best_of_starts", interrupted)
    with pytest.warns(InterruptedRunWarning, match="candidates done so far"):
        found = suggest_n_clusters(FOUR, range(2, 7), random_state=0)
    assert found.curve == four.curve[:2]
    assert not found.is_complete


def test_a_run_that_an_interrupt_cut_short_does_not_count(monkeypatch):
    search = suggestion.best_of_starts

    def cut_short(problem, plan, *, rng):
        def press(progress: Progress) -> None:
            if problem.n_clusters == 3:
                raise KeyboardInterrupt

        return search(problem, plan, rng=rng, observers=[press])

    monkeypatch.setattr(suggestion, "best_of_starts", cut_short)
    with pytest.warns(InterruptedRunWarning, match="candidates done so far") as caught:
        found = suggest_n_clusters(FOUR, [2, 3, 4], random_state=0)
    assert len(caught) == 1
    assert [point.n_clusters for point in found.curve] == [2]


def test_an_interrupt_before_the_first_candidate_is_passed_on(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(suggestion, "best_of_starts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        suggest_n_clusters(FOUR, [2])


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "candidates is empty"),
        ([1, 2], "between 2 and the 240 vertices; found 1"),
        ([2, 500], "between 2 and the 240 vertices; found 500"),
        ([2.5], "n_clusters must be a whole number"),
    ],
)
def test_bad_candidates_are_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        suggest_n_clusters(FOUR, candidates)


def test_a_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="without edges"):
        suggest_n_clusters(Graph.from_any(np.zeros((4, 4))), [2])


def test_as_many_clusters_as_vertices():
    triangle = Graph.from_edges([(0, 1), (1, 2), (0, 2)])
    assert {point.n_clusters for point in suggest_n_clusters(triangle, [2, 3], random_state=0).curve} == {2, 3}
