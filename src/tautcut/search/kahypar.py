"""Mt-KaHyPar, called: in this process, or in one of its own where it takes long. It holds Python's lock while it works,
so that in this process no clock would move and no interrupt be heard until it is done (decision 0033). This module owns
the call; what is asked, and why, is decided in `partitioners`.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from tautcut.arrays import IntArray

_LONG = 15_000  # edges from which a partition takes about as long as another process needs to begin

_engines: list[Any] = []  # Mt-KaHyPar's, once it is initialised
_lock = Lock()  # its seed is global
if hasattr(os, "register_at_fork"):
    # A process that is forked while a thread partitions would wait for that thread, which it has not, for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@dataclass(frozen=True, eq=False)
class Request:
    """A graph with whole weights, into how many blocks to cut it, and how.

    `edges` has shape (n_edges, 2), every edge once; `largest` holds the most mass of each block, and is empty where all
    are alike.
    """

    edges: IntArray
    weights: IntArray
    masses: IntArray
    n_blocks: int
    imbalance: float
    largest: IntArray
    seed: int
    preset: str


def partition(request: Request) -> IntArray | None:
    """The block of each vertex; None where the process that looked for it came to grief."""
    if request.weights.size < _LONG:
        return partition_here(request)
    content = io.BytesIO()
    np.savez(content, **asdict(request))
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.run(
        [sys.executable, "-P", "-m", __name__, str(os.getpid())], input=content.getvalue(), capture_output=True,
        check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if process.returncode == -signal.SIGINT:  # the terminal's Ctrl-C reaches every process
        raise KeyboardInterrupt
    if process.returncode > 0:  # it did not begin, as where no Python can be started
        return partition_here(request)
    return None if process.returncode else np.load(io.BytesIO(process.stdout), allow_pickle=False)


def partition_here(request: Request) -> IntArray:
    """The block of each vertex, found in this process."""
    mtkahypar = import_module("mtkahypar")
    with _lock:
        if not _engines:  # it can be initialised once per process
            _engines.append(mtkahypar.initialize(1))
        mtkahypar.set_seed(request.seed)
        context = _engines[0].context_from_preset(getattr(mtkahypar.PresetType, request.preset))
        context.set_partitioning_parameters(request.n_blocks, request.imbalance, mtkahypar.Objective.CUT)
        context.logging = False
        if request.largest.size:
            context.set_individual_target_block_weights(request.largest.tolist())
        edges, masses, weights = (
            list(map(tuple, request.edges.tolist())),
            request.masses.tolist(),
            request.weights.tolist(),
        )
        graph = _engines[0].create_graph(context, len(masses), len(edges), edges, masses, weights)
        return np.asarray(graph.partition(context).get_partition(), dtype=np.int64)


def main(parent: int) -> None:
    """Answer the request on standard input; end at once by an interrupt, and with the process that asks."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with(parent)
    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as stored:
        given = {name: stored[name].item() if stored[name].ndim == 0 else stored[name] for name in stored.files}
    np.save(sys.stdout.buffer, partition_here(Request(**given)))


def end_with(parent: int) -> None:
    """Ask the system to end this process with the one that started it, where it can.

    It has to be the system: no thread of this process gets a turn while Mt-KaHyPar holds Python's lock.
    """
    import ctypes

    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended before it could be asked
            os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
