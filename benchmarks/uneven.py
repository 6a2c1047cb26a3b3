"""Uneven and weighted graphs beyond the small ones: a ladder of mixtures and planted partitions whose largest cluster
is 1 to 20 times the smallest, and graphs with varying weights. The default beside the longer search, the paper's
starts, a start from the planted partition, and partitioners. Records go to docs/results/uneven.jsonl, the page beside
it is written from them; a graph that the file already holds is not run again. With --ours, the two searches of tautcut
alone are, and what is recorded of the others is kept.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/uneven.py [--ours]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from render import table
from rivals import PARTITIONERS, best_of
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

from tautcut import Graph, MTVClustering, Problem, knn_graph
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, read_records, run_estimator

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "uneven.jsonl"
LADDER = (1, 2, 5, 10, 20)
PLANTED_LADDER = (1, 5, 20)
APART = ((1000, 60), (1000, 100), (600, 200, 50), (3000, 200, 200, 100), (20_000, 3000, 800))
SEEDS = range(3)
OURS, LONGER = "default", "thorough"
PAPER = {"algorithm": "paper", "search": "none", "init": "ncut-seeds", "n_init": 31}
AGREED = 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    graph: Graph
    n_clusters: int
    planted: Any = None


def cases() -> Iterator[Case]:
    for ratio in LADDER:
        yield mixture(f"mixture {ratio}:1", ladder(2500, 5, ratio))
    for ratio in PLANTED_LADDER:
        sizes = ladder(2200, 4, ratio)
        blocks = 0.002 * np.ones((4, 4)) + np.diag(10.0 / np.array(sizes))
        drawn = nx.stochastic_block_model(sizes, np.minimum(blocks, 1.0), seed=1)
        yield Case(f"planted {ratio}:1", Graph.from_edges(list(drawn.edges()), n_vertices=sum(sizes)), 4, labels(sizes))
    for sizes in APART:
        yield mixture(f"apart {', '.join(map(str, sizes))}", list(sizes), spread=2.6)
    yield from weighted()
    yield mixture("mixture 5000, 800", [5000, 800])
    yield mixture("mixture 8000 … 1200", [8000, 4500, 3000, 2000, 1200])


def ladder(n: int, R: int, ratio: int) -> list[int]:
    """R sizes in equal proportions from the largest to the smallest, about n together."""
    shares = np.geomspace(ratio, 1, R)
    return [round(size) for size in n * shares / shares.sum()]


def labels(sizes: list[int]) -> Any:
    return np.repeat(np.arange(len(sizes)), sizes)


def mixture(name: str, sizes: list[int], *, spread: float = 1.3) -> Case:
    """Gaussian clouds in five dimensions that overlap, unless they are spread out, and their 10-NN graph."""
    rng = np.random.default_rng(1)
    centres = spread * rng.standard_normal((len(sizes), 5))
    points = np.concatenate([centre + rng.standard_normal((n, 5)) for centre, n in zip(centres, sizes, strict=True)])
    return Case(name, knn_graph(points, 10, method="exact"), len(sizes), labels(sizes))


def weighted() -> Iterator[Case]:
    sets = {
        "iris": (scale(load_iris().data), 3), "wine": (scale(load_wine().data), 3),
        "breast cancer": (scale(load_breast_cancer().data), 2), "digits": (load_digits().data, 10),
        "optdigits": (load("optdigits").X, 10),
    }  # fmt: skip
    for name, (X, R) in sets.items():
        for weights in ("self-tuning", "gaussian"):
            yield Case(f"{name}, {weights}", knn_graph(X, 10, weights=weights, method="exact"), R)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", action="store_true", help="run tautcut alone; the records of the others are kept")
    only_ours = parser.parse_args().ours
    known = read_records(RECORDS) if RECORDS.exists() else []
    kept = [one for one in known if one.method not in (OURS, LONGER)] if only_ours else []
    if only_ours:
        RECORDS.unlink(missing_ok=True)
    names = {one.data for one in known if not only_ours}
    for case in cases():
        if case.name not in names:
            others = [one for one in kept if one.data == case.name]
            for record in [*searches(case), *(others if only_ours else rivals(case))]:
                append_record(RECORDS, record)
                print(record.data, record.method, record.seed, record.energy, record.seconds, flush=True)
            RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def searches(case: Case) -> Iterator[RunRecord]:
    for seed in SEEDS:
        yield _ours(case, OURS, seed)
    if case.planted is not None:
        yield _ours(case, LONGER, 0, search="thorough")


def rivals(case: Case) -> Iterator[RunRecord]:
    R, partitioners = case.n_clusters, PARTITIONERS
    if case.planted is not None:
        yield _ours(case, "the paper's 31 starts", 0, **PAPER)
        yield _ours(case, "start from the planted partition", 0, init=0.5 * np.eye(R)[case.planted] + 0.5 / R)
        partitioners = {"Mt-KaHyPar": PARTITIONERS["Mt-KaHyPar"]}
    for name, tries in partitioners.items():
        yield best_of(Problem(case.graph, R), name, tries, data=case.name)


def _ours(case: Case, name: str, seed: int, **settings: Any) -> RunRecord:
    model = MTVClustering(case.n_clusters, affinity="precomputed", random_state=seed, **settings)
    _, record = run_estimator(model, case.graph, data=case.name, truth=case.planted)
    return replace(record, method=name)


def page(records: list[RunRecord]) -> str:
    rows, n_lowest = [], 0
    for data in dict.fromkeys(record.data for record in records):
        mine = [record for record in records if record.data == data and record.method == OURS]
        smallest = min(min(record.sizes) for record in mine)
        others = [r for r in records if r.data == data and r.method != OURS and r.energy is not None]
        least = min(smallest, sum(mine[0].sizes) // (4 * len(mine[0].sizes)))
        allowed = [r for r in others if min(r.sizes) >= least]
        rival = min(allowed, key=lambda r: r.energy or 0.0)
        energies = [record.energy or 0.0 for record in mine]
        excess = max(energies) / (rival.energy or 1.0) - 1
        n_lowest += excess <= AGREED
        rows.append([
            data, f"{sum(mine[0].sizes):,}", str(len(mine[0].sizes)), " / ".join(f"{e:.5g}" for e in energies),
            str(smallest), f"{rival.energy:.5g}", rival.method, "≤ 0" if excess <= AGREED else f"**{excess:.1e}**",
        ])  # fmt: skip
    machine = records[-1].machine
    commits = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in records))
    head = ["graph", "vertices", "R", "(P) of the default, each seed", "smallest cluster", "best of the others", "by"]
    return "\n".join([
        "# Uneven and weighted graphs", "",
        "(P) of the default with three seeds, beside the lowest of `thorough`, the paper's 31 starts, a start "
        "from the planted partition and Mt-KaHyPar at 3, 30 and 100 % imbalance (on weighted graphs: METIS, KaHIP and "
        "Mt-KaHyPar) among partitions whose clusters have a quarter of the mean size, or are as large as the default's "
        "smallest. The last column is by how much the worst seed is above it.", "",
        f"Of {len(rows)} graphs, no seed is above the others on {n_lowest}.", "",
        f"- machine: {machine['cpus']} cores, {machine['platform']}", f"- commit: {commits}", "",
        table([*head, "above it"], rows), "",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
