"""Classes of uneven sizes and labels from few to many: how often the classifier is right by its own estimate of the
shares, by equal and by the true shares, beside label spreading, Laplace and Poisson learning on the same graphs and
labels; and whether its certainty means what it says. Records go to docs/results, a file labels-NAME.jsonl for each data
set; `--page` writes labels.md from them, and `--fit` fits the scale of the certainty on the same data and prints it.
`--ours` leaves the rivals' records, whose code does not change, as they are; `--more` runs what the records lack.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/labels.py
        [--only digits,mnist] [--ours | --more] [--page | --fit]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from claims import Points, record_of, timed
from joblib import Parallel, delayed
from render import table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.semi_supervised import LabelSpreading

from tautcut import Graph, MTVClassifier, knn_graph
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, read_records, run_estimator
from tautcut.search.certainty import features
from tautcut.search.transduction import Evidence

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

SETS = {"digits": None, "optdigits": None, "pendigits": None, "mnist": 6_000, "20news": 8_000}  # points at most
RATIOS = {"1:1": 1.0, "3:1": 3.0, "5:1": 5.0, "10:1": 10.0, "tail": 20.0}
PER_CLASS = (1, 5, 20, 50)
DRAWS = 10
PRIORS = {"auto": "auto", "equal shares": None, "true shares": "true"}
AUTO = "tautcut, auto"
RIVALS = ("LabelSpreading, α = 0.2", "LabelSpreading, α = 0.99", "Laplace", "Poisson")
LEAST = 2  # at most one in so many points of a class is labelled
BINS = 10
Key = tuple[str, str, float, int]  # data, method, labels of each class, draw
Runs = Callable[[Graph, Points, Any, int], Iterator[RunRecord]]  # of tautcut or of rivals, on one draw of labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(SETS), help="data sets, separated by commas")
    parser.add_argument("--ours", action="store_true", help="run tautcut alone, and keep what is recorded of rivals")
    parser.add_argument("--more", action="store_true", help="run what the records lack, and keep all of them")
    parser.add_argument("--auto", action="store_true", help="run tautcut with estimated shares alone; keep the rest")
    parser.add_argument("--jobs", type=int, default=1, help="cells of the table at a time")
    parser.add_argument("--commit", help="what to write as the commit, where the folder is no checkout")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the records")
    parser.add_argument("--fit", action="store_true", help="fit the scale of the certainty, and record nothing")
    parser.add_argument("--page", action="store_true", help="write the page from the records there are")
    asked = parser.parse_args()
    names, is_kept = asked.only.split(","), asked.ours or asked.auto or asked.more
    if asked.fit:
        print(fitted_scale(names))
        return
    for name in () if asked.page else names:
        known = RESULTS / f"labels-{name}.jsonl"
        anew = {AUTO} if asked.auto else {f"tautcut, {prior}" for prior in PRIORS}
        kept = [one for one in read_records(known) if asked.more or one.method not in anew] if is_kept else []
        path = asked.out / known.name
        path.unlink(missing_ok=True)
        runs: tuple[Runs, ...] = (estimated,) if asked.auto else (ours,) if asked.ours else (ours, rivals)
        for record in records_of(name, runs, asked.jobs, {key_of(one) for one in kept}):
            append_record(path, replace(record, commit=asked.commit or record.commit))
            print(record.data, record.method, record.n_labelled, record.seed, record.measures, flush=True)
        for record in kept:
            append_record(path, record)
    if asked.page:
        records = [record for name in SETS for record in read_records(RESULTS / f"labels-{name}.jsonl")]
        (RESULTS / "labels.md").write_text(page(records), encoding="utf-8")


# ---------------------------------------------------------------- data


def uneven(name: str, sizes: str) -> tuple[Graph, Points]:
    """The neighbour graph of a data set whose classes were thinned: every second one by a ratio, or along a tail."""
    data, rng = load(name), np.random.default_rng(0)
    count = SETS[name] or data.truth.size
    drawn = rng.permutation(data.truth.size)[:count]
    truth = data.truth[drawn]
    R, ratio = int(truth.max()) + 1, RATIOS[sizes]
    shares = np.geomspace(1, 1 / ratio, R)[rng.permutation(R)] if sizes == "tail" else np.resize([1, 1 / ratio], R)
    kept = np.sort(
        np.concatenate(
            [
                rng.choice(np.flatnonzero(truth == r), max(8, round(shares[r] * (truth == r).sum())), replace=False)
                for r in range(R)
            ]
        )
    )
    X = data.X[drawn[kept]]
    graph = knn_graph(X, 10, metric="cosine" if name == "20news" else "euclidean", random_state=0)
    return graph, Points(f"{name}, {sizes}", X, truth[kept])


def draw(truth: Any, per_class: int, seed: int) -> Any:
    """So many labels of each class, but no more than half of a small one."""
    rng, labels = np.random.default_rng(seed), np.full(truth.size, -1)
    for r in np.unique(truth):
        members = np.flatnonzero(truth == r)
        labels[rng.choice(members, min(per_class, members.size // LEAST), replace=False)] = r
    return labels


# ---------------------------------------------------------------- runs


def key_of(record: RunRecord) -> Key:
    return record.data, record.method, record.measures["per_class"], record.seed


def records_of(name: str, runs: tuple[Runs, ...], jobs: int, known: set[Key]) -> Iterator[RunRecord]:
    cells = (
        delayed(records_of_cell)(name, sizes, per_class, runs, known) for sizes in RATIOS for per_class in PER_CLASS
    )
    for records in Parallel(n_jobs=jobs, return_as="generator")(cells):
        yield from records


def records_of_cell(
    name: str, sizes: str, per_class: int, runs: tuple[Runs, ...], known: set[Key]
) -> list[RunRecord]:  # fmt: skip
    """The runs of one cell of the table, but for those that are known: of tautcut, or of all rivals."""
    warnings.simplefilter("ignore")
    first = {ours: AUTO, estimated: AUTO, rivals: RIVALS[0]}
    missing = [
        (seed, run)
        for seed in range(DRAWS)
        for run in runs
        if (f"{name}, {sizes}", first[run], per_class, seed) not in known
    ]
    graph, points = uneven(name, sizes) if missing else (None, None)
    return [
        replace(record, measures={"per_class": per_class} | record.measures)
        for seed, run in missing
        for record in run(graph, points, draw(points.truth, per_class, seed), seed)
    ]


def estimated(graph: Graph, points: Points, given: Any, seed: int) -> Iterator[RunRecord]:
    return ours(graph, points, given, seed, priors=("auto",))


def ours(
    graph: Graph, points: Points, given: Any, seed: int, priors: Iterable[str] = tuple(PRIORS)
) -> Iterator[RunRecord]:
    true_shares = np.bincount(points.truth) / points.truth.size
    for method, prior in ((name, PRIORS[name]) for name in priors):
        model = MTVClassifier(
            affinity="precomputed", class_prior=true_shares if prior == "true" else prior, random_state=seed
        )
        fitted, record = run_estimator(model, graph, given, data=points.name, truth=points.truth)
        measures = accuracy(fitted.transduction_, given, points.truth)
        if method == "auto":
            measures |= certainty(fitted.confidence_, fitted.transduction_ == points.truth, given)
        told = {name: record.settings[name] for name in ("affinity", "class_prior")}  # all else is by default
        yield replace(record, method=f"tautcut, {method}", settings=told, measures=measures)


def rivals(graph: Graph, points: Points, given: Any, seed: int) -> Iterator[RunRecord]:
    import graphlearning as gl

    W, known = graph.to_scipy(), np.flatnonzero(given >= 0)
    # Its conjugate gradients do not end on a graph in several pieces.
    solver = "conjugate_gradient" if graph.components()[0] == 1 else "gradient_descent"

    def spreading(alpha: float) -> Callable[[], Any]:
        model = LabelSpreading(kernel=lambda X, Y: W, alpha=alpha, max_iter=1000)
        return lambda: model.fit(np.arange(given.size)[:, None], given).transduction_

    runs = (
        spreading(0.2),
        spreading(0.99),
        lambda: gl.ssl.laplace(W).fit_predict(known, given[known]),
        lambda: gl.ssl.poisson(W, solver=solver).fit_predict(known, given[known]),
    )
    for method, run in zip(RIVALS, runs, strict=True):
        found, seconds = timed(run)
        yield record_of(method, {}, points, found, given, seed, seconds, accuracy(found, given, points.truth))


def accuracy(found: Any, given: Any, truth: Any) -> dict[str, float]:
    return {"accuracy": float((found == truth)[given < 0].mean())}


def certainty(confidence: Any, is_right: Any, given: Any) -> dict[str, float]:
    """The expected calibration error over ten bins, and how well the confidence ranks mistakes behind right labels."""
    p, right = confidence[given < 0], is_right[given < 0]
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [abs(p[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    ranks = {"auc": float(roc_auc_score(right, p))} if 0 < right.mean() < 1 else {}
    return {"ece": float(sum(gaps)), "mean_confidence": float(p.mean())} | ranks


def fitted_scale(names: list[str]) -> list[float]:
    """`certainty.SCALE`: a logistic regression over runs of the same weight, on other draws than are tested."""
    rows, right, weights = [], [], []
    for name in names:
        for sizes in ("1:1", "5:1", "tail"):
            graph, points = uneven(name, sizes)
            for per_class in PER_CLASS[:3]:
                for seed in range(100, 104):
                    given = draw(points.truth, per_class, seed)
                    result = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, given).result_
                    evidence = np.maximum(Evidence.of_labels(graph, given, len(result.partition.sizes)).values, 0)
                    is_even = np.allclose(result.problem.shares, result.problem.shares[0])
                    free = given < 0
                    rows.append(features(graph, result.partition.labels, given, evidence, is_even=is_even)[free])
                    right.append((result.partition.labels == points.truth)[free])
                    weights.append(np.full(int(free.sum()), 1000 / free.sum()))
    model = LogisticRegression(C=1e3, max_iter=1000, fit_intercept=False)
    model.fit(np.concatenate(rows), np.concatenate(right), sample_weight=np.concatenate(weights))
    return [round(float(value), 3) for value in model.coef_[0]]


# ---------------------------------------------------------------- the page


def page(records: list[RunRecord]) -> str:
    last = max((record for record in records if record.method == AUTO), key=lambda record: record.created)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(last.versions.items()))
    parts = [
        "# Uneven classes, few and many labels",
        "Accuracy in per cent on the points without a label, the mean over the draws. Every method sees the same "
        "10-nearest-neighbour graph and the same labels, so many of each class (at most half of a small one). Every "
        'second class is thinned to a third, a fifth or a tenth; "tail" goes down to a twentieth, geometrically. '
        "`class_prior` is estimated (auto, the default), equal or the true one, which no user knows. What a change "
        "does not touch is not run again. Rendered by `benchmarks/labels.py --page` from the records beside it.",
        f"- auto: {last.machine['platform']}, {last.machine['cpus']} cores; {versions}; commit {last.commit}\n"
        f"- others: commits {', '.join(sorted({one.commit or 'unknown' for one in records if one.method != AUTO}))}",
        accuracy_table(records),
        "## Does the certainty mean what it says?",
        "The expected calibration error of `confidence_` over ten bins, the area under the curve with which it ranks "
        "right labels before mistakes, both as means over the draws.",
        certainty_table(records),
    ]
    return "\n\n".join(parts) + "\n"


def accuracy_table(records: list[RunRecord]) -> str:
    methods = [*(f"tautcut, {prior}" for prior in PRIORS), *RIVALS]
    rows = []
    for data, per_class in cells(records):
        values = [measured(records, data, per_class, method, "accuracy") for method in methods]
        best = max(values[3:])
        rows.append(
            [data, str(per_class), *(f"{100 * value:.1f}" for value in values), f"{100 * (values[0] - values[2]):+.1f}",
             f"{100 * (values[0] - best):+.1f}"]
        )  # fmt: skip
    head = [*methods, "auto − true shares", "auto − best rival"]
    return table(["data", "labels of each class", *head], rows)


def certainty_table(records: list[RunRecord]) -> str:
    rows = []
    for data, per_class in cells(records):
        values = {
            name: measured(records, data, per_class, AUTO, name)
            for name in ("accuracy", "mean_confidence", "ece", "auc")
        }
        rows.append([data, str(per_class), *(f"{value:.3f}" for value in values.values())])
    return table(["data", "labels of each class", "accuracy", "mean confidence", "calibration error", "AUC"], rows)


def cells(records: list[RunRecord]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((record.data, int(record.measures["per_class"])) for record in records))


def measured(records: list[RunRecord], data: str, per_class: int, method: str, measure: str) -> float:
    chosen = [
        record.measures[measure] for record in records
        if (record.data, record.method, record.measures["per_class"]) == (data, method, per_class)
        and measure in record.measures
    ]  # fmt: skip
    return mean(chosen) if chosen else float("nan")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
