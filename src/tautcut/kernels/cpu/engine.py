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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tautcut.arrays import FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.rows import (
    absolute,
    first_largest,
    full,
    has_lane_between,
    largest,
    load,
    maximum,
    minimum,
    padded_width,
    prefetch,
    store,
    total,
    where_equal,
    where_greater,
    widen,
)
from tautcut.kernels.devices import thread_count
from tautcut.kernels.protocol import Measures, StepSizes, gradient_norm, scaled_weights
from tautcut.problem import Problem

Array = NDArray[Any]

logger = logging.getLogger("tautcut")

_ALIGNMENT = 64  # bytes of a cache line
_CHUNKS = 64  # pieces of the vertex range; a constant, so that sums have the same bits at any number of threads
_SMALL = 400_000  # directed edges × columns below which handing work to threads costs more than it saves
_AHEAD = 16  # edges between asking for a neighbour's row and using it
_CACHE_BYTES = 2**20  # rows of F that need no particular order
_NEAR = 0.05  # mean distance of neighbours, as a share of all vertices, that is near enough
_CANDIDATES = 512  # values near the expected median kept per chunk and column
_LEAST_DRIFT = 5e-4  # a bracket is never narrower than this times its slack


class _Passes(NamedTuple):
    """The compiled passes for one width and one kind of weights; each runs over chunks [first, last)."""

    iterate: Any
    measure: Any


@cache
def _compile(width: int, n_columns: int, has_unit_weights: bool, dtype: str) -> _Passes:
    """Passes specialised on R, on the weights and on the precision; compiled at the first call, cached on disk."""
    logger.info("kernels for R = %d, %s: compiled now if this machine has not done so before", n_columns, dtype)
    number = np.dtype(dtype).type
    one, zero = number(1), number(0)

    @compiled
    def project(x: Any) -> Any:
        """Michelot: max(x − t, 0) with t such that the row sums to one. At most R rounds, whatever the numbers."""
        nothing, ones = full(zero, width), full(one, width)
        x = x - full(largest(x), width)  # the largest is now 0 and never leaves the support
        threshold = -one
        support = zero
        for _ in range(n_columns):
            t = full(threshold, width)
            count = total(where_greater(x, t, ones, nothing))
            threshold = (total(where_greater(x, t, x, nothing)) - one) / count
            if count == support:
                break
            support = count
        return minimum(maximum(x - full(threshold, width), nothing), ones)

    @compiled
    def iterate(
        first: int, last: int, bounds: Array, indptr: Array, indices: Array, weights: Array, is_fixed: Array,
        F: Array, F_next: Array, F_bar: Array, F_bar_next: Array, F_k: Array, P: Array, labels: Array, columns: Array,
        tau: Any, theta: Any,
    ) -> None:  # fmt: skip
        """Do p ← clip(p + σ c w (f̄_i − f̄_j)); f ← proj((f − τ c Σ w p + τ g) / (1 + τ)); f̄ ← f + θ (f − f_old).

        The argmax of f, its lowest index first, is taken while f is in registers.
        """
        sigma_scale, tau_scale = load(columns, 0, width), load(columns, 1, width)
        median, high = load(columns, 2, width), load(columns, 3, width)
        tie, low = load(columns, 4, width), load(columns, 5, width)
        padding = load(columns, 6, width)
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
            g = f_k + where_greater(f_k, median, high, where_equal(f_k, median, tie, low))
            f = project((f_old - tau_scale * divergence + taus * g) * shrink + padding)
            store(F_next, i, f)
            store(F_bar_next, i, f + thetas * (f - f_old))
            labels[i] = first_largest(f + padding)

    @compiled
    def measure(
        first: int, last: int, bounds: Array, indptr: Array, upper: Array, indices: Array, weights: Array,
        F: Array, F_k: Array, labels: Array, bracket: Array, sums: Array, n_candidates: Array, candidates: Array,
    ) -> None:  # fmt: skip
        """Per chunk: T, Σf, ‖f − f_k‖², Σ and count of values above the bracket, counts of f > 0 and f ≥ 1, the
        weight of the edges that leave each cluster, and the values inside the bracket, where the median is looked for.
        """
        low, high = load(bracket, 0, width), load(bracket, 1, width)
        nothing, ones = full(zero, width), full(one, width)
        blank = full(0.0, width)
        for chunk in range(first, last):
            variation, mass, step = blank, blank, blank
            mass_above, n_above, n_positive, n_one = blank, nothing, nothing, nothing
            sums[chunk, 7] = 0.0
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
                        sums[chunk, 7, own] += w
                        sums[chunk, 7, labels[j]] += w
                variation = variation + widen(jumps)
                moved = f - load(F_k, i, width)
                step = step + widen(moved * moved)
                mass = mass + widen(f)
                mass_above = mass_above + widen(where_greater(f, high, f, nothing))
                n_above = n_above + where_greater(f, high, ones, nothing)
                n_positive = n_positive + where_greater(f, nothing, ones, nothing)
                n_one = n_one + where_greater(ones, f, nothing, ones)
                if has_lane_between(f, low, high):
                    for r in range(n_columns):
                        if bracket[0, r] < F[i, r] <= bracket[1, r]:
                            place = n_candidates[chunk, r]
                            if place < candidates.shape[2]:
                                candidates[chunk, r, place] = F[i, r]
                            n_candidates[chunk, r] = place + 1
            store(sums[chunk], 0, variation)
            store(sums[chunk], 1, mass)
            store(sums[chunk], 2, step)
            store(sums[chunk], 3, mass_above)
            store(sums[chunk], 4, widen(n_above))
            store(sums[chunk], 5, widen(n_positive))
            store(sums[chunk], 6, widen(n_one))

    return _Passes(iterate, measure)


@compiled
def _select(values: Array, rank: int) -> Any:
    """The value of this rank, 0 the smallest, by quickselect; reorders `values`."""
    low, high = 0, values.size - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
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


@compiled
def _locate_medians(
    F: Array, lam: Array, rank: Array, bracket: Array, totals: Array, n_candidates: Array, candidates: Array, out: Array
) -> Array:
    """Exact medians, B and ∂B on ties from the sums of `measure`; the columns where the bracket missed say so.

    Rows of `out`: B, median, tie value. A column is searched through the candidates; if the median is not
    among them, or they overflowed, the column is read again on the side of the bracket where it is.
    """
    n, n_chunks = F.shape[0], n_candidates.shape[0]
    missed = np.zeros(lam.size, np.bool_)
    room = np.empty(n, F.dtype)
    for r in range(lam.size):
        k, mass = rank[r], totals[1, r]
        n_above, mass_above = int(totals[4, r]), totals[3, r]
        n_positive, n_one = int(totals[5, r]), int(totals[6, r])
        if k < n_one:
            median, n_plus, n_equal, mass_plus = 1.0, 0, n_one, 0.0
        elif k >= n_positive:
            median, n_plus, n_equal, mass_plus = 0.0, n_positive, n - n_positive, mass
        else:
            count = n_candidates[:, r].sum()
            overflow = n_candidates[:, r].max() > candidates.shape[2]
            size = 0
            if overflow or k < n_above or k >= n_above + count:
                missed[r] = True
                low, high = bracket[0, r], bracket[1, r]
                if k < n_above:
                    low, high = high, F.dtype.type(1)
                elif k >= n_above + count:
                    low, high = F.dtype.type(0), low
                n_above, mass_above = 0, 0.0
                for i in range(n):
                    value = F[i, r]
                    if value > high:
                        n_above += 1
                        mass_above += value
                    elif value > low:
                        room[size] = value
                        size += 1
            else:
                for chunk in range(n_chunks):
                    for c in range(n_candidates[chunk, r]):
                        room[size] = candidates[chunk, r, c]
                        size += 1
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
        out[0, r] = lam[r] * (mass_plus - median * n_plus) + (median * n_minus - mass_minus)
        out[1, r] = median
        out[2, r] = (n_minus - lam[r] * n_plus) / n_equal
    return missed


@dataclass
class CpuArrays:
    """F, F̄, F^k and the duals of the directed edges; rows are padded to whole SIMD lanes.

    `F`, `F_k` and `F_bar` point into two pairs of buffers, so an outer step copies nothing. `labels` is the argmax of
    F, `cut` its cut at the last look.
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
    median: Array
    slack: Array
    cut: Array
    has_median: bool = False


class CpuKernels:
    """The Numba engine for one problem, in float32 or float64."""

    name = "cpu"

    def __init__(
        self,
        problem: Problem,
        *,
        dtype: np.dtype[Any],
        n_threads: int | None = None,
        groups: IntArray | None = None,
    ) -> None:
        R = problem.n_clusters
        self._order = _local_order(problem.graph, R * dtype.itemsize, groups)
        graph = problem.graph if self._order is None else _permuted(problem.graph, self._order)
        weights, self.unit = scaled_weights(graph)
        self.lipschitz = gradient_norm(graph, weights)
        self._dtype, self._n_columns, self._width = dtype, R, padded_width(R)
        is_uniform = graph.n_edges == 0 or bool((graph.weights == graph.weights[0]).all())
        self._passes = _compile(self._width, R, is_uniform, dtype.name)
        self._indptr: Array = graph.indptr
        self._indices: Array = graph.indices
        self._weights = np.zeros(1, dtype) if is_uniform else weights.astype(dtype)
        owner: Array = np.repeat(np.arange(graph.n_vertices), np.diff(self._indptr))
        self._upper = self._indptr[:-1] + np.bincount(owner[self._indices < owner], minlength=graph.n_vertices)
        self._is_fixed = problem.is_labelled if self._order is None else problem.is_labelled[self._order]
        self._lam, self._rank = problem.lam, problem.median_rank
        self._bounds = _chunk_bounds(self._indptr)
        n_chunks = self._bounds.size - 1
        self._sums = np.zeros((n_chunks, 8, self._width))
        self._n_candidates = np.zeros((n_chunks, R), np.int64)
        self._candidates = np.zeros((n_chunks, R, _CANDIDATES), dtype)
        is_small = self._indices.size * R < _SMALL
        self._n_threads = 1 if is_small else n_threads or thread_count()

    def allocate(self, F: FloatArray) -> CpuArrays:
        n, R = F.shape
        buffers = [_aligned((n, self._width), self._dtype) for _ in range(4)]
        start = buffers[0]
        start[:, :R] = F if self._order is None else F[self._order]
        columns, bracket = np.zeros((7, self._width), self._dtype), np.zeros((2, self._width), self._dtype)
        columns[6, R:] = -1e30  # a padding lane can never enter the support of a projection
        bracket[0] = 2.0  # empty: the first look selects from whole columns
        P = _aligned((self._indices.size, self._width), self._dtype)
        states, extrapolations = (start, buffers[1]), (buffers[2], buffers[3])
        return CpuArrays(
            states, extrapolations, P, start[:, :R].argmax(axis=1).astype(np.int32), columns, bracket,
            F=start, F_k=start, F_bar=start, median=np.zeros(R), slack=np.ones(R), cut=np.zeros(R),
        )  # fmt: skip

    def measure(self, arrays: CpuArrays) -> Measures:
        self._run(
            self._passes.measure, self._indptr, self._upper, self._indices, self._weights,
            arrays.F, arrays.F_k, arrays.labels, arrays.bracket, self._sums, self._n_candidates, self._candidates,
        )  # fmt: skip
        totals = self._sums.sum(axis=0)
        out = np.empty((3, self._n_columns))
        missed = _locate_medians(
            arrays.F, self._lam, self._rank, arrays.bracket, totals, self._n_candidates, self._candidates, out
        )
        self._move_bracket(arrays, out[1], missed)
        R = self._n_columns
        arrays.cut = totals[7, :R] * self.unit
        return Measures(totals[0, :R], out[0], out[1], out[2], float(totals[2, :R].sum()))

    def _move_bracket(self, arrays: CpuArrays, median: FloatArray, missed: Array) -> None:
        """Expect each median to drift on as it did: wider after a miss, narrower when too many values fell inside."""
        R = self._n_columns
        drift = np.where(arrays.has_median, median - arrays.median, 0.0)
        is_crowded = self._n_candidates.max(axis=0) > _CANDIDATES // 2
        arrays.slack *= np.where(is_crowded, 0.5, np.where(missed, 3.0, 0.97))
        np.clip(arrays.slack, 0.5, 30.0, out=arrays.slack)
        arrays.median, arrays.has_median = median, True
        half = arrays.slack * np.maximum(np.abs(drift), _LEAST_DRIFT)
        below_one = np.nextafter(self._dtype.type(1), self._dtype.type(0))
        arrays.bracket[0, :R] = np.clip(median + drift - half, 0.0, below_one)
        arrays.bracket[1, :R] = np.clip(median + drift + half, 0.0, below_one)

    def linearise(self, arrays: CpuArrays, measures: Measures, delta: float) -> None:
        arrays.F_k = arrays.F_bar = arrays.F
        R = self._n_columns
        step = delta * measures.E / measures.B
        arrays.columns[2, :R] = measures.median
        arrays.columns[3, :R] = step * self._lam
        arrays.columns[4, :R] = step * measures.tie
        arrays.columns[5, :R] = -step

    def iterate(self, arrays: CpuArrays, scale: FloatArray, steps: StepSizes) -> None:
        R, number = self._n_columns, self._dtype.type
        arrays.columns[0, :R] = steps.sigma * scale
        arrays.columns[1, :R] = steps.tau * scale
        F_next = _other(arrays.states, arrays.F_k)
        F_bar_next = _other(arrays.extrapolations, arrays.F_bar)
        self._run(
            self._passes.iterate, self._indptr, self._indices, self._weights, self._is_fixed,
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


def _chunk_bounds(indptr: Array) -> Array:
    """Cut the vertices into at most `_CHUNKS` runs of about equal work, the same at any number of threads."""
    n = indptr.size - 1
    work = indptr + 4 * np.arange(n + 1)  # a vertex costs about as much as four of its edges
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
