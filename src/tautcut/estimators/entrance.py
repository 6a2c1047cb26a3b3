"""What is said and weighed as points come in: warnings of columns, copies and pieces, masses from weights. It owns no
state, and decides nothing that the user did not ask for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray
from tautcut.checks import vertex_masses, whole_number
from tautcut.errors import GraphWarning, InputError
from tautcut.graph import Graph
from tautcut.graph.columns import carriers
from tautcut.graph.diagnostics import NOTICEABLE
from tautcut.neighbors import tie_copies

_NOTHING = 1e-9  # of the mean weight: what a point of weight 0 counts
_SAMPLED_ROWS = 20_000  # from which the spread of columns is judged


def checked_smoothing(smoothing: object, otherwise: str = "") -> int | None:
    """How many neighbours a walk is to join each vertex to."""
    return None if smoothing is None else whole_number("smoothing", smoothing, otherwise=f"{otherwise} or None")


def warn_of_columns(X: Any, names: Sequence[object] | None) -> None:
    """Say so where a few columns carry nearly all distances; the estimators scale nothing."""
    found = carriers(X[:: -(-X.shape[0] // _SAMPLED_ROWS)])
    if found is not None and found.are_too_few:
        message = (
            f"{found.sentence(names)}, so the others hardly count. Scale X first, e.g. by "
            "sklearn.preprocessing.StandardScaler, unless its columns share a unit."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


def warn_of_copies(n_copied: int, n: int, k: int) -> None:
    """Say so where many points coincide with all of their neighbours."""
    if n_copied > NOTICEABLE * n:
        message = (
            f"{n_copied} of the {n} points have {k} or more duplicates: which of these are joined, and where a cut may "
            "run between them, is arbitrary. Use duplicates='merge', or raise n_neighbors above their number."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


def warn_of_pieces(graph: Graph, *, is_given: bool) -> None:
    """Say so where the graph is not connected; `is_given` where it was not made from features."""
    n_isolated = int((np.diff(graph.indptr) == 0).sum())
    n_components = graph.components()[0]
    if n_isolated:
        message = f"{n_isolated} of the {graph.n_vertices} vertices are isolated; their labels are arbitrary."
        warnings.warn(message, GraphWarning, stacklevel=4)
    if n_components - n_isolated > 1:
        beside = " beside the isolated vertices" if n_isolated else ""
        mend = "Add edges" if is_given else "Raise n_neighbors"
        message = (
            f"the graph has {n_components - n_isolated} components{beside}; no cut is needed between them. "
            f"{mend}, or cluster them apart, if that is not meant."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


def weighed(graph: Graph, kinds: IntArray | None, sample_weight: ArrayLike | None, balance: str) -> Graph:
    """The graph of all points with their masses: the graph's own, times the weights, times the degrees if asked.

    `kinds` says which vertex of the graph each point is, where copies were merged.
    """
    masses = graph.by_volume().masses if balance == "volume" else graph.masses
    if kinds is not None:
        graph, masses = tie_copies(graph, kinds), masses[kinds]
    if sample_weight is not None:
        masses = masses * _weights_of_points(sample_weight, graph.n_vertices)
    return graph if masses is graph.masses else graph.with_masses(masses)


def _weights_of_points(sample_weight: ArrayLike, n_points: int) -> FloatArray:
    """A weight for each point; that of one which is to count for nothing is too small to matter."""
    weights = np.asarray(sample_weight)
    if weights.shape == (n_points,) and weights.dtype.kind in "biuf" and (weights >= 0).all() and (weights == 0).any():
        if not weights.any():
            raise InputError(f"all {n_points} entries of sample_weight are zero. Give at least one point some weight.")
        weights = np.where(weights > 0, weights, _NOTHING * weights[weights > 0].mean())
    return vertex_masses(weights, n_points, name="sample_weight")
