"""Watching a run. After every outer step the solver shows each observer a `Progress` record; an observer that
returns True asks the run to stop. Observers never change a result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, TextIO

logger = logging.getLogger("tautcut")


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an outer step, or a search after a step of its own.

    `iterations` of at most `max_iter` are done; in a search they are its steps, and there is no relaxed energy.
    """

    start: int
    outer: int
    iterations: int
    max_iter: int
    relaxed_energy: float
    energy: float
    best_energy: float
    phase: str = "solve"


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
        values = {
            name: None if isinstance(value, float) and not isfinite(value) else value  # JSON has no infinity
            for name, value in asdict(progress).items()
        }
        self._file.write(json.dumps(values) + "\n")


class ProgressBar:
    """Bars on the terminal, one for each start and each phase, with the best cut so far. Use as a context.

    `device` is named beside them if it is not the processor.
    """

    def __init__(self, device: str = "cpu") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        cut = TextColumn("best cut {task.fields[cut]:.5g}")
        self._bars = Bars(*columns, cut, TimeElapsedColumn(), console=Console(stderr=True))
        self._where = "" if device == "cpu" else f" on {device}"
        self._current: tuple[str, int] | None = None
        self._task: Any = None

    def __enter__(self) -> ProgressBar:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._finish()
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        if (progress.phase, progress.start) != self._current:
            self._finish()
            self._current = (progress.phase, progress.start)
            name = f"{progress.phase} {progress.start + 1}{self._where}"
            self._task = self._bars.add_task(name, total=progress.max_iter, cut=progress.best_energy)
        self._bars.update(self._task, completed=progress.iterations, cut=progress.best_energy)

    def _finish(self) -> None:
        """A phase that stopped early is done all the same: its total becomes what it did."""
        if self._task is not None:
            self._bars.update(self._task, total=self._bars.tasks[-1].completed)
