"""What a batch is: many starts of Algorithm 1 side by side, on an engine that runs the loop itself and takes the
solver's decisions on its own memory. This module says which they are, free of torch: why a start has ended, within what
limits, and what the host sees of it. `ReferenceBatch` in `tautcut.algorithm` is the oracle of every decision, because
it is the solver's own loop.

After every inner iteration of a start, in this order (the names are those of `tautcut.algorithm`):

1. `prox.prox_tv`: τ, σ and θ move on; the outer step ends if the descent estimate holds, if it has taken `max_inner`
   iterations, or if `max_iter` are spent in all.
2. `solver.step`, at the end of an outer step: the partition becomes the best one if its (P) is lower; it is progress if
   its (P) is lower by a share of `progress` than at the last progress.
3. `solver.terminate`: collapsed, converged, settled, budget spent, in this order. Where F is no longer finite, the
   solver sees the collapse at the end of the outer step; an engine may end the start at once.

Time and the wishes of observers are the host's to heed: it looks at a batch every so often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from tautcut.arrays import FloatArray, RealArray
from tautcut.problem import Partition


class Ending(IntEnum):
    """Why a start has ended; the names are those of `Status`."""

    RUNNING = 0
    COLLAPSED = 1
    CONVERGED = 2
    SETTLED = 3
    BUDGET_SPENT = 4


@dataclass(frozen=True)
class Limits:
    """The numbers of a `StopRule` that a batch decides by. `patience` 0 is none; `n_history` lines are kept."""

    tol: float
    max_iter: int
    max_inner: int
    epsilon: float
    progress: float
    patience: int
    n_history: int


@dataclass(frozen=True)
class Look:
    """Where one start stands: outer is −1 before its first measurement; energies are in the engine's units."""

    ending: Ending
    iterations: int
    outer: int
    energy: float
    best: float
    relaxed: float


class Batch(Protocol):
    """Starts that run side by side. `best_labels` (start, row) stay in the memory and order of the engine."""

    best_labels: Any

    def run(self) -> Iterator[list[Look]]:
        """Run until every start has ended; now and then, where each of them stands."""

    def look(self) -> list[Look]:
        """Where each start stands."""

    def best(self, s: int) -> tuple[Partition, Callable[[], FloatArray]]:
        """The best partition of start s, and what fetches the F that it was read from."""

    def last(self, s: int) -> Callable[[], RealArray]:
        """What fetches the F that start s has come to, in the engine's precision."""

    def lines(self, s: int, count: int) -> FloatArray:
        """The history of start s: iterations, Σ E(f_r), (P) in the engine's units, descent; a line per outer step."""


class BatchKernels(Protocol):
    """An engine that runs batches. Rows are the vertices in an order of its own."""

    unit: float
    weight_unit: float

    def starts_that_fit(self, wanted: int = 1) -> int:
        """How many of the wanted starts its memory holds at a time."""

    def feasible(self, starts: Any) -> Any:
        """Starts (start, vertex, cluster), or what the engine itself made of such, projected onto C, in its memory."""

    def batch(self, starts: Any, limits: Limits) -> Batch:
        """The starts, ready to run."""

    def joined(self, parts: list[Any]) -> Any:
        """Labels or starts of several batches as one."""
