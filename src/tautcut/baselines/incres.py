"""INCRES, incremental reseeding: plant a few random seeds in every cluster, let them grow by a random walk until they
reach everywhere, harvest the new clusters, and plant more. This module owns that loop; it minimises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import FloatArray, IntArray, SparseMatrix
from tautcut.baselines.base import GraphClusterer, largest_membership
from tautcut.checks import positive_number, whole_number
from tautcut.graph import Graph

_GROWTH = 1e-4  # share of a cluster's expected size by which the seeds grow in a round, at speed 1
_MAX_PRODUCTS = 1000  # in one round; ten are usual, long chains need many
_SETTLED_SHARE = 1e-3  # a round that changes fewer labels leaves the partition as it is
_SETTLED_ROUNDS = 10  # in a row
_FULL_ROUNDS = 50  # rounds in which the seeds are the whole of the smallest cluster: they cannot grow further


@dataclass(eq=False, repr=False, kw_only=True)
class INCRES(GraphClusterer):
    """Cluster by incremental reseeding, a random process that ends when the clusters no longer change.

    Parameters
    ----------
    n_clusters, random_state
        As for `GraphClusterer`; new seeds of every cluster are drawn in each round.
    speed : float, default 5.0
        The seeds of a cluster grow by `speed` · 1e-4 · n_vertices / R in a round; 1 is slower and better, 10 is fast.
    max_iter : int, default 10000
        Rounds at most. It stops before if ten rounds in a row change fewer than one label in a thousand, or once the
        seeds have been the whole of the smallest cluster in fifty rounds: they can grow no further.

    Attributes
    ----------
    labels_ : ndarray of int64, (n_vertices,)
        The label of an isolated vertex means nothing.
    n_iter_ : int
        Rounds until it stopped.

    References
    ----------
    X. Bresson, H. Hu, T. Laurent, A. Szlam, J. von Brecht, "An incremental reseeding strategy for clustering",
    arXiv 1406.3837.

    Examples
    --------
    >>> from tautcut import Graph, purity
    >>> from tautcut.baselines import INCRES
    >>> triangles = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
    >>> purity(INCRES(n_clusters=2, random_state=0).fit_predict(triangles), [0, 0, 0, 1, 1, 1])
    1.0
    """

    speed: float = 5.0
    max_iter: int = 10_000

    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        max_iter = whole_number("max_iter", self.max_iter)
        growth = positive_number("speed", self.speed) * _GROWTH * graph.n_vertices / n_clusters
        self.labels_ = rng.integers(n_clusters, size=graph.n_vertices)
        self.n_iter_ = 0
        has_edge = graph.degrees > 0  # what is planted on an isolated vertex never leaves it
        if has_edge.sum() < n_clusters:
            return
        walk = walk_matrix(graph)[has_edge][:, has_edge]
        labels, self.n_iter_ = reseed(walk, self.labels_[has_edge], n_clusters, growth, max_iter, rng=rng)
        self.labels_[has_edge] = labels


def reseed(
    walk: SparseMatrix, labels: IntArray, n_clusters: int, growth: float, max_iter: int, *, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """The labels after the last round, and the number of rounds; there are `growth` more seeds in each."""
    n_seeds, n_settled, n_full, n_rounds = 1.0, 0, 0, 0
    while n_rounds < max_iter and n_settled < _SETTLED_ROUNDS and n_full < _FULL_ROUNDS:
        labels = without_empty(labels, n_clusters, rng=rng)
        smallest = np.bincount(labels).min()
        n_full += int(n_seeds >= smallest)
        n_seeds = min(n_seeds, float(smallest))
        harvest = grow(walk, plant(labels, n_clusters, max(1, round(n_seeds)), rng=rng), labels)
        n_settled = n_settled + 1 if (harvest != labels).mean() < _SETTLED_SHARE else 0
        labels = harvest
        n_seeds += growth
        n_rounds += 1
    return labels, n_rounds


def walk_matrix(graph: Graph) -> SparseMatrix:
    """W D⁻¹, one step of the random walk; the column of an isolated vertex is zero."""
    degrees = graph.degrees
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    return sp.csr_matrix(graph.to_scipy() @ sp.diags(inverse))


def plant(labels: IntArray, n_clusters: int, n_seeds: int, *, rng: np.random.Generator) -> FloatArray:
    """F_ir = 1 at `n_seeds` vertices of each cluster r, drawn without replacement, and 0 elsewhere."""
    shuffled = rng.permutation(labels.size)
    by_cluster = shuffled[np.argsort(labels[shuffled], kind="stable")]
    first = np.searchsorted(labels[by_cluster], np.arange(n_clusters))
    seeds = by_cluster[first[:, None] + np.arange(n_seeds)]
    F = np.zeros((labels.size, n_clusters))
    F[seeds, np.arange(n_clusters)[:, None]] = 1.0
    return F


def grow(walk: SparseMatrix, F: FloatArray, labels: IntArray) -> IntArray:
    """Walk until every cluster has reached every vertex, and give each vertex to the cluster with most.

    After t steps an entry is positive if a walk of exactly t edges leads there from a seed, so every second support
    contains the one before. Once two such are equal nothing new will be reached: the graph is disconnected, or
    bipartite. Then the last two steps are added, and a vertex that nothing reaches keeps its label.
    """
    counts = [-1, -1]
    for _ in range(_MAX_PRODUCTS):
        previous, F = F, np.asarray(walk @ F)
        counts.append(int(np.count_nonzero(F)))
        if counts[-1] == F.size:
            return largest_membership(F)
        if counts[-1] == counts[-3]:
            break
    F = F + previous
    return np.where(F.any(axis=1), largest_membership(F), labels)


def without_empty(labels: IntArray, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
    """The labels, after each empty cluster is given a random vertex of a cluster that has several."""
    sizes = np.bincount(labels, minlength=n_clusters)
    labels = labels.copy()
    for r in np.flatnonzero(sizes == 0):
        vertex = rng.choice(np.flatnonzero(sizes[labels] > 1))
        sizes[labels[vertex]] -= 1
        labels[vertex], sizes[r] = r, 1
    return labels
