"""The fused passes of the Numba engine over the vertices: one inner iteration, and one look at F, from which medians
follow. Up to `SPECIALISED` clusters a row of F lives in registers, and the passes are compiled for its lanes; beyond,
one pair of passes serves all, tile by tile of a row. This module owns the rows of the small tables that passes read and
fill; it decides nothing.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.kernels.cpu.compiling import compiled, inlined
from tautcut.kernels.cpu.crew import NUMBERS, begin, finish, take
from tautcut.kernels.cpu.medians import locate_medians

# isort: off
from tautcut.kernels.cpu.rows import (
    absolute, are_above_alike, entry, first_equal, full, has_lane_between, largest, load, maximum, minimum,
    padded_width, prefetch, spread, store, total, where_equal, where_greater, widen,
)  # fmt: skip

# isort: on
from tautcut.kernels.tally import CUT, HIGH, LOW, MASS_ABOVE, MASS_ONE, MASS_POSITIVE, STEP, SUM, SUM_ABOVE, VARIATION

logger = logging.getLogger("tautcut")

SPECIALISED = 128  # clusters up to which passes are compiled for the lanes of a row (decision 0039)
_TILE_BYTES = 128  # of a row that is too long for registers, at a time: four of 256 bits
_AHEAD_BYTES = 5120  # of neighbours' rows that are asked for before they are used (decision 0066),
_AHEAD = (8, 64)  # and how many rows that may be, at least and at most
_ROUNDINGS = 8  # of a value near 1, for each lane of a row: more than its sums are wrong by
NEVER = -1e30  # far below any value, yet finite in float32: a padding lane never enters the support of a projection

# Rows of `columns`, what `iterate` is told of each column of F.
SIGMA = 0  # σ c
TAU = 1  # τ c
MEDIAN = 2  # med_λ(f_k); g = f_k + one of the next three
ABOVE = 3  # Δ E/B ∂B for a unit of mass whose value is above the median,
TIE = 4  # on it,
BELOW = 5  # and below
PADDING = 6  # 0, `NEVER` in the padding lanes
COLUMN_ROWS = 7

# The commands of a pass, and what it is told besides: which buffer is F, its next state, F̄ and its next, and F^k;
# and the chunk to stop before.
ITERATE = 1
MEASURE = 2
MEDIANS = 3  # after MEASURE: a column is a chunk
NOW = 0
NEXT = 1
BAR = 2
NEXT_BAR = 3
BEFORE = 4
END = 5


class Passes(NamedTuple):
    """The passes, all commands in one, and the rows that they take: `width` values each, seen in runs of `tile`.

    An array of rows goes to them as one of tiles, of shape (…, tile): where rows are no longer than a tile, as it is.
    """

    work: Any
    width: int
    tile: int


def row_width(n_columns: int, dtype: str) -> int:
    """The values that a row of F takes in memory."""
    if n_columns <= SPECIALISED:
        return padded_width(n_columns)
    tile = _tile(dtype)
    return -(-n_columns // tile) * tile


def _tile(dtype: str) -> int:
    """The values that are seen at a time of a row that is too long for registers."""
    return _TILE_BYTES // np.dtype(dtype).itemsize


@cache
def passes_for(n_columns: int, has_unit_weights: bool, has_masses: bool, dtype: str) -> Passes:
    """The passes for R clusters, these weights and masses and this precision.

    Compiled at the first call, cached on disk.
    """
    logger.info("kernels for R = %d, %s: compiled now if this machine has not done so before", n_columns, dtype)
    width = row_width(n_columns, dtype)
    if n_columns <= SPECIALISED:
        return Passes(_specialised(width, has_unit_weights, has_masses, dtype), width, width)
    return Passes(_tiled(_tile(dtype), has_unit_weights, has_masses, dtype), width, _tile(dtype))


@cache
def _specialised(width: int, has_unit_weights: bool, has_masses: bool, dtype: str) -> Any:
    """The passes for rows of `width` lanes, which several R share."""
    return _specialised_pass(width, has_unit_weights, has_masses, np.dtype(dtype).type(1))


@cache
def _tiled(tile: int, has_unit_weights: bool, has_masses: bool, dtype: str) -> Any:
    """The passes for rows of any length, tile by tile."""
    return _tiled_pass(tile, has_unit_weights, has_masses, np.dtype(dtype).type(1))


# The names that a pass finds in its factory are constants to the compiler, and the key under which Numba caches it: so
# they hold numbers alone. A compiled function among them would differ in every process, and be compiled in each.


def _specialised_pass(width: int, has_unit_weights: bool, has_masses: bool, one: Any) -> Any:
    """The passes for rows that live in registers; `one` has the precision of F."""
    zero = one - one
    margin = margin_of(width, one)
    ahead = int(np.clip(_AHEAD_BYTES // (width * one.itemsize), *_AHEAD))

    @compiled
    def work(
        me: int, words: IntArray, bounds: IntArray, indptr: IntArray, indices: Array, weights: Array, pulls: Array,
        is_fixed: BoolArray, once_indptr: IntArray, once_indices: Array, once_weights: Array, masses: FloatArray,
        rows: Array, P: Array, labels: Array, columns: Array, steps: Array, bracket: Array, sums: FloatArray,
        n_candidates: IntArray, candidates: Array, candidate_masses: FloatArray, lam: FloatArray,
        median_mass: FloatArray, totals: FloatArray, medians: FloatArray, missed: BoolArray,
    ) -> None:  # fmt: skip
        """ITERATE, one inner iteration of Algorithm 1, or MEASURE, one look at F, or MEDIANS, what follows from it; a
        crew runs it, chunk by chunk.

        ITERATE: p ← clip(p + σ c w (f̄_i − f̄_j)); f ← proj((f − τ c Σ w p + τ g) / (1 + τ)); f̄ ← f + θ (f − f_old).
        The argmax of f, its lowest index first, is taken while f is in registers.

        MEASURE fills the rows of `sums` chunk by chunk, and keeps the values inside the bracket as candidates for the
        median. `once_indices` are those neighbours of i that have higher numbers: so every edge is visited once. Sums
        over vertices are in float64; without masses, counts, exact in float32 as no chunk has 2²⁴ vertices, stay in
        F's precision.
        """
        command = begin(words, me)
        while command > 0:
            end_chunk = words[NUMBERS + END]
            F, F_k = rows[words[NUMBERS + NOW]], rows[words[NUMBERS + BEFORE]]
            if command == ITERATE:
                F_next, F_bar = rows[words[NUMBERS + NEXT]], rows[words[NUMBERS + BAR]]
                F_bar_next = rows[words[NUMBERS + NEXT_BAR]]
                sigma_scale, tau_scale = load(columns, SIGMA, width), load(columns, TAU, width)
                median, above = load(columns, MEDIAN, width), load(columns, ABOVE, width)
                tie, below = load(columns, TIE, width), load(columns, BELOW, width)
                padding = load(columns, PADDING, width)
                ones, minus, nothing = full(one, width), full(-one, width), full(zero, width)
                taus, thetas, shrink = full(steps[0], width), full(steps[1], width), full(one / (one + steps[0]), width)
                chunk = take(words)
                while chunk < end_chunk:
                    for i in range(bounds[chunk], bounds[chunk + 1]):
                        f_old = load(F, i, width)
                        if is_fixed[i]:
                            store(F_next, i, f_old)
                            store(F_bar_next, i, f_old)
                            continue
                        f_bar = load(F_bar, i, width)
                        divergence = nothing
                        for e in range(indptr[i], indptr[i + 1]):
                            prefetch(F_bar, entry(indices, min(e + ahead, indices.size - 1)), width)
                            rise = sigma_scale * (f_bar - load(F_bar, entry(indices, e), width))
                            if has_unit_weights:
                                p = minimum(maximum(load(P, e, width) + rise, minus), ones)
                                divergence = divergence + p
                            else:
                                w = full(weights[e], width)
                                p = minimum(maximum(load(P, e, width) + w * rise, minus), ones)
                                divergence = divergence + w * p
                            store(P, e, p)
                        f_k = load(F_k, i, width)
                        pull = where_greater(f_k, median, above, where_equal(f_k, median, tie, below))
                        g = f_k + (full(pulls[i], width) * pull if has_masses else pull)
                        x = (f_old - tau_scale * divergence + taus * g) * shrink + padding
                        x = x - spread(largest(x), x)
                        threshold = _threshold(x, f_old, width, ones, nothing, one, margin)
                        f = minimum(maximum(x - spread(threshold, x), nothing), ones)
                        store(F_next, i, f)
                        store(F_bar_next, i, f + thetas * (f - f_old))
                        # its largest x was 0
                        labels[i] = first_equal(f, minimum(maximum(spread(-threshold, x), nothing), ones))
                    chunk = take(words)
            elif command == MEDIANS:
                column = take(words)
                while column < end_chunk:
                    locate_medians(
                        column, column + 1, F, masses, lam, median_mass, bracket, totals, n_candidates, candidates,
                        candidate_masses, medians[0], medians[1], medians[2], missed,
                    )  # fmt: skip
                    column = take(words)
            else:
                low, high = load(bracket, LOW, width), load(bracket, HIGH, width)
                nothing, ones = full(zero, width), full(one, width)
                blank = full(0.0, width)
                none = blank if has_masses else nothing
                chunk = take(words)
                while chunk < end_chunk:
                    variation, whole, squares = blank, blank, blank
                    sum_above = blank
                    mass_above, mass_positive, mass_one = none, none, none
                    sums[chunk, CUT] = 0.0
                    for r in range(n_candidates.shape[1]):
                        n_candidates[chunk, r] = 0
                    for i in range(bounds[chunk], bounds[chunk + 1]):
                        f, own = load(F, i, width), labels[i]
                        jumps = nothing
                        for e in range(once_indptr[i], once_indptr[i + 1]):
                            prefetch(F, entry(once_indices, min(e + ahead, once_indices.size - 1)), width)
                            j = entry(once_indices, e)
                            jump = absolute(f - load(F, j, width))
                            jumps = jumps + (jump if has_unit_weights else full(once_weights[e], width) * jump)
                            if entry(labels, j) != own:
                                weight = 1.0 if has_unit_weights else once_weights[e]
                                sums[chunk, CUT, own] += weight
                                sums[chunk, CUT, labels[j]] += weight
                        variation = variation + widen(jumps)
                        moved = f - load(F_k, i, width)
                        squares = squares + widen(moved * moved)
                        if has_masses:
                            m = full(masses[i], width)
                            whole = whole + m * widen(f)
                            sum_above = sum_above + m * widen(where_greater(f, high, f, nothing))
                            mass_above = mass_above + m * widen(where_greater(f, high, ones, nothing))
                            mass_positive = mass_positive + m * widen(where_greater(f, nothing, ones, nothing))
                            mass_one = mass_one + m * widen(where_greater(ones, f, nothing, ones))
                        else:
                            whole = whole + widen(f)
                            sum_above = sum_above + widen(where_greater(f, high, f, nothing))
                            mass_above = mass_above + where_greater(f, high, ones, nothing)
                            mass_positive = mass_positive + where_greater(f, nothing, ones, nothing)
                            mass_one = mass_one + where_greater(ones, f, nothing, ones)
                        if has_lane_between(f, low, high):
                            _keep(F, i, chunk, bracket, n_candidates, candidates, has_masses, masses, candidate_masses)
                    store(sums[chunk], VARIATION, variation)
                    store(sums[chunk], SUM, whole)
                    store(sums[chunk], STEP, squares)
                    store(sums[chunk], SUM_ABOVE, sum_above)
                    store(sums[chunk], MASS_ABOVE, widen(mass_above))
                    store(sums[chunk], MASS_POSITIVE, widen(mass_positive))
                    store(sums[chunk], MASS_ONE, widen(mass_one))
                    chunk = take(words)
            command = finish(words, me)

    return work


def margin_of(width: int, one: Any) -> Any:
    """More than the threshold of a row can be wrong by, in the precision of `one`."""
    return type(one)(_ROUNDINGS * width * np.finfo(one.dtype).eps)


@compiled
def _threshold(x: Any, before: Any, width: int, ones: Any, nothing: Any, one: Any, margin: Any) -> Any:
    """The t with which max(x − t, 0) sums to one, of a row whose largest value is 0: its projection onto the simplex.

    A row seldom changes its support from one iteration to the next: if the support of the row `before` has such a t,
    and no lane lies within `margin` of it, then that is what Michelot's rounds would end with, bit for bit (decision
    0071). Else they begin with what is above −1, a round for each lane at most, whatever is in x.
    """
    count = max(total(where_greater(before, nothing, ones, nothing)), one)
    threshold = (total(where_greater(before, nothing, x, nothing)) - one) / count
    low, high = spread(threshold - margin, x), spread(threshold + margin, x)
    if are_above_alike(x, where_greater(before, nothing, high, low), before, nothing):
        return threshold
    threshold = -one
    support = one - one
    for _ in range(width):
        t = spread(threshold, x)
        count = max(total(where_greater(x, t, ones, nothing)), one)
        threshold = (total(where_greater(x, t, x, nothing)) - one) / count
        if count == support:
            break
        support = count
    return threshold


@inlined
def _keep(
    F: Array, i: int, chunk: int, bracket: Array, n_candidates: IntArray, candidates: Array, has_masses: bool,
    masses: FloatArray, candidate_masses: FloatArray,
) -> None:  # fmt: skip
    """Keep the values of row i that lie inside the bracket; those for which there is no room are counted only."""
    for r in range(n_candidates.shape[1]):
        if bracket[LOW, r] < F[i, r] <= bracket[HIGH, r]:
            place = n_candidates[chunk, r]
            if place < candidates.shape[2]:
                candidates[chunk, r, place] = F[i, r]
                if has_masses:
                    candidate_masses[chunk, r, place] = masses[i]
            n_candidates[chunk, r] = place + 1


def _tiled_pass(tile: int, has_unit_weights: bool, has_masses: bool, one: Any) -> Any:
    """What `_specialised_pass` has, for rows of any length: every array of rows is one of tiles, n_tiles to a row."""
    zero, never = one - one, type(one)(NEVER)

    @compiled
    def work(
        me: int, words: IntArray, bounds: IntArray, indptr: IntArray, indices: Array, weights: Array, pulls: Array,
        is_fixed: BoolArray, once_indptr: IntArray, once_indices: Array, once_weights: Array, masses: FloatArray,
        rows: Array, P: Array, labels: Array, columns: Array, steps: Array, bracket: Array, sums: FloatArray,
        n_candidates: IntArray, candidates: Array, candidate_masses: FloatArray, lam: FloatArray,
        median_mass: FloatArray, totals: FloatArray, medians: FloatArray, missed: BoolArray,
    ) -> None:  # fmt: skip
        """As the specialised passes.

        In ITERATE, F̄'s next row, which nobody reads, holds the divergence and x until F is there; MEASURE takes a tile
        of all rows of a chunk after the other, the cuts first.
        """
        command = begin(words, me)
        while command > 0:
            end_chunk = words[NUMBERS + END]
            F, F_k = rows[words[NUMBERS + NOW]], rows[words[NUMBERS + BEFORE]]
            if command == ITERATE:
                F_next, F_bar = rows[words[NUMBERS + NEXT]], rows[words[NUMBERS + BAR]]
                F_bar_next = rows[words[NUMBERS + NEXT_BAR]]
                n_tiles = columns.shape[0] // COLUMN_ROWS
                ones, minus, nothing = full(one, tile), full(-one, tile), full(zero, tile)
                taus, thetas, shrink = full(steps[0], tile), full(steps[1], tile), full(one / (one + steps[0]), tile)
                chunk = take(words)
                while chunk < end_chunk:
                    for i in range(bounds[chunk], bounds[chunk + 1]):
                        at = i * n_tiles
                        if is_fixed[i]:
                            for t in range(n_tiles):
                                f_old = load(F, at + t, tile)
                                store(F_next, at + t, f_old)
                                store(F_bar_next, at + t, f_old)
                            continue
                        for t in range(n_tiles):
                            store(F_bar_next, at + t, nothing)
                        for e in range(indptr[i], indptr[i + 1]):
                            other, dual = indices[e] * n_tiles, e * n_tiles
                            w = full(one if has_unit_weights else weights[e], tile)
                            for t in range(n_tiles):
                                rise = load(columns, SIGMA * n_tiles + t, tile) * (
                                    load(F_bar, at + t, tile) - load(F_bar, other + t, tile)
                                )
                                p = minimum(maximum(load(P, dual + t, tile) + w * rise, minus), ones)
                                store(P, dual + t, p)
                                store(F_bar_next, at + t, load(F_bar_next, at + t, tile) + w * p)
                        peak = never
                        for t in range(n_tiles):
                            f_k, median = load(F_k, at + t, tile), load(columns, MEDIAN * n_tiles + t, tile)
                            tie, below = (
                                load(columns, TIE * n_tiles + t, tile),
                                load(columns, BELOW * n_tiles + t, tile),
                            )
                            level = where_equal(f_k, median, tie, below)
                            pull = where_greater(f_k, median, load(columns, ABOVE * n_tiles + t, tile), level)
                            g = f_k + (full(pulls[i], tile) * pull if has_masses else pull)
                            step = load(columns, TAU * n_tiles + t, tile) * load(F_bar_next, at + t, tile)
                            padding = load(columns, PADDING * n_tiles + t, tile)
                            x = (load(F, at + t, tile) - step + taus * g) * shrink + padding
                            store(F_bar_next, at + t, x)
                            peak = max(peak, largest(x))
                        threshold = _tiled_threshold(F_bar_next, at, n_tiles, tile, peak, ones, nothing, one)
                        best, place = zero, 0
                        # apart: their sum would lose digits of the threshold
                        top, bar = full(peak, tile), full(threshold, tile)
                        for t in range(n_tiles):
                            f = minimum(maximum(load(F_bar_next, at + t, tile) - top - bar, nothing), ones)
                            f_old = load(F, at + t, tile)
                            store(F_next, at + t, f)
                            store(F_bar_next, at + t, f + thetas * (f - f_old))
                            highest = largest(f)
                            if highest > best:
                                best, place = highest, t * tile + first_equal(f, full(highest, tile))
                        labels[i] = place
                    chunk = take(words)
            elif command == MEDIANS:
                whole_rows, ends = F.reshape(labels.size, -1), bracket.reshape(2, -1)
                column = take(words)
                while column < end_chunk:
                    locate_medians(
                        column, column + 1, whole_rows, masses, lam, median_mass, ends, totals, n_candidates,
                        candidates, candidate_masses, medians[0], medians[1], medians[2], missed,
                    )  # fmt: skip
                    column = take(words)
            else:
                n_tiles = bracket.shape[0] // 2
                nothing, ones, blank = full(zero, tile), full(one, tile), full(0.0, tile)
                none = blank if has_masses else nothing
                chunk = take(words)
                while chunk < end_chunk:
                    first, last = bounds[chunk], bounds[chunk + 1]
                    n_candidates[chunk] = 0
                    for t in range(n_tiles):
                        sums[chunk, CUT * n_tiles + t] = 0.0
                    for i in range(first, last):
                        own = labels[i]
                        for e in range(once_indptr[i], once_indptr[i + 1]):
                            other = labels[once_indices[e]]
                            if other != own:
                                weight = 1.0 if has_unit_weights else once_weights[e]
                                sums[chunk, CUT * n_tiles + own // tile, own % tile] += weight
                                sums[chunk, CUT * n_tiles + other // tile, other % tile] += weight
                    for t in range(n_tiles):
                        low, high = load(bracket, LOW * n_tiles + t, tile), load(bracket, HIGH * n_tiles + t, tile)
                        variation, whole, squares = blank, blank, blank
                        sum_above = blank
                        mass_above, mass_positive, mass_one = none, none, none
                        for i in range(first, last):
                            f = load(F, i * n_tiles + t, tile)
                            jumps = nothing
                            for e in range(once_indptr[i], once_indptr[i + 1]):
                                jump = absolute(f - load(F, once_indices[e] * n_tiles + t, tile))
                                jumps = jumps + (jump if has_unit_weights else full(once_weights[e], tile) * jump)
                            variation = variation + widen(jumps)
                            moved = f - load(F_k, i * n_tiles + t, tile)
                            squares = squares + widen(moved * moved)
                            if has_masses:
                                m = full(masses[i], tile)
                                whole = whole + m * widen(f)
                                sum_above = sum_above + m * widen(where_greater(f, high, f, nothing))
                                mass_above = mass_above + m * widen(where_greater(f, high, ones, nothing))
                                mass_positive = mass_positive + m * widen(where_greater(f, nothing, ones, nothing))
                                mass_one = mass_one + m * widen(where_greater(ones, f, nothing, ones))
                            else:
                                whole = whole + widen(f)
                                sum_above = sum_above + widen(where_greater(f, high, f, nothing))
                                mass_above = mass_above + where_greater(f, high, ones, nothing)
                                mass_positive = mass_positive + where_greater(f, nothing, ones, nothing)
                                mass_one = mass_one + where_greater(ones, f, nothing, ones)
                            if has_lane_between(f, low, high):
                                _keep_tile(
                                    F, i, t, n_tiles, tile, chunk, bracket, n_candidates, candidates, has_masses,
                                    masses, candidate_masses,
                                )  # fmt: skip
                        store(sums[chunk], VARIATION * n_tiles + t, variation)
                        store(sums[chunk], SUM * n_tiles + t, whole)
                        store(sums[chunk], STEP * n_tiles + t, squares)
                        store(sums[chunk], SUM_ABOVE * n_tiles + t, sum_above)
                        store(sums[chunk], MASS_ABOVE * n_tiles + t, widen(mass_above))
                        store(sums[chunk], MASS_POSITIVE * n_tiles + t, widen(mass_positive))
                        store(sums[chunk], MASS_ONE * n_tiles + t, widen(mass_one))
                    chunk = take(words)
            command = finish(words, me)

    return work


@inlined
def _tiled_threshold(
    X: Array, at: int, n_tiles: int, tile: int, peak: Any, ones: Any, nothing: Any, one: Any
) -> Any:  # fmt: skip
    """Michelot's threshold of the row of tiles from `at` on, relative to its peak; at most R rounds."""
    threshold = -one
    support = one - one
    for _ in range(n_tiles * tile):
        count, above = one - one, one - one
        bar, top = full(threshold, tile), full(peak, tile)
        for t in range(n_tiles):
            x = load(X, at + t, tile) - top
            count += total(where_greater(x, bar, ones, nothing))
            above += total(where_greater(x, bar, x, nothing))
        count = max(count, one)
        threshold = (above - one) / count
        if count == support:
            break
        support = count
    return threshold


@inlined
def _keep_tile(
    F: Array, i: int, t: int, n_tiles: int, tile: int, chunk: int, bracket: Array, n_candidates: IntArray,
    candidates: Array, has_masses: bool, masses: FloatArray, candidate_masses: FloatArray,
) -> None:  # fmt: skip
    """Keep the values of one tile of row i that lie inside the bracket, as `_keep` does."""
    for lane in range(min(tile, n_candidates.shape[1] - t * tile)):
        value, r = F[i * n_tiles + t, lane], t * tile + lane
        if bracket[LOW * n_tiles + t, lane] < value <= bracket[HIGH * n_tiles + t, lane]:
            place = n_candidates[chunk, r]
            if place < candidates.shape[2]:
                candidates[chunk, r, place] = value
                if has_masses:
                    candidate_masses[chunk, r, place] = masses[i]
            n_candidates[chunk, r] = place + 1
