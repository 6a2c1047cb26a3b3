"""L: never below ‖K‖₂, or the primal–dual method may diverge; and not far above, or it is slow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from strategies import graphs, random_graph
from tautcut.graph import Graph
from tautcut.kernels.protocol import gradient_norm
from tautcut.kernels.reference import gradient_matrix


def true_norm(graph: Graph) -> float:
    return float(np.linalg.norm(gradient_matrix(graph).toarray(), 2))


@given(graphs(max_vertices=12))
def test_the_bound_holds_and_is_never_worse_than_root_two(graph):
    """λ_max(D + W∘W) ≤ 2 max degree ≤ 2 λ_max(D − W∘W): no graph can do worse."""
    norm = true_norm(graph)
    bound = gradient_norm(graph, graph.weights)
    assert norm * (1 - 1e-12) <= bound <= np.sqrt(2) * norm * (1 + 1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_edges", [60, 200, 800])
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_close_on_sparse_graphs(n_edges, is_weighted, seed):
    graph = random_graph(100, n_edges, seed=seed, is_weighted=is_weighted, n_isolated=3)
    norm = true_norm(graph)
    assert norm <= gradient_norm(graph, graph.weights) <= 1.3 * norm


def test_the_bound_is_tight_on_a_star_with_spread_weights():
    graph = Graph.from_edges([(0, i) for i in range(1, 30)], np.geomspace(1e-3, 1e3, 29))
    assert gradient_norm(graph, graph.weights) == pytest.approx(true_norm(graph), rel=1e-3)


def test_a_graph_without_edges_has_norm_one():
    assert gradient_norm(Graph.from_edges([], n_vertices=3), []) == 1.0


@given(graphs())
def test_weights_are_scaled_to_mean_one(graph):
    weights, unit = graph.scaled_weights()
    assert weights.mean() == pytest.approx(1)
    assert weights * unit == pytest.approx(np.asarray(graph.weights))
