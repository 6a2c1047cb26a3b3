"""The Numba engine: one inner iteration is one fused pass over the vertices, one look at F is a second, lighter one.

Each vertex updates the duals of its own directed edges (p_ij = −p_ji, so both ends compute the same value and
nobody races), sums the divergence, takes the primal step, projects onto the simplex in registers and writes F̄
to a second buffer. Sums over vertices are taken in fixed chunks and added in their order, so the bits do not
depend on the number of threads. This module owns the layout; it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph
from tautcut.graph.graph import local_order
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.crew import Crew
from tautcut.kernels.cpu.layout import is_scattered, permuted
from tautcut.kernels.cpu.sharing import affordable_threads, chunk_bounds, even_shares, share
from tautcut.kernels.protocol import Measures, StepSizes, gradient_norm
from tautcut.problem import Problem

# isort: off
from tautcut.kernels.cpu.passes import (
    ABOVE, BELOW, COLUMN_ROWS, CUT, HIGH, ITERATE, LOW, MASS_ABOVE, MASS_ONE, MASS_POSITIVE, MEASURE, MEDIAN, NEVER,
    PADDING, SIGMA, SPECIALISED, STEP, SUM, SUM_ABOVE, SUM_ROWS, TAU, TIE, VARIATION, passes_for,
)  # fmt: skip
# isort: on

_ALIGNMENT = 64  # bytes of a cache line: a row of F that begins at one lies in as few as it can
_SMALL = 400_000  # directed edges × columns below which handing work to threads costs more than it saves
_LEAST_VALUES = 4_000_000  # of F for each thread that looks for medians
_LEAST_SHARE = 150_000  # of them for each thread, so that short passes are not shared by too many

# The bracket is the interval of a column where the next median is expected: `measure` keeps the few values inside it,
# and the median is selected from them. Its half width is the median's last drift times a `slack` that adapts.
_CANDIDATES = 512  # values kept per chunk and column: one chunk may hold most of a column's (decision 0010)
_FEWEST_CANDIDATES = 32  # where there are many columns, which share the room
_LEAST_DRIFT = 5e-4  # the drift that a median which stood still is given, or its bracket would be empty
_AFTER_MISS = 3.0  # slack grows by this: a miss costs far more than candidates that were not needed
_AFTER_HIT = 0.97  # and shrinks by this, so that 36 hits undo a miss
_AFTER_CROWDING = 0.5  # and by this where the candidates fill half of their room: overflowing it is a miss as well
_SLACK_RANGE = (0.5, 30.0)  # it stays in here, so that a long run of one kind is soon undone


@compiled
def _locate_medians(
    first: int, last: int, F: Array, masses: FloatArray, lam: FloatArray, median_mass: FloatArray, bracket: Array,
    totals: FloatArray, n_candidates: IntArray, candidates: Array, candidate_masses: FloatArray, B: FloatArray,
    medians: FloatArray, tie: FloatArray, missed: BoolArray,
) -> None:  # fmt: skip
    """Write B, the exact median, ∂B on ties, and whether the bracket missed the median, of the columns [first, last).

    Where F is hard the median is 0 or 1, and the masses in `totals` say everything. Else it is selected from the
    candidates, or, if it is not among them or some found no room, from the side of the bracket where it must be.
    `masses` is empty where each vertex has the mass 1.
    """
    n = F.shape[0]
    everything = masses.sum() if masses.size else float(n)
    most = min(n, n_candidates[:, first:last].sum(axis=0).max())
    room, room_masses = np.empty(most, F.dtype), np.ones(most)
    for r in range(first, last):
        missed[r] = False
        bar, whole = median_mass[r], totals[SUM, r]  # the median is where the mass from above exceeds the bar
        positive, ones = totals[MASS_POSITIVE, r], totals[MASS_ONE, r]
        if bar < ones:
            median, plus, equal, sum_plus = 1.0, 0.0, ones, 0.0
        elif bar >= positive:
            median, plus, equal, sum_plus = 0.0, positive, everything - positive, whole
        else:
            above, sum_above = totals[MASS_ABOVE, r], totals[SUM_ABOVE, r]
            is_full = n_candidates[:, r].max() > candidates.shape[2]
            size, inside = 0, float(n_candidates[:, r].sum())
            if not is_full:
                size, inside = _collect(masses, candidates, candidate_masses, n_candidates, r, room, room_masses)
            missed[r] = is_full or bar < above or bar >= above + inside
            if missed[r]:
                if room.size < n:
                    room, room_masses = np.empty(n, F.dtype), np.ones(n)
                low, high = bracket[LOW, r], bracket[HIGH, r]
                if bar < above:
                    low, high = high, F.dtype.type(1)
                elif is_full and masses.size:  # how much mass lies inside is not known
                    low = F.dtype.type(0)
                elif bar >= above + inside:
                    low, high = F.dtype.type(0), low
                size, above, sum_above = _read_again(F, masses, r, low, high, room, room_masses)
            values, weights = room[:size], room_masses[:size]
            chosen = _select(values, weights, bar - above)
            median, plus, equal, sum_plus = float(chosen), above, 0.0, sum_above
            for c in range(size):
                if values[c] > chosen:
                    plus += weights[c]
                    sum_plus += weights[c] * values[c]
                elif values[c] == chosen:
                    equal += weights[c]
        minus = everything - plus - equal
        sum_minus = whole - sum_plus - median * equal
        B[r] = lam[r] * (sum_plus - median * plus) + (median * minus - sum_minus)
        medians[r] = median
        tie[r] = (minus - lam[r] * plus) / equal


@compiled
def _edges_once(indptr: IntArray, indices: Array, weights: Array, is_uniform: bool) -> tuple[IntArray, Array, Array]:
    """The edges to neighbours with higher numbers, in CSR: each edge once. Weights that are all 1 stay as they are."""
    once_ptr = np.zeros(indptr.size, np.int64)
    for i in range(indptr.size - 1):
        at = indptr[i + 1]
        while at > indptr[i] and indices[at - 1] > i:  # neighbours are sorted
            at -= 1
        once_ptr[i + 1] = once_ptr[i] + indptr[i + 1] - at
    once = np.empty(once_ptr[-1], indices.dtype)
    once_weights = weights.copy() if is_uniform else np.empty(once_ptr[-1], weights.dtype)
    for i in range(indptr.size - 1):
        begin, end = once_ptr[i], once_ptr[i + 1]
        first = indptr[i + 1] - (end - begin)
        once[begin:end] = indices[first : indptr[i + 1]]
        if not is_uniform:
            once_weights[begin:end] = weights[first : indptr[i + 1]]
    return once_ptr, once, once_weights


@compiled
def _collect(
    masses: FloatArray, candidates: Array, candidate_masses: FloatArray, n_candidates: IntArray, r: int, room: Array,
    room_masses: FloatArray,
) -> tuple[int, float]:  # fmt: skip
    """Write the candidates of column r and their masses into the rooms; how many there are, and their mass."""
    size, inside = 0, 0.0
    for chunk in range(n_candidates.shape[0]):
        for c in range(n_candidates[chunk, r]):
            room[size] = candidates[chunk, r, c]
            if masses.size:
                room_masses[size] = candidate_masses[chunk, r, c]
            inside += room_masses[size]
            size += 1
    return size, inside


@compiled
def _read_again(
    F: Array, masses: FloatArray, r: int, low: Any, high: Any, room: Array, room_masses: FloatArray
) -> tuple[int, float, float]:
    """Write the values low < f ≤ high of column r, and their masses, into the rooms; how many they are, and the mass of
    those above and its share in Σ m f.
    """
    size, above, sum_above = 0, 0.0, 0.0
    for i in range(F.shape[0]):
        value, mass = F[i, r], masses[i] if masses.size else 1.0
        if value > high:
            above += mass
            sum_above += mass * value
        elif value > low:
            room[size], room_masses[size] = value, mass
            size += 1
    return size, above, sum_above


@compiled
def _select(values: Array, masses: FloatArray, bar: float) -> Any:
    """The largest value such that it and those above have more mass than the bar, by quickselect; reorders both."""
    low, high, above = 0, values.size - 1, 0.0
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
                masses[i], masses[j] = masses[j], masses[i]
                i += 1
                j -= 1
        larger = above + masses[i : high + 1].sum()
        if bar < larger:
            low = i
        elif j + 1 < i and bar < larger + masses[j + 1]:
            return pivot
        else:
            above = larger + masses[j + 1 : i].sum()
            high = j
    return values[max(low, 0)] if values.size else values.dtype.type(0)


@dataclass
class CpuArrays:
    """F, F̄, F^k and the duals of the directed edges; rows are padded to whole SIMD lanes.

    `F`, `F_k` and `F_bar` point into two pairs of buffers, so an outer step copies nothing. `labels` is the argmax of
    F, `cut` its cut at the last look; `median` and `slack` are those of the bracket.
    """

    crew: Crew
    rows: Array
    buffers: tuple[Array, ...]  # the rows one by one: two states, two extrapolations
    P: Array
    steps: Array  # τ and θ
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
    """The Numba engine for one problem, in float32 or float64; duals in the same, or in float16 beside float32."""

    name = "cpu"

    def __init__(
        self, problem: Problem, *, dtype: np.dtype[Any], has_half_duals: bool = False, n_threads: int | None = None,
        groups: IntArray | None = None,
    ) -> None:  # fmt: skip
        R = problem.n_clusters
        self._order = _local_order(problem.graph, R * dtype.itemsize, groups)
        graph = problem.graph if self._order is None else permuted(problem.graph, self._order)
        weights, self.weight_unit = graph.scaled_weights()
        masses, mass_unit = graph.scaled_masses()
        self.unit = self.weight_unit / mass_unit
        self.lipschitz = gradient_norm(graph, weights, product=_shared_product)
        self._dtype, self._n_columns = dtype, R
        self._dual_dtype = np.dtype(np.uint16) if has_half_duals else dtype  # the bits of a float16: `rows.HALF`
        is_uniform = graph.is_uniform
        self._passes = passes_for(R, is_uniform, not graph.is_even, dtype.name)
        self._width = self._passes.width
        self._indptr: Array = graph.indptr
        self._indices: Array = graph.indices
        self._weights = np.zeros(1, dtype) if is_uniform else weights.astype(dtype)
        self._edges_once = _edges_once(self._indptr, self._indices, self._weights, is_uniform)
        self._is_fixed = problem.is_labelled if self._order is None else problem.is_labelled[self._order]
        self._masses = np.empty(0) if graph.is_even else masses
        self._pulls = self._masses.astype(dtype)  # the masses in F's precision: how strongly ∂B pulls at each vertex
        self._lam, self._median_mass = problem.lam, problem.median_mass / mass_unit
        self._bounds = chunk_bounds(self._indptr)
        n_chunks = self._bounds.size - 1
        self._sums = np.zeros((n_chunks, SUM_ROWS, self._width))
        self._n_candidates = np.zeros((n_chunks, R), np.int64)
        room = max(_CANDIDATES * SPECIALISED // max(R, SPECIALISED), _FEWEST_CANDIDATES)
        self._candidates = np.zeros((n_chunks, R, room), dtype)
        self._candidate_masses = np.zeros((0, 0, 0) if graph.is_even else self._candidates.shape)
        work = self._indices.size * R
        self._n_threads = 1 if work < _SMALL else n_threads or affordable_threads(work, _LEAST_SHARE)

    def allocate(self, F: FloatArray) -> CpuArrays:
        n, R = F.shape
        rows = _aligned((4 * n, self._width), self._dtype).reshape(4, n, self._width)
        buffers = tuple(rows)
        start = buffers[0]
        start[:, :R] = F if self._order is None else F[self._order]
        columns = np.zeros((COLUMN_ROWS, self._width), self._dtype)
        columns[PADDING, R:] = NEVER
        bracket = np.zeros((2, self._width), self._dtype)
        bracket[LOW] = 2.0  # above `high`, so it is empty: the first look selects from whole columns
        P = _aligned((self._indices.size, self._width), self._dual_dtype)
        return CpuArrays(
            Crew(min(self._n_threads, self._bounds.size - 1)), rows, buffers, P, np.zeros(2, self._dtype),
            start[:, :R].argmax(axis=1).astype(np.int32), columns,
            bracket, F=start, F_k=start, F_bar=start, median=np.zeros(R), slack=np.ones(R), cut=np.zeros(R),
        )  # fmt: skip

    def measure(self, arrays: CpuArrays) -> Measures:
        self._run(MEASURE, arrays)
        totals = self._sums.sum(axis=0)
        R = self._n_columns
        B, median, tie, missed = np.empty(R), np.empty(R), np.empty(R), np.empty(R, np.bool_)
        n_threads = min(affordable_threads(arrays.F.size, _LEAST_VALUES), R)
        share(
            _locate_medians, [R * t // n_threads for t in range(n_threads + 1)], arrays.F, self._masses, self._lam,
            self._median_mass, arrays.bracket, totals, self._n_candidates, self._candidates, self._candidate_masses,
            B, median, tie, missed,
        )  # fmt: skip
        self._move_bracket(arrays, median, missed)
        arrays.cut = totals[CUT, :R] * self.weight_unit
        return Measures(totals[VARIATION, :R], B, median, tie, float(totals[STEP, :R].sum()))

    def _move_bracket(self, arrays: CpuArrays, median: FloatArray, missed: BoolArray) -> None:
        """Expect each median to drift on as it did. The bracket stays below 1: a median there is found by counting."""
        R = self._n_columns
        drift = np.where(arrays.has_median, median - arrays.median, 0.0)
        is_crowded = self._n_candidates.max(axis=0) > self._candidates.shape[2] // 2
        arrays.slack *= np.where(is_crowded, _AFTER_CROWDING, np.where(missed, _AFTER_MISS, _AFTER_HIT))
        np.clip(arrays.slack, *_SLACK_RANGE, out=arrays.slack)
        arrays.median, arrays.has_median = median, True
        half = arrays.slack * np.maximum(np.abs(drift), _LEAST_DRIFT)
        below_one = np.nextafter(self._dtype.type(1), self._dtype.type(0))
        arrays.bracket[LOW, :R] = np.clip(median + drift - half, 0.0, below_one)
        arrays.bracket[HIGH, :R] = np.clip(median + drift + half, 0.0, below_one)

    def linearise(self, arrays: CpuArrays, measures: Measures, delta: float) -> None:
        arrays.F_k = arrays.F_bar = arrays.F
        R = self._n_columns
        step = delta * measures.E / measures.B
        arrays.columns[MEDIAN, :R] = measures.median
        arrays.columns[ABOVE, :R] = step * self._lam
        arrays.columns[TIE, :R] = step * measures.tie
        arrays.columns[BELOW, :R] = -step

    def iterate(self, arrays: CpuArrays, scale: FloatArray, steps: StepSizes) -> None:
        R = self._n_columns
        arrays.columns[SIGMA, :R] = steps.sigma * scale
        arrays.columns[TAU, :R] = steps.tau * scale
        arrays.steps[:] = steps.tau, steps.theta
        F_next = _other(arrays.buffers[:2], arrays.F_k)
        F_bar_next = _other(arrays.buffers[2:], arrays.F_bar)
        self._run(ITERATE, arrays, F_next=F_next, bar_next=F_bar_next)
        arrays.F, arrays.F_bar = F_next, F_bar_next

    def harden(self, arrays: CpuArrays) -> tuple[IntArray, FloatArray]:
        return self._in_order(arrays.labels, np.int64), arrays.cut

    def memberships(self, arrays: CpuArrays, *, previous: bool = False) -> FloatArray:
        return self._in_order((arrays.F_k if previous else arrays.F)[:, : self._n_columns], np.float64)

    def _in_order(self, rows: Array, dtype: type) -> Array:
        """Rows of the engine in the order of the problem, copied once."""
        if self._order is None:
            return rows.astype(dtype)
        placed: Array = np.empty(rows.shape, dtype)
        placed[self._order] = rows
        return placed

    def _run(
        self, command: int, arrays: CpuArrays, *, F_next: Array | None = None, bar_next: Array | None = None
    ) -> None:
        """Run a pass over all chunks, by the crew of these arrays."""
        places = {id(one): k for k, one in enumerate(arrays.buffers)}
        told = (arrays.F, F_next, arrays.F_bar, bar_next, arrays.F_k)  # NOW, NEXT, BAR, NEXT_BAR, BEFORE
        arrays.crew.numbers[:5] = [places.get(id(one), -1) for one in told]
        tile = self._passes.tile
        arrays.crew.run(
            command, self._passes.work, self._bounds, self._indptr, self._indices, self._weights, self._pulls,
            self._is_fixed, *self._edges_once, self._masses, arrays.rows.reshape(4, -1, tile),
            arrays.P.reshape(-1, tile), arrays.labels, arrays.columns.reshape(-1, tile), arrays.steps,
            arrays.bracket.reshape(-1, tile), self._sums.reshape(self._sums.shape[0], -1, tile), self._n_candidates,
            self._candidates, self._candidate_masses,
        )  # fmt: skip


def _shared_product(matrix: SparseMatrix, x: FloatArray) -> FloatArray:
    """The matrix times x, by several threads."""
    product = np.empty(x.size)
    indptr = matrix.indptr.astype(np.int64)
    share(_multiply_rows, even_shares(indptr), indptr, matrix.indices, matrix.data, x, product)
    return product


@compiled
def _multiply_rows(
    first: int, last: int, indptr: IntArray, indices: Array, data: FloatArray, x: FloatArray, product: FloatArray
) -> None:
    for i in range(first, last):
        value = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            value += data[e] * x[indices[e]]
        product[i] = value


def _other(pair: tuple[Array, ...], one: Array) -> Array:
    """The buffer of the pair that is not `one`."""
    return pair[1] if one is pair[0] else pair[0]


def _local_order(graph: Graph, row_bytes: int, groups: IntArray | None) -> IntArray | None:
    """An order of the vertices in which neighbours are near, if they are not already or the rows fit in the cache.

    Clusters of the start first, if they are known, and inside them the reverse Cuthill–McKee order (decision 0015).
    """
    if not is_scattered(graph, row_bytes):
        return None
    n = graph.n_vertices
    rank = np.empty(n, np.int64)
    rank[local_order(graph.to_scipy())] = np.arange(n)
    return rank.argsort() if groups is None else np.lexsort((rank, groups))


def _aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Zeros that begin at a cache line."""
    size = shape[0] * shape[1] * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(dtype).reshape(shape)
