"""What the README claims beyond the benchmark, measured: few labels of which some are wrong, and the prediction of
points that were not there when the model was fitted. Each is compared with scikit-learn's own methods on the same
points and labels. Records go to docs/results/claims.jsonl; claims.md and the README's block are written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/claims.py
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from readme_example import write_block
from render import table
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from tautcut import Graph, MTVClassifier, knn_graph, purity
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, circumstances, draw_labels, read_records, run_estimator

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "claims.jsonl"

SETS = {"digits": None, "optdigits": None, "mnist": 10_000}  # and how many points to draw of a larger one
SEEDS = range(5)
PER_CLASS = 10
WRONG = (0.0, 0.1, 0.2, 0.3)  # shares of the given labels
CASES = [(0.0, False), *((share, is_systematic) for share in WRONG[1:] for is_systematic in (False, True))]
FEW = (1, 5, 10)  # labels of each class for the prediction of new points
OURS = "MTVClassifier"
SPREADING = {"LabelSpreading, α = 0.2": 0.2, "LabelSpreading, α = 0.99": 0.99}  # its default, and its authors' choice
NEIGHBORS = (1, 3, 5)


@dataclass(frozen=True)
class Points:
    """A data set, or a part of one."""

    name: str
    X: Any
    truth: Any


def main() -> None:
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for points in data_sets():
        for record in (*wrong_labels(points), *new_points(points)):
            append_record(part, record)
            print(record.data, record.method, record.seed, record.n_labelled, record.measures, flush=True)
    os.replace(part, RECORDS)
    write_pages(read_records(RECORDS))


def write_pages(records: list[RunRecord]) -> None:
    """What is rendered from the records: claims.md, and the README's block."""
    RECORDS.with_suffix(".md").write_text(page(records), encoding="utf-8")
    write_block("claims", readme_block(records))


def data_sets() -> Iterator[Points]:
    for name, count in SETS.items():
        data = load(name)
        if count is None:
            yield Points(name, data.X, data.truth)
        else:
            drawn = np.random.default_rng(0).choice(len(data.truth), count, replace=False)
            yield Points(f"{name}, {count:,} points", data.X[drawn], data.truth[drawn])


# ---------------------------------------------------------------- wrong labels


def wrong_labels(points: Points) -> Iterator[RunRecord]:
    """Ten labels of each class, of which a share is wrong; every method sees the same graph and the same labels."""
    graph = knn_graph(points.X, 10)
    for seed in SEEDS:
        right = draw_labels(points.truth, per_class=PER_CLASS, rng=np.random.default_rng(seed))
        for share, is_systematic in CASES:
            given = with_mistakes(right, share, is_systematic=is_systematic, rng=np.random.default_rng(seed))
            case = {"wrong_share": share, "is_systematic": float(is_systematic)}
            model = MTVClassifier(affinity="precomputed", random_state=seed)
            fitted, record = run_estimator(model, graph, given, data=points.name, truth=points.truth)
            measures = case | judged(fitted.transduction_, given, points.truth)
            yield replace(record, measures=measures | doubted(fitted.predict(graph.to_scipy()), given, points.truth))
            for method, alpha in SPREADING.items():
                yield spreading(method, alpha, graph, given, points, case, seed)


def with_mistakes(labels: Any, share: float, *, is_systematic: bool, rng: np.random.Generator) -> Any:
    """The labels, this share of them replaced by another class: any other as likely, or always the next one."""
    given = np.flatnonzero(labels >= 0)
    classes = np.unique(labels[given])
    wrong = rng.choice(given, round(share * given.size), replace=False)
    steps = np.ones(wrong.size, dtype=int) if is_systematic else rng.integers(1, classes.size, wrong.size)
    places = np.searchsorted(classes, labels[wrong]) + steps
    noisy = labels.copy()
    noisy[wrong] = classes[places % classes.size]
    return noisy


def judged(found: Any, given: Any, truth: Any) -> dict[str, float]:
    """Accuracy on the points without a label, on all, and the share of the wrong labels that came out right."""
    is_right, is_wrong = found == truth, (given >= 0) & (given != truth)
    measures = {"accuracy": float(is_right[given < 0].mean()), "overall": float(is_right.mean())}
    return measures | ({"mended": float(is_right[is_wrong].mean())} if is_wrong.any() else {})


def doubted(of_neighbors: Any, given: Any, truth: Any) -> dict[str, float]:
    """The shares of the wrong and of the right labels that the labels of a point's neighbours contradict."""
    is_given = given >= 0
    is_wrong, is_doubted = is_given & (given != truth), of_neighbors != given
    measures = {"right_doubted": float(is_doubted[is_given & ~is_wrong].mean())}
    return measures | ({"wrong_doubted": float(is_doubted[is_wrong].mean())} if is_wrong.any() else {})


def spreading(
    method: str, alpha: float, graph: Graph, given: Any, points: Points, case: dict[str, float], seed: int
) -> RunRecord:
    W = graph.to_scipy()
    model = LabelSpreading(kernel=lambda X, Y: W, alpha=alpha, max_iter=1000)
    found, seconds = timed(lambda: model.fit(np.arange(len(given))[:, None], given).transduction_)
    measures = case | judged(found, given, points.truth)
    return record_of(method, {"alpha": alpha, "max_iter": 1000}, points, found, given, seed, seconds, measures)


# ---------------------------------------------------------------- new points


def new_points(points: Points) -> Iterator[RunRecord]:
    """A model fitted on half of the points, a few of them labelled, predicts the other half."""
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(points.truth))
        fitted_half, new = np.array_split(order, 2)
        half = Points(points.name, points.X[fitted_half], points.truth[fitted_half])
        X, truth = points.X[new], points.truth[new]
        for per_class in FEW:
            given = draw_labels(half.truth, per_class=per_class, rng=np.random.default_rng(seed))
            model = MTVClassifier(random_state=seed)
            fitted, record = run_estimator(model, half.X, given, data=half.name, truth=half.truth)
            predicted, seconds = timed(lambda fitted=fitted, X=X: fitted.predict(X))
            known = half.truth == fitted.transduction_
            measures = {
                "new": float((predicted == truth).mean()), "fitted": float(known[given < 0].mean()),
                "predict_seconds": round(seconds, 4),
            }  # fmt: skip
            yield replace(record, measures=measures)
            for k in NEIGHBORS:
                yield nearest_labelled(k, half, given, X, truth, seed)


def nearest_labelled(k: int, half: Points, given: Any, X: Any, truth: Any, seed: int) -> RunRecord:
    """The k nearest labelled points decide: what one would use without the unlabelled ones."""
    is_given = given >= 0
    model = KNeighborsClassifier(n_neighbors=k).fit(half.X[is_given], given[is_given])
    predicted, seconds = timed(lambda: model.predict(X))
    points = Points(half.name, X, truth)
    measures = {"new": float((predicted == truth).mean())}
    return record_of(f"{k}-NN", {"n_neighbors": k}, points, predicted, given, seed, seconds, measures)


# ---------------------------------------------------------------- records


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LabelSpreading divides by zero where no label arrives
        began = time.perf_counter()
        return run(), time.perf_counter() - began


def record_of(
    method: str, settings: dict[str, Any], points: Points, found: Any, given: Any, seed: int, seconds: float,
    measures: dict[str, float],
) -> RunRecord:  # fmt: skip
    sizes = tuple(int((found == value).sum()) for value in np.unique(points.truth))
    return RunRecord(
        data=points.name, method=method, settings=settings, seed=seed, n_labelled=int((given >= 0).sum()), energy=None,
        purity=purity(found, points.truth), seconds=round(seconds, 4), sizes=sizes, n_iter=0, status="Done.",
        measures=measures, **circumstances(),
    )  # fmt: skip


# ---------------------------------------------------------------- the page


def page(records: list[RunRecord]) -> str:
    """claims.md: both experiments, the mean over the draws with their range."""
    last = max(records, key=lambda record: record.created)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(last.versions.items()))
    parts = [
        "# Wrong labels and new points",
        f"{len(SEEDS)} draws of the labels each; a cell is the mean accuracy in per cent, with the range of the draws. "
        "Rendered by `benchmarks/claims.py` from `claims.jsonl`.",
        f"- {last.machine['platform']}, {last.machine['cpus']} cores\n- {versions}\n- commit: {last.commit}",
        "## Some of the labels are wrong",
        f"{PER_CLASS} labels of each class. The column says how many per cent of these labels are wrong: replaced by "
        "another class, drawn at random. All methods see the same 10-nearest-neighbour graph and the same labels. The "
        "accuracy is that on the points without a label. `MTVClassifier` keeps the labels that it is given, the wrong "
        "ones too, so none of those points comes out right. α is how far LabelSpreading trusts the neighbours rather "
        "than the given labels; 0.2 is its default, 0.99 the choice of its authors.",
        wrong_table(records, "accuracy", (OURS, *SPREADING)),
        "### The same mistake again and again",
        "As above, but a wrong label is always the next class, a 3 for a 2 and never a 7, so that the mistakes agree "
        "with each other.",
        wrong_table(records, "accuracy", (OURS, *SPREADING), is_systematic=True),
        "### Wrong labels that came out right",
        "LabelSpreading may overrule a label that it was given.",
        wrong_table(records, "mended", (OURS, *SPREADING)),
        "### Labels that the neighbours contradict",
        "A given label may be doubted where `predict`, which asks the neighbours of a point, answers another class: "
        "the share of the wrong labels that this finds, and the share of the right ones that it accuses.",
        wrong_table(records, "wrong_doubted", (OURS,)),
        wrong_table(records, "right_doubted", (OURS,)),
        "## Points that were not there when the model was fitted",
        "The model is fitted on one half of the points, a few of them labelled, and predicts the other half. k-NN is "
        "scikit-learn's `KNeighborsClassifier` on the same labelled points, which cannot make use of the others. "
        '"fitted half" is the accuracy of `MTVClassifier` on the points that it was fitted on, without the labelled '
        "ones: what is lost by predicting instead of fitting again.",
        new_table(records),
    ]
    return "\n\n".join(parts) + "\n"


def wrong_table(
    records: list[RunRecord], measure: str, methods: tuple[str, ...], *, is_systematic: bool = False
) -> str:
    shares = WRONG[1:] if is_systematic else WRONG
    rows = []
    for data in names(records):
        for method in methods:
            cells = [chosen_wrong(records, data, method, share, is_systematic=is_systematic) for share in shares]
            rows.append([data, method, *(spread(cell, measure) for cell in cells)])
    return table(["data", f"{measure}, %".replace("_", " "), *(f"{share:.0%} wrong" for share in shares)], rows)


def new_table(records: list[RunRecord]) -> str:
    rows = []
    for data in names(records):
        for per_class in FEW:
            ours = chosen_new(records, data, OURS, per_class)
            cells = [spread(ours, "new"), spread(ours, "fitted")]
            cells += [spread(chosen_new(records, data, f"{k}-NN", per_class), "new") for k in NEIGHBORS]
            rows.append([data, str(per_class), *cells])
    head = [f"{OURS}, new half", "fitted half", *(f"{k}-NN, new half" for k in NEIGHBORS)]
    return table(["data", "labels of each class", *head], rows)


def readme_block(records: list[RunRecord]) -> str:
    """Both experiments in short, for the README: means alone, and the best of scikit-learn's variants in each cell."""
    wrong, new = [], []
    for data in names(records):
        for method, variants in {"**tautcut**": (OURS,), "label spreading": tuple(SPREADING)}.items():
            cells = [[chosen_wrong(records, data, one, share) for one in variants] for share in WRONG]
            wrong.append([data, method, *(best(cell, "accuracy") for cell in cells)])
        for method, variants in {"**tautcut**": (OURS,), "k-NN": tuple(f"{k}-NN" for k in NEIGHBORS)}.items():
            cells = [[chosen_new(records, data, one, per_class) for one in variants] for per_class in FEW]
            new.append([data, method, *(best(cell, "new") for cell in cells)])
    wrong_head = ["accuracy, %", "", *(f"{share:.0%} wrong" for share in WRONG)]
    new_head = ["accuracy, %", "", *(f"{few} label{'s' * (few > 1)} of each class" for few in FEW)]
    parts = [
        f"{PER_CLASS} labels of each class, of which a share is wrong; accuracy on the points without a label:",
        table(wrong_head, wrong),
        "Fitted on one half of the points, with a few labels; accuracy on the other half:",
        table(new_head, new),
    ]
    return "\n\n".join(parts)


def best(variants: list[list[RunRecord]], measure: str) -> str:
    """The highest mean of several variants of a method."""
    return f"{100 * max(mean(record.measures[measure] for record in records) for records in variants):.1f}"


def names(records: list[RunRecord]) -> list[str]:
    return list(dict.fromkeys(record.data for record in records))


def chosen_wrong(
    records: list[RunRecord], data: str, method: str, share: float, *, is_systematic: bool = False
) -> list[RunRecord]:
    """The draws of one cell of the first experiment."""
    case = (share, float(is_systematic))
    found = [record for record in records if (record.data, record.method) == (data, method)]
    return [one for one in found if (one.measures.get("wrong_share"), one.measures.get("is_systematic")) == case]


def chosen_new(records: list[RunRecord], data: str, method: str, per_class: int) -> list[RunRecord]:
    """The draws of one cell of the second experiment."""
    found = [record for record in records if (record.data, record.method) == (data, method)]
    return [one for one in found if "new" in one.measures and one.n_labelled == per_class * len(one.sizes)]


def spread(records: list[RunRecord], measure: str) -> str:
    values = [100 * record.measures[measure] for record in records if measure in record.measures]
    return f"{mean(values):.1f} ({min(values):.1f} – {max(values):.1f})" if values else "–"


if __name__ == "__main__":
    main()
