"""One timed run of one estimator, and its record. What is timed is `fit`, with the graph. This module draws the labels
that a classifier is given, and changes no result.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from tautcut.algorithm.stopping import Status
from tautcut.arrays import IntArray
from tautcut.checks import UNLABELLED, whole_number
from tautcut.errors import InputError
from tautcut.estimators import MTVClassifier, MTVClustering
from tautcut.graph import Graph
from tautcut.metrics import purity
from tautcut.problem import Problem
from tautcut.records.records import RunRecord, circumstances

Model = TypeVar("Model", MTVClustering, MTVClassifier)


def run_clustering(
    model: MTVClustering, X: Any, *, data: str, truth: ArrayLike | None = None, warm_up: bool = False
) -> tuple[MTVClustering, RunRecord]:
    """A fitted copy of the model, and the record of its fit.

    Parameters
    ----------
    model : MTVClustering
        Left as it is. Its `random_state` is a number, so that the run can be repeated.
    X : array-like or graph
    data : str
        The name of the data set, for the record.
    truth : array-like of shape (n_samples,), optional
        For the purity; the model never sees it.
    warm_up : bool
        Compile the kernels off the clock, by a fit of one iteration.
    """
    fitted, seconds = _timed_fit(model, X, None, warm_up=warm_up)
    return fitted, _record(fitted, fitted.labels_, data=data, truth=truth, seconds=seconds)


def run_classification(
    model: MTVClassifier,
    X: Any,
    y: ArrayLike,
    *,
    data: str,
    truth: ArrayLike | None = None,
    warm_up: bool = False,
) -> tuple[MTVClassifier, RunRecord]:
    """A fitted copy of the model, and the record of its fit on the labels y (−1: unknown).

    The other parameters are those of `run_clustering`.
    """
    fitted, seconds = _timed_fit(model, X, y, warm_up=warm_up)
    n_labelled = int((np.asarray(y) != UNLABELLED).sum())
    labels = fitted.transduction_
    return fitted, _record(fitted, labels, data=data, truth=truth, seconds=seconds, n_labelled=n_labelled)


class Baseline(Protocol):
    """What a run needs of a rival method."""

    n_clusters: int
    labels_: IntArray
    n_iter_: int
    objective_: float

    def fit(self, X: Any) -> object: ...

    def get_params(self) -> dict[str, Any]: ...


def run_baseline(model: Baseline, graph: Graph, *, data: str, truth: ArrayLike) -> RunRecord:
    """The record of a rival's fit on the graph, measured by the same (P) as ours.

    Parameters
    ----------
    model : Baseline
        Fitted in place. Its `random_state` is a number.
    graph : Graph
    data : str
        The name of the data set, for the record.
    truth : array-like of shape (n_vertices,)
        For the purity; the model never sees it.
    """
    settings = {name: _plain(value) for name, value in model.get_params().items()}
    seed = int(settings.pop("random_state"))
    began = time.perf_counter()
    model.fit(graph)
    seconds = time.perf_counter() - began
    partition = Problem(graph, model.n_clusters).partition(model.labels_)
    return RunRecord(
        data=data,
        method=type(model).__name__,
        settings=settings,
        seed=seed,
        n_labelled=0,
        energy=_finite(partition.energy),
        purity=purity(model.labels_, truth),
        seconds=round(seconds, 4),
        sizes=tuple(partition.sizes.tolist()),
        n_iter=int(model.n_iter_),
        status="Done.",
        measures={"objective": float(model.objective_)} if math.isfinite(model.objective_) else {},
        **circumstances(),
    )


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


def _timed_fit(model: Model, X: Any, y: ArrayLike | None, *, warm_up: bool) -> tuple[Model, float]:
    whole_number("random_state", model.random_state, least=0, otherwise=", to repeat the run by")
    if warm_up:
        _fit_briefly(clone(model), X, y)
    fitted: Model = clone(model)
    began = time.perf_counter()
    fitted.fit(X, y)
    return fitted, time.perf_counter() - began


def _fit_briefly(model: Model, X: Any, y: ArrayLike | None) -> None:
    """One iteration of one start: it runs every kernel once. Whatever it warns of, the real fit will say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=1, n_init=1, verbose=False).fit(X, y)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt


def _record(
    model: MTVClustering | MTVClassifier,
    labels: Any,
    *,
    data: str,
    truth: ArrayLike | None,
    seconds: float,
    n_labelled: int = 0,
) -> RunRecord:
    settings = model.get_params()
    seed = int(settings.pop("random_state"))
    return RunRecord(
        data=data,
        method=type(model).__name__,
        settings={name: _plain(value) for name, value in settings.items() if name != "verbose"},
        seed=seed,
        n_labelled=n_labelled,
        energy=_finite(model.energy_),
        purity=None if truth is None else purity(labels, truth),
        seconds=round(seconds, 4),
        sizes=_sizes(model, labels),
        n_iter=int(model.n_iter_),
        status=str(model.status_),
        **circumstances(),
    )


def _finite(energy: float) -> float | None:
    return float(energy) if math.isfinite(energy) else None


def _sizes(model: MTVClustering | MTVClassifier, labels: Any) -> tuple[int, ...]:
    """Points in each cluster, in the order of the memberships' columns; an empty cluster has 0."""
    names = model.classes_ if isinstance(model, MTVClassifier) else range(model.n_clusters)
    return tuple(int((labels == name).sum()) for name in names)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; a start given as a matrix by its shape alone."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    return array.tolist() if array.ndim < 2 else f"array of shape {array.shape}"
