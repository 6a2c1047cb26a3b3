"""A graph in pieces is cut for nothing where whole pieces make up clusters that are large enough."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tautcut import Graph, Problem
from tautcut.algorithm.results import Result
from tautcut.search.driver import best_of_starts
from tautcut.search.pieces import packed_pieces
from tautcut.search.plan import Plan


def cliques(*sizes: int) -> Graph:
    """Cliques of these sizes, one after another."""
    return Graph.from_any(sp.block_diag([np.ones((n, n)) - np.eye(n) for n in sizes]).tocsr())


def best(graph: Graph, n_clusters: int, seed: int = 0, **settings: int) -> Result:
    return best_of_starts(Problem(graph, n_clusters), Plan(**settings), rng=np.random.default_rng(seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("n_copies", [2, 3])
def test_a_graph_written_down_several_times_is_divided_into_its_copies(n_copies: int) -> None:
    sizes = (30, 9, 4)
    result = best(cliques(*sizes * n_copies), n_copies)
    assert result.partition.energy == 0
    np.testing.assert_array_equal(result.partition.labels, np.repeat(np.arange(n_copies), sum(sizes)))
    assert result.agreement is not None
    assert result.agreement.is_proved


def test_the_answer_is_the_same_for_every_seed_and_its_memberships_agree() -> None:
    graph = cliques(12, 5, 7, 11, 3)
    first, second = best(graph, 3, seed=0), best(graph, 3, seed=1)
    np.testing.assert_array_equal(first.partition.labels, second.partition.labels)
    np.testing.assert_array_equal(first.memberships.argmax(axis=1), first.partition.labels)


def test_pieces_that_leave_a_cluster_too_small_are_not_packed() -> None:
    problem = Problem(cliques(60, 3, 2), 3)
    assert packed_pieces(problem, np.full(3, 4.0)) is None
    labels = packed_pieces(problem, np.full(3, 1.0))
    assert labels is not None
    assert problem.partition(labels).energy == 0
    assert best(problem.graph, 3).partition.energy > 0
    assert best(problem.graph, 3, min_cluster_size=1).partition.energy == 0


def test_fewer_pieces_than_clusters_are_not_packed() -> None:
    assert packed_pieces(Problem(cliques(20), 2), np.zeros(2)) is None


def test_clusters_are_filled_up_to_their_shares() -> None:
    graph = cliques(*[5] * 10)
    problem = Problem(graph, 2, lam=[0.25, 4.0])  # shares of 0.8 and 0.2
    labels = packed_pieces(problem, np.zeros(2))
    assert labels is not None
    np.testing.assert_array_equal(np.bincount(labels), [40, 10])
