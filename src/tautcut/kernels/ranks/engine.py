"""A rank of many as an engine of Algorithm 1. An iteration sends the rows that other parts wait for, goes on with its
own, and takes in theirs; one look at F is one gather, in which every rank learns the sums and the candidates for the
medians of all. Sums are added in the order of the ranks, so that all ranks know the same bits and decide alike. The
arithmetic is the piece's; it decides nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.kernels.cpu.medians import choose, choose_medians, write_column
from tautcut.kernels.protocol import Measures, StepSizes, power_bound
from tautcut.kernels.ranks.halo import Halo
from tautcut.kernels.ranks.piece import Piece
from tautcut.kernels.tally import CUT, MASS_ABOVE, N_BINS, STEP, SUM, SUM_ABOVE, SUM_ROWS, VARIATION
from tautcut.problem import energy_unit

_CANDIDATES = 8192  # values that a rank sends for the medians of all columns,
_FEWEST_CANDIDATES = 32  # at least so many for each


class RankKernels:
    """One rank of many: `Kernels` on the rows of its part. The piece has the part's own vertices in this `order`, or,
    where there is none, as they are.
    """

    name = "rank"

    def __init__(
        self, piece: Piece, halo: Halo, lam: FloatArray, median_mass: FloatArray, *, order: IntArray | None = None
    ) -> None:
        whole = halo.shard.whole
        self._piece, self._halo, self._world, self._order = piece, halo, halo.world, order
        self.weight_unit, self.unit = whole.weight_unit, energy_unit(whole.weight_unit, whole.mass_unit)
        self._lam, self._median_mass = lam, median_mass / whole.mass_unit
        self._everything = whole.total_mass / whole.mass_unit
        self._room = max(_CANDIDATES // lam.size, _FEWEST_CANDIDATES)
        self._has_masses = not whole.is_even
        self._cut = np.zeros(lam.size)
        self.lipschitz = _gradient_norm(halo)

    def allocate(self, F: Array) -> Any:
        rows = self._halo.extended(F)
        if self._order is not None:
            rows[: self._order.size] = F[self._order]
        return self._piece.allocate(rows)

    def iterate(self, arrays: Any, scale: FloatArray, steps: StepSizes) -> None:
        piece = self._piece
        piece.iterate_boundary(arrays, scale, steps)
        arriving = self._halo.send(piece.outgoing, piece.incoming)
        piece.iterate_interior(arrays)
        arriving.wait()
        piece.arrive(arrays)

    def linearise(self, arrays: Any, measures: Measures, delta: float) -> None:
        self._piece.linearise(arrays, measures, delta)

    def measure(self, arrays: Any) -> Measures:
        R, room = self._lam.size, self._room
        tally = self._piece.tally(arrays, room)
        told = self._world.gather(np.concatenate([np.ravel(one).astype(np.float64) for one in tally]))
        sums, counts, values, masses = np.split(told, np.cumsum([SUM_ROWS * R, R, R * room]), axis=1)
        totals = _added(sums).reshape(SUM_ROWS, R)
        n_candidates = counts.astype(np.int64)
        B, median, tie, missed = np.empty(R), np.empty(R), np.empty(R), np.empty(R, np.bool_)
        choose_medians(
            0, R, self._everything, self._lam, self._median_mass, totals, n_candidates, values.reshape(-1, R, room),
            masses.reshape(self._world.size, R, room if self._has_masses else 0), B, median, tie, missed,
        )  # fmt: skip
        if missed.any():
            self._narrow_down(arrays, np.flatnonzero(missed), totals, B, median, tie)
        most = n_candidates.max(axis=0)
        self._piece.move_bracket(arrays, median, missed, most > room // 2, most < room // 8)
        self._cut = totals[CUT] * self.weight_unit
        return Measures(totals[VARIATION], B, median, tie, float(totals[STEP].sum()))

    def _narrow_down(
        self, arrays: Any, columns: IntArray, totals: FloatArray, B: FloatArray, median: FloatArray, tie: FloatArray
    ) -> None:
        """Find the medians of these columns among all ranks' values, in intervals that shrink until few are left.

        A round divides the intervals of all columns, as whole numbers, into `N_BINS` each. Many ties are one value.
        """
        bar = self._median_mass[columns]
        is_above = bar < totals[MASS_ABOVE, columns]
        bracket = self._piece.high_bits(arrays)[columns]
        low = np.where(is_above, bracket + 1, 1)  # a median of 0 is known by now
        high = np.where(is_above, self._piece.bits_of_one, bracket)
        above = np.where(is_above, 0.0, totals[MASS_ABOVE, columns])
        sum_above = np.where(is_above, 0.0, totals[SUM_ABOVE, columns])
        n_ties, equal = np.full(columns.size, np.inf), np.zeros(columns.size)
        is_open = np.ones(columns.size, dtype=np.bool_)
        while is_open.any():
            asked = np.flatnonzero(is_open)
            bins = self._world.total(self._piece.spread(arrays, columns[asked], low[asked], high[asked]))
            for k, spread in zip(asked, bins, strict=True):
                from_above = np.cumsum(spread[::-1, 0])
                place = min(int(np.searchsorted(from_above, bar[k] - above[k], side="right")), N_BINS - 1)
                above[k] += spread[::-1, 0][:place].sum()
                sum_above[k] += spread[::-1, 1][:place].sum()
                chosen = N_BINS - 1 - place
                first, last = int(low[k]), int(high[k])
                width = (last - first) // N_BINS + 1
                low[k] = first + chosen * width
                high[k] = min(first + (chosen + 1) * width - 1, last)
                equal[k], _, n_ties[k] = spread[chosen]
                is_open[k] = width > 1 and n_ties[k] > self._room
        told = self._world.gather(
            self._piece.between(arrays, columns, low, np.where(n_ties > self._room, 0, high), self._room)
        )
        values_of_ties = self._piece.values_of_bits(low)
        for at, r in enumerate(columns):
            if n_ties[at] > self._room:
                write_column(
                    r, values_of_ties[at], above[at], equal[at], sum_above[at], totals[SUM, r], self._everything,
                    self._lam[r], B, median, tie,
                )  # fmt: skip
                continue
            counts = told[:, at, 0].astype(np.int64)
            values = np.concatenate([one[1 : 1 + n] for one, n in zip(told[:, at], counts, strict=True)])
            masses = np.concatenate(
                [one[1 + self._room : 1 + self._room + n] for one, n in zip(told[:, at], counts, strict=True)]
            )
            choose(
                r, values, masses, above[at], sum_above[at], self._everything, totals, self._lam, bar[at], B, median,
                tie,
            )  # fmt: skip

    def harden(self, arrays: Any) -> tuple[IntArray, FloatArray]:
        return self._as_it_was(self._piece.labels(arrays)), self._cut

    def memberships(self, arrays: Any, *, previous: bool = False) -> Array:
        return self._as_it_was(self._piece.rows(arrays, previous=previous))

    def _as_it_was(self, rows: Array) -> Array:
        """Rows of the piece in the order of the part."""
        if self._order is None:
            return rows
        placed = np.empty_like(rows)
        placed[self._order] = rows
        return placed


def _added(of_ranks: FloatArray) -> FloatArray:
    """The sum of what the ranks told, in their order."""
    total = np.zeros(of_ranks.shape[1])
    for one in of_ranks:
        total += one
    return total


def _gradient_norm(halo: Halo) -> float:
    """`gradient_norm` of the whole graph, in mean weights, by all ranks."""
    shard, world = halo.shard, halo.world
    if not shard.whole.n_edges:
        return 1.0
    squared = (np.asarray(shard.weights) / shard.whole.weight_unit) ** 2
    Q = sp.csr_matrix((squared, shard.indices, shard.indptr), shape=(shard.n_own, shard.n_local))
    return power_bound(
        np.asarray(Q.sum(axis=1)).ravel(),
        lambda x: Q @ halo.extended(x),
        lambda values: float(world.gather(np.array([values.max(initial=0.0)])).max()),
    )
