"""Graphs with vertices of very many neighbours, at growing sizes: a star, a ring with a hub that half of it is joined
to, and a power law with such a hub. What a fit costs for each edge, which should not grow with the degrees. Records go
to docs/results/hubs.jsonl, the page beside it is written from them. A graph that the file already holds is not run
again; remove the file to begin anew.

    python benchmarks/hubs.py [largest number of vertices]

On a GPU: what an iteration takes on such graphs, with a hub's row in one program and in pieces, and on graphs with as
many edges and no hub. Records go to docs/results/hubs-gpu.jsonl; `hubs.py 0` writes the page again.

    python benchmarks/hubs.py --device cuda [--pieces 256 512 1024] [--out FILE] [--commit COMMIT]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.errors import GraphWarning
from tautcut.graph import Graph
from tautcut.records import RunRecord, append_record, read_records

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "hubs.jsonl"
GPU_RECORDS = RECORDS.with_name("hubs-gpu.jsonl")
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
CLUSTERS = 4
GPU_SIZE, GPU_CLUSTERS = 1_000_000, (4, 10)
ITERATIONS = 50  # that are timed on a GPU
TAIL = 1.5  # exponent of the power law: the share of vertices with d or more neighbours falls as d^−1.5


def star(n: int) -> Graph:
    return Graph.from_edges(np.column_stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)]))


def ring_and_hub(n: int) -> Graph:
    """A ring in which each vertex knows two on either side, and vertex 0 every other one."""
    here = np.arange(n)
    ring = [np.column_stack([here, (here + step) % n]) for step in (1, 2)]
    return _with_hub(ring, n)


def power_law(n: int) -> Graph:
    """Pairs of vertices drawn by weights of a power law, eight neighbours on average, and a hub."""
    rng = np.random.default_rng(0)
    weights = np.minimum(rng.pareto(TAIL, n) + 1.0, np.sqrt(n))
    ends = rng.choice(n, (4 * n, 2), p=weights / weights.sum())
    return _with_hub([ends], n)


def _with_hub(edges: list[np.ndarray], n: int) -> Graph:
    spokes = np.column_stack([np.zeros(n // 2, dtype=np.int64), np.arange(1, n, 2)[: n // 2]])
    pairs = np.sort(np.concatenate([*edges, spokes]), axis=1)
    return Graph.from_edges(np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0), n_vertices=n)


def ring(n: int, n_edges: int) -> Graph:
    """Each vertex knows as many of the next ones as there are edges for; what is left of them lies evenly apart."""
    here = np.arange(n)
    steps = [np.column_stack([here, (here + step) % n]) for step in range(1, n_edges // n + 1)]
    last = here[:: max(1, n // max(1, n_edges % n))][: n_edges % n]
    steps.append(np.column_stack([last, (last + n_edges // n + 1) % n]))
    return Graph.from_edges(np.concatenate(steps), n_vertices=n)


GRAPHS = {"star": star, "ring and hub": ring_and_hub, "power law and hub": power_law}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("largest", type=int, nargs="?", default=SIZES[-1], help="number of vertices, on the processor")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pieces", type=int, nargs="*", default=[], help="other lengths of a hub's pieces, on a GPU")
    parser.add_argument("--out", type=Path, default=GPU_RECORDS, help="file of the GPU's records")
    parser.add_argument("--commit", help="what records give as the commit, where the folder is no checkout")
    options = parser.parse_args()
    if options.device == "cuda":
        measure_on_gpu(options.out, options.commit, options.pieces)
    else:
        measure_fits(options.largest, options.commit)
        RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def measure_fits(largest: int, commit: str | None) -> None:
    from tautcut import MTVClustering
    from tautcut.records import run_estimator

    known = {record.data for record in read_records(RECORDS)} if RECORDS.exists() else set()
    for n in SIZES:
        for name, make in GRAPHS.items():
            data = f"{name}, {n:,} vertices"
            if data in known or n > largest:
                continue
            graph = make(n)
            model = MTVClustering(CLUSTERS, affinity="precomputed", random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GraphWarning)
                record = run_estimator(model, graph, data=data)[1]
            degree = int(np.diff(graph.indptr).max())
            measures = {**record.measures, "n_edges": graph.n_edges, "largest_degree": degree}
            append_record(RECORDS, replace(record, measures=measures, commit=commit or record.commit))
            print(data, graph.n_edges, degree, record.energy, record.seconds, flush=True)


# ---------------------------------------------------------------- on a GPU


def measure_on_gpu(out: Path, commit: str | None, other_pieces: list[int]) -> None:
    from gpu import Bench  # of this folder

    from tautcut.kernels.gpu import layout

    bench, n = Bench(out, commit), GPU_SIZE
    ways = {"one program": (sys.maxsize, layout.PIECE)}
    for piece in (layout.PIECE, *other_pieces):
        ways[f"pieces of {piece}"] = (layout.HUB_ROW, piece)
    for name in ("star", "ring and hub"):
        graph = GRAPHS[name](n)
        even = ring(n, graph.n_edges)
        for R in GPU_CLUSTERS:
            measure_iterations(bench, f"no hub, beside {name}", even, R, "short rows")
            for way, (layout.HUB_ROW, layout.PIECE) in ways.items():
                measure_iterations(bench, name, graph, R, way)


def measure_iterations(bench: Any, name: str, graph: Graph, R: int, way: str) -> None:
    """Milliseconds of an iteration with its check, of its launches, and of the product with the Laplacian."""
    import torch
    from gpu import iteration_times, milliseconds

    from tautcut.algorithm.batch import limits_of
    from tautcut.algorithm.stopping import StopRule
    from tautcut.kernels.gpu.engine import GpuKernels
    from tautcut.problem import Problem

    kernels = GpuKernels(Problem(graph, R))
    start = kernels.in_rows(np.random.default_rng(0).dirichlet(np.ones(R), graph.n_vertices))[None]
    for iterations in (2, ITERATIONS):  # the first compiles
        batch = kernels.batch(start, limits_of(StopRule(tol=0.0, max_iter=iterations)))
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in batch.run():
            pass
        torch.cuda.synchronize()
        seconds, after = time.perf_counter() - began, batch.look()[0]
    times = iteration_times(kernels, start)
    measures = {
        "vertices": graph.n_vertices, "n_edges": graph.n_edges, "clusters": R,
        "largest_degree": int(np.diff(graph.indptr).max()), "blocks of hubs": kernels.layout.n_pieces,
        "ms per iteration": 1e3 * seconds / max(1, after.iterations), "iterate ms": times["iterate"],
        "vary ms": times["vary"], "launches ms": sum(times.values()),
        "product ms": milliseconds(lambda: kernels.minus_laplacian(start, kernels.tensors["weights"])),
    }  # fmt: skip
    bench.write(name, way, seconds, measures, energy=after.best, n_iter=after.iterations)


# ---------------------------------------------------------------- the page


def gpu_section(records: list[RunRecord]) -> list[str]:
    from render import table

    latest = {(one.data, one.measures["clusters"], one.method): one for one in records}  # of several, the last counts
    rows = [
        [
            one.data, f"{int(one.measures['n_edges']):,}", f"{int(one.measures['largest_degree']):,}",
            str(int(one.measures["clusters"])), one.method,
            *(f"{one.measures[name]:.3f}" for name in ("ms per iteration", "iterate ms", "vary ms", "product ms")),
        ]
        for one in latest.values()
    ]  # fmt: skip
    commits = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in records))
    head = [
        "graph", "edges", "largest degree", "clusters", "longest rows", "ms per iteration", "`iterate`, ms",
        "`vary`, ms", "−L X, ms",
    ]  # fmt: skip
    return [
        "## On a GPU", "",
        f"One random start on a million vertices: an iteration with its check, over {ITERATIONS} of them, and the "
        "launches that read edges, the median of five replays. \"One program\" is how a hub was worked through before "
        "decision [0036](../decisions/0036-several-programs-share-a-hub.md).", "",
        f"- GPU: {records[-1].machine['card']}", f"- commit: {commits}", "", table(head, rows), "",
    ]  # fmt: skip


def page(records: list[RunRecord]) -> str:
    from render import table

    rows = []
    for record in sorted(records, key=lambda one: (one.data.split(",")[0], sum(one.sizes))):
        n_edges, degree = int(record.measures["n_edges"]), int(record.measures["largest_degree"])
        rows.append([
            record.data.split(",")[0], f"{sum(record.sizes):,}", f"{n_edges:,}", f"{degree:,}",
            f"{record.seconds:.1f}", f"{1e6 * record.seconds / n_edges:.1f}", f"{record.energy:.5g}",
        ])  # fmt: skip
    machine = records[-1].machine
    commits = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in records))
    head = ["graph", "vertices", "edges", "largest degree", "seconds", "µs per edge", "(P)"]
    return "\n".join([
        "# Hubs", "",
        f"The default with {CLUSTERS} clusters, one seed, on graphs where one vertex has half of the others, or all of "
        "them, for neighbours. Up to 100,000 "
        "directed edges the search is that of small graphs, which is longer by choice. One run each: no spread, and "
        "the first one, of the smallest star, compiles what is not compiled yet.", "",
        f"- machine: {machine['cpus']} cores, {machine['platform']}", f"- commit: {commits}", "",
        table(head, rows), "",
        *(gpu_section(read_records(GPU_RECORDS)) if GPU_RECORDS.exists() else []),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
