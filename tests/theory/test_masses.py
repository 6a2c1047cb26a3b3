"""What masses are: a common factor changes the unit alone, a vertex of mass 2 is two that no cut parts, and contraction
keeps (P) of every partition that respects it. Theorems 1 to 3 are tested with masses where they stand.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import graphs, memberships, noisy_start, planted_graph, problems, vertex_masses
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.kernels.cpu.enumeration import lowest_partition
from tautcut.kernels.devices import choose
from tautcut.problem import Problem, balanced_cut_energy
from tautcut.search.driver import best_of_starts
from tautcut.search.plan import Plan


def lifted(graph: Graph, heavy: float) -> tuple[Graph, np.ndarray]:
    """The graph with every vertex of mass m, a whole number, as a path of m vertices; and whose copies they are."""
    kinds = np.repeat(np.arange(graph.n_vertices), graph.masses.astype(int))
    first = np.searchsorted(kinds, np.arange(graph.n_vertices))
    W = graph.to_scipy().tocoo()
    once = W.row < W.col
    ties = np.flatnonzero(np.diff(kinds) == 0)
    edges = np.concatenate([np.c_[first[W.row[once]], first[W.col[once]]], np.c_[ties, ties + 1]])
    weights = np.concatenate([W.data[once], np.full(ties.size, heavy)])
    return Graph.from_edges(edges, weights, n_vertices=kinds.size), kinds


@st.composite
def divided(draw: st.DrawFn) -> tuple[Problem, np.ndarray]:
    """A problem with masses, and labels of which none is missing."""
    problem = draw(problems())
    n, R = problem.n_vertices, problem.n_clusters
    free = st.lists(st.integers(0, R - 1), min_size=n - R, max_size=n - R)
    return problem, np.array([*range(R), *draw(free)])


@given(divided(), st.floats(1e-3, 1e3))
def test_a_common_factor_of_the_masses_divides_the_energy(drawn, factor):
    problem, labels = drawn
    graph = problem.graph.with_masses(factor * problem.graph.masses)
    scaled = Problem(graph, problem.n_clusters, problem.lam).partition(labels)
    assert factor * scaled.energy == pytest.approx(problem.partition(labels).energy, rel=1e-9)


@given(divided(), st.data())
def test_contraction_keeps_the_energy_of_partitions_that_respect_it(drawn, data):
    problem, labels = drawn
    n = problem.n_vertices
    finer = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    groups = np.unique(labels * 3 + finer, return_inverse=True)[1]
    contracted = Problem(problem.graph.contracted(groups), problem.n_clusters, problem.lam)
    of_groups = np.empty(groups.max() + 1, dtype=int)
    of_groups[groups] = labels
    partition = contracted.partition(of_groups)
    assert partition.energy == pytest.approx(problem.partition(labels).energy, rel=1e-9, abs=1e-12)
    assert partition.masses == pytest.approx(problem.partition(labels).masses)
    assert contracted.total_mass == pytest.approx(problem.total_mass)


@given(graphs(max_vertices=6), st.data())
def test_a_vertex_of_mass_two_is_two_vertices_that_no_cut_parts(graph, data):
    """T and B of any f are those of f on the copies, and so is (P) of any partition; the lowest (P) is the same."""
    masses = data.draw(st.lists(st.integers(1, 3), min_size=graph.n_vertices, max_size=graph.n_vertices))
    graph = graph.with_masses(masses)
    copied, kinds = lifted(graph, heavy=1000.0)
    R = 2
    F = data.draw(memberships(graph.n_vertices, R))
    of_one, of_two = (choose(Problem(one, R), device="reference") for one in (graph, copied))
    one, two = of_one.measure(of_one.allocate(F)), of_two.measure(of_two.allocate(F[kinds]))
    assert one.T * of_one.weight_unit == pytest.approx(two.T * of_two.weight_unit, rel=1e-9, abs=1e-12)
    mass_units = [kernels.weight_unit / kernels.unit for kernels in (of_one, of_two)]
    assert one.B * mass_units[0] == pytest.approx(two.B * mass_units[1], rel=1e-9, abs=1e-12)
    assert one.median == pytest.approx(two.median)
    smallest = np.full(R, 1.0)
    lam = Problem(graph, R).lam
    best = lowest_partition(graph, lam, smallest)
    of_copies = lowest_partition(copied, lam, smallest)
    assert balanced_cut_energy(graph, best) == pytest.approx(balanced_cut_energy(copied, of_copies), rel=1e-9)
    assert balanced_cut_energy(copied, best[kinds]) == pytest.approx(balanced_cut_energy(graph, best), rel=1e-9)


@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float64"), ("cpu", "float32")])
@pytest.mark.parametrize("mass", [3.0, 0.1])
def test_equal_masses_change_no_bit_of_a_run(device, dtype, mass):
    graph = planted_graph(3, 30, seed=1, is_weighted=True)
    start = noisy_start(np.repeat(np.arange(3), 30), 3, seed=2, trust=0.3)
    stop = StopRule(max_iter=100)
    plain = solve(Problem(graph, 3), start, stop=stop, device=device, dtype=dtype)
    massed = Problem(graph.with_masses(np.full(90, mass)), 3)
    other = solve(massed, start, stop=stop, device=device, dtype=dtype)
    assert np.array_equal(plain.memberships, other.memberships)
    assert mass * other.partition.energy == pytest.approx(plain.partition.energy, rel=1e-12)
    assert mass * other.relaxed_energy == pytest.approx(plain.relaxed_energy, rel=1e-12)


@pytest.mark.parametrize("factor", [1e-9, 7.3, 1e12])
def test_a_common_factor_of_uneven_masses_changes_no_label(factor):
    graph = planted_graph(4, 40, seed=3)
    masses = np.random.default_rng(0).uniform(0.5, 3.0, 160)
    labels = [
        best_of_starts(Problem(graph.with_masses(m), 4), Plan(), rng=np.random.default_rng(1)).partition.labels
        for m in (masses, factor * masses)
    ]
    assert np.array_equal(*labels)


@settings(max_examples=15, deadline=None)
@given(graphs(min_vertices=5, max_vertices=9, is_connected=True), st.data())
def test_the_search_finds_the_lowest_of_all_partitions(graph, data):
    """Against every partition, with masses so uneven that sizes say nothing of them."""
    graph = graph.with_masses(data.draw(vertex_masses(graph.n_vertices)))
    problem = Problem(graph, 2)
    found = best_of_starts(problem, Plan(min_cluster_size=1), rng=np.random.default_rng(0)).partition
    n = graph.n_vertices
    sides = ((bits >> np.arange(n)) & 1 for bits in range(1, 2 ** (n - 1)))  # the last vertex is always on side 0
    lowest = min(problem.partition(side).energy for side in sides)
    assert found.energy == pytest.approx(lowest, rel=1e-9, abs=1e-12)


def test_a_run_with_masses_descends_and_never_returns_worse_than_its_start():
    graph = planted_graph(3, 30, seed=5).with_masses(np.geomspace(1e-3, 1e3, 90))
    problem = Problem(graph, 3)
    start = noisy_start(np.repeat(np.arange(3), 30), 3, seed=2, trust=0.3)
    result = solve(problem, start, device="reference")
    relaxed = [step.relaxed_energy for step in result.history]
    assert relaxed[-1] < relaxed[0]
    assert result.partition.energy <= problem.partition(start.argmax(axis=1)).energy
