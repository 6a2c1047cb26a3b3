"""Greedy moves against brute force: (P) never rises, what is fixed stays, and nothing is left to gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import planted_graph, problems, random_graph
from tautcut.graph import Graph
from tautcut.kernels.cpu import moves
from tautcut.kernels.cpu.annealing import anneal, tabu
from tautcut.kernels.cpu.moves import bisect, contract_matching, descend, finest_level
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


@pytest.mark.parametrize("seed", range(5))
def test_no_improving_move_is_left_on_a_larger_graph(seed):
    problem = Problem(random_graph(80, 200, seed=seed, is_weighted=True), 4)
    labels = np.random.default_rng(seed).integers(0, 4, 80)
    smallest = np.full(4, 3)
    moved = greedy_moves(problem, labels, smallest=smallest)
    assert problem.partition(moved).energy < problem.partition(labels).energy
    assert improving_moves(problem, moved, smallest) == []


def test_a_spoilt_planted_partition_is_repaired():
    truth = np.repeat(np.arange(3), 40)
    problem = Problem(planted_graph(3, 40, seed=0), 3)
    spoilt = truth.copy()
    spoilt[::7] = (spoilt[::7] + 1) % 3
    moved = greedy_moves(problem, spoilt, smallest=np.ones(3, dtype=np.int64))
    assert problem.partition(moved).energy <= problem.partition(truth).energy


@given(problems(has_labels=True), st.data())
def test_a_contraction_keeps_masses_and_the_cut_of_every_coarse_partition(problem, data):
    level = finest_level(problem.graph, problem.is_labelled)
    groups = draw_labels(problem, data)
    coarse, parent = contract_matching(level, groups, heaviest=3.0, rng=np.random.default_rng(0))
    assert coarse.masses == pytest.approx(np.bincount(parent, problem.graph.masses))
    assert all(len(set(groups[parent == c])) == 1 for c in range(coarse.n_vertices))
    coarse_labels = np.arange(coarse.n_vertices) % problem.n_clusters
    bounds = np.full(problem.n_clusters, np.inf)  # nothing may move
    _, cut, masses = descend(coarse, coarse_labels, problem.lam, bounds)
    fine = coarse_labels[parent]
    np.testing.assert_allclose(cut, cuts(problem.graph, fine, problem.n_clusters), atol=1e-9)
    assert masses == pytest.approx(problem.partition(fine).masses)


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


# ---------------------------------------------------------------- hubs


def star(n: int) -> Graph:
    return Graph.from_edges([(0, i) for i in range(1, n)])


def shared_neighbors(graph: Graph) -> np.ndarray:
    A = (graph.to_scipy() > 0).astype(float)
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    return np.asarray((A @ A)[rows, graph.indices]).ravel()


@pytest.mark.parametrize("is_weighted", [False, True])
def test_an_edge_is_rated_by_the_neighbors_that_its_ends_share(is_weighted):
    graph = random_graph(80, 600, seed=3, is_weighted=is_weighted, n_isolated=2)
    level = finest_level(graph, np.zeros(80, bool))
    np.testing.assert_array_equal(level.rating, graph.weights * (0.1 + shared_neighbors(graph)))


def test_what_two_hubs_share_is_estimated():
    """Hubs that are joined to one another and to all leaves; what a leaf and a hub share, the hubs, is counted."""
    n_hubs, n_leaves = 60, 2 * moves._MOST_LOOKS + 100
    n = n_hubs + n_leaves
    edges = [(hub, other) for hub in range(n_hubs) for other in range(hub + 1, n)]
    graph = Graph.from_edges(edges)
    rating = finest_level(graph, np.zeros(n, bool)).rating
    joins_hubs = (np.repeat(np.arange(n), np.diff(graph.indptr)) < n_hubs) & (graph.indices < n_hubs)
    assert joins_hubs.sum() == n_hubs * (n_hubs - 1)
    assert rating[joins_hubs] == pytest.approx(np.full(joins_hubs.sum(), n - 2), rel=0.05)
    assert rating[~joins_hubs] == pytest.approx(np.full((~joins_hubs).sum(), 0.1 + n_hubs - 1))


@pytest.mark.parametrize("n_groups", [1, 3])
def test_the_leaves_of_a_star_are_paired(n_groups):
    level = finest_level(star(400), np.zeros(400, bool))
    groups = np.arange(400) % n_groups
    coarse, parent = contract_matching(level, groups, heaviest=40.0, rng=np.random.default_rng(0))
    assert coarse.n_vertices <= 210
    assert coarse.masses.max() <= 2
    assert all(np.unique(groups[parent == c]).size == 1 for c in range(coarse.n_vertices))


def test_vertices_whose_masses_multiply_to_nothing_are_paired():
    masses = np.where(np.arange(40) < 20, 1e-200, 1.0)
    level = finest_level(planted_graph(4, 10, seed=0).with_masses(masses), np.zeros(40, np.bool_))
    coarse, _ = contract_matching(level, np.zeros(40, np.int64), heaviest=2.0, rng=np.random.default_rng(0))
    assert coarse.n_vertices <= 28
    assert coarse.masses.sum() == pytest.approx(masses.sum())


def test_vertices_without_edges_are_paired():
    level = finest_level(Graph.from_edges([(0, 1)], n_vertices=100), np.zeros(100, bool))
    coarse, _ = contract_matching(level, np.zeros(100, np.int64), heaviest=5.0, rng=np.random.default_rng(0))
    assert coarse.n_vertices <= 51


# ---------------------------------------------------------------- tabu search


@given(problems(has_labels=True), st.data())
def test_a_tabu_search_never_ends_higher_and_keeps_what_is_fixed(problem, data):
    labels = draw_labels(problem, data)
    level = finest_level(problem.graph, problem.is_labelled)
    smallest = np.array([data.draw(st.integers(0, 3)) for _ in range(problem.n_clusters)], dtype=float)
    smallest = np.minimum(smallest, problem.partition(labels).masses)
    moved, cut, masses = tabu(level, labels, problem.lam, smallest, ban=0.1, work=2_000, seed=1)
    found = problem.partition(moved)
    assert found.energy <= problem.partition(labels).energy * (1 + 1e-9)
    np.testing.assert_allclose(cut, cuts(problem.graph, moved, problem.n_clusters), atol=1e-9)
    assert masses == pytest.approx(found.masses)
    assert (found.masses >= smallest * (1 - 1e-9)).all()
    assert np.array_equal(moved[problem.is_labelled], np.asarray(problem.labels)[problem.is_labelled])
    assert improving_moves(problem, moved, smallest) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_tabu_search_leaves_what_single_moves_do_not(seed):
    problem = Problem(random_graph(80, 200, seed=seed), 4)
    level = finest_level(problem.graph, problem.is_labelled)
    labels, smallest = np.random.default_rng(seed).integers(0, 4, 80), np.full(4, 5.0)
    settled, _, _ = descend(level, labels, problem.lam, smallest)
    walked, _, _ = tabu(level, settled, problem.lam, smallest, ban=0.1, work=100_000, seed=seed)
    assert problem.partition(walked).energy < problem.partition(settled).energy


# ---------------------------------------------------------------- weights of very different sizes


@pytest.mark.parametrize("search", ["descend", "anneal", "tabu"])
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
        found, cut, _ = tabu(level, labels, lam, smallest, ban=0.1, work=20_000, seed=1)
    np.testing.assert_allclose(cut, cuts(graph, found, 3), rtol=1e-12)
    assert (cut > 0).all()
