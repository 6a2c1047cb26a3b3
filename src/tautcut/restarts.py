"""Many starts, one answer: each start is solved, refined and compared by (P); the lowest wins and ties keep the
first. Starts are independent joblib tasks; their generators are spawned from one, so the answer does not depend on
how many run at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tautcut.errors import CollapseWarning, InputError, InterruptedRunWarning
from tautcut.kernels import choose
from tautcut.observers import Observer
from tautcut.problem import FloatArray, IntArray, Problem
from tautcut.search import EFFORTS, Effort, evolve, is_better, refine, smallest_sizes
from tautcut.solver import Result, is_trivial, run, solve
from tautcut.starts import StartMaker, soften, start_maker
from tautcut.stopping import Status, StopRule

ALGORITHMS = ("fast", "paper")


@dataclass(frozen=True)
class Plan:
    """How to look for a partition: the settings that every start shares.

    `algorithm="paper"` with `search="none"` is Algorithm 1 as printed and nothing on top of it.
    """

    init: str | ArrayLike = "multilevel"
    n_init: int = 1
    algorithm: str = "fast"
    search: str = "short"
    min_cluster_size: int | None = None
    stop: StopRule = StopRule()
    device: str = "cpu"
    dtype: str = "float32"
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.n_init, bool) or not isinstance(self.n_init, int | np.integer) or self.n_init < 1:
            raise InputError(f"n_init must be a whole number ≥ 1; found {self.n_init!r}.")
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)}; found {self.algorithm!r}.")
        if self.search not in EFFORTS:
            raise InputError(f"search must be one of {', '.join(EFFORTS)}; found {self.search!r}.")

    @property
    def effort(self) -> Effort:
        return EFFORTS[self.search]


def best_of_starts(
    problem: Problem, plan: Plan, *, rng: np.random.Generator, observers: Iterable[Observer] = ()
) -> Result:
    """The lowest (P) over `plan.n_init` starts."""
    make = start_maker(problem, plan.init, rng=rng)
    smallest = smallest_sizes(problem, plan.min_cluster_size)
    generators = rng.spawn(plan.n_init)
    if is_trivial(problem):
        return solve(problem, make(0, generators[0]))
    best: Result | None = None
    for result in _results(problem, plan, make, generators, smallest, tuple(observers)):
        if best is None or is_better(result.partition, best.partition, smallest):
            best = result
        if result.status in (Status.INTERRUPTED, Status.STOPPED):
            break
    if best is None:
        raise KeyboardInterrupt
    return best


def _results(
    problem: Problem,
    plan: Plan,
    make: StartMaker,
    generators: list[np.random.Generator],
    smallest: IntArray,
    observers: tuple[Observer, ...],
) -> Iterator[Result]:
    """The results of the starts in their order, each as soon as it is there."""
    if plan.n_jobs in (None, 1):
        for number, rng in enumerate(generators):
            yield _one_start(problem, plan, make(number, rng), smallest, rng, observers, number)
        return
    from joblib import Parallel, delayed

    tasks = (
        delayed(_one_start)(problem, plan, make(number, rng), smallest, rng, (), number)
        for number, rng in enumerate(generators)
    )
    try:
        yield from Parallel(n_jobs=plan.n_jobs, return_as="generator")(tasks)
    except KeyboardInterrupt:
        warnings.warn(str(Status.INTERRUPTED), InterruptedRunWarning, stacklevel=2)


def _one_start(
    problem: Problem,
    plan: Plan,
    F: FloatArray,
    smallest: IntArray,
    rng: np.random.Generator,
    observers: tuple[Observer, ...],
    number: int,
) -> Result:
    """Solve one start, then search from where it ended."""
    kernels = choose(problem, device=plan.device, dtype=plan.dtype)
    result = run(problem, F, kernels, stop=plan.stop, observers=observers, start_number=number)
    if result.status is Status.COLLAPSED and result.partition.has_empty_cluster:
        warnings.warn(str(result.status), CollapseWarning, stacklevel=2)
    if plan.search == "none":
        return result
    champion = refine(problem, result.partition, smallest)
    for _ in range(plan.effort.generations):
        if result.status in (Status.INTERRUPTED, Status.STOPPED):
            break
        child = evolve(problem, champion, children=plan.effort.children, smallest=smallest, rng=rng)
        if child is champion:
            break
        again = run(problem, soften(child.labels, problem.n_clusters), kernels, stop=plan.stop)
        polished = refine(problem, again.partition, smallest)
        champion = child
        result = replace(result, memberships=again.memberships, status=again.status)
        if is_better(polished, champion, smallest):
            champion = polished
    return replace(result, partition=champion)
