"""How sure a classification is: the chance that each label is right, from what its neighbourhood and the given labels
say of it, on a scale that was fitted once on data sets of known truth. From these the accuracy of the whole is
estimated, with an interval. And how far the neighbours of a labelled point bear its label out. Nothing here changes a
label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import betaincinv, expit

from tautcut.algorithm.results import Result
from tautcut.arrays import FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph
from tautcut.search.starts import indicator

# The log-odds of a right label are these times `features`, fitted by benchmarks/labels.py (decision 0026).
SCALE = (0.55, 0.69, 1.315, 2.766, 0.282, -0.349, 0.136, -4.055)
CHANCES_WORTH = 5.0  # checked points that the mean chance of all labels is worth (decision 0051),
HELD_BACK_WORTH = 0.4  # and a label that was held back: the fits that guess these share most of the others
SURE = 0.9  # chance that the interval holds the accuracy
_FLOOR = 0.02  # added to shares before their ratio is taken


@dataclass(frozen=True)
class AccuracyEstimate:
    """The share of the points without a given label whose label is right: the estimate, and a 90 % interval.

    `n_checked` counts the points whose label was guessed before it was given, if there were any to go by.
    """

    value: float
    low: float
    high: float
    n_checked: int = 0

    def __str__(self) -> str:
        return (
            f"{self.value:.0%} of the other points are right ({SURE:.0%} interval: {self.low:.0%} to {self.high:.0%})"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high, "n_checked": self.n_checked}


def estimated_accuracy(result: Result, *, n_right: int = 0, n_wrong: int = 0, worth: float = 1.0) -> AccuracyEstimate:
    """How many of the points without a given label are labelled rightly, without any truth.

    `n_right` and `n_wrong` count points that were guessed before their label was given, or as if it had not been; a
    point drawn at random is worth 1. With the mean chance p of the labels, which is worth ν = 5, the accuracy follows
    Beta(ν p + worth · right, ν (1 − p) + worth · wrong).
    """
    is_open = ~result.problem.is_labelled
    if not is_open.any():
        return AccuracyEstimate(1.0, 1.0, 1.0, n_right + n_wrong)
    chance = float(np.clip(result.confidence[is_open].mean(), 1e-6, 1 - 1e-6))
    a, b = CHANCES_WORTH * chance + worth * n_right, CHANCES_WORTH * (1.0 - chance) + worth * n_wrong
    low, high = betaincinv(a, b, (1 - SURE) / 2), betaincinv(a, b, (1 + SURE) / 2)
    return AccuracyEstimate(float(a / (a + b)), float(low), float(high), n_right + n_wrong)


def held_back(given: IntArray, groups: IntArray | None, n_folds: int) -> Iterator[IntArray]:
    """The labels without a part of them, once for each part; a class keeps a label, and a group loses all or none.

    The only label of a class is never held back, so no guess of it is asked for.
    """
    n_classes = int(given.max()) + 1
    of_group = np.arange(given.size) if groups is None else groups
    known = np.flatnonzero(given >= 0)
    firsts = known[np.unique(of_group[known], return_index=True)[1]]
    fold = np.full(int(of_group.max()) + 1, -1)
    for r in range(n_classes):
        members = firsts[given[firsts] == r]
        if members.size > 1:
            fold[of_group[members]] = np.arange(members.size) % n_folds
    for part in range(n_folds):
        is_held = (fold[of_group] == part) & (given >= 0)
        if is_held.any():
            yield np.where(is_held, -1, given)


def class_probabilities(
    graph: Graph, labels: IntArray, given: IntArray, evidence: FloatArray, *, is_even: bool
) -> FloatArray:
    """The chance of each class at each vertex, of shape (n_vertices, n_classes); the largest is that of its label.

    `labels` are those of the classification, `given` the ones it began with (−1 where unknown), `evidence` is how these
    spread, ≥ 0, and `is_even` whether the classes were expected to be of equal size. A given label has all of its row.
    """
    rows, around = _measured(graph, labels, given, evidence, is_even=is_even)
    certainty = np.where(given >= 0, 1.0, expit(rows @ np.array(SCALE)))
    others = _shares(np.where(indicator(labels, evidence.shape[1]) > 0, 0.0, around + _shares(evidence)))
    return _with_largest(certainty, labels, others)


def features(graph: Graph, labels: IntArray, given: IntArray, evidence: FloatArray, *, is_even: bool) -> FloatArray:
    """What the certainty of each label is estimated from, a row for each vertex; arguments as above.

    How the label stands against the next best class two steps around the vertex, and in the evidence; on how much of
    the neighbourhood the two agree; and of the whole run, the edge weight inside the classes, the labels per class, and
    whether the classes are expected to be uneven.
    """
    return _measured(graph, labels, given, evidence, is_even=is_even)[0]


def labels_per_class(given: IntArray, n_classes: int) -> float:
    """How many labels a class has: the harmonic mean, which the class with the fewest decides most."""
    return float(n_classes / (1.0 / np.bincount(given[given >= 0], minlength=n_classes)).sum())


def label_quality(graph: Graph, labels: IntArray, given: IntArray) -> FloatArray:
    """The share of the edge weight of each labelled vertex that goes to its own class; NaN where no label is given."""
    same = np.asarray(_walk(graph) @ indicator(labels, int(labels.max()) + 1))[np.arange(labels.size), labels]
    return np.where((given >= 0) & (graph.degrees > 0), same, np.nan)


def _with_largest(certainty: FloatArray, labels: IntArray, others: FloatArray) -> FloatArray:
    """Rows with `certainty` at the label and the rest divided as in `others`, evened out where one would exceed it."""
    n, R = others.shape
    if R == 1:
        return np.ones((n, 1))
    certainty = np.maximum(certainty, (1.0 + 1e-6) / R)
    even = np.where(indicator(labels, R) > 0, 0.0, 1.0 / (R - 1))
    rest = 1.0 - certainty
    room, wish = certainty - rest / (R - 1), rest * (others.max(axis=1) - 1.0 / (R - 1))
    kept = np.minimum(1.0, np.divide(0.999 * room, wish, out=np.ones(n), where=wish > 0))[:, None]
    rows = rest[:, None] * (kept * others + (1.0 - kept) * even)
    rows[np.arange(n), labels] = certainty
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _measured(
    graph: Graph, labels: IntArray, given: IntArray, evidence: FloatArray, *, is_even: bool
) -> tuple[FloatArray, FloatArray]:
    """The features, and the shares of the classes two steps of a random walk away from each vertex."""
    n, R = evidence.shape
    walk = _walk(graph)
    beside = np.asarray(walk @ indicator(labels, R))
    around = np.asarray(walk @ beside)
    agreement = np.asarray(walk @ (evidence.argmax(axis=1) == labels).astype(np.float64))
    inside, per_class = beside[np.arange(n), labels].mean(), float(np.log(labels_per_class(given, R)))
    of_run = (inside, per_class, float(not is_even), float(not is_even) * per_class, 1.0)
    local = (_log_ratio(around, labels), _log_ratio(_shares(evidence), labels), agreement)
    return np.column_stack([*local, *(np.full(n, value) for value in of_run)]), around


def _walk(graph: Graph) -> SparseMatrix:
    """D⁻¹ W; the row of an isolated vertex is zero."""
    scaled, _ = graph.in_mean_weights()  # degrees of the smallest numbers there are have no inverse
    inverse = np.divide(1.0, scaled.degrees, out=np.zeros_like(scaled.degrees), where=scaled.degrees > 0)
    return sp.csr_matrix(sp.diags(inverse) @ scaled.to_scipy())


def _shares(rows: FloatArray) -> FloatArray:
    """Rows that sum to one; equal shares where there is nothing."""
    total = rows.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(rows, total, out=np.full_like(rows, 1.0 / rows.shape[1]), where=total > 0))


def _log_ratio(shares: FloatArray, labels: IntArray) -> FloatArray:
    """The logarithm of each label's share over the largest of the others."""
    own = shares[np.arange(labels.size), labels]
    rivals = np.where(indicator(labels, shares.shape[1]) > 0, 0.0, shares).max(axis=1)
    return np.asarray(np.log((own + _FLOOR) / (rivals + _FLOOR)))
