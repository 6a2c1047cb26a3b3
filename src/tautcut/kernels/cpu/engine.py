"""The Numba engine: one inner iteration is one fused pass over the vertices, one look at F is a second, lighter one.

Each vertex updates the duals of its own directed edges (p_ij = −p_ji, so both ends compute the same value and
nobody races), sums the divergence, takes the primal step, projects onto the simplex in registers and writes F̄
to a second buffer. Sums over vertices are taken in fixed chunks and added in their order, so the bits do not
depend on the number of threads. This module owns the layout; it decides nothing.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled, inlined
from tautcut.kernels.devices import thread_count
from tautcut.kernels.protocol import Measures, StepSizes, gradient_norm, scaled_weights
from tautcut.problem import Problem

# isort: off
from tautcut.kernels.cpu.rows import (
    absolute, first_largest, full, has_lane_between, largest, load, maximum, minimum, padded_width, prefetch, spread,
    store, total, where_equal, where_greater, widen,
)  # fmt: skip
# isort: on

logger = logging.getLogger("tautcut")

_ALIGNMENT = 64  # bytes of a cache line: a row of F that begins at one lies in as few as it can
_CHUNKS = 64  # pieces of the vertex range; a constant, so that sums have the same bits at any number of threads
_VERTEX_COST = 4  # a vertex costs a pass about as much as this many of its edges; chunks are cut to equal work
_SMALL = 400_000  # directed edges × columns below which handing work to threads costs more than it saves
_AHEAD = 16  # edges between asking for a neighbour's row and using it (decision 0010)
_CACHE_BYTES = 2**20  # rows of F that fit in this, about a core's own cache, need no particular order (decision 0015)
_NEAR = 0.05  # mean distance of neighbours, as a share of all vertices, that is near enough (decision 0015)
_NEVER = -1e30  # far below any value, yet finite in float32: a padding lane never enters the support of a projection

# The bracket is the interval of a column where the next median is expected: `measure` keeps the few values inside it,
# and the median is selected from them. Its half width is the median's last drift times a `slack` that adapts.
_CANDIDATES = 512  # values kept per chunk and column: one chunk may hold most of a column's (decision 0010)
_LEAST_DRIFT = 5e-4  # the drift that a median which stood still is given, or its bracket would be empty
_AFTER_MISS = 3.0  # slack grows by this: a miss costs far more than candidates that were not needed
_AFTER_HIT = 0.97  # and shrinks by this, so that 36 hits undo a miss
_AFTER_CROWDING = 0.5  # and by this where the candidates fill half of their room: overflowing it is a miss as well
_SLACK_RANGE = (0.5, 30.0)  # it stays in here, so that a long run of one kind is soon undone

# Rows of `columns`, what `iterate` is told of each column of F.
_SIGMA = 0  # σ c
_TAU = 1  # τ c
_MEDIAN = 2  # med_λ(f_k); g = f_k + one of the next three
_ABOVE = 3  # Δ E/B ∂B for a value above the median,
_TIE = 4  # on it,
_BELOW = 5  # and below
_PADDING = 6  # 0, `_NEVER` in the padding lanes
_COLUMN_ROWS = 7

# Rows of `sums`, what `measure` adds up for each column of F.
_VARIATION = 0  # T, every edge once
_MASS = 1  # Σ f
_STEP = 2  # ‖f − f_k‖²
_MASS_ABOVE = 3  # Σ of the values above the bracket
_N_ABOVE = 4  # and their number
_N_POSITIVE = 5  # values > 0
_N_ONE = 6  # values ≥ 1
_CUT = 7  # weight of the edges that leave the cluster
_SUM_ROWS = 8

# Rows of `bracket`: low < f ≤ high is inside.
_LOW = 0
_HIGH = 1


@cache
def _compile(width: int, n_columns: int, has_unit_weights: bool, dtype: str) -> tuple[Any, Any]:
    """The passes `iterate` and `measure`, specialised on R, on the weights and on the precision.

    Each runs over chunks [first, last); compiled at the first call, cached on disk.
    """
    logger.info("kernels for R = %d, %s: compiled now if this machine has not done so before", n_columns, dtype)
    one = np.dtype(dtype).type(1)
    how = (width, n_columns, has_unit_weights, one)
    return _iterate_pass(*how), _measure_pass(*how)


# The names that a pass finds in its factory are constants to the compiler, and the key under which Numba caches it: so
# they hold numbers alone. A compiled function among them would differ in every process, and be compiled in each.


def _iterate_pass(width: int, n_columns: int, has_unit_weights: bool, one: Any) -> Any:
    """One inner iteration of Algorithm 1 on a range of chunks; `one` has the precision of F."""
    zero = one - one

    @compiled
    def iterate(
        first: int, last: int, bounds: IntArray, indptr: IntArray, indices: Array, weights: Array, is_fixed: BoolArray,
        F: Array, F_next: Array, F_bar: Array, F_bar_next: Array, F_k: Array, P: Array, labels: Array, columns: Array,
        tau: Any, theta: Any,
    ) -> None:  # fmt: skip
        """Do p ← clip(p + σ c w (f̄_i − f̄_j)); f ← proj((f − τ c Σ w p + τ g) / (1 + τ)); f̄ ← f + θ (f − f_old).

        The argmax of f, its lowest index first, is taken while f is in registers.
        """
        sigma_scale, tau_scale = load(columns, _SIGMA, width), load(columns, _TAU, width)
        median, above = load(columns, _MEDIAN, width), load(columns, _ABOVE, width)
        tie, below = load(columns, _TIE, width), load(columns, _BELOW, width)
        padding = load(columns, _PADDING, width)
        ones, minus, nothing = full(one, width), full(-one, width), full(zero, width)
        taus, thetas, shrink = full(tau, width), full(theta, width), full(one / (one + tau), width)
        for i in range(bounds[first], bounds[last]):
            f_old = load(F, i, width)
            if is_fixed[i]:
                store(F_next, i, f_old)
                store(F_bar_next, i, f_old)
                continue
            f_bar = load(F_bar, i, width)
            divergence = nothing
            for e in range(indptr[i], indptr[i + 1]):
                prefetch(F_bar, indices[min(e + _AHEAD, indices.size - 1)], width)
                rise = sigma_scale * (f_bar - load(F_bar, indices[e], width))
                if has_unit_weights:
                    p = minimum(maximum(load(P, e, width) + rise, minus), ones)
                    divergence = divergence + p
                else:
                    w = full(weights[e], width)
                    p = minimum(maximum(load(P, e, width) + w * rise, minus), ones)
                    divergence = divergence + w * p
                store(P, e, p)
            f_k = load(F_k, i, width)
            g = f_k + where_greater(f_k, median, above, where_equal(f_k, median, tie, below))
            x = (f_old - tau_scale * divergence + taus * g) * shrink + padding
            f = _project(x, n_columns, ones, nothing, one)
            store(F_next, i, f)
            store(F_bar_next, i, f + thetas * (f - f_old))
            labels[i] = first_largest(f + padding)

    return iterate


@compiled
def _project(x: Any, n_columns: int, ones: Any, nothing: Any, one: Any) -> Any:
    """Michelot: max(x − t, 0) with t such that the row sums to one. At most R rounds, whatever the numbers."""
    x = x - spread(largest(x), x)  # the largest is now 0 and never leaves the support
    threshold = -one
    support = one - one
    for _ in range(n_columns):
        t = spread(threshold, x)
        count = total(where_greater(x, t, ones, nothing))
        threshold = (total(where_greater(x, t, x, nothing)) - one) / count
        if count == support:
            break
        support = count
    return minimum(maximum(x - spread(threshold, x), nothing), ones)


def _measure_pass(width: int, n_columns: int, has_unit_weights: bool, one: Any) -> Any:
    """One look at F on a range of chunks; `one` has the precision of F."""
    zero = one - one

    @compiled
    def measure(
        first: int, last: int, bounds: IntArray, indptr: IntArray, upper: IntArray, indices: Array, weights: Array,
        F: Array, F_k: Array, labels: Array, bracket: Array, sums: FloatArray, n_candidates: IntArray,
        candidates: Array,
    ) -> None:  # fmt: skip
        """Fill the rows of `sums` chunk by chunk, and keep the values inside the bracket as candidates for the median.

        From `upper[i]` on, the neighbours of i have higher numbers: so every edge is visited once. Sums over vertices
        are in float64; counts, exact in float32 as no chunk has 2²⁴ vertices, stay in F's precision.
        """
        low, high = load(bracket, _LOW, width), load(bracket, _HIGH, width)
        nothing, ones = full(zero, width), full(one, width)
        blank = full(0.0, width)
        for chunk in range(first, last):
            variation, mass, step = blank, blank, blank
            mass_above, n_above, n_positive, n_one = blank, nothing, nothing, nothing
            sums[chunk, _CUT] = 0.0
            for r in range(n_columns):
                n_candidates[chunk, r] = 0
            for i in range(bounds[chunk], bounds[chunk + 1]):
                f, own = load(F, i, width), labels[i]
                jumps = nothing
                for e in range(upper[i], indptr[i + 1]):
                    j = indices[e]
                    jump = absolute(f - load(F, j, width))
                    jumps = jumps + (jump if has_unit_weights else full(weights[e], width) * jump)
                    if labels[j] != own:
                        w = 1.0 if has_unit_weights else weights[e]
                        sums[chunk, _CUT, own] += w
                        sums[chunk, _CUT, labels[j]] += w
                variation = variation + widen(jumps)
                moved = f - load(F_k, i, width)
                step = step + widen(moved * moved)
                mass = mass + widen(f)
                mass_above = mass_above + widen(where_greater(f, high, f, nothing))
                n_above = n_above + where_greater(f, high, ones, nothing)
                n_positive = n_positive + where_greater(f, nothing, ones, nothing)
                n_one = n_one + where_greater(ones, f, nothing, ones)
                if has_lane_between(f, low, high):
                    _keep(F, i, chunk, n_columns, bracket, n_candidates, candidates)
            store(sums[chunk], _VARIATION, variation)
            store(sums[chunk], _MASS, mass)
            store(sums[chunk], _STEP, step)
            store(sums[chunk], _MASS_ABOVE, mass_above)
            store(sums[chunk], _N_ABOVE, widen(n_above))
            store(sums[chunk], _N_POSITIVE, widen(n_positive))
            store(sums[chunk], _N_ONE, widen(n_one))

    return measure


@inlined
def _keep(
    F: Array, i: int, chunk: int, n_columns: int, bracket: Array, n_candidates: IntArray, candidates: Array
) -> None:
    """Keep the values of row i that lie inside the bracket; those for which there is no room are counted only."""
    for r in range(n_columns):
        if bracket[_LOW, r] < F[i, r] <= bracket[_HIGH, r]:
            place = n_candidates[chunk, r]
            if place < candidates.shape[2]:
                candidates[chunk, r, place] = F[i, r]
            n_candidates[chunk, r] = place + 1


@compiled
def _locate_medians(
    F: Array, lam: FloatArray, rank: IntArray, bracket: Array, totals: FloatArray, n_candidates: IntArray,
    candidates: Array,
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:  # fmt: skip
    """B, the exact median, ∂B on ties, and whether the bracket missed the median, of each column.

    Where F is hard the median is 0 or 1, and the counts in `totals` say everything. Else it is selected from the
    candidates, or, if it is not among them or some found no room, from the side of the bracket where it must be.
    """
    n = F.shape[0]
    B, medians, tie = np.empty(lam.size), np.empty(lam.size), np.empty(lam.size)
    missed = np.zeros(lam.size, np.bool_)
    room = np.empty(n, F.dtype)
    for r in range(lam.size):
        k, mass = rank[r], totals[_MASS, r]  # the median is the (k + 1)-th largest value
        n_positive, n_one = int(totals[_N_POSITIVE, r]), int(totals[_N_ONE, r])
        if k < n_one:
            median, n_plus, n_equal, mass_plus = 1.0, 0, n_one, 0.0
        elif k >= n_positive:
            median, n_plus, n_equal, mass_plus = 0.0, n_positive, n - n_positive, mass
        else:
            n_above, n_inside = int(totals[_N_ABOVE, r]), n_candidates[:, r].sum()
            is_full = n_candidates[:, r].max() > candidates.shape[2]
            missed[r] = is_full or k < n_above or k >= n_above + n_inside
            if missed[r]:
                low, high = bracket[_LOW, r], bracket[_HIGH, r]
                if k < n_above:
                    low, high = high, F.dtype.type(1)
                elif k >= n_above + n_inside:
                    low, high = F.dtype.type(0), low
                size, n_above, mass_above = _read_again(F, r, low, high, room)
            else:
                size, mass_above = _collect(candidates, n_candidates, r, room), totals[_MASS_ABOVE, r]
            pool = room[:size]
            chosen = _select(pool, size - 1 - (k - n_above))
            median, n_plus, n_equal, mass_plus = float(chosen), n_above, 0, mass_above
            for value in pool:
                if value > chosen:
                    n_plus += 1
                    mass_plus += value
                elif value == chosen:
                    n_equal += 1
        n_minus = n - n_plus - n_equal
        mass_minus = mass - mass_plus - median * n_equal
        B[r] = lam[r] * (mass_plus - median * n_plus) + (median * n_minus - mass_minus)
        medians[r] = median
        tie[r] = (n_minus - lam[r] * n_plus) / n_equal
    return B, medians, tie, missed


@compiled
def _collect(candidates: Array, n_candidates: IntArray, r: int, room: Array) -> int:
    """Write the candidates of column r into `room`; how many there are."""
    size = 0
    for chunk in range(n_candidates.shape[0]):
        for c in range(n_candidates[chunk, r]):
            room[size] = candidates[chunk, r, c]
            size += 1
    return size


@compiled
def _read_again(F: Array, r: int, low: Any, high: Any, room: Array) -> tuple[int, int, float]:
    """Write the values low < f ≤ high of column r into `room`; how many they are, and number and sum of those above."""
    size, n_above, mass_above = 0, 0, 0.0
    for i in range(F.shape[0]):
        value = F[i, r]
        if value > high:
            n_above += 1
            mass_above += value
        elif value > low:
            room[size] = value
            size += 1
    return size, n_above, mass_above


@compiled
def _select(values: Array, rank: int) -> Any:
    """The value of this rank, 0 the smallest, by quickselect; reorders `values`."""
    low, high = 0, values.size - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:  # smaller values to the left, larger ones to the right; those between j and i equal the pivot
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return values[rank]


@dataclass
class CpuArrays:
    """F, F̄, F^k and the duals of the directed edges; rows are padded to whole SIMD lanes.

    `F`, `F_k` and `F_bar` point into two pairs of buffers, so an outer step copies nothing. `labels` is the argmax of
    F, `cut` its cut at the last look; `median` and `slack` are those of the bracket.
    """

    states: tuple[Array, Array]
    extrapolations: tuple[Array, Array]
    P: Array
    labels: Array
    columns: Array
    bracket: Array
    F: Array
    F_k: Array
    F_bar: Array
    median: FloatArray
    slack: FloatArray
    cut: FloatArray
    has_median: bool = False


class CpuKernels:
    """The Numba engine for one problem, in float32 or float64."""

    name = "cpu"

    def __init__(
        self, problem: Problem, *, dtype: np.dtype[Any], n_threads: int | None = None, groups: IntArray | None = None
    ) -> None:
        R = problem.n_clusters
        self._order = _local_order(problem.graph, R * dtype.itemsize, groups)
        graph = problem.graph if self._order is None else _permuted(problem.graph, self._order)
        weights, self.unit = scaled_weights(graph)
        self.lipschitz = gradient_norm(graph, weights)
        self._dtype, self._n_columns, self._width = dtype, R, padded_width(R)
        is_uniform = graph.n_edges == 0 or bool((graph.weights == graph.weights[0]).all())
        self._iterate, self._measure = _compile(self._width, R, is_uniform, dtype.name)
        self._indptr: Array = graph.indptr
        self._indices: Array = graph.indices
        self._weights = np.zeros(1, dtype) if is_uniform else weights.astype(dtype)
        owner: Array = np.repeat(np.arange(graph.n_vertices), np.diff(self._indptr))
        self._upper = self._indptr[:-1] + np.bincount(owner[self._indices < owner], minlength=graph.n_vertices)
        self._is_fixed = problem.is_labelled if self._order is None else problem.is_labelled[self._order]
        self._lam, self._rank = problem.lam, problem.median_rank
        self._bounds = _chunk_bounds(self._indptr)
        n_chunks = self._bounds.size - 1
        self._sums = np.zeros((n_chunks, _SUM_ROWS, self._width))
        self._n_candidates = np.zeros((n_chunks, R), np.int64)
        self._candidates = np.zeros((n_chunks, R, _CANDIDATES), dtype)
        self._n_threads = 1 if self._indices.size * R < _SMALL else n_threads or thread_count()

    def allocate(self, F: FloatArray) -> CpuArrays:
        n, R = F.shape
        buffers = [_aligned((n, self._width), self._dtype) for _ in range(4)]
        start = buffers[0]
        start[:, :R] = F if self._order is None else F[self._order]
        columns = np.zeros((_COLUMN_ROWS, self._width), self._dtype)
        columns[_PADDING, R:] = _NEVER
        bracket = np.zeros((2, self._width), self._dtype)
        bracket[_LOW] = 2.0  # above `high`, so it is empty: the first look selects from whole columns
        P = _aligned((self._indices.size, self._width), self._dtype)
        return CpuArrays(
            (start, buffers[1]), (buffers[2], buffers[3]), P, start[:, :R].argmax(axis=1).astype(np.int32), columns,
            bracket, F=start, F_k=start, F_bar=start, median=np.zeros(R), slack=np.ones(R), cut=np.zeros(R),
        )  # fmt: skip

    def measure(self, arrays: CpuArrays) -> Measures:
        self._run(
            self._measure, self._indptr, self._upper, self._indices, self._weights,
            arrays.F, arrays.F_k, arrays.labels, arrays.bracket, self._sums, self._n_candidates, self._candidates,
        )  # fmt: skip
        totals = self._sums.sum(axis=0)
        B, median, tie, missed = _locate_medians(
            arrays.F, self._lam, self._rank, arrays.bracket, totals, self._n_candidates, self._candidates
        )
        self._move_bracket(arrays, median, missed)
        R = self._n_columns
        arrays.cut = totals[_CUT, :R] * self.unit
        return Measures(totals[_VARIATION, :R], B, median, tie, float(totals[_STEP, :R].sum()))

    def _move_bracket(self, arrays: CpuArrays, median: FloatArray, missed: BoolArray) -> None:
        """Expect each median to drift on as it did. The bracket stays below 1: a median there is found by counting."""
        R = self._n_columns
        drift = np.where(arrays.has_median, median - arrays.median, 0.0)
        is_crowded = self._n_candidates.max(axis=0) > _CANDIDATES // 2
        arrays.slack *= np.where(is_crowded, _AFTER_CROWDING, np.where(missed, _AFTER_MISS, _AFTER_HIT))
        np.clip(arrays.slack, *_SLACK_RANGE, out=arrays.slack)
        arrays.median, arrays.has_median = median, True
        half = arrays.slack * np.maximum(np.abs(drift), _LEAST_DRIFT)
        below_one = np.nextafter(self._dtype.type(1), self._dtype.type(0))
        arrays.bracket[_LOW, :R] = np.clip(median + drift - half, 0.0, below_one)
        arrays.bracket[_HIGH, :R] = np.clip(median + drift + half, 0.0, below_one)

    def linearise(self, arrays: CpuArrays, measures: Measures, delta: float) -> None:
        arrays.F_k = arrays.F_bar = arrays.F
        R = self._n_columns
        step = delta * measures.E / measures.B
        arrays.columns[_MEDIAN, :R] = measures.median
        arrays.columns[_ABOVE, :R] = step * self._lam
        arrays.columns[_TIE, :R] = step * measures.tie
        arrays.columns[_BELOW, :R] = -step

    def iterate(self, arrays: CpuArrays, scale: FloatArray, steps: StepSizes) -> None:
        R, number = self._n_columns, self._dtype.type
        arrays.columns[_SIGMA, :R] = steps.sigma * scale
        arrays.columns[_TAU, :R] = steps.tau * scale
        F_next = _other(arrays.states, arrays.F_k)
        F_bar_next = _other(arrays.extrapolations, arrays.F_bar)
        self._run(
            self._iterate, self._indptr, self._indices, self._weights, self._is_fixed,
            arrays.F, F_next, arrays.F_bar, F_bar_next, arrays.F_k, arrays.P, arrays.labels, arrays.columns,
            number(steps.tau), number(steps.theta),
        )  # fmt: skip
        arrays.F, arrays.F_bar = F_next, F_bar_next

    def harden(self, arrays: CpuArrays) -> tuple[IntArray, FloatArray]:
        return self._in_order(arrays.labels).astype(np.int64), arrays.cut

    def memberships(self, arrays: CpuArrays, *, previous: bool = False) -> FloatArray:
        return self._in_order((arrays.F_k if previous else arrays.F)[:, : self._n_columns]).astype(np.float64)

    def _in_order(self, rows: Array) -> Array:
        """Rows of the engine in the order of the problem."""
        if self._order is None:
            return rows
        placed = np.empty_like(rows)
        placed[self._order] = rows
        return placed

    def _run(self, chunk_pass: Any, *args: Any) -> None:
        """Run a pass over all chunks, a share of them on each thread."""
        n_chunks = self._bounds.size - 1
        n_threads = min(self._n_threads, n_chunks)
        shares = [n_chunks * t // n_threads for t in range(n_threads + 1)]
        futures = [
            _workers(n_threads, os.getpid()).submit(chunk_pass, first, last, self._bounds, *args)
            for first, last in pairwise(shares[1:])
        ]
        try:
            chunk_pass(0, shares[1], self._bounds, *args)
        finally:
            for future in futures:
                future.result()


@lru_cache(maxsize=4)
def _workers(n_threads: int, process: int) -> ThreadPoolExecutor:
    """A pool of this process's own: threads do not survive a fork."""
    return ThreadPoolExecutor(n_threads - 1, thread_name_prefix=f"tautcut-{process}")


def _other(pair: tuple[Array, Array], one: Array) -> Array:
    """The buffer of the pair that is not `one`."""
    return pair[1] if one is pair[0] else pair[0]


def _local_order(graph: Graph, row_bytes: int, groups: IntArray | None) -> IntArray | None:
    """An order of the vertices in which neighbours are near, if they are not already or the rows fit in the cache.

    Clusters of the start first, if they are known, and inside them the reverse Cuthill–McKee order (decision 0015).
    """
    n = graph.n_vertices
    if graph.n_edges == 0 or n * row_bytes < _CACHE_BYTES:
        return None
    owner = np.repeat(np.arange(n), np.diff(graph.indptr))
    if np.abs(owner - graph.indices).mean() < _NEAR * n:
        return None
    rank = np.empty(n, np.int64)
    rank[reverse_cuthill_mckee(graph.to_scipy(), symmetric_mode=True)] = np.arange(n)
    return rank.argsort() if groups is None else np.lexsort((rank, groups))


def _permuted(graph: Graph, order: IntArray) -> Graph:
    """The graph with vertex order[k] in place k."""
    W = graph.to_scipy()[order][:, order].tocsr()
    W.sort_indices()
    indices: Any = W.indices.astype(graph.indices.dtype)
    return Graph(W.indptr.astype(np.int64), indices, W.data)


def _chunk_bounds(indptr: IntArray) -> IntArray:
    """Cut the vertices into at most `_CHUNKS` runs of about equal work, the same at any number of threads."""
    n = indptr.size - 1
    work = indptr + _VERTEX_COST * np.arange(n + 1)
    n_chunks = min(_CHUNKS, n)
    bounds = np.searchsorted(work, np.linspace(0, work[-1], n_chunks + 1))
    bounds[0], bounds[-1] = 0, n
    return bounds.astype(np.int64)


def _aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Zeros that begin at a cache line."""
    size = shape[0] * shape[1] * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(dtype).reshape(shape)
