"""The benchmark: every method on the same graphs with the same truth, each run in a process of its own with a time
limit. Each run leaves one RunRecord; a method that fails leaves one that says so. Tables and plots are rendered from
the records alone. A run that the file already holds, for this code, is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import graphs
import peers

from tautcut.kernels.devices import thread_count
from tautcut.records import RunRecord, append_record, circumstances, read_records

PER_CLASS, DRAWS = (1, 5), 2
CODE = ("src", "benchmarks", "pyproject.toml")
FAILED: dict[str, Any] = {"energy": None, "purity": None, "sizes": (), "n_iter": 0}


@dataclass(frozen=True)
class Job:
    graph: str
    method: str
    seed: int
    per_class: int

    def n_labelled(self, data: graphs.Data) -> int:
        return self.per_class * data.n_clusters


def commit_of_code() -> str | None:
    """HEAD, with "-dirty" if the code differs from it; records that this benchmark writes do not count."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(graphs.ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", *CODE) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def surroundings(packages: set[str], commit: str | None) -> dict[str, Any]:
    """Versions, machine, commit and time, for a record."""
    found = circumstances()
    versions = {name: metadata.version(name) for name in sorted(packages)}
    machine = {**found["machine"], "processor": processor(), "threads": thread_count()}
    return {**found, "versions": {**found["versions"], **versions}, "machine": machine, "commit": commit}


def processor() -> str:
    """The processor's name where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def run_apart(command: list[str], limit: float) -> tuple[str | None, float]:
    """Why the command failed, or None; and how long it took. What it started is ended with it."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=complaints, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": str(thread_count())},
        )  # fmt: skip
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            return f"Stopped: not done after {limit:g} s, warm-up included.", time.perf_counter() - began
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        complaints.seek(0)
        last = (complaints.read().decode(errors="replace").strip().splitlines() or ["no message"])[-1]
    seconds = time.perf_counter() - began
    if code < 0:
        return f"Failed: it crashed ({signal.Signals(-code).name}).", seconds
    return (f"Failed: {last[:200]}" if code else None), seconds


def run_job(job: Job, data: graphs.Data, limit: float, commit: str | None) -> RunRecord:
    method = peers.METHODS[job.method]
    reason, seconds = method.reason_to_skip(data), 0.0
    outcome: dict[str, Any] = FAILED
    if reason is None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "outcome.json"
            arguments = [job.method, job.graph, str(job.seed), str(job.per_class), str(out)]
            reason, seconds = run_apart([sys.executable, peers.__file__, *arguments], limit)
            if reason is None:
                outcome = json.loads(out.read_text(encoding="utf-8"))
    told = {} if reason is None else {"seconds": round(seconds, 1), "status": reason}
    return RunRecord(
        data=job.graph, method=job.method, settings=method.settings, seed=job.seed, n_labelled=job.n_labelled(data),
        **{**outcome, **told, "sizes": tuple(outcome["sizes"])}, **surroundings({method.package}, commit),
    )  # fmt: skip


def jobs(graph: str, methods: list[str], seeds: int) -> Iterator[Job]:
    for name in methods:
        if not peers.METHODS[name].with_labels:
            yield from (Job(graph, name, seed, 0) for seed in range(seeds))
        else:
            yield from (Job(graph, name, draw, count) for count in PER_CLASS for draw in range(DRAWS))


def said(record: RunRecord) -> str:
    energy = "–" if record.energy is None else f"{record.energy:.4f}"
    share = record.measures.get("accuracy", record.purity)
    right = "–" if share is None else f"{share:.2%}"
    labels = f"{record.n_labelled:4d} labels" if record.n_labelled else " " * 11
    return (
        f"{record.data:24} {record.method:30} {labels}  E {energy:7} {right:7} {record.seconds:8.2f} s  {record.status}"
    )


def chosen(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The graphs and methods asked for, in the order of their lists."""
    wanted = options.graphs or (graphs.QUICK if options.quick else graphs.GRAPHS)
    names = [name for name in graphs.GRAPHS if any(name.startswith(one) for one in wanted)]
    if options.methods:
        return names, [name for name in peers.METHODS if name in options.methods]
    default = {name: one for name, one in peers.METHODS.items() if options.thorough or not one.is_optional}
    return names, [name for name, one in default.items() if one.is_quick or not options.quick]


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two graphs and the strongest rivals only")
    parser.add_argument("--graphs", nargs="+", help=f"names, or how they begin: {', '.join(graphs.GRAPHS)}")
    parser.add_argument("--methods", nargs="+", choices=list(peers.METHODS), metavar="METHOD", help="names")
    parser.add_argument("--thorough", action="store_true", help='also tautcut with search="thorough"')
    parser.add_argument("--seeds", type=int, default=1, help="runs of each method without labels")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one process, warm-up included")
    parser.add_argument("--fresh", action="store_true", help="run again what the file holds already")
    parser.add_argument("--out", type=Path, default=graphs.RESULTS / "bench.jsonl", help="file of records")
    return parser


def main() -> None:
    options = parser().parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    commit = commit_of_code()
    done = set()
    if options.out.is_file() and not options.fresh:
        done = {(r.data, r.method, r.seed, r.n_labelled, r.commit) for r in read_records(options.out)}
    names, methods = chosen(options)
    for name in names:
        data = graphs.load(name)
        for job in jobs(name, methods, options.seeds):
            if (name, job.method, job.seed, job.n_labelled(data), commit) in done:
                continue
            record = run_job(job, data, options.limit, commit)
            append_record(options.out, record)
            print(said(record), flush=True)
    import render  # and matplotlib, which a machine with a GPU may lack

    render.bench(options.out)


if __name__ == "__main__":
    main()
