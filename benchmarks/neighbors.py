"""Features to a 10-nearest-neighbour graph: `knn_graph` beside pynndescent and SciPy's k-d tree, in turn, in one
process for each data set. All of ours counts, to the symmetric graph; of the others the lists alone. Recall is against
brute force on 300 points. The first call in the process, of few points, is timed too.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/neighbors.py
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import graphs
import numpy as np
import render
import scipy.sparse as sp
from run import FAILED, commit_of_code, run_apart, surroundings
from scale import memory_gb

from tautcut.neighbors import neighbor_graph
from tautcut.records import RunRecord, append_record

MIXTURES = {
    "100 k × 10": (100_000, 10),
    "300 k × 10": (300_000, 10),
    "100 k × 50": (100_000, 50),
    "1 M × 10": (1_000_000, 10),
}
DATA = ("100 k × 10", "300 k × 10", "100 k × 50", "mnist, 70 k × 784", "20news tf-idf, sparse", "1 M × 10")
NEIGHBORS, REPEATS, PROBED = 10, 3, 300
EXACT_UP_TO = 100_000  # points for which SciPy's exact tree is waited for, in few dimensions


def features(data: str) -> Any:
    """The points: Gaussian mixtures of 20 components, or a data set."""
    if data in MIXTURES:
        n, d = MIXTURES[data]
        rng = np.random.default_rng(0)
        centres, planted = rng.normal(size=(20, d)) * 2.2 / np.sqrt(d / 10), rng.integers(0, 20, n)
        return (centres[planted] + rng.normal(size=(n, d))).astype(np.float32)
    folder = Path(os.environ["TAUTCUT_DATA"])
    if data.startswith("mnist"):
        return np.load(folder / "mnist.npz")["X"].reshape(70_000, -1).astype(np.float32)
    with np.load(folder / "newsgroups20.npz") as file:
        counts = sp.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
    from sklearn.feature_extraction.text import TfidfTransformer

    return TfidfTransformer().fit_transform(counts[np.diff(counts.indptr) > 0])


def recalls(X: Any, rows: np.ndarray, listed: dict[str, Callable[[int], np.ndarray]]) -> dict[str, float]:
    """The share of the true neighbours of these rows that each method lists; ties count."""
    hits: dict[str, list[float]] = {name: [] for name in listed}
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else None
    for i in rows:
        if norms is None:
            squared = np.square(X - X[i]).sum(axis=1)
        else:
            squared = norms + norms[i] - 2 * (X @ X[i].T).toarray().ravel()
        squared[i] = np.inf
        radius = np.partition(squared, NEIGHBORS - 1)[NEIGHBORS - 1]
        for name, lists in listed.items():
            hits[name].append(min((squared[lists(i)] <= radius * (1 + 1e-6)).sum(), NEIGHBORS) / NEIGHBORS)
    return {name: float(np.mean(found)) for name, found in hits.items()}


def ours(X: Any) -> tuple[Callable[[int], np.ndarray], dict[str, Any]]:
    graph, report = neighbor_graph(X, NEIGHBORS, metric="cosine" if sp.issparse(X) else "euclidean", random_state=0)
    found = {"method": report.method, "reported_recall": report.recall}
    return lambda i: graph.indices[graph.indptr[i] : graph.indptr[i + 1]], found


def pynndescent(X: Any) -> tuple[Callable[[int], np.ndarray], dict[str, Any]]:
    from pynndescent import NNDescent

    metric = "cosine" if sp.issparse(X) else "euclidean"
    lists = NNDescent(X, n_neighbors=16, metric=metric, random_state=0).neighbor_graph[0]
    return lambda i: lists[i][lists[i] != i][:NEIGHBORS], {}


def tree(X: Any) -> tuple[Callable[[int], np.ndarray], dict[str, Any]]:
    from scipy.spatial import cKDTree

    lists = cKDTree(X).query(X, NEIGHBORS + 1, workers=-1)[1]
    return lambda i: lists[i][lists[i] != i][:NEIGHBORS], {}


METHODS = {"tautcut": ours, "pynndescent": pynndescent, "SciPy k-d tree": tree}


def measure(data: str, repeats: int) -> list[dict[str, Any]]:
    """Each method in turn, several times; outcomes ready for records."""
    X = features(data)
    is_for_tree = X.shape[0] <= EXACT_UP_TO and X.shape[1] <= 10
    names = [name for name in METHODS if name != "SciPy k-d tree" or is_for_tree]
    small = X[:: max(1, X.shape[0] // 5000)]
    first: dict[str, float] = {}
    for name in names:  # compiles, or reads what is compiled
        began = time.perf_counter()
        METHODS[name](small)
        first[name] = time.perf_counter() - began
    seconds: dict[str, list[float]] = {name: [] for name in names}
    busy: dict[str, list[float]] = {name: [] for name in names}
    answers = {}
    for _ in range(repeats):
        for name in names:
            began, began_busy = time.perf_counter(), time.process_time()
            answers[name] = METHODS[name](X)
            seconds[name].append(time.perf_counter() - began)
            busy[name].append(time.process_time() - began_busy)
    rows = np.random.default_rng(1).choice(X.shape[0], PROBED, replace=False)
    found = recalls(X, rows, {name: answers[name][0] for name in names})
    return [
        {
            "method": name, "seconds": round(median(seconds[name]), 3),
            "measures": {
                "n_points": X.shape[0], "n_features": X.shape[1], "recall": found[name],
                "processor_seconds": round(median(busy[name]), 3), "first_call_of_5000": round(first[name], 3),
                "peak_gb": round(memory_gb(), 3), **answers[name][1],
            },
        }
        for name in names
    ]  # fmt: skip


def run_data(data: str, options: argparse.Namespace, commit: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcome.json"
        command = [sys.executable, __file__, "--child", str(out), "--data", data, "--repeats", str(options.repeats)]
        reason, seconds = run_apart(command, options.limit)
        failed = [{"method": "tautcut", "seconds": round(seconds, 1), "measures": {}}]
        outcomes = json.loads(out.read_text(encoding="utf-8")) if reason is None else failed
    for outcome in outcomes:
        record = RunRecord(
            data=data, settings={"n_neighbors": NEIGHBORS, "repeats": options.repeats}, seed=0, n_labelled=0,
            status=reason or "Done.", **outcome, **FAILED, **surroundings({"pynndescent"}, commit),
        )  # fmt: skip
        append_record(options.out, record)
        print(f"{data}, {record.method}: {record.seconds} s, {record.measures} {record.status}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one data set, all included")
    parser.add_argument("--out", type=Path, default=graphs.RESULTS / "neighbors.jsonl", help="file of records")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        options.child.write_text(json.dumps(measure(options.data[0], options.repeats)), encoding="utf-8")
        return
    commit = commit_of_code()
    for data in options.data:
        run_data(data, options, commit)
    render.neighbors(options.out)


if __name__ == "__main__":
    main()
