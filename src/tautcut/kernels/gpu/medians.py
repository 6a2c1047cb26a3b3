"""The λ-medians on the GPU: med_λ(f_r) is the (k + 1)-th largest value of a column, looked for where it was last.

F ∈ [0, 1], so the bits of a value, read as an integer, are in the values' own order: medians are searched among those,
and a distance is a number of values in between. `survey` reads F once: it counts the values at or above 16 thresholds,
collects those in the bracket [LOW, HIGH) and sums those on either side of it. `select` sums up; if the bracket holds
the median, it finds it among the candidates and sets a bracket for the next look, else one for another look at this F.
What brackets and thresholds save was measured: decision 0020. Where vertices have masses, `weigh` takes the place of
`survey`, and med_λ is the largest value such that it and those above have more mass than the bar (decision 0046).
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

# isort: off
from tautcut.kernels.gpu.tables import (
    B, BRACKETS, CANDIDATES, COLUMNS, CUT, DONE, FOUND, HIGH, LAST, LOW, MEDIAN, MISSES, MOVE, OTHERS, PARTS, PHASE,
    PLANES, SIZE, SIZES, SLOT, T, TAKEN, THRESHOLDS, TIE, TOP, WHOLE, WORDS, total,
)  # fmt: skip
# isort: on

# Candidates lie in no particular order, so they are added up as whole numbers of 2⁻³⁸, in which order does not matter:
# 2048 values up to 1 stay below 2⁵³, where float64 is exact, and what is cut off is less than float32 rounds.
FIXED_POINT = tl.constexpr(2.0**38)
MOST_WIDENING = tl.constexpr(64.0)  # times a bracket's width: further away, values may lie far closer together
MOVES_AHEAD = tl.constexpr(4)  # how many of its recent moves the median may make without leaving the bracket
FADING = tl.constexpr(0.8)  # of a move, from look to look, so that one jump does not keep brackets wide
NEAREST_REACH = tl.constexpr(64)  # values to either side: few cost nothing, and a median that stands still may stir
FURTHEST_REACH = tl.constexpr(1 << 23)  # as many values as there are between a number and its double


@triton.jit
def _four_thresholds(bracket, is_column):
    t_0 = tl.load(bracket, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    t_1 = tl.load(bracket + 1, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    t_2 = tl.load(bracket + 2, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    t_3 = tl.load(bracket + 3, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    return t_0, t_1, t_2, t_3


@triton.jit
def _four_counts(value, t_0, t_1, t_2, t_3):
    """Which of four thresholds each value reaches: a byte for each, because 16 counters would not fit the registers."""
    low_half = tl.where(value >= t_0, 1, 0) + tl.where(value >= t_1, 1 << 8, 0)
    return low_half + tl.where(value >= t_2, 1 << 16, 0) + tl.where(value >= t_3, 1 << 24, 0)


@triton.jit
def _store_four_counts(packed, out, mask):
    for k in tl.static_range(0, 4):
        tl.store(out + k, tl.sum((packed >> (8 * k)) & 255, 0), mask=mask)


@triton.jit
def _collect(value, is_near, row, bracket, is_column, mine):
    """Put the values near the median beside the others, in any order, so a shared counter will do; where, and which."""
    # Once there are more than fit, one more says nothing new.
    n_taken = tl.load(bracket + TAKEN, mask=is_column, other=0, volatile=True)
    is_near = is_near & (n_taken <= CANDIDATES)
    position = tl.atomic_add(bracket + TAKEN + row[:, None] * 0, 1, mask=is_near)
    has_room = is_near & (position < CANDIDATES)
    tl.store(mine + position, value, mask=has_room)
    return position, has_room


@triton.jit(do_not_specialize=SIZES)
def survey(
    X, sums, counts, candidates, brackets, words, active, n,
    G, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The values of one start's F: how many lie above each threshold, and those near each λ-median.

    A program reads every G-th tile of ROWS rows, and never more than MOST_TILES of them, or a byte would overflow.
    """
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    word = words + s * WORDS
    if tl.load(word + PHASE) == DONE:
        return
    F = X + (s * PLANES + tl.load(word + SLOT)) * (n * R)
    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    bracket = brackets + (s * R + r) * BRACKETS
    mine = candidates + (s * R + r) * CANDIDATES
    low_bits = tl.load(bracket + LOW, mask=is_column, other=0)
    high_bits = tl.load(bracket + HIGH, mask=is_column, other=0)
    low, high = low_bits.to(tl.float32, bitcast=True), high_bits.to(tl.float32, bitcast=True)
    is_collected = is_column & (high_bits - low_bits > 1)  # a bracket of one value needs no candidates to find it
    t_0, t_1, t_2, t_3 = _four_thresholds(bracket, is_column)
    t_4, t_5, t_6, t_7 = _four_thresholds(bracket + 4, is_column)
    t_8, t_9, t_10, t_11 = _four_thresholds(bracket + 8, is_column)
    t_12, t_13, t_14, t_15 = _four_thresholds(bracket + 12, is_column)
    above = tl.zeros([ROWS, RP], tl.float32)
    below = tl.zeros([ROWS, RP], tl.float32)
    counts_0 = tl.zeros([ROWS, RP], tl.int32)
    counts_4 = tl.zeros([ROWS, RP], tl.int32)
    counts_8 = tl.zeros([ROWS, RP], tl.int32)
    counts_12 = tl.zeros([ROWS, RP], tl.int32)
    for first in range(tl.program_id(0) * ROWS, n, G * ROWS):
        row = first + tl.arange(0, ROWS)
        counted = (row < n)[:, None] & is_column
        value = tl.load(F + (row[:, None] * R + r), mask=counted, other=-1.0)  # −1 reaches no threshold
        above += tl.where(value >= high, value, 0.0)
        below += tl.where(counted & (value < low), value, 0.0)
        counts_0 += _four_counts(value, t_0, t_1, t_2, t_3)
        counts_4 += _four_counts(value, t_4, t_5, t_6, t_7)
        counts_8 += _four_counts(value, t_8, t_9, t_10, t_11)
        counts_12 += _four_counts(value, t_12, t_13, t_14, t_15)
        is_near = counted & (value >= low) & (value < high) & is_collected
        if tl.max(tl.max(is_near.to(tl.int32), 1), 0) > 0:  # most tiles have none, and are spared the counter
            _collect(value, is_near, row, bracket, is_column, mine)
    column = tl.arange(0, RP)
    mask = column < R
    out = sums + (s * 2 * R + column) * G + tl.program_id(0)
    tl.store(out, tl.sum(above.to(tl.float64), 0), mask=mask)
    tl.store(out + R * G, tl.sum(below.to(tl.float64), 0), mask=mask)
    out = counts + ((s * R + column) * G + tl.program_id(0)) * THRESHOLDS
    _store_four_counts(counts_0, out, mask)
    _store_four_counts(counts_4, out + 4, mask)
    _store_four_counts(counts_8, out + 8, mask)
    _store_four_counts(counts_12, out + 12, mask)


@triton.jit(do_not_specialize=SIZES)
def weigh(
    X, masses, sums, counts, candidates, candidate_masses, brackets, words, active, n,
    G, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """What `survey` does where vertices have masses: the mass above each threshold, and the values near each λ-median.

    Sums of masses are exact in float64 (`layout.exactly_summed`), so that their order does not matter. Ties may be more
    than there is room for, and are counted: how many they are cannot be told by their mass.
    """
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    word = words + s * WORDS
    if tl.load(word + PHASE) == DONE:
        return
    F = X + (s * PLANES + tl.load(word + SLOT)) * (n * R)
    column = tl.arange(0, RP)
    k = tl.arange(0, THRESHOLDS)
    r = column[None, :]
    is_column = r < R
    bracket = brackets + (s * R + r) * BRACKETS
    near = (s * R + r) * CANDIDATES
    low_bits = tl.load(bracket + LOW, mask=is_column, other=0)
    high_bits = tl.load(bracket + HIGH, mask=is_column, other=0)
    low, high = low_bits.to(tl.float32, bitcast=True), high_bits.to(tl.float32, bitcast=True)
    is_collected = high_bits - low_bits > 1  # a bracket of one value needs no candidates to find it
    there = brackets + (s * R + column[:, None]) * BRACKETS + k[None, :]
    thresholds = tl.load(there, mask=(column < R)[:, None] & (k >= 0)[None, :], other=TOP).to(tl.float32, bitcast=True)
    above = tl.zeros([ROWS, RP], tl.float64)
    below = tl.zeros([ROWS, RP], tl.float64)
    inside = tl.zeros([ROWS, RP], tl.int32)
    reached = tl.zeros([RP, THRESHOLDS], tl.float64)
    for first in range(tl.program_id(0) * ROWS, n, G * ROWS):
        row = first + tl.arange(0, ROWS)
        counted = (row < n)[:, None] & is_column
        value = tl.load(F + (row[:, None] * R + r), mask=counted, other=-1.0)  # −1 reaches no threshold
        mass = tl.load(masses + row, mask=row < n, other=0.0)
        weighed = mass[:, None] * value
        above += tl.where(value >= high, weighed, 0.0)
        below += tl.where(counted & (value < low), weighed, 0.0)
        reached += tl.sum(tl.where(value[:, :, None] >= thresholds[None, :, :], mass[:, None, None], 0.0), 0)
        is_inside = counted & (value >= low) & (value < high)
        inside += is_inside.to(tl.int32)
        is_near = is_inside & is_collected
        if tl.max(tl.max(is_near.to(tl.int32), 1), 0) > 0:
            position, has_room = _collect(value, is_near, row, bracket, is_column, candidates + near)
            heavy = tl.broadcast_to(mass[:, None], (ROWS, RP))
            tl.store(candidate_masses + near + position, heavy, mask=has_room)
    mask = column < R
    out = sums + (s * 3 * R + column) * G + tl.program_id(0)
    tl.store(out, tl.sum(above, 0), mask=mask)
    tl.store(out + R * G, tl.sum(below, 0), mask=mask)
    tl.store(out + 2 * R * G, tl.sum(inside, 0).to(tl.float64), mask=mask)
    out = counts + ((s * R + column[:, None]) * G + tl.program_id(0)) * THRESHOLDS + k[None, :]
    tl.store(out, reached, mask=mask[:, None] & (k >= 0)[None, :])


@triton.jit(do_not_specialize=SIZES)
def select(
    variations, sums, counts, candidates, candidate_masses, brackets, columns, words, active, lam, bar, shared, n,
    G_VARY, G, R: tl.constexpr, WIDTH: tl.constexpr, HAS_MASSES: tl.constexpr,
):  # fmt: skip
    """Sum up one column: T, cut, size; and med_λ, ∂B on ties and B, if the bracket holds the median.

    What is said of numbers of values (n_…) holds of their masses where there are such.
    """
    r = tl.program_id(0)
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    if tl.load(words + s * WORDS + PHASE) == DONE:
        return
    column = columns + s * COLUMNS * R + r
    bracket = brackets + (s * R + r) * BRACKETS
    k = tl.arange(0, THRESHOLDS)
    thresholds = tl.load(bracket + k)
    low, high, taken = tl.load(bracket + LOW), tl.load(bracket + HIGH), tl.load(bracket + TAKEN)
    last, move = tl.load(bracket + LAST), tl.load(bracket + MOVE)
    was_found = (tl.load(words + s * WORDS + MISSES) > 0) & (tl.load(column + FOUND * R) > 0.5)
    tl.debug_barrier()  # every warp has read what is overwritten from here on
    tl.store(bracket + TAKEN, 0)
    if was_found:
        return  # by an earlier look at the same F; the bracket is ready for the next
    varied = variations + (s * 3 * R + r) * G_VARY
    tl.store(column + T * R, 0.5 * total(varied, G_VARY, WIDTH))  # each edge was seen from both ends
    tl.store(column + CUT * R, total(varied + R * G_VARY, G_VARY, WIDTH))
    tl.store(column + SIZE * R, total(varied + 2 * R * G_VARY, G_VARY, WIDTH))

    reached = _reached(counts + (s * R + r) * G * THRESHOLDS, k, G, WIDTH)
    n_low = tl.sum(tl.where(k == LOW, reached, 0), 0)
    n_high = tl.sum(tl.where(k == HIGH, reached, 0), 0)
    bar_r = tl.load(bar + r)  # the median is the largest value that more than this reach
    holds = (n_low > bar_r) & (n_high <= bar_r)
    is_found = holds & ((taken <= CANDIDATES) | (high - low == 1))
    tl.store(column + FOUND * R, tl.where(is_found, 1.0, 0.0).to(tl.float64))
    if is_found:
        c = tl.arange(0, CANDIDATES)
        n_kept = tl.where(high - low == 1, 0, taken)
        value = tl.load(candidates + (s * R + r) * CANDIDATES + c, mask=c < n_kept, other=-1.0)
        bits = tl.where(c < n_kept, value.to(tl.int32, bitcast=True), -1)
        mass, everything = c, n  # without masses, the first is not used
        if HAS_MASSES:
            mass = tl.load(candidate_masses + (s * R + r) * CANDIDATES + c, mask=c < n_kept, other=0.0)
            everything = tl.load(shared + WHOLE)
        found = _bisect(bits, mass, low, high, n_high, bar_r, HAS_MASSES)
        n_above = n_high + _tally(bits > found, mass, HAS_MASSES)
        n_below = everything - n_low + _tally((bits >= 0) & (bits < found), mass, HAS_MASSES)
        n_level = everything - n_above - n_below
        parts = tl.load(shared + PARTS) if HAS_MASSES else FIXED_POINT
        weighed = mass * value if HAS_MASSES else value.to(tl.float64)
        whole = tl.where(c < n_kept, (weighed * parts).to(tl.int64), 0)
        high_part = tl.sum(tl.where(bits > found, whole, 0), 0).to(tl.float64) / parts
        low_part = tl.sum(tl.where(bits < found, whole, 0), 0).to(tl.float64) / parts
        summed = sums + (s * (3 if HAS_MASSES else 2) * R + r) * G
        sum_above = total(summed, G, WIDTH) + high_part
        sum_below = total(summed + R * G, G, WIDTH) + low_part
        lam_r = tl.load(lam + r)
        median = found.to(tl.float32, bitcast=True).to(tl.float64)
        balance = lam_r * (sum_above - n_above * median) + (n_below * median - sum_below)
        tl.store(column + MEDIAN * R, median)
        tl.store(column + B * R, tl.maximum(balance, 0.0))  # a constant column may round to less than nothing
        tie = (n_below - lam_r * n_above) / n_level
        n_ties = n_level
        if HAS_MASSES:
            # A bar that rounding has moved past a very light vertex makes a large tie of a small difference.
            tie = tl.minimum(tl.maximum(tie, -1.0), lam_r)
            among = _tally(bits == found, mass, False)
            n_ties = tl.where(n_kept > 0, among, total(summed + 2 * R * G, G, WIDTH).to(tl.int32))
        tl.store(column + TIE * R, tie)
        _set_bracket(bracket, found, last, move, low, high, taken, n_ties)
    else:
        _narrow_bracket(bracket, reached, thresholds, bar_r)


@triton.jit
def _reached(counts, k, G, WIDTH: tl.constexpr):
    """How many values (or what mass) of the column lie at or above each threshold: the sum over the programs."""
    i = tl.arange(0, WIDTH // 2)[:, None]
    totals = tl.zeros([WIDTH // 2, THRESHOLDS], counts.dtype.element_ty)
    for first in range(0, G, WIDTH // 2):
        mine = counts + (first + i) * THRESHOLDS
        totals += tl.load(mine + k[None, :], mask=(first + i < G) & (k >= 0)[None, :], other=0)
    return tl.sum(totals, 0)


@triton.jit
def _tally(chosen, mass, HAS_MASSES: tl.constexpr):
    """How many candidates are chosen, or what mass."""
    if HAS_MASSES:
        return tl.sum(tl.where(chosen, mass, 0.0), 0)
    else:
        return tl.sum(chosen.to(tl.int32), 0)


@triton.jit
def _bisect(bits, mass, low, high, n_high, bar, HAS_MASSES: tl.constexpr):
    """The bits of the median: the largest that more than the bar reach; n_high lie above the bracket."""
    found, beyond = low, high
    while beyond - found > 1:
        middle = found + (beyond - found) // 2
        is_lower = n_high + _tally(bits >= middle, mass, HAS_MASSES) > bar
        found = tl.where(is_lower, middle, found)
        beyond = tl.where(is_lower, beyond, middle)
    return found


@triton.jit
def _set_bracket(bracket, found, last, move, low, high, taken, n_ties):
    """The bracket of the next look: a few times as far as the median has moved of late, if candidates still fit."""
    move = tl.maximum(tl.abs(found - last), (move * FADING).to(tl.int32))
    room = CANDIDATES // 2 - n_ties  # half of it, because values are denser here and there; all ties are candidates
    share = room.to(tl.float64) / tl.maximum(taken - n_ties, 1)
    reach = (((high - low) // 2).to(tl.float64) * tl.minimum(share, MOST_WIDENING)).to(tl.int64)
    reach = tl.minimum(reach, move.to(tl.int64) * MOVES_AHEAD)
    reach = tl.minimum(tl.maximum(reach, NEAREST_REACH), FURTHEST_REACH).to(tl.int32)
    reach = tl.where(room > 0, reach, 0)  # too many ties: the bracket is the median alone
    low, high = tl.maximum(found - reach, 0), tl.minimum(found + reach + 1, TOP)
    # On either side thresholds at distances that grow fourfold, in case the median has gone further.
    near = tl.maximum(tl.maximum(reach, move), NEAREST_REACH).to(tl.int64)
    for j in tl.static_range(0, OTHERS // 2):
        tl.store(bracket + j, tl.maximum(low - (near << (2 * j)), 0).to(tl.int32))
        tl.store(bracket + OTHERS // 2 + j, tl.minimum(high + (near << (2 * j)), TOP).to(tl.int32))
    tl.store(bracket + LAST, found)
    tl.store(bracket + MOVE, move)
    tl.store(bracket + LOW, low)
    tl.store(bracket + HIGH, high)


@triton.jit
def _narrow_bracket(bracket, reached, thresholds, bar):
    """The bracket of another look at the same F: between the tightest thresholds on either side of the median.

    Other thresholds lie evenly between them, and one next to the lower end, where ties (zeros above all) may crowd.
    """
    low = tl.max(tl.where(reached > bar, thresholds, 0), 0)
    high = tl.min(tl.where(reached <= bar, thresholds, TOP), 0)
    step = (high - low) // OTHERS
    tl.store(bracket + 0, low + 1)
    for j in tl.static_range(1, OTHERS):
        tl.store(bracket + j, low + j * step)
    tl.store(bracket + LOW, low)
    tl.store(bracket + HIGH, high)
