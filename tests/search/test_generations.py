"""The search on a GPU, with the stand-in for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stand_in_gpu import StandInGpu, use_stand_in
from strategies import planted_graph
from tautcut import Graph, MTVClassifier, MTVClustering, Problem
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.errors import InterruptedRunWarning
from tautcut.search.driver import best_of_starts
from tautcut.search.generations import STARTS, GenerationSearcher
from tautcut.search.plan import EFFORTS, Plan, Task
from tautcut.search.population import Population

RINGS = [(9 * c + i, 9 * c + (i + 1) % 9) for c in range(3) for i in range(9)]
PROBLEM = Problem(Graph.from_edges([*RINGS, (0, 9), (9, 18), (18, 0)]), 3)
TRUTH = np.arange(27) // 9
HEAVY = Problem(PROBLEM.graph.with_masses(np.where(np.arange(27) < 3, 8.0, 1.0)), 3)
LABELLED = Problem(PROBLEM.graph, 3, labels=np.where(np.arange(27) % 9 == 4, TRUTH, -1))


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[StandInGpu]:
    """The stand-in, which is slow: it gets fewer generations than a GPU."""
    monkeypatch.setitem(EFFORTS, "short", replace(EFFORTS["short"], generations=4))
    return use_stand_in(monkeypatch)


def best(problem: Problem = PROBLEM, *, observers: Any = (), **settings: Any) -> Any:
    """The answer of a GPU's search, which small graphs get only where its starts are asked for by name."""
    plan = Plan(**{"device": "cuda", "init": "ncut-seeds", **settings})
    return best_of_starts(problem, plan, rng=np.random.default_rng(0), observers=observers)


def sizes_of_batches(engines: list[StandInGpu]) -> list[int]:
    (engine,) = engines
    return [size for size, _ in engine.batches]


def test_a_plan_for_a_gpu_searches_there(engines: list[StandInGpu]):
    result = best()
    n_generations = EFFORTS["short"].generations
    # the starts, the generations, and Algorithm 1 from the best partition
    assert sizes_of_batches(engines) == [STARTS] * (1 + n_generations) + [1]
    assert result.partition.energy == PROBLEM.partition(TRUTH).energy
    assert np.array_equal(result.memberships.argmax(axis=1), result.partition.labels)
    assert result.agreement.n_starts == STARTS
    assert 1 <= result.agreement.n_best <= STARTS


def test_a_search_on_a_gpu_weighs_clusters_by_mass_in_any_unit(engines: list[StandInGpu]):
    """The first three vertices have half of all mass: they are a cluster, and the rings are not the answer."""
    problem = Problem(PROBLEM.graph.with_masses(1e-3 * HEAVY.graph.masses), 3)
    result = best(problem)
    labels = result.partition.labels
    assert result.partition.energy == pytest.approx(problem.partition(labels).energy, rel=1e-12)
    assert result.partition.energy < problem.partition(TRUTH).energy
    assert (result.partition.masses >= 0.25 * problem.total_mass / 3 * (1 - 1e-6)).all()
    assert np.array_equal(labels, best(HEAVY).partition.labels)
    assert sizes_of_batches(engines[:1])[0] == STARTS


def test_a_small_graph_is_solved_on_the_host_and_algorithm_1_runs_on_the_gpu(engines: list[StandInGpu]):
    result = best(init="auto")
    assert sizes_of_batches(engines) == [1]
    assert result.partition.energy == PROBLEM.partition(TRUTH).energy
    assert np.array_equal(result.memberships.argmax(axis=1), result.partition.labels)


def test_without_numba_a_gpu_searches_small_graphs_itself(engines: list[StandInGpu], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tautcut.kernels.cpu.compiling.njit", None)
    best(init="auto")
    assert sizes_of_batches(engines)[0] == STARTS


def test_without_a_search_the_starts_are_all(engines: list[StandInGpu]):
    best(init="ncut-seeds", n_init=4, search="none")
    assert sizes_of_batches(engines) == [4]


def test_labels_are_one_start_and_stay(engines: list[StandInGpu]):
    result = best(LABELLED)
    assert sizes_of_batches(engines) == [1]
    assert np.array_equal(result.partition.labels, TRUTH)
    assert result.history  # the run is kept: no other follows


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize(
    ("problem", "settings", "expected"),
    [
        (PROBLEM, {}, STARTS),
        (PROBLEM, {"search": "thorough", "init": "random"}, 2 * STARTS),
        (PROBLEM, {"init": "multilevel"}, STARTS),
        (PROBLEM, {"init": "ncut"}, 1),
        (PROBLEM, {"init": np.full((27, 3), 1 / 3)}, 1),
        (PROBLEM, {"search": "none"}, 1),
        (PROBLEM, {"n_init": 4}, 4),
        (LABELLED, {}, 1),
    ],
)
def test_how_many_starts_a_gpu_gets(problem: Problem, settings: dict[str, Any], expected: int):
    assert GenerationSearcher(Task(problem, Plan(device="cuda", **settings))).n_starts == expected


@pytest.mark.usefixtures("engines")
def test_large_graphs_get_fewer_generations():
    def n_generations(problem: Problem) -> int:
        return GenerationSearcher(Task(problem, Plan(device="cuda")))._n_generations

    assert n_generations(PROBLEM) == EFFORTS["short"].generations
    assert n_generations(Problem(PROBLEM.graph, 2)) == n_generations(LABELLED) == 0
    ring = Graph.from_edges([(i, (i + 1) % 300_000) for i in range(300_000)])
    assert n_generations(Problem(ring, 3)) == EFFORTS["short"].generations // 2


@pytest.mark.parametrize("init", ["multilevel", "random", "ncut", "ncut-seeds"])
def test_a_start_by_name_is_the_same_start_on_every_device(engines: list[StandInGpu], init: str):
    """Nothing is rerouted: what the GPU is sent is what the processor would solve."""
    sent: list[np.ndarray] = []
    feasible = StandInGpu.feasible

    def record(self: StandInGpu, starts: Any) -> Any:
        found = feasible(self, starts)
        sent.append(np.stack([self.in_graph_order(F) for F in found]))
        return found

    StandInGpu.feasible = record  # type: ignore[method-assign]
    try:
        best(init=init, n_init=2, search="none")
    finally:
        StandInGpu.feasible = feasible  # type: ignore[method-assign]
    from tautcut.kernels.reference import project
    from tautcut.search.starts import start_maker

    rng = np.random.default_rng(0)
    generators = rng.spawn(2)
    make = start_maker(PROBLEM, init, rng=rng)
    expected = [project(make(number, one), PROBLEM.labels) for number, one in enumerate(generators)]
    np.testing.assert_allclose(sent[0], np.stack(expected), atol=1e-12)
    assert len(engines) == 1


@pytest.mark.usefixtures("engines")
def test_children_find_what_the_starts_did_not():
    searcher = GenerationSearcher(Task(PROBLEM, Plan(device="cuda", min_cluster_size=2)))
    population, rng = Population(np.full(3, 2), searcher.capacity), np.random.default_rng(0)
    for labels in (np.arange(27) % 3, np.arange(27) // 5 % 3):
        population.found(PROBLEM.partition(labels))
    first = population[0].energy
    for child in searcher.children(population, rng=rng):
        assert child.run is None
        population.add(child.partition)
        assert len(population) <= searcher.capacity
    assert population[0].energy == PROBLEM.partition(TRUTH).energy < first


@pytest.mark.usefixtures("engines")
def test_a_population_of_partitions_with_an_empty_cluster_goes_on():
    searcher = GenerationSearcher(Task(PROBLEM, Plan(device="cuda", min_cluster_size=1)))
    population = Population(np.ones(3, dtype=np.int64), searcher.capacity)
    population.found(PROBLEM.partition(np.arange(27) // 14))
    assert population[0].energy == np.inf
    for child in searcher.children(population, rng=np.random.default_rng(0)):
        population.add(child.partition)
    assert population[0].energy < np.inf


def test_an_observer_may_stop_the_search(engines: list[StandInGpu]):
    result = best(observers=[lambda seen: seen.phase == "starts"])
    assert result.status is Status.STOPPED
    assert sizes_of_batches(engines) == [STARTS]
    assert (result.partition.sizes > 0).all()


@pytest.mark.usefixtures("engines")
def test_an_interrupt_returns_the_best_so_far():
    seen: list[float] = []

    def interrupt(progress: Any) -> None:
        if progress.phase == "search":
            seen.append(progress.best_energy)
            if len(seen) == 3:
                raise KeyboardInterrupt

    with pytest.warns(InterruptedRunWarning):
        result = best(observers=[interrupt])
    assert result.status is Status.INTERRUPTED
    assert result.partition.energy == pytest.approx(min(seen))


def test_a_deadline_ends_the_search(engines: list[StandInGpu]):
    result = best(stop=StopRule(time_limit=1e-9))
    assert result.status is Status.TIME_SPENT
    assert sizes_of_batches(engines) == [STARTS]


def test_the_estimators_run_on_a_gpu(engines: list[StandInGpu]):
    graph = planted_graph(3, 15, seed=0)
    truth = np.repeat([0, 1, 2], 15)
    labels = MTVClustering(3, affinity="precomputed", device="cuda", random_state=0).fit_predict(graph)
    assert all(np.unique(labels[truth == r]).size == 1 for r in range(3))
    assert np.unique(labels).size == 3
    known = np.where(np.arange(45) % 15 == 0, truth, -1)
    model = MTVClassifier(affinity="precomputed", device="auto").fit(graph, known)
    assert np.array_equal(model.transduction_, truth)
    assert len(engines) == 2
