"""Many starts of Algorithm 1 side by side, on an engine that decides for itself: what `solver.run` is for one start on
any engine. The card runs the loop; here the starts are sent, the observers are shown how it goes, an interrupt or a
deadline ends it, and the best start becomes a `Result`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tautcut.algorithm.observers import Observer, Progress
from tautcut.algorithm.results import Result, Step
from tautcut.algorithm.stopping import PROGRESS, Status, StopRule
from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InterruptedRunWarning
from tautcut.problem import Problem

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import Batch, GpuKernels, Look

_STATUSES = (None, Status.COLLAPSED, Status.CONVERGED, Status.SETTLED, Status.BUDGET_SPENT)
_LONGEST_HISTORY = 20_000  # lines per start


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the starts of a batch found: the best result, and (P), inner iterations and labels of each.

    `labels` (start, row) stay on the card, in the order of its rows.
    """

    best: Result
    energies: FloatArray
    iterations: IntArray
    labels: Any


def run_batch(
    problem: Problem,
    starts: Any,
    kernels: GpuKernels,
    *,
    stop: StopRule,
    observers: Iterable[Observer] = (),
) -> Outcome:
    """Algorithm 1 from every start, as many at a time as the card's memory holds; the lowest (P) wins.

    `starts` are an array (start, vertex, cluster), or such a tensor on the card in the order of its rows; they are
    projected onto C here.
    """
    observers = tuple(observers)
    deadline = time.monotonic() + (stop.time_limit or np.inf)
    at_a_time = kernels.starts_that_fit(len(starts))
    found: list[Outcome] = []
    for first in range(0, len(starts), at_a_time):
        some = kernels.feasible(kernels.in_rows(starts[first : first + at_a_time]))
        found.append(_run_together(problem, some, kernels, stop, observers, deadline, first))
        if found[-1].best.status in (Status.INTERRUPTED, Status.STOPPED, Status.TIME_SPENT):
            break
    best = min(found, key=lambda outcome: outcome.best.partition.energy).best  # ties keep the first
    if len(found) > 1 and found[-1].best.status in (Status.INTERRUPTED, Status.STOPPED, Status.TIME_SPENT):
        best = replace(best, status=found[-1].best.status)
    energies, iterations = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("energies", "iterations")
    )
    return Outcome(best, energies, iterations, kernels.joined([one.labels for one in found]))


def _run_together(
    problem: Problem, starts: Any, kernels: GpuKernels, stop: StopRule, observers: tuple[Observer, ...],
    deadline: float, first: int,
) -> Outcome:  # fmt: skip
    batch = kernels.batch(
        starts, tol=stop.tol, max_iter=stop.max_iter, max_inner=stop.max_inner, epsilon=stop.epsilon,
        progress=PROGRESS, patience=stop.patience or 0, n_history=min(stop.max_iter, _LONGEST_HISTORY) + 1,
    )  # fmt: skip
    cut_short: Status | None = None
    try:
        for looks in batch.run():
            if any([_show(observer, looks, kernels, stop, first) for observer in observers]):
                cut_short = Status.STOPPED
            elif time.monotonic() > deadline:
                cut_short = Status.TIME_SPENT
            if cut_short:
                break
    except KeyboardInterrupt:
        cut_short = Status.INTERRUPTED
        warnings.warn(str(cut_short), InterruptedRunWarning, stacklevel=4)
    looks = batch.look()
    energies = np.array([look.best for look in looks]) * kernels.unit
    best = _result(problem, batch, kernels, int(np.argmin(energies)), cut_short)
    return Outcome(best, energies, np.array([look.iterations for look in looks]), batch.best_labels)


def _show(observer: Observer, looks: list[Look], kernels: GpuKernels, stop: StopRule, first: int) -> bool:
    """Show where the start with the lowest (P) stands; True if the observer asks to stop."""
    look = looks[int(np.argmin([look.best for look in looks]))]
    energies = (look.relaxed * kernels.unit, look.energy * kernels.unit, look.best * kernels.unit)
    return bool(observer(Progress(first, max(look.outer, 0), look.iterations, stop.max_iter, *energies)))


def _result(problem: Problem, batch: Batch, kernels: GpuKernels, s: int, cut_short: Status | None) -> Result:
    look = batch.look()[s]
    partition, F = batch.best(s)
    history = [
        Step(outer, int(iterations), relaxed * kernels.unit, energy * kernels.unit, bool(is_descent))
        for outer, (iterations, relaxed, energy, is_descent) in enumerate(batch.lines(s, look.outer + 1))
    ]
    status = cut_short or _STATUSES[look.status] or Status.BUDGET_SPENT
    return Result(problem, partition, F, look.relaxed * kernels.unit, status, tuple(history))
