"""The search of nearest neighbours, exact or approximate, on dense and on sparse features, and the estimate of what an
approximate one missed. Neighbours are ranked by (distance, index) with distances recomputed in double precision, so
that ties, duplicates and large offsets have one answer; an approximate search may miss neighbours, not misrank them.
It never sees a graph.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, BoolArray, Features, FloatArray, IndexArray, IntArray, SingleArray
from tautcut.checks import neighbor_count, one_of
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.graph.neighbors.features import METRICS, Metric, comparable, distances_of, squared_norms, stacked
from tautcut.graph.neighbors.features import features_of as _features

Method: TypeAlias = Literal["auto", "exact", "approximate"]
Pairs: TypeAlias = tuple[IndexArray, IndexArray]
Neighbors: TypeAlias = tuple[IndexArray, FloatArray]
OnStep: TypeAlias = Callable[[int, int], object]

METHODS: tuple[Method, ...] = get_args(Method)

# An exact search costs about n² (d + SELECTION_COST): the product, and a selection that a small d makes no cheaper.
SELECTION_COST = 128
EXACT_BUDGET = 3e12  # takes about a minute on two cores
CACHED_ENTRIES = 2**21  # distances of a block, so that they stay in the cache,
BLOCK_ROWS = 256  # unless a block would then have fewer rows than this
BLOCK_ENTRIES = 2**26  # distances in memory at a time, by all threads together
PAIR_ENTRIES = 2**18  # coordinates in memory at a time where pairs are looked at one by one

# The outline of an exact search, chosen on a sample.
OUTLINE_FROM = 4096  # fewer rows are searched sooner than an outline is made
OUTLINE_ROWS = 64
OUTLINE_POINTS = 4096
PAIR_COST = 40  # of a coordinate of a pair that is looked at by itself; 1 is its cost in a matrix product

# An approximate search takes as few axes and as little effort as reach the recall aimed at on a sample.
SAMPLED_POINTS = 500  # with 10 neighbours, the standard error of a recall of 0.99 is below 0.005
AIM_OF_RECALL = 0.99
LOW_RECALL = 0.95  # below it there is a warning
CANDIDATES = 4  # for each neighbour
AXES = (32, 64, 128)  # principal axes to try
AXES_POINTS = 10_000  # from which the axes are found,
AXES_PASSES = 3  # in so many passes: rough axes will do
EFFORTS = (64, 128, 256, 512)  # to try: the list that HNSW keeps while it searches
LINKS = 16  # of each point in the HNSW index,
LINK_CANDIDATES = 64  # chosen from so many points
INDEX_ROWS = 8192  # added or asked at a time


@dataclass(frozen=True)
class NeighborReport:
    """How the neighbours of a graph were found; `str(report)` is a sentence.

    Attributes
    ----------
    n_points, n_features, n_neighbors : int
    method : {"exact", "approximate"}
        What was done, also where "auto" was asked for.
    recall : float
        The share of true neighbours that were found: 1 if exact, else estimated.
    n_sampled : int
        The points whose true neighbours the estimate is from; 0 if exact.
    n_copied : int
        The points all of whose neighbours coincide with them.
    """

    n_points: int
    n_features: int
    n_neighbors: int
    method: Literal["exact", "approximate"]
    recall: float = 1.0
    n_sampled: int = 0
    n_copied: int = 0

    def __str__(self) -> str:
        found = f"{self.n_neighbors} nearest neighbours of {self.n_points:,} points in {self.n_features:,} dimensions"
        if self.method == "exact":
            return f"{found}, by exact search."
        return f"{found}, by approximate search: recall {self.recall:.3f} on {self.n_sampled:,} sampled points."


def own_neighbors(
    points: Features, k: int, method: Method, *, random_state: int | np.random.Generator | None, progress: OnStep | None
) -> tuple[Neighbors, NeighborReport]:
    """The k nearest points of each point but itself, with their squared distances, and how they were found."""
    if _is_approximate(method, points):
        return _approximate_neighbors(points, k, rng=np.random.default_rng(random_state), progress=progress)
    found = _exact_neighbors(points, None, k, progress)
    return found, NeighborReport(points.shape[0], points.shape[1], k, "exact")


def nearest(X_train: object, X_new: object, n_neighbors: int, *, metric: Metric = "euclidean") -> Neighbors:
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
    one_of("metric", metric, METRICS)
    points, queries = _features(X_train, "X_train"), _features(X_new, "X_new")
    if points.shape[1] != queries.shape[1]:
        raise InputError(
            f"X_new has {queries.shape[1]} features but X_train has {points.shape[1]}. Give the same ones."
        )
    n = points.shape[0]
    k = neighbor_count(n_neighbors, n, most=n)
    both, unit = comparable(stacked(points, queries), metric)
    indices, squared = _exact_neighbors(both[:n], both[n:], k)
    return indices, distances_of(squared, unit, metric)


def _is_approximate(method: Method, points: Features) -> bool:
    """Whether to search approximately."""
    if method == "approximate" and sp.issparse(points):
        raise InputError("method='approximate' needs dense features; found a sparse X. Use method='exact'.")
    if method != "auto":
        return method == "approximate"
    n, d = points.shape
    return not sp.issparse(points) and n * n * (d + SELECTION_COST) > EXACT_BUDGET and _has_faiss()


def _exact_neighbors(points: Features, queries: Features | None, k: int, progress: OnStep | None = None) -> Neighbors:
    """The k nearest points of each query and their squared distances, ranked by (distance, index).

    Without queries the points themselves are asked, and none is its own neighbour.
    """
    n_asked = (points if queries is None else queries).shape[0]
    with _one_product_per_thread() as threads:
        found = _Neighborhoods.empty(n_asked, k, threads, progress, total=n_asked)
        _settle(_Search.in_precision(np.float32, points, queries), np.arange(n_asked), found)
    return found.indices, found.squared


@dataclass(frozen=True)
class _Threads:
    """Threads to share blocks of rows between."""

    count: int = 1
    pool: ThreadPoolExecutor | None = None

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """work(item) of each item, in order, several at a time."""
        return map(work, items) if self.pool is None else self.pool.map(work, items)


@contextmanager
def _one_product_per_thread() -> Iterator[_Threads]:
    """As many threads as matrix products use, which use one each meanwhile.

    So selecting and ranking run on all cores too, and no thread waits for another in the middle of a product.
    """
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ImportError:  # it comes with scikit-learn, which is not needed here otherwise
        yield _Threads()
        return
    libraries = threadpoolctl.threadpool_info()
    count = max((library["num_threads"] for library in libraries if library["user_api"] == "blas"), default=1)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        pool = ThreadPoolExecutor(count)
        try:
            yield _Threads(count, pool)
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupt does not wait for blocks that have not begun


@dataclass
class _Neighborhoods:
    """The neighbours found so far, and whom to tell how many steps of the search are done."""

    indices: IndexArray
    squared: FloatArray
    threads: _Threads
    progress: OnStep | None
    total: int
    done: int = 0

    @classmethod
    def empty(cls, n_rows: int, k: int, threads: _Threads, progress: OnStep | None, *, total: int) -> _Neighborhoods:
        return cls(np.empty((n_rows, k), dtype=np.intp), np.empty((n_rows, k)), threads, progress, total)

    def advance(self, steps: int) -> None:
        self.done += steps
        if self.progress is not None:
            self.progress(self.done, self.total)


def _settle(search: _Search, rows: IndexArray, found: _Neighborhoods) -> None:
    """Find the neighbours of `rows` exactly; overwrites those rows of `found`.

    Candidates come from an outline of the points where that is cheaper; the rows that are not clear then, from single
    precision, and those that are not clear there, from double precision.
    """
    for one in (_outline(search, rows.size, found.indices.shape[1]), search):
        if one is not None:
            rows = _settle_clear(one, rows, found)
    if rows.size:
        queries = None if search.is_self else search.asked
        _settle_clear(_Search.in_precision(np.float64, search.points, queries), rows, found)


def _settle_clear(search: _Search | _Outline, rows: IndexArray, found: _Neighborhoods) -> IndexArray:
    """Find the neighbours of the rows that one search can settle; overwrites those rows of `found`.

    Returns the other rows: rounding leaves them too many candidates.
    """
    full, k = search if isinstance(search, _Search) else search.search, found.indices.shape[1]
    n = full.point_norms.size

    def settle_block(block: IndexArray) -> BoolArray:
        owner, candidate = search.candidates(block, k)
        counts = np.bincount(owner, minlength=block.size)
        clear: BoolArray = (counts > 0) & (counts <= (2 * k + 32 if full.is_single else n))
        kept, done = clear[owner], block[clear]
        pairs = (np.cumsum(clear) - 1)[owner[kept]], candidate[kept]
        found.indices[done], found.squared[done] = _rank(full.points, full.asked[done], *pairs, k)
        return clear

    size = min(max(BLOCK_ROWS, CACHED_ENTRIES // n), BLOCK_ENTRIES // (n * found.threads.count))
    blocks = list(_blocks(rows, size))
    left = [rows[:0]]
    for block, clear in zip(blocks, found.threads.map(settle_block, blocks), strict=True):
        left.append(block[~clear])
        found.advance(int(clear.sum()))
    return np.concatenate(left)


@dataclass(frozen=True)
class _Search:
    """Brute-force search on centred copies of the features, in single or double precision."""

    points: Features
    asked: Features
    is_self: bool  # the points are asked about themselves
    points_t: Any  # the copy of the points, transposed
    queries: Any  # the copy of the asked rows; that of the points if they are asked about themselves
    point_norms: Array
    query_norms: Array

    @classmethod
    def in_precision(cls, dtype: type[np.floating[Any]], points: Features, queries: Features | None) -> _Search:
        """The search with copies of points and queries in that precision; sparse ones stay double."""
        asked = points if queries is None else queries
        p, q = _centred(points, queries, dtype)
        points_t = p.T if isinstance(p, np.ndarray) else p.T.tocsr()
        return cls(points, asked, queries is None, points_t, q, squared_norms(p), squared_norms(q))

    @property
    def is_single(self) -> bool:
        """Whether the copies are in single precision."""
        return bool(self.point_norms.dtype == np.float32)

    def candidates(self, rows: IndexArray, k: int) -> Pairs:
        """The pairs (place of x in `rows`, point y) such that y may be among the k nearest of x.

        Ties are included, and pairs are in order. Points compare by ‖y‖² - 2⟨x, y⟩ = ‖x - y‖² - ‖x‖².
        """
        product = (-2 * self.queries[rows]) @ self.points_t
        score = product if isinstance(product, np.ndarray) else product.toarray()
        score += self.point_norms
        if self.is_self:
            score[np.arange(rows.size), rows] = np.inf
        kth = _kth_at_most(score, k)
        return _pairs(score <= (kth + self.rounding(rows, kth))[:, None])

    def rounding(self, rows: IndexArray, score: Array) -> Array:
        """How far rounding may move scores, or squared distances, of this size in these rows."""
        # ‖y‖² ≤ 2‖x‖² + 2‖x - y‖², so ‖x‖² and the distance bound the rounding error.
        error = 8 * np.finfo(self.point_norms.dtype).eps * np.sqrt(self.points_t.shape[0])
        moved: Array = error * (2 * self.query_norms[rows] + np.abs(score))
        return moved.astype(self.point_norms.dtype)

    def nearest_listed(self, rows: IndexArray, pairs: Pairs, k: int) -> tuple[Pairs, Array]:
        """Of pairs (place of x in `rows`, point y), k at least for each x, those that may be its k nearest.

        Returns with them the k-th smallest squared distance of each x, as it is in the copy of the points.
        """
        owner, candidate = pairs
        squared = np.empty(owner.size, dtype=self.point_norms.dtype)
        for part in _blocks(np.arange(owner.size), PAIR_ENTRIES // self.points_t.shape[0]):
            squared[part] = squared_norms(self.queries[rows[owner[part]]] - self.points_t.T[candidate[part]])
        order = np.lexsort((squared, owner))
        kth = squared[order[np.searchsorted(owner, np.arange(rows.size)) + k - 1]]
        near = squared <= (kth + self.rounding(rows, kth))[owner]
        return (owner[near], candidate[near]), kth


@dataclass(frozen=True)
class _Outline:
    """Brute-force search on a few principal coordinates and the length of the rest.

    Distances between these outlines are at most those of the points, so a point whose outline is farther than k other
    points is none of the k nearest.
    """

    search: _Search
    points_t: SingleArray  # the outlines of the points as columns, with their squared norms as the last row
    queries: SingleArray

    @classmethod
    def on_axes(cls, search: _Search, axes: SingleArray) -> _Outline:
        points = _outlined(search.points_t.T, axes)
        queries = points if search.is_self else _outlined(search.queries, axes)
        return cls(search, np.vstack([points.T, squared_norms(points)]), queries)

    def candidates(self, rows: IndexArray, k: int) -> Pairs:
        """As `_Search.candidates`, but a row has no pair at all where its outline leaves too many candidates."""
        score = self.scores(rows)
        listed = _pairs(score <= _kth_at_most(score, k)[:, None])
        first = np.searchsorted(listed[0], np.arange(rows.size))
        few = np.arange(listed[0].size) - first[listed[0]] < 2 * k  # any k points bound the distance
        kth = self.search.nearest_listed(rows, (listed[0][few], listed[1][few]), k)[1]
        near = self.near(score, rows, kth)
        counts = near.sum(axis=1)
        is_left = (counts >= k) & (counts <= 2 * k + near.shape[1] // PAIR_COST)
        owner, candidate = _pairs(near[is_left])
        (owner, candidate), _ = self.search.nearest_listed(rows[is_left], (owner, candidate), k)
        return np.flatnonzero(is_left)[owner], candidate

    def scores(self, rows: IndexArray) -> SingleArray:
        """‖y‖² - 2⟨x, y⟩ of the outlines, of each row x with each point y."""
        ones = np.ones((rows.size, 1), dtype=np.float32)
        score: SingleArray = np.hstack([-2 * self.queries[rows], ones]) @ self.points_t
        if self.search.is_self:
            score[np.arange(rows.size), rows] = np.inf
        return score

    def near(self, score: SingleArray, rows: IndexArray, squared: Array) -> BoolArray:
        """Where the outlines may be as near as these squared distances of the rows."""
        # Twice the error of a plain search: coordinates and lengths are rounded before they are multiplied.
        limit = squared - squared_norms(self.queries[rows]) + 2 * self.search.rounding(rows, squared)
        return np.asarray(score <= limit[:, None])


def _outlined(rows: SingleArray, axes: SingleArray) -> SingleArray:
    """Coordinates on orthonormal axes, and the length of what they leave out, as the last column."""
    outlined = np.empty((len(rows), axes.shape[1] + 1), dtype=np.float32)
    for block in _blocks(np.arange(len(rows)), BLOCK_ENTRIES // (8 * rows.shape[1])):
        coordinates = rows[block] @ axes
        outlined[block, :-1] = coordinates
        outlined[block, -1] = np.sqrt(squared_norms(rows[block] - coordinates @ axes.T))
    return outlined


def _outline(search: _Search, n_rows: int, k: int) -> _Outline | None:
    """The outline that makes an exact search of so many rows cheapest, by a sample of them; None if none does."""
    n, d = search.point_norms.size, search.points_t.shape[0]
    if not search.is_single or d <= AXES[0] or n_rows < OUTLINE_FROM:
        return None
    rng = np.random.default_rng(0)  # the answer does not depend on the axes, only the time
    points = search.points_t.T
    axes = _principal_axes(points, min(AXES[-1], d), rng)
    rows = np.sort(rng.choice(search.query_norms.size, min(OUTLINE_ROWS, n_rows), replace=False))
    distances = search.nearest_listed(rows, search.candidates(rows, k), k)[1]
    some = points[np.sort(rng.choice(n, min(OUTLINE_POINTS, n), replace=False))]
    best, least = 0, float(n * d)
    for n_axes in (count for count in AXES if count < d):
        x, y = (_outlined(chosen, axes[:, :n_axes]) for chosen in (search.queries[rows], some))
        is_left = squared_norms(y) - 2 * x @ y.T <= (distances - squared_norms(x))[:, None]
        cost = n * (n_axes + 1) + PAIR_COST * (k + n * is_left.mean()) * d
        if cost < least:
            best, least = n_axes, cost
    return _Outline.on_axes(search, axes[:, :best]) if best else None


def _pairs(near: BoolArray) -> Pairs:
    """The places that are true, as (row, column), in order."""
    return np.divmod(np.flatnonzero(near), near.shape[1])


def _kth_at_most(score: Array, k: int) -> Array:
    """A close upper bound of the k-th smallest entry of each row.

    The k-th smallest of the minima of many groups is never below it, and cheaper than a full selection.
    """
    rows, n = score.shape
    groups = 64 * k
    if n >= 2 * groups:
        grouped = n - n % groups
        minima = score[:, :grouped].reshape(rows, -1, groups).min(axis=1)
        score = np.concatenate([minima, score[:, grouped:]], axis=1)
    kth: Array = np.partition(score, k - 1, axis=1)[:, k - 1]
    return kth


def _rank(points: Features, asked: Features, owner: IndexArray, candidate: IndexArray, k: int) -> Neighbors:
    """The first k candidates of each asked row by (distance, index); pairs come grouped by their owner."""
    squared = np.empty(owner.size)
    for pairs in _blocks(np.arange(owner.size), PAIR_ENTRIES // points.shape[1]):
        squared[pairs] = squared_norms(asked[owner[pairs]].astype(np.float64, copy=False) - points[candidate[pairs]])
    order = np.lexsort((candidate, squared, owner))
    first = np.searchsorted(owner, np.arange(asked.shape[0]))
    kept = order[first[:, None] + np.arange(k)]
    return candidate[kept], squared[kept]


def _approximate_neighbors(
    points: Features, k: int, *, rng: np.random.Generator, progress: OnStep | None
) -> tuple[Neighbors, NeighborReport]:
    """The k nearest points of each point, of the candidates that an HNSW index on the principal axes finds.

    The exact neighbours of a sample say how many axes and how much effort are enough, and what the recall is.
    """
    faiss, n = _faiss(), points.shape[0]
    search = _Search.in_precision(np.float32, points, None)
    sample = np.sort(rng.choice(n, min(SAMPLED_POINTS, n), replace=False))
    n_candidates = min(CANDIDATES * k + 1, n)
    with _one_product_per_thread() as threads:
        found = _Neighborhoods.empty(n, k, threads, progress, total=2 * n + sample.size)
        _settle(search, sample, found)
        neighbors, radii = found.indices[sample], found.squared[sample, -1:]
        coordinates = _coordinates(search.queries, sample, neighbors, n_candidates, rng)
        index = _hnsw_index(faiss, coordinates, found, rng)
        for effort in EFFORTS:
            index.hnsw.efSearch = max(effort, n_candidates)
            _rank_listed(search, sample, index.search(coordinates[sample], n_candidates)[1], found)
            recall = float((found.squared[sample] <= radii).mean())
            if recall >= AIM_OF_RECALL:
                break
        for rows in _blocks(np.arange(n), INDEX_ROWS):
            _rank_listed(search, rows, index.search(coordinates[rows], n_candidates)[1], found)
            found.advance(rows.size)
    report = NeighborReport(n, points.shape[1], k, "approximate", recall, sample.size)
    return (found.indices, found.squared), report


def _rank_listed(search: _Search, rows: IndexArray, listed: IntArray, found: _Neighborhoods) -> None:
    """Rank the points listed for each row, and search exactly where there are too few; overwrites rows of `found`."""
    k = found.indices.shape[1]
    listed = np.where(listed == rows[:, None], -1, listed)
    has_enough = (listed >= 0).sum(axis=1) >= k

    def rank_block(places: IndexArray) -> None:
        ranked = rows[places]
        owner, place = np.nonzero(listed[places] >= 0)
        pairs, _ = search.nearest_listed(ranked, (owner, listed[places][owner, place]), k)
        found.indices[ranked], found.squared[ranked] = _rank(search.points, search.asked[ranked], *pairs, k)

    for _ in found.threads.map(rank_block, _blocks(np.flatnonzero(has_enough), BLOCK_ROWS)):
        pass
    if not has_enough.all():
        _settle(search, rows[~has_enough], replace(found, progress=None))


def _coordinates(
    centred: SingleArray, sample: IndexArray, neighbors: IndexArray, n_candidates: int, rng: np.random.Generator
) -> SingleArray:
    """The points on the fewest principal axes that keep the neighbours of the sample among its candidates."""
    d = centred.shape[1]
    if d <= AXES[0]:
        return centred
    axes = _principal_axes(centred, min(AXES[-1], d), rng)
    enough = (1 + AIM_OF_RECALL) / 2  # half of what may be missed is left to the index
    for n_axes in (count for count in AXES if count < d):
        coordinates = centred @ axes[:, :n_axes]
        if _share_kept(coordinates, sample, neighbors, n_candidates) >= enough:
            return coordinates
    return centred


def _principal_axes(centred: SingleArray, count: int, rng: np.random.Generator) -> SingleArray:
    """About the `count` leading principal axes as columns, by subspace iteration on a sample of the points."""
    n, d = centred.shape
    rows = centred if n <= AXES_POINTS else centred[np.sort(rng.choice(n, AXES_POINTS, replace=False))]
    axes = rng.standard_normal((d, count))
    for _ in range(AXES_PASSES):
        product = rows.T @ (rows @ axes.astype(np.float32))
        axes = np.linalg.qr(product.astype(np.float64))[0]  # orthonormal up to one rounding to single precision
    projected = rows @ axes.astype(np.float32)
    rotation = np.linalg.eigh(projected.T @ projected)[1]
    turned: SingleArray = (axes @ rotation[:, ::-1]).astype(np.float32)
    return turned


def _share_kept(coordinates: SingleArray, sample: IndexArray, neighbors: IndexArray, n_candidates: int) -> float:
    """The share of the neighbours of the sample that are among its nearest in these coordinates."""
    norms = squared_norms(coordinates)
    kept = 0
    for part in _blocks(np.arange(sample.size), BLOCK_ENTRIES // norms.size):
        score = norms - 2 * coordinates[sample[part]] @ coordinates.T
        limit = np.partition(score, n_candidates - 1, axis=1)[:, n_candidates - 1 : n_candidates]
        kept += int((np.take_along_axis(score, neighbors[part], axis=1) <= limit).sum())
    return kept / neighbors.size


def _hnsw_index(faiss: Any, coordinates: SingleArray, found: _Neighborhoods, rng: np.random.Generator) -> Any:
    """An HNSW index of the coordinates; `found` is told of the points added."""
    index = faiss.IndexHNSWFlat(coordinates.shape[1], LINKS)
    index.hnsw.rng = faiss.RandomGenerator(int(rng.integers(2**31)))
    index.hnsw.efConstruction = LINK_CANDIDATES
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # a parallel build depends on timing
    try:
        for rows in _blocks(np.arange(len(coordinates)), INDEX_ROWS):
            index.add(coordinates[rows])
            found.advance(rows.size)
    finally:
        faiss.omp_set_num_threads(before)
    return index


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
    if not isinstance(points, np.ndarray) or sp.issparse(queries):
        return points, points if queries is None else queries
    centre = points.mean(axis=0, dtype=np.float64)
    sets = [points] if queries is None else [points, queries]
    peaks = [np.abs(edge - centre).max() for rows in sets for edge in (rows.min(axis=0), rows.max(axis=0))]
    copies = [np.empty(rows.shape, dtype=dtype) for rows in sets]
    for rows, copy in zip(sets, copies, strict=True):
        for block in _blocks(np.arange(len(rows)), PAIR_ENTRIES // rows.shape[1]):  # no second copy in double precision
            copy[block] = (rows[block] - centre) / (max(peaks) or 1.0)
    return copies[0], copies[-1]


def _blocks(rows: IndexArray, size: int) -> Iterator[IndexArray]:
    """`rows` in pieces of at most `size`, and at least one."""
    size = max(1, size)
    for start in range(0, rows.size, size):
        yield rows[start : start + size]
