"""How time and memory grow: tautcut's default fit on 10-nearest-neighbour graphs of Gaussian mixtures in 10 dimensions,
R = 20, whose planted clusters touch. Each size is fitted in a process of its own, which reads the graph from
build/graphs, so that its peak memory is that of the fit.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import render
import scipy.sparse as sp
from run import FAILED, commit_of_code, run_apart, surroundings

from kernels import kernel_times
from tautcut import MTVClustering, Problem, balanced_cut_energy, purity
from tautcut.records import RunRecord, append_record, read_records
from tautcut.search.starts import soften

SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
R, DIMENSIONS, NEIGHBORS = 20, 10, 10
SPREAD = 1.75  # of the centres, in standard deviations of a cluster: about one neighbour in twenty is across
PROBES = 16  # cells of the index searched for each point: finds some 97 % of the true neighbours
AT_A_TIME = 200_000  # points searched for together, to bound the memory
WARM_UP = 5_000  # vertices of the graph that compiles the kernels


def mixture(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and their components, in random order."""
    centres = SPREAD * np.random.default_rng(0).standard_normal((R, DIMENSIONS), dtype=np.float32)
    rng = np.random.default_rng([seed, n])
    planted = rng.integers(0, R, n)
    X = rng.standard_normal((n, DIMENSIONS), dtype=np.float32)
    X += centres[planted]
    return X, planted


def neighbor_graph(X: np.ndarray) -> sp.csr_matrix:
    """The nearly exact 10-NN graph of the points, symmetrised by maximum."""
    import faiss

    n, k = len(X), NEIGHBORS
    quantiser = faiss.IndexFlatL2(DIMENSIONS)
    index = faiss.IndexIVFFlat(quantiser, DIMENSIONS, min(int(4 * np.sqrt(n)), n // 64))
    index.cp.niter, index.cp.max_points_per_centroid = 5, 64
    index.train(X)
    index.add(X)
    index.nprobe = PROBES
    found = np.empty((n, k), np.int32)
    for begin in range(0, n, AT_A_TIME):
        nearest = index.search(X[begin : begin + AT_A_TIME], k + 1)[1]
        own = np.arange(begin, begin + len(nearest))[:, None]
        order = np.argsort((nearest == own) | (nearest < 0), axis=1, kind="stable")  # the point itself goes last
        found[begin : begin + len(nearest)] = np.take_along_axis(nearest, order, axis=1)[:, :k]
    half = sp.csr_matrix((np.ones(n * k, np.float32), found.ravel(), np.arange(n + 1) * k), shape=(n, n))
    half.sort_indices()
    return half.maximum(half.T).tocsr()


def load(n: int, seed: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """The graph of this size, built on first use, and its planted clusters."""
    W = graphs.cached(f"scale-{n}-{seed}", lambda: neighbor_graph(mixture(n, seed)[0]))
    return W, mixture(n, seed)[1]


def memory_gb() -> float:
    """The most memory that this process has held; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def measure(n: int, seed: int) -> dict[str, Any]:
    """Fit the graph of this size; the outcome is ready for a record."""
    W, planted = load(n, seed)
    loaded = memory_gb()
    small = load(WARM_UP, seed)[0]
    model = MTVClustering(R, affinity="precomputed", random_state=seed)
    model.set_params(max_iter=1).fit(small)
    model = MTVClustering(R, affinity="precomputed", random_state=seed)
    began = time.perf_counter()
    model.fit(W)
    seconds, peak = time.perf_counter() - began, memory_gb()
    inner = kernel_times(Problem(model.graph_, R), soften(model.labels_, R), outer=2, inner=15)
    edges = W.nnz
    return {
        "energy": float(model.energy_), "purity": purity(model.labels_, planted), "seconds": round(seconds, 3),
        "sizes": np.bincount(model.labels_, minlength=R).tolist(), "n_iter": int(model.n_iter_),
        "status": str(model.status_),
        "measures": {
            "n_vertices": n, "n_directed_edges": edges, "planted_energy": balanced_cut_energy(model.graph_, planted),
            "peak_gb": round(peak, 3), "loaded_gb": round(loaded, 3),
            "iterate_ms": round(1e3 * inner["iterate"], 3), "measure_ms": round(1e3 * inner["measure"], 3),
            "ns_per_edge_column_iteration": round(1e9 * (inner["iterate"] + inner["measure"]) / (edges * R), 4),
        },
    }  # fmt: skip


def run_size(n: int, seed: int, limit: float, commit: str | None) -> RunRecord:
    outcome: dict[str, Any] = {**FAILED, "measures": {"n_vertices": n}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcome.json"
        reason, seconds = run_apart(
            [sys.executable, __file__, "--child", str(out), "--sizes", str(n), "--seed", str(seed)], limit
        )
        if reason is None:
            outcome = json.loads(out.read_text(encoding="utf-8"))
    told = {} if reason is None else {"seconds": round(seconds, 1), "status": reason}
    return RunRecord(
        data=f"mixture, {n:,} vertices", method="tautcut", settings={"n_clusters": R}, seed=seed, n_labelled=0,
        **{**outcome, **told, "sizes": tuple(outcome["sizes"])}, **surroundings(set(), commit),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="vertices")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one size, all included")
    parser.add_argument("--fresh", action="store_true", help="run again what the file holds already")
    parser.add_argument("--out", type=Path, default=graphs.RESULTS / "scale.jsonl", help="file of records")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        outcome = measure(options.sizes[0], options.seed)
        options.child.write_text(json.dumps(outcome), encoding="utf-8")
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    commit, done = commit_of_code(), set()
    if options.out.is_file() and not options.fresh:
        done = {(r.measures["n_vertices"], r.seed, r.commit) for r in read_records(options.out)}
    for n in options.sizes:
        if (n, options.seed, commit) in done:
            continue
        began = time.perf_counter()
        load(WARM_UP, options.seed)
        load(n, options.seed)
        print(f"{n:,} vertices: graph ready after {time.perf_counter() - began:.0f} s", flush=True)
        record = run_size(n, options.seed, options.limit, commit)
        append_record(options.out, record)
        print(f"  E {record.energy}, {record.seconds} s, {record.measures} {record.status}", flush=True)
    render.scale(options.out)


if __name__ == "__main__":
    main()
