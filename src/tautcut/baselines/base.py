"""What every baseline shares: the scikit-learn skin around a method that takes a graph, and the start of the two
factorisation methods. No algorithm lives here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin

from tautcut.arrays import FloatArray, IntArray, RealArray
from tautcut.checks import RandomState, generator
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.laplacian import normalised_cut
from tautcut.problem import Problem

_START_OFFSET = 0.2  # a zero would stay zero under multiplicative updates


@dataclass(eq=False, repr=False)
class GraphClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator whose X is the graph; a method declares its knobs as fields and writes `_cluster`.

    Parameters
    ----------
    n_clusters : int, default 8
        How many clusters to look for, R.
    random_state : int, Generator, RandomState or None
        Seeds whatever the method draws; a number always gives the same answer.

    Attributes
    ----------
    labels_ : ndarray of int64, (n_vertices,)
        The cluster of each vertex, in 0 … R − 1.
    """

    n_clusters: int = 8
    _: KW_ONLY
    random_state: RandomState = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the vertices of X, anything that `Graph.from_any` takes; y is ignored."""
        graph = Graph.from_any(X)
        R = Problem(graph, self.n_clusters).n_clusters  # refuses a bad number of clusters
        self._cluster(graph, R, generator(self.random_state))
        self.n_features_in_ = graph.n_vertices
        return self

    @abstractmethod
    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        """Sets `labels_` and the method's other results."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = True
        return tags


def starting_memberships(
    init: ArrayLike | None, graph: Graph, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """A copy of `init`, or where it is None the indicator of the normalised cut plus 0.2, shape (n_vertices, R)."""
    if init is None:
        labels = normalised_cut(graph, n_clusters, rng=rng)
        return indicator(labels, n_clusters) + _START_OFFSET
    try:
        F = np.array(init, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"init must be None or an array of numbers; found {init!r}.") from error
    shape = (graph.n_vertices, n_clusters)
    if F.shape != shape:
        raise InputError(f"init must have shape {shape} (vertices, clusters); found {F.shape}.")
    is_bad = ~(np.isfinite(F) & (F >= 0))
    if is_bad.any():
        raise InputError(f"init must be finite and ≥ 0; found {F[is_bad][0]}. Clip it.")
    if not F.any(axis=1).all():
        row = int(np.flatnonzero(~F.any(axis=1))[0])
        raise InputError(f"row {row} of init is zero, and would stay so. Add 0.2 to init.")
    return F


def indicator(labels: IntArray, n_clusters: int) -> FloatArray:
    """F_ir = 1 where vertex i has label r, else 0; empty clusters keep their column."""
    return np.eye(n_clusters)[labels]


def largest_membership(F: RealArray) -> IntArray:
    """The column of the largest entry of each row; the first of them where several are equal."""
    return np.asarray(F.argmax(axis=1), dtype=np.int64)
