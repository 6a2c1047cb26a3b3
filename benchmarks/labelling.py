"""Accuracy against the number of labels, where a method chooses the points that are labelled: `next_to_label`, points
drawn at random and the least confident ones, all with MTVClassifier; GraphLearning's acquisition functions with its own
Laplace and Poisson learning; modAL's uncertainty sampling with a k-NN and a logistic model. A simulated person answers.
Records go to docs/results/labelling.jsonl, a curve each; what is there is not run again. labelling.md and labelling.svg
are written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/labelling.py [--only "optdigits;4moons"] [--page]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from labels import SETS, uneven
from render import OTHERS, OURS, latest, plt, table

from tautcut import Acquisition, Graph, MTVClassifier, knn_graph
from tautcut.datasets import load
from tautcut.records import RunRecord, append_record, circumstances, read_records

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "labelling.jsonl"

COUNTS = (10, 20, 30, 50, 75, 100, 150, 200)
FEW_COUNTS = (10, 20, 50, 100, 200)  # of the largest set
FIRST = 10  # labels drawn at random for methods that need some to begin with
BLOCK = 5  # labels between two fits of a rival whose choice follows from its classifier
EIGENVECTORS = 80
SEEDS, FEWER_SEEDS = 3, 1  # of tautcut, and of rivals
# Name of the set: that of the data, how many points, how uneven the classes are.
CASES = {
    "optdigits": ("optdigits", None, "1:1"),
    "pendigits": ("pendigits", None, "1:1"),
    "mnist, 5,000 points": ("mnist", 5_000, "1:1"),
    "20news, 8,000 points": ("20news", 8_000, "1:1"),
    "4moons": ("4moons", None, "1:1"),
    "optdigits, 3:1": ("optdigits", None, "3:1"),
    "pendigits, 10:1": ("pendigits", None, "10:1"),
    "mnist, tail": ("mnist", None, "tail"),
    "mnist, 70,000 points": ("mnist", 70_000, "1:1"),
}
LARGEST = "mnist, 70,000 points"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=";".join(CASES), help="sets, separated by semicolons")
    parser.add_argument("--ours", action="store_true", help="run tautcut's methods alone, those that have no record")
    parser.add_argument("--page", action="store_true", help="write the page from the records there are")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    done = {(one.data, one.method, one.seed) for one in read_records(RECORDS)} if RECORDS.exists() else set()
    methods = {name: make for name, make in METHODS.items() if not asked.ours or name.startswith("tautcut")}
    cases = [] if asked.page else [Case(name) for name in asked.only.split(";")]
    if cases:
        Case("4moons").run("warm-up", Ours, 0)  # compiles, off the clock
    for seed, case, (method, make) in product(range(SEEDS), cases, methods.items()):
        if seed < n_seeds(case.name, method) and (case.name, method, seed) not in done:
            record = case.run(method, make, seed)
            append_record(RECORDS, record)
            print(record.data, record.method, record.seed, record.seconds, record.measures, flush=True)
    write_pages(read_records(RECORDS))


def n_seeds(name: str, method: str) -> int:
    """How often a method is run on a set: rivals are slow, and so is the largest set."""
    if name == LARGEST:
        return int(method in ON_LARGEST)
    return SEEDS if method.startswith("tautcut") else FEWER_SEEDS


# ---------------------------------------------------------------- data


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with its graph; the methods see its classes one answer at a time."""

    name: str

    @cached_property
    def points(self) -> tuple[Graph, Any, Any]:
        data, count, sizes = CASES[self.name]
        if sizes != "1:1" or (data in SETS and count == SETS[data]):
            graph, points = uneven(data, sizes)
            return graph, points.X, points.truth
        whole = load(data)
        rows = np.arange(whole.truth.size)
        if count is not None and count < rows.size:
            rows = np.sort(np.random.default_rng(0).choice(rows, count, replace=False))
        return knn_graph(whole.X[rows], 10, random_state=0), whole.X[rows], whole.truth[rows]

    @property
    def graph(self) -> Graph:
        return self.points[0]

    @property
    def rows(self) -> Any:
        return self.points[1]

    @property
    def truth(self) -> Any:
        return self.points[2]

    @cached_property
    def spectrum(self) -> tuple[Any, Any]:
        """What GraphLearning's variances are computed from, by its own recipe."""
        import graphlearning as gl

        values, vectors = gl.graph(self.graph.to_scipy()).eigen_decomp(normalization="normalized", k=EIGENVECTORS)
        return np.diag(1.0 / (values + 1e-11)), vectors

    def run(self, method: str, make: Callable[[Case, int], Method], seed: int) -> RunRecord:
        """The curve of one method; the seconds are those of the processor for its choices."""
        counts = FEW_COUNTS if self.name == LARGEST else COUNTS
        known, measures, chosen, seconds = np.full(self.truth.size, -1), {}, make(self, seed), 0.0
        for count in counts:
            began = time.process_time()
            while (missing := count - int((known >= 0).sum())) > 0:
                ask = np.asarray(chosen.ask(known, missing))
                known[ask] = self.truth[ask]
            seconds += time.process_time() - began
            found, free = chosen.classify(known), known < 0
            measures[str(count)] = float((found == self.truth)[free].mean())
        measures["area"] = area(measures)
        return RunRecord(
            data=self.name, method=method, settings={}, seed=seed, n_labelled=counts[-1], energy=None, purity=None,
            seconds=round(seconds, 3), sizes=tuple(np.bincount(self.truth).tolist()), n_iter=0, status="Done.",
            measures=measures, **circumstances(),
        )  # fmt: skip


def area(measures: dict[str, float]) -> float:
    """The mean height of the curve over the number of labels."""
    counts = sorted(int(name) for name in measures if name.isdecimal())
    heights = [measures[str(count)] for count in counts]
    return float(np.trapezoid(heights, counts) / (counts[-1] - counts[0]))


# ---------------------------------------------------------------- methods


class Method:
    """Chooses points, and classifies the others."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.seed, self.rng = case, seed, np.random.default_rng(seed)

    def ask(self, known: Any, n_points: int) -> Any:
        """Up to so many points without a label; the first few, by chance."""
        return self.rng.choice(np.flatnonzero(known < 0), min(n_points, FIRST), replace=False)

    def classify(self, known: Any) -> Any:
        self.model = MTVClassifier(affinity="precomputed", random_state=self.seed).fit(self.case.graph, known)
        return self.model.transduction_


class Ours(Method):
    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(case, seed)
        self.acquisition = Acquisition(case.graph, rng=self.rng)

    def ask(self, known: Any, n_points: int) -> Any:
        return self.acquisition.next(known, n_points)


class LeastConfident(Method):
    def ask(self, known: Any, n_points: int) -> Any:
        if not (known >= 0).any():
            return super().ask(known, n_points)
        free = np.flatnonzero(known < 0)
        return free[self.model.confidence_[free].argsort(kind="stable")[:n_points]]


class GraphLearning(Method):
    """One of its classifiers with one of its acquisition functions, asked for a point at a time."""

    learner, function, needs_variance, is_adaptive = "laplace", "unc_sampling", False, True

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(case, seed)
        import graphlearning as gl

        W = case.graph.to_scipy()
        # Its conjugate gradients do not end on a graph in several pieces.
        is_whole = case.graph.components()[0] == 1
        ways = {} if self.learner == "laplace" or is_whole else {"solver": "gradient_descent"}
        self.ssl = getattr(gl.ssl, self.learner)(W, **ways)
        C, V = case.spectrum if self.needs_variance else (None, None)
        ways = {"C": C.copy(), "V": V} if self.needs_variance else {}
        self.acquisition = getattr(gl.active_learning, self.function)(**ways)
        self.u: Any = None

    def ask(self, known: Any, n_points: int) -> Any:
        if not (known >= 0).any():
            chosen = super().ask(known, n_points)
            self.acquisition.update(chosen, self.case.truth[chosen])
            return chosen
        if self.is_adaptive:
            self.fit(known)
        free, chosen = np.flatnonzero(known < 0), []
        for _ in range(min(n_points, BLOCK)):
            best = int(free[self.acquisition.compute(self.u, free).argmax()])
            self.acquisition.update(np.array([best]), self.case.truth[[best]])
            free = free[free != best]
            chosen.append(best)
        return chosen

    def fit(self, known: Any) -> None:
        given = np.flatnonzero(known >= 0)
        classes, codes = np.unique(known[given], return_inverse=True)
        self.classes, self.u = classes, self.ssl.fit(given, codes)

    def classify(self, known: Any) -> Any:
        self.fit(known)
        return self.classes[self.ssl.predict()]


def graph_learning(learner: str, function: str, *, needs_variance: bool = False, is_adaptive: bool = True) -> Any:
    kind = {
        "learner": learner, "function": function, "needs_variance": needs_variance, "is_adaptive": is_adaptive
    }  # fmt: skip
    return type("GraphLearningOf", (GraphLearning,), kind)


class ModAL(Method):
    """Uncertainty sampling; the model sees features, and no graph."""

    def estimator(self) -> Any:
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(3, weights="distance")

    @cached_property
    def rows(self) -> Any:
        """The features; dense ones have a unit in common, and are divided by their largest."""
        X = self.case.rows
        return X if not isinstance(X, np.ndarray) else X.astype(np.float32) / np.abs(X).max()

    def ask(self, known: Any, n_points: int) -> Any:
        if not (known >= 0).any():
            return super().ask(known, n_points)
        from modAL.uncertainty import uncertainty_sampling

        free = np.flatnonzero(known < 0)
        best, _ = uncertainty_sampling(self.learner, self.rows[free], n_instances=min(n_points, BLOCK))
        return free[best]

    def classify(self, known: Any) -> Any:
        from modAL.models import ActiveLearner

        given = np.flatnonzero(known >= 0)
        self.learner = ActiveLearner(self.estimator(), X_training=self.rows[given], y_training=known[given])
        return self.learner.predict(self.rows)


class ModALLogistic(ModAL):
    def estimator(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=200)


METHODS: dict[str, Callable[[Case, int], Method]] = {
    "tautcut, next_to_label": Ours,
    "tautcut, random": Method,
    "tautcut, least confident": LeastConfident,
    "GraphLearning, Laplace, uncertainty": graph_learning("laplace", "unc_sampling"),
    "GraphLearning, Laplace, V-optimality": graph_learning(
        "laplace", "var_opt", needs_variance=True, is_adaptive=False
    ),
    "GraphLearning, Laplace, Σ-optimality": graph_learning(
        "laplace", "sigma_opt", needs_variance=True, is_adaptive=False
    ),
    "GraphLearning, Laplace, model change": graph_learning("laplace", "model_change_var_opt", needs_variance=True),
    "GraphLearning, Poisson, uncertainty": graph_learning("poisson", "unc_sampling"),
    "GraphLearning, Poisson, V-optimality": graph_learning(
        "poisson", "var_opt", needs_variance=True, is_adaptive=False
    ),
    "modAL, k-NN": ModAL,
    "modAL, logistic": ModALLogistic,
}
ON_LARGEST = (
    "tautcut, next_to_label", "tautcut, random", "tautcut, least confident", "GraphLearning, Laplace, V-optimality",
    "GraphLearning, Poisson, V-optimality", "modAL, k-NN", "modAL, logistic",
)  # fmt: skip


# ---------------------------------------------------------------- the page

OURS_NAME = "tautcut, next_to_label"
DRAWN = (OURS_NAME, "tautcut, random", "tautcut, least confident", "GraphLearning, Laplace, V-optimality",
         "GraphLearning, Poisson, uncertainty", "modAL, logistic")  # fmt: skip


def write_pages(found: list[RunRecord]) -> None:
    records = latest(found)
    RECORDS.with_suffix(".md").write_text(page(records), encoding="utf-8")
    draw(records)


def page(records: list[RunRecord]) -> str:
    sets = [name for name in CASES if any(record.data == name for record in records)]
    parts = [
        "# Which point to label next",
        "Accuracy in per cent on the points without a label, against the number of labels, where each method chooses "
        f"the points. The mean over up to {SEEDS} seeds. `next_to_label` begins without labels; all others begin with "
        f"{FIRST} points drawn at random. Methods of tautcut are asked for all points up to the next count at once; "
        "GraphLearning's are asked for one at a time, its classifier is fitted anew after every "
        f"{BLOCK} where the choice follows from it, and its variances have {EIGENVECTORS} eigenvectors; modAL's for "
        f"{BLOCK} at a time. GraphLearning sees the same 10-nearest-neighbour graph as tautcut, modAL's models see the "
        "features and no graph. Area is the mean height of the curve over the number of labels. Rendered by "
        "`benchmarks/labelling.py --page` from `labelling.jsonl`.",
        "\n".join(sorted({_circumstances(record) for record in records})),
        "![Accuracy against the number of labels, one panel per data set](labelling.svg)",
        "## Area under the curve",
        area_table(records, sets),
        *verdicts(records, sets),
    ]
    for name in sets:
        parts += [f"## {name}", curve_table([record for record in records if record.data == name])]
    return "\n\n".join(parts) + "\n"


def _circumstances(record: RunRecord) -> str:
    """Where a run was made, and by which code."""
    whose = "tautcut" if record.method.startswith("tautcut") else "rivals"
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record.versions.items()))
    return (
        f"- {whose}: {record.machine['platform']}, {record.machine['cpus']} cores, commit {record.commit}; {versions}"
    )


def means(records: list[RunRecord], name: str, method: str) -> dict[str, float]:
    """The mean of each measure over the seeds; empty where there is no run."""
    mine = [record.measures for record in records if record.data == name and record.method == method]
    return {key: mean(one[key] for one in mine) for key in mine[0]} if mine else {}


def area_table(records: list[RunRecord], sets: list[str]) -> str:
    rows = []
    for method in METHODS:
        found = [means(records, name, method) for name in sets]
        best = [max(means(records, name, one).get("area", 0.0) for one in METHODS) for name in sets]
        cells = [
            "" if not one else f"**{100 * one['area']:.1f}**" if one["area"] == top else f"{100 * one['area']:.1f}"
            for one, top in zip(found, best, strict=True)
        ]
        rows.append([method, *cells])
    return table(["", *sets], rows)


def verdicts(records: list[RunRecord], sets: list[str]) -> list[str]:
    """Where a rival is above, and where the choice is below chance."""
    above, below = [], []
    for name in sets:
        ours, chance = means(records, name, OURS_NAME), means(records, name, "tautcut, random")
        for method in METHODS:
            theirs = means(records, name, method)
            if ours and theirs and theirs["area"] > ours["area"]:
                above.append(f"{method} on {name} ({100 * theirs['area']:.1f} against {100 * ours['area']:.1f})")
        shared = [key for key in ours if key.isdecimal() and key in chance]
        below += [
            f"{name} at {key} labels ({100 * ours[key]:.1f} against {100 * chance[key]:.1f})"
            for key in shared
            if ours[key] < chance[key]
        ]
    return [
        f"A larger area than `next_to_label` has: {'; '.join(above) or 'no method, on no set'}.",
        f"`next_to_label` is below random points with the same classifier: {'; '.join(below) or 'nowhere'}.",
    ]


def curve_table(records: list[RunRecord]) -> str:
    name = records[0].data
    counts = [str(count) for count in COUNTS if all(str(count) in record.measures for record in records)]
    rows = []
    for method in METHODS:
        found = means(records, name, method)
        if found:
            seconds = mean(record.seconds for record in records if record.method == method)
            cells = [f"{100 * found[count]:.1f}" for count in (*counts, "area")]
            rows.append([method, *cells, f"{seconds:.1f}"])
    return table(["labels", *counts, "area", "CPU seconds to choose"], rows)


def draw(records: list[RunRecord]) -> None:
    """labelling.svg: a panel for each set."""
    sets = [name for name in CASES if any(record.data == name for record in records)]
    figure, axes = plt.subplots(-(-len(sets) // 3), 3, figsize=(10, 2.9 * -(-len(sets) // 3)), squeeze=False)
    for axis, name in zip(axes.flat, sets, strict=False):
        for method, colour in zip(DRAWN, (OURS, *OTHERS), strict=False):
            found = means(records, name, method)
            counts = sorted(int(key) for key in found if key.isdecimal())
            heights = [100 * found[str(count)] for count in counts]
            axis.plot(counts, heights, color=colour, lw=2 if method == OURS_NAME else 1, marker=".", label=method)
        axis.set_title(name, fontsize=9)
        axis.set_xscale("log")
        axis.set_xticks([10, 20, 50, 100, 200], ["10", "20", "50", "100", "200"])
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(sets) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("right, %")
    for axis in axes[-1]:
        axis.set_xlabel("labels")
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncol=3, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(RECORDS.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
