"""The oracle of every batch: the solver's own loop, for several starts in turn. It is there to be compared with,
decision by decision, and to stand in for a GPU in tests; it is not fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tautcut.algorithm.solver import State, steps
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.batch import Ending, Limits, Look
from tautcut.kernels.protocol import Kernels
from tautcut.problem import Partition, Problem


class ReferenceBatch:
    """Starts side by side in NumPy, each of them `solver.steps`; one look after every outer step of all that run.

    The same engine may serve all starts: what differs between them is in its arrays.
    """

    def __init__(self, problem: Problem, starts: FloatArray, kernels: Kernels, limits: Limits) -> None:
        self._problem, self._kernels, self._limits = problem, kernels, limits
        stop = StopRule(
            tol=limits.tol, max_iter=limits.max_iter, max_inner=limits.max_inner, epsilon=limits.epsilon,
            patience=limits.patience or None,
        )  # fmt: skip
        self._runs = [steps(problem, F, kernels, stop) for F in starts]
        self._histories: list[list[State]] = [[next(run)] for run in self._runs]

    @property
    def states(self) -> list[State]:
        """The state of each start."""
        return [history[-1] for history in self._histories]

    @property
    def best_labels(self) -> IntArray:
        return np.stack([state.best.labels for state in self.states])

    def run(self) -> Iterator[list[Look]]:
        while any(state.status is None for state in self.states):
            for run, history in zip(self._runs, self._histories, strict=True):
                history.extend([next(run)] if history[-1].status is None else [])
            yield self.look()

    def look(self) -> list[Look]:
        unit = self._kernels.unit
        return [
            Look(
                Ending.RUNNING if state.status is None else Ending[state.status.name],
                state.iterations, state.outer, state.energy / unit, state.best.energy / unit,
                state.measures.relaxed_energy,
            )
            for state in self.states
        ]  # fmt: skip

    def best(self, s: int) -> tuple[Partition, Callable[[], FloatArray]]:
        state = self.states[s]
        F = self._kernels.memberships(state.arrays) if state.best_F is None else state.best_F
        return self._problem.partition(state.best.labels), lambda: F

    def last(self, s: int) -> Callable[[], FloatArray]:
        F = self._kernels.memberships(self.states[s].arrays)
        return lambda: F

    def lines(self, s: int, count: int) -> FloatArray:
        unit = self._kernels.unit
        lines = [
            (one.iterations, one.measures.relaxed_energy, one.energy / unit, one.is_descent)
            for one in self._histories[s][:count]
        ]
        return np.array(lines, dtype=np.float64)
