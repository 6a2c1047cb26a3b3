"""The search of nearest neighbours, exact or approximate, on dense and on sparse features, and the estimate of what an
approximate one missed. It owns the choice between them; `kernels.cpu.neighbors` compares, and `few` where points are
few. Neighbours are ranked by (distance, index) in double precision, so that ties, duplicates and large offsets have one
answer; an approximate search may miss neighbours, not misrank them. It never sees a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, Features, FloatArray, IndexArray, IntArray, RealArray, SingleArray, SparseMatrix
from tautcut.checks import neighbor_count, one_of
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.neighbors.features import METRICS, Metric, comparable, distances_of, features_of, squared_norms, stacked
from tautcut.neighbors.few import nearest_of_few
from tautcut.neighbors.outlines import Coordinates, Single, coordinates_of, in_single_precision
from tautcut.search.threads import in_threads

if TYPE_CHECKING:
    from tautcut.kernels.cpu.cells import Cells
    from tautcut.kernels.cpu.neighbors import Task

Method: TypeAlias = Literal["auto", "exact", "approximate"]
Neighbors: TypeAlias = tuple[IndexArray, FloatArray]
OnStep: TypeAlias = Callable[[int, int], object]

METHODS: tuple[Method, ...] = get_args(Method)

SMALL = 20_000  # points up to which an exact search takes about a second on two cores, and is not thought about
DEARER = 2.0  # times as many comparisons as an approximate search: "auto" is exact up to there
SAMPLED_POINTS = 500  # for the choice of cells, and as many for the estimate: its standard error at 0.98 is below 0.004
SAMPLED_TOGETHER = 16  # of them look at a cell while the cache holds it: 1.5 to 1.9 times as fast as four do
AIMS_OF_RECALL = (0.98, 0.985, 0.99, 0.995, 0.999)  # the first at any price, a later one where it costs
CHEAP = 250_000  # coordinates compared for each point, or fewer: some ten microseconds,
CHEAP_BY_FEATURE = 200  # and so many more for each feature: what is compared in full costs as much
LOW_RECALL = 0.95  # below it there is a warning

CELL = 128  # points at most, to begin with; more where there are so many
CELL_OF_ROOT = 1 / 8  # of √n: the distances of n / 128 cells from one another would cost more than those of points
MOVES = 2  # of all points to the nearest centre of a cell
SPARE = 4  # listed beyond k, for what single precision misplaces
OUTLINED = 5  # listed for each neighbour, where leading coordinates alone choose
TASK = 5e8  # coordinates compared between looks whether to stop: less than a tenth of a second


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
    n, d = points.shape
    steps = _Steps(progress, n)
    if method == "approximate" and not isinstance(points, np.ndarray):
        raise InputError("method='approximate' needs dense features; found a sparse X. Use method='exact'.")
    if not isinstance(points, np.ndarray) or method == "exact" or (method == "auto" and n <= SMALL):
        return _exact(points, None, k, steps), NeighborReport(n, d, k, "exact")
    search = _Search.of(points, None, k)
    sample = _Sample.of(search, np.random.default_rng(random_state))
    if method == "auto" and sample.exact_cost <= DEARER * sample.cost:
        return search.nearest(steps), NeighborReport(n, d, k, "exact")
    found = search.nearest(steps, sample.enough)
    return found, NeighborReport(n, d, k, "approximate", sample.recall(found[1]), sample.judges.size)


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
    points, queries = features_of(X_train, "X_train"), features_of(X_new, "X_new")
    if points.shape[1] != queries.shape[1]:
        raise InputError(
            f"X_new has {queries.shape[1]} features but X_train has {points.shape[1]}. Give the same ones."
        )
    n = points.shape[0]
    k = neighbor_count(n_neighbors, n, most=n)
    both, unit = comparable(stacked(points, queries), metric)
    indices, squared = _exact(both[:n], both[n:], k, _Steps(None, 0))
    return indices, distances_of(squared, unit, metric)


@dataclass
class _Steps:
    """Whom to tell how many rows are done."""

    progress: OnStep | None
    total: int
    done: int = 0

    def advance(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            self.progress(self.done, self.total)


def _exact(points: Any, queries: Any, k: int, steps: _Steps) -> Neighbors:
    """The k nearest points of each row, or of each point but itself, and their squared distances."""
    found = nearest_of_few(points, queries, k)
    if found is not None:
        steps.advance(len(found[0]))
        return found
    if isinstance(points, np.ndarray):
        return _Search.of(points, queries, k).nearest(steps)
    return _sparse_neighbors(points, queries, k, steps)


# ---------------------------------------------------------------- dense rows


class _Looks(NamedTuple):
    """How many cells a row looks at, and among how many near its block they are chosen."""

    most: int
    wide: int


FIRST_LOOKS = _Looks(4, 16)  # of an exact search, which then looks wherever a nearer point may be


@dataclass(frozen=True)
class _Search:
    """Points in cells, and the rows whose neighbours are searched among them; both in single precision too."""

    points: RealArray
    queries: RealArray
    k: int
    task: Task
    single: Single  # both, the points first

    @classmethod
    def of(cls, points: RealArray, queries: RealArray | None, k: int) -> _Search:
        """The search for neighbours of the points themselves, or of other rows."""
        kernels, n = _kernels(), len(points)
        both = points if queries is None else np.concatenate([points, queries])
        single = in_single_precision(both)
        seen = coordinates_of(single.rows)
        cells = _cells(seen.part(slice(0, n)))
        asked = cells if queries is None else _cells(seen.part(slice(n, None)))
        is_outlined, rows = seen.rows.shape[1] < both.shape[1], np.require(single.rows, requirements="W")
        task = kernels.Task(cells, asked, queries is None, is_outlined, rows[:n], rows if queries is None else rows[n:])
        return cls(points, points if queries is None else queries, k, task, single)

    @property
    def cell_size(self) -> float:
        """The mean number of points in a cell."""
        return len(self.points) / len(self.task.cells.centres)

    def nearest(self, steps: _Steps, looks: _Looks | None = None) -> Neighbors:
        """The neighbours of all rows: from the cells that they look at, or exactly."""
        return self.nearest_of(self.task.asked, steps, looks)[0]

    def nearest_of(self, asked: Cells, steps: _Steps, looks: _Looks | None = None) -> tuple[Neighbors, int]:
        """The neighbours of the rows in these cells, and how many pairs were compared; other rows stay undefined."""
        kernels, (n, d), k = _kernels(), self.points.shape, self.k
        task, is_exact = self.task._replace(asked=asked), looks is None
        most, wide = (min(count, len(task.cells.centres)) for count in (looks or FIRST_LOOKS))
        indices, squared = np.empty((len(self.queries), k), np.intp), np.empty((len(self.queries), k))
        is_clear = np.ones(len(self.queries), np.bool_)
        n_listed, rounding = min(k + SPARE, n), 2e-7 * (d + 8)
        n_outlined = min(OUTLINED * k, n) if task.is_outlined and not is_exact else 0
        if n_outlined:  # are listed by leading coordinates alone, and then compared in full
            task = task._replace(is_outlined=False)

        def work(cells: tuple[int, int]) -> tuple[int, int]:
            rows = asked.order[asked.bounds[cells[0]] : asked.bounds[cells[1]]]
            keys = np.empty((rows.size, n_outlined or n_listed), np.int64)
            pairs = kernels.visit(*cells, task, most, wide, is_exact, keys)
            if n_outlined:
                keys = kernels.compare_in_full(rows, keys, task, n_listed)
            ways = self.single.unit, rounding, self.single.slack, self.single.exact_below
            kernels.rank(rows, keys, self.points, self.queries, *ways, indices, squared, is_clear)
            return rows.size, pairs

        n_pairs, n_cells = 0, len(asked.bounds) - 1
        compared = n if is_exact else most * self.cell_size
        n_tasks = int(len(asked.order) * compared * (task.cells.rows.shape[1] + 16) / TASK) + 1
        for rows, pairs in in_threads(work, _parts(n_cells, n_tasks)):
            n_pairs += pairs
            steps.advance(rows)
        if is_exact:
            self._settle(np.flatnonzero(~is_clear), indices, squared)
        return (indices, squared), n_pairs

    def _settle(self, rows: IntArray, indices: IndexArray, squared: FloatArray) -> None:
        """Search the rows that single precision does not make clear in double; overwrites them."""
        kernels, is_self = _kernels(), self.task.is_self

        def work(part: tuple[int, int]) -> None:
            kernels.settle(rows[slice(*part)], self.points, self.queries, is_self, indices, squared)

        n_tasks = int(rows.size * self.points.size / TASK) + 1
        for _ in in_threads(work, _parts(rows.size, n_tasks)):
            pass


def _cells(seen: Coordinates) -> Cells:
    """The points in cells: by halving them, then by moving each to the nearest centre."""
    kernels, (n, d) = _cell_kernels(), seen.rows.shape
    size = max(CELL, CELL_OF_ROOT * np.sqrt(n))
    levels = max(0, int(np.ceil(np.log2(n / size))))
    order, spare, places = np.arange(n, dtype=np.int32), np.empty(n, np.int32), np.empty(n, np.float32)
    for level in range(levels):
        in_parts(partial(kernels.split, level), 1 << level, seen.rows, order, places, spare)
    bounds = (np.arange((1 << levels) + 1) * n) >> levels
    centres = _centres(order, bounds, seen.rows)
    for _ in range(MOVES if levels else 0):
        in_parts(kernels.move, len(centres), order, bounds, seen.rows, centres, spare)
        counts = np.bincount(spare, minlength=len(centres))
        kernels.regroup(spare, np.cumsum(counts) - counts, order)
        bounds = _bounds(counts, int(2 * size))
        centres = _centres(order, bounds, seen.rows)
    n_panels = -(-np.diff(bounds) // kernels.WIDTH)
    cells: Cells = kernels.Cells(
        order, bounds, np.empty((n, d), np.float32), np.empty((n_panels.sum() * d, kernels.WIDTH), np.float32),
        np.r_[0, np.cumsum(n_panels)], centres, np.empty(len(centres), np.float32), np.empty(len(centres), np.float32),
    )  # fmt: skip
    in_parts(kernels.furnish, len(centres), seen.rows, seen.errors, cells)
    return cells


def _bounds(counts: IntArray, most: int) -> IntArray:
    """Where cells begin, and the end: none is empty, and those of more points than `most` are cut up.

    Copies of a point are all nearest to the same centre.
    """
    n_parts = -(-counts // most)
    cell = np.repeat(np.arange(counts.size), n_parts)
    part = np.arange(cell.size) - (np.cumsum(n_parts) - n_parts)[cell]
    begins = (np.cumsum(counts) - counts)[cell] + part * counts[cell] // n_parts[cell]
    bounds: IntArray = np.append(begins, counts.sum())
    return bounds


def _centres(order: Array, bounds: IntArray, rows: SingleArray) -> SingleArray:
    kernels, centres = _cell_kernels(), np.empty((bounds.size - 1, rows.shape[1]), np.float32)
    in_parts(kernels.centre, len(centres), order, bounds, rows, centres)
    return centres


@dataclass(frozen=True)
class _Sample:
    """Points whose true neighbours say how many cells are enough, and others that say what was found."""

    judges: IndexArray
    radii: FloatArray  # their distances to the k-th neighbour, squared
    enough: _Looks
    cost: float  # of a point, in comparisons: with other points, and with centres of cells
    exact_cost: float

    @classmethod
    def of(cls, search: _Search, rng: np.random.Generator) -> _Sample:
        cells, n = search.task.cells, len(search.points)
        cell_of = np.empty(n, np.int32)
        cell_of[cells.order] = np.repeat(np.arange(len(cells.centres), dtype=np.int32), np.diff(cells.bounds))
        chosen = rng.choice(n, min(2 * SAMPLED_POINTS, n), replace=False)
        (indices, squared), n_pairs = search.nearest_of(_blocks(cells, np.sort(chosen)), _Steps(None, 0))
        half = chosen.size // 2
        guides, judges, rows = cells.order[chosen[:half]], cells.order[chosen[half:]], cells.rows[chosen[:half]]
        others = cell_of[indices[guides]]
        by_row, by_cell = (_ranks(cells.centres, of, others) for of in (rows, cells.centres[cell_of[guides]]))
        enough = _enough(
            by_row, by_cell, cells.rows.shape[1], search.cell_size, CHEAP + CHEAP_BY_FEATURE * search.points.shape[1]
        )
        cost, exact_cost = enough.most * search.cell_size + enough.wide, n_pairs / chosen.size + len(cells.centres)
        return cls(judges, squared[judges, -1:], enough, cost, exact_cost)

    def recall(self, squared: FloatArray) -> float:
        """The share of the true neighbours that are among those at these squared distances."""
        return float((squared[self.judges] <= self.radii).mean())


def _blocks(cells: Cells, places: IndexArray) -> Cells:
    """Some of the points, at these places of the cells, in blocks that are compared together."""
    bounds = np.r_[np.arange(0, places.size, SAMPLED_TOGETHER), places.size]
    rows, order = cells.rows[places], cells.order[places]
    sizes = np.diff(bounds)
    centres = np.add.reduceat(rows, bounds[:-1], axis=0) / sizes[:, None].astype(np.float32)
    gaps = np.sqrt(squared_norms(rows - np.repeat(centres, sizes, axis=0)))
    errors = cells.errors[np.searchsorted(cells.bounds, places, side="right") - 1]
    widest, worst = (np.maximum.reduceat(values, bounds[:-1]) for values in (gaps, errors))
    return cells._replace(
        order=order, bounds=bounds, rows=rows, centres=centres, radii=widest * np.float32(1 + 1e-5), errors=worst
    )


def _enough(by_row: IntArray, by_cell: IntArray, n_coordinates: int, cell_size: float, cheap: float) -> _Looks:
    """Looks that find as many of the neighbours, whose cells have these ranks, as is cheap; or as is aimed at."""
    looks = []
    for aim in AIMS_OF_RECALL:  # a quarter of what may be missed is missed by the cheaper choice, near the block
        shares = (by_row, 1 - (1 - aim) * 3 / 4), (by_cell, 1 - (1 - aim) / 4)
        most, wide = (int(np.quantile(ranks, share, method="higher")) for ranks, share in shares)
        looks.append(_Looks(most, max(most, wide)))
    affordable = [one for one in looks if n_coordinates * (one.most * cell_size + 2 * one.wide) <= cheap]
    return affordable[-1] if affordable else looks[0]


def _ranks(centres: SingleArray, rows: SingleArray, others: Array) -> IntArray:
    """The how many-th cell in the order of distance from a row each of the others is, from 1."""
    ranks = np.empty(others.shape, np.int64)
    for at, (row, listed) in enumerate(zip(rows, others, strict=True)):
        gaps = squared_norms(centres - row)
        ranks[at] = np.searchsorted(np.sort(gaps), gaps[listed], side="right")
    return ranks


# ---------------------------------------------------------------- sparse rows


def _sparse_neighbors(points: SparseMatrix, queries: SparseMatrix | None, k: int, steps: _Steps) -> Neighbors:
    """The k nearest points of each sparse row, or of each point but itself; memory grows as the entries do."""
    kernels = _kernels()
    by_rows = _sparse(points)
    asked = by_rows if queries is None else _sparse(queries)
    n_asked = asked.norms.size
    indices, squared = np.empty((n_asked, k), np.intp), np.empty((n_asked, k))

    def work(rows: tuple[int, int]) -> int:
        kernels.sparse_nearest(*rows, by_rows, asked, queries is None, indices, squared)
        return rows[1] - rows[0]

    shared = float(np.square(np.diff(by_rows.column_starts), dtype=np.float64).sum())  # pairs that share a column
    n_tasks = int((shared * n_asked / points.shape[0] + n_asked * points.shape[0]) / TASK * 4) + 1
    for rows in in_threads(work, _parts(n_asked, n_tasks)):
        steps.advance(rows)
    return indices, squared


def _sparse(rows: SparseMatrix) -> Any:
    rows = sp.csr_matrix(rows, dtype=np.float64)
    rows.sort_indices()
    columns = rows.tocsc()
    by_column = (columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data)
    return _kernels().Sparse(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data, squared_norms(rows), *by_column
    )


# ---------------------------------------------------------------- work in parts


def _kernels() -> Any:
    """The compiled loops, imported when neighbours are searched."""
    try:
        from tautcut.kernels.cpu import neighbors
    except ImportError as error:
        raise EngineUnavailableError("the search of neighbours needs numba: install it.") from error
    return neighbors


def _cell_kernels() -> Any:
    """The compiled loops that sort points into cells; `_kernels` is asked first, and says what is missing."""
    from tautcut.kernels.cpu import cells

    return cells


def _parts(count: int, parts: int) -> list[tuple[int, int]]:
    """The numbers below `count` in so many parts, or fewer: (first, last + 1) of each."""
    parts = max(1, min(parts, count))
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(bounds))


def in_parts(kernel: Callable[..., object], count: int, *arrays: Any, parts: int = 64) -> None:
    """kernel(first, last + 1, *arrays) on the numbers below `count`, in parts, on all threads."""
    for _ in in_threads(lambda part: kernel(*part, *arrays), _parts(count, parts)):
        pass
