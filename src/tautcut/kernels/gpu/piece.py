"""One part of a graph on an NVIDIA GPU, for a rank of many: the `Piece` of `kernels.ranks` by the programs of the GPU's
engine, in float32. Rows of the boundary are laid out first, then the others, then the ghosts, as they arrive; the first
two have a launch each, so that rows can be on their way meanwhile. What it takes is foreseen. It knows of no other rank
and decides nothing (decision 0061).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tautcut import memory
from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.graph.shard import Shard
from tautcut.kernels import gpu
from tautcut.kernels.gpu import programs, tables, tallies
from tautcut.kernels.gpu.layout import Csr, Layout, extent_of, layout_of, order_of, tensor_of
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.kernels.tally import CUT, HIGH, N_BINS, SUM, SUM_ROWS, VARIATION, Bracket, Tally

# isort: off
from tautcut.kernels.gpu.engine import (
    BYTES_OF_LAYOUT, MOST_CLUSTERS, UNROLL, free_bytes, lanes_of, padded_columns, programs_varying, warps_of,
)  # fmt: skip
# isort: on

_NARROW = 2**31  # values of a plane of F: from here on, offsets have 64 bits
_TILE = 128  # values that a warp of `look` reads at a time
_FEWEST_ROWS = 2  # of a tile, however many columns
_TILES_OF_PROGRAM = 16  # that a program of `look` reads, until there are more than _MOST_LOOKING programs can share
_MOST_LOOKING = 8192  # programs of `look`
_ROWS_SPREAD = 16  # rows that a program of `spread` reads at a time, each against all bins
_ROWS_NOTED = 512  # rows that a program of `note` reads at a time
_ROWS_OF_COLUMN = 1024  # that a program of either reads, until there are more than _MOST_OF_COLUMN programs can share
_MOST_OF_COLUMN = 1024  # programs of either to a column
_WARPS_OF_COLUMN = 4  # of such a program
_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that one launch iterates: those of the boundary, or the others. Numbers in `layout` count from `first`."""

    layout: Layout
    first: int
    weights: torch.Tensor
    owners: torch.Tensor
    hubs: torch.Tensor
    partials: torch.Tensor  # of the pieces of hubs
    norms: torch.Tensor  # of each block: `iterate` leaves them, nobody reads them
    variations: torch.Tensor  # (2, R, programs): T and cut

    @classmethod
    def of(cls, layout: Layout, first: int, R: int) -> _Rows:
        device = layout.order.device
        n_programs = programs_varying(layout.n_blocks) if layout.n_blocks else 0
        nothing = torch.zeros(1, device=device)
        return cls(
            layout, first,
            weights=nothing if layout.weights is None else layout.weights,
            owners=layout.owners if layout.n_hubs else nothing.int(),
            hubs=tensor_of(layout.hubs.astype(np.int32), device),
            partials=torch.zeros((layout.n_pieces, R), device=device),
            norms=torch.zeros(layout.n_blocks, device=device),
            variations=torch.zeros((2, R, n_programs), dtype=torch.float64, device=device),
        )  # fmt: skip

    @property
    def graph(self) -> tuple[torch.Tensor, ...]:
        return self.layout.offsets, self.layout.neighbors, self.weights, self.owners


@dataclass
class GpuPieceArrays:
    """F, F̄, F^k and the duals of a part. X is (plane, row, column), with planes as in `GpuBatch`; the tables are told
    to the GPU at every iteration, `columns` are those of `tables`.
    """

    X: torch.Tensor
    P: tuple[torch.Tensor, torch.Tensor]  # of the boundary's rows, and of the others
    labels: torch.Tensor
    fixed: torch.Tensor  # the label of a row that stays as it is, −1 of any other
    words: torch.Tensor
    reals: torch.Tensor  # and then the columns
    columns: FloatArray
    bracket: Bracket
    slot_k: int = 0
    slot: int = 1  # where the next F goes
    bar: int = 0
    inner: int = 0  # iterations since F^k: before the first, F is F^k

    @property
    def F(self) -> torch.Tensor:  # noqa: N802 - the paper's letter
        return self.X[self.slot if self.inner else self.slot_k]

    @property
    def F_k(self) -> torch.Tensor:  # noqa: N802
        return self.X[self.slot_k]


class GpuPiece:
    """A part on a GPU. Rows go out and come in as tensors there, or, where `is_through_host`, in the host's memory:
    ranks that share a GPU have no other way.
    """

    bits_of_one = int(np.ones(1, _FLOAT).view(np.int32)[0])

    def __init__(
        self, shard: Shard, lam: FloatArray, is_fixed: BoolArray, *, has_half_duals: bool = False,
        is_through_host: bool = False, n_sharing: int = 1, device: str | None = None,
    ) -> None:  # fmt: skip
        R, whole = lam.size, shard.whole
        self.device = torch.device(device or gpu.DEVICE)
        _require(shard, R, has_half_duals, self.device, n_sharing)
        self._lam, self._n_own, self._n_local, self._n_boundary = lam, shard.n_own, shard.n_local, shard.n_boundary
        self._duals = torch.float16 if has_half_duals else torch.float32
        self._is_wide = self._n_local * R >= _NARROW
        self._has_masses, self._has_fixed = not whole.is_even, bool(is_fixed.any())
        self._RP = padded_columns(R)
        self._rows, self._order, row_of = self._laid_out(shard)
        own = self._order[: self._n_own]
        self._is_fixed = tensor_of(np.asarray(is_fixed), self.device)[own]
        self._masses = torch.zeros(1, dtype=torch.float64, device=self.device)
        if self._has_masses:
            self._masses = tensor_of(np.asarray(shard.masses) / whole.mass_unit, self.device)[own]
        # The numbers in the whole graph of the boundary's rows and of the ghosts: the lower one counts an edge.
        self._numbers = tensor_of(np.asarray(shard.vertices), self.device)[own[: self._n_boundary]]
        self._ghosts = tensor_of(np.asarray(shard.ghosts), self.device)
        self._sent = row_of[tensor_of(np.asarray(shard.sent), self.device)]
        self._active = torch.zeros(1, dtype=torch.int32, device=self.device)
        self._outgoing, self._incoming = (
            torch.zeros((n, R), device=self.device) for n in (self._sent.numel(), self._n_local - self._n_own)
        )
        self.outgoing, self.incoming = self._outgoing, self._incoming
        self._copied: torch.cuda.Event | None = None
        if is_through_host and self.device.type == "cuda":
            self._copied = torch.cuda.Event()
            self.outgoing, self.incoming = (
                torch.zeros(one.shape, pin_memory=True) for one in (self._outgoing, self._incoming)
            )

    def _laid_out(self, shard: Shard) -> tuple[tuple[_Rows, _Rows], torch.Tensor, torch.Tensor]:
        """The boundary's rows and the others; the vertex of every row, and the row of every vertex.

        Ghosts come last, as they are.
        """
        inner, whole, device = shard.n_boundary, shard.whole, self.device
        indptr, indices = tensor_of(np.asarray(shard.indptr), device), tensor_of(np.asarray(shard.indices), device)
        weights = None if whole.is_uniform else tensor_of(np.asarray(shard.weights) / whole.weight_unit, device)
        middle = int(shard.indptr[inner])
        parts = (
            Csr(indptr[: inner + 1], indices[:middle], None if weights is None else weights[:middle]),
            Csr(indptr[inner:] - middle, indices[middle:], None if weights is None else weights[middle:]),
        )
        near, far = (order_of(one).vertices for one in parts)
        ghosts = torch.arange(shard.n_own, shard.n_local, device=device)
        order = torch.cat([near, far + inner, ghosts])
        row_of = torch.empty(order.shape, dtype=torch.int32, device=device)
        row_of[order] = torch.arange(order.numel(), dtype=torch.int32, device=device)
        R, lanes = self._lam.size, lanes_of(self._RP)
        boundary, interior = (
            _Rows.of(layout_of(one, lanes=lanes, unroll=UNROLL, row_of=row_of - first), first, R)
            for one, first in zip(parts, (0, inner), strict=True)
        )
        return (boundary, interior), order, row_of

    # ------------------------------------------------------------ an iteration

    def allocate(self, F: FloatArray) -> GpuPieceArrays:
        R = self._lam.size
        X = torch.zeros((tables.PLANES.value, self._n_local, R), device=self.device)
        rows = torch.as_tensor(np.ascontiguousarray(F, dtype=_FLOAT)).to(self.device)
        torch.index_select(rows, 0, self._order, out=X[0])
        labels = X[0].argmax(dim=1).to(torch.int32)
        P = tuple(torch.zeros((one.layout.n_slots, R), dtype=self._duals, device=self.device) for one in self._rows)
        return GpuPieceArrays(
            X, (P[0], P[1]), labels,
            fixed=torch.where(self._is_fixed, labels[: self._n_own], -1),
            words=torch.zeros(tables.WORDS.value, dtype=torch.int32, device=self.device),
            reals=torch.zeros(tables.REALS.value + tables.COLUMNS.value * R, dtype=torch.float64, device=self.device),
            columns=np.zeros((tables.COLUMNS.value, R)), bracket=Bracket.empty(R, R, _FLOAT),
        )  # fmt: skip

    def linearise(self, arrays: GpuPieceArrays, measures: Measures, delta: float) -> None:
        pull = delta * measures.E / measures.B
        arrays.columns[tables.MEDIAN_K.value] = measures.median
        arrays.columns[tables.UP.value] = self._lam * pull
        arrays.columns[tables.LEVEL.value] = measures.tie * pull
        arrays.columns[tables.DOWN.value] = -pull
        if arrays.inner:
            arrays.slot_k, arrays.slot, arrays.inner = arrays.slot, arrays.slot_k, 0

    def iterate_boundary(self, arrays: GpuPieceArrays, scale: FloatArray, steps: StepSizes) -> None:
        arrays.columns[tables.SCALE.value] = scale
        self._tell(arrays, steps)
        self._iterate(arrays, 0)
        torch.index_select(arrays.X[arrays.slot], 0, self._sent, out=self._outgoing)
        if self._copied is not None:  # the sender reads the host's memory, and knows nothing of streams
            self.outgoing.copy_(self._outgoing, non_blocking=True)
            self._copied.record()
            self._copied.synchronize()

    def iterate_interior(self, arrays: GpuPieceArrays) -> None:
        self._iterate(arrays, 1)

    def arrive(self, arrays: GpuPieceArrays) -> None:
        if self._copied is not None:
            self._incoming.copy_(self.incoming, non_blocking=True)
        n_ghosts, V = self._n_local - self._n_own, lanes_of(self._RP)
        if n_ghosts:
            programs.arrive[(-(-n_ghosts // V),)](
                arrays.X, arrays.labels, self._incoming, arrays.words, arrays.reals, self._n_local, self._n_own,
                R=self._lam.size, RP=self._RP, V=V, IS_WIDE=self._is_wide, num_warps=warps_of(V, self._RP),
            )  # fmt: skip
        arrays.bar, arrays.inner = 1 - arrays.bar, arrays.inner + 1

    def _tell(self, arrays: GpuPieceArrays, steps: StepSizes) -> None:
        """Write what the programs of an iteration read: where F, F^k and F̄ are, step sizes, and what columns have."""
        words, reals = np.zeros(tables.WORDS.value, np.int32), np.zeros(tables.REALS.value)
        for place, value in {
            tables.PHASE: tables.ITERATE.value, tables.SLOT_K: arrays.slot_k, tables.SLOT: arrays.slot,
            tables.BAR: arrays.bar, tables.INNER: arrays.inner,
        }.items():  # fmt: skip
            words[place.value] = value
        reals[[tables.TAU.value, tables.SIGMA.value, tables.THETA.value]] = steps.tau, steps.sigma, steps.theta
        arrays.words.copy_(torch.from_numpy(words))
        arrays.reals.copy_(torch.from_numpy(np.concatenate([reals, arrays.columns.ravel()])))

    def _iterate(self, arrays: GpuPieceArrays, which: int) -> None:
        rows, layout = self._rows[which], self._rows[which].layout
        masses = self._masses[rows.first :] if self._has_masses else self._masses
        for n_programs, finishes in ((layout.n_blocks, False), (layout.n_hubs, True)):
            if n_programs:
                programs.iterate[(n_programs, 1)](
                    arrays.X[:, rows.first :], arrays.P[which], arrays.labels[rows.first :], rows.norms, rows.partials,
                    arrays.words, arrays.reals, arrays.reals[tables.REALS.value :], self._active, *rows.graph,
                    rows.hubs, arrays.fixed[rows.first :], masses, self._n_local, layout.n_short,
                    layout.n_short_blocks, layout.n_whole_blocks, layout.n_blocks, layout.n_slots,
                    HAS_MASSES=self._has_masses, HAS_LABELS=self._has_fixed, FINISHES=finishes, **self._shape(layout),
                )  # fmt: skip

    def _shape(self, layout: Layout) -> dict[str, Any]:
        """What programs on blocks of rows are compiled for."""
        return {
            "R": self._lam.size, "RP": self._RP, "V": layout.lanes, "E": UNROLL,
            "IS_WEIGHTED": layout.weights is not None, "HAS_HUBS": layout.n_hubs > 0, "IS_WIDE": self._is_wide,
            "num_warps": warps_of(layout.lanes, self._RP),
        }  # fmt: skip

    # ------------------------------------------------------------ a look at F

    def tally(self, arrays: GpuPieceArrays, room: int) -> Tally:
        R = self._lam.size
        n_masses = room if self._has_masses else 0
        if not self._n_own:
            return Tally(np.zeros((SUM_ROWS, R)), np.zeros(R, np.int64), np.zeros((R, room)), np.zeros((R, n_masses)))
        totals = torch.zeros((SUM_ROWS, R), dtype=torch.float64, device=self.device)
        for rows in self._rows:
            self._vary(arrays, rows)
            totals[[VARIATION, CUT]] += rows.variations.sum(dim=2)
        n_found, found = self._room_for_rows(R, room)
        totals[SUM:CUT] = self._look(arrays, n_found, found, room).sum(dim=2)
        values, weights = self._noted(arrays.F, torch.arange(R, device=self.device), n_found, found)
        told = [totals, n_found.clamp_max(room + 1), values, *([weights] if self._has_masses else [])]
        flat = torch.cat([one.double().ravel() for one in told]).cpu().numpy()  # one wait for the GPU
        sums, counts, candidates, masses = np.split(flat, np.cumsum([SUM_ROWS * R, R, R * room]))
        return Tally(
            sums.reshape(SUM_ROWS, R), counts.astype(np.int64), candidates.reshape(R, room), masses.reshape(R, n_masses)
        )  # fmt: skip

    def _vary(self, arrays: GpuPieceArrays, rows: _Rows) -> None:
        layout, n_programs = rows.layout, rows.variations.shape[2]
        if n_programs:
            programs.vary_once[(n_programs,)](
                arrays.F[rows.first :], arrays.labels[rows.first :], self._numbers, self._ghosts, rows.variations,
                *rows.graph, layout.n_short, layout.n_short_blocks, layout.n_blocks, self._n_own - rows.first,
                G=n_programs, HAS_GHOSTS=rows.first == 0 and self._n_boundary > 0, **self._shape(layout),
            )  # fmt: skip

    def _look(self, arrays: GpuPieceArrays, n_found: torch.Tensor, found: torch.Tensor, room: int) -> torch.Tensor:
        """The sums SUM … MASS_ONE of each program, (6, R, programs); notes the rows inside the bracket."""
        R, n, rows = self._lam.size, self._n_own, _rows_of_tile(self._RP)
        n_programs = _programs_looking(n, self._RP)
        sums = torch.empty((CUT - SUM, R, n_programs), dtype=torch.float64, device=self.device)
        bracket = torch.from_numpy(arrays.bracket.ends).to(self.device)
        tallies.look[(n_programs,)](
            arrays.F, arrays.F_k, self._masses, bracket, sums, n_found, found, n, room, G=n_programs,
            R=R, RP=self._RP, ROWS=rows, HAS_MASSES=self._has_masses, IS_WIDE=self._is_wide,
            num_warps=warps_of(rows, self._RP),
        )  # fmt: skip
        return sums

    def _noted(
        self, F: torch.Tensor, columns: torch.Tensor, n_found: torch.Tensor, found: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """The values of the rows that were noted for these columns, and their masses, (column, room).

        They were noted in any order, and are told in that of the rows. Where some found no room, which they are is
        chance, and none is told.
        """
        room = found.shape[1]
        is_kept = (torch.arange(room, device=self.device) < n_found[:, None]) & (n_found <= room)[:, None]
        rows = found.sort(dim=1).values.long().clamp_max(self._n_own - 1)
        masses = self._masses[rows] if self._has_masses else is_kept.double()
        return torch.where(is_kept, F[rows, columns[:, None]], 0.0), torch.where(is_kept, masses, 0.0)

    def _room_for_rows(self, n_columns: int, room: int) -> tuple[torch.Tensor, torch.Tensor]:
        """How many rows are noted for each column, and which; where none is, a number above all of them."""
        n_found = torch.zeros(n_columns, dtype=torch.int32, device=self.device)
        return n_found, torch.full((n_columns, room), self._n_own, dtype=torch.int32, device=self.device)

    def spread(self, arrays: GpuPieceArrays, columns: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        if not self._n_own:
            return np.zeros((columns.size, N_BINS, 3))
        n_programs = self._programs_of_column
        width = np.maximum((high - low) // N_BINS + 1, 1)  # an empty interval has no bins, and no values either
        bins = torch.empty((columns.size, N_BINS, 3, n_programs), dtype=torch.float64, device=self.device)
        tallies.spread[(n_programs, columns.size)](
            arrays.F, self._masses, *self._bits(columns, low, high, width), bins, self._n_own, G=n_programs,
            R=self._lam.size, BINS=N_BINS, ROWS=_ROWS_SPREAD, HAS_MASSES=self._has_masses, IS_WIDE=self._is_wide,
            num_warps=_WARPS_OF_COLUMN,
        )  # fmt: skip
        spread: FloatArray = bins.sum(dim=3).cpu().numpy()
        return spread

    def between(
        self, arrays: GpuPieceArrays, columns: IntArray, low: IntArray, high: IntArray, room: int
    ) -> FloatArray:  # fmt: skip
        if not self._n_own:
            return np.zeros((columns.size, 1 + 2 * room))
        n_programs = self._programs_of_column
        n_found, found = self._room_for_rows(columns.size, room)
        where = self._bits(columns, low, high)
        tallies.note[(n_programs, columns.size)](
            arrays.F, *where, n_found, found, self._n_own, room, G=n_programs, R=self._lam.size, ROWS=_ROWS_NOTED,
            IS_WIDE=self._is_wide, num_warps=_WARPS_OF_COLUMN,
        )  # fmt: skip
        told = torch.cat([n_found[:, None].double(), *self._noted(arrays.F, where[0].long(), n_found, found)], dim=1)
        between: FloatArray = told.cpu().numpy()
        return between

    @property
    def _programs_of_column(self) -> int:
        """Set by the part alone, as all numbers of programs that share a sum."""
        return max(1, min(_MOST_OF_COLUMN, self._n_own // _ROWS_OF_COLUMN))

    def _bits(self, *numbers: IntArray) -> list[torch.Tensor]:
        """Whole numbers below 2³¹ as the programs read them."""
        return [torch.from_numpy(one.astype(np.int32)).to(self.device) for one in numbers]

    def high_bits(self, arrays: GpuPieceArrays) -> IntArray:
        bits: IntArray = arrays.bracket.ends[HIGH].view(np.int32).astype(np.int64)
        return bits

    def values_of_bits(self, bits: IntArray) -> FloatArray:
        return bits.astype(np.int32).view(_FLOAT).astype(np.float64)

    def move_bracket(
        self, arrays: GpuPieceArrays, median: FloatArray, missed: BoolArray, is_crowded: BoolArray, is_sparse: BoolArray
    ) -> None:
        arrays.bracket.move(median, missed, is_crowded, is_sparse)

    # ------------------------------------------------------------ what it has come to

    def labels(self, arrays: GpuPieceArrays) -> IntArray:
        return self._in_order(arrays.labels).astype(np.int64)

    def rows(self, arrays: GpuPieceArrays, *, previous: bool = False) -> Array:
        return self._in_order(arrays.F_k if previous else arrays.F)

    def _in_order(self, rows: torch.Tensor) -> Array:
        """The part's own rows as an array over its vertices."""
        ordered = torch.empty_like(rows[: self._n_own])
        ordered[self._order[: self._n_own]] = rows[: self._n_own]
        array: Array = ordered.cpu().numpy()
        return array


def bytes_of_gpu_piece(shard: Shard, n_clusters: int, *, has_half_duals: bool = False) -> int:
    """Memory that a part takes on a GPU: P, four planes of F and as much as one to fill them, the graph, what goes out
    and comes in, and sums; or, if that is more, what it takes to lay the graph out.
    """
    R, whole, n_own, inner = n_clusters, shard.whole, shard.n_own, shard.n_boundary
    degrees, columns = np.diff(shard.indptr), padded_columns(R)
    extents = [extent_of(one, lanes=lanes_of(columns), unroll=UNROLL) for one in (degrees[:inner], degrees[inner:])]
    n_slots, n_blocks, n_pieces = (sum(sizes) for sizes in zip(*extents, strict=True))
    planes = 4 * (tables.PLANES.value + 1) * shard.n_local * R
    duals = (2 if has_half_duals else 4) * n_slots * R
    of_vertex = 12 * shard.n_local + (5 if whole.is_even else 13) * n_own + 8 * (inner + shard.ghosts.size)
    graph = (4 if whole.is_uniform else 8) * n_slots + 16 * n_blocks + of_vertex
    exchanged = 4 * R * (shard.sent.size + shard.ghosts.size) + 4 * shard.sent.size
    n_varying = sum(programs_varying(one.n_blocks) for one in extents)
    n_sums = 2 * n_varying + (CUT - SUM) * _programs_looking(n_own, columns)
    lasting = planes + duals + graph + exchanged + 4 * R * n_pieces + 8 * R * n_sums
    return int(max(lasting, BYTES_OF_LAYOUT * shard.indices.size))


def _require(shard: Shard, R: int, has_half_duals: bool, device: torch.device, n_sharing: int) -> None:
    """Refuse a part that this GPU cannot hold, before anything is allocated."""
    if R > MOST_CLUSTERS:
        raise InputError(
            f"device='cuda' takes up to {MOST_CLUSTERS} clusters; found {R}. Ask for fewer, or use device='cpu'."
        )
    if device.type == "cuda":
        need = bytes_of_gpu_piece(shard, R, has_half_duals=has_half_duals)
        share = int(torch.cuda.mem_get_info(device)[1] / n_sharing)
        memory.foresee(
            need, min(free_bytes(device, need), share), f"Part {shard.number} with {R} clusters on a GPU",
            "Divide the graph into more parts, ask for fewer clusters or dtype='mixed', or use device='cpu'.",
        )  # fmt: skip


def _rows_of_tile(columns: int) -> int:
    """Rows that a program of `look` reads at a time."""
    return max(_FEWEST_ROWS, _TILE // columns)


def _programs_looking(n_rows: int, columns: int) -> int:
    """Programs of `look`: set by the part alone, so that its sums always have the same order."""
    tiles = -(-n_rows // _rows_of_tile(columns))
    return max(1, min(_MOST_LOOKING, -(-tiles // _TILES_OF_PROGRAM)))
