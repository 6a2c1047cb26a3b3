"""How small clusters may be: a quarter of what is expected, unless smaller ones stand apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strategies import planted_graph
from tautcut import Graph, MTVClustering, Problem
from tautcut.search import bounds, partitioners
from tautcut.search.bounds import with_bounds
from tautcut.search.driver import best_of_starts
from tautcut.search.plan import Plan, Task


def clumps(sizes: list[int], *, between: int = 2, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Dense clumps of these sizes in a chain, with so many edges from each to the next."""
    rng = np.random.default_rng(seed)
    planted = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum([0, *sizes[:-1]])
    edges = [np.empty((0, 2), dtype=np.int64)]
    for begin, n in zip(first, sizes, strict=True):
        here = np.arange(n)
        edges += [begin + np.c_[here, (here + step) % n] for step in (1, 2)]
        edges.append(begin + rng.integers(0, n, (6 * n, 2)))
    for a in range(len(sizes) - 1):
        ends = [first[b] + rng.integers(0, sizes[b], between) for b in (a, a + 1)]
        edges.append(np.transpose(ends))
    pairs = np.unique(np.sort(np.concatenate(edges), axis=1), axis=0)
    return Graph.from_edges(pairs[pairs[:, 0] < pairs[:, 1]]), planted


def smallest(graph: Graph, R: int, **asked: Any) -> list[float]:
    return with_bounds(Task(Problem(graph, R), Plan(**asked))).smallest.tolist()


@pytest.mark.parametrize("sizes", [[400, 40], [300, 100, 15], [1500, 100, 80]])
@pytest.mark.parametrize("between", [0, 2])
def test_small_clusters_that_stand_apart_are_found(sizes, between):
    graph, planted = clumps(sizes, between=between)
    for seed in range(3):
        found = best_of_starts(Problem(graph, len(sizes)), Plan(), rng=np.random.default_rng(seed)).partition
        assert len(set(zip(planted, found.labels, strict=True))) == len(sizes)


def test_bounds_fall_to_a_twentieth_of_the_expected_size_and_no_lower_than_ten_vertices():
    assert smallest(clumps([1500, 100])[0], 2) == [40, 40]
    assert smallest(clumps([150, 14])[0], 2) == [10, 10]


def test_bounds_stay_a_quarter_where_clusters_are_large_enough():
    assert smallest(clumps([300, 100, 100])[0], 3) == [41] * 3
    assert smallest(planted_graph(3, 40, seed=0), 3) == [10] * 3


def test_a_cluster_that_is_too_small_stays_out():
    graph, _ = clumps([400, 400, 12], between=0)
    assert smallest(graph, 2) == [101, 101]
    assert smallest(clumps([800, 12])[0], 2) == [101, 101]


def test_a_cluster_that_saves_little_stays_out():
    assert smallest(clumps([400, 40], between=200)[0], 2) == [55, 55]


def test_whole_pieces_that_are_large_enough_need_no_lower_bounds():
    assert smallest(clumps([300, 280, 20], between=0)[0], 2) == [75, 75]


def test_what_the_user_asks_for_is_heeded():
    graph, _ = clumps([400, 40])
    assert smallest(graph, 2, min_cluster_size=55) == [55, 55]
    labels = MTVClustering(n_clusters=2, affinity="precomputed", min_cluster_size=55, random_state=0).fit_predict(graph)
    assert np.bincount(labels).min() >= 55


@pytest.mark.parametrize("asked", [{"algorithm": "paper"}, {"search": "none"}, {"init": "ncut"}])
def test_other_searches_have_the_usual_bounds(asked):
    task = Task(Problem(clumps([400, 40])[0], 2), Plan(**asked))
    assert with_bounds(task) is task


def test_with_labels_bounds_are_the_usual_ones():
    graph, planted = clumps([400, 40])
    labels = np.full(planted.size, -1)
    labels[[0, 400]] = 0, 1
    task = Task(Problem(graph, 2, labels=labels), Plan())
    assert with_bounds(task) is task


def test_without_a_partitioner_bounds_are_the_usual_ones(monkeypatch):
    monkeypatch.setattr(partitioners, "is_available", lambda: False)
    assert smallest(clumps([400, 40])[0], 2) == [55, 55]


def test_bounds_are_told_of_before_a_search_draws_anything(monkeypatch):
    """Where nothing changes, a search is the one that it would be without a look at its bounds."""
    problem = Problem(planted_graph(4, 60, seed=1), 4)
    found = best_of_starts(problem, Plan(), rng=np.random.default_rng(5)).partition.labels
    monkeypatch.setattr(bounds, "_can_glance", lambda task: False)
    np.testing.assert_array_equal(found, best_of_starts(problem, Plan(), rng=np.random.default_rng(5)).partition.labels)


def test_bounds_count_mass():
    graph, _ = clumps([400, 40])
    heavy = graph.with_masses(np.full(440, 2.5))
    assert smallest(heavy, 2) == [2.5 * 11, 2.5 * 11]
    uneven = graph.with_masses(np.r_[np.full(400, 1.0), np.full(40, 1.2)])
    np.testing.assert_allclose(smallest(uneven, 2), 0.05 * 448 / 2, rtol=1e-6)


def test_other_processes_have_the_same_bounds():
    problem = Problem(clumps([400, 40])[0], 2)
    here, there = (
        best_of_starts(problem, Plan(init="multilevel", n_jobs=n_jobs), rng=np.random.default_rng(1)).partition.labels
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(here, there)
    assert sorted(np.bincount(here)) == [40, 400]
