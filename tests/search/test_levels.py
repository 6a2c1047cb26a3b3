"""The multilevel search of a GPU, with the stand-in for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stand_in_gpu import StandInGpu, use_stand_in
from strategies import planted_graph
from tautcut import Problem
from tautcut.algorithm.stopping import Status
from tautcut.search import driver, generations, levels
from tautcut.search.driver import best_of_starts
from tautcut.search.generations import GenerationSearcher
from tautcut.search.levels import LevelSearcher
from tautcut.search.multilevel import MultilevelSearcher
from tautcut.search.plan import Plan, Task
from tautcut.search.population import Found, Population

R, SIZE = 3, 40
TRUTH = np.repeat(np.arange(R), SIZE)
PROBLEM = Problem(planted_graph(R, SIZE, seed=0, is_weighted=False), R)
PLAN = Plan(device="cuda")


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[StandInGpu]:
    """Levels from 60 vertices on, of which the coarsest has 12 or a few fewer; one in between."""
    monkeypatch.setattr(levels, "LARGE", 100)
    monkeypatch.setattr(levels, "COARSEST", 4)
    monkeypatch.setattr(levels, "FEWEST", 12)
    monkeypatch.setattr(levels, "_RATIO", 3)
    monkeypatch.setattr(levels, "_HEAVIEST_SHARE", 0.5)
    monkeypatch.setattr(generations, "STARTS", 4)
    monkeypatch.setattr(Task, "is_small", False)
    return use_stand_in(monkeypatch)


def best(plan: Plan = PLAN, *, seed: int = 0, problem: Problem = PROBLEM, observers: Any = ()) -> Any:
    return best_of_starts(problem, plan, rng=np.random.default_rng(seed), observers=observers)


def test_it_begins_on_the_coarsest_graph_and_ends_on_the_finest(engines: list[StandInGpu]):
    result = best()
    sizes = [engine.problem.n_vertices for engine in engines]
    assert sizes[0] == PROBLEM.n_vertices  # asked first for the coarser ones
    assert sizes[1] > 2 * 12 >= sizes[2] >= R
    assert [len(engine.batches) > 0 for engine in engines[:3]] == [True] * 3
    assert result.partition.energy == PROBLEM.partition(TRUTH).energy
    assert np.array_equal(result.memberships.argmax(axis=1), result.partition.labels)
    assert result.n_iter > 0


def test_a_seed_fixes_the_labels(engines: list[StandInGpu]):
    assert np.array_equal(best(seed=3).partition.labels, best(seed=3).partition.labels)


def test_masses_and_smallest_sizes_hold_on_all_levels(engines: list[StandInGpu]):
    heavy = Problem(PROBLEM.graph.with_masses(np.where(np.arange(R * SIZE) < 3, 20.0, 1.0)), R)
    result = best(Plan(device="cuda", min_cluster_size=5), problem=heavy)
    least = 5 * heavy.total_mass / heavy.n_vertices
    assert (result.partition.masses >= (1 - 1e-6) * least).all()
    assert result.partition.energy == pytest.approx(heavy.partition(result.partition.labels).energy)


def test_a_cycle_respects_what_was_found_and_never_loses_it(engines: list[StandInGpu]):
    searcher = LevelSearcher(Task(PROBLEM, PLAN))
    population = Population(searcher._finest.smallest, searcher.capacity)
    population.found(PROBLEM.partition(TRUTH))
    found = list(searcher._cycle(searcher._finest, tuple(population), population, np.random.default_rng(0)))
    assert min(one.partition.energy for one in found) <= population[0].energy


@pytest.mark.parametrize("after", [1, 3, 6])
def test_whoever_asks_to_stop_once_is_heard_on_every_level(engines: list[StandInGpu], after: int):
    seen: list[Any] = []

    def stop_once(progress: Any) -> bool:
        seen.append(progress)
        return len(seen) == after

    result = best(observers=(stop_once,))
    assert result.status is Status.STOPPED
    assert result.partition.labels.size == PROBLEM.n_vertices
    assert not result.partition.has_empty_cluster


def test_a_deadline_ends_it_with_the_best_so_far(engines: list[StandInGpu]):
    from tautcut.algorithm.stopping import StopRule

    result = best(Plan(device="cuda", stop=StopRule(time_limit=1e-9)))
    assert result.status is Status.TIME_SPENT
    assert result.partition.labels.size == PROBLEM.n_vertices


def test_a_noisy_graph_is_left_to_the_processor(engines: list[StandInGpu], monkeypatch: pytest.MonkeyPatch):
    asked = []

    def starts(self: MultilevelSearcher, population: Population, *, rng: np.random.Generator) -> Any:
        asked.append("starts")
        yield Found(PROBLEM.partition(TRUTH))

    monkeypatch.setattr(levels, "is_noisy", lambda problem, partition: True)
    monkeypatch.setattr(MultilevelSearcher, "starts", starts)
    monkeypatch.setattr(MultilevelSearcher, "children", lambda self, population, *, rng: iter(()))
    assert best().partition.energy == PROBLEM.partition(TRUTH).energy
    assert asked == ["starts"]


def test_small_graphs_evolve_as_they_are(engines: list[StandInGpu], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(levels, "LARGE", 10**9)
    best()
    assert {engine.problem.n_vertices for engine in engines} == {PROBLEM.n_vertices}


@pytest.mark.parametrize(
    "plan",
    [
        Plan(device="cuda", init="ncut-seeds"),
        Plan(device="cuda", algorithm="paper"),
        Plan(device="cuda", search="none"),
        Plan(device="cuda", init=np.full((R * SIZE, R), 1 / R)),
    ],
    ids=["init", "paper", "none", "own"],
)  # fmt: skip
def test_what_is_asked_for_by_name_is_done(engines: list[StandInGpu], plan: Plan):
    assert not LevelSearcher.suits(Task(PROBLEM, plan))
    assert isinstance(driver._searcher_for(Task(PROBLEM, plan)), GenerationSearcher)


def test_fixed_labels_are_not_coarsened():
    labels = np.where(np.arange(R * SIZE) % SIZE == 0, TRUTH, -1)
    assert not LevelSearcher.suits(Task(Problem(PROBLEM.graph, R, labels=labels), PLAN))
