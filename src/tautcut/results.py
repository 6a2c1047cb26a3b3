"""What a run leaves behind: `Result`, the partition and how it was found, and `Step`, one line of its history. Nothing
here computes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tautcut.problem import FloatArray, Partition, Problem
from tautcut.stopping import Status


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

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a page to look at, one HTML file: `tautcut.report.page.write_page` with nothing but this result."""
        from tautcut.report.page import write_page  # up the layers, and only when it is called

        return write_page(path, self)
