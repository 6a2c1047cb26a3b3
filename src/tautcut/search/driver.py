"""Many starts, one answer. The starts are solved or searched, the lowest (P) wins and ties keep the first. Starts are
independent joblib tasks; their generators are spawned from one, so the answer does not depend on how many run at a
time. An interrupt returns the best so far.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.observers import Observer, Progress
from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import is_trivial, run, solve
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import CollapseWarning, InputError, InterruptedRunWarning
from tautcut.kernels.devices import choose, gpu_engine, runs_on_gpu
from tautcut.problem import Partition, Problem, cuts
from tautcut.search.generations import STARTS, Generations, n_generations
from tautcut.search.multilevel import EFFORTS, Effort, MultilevelSearch, in_threads, is_better, smallest_sizes
from tautcut.search.starts import StartMaker, fill_empty, seed_vertices, soften, start_maker, strong_partition

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

ALGORITHMS = ("fast", "paper")
_CUT_SHORT = (Status.INTERRUPTED, Status.STOPPED)
_PATIENCE = 25  # inner iterations without progress after which the fast algorithm has settled
_FAST_INNER = 25  # inner iterations of an outer step in the fast algorithm (decision 0013)
_NOISY_SHARE, _STRONG_WORK = 0.1, 500_000  # of the edge weight cut; directed edges (decision 0021)
_AUTO_WORK, _AUTO_RANGE = 2_000_000, (2, 8)  # directed edges over all starts, and their limits (decision 0014)


@dataclass(frozen=True, eq=False)
class Plan:
    """How to look for a partition.

    `algorithm="paper"` with `search="none"` is Algorithm 1 as printed and nothing on top of it. The fast algorithm
    also stops when the partition has settled, and hands multilevel starts to the search before it solves, so that
    Algorithm 1 runs once, from the best of them.
    """

    init: str | ArrayLike = "multilevel"
    n_init: int | str = "auto"
    algorithm: str = "fast"
    search: str = "short"
    min_cluster_size: int | None = None
    stop: StopRule = field(default_factory=StopRule)
    device: str = "cpu"
    dtype: str = "float32"
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        n_init = self.n_init
        is_whole = isinstance(n_init, int | np.integer) and not isinstance(n_init, bool)
        if n_init != "auto" and not (is_whole and int(n_init) >= 1):
            raise InputError(f"n_init must be a whole number ≥ 1 or 'auto'; found {n_init!r}.")
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)}; found {self.algorithm!r}.")
        if self.search not in EFFORTS:
            raise InputError(f"search must be one of {', '.join(EFFORTS)}; found {self.search!r}.")

    @property
    def effort(self) -> Effort:
        return EFFORTS[self.search]

    @property
    def stop_rule(self) -> StopRule:
        if self.algorithm == "paper":
            return self.stop
        return replace(self.stop, patience=_PATIENCE, max_inner=min(self.stop.max_inner, _FAST_INNER))

    def is_searched_first(self, problem: Problem) -> bool:
        """Whether the starts are partitions that the search takes as they are."""
        is_multilevel = isinstance(self.init, str) and self.init == "multilevel"
        has_labels = bool(problem.is_labelled.any())
        return is_multilevel and not has_labels and self.algorithm == "fast" and self.search != "none"

    def n_starts(self, problem: Problem, *, is_on_gpu: bool = False) -> int:
        """n_init; "auto" is one start where all would be the same or be solved in full, else more on smaller graphs.

        A GPU solves many in full, side by side.
        """
        if self.n_init != "auto":
            return int(self.n_init)
        if is_on_gpu and self.search != "none" and not problem.is_labelled.any():
            is_drawn = isinstance(self.init, str) and self.init != "ncut"
            return self.effort.starts * STARTS if is_drawn else 1
        if not self.is_searched_first(problem):
            return 1
        affordable = _AUTO_WORK // max(2 * problem.graph.n_edges, 1)
        return self.effort.starts * int(np.clip(affordable, *_AUTO_RANGE))


def best_of_starts(
    problem: Problem, plan: Plan, *, rng: np.random.Generator, observers: Iterable[Observer] = ()
) -> Result:
    """The partition of lowest (P) that the plan finds."""
    smallest = smallest_sizes(problem, plan.min_cluster_size)
    if is_trivial(problem):
        return solve(problem, start_maker(problem, plan.init, rng=rng)(0, rng))
    work = _Work(problem, plan, smallest, tuple(observers))
    if work.is_on_gpu:
        best = _search_on_gpu(work, rng)
    else:
        make = start_maker(problem, plan.init, rng=rng)
        generators = rng.spawn(plan.n_starts(problem))
        solve_all = plan.search == "none"
        best = _solve_starts(work, make, generators) if solve_all else _search_starts(work, make, generators, rng)
    if best.partition.has_empty_cluster:
        warnings.warn(str(Status.COLLAPSED), CollapseWarning, stacklevel=2)
    return best


@dataclass(frozen=True, eq=False)
class _Work:
    """What every start shares."""

    problem: Problem
    plan: Plan
    smallest: IntArray
    observers: tuple[Observer, ...]

    @cached_property
    def is_on_gpu(self) -> bool:
        """Whether a GPU runs Algorithm 1."""
        return runs_on_gpu(self.problem, self.plan.device)

    @cached_property
    def card(self) -> GpuKernels:
        """The GPU's engine, made once for all starts."""
        return gpu_engine(self.problem, self.plan.dtype)

    def solve(self, F: FloatArray, number: int = 0) -> Result:
        """Algorithm 1 from F."""
        if self.is_on_gpu:
            return run_batch(self.problem, F[None], self.card, stop=self.plan.stop_rule, observers=self.observers).best
        groups = F.argmax(axis=1)
        kernels = choose(self.problem, device=self.plan.device, dtype=self.plan.dtype, groups=groups)
        stop = self.plan.stop_rule
        return run(self.problem, F, kernels, stop=stop, observers=self.observers, start_number=number)

    def starts_for_gpu(self, rng: np.random.Generator) -> Any:
        """All starts at once: an array, or a tensor on the GPU if they are made there.

        A search whose multilevel starts would need the processor takes those of the normalised cut.
        """
        plan, problem, card = self.plan, self.problem, self.card
        from tautcut.kernels.gpu.spectral import GpuSpectral  # there is a card, so there is torch

        tools = GpuSpectral(card)
        n_starts = plan.n_starts(problem, is_on_gpu=True)
        card.starts_that_fit()  # refuses what is too large before anything is made
        n_fit = card.starts_of_gpu(n_starts)
        generators = rng.spawn(n_fit if plan.n_init == "auto" else n_starts)
        is_searched = isinstance(plan.init, str) and plan.init == "multilevel" and plan.search != "none"
        init = "ncut-seeds" if is_searched else plan.init
        are_seeds = isinstance(init, str) and init == "ncut-seeds" and not problem.is_labelled.any()
        if are_seeds and len(generators) == n_fit:
            clusters = fill_empty(tools.normalised_cut(problem.n_clusters, rng=rng), problem.n_clusters)
            vertices = [seed_vertices(clusters, problem.n_clusters, rng=one) for one in generators]
            return tools.diffuse_seeds(np.stack(vertices))
        make = start_maker(problem, init, rng=rng, spectral=tools)
        return np.stack([make(number, one) for number, one in enumerate(generators)])

    def tell(self, phase: str, step: int, n_steps: int, best: Partition) -> None:
        """Show the observers where the search stands; raises _Stopped if one asks to stop."""
        seen = Progress(0, 0, step, n_steps, np.nan, best.energy, best.energy, phase)
        if any([observer(seen) for observer in self.observers]):
            raise _Stopped


class _Stopped(Exception):  # noqa: N818 - an observer's wish, not an error
    """An observer asked the search to stop."""


def _solve_starts(work: _Work, make: StartMaker, generators: list[np.random.Generator]) -> Result:
    """Each start solved by itself; the lowest (P) wins, ties keep the first."""
    best: Result | None = None
    status: Status | None = None
    try:
        for result in _in_turn(work, make, generators):
            if best is None or result.partition.energy < best.partition.energy:
                best = result
            if result.status in _CUT_SHORT:
                status = result.status
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        status = Status.INTERRUPTED
        warnings.warn(str(status), InterruptedRunWarning, stacklevel=3)
    if best is None:
        raise KeyboardInterrupt
    return best if status is None else replace(best, status=status)


def _search_starts(
    work: _Work, make: StartMaker, generators: list[np.random.Generator], rng: np.random.Generator
) -> Result:
    """Starts make a population, the search combines them, and Algorithm 1 polishes the best."""
    best = _Best(work)
    try:
        search = MultilevelSearch(work.problem, work.smallest, work.plan.effort.children)
        population = _population(work, search, make, generators, best)
        if best.is_cut_short:
            return best.result()
        population += _strong_partitions(work, search, best, rng)
        n = len(population)
        combinations = min(work.plan.effort.combinations, n * (n - 1) // 2)
        for step, champion in enumerate(search.evolve(population, combinations, rng=rng)):
            best.offer(champion)
            work.tell("search", step, combinations, champion)
        if not work.problem.is_labelled.any():
            _polish(work, partial(search.refine, rng=rng), best)
    except (KeyboardInterrupt, _Stopped) as cause:
        best.cut_short(cause)
    return best.result()


def _search_on_gpu(work: _Work, rng: np.random.Generator) -> Result:
    """Algorithm 1 from all starts side by side on a GPU, then generations of children if the plan asks for a search."""
    plan = work.plan
    starts = work.starts_for_gpu(rng)
    if plan.search == "none":
        return run_batch(work.problem, starts, work.card, stop=plan.stop_rule, observers=work.observers).best
    best = _Best(work)
    has_labels = bool(work.problem.is_labelled.any())
    try:
        evolution = Generations(work.card, work.smallest, stop=plan.stop_rule, observers=work.observers)
        count = n_generations(work.problem, plan.effort)
        steps = chain([evolution.solve(starts)], evolution.generations(count, rng=rng))
        for step, (found, champion) in enumerate(steps):
            best.offer(found.partition, found if has_labels else None)
            best.offer(champion)
            best.heed(found)
            if best.is_cut_short:
                break
            work.tell("search" if step else "starts", step or 1, count or 1, champion)
        if not (has_labels or best.is_cut_short):
            _polish(work, evolution.refine, best)
    except (KeyboardInterrupt, _Stopped) as cause:
        best.cut_short(cause)
    return best.result()


class _Best:
    """The best partition so far, and the run that it came from or that polished it."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self.partition: Partition | None = None
        self._run: Result | None = None
        self._status: Status | None = None

    def offer(self, partition: Partition, run: Result | None = None) -> bool:
        """Keep the partition if it is better; keep the run in any case if there is none yet, or it is."""
        wins = self.partition is None or is_better(partition, self.partition, self._work.smallest)
        if wins:
            self.partition = partition
        if run is not None and (wins or self._run is None):
            self._run = run
        if run is not None:
            self.heed(run)
        return wins

    def heed(self, run: Result) -> None:
        """Stop where the run was stopped."""
        if run.status in _CUT_SHORT:
            self._status = run.status

    @property
    def is_cut_short(self) -> bool:
        return self._status is not None

    def cut_short(self, cause: BaseException) -> None:
        if self.partition is None:
            raise cause
        self._status = Status.INTERRUPTED if isinstance(cause, KeyboardInterrupt) else Status.STOPPED
        if self._status is Status.INTERRUPTED:
            warnings.warn(str(self._status), InterruptedRunWarning, stacklevel=3)

    def result(self) -> Result:
        if self.partition is None:
            raise KeyboardInterrupt
        if self._run is None:  # cut short before Algorithm 1 began
            F = soften(self.partition.labels, self._work.problem.n_clusters)
            return Result(self._work.problem, self.partition, F, np.nan, self._status or Status.STOPPED, (), F)
        return replace(self._run, partition=self.partition, status=self._status or self._run.status)


def _population(
    work: _Work, search: MultilevelSearch, make: StartMaker, generators: list[np.random.Generator], best: _Best
) -> list[Partition]:
    """The partitions of the starts: the search's own, or those that Algorithm 1 finds, refined."""
    population: list[Partition] = []
    if work.plan.is_searched_first(work.problem):
        found: Iterator[Any] = _search_in_turn(work, search, generators)
    else:
        found = _in_turn(work, make, generators)
    for number, item in enumerate(found):
        run = item if isinstance(item, Result) else None
        partition = item if run is None else search.refine(run.partition, rng=generators[number])
        population.append(partition)
        best.offer(partition, run)
        if best.is_cut_short:
            break
        work.tell("starts", number + 1, len(generators), best.partition or partition)
    return population


def _strong_partitions(work: _Work, search: MultilevelSearch, best: _Best, rng: np.random.Generator) -> list[Partition]:
    """Another partitioner's best, refined, where the effort asks for it and the search knows no labels."""
    wanted: tuple[float, ...] = ()
    if work.plan.is_searched_first(work.problem):
        effort = work.plan.effort
        wanted = effort.strong or (effort.strong_if_noisy if _is_noisy(work.problem, best.partition) else ())
    refined = []
    for imbalance in wanted:
        labels = strong_partition(work.problem, imbalance=imbalance)
        if labels is not None:
            refined.append(search.refine(work.problem.partition(labels), rng=rng))
            best.offer(refined[-1])
            work.tell("starts", len(refined), len(wanted), best.partition or refined[-1])
    return refined


def _is_noisy(problem: Problem, partition: Partition | None) -> bool:
    """Whether the best partition so far cuts many edges, on a graph small enough for a slow partitioner."""
    graph = problem.graph
    if partition is None or graph.indices.size > _STRONG_WORK:
        return False
    return bool(cuts(graph, partition.labels, problem.n_clusters).sum() > _NOISY_SHARE * graph.weights.sum())


def _polish(work: _Work, refine: Callable[[Partition], Partition], best: _Best) -> None:
    """Algorithm 1 from the best partition, then a refinement; again while that helps."""
    for number in range(work.plan.effort.rounds):
        assert best.partition is not None  # for the type checker: the population is never empty
        result = work.solve(soften(best.partition.labels, work.problem.n_clusters), number)
        has_won = best.offer(result.partition, result)
        if best.is_cut_short:
            break
        has_won |= best.offer(refine(best.partition))
        if not has_won:
            break


def _in_turn(work: _Work, make: StartMaker, generators: list[np.random.Generator]) -> Iterator[Result]:
    """Each start solved, in their order, as soon as it is there; by joblib where n_jobs asks for it."""
    starts = ((number, make(number, rng)) for number, rng in enumerate(generators))
    if work.plan.n_jobs in (None, 1):
        for number, F in starts:
            yield work.solve(F, number)
        return
    from joblib import Parallel, delayed

    silent = replace(work, observers=())  # a bar cannot be drawn from another process
    tasks = (delayed(silent.solve)(F, number) for number, F in starts)
    yield from Parallel(n_jobs=work.plan.n_jobs, return_as="generator")(tasks)


def _search_in_turn(
    work: _Work, search: MultilevelSearch, generators: list[np.random.Generator]
) -> Iterator[Partition]:
    """Each multilevel start, in their order; in threads, or by joblib where n_jobs asks for it."""
    numbered = list(enumerate(generators))
    if work.plan.n_jobs in (None, 1):
        yield from in_threads(lambda item: search.start(item[0], rng=item[1]), numbered)
        return
    from joblib import Parallel, delayed

    tasks = (delayed(search.start)(number, rng=rng) for number, rng in numbered)
    yield from Parallel(n_jobs=work.plan.n_jobs, return_as="generator")(tasks)
