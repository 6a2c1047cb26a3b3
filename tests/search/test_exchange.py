"""Vertices change places between clusters whose sizes stay, where no move of one vertex lowers (P)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from strategies import random_graph
from tautcut import Graph, Problem
from tautcut.problem import Partition
from tautcut.search.exchange import exchanged

FREE = np.zeros(3)


def cliques(size: int, number: int) -> Graph:
    """Cliques in a ring, each joined to the next by a light edge."""
    edges = [(c * size + i, c * size + j, 1.0) for c in range(number) for i, j in combinations(range(size), 2)]
    bridges = [(c * size, (c + 1) % number * size + 1, 0.1) for c in range(number)]
    return weighted(edges + bridges)


def weighted(edges: list[tuple[int, int, float]]) -> Graph:
    return Graph.from_edges([edge[:2] for edge in edges], [edge[2] for edge in edges])


def after(problem: Problem, labels: list[int], smallest: np.ndarray = FREE) -> tuple[Partition, Partition]:
    before = problem.partition(labels)
    return before, exchanged(problem, before, smallest[: problem.n_clusters])


@pytest.mark.parametrize("n_astray", [1, 2])
@pytest.mark.parametrize("R", [2, 3])
def test_vertices_that_are_astray_in_a_ring_are_put_back(R: int, n_astray: int) -> None:
    size = 6
    wanted = np.repeat(np.arange(R), size)
    astray = wanted.copy()
    for r in range(R):
        astray[r * size + 2 : r * size + 2 + n_astray] = (r + 1) % R
    before, found = after(Problem(cliques(size, R), R), astray.tolist())
    assert found.energy < before.energy
    assert found.labels.tolist() == wanted.tolist()


def test_two_that_are_joined_go_together() -> None:
    # Each pair hangs together by a heavy edge, and by lighter ones on a cluster: alone, neither half would go.
    edges = [(i, j, 1.0) for first in (0, 6) for i, j in combinations(range(first, first + 6), 2)]
    edges += [(12, 13, 5.0), (14, 15, 5.0), (12, 0, 1.0), (13, 1, 1.0), (14, 6, 1.0), (15, 7, 1.0)]
    problem = Problem(weighted(edges), 2)
    wanted = [0] * 6 + [1] * 6 + [0, 0, 1, 1]
    before, found = after(problem, [0] * 6 + [1] * 6 + [1, 1, 0, 0])
    for i, j in [(i, j) for i in (12, 13) for j in (14, 15)]:
        swapped = before.labels.copy()
        swapped[[i, j]] = swapped[[j, i]]
        assert problem.partition(swapped).energy > before.energy
    assert found.labels.tolist() == wanted


@pytest.mark.parametrize("seed", range(5))
def test_sizes_stay_and_no_swap_of_two_is_left(seed: int) -> None:
    problem = Problem(random_graph(30, 60, seed=seed), 3)
    labels = np.random.default_rng(seed).permutation(np.arange(30) % 3)
    before, found = after(problem, labels.tolist())
    assert found.energy <= before.energy
    assert found.sizes.tolist() == before.sizes.tolist()
    for i, j in combinations(range(30), 2):
        swapped = found.labels.copy()
        swapped[[i, j]] = swapped[[j, i]]
        assert problem.partition(swapped).energy >= found.energy * (1 - 1e-9)


def test_no_cluster_falls_below_its_smallest_mass() -> None:
    graph = cliques(6, 2)
    heavy = graph.with_masses(np.where(np.arange(12) == 8, 5.0, 1.0))
    problem = Problem(heavy, 2)
    astray = np.repeat([0, 1], 6)
    astray[[2, 8]] = 1, 0
    before = problem.partition(astray)
    smallest = before.masses - [0.5, 0.0]
    free, bound = exchanged(problem, before, np.zeros(2)), exchanged(problem, before, smallest)
    assert (free.masses < smallest).any()
    assert (bound.masses >= smallest).all()
    assert free.energy < bound.energy < before.energy
