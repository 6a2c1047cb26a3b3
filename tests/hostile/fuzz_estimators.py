"""Random graphs, features, labels and options through the estimators. A fit is refused in a sentence, or what it leaves
fits together: labels in range, `energy_` the energy of the labels, memberships that are distributions, sizes kept or
warned of, given labels kept. Every fit is made twice, a share of them with weights times a power of two as well.
"""

from __future__ import annotations

import pickle
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hostile.fuzz_cli import told
from hostile.graphs import drawn_features, drawn_graph, drawn_labels, held, is_unknown, snapshot
from hostile.sandbox import ANSWERED, REFUSED, TRACEBACK, Finding, Limits
from tautcut import MTVClassifier, MTVClustering, balanced_cut_energy
from tautcut.algorithm.solver import feasible
from tautcut.errors import CollapseWarning, GraphWarning, TautcutError
from tautcut.problem import Problem

LIMITS = Limits(seconds=90, memory=4 * 2**30)
LARGE = 30_000  # points times clusters, above which a thorough search rightly takes longer than that
OPTIONS: dict[str, tuple[Any, ...]] = {
    "algorithm": ("fast", "fast", "paper"),
    "search": ("short", "short", "thorough", "none"),
    "n_init": ("auto", "auto", 1, 2, 3),
    "dtype": ("float32", "float32", "float64"),
    "device": (*["cpu"] * 9, "reference"),
    "max_iter": (2000, 2000, 2000, 1, 7, 100),
    "tol": (1e-4, 1e-4, 0.0, 1e-12, 0.5),
    "random_state": (0, 1, 2**32, 2**63),
    "n_jobs": (*[None] * 60, 2),
    "smoothing": (*[None] * 9, 1, 5, 1000),
}
STARTS = ("multilevel", "multilevel", "ncut-seeds", "ncut", "random", "array", "partition")
PRIORS = (*[None] * 6, "equal", "skewed", "extreme", "more extreme", "random")
SKLEARN = ("NaN", "infinity", "could not convert", "bytes/strings", "minimum")  # what its own checks complain of


@dataclass(frozen=True)
class Case:
    """What an estimator is given, in which k is the number of clusters or classes."""

    about: str
    X: Any
    y: np.ndarray | None
    k: int
    options: dict[str, Any]
    is_graph: bool
    weights: np.ndarray | None = None

    def model(self) -> Any:
        return MTVClustering(self.k, **self.options) if self.y is None else MTVClassifier(**self.options)

    @property
    def given(self) -> Any:
        """Everything that a fit must leave as it was."""
        return [snapshot(one) for one in (self.X, self.y, self.weights, *self.options.values())]


def made(number: int) -> Case:
    draw, rng = Random(f"estimators {number}"), np.random.default_rng(number)
    is_graph = draw.random() < 0.75
    if is_graph:
        graph = drawn_graph(draw, rng)
        n, (holder, X) = graph.n, held(graph, draw, rng)
        about, options = f"{graph.about}, as {holder}", {"affinity": "precomputed"}
    else:
        kind, n, X = drawn_features(draw, rng)
        about, options = f"features: {kind}", {"n_neighbors": draw.choice([1, 2, 5, 10, 10, n, n - 1 or 1])}
        options |= {"weights": draw.choice(["binary", "binary", "self-tuning", "gaussian"])}
        options |= {"metric": draw.choice(["euclidean", "euclidean", "cosine"])}
    k = draw.choice([1, 2, 2, 3, 3, 5, 8, n, n // 2, n // 2 + 1, n - 1, n + 1, n // 4]) or 1
    y = None
    if draw.random() < 0.25:
        style, y = drawn_labels(n, min(k, n), draw, rng)
        about += f", labels {style}"
        k = len({label for label in y.tolist() if not is_unknown(label)}) or 1
    options |= {name: draw.choice(values) for name, values in OPTIONS.items()}
    options["min_cluster_size"] = draw.choice([None, None, None, 1, 2, max(1, n // k)])
    if prior := draw.choice(PRIORS):
        options["class_prior"] = shares(prior, k, rng)
    options["init"] = start(draw, rng, n, k)
    options["balance"] = draw.choice(["size", "size", "size", "volume"])
    if draw.random() < 0.15:
        options["must_link"] = links(draw, n)
    if n * k > LARGE:
        options |= {"search": "none", "max_iter": 50}
    return Case(about, X, y, k, options, is_graph, drawn_weights(draw, rng, n))


def drawn_weights(draw: Random, rng: np.random.Generator, n: int) -> np.ndarray | None:
    """Masses of the points, in one case of four; odd ones now and then."""
    if draw.random() < 0.75:
        return None
    ways = (np.ones(n), np.full(n, 3.0), rng.integers(1, 5, n), rng.random(n) + 1e-3, np.exp(rng.normal(0, 8, n)))
    weights = np.array(draw.choice(ways), dtype=np.float64)
    if draw.random() < 0.3:
        weights[draw.randrange(n)] = draw.choice([1e3, 1e9, 1e-9, 1e300, 0.0])
    if draw.random() < 0.05:
        weights[0] = draw.choice([np.nan, np.inf, -1.0])
    return weights


def links(draw: Random, n: int) -> list[tuple[int, ...]]:
    """Pairs and groups of points that stay together."""
    size = draw.choice([2, 2, 3, n // 2 or 1])
    return [tuple(draw.randrange(n) for _ in range(size)) for _ in range(draw.choice([1, 1, 3, n // 4 or 1]))]


def shares(prior: str, k: int, rng: np.random.Generator) -> np.ndarray:
    rare = {"extreme": 1e-9, "more extreme": 1e-300}.get(prior)
    if rare is not None:
        return np.r_[1 - rare * (k - 1), np.full(k - 1, rare)]
    parts = {"equal": np.ones(k), "skewed": np.arange(1.0, k + 1), "random": rng.random(k) + 1e-3}[prior]
    return parts / parts.sum()


def start(draw: Random, rng: np.random.Generator, n: int, k: int) -> Any:
    name = draw.choice(STARTS)
    if name not in ("array", "partition"):
        return name
    F = rng.random((n, k)) if name == "array" else np.eye(k)[rng.permutation(np.arange(n) % k)]
    if draw.random() < 0.05:
        F[0, 0] = draw.choice([np.nan, np.inf, 1e308, -1e308])
    return F


# ---------------------------------------------------------------- what must hold


def examine(number: int, folder: Path) -> Finding:
    """What is wrong about the fit of this number."""
    case = made(number)
    given, state = case.given, np.random.get_state()[1].tobytes()  # noqa: NPY002 - to see that nobody draws from it
    shown = {name: value if np.ndim(value) < 2 else f"array {np.shape(value)}" for name, value in case.options.items()}
    about: dict[str, Any] = {"about": case.about, "k": case.k, **{name: str(one) for name, one in shown.items()}}
    problems: list[str] = []
    outcome = ANSWERED
    try:
        model, seen = fitted(case)
        problems += [problem for check in CHECKS for problem in check(case, model, seen)]
        about |= {"energy": repr(model.energy_), "status": str(model.status_)[:40]}
    except Exception as error:  # noqa: BLE001 - whatever it is, it should have been a TautcutError
        outcome = REFUSED
        about["said"] = str(error)[:200]
        if not is_refusal(error):
            problems.append(f"{TRACEBACK}: {told(error)}: {str(error)[:100]}")
            about["traceback"] = traceback.format_exc()[-2500:]
    if case.given != given:
        problems.append("what was given was changed")
    if np.random.get_state()[1].tobytes() != state:  # noqa: NPY002
        problems.append("the global random state was changed")
    return Finding(outcome, tuple(dict.fromkeys(problems)), about)


def is_refusal(error: Exception) -> bool:
    """Whether the error is a sentence of ours, or of scikit-learn's check of X, which ours leave it to."""
    of_sklearn = isinstance(error, ValueError) and " at shared.py:" in told(error)
    return isinstance(error, TautcutError) or (of_sklearn and any(word in str(error) for word in SKLEARN))


def fitted(case: Case, X: Any = None) -> tuple[Any, list[warnings.WarningMessage]]:
    """A fitted model and the warnings of its fit."""
    model, X = case.model(), case.X if X is None else X
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, case.y, sample_weight=case.weights)
    return model, seen


def labels_of(model: Any) -> np.ndarray:
    if hasattr(model, "labels_"):
        return model.labels_
    return np.searchsorted(model.classes_, model.transduction_)


def check_warnings(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    for one in seen:
        if not one.category.__module__.startswith("tautcut"):
            yield f"{one.category.__name__}: {str(one.message)[:80]} at {Path(one.filename).name}:{one.lineno}"


def check_labels(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    labels, n = labels_of(model), model.graph_.n_vertices
    if labels.shape != (n,) or labels.min() < 0 or labels.max() >= case.k:
        yield "labels out of range"
        return
    sizes = np.bincount(labels, minlength=case.k)
    warned = [one for one in seen if issubclass(one.category, UserWarning) and one.category is not GraphWarning]
    if not sizes.all() and not any(issubclass(one.category, CollapseWarning) for one in seen):
        yield "an empty cluster without a warning"
    asked, graph = case.options["min_cluster_size"], model.graph_
    in_points = np.bincount(labels, graph.masses, case.k) / graph.total_mass * n  # a mean of denormal masses is rounded
    if asked is not None and in_points.min() < (1 - 1e-6) * asked and sizes.min() < asked and not warned:
        yield "a cluster below min_cluster_size without a warning"
    linked = case.options.get("must_link") or ()
    place = {node: at for at, node in enumerate(model.nodes_)} if linked else {}
    if any(len({int(labels[place[one]]) for one in group}) > 1 for group in linked):
        yield "a link was not kept"
    if case.y is not None and any(
        not is_unknown(label) and found != label
        for label, found in zip(case.y.tolist(), model.transduction_.tolist(), strict=True)
    ):
        yield "a given label was not kept"


def check_energy(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    labels, lam = labels_of(model), model.result_.problem.lam
    if np.isnan(model.energy_) or np.isnan(model.relaxed_energy_):
        yield "an energy is NaN"
    expected = energy_by_hand(model.graph_.to_scipy(), labels, lam, model.graph_.masses)
    if model.energy_ != expected and not np.isclose(model.energy_, expected, rtol=1e-9, atol=0):
        yield f"energy_ is not that of its labels: {model.energy_!r} for {expected!r}"
    is_whole = np.bincount(labels, minlength=case.k).all()
    theirs = balanced_cut_energy(model.graph_, labels, lam) if is_whole and case.k > 1 else model.energy_
    if model.energy_ != theirs and not np.isclose(model.energy_, theirs, rtol=1e-9, atol=0):
        yield f"energy_ is not balanced_cut_energy: {model.energy_!r} for {theirs!r}"


def energy_by_hand(W: sp.csr_matrix, labels: np.ndarray, lam: np.ndarray, masses: np.ndarray) -> float:
    """(P) without tautcut: Σ_r Cut(A_r) / min(λ_r m(A_r), m(A_rᶜ)), each cut a sum of its own edges."""
    listed = W.tocoo()
    if len(lam) == 1:
        return 0.0
    total = 0.0
    with np.errstate(all="ignore"):
        for r, one in enumerate(lam):
            inside = labels == r
            balance = min(one * masses[inside].sum(), masses[~inside].sum())
            if balance <= 0:
                return float("inf")
            total += float(listed.data[inside[listed.row] & ~inside[listed.col]].sum() / balance)
    return total


def check_memberships(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    F = model.memberships_
    yield from (f"memberships {problem}" for problem in problems_of_distribution(F))
    if not np.array_equal(F.argmax(axis=1), labels_of(model)):
        yield "the largest membership is not the label's"


def problems_of_distribution(F: np.ndarray) -> Iterator[str]:
    if not np.isfinite(F).all():
        yield "are not finite"
    elif F.min() < 0:
        yield "are negative"
    elif np.abs(F.sum(axis=1) - 1).max() > 1e-5:
        yield "do not sum to 1"


def check_start(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    """A run is never worse than its start."""
    F = case.options["init"]
    is_free = case.y is None and "must_link" not in case.options and case.options["search"] == "none"
    if isinstance(F, np.ndarray) and np.isfinite(F).all() and is_free:
        problem = Problem(model.graph_, case.k, model.result_.problem.lam)
        begun = problem.partition(feasible(problem, F).argmax(axis=1)).energy
        if model.energy_ > begun * (1 + 1e-6):
            yield f"worse than its start: {model.energy_} > {begun}"


def check_repetition(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    again, _ = fitted(case)
    if not np.array_equal(labels_of(model), labels_of(again)):
        yield "the same seed gave other labels"
    elif not np.array_equal(model.memberships_, again.memberships_):
        yield "the same seed gave other memberships"


def check_scale(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    """A power of two times the weights changes nothing, as long as it rounds nothing."""
    if not case.is_graph or not sp.issparse(case.X) or case.X.dtype != np.float64 or case.X.nnz == 0:
        return
    weights = case.X.tocoo().data
    if not (weights[weights > 0].min(initial=1.0) > 1e-150 and weights.max() < 1e150):
        return
    for factor in (2.0**-20, 2.0**20):
        other, _ = fitted(case, case.X * factor)
        if not np.array_equal(labels_of(model), labels_of(other)):
            yield "weights times a power of two gave other labels"


def check_new_points(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    new = model.graph_.to_scipy().toarray()[:3] if case.is_graph else case.X
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            memberships = model.transform(new) if case.y is None else model.predict_proba(new)
            found = model.predict(new)
        except TautcutError:
            return
    yield from (f"memberships of new points {problem}" for problem in problems_of_distribution(memberships))
    if len(found) != len(memberships):
        yield "predict has another length"
    yield from (f"of new points: {problem}" for problem in check_warnings(case, model, said))


def check_copies(case: Case, model: Any, seen: list[warnings.WarningMessage]) -> Iterator[str]:
    clone(model)
    if not np.array_equal(pickle.loads(pickle.dumps(model)).memberships_, model.memberships_):
        yield "a pickled model differs"


CHECKS = (
    check_warnings, check_labels, check_energy, check_memberships, check_start, check_repetition, check_scale,
    check_new_points, check_copies,
)  # fmt: skip
