"""Kills of runs over many processes: at random moments of each stage all of them are killed by SIGKILL, or one rank,
and the same command is given again until it ends. What must hold: it ends, and with the energy of a run that nobody
disturbed, within 0.1 %.

    python tests/hostile/ranks.py --kills 30 [--record]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
from sklearn.datasets import load_digits

from tautcut import knn_graph
from tautcut.ranks.results import ShardedLabels
from tautcut.ranks.sharding import shard_graph
from tautcut.records import RunRecord, append_record, circumstances

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "results" / "fuzz.jsonl"  # beside those of the fuzzers
_MOST = 1.001  # times the energy of a run that nobody disturbed
_ENDING = 300  # seconds that a run may take
SAID = ("", "A coarse graph", "Algorithm 1", "Algorithm 1")  # what rank 0 says before each of STAGES,
STAGES = ("before", "search of the coarse graph", "Algorithm 1", "moves and labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = knn_graph(load_digits().data.astype(np.float32), 10)
        shard_graph(graph, (2,), folder / "digits.shards", rng=np.random.default_rng(0))
        run(folder, "warm")
        start = time.monotonic()
        run(folder, "calm")
        seconds, calm = time.monotonic() - start, ShardedLabels.open(folder / "calm")
        energy, spans = calm.energy, spans_of(calm, seconds)
        say(f"A run takes {seconds:.1f} s and ends at {energy:.6f}; its stages: {spans}.")
        stages, worst = Counter[str](), 0.0
        for seed in range(asked.first, asked.first + asked.kills):
            stage, found = killed(folder, f"k{seed}", random.Random(seed), spans, seed % len(STAGES))
            stages[stage] += 1
            worst = max(worst, found / energy)
            say(f"{seed}: killed at {stage!r}, ended at {found:.6f}")
            assert found <= _MOST * energy, f"seed {seed} ended at {found}"
    say(f"{asked.kills} kills, {asked.kills} runs to the end, worst {worst:.6f} of the energy: {dict(stages)}")
    if asked.record:
        append_record(RECORDS, RunRecord(
            "digits", "kills of ranks", {"first": asked.first}, asked.first, 0, worst * energy, None,
            time.monotonic() - began, (), asked.kills, "all ended", **circumstances(),
            measures={"worst": worst, **{f"killed: {stage}": n for stage, n in sorted(stages.items())}},
        ))  # fmt: skip


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(folder: Path, out: str) -> None:
    """Run to the end."""
    with (folder / f"{out}.log").open("a") as log:
        process = start(folder, out, log)
        code = process.wait(_ENDING)
    assert code == 0, (folder / f"{out}.log").read_text()[-3000:]


def start(folder: Path, out: str, log) -> subprocess.Popen:
    command = [
        sys.executable, "-m", "tautcut", "cluster", "digits.shards", "-k", "10", "--ranks", "2", "--out", out,
        "--resume", "--checkpoint", "0.2", "--verbose",
    ]  # fmt: skip
    variables = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True)


def spans_of(calm: ShardedLabels, seconds: float) -> list[tuple[float, float]]:
    """When each stage begins and ends, in seconds after what is said before it."""
    of = calm.facts["seconds"]
    solved = of["solve"]
    return [(0.0, seconds - sum(of.values())), (0.0, of["start"]), (0.0, solved), (solved, solved + of["refine"])]


def killed(
    folder: Path, out: str, draw: random.Random, spans: list[tuple[float, float]], stage: int
) -> tuple[str, float]:
    """Kill a run at a random moment of a stage, all of it or one of its ranks, and have it end; how it was killed, and
    its energy.
    """
    path = folder / f"{out}.log"
    with path.open("a") as log:
        process = start(folder, out, log)
        while SAID[stage] not in path.read_text() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.uniform(*spans[stage]))
        is_whole = draw.random() < 0.5
        is_late = "Labels:" in path.read_text()
        if is_whole:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            with suppress(psutil.Error, IndexError):
                ranks = [one for one in psutil.Process(process.pid).children() if "cluster" in one.cmdline()]
                draw.choice(ranks).kill()
            assert process.wait(_ENDING) == 0, path.read_text()[-3000:]
    if is_whole:
        run(folder, out)
    how = "after the end" if is_late else f"{STAGES[stage]}, {'all' if is_whole else 'one'}"
    return how, ShardedLabels.open(folder / out).energy


if __name__ == "__main__":
    main()
