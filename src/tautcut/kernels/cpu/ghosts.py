"""What a part of a graph does about its ghosts, the rows of neighbours elsewhere: F̄ and the argmax of a row that has
arrived, by the same operations as its owner's, so that p_ij = −p_ji holds bit for bit between parts; the edges that are
counted here and not there; and how the values of a column are spread, where its median has to be found among many
parts. Compiled; it decides nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.graph.shard import Shard
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.passes import PADDING
from tautcut.kernels.cpu.rows import first_equal, full, largest, load, store
from tautcut.kernels.tally import N_BINS


@cache
def arrivals_for(tile: int, dtype: str) -> Any:
    """The compiled function that takes in rows, seen in runs of `tile` values."""
    return _arrivals(tile, np.dtype(dtype).type(1))


def _arrivals(tile: int, one: Any) -> Any:
    never = -one

    @compiled
    def arrive(
        incoming: Array, first: int, n_tiles: int, F: Array, F_next: Array, F_bar_next: Array, labels: Array,
        columns: Array, theta: Any,
    ) -> None:  # fmt: skip
        """Rows of the next F from the `first` on, with F̄ = f + θ (f − f_old) and the argmax of f. F may be where the
        next F goes.
        """
        thetas = full(theta, tile)
        for k in range(incoming.shape[0]):
            i = first + k
            best, place = never, 0
            for t in range(n_tiles):
                f_old = load(F, i * n_tiles + t, tile)
                for lane in range(min(tile, incoming.shape[1] - t * tile)):
                    F_next[i * n_tiles + t, lane] = incoming[k, t * tile + lane]
                f = load(F_next, i * n_tiles + t, tile)
                store(F_bar_next, i * n_tiles + t, f + thetas * (f - f_old))
                shown = f + load(columns, PADDING * n_tiles + t, tile)
                highest = largest(shown)
                if highest > best:
                    best, place = highest, t * tile + first_equal(shown, full(highest, tile))
            labels[i] = place

    return arrive


def counted_edges(shard: Shard, weights: FloatArray) -> tuple[IntArray, Array, FloatArray]:
    """The edges that this part counts, in CSR order; an edge between two parts is counted at its lower number's.

    `weights` are the part's, divided by their mean.
    """
    rows = np.repeat(np.arange(shard.n_own), np.diff(shard.indptr))
    ghost = shard.indices - shard.n_own
    is_inside = ghost < 0
    is_counted = shard.indices > rows
    is_counted[~is_inside] = shard.vertices[rows[~is_inside]] < shard.ghosts[ghost[~is_inside]]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[is_counted], minlength=shard.n_own))]).astype(np.int64)
    return indptr, np.ascontiguousarray(shard.indices[is_counted]), weights[is_counted]


@compiled
def spread_of_column(
    bits: IntArray, values: Array, masses: FloatArray, r: int, low: int, high: int, bins: FloatArray
) -> None:
    """Add the mass, the mass times the value, and the number of the values whose `bits` lie in [low, high] to bins.

    The bits of a number ≥ 0, read as a whole number, rise with it: so bins are whole numbers too, and an interval of
    one number is one value, however many vertices tie at it. `bins` has shape (N_BINS, 3).
    """
    width = (high - low) // N_BINS + 1
    for i in range(bits.shape[0]):
        at = bits[i, r]
        if low <= at <= high:
            mass = masses[i] if masses.size else 1.0
            bins[(at - low) // width, 0] += mass
            bins[(at - low) // width, 1] += mass * values[i, r]
            bins[(at - low) // width, 2] += 1.0


@compiled
def values_of_column(
    bits: IntArray, values: Array, masses: FloatArray, r: int, low: int, high: int, found: FloatArray,
    found_masses: FloatArray,
) -> int:  # fmt: skip
    """Write the values whose `bits` lie in [low, high], and their masses; how many they are."""
    n_found = 0
    for i in range(bits.shape[0]):
        if low <= bits[i, r] <= high:
            found[n_found] = values[i, r]
            found_masses[n_found] = masses[i] if masses.size else 1.0
            n_found += 1
    return n_found
