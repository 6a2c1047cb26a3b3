"""What `walk_graph` takes, on the processor and on a GPU: seconds, peak memory, and how many of the neighbours that the
inverse itself gives are joined, for a sample of vertices. The graphs are those of data sets in the folder that
TAUTCUT_DATA names (left out where they are missing), a power law, a star, and points by the million. Records go to
docs/results/walks.jsonl, the page beside it is written from them. A graph that the file already holds for a device is
not run again; remove the file to begin anew.

    python benchmarks/walks.py [--device cpu cuda] [--largest 1000000] [--out FILE] [--commit COMMIT]
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hubs import power_law, star

from tautcut import Graph, knn_graph, walk_graph
from tautcut.records import RunRecord, append_record, circumstances, read_records

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "walks.jsonl"
NEIGHBORS, RESTART = 30, 0.1
SAMPLE, SAMPLE_OF_LARGE = 20, 1  # vertices whose neighbours are compared with the inverse's
LARGE = 200_000  # vertices, from which on that takes minutes for each
NEAR = 3  # times as many are candidates, by M_ij alone
PRECISION = 1e-9  # of the conjugate gradients


def data_set(name: str) -> tuple[Graph, float]:
    """The 10 nearest neighbours of a data set, and the seconds that they took."""
    from tautcut.datasets import load

    X = load(name).X
    began = time.perf_counter()
    return knn_graph(X, 10), time.perf_counter() - began


def points(n: int) -> tuple[Graph, float]:
    """The 10 nearest neighbours of random points in three dimensions, by a tree."""
    from scipy.spatial import cKDTree

    began = time.perf_counter()
    X = np.random.default_rng(0).normal(size=(n, 3))
    nearest = cKDTree(X).query(X, 11, workers=-1)[1][:, 1:]
    W = sp.csr_matrix((np.ones(10 * n), nearest.ravel(), np.arange(0, 10 * n + 1, 10)), shape=(n, n))
    return Graph.from_any(W.maximum(W.T)), time.perf_counter() - began


def blocks(n: int) -> tuple[Graph, float]:
    """Rings of 1,000 vertices, each joined to ten near it; a tenth of the edges lead anywhere."""
    rng, size, k = np.random.default_rng(0), 1000, 10
    here = np.repeat(np.arange(n), k)
    there = here // size * size + (here + np.rint(rng.normal(0, 12, n * k)).astype(np.int64)) % size
    far = rng.random(n * k) < 0.1
    there[far] = rng.integers(0, n, far.sum())
    W = sp.csr_matrix((np.ones(n * k), (here, np.minimum(there, n - 1))), shape=(n, n))
    return Graph.from_any(W.maximum(W.T).sign()), 0.0


GRAPHS: dict[str, tuple[int, Callable[[], tuple[Graph, float]]]] = {
    "optdigits": (5_620, partial(data_set, "optdigits")),
    "pendigits": (10_992, partial(data_set, "pendigits")),
    "mnist, raw": (70_000, partial(data_set, "mnist")),
    "star": (100_000, lambda: (star(100_000), 0.0)),
    "power law and hub": (100_000, lambda: (power_law(100_000), 0.0)),
    "points, 100,000": (100_000, partial(points, 100_000)),
    "points, 1,000,000": (1_000_000, partial(points, 1_000_000)),
    "blocks, 1,000,000": (1_000_000, partial(blocks, 1_000_000)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", choices=("cpu", "cuda"), default=["cpu"])
    parser.add_argument("--largest", type=int, default=1_000_000, help="number of vertices")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="what the records give as the commit, where the folder is no checkout")
    options = parser.parse_args()
    known = {(one.data, one.method) for one in read_records(options.out)} if options.out.exists() else set()
    for name, (n, _) in GRAPHS.items():
        for device in options.device:
            if n <= options.largest and (name, f"walk_graph, {device}") not in known:
                # A process for each, whose peak of memory is its own.
                work = multiprocessing.get_context("spawn").Process(
                    target=measure, args=(name, device, options.out, options.commit)
                )
                work.start()
                work.join()
    if options.out.exists():
        options.out.with_suffix(".md").write_text(page(read_records(options.out)), encoding="utf-8")


def measure(name: str, device: str, out: Path, commit: str | None) -> None:
    """Write the record of one graph on one device."""
    try:
        graph, seconds_of_graph = GRAPHS[name][1]()
    except OSError as missing:
        print(f"{name}: {missing}")
        return
    walk_graph(star(50), 3, device=device)  # compiles
    before = peak()
    began = time.perf_counter()
    smoothed = walk_graph(graph, NEIGHBORS, restart=RESTART, device=device)
    seconds, after = time.perf_counter() - began, peak()
    measures = {
        "vertices": graph.n_vertices, "n_edges": graph.n_edges, "graph_seconds": seconds_of_graph,
        "overlap": overlap(graph, smoothed), "peak_gb_before": before, "peak_gb": after,
        "peak_gb_card": card_peak(device),
    }  # fmt: skip
    shared = circumstances()
    if device == "cuda":
        import torch

        shared["machine"] |= {"card": torch.cuda.get_device_name()}
        shared["versions"] |= {"torch": torch.__version__}
    shared["commit"] = commit or shared["commit"]
    record = RunRecord(
        data=name, method=f"walk_graph, {device}", settings={"n_neighbors": NEIGHBORS, "restart": RESTART}, seed=0,
        n_labelled=0, energy=None, purity=None, sizes=(), seconds=seconds, n_iter=0, status="Done.",
        measures=measures, **shared,
    )  # fmt: skip
    append_record(out, record)
    print(name, device, f"{seconds:.2f} s", measures, flush=True)


def peak() -> float:
    """The most memory that this process has had, in GB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def card_peak(device: str) -> float:
    if device == "cpu":
        return 0.0
    import torch

    return torch.cuda.max_memory_allocated() / 1e9


def overlap(graph: Graph, smoothed: Graph) -> float:
    """The share of the nearest by the inverse itself that are joined, over a sample; M_jj of their candidates alone.

    Of vertices that are equally near, but for a millionth, any counts.
    """
    inverse = Inverse(graph)
    count = SAMPLE_OF_LARGE if graph.n_vertices > LARGE else SAMPLE
    starts = np.random.default_rng(0).choice(np.flatnonzero(graph.degrees > 0), count, replace=False)
    M = inverse.columns(starts)
    found = []
    for start, column in zip(starts, M.T, strict=True):
        column[start] = -1.0
        near = np.argsort(-column, kind="stable")[: NEAR * NEIGHBORS]
        near = near[column[near] > 0]
        returns = np.concatenate([
            inverse.columns(part)[part, np.arange(part.size)] for part in np.array_split(near, 3) if part.size
        ])  # fmt: skip
        cosine = column[near] / np.sqrt(returns)
        bar = np.sort(cosine)[::-1][:NEIGHBORS][-1]
        joined = smoothed.indices[smoothed.indptr[start] : smoothed.indptr[start + 1]]
        is_joined, is_above, is_tie = np.isin(near, joined), cosine > bar * (1 + 1e-6), abs(cosine / bar - 1) <= 1e-6
        n_ties = min(NEIGHBORS, near.size) - is_above.sum()
        hits = (is_joined & is_above).sum() + min((is_joined & is_tie).sum(), n_ties)
        found.append(hits / min(NEIGHBORS, near.size))
    return float(np.mean(found))


class Inverse:
    """Columns of M = (I − (1 − restart) D^{-½} W D^{-½})^{-1}, by conjugate gradients in double precision."""

    def __init__(self, graph: Graph) -> None:
        scale = sp.diags(1 / np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0)))
        self.n = graph.n_vertices
        self.matrix = (sp.identity(self.n) - (1 - RESTART) * (scale @ graph.to_scipy() @ scale)).tocsr()

    def columns(self, vertices: np.ndarray) -> np.ndarray:
        B = np.zeros((self.n, vertices.size))
        B[vertices, np.arange(vertices.size)] = 1.0
        X, R, P = np.zeros_like(B), B.copy(), B.copy()
        rho = (R * R).sum(axis=0)
        while rho.max() > PRECISION**2:
            AP = self.matrix @ P
            step = rho / (P * AP).sum(axis=0)
            X += step * P
            R -= step * AP
            rho, before = (R * R).sum(axis=0), rho
            P = R + (rho / before) * P
        return X


def page(records: list[RunRecord]) -> str:
    from render import table

    rows, latest = [], {(one.data, one.method): one for one in records}
    for one in latest.values():
        m: dict[str, Any] = dict(one.measures)
        rows.append([
            one.data, one.method.split(", ")[1], f"{int(m['vertices']):,}", f"{int(m['n_edges']):,}",
            f"{m['graph_seconds']:.1f}" if m["graph_seconds"] else "–", f"{one.seconds:.2f}", f"{m['overlap']:.3f}",
            f"{m['peak_gb_before']:.2f}", f"{m['peak_gb']:.2f}",
            f"{m['peak_gb_card']:.2f}" if m["peak_gb_card"] else "–",
        ])  # fmt: skip
    places = [
        [f"{one.machine['cpus']} cores", one.machine["platform"], one.machine.get("card")] for one in latest.values()
    ]
    machines = dict.fromkeys(", ".join(filter(None, place)) for place in places)
    commits = ", ".join(dict.fromkeys((one.commit or "unknown")[:12] for one in latest.values()))
    head = [
        "graph", "device", "vertices", "edges", "seconds of the graph", "seconds", "overlap", "GB before", "GB at most",
        "GB of the card",
    ]  # fmt: skip
    return "\n".join([
        "# Walks", "",
        f"`walk_graph(graph, {NEIGHBORS}, restart={RESTART})`, compiled before. The overlap is the share of the "
        f"{NEIGHBORS} nearest by the inverse itself that are joined, over {SAMPLE} vertices, and over "
        f"{SAMPLE_OF_LARGE} of the largest graphs; the memory is that of the "
        "process, before the walks and at its peak, the graph and Python included. One run each, on machines that "
        "others use too: no spread. Decision [0043](../decisions/0043-walks-go-eight-at-a-time.md).", "",
        *(f"- machine: {machine}" for machine in machines), f"- commit: {commits}", "", table(head, rows), "",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
