"""From features to a graph: each point joined to its nearest, by edges whose weights follow from their lengths. This
module owns the formulas of the weights and the symmetric graph, and says how its neighbours were found. How they are
found it leaves to `search`.
"""

from __future__ import annotations

import logging
import warnings as python_warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Features, FloatArray, IndexArray, IntArray
from tautcut.checks import neighbor_count, one_of
from tautcut.errors import GraphWarning
from tautcut.graph import Graph
from tautcut.memory import for_work, foresee
from tautcut.neighbors.features import METRICS, Metric, comparable, distances_of, distinct_rows, features_of
from tautcut.neighbors.search import LOW_RECALL, METHODS, Method, NeighborReport, OnStep, in_parts, own_neighbors

Weights: TypeAlias = Literal["binary", "self-tuning", "gaussian"]
Duplicates: TypeAlias = Literal["keep", "merge"]
Finder: TypeAlias = Callable[..., tuple[IndexArray, FloatArray, float, int]]

WEIGHTS: tuple[Weights, ...] = get_args(Weights)
DUPLICATES: tuple[Duplicates, ...] = get_args(Duplicates)
# A weight below this would vanish in single precision, and its edge with it.
SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)
# What the search takes at its peak: four copies of the points in single precision, or of sparse ones by rows and by
# columns; and the lists that become a graph.
_BYTES_PER_COORDINATE = 17
_BYTES_PER_ENTRY = 28
_BYTES_PER_NEIGHBOR = 80
_FEW_LISTED = 500_000  # neighbours, up to which SciPy joins their lists as fast as compiled loops (decision 0063)
_PASSES = 16  # over all lists, each for a part of the points that still fits the cache

logger = logging.getLogger(__name__)


def knn_graph(
    X: object,
    n_neighbors: int = 10,
    *,
    metric: Metric = "euclidean",
    weights: Weights = "binary",
    method: Method = "auto",
    duplicates: Duplicates = "keep",
    random_state: int | np.random.Generator | None = None,
) -> Graph:
    """The k-nearest-neighbour graph of the rows of X, symmetrised by maximum.

    Vertices i and j are joined if i is among the k nearest of j, or j among those of i. A point is never its
    own neighbour, and copies of a point are as many distinct neighbours, unless they are merged.

    Parameters
    ----------
    X : array-like, data frame or scipy sparse matrix, shape (n_points, n_features)
        The points, a row of finite numbers each.
    n_neighbors : int
        How many nearest points each one is joined to: k, from 1 to n_points - 1.
    metric : {"euclidean", "cosine"}
        The distance d by which points are near; "cosine" is 1 - cos, and refuses zero rows.
    weights : {"binary", "self-tuning", "gaussian"}
        How much each edge counts: w_ij = 1; exp(-d_ij² / (s_i s_j)), where s_i is the distance of i to its 7th
        neighbour (its k-th if k < 7) [1]_; or exp(-d_ij² / s²), where s² is 3 times the squared mean distance to
        the k-th one.
    method : {"auto", "exact", "approximate"}
        How neighbours are found. "approximate", for dense X, looks at as many of the points nearby as a sample says
        are enough to find at least 98 % of them (decision 0052); the recall is estimated and logged, and warned of
        below 0.95. "auto" is exact up to 20,000 points, where X is sparse, and where that costs about as much; which
        one it took is logged. `neighbor_graph` returns both the graph and how its neighbours were found.
    duplicates : {"keep", "merge"}
        What becomes of rows that are equal. "merge" makes one vertex of them, before neighbours are searched, whose
        mass is their number; vertices are then the distinct rows, in the order of their first appearance. Where more
        than k points coincide, "keep" joins them to one another alone, and the graph falls apart.
    random_state : int, Generator or None
        Seeds the approximate search; the exact one has no randomness.

    References
    ----------
    .. [1] Zelnik-Manor, L. & Perona, P. (2004). Self-tuning spectral clustering.

    Examples
    --------
    >>> knn_graph([[0.0], [1.0], [3.0], [7.0]], 1)
    Graph(n_vertices=4, n_edges=3)
    """
    asked = {"metric": metric, "weights": weights, "method": method, "random_state": random_state}
    if one_of("duplicates", duplicates, DUPLICATES) == "keep":
        return neighbor_graph(X, n_neighbors, **asked)[0]  # type: ignore[arg-type]
    points = features_of(X, "X")
    first, kinds = distinct_rows(points)
    graph, _ = neighbor_graph(points[first], n_neighbors, **asked)  # type: ignore[arg-type]
    return graph.with_masses(np.bincount(kinds))


def affordable_neighbors(n_neighbors: int, n_points: int, *, stacklevel: int = 4) -> int:
    """n_neighbors, or all other points where there are fewer, with a warning."""
    if isinstance(n_neighbors, int | np.integer) and n_neighbors >= n_points > 1:
        message = f"n_neighbors={n_neighbors} is more than the other {n_points - 1} points; all of them are used."
        python_warnings.warn(message, GraphWarning, stacklevel=stacklevel)
        return n_points - 1
    return n_neighbors


def neighbor_graph(
    X: object,
    n_neighbors: int = 10,
    *,
    metric: Metric = "euclidean",
    weights: Weights = "binary",
    method: Method = "auto",
    random_state: int | np.random.Generator | None = None,
    progress: OnStep | None = None,
    finder: Finder | None = None,
) -> tuple[Graph, NeighborReport]:
    """The graph that `knn_graph` gives, and how its neighbours were found.

    Parameters
    ----------
    X, n_neighbors, metric, weights, method, random_state
        As in `knn_graph`.
    progress : callable, optional
        Called with the steps done and their total, as the search goes on.
    finder : callable, optional
        Another search for dense points: (points, k, is_exact=) → indices and squared distances, nearest first, its
        recall and the number of points on which that was estimated, 1 and 0 if it is exact. It is taken unless
        `method` is "approximate".

    Examples
    --------
    >>> print(neighbor_graph([[0.0], [1.0], [3.0], [7.0]], 1)[1])
    1 nearest neighbours of 4 points in 1 dimensions, by exact search.
    """
    one_of("metric", metric, METRICS)
    one_of("weights", weights, WEIGHTS)
    one_of("method", method, METHODS)
    points = features_of(X, "X")
    k = neighbor_count(n_neighbors, points.shape[0], most=points.shape[0] - 1)
    _foresee_neighbors(points, k, metric)
    points, _ = comparable(points, metric)
    if finder is not None and method != "approximate" and isinstance(points, np.ndarray):
        indices, squared, recall, n_sampled = finder(points, k, is_exact=method == "exact")
        how: Literal["exact", "approximate"] = "approximate" if n_sampled else "exact"
        report = NeighborReport(points.shape[0], points.shape[1], k, how, recall, n_sampled)
    else:
        (indices, squared), report = own_neighbors(points, k, method, random_state=random_state, progress=progress)
    logger.info("knn_graph: %s", report)
    if report.recall < LOW_RECALL:
        message = (
            f"the approximate search finds {report.recall:.0%} of the nearest neighbours, estimated on "
            f"{report.n_sampled} points. Use method='exact', or reduce the {report.n_features} dimensions first."
        )
        python_warnings.warn(message, GraphWarning, stacklevel=3)
    report = replace(report, n_copied=int((squared[:, -1] == 0).sum()))
    # Lengths in the unit of the points: weights follow from their ratios alone, and none overflows.
    listed = edge_weights(indices, distances_of(squared, 1.0, metric), weights)
    return _joined(indices, listed), report


def _joined(indices: IndexArray, weights: FloatArray) -> Graph:
    """The graph of these lists: an edge where either end lists the other, of the larger weight if both do."""
    from tautcut.kernels.cpu import compiling

    n, k = indices.shape
    if n * k <= _FEW_LISTED or not compiling.is_available():  # as beside a GPU, where it may not be installed
        directed = sp.csr_matrix((weights.ravel(), indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
        return Graph.from_any(directed.maximum(directed.T))
    from tautcut.kernels.cpu import neighbors as kernels

    lists, weights, nothing = indices.astype(np.int32), weights.copy(), (np.empty(0, np.int32), np.empty(0))
    in_parts(kernels.order_lists, n, lists, weights)
    ends, who, how_much = np.zeros(n, np.int64), np.empty(n * k, np.int32), np.empty(n * k)
    in_parts(kernels.turn_lists, n, lists, weights, ends, *nothing, parts=_PASSES)
    ends = np.cumsum(ends) - ends
    in_parts(kernels.turn_lists, n, lists, weights, ends, who, how_much, parts=_PASSES)
    indptr, turned = np.zeros(n + 1, np.int64), (ends, who, how_much)
    in_parts(kernels.join_lists, n, lists, weights, *turned, indptr, *nothing)
    indptr = np.cumsum(indptr)
    columns, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    in_parts(kernels.join_lists, n, lists, weights, *turned, indptr, columns, values)
    return Graph(indptr, columns, values)


def tie_copies(graph: Graph, kinds: IntArray) -> Graph:
    """The graph of all points, from that of the distinct ones: each further copy is tied to the first one alone.

    Contracted along the kinds it is the graph of the distinct points again. A tie weighs 1, as edges of no length do.
    """
    first = np.full(graph.n_vertices, -1, dtype=np.int64)
    first[kinds[::-1]] = np.arange(kinds.size)[::-1]
    copies = np.flatnonzero(first[kinds] != np.arange(kinds.size))
    W = graph.to_scipy().tocoo()
    rows = np.concatenate([first[W.row], copies, first[kinds[copies]]])
    columns = np.concatenate([first[W.col], first[kinds[copies]], copies])
    data = np.concatenate([W.data, np.ones(2 * copies.size)])
    return Graph.from_any(sp.csr_matrix((data, (rows, columns)), shape=(kinds.size, kinds.size)))


def _foresee_neighbors(points: Features, k: int, metric: Metric) -> None:
    n, d = points.shape
    if isinstance(points, np.ndarray):
        n_numbers, n_bytes = points.size, _BYTES_PER_COORDINATE
    else:
        n_numbers, n_bytes = points.nnz, _BYTES_PER_ENTRY
    copies = n_numbers * (n_bytes + (8 if metric == "cosine" else 0))
    foresee(
        copies + n * k * _BYTES_PER_NEIGHBOR, for_work(), f"The {k} nearest of {n:,} points in {d:,} dimensions",
        "Reduce the dimensions first, take a sample, or use a machine with more.",
    )  # fmt: skip


def edge_weights(indices: IndexArray, distances: FloatArray, weights: Weights) -> FloatArray:
    """The weights in (0, 1] of each point's edges to its k neighbours, nearest first, shape (n_points, k)."""
    if weights == "binary":
        return np.ones_like(distances)
    if weights == "gaussian":
        scale = np.sqrt(3.0) * distances[:, -1].mean() or 1.0  # zero only if every distance is
        exponent = np.square(distances / scale)
    else:
        local = _local_scales(distances)
        with np.errstate(over="ignore"):
            exponent = (distances / local[:, None]) * (distances / local[indices])
    return np.maximum(np.exp(-exponent), SMALLEST_WEIGHT)


def _local_scales(distances: FloatArray) -> FloatArray:
    """s_i: the distance to the 7th neighbour, or to the first one apart if those seven are copies of i."""
    scales = distances[:, min(7, distances.shape[1]) - 1]
    apart = np.where(distances > 0, distances, np.inf).min(axis=1)
    scales = np.where(scales > 0, scales, apart)
    finite = scales[np.isfinite(scales)]
    return np.where(np.isfinite(scales), scales, finite.min() if finite.size else 1.0)
