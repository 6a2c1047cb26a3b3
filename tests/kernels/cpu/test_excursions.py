"""Excursions: pockets change place that no single move would bring over; (P) never rises, sizes and labels are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import graphs, planted_graph
from tautcut.graph import Graph
from tautcut.kernels.cpu import excursions as module
from tautcut.kernels.cpu.coarsening import finest_level
from tautcut.kernels.cpu.excursions import excursions
from tautcut.kernels.cpu.moves import descend
from tautcut.problem import Partition, Problem

N, POCKET = 40, 6  # vertices of each of two blocks, and of a clique between them


def after_excursions(problem: Problem, labels: np.ndarray, *, smallest: float = 1.0) -> Partition:
    level, bounds = finest_level(problem.graph, problem.is_labelled), np.full(problem.n_clusters, smallest)
    found, cut, masses = excursions(level, labels, problem.lam, bounds)
    partition = problem.partition(found)
    assert masses == pytest.approx(partition.masses)
    assert problem.measured(found, cut).energy == pytest.approx(partition.energy)
    return partition


def two_blocks_and_a_pocket() -> tuple[Graph, np.ndarray]:
    """A clique that two edges of each vertex join to the second block and one to the first; and its labels there."""
    blocks = planted_graph(2, N, seed=0).to_scipy().tocoo()
    edges = {(i, j) for i, j in zip(blocks.row.tolist(), blocks.col.tolist(), strict=True) if i < j}
    pocket = range(2 * N, 2 * N + POCKET)
    edges |= {(i, j) for i in pocket for j in pocket if i < j}
    edges |= {(N - 1 - k, i) for k, i in enumerate(pocket)}
    edges |= {(N + 2 * k + step, i) for k, i in enumerate(pocket) for step in range(2)}
    return Graph.from_edges(sorted(edges)), np.repeat([0, 1, 1], [N, N, POCKET])


@pytest.fixture
def pocket() -> tuple[Problem, np.ndarray, np.ndarray]:
    """The problem, the labels with the pocket in the wrong cluster, and the right ones."""
    graph, right = two_blocks_and_a_pocket()
    wrong = np.where(np.arange(right.size) >= 2 * N, 0, right)
    return Problem(graph, 2), wrong, right


def test_a_pocket_changes_place_that_no_single_move_would_bring_over(pocket):
    problem, wrong, right = pocket
    level = finest_level(problem.graph, problem.is_labelled)
    alone, _, _ = descend(level, wrong, problem.lam, np.ones(2))
    assert (alone[2 * N :] == 0).all()
    found = after_excursions(problem, alone)
    assert (found.labels[2 * N :] == 1).all()
    assert found.energy <= problem.partition(right).energy * (1 + 1e-9) < problem.partition(alone).energy


def test_a_climb_that_is_too_high_ends_an_excursion(pocket, monkeypatch):
    problem, wrong, _ = pocket
    alone, _, _ = descend(finest_level(problem.graph, problem.is_labelled), wrong, problem.lam, np.ones(2))
    monkeypatch.setattr(module, "_CLIMB", 0.0)
    np.testing.assert_array_equal(after_excursions(problem, alone).labels, alone)


def test_hubs_stay(pocket, monkeypatch):
    problem, wrong, _ = pocket
    alone, _, _ = descend(finest_level(problem.graph, problem.is_labelled), wrong, problem.lam, np.ones(2))
    monkeypatch.setattr(module, "_HUB", POCKET)  # each vertex of the pocket has more neighbours
    np.testing.assert_array_equal(after_excursions(problem, alone).labels[2 * N :], alone[2 * N :])


def test_no_cluster_becomes_too_small(pocket):
    problem, wrong, _ = pocket
    first = int((wrong == 0).sum())
    assert after_excursions(problem, wrong, smallest=first - POCKET + 1).masses[0] > first - POCKET


def test_known_labels_stay():
    graph, right = two_blocks_and_a_pocket()
    wrong = np.where(np.arange(right.size) >= 2 * N, 0, right)
    known = np.where(np.arange(right.size) >= 2 * N, 0, -1)
    known[N] = 1
    found = after_excursions(Problem(graph, 2, labels=known), wrong)
    assert (found.labels[2 * N :] == 0).all()


def test_weights_over_many_decades_are_left_alone(pocket):
    problem, wrong, _ = pocket
    W = problem.graph.to_scipy().tolil()
    W[0, 1] = W[1, 0] = 1e9
    heavy = Problem(Graph.from_any(W.tocsr()), 2)
    np.testing.assert_array_equal(after_excursions(heavy, wrong).labels, wrong)


@given(graphs(min_vertices=3, max_vertices=14), st.integers(2, 4), st.booleans(), st.data())
def test_they_never_raise_the_energy(graph, R, has_masses, data):
    n = graph.n_vertices
    if has_masses:
        graph = graph.with_masses(data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n)))
    labels = np.array(data.draw(st.lists(st.integers(0, R - 1), min_size=n, max_size=n)))
    labels.setflags(write=False)
    problem = Problem(graph, R)
    before, after = problem.partition(labels), after_excursions(problem, labels)
    assert after.energy <= before.energy * (1 + 1e-9)
    assert (after.masses >= np.minimum(before.masses, 1.0) - 1e-9).all()
