"""How often the suggested number of clusters is right, and how long a suggestion takes: on data whose number of classes
is known, on planted blocks, and on graphs that have no clusters at all, where right is to say so. Records go to
docs/results/suggestions.jsonl; suggestions.md is written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/suggestions.py
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import networkx
import numpy as np
from render import table
from sklearn import datasets as bundled
from sklearn.preprocessing import scale

from tautcut import Graph, knn_graph, suggestion
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, circumstances, read_records
from tautcut.search import plan
from tautcut.suggestion import Suggestion, suggest_n_clusters

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "suggestions.jsonl"

SEEDS = (0,)
LARGE = "mnist"  # once more with as many starts as small graphs get
NONE: tuple[int, ...] = ()  # no number is right: the graph has no clusters
MOST = 15
OURS, FOUR_STARTS = "suggest_n_clusters", "suggest_n_clusters, 4 starts"


@dataclass(frozen=True)
class Case:
    """A graph, and which numbers of clusters are right for it; none where it has no clusters."""

    name: str
    right: tuple[int, ...]
    make: Callable[[], Graph]


def main() -> None:
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for case in cases():
        graph = case.make()
        for seed in SEEDS:
            record(part, case, graph, seed, OURS)
        if case.name == LARGE:
            with patch.object(plan, "_QUICK_STARTS", (4, 4)):
                record(part, case, graph, 0, FOUR_STARTS)
    os.replace(part, RECORDS)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def cases() -> Iterator[Case]:
    for name, right in {"iris": (2, 3), "wine": (3,), "breast_cancer": (2,)}.items():
        yield Case(f"{name}, standardised", right, lambda name=name: neighbors(scale(table_of(name))))
    digits = bundled.load_digits()
    yield Case("digits", (10,), lambda: neighbors(digits.data))
    yield Case("digits 0–4", (5,), lambda: neighbors(digits.data[digits.target < 5]))
    for name in ("optdigits", "pendigits"):
        yield Case(name, (10,), lambda name=name: neighbors(rows_of(name)))
    for n, spread, what in (
        (3, 0.6, "apart"),
        (5, 0.6, "apart"),
        (8, 0.5, "apart"),
        (3, 1.2, "touching"),
        (5, 0.9, "touching"),
    ):
        yield Case(f"{n} blobs, {what}", (n,), lambda n=n, spread=spread: blobs(100 * n, n, spread))
    yield Case("blobs of 300, 100 and 50", (3,), lambda: blobs([300, 100, 50], 3, 0.7))
    yield Case("blobs of 1000, 300 and 100", (3,), lambda: blobs([1000, 300, 100], 3, 0.5))
    yield Case("blobs of 2000, 800, 300, 100 and 50", (5,), lambda: blobs([2000, 800, 300, 100, 50], 5, 0.7))
    yield Case("two moons", (2,), lambda: neighbors(bundled.make_moons(400, noise=0.05, random_state=0)[0]))
    yield Case("circles", (2,), lambda: neighbors(bundled.make_circles(400, noise=0.04, factor=0.4, random_state=0)[0]))
    for n, inside, outside in ((4, 0.3, 0.02), (4, 0.3, 0.06), (12, 0.5, 0.02)):
        name = f"{n} planted blocks, {inside} and {outside}"
        yield Case(
            name, (n,), lambda n=n, p=inside, q=outside: plain(networkx.planted_partition_graph(n, 50, p, q, seed=0))
        )
    yield Case("caveman, 6 of 6", (6,), lambda: plain(networkx.connected_caveman_graph(6, 6)))
    without = {
        "path": networkx.path_graph(120),
        "grid": networkx.grid_2d_graph(10, 10),
        "random graph": networkx.gnm_random_graph(60, 300, seed=0),
        "sparse random graph": networkx.gnm_random_graph(200, 400, seed=1),
        "clique": networkx.complete_graph(40),
        "star": networkx.star_graph(200),
        "complete bipartite": networkx.complete_bipartite_graph(8, 8),
        "random bipartite": networkx.bipartite.random_graph(40, 60, 0.08, seed=1),
        "southern women": networkx.davis_southern_women_graph(),
        "cycle": networkx.cycle_graph(12),
        "Petersen": networkx.petersen_graph(),
    }
    for name, network in without.items():
        yield Case(name, NONE, lambda network=network: plain(network))
    yield Case(LARGE, (10,), lambda: neighbors(rows_of(LARGE)))


def table_of(name: str) -> Any:
    return getattr(bundled, f"load_{name}")().data


def rows_of(name: str) -> Any:
    X = load(name).X
    return X.reshape(X.shape[0], -1)


def neighbors(X: Any) -> Graph:
    return knn_graph(X, 10, random_state=0)


def blobs(sizes: Any, n: int, spread: float) -> Graph:
    """Groups around centres on a circle: how near they come is the spread alone."""
    angles = 2 * math.pi * np.arange(n) / n
    centers = n * 0.8 * np.column_stack([np.cos(angles), np.sin(angles)])
    return neighbors(bundled.make_blobs(sizes, centers=centers, cluster_std=spread, random_state=0)[0])


def plain(network: Any) -> Graph:
    return Graph.from_any(networkx.convert_node_labels_to_integers(network))


def record(path: Path, case: Case, graph: Graph, seed: int, method: str) -> None:
    candidates = range(2, min(MOST, graph.n_vertices - 1) + 1)
    before, cpu = time.perf_counter(), time.process_time()
    found = suggest_n_clusters(graph, candidates, random_state=seed)
    seconds, cpu = time.perf_counter() - before, time.process_time() - cpu
    with patch.object(suggestion, "_LOOSE", math.inf):  # the rule of decision 0019 on the same curve
        unbounded = suggestion._suggestion(found.curve, is_complete=True)
    points = {point.n_clusters: point for point in found.curve}
    best = points[found.n_clusters]
    measures = {
        "suggested": found.n_clusters, "is_right": is_right(found, case), "is_guess": is_guess(found),
        "leakage": best.leakage, "stability": best.stability, "cpu_seconds": cpu,
        "suggested_without_bound": unbounded.n_clusters, "is_right_without_bound": is_right(unbounded, case),
        "is_guess_without_bound": is_guess(unbounded), "leakage_without_bound": points[unbounded.n_clusters].leakage,
    }  # fmt: skip
    settings = {
        "candidates": [candidates[0], candidates[-1]],
        "right": list(case.right),
        "n_vertices": graph.n_vertices,
    }
    line = RunRecord(
        case.name, method, settings, seed, 0, best.energy, None, seconds, (), 0, found.reason, **circumstances(),
        measures={name: float(value) for name, value in measures.items()},
    )  # fmt: skip
    append_record(path, line)
    print(case.name, method, seed, f"{seconds:.1f} s", found.n_clusters, unbounded.n_clusters, found.reason, flush=True)


def is_guess(found: Suggestion) -> bool:
    return found.reason.startswith("No number")


def is_right(found: Suggestion, case: Case) -> bool:
    return is_guess(found) if case.right == NONE else found.n_clusters in case.right


def page(records: list[RunRecord]) -> str:
    ours = [record for record in records if record.method == OURS]
    rows = []
    for name in dict.fromkeys(record.data for record in ours):
        some = [record for record in ours if record.data == name]
        right = some[0].settings["right"]
        rows.append([
            name, f"{some[0].settings['n_vertices']:,}", " or ".join(map(str, right)) or "none", answers(some, ""),
            answers(some, "_without_bound"), f"{max(record.measures['leakage'] for record in some):.2f}",
            f"{mean(record.measures['cpu_seconds'] for record in some):.1f}",
        ])  # fmt: skip
    head = ["graph", "vertices", "right", "suggested", "without the bound", "leakage", "CPU seconds"]
    parts = [
        "# The suggested number of clusters",
        "Written by `benchmarks/suggestions.py` from `suggestions.jsonl`, not by hand. Candidates are 2 to 15, or all "
        "but one of the vertices. *Without the bound* is the rule of decision 0019 on the same curve; a number in "
        "brackets is called a guess. Where a graph has no clusters, a guess is right.",
        table(head, rows),
        f"Right: {share(ours, 'is_right')}; without the bound {share(ours, 'is_right_without_bound')}. Praised "
        f"although the worst cluster loses half of its weight or more: {praised(ours, 'is_guess')}; without the bound "
        f"{praised(ours, 'is_guess_without_bound')}.",
        *(
            f"{LARGE}, {one.method}: {one.seconds:.0f} s by the clock of a machine that others shared, "
            f"{one.measures['cpu_seconds']:.0f} s of its processors; suggested {one.measures['suggested']:.0f}."
            for one in records
            if one.data == LARGE
        ),
    ]
    return "\n\n".join(parts).rstrip() + "\n"


def answers(records: list[RunRecord], which: str) -> str:
    """The suggested numbers of all seeds, in brackets where they are guesses."""
    found = [(f"{one.measures[f'suggested{which}']:.0f}", one.measures[f"is_guess{which}"]) for one in records]
    return ", ".join(dict.fromkeys(f"({number})" if is_guess else number for number, is_guess in found))


def share(records: list[RunRecord], measure: str) -> str:
    return f"{sum(record.measures[measure] for record in records):.0f} of {len(records)}"


def praised(records: list[RunRecord], guess: str) -> int:
    """How many suggestions are in earnest although half of a cluster leaves it, or more."""
    leak = {"is_guess": "leakage", "is_guess_without_bound": "leakage_without_bound"}[guess]
    return sum(not record.measures[guess] and record.measures[leak] >= 0.5 for record in records)


if __name__ == "__main__":
    main()
