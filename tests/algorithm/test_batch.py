"""Many starts at once, on the stand-in for a GPU: what the host does between the engine's rounds, and that the answer
is that of one run after the other.
"""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

import tautcut.algorithm.batch as batch_module
from stand_in_gpu import StandInGpu
from strategies import planted_graph, soft_start
from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.observers import Progress
from tautcut.algorithm.solver import run
from tautcut.algorithm.stopping import PROGRESS, Status, StopRule
from tautcut.errors import InterruptedRunWarning
from tautcut.kernels.batch import Limits
from tautcut.kernels.reference import ReferenceKernels
from tautcut.problem import Problem

PROBLEM = Problem(planted_graph(3, 8, seed=0, is_weighted=True), 3)
STARTS = np.stack([soft_start(24, 3, seed=seed) for seed in range(4)])
STOP = StopRule(max_iter=40)


def test_every_start_ends_as_it_does_alone_and_the_lowest_energy_wins():
    found = run_batch(PROBLEM, STARTS, StandInGpu(PROBLEM), stop=STOP)
    alone = [run(PROBLEM, F, ReferenceKernels(PROBLEM), stop=STOP) for F in STARTS]
    best = min(alone, key=lambda one: one.partition.energy)
    assert np.allclose(found.energies, [one.partition.energy for one in alone], rtol=1e-12)
    assert found.iterations.tolist() == [one.n_iter for one in alone]
    assert np.array_equal(found.best.partition.labels, best.partition.labels)
    assert np.array_equal(found.best.memberships, best.memberships)
    assert np.array_equal(found.best.last_memberships, best.last_memberships)
    assert found.best.status is best.status
    assert [line.iterations for line in found.best.history] == [line.iterations for line in best.history]
    for name in ("energy", "relaxed_energy"):
        ours, theirs = ([getattr(line, name) for line in one.history] for one in (found.best, best))
        assert np.allclose(ours, theirs, rtol=1e-12)


def test_labels_stay_in_the_order_of_the_engine():
    engine = StandInGpu(PROBLEM)
    found = run_batch(PROBLEM, STARTS, engine, stop=STOP)
    labels = [engine.in_graph_order(rows) for rows in found.labels]
    assert np.allclose([PROBLEM.partition(one).energy for one in labels], found.energies, rtol=1e-12)


def test_ties_keep_the_first():
    found = run_batch(PROBLEM, STARTS[[1, 1]], StandInGpu(PROBLEM, room=1), stop=STOP)
    assert found.energies[0] == found.energies[1]
    assert found.best.partition.energy == found.energies[0]


@pytest.mark.parametrize(("room", "sizes"), [(8, [4]), (3, [3, 1]), (1, [1, 1, 1, 1])])
def test_starts_that_do_not_fit_together_take_turns(room: int, sizes: list[int]):
    engine = StandInGpu(PROBLEM, room)
    found = run_batch(PROBLEM, STARTS, engine, stop=STOP)
    assert [size for size, _ in engine.batches] == sizes
    together = run_batch(PROBLEM, STARTS, StandInGpu(PROBLEM), stop=STOP)
    assert np.array_equal(found.energies, together.energies)
    assert np.array_equal(found.best.partition.labels, together.best.partition.labels)


def test_starts_are_projected_onto_the_constraints():
    labels = np.where(np.arange(24) % 8 == 0, np.arange(24) // 8, -1)
    labelled = Problem(PROBLEM.graph, 3, labels=labels)
    found = run_batch(labelled, 3 * STARTS[:1] - 1, StandInGpu(labelled), stop=STOP).best
    assert np.array_equal(found.memberships[labels >= 0], np.eye(3)[labels[labels >= 0]])
    assert np.allclose(found.memberships.sum(axis=1), 1)


def test_the_limits_reach_the_engine():
    engine = StandInGpu(PROBLEM)
    run_batch(PROBLEM, STARTS, engine, stop=StopRule(tol=0.5, max_iter=9, max_inner=4, epsilon=0.2, patience=3))
    assert engine.batches == [(4, Limits(0.5, 9, 4, 0.2, PROGRESS, 3, n_history=10))]


def test_observers_see_the_best_start_and_may_stop_the_run():
    seen: list[Progress] = []

    def stop_at_the_second(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 2

    found = run_batch(PROBLEM, STARTS, StandInGpu(PROBLEM, room=2), stop=STOP, observers=[stop_at_the_second])
    assert found.best.status is Status.STOPPED
    assert found.energies.size == 2  # the second turn never began
    assert [progress.outer for progress in seen] == [1, 2]
    assert seen[-1].best_energy == pytest.approx(found.energies.min(), rel=1e-12)


def test_a_deadline_ends_the_run(monkeypatch: pytest.MonkeyPatch):
    looks = count(1)
    monkeypatch.setattr(batch_module, "is_past", lambda moment: next(looks) == 3)
    found = run_batch(PROBLEM, STARTS, StandInGpu(PROBLEM, room=2), stop=StopRule(tol=0.0, time_limit=1.0))
    assert found.best.status is Status.TIME_SPENT
    assert found.best.history[-1].outer == 3  # it was looked at three times
    assert found.energies.size == 2


def test_an_interrupt_returns_the_best_so_far():
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        found = run_batch(PROBLEM, STARTS, StandInGpu(PROBLEM, room=2), stop=STOP, observers=[interrupt])
    assert found.best.status is Status.INTERRUPTED
    assert found.best.partition.energy == pytest.approx(min(one.best_energy for one in seen), rel=1e-12)
