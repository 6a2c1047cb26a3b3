"""Many independent runs, each recorded as soon as it ends. A run whose record is in the file is not repeated, so a
campaign that was interrupted, even killed, goes on where it was. Runs may go to several processes; the parent alone
writes. It knows nothing of what a run does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from joblib import Parallel, delayed, effective_n_jobs

from tautcut.checks import whole_number
from tautcut.errors import TautcutError
from tautcut.interrupts import end_with_parent
from tautcut.records.records import RunRecord, append_record, cut_torn_line, read_records
from tautcut.writing import write_whole


class Spec(Protocol):
    """What a campaign needs of a run: its name, by which a record is found again."""

    @property
    def key(self) -> str: ...


Runner = Callable[[Any], RunRecord]
Listener = Callable[[RunRecord], None]


def key_of(record: RunRecord) -> str | None:
    """The key of the run that left this record; None for a record of another kind."""
    key = record.settings.get("key")
    return key if isinstance(key, str) else None


def finished(specs: Iterable[Spec], path: Path) -> list[RunRecord]:
    """The latest record of each spec that has one, in the order of the specs; failed runs are among them."""
    if not path.exists():
        return []
    newest = {key_of(record): record for record in read_records(path)}
    return [newest[spec.key] for spec in specs if spec.key in newest]


def remaining(specs: Iterable[Spec], path: Path) -> list[Any]:
    """The specs that have no record yet, or one of a run that failed."""
    specs = list(specs)
    done = {key_of(record) for record in finished(specs, path) if record.sizes}
    return [spec for spec in specs if spec.key not in done]


def execute(
    specs: Sequence[Spec], path: Path, *, run: Runner, jobs: int = 1, is_fresh: bool = False,
    on_record: Listener = lambda record: None,
) -> None:  # fmt: skip
    """Run what remains of the specs, whose keys differ, and append each record to the file as it comes.

    The file is made with its folder. There are as many runs at a time as `jobs`, −1 for one on each core; with several,
    `run` goes to other processes. `is_fresh` moves the records of these specs to a file beside, and runs all of them
    again. `on_record` is told of each record after it is on disk.
    """
    if jobs != -1:
        whole_number("jobs", jobs, otherwise=", or −1 for every core")
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_torn_line(path)
    if is_fresh:
        _set_aside(specs, path)
    todo = remaining(specs, path)
    at_a_time = min(effective_n_jobs(jobs), max(len(todo), 1))
    perform = partial(_perform, run=run, at_a_time=at_a_time)
    for record in map(perform, todo) if at_a_time == 1 else _in_processes(perform, todo, at_a_time):
        append_record(path, record)
        on_record(record)


def _set_aside(specs: Iterable[Spec], path: Path) -> None:
    """Move the records of the specs to a file beside; they are in both for a moment, and never in neither."""
    if not path.exists():
        return
    keys = {spec.key for spec in specs}
    records = read_records(path)
    aside = path.with_name(f"{path.stem}-old{path.suffix}")
    for record in records:
        if key_of(record) in keys:
            append_record(aside, record)
    write_whole(path, "".join(f"{one.to_json()}\n" for one in records if key_of(one) not in keys))


def _perform(spec: Spec, *, run: Runner, at_a_time: int) -> RunRecord:
    """The record of the run, under its key, with how many runs share the machine."""
    record = run(spec)
    machine = {**record.machine, "jobs": at_a_time}
    return replace(record, settings={"key": spec.key, **record.settings}, machine=machine)


def _in_processes(perform: Runner, specs: Iterable[Spec], at_a_time: int) -> Iterator[RunRecord]:
    """Records as they come, from worker processes, which end with this one; joblib shares the cores among them."""
    pool = Parallel(
        n_jobs=at_a_time, backend="loky", return_as="generator_unordered", batch_size=1,
        initializer=end_with_parent, initargs=(os.getpid(),),
    )  # fmt: skip
    try:
        yield from pool(delayed(perform)(spec) for spec in specs)
    except BrokenProcessPool as error:
        raise TautcutError(
            "a worker process ended by force, perhaps for want of memory; what is done is kept: "
            "run the same command again, with fewer --jobs."
        ) from error
