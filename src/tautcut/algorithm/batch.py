"""Many starts of Algorithm 1 side by side, on an engine that decides for itself: what `solver.run` is for one start on
any engine. The engine runs the loop; here the starts are sent, the observers are shown how it goes, an interrupt or a
deadline ends it, and the best start becomes a `Result`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautcut.algorithm.observers import Observer, Progress
from tautcut.algorithm.results import Result, Step
from tautcut.algorithm.stopping import CUT_SHORT, PROGRESS, Status, StopRule, is_past
from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InterruptedRunWarning
from tautcut.kernels.batch import Batch, BatchKernels, Ending, Limits, Look
from tautcut.problem import Problem

_LONGEST_HISTORY = 20_000  # lines per start


@dataclass(frozen=True, eq=False)
class BatchResult:
    """What the starts of a batch found: the best result, and (P), inner iterations and labels of each.

    `labels` (start, row) stay with the engine, in the order of its rows.
    """

    best: Result
    energies: FloatArray
    iterations: IntArray
    labels: Any


def run_batch(
    problem: Problem,
    starts: Any,
    kernels: BatchKernels,
    *,
    stop: StopRule,
    observers: Iterable[Observer] = (),
    deadline: float | None = None,
) -> BatchResult:
    """Algorithm 1 from every start, as many at a time as the engine's memory holds; the lowest (P) wins.

    `starts` are an array (start, vertex, cluster), or what the engine made of such; they are projected onto C here.
    """
    observers = tuple(observers)
    deadline = stop.deadline() if deadline is None else deadline
    at_a_time = kernels.starts_that_fit(len(starts))
    found: list[BatchResult] = []
    for first in range(0, len(starts), at_a_time):
        some = kernels.feasible(starts[first : first + at_a_time])
        found.append(_run_together(problem, some, kernels, stop, observers, deadline, first))
        if found[-1].best.status in CUT_SHORT:
            break
    best = min(found, key=lambda one: one.best.partition.energy).best  # ties keep the first
    if found[-1].best.status in CUT_SHORT:
        best = best.changed(status=found[-1].best.status)
    energies, iterations = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("energies", "iterations")
    )
    return BatchResult(best, energies, iterations, kernels.joined([one.labels for one in found]))


def _run_together(
    problem: Problem, starts: Any, kernels: BatchKernels, stop: StopRule, observers: tuple[Observer, ...],
    deadline: float, first: int,
) -> BatchResult:  # fmt: skip
    batch = kernels.batch(starts, limits_of(stop))
    cut_short: Status | None = None
    try:
        for looks in batch.run():
            is_running = any(look.ending is Ending.RUNNING for look in looks)
            if any([_shows(observer, looks, kernels, stop, first) for observer in observers]):
                cut_short = Status.STOPPED
            elif is_running and is_past(deadline):
                cut_short = Status.TIME_SPENT
            if cut_short:
                break
    except KeyboardInterrupt:
        cut_short = Status.INTERRUPTED
        warnings.warn(str(cut_short), InterruptedRunWarning, stacklevel=4)
    looks = batch.look()
    energies = np.array([look.best for look in looks]) * kernels.unit
    best = _result(problem, batch, kernels, int(np.argmin(energies)), cut_short)
    return BatchResult(best, energies, np.array([look.iterations for look in looks]), batch.best_labels)


def limits_of(stop: StopRule) -> Limits:
    """The stop rule as the numbers that a batch decides by."""
    return Limits(
        tol=stop.tol, max_iter=stop.max_iter, max_inner=stop.max_inner, epsilon=stop.epsilon, progress=PROGRESS,
        patience=stop.patience or 0, n_history=min(stop.max_iter, _LONGEST_HISTORY) + 1,
    )  # fmt: skip


def _shows(observer: Observer, looks: list[Look], kernels: BatchKernels, stop: StopRule, first: int) -> bool:
    """Show where the start with the lowest (P) stands; True if the observer asks to stop."""
    look = looks[int(np.argmin([look.best for look in looks]))]
    energies = (look.relaxed * kernels.unit, look.energy * kernels.unit, look.best * kernels.unit)
    return bool(observer(Progress(first, max(look.outer, 0), look.iterations, stop.max_iter, *energies)))


def _result(problem: Problem, batch: Batch, kernels: BatchKernels, s: int, cut_short: Status | None) -> Result:
    look = batch.look()[s]
    partition, best = batch.best(s)
    F: Any = best  # which `Result` calls when it is asked for F
    last: Any = batch.last(s)
    history = [
        Step(outer, int(iterations), relaxed * kernels.unit, energy * kernels.unit, bool(is_descent))
        for outer, (iterations, relaxed, energy, is_descent) in enumerate(batch.lines(s, look.outer + 1))
    ]
    ended = Status.BUDGET_SPENT if look.ending is Ending.RUNNING else Status[look.ending.name]
    relaxed = look.relaxed * kernels.unit
    return Result(problem, partition, F, relaxed, cut_short or ended, tuple(history), last)
