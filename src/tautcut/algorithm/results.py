"""What a run leaves behind: `Result`, the partition and how it was found, and `Step`, one line of its history. Nothing
here computes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tautcut.algorithm.stopping import Status
from tautcut.arrays import FloatArray
from tautcut.problem import Partition, Problem


@dataclass(frozen=True)
class Step:
    """One line of a run's history."""

    outer: int
    iterations: int
    relaxed_energy: float
    energy: float
    is_descent: bool


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found: the best partition, the F it was read from, why the run stopped, and how it went.

    `relaxed_energy` is Σ_r E(f_r) of the last F, the one that Algorithm 1 ended with.
    """

    problem: Problem
    partition: Partition
    memberships: FloatArray
    relaxed_energy: float
    status: Status
    history: tuple[Step, ...]

    @property
    def n_iter(self) -> int:
        """Inner iterations done."""
        return self.history[-1].iterations if self.history else 0
