"""Watching a run. After every outer step the solver shows each observer a `Progress` record; an observer that
returns True asks the run to stop. Observers never change a result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TextIO

logger = logging.getLogger("tautcut")


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an outer step."""

    start: int
    outer: int
    iterations: int
    max_iter: int
    relaxed_energy: float
    energy: float
    best_energy: float


Observer = Callable[[Progress], "bool | None"]


def log_progress(progress: Progress) -> None:
    """Write each step to the `tautcut` logger at level INFO."""
    logger.info(
        "start %d, iteration %d: relaxed energy %.6g, best cut %.6g",
        progress.start, progress.iterations, progress.relaxed_energy, progress.best_energy,
    )  # fmt: skip


class JsonLines:
    """Write each step as one JSON object per line to an open text file."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __call__(self, progress: Progress) -> None:
        self._file.write(json.dumps(asdict(progress)) + "\n")


class ProgressBar:
    """A bar on the terminal: inner iterations over all starts, and the best cut so far. Use as a context."""

    def __init__(self, n_starts: int, max_iter: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        self._bar = Bar(*columns, TextColumn("{task.fields[cut]}"), TimeElapsedColumn())
        self._task = self._bar.add_task("starts", total=n_starts * max_iter, cut="")
        self._max_iter = max_iter
        self._best = float("inf")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        self._best = min(self._best, progress.best_energy)
        done = progress.start * self._max_iter + progress.iterations
        self._bar.update(self._task, completed=done, cut=f"best cut {self._best:.5g}")
