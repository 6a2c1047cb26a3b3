"""Does a run tell when the expected sizes, and not the graph, decided its clusters? Classes of equal and of unequal
sizes, drawn from real data and from Gaussian mixtures: what `strain_` says of the default's clusters, and what becomes
of the purity with the shares that it names, and with the true ones. Records go to docs/results/strain.jsonl, and
strain.md is written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/strain.py
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from render import table
from sklearn.datasets import make_blobs

from tautcut import MTVClustering, knn_graph
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, read_records, run_estimator
from tautcut.search.strain import LOOSENED, NOTICEABLE

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "strain.jsonl"

LARGEST = {"digits": 174, "optdigits": 550, "pendigits": 1055, "mnist": 1500}  # points of the largest class
DRAWS = (0, 1)
MIXTURES = {
    "5 Gaussians, even": [1000] * 5,
    "2 Gaussians, even": [2000] * 2,
    "5 Gaussians, 7:3:2:2:1": [4000, 2000, 1500, 1000, 600],
    "2 Gaussians, 6:1": [5000, 800],
    "6 Gaussians, 10:1": [3000] * 2 + [300] * 4,
    "3 Gaussians, 20:1": [4000, 200, 200],
}


def main() -> None:
    warnings.simplefilter("ignore")  # of components: some mixtures fall apart, and that is fine
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for name, X, truth, draw in cases():
        for record in records_of(name, X, truth, draw):
            append_record(part, record)
            print(record.data, record.measures, f"purity {record.purity:.3f}", flush=True)
    os.replace(part, RECORDS)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def cases() -> Iterator[tuple[str, Any, Any, int]]:
    for name, most in LARGEST.items():
        data = load(name)
        for draw in DRAWS:
            sizes = {"even": [most] * 10}
            sizes |= {f"{ratio}:1": [most] * 5 + [most // ratio] * 5 for ratio in (3, 5, 10)}
            sizes["long tail"] = [int(most * 0.7**k) + 5 for k in range(10)]
            sizes |= {"3 classes, even": [most] * 3, "2 classes, 5:1": [most, most // 5]}
            for what, counts in sizes.items():
                rows = drawn(data.truth, counts, draw)
                yield f"{name}, {what}", data.X[rows], np.unique(data.truth[rows], return_inverse=True)[1], draw
    for what, counts in MIXTURES.items():
        for spread in (1.0, 1.6):
            for draw in DRAWS:
                X, truth = make_blobs(counts, n_features=8, cluster_std=spread, center_box=(-3, 3), random_state=draw)
                yield f"{what}, σ = {spread}", X, truth, draw


def drawn(truth: Any, counts: list[int], draw: int) -> Any:
    """So many rows of each class; which class has how many is drawn too."""
    rng = np.random.default_rng(draw)
    classes = rng.permutation(np.unique(truth))
    members = (np.flatnonzero(truth == one) for one in classes)
    few = [rng.choice(rows, min(n, rows.size), replace=False) for rows, n in zip(members, counts, strict=False)]
    return np.sort(np.concatenate(few))


def records_of(name: str, X: Any, truth: Any, draw: int) -> Iterator[RunRecord]:
    """The default; then, if it strains, with the shares that it names, and with the true ones."""
    R = int(truth.max()) + 1
    graph = knn_graph(X, 10)
    model, record = run_estimator(
        MTVClustering(R, affinity="precomputed", random_state=0), graph, data=name, truth=truth
    )
    strain = model.strain_
    told = {"fall": strain.fall, "less_cut": strain.less_cut, "n_strained": float(strain.clusters.sum())}
    yield replace(record, measures={"draw": draw, "is_default": 1.0, **told})
    priors = {"named": strain.prior if strain.is_strained else None, "true": np.bincount(truth) / truth.size}
    for how, prior in priors.items():
        if prior is None or (how == "true" and np.ptp(prior) < 0.02):
            continue
        again = MTVClustering(R, affinity="precomputed", random_state=0, class_prior=prior)
        yield replace(run_estimator(again, graph, data=name, truth=truth)[1], measures={"draw": draw, f"is_{how}": 1.0})


def page(records: list[RunRecord]) -> str:
    rows = []
    for record in records:
        if "is_default" not in record.measures:
            continue
        others = [one for one in records if one.data == record.data and one.measures["draw"] == record.measures["draw"]]
        purity = {
            how: f"{one.purity:.1%}" for one in others for how in ("named", "true") if f"is_{how}" in one.measures
        }
        fall, is_told = record.measures["fall"], record.measures["fall"] >= NOTICEABLE
        rows.append(
            [
                record.data, f"{record.measures['draw']:.0f}", f"{record.purity:.1%}", f"{fall:.1%}",
                "**yes**" if is_told else "no", purity.get("named", ""), purity.get("true", ""),
            ]
        )  # fmt: skip
    even = [row for row in rows if "even" in row[0]]
    uneven = [row for row in rows if "even" not in row[0]]
    first = records[0]
    head = ["classes", "draw", "purity", "fall", "told", "with the shares named", "with the true ones"]
    gains = [float(row[5].rstrip("%")) - float(row[2].rstrip("%")) for row in rows if row[5]]
    return "\n\n".join(
        [
            "# Do clusters strain against the expected sizes?",
            f"10-NN graphs, `MTVClustering` with its defaults, seed 0; commit {first.commit}. *Fall* is how much "
            f"cheaper the clusters become when each denominator of (P) is capped at {LOOSENED:g} of its peak; from "
            f"{NOTICEABLE:.0%} on it is told ([decision 0032](../decisions/0032-what-the-balance-costs-is-told.md)).",
            f"Told in {sum(row[4] != 'no' for row in even)} of {len(even)} cases with equal classes and in "
            f"{sum(row[4] != 'no' for row in uneven)} of {len(uneven)} with unequal ones. With the shares that it "
            f"names, the purity rose by more than half a point in {sum(gain > 0.5 for gain in gains)} of the "
            f"{len(gains)} cases, and fell by as much in {sum(gain < -0.5 for gain in gains)}.",
            "## Equal classes",
            table(head, even),
            "## Unequal classes",
            table(head, uneven),
        ]
    ) + "\n"  # fmt: skip


if __name__ == "__main__":
    main()
