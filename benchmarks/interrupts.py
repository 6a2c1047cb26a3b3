"""How soon Ctrl-C is answered and obeyed: commands on 70,000 points, on a star and with kernels that are compiled
afresh are interrupted at many moments. Records go to docs/results/interrupts.jsonl; interrupts.md is written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/interrupts.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from render import table

from tautcut import knn_graph
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, circumstances, read_records

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "interrupts.jsonl"

LARGE = 70_000
MOMENTS = (0.7, 1.5, 3, 5, 8, 11, 14, 18, 22, 27, 33, 40, 50)  # seconds from the start
COUNTED = ("has_labels", "has_traceback", "leaves_a_part")
LIMIT = 60.0  # seconds after which an interrupt counts as not obeyed


@dataclass(frozen=True)
class Case:
    """A command, and whether its kernels have to be compiled."""

    name: str
    arguments: tuple[str, ...]
    is_compiling: bool = False


def main() -> None:
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)):
            for moment in MOMENTS:
                record = interrupted(case, moment, Path(folder))
                if record is None:
                    break
                append_record(part, record)
                print(record.data, record.method, record.seconds, record.measures, flush=True)
    os.replace(part, RECORDS)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def cases(folder: Path) -> Iterator[Case]:
    mnist, digits = load("mnist"), load("digits")
    X = mnist.X.reshape(len(mnist.truth), -1)
    np.save(folder / "mnist.npy", X)
    sp.save_npz(folder / "mnist.npz", knn_graph(X, 10, random_state=0).to_scipy())
    np.save(folder / "digits.npy", digits.X)
    star = sp.csr_matrix((np.ones(LARGE - 1), (np.zeros(LARGE - 1, int), np.arange(1, LARGE))), shape=(LARGE, LARGE))
    sp.save_npz(folder / "star.npz", star + star.T)
    for name, truth in (("mnist", mnist.truth), ("digits", digits.truth)):
        few = [row for label in range(10) for row in np.flatnonzero(truth == label)[:5]]
        lines = ["id,label", *(f"{row},{truth[row]}" for row in few)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield Case("cluster, digits", ("cluster", "digits.npy", "-k", "10"), is_compiling=True)
    yield Case("classify, digits", ("classify", "digits.npy", "--labels", "digits.csv"), is_compiling=True)
    yield Case("cluster, mnist's graph", ("cluster", "mnist.npz", "-k", "10"))
    yield Case("classify, mnist's graph", ("classify", "mnist.npz", "--labels", "mnist.csv"))
    yield Case("suggest, mnist's graph", ("suggest", "mnist.npz"))
    yield Case("cluster, mnist's features", ("cluster", "mnist.npy", "-k", "auto"))
    yield Case("cluster, a star", ("cluster", "star.npz", "-k", "3"))


def interrupted(case: Case, moment: float, folder: Path) -> RunRecord | None:
    """What came of Ctrl-C at that moment; None where the command had ended before."""
    out, said = folder / "labels.csv", folder / "said.txt"
    out.unlink(missing_ok=True)
    where = ["--out", str(out)] if case.arguments[0] != "suggest" else []
    command = [sys.executable, "-m", "tautcut", *case.arguments, *where]
    with tempfile.TemporaryDirectory() as cache, said.open("w") as errors:
        surroundings = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if case.is_compiling else {})}
        process = subprocess.Popen(
            command, cwd=folder, env=surroundings, stdout=subprocess.DEVNULL, stderr=errors,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        try:
            process.wait(moment)
            return None
        except subprocess.TimeoutExpired:
            pass
        before, pressed, answered = said.stat().st_size, time.monotonic(), float("nan")
        process.send_signal(signal.SIGINT)
        while process.poll() is None and time.monotonic() < pressed + LIMIT:
            if said.stat().st_size > before and answered != answered:
                answered = time.monotonic() - pressed
            time.sleep(0.005)
        seconds = time.monotonic() - pressed
        process.kill()
        process.wait()
    text = said.read_text(encoding="utf-8")
    measures = {
        "moment": moment, "answered": seconds if answered != answered else answered,
        "exit_code": process.returncode, "has_traceback": "Traceback" in text, "has_labels": out.exists(),
        "leaves_a_part": any(folder.glob(".*.part")),
    }  # fmt: skip
    last = (text.splitlines() or [""])[-1]
    return RunRecord(
        case.name, "Ctrl-C", {"is_compiling": case.is_compiling}, 0, 0, None, None, seconds, (), 0, last,
        **circumstances(), measures={name: float(value) for name, value in measures.items()},
    )  # fmt: skip


def page(records: list[RunRecord]) -> str:
    rows = []
    for name in dict.fromkeys(record.data for record in records):
        some = [record for record in records if record.data == name]
        rows.append([
            name + (", compiling" if some[0].settings["is_compiling"] else ""), str(len(some)),
            f"{max(one.measures['answered'] for one in some):.2f}", f"{max(one.seconds for one in some):.2f}",
            *(f"{sum(one.measures[what] for one in some):.0f}" for what in COUNTED),
            str(sum(one.measures["exit_code"] != 130 for one in some)),
        ])  # fmt: skip
    head = [
        "command",
        "interrupts",
        "answered, s",
        "obeyed, s",
        "labels kept",
        "tracebacks",
        "torn files",
        "other exits",
    ]
    about = (
        "Written by `benchmarks/interrupts.py` from `interrupts.jsonl`, not by hand. Each command is interrupted once "
        f"at {', '.join(map(str, MOMENTS))} s from its start, as long as it runs; the longest times are shown. The "
        "machine had 2 cores, which others used too."
    )
    return "\n\n".join(["# Ctrl-C", about, table(head, rows)]) + "\n"


if __name__ == "__main__":
    main()
