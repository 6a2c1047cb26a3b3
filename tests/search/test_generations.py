"""The search on a GPU, with a stand-in for the card: its tensors are arrays, and Algorithm 1 ends where it began."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tautcut.search.generations as evolution
from tautcut import Graph, Problem
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.errors import InterruptedRunWarning
from tautcut.kernels.cpu.moves import descend, finest_level, weights_between
from tautcut.problem import cuts
from tautcut.search.driver import Plan, best_of_starts
from tautcut.search.starts import soften

RINGS = [(9 * c + i, 9 * c + (i + 1) % 9) for c in range(3) for i in range(9)]
PROBLEM = Problem(Graph.from_edges([*RINGS, (0, 9), (9, 18), (18, 0)]), 3)
TRUTH = np.arange(27) // 9


class Card:
    """The engine."""

    problem = PROBLEM
    unit = 1.0

    def starts_that_fit(self, wanted: int = 1) -> int:
        return wanted

    def starts_of_gpu(self, wanted: int) -> int:
        return wanted

    def joined(self, tensors: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(tensors)

    def in_graph_order(self, rows: np.ndarray) -> np.ndarray:
        return rows


class Moves:
    """Moves by the processor; a split is a cut in the order of the vertices."""

    def __init__(self, kernels: Card, smallest: np.ndarray) -> None:
        self._smallest = smallest

    def labels_of(self, labels: np.ndarray) -> np.ndarray:
        return labels[None]

    def soften(self, labels: np.ndarray, softness: float) -> np.ndarray:
        return np.stack([soften(one, 3, softness) for one in labels])

    def mix(self, first: np.ndarray, second: np.ndarray, softness: float) -> np.ndarray:
        return self.soften(np.stack([first, second]), softness).mean(axis=0)

    def energies(self, labels: np.ndarray) -> np.ndarray:
        found = [PROBLEM.partition(one) for one in labels]
        return np.array([p.energy + 1e12 * bool((p.sizes < self._smallest).any()) for p in found])

    def clusters(self, labels: np.ndarray) -> tuple[np.ndarray, ...]:
        level = finest_level(PROBLEM.graph, PROBLEM.is_labelled)
        sizes = np.bincount(labels, minlength=3).astype(float)
        return cuts(PROBLEM.graph, labels, 3), sizes, weights_between(level, labels, 3)

    def descend(self, labels: np.ndarray) -> np.ndarray:
        level = finest_level(PROBLEM.graph, PROBLEM.is_labelled)
        return np.stack([descend(level, one, PROBLEM.lam, self._smallest.astype(float))[0] for one in labels])

    def merge_and_split(
        self, labels: np.ndarray, plans: list[tuple[int, int, int]], shares: np.ndarray, seed: int
    ) -> np.ndarray:
        made = labels.copy()
        for one, (a, b, c), share in zip(made, plans, shares, strict=True):
            one[one == b] = a
            members = np.flatnonzero(one == c)
            one[members[: max(1, int(share * members.size))]] = b
        return made


class Tools:
    """The linear algebra of starts; its normalised cut is bad."""

    def __init__(self, kernels: Card) -> None:
        pass

    def normalised_cut(self, n_clusters: int, *, rng: np.random.Generator) -> np.ndarray:
        return np.arange(27) % n_clusters

    def diffuse_seeds(self, vertices: np.ndarray) -> np.ndarray:
        labels = np.stack([np.abs(np.arange(27)[:, None] - one).argmin(axis=1) for one in vertices])
        return np.stack([soften(one, 3) for one in labels])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of starts of each batch that reaches the card."""
    seen: list[int] = []

    def run_batch(problem: Problem, starts: Any, kernels: Card, **options: Any) -> Any:
        seen.append(len(starts))
        labels = np.stack([F.argmax(axis=1) for F in starts])
        found = [problem.partition(one) for one in labels]
        best = min(found, key=lambda p: p.energy)
        F = soften(best.labels, 3)
        result = Result(problem, best, F, best.energy, Status.SETTLED, (), F)
        return SimpleNamespace(best=result, labels=labels)

    monkeypatch.setitem(sys.modules, "tautcut.kernels.gpu.moves", SimpleNamespace(GpuMoves=Moves))
    monkeypatch.setitem(sys.modules, "tautcut.kernels.gpu.spectral", SimpleNamespace(GpuSpectral=Tools))
    monkeypatch.setattr(evolution, "run_batch", run_batch)
    monkeypatch.setattr("tautcut.search.driver.run_batch", run_batch)
    monkeypatch.setattr("tautcut.search.driver.runs_on_gpu", lambda problem, device: device == "cuda")
    monkeypatch.setattr("tautcut.search.driver.gpu_engine", lambda problem, dtype: Card())
    return seen


@pytest.mark.usefixtures("runs")
def test_generations_find_what_the_starts_did_not():
    population = evolution.Generations(Card(), np.full(3, 2), stop=StopRule())
    _, first = population.solve(np.stack([soften(np.arange(27) % 3, 3), soften(np.arange(27) // 5 % 3, 3)]))
    energies = [first.energy, *(p.energy for _, p in population.generations(8, rng=np.random.default_rng(0)))]
    assert sorted(energies, reverse=True) == energies
    assert energies[-1] == PROBLEM.partition(TRUTH).energy < energies[0]


@pytest.mark.usefixtures("runs")
def test_a_population_of_partitions_with_an_empty_cluster_goes_on():
    population = evolution.Generations(Card(), np.ones(3), stop=StopRule())
    _, worst = population.solve(soften(np.arange(27) // 14, 3)[None])
    assert worst.energy == np.inf
    assert next(population.generations(1, rng=np.random.default_rng(0)))[1].energy < np.inf


def test_a_plan_for_the_card_searches_there(runs: list[int]):
    result = best_of_starts(PROBLEM, Plan(device="cuda"), rng=np.random.default_rng(0))
    assert runs == [evolution.STARTS] * 17 + [1]  # starts, generations, and Algorithm 1 from the best
    assert result.partition.energy == PROBLEM.partition(TRUTH).energy
    again = best_of_starts(PROBLEM, Plan(device="cuda"), rng=np.random.default_rng(0))
    assert np.array_equal(result.partition.labels, again.partition.labels)


def test_without_a_search_the_starts_are_all(runs: list[int]):
    plan = Plan(device="cuda", init="ncut-seeds", n_init=4, search="none")
    best_of_starts(PROBLEM, plan, rng=np.random.default_rng(0))
    assert runs == [4]


def test_an_observer_may_stop_the_search(runs: list[int]):
    result = best_of_starts(PROBLEM, Plan(device="cuda"), rng=np.random.default_rng(0), observers=[lambda seen: True])
    assert result.status is Status.STOPPED
    assert len(runs) == 1
    assert (result.partition.sizes > 0).all()


@pytest.mark.usefixtures("runs")
def test_an_interrupt_returns_the_best_so_far():
    seen: list[float] = []

    def interrupt(progress: Any) -> None:
        seen.append(progress.best_energy)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedRunWarning):
        result = best_of_starts(PROBLEM, Plan(device="cuda"), rng=np.random.default_rng(0), observers=[interrupt])
    assert result.status is Status.INTERRUPTED
    assert result.partition.energy == min(seen)
