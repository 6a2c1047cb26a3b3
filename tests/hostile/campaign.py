"""Many cases of the fuzzers, side by side: what is run until when, what is kept of it, and what is said of it. Logs and
failing cases go to a folder of their own; the evidence of a campaign is a `RunRecord` for each fuzzer.
"""

from __future__ import annotations

import itertools
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hostile.fuzzers import sandbox_of
from hostile.sandbox import ANSWERED, FAILURES, REFUSED, Verdict
from tautcut.records import RunRecord, circumstances

OUTCOMES = (ANSWERED, REFUSED, *FAILURES)
_LISTED = 12  # numbers of failing cases in a line


@dataclass
class Campaign:
    """Cases of one fuzzer: those that were run, in the order in which they ended."""

    fuzzer: str
    first: int
    n_workers: int
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    peak_mb: float = 0.0

    @property
    def n_cases(self) -> int:
        return self.counts.total()

    def run(self, *, n_cases: int | None, seconds: float | None, folder: Path) -> Iterator[Verdict]:
        """Verdicts as they come, until so many cases or seconds are over."""
        numbers = itertools.count(self.first)
        begun, is_over = time.monotonic(), threading.Event()
        verdicts: queue.Queue[Verdict | None] = queue.Queue()

        def work() -> None:
            try:
                with sandbox_of(self.fuzzer, kept=folder) as sandbox:
                    for verdict in sandbox.run(itertools.takewhile(is_wanted, numbers)):
                        verdicts.put(verdict)
            finally:
                verdicts.put(None)

        def is_wanted(number: int) -> bool:
            is_late = seconds is not None and time.monotonic() > begun + seconds
            is_enough = n_cases is not None and number >= self.first + n_cases
            return not (is_late or is_enough or is_over.is_set())

        with ThreadPoolExecutor(self.n_workers) as pool:
            workers = [pool.submit(work) for _ in range(self.n_workers)]
            try:
                for _ in workers:
                    for verdict in iter(verdicts.get, None):
                        self._count(verdict)
                        yield verdict
            finally:
                is_over.set()
                self.seconds = time.monotonic() - begun
        for worker in workers:
            worker.result()  # an error of the sandbox itself is raised here

    def _count(self, verdict: Verdict) -> None:
        self.counts[verdict.outcome] += 1
        self.slowest = max(self.slowest, verdict.seconds)
        self.peak_mb = max(self.peak_mb, verdict.peak_mb)
        if verdict.has_failed:
            self.failed.append(verdict)

    def record(self) -> RunRecord:
        """The evidence: how many cases there were, and what came of them."""
        measures = {outcome: float(self.counts[outcome]) for outcome in OUTCOMES}
        measures |= {"slowest": self.slowest, "peak_mb": self.peak_mb}
        kinds = "; ".join(f"{len(some)} × {kind}" for kind, some in grouped(self.failed).items())
        return RunRecord(
            self.fuzzer, "fuzz", {"first": self.first, "workers": self.n_workers}, self.first, 0, None, None,
            self.seconds, (), self.n_cases, kinds or "nothing failed", **circumstances(), measures=measures,
        )  # fmt: skip


def grouped(failed: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Failures that look alike, the most frequent first."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in failed:
        alike = re.sub(r"'[^']*'", "'…'", re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", verdict.problems[0]))
        groups.setdefault(f"{verdict.outcome}: {alike[:110].removeprefix(verdict.outcome + ': ')}", []).append(verdict)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def summary(campaigns: Sequence[Campaign], table: Callable[..., str]) -> str:
    """What came of them, then the failures by kind, each with the numbers of some."""
    parts = [table(HEAD, [row_of(one.record()) for one in campaigns])]
    for one in campaigns:
        for kind, some in grouped(one.failed).items():
            cases = " ".join(verdict.case for verdict in some[:_LISTED])
            parts.append(f"{len(some):>5}  {kind}\n       {cases}")
    return "\n".join(parts)


HEAD = ["fuzzer", "cases", "per second", *OUTCOMES, "slowest, s", "most memory, MB"]


def row_of(record: RunRecord) -> list[str]:
    counts = [f"{record.measures.get(outcome, 0):.0f}" for outcome in OUTCOMES]
    rate = record.n_iter / record.seconds if record.seconds else 0.0
    return [
        record.data, f"{record.n_iter:,}", f"{rate:.1f}", *counts, f"{record.measures['slowest']:.0f}",
        f"{record.measures['peak_mb']:.0f}",
    ]  # fmt: skip
