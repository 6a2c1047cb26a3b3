"""Is what a classifier says of itself true? The accuracy that `estimate_accuracy` names, with its interval, beside the
true one; and whether labels that disagree with the graph's clusters are told, and what the points that are named then
are worth, beside as many at random. Records go to docs/results/advice.jsonl, and advice.md is written from them. What
the file already holds is not run again; remove it to begin anew.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/advice.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from render import table

from tautcut import Graph, MTVClassifier, knn_graph, next_to_label
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, read_records, run_estimator
from tautcut.search.certainty import SURE

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "advice.jsonl"
SETS = ("digits", "optdigits", "pendigits", "mnist", "20news", "webkb4")
MOST = 2500  # points of a draw
TAILED = ("pendigits", "mnist")
COUNTS = (20, 50, 200)  # labels
DRAWS = (100, 101, 102)  # the constants were fitted on others (decision 0051)
PER_CLASS = (1, 2, 5)  # labels whose disagreement with the graph is looked at


def main() -> None:
    warnings.simplefilter("ignore")  # of components: small draws fall apart, and that is fine
    known = {(one.data, one.seed) for one in read_records(RECORDS)} if RECORDS.exists() else set()
    for draw in DRAWS:
        for name, graph, truth in problems(draw):
            if (name, draw) in known:
                continue
            for record in [*accuracies(name, graph, truth, draw), *disagreements(name, graph, truth, draw)]:
                append_record(RECORDS, record)
                print(record.data, record.method, record.measures, flush=True)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def problems(draw: int) -> Iterator[tuple[str, Graph, Any]]:
    for name in SETS:
        data, rng = load(name), np.random.default_rng(draw)
        rows = np.sort(rng.choice(data.truth.size, min(MOST, data.truth.size), replace=False))
        yield name, knn_graph(data.X[rows], 10), data.truth[rows]
        if name in TAILED:
            members = (np.flatnonzero(data.truth == r) for r in rng.permutation(10))
            rows = np.concatenate([rng.choice(few, int(600 * 0.7**k) + 10, False) for k, few in enumerate(members)])
            yield f"{name}, long tail", knn_graph(data.X[rows], 10), data.truth[rows]


def fitted(graph: Graph, truth: Any, labelled: Any, name: str) -> tuple[MTVClassifier, RunRecord, float]:
    """A fit on the labels of these points, its record, and the share of the others that is right."""
    y = np.full(truth.size, -1)
    y[labelled] = truth[labelled]
    model = MTVClassifier(affinity="precomputed", random_state=0)
    model, record = run_estimator(model, graph, y, data=name, truth=truth)
    return model, record, float((model.transduction_ == truth)[y < 0].mean())


def accuracies(name: str, graph: Graph, truth: Any, draw: int) -> Iterator[RunRecord]:
    for how in ("random", "chosen"):
        rng, labelled = np.random.default_rng(draw), np.empty(0, int)
        for n in COUNTS:
            y = np.full(truth.size, -1)
            y[labelled] = truth[labelled]
            more = n - labelled.size
            added = (
                rng.choice(np.flatnonzero(y < 0), more, replace=False)
                if how == "random"
                else next_to_label(graph, y, more, random_state=draw)
            )
            labelled = np.r_[labelled, added]
            model, record, right = fitted(graph, truth, labelled, name)
            found = model.estimate_accuracy()
            measures = {"accuracy": right, "estimate": found.value, "low": found.low, "high": found.high}
            yield replace(record, seed=draw, method=f"estimate, {n} {how}", measures=measures)


def disagreements(name: str, graph: Graph, truth: Any, draw: int) -> Iterator[RunRecord]:
    for k in PER_CLASS:
        rng = np.random.default_rng([draw, k])
        classes = [np.flatnonzero(truth == r) for r in np.unique(truth)]
        labelled = np.concatenate([rng.choice(few, min(k, few.size), replace=False) for few in classes])
        model, record, before = fitted(graph, truth, labelled, name)
        found = model.disagreement_
        if found is None:
            continue
        measures = {
            "accuracy": before, "energy": found.energy, "free_energy": found.free_energy, "undecided": found.undecided,
            "is_told": float(found.is_noticeable),
        }  # fmt: skip
        if found.is_noticeable:
            others = rng.choice(np.setdiff1d(np.arange(truth.size), labelled), found.points.size, replace=False)
            for what, points in (("named", found.points), ("random", others)):
                measures[f"with_{what}"] = fitted(graph, truth, np.r_[labelled, points], name)[2]
        yield replace(record, seed=draw, method=f"disagreement, {k} per class", measures=measures)


def page(records: list[RunRecord]) -> str:
    estimates = [one for one in records if one.method.startswith("estimate")]
    parts = [
        "# What a classifier says of itself",
        f"`benchmarks/advice.py`, commit {records[-1].commit[:7]}; {len(DRAWS)} draws of {MOST:,} points at most of "
        "each set. No truth is used but for the columns that compare with it.",
        "## The accuracy, estimated",
        f"`estimate_accuracy()` beside the accuracy on the points without a label, means over the draws, and how often "
        f"its {SURE:.0%} interval holds it. *Chosen* labels are those that `next_to_label` asks for.",
    ]
    rows = []
    for how in dict.fromkeys(one.method.removeprefix("estimate, ") for one in estimates):
        few = [one.measures for one in estimates if one.method == f"estimate, {how}"]
        error = np.array([one["estimate"] - one["accuracy"] for one in few])
        holds = [one["low"] <= one["accuracy"] <= one["high"] for one in few]
        width = np.mean([one["high"] - one["low"] for one in few])
        rows.append([
            how, f"{np.mean([one['accuracy'] for one in few]):.1%}", f"{error.mean():+.1%}",
            f"{np.sqrt((error**2).mean()):.1%}", f"{width:.1%}", f"{sum(holds)} of {len(few)}",
        ])  # fmt: skip
    parts.append(table(["labels", "accuracy", "mean error", "root mean square", "width", "interval holds"], rows))
    rows = []
    for name in dict.fromkeys(one.data for one in estimates):
        few = [one.measures for one in estimates if one.data == name]
        holds = [one["low"] <= one["accuracy"] <= one["high"] for one in few]
        error = np.mean([one["estimate"] - one["accuracy"] for one in few])
        rows.append([name, f"{error:+.1%}", f"{sum(holds)} of {len(few)}"])
    parts.append(table(["set", "mean error", "interval holds"], rows))
    parts += [
        "## Labels that disagree with the graph",
        "Where it is told, the accuracy before, and with the labels of the points that are named, or of as many random "
        "ones. Rows with five labels per class are of code that told them still; they are why it is silent from three "
        "on ([decision 0050](../decisions/0050-labels-that-disagree-with-the-graph.md)).",
    ]
    rows = []
    for record in records:
        if record.method.startswith("disagreement"):
            seen = record.measures
            rows.append([
                record.data, record.method.removeprefix("disagreement, "), str(record.seed), f"{seen['accuracy']:.1%}",
                f"{seen['energy'] / seen['free_energy'] - 1:+.1%}", f"{seen['undecided']:.1%}",
                *(f"{seen[one]:.1%}" if one in seen else "" for one in ("with_named", "with_random")),
            ])  # fmt: skip
    told = [one.measures for one in records if one.measures.get("is_told")]
    if told:
        gains = [np.mean([one[f"with_{what}"] - one["accuracy"] for one in told]) for what in ("named", "random")]
        parts.append(
            f"Told in {len(told)} of {len(rows)} cases. There the points named gain {gains[0]:+.1%} in the mean, "
            f"random ones {gains[1]:+.1%}."
        )
    head = [
        "set",
        "labels",
        "draw",
        "accuracy",
        "(P) above the graph's own",
        "undecided",
        "with those named",
        "with random",
    ]
    return "\n\n".join([*parts, table(head, rows)]) + "\n"


if __name__ == "__main__":
    main()
