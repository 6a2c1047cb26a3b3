"""What a run over many ranks survives: kills of all or of one rank at random moments, a rank that hangs, a torn
checkpoint, a full disk; and what it refuses to go on from. The processes are real, and so are the signals.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_digits

from tautcut import cluster_shards, knn_graph
from tautcut.ranks.results import ShardedLabels
from tautcut.ranks.sharding import shard_graph
from torchrun import environment

OFTEN = ("--checkpoint", "0.01")  # at every outer step


class Run:
    """A command on the sharded graph of digits, in a session of its own."""

    def __init__(self, folder: Path, out: str, *words: str) -> None:
        command = [
            sys.executable, "-m", "tautcut", "cluster", "digits.shards", "-k", "10", "--out", out, *OFTEN, "--resume",
            "--verbose", *words,
        ]  # fmt: skip
        self.said = folder / f"{out}.log"
        with self.said.open("a") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True
            )  # fmt: skip

    def ranks(self) -> list[psutil.Process]:
        """The processes of its ranks, in their order."""
        with_rank = {}
        for one in psutil.Process(self.process.pid).children(recursive=True):
            variables = one.environ()
            if "RANK" in variables and "cluster" in one.cmdline():
                with_rank[int(variables["RANK"])] = one
        return [with_rank[rank] for rank in sorted(with_rank)]

    def wait_for(self, words: str, seconds: float = 90) -> None:
        """Wait until it says this."""
        limit = time.monotonic() + seconds
        while words not in self.said.read_text():
            assert time.monotonic() < limit, self.said.read_text()[-2000:]
            assert self.process.poll() is None, self.said.read_text()[-2000:]
            time.sleep(0.02)

    def end(self, seconds: float = 180) -> int:
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("survival")
    graph = knn_graph(load_digits().data.astype(np.float32), 10)
    shard_graph(graph, (2,), path / "digits.shards", rng=np.random.default_rng(0))
    return path


@pytest.fixture(scope="module")
def energy(folder) -> float:
    """What a run ends with that nobody disturbs."""
    return cluster_shards(folder / "digits.shards", 10, out=folder / "calm").energy


def test_the_same_command_goes_on_after_all_is_killed(folder, energy):
    """While the coarse graph is searched, and again in the middle of Algorithm 1."""
    for moment in ("A coarse graph", "Algorithm 1: "):
        run = Run(folder, "killed")
        run.wait_for(moment)
        ranks = run.ranks()
        os.killpg(run.process.pid, signal.SIGKILL)
        assert run.end() == -signal.SIGKILL
        _, alive = psutil.wait_procs(ranks, timeout=10)
        assert not alive, "ranks end with their agent"
    again = Run(folder, "killed")
    assert again.end() == 0, again.said.read_text()[-2000:]
    assert "Going on from a checkpoint: solving" in again.said.read_text()
    assert ShardedLabels.open(folder / "killed").energy <= 1.001 * energy


def test_a_lost_rank_is_started_again(folder, energy):
    run = Run(folder, "restarted")
    run.wait_for("Algorithm 1: ")
    run.ranks()[1].kill()
    assert run.end() == 0, run.said.read_text()[-2000:]
    assert "Going on from a checkpoint" in run.said.read_text()
    assert ShardedLabels.open(folder / "restarted").energy <= 1.001 * energy


def test_a_rank_that_hangs_is_named(folder):
    run = Run(folder, "hung", "--timeout", "3")
    run.wait_for("A coarse graph")
    hung = run.ranks()[1]
    hung.suspend()
    run.wait_for(f"process {hung.pid}) does not answer within 3 s")
    assert "rank 1 (" in run.said.read_text()
    assert "Traceback" not in run.said.read_text()
    os.killpg(run.process.pid, signal.SIGKILL)
    hung.kill()
    run.end()


def test_an_interrupt_leaves_the_best_so_far_and_can_be_gone_on_from(folder, energy):
    run = Run(folder, "interrupted")
    run.wait_for("Algorithm 1: ")
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130
    found = ShardedLabels.open(folder / "interrupted")
    assert found.status.name == "INTERRUPTED"
    assert np.bincount(found.joined()[1]).tolist() == list(found.sizes)
    again = Run(folder, "interrupted")
    assert again.end() == 0, again.said.read_text()[-2000:]
    assert "Going on from a checkpoint: solving." in again.said.read_text()
    done = ShardedLabels.open(folder / "interrupted")
    assert done.status.name != "INTERRUPTED"
    assert done.n_iter > found.n_iter
    assert done.energy <= 1.001 * energy


def test_neither_another_run_nor_a_torn_checkpoint_is_gone_on_from(folder, energy):
    run = Run(folder, "torn")
    run.wait_for("Algorithm 1: ")
    ranks = run.ranks()
    os.killpg(run.process.pid, signal.SIGKILL)
    run.end()
    psutil.wait_procs(ranks, timeout=10)
    other = Run(folder, "torn", "--seed", "7")
    assert other.end() == 2
    assert "is of another run: seed was 0 and is 7 now" in other.said.read_text()
    for file in (folder / "torn" / "state").glob("part-00001-*.npz"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
    again = Run(folder, "torn")
    assert again.end() == 0, again.said.read_text()[-2000:]
    assert ShardedLabels.open(folder / "torn").energy <= 1.001 * energy


def test_a_manifest_that_is_none_is_refused(folder):
    (folder / "broken").mkdir()
    (folder / "broken" / "manifest.json").write_text("{")
    broken = Run(folder, "broken")
    assert broken.end() == 2
    assert "is not the manifest of a run's labels" in broken.said.read_text()
    assert "Traceback" not in broken.said.read_text()


def test_a_full_disk_is_told_and_gone_on_after(folder, energy):
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [sys.executable, "-m", "tautcut", "cluster", "digits.shards", "-k", "10", "--out", "full", "--quiet"]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, preexec_fn=fill, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    again = Run(folder, "full")
    assert again.end() == 0, again.said.read_text()[-2000:]
    assert json.loads((folder / "full" / "manifest.json").read_text())["checkpoints"][0]["stage"] == "done"
    assert ShardedLabels.open(folder / "full").energy <= 1.001 * energy
