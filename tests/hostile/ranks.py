"""Kills of runs over many processes: at random moments all of them are killed by SIGKILL, or one rank, and the same
command is given again until it ends. What must hold: it ends, and with the energy of a run that nobody disturbed,
within 0.1 %.

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
_LATEST = 0.9  # of the time that such a run takes, in which a kill comes
_ENDING = 300  # seconds that a run may take
STAGES = ("Going on", "A coarse graph", "Algorithm 1", "Labels:")


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
        seconds, energy = time.monotonic() - start, ShardedLabels.open(folder / "calm").energy
        say(f"A run takes {seconds:.1f} s and ends at {energy:.6f}.")
        stages, worst = Counter[str](), 0.0
        for seed in range(asked.first, asked.first + asked.kills):
            stage, found = killed(folder, f"k{seed}", random.Random(seed), seconds)
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


def killed(folder: Path, out: str, draw: random.Random, seconds: float) -> tuple[str, float]:
    """Kill a run at a random moment, all of it or one of its ranks, and have it end; its stage then, and its energy."""
    path = folder / f"{out}.log"
    with path.open("a") as log:
        process = start(folder, out, log)
        time.sleep(draw.uniform(0.0, _LATEST * seconds))
        is_whole = draw.random() < 0.5
        said = path.read_text()
        stage = next((one for one in reversed(STAGES) if one in said), "before")
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
    return f"{stage}, {'all' if is_whole else 'one'}", ShardedLabels.open(folder / out).energy


if __name__ == "__main__":
    main()
