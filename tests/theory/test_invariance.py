"""What must not matter: the numbering of vertices, the names of clusters, the unit of the weights.

The reference engine serves where another order of additions would be amplified by the iteration; powers of
two, which rounding does not see, where the bits themselves must agree.
"""

from __future__ import annotations

import numpy as np
import pytest

from strategies import noisy_start, planted_graph
from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.problem import Problem

R, SIZE = 3, 20
N = R * SIZE
TRUTH = np.repeat(np.arange(R), SIZE)
LAM = np.array([1.5, 2.0, 3.0])
STOP = StopRule(max_iter=150)
SEEDS = range(6)


def solve_reference(graph: Graph, start: np.ndarray, lam: np.ndarray, labels: np.ndarray | None = None) -> Result:
    return solve(Problem(graph, R, lam, labels), start, stop=STOP, device="reference")


def instance(seed: int) -> tuple[Graph, np.ndarray, np.ndarray]:
    """A weighted graph with three blocks, a start that is wrong about a third of it, a few fixed labels."""
    graph = planted_graph(R, SIZE, seed=seed, is_weighted=True)
    labels = np.where(np.arange(N) % 15 == 0, TRUTH, -1)
    return graph, noisy_start(TRUTH, R, seed=seed + 100, trust=0.3), labels


@pytest.mark.parametrize("seed", SEEDS)
def test_vertex_permutation_permutes_the_answer(seed):
    graph, start, labels = instance(seed)
    order = np.random.default_rng(seed).permutation(N)
    shuffled = Graph.from_any(graph.to_scipy()[order][:, order])
    plain = solve_reference(graph, start, LAM, labels)
    moved = solve_reference(shuffled, start[order], LAM, labels[order])
    assert np.array_equal(moved.partition.labels, plain.partition.labels[order])
    assert moved.partition.energy == pytest.approx(plain.partition.energy)
    assert moved.relaxed_energy == pytest.approx(plain.relaxed_energy, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_label_renaming_renames_the_answer(seed):
    graph, start, labels = instance(seed)
    old_of_new = np.array([2, 0, 1])  # cluster c of the second run is cluster old_of_new[c] of the first
    new_of_old = np.argsort(old_of_new)
    renamed = np.where(labels >= 0, new_of_old[labels], -1)
    plain = solve_reference(graph, start, LAM, labels)
    other = solve_reference(graph, start[:, old_of_new], LAM[old_of_new], renamed)
    assert np.array_equal(other.partition.labels, new_of_old[plain.partition.labels])
    assert other.partition.energy == pytest.approx(plain.partition.energy)
    assert other.memberships == pytest.approx(plain.memberships[:, old_of_new], abs=1e-6)


@pytest.mark.parametrize("factor", [0.25, 1024.0, 2.0**-40])
@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float32"), ("cpu", "float64")])
def test_scaling_by_a_power_of_two_keeps_every_bit(device, dtype, factor):
    graph, start, _ = instance(0)
    scaled = Graph(graph.indptr, graph.indices, graph.weights * factor)
    plain = solve(Problem(graph, R), start, stop=STOP, device=device, dtype=dtype)
    other = solve(Problem(scaled, R), start, stop=STOP, device=device, dtype=dtype)
    assert np.array_equal(other.memberships, plain.memberships)
    assert np.array_equal(other.partition.labels, plain.partition.labels)
    assert other.partition.energy == factor * plain.partition.energy
    assert other.relaxed_energy == factor * plain.relaxed_energy
    assert other.status == plain.status


@pytest.mark.parametrize("seed", SEEDS)
def test_scaling_by_any_factor_keeps_the_labels(seed):
    graph, start, labels = instance(seed)
    scaled = Graph(graph.indptr, graph.indices, graph.weights * 0.3)
    plain = solve_reference(graph, start, LAM, labels)
    other = solve_reference(scaled, start, LAM, labels)
    assert np.array_equal(other.partition.labels, plain.partition.labels)
    assert other.partition.energy == pytest.approx(0.3 * plain.partition.energy)
    assert other.relaxed_energy == pytest.approx(0.3 * plain.relaxed_energy, rel=1e-6)
