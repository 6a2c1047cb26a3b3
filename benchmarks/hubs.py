"""Graphs with vertices of very many neighbours, at growing sizes: a star, a ring with a hub that half of it is joined
to, and a power law with such a hub. What a fit costs for each edge, which should not grow with the degrees. Records go
to docs/results/hubs.jsonl, the page beside it is written from them. A graph that the file already holds is not run
again; remove the file to begin anew.

    python benchmarks/hubs.py [largest number of vertices]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from render import table

from tautcut import Graph, MTVClustering
from tautcut.errors import GraphWarning
from tautcut.records import RunRecord, append_record, read_records, run_estimator

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "hubs.jsonl"
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
CLUSTERS = 4
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


GRAPHS = {"star": star, "ring and hub": ring_and_hub, "power law and hub": power_law}


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
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
            append_record(RECORDS, RunRecord(**{**vars(record), "measures": measures}))
            print(data, graph.n_edges, degree, record.energy, record.seconds, flush=True)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def page(records: list[RunRecord]) -> str:
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
        "them, for neighbours; on a machine whose cores others used too. Up to 100,000 "
        "directed edges the search is that of small graphs, which is longer by choice. One run each: no spread.", "",
        f"- machine: {machine['cpus']} cores, {machine['platform']}", f"- commit: {commits}", "",
        table(head, rows), "",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
