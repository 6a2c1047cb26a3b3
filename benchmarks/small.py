"""Small graphs, which are to be solved: the default with ten seeds, and the best that others find. Records go to
docs/results/small.jsonl, the page beside it is written from them. A graph that the file already holds is not run again;
remove the file to begin anew. With --ours, tautcut alone is, and what is recorded of the others is kept.

    python benchmarks/small.py [--ours] [names of graphs]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import networkx as nx
import numpy as np
from render import table
from rivals import RIVALS, best_of
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

from tautcut import Graph, MTVClustering, Problem, knn_graph
from tautcut.records import RunRecord, append_record, read_records, run_estimator

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "small.jsonl"
SEEDS = range(10)
OURS = "MTVClustering"
AGREED = 1e-6


def graphs() -> dict[str, tuple[Graph, tuple[int, ...]]]:
    """The graphs by name, and the numbers of clusters that are asked of each."""
    made = {
        "Les Misérables": (nx.les_miserables_graph(), (2, 3, 4, 5)),
        "Les Misérables, unweighted": (_unweighted(nx.les_miserables_graph()), (2, 8)),
        "karate club": (nx.karate_club_graph(), (2, 3, 4)),
        "karate club, unweighted": (_unweighted(nx.karate_club_graph()), (4,)),
        "southern women": (nx.davis_southern_women_graph(), (4, 5, 8)),
        "Florentine families": (nx.florentine_families_graph(), (3,)),
        "planted 4 × 25": (nx.planted_partition_graph(4, 25, 0.4, 0.05, seed=1), (4,)),
        "planted 8 × 50": (nx.planted_partition_graph(8, 50, 0.3, 0.03, seed=1), (8,)),
        "planted 10 × 200": (nx.planted_partition_graph(10, 200, 0.06, 0.004, seed=1), (10,)),
        "planted 300, 100, 30": (
            nx.stochastic_block_model([300, 100, 30], 0.01 * np.ones((3, 3)) + 0.09 * np.eye(3), seed=1), (3,),
        ),
        "LFR communities": (
            nx.LFR_benchmark_graph(500, 3, 1.5, 0.2, average_degree=8, min_community=20, seed=3), (3,),
        ),
        "small world": (nx.watts_strogatz_graph(200, 6, 0.05, seed=1), (4,)),
        "random graph": (nx.gnm_random_graph(100, 250, seed=1), (3,)),
        "preferential attachment": (nx.barabasi_albert_graph(200, 2, seed=1), (3,)),
        "caves": (nx.connected_caveman_graph(20, 10), (4, 9)),
        "path of 500": (nx.path_graph(500), (2, 7)),
        "path of 2,000": (nx.path_graph(2000), (7,)),
        "cycle of 100": (nx.cycle_graph(100), (7,)),
        "grid 20 × 30": (nx.grid_2d_graph(20, 30), (2, 4, 7)),
        "grid 40 × 50": (nx.grid_2d_graph(40, 50), (5,)),
        "binary tree": (nx.balanced_tree(2, 9), (3, 7)),
        "random tree": (nx.random_labeled_tree(300, seed=2), (3,)),
        "star": (nx.star_graph(50), (3,)),
        "clique of 60": (nx.complete_graph(60), (2, 7)),
        "hypercube": (nx.hypercube_graph(8), (2, 5)),
        "random geometric": (nx.random_geometric_graph(600, 0.08, seed=1), (4,)),
    }  # fmt: skip
    found = {name: (_graph_of(graph), numbers) for name, (graph, numbers) in made.items()}
    import igraph

    for name in ("Zachary", "Krackhardt_Kite", "Tutte"):
        found[f"igraph: {name}"] = (Graph.from_any(igraph.Graph.Famous(name)), (3,))
    for name, loader in {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}.items():
        X = scale(loader().data)
        found[f"{name}, 10-NN"] = (knn_graph(X, 10), (2, 3, 5))
        found[f"{name}, self-tuning"] = (knn_graph(X, 10, weights="self-tuning"), (3,))
    X = load_digits().data
    found["digits, 10-NN"] = (knn_graph(X, 10), (2, 10))
    found["digits, self-tuning"] = (knn_graph(X, 10, weights="self-tuning"), (10,))
    return found


def _unweighted(graph: Any) -> Any:
    return nx.Graph(list(graph.edges()))


def _graph_of(graph: Any) -> Graph:
    plain = nx.Graph()
    plain.add_nodes_from(graph.nodes())
    plain.add_weighted_edges_from((a, b, d.get("weight", 1)) for a, b, d in graph.edges(data=True))
    return Graph.from_any(plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of graphs; all by default")
    parser.add_argument("--ours", action="store_true", help="run tautcut alone; the records of the others are kept")
    options = parser.parse_args()
    known = read_records(RECORDS) if RECORDS.exists() else []
    kept = [one for one in known if one.method != OURS] if options.ours else []
    if options.ours:
        RECORDS.unlink(missing_ok=True)
    names = {one.data for one in known if not options.ours}
    for name, (graph, numbers) in graphs().items():
        for R in numbers:
            data = f"{name}, R = {R}"
            if data in names or (options.names and name not in options.names):
                continue
            others = [one for one in kept if one.data == data]
            for record in [*ours(graph, R, data), *(others if options.ours else rivals(graph, R, data))]:
                append_record(RECORDS, record)
                print(data, record.method, record.seed, record.energy, record.seconds, flush=True)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def ours(graph: Graph, R: int, data: str) -> list[RunRecord]:
    """The default with every seed; compiled off the clock."""
    model = MTVClustering(R, affinity="precomputed")
    MTVClustering(R, affinity="precomputed", random_state=0).fit(graph)
    return [run_estimator(model.set_params(random_state=seed), graph, data=data)[1] for seed in SEEDS]


def rivals(graph: Graph, R: int, data: str) -> list[RunRecord]:
    return [best_of(Problem(graph, R), name, tries, data=data) for name, tries in RIVALS.items()]


def page(records: list[RunRecord]) -> str:
    rows, n_agreeing, n_lowest = [], 0, 0
    for data in dict.fromkeys(record.data for record in records):
        mine = [record for record in records if record.data == data and record.method == OURS]
        others = [record for record in records if record.data == data and record.method != OURS]
        lowest, highest = min(r.energy or 0.0 for r in mine), max(r.energy or 0.0 for r in mine)
        allowed = [r for r in others if r.energy is not None and r.status == "Done."]
        rival = min(allowed, key=lambda r: r.energy or 0.0, default=None)
        spread = highest / lowest - 1 if lowest > 0 else highest
        n_agreeing += spread <= AGREED
        is_lowest = rival is None or highest <= (rival.energy or 0.0) * (1 + AGREED)
        n_lowest += is_lowest
        rows.append([
            data, f"{sum(mine[0].sizes):,}", f"{lowest:.5f}", "0" if spread <= AGREED else f"{spread:.1e}",
            "–" if rival is None else f"{rival.energy:.5f}", "–" if rival is None else rival.method,
            "yes" if is_lowest else "**no**", f"{median(r.seconds for r in mine):.2f}",
        ])  # fmt: skip
    machine = records[-1].machine
    commits = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in records if record.method == OURS))
    before = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in records if record.method != OURS))
    head = ["graph", "vertices", "(P)", "spread over seeds", "best of the others", "by", "every seed as low", "seconds"]
    return "\n".join([
        "# Small graphs", "",
        f"The default with seeds {SEEDS[0]} to {SEEDS[-1]}: the lowest (P), by how much the highest exceeds it, and "
        "the median of the seconds. Beside it the best of the partitioners "
        "(METIS, KaHIP, Mt-KaHyPar at 3, 30 and 100 % imbalance), of 1,000 greedy descents and of 10 annealings, among "
        "partitions whose clusters are large enough.", "",
        f"Of {len(rows)} problems, all seeds agree on {n_agreeing}, and no seed ends above the others on {n_lowest}.",
        "",
        f"- machine: {machine['cpus']} cores, {machine['platform']}",
        f"- commit: {commits}; of the others: {before}", "",
        table(head, rows), "",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
