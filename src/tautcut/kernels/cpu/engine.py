"""The Numba engine: one inner iteration is one fused pass over the vertices, one look at F is a second, lighter one.

Each vertex updates the duals of its own directed edges (p_ij = −p_ji, so both ends compute the same value and
nobody races), sums the divergence, takes the primal step, projects onto the simplex in registers and writes F̄
to a second buffer. Sums over vertices are taken in fixed chunks and added in their order, so the bits do not
depend on the number of threads. This module owns the layout; it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph
from tautcut.graph.graph import local_order, read_only
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.crew import Crew
from tautcut.kernels.cpu.layout import aligned, is_scattered, permuted
from tautcut.kernels.cpu.sharing import LIGHT, affordable_threads, chunk_bounds, even_shares, share
from tautcut.kernels.protocol import Measures, StepSizes, gradient_norm
from tautcut.kernels.tally import CUT, STEP, SUM_ROWS, VARIATION, Bracket
from tautcut.problem import Problem, energy_unit

# isort: off
from tautcut.kernels.cpu.passes import (
    ABOVE, BELOW, COLUMN_ROWS, ITERATE, MEASURE, MEDIAN, MEDIANS, NEVER, PADDING, SIGMA, SPECIALISED, TAU, TIE,
    passes_for,
)  # fmt: skip
# isort: on

_SMALL = 400_000  # directed edges × columns below which handing work to threads costs more than it saves
_LEAST_SHARE = 150_000  # of them for each thread, so that short passes are not shared by too many

# `measure` keeps the few values inside a column's bracket, and the median is selected from them.
_CANDIDATES = 512  # values kept per chunk and column: one chunk may hold most of a column's (decision 0010)
_FEWEST_CANDIDATES = 32  # where there are many columns, which share the room


@compiled
def _edges_once(indptr: IntArray, indices: Array, weights: FloatArray) -> tuple[IntArray, Array, FloatArray]:
    """The edges to neighbours with higher numbers, in CSR: each edge once."""
    once_ptr = np.zeros(indptr.size, np.int64)
    for i in range(indptr.size - 1):
        at = indptr[i + 1]
        while at > indptr[i] and indices[at - 1] > i:  # neighbours are sorted
            at -= 1
        once_ptr[i + 1] = once_ptr[i] + indptr[i + 1] - at
    once, once_weights = np.empty(once_ptr[-1], indices.dtype), np.empty(once_ptr[-1])
    for i in range(indptr.size - 1):
        begin, end = once_ptr[i], once_ptr[i + 1]
        first = indptr[i + 1] - (end - begin)
        once[begin:end] = indices[first : indptr[i + 1]]
        once_weights[begin:end] = weights[first : indptr[i + 1]]
    return once_ptr, once, once_weights


@dataclass
class CpuArrays:
    """F, F̄, F^k and the duals of the directed edges; rows are padded to whole SIMD lanes.

    `F`, `F_k` and `F_bar` point into two pairs of buffers, so an outer step copies nothing. `labels` is the argmax of
    F, `cut` its cut at the last look.
    """

    crew: Crew
    rows: Array
    buffers: tuple[Array, ...]  # the rows one by one: two states, two extrapolations
    P: Array
    steps: Array  # τ and θ
    labels: Array
    columns: Array
    bracket: Bracket
    F: Array
    F_k: Array
    F_bar: Array
    cut: FloatArray
    told: tuple[Any, ...]  # what every pass is given


class _OfMedians(NamedTuple):
    """What the medians are located with, and what is found; `found` has rows of B, of medians, and of ∂B on ties."""

    lam: FloatArray
    mass: FloatArray  # m(V) / (λ + 1)
    totals: FloatArray
    found: FloatArray
    missed: BoolArray

    @classmethod
    def of_columns(cls, R: int, width: int) -> _OfMedians:
        return cls(np.zeros(R), np.zeros(R), np.zeros((SUM_ROWS, width)), np.zeros((3, R)), np.zeros(R, np.bool_))


class RowLayout(NamedTuple):
    """The rows that an engine works on: those of a whole graph, or of a part of it, whose neighbours elsewhere follow.

    Weights and masses are divided by their means. `once` has every edge that is counted here, in CSR order.
    """

    indptr: IntArray
    indices: Array
    weights: FloatArray
    masses: FloatArray
    is_fixed: BoolArray
    once: tuple[IntArray, Array, FloatArray]
    bounds: IntArray  # where the rows are cut into chunks
    is_uniform: bool
    is_even: bool


class RowEngine:
    """The passes over some rows, and the arrays that they need: in float32 or float64; duals in the same, or in float16
    beside float32.
    """

    def __init__(
        self, layout: RowLayout, lam: FloatArray, *, dtype: np.dtype[Any], has_half_duals: bool = False,
        n_threads: int | None = None,
    ) -> None:  # fmt: skip
        R = lam.size
        self._dtype, self._n_columns, self._lam = dtype, R, lam
        self._dual_dtype = np.dtype(np.uint16) if has_half_duals else dtype  # the bits of a float16: `rows.HALF`
        self._passes = passes_for(R, layout.is_uniform, not layout.is_even, dtype.name)
        self._width = self._passes.width
        self._indptr, self._indices, self._is_fixed = layout.indptr, layout.indices, layout.is_fixed
        self._weights, once_weights = (
            np.zeros(1, dtype) if layout.is_uniform else one.astype(dtype) for one in (layout.weights, layout.once[2])
        )
        self._edges_once = (*layout.once[:2], once_weights)
        self._masses = np.empty(0) if layout.is_even else layout.masses
        self._pulls = self._masses.astype(dtype)  # the masses in F's precision: how strongly ∂B pulls at each vertex
        self._bounds, self._n_chunks = layout.bounds, layout.bounds.size - 1
        self._sums = np.zeros((self._n_chunks, SUM_ROWS, self._width))
        self._n_candidates = np.zeros((self._n_chunks, R), np.int64)
        room = max(_CANDIDATES * SPECIALISED // max(R, SPECIALISED), _FEWEST_CANDIDATES)
        self._candidates = np.zeros((self._n_chunks, R, room), dtype)
        self._candidate_masses = np.zeros((0, 0, 0) if layout.is_even else self._candidates.shape)
        self._of_medians = _OfMedians.of_columns(R, self._width)
        # Weights and duals of a row add up to no more than all weights, which have mean 1: so nothing overflows.
        self._largest = float(np.finfo(dtype).max) / (8.0 * (1.0 + layout.indices.size))
        work = self._indices.size * R
        self._n_threads = 1 if work < _SMALL else n_threads or affordable_threads(work, _LEAST_SHARE)

    def _allocated(self, F: FloatArray) -> CpuArrays:
        """Arrays that hold F, the rows of neighbours elsewhere too, and P = 0."""
        n, R = F.shape
        rows = aligned((4 * n, self._width), self._dtype).reshape(4, n, self._width)
        buffers = tuple(rows)
        start = buffers[0]
        start[:, :R] = F
        columns = np.zeros((COLUMN_ROWS, self._width), self._dtype)
        columns[PADDING, R:] = NEVER
        bracket = Bracket.empty(R, self._width, self._dtype)  # the first look selects from whole columns
        P = aligned((self._indices.size, self._width), self._dual_dtype)
        labels, steps, tile = start[:, :R].argmax(axis=1).astype(np.int32), np.zeros(2, self._dtype), self._passes.tile
        told = (
            self._bounds, self._indptr, self._indices, self._weights, self._pulls, self._is_fixed, *self._edges_once,
            self._masses, rows.reshape(4, -1, tile), P.reshape(-1, tile), labels, columns.reshape(-1, tile), steps,
            bracket.ends.reshape(-1, tile), self._sums.reshape(self._n_chunks, SUM_ROWS * self._width // tile, tile),
            self._n_candidates, self._candidates, self._candidate_masses, *self._of_medians,
        )  # fmt: skip
        return CpuArrays(
            Crew(max(min(self._n_threads, self._n_chunks), 1)), rows, buffers, P, steps, labels, columns,
            bracket, F=start, F_k=start, F_bar=start, cut=np.zeros(R), told=told,
        )  # fmt: skip

    def _tally(self, arrays: CpuArrays) -> FloatArray:
        """Look at F: the rows of `sums`, added up over all chunks in their order."""
        self._run(MEASURE, arrays)
        return np.asarray(self._sums.sum(axis=0))

    def linearise(self, arrays: CpuArrays, measures: Measures, delta: float) -> None:
        arrays.F_k = arrays.F_bar = arrays.F
        R = self._n_columns
        step = self._representable(delta * measures.E / measures.B)  # ∞ times a tie of 0 would be no number
        arrays.columns[MEDIAN, :R] = measures.median
        arrays.columns[ABOVE, :R] = self._representable(step * self._lam)
        arrays.columns[TIE, :R] = self._representable(step * measures.tie)
        arrays.columns[BELOW, :R] = -step

    def _prepare(self, arrays: CpuArrays, scale: FloatArray, steps: StepSizes) -> tuple[Array, Array]:
        """Tell the pass the step sizes of an iteration; where the next F and F̄ go."""
        R = self._n_columns
        arrays.columns[SIGMA, :R] = self._representable(steps.sigma * scale)
        arrays.columns[TAU, :R] = self._representable(steps.tau * scale)
        arrays.steps[:] = steps.tau, steps.theta
        return _other(arrays.buffers[:2], arrays.F_k), _other(arrays.buffers[2:], arrays.F_bar)

    def _representable(self, values: FloatArray) -> FloatArray:
        """Values that stay finite in the engine's precision, whatever of a row they are multiplied with: clusters of
        next to no mass have steps beyond it.
        """
        return np.maximum(np.minimum(values, self._largest), -self._largest)

    def _run(
        self, command: int, arrays: CpuArrays, *, F_next: Array | None = None, bar_next: Array | None = None,
        chunks: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Run a pass over the chunks, all of them by default, by the crew of these arrays."""
        places = {id(one): k for k, one in enumerate(arrays.buffers)}
        named = (arrays.F, F_next, arrays.F_bar, bar_next, arrays.F_k)  # NOW, NEXT, BAR, NEXT_BAR, BEFORE
        first, last = (0, self._n_chunks) if chunks is None else chunks
        arrays.crew.numbers[:6] = [*[places.get(id(one), -1) for one in named], last]
        if first != last:
            arrays.crew.run(command, self._passes.work, *arrays.told, first=first)


class CpuKernels(RowEngine):
    """The Numba engine for one problem."""

    name = "cpu"

    def __init__(
        self, problem: Problem, *, dtype: np.dtype[Any], has_half_duals: bool = False, n_threads: int | None = None,
        groups: IntArray | None = None,
    ) -> None:  # fmt: skip
        self._order = _local_order(problem.graph, problem.n_clusters * dtype.itemsize, groups)
        graph = problem.graph if self._order is None else permuted(problem.graph, self._order)
        weights, self.weight_unit = graph.scaled_weights()
        masses, mass_unit = graph.scaled_masses()
        self.unit = energy_unit(self.weight_unit, mass_unit)
        self.lipschitz = gradient_norm(graph, weights, product=shared_product)
        is_fixed = problem.is_labelled if self._order is None else problem.is_labelled[self._order]
        layout = RowLayout(
            graph.indptr, graph.indices, weights, masses, read_only(is_fixed),  # always: it is a type of its own
            _edges_once(graph.indptr, graph.indices, weights), chunk_bounds(graph.indptr), graph.is_uniform,
            graph.is_even,
        )  # fmt: skip
        super().__init__(layout, problem.lam, dtype=dtype, has_half_duals=has_half_duals, n_threads=n_threads)
        self._of_medians.lam[:], self._of_medians.mass[:] = problem.lam, problem.median_mass / mass_unit

    def allocate(self, F: FloatArray) -> CpuArrays:
        return self._allocated(F if self._order is None else F[self._order])

    def measure(self, arrays: CpuArrays) -> Measures:
        totals, R = self._tally(arrays), self._n_columns
        self._of_medians.totals[:] = totals
        self._run(MEDIANS, arrays, chunks=(0, R))
        (B, median, tie), missed = self._of_medians.found.copy(), self._of_medians.missed
        is_crowded = self._n_candidates.max(axis=0) > self._candidates.shape[2] // 2
        arrays.bracket.move(median, missed, is_crowded)
        arrays.cut = totals[CUT, :R] * self.weight_unit
        return Measures(totals[VARIATION, :R], B, median, tie, float(totals[STEP, :R].sum()))

    def iterate(self, arrays: CpuArrays, scale: FloatArray, steps: StepSizes) -> None:
        F_next, F_bar_next = self._prepare(arrays, scale, steps)
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


def shared_product(matrix: SparseMatrix, x: FloatArray) -> FloatArray:
    """The matrix times x, by several threads."""
    product = np.empty(x.size)
    indptr = matrix.indptr.astype(np.int64)
    share(_multiply_rows, even_shares(indptr, lightness=LIGHT), indptr, matrix.indices, matrix.data, x, product)
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
