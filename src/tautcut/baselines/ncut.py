"""The normalised cut as an estimator: the start of most methods, and a baseline of its own. The work is done in
`tautcut.graph.laplacian`; only the objective is added here.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import IntArray
from tautcut.baselines.base import GraphClusterer
from tautcut.graph import Graph
from tautcut.graph.laplacian import normalised_cut
from tautcut.problem import cuts


class NormalisedCut(GraphClusterer):
    """Cluster by the R leading eigenvectors of the normalised graph, discretised by Yu and Shi's rotation.

    Parameters
    ----------
    n_clusters, random_state
        As for `GraphClusterer`; the first row of the rotation is drawn.

    Attributes
    ----------
    labels_ : ndarray of int64, (n_vertices,)
        A cluster may be empty.
    objective_ : float
        Σ_r Cut(A_r) / vol(A_r), in [0, R]; an empty cluster adds nothing.

    References
    ----------
    S. X. Yu and J. Shi, "Multiclass spectral clustering", ICCV 2003.

    Examples
    --------
    >>> from tautcut import Graph
    >>> from tautcut.baselines import NormalisedCut
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    >>> model = NormalisedCut(n_clusters=2, random_state=0).fit(path)
    >>> model.objective_
    0.4
    """

    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        self.labels_ = normalised_cut(graph, n_clusters, rng=rng)
        self.objective_ = normalised_cut_value(graph, self.labels_, n_clusters)


def normalised_cut_value(graph: Graph, labels: IntArray, n_clusters: int) -> float:
    """Σ_r Cut(A_r) / vol(A_r), vol(A) = Σ_{i∈A} d_i, over the clusters that have an edge."""
    volume = np.bincount(labels, graph.degrees, n_clusters)
    cut = cuts(graph, labels, n_clusters)
    return float(np.divide(cut, volume, out=np.zeros(n_clusters), where=volume > 0).sum())
