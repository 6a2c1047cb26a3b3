"""Many starts at once, with an engine that is told what to find: what the host does between the card's rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.observers import Progress
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.errors import InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.problem import Problem

PROBLEM = Problem(Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]), 2)
LABELS = np.array([[0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]])
CONVERGED = 2


@dataclass(frozen=True)
class Look:
    status: int
    iterations: int
    outer: int
    energy: float
    best: float
    relaxed: float


@dataclass
class StandInBatch:
    """Starts whose partitions are known; they are done after three looks."""

    starts: np.ndarray
    interrupt_at: int | None
    looks_done: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def best_labels(self) -> np.ndarray:
        return LABELS[self.starts[:, 0, 0].astype(int)]

    def look(self) -> list[Look]:
        status = CONVERGED if self.looks_done == 3 else 0
        energies = [PROBLEM.partition(LABELS[int(F[0, 0])]).energy for F in self.starts]
        return [Look(status, 10 * self.looks_done, self.looks_done, e, e, 2 * e) for e in energies]

    def run(self) -> Any:
        for self.looks_done in range(1, 4):
            if self.interrupt_at == self.looks_done:
                raise KeyboardInterrupt
            yield self.look()

    def best(self, s: int) -> tuple[Any, np.ndarray]:
        labels = LABELS[int(self.starts[s, 0, 0])]
        return PROBLEM.partition(labels), np.eye(2)[labels]

    def lines(self, s: int, count: int) -> np.ndarray:
        return np.column_stack([np.arange(count), *np.ones((3, count))])


@dataclass
class StandIn:
    """The engine: start s is an array whose first number says which partition it ends in."""

    fits: int = 8
    interrupt_at: int | None = None
    unit: float = 1.0
    limits: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def starts_that_fit(self, wanted: int) -> int:
        return min(self.fits, wanted)

    def joined(self, tensors: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(tensors)

    def in_rows(self, starts: np.ndarray) -> np.ndarray:
        return starts

    def feasible(self, starts: np.ndarray) -> np.ndarray:
        return starts

    def batch(self, starts: np.ndarray, **limits: Any) -> StandInBatch:
        self.limits.append(limits)
        self.sizes.append(len(starts))
        return StandInBatch(starts, self.interrupt_at)


STARTS = np.arange(4.0)[:, None, None] * np.ones((4, 6, 2))


def test_the_lowest_energy_wins_and_ties_keep_the_first():
    outcome = run_batch(PROBLEM, STARTS, StandIn(), stop=StopRule(max_iter=77))
    assert np.array_equal(outcome.best.partition.labels, LABELS[1])
    assert outcome.best.status is Status.CONVERGED
    assert outcome.energies.tolist() == [PROBLEM.partition(labels).energy for labels in LABELS]
    assert outcome.iterations.tolist() == [30] * 4
    assert np.array_equal(outcome.labels, LABELS)
    assert [line.outer for line in outcome.best.history] == [0, 1, 2, 3]


@pytest.mark.parametrize(("fits", "sizes"), [(8, [4]), (3, [3, 1]), (1, [1, 1, 1, 1])])
def test_starts_that_do_not_fit_together_take_turns(fits: int, sizes: list[int]):
    engine = StandIn(fits)
    outcome = run_batch(PROBLEM, STARTS, engine, stop=StopRule())
    assert engine.sizes == sizes
    assert np.array_equal(outcome.best.partition.labels, LABELS[1])
    assert outcome.energies.size == 4


def test_the_limits_reach_the_card():
    engine = StandIn()
    run_batch(PROBLEM, STARTS, engine, stop=StopRule(tol=0.5, max_iter=9, max_inner=4, epsilon=0.2, patience=3))
    expected = {"tol": 0.5, "max_iter": 9, "max_inner": 4, "epsilon": 0.2, "patience": 3, "n_history": 10}
    assert {name: engine.limits[0][name] for name in expected} == expected


def test_observers_see_the_best_start_and_may_stop_the_run():
    seen: list[Progress] = []

    def stop_at_the_second(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 2

    outcome = run_batch(PROBLEM, STARTS, StandIn(fits=2), stop=StopRule(), observers=[stop_at_the_second])
    assert outcome.best.status is Status.STOPPED
    assert outcome.energies.size == 2  # the second turn never began
    assert [progress.iterations for progress in seen] == [10, 20]
    assert seen[0].best_energy == PROBLEM.partition(LABELS[1]).energy


def test_a_deadline_ends_the_run():
    outcome = run_batch(PROBLEM, STARTS, StandIn(), stop=StopRule(time_limit=1e-9))
    assert outcome.best.status is Status.TIME_SPENT
    assert outcome.best.n_iter == 1  # it was looked at once


def test_an_interrupt_returns_the_best_so_far():
    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        outcome = run_batch(PROBLEM, STARTS, StandIn(fits=2, interrupt_at=2), stop=StopRule())
    assert outcome.best.status is Status.INTERRUPTED
    assert np.array_equal(outcome.best.partition.labels, LABELS[1])
