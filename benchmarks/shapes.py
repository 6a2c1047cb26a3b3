"""Shapes in the plane that anybody sees: moons, rings, stretched clouds, and clouds of very uneven sizes. How well the
clusters agree with what was drawn, and how often a class is right from one, two and five labels of each, beside what
scikit-learn and GraphLearning have, on five draws of the points. Records go to docs/results/shapes.jsonl, and the page
beside it is written from them.

    python benchmarks/shapes.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from claims import Points, record_of, timed
from labels import RIVALS, accuracy, draw, rivals
from render import table
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from tautcut import Graph, MTVClassifier, MTVClustering, knn_graph
from tautcut.records import RunRecord, append_record, read_records, run_estimator

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "shapes.jsonl"
DRAWS = 5
PER_CLASS = (1, 2, 5)
OURS = "tautcut"
CLUSTERINGS: dict[str, Callable[[int, int], Any]] = {
    "k-means": lambda R, seed: KMeans(R, n_init=10, random_state=seed),
    "Ward": lambda R, seed: AgglomerativeClustering(R),
    "HDBSCAN": lambda R, seed: HDBSCAN(),
}
Drawn = tuple[Any, Any]


def shapes() -> dict[str, Callable[[int], Drawn]]:
    return {
        "two moons": lambda seed: make_moons(1500, noise=0.08, random_state=seed),
        "two moons, 5:1": lambda seed: make_moons((1250, 250), noise=0.08, random_state=seed),
        "two rings": lambda seed: make_circles(1500, factor=0.5, noise=0.05, random_state=seed),
        "a ring round a few": lambda seed: make_circles((1500, 200), factor=0.3, noise=0.05, random_state=seed),
        "stretched clouds": stretched,
        "clouds of three widths": lambda seed: make_blobs(1500, cluster_std=[1.0, 2.5, 0.5], random_state=170 + seed),
        "clouds of 1000, 60": lambda seed: clouds([1000, 60], seed),
        "clouds of 1000, 300, 100": lambda seed: clouds([1000, 300, 100], seed),
        "clouds of 2000, 800, 300, 100, 50": lambda seed: clouds([2000, 800, 300, 100, 50], seed),
    }


def stretched(seed: int) -> Drawn:
    X, truth = make_blobs(1500, random_state=170 + seed)
    return X @ [[0.6, -0.6], [-0.4, 0.8]], truth


def clouds(sizes: list[int], seed: int) -> Drawn:
    """Round clouds of spread one, their centres on a circle, eight apart."""
    angles = 2 * np.pi * np.arange(len(sizes)) / len(sizes)
    radius = 4 / np.sin(np.pi / len(sizes))
    centres = radius * np.c_[np.cos(angles), np.sin(angles)]
    X, truth = make_blobs(sizes, centers=centres, random_state=seed)
    return X, truth


def main() -> None:
    warnings.simplefilter("ignore")
    RECORDS.unlink(missing_ok=True)
    for name, shape in shapes().items():
        for seed in range(DRAWS):
            points = Points(name, *shape(seed))
            graph = knn_graph(points.X, 10)
            for record in (*clusterings(graph, points, seed), *classifications(graph, points, seed)):
                append_record(RECORDS, record)
        print(name, flush=True)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def clusterings(graph: Graph, points: Points, seed: int) -> Iterator[RunRecord]:
    R, nobody = int(points.truth.max()) + 1, np.full(points.truth.size, -1)
    fitted, record = run_estimator(
        MTVClustering(R, affinity="precomputed", random_state=seed), graph, data=points.name, truth=points.truth
    )
    yield replace(record, method=OURS, settings={}, measures=agreement(fitted.labels_, points))
    W = graph.to_scipy()
    spectral = SpectralClustering(R, affinity="precomputed", random_state=seed)
    runs: dict[str, Callable[[], Any]] = {"spectral": lambda: spectral.fit_predict(W)}
    runs |= {method: partial(make(R, seed).fit_predict, points.X) for method, make in CLUSTERINGS.items()}
    for method, run in runs.items():
        found, seconds = timed(run)
        yield record_of(method, {}, points, found, nobody, seed, seconds, agreement(found, points))


def agreement(found: Any, points: Points) -> dict[str, float]:
    return {"ari": float(adjusted_rand_score(points.truth, found))}


def classifications(graph: Graph, points: Points, seed: int) -> Iterator[RunRecord]:
    for per_class in PER_CLASS:
        given = draw(points.truth, per_class, seed)
        model = MTVClassifier(affinity="precomputed", random_state=seed)
        fitted, record = run_estimator(model, graph, given, data=points.name, truth=points.truth)
        ours = replace(record, method=OURS, settings={}, measures=accuracy(fitted.transduction_, given, points.truth))
        for one in (ours, *rivals(graph, points, given, seed)):
            yield replace(one, measures={"per_class": per_class} | one.measures)


# ---------------------------------------------------------------- the page


def page(records: list[RunRecord]) -> str:
    last = max(records, key=lambda record: record.created)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(last.versions.items()))
    parts = [
        "# Shapes in the plane",
        f"{DRAWS} draws of each. Every method but k-means, Ward and HDBSCAN sees the same 10-nearest-neighbour graph, "
        "and all settings are the defaults; HDBSCAN is not told how many clusters there are. Rendered by "
        "`benchmarks/shapes.py` from the records beside it.",
        f"- {last.machine['platform']}, {last.machine['cpus']} cores; {versions}; commit {last.commit}",
        "## Without labels",
        "The adjusted Rand index of clusters and shapes, in per cent: the mean, and the lowest of the draws.",
        shape_table(records, ("spectral", *CLUSTERINGS), "ari", None),
    ]
    for per_class in PER_CLASS:
        parts += [
            f"## {per_class} label{'s' * (per_class > 1)} of each",
            "Accuracy in per cent on the points without a label: the mean, and the lowest of the draws.",
            shape_table(records, RIVALS, "accuracy", per_class),
        ]
    return "\n\n".join(parts) + "\n"


def shape_table(records: list[RunRecord], others: tuple[str, ...], measure: str, per_class: int | None) -> str:
    rows = []
    for name in shapes():
        cells = []
        for method in (OURS, *others):
            values = [
                100 * one.measures[measure] for one in records
                if (one.data, one.method, one.measures.get("per_class")) == (name, method, per_class)
            ]  # fmt: skip
            cells.append(f"{mean(values):.1f} ({min(values):.1f})")
        rows.append([name, *cells])
    return table(["points", OURS, *others], rows)


if __name__ == "__main__":
    main()
