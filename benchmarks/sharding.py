"""`tautcut shard` on a list of 50 million edges within a limit of memory. The edges join each of about 5 million points
of a lattice to ten near it, drawn at random; the points are numbered as if at random, so that nothing is near in the
files. The list is made in pieces and never held whole. What the process and those it starts take at most together is
looked at twenty times a second. Records go to docs/results/sharding.jsonl, the page beside it is written from them.

    python benchmarks/sharding.py [--side 171] [--memory 4GB] [--parts 8 8x8] [--folder FOLDER]

`--side 0` writes the page again from the records.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tautcut.records import RunRecord, append_record, circumstances, read_records

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "sharding.jsonl"
PER_POINT = 10  # edges that are drawn for each point
SPREAD = 1.3  # standard deviation of their lengths along each side of the lattice
AT_ONCE = 250_000  # points whose edges are in a file
LOOK = 0.05  # seconds between looks at the memory


def make_edges(folder: Path, side: int) -> int:
    """How many edges were written: side³ points on a torus, joined to near ones, in files of Parquet."""
    n = side**3
    stride = next(k for k in range(int(0.618 * n), n) if math.gcd(k, n) == 1)  # numbers points as if at random
    rng = np.random.default_rng(0)
    for number, first in enumerate(range(0, n, AT_ONCE)):
        here = np.arange(first, min(n, first + AT_ONCE)).repeat(PER_POINT)
        place = np.array(np.unravel_index(here, (side,) * 3))
        step = np.rint(rng.normal(0, SPREAD, place.shape)).astype(np.int64)
        step[2] += ~step.any(axis=0)  # no loops
        there = np.ravel_multi_index(tuple((place + step) % side), (side,) * 3)
        weights = np.exp(-(step**2).sum(axis=0) / 4.0)  # the same from either end
        table = {"source": here * stride % n, "target": there * stride % n, "weight": weights}
        pq.write_table(pa.table(table), folder / f"edges-{number:04d}.parquet")
    return n * PER_POINT


def measured(command: list[str]) -> tuple[dict[str, object], float, int]:
    """What a command prints as JSON, its seconds, and the most bytes that it and its children took together."""
    began, most = time.perf_counter(), 0
    process = psutil.Popen(command, stdout=-1, text=True)
    while process.poll() is None:
        taken = 0
        for one in [process, *_children(process)]:
            try:
                taken += one.memory_info().rss
            except psutil.Error:
                continue
        most = max(most, taken)
        time.sleep(LOOK)
    seconds = time.perf_counter() - began
    out = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return json.loads(out), seconds, most


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def measure(folder: Path, n_rows: int, parts: str, memory: str) -> RunRecord:
    out = folder / "lattice.shards"
    command = [sys.executable, "-m", "tautcut", "shard", str(folder / "edges"), "--parts", parts, "--out", str(out)]
    told, seconds, most = measured([*command, "--memory", memory, "--json", "--quiet"])
    work = [one["n_entries"] + 3 * one["n_own"] for one in told["parts"]]
    record = RunRecord(
        data=f"lattice of {told['n_vertices']:,} points", method="tautcut shard",
        settings={"parts": parts, "memory": memory}, seed=0, n_labelled=0, energy=None, purity=None, seconds=seconds,
        sizes=tuple(one["n_own"] for one in told["parts"]), n_iter=0, status="written",
        measures={
            "rows": n_rows, "n_edges": told["n_edges"], "most_bytes": most, "halo_share": told["halo_share"],
            "halo_between": told["halo_shares"][0], "unevenness": max(work) / (sum(work) / len(work)),
            "bytes_on_disk": sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
        },
        **circumstances(),
    )  # fmt: skip
    shutil.rmtree(out)
    return record


def page(records: list[RunRecord]) -> str:
    from render import table

    head = [
        "edges listed", "different edges", "vertices", "parts", "--memory", "most memory taken", "seconds", "halo",
        "of it between nodes", "heaviest part / mean", "on disk",
    ]  # fmt: skip
    latest = {(one.data, one.settings["parts"], one.settings["memory"]): one for one in records}
    rows = [
        [
            f"{one.measures['rows']:,.0f}", f"{one.measures['n_edges']:,.0f}", f"{sum(one.sizes):,}",
            one.settings["parts"], one.settings["memory"], f"{one.measures['most_bytes'] / 1e9:.2f} GB",
            f"{one.seconds:.0f}", f"{one.measures['halo_share']:.3f}", f"{one.measures['halo_between']:.3f}",
            f"{one.measures['unevenness']:.3f}", f"{one.measures['bytes_on_disk'] / 1e9:.2f} GB",
        ]
        for one in latest.values()
    ]  # fmt: skip
    machine = records[-1].machine
    commits = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in records))
    return "\n".join([
        "# Sharding", "",
        "`tautcut shard` on lists of edges in Parquet: points of a lattice on a torus, each joined to ten near it, "
        "numbered as if at random. The memory is that of the process and of those it starts, with the files that they "
        "have mapped; the halo is ghosts for each vertex. On a machine whose cores others used too. One run each: no "
        "spread.", "",
        f"- machine: {machine['cpus']} cores, {machine['platform']}", f"- commit: {commits}", "", table(head, rows), "",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=171, help="points along each side of the lattice")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--parts", nargs="+", default=["8", "8x8"])
    parser.add_argument("--folder", type=Path, help="for temporary files, some 5 GB of them")
    options = parser.parse_args()
    if options.side:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name)
            (folder / "edges").mkdir()
            n_rows = make_edges(folder / "edges", options.side)
            for parts in options.parts:
                record = measure(folder, n_rows, parts, options.memory)
                append_record(RECORDS, record)
                print(parts, f"{record.seconds:.0f} s", record.measures, flush=True)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


if __name__ == "__main__":
    main()
