"""Algorithm 1: from a start F⁰ ∈ C to a partition. `steps` is the loop, and `solve` runs it to its end; `State` is
exactly what survives an outer step. The best partition seen is the answer (decision 0006).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.observers import Observer, Progress
from tautcut.algorithm.prox import prox_tv
from tautcut.algorithm.results import Result, Step
from tautcut.algorithm.stopping import PROGRESS, Status, StopRule, has_collapsed, is_past
from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InputError, InterruptedRunWarning
from tautcut.kernels import devices
from tautcut.kernels.protocol import Kernels, Measures
from tautcut.kernels.reference import project
from tautcut.problem import Partition, Problem


class Measurer(Protocol):
    """What the loop asks of a problem, be it whole or divided among ranks."""

    def measured(self, labels: IntArray, cut: FloatArray) -> Partition:
        """The partition of labels whose cuts are known."""


@dataclass(frozen=True, eq=False)
class State:
    """What survives an outer step. `arrays` (F and P) belongs to the kernels and is overwritten by them."""

    arrays: Any
    measures: Measures
    tau: float
    best: Partition
    best_F: FloatArray | None  # None while the current F is the one that gave the best partition
    energy: float
    outer: int = 0
    iterations: int = 0
    mark: float = np.inf  # (P) at the last progress of the run's own partitions, the start's not counted
    progress_at: int = 0
    is_descent: bool = True
    status: Status | None = None  # why the run ended here; None while it goes on


def steps(
    problem: Measurer, start: FloatArray, kernels: Kernels, stop: StopRule, *, deadline: float = np.inf
) -> Iterator[State]:
    """Algorithm 1 from a start in C: the states of F⁰, F¹, …, the last of which has a status.

    This is the loop, and there is no other: what many starts side by side decide is tested against it. The arrays of a
    state are overwritten by the next one's; `deadline` is a moment of `time.monotonic`.
    """
    state = init(problem, start, kernels)
    del start  # the engine has its own copy, and this may be the last hold on a large array
    yield state
    while state.status is None:
        state = step(problem, state, kernels, stop, deadline)
        yield state


def init(problem: Measurer, F: FloatArray, kernels: Kernels) -> State:
    """The state before the first outer step; the start's own partition is the first best."""
    arrays = kernels.allocate(F)
    measures = kernels.measure(arrays)
    partition = problem.measured(*kernels.harden(arrays))
    status = Status.COLLAPSED if has_collapsed(measures) else None
    return State(arrays, measures, 1.0 / kernels.lipschitz, partition, None, partition.energy, status=status)


def step(problem: Measurer, state: State, kernels: Kernels, stop: StopRule, deadline: float = np.inf) -> State:
    """One outer step F^k → F^{k+1} of Algorithm 1, and whether it was the last."""
    inner = prox_tv(
        kernels, state.arrays, state.measures, state.tau,
        stop=stop, budget=stop.max_iter - state.iterations, is_late=lambda: is_past(deadline),
    )  # fmt: skip
    partition = problem.measured(*kernels.harden(state.arrays))
    iterations = state.iterations + inner.iterations
    is_better = partition.energy < state.best.energy
    is_progress = partition.energy < (1 - PROGRESS) * state.mark
    best_F = None if is_better else state.best_F
    if not is_better and best_F is None:
        best_F = kernels.memberships(state.arrays, previous=True)
    after = replace(
        state,
        measures=inner.measures,
        tau=inner.tau,
        best=partition if is_better else state.best,
        best_F=best_F,
        mark=partition.energy if is_progress else state.mark,
        progress_at=iterations if is_progress else state.progress_at,
        energy=partition.energy,
        outer=state.outer + 1,
        iterations=iterations,
        is_descent=inner.is_descent,
    )
    return replace(after, status=terminate(state, after, stop, deadline))


def terminate(before: State, after: State, stop: StopRule, deadline: float = np.inf) -> Status | None:
    """The reason to stop after this outer step, if there is one."""
    if has_collapsed(after.measures):
        return Status.COLLAPSED
    old, new = before.measures.relaxed_energy, after.measures.relaxed_energy
    if abs(old - new) <= stop.tol * old:
        return Status.CONVERGED
    if stop.patience is not None and after.iterations >= max(after.progress_at, 2 * stop.patience) + stop.patience:
        return Status.SETTLED
    if after.iterations >= stop.max_iter:
        return Status.BUDGET_SPENT
    if is_past(deadline):
        return Status.TIME_SPENT
    return None


def solve(
    problem: Problem,
    start: ArrayLike,
    *,
    stop: StopRule | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    observers: Iterable[Observer] = (),
) -> Result:
    """Minimise Σ_r T(f_r)/B(f_r) over C from one start, by Algorithm 1 of the paper.

    Parameters
    ----------
    problem : Problem
        What is minimised: the graph, the number of clusters, λ and the fixed labels.
    start : array-like of shape (n_vertices, n_clusters)
        F⁰; projected onto C (decision 0004).
    stop : StopRule, optional
        When to stop; the paper's limits by default.
    device : {"cpu", "cuda", "auto", "reference"}
        "cuda" is an NVIDIA GPU; "auto" takes it where there is one.
    dtype : {"float32", "float64", "mixed"}
        The precision of the iterations; energies of partitions are always measured in float64.
    observers : iterable of callables
        Each is shown a `Progress` after every outer step; returning True stops the run.

    Returns
    -------
    Result
        Its partition is the best one seen, never worse than the start's own.

    Examples
    --------
    >>> import numpy as np
    >>> from tautcut import Graph, Problem, solve
    >>> path = Graph.from_edges([(i, i + 1) for i in range(5)])
    >>> start = np.linspace([1.0, 0.0], [0.2, 0.8], 6)
    >>> solve(Problem(path, 2), start, device="reference").partition.labels
    array([0, 0, 0, 1, 1, 1])
    """
    F = feasible(problem, start)
    if is_trivial(problem):
        partition = problem.partition(F.argmax(axis=1))
        return Result(problem, partition, F, partition.energy, Status.TRIVIAL, (), F)
    if devices.runs_on_gpu(problem, device):
        gpu = devices.gpu_engine(problem, dtype)
        return run_batch(problem, F[None], gpu, stop=stop or StopRule(), observers=observers).best
    kernels = devices.choose(problem, device=device, dtype=dtype, groups=F.argmax(axis=1))
    return run(problem, F, kernels, stop=stop or StopRule(), observers=observers)


def is_trivial(problem: Problem) -> bool:
    """Whether there is nothing to iterate on: one cluster, every vertex labelled, or no edge to cut."""
    return problem.n_clusters == 1 or bool(problem.is_labelled.all()) or problem.graph.n_edges == 0


def run(
    problem: Problem,
    start: ArrayLike,
    kernels: Kernels,
    *,
    stop: StopRule,
    observers: Iterable[Observer] = (),
    start_number: int = 0,
    deadline: float | None = None,
) -> Result:
    """`solve` on kernels that exist already; `start_number` is only passed on to the observers.

    `deadline` is the moment that the stop rule's time limit means, where several runs share it.
    """
    deadline = stop.deadline() if deadline is None else deadline
    states = steps(problem, feasible(problem, start), kernels, stop, deadline=deadline)
    observers = tuple(observers)
    history: list[Step] = []
    cut_short: Status | None = None
    try:
        for state in states:
            history.append(_line(state, kernels))
            if state.outer and any([_shows(observer, state, kernels, stop, start_number) for observer in observers]):
                cut_short = Status.STOPPED
                break
    except KeyboardInterrupt:
        if not history:
            raise
        cut_short = Status.INTERRUPTED
        warnings.warn(str(cut_short), InterruptedRunWarning, stacklevel=2)
    last = kernels.memberships(state.arrays)
    return Result(
        problem,
        problem.partition(state.best.labels),  # in float64, whatever the precision of the run
        _best_memberships(state, last, kernels),
        state.measures.relaxed_energy * kernels.unit,
        cut_short or state.status or Status.BUDGET_SPENT,
        tuple(history),
        last,
    )


def _best_memberships(state: State, last: FloatArray, kernels: Kernels) -> FloatArray:
    """The F that the best partition was read from; an interrupted outer step has left it in F^k."""
    if state.best_F is not None:
        return state.best_F
    is_best = np.array_equal(last.argmax(axis=1), state.best.labels)
    return last if is_best else kernels.memberships(state.arrays, previous=True)


def _line(state: State, kernels: Kernels) -> Step:
    relaxed = state.measures.relaxed_energy * kernels.unit
    return Step(state.outer, state.iterations, relaxed, state.energy, state.is_descent)


def _shows(observer: Observer, state: State, kernels: Kernels, stop: StopRule, start: int) -> bool:
    """Show the observer where the run stands; True if it asks to stop."""
    relaxed = state.measures.relaxed_energy * kernels.unit
    seen = Progress(start, state.outer, state.iterations, stop.max_iter, relaxed, state.energy, state.best.energy)
    return bool(observer(seen))


def feasible(problem: Problem, start: ArrayLike) -> FloatArray:
    """The start, checked, and projected onto C."""
    F = np.asarray(start, dtype=np.float64)
    shape = (problem.n_vertices, problem.n_clusters)
    if F.shape != shape:
        raise InputError(f"the start must have shape {shape} (vertices, clusters); found {F.shape}.")
    if not np.isfinite(F).all():
        raise InputError(f"the start must be finite; found {F[~np.isfinite(F)][0]}.")
    return project(F, problem.labels)
