"""What more cores bring: the default fit and one label per class on the authors' MNIST graph with 1, 2, 4, … threads,
and Mt-KaHyPar beside them. Every number of threads has a process of its own, which is bound to so many cores; in it the
methods take turns, after one fit of each that is not timed. Records go to docs/results/threads.jsonl, and the page is
written from them.

    python benchmarks/threads.py [--counts 1 2 4 8 16] [--repeats 5] [--out FILE] [--commit COMMIT]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import graphs
import numpy as np
from peers import METHODS, Answer, Method, judge, task_of
from render import table
from run import commit_of_code, surroundings

from tautcut.records import RunRecord, append_record, read_records

RECORDS = graphs.RESULTS / "threads.jsonl"
DATA = "mnist (authors' graph)"
COUNTS, REPEATS = (1, 2, 4, 8, 16), 5
OURS, ONE_LABEL, RIVAL = "tautcut", "tautcut, one label per class", "Mt-KaHyPar quality 30 %"
RIVAL_REPEATS = 1  # it takes ten times as long as the others
TIMED: dict[str, tuple[str, int]] = {OURS: ("tautcut", 0), ONE_LABEL: ("tautcut, few labels", 1), RIVAL: (RIVAL, 0)}


def measure(repeats: int) -> list[dict[str, Any]]:
    """Each method in turn, several times, with the threads of this process; outcomes ready for records."""
    data = graphs.load(DATA)
    runs: dict[str, Callable[[], Any]] = {}
    for name, (method, per_class) in TIMED.items():
        runs[name] = _prepared(METHODS[method], data, per_class)
        if name != RIVAL:
            runs[name]()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    answers: dict[str, Answer] = {}
    for number in range(repeats):
        for name, run in runs.items():
            if name != RIVAL or number < RIVAL_REPEATS:
                began = time.perf_counter()
                found = run()
                seconds[name].append(time.perf_counter() - began)
                answers[name] = found if isinstance(found, Answer) else Answer(np.asarray(found))
    return [
        {
            "method": name, "seconds": round(median(seconds[name]), 4), "n_labelled": TIMED[name][1] * data.n_clusters,
            "settings": {"repeats": len(seconds[name]), "labels": _digest(one.labels)},
            **judge(one, data, is_labelled=TIMED[name][1] > 0),
        }
        for name, one in answers.items()
    ]  # fmt: skip


def _digest(labels: np.ndarray) -> str:
    return hashlib.sha256(np.asarray(labels, dtype=np.int64)).hexdigest()[:16]


def _prepared(method: Method, data: graphs.Data, per_class: int) -> Callable[[], Any]:
    return method.prepare(task_of(data, 0, per_class), **method.settings)


def run_count(count: int, options: argparse.Namespace, commit: str | None) -> None:
    """A process with so many threads, and its records."""
    env = {**os.environ, "OMP_NUM_THREADS": str(count), "NUMBA_NUM_THREADS": str(count)}
    command = [sys.executable, __file__, "--child", "--repeats", str(options.repeats)]
    cores = sorted(os.sched_getaffinity(0))[:count]
    child = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip
    for outcome in json.loads(child.stdout):
        about = surroundings({"mtkahypar"}, commit)
        about["machine"] = {**about["machine"], "threads": count}
        append_record(options.out, RunRecord(data=DATA, seed=0, **outcome, **about))
        print(f"{count} threads, {outcome['method']}: {outcome['seconds']} s, {outcome['energy']}", flush=True)


def page(records: list[RunRecord]) -> str:
    """A table for each machine, that with most cores first."""
    machines = sorted({one.machine["cpus"] for one in records}, reverse=True)
    parts = [machine_part([one for one in records if one.machine["cpus"] == cpus]) for cpus in machines]
    about = (
        "The authors' MNIST graph (70,000 vertices, 513,706 edges), R = 10, seed 0. Each number of threads is a "
        "process bound to so many cores; the median of several runs, after a fit that is not timed. "
        "Purity is over all points; with one label per class it is the share of right labels. Mt-KaHyPar "
        "ran once. Rendered by `benchmarks/threads.py` from the records beside it."
    )
    return "\n\n".join(["# Threads", about, *parts]) + "\n"


def machine_part(records: list[RunRecord]) -> str:
    """Seconds by the number of threads, and how far they fall; the last record of a method and number counts."""
    latest = {(one.method, one.machine["threads"]): one for one in records}
    counts = sorted({count for _, count in latest})
    rows = []
    for name in TIMED:
        mine = {count: latest[name, count] for count in counts if (name, count) in latest}
        bits = {one.settings["labels"] for one in mine.values()}
        energies = sorted({f"{one.energy:.4f}" for one in mine.values() if one.energy is not None})
        alone = mine[counts[0]].seconds
        rows.append([
            name, *(f"{mine[count].seconds:.2f}" if count in mine else "" for count in counts),
            f"{alone / min(one.seconds for one in mine.values()):.1f} ×",
            " / ".join(energies),
            f"{100 * min(one.purity for one in mine.values() if one.purity):.2f}",
            "yes" if len(bits) == 1 else f"{len(bits)} different answers",
        ])  # fmt: skip
    one = next(one for one in reversed(records) if one.method == OURS)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(one.versions.items()))
    head = ["seconds by threads", *map(str, counts), "fastest", "(P)", "purity, %", "the same labels"]
    machine = f"{one.machine['processor']}, {one.machine['cpus']} cores, {one.machine['platform']}"
    about = f"- {machine}; {one.settings['repeats']} runs\n- {versions}\n- commit: {one.commit}"
    return f"{about}\n\n{table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, default=RECORDS, help="file of records")
    parser.add_argument("--commit", help="what records give as the commit, where the folder is no checkout")
    parser.add_argument("--page", action="store_true", help="write the page from the records there are")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        json.dump(measure(options.repeats), sys.stdout)
        return
    if not options.page:
        n_cores = len(os.sched_getaffinity(0))
        for count in (count for count in options.counts if count <= n_cores):
            run_count(count, options, options.commit or commit_of_code())
    options.out.with_suffix(".md").write_text(page(read_records(options.out)), encoding="utf-8")


if __name__ == "__main__":
    main()
