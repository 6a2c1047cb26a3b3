"""What smoothing by a random walk does to purity and to few labels, and whether anything that can be measured without
labels says when it helps: the paper's data sets, digits, and ladders of noise. The signs of a rule get their thresholds
on one half of the ladders and are judged on the other. Beside that, what more neighbours do to text. Records go to
docs/results/smoothing.jsonl and the page beside it is written from them; a run that the file holds is not run again.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/smoothing.py [tables | labels | devise | test | text | page]
        [--device cuda --out docs/results/smoothing-gpu.jsonl --commit COMMIT]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations, product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import scipy.sparse as sp
from render import table

from tautcut import Graph, MTVClassifier, MTVClustering, balanced_cut_energy, knn_graph, purity, walk_graph
from tautcut.datasets import load, paper_graph
from tautcut.graph.diagnostics import diagnose
from tautcut.records import RunRecord, append_record, draw_labels, read_records, run_estimator
from tautcut.search.clarity import CLEAR, relative_cut

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "smoothing.jsonl"
ON_GPU = RECORDS.with_name("smoothing-gpu.jsonl")

PLAIN, SMOOTH, WIDE = "plain", "30 neighbours", "100 neighbours"
WAYS = {PLAIN: 0, SMOOTH: 30, WIDE: 100}
TABLES = ("mnist raw", "20news", "pendigits", "webkb4", "optdigits", "mnist", "4moons", "digits")
SEEDS = range(3)  # of fits without labels
DRAWS = {"mnist raw": 3, "mnist": 3, "20news": 5}  # of labels; 10 elsewhere,
DRAWS_ON_GPU = 3
PER_CLASS = (1, 5)
LOSS = 0.01  # that a rule may cost on any data set
SHOWN = 8  # rules of two signs


@dataclass(frozen=True)
class Case:
    """A graph by name, with its classes."""

    name: str
    make: Callable[[], tuple[Graph, Any]]

    @cached_property
    def made(self) -> tuple[Graph, Any]:
        return self.make()


# ---------------------------------------------------------------- data


def real(name: str) -> tuple[Graph, Any]:
    if name in ("mnist raw", "digits"):
        data = load(name.removesuffix(" raw"))
        return knn_graph(data.X, 10, method="exact"), np.asarray(data.truth)
    published = paper_graph(name)
    return published.graph, np.asarray(published.truth)


def planted(n: int, R: int, degree: int, noise: float, spread: float, seed: int) -> tuple[Graph, Any]:
    """Edges inside random clusters, a share `noise` of them anywhere; expected degrees are log-normal."""
    rng = np.random.default_rng(seed)
    truth, weight = rng.integers(0, R, n), rng.lognormal(0, spread, n)
    i, j = rng.choice(n, (2, n * degree // 2), p=weight / weight.sum())
    is_inside = rng.random(i.size) >= noise
    for r in range(R):
        members, ends = np.flatnonzero(truth == r), np.flatnonzero(is_inside & (truth[i] == r))
        j[ends] = rng.choice(members, ends.size, p=weight[members] / weight[members].sum())
    return binary(i, j, n), truth


def cliques(n: int, size: int, R: int, noise: float, seed: int) -> tuple[Graph, Any]:
    """Cliques, and two more edges for each vertex: to its cluster, or a share `noise` of them anywhere."""
    rng, clique = np.random.default_rng(seed), np.arange(n) // size
    truth = clique * R // (clique.max() + 1)
    inside = [(i, j) for first in range(0, n, size) for i in range(first, first + size) for j in range(first, i)]
    i = rng.integers(0, n, 2 * n)
    near = truth[i] * (n // R) + rng.integers(0, n // R, i.size)
    j = np.where(rng.random(i.size) < noise, rng.integers(0, n, i.size), near)
    own = np.array(inside)
    return binary(np.r_[own[:, 0], i], np.r_[own[:, 1], j], n), truth


def mixture(n: int, R: int, dim: int, distance: float, k: int, seed: int) -> tuple[Graph, Any]:
    """Neighbours in a mixture of unit Gaussians whose centres are so far apart, in units of √(dim / 2), on average."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, R, n)
    X = rng.normal(0, distance / np.sqrt(2), (R, dim))[truth] + rng.standard_normal((n, dim))
    return knn_graph(X, k, method="exact"), truth


def moons(n: int, R: int, noise: float, seed: int) -> tuple[Graph, Any]:
    """A chain of half circles in ten dimensions."""
    rng = np.random.default_rng(seed)
    truth, angle = rng.integers(0, R, n), np.pi * rng.random(n)
    X = noise * rng.standard_normal((n, 10))
    X[:, 0] += np.cos(angle) + truth
    X[:, 1] += np.sin(angle) * (-1.0) ** truth + 0.5 * (truth % 2)
    return knn_graph(X, 10, method="exact"), truth


def part(
    name: str, n: int, k: int, seed: int, *, classes: int = 0, pixels: float = 0, random: float = 0, uneven: int = 1
) -> tuple[Graph, Any]:
    """Neighbours of some points of a data set: of some classes, every second one thinned, with noise in the features
    (in units of their deviation), and with so many random edges for each other one."""
    data, rng = load(name), np.random.default_rng(seed)
    chosen = rng.choice(int(data.truth.max()) + 1, classes or int(data.truth.max()) + 1, replace=False)
    rows = np.concatenate(
        [
            rng.permutation(np.flatnonzero(data.truth == one))[: n // chosen.size // (uneven if place % 2 else 1)]
            for place, one in enumerate(chosen)
        ]
    )
    X, truth = data.X[rows], np.unique(data.truth[rows], return_inverse=True)[1]
    if pixels:
        X = X + pixels * X.std() * rng.standard_normal(X.shape)
    graph = knn_graph(X, k, metric="cosine" if sp.issparse(X) else "euclidean", method="exact")
    if random:
        W = sp.triu(graph.to_scipy()).tocoo()
        i, j = rng.integers(0, graph.n_vertices, (2, int(random * graph.n_edges)))
        graph = binary(np.r_[W.row, i], np.r_[W.col, j], graph.n_vertices)
    return graph, truth


def table_of(name: str) -> tuple[Graph, Any]:
    """Neighbours in a small table of scikit-learn, its columns standardised."""
    import sklearn.datasets

    X, truth = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return knn_graph((X - X.mean(axis=0)) / X.std(axis=0), 10, method="exact"), truth


def binary(i: Any, j: Any, n: int) -> Graph:
    pairs = np.unique(np.sort(np.column_stack([i, j]), axis=1), axis=0)
    return Graph.from_edges(pairs[pairs[:, 0] != pairs[:, 1]], n_vertices=n)


def named(make: Callable[..., tuple[Graph, Any]], *values: Any, **more: Any) -> Case:
    words = [str(value) for value in values] + [f"{name} {value}" for name, value in more.items()]
    return Case(f"{make.__name__} {', '.join(words)}", partial(make, *values, **more))


# Rules get their thresholds on these, with the data sets of the tables,
DEVISE = [
    *(named(planted, 2000, 5, 10, noise, 0.0, 1) for noise in (0.3, 0.5, 0.6)),
    *(named(planted, 4000, 10, 16, noise, 0.0, 1) for noise in (0.3, 0.5)),
    *(named(mixture, 2000, 5, 10, distance, 10, 1) for distance in (2.0, 1.5, 1.2)),
    *(named(mixture, 4000, 10, 30, distance, 10, 1) for distance in (1.5, 1.2)),
    *(named(part, "optdigits", 2000, 10, 1, random=share) for share in (0.5, 1.0, 2.0)),
    *(named(part, "mnist", 3000, 10, 1, pixels=noise) for noise in (0, 0.5, 1.0)),
    *(named(part, "mnist", 5000, k, 2) for k in (5, 20)),
    *(named(part, "20news", 4000, k, 8, classes=8) for k in (5, 15)),
    named(part, "20news", 4000, 5, 4, classes=4),
    named(part, "webkb4", 4 * 504, 15, 1),
]
# and are judged on these.
TEST = [
    *(named(planted, 1000, 3, 8, noise, 0.7, 2) for noise in (0.2, 0.4, 0.55)),
    *(named(planted, 3000, 20, 12, noise, 0.7, 2) for noise in (0.2, 0.4)),
    *(named(cliques, 2400, 8, 6, noise, 3) for noise in (0.1, 0.3, 0.5)),
    *(named(mixture, 1500, 3, 5, distance, 8, 2) for distance in (2.5, 1.7, 1.3)),
    *(named(mixture, 5000, 15, 20, distance, 15, 2) for distance in (1.3, 1.0)),
    *(named(moons, 2500, 5, noise, 4) for noise in (0.1, 0.2, 0.3)),
    *(named(table_of, name) for name in ("iris", "wine", "breast_cancer")),
    *(named(part, "optdigits", 3000, 10, 3, pixels=noise) for noise in (0, 0.5, 1.0)),
    *(named(part, "pendigits", 3000, 10, 3, pixels=noise) for noise in (0, 0.5)),
    *(named(part, "pendigits", 4000, 10, 3, random=share) for share in (0.5, 2.0)),
    *(named(part, name, 5000, 10, 7, uneven=5) for name in ("mnist", "optdigits")),
    *(named(part, "mnist", 8000, k, 5) for k in (7, 12)),
    *(named(part, "mnist", 4000, 10, classes, classes=classes) for classes in (4, 6)),
    *(named(part, "20news", 5000, 7, classes, classes=classes) for classes in (3, 6, 12)),
    named(part, "webkb4", 4 * 504, 8, 4),
]

TEXTS = {  # documents and groups of which neighbours are taken by cosine, as they are
    "webkb4": ("webkb4", 10**6, 0), "20news, 4 groups": ("20news", 4000, 4), "20news, 8 groups": ("20news", 4000, 8),
    "20news, 12 groups": ("20news", 4800, 12), "20news": ("20news", 10**6, 0),
}  # fmt: skip
TEXT_NEIGHBORS = (5, 15, 50, 150)


def text(name: str, k: int) -> Case:
    source, n, groups = TEXTS[name]
    return Case(f"{name}, {k} nearest", partial(part, source, n, k, groups, classes=groups))


# ---------------------------------------------------------------- runs


class Book:
    """The records there are, and those to come."""

    def __init__(self, path: Path, device: str = "cpu", commit: str | None = None) -> None:
        self._path, self.device, self._commit = path, device, commit
        self.records = read_records(path) if path.exists() else []

    def of(self, data: str, method: str, per_class: int = 0) -> list[RunRecord]:
        return [
            one for one in self.records
            if (one.data, one.method, one.measures.get("per_class", 0)) == (data, method, per_class)
        ]  # fmt: skip

    def holds(self, data: str, method: str, per_class: int, seed: int) -> bool:
        return any(one.seed == seed for one in self.of(data, method, per_class))

    def write(self, record: RunRecord) -> None:
        record = replace(record, commit=self._commit or record.commit)
        append_record(self._path, record)
        self.records.append(record)
        print(record.data, record.method, record.n_labelled, record.seed, record.purity, record.measures, flush=True)


def cluster(book: Book, case: Case, ways: Iterable[str], seeds: Iterable[int]) -> None:
    """Purity without labels on the graph and on its walks; the records of 30 neighbours hold the signs."""
    for seed in seeds:
        missing = [way for way in ways if not book.holds(case.name, way, 0, seed)]
        labels: dict[str, Any] = {}
        for way in dict.fromkeys([PLAIN, *missing] if missing else []):
            (graph, truth), (walked, seconds) = case.made, walk_of(case, way, book.device)
            model = MTVClustering(int(truth.max()) + 1, affinity="precomputed", device=book.device, random_state=seed)
            fitted, record = run_estimator(model, walked, data=case.name, truth=truth)
            labels[way] = fitted.labels_
            measures = {"walk_seconds": seconds}
            if way == SMOOTH:
                measures |= signs(graph, walked, labels[PLAIN], labels[SMOOTH])
            if way in missing:
                book.write(replace(record, method=way, measures=measures))


def classify(book: Book, case: Case, ways: Iterable[str], draws: int) -> None:
    """Accuracy on the points without a label, of the classifier that walks by itself."""
    for way, per_class, draw in product(ways, PER_CLASS, range(draws)):
        if book.holds(case.name, way, per_class, draw):
            continue
        graph, truth = case.made
        given = draw_labels(truth, per_class=per_class, rng=np.random.default_rng(draw))
        model = MTVClassifier(
            affinity="precomputed", smoothing=WAYS[way] or None, device=book.device, random_state=draw
        )  # fmt: skip
        fitted, record = run_estimator(model, graph, given, data=case.name, truth=truth)
        accuracy = float((fitted.transduction_ == truth)[given < 0].mean())
        book.write(replace(record, method=way, measures={"per_class": per_class, "accuracy": accuracy}))


_walks: dict[tuple[str, str], tuple[Graph, float]] = {}


def walk_of(case: Case, way: str, device: str) -> tuple[Graph, float]:
    if (case.name, way) not in _walks:
        began, graph = time.perf_counter(), case.made[0]
        walked = walk_graph(graph, WAYS[way], device=device) if WAYS[way] else graph
        _walks[case.name, way] = walked, round(time.perf_counter() - began, 3)
    return _walks[case.name, way]


def signs(graph: Graph, walked: Graph, plain: Any, smooth: Any) -> dict[str, float]:
    """What can be measured without labels, before and after both fits."""
    noise = next(one.value for one in diagnose(graph).findings if one.name == "noise")
    degrees = np.diff(graph.indptr)
    W, V = graph.to_scipy(), walked.to_scipy()
    return {
        "unsupported": noise["no_common_neighbor"] / noise["random_graph"],
        "uneven degrees": float(degrees.std() / degrees.mean()),
        "cut": relative_cut(graph, plain),
        "walk's cut": relative_cut(walked, smooth),
        "cut ratio": relative_cut(walked, smooth) / max(relative_cut(graph, plain), 1e-6),
        "agreement": purity(plain, smooth),
        "plain (P) of smooth": balanced_cut_energy(W, smooth) / max(balanced_cut_energy(W, plain), 1e-6),
        "walk's (P) of plain": balanced_cut_energy(V, plain) / max(balanced_cut_energy(V, smooth), 1e-6),
    }


# ---------------------------------------------------------------- rules


@dataclass(frozen=True)
class Point:
    """What smoothing gained on a data set, and the signs there, as means over the seeds."""

    name: str
    plain: float
    gain: float
    signs: dict[str, float]


@dataclass(frozen=True)
class Rule:
    """Smooth where every sign lies on its side of a threshold."""

    bounds: tuple[tuple[str, int, float], ...]

    def smooths(self, point: Point) -> bool:
        return all(side * point.signs[sign] <= side * bound for sign, side, bound in self.bounds)

    def total(self, points: list[Point]) -> float:
        return sum(point.gain for point in points if self.smooths(point))

    def worst(self, points: list[Point]) -> float:
        return min((point.gain for point in points if self.smooths(point)), default=0.0)

    def __str__(self) -> str:
        return " and ".join(f"{sign} {'≤' if side > 0 else '≥'} {bound:.3g}" for sign, side, bound in self.bounds)


def points_of(book: Book, names: Iterable[str]) -> list[Point]:
    points = []
    for name in names:
        plain, smooth = book.of(name, PLAIN), book.of(name, SMOOTH)
        if plain and smooth:
            seeds = {one.seed for one in plain} & {one.seed for one in smooth}
            before, after = (mean(one.purity for one in some if one.seed in seeds) for some in (plain, smooth))
            measured = {sign: mean(one.measures[sign] for one in smooth) for sign in SIGNS}
            points.append(Point(name, before, after - before, measured))
    return points


def best_rule(points: list[Point], signs: tuple[str, ...]) -> Rule:
    """Of all thresholds of these signs, those with most to gain on the points and no loss above the allowed one."""
    sides = [[(sign, side, point.signs[sign]) for side in (1, -1) for point in points] for sign in signs]
    rules = [Rule(bounds) for bounds in product(*sides)]
    allowed = [rule for rule in rules if rule.worst(points) >= -LOSS]
    return max(allowed or rules, key=lambda rule: rule.total(points))


SIGNS = (
    "unsupported", "uneven degrees", "cut", "walk's cut", "cut ratio", "agreement", "plain (P) of smooth",
    "walk's (P) of plain",
)  # fmt: skip


def rule_table(devise: list[Point], test: list[Point]) -> str:
    """Each sign and each pair of them with the thresholds of the devised half, judged on the other half."""
    kept = Rule((("walk's cut", 1, CLEAR),))
    alone, pairs = (
        sorted((best_rule(devise, signs) for signs in combinations(SIGNS, n)), key=lambda rule: -rule.total(devise))
        for n in (1, 2)
    )
    rules = [Rule(()), kept, *alone, *pairs[:SHOWN]]
    rows = [
        [
            str(rule) or "always",
            *(cell for points in (devise, test) for cell in (
                f"{sum(map(rule.smooths, points))}", f"{100 * rule.total(points):+.1f}",
                f"{100 * rule.worst(points):+.1f}",
            )),
        ]
        for rule in rules
    ]  # fmt: skip
    halves = [f"{what}, {half}" for half in ("devised", "tested") for what in ("smoothed", "sum of gains", "worst")]
    return table(["smooth where", *halves], rows)


# ---------------------------------------------------------------- the page


def page(book: Book) -> str:
    devise = points_of(book, [*TABLES, *(case.name for case in DEVISE)])
    test = points_of(book, [case.name for case in TEST])
    machines = ", ".join(
        dict.fromkeys(f"{one.machine['platform']}, {one.machine['cpus']} cores" for one in book.records)
    )
    commits = ", ".join(dict.fromkeys((record.commit or "unknown")[:12] for record in book.records))
    parts = [
        "# Graphs smoothed by a random walk",
        "`walk_graph` with 30 and 100 neighbours beside the graph itself. Purity without labels: the mean over "
        f"{len(SEEDS)} seeds, and their range. Accuracy on the points without a label: the mean over the draws, whose "
        "number stands in brackets. mnist raw is the exact 10-nearest-neighbour graph of the pixels; mnist and 20news "
        "are the authors' graphs. Rendered by `benchmarks/smoothing.py page` from the records beside it.",
        f"- {machines}, shared with other work\n- commits: {commits}",
        table(["graph", *(f"{way}, {what}" for what in ("purity", "1 label", "5 labels") for way in WAYS)],
              [[name, *summary(book, name)] for name in TABLES]),
        *on_gpu(),
        "## More neighbours in text",
        "Purity in per cent without labels of the default on the graph of so many nearest documents by cosine of tf-idf"
        " rows; the mean over the seeds, and their number.",
        table(["documents", *(f"{k} nearest" for k in TEXT_NEIGHBORS)],
              [[name, *text_cells(book, name)] for name in TEXTS]),
        "## When does it help?",
        "Purity in per cent, plain and with 30 neighbours, the mean over one to three seeds, and what needs no labels. "
        "*unsupported*: edges whose ends have no common neighbour, of those in a random graph; *uneven degrees*: their "
        "deviation over their mean; *cut*: weight between clusters of the plain fit, of what a random graph has there; "
        "*walk's cut*: the same of the smoothed fit in the walk's graph, and *cut ratio* the second over the first; "
        "*agreement* of the two partitions; (P) of the one partition in the other's graph, over the other's own.",
        "### Sets on which thresholds are chosen", point_table(devise),
        "### Sets on which rules are judged", point_table(test),
        "### Rules",
        f"For each sign and each pair, the thresholds with the largest sum of gains on the first half among those that "
        f"lose at most {100 * LOSS:.0f} point on every set of it; then the same rule on the second half. Points of "
        f"purity; of pairs the {SHOWN} with most to gain. First come smoothing everywhere and the rule that is kept.",
        rule_table(devise, test),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def on_gpu() -> list[str]:
    """The same table from a GPU, where there are records of one."""
    if not ON_GPU.exists():
        return []
    book = Book(ON_GPU)
    cards = ", ".join(dict.fromkeys(str(one.machine.get("card", "a GPU")) for one in book.records))
    return [
        f"The same with `device=\"cuda\"` ({cards}), one seed without labels:",
        table(["graph", *(f"{way}, {what}" for what in ("purity", "1 label", "5 labels") for way in WAYS)],
              [[name, *summary(book, name)] for name in TABLES]),
    ]  # fmt: skip


def summary(book: Book, name: str) -> list[str]:
    cells = []
    for way in WAYS:
        found = [100 * one.purity for one in book.of(name, way) if one.purity is not None]
        cells.append(f"{mean(found):.1f} ({min(found):.1f}–{max(found):.1f})" if found else "")
    for per_class, way in product(PER_CLASS, WAYS):
        found = [100 * one.measures["accuracy"] for one in book.of(name, way, per_class)]
        cells.append(f"{mean(found):.1f} ({len(found)})" if found else "")
    return cells


def text_cells(book: Book, name: str) -> list[str]:
    found = [[one.purity for one in book.of(text(name, k).name, PLAIN)] for k in TEXT_NEIGHBORS]
    return [f"{100 * mean(some):.1f} ({len(some)})" if some else "" for some in found]


def point_table(points: list[Point]) -> str:
    rows = [
        [point.name, f"{100 * point.plain:.1f}", f"{100 * point.gain:+.1f}", *(f"{point.signs[s]:.3f}" for s in SIGNS)]
        for point in sorted(points, key=lambda point: point.gain)
    ]
    return table(["graph", "plain", "gain", *SIGNS], rows)


def jobs(book: Book, asked: str | None, only: list[str], *, is_on_gpu: bool) -> list[Callable[[], None]]:
    """What is to be run, a graph at a time."""
    tables = [Case(name, partial(real, name)) for name in only]
    made: list[tuple[str, Callable[[], None]]] = []
    for case in tables:
        draws = DRAWS_ON_GPU if is_on_gpu else DRAWS.get(case.name, 10)
        made.append(("tables", partial(cluster, book, case, WAYS, SEEDS[:1] if is_on_gpu else SEEDS)))
        made.append(("labels", partial(classify, book, case, WAYS, draws)))
    for what, cases in (("devise", DEVISE), ("test", TEST)):
        made += [(what, partial(cluster, book, case, (PLAIN, SMOOTH), SEEDS)) for case in cases]
    for name, k in product(TEXTS, TEXT_NEIGHBORS):
        made.append(("text", partial(cluster, book, text(name, k), (PLAIN,), SEEDS if name == "webkb4" else (0,))))
    return [run for what, run in made if asked in (None, what)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("tables", "labels", "devise", "test", "text", "page"))
    parser.add_argument("--only", default=",".join(TABLES), help="data sets of the tables, separated by commas")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="what the records give as the commit, where the folder is no checkout")
    parser.add_argument("--share", default="0/1", help="0/4, 1/4, 2/4, 3/4: a quarter of the graphs each")
    options = parser.parse_args()
    book, is_on_gpu = Book(options.out, options.device, options.commit), options.device == "cuda"
    part, n_parts = map(int, options.share.split("/"))
    for run in jobs(book, options.what, options.only.split(","), is_on_gpu=is_on_gpu)[part::n_parts]:
        run()
    if options.out == RECORDS:
        RECORDS.with_suffix(".md").write_text(page(book), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
