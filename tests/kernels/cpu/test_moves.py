"""Greedy moves against brute force: (P) never rises, what is fixed stays, and nothing is left to gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import planted_graph, problems, random_graph
from tautcut.graph import Graph
from tautcut.kernels.cpu import moves, sharing
from tautcut.kernels.cpu.annealing import anneal
from tautcut.kernels.cpu.coarsening import finest_level
from tautcut.kernels.cpu.moves import bisect, descend
from tautcut.kernels.cpu.tabu import SHORT, tabu
from tautcut.problem import Problem, cuts


def greedy_moves(problem: Problem, labels: np.ndarray, *, smallest: np.ndarray) -> np.ndarray:
    """Labels where no single move lowers (P)."""
    level = finest_level(problem.graph, problem.is_labelled)
    moved, cut, masses = descend(level, labels, problem.lam, smallest.astype(float))
    partition = problem.partition(moved)
    np.testing.assert_allclose(cut, cuts(problem.graph, moved, problem.n_clusters), atol=1e-9)
    assert masses == pytest.approx(partition.masses)
    return moved


def draw_labels(problem: Problem, data: st.DataObject) -> np.ndarray:
    """A labelling that respects the fixed labels."""
    anything = st.lists(
        st.integers(0, problem.n_clusters - 1), min_size=problem.n_vertices, max_size=problem.n_vertices
    )
    return np.where(problem.is_labelled, np.asarray(problem.labels), np.array(data.draw(anything)))


def improving_moves(problem: Problem, labels: np.ndarray, smallest: np.ndarray) -> list[tuple[int, int]]:
    """Every allowed move to a neighbouring cluster that lowers (P), each priced from scratch."""
    W = problem.graph.to_scipy().toarray()
    energy = problem.partition(labels).energy
    masses, m = problem.partition(labels).masses, problem.graph.masses
    found = []
    for i in np.flatnonzero(~problem.is_labelled & (masses[labels] - m >= smallest[labels] * (1 + 1e-9))):
        for r in set(labels[W[i] > 0]) - {labels[i]}:
            moved = labels.copy()
            moved[i] = r
            if problem.partition(moved).energy < energy * (1 - 1e-9):
                found.append((int(i), int(r)))
    return found


@given(problems(has_labels=True), st.data())
def test_the_energy_never_rises_and_constraints_hold(problem, data):
    labels = draw_labels(problem, data)
    smallest = np.array([data.draw(st.integers(0, 3)) for _ in range(problem.n_clusters)])
    before = labels.copy()
    moved = greedy_moves(problem, labels, smallest=smallest)
    old, new = problem.partition(before).masses, problem.partition(moved).masses
    assert problem.partition(moved).energy <= problem.partition(before).energy * (1 + 1e-9)
    assert np.array_equal(moved[problem.is_labelled], np.asarray(problem.labels)[problem.is_labelled])
    assert (new >= np.minimum(old, smallest) * (1 - 1e-9)).all()
    assert np.array_equal(labels, before)


@given(problems(has_labels=True), st.data())
def test_no_improving_move_is_left(problem, data):
    smallest = np.ones(problem.n_clusters, dtype=np.int64)
    moved = greedy_moves(problem, draw_labels(problem, data), smallest=smallest)
    assert improving_moves(problem, moved, smallest) == []


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_improving_move_is_left_on_a_larger_graph(seed, is_long, monkeypatch):
    monkeypatch.setattr(moves, "_LONG", 0 if is_long else 10**9)
    problem = Problem(random_graph(80, 200, seed=seed, is_weighted=True), 4)
    labels = np.random.default_rng(seed).integers(0, 4, 80)
    smallest = np.full(4, 3)
    moved = greedy_moves(problem, labels, smallest=smallest)
    assert problem.partition(moved).energy < problem.partition(labels).energy
    assert improving_moves(problem, moved, smallest) == []


def test_looking_ahead_gives_the_same_bits_at_any_number_of_threads(monkeypatch):
    problem = Problem(planted_graph(3, 60, seed=1), 3)
    labels = np.random.default_rng(0).integers(0, 3, 180)
    monkeypatch.setattr(moves, "_LONG", 0)
    monkeypatch.setattr(sharing, "_LEAST_SHARE", 10)
    found = []
    for n_threads in ("1", "4"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", n_threads)
        found.append(greedy_moves(problem, labels, smallest=np.ones(3)))
    np.testing.assert_array_equal(*found)


def test_a_spoilt_planted_partition_is_repaired():
    truth = np.repeat(np.arange(3), 40)
    problem = Problem(planted_graph(3, 40, seed=0), 3)
    spoilt = truth.copy()
    spoilt[::7] = (spoilt[::7] + 1) % 3
    moved = greedy_moves(problem, spoilt, smallest=np.ones(3, dtype=np.int64))
    assert problem.partition(moved).energy <= problem.partition(truth).energy


@pytest.mark.parametrize("seed", range(5))
def test_a_bisection_finds_the_seam(seed):
    """Two rings of 12 and of 20, each vertex joined to four others, and one edge between them."""
    rings = [(o + i, o + (i + d) % n) for o, n in ((0, 12), (12, 20)) for i in range(n) for d in (1, 2)]
    graph = Graph.from_edges([*rings, (0, 12)])
    level = finest_level(graph, np.zeros(32, dtype=bool))
    side = bisect(level, rng=np.random.default_rng(seed))
    assert np.flatnonzero(side).tolist() in (list(range(12)), list(range(12, 32)))


@given(st.integers(2, 40), st.integers(0, 60), st.integers(0, 2**31))
def test_both_sides_of_a_bisection_have_a_vertex(n, n_edges, seed):
    graph = random_graph(n, n_edges, seed=seed)
    level = finest_level(graph, np.zeros(n, dtype=bool))
    first, second = (bisect(level, rng=np.random.default_rng(seed)) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.ceil(0.1 * n) <= first.sum() <= n - np.ceil(0.1 * n)


# ---------------------------------------------------------------- tabu search


@given(problems(has_labels=True), st.sampled_from([0, SHORT]), st.data())
def test_a_tabu_search_never_ends_higher_and_keeps_what_is_fixed(problem, short, data):
    labels = draw_labels(problem, data)
    level = finest_level(problem.graph, problem.is_labelled)
    smallest = np.array([data.draw(st.integers(0, 3)) for _ in range(problem.n_clusters)], dtype=float)
    smallest = np.minimum(smallest, problem.partition(labels).masses)
    moved, cut, masses = tabu(level, labels, problem.lam, smallest, ban=0.1, work=2_000, seed=1, short=short)
    found = problem.partition(moved)
    assert found.energy <= problem.partition(labels).energy * (1 + 1e-9)
    np.testing.assert_allclose(cut, cuts(problem.graph, moved, problem.n_clusters), atol=1e-9)
    assert masses == pytest.approx(found.masses)
    assert (found.masses >= smallest * (1 - 1e-9)).all()
    assert np.array_equal(moved[problem.is_labelled], np.asarray(problem.labels)[problem.is_labelled])
    assert improving_moves(problem, moved, smallest) == []


@pytest.mark.parametrize("short", [0, SHORT], ids=["buckets", "looks"])
@pytest.mark.parametrize("seed", range(3))
def test_a_tabu_search_leaves_what_single_moves_do_not(seed, short):
    problem = Problem(random_graph(80, 200, seed=seed), 4)
    level = finest_level(problem.graph, problem.is_labelled)
    labels, smallest = np.random.default_rng(seed).integers(0, 4, 80), np.full(4, 5.0)
    settled, _, _ = descend(level, labels, problem.lam, smallest)
    walked, _, _ = tabu(level, settled, problem.lam, smallest, ban=0.1, work=100_000, seed=seed, short=short)
    assert problem.partition(walked).energy < problem.partition(settled).energy


# ---------------------------------------------------------------- weights of very different sizes


@pytest.mark.parametrize("search", ["descend", "anneal", "looks", "buckets"])
def test_cuts_of_very_different_weights_are_those_of_the_labels(search):
    rng = np.random.default_rng(0)
    edges = [(i, j) for i in range(40) for j in range(i)]
    graph = Graph.from_edges(edges, 10.0 ** rng.uniform(-200, 0, len(edges)))
    level = finest_level(graph, np.zeros(40, bool))
    labels, lam, smallest = rng.integers(0, 3, 40), np.full(3, 2.0), np.ones(3)
    if search == "descend":
        found, cut, _ = descend(level, labels, lam, smallest)
    elif search == "anneal":
        found, cut, _ = anneal(level, labels, lam, smallest, hot=1.0, cold=0.01, work=20_000, seed=1)
    else:
        found, cut, _ = tabu(
            level, labels, lam, smallest, ban=0.1, work=20_000, seed=1, short=SHORT * (search == "looks")
        )
    np.testing.assert_allclose(cut, cuts(graph, found, 3), rtol=1e-12)
    assert (cut > 0).all()
