"""The search on top of a run: it never raises (P), never moves a labelled vertex, never makes a cluster too
small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from strategies import planted_graph, problems, random_graph
from tautcut import Graph, Problem
from tautcut.errors import InputError
from tautcut.kernels.cpu.coarsening import finest_level, induced, weights_between
from tautcut.kernels.cpu.moves import descend
from tautcut.problem import Partition, lam_of_prior
from tautcut.search import ladder, multilevel
from tautcut.search.cycles import VCycles, lightest_apart
from tautcut.search.driver import best_of_starts
from tautcut.search.multilevel import MultilevelSearcher
from tautcut.search.plan import Plan, Task
from tautcut.search.population import Population

GRAPH = random_graph(60, 150, seed=0, is_weighted=True)
PROBLEM = Problem(GRAPH, 3)
LEVEL = finest_level(GRAPH, PROBLEM.is_labelled)
# Large enough to be coarsened: more than 60 vertices for each cluster.
LARGE = Problem(planted_graph(3, 100, seed=0), 3)
METHODS = ("refine", "combine", "children")


def some_labels(n_vertices: int, n_clusters: int, *, seed: int = 0) -> np.ndarray:
    """Random labels, every cluster among them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_clusters, n_vertices)
    labels[rng.permutation(n_vertices)[:n_clusters]] = np.arange(n_clusters)
    return labels


def searched(method: str, problem: Problem, labels: np.ndarray, *, smallest: int = 1, seed: int = 0) -> Partition:
    """What one way of searching makes of these labels."""
    task = Task(problem, Plan(min_cluster_size=smallest))
    partition, rng = problem.partition(labels), np.random.default_rng(seed)
    cycles = VCycles(task.levels, task.smallest, children=min(5, task.effort.children))
    if method == "refine":
        return cycles.refine(partition, rng=rng)
    shifted = problem.partition(np.where(problem.is_labelled, labels, np.roll(labels, 1)))
    if method == "combine":
        return cycles.combine(partition, shifted, rng=rng)
    *_, last = evolved(task, [partition, shifted], rng)
    return last


def evolved(task: Task, founders: list[Partition], rng: np.random.Generator) -> Iterator[Partition]:
    """The best of a population, at first and after each child."""
    population = Population(task.smallest)
    for founder in founders:
        population.found(founder)
    yield population[0]
    for child in MultilevelSearcher(task).children(population, rng=rng):
        population.add(child.partition)
        yield population[0]


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_vertices=12), seed=st.integers(0, 9))
def test_a_search_never_raises_the_energy(method: str, problem: Problem, seed: int) -> None:
    labels = some_labels(problem.n_vertices, problem.n_clusters, seed=seed)
    after = searched(method, problem, labels, seed=seed)
    assert after.energy <= problem.partition(labels).energy
    assert not after.has_empty_cluster
    assert after.energy == problem.partition(after.labels).energy


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_vertices=12, has_labels=True), seed=st.integers(0, 9))
def test_a_search_keeps_labelled_vertices(method: str, problem: Problem, seed: int) -> None:
    labels = some_labels(problem.n_vertices, problem.n_clusters, seed=seed)
    fixed = problem.is_labelled
    labels[fixed] = problem.labels[fixed]
    after = searched(method, problem, labels, seed=seed)
    np.testing.assert_array_equal(after.labels[fixed], labels[fixed])


@pytest.mark.parametrize("smallest", [1, 12, 20])
@pytest.mark.parametrize("method", METHODS)
def test_a_search_keeps_clusters_large_enough(method: str, smallest: int) -> None:
    for seed in range(3):
        before = PROBLEM.partition(np.arange(60) % 3)
        after = searched(method, PROBLEM, before.labels, smallest=smallest, seed=seed)
        assert after.sizes.min() >= smallest
        assert after.energy <= before.energy
        if smallest < 20:
            assert after.energy < before.energy


@pytest.mark.parametrize("method", METHODS)
def test_a_search_on_coarser_levels_keeps_its_promises(method: str) -> None:
    labels = some_labels(300, 3)
    before = LARGE.partition(labels)
    after = searched(method, LARGE, labels, smallest=50)
    level = finest_level(LARGE.graph, LARGE.is_labelled)
    settled = LARGE.partition(descend(level, labels, LARGE.lam, np.full(3, 50.0))[0])  # single moves alone
    assert after.energy < settled.energy < before.energy
    assert after.sizes.min() >= 50
    fixed = np.where(np.arange(300) % 50 == 0, labels, -1)
    kept = searched(method, Problem(LARGE.graph, 3, labels=fixed), labels, smallest=50)
    np.testing.assert_array_equal(kept.labels[::50], labels[::50])
    assert kept.energy < before.energy


def test_a_seed_decides_a_search() -> None:
    for method in METHODS:
        a, b = (searched(method, LARGE, some_labels(300, 3), seed=4) for _ in range(2))
        np.testing.assert_array_equal(a.labels, b.labels)


def test_the_best_of_a_population_never_gets_worse() -> None:
    founders = [PROBLEM.partition(some_labels(60, 3, seed=seed)) for seed in range(4)]
    task = Task(PROBLEM, Plan(min_cluster_size=1))
    energies = [best.energy for best in evolved(task, founders, np.random.default_rng(0))]
    assert len(energies) > 1
    assert energies[0] == min(partition.energy for partition in founders)
    assert energies == sorted(energies, reverse=True)
    assert energies[-1] < energies[0]


def smallest_sizes(problem: Problem, asked: Any) -> np.ndarray:
    return Task(problem, Plan(min_cluster_size=asked)).smallest


def test_the_default_smallest_size_is_a_quarter_of_the_expected_one() -> None:
    np.testing.assert_array_equal(smallest_sizes(Problem(GRAPH, 3), None), [5, 5, 5])
    uneven = Problem(GRAPH, 3, lam_of_prior([0.8, 0.19, 0.01], 3))
    np.testing.assert_array_equal(smallest_sizes(uneven, None), [12, 2, 1])
    np.testing.assert_array_equal(smallest_sizes(Problem(GRAPH, 60), None), np.ones(60))
    np.testing.assert_array_equal(smallest_sizes(Problem(GRAPH, 3), 7), [7, 7, 7])
    np.testing.assert_array_equal(smallest_sizes(Problem(GRAPH, 3), 20), [20, 20, 20])


@pytest.mark.parametrize("value", [0, -1, 21, 2.5, True, "7"])
def test_an_impossible_smallest_size_is_named(value: Any) -> None:
    with pytest.raises(InputError, match="min_cluster_size") as raised:
        smallest_sizes(Problem(GRAPH, 3), value)
    assert str(value) in str(raised.value)


def test_weights_between_clusters_are_those_of_the_dense_matrix() -> None:
    labels = some_labels(60, 4)
    indicator = np.eye(4)[labels]
    expected = indicator.T @ GRAPH.to_scipy().toarray() @ indicator
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(weights_between(LEVEL, labels, 4), expected, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 17, 60])
def test_an_induced_level_is_that_of_the_dense_matrix(count: int) -> None:
    members = np.sort(np.random.default_rng(1).permutation(60)[:count])
    part = induced(LEVEL, members)
    dense = GRAPH.to_scipy().toarray()[np.ix_(members, members)]
    own = sp.csr_matrix((part.weights, part.indices, part.indptr), shape=dense.shape)
    np.testing.assert_array_equal(own.toarray(), dense)
    np.testing.assert_allclose(part.degrees, dense.sum(axis=1))
    np.testing.assert_array_equal(part.masses, np.ones(count))


# ---------------------------------------------------------------- light vertices


def hubs_and_leaves(n: int) -> Graph:
    """Edges whose ends are drawn by a power law: a few hubs, many vertices of few edges, and no clusters."""
    rng = np.random.default_rng(0)
    weights = np.minimum(rng.pareto(1.5, n) + 1.0, np.sqrt(n))
    pairs = np.sort(rng.choice(n, (4 * n, 2), p=weights / weights.sum()), axis=1)
    return Graph.from_edges(np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0), n_vertices=n)


@given(problem=problems(), share=st.floats(0.0, 0.9))
def test_the_lightest_fill_all_clusters_but_the_largest(problem: Problem, share: float) -> None:
    graph, largest = problem.graph, problem.shares.argmax()
    smallest = share * problem.total_mass * problem.shares
    is_apart = lightest_apart(problem, smallest) != largest
    wanted, taken, lightness = (
        smallest.sum() - smallest[largest],
        graph.masses[is_apart].sum(),
        graph.degrees / graph.masses,
    )
    assert wanted * (1 - 1e-9) <= taken <= wanted + graph.masses.max()
    assert lightness[is_apart].max(initial=0.0) <= lightness[~is_apart].min(initial=np.inf)


def test_light_is_what_has_little_weight_for_its_mass() -> None:
    path = Graph.from_edges([(0, 1), (1, 2), (2, 3)]).with_masses([1.0, 1.0, 4.0, 1.0])
    assert lightest_apart(Problem(path, 2), np.array([0.0, 3.0])).tolist() == [0, 0, 1, 0]  # degrees 1, 2, 2, 1


def test_where_hubs_hold_a_graph_together_light_vertices_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a large graph, which is neither solved nor annealed, and whose coarsenings hide them in the hubs."""
    problem = Problem(hubs_and_leaves(3000), 4)
    monkeypatch.setattr(multilevel, "_ANNEALED_WORK", 0)
    monkeypatch.setattr(ladder, "_SHARED_WORK", 0)
    plan = Plan(init="multilevel", n_init=2)
    found = best_of_starts(problem, plan, rng=np.random.default_rng(0)).partition
    assert found.energy < problem.partition(lightest_apart(problem, Task(problem, plan).smallest)).energy
