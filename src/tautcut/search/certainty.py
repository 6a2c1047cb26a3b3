"""How sure a classification is: the chance that each label is right, from what its neighbourhood and the given labels
say of it, on a scale that was fitted once on data sets of known truth. And how far the neighbours of a labelled point
bear its label out. Nothing here changes a label.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from tautcut.arrays import FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph
from tautcut.search.starts import indicator

# The log-odds of a right label are these times `features`, fitted by benchmarks/labels.py (decision 0026).
SCALE = (0.55, 0.69, 1.315, 2.766, 0.282, -0.349, 0.136, -4.055)
_FLOOR = 0.02  # added to shares before their ratio is taken


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
