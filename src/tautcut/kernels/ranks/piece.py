"""What a rank of many asks of the device that has its part: the `Piece` protocol, which piece a device has, and that
of the processor, which is the Numba engine on the rows of one part. A piece knows of no other rank: rows arrive and go
out, and what it counts is of its own vertices alone.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import torch

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.checks import one_of
from tautcut.graph.shard import Shard
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.engine import CpuArrays, RowEngine, RowLayout
from tautcut.kernels.cpu.ghosts import arrivals_for, counted_edges, spread_of_column, values_of_column
from tautcut.kernels.cpu.passes import ITERATE
from tautcut.kernels.cpu.sharing import chunk_bounds
from tautcut.kernels.devices import DTYPES, require_gpu, resolved
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.kernels.ranks.world import World
from tautcut.kernels.tally import HIGH, N_BINS, Tally


class Piece(Protocol):
    """One part of a graph on one device. `arrays` is its own record of F, F̄, F^k and P."""

    outgoing: torch.Tensor  # rows to send, filled by `iterate_boundary`
    incoming: torch.Tensor  # rows of ghosts, taken in by `arrive`
    bits_of_one: int  # the bits of 1, which no value of F exceeds; those of a number ≥ 0 rise with it

    def allocate(self, F: FloatArray) -> Any:
        """Arrays that hold these rows, the ghosts' too, and P = 0."""

    def iterate_boundary(self, arrays: Any, scale: FloatArray, steps: StepSizes) -> None:
        """Begin an inner iteration: the rows that other parts wait for; then they are `outgoing`."""

    def iterate_interior(self, arrays: Any) -> None:
        """The other rows, which nobody waits for."""

    def arrive(self, arrays: Any) -> None:
        """End the iteration with the rows that have come in."""

    def tally(self, arrays: Any, room: int) -> Tally:
        """Look at F: sums and candidates, at most `room` of each column."""

    def spread(self, arrays: Any, columns: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        """How the values of each column whose bits lie in [low, high] are spread: shape (columns, N_BINS, 3)."""

    def between(self, arrays: Any, columns: IntArray, low: IntArray, high: IntArray, room: int) -> FloatArray:
        """The values themselves, at most `room` of each: shape (columns, 1 + 2 room): how many, they, their masses."""

    def high_bits(self, arrays: Any) -> IntArray:
        """The upper ends of the brackets, as bits."""

    def values_of_bits(self, bits: IntArray) -> FloatArray:
        """The numbers that have these bits."""

    def move_bracket(
        self, arrays: Any, median: FloatArray, missed: BoolArray, is_crowded: BoolArray, is_sparse: BoolArray
    ) -> None:
        """Say where the medians were, so that the next are looked for nearby."""

    def linearise(self, arrays: Any, measures: Measures, delta: float) -> None:
        """As `Kernels.linearise`."""

    def labels(self, arrays: Any) -> IntArray:
        """The argmax of the part's own rows of F."""

    def rows(self, arrays: Any, *, previous: bool = False) -> Array:
        """A copy of the part's own rows of F, or of F^k, in the precision of the device."""


def piece_for(
    shard: Shard, lam: FloatArray, is_fixed: BoolArray, *, device: str, dtype: str, world: World,
    n_threads: int | None = None,
) -> Piece:  # fmt: skip
    """The piece of this rank's device: "cpu", "cuda", or "auto" for a GPU if there is one; `dtype` as of a fit.

    Rows go from GPU to GPU where each rank has one, and through the host's memory where ranks share them.
    """
    one_of("device", device, ("auto", "cpu", "cuda"))
    has_half_duals = one_of("dtype", dtype, DTYPES) == "mixed"
    if resolved(device) == "cpu":
        precision = np.dtype("float32" if has_half_duals else dtype)
        return CpuPiece(shard, lam, is_fixed, dtype=precision, has_half_duals=has_half_duals, n_threads=n_threads)
    require_gpu(dtype)
    from tautcut.kernels.gpu.piece import GpuPiece

    n_neighbors = int(os.environ.get("LOCAL_WORLD_SIZE", 1))  # ranks of this machine
    return GpuPiece(
        shard, lam, is_fixed, has_half_duals=has_half_duals, is_through_host=world.device != "cuda",
        n_sharing=-(-n_neighbors // max(torch.cuda.device_count(), 1)),
    )  # fmt: skip


class CpuPiece(RowEngine):
    """A part on the processor."""

    def __init__(
        self, shard: Shard, lam: FloatArray, is_fixed: BoolArray, *, dtype: np.dtype[Any], has_half_duals: bool = False,
        n_threads: int | None = None,
    ) -> None:  # fmt: skip
        whole, inner = shard.whole, shard.n_boundary
        weights = np.asarray(shard.weights) / whole.weight_unit
        bounds = np.concatenate([chunk_bounds(shard.indptr[: inner + 1]), _inner_bounds(shard.indptr, inner)[1:]])
        layout = RowLayout(
            shard.indptr, shard.indices, weights, np.asarray(shard.masses) / whole.mass_unit, is_fixed,
            counted_edges(shard, weights), bounds, whole.is_uniform, whole.is_even,
        )  # fmt: skip
        super().__init__(layout, lam, dtype=dtype, has_half_duals=has_half_duals, n_threads=n_threads)
        self._n_own, self._n_boundary_chunks = shard.n_own, int(np.searchsorted(bounds, inner))
        self._sent, self._n_ghosts = np.asarray(shard.sent), int(shard.ghosts.size)
        self._outgoing, self._incoming = (
            np.zeros((n, lam.size), dtype) for n in (shard.sent.size, self._n_ghosts)
        )  # fmt: skip
        self.outgoing, self.incoming = torch.from_numpy(self._outgoing), torch.from_numpy(self._incoming)
        self._bits = np.dtype(f"int{8 * dtype.itemsize}")
        self.bits_of_one = int(np.ones(1, dtype).view(self._bits)[0])
        self._next: tuple[Array, Array] | None = None

    def allocate(self, F: FloatArray) -> CpuArrays:
        return self._allocated(F)

    def iterate_boundary(self, arrays: CpuArrays, scale: FloatArray, steps: StepSizes) -> None:
        F_next, F_bar_next = self._next = self._prepare(arrays, scale, steps)
        self._run(ITERATE, arrays, F_next=F_next, bar_next=F_bar_next, chunks=(0, self._n_boundary_chunks))
        np.take(F_next[:, : self._n_columns], self._sent, axis=0, out=self._outgoing)

    def iterate_interior(self, arrays: CpuArrays) -> None:
        F_next, F_bar_next = self._iteration
        chunks = self._n_boundary_chunks, self._n_chunks
        self._run(ITERATE, arrays, F_next=F_next, bar_next=F_bar_next, chunks=chunks)

    def arrive(self, arrays: CpuArrays) -> None:
        F_next, F_bar_next = self._iteration
        tile = self._passes.tile
        arrivals_for(tile, self._dtype.name)(
            self._incoming, self._n_own, self._width // tile, arrays.F.reshape(-1, tile),
            F_next.reshape(-1, tile), F_bar_next.reshape(-1, tile), arrays.labels, arrays.columns.reshape(-1, tile),
            arrays.steps[1],
        )  # fmt: skip
        arrays.F, arrays.F_bar, self._next = F_next, F_bar_next, None

    @property
    def _iteration(self) -> tuple[Array, Array]:
        assert self._next is not None  # for the type checker: an iteration has begun
        return self._next

    def tally(self, arrays: CpuArrays, room: int) -> Tally:
        totals, R = self._tally(arrays)[:, : self._n_columns], self._n_columns
        counts, packed = np.zeros(R, np.int64), np.zeros((R, room))
        packed_masses = np.zeros((R, room if self._candidate_masses.size else 0))
        _pack(self._n_candidates, self._candidates, self._candidate_masses, counts, packed, packed_masses)
        return Tally(totals, counts, packed, packed_masses)

    def spread(self, arrays: CpuArrays, columns: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        bins = np.zeros((columns.size, N_BINS, 3))
        F = arrays.F[: self._n_own]
        for k, r in enumerate(columns):
            spread_of_column(F.view(self._bits), F, self._masses, r, low[k], high[k], bins[k])
        return bins

    def between(self, arrays: CpuArrays, columns: IntArray, low: IntArray, high: IntArray, room: int) -> FloatArray:
        found = np.zeros((columns.size, 1 + 2 * room))
        F = arrays.F[: self._n_own]
        for k, r in enumerate(columns):
            values, masses = found[k, 1 : 1 + room], found[k, 1 + room :]
            found[k, 0] = values_of_column(F.view(self._bits), F, self._masses, r, low[k], high[k], values, masses)
        return found

    def high_bits(self, arrays: CpuArrays) -> IntArray:
        return arrays.bracket.ends[HIGH, : self._n_columns].view(self._bits).astype(np.int64)

    def values_of_bits(self, bits: IntArray) -> FloatArray:
        return bits.astype(self._bits).view(self._dtype).astype(np.float64)

    def move_bracket(
        self, arrays: CpuArrays, median: FloatArray, missed: BoolArray, is_crowded: BoolArray, is_sparse: BoolArray
    ) -> None:
        arrays.bracket.move(median, missed, is_crowded, is_sparse)

    def labels(self, arrays: CpuArrays) -> IntArray:
        return arrays.labels[: self._n_own].astype(np.int64)

    def rows(self, arrays: CpuArrays, *, previous: bool = False) -> Array:
        return (arrays.F_k if previous else arrays.F)[: self._n_own, : self._n_columns].copy()


def _inner_bounds(indptr: IntArray, n_boundary: int) -> IntArray:
    """Where the rows after the boundary's are cut into chunks."""
    return n_boundary + chunk_bounds(indptr[n_boundary:] - indptr[n_boundary])


@compiled
def _pack(
    n_candidates: IntArray, candidates: Array, masses: FloatArray, counts: IntArray, packed: FloatArray,
    packed_masses: FloatArray,
) -> None:  # fmt: skip
    """Write the candidates of all chunks one after the other; where some found no room, too many are counted."""
    for chunk in range(n_candidates.shape[0]):
        for r in range(n_candidates.shape[1]):
            found = n_candidates[chunk, r]
            kept = min(found, candidates.shape[2])
            for c in range(kept):
                at = counts[r] + c
                if at < packed.shape[1]:
                    packed[r, at] = candidates[chunk, r, c]
                    if packed_masses.size:
                        packed_masses[r, at] = masses[chunk, r, c]
            counts[r] += kept if kept == found else packed.shape[1] + 1
