"""How time and memory grow from features to labels: the default fit of Gaussian mixtures in 10 dimensions that touch,
R = 20, on the processor or, with --gpu, on a GPU. Each size has a process of its own: its peak memory is that of the
fit. A machine with a GPU needs torch, Numba, SciPy and scikit-learn; where it has no matplotlib, the records are
rendered elsewhere, by `render.scale`.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import graphs
import numpy as np
from run import FAILED, commit_of_code, run_apart, surroundings

from tautcut import Graph, MTVClustering, Problem, balanced_cut_energy, purity
from tautcut.algorithm.observers import Progress
from tautcut.kernels.devices import neighbor_finder
from tautcut.neighbors import neighbor_graph
from tautcut.records import RunRecord, append_record, read_records
from tautcut.search.starts import soften

SIZES = (10_000, 100_000, 1_000_000)  # further ones are asked for by name: --sizes 3000000 10000000
R, DIMENSIONS, NEIGHBORS = 20, 10, 10
SPREAD = 1.75  # of the centres, in standard deviations of a cluster: about one neighbour in twenty is across
WARM_UP = 5_000  # points that are fitted before, to compile the kernels
STAGES = ("neighbours", "graph", "search", "polish", "rest")


def mixture(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and their components, in random order."""
    centres = SPREAD * np.random.default_rng(0).standard_normal((R, DIMENSIONS), dtype=np.float32)
    rng = np.random.default_rng([seed, n])
    planted = rng.integers(0, R, n)
    X = rng.standard_normal((n, DIMENSIONS), dtype=np.float32)
    X += centres[planted]
    return X, planted


class Clock(logging.Handler):
    """When each stage ended, in seconds: the library's log tells of neighbours, and an observer is shown the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.began = time.perf_counter()
        self.ends: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("knn_graph: "):
            self.end("neighbours")

    def __call__(self, seen: Progress) -> None:
        self.end("polish" if seen.phase == "solve" else "search")

    def end(self, stage: str) -> None:
        self.ends[stage] = time.perf_counter() - self.began

    def stages(self) -> dict[str, float]:
        """The seconds that each stage took; one that nobody told of is part of the next."""
        taken, before = {}, 0.0
        for stage in STAGES:
            end = max(self.ends.get(stage, before), before)
            taken[stage], before = round(end - before, 3), end
        return taken


def fitted(X: np.ndarray, seed: int, device: str) -> tuple[MTVClustering, Clock, float]:
    """A default fit of the features, its stages, and the recall of its neighbours."""
    clock, logger = Clock(), logging.getLogger("tautcut")
    logger.setLevel(logging.INFO)
    logger.addHandler(clock)
    try:
        graph, report = neighbor_graph(X, NEIGHBORS, random_state=seed, finder=neighbor_finder(device))
        clock.end("graph")
        model = MTVClustering(R, affinity="precomputed", device=device, random_state=seed, verbose=clock).fit(graph)
        clock.end("rest")
    finally:
        logger.removeHandler(clock)
    return model, clock, report.recall


def memory_gb() -> float:
    """The most memory that this process has held; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def measure(n: int, seed: int, device: str) -> dict[str, Any]:
    """Fit a mixture of this size; the outcome is ready for a record."""
    X, planted = mixture(n, seed)
    fitted(mixture(WARM_UP, seed)[0], seed, device)
    before = memory_gb()
    model, clock, recall = fitted(X, seed, device)
    measures = {
        "n_vertices": n, "n_directed_edges": model.graph_.indices.size, "recall": round(recall, 4),
        "planted_energy": balanced_cut_energy(model.graph_, planted), "before_gb": round(before, 3),
        "peak_gb": round(memory_gb(), 3), **{f"{stage}_s": taken for stage, taken in clock.stages().items()},
    }  # fmt: skip
    if device == "cuda":
        import torch

        measures["gpu_peak_gb"] = round(torch.cuda.max_memory_reserved() / 1e9, 3)
    else:
        measures |= iteration(model.graph_, model.labels_)
    return {
        "energy": float(model.energy_), "purity": purity(model.labels_, planted),
        "seconds": round(clock.ends["rest"], 3), "sizes": np.bincount(model.labels_, minlength=R).tolist(),
        "n_iter": int(model.n_iter_), "status": str(model.status_), "measures": measures,
    }  # fmt: skip


def iteration(graph: Graph, labels: np.ndarray) -> dict[str, float]:
    """Milliseconds of an inner iteration on the processor, and nanoseconds for each edge and column."""
    from kernels import kernel_times

    inner = kernel_times(Problem(graph, R), soften(labels, R), outer=2, inner=15)
    together = inner["iterate"] + inner["measure"]
    return {
        "iterate_ms": round(1e3 * inner["iterate"], 3), "measure_ms": round(1e3 * inner["measure"], 3),
        "ns_per_edge_column_iteration": round(1e9 * together / (graph.indices.size * R), 4),
    }  # fmt: skip


def run_size(n: int, seed: int, device: str, limit: float, commit: str | None) -> RunRecord:
    outcome: dict[str, Any] = {**FAILED, "measures": {"n_vertices": n}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcome.json"
        command = [sys.executable, __file__, "--child", str(out), "--sizes", str(n), "--seed", str(seed)]
        reason, seconds = run_apart([*command, *(["--gpu"] if device == "cuda" else [])], limit)
        if reason is None:
            outcome = json.loads(out.read_text(encoding="utf-8"))
    told = {} if reason is None else {"seconds": round(seconds, 1), "status": reason}
    around = surroundings({"torch"} if device == "cuda" else set(), commit)
    if device == "cuda":
        import torch

        around["machine"] = {**around["machine"], "card": torch.cuda.get_device_name()}
    return RunRecord(
        data=f"mixture, {n:,} points", method=f"tautcut, {device}", settings={"n_clusters": R}, seed=seed,
        n_labelled=0, **{**outcome, **told, "sizes": tuple(outcome["sizes"])}, **around,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="points; 10 k to 1 M unless told")
    parser.add_argument("--gpu", action="store_true", help="on an NVIDIA GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one size, all included")
    parser.add_argument("--fresh", action="store_true", help="run again what the file holds already")
    parser.add_argument("--commit", help="what to write as the commit, where the folder is no checkout")
    parser.add_argument("--out", type=Path, default=graphs.RESULTS / "scale.jsonl", help="file of records")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    device = "cuda" if options.gpu else "cpu"
    if options.child is not None:
        outcome = measure(options.sizes[0], options.seed, device)
        options.child.write_text(json.dumps(outcome), encoding="utf-8")
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    commit, done = options.commit or commit_of_code(), set()
    if options.out.is_file() and not options.fresh:
        done = {(r.data, r.method, r.seed, r.commit) for r in read_records(options.out)}
    for n in options.sizes:
        if (f"mixture, {n:,} points", f"tautcut, {device}", options.seed, commit) in done:
            continue
        record = run_size(n, options.seed, device, options.limit, commit)
        append_record(options.out, record)
        print(f"{n:,}: E {record.energy}, {record.seconds} s, {record.measures} {record.status}", flush=True)
    try:
        import render
    except ImportError:
        print("no matplotlib here: render the records elsewhere")
    else:
        render.scale(options.out)


if __name__ == "__main__":
    main()
