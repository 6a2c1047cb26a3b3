"""Watching a run. After every outer step the solver shows each observer a `Progress` record; an observer that
returns True asks the run to stop. Observers never change a result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import isfinite
from time import monotonic
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

    There is one clock, beside the bar that is at work; it runs from the first moment to the last, whether anything is
    reported or not. `device` is named beside the bars if it is not the processor.
    """

    def __init__(self, device: str = "cpu") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[steps]}")]
        columns += [TextColumn("{task.fields[cut]}"), self._clock_column()]
        self._bars = Bars(*columns, console=Console(stderr=True))
        self._where = "" if device == "cpu" else f" on {device}"
        self._tasks: dict[str, Any] = {}
        self._newest: Any = None
        self._began = monotonic()

    def __enter__(self) -> ProgressBar:
        self._began = monotonic()
        self._bars.start()
        self._turn_to("preparing", None)
        return self

    def __exit__(self, *exception: object) -> None:
        self._leave()
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        name = f"{progress.phase} {progress.start + 1}{self._where}"
        self.show(name, progress.iterations, progress.max_iter, f"best cut {progress.best_energy:.5g}")

    def show(self, name: str, done: int, total: int, cut: str = "") -> None:
        """Turn to the bar of that name, and draw it with this many steps of the total done."""
        if self._newest is None or self._newest != self._tasks.get(name):
            self._leave()
            self._turn_to(name, total)
        done = max(done, int(self._task.completed))  # a bar does not go back
        total = max(done, total)
        self._bars.update(self._newest, completed=done, total=total, steps=f"{done:,}/{total:,}", cut=cut)

    @property
    def _task(self) -> Any:
        return self._bars.tasks[self._bars.task_ids.index(self._newest)]

    def _turn_to(self, name: str, total: int | None) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, visible=False, steps="", cut="")
        self._newest = self._tasks[name]
        self._bars.update(self._newest, visible=True)  # now that the clock is beside it

    def _leave(self) -> None:
        """A phase that stopped early is done all the same: its total becomes what it did."""
        if self._newest is None:
            return
        if self._task.total is None:  # what was prepared needs no line of its own
            self._bars.remove_task(self._tasks.pop("preparing"))
            self._newest = None
            return
        done = int(self._task.completed)
        self._bars.update(self._newest, total=done, steps=f"{done:,}/{done:,}")

    def _clock_column(self) -> Any:
        from rich.progress import ProgressColumn
        from rich.text import Text

        bar = self

        class Clock(ProgressColumn):
            def render(self, task: Any) -> Text:
                seconds = int(monotonic() - bar._began)
                return Text(str(timedelta(seconds=seconds)) if task.id == bar._newest else "")

        return Clock()
