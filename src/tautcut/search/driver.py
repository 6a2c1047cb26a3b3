"""The outline of every search: starts, a population, children, Algorithm 1 from the best, the best of all. How starts
and children are made, refined and solved is the searcher's; where it runs, the driver does not know. An interrupt, an
observer or a deadline returns the best so far.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any, Protocol

import numpy as np

from tautcut.algorithm.observers import Observer, Progress
from tautcut.algorithm.results import Agreement, Result
from tautcut.algorithm.solver import is_trivial, solve
from tautcut.algorithm.stopping import CUT_SHORT, Status, is_past
from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import CollapseWarning, InterruptedRunWarning
from tautcut.interrupts import apart
from tautcut.kernels import devices
from tautcut.problem import Partition, Problem
from tautcut.search import ahead, cycles
from tautcut.search.bounds import with_bounds
from tautcut.search.generations import GenerationSearcher
from tautcut.search.layout import in_order, near_order
from tautcut.search.levels import LevelSearcher
from tautcut.search.matching import matched_clusters
from tautcut.search.multilevel import MultilevelSearcher
from tautcut.search.pieces import PiecesSearcher, packed_pieces
from tautcut.search.plan import Plan, Task
from tautcut.search.population import Found, Population, is_better
from tautcut.search.small import SmallSearcher
from tautcut.search.starts import soften, start_maker

_UNEVEN = (
    1e-6  # by which a row of F may miss a sum of one: a projection in single precision misses it by more, at times
)
_ROWS_AT_A_TIME = 1 << 14
AGREED = 1e-6  # of the lowest (P): starts that end no further above it agree


class Searcher(Protocol):
    """A local search on one task. `n_starts` and `n_children` are how many are to come, for whoever watches.

    What `starts` and `children` yield has joined the population before the next one is asked for.
    """

    capacity: int | None
    is_exact: bool  # whether its one start is the lowest partition there is
    n_starts: int
    n_children: int
    n_polishes: int  # runs of Algorithm 1 from the best partition that are to follow, while they help

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The partitions to begin with."""

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """Partitions made of those in the population."""

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """A partition nearby; never higher in (P)."""

    def solve(self, F: FloatArray, number: int = 0) -> Result:
        """Algorithm 1 from F; the number is shown to observers."""


def best_of_starts(
    problem: Problem, plan: Plan, *, rng: np.random.Generator, observers: Iterable[Observer] = ()
) -> Result:
    """The partition of lowest (P) that the plan finds; its memberships agree with it."""
    interrupt = Event()
    # Without a search, Algorithm 1 alone scales the weights, and rounds none (decision 0008).
    scaled, unit = problem.in_means(of_weights=plan.search != "none")
    watching = tuple(observers) if scaled is problem else tuple(partial(_show_in_units, one, unit) for one in observers)
    task = Task(scaled, plan, (*watching, lambda _: interrupt.is_set()), plan.stop.deadline())
    _ = task.smallest  # refused, if it cannot be, before anything is computed
    if is_trivial(problem):
        result = solve(problem, start_maker(problem, task.init("multilevel"), rng=rng)(0, rng))
        _warn_of_sizes(scaled.partition(result.partition.labels), task)
        return result
    plan.foresee_memory(problem.graph, problem.n_clusters)
    order = apart(lambda: _order_of(task))
    laid_out = apart(lambda: _begun(task, order))
    best = _Best(laid_out)
    watched = replace(laid_out, keep=best.keep)
    try:
        apart(lambda: _search(_searcher_for(watched), watched, best, rng), interrupt.set)
        if interrupt.is_set():
            raise KeyboardInterrupt
    except KeyboardInterrupt as cause:  # what the search has found by now is the answer, even if it still goes on
        best.cut_short(cause)
    result = best.result()
    _warn_of_sizes(result.partition, task)
    if order is not None:
        result = _result_in_order(result, scaled, order)
    return result if scaled is problem else _result_in_units(result, problem, unit)


def _order_of(task: Task) -> IntArray | None:
    """The order in which to lay out the vertices of a large graph; None leaves them as they are (decision 0054)."""
    problem, plan = task.problem, task.plan
    if plan.search == "none" or task.is_small or devices.resolved(plan.device) != "cpu" or problem.numerator != "tv":
        return None
    return near_order(problem, problem.n_clusters * plan.bytes_of_value)


def _begun(task: Task, order: IntArray | None) -> Task:
    """The task as it is searched: its vertices in this order, its kernels compiled, its clusters bounded."""
    if order is not None:
        task = _in_order(task, order)
    ahead.compile_side_by_side(task)
    return with_bounds(task)


def _in_order(task: Task, order: IntArray) -> Task:
    """The task with its vertices in this order, and the user's own start too."""
    plan = task.plan
    if not isinstance(plan.init, str) and np.shape(plan.init)[:1] == order.shape:  # else it is refused, later
        plan = replace(plan, init=np.asarray(plan.init)[order])
    return replace(task, problem=in_order(task.problem, order), plan=plan)


def _result_in_order(result: Result, problem: Problem, order: IntArray) -> Result:
    """The result with its vertices in the order of the problem."""
    partition = replace(result.partition, labels=_placed(result.partition.labels, order))
    return result.changed(
        problem=problem, partition=partition, memberships=lambda: _placed(result.memberships, order),
        last_memberships=lambda: _placed(result.last_memberships, order),
    )  # fmt: skip


def _placed(rows: Any, order: IntArray) -> Any:
    placed = np.empty_like(rows)
    placed[order] = rows
    return placed


def _warn_of_sizes(partition: Partition, task: Task) -> None:
    """Say so where a cluster is empty, or smaller than was asked for."""
    least, asked = float(partition.masses.min()) / task.point_mass, task.plan.min_cluster_size
    if partition.has_empty_cluster:
        warnings.warn(str(Status.COLLAPSED), CollapseWarning, stacklevel=3)
    elif asked is not None and asked > 1 and least < (1 - 1e-6) * asked:
        why = "search='none' does not heed it" if task.plan.search == "none" else "the search found none that keeps it"
        message = (
            f"a cluster has {least:g} vertices, fewer than min_cluster_size={asked}: {why}. Lower it, or search on."
        )
        warnings.warn(message, CollapseWarning, stacklevel=3)


def _show_in_units(observer: Observer, unit: float, seen: Progress) -> bool | None:
    energies = (unit * seen.relaxed_energy, unit * seen.energy, unit * seen.best_energy)
    return observer(replace(seen, relaxed_energy=energies[0], energy=energies[1], best_energy=energies[2]))


def _result_in_units(result: Result, problem: Problem, unit: float) -> Result:
    """The result with its energies in the user's units."""
    history = tuple(
        replace(step, relaxed_energy=unit * step.relaxed_energy, energy=unit * step.energy) for step in result.history
    )
    return result.changed(
        problem=problem, partition=problem.partition(result.partition.labels),
        relaxed_energy=unit * result.relaxed_energy, history=history,
    )  # fmt: skip


def _searcher_for(task: Task) -> Searcher:
    is_on_gpu = devices.runs_on_gpu(task.problem, task.plan.device)
    of_gpu = LevelSearcher if LevelSearcher.suits(task) else GenerationSearcher
    on_device = (of_gpu if is_on_gpu else MultilevelSearcher)(task)
    packed = packed_pieces(task.problem, task.smallest) if task.is_searched else None
    if packed is not None:
        return PiecesSearcher(task, packed, on_device.solve)
    # Without Numba or a partitioner, the search of a GPU serves small graphs too (decision 0022).
    is_equipped = not is_on_gpu or cycles.can_run()
    return SmallSearcher(task, on_device.solve) if task.is_small and is_equipped else on_device


def _search(searcher: Searcher, task: Task, best: _Best, rng: np.random.Generator) -> None:
    """Starts make a population, children improve it, and Algorithm 1 polishes the best."""
    population = Population(task.smallest, searcher.capacity)
    best.begin(searcher)
    try:
        for number, start in enumerate(searcher.starts(population, rng=rng), 1):
            population.found(start.partition)
            best.count(start)
            best.offer(start)
            best.show("starts", number, searcher.n_starts)
        matched = matched_clusters(task, best.partition) if task.problem.has_labels else None
        if matched is not None:
            run = searcher.solve(soften(matched.labels, task.problem.n_clusters))
            best.offer(Found(run.partition, run))
            best.offer(Found(searcher.refine(best.partition, rng=rng)))
        for number, child in enumerate(searcher.children(population, rng=rng), 1):
            population.add(child.partition)
            best.offer(Found(population[0], child.run))  # not the child: it may be another name of a partition known
            best.show("search", number, searcher.n_children)
        for number in range(searcher.n_polishes):
            run = searcher.solve(soften(best.partition.labels, task.problem.n_clusters), number)
            has_won = best.offer(Found(run.partition, run))
            has_won |= best.offer(Found(searcher.refine(best.partition, rng=rng)))
            if not has_won:
                break
    except (KeyboardInterrupt, _CutShort) as cause:
        best.cut_short(cause)


class _CutShort(Exception):  # noqa: N818 - a wish, not an error
    """The search should end with the best so far; `status` says why."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class _Best:
    """The best partition so far, and the run that it came from or that polished it."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._searcher: Searcher | None = None
        self._start_energies: list[float] = []
        self._partition: Partition | None = None
        self._run: Result | None = None
        self._status: Status | None = None

    @property
    def partition(self) -> Partition:
        assert self._partition is not None  # for the type checker: there is no search without a start
        return self._partition

    def keep(self, run: Result) -> None:
        """The first run's own partition is there to be had while it is still refined."""
        if self._partition is None:
            self._partition, self._run = run.partition, run

    def begin(self, searcher: Searcher) -> None:
        """Remember who searches."""
        self._searcher = searcher

    def count(self, start: Found) -> None:
        """Remember where a start ended."""
        self._start_energies += start.n_alike * [start.partition.energy]

    def offer(self, found: Found) -> bool:
        """Keep the partition if it is better; keep the run too if it is, or if there is none yet.

        Raises _CutShort where the run was.
        """
        wins = self._partition is None or is_better(found.partition, self._partition, self._task.smallest)
        if wins:
            self._partition = found.partition
        if found.run is not None:
            if wins or self._run is None:
                self._run = found.run
            if found.run.status in CUT_SHORT:
                raise _CutShort(found.run.status)
        return wins

    def show(self, phase: str, step: int, n_steps: int) -> None:
        """Show the observers where the search stands; raises _CutShort if one asks to stop, or if time is over."""
        energy = self.partition.energy
        seen = Progress(0, 0, step, max(step, n_steps), np.nan, energy, energy, phase)
        if any([observer(seen) for observer in self._task.observers]):
            raise _CutShort(Status.STOPPED)
        if is_past(self._task.deadline):
            raise _CutShort(Status.TIME_SPENT)

    def cut_short(self, cause: KeyboardInterrupt | _CutShort) -> None:
        """End with what there is; an interrupt before there is anything goes on to the caller."""
        if self._partition is None:
            raise cause
        self._status = cause.status if isinstance(cause, _CutShort) else Status.INTERRUPTED
        if isinstance(cause, KeyboardInterrupt):  # a run that was interrupted has said so itself
            warnings.warn(str(self._status), InterruptedRunWarning, stacklevel=3)

    def result(self) -> Result:
        problem, run = self._task.problem, self._run  # one look: after an interrupt the search may go on meanwhile
        partition = problem.partition(self.partition.labels)  # in float64, and summed up once
        if run is None:  # cut short before Algorithm 1 began
            F = soften(partition.labels, problem.n_clusters)
            status = self._status or Status.STOPPED
            return Result(problem, partition, F, np.nan, status, (), F, agreement=self._agreement(partition))
        return run.changed(
            partition=partition, memberships=lambda: agreeing_memberships(run.memberships, partition.labels),
            status=self._status or run.status, agreement=self._agreement(partition),
        )  # fmt: skip

    def _agreement(self, partition: Partition) -> Agreement | None:
        """How many starts ended at this partition's energy, by now; None before a search began."""
        searcher, energies = self._searcher, np.array(self._start_energies)
        if searcher is None:
            return None
        is_near = (energies >= (1 - AGREED) * partition.energy) & (energies <= (1 + AGREED) * partition.energy)
        n_best = int(is_near.sum())
        n_starts = energies.size if self._status else max(energies.size, searcher.n_starts)
        return Agreement(n_starts, n_best, searcher.is_exact and n_starts > 0)


def agreeing_memberships(F: FloatArray, labels: IntArray) -> FloatArray:
    """F with the largest entry of each row moved to its label, where the search has moved the vertex."""
    agreeing = F.copy()
    for first in range(0, len(F), _ROWS_AT_A_TIME):  # what is made of them stays in the cache
        here, wanted = agreeing[first : first + _ROWS_AT_A_TIME], labels[first : first + _ROWS_AT_A_TIME]
        total = here.sum(axis=1)
        uneven = np.flatnonzero(abs(total - 1.0) > _UNEVEN)
        here[uneven] /= total[uneven, None]
        moved = np.flatnonzero(here.argmax(axis=1) != wanted)
        largest = here[moved].argmax(axis=1)
        own = here[moved, wanted[moved]]
        here[moved, wanted[moved]] = here[moved, largest]
        here[moved, largest] = own
        tied = moved[here[moved].argmax(axis=1) != wanted[moved]]
        here[tied, wanted[tied]] = np.nextafter(here[tied, wanted[tied]], np.inf)
    return agreeing
