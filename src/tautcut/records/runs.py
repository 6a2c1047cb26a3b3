"""One timed run of one method, and its record. What is timed is `fit`, with the graph. This module draws the labels
that a classifier is given, knows estimators by what they leave (`result_`), and changes no result.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.arrays import IntArray
from tautcut.checks import UNLABELLED, whole_number
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.metrics import purity
from tautcut.problem import Partition, Problem
from tautcut.records.records import RunRecord, circumstances, plain_setting


class Estimator(Protocol):
    """What a run needs of an estimator: scikit-learn's ways, and the `result_` that `fit` leaves."""

    random_state: Any
    result_: Result

    def fit(self, X: Any, y: Any) -> object: ...

    def get_params(self) -> dict[str, Any]: ...

    def set_params(self, **params: Any) -> Any: ...


class Baseline(Protocol):
    """What a run needs of a rival method."""

    n_clusters: int
    labels_: IntArray
    n_iter_: int
    objective_: float

    def fit(self, X: Any) -> object: ...

    def get_params(self) -> dict[str, Any]: ...


Model = TypeVar("Model", bound=Estimator)


def run_estimator(
    model: Model, X: Any, y: ArrayLike | None = None, *, data: str, truth: ArrayLike | None = None,
    warm_up: bool = False,
) -> tuple[Model, RunRecord]:  # fmt: skip
    """A fitted copy of the model, and the record of its fit.

    Parameters
    ----------
    model : MTVClustering or MTVClassifier
        Left as it is. Its `random_state` is a number, so that the run can be repeated.
    X : array-like or graph
        What the model is fitted on.
    y : array-like of shape (n_samples,), optional
        The labels that a classifier is given, −1 where unknown.
    data : str
        The name of the data set, for the record.
    truth : array-like of shape (n_samples,), optional
        For the purity; the model never sees it.
    warm_up : bool
        Compile the kernels off the clock, by a fit of one iteration.
    """
    whole_number("random_state", model.random_state, least=0, otherwise=", to repeat the run by")
    if warm_up:
        _fit_briefly(clone(model), X, y)
    fitted: Model = clone(model)
    began = time.perf_counter()
    fitted.fit(X, y)
    seconds = time.perf_counter() - began
    result = fitted.result_
    return fitted, _record(
        fitted, result.partition, data=data, truth=truth, seconds=seconds, n_iter=result.n_iter,
        status=str(result.status), n_labelled=int(result.problem.is_labelled.sum()),
        masses=tuple(result.partition.masses.tolist()) if result.problem.graph.has_masses else (),
    )  # fmt: skip


def run_baseline(model: Baseline, graph: Graph, *, data: str, truth: ArrayLike) -> RunRecord:
    """The record of a rival's fit on the graph, measured by the same (P) as ours; arguments as of `run_estimator`.

    The model is fitted in place.
    """
    began = time.perf_counter()
    model.fit(graph)
    seconds = time.perf_counter() - began
    partition = Problem(graph, model.n_clusters).partition(model.labels_)
    return _record(
        model, partition, data=data, truth=truth, seconds=seconds, n_iter=int(model.n_iter_), status="Done.",
        n_labelled=0, measures={"objective": float(model.objective_)} if math.isfinite(model.objective_) else {},
    )  # fmt: skip


def draw_labels(
    truth: ArrayLike, *, per_class: int = 1, share: float | None = None, rng: np.random.Generator
) -> IntArray:
    """The labels of some points of each class, drawn without replacement, and −1 for all others.

    They are `per_class` points, or this `share` of the class if it is given, rounded, and at least one point.
    """
    classes = np.asarray(truth)
    if share is not None and not 0 < share <= 1:
        raise InputError(f"share must lie above 0 and be at most 1; found {share}.")
    labels = np.full(classes.size, UNLABELLED, dtype=np.int64)
    for value in np.unique(classes):
        members = np.flatnonzero(classes == value)
        count = per_class if share is None else max(1, round(share * members.size))
        if members.size < count:
            raise InputError(f"per_class={per_class} is more than the {members.size} points of class {value}.")
        labels[rng.choice(members, count, replace=False)] = value
    return labels


def _fit_briefly(model: Estimator, X: Any, y: ArrayLike | None) -> None:
    """One iteration of one start: it runs every kernel once. Whatever it warns of, the real fit will say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=1, n_init=1, verbose=False).fit(X, y)
    if model.result_.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def _record(
    model: Estimator | Baseline, partition: Partition, *, truth: ArrayLike | None, seconds: float, **more: Any
) -> RunRecord:
    """The record of this partition; `more` are the fields that estimators and rivals know in their own ways."""
    settings = {name: plain_setting(value) for name, value in model.get_params().items() if name != "verbose"}
    return RunRecord(
        method=type(model).__name__,
        seed=settings.pop("random_state"),
        settings=settings,
        energy=float(partition.energy) if math.isfinite(partition.energy) else None,
        purity=None if truth is None else purity(partition.labels, truth),
        seconds=round(seconds, 4),
        sizes=tuple(partition.sizes.tolist()),
        **circumstances(),
        **more,
    )
