"""METIS on a graph in files, in a process of its own: it holds Python's lock while it works, so that no interrupt would
be heard, and ends its process where memory runs out. This module owns the call and what it takes; where METIS is not
installed, Mt-KaHyPar serves. What is divided, and why, is decided in `parts`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path

import numpy as np

from tautcut.arrays import Array, IntArray
from tautcut.errors import NotEnoughMemoryError
from tautcut.graph import Graph
from tautcut.ranks.rows import Rows
from tautcut.search.kahypar import end_with
from tautcut.search.partitioners import fill_empty, partition_level

IMBALANCE = 0.03  # by which a part may have more than its share of the work

_SMALL = 300_000  # entries up to which this process divides by itself: another takes as long to begin
_MOST_ENTRIES = 2**31 - 1  # METIS counts in 32 bits
_LARGEST_WEIGHT_SUM = 2**30  # (the same)
_MEAN_WEIGHT = 1000.0  # what the mean weight becomes before rounding, where the sum allows it
_PER_ENTRY, _PER_VERTEX = 58.0, 120.0  # bytes of memory at its peak, measured with weights and without
_OWN = 2**27  # (the same) of a process that has done nothing yet
_PER_ENTRY_OF_OTHERS = 400.0  # of Mt-KaHyPar, which is given lists of Python's
_FILES = ("indptr", "indices", "work", "weights")


def takes(n_vertices: int, n_entries: int) -> float:
    """The bytes of memory that dividing such a graph takes: hardly any, or infinitely many where METIS cannot count."""
    if n_entries <= _SMALL:
        return 0.0
    if n_entries > _MOST_ENTRIES:
        return float("inf")
    if util.find_spec("pymetis") is None:
        return _PER_ENTRY_OF_OTHERS * n_entries + _PER_VERTEX * n_vertices
    return _PER_ENTRY * n_entries + _PER_VERTEX * n_vertices + _OWN


def partition(rows: Rows, work: IntArray, n_parts: int, *, folder: Path, room: int, seed: int) -> IntArray:
    """The part of each vertex: parts of the same work, and a low cut between them."""
    if rows.n_entries <= _SMALL:
        _, indices, weights = rows.read(0, rows.n_vertices)
        weights = np.ones(rows.n_entries) if weights is None else weights
        graph = Graph(rows.indptr, indices.astype(np.int32), weights, work.astype(np.float64))
        shares = np.full(n_parts, 1 / n_parts)
        return partition_level(graph, shares, imbalance=IMBALANCE, rng=np.random.default_rng(seed))
    paths = [folder / f"metis-{name}.raw" for name in (*_FILES, "parts")]
    try:
        _write(rows, work, n_parts, paths, room)
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.run(
            [sys.executable, "-P", "-m", __name__, str(os.getpid()), str(folder.absolute()), str(n_parts), str(seed)],
            capture_output=True, check=False, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        if process.returncode == -signal.SIGINT:  # the terminal's Ctrl-C reaches every process
            raise KeyboardInterrupt
        if process.returncode:
            last = (process.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1][:200]
            raise NotEnoughMemoryError(
                f"dividing {rows.n_vertices:,} vertices and {rows.n_entries // 2:,} edges by METIS failed (exit "
                f"{process.returncode}{': ' if last else ''}{last}). Allow less by --memory, so that it is given less."
            )
        return fill_empty(np.fromfile(paths[-1], dtype=np.int32).astype(np.int64), n_parts)
    finally:
        for one in paths:
            one.unlink(missing_ok=True)


def _write(rows: Rows, work: IntArray, n_parts: int, paths: list[Path], room: int) -> None:
    """What METIS is to divide, in whole numbers of 32 bits."""
    indptr, indices, works, weights, _ = paths
    rows.indptr.astype(np.int32).tofile(indptr)
    # A vertex that is heavier than a part has no more work than that, or METIS finds no balance.
    scale = min(1.0, _LARGEST_WEIGHT_SUM / float(work.sum()))
    most = max(1.0, work.sum() / n_parts)
    np.maximum(np.round(np.minimum(work, most) * scale), 1).astype(np.int32).tofile(works)
    step = max(1024, room // 64)
    with indices.open("wb") as file:
        for start in range(0, rows.n_entries, step):
            block = rows.indices.read(start, min(rows.n_entries, start + step))
            block.astype(np.int32, copy=False).tofile(file)
    if rows.weights is None:
        return
    total = sum(float(one.sum()) for one in _weight_blocks(rows, step))
    scale = min(_MEAN_WEIGHT, _LARGEST_WEIGHT_SUM / rows.n_entries) / (total / rows.n_entries)
    with weights.open("wb") as file:
        for one in _weight_blocks(rows, step):
            np.clip(np.round(one * scale), 1, _LARGEST_WEIGHT_SUM).astype(np.int32).tofile(file)


def _weight_blocks(rows: Rows, step: int) -> Iterator[Array]:
    assert rows.weights is not None  # for the type checker
    for start in range(0, rows.n_entries, step):
        yield rows.weights.read(start, min(rows.n_entries, start + step))


def main(parent: int, folder: Path, n_parts: int, seed: int) -> None:
    """Divide the graph in the folder; end at once by an interrupt, and with the process that asks."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with(parent)
    paths = [folder / f"metis-{name}.raw" for name in _FILES]
    indptr, indices, work = (np.fromfile(path, dtype=np.int32) for path in paths[:3])
    weights = np.fromfile(paths[3], dtype=np.int32) if paths[3].exists() else None
    if util.find_spec("pymetis") is None:
        values = np.ones(indices.size) if weights is None else weights.astype(np.float64)
        graph = Graph(indptr.astype(np.int64), indices, values, work.astype(np.float64))
        shares = np.full(n_parts, 1 / n_parts)
        labels = partition_level(graph, shares, imbalance=IMBALANCE, rng=np.random.default_rng(seed))
    else:
        pymetis = import_module("pymetis")
        options = pymetis.Options()
        options.seed = 1 + seed % (2**30 - 1)
        options.ufactor = round(1000 * IMBALANCE)
        adjacency = pymetis.CSRAdjacency(adj_starts=indptr, adjacent=indices)
        _, found = pymetis.part_graph(
            n_parts, adjacency=adjacency, options=options, recursive=False, eweights=weights, vweights=work
        )
        labels = np.asarray(found)
    labels.astype(np.int32).tofile(folder / "metis-parts.raw")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
