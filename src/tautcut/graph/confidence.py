"""How firmly the neighbours of each vertex agree on its cluster: the certainty of a clustering, which has no truth to
be right about (decision 0026).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray, SparseMatrix
from tautcut.checks import hard_labels
from tautcut.graph import Graph


def confidence(graph: Graph, labels: ArrayLike, n_clusters: int) -> FloatArray:
    """How firmly the neighbourhood of each vertex agrees on one cluster, in [0, 1].

    The share of a vertex's weight that goes to each cluster, its own vote among them with the mean weight of its
    edges; of these shares the largest minus the second largest. An isolated vertex has 0.

    Parameters
    ----------
    graph : Graph
        The graph whose edges say who is a neighbour of whom.
    labels : array-like of int, shape (n_vertices,)
        The cluster of each vertex, in 0 … n_clusters - 1.
    n_clusters : int
        How many clusters the labels number.

    Returns
    -------
    ndarray of float64, shape (n_vertices,)

    Examples
    --------
    >>> from tautcut import Graph
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> confidence(path, [0, 0, 1, 1], 2).round(2).tolist()
    [1.0, 0.33, 0.33, 1.0]
    """
    hard = hard_labels(labels, graph.n_vertices, n_clusters)
    return margins_of_rows(graph.to_scipy(), graph.degrees, hard, n_clusters)


def margins_of_rows(W: SparseMatrix, degrees: FloatArray, labels: IntArray, n_clusters: int) -> FloatArray:
    """`confidence` of the vertices whose rows W has, which are the first of all that are labelled: W may be wider."""
    (n, width), n_neighbors = W.shape, np.diff(W.indptr)
    Y = sp.csr_matrix((np.ones(width), (np.arange(width), labels)), shape=(width, max(n_clusters, 2)))
    own = degrees / np.maximum(n_neighbors, 1)
    votes = np.asarray((W @ Y).toarray(), dtype=np.float64)
    votes[np.arange(n), labels[:n]] += own
    top = np.partition(votes, -2, axis=1)[:, -2:]
    margins = np.zeros(n)
    np.divide(top[:, 1] - top[:, 0], degrees + own, out=margins, where=n_neighbors > 0)
    return margins
