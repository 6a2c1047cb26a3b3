"""From features to the k-nearest-neighbour graph. This module owns the neighbour search, exact or
approximate, on dense and on sparse features, and the edge weights that follow from distances. Neighbours are
ranked by (distance, index) with distances recomputed in double precision, so that ties, duplicates and large
offsets have one answer; an approximate search may miss neighbours, not misrank them. It never sees labels.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tautcut.errors import EngineUnavailableError, InputError
from tautcut.graph import Graph

Metric: TypeAlias = Literal["euclidean", "cosine"]
Weights: TypeAlias = Literal["binary", "self-tuning", "gaussian"]
Method: TypeAlias = Literal["auto", "exact", "approximate"]
Features: TypeAlias = "NDArray[np.float64] | sp.csr_matrix[np.float64]"
Pairs: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
Neighbours: TypeAlias = tuple[NDArray[np.intp], NDArray[np.float64]]

METRICS = ("euclidean", "cosine")
WEIGHTS = ("binary", "self-tuning", "gaussian")
METHODS = ("auto", "exact", "approximate")

# Exact search costs about n² (d + 128): the product, and the selection that a small d makes no cheaper.
# This much of it takes about a minute on two cores.
EXACT_BUDGET = 3e12
SELECTION_COST = 128
# Distances held at once: few enough for the cache if that leaves 128 rows, else for memory.
CACHED_ENTRIES, BLOCK_ROWS, BLOCK_ENTRIES = 2**21, 128, 2**26
PAIR_ENTRIES = 2**20
# A weight below this would vanish in single precision, and its edge with it.
SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)

logger = logging.getLogger(__name__)


def knn_graph(
    X: object,
    n_neighbors: int = 10,
    *,
    metric: Metric = "euclidean",
    weights: Weights = "binary",
    method: Method = "auto",
    random_state: int | np.random.Generator | None = None,
) -> Graph:
    """The k-nearest-neighbour graph of the rows of X, symmetrised by maximum.

    Vertices i and j are joined if i is among the k nearest of j, or j among those of i. A point is never its
    own neighbour, and copies of a point are as many distinct neighbours.

    Parameters
    ----------
    X : array-like, data frame or scipy sparse matrix, shape (n_points, n_features)
        Finite numbers.
    n_neighbors : int
        k, from 1 to n_points - 1.
    metric : {"euclidean", "cosine"}
        The distance d; "cosine" is 1 - cos, and refuses zero rows.
    weights : {"binary", "self-tuning", "gaussian"}
        w_ij = 1; exp(-d_ij² / (s_i s_j)), where s_i is the distance of i to its 7th neighbour (its k-th if
        k < 7) [1]_; or exp(-d_ij² / s²), where s² is 3 times the squared mean distance to the k-th one.
    method : {"auto", "exact", "approximate"}
        "approximate" is an HNSW index of faiss, for dense X. "auto" is exact while that takes about a
        minute or less, or when X is sparse or faiss is not installed; which one it took is logged.
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
    _check_choice("metric", metric, METRICS)
    _check_choice("weights", weights, WEIGHTS)
    _check_choice("method", method, METHODS)
    points = _features(X, "X")
    k = _neighbour_count(n_neighbors, points.shape[0] - 1, points.shape[0])
    points, unit = _comparable(points, metric)
    if _is_approximate(method, points):
        indices, squared = _approximate_neighbours(points, k, rng=np.random.default_rng(random_state))
    else:
        indices, squared = _exact_neighbours(points, None, k)
    return _graph(indices, edge_weights(indices, _distances(squared, unit, metric), weights))


def nearest(X_train: object, X_new: object, n_neighbors: int, *, metric: Metric = "euclidean") -> Neighbours:
    """The nearest rows of X_train to each row of X_new, found exactly, nearest first.

    Returns
    -------
    indices : ndarray of intp, shape (n_new, n_neighbors)
        Rows of `X_train`; ties go to the lower row.
    distances : ndarray of float64, shape (n_new, n_neighbors)

    Examples
    --------
    >>> nearest([[0.0], [1.0], [3.0]], [[0.9]], 2)[0]
    array([[1, 0]])
    """
    _check_choice("metric", metric, METRICS)
    points, queries = _features(X_train, "X_train"), _features(X_new, "X_new")
    if points.shape[1] != queries.shape[1]:
        raise InputError(
            f"X_new has {queries.shape[1]} features but X_train has {points.shape[1]}. Give the same ones."
        )
    n = points.shape[0]
    k = _neighbour_count(n_neighbors, n, n)
    both, unit = _comparable(_stacked(points, queries), metric)
    indices, squared = _exact_neighbours(both[:n], both[n:], k)
    return indices, _distances(squared, unit, metric)


def edge_weights(indices: NDArray[np.intp], distances: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
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


def _local_scales(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """s_i: the distance to the 7th neighbour, or to the first one apart if those seven are copies of i."""
    scales = distances[:, min(7, distances.shape[1]) - 1]
    apart = np.where(distances > 0, distances, np.inf).min(axis=1)
    scales = np.where(scales > 0, scales, apart)
    finite = scales[np.isfinite(scales)]
    return np.where(np.isfinite(scales), scales, finite.min() if finite.size else 1.0)


def _graph(indices: NDArray[np.intp], weights: NDArray[np.float64]) -> Graph:
    """The graph of directed neighbour lists, symmetrised by maximum."""
    n, k = indices.shape
    directed = sp.csr_matrix((weights.ravel(), indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return Graph.from_any(directed.maximum(directed.T))


def _is_approximate(method: Method, points: Features) -> bool:
    """Whether to search approximately; what "auto" decides is logged."""
    if method == "approximate" and sp.issparse(points):
        raise InputError("method='approximate' needs dense features; found a sparse X. Use method='exact'.")
    if method != "auto":
        return method == "approximate"
    n, d = points.shape
    approximate = not sp.issparse(points) and n * n * (d + SELECTION_COST) > EXACT_BUDGET and _has_faiss()
    logger.info("knn_graph: %s search of %d × %d", "approximate" if approximate else "exact", n, d)
    return approximate


def _exact_neighbours(points: Features, queries: Features | None, k: int) -> Neighbours:
    """The k nearest points of each query and their squared distances, ranked by (distance, index).

    Without queries the points themselves are asked, and none is its own neighbour. Candidates are found in
    single precision, and again in double precision where rounding leaves too many of them.
    """
    asked = points if queries is None else queries
    indices = np.empty((asked.shape[0], k), dtype=np.intp)
    squared = np.empty((asked.shape[0], k))
    rows = np.arange(asked.shape[0])
    if not sp.issparse(points):
        rows = _settle(_Search.in_precision(np.float32, points, queries), rows, indices, squared)
    if rows.size:
        _settle(_Search.in_precision(np.float64, points, queries), rows, indices, squared)
    return indices, squared


def _settle(
    search: _Search, rows: NDArray[np.intp], indices: NDArray[np.intp], squared: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Find the neighbours of `rows`; overwrites those rows of `indices` and `squared`.

    Returns the rows left over, whose candidates single precision cannot tell apart.
    """
    n, k = search.point_norms.size, indices.shape[1]
    size = min(max(BLOCK_ROWS, CACHED_ENTRIES // n), BLOCK_ENTRIES // n)
    left = [rows[:0]]
    for block in _blocks(rows, size):
        owner, candidate = search.candidates(block, k)
        clear = np.bincount(owner) <= (2 * k + 32 if search.is_single else n)
        left.append(block[~clear])
        kept = clear[owner]
        owner, candidate = (np.cumsum(clear) - 1)[owner[kept]], candidate[kept]
        block = block[clear]
        indices[block], squared[block] = _rank(search.points, search.asked[block], owner, candidate, k)
    return np.concatenate(left)


@dataclass(frozen=True)
class _Search:
    """Brute-force search on centred copies of the features, in single or double precision."""

    points: Features
    asked: Features
    is_self: bool  # the points are asked about themselves
    points_t: Any  # the copy of the points, transposed
    queries: Any  # the copy of the asked rows, times -2
    point_norms: NDArray[Any]
    query_norms: NDArray[Any]

    @classmethod
    def in_precision(cls, dtype: type[np.floating[Any]], points: Features, queries: Features | None) -> _Search:
        """The search with copies of points and queries in that precision; sparse ones stay double."""
        asked = points if queries is None else queries
        p, q = _centred(points, queries, dtype)
        points_t = p.T if isinstance(p, np.ndarray) else p.T.tocsr()
        return cls(points, asked, queries is None, points_t, -2 * q, _norms(p), _norms(q))

    @property
    def is_single(self) -> bool:
        """Whether the copies are in single precision."""
        return bool(self.point_norms.dtype == np.float32)

    def candidates(self, rows: NDArray[np.intp], k: int) -> Pairs:
        """The pairs (place of x in `rows`, point y) such that y may be among the k nearest of x.

        Ties are included, and pairs are in order. Points compare by ‖y‖² - 2⟨x, y⟩ = ‖x - y‖² - ‖x‖².
        """
        product = self.queries[rows] @ self.points_t
        score = product if isinstance(product, np.ndarray) else product.toarray()
        score += self.point_norms
        if self.is_self:
            score[np.arange(rows.size), rows] = np.inf
        kth = _kth_at_most(score, k)
        # ‖y‖² ≤ 2‖x‖² + 2‖x - y‖², so ‖x‖² and the distance bound the rounding error.
        error = 8 * np.finfo(kth.dtype).eps * np.sqrt(self.points_t.shape[0])
        limit = kth + error * (2 * self.query_norms[rows] + np.abs(kth))
        near = score <= limit[:, None].astype(kth.dtype)
        owner, candidate = np.divmod(np.flatnonzero(near), score.shape[1])
        return owner, candidate


def _kth_at_most(score: NDArray[Any], k: int) -> NDArray[Any]:
    """A close upper bound of the k-th smallest entry of each row.

    The k-th smallest of the minima of many groups is never below it, and cheaper than a full selection.
    """
    rows, n = score.shape
    groups = 64 * k
    if n >= 2 * groups:
        grouped = n - n % groups
        minima = score[:, :grouped].reshape(rows, -1, groups).min(axis=1)
        score = np.concatenate([minima, score[:, grouped:]], axis=1)
    kth: NDArray[Any] = np.partition(score, k - 1, axis=1)[:, k - 1]
    return kth


def _rank(
    points: Features, asked: Features, owner: NDArray[np.intp], candidate: NDArray[np.intp], k: int
) -> Neighbours:
    """The first k candidates of each asked row by (distance, index); pairs come grouped by their owner."""
    squared = np.empty(owner.size)
    for pairs in _blocks(np.arange(owner.size), PAIR_ENTRIES // points.shape[1]):
        squared[pairs] = _norms(asked[owner[pairs]] - points[candidate[pairs]])
    order = np.lexsort((candidate, squared, owner))
    first = np.searchsorted(owner, np.arange(asked.shape[0]))
    kept = order[first[:, None] + np.arange(k)]
    return candidate[kept], squared[kept]


def _approximate_neighbours(points: Features, k: int, *, rng: np.random.Generator) -> Neighbours:
    """As `_exact_neighbours` without queries, with candidates from an HNSW index."""
    faiss = _faiss()
    centred, _ = _centred(points, None, np.float32)
    index = faiss.IndexHNSWFlat(points.shape[1], 32)
    index.hnsw.rng = faiss.RandomGenerator(int(rng.integers(2**31)))
    index.hnsw.efConstruction = 100
    index.hnsw.efSearch = max(128, 8 * k)
    with _one_thread(faiss):  # a parallel build depends on timing
        index.add(centred)
    found = index.search(centred, min(k + 5, points.shape[0]))[1]
    usable = (found >= 0) & (found != np.arange(len(found))[:, None])
    enough = usable.sum(axis=1) >= k
    indices, squared = np.empty((len(found), k), dtype=np.intp), np.empty((len(found), k))
    owner = np.nonzero(usable[enough])[0]
    candidate = found[enough][usable[enough]].astype(np.intp)
    indices[enough], squared[enough] = _rank(points, points[enough], owner, candidate, k)
    if not enough.all():
        _settle(_Search.in_precision(np.float64, points, None), np.flatnonzero(~enough), indices, squared)
    return indices, squared


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """Keep faiss to one thread for a while."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _has_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


def _faiss() -> Any:
    """The faiss module, imported only when an approximate search is asked for."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise EngineUnavailableError(
            "method='approximate' needs faiss, which is not installed. Install faiss-cpu, or use method='exact'."
        ) from error


def _centred(points: Features, queries: Features | None, dtype: type[np.floating[Any]]) -> tuple[Any, Any]:
    """Copies of points and queries for searching: dense ones centred, and scaled to the range of `dtype`."""
    if sp.issparse(points):
        return points, points if queries is None else queries
    centre = points.mean(axis=0)
    p = points - centre
    q = p if queries is None else queries - centre
    largest = max(np.abs(p).max(), np.abs(q).max()) or 1.0
    scaled = (p / largest).astype(dtype)
    return scaled, scaled if queries is None else (q / largest).astype(dtype)


def _norms(rows: Any) -> NDArray[Any]:
    """The squared norm of each row."""
    if isinstance(rows, np.ndarray):
        norms: NDArray[Any] = np.einsum("ij,ij->i", rows, rows)
        return norms
    return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()


def _blocks(rows: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    """`rows` in pieces of at most `size`, and at least one."""
    size = max(1, size)
    for start in range(0, rows.size, size):
        yield rows[start : start + size]


def _comparable(features: Features, metric: Metric) -> tuple[Features, float]:
    """Rows whose Euclidean distances, times the returned unit, are those of the metric (cosine: chords)."""
    if metric == "cosine":
        return _unit_rows(features), 1.0
    entries = features if isinstance(features, np.ndarray) else features.data
    largest = float(np.abs(entries).max(initial=0.0))
    if largest == 0 or 2.0**-400 < largest < 2.0**400:
        return features, 1.0
    # A power of two keeps every digit, and squares neither overflow nor vanish.
    unit = float(np.ldexp(1.0, np.frexp(largest)[1] - 1))
    return _divide_rows(features, np.full(features.shape[0], unit)), unit


def _unit_rows(features: Features) -> Features:
    """Rows divided by their norms; zero rows are refused."""
    if isinstance(features, np.ndarray):
        peaks = np.abs(features).max(axis=1)
    else:
        peaks = abs(features).max(axis=1).toarray().ravel()
    zero = np.flatnonzero(peaks == 0)
    if zero.size:
        raise InputError(
            f"the cosine of a zero row is undefined; found {zero.size} of {peaks.size}, the first is row "
            f"{zero[0]}. Remove them, or use metric='euclidean'."
        )
    # First to about 1 by a power of two, so that no square overflows or vanishes.
    level = _divide_rows(features, np.ldexp(1.0, np.frexp(peaks)[1] - 1))
    return _divide_rows(level, np.sqrt(_norms(level)))


def _divide_rows(features: Features, divisors: NDArray[np.float64]) -> Features:
    if isinstance(features, np.ndarray):
        return features / divisors[:, None]
    data = features.data / np.repeat(divisors, np.diff(features.indptr))
    return sp.csr_matrix((data, features.indices, features.indptr), shape=features.shape)


def _distances(squared: NDArray[np.float64], unit: float, metric: Metric) -> NDArray[np.float64]:
    """Distances of the metric from squared Euclidean ones: 1 - cos = chord² / 2."""
    return squared / 2 if metric == "cosine" else np.sqrt(squared) * unit


def _stacked(points: Features, queries: Features) -> Features:
    """Both sets of rows under one another, to be scaled alike; sparse if either is."""
    if isinstance(points, np.ndarray) and isinstance(queries, np.ndarray):
        return np.concatenate([points, queries])
    return sp.csr_matrix(sp.vstack([sp.csr_matrix(points), sp.csr_matrix(queries)], format="csr"))


def _features(X: object, name: str) -> Features:
    """X as float64 rows, dense or CSR; refused unless it is a 2-D array of finite numbers."""
    features = _csr(X, name) if sp.issparse(X) else _dense(X, name)
    if 0 in features.shape:
        raise InputError(f"{name} must have at least one row and one feature; found shape {features.shape}.")
    entries = features if isinstance(features, np.ndarray) else features.data
    bad = np.flatnonzero(~np.isfinite(entries))
    if bad.size:
        value = float(entries.flat[bad[0]])
        where = _position(features, int(bad[0]))
        raise InputError(
            f"features must be finite; found {value} at row {where[0]}, column {where[1]} of {name}. "
            "Impute it or remove that row."
        )
    return features


def _position(features: Features, entry: int) -> tuple[int, int]:
    """Row and column of the entry-th stored value."""
    if isinstance(features, np.ndarray):
        row, column = divmod(entry, features.shape[1])
        return row, column
    row = int(np.searchsorted(features.indptr, entry, side="right")) - 1
    return row, int(features.indices[entry])


def _dense(X: object, name: str) -> NDArray[np.float64]:
    """X as a 2-D float64 array."""
    try:
        array = np.asarray(X)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"dtype {array.dtype}")
        features = np.ascontiguousarray(array, dtype=np.float64) if array.ndim else array
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of real numbers; found {error}. Encode it as floats.") from error
    if array.ndim != 2:
        raise InputError(
            f"{name} must be 2-D, one row per point; found shape {array.shape}. Reshape it, e.g. {name}.reshape(-1, 1)."
        )
    return features


def _csr(X: Any, name: str) -> sp.csr_matrix[np.float64]:
    """A canonical CSR float64 copy of sparse X."""
    if X.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers; found dtype {X.dtype}. Convert it to float64.")
    if len(X.shape) != 2:
        raise InputError(f"{name} must be 2-D, one row per point; found shape {X.shape}.")
    features = sp.csr_matrix(X, dtype=np.float64, copy=True)
    features.sum_duplicates()
    return features


def _neighbour_count(n_neighbors: object, largest: int, n_points: int) -> int:
    """n_neighbors as an int from 1 to `largest`."""
    try:
        k = operator.index(n_neighbors)  # type: ignore[arg-type]
    except TypeError:
        k = 0
    if isinstance(n_neighbors, bool | np.bool_) or k < 1:
        raise InputError(f"n_neighbors must be an integer ≥ 1; found {n_neighbors!r}.")
    if k > largest:
        raise InputError(f"n_neighbors={k} is too large for {n_points} points: at most {largest}. Lower n_neighbors.")
    return k


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"unknown {name} {value!r}. Choose one of {', '.join(map(repr, choices))}.")
