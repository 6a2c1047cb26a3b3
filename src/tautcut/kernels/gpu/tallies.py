"""The values of a part's rows, where the medians are those of many parts: `look` adds up what a `Tally` says of them
and notes the rows near each median; `spread` counts the values of an interval bin by bin, `note` notes their rows. Sums
have a fixed order, and a shared counter says where a row is noted, never whether: the same input gives the same tally.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from tautcut.kernels.gpu.programs import wide
from tautcut.kernels.gpu.tables import SIZES


@triton.jit(do_not_specialize=SIZES)
def look(
    F, F_k, masses, bracket, sums, n_found, found, n, room,
    G, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr, HAS_MASSES: tl.constexpr, IS_WIDE: tl.constexpr,
):  # fmt: skip
    """The rows SUM to MASS_ONE of a tally over every G-th tile of ROWS rows, and the rows inside the bracket.

    Without masses, those in a tally are numbers of rows.
    """
    column = tl.arange(0, RP)
    r = column[None, :]
    is_column = r < R
    low = tl.load(bracket + r, mask=is_column, other=2.0)
    high = tl.load(bracket + R + r, mask=is_column, other=2.0)
    whole = tl.zeros([ROWS, RP], tl.float64)
    squares = tl.zeros([ROWS, RP], tl.float64)
    sum_above = tl.zeros([ROWS, RP], tl.float64)
    above = tl.zeros([ROWS, RP], tl.float64 if HAS_MASSES else tl.int32)
    positive = tl.zeros([ROWS, RP], tl.float64 if HAS_MASSES else tl.int32)
    ones = tl.zeros([ROWS, RP], tl.float64 if HAS_MASSES else tl.int32)
    for first in range(tl.program_id(0) * ROWS, n, G * ROWS):
        row = first + tl.arange(0, ROWS)
        counted = (row < n)[:, None] & is_column
        there = wide(row, IS_WIDE)[:, None] * R + r
        value = tl.load(F + there, mask=counted, other=0.0)
        moved = value - tl.load(F_k + there, mask=counted, other=0.0)
        squares += (moved * moved).to(tl.float64)
        weighed = value.to(tl.float64)
        mass = 1
        if HAS_MASSES:
            mass = tl.load(masses + row, mask=row < n, other=0.0)[:, None]
            weighed = mass * weighed
        whole += weighed
        sum_above += tl.where(value > high, weighed, 0.0)
        above += tl.where(value > high, mass, 0)
        positive += tl.where(value > 0.0, mass, 0)
        ones += tl.where(value >= 1.0, mass, 0)
        is_near = counted & (value > low) & (value <= high)
        if tl.max(tl.max(is_near.to(tl.int32), 1), 0) > 0:  # most tiles have none, and are spared the counter
            n_noted = tl.load(n_found + r, mask=is_column, other=0, volatile=True)
            is_near = is_near & (n_noted <= room)  # once there are more than fit, one more says nothing new
            place = tl.atomic_add(n_found + r + row[:, None] * 0, 1, mask=is_near)
            here = tl.broadcast_to(row[:, None], (ROWS, RP))
            tl.store(found + r * room + place, here, mask=is_near & (place < room))
    mask = column < R
    out = sums + column * G + tl.program_id(0)
    tl.store(out, tl.sum(whole, 0), mask=mask)
    tl.store(out + R * G, tl.sum(squares, 0), mask=mask)
    tl.store(out + 2 * R * G, tl.sum(sum_above, 0), mask=mask)
    tl.store(out + 3 * R * G, tl.sum(above, 0).to(tl.float64), mask=mask)
    tl.store(out + 4 * R * G, tl.sum(positive, 0).to(tl.float64), mask=mask)
    tl.store(out + 5 * R * G, tl.sum(ones, 0).to(tl.float64), mask=mask)


@triton.jit(do_not_specialize=SIZES)
def spread(
    F, masses, chosen, low, high, width, bins, n,
    G, R: tl.constexpr, BINS: tl.constexpr, ROWS: tl.constexpr, HAS_MASSES: tl.constexpr, IS_WIDE: tl.constexpr,
):  # fmt: skip
    """The mass, the mass times the value, and the number of one column's values whose bits lie in [low, high], in bins
    of that width, over every G-th tile of ROWS rows.
    """
    k = tl.program_id(1)
    r, lowest, highest = tl.load(chosen + k), tl.load(low + k), tl.load(high + k)
    wide_bin = tl.load(width + k)
    b = tl.arange(0, BINS)
    mass_of = tl.zeros([BINS], tl.float64)
    sum_of = tl.zeros([BINS], tl.float64)
    number_of = tl.zeros([BINS], tl.int32)
    for first in range(tl.program_id(0) * ROWS, n, G * ROWS):
        row = first + tl.arange(0, ROWS)
        value = tl.load(F + wide(row, IS_WIDE) * R + r, mask=row < n, other=0.0)
        bits = value.to(tl.int32, bitcast=True)
        is_inside = (row < n) & (bits >= lowest) & (bits <= highest)
        place = tl.where(is_inside, (bits - lowest) // wide_bin, BINS)
        mass = tl.where(is_inside, 1.0, 0.0).to(tl.float64)
        if HAS_MASSES:
            mass = tl.load(masses + row, mask=is_inside, other=0.0)
        is_here = place[:, None] == b[None, :]
        mass_of += tl.sum(tl.where(is_here, mass[:, None], 0.0), 0)
        sum_of += tl.sum(tl.where(is_here, (mass * value)[:, None], 0.0), 0)
        number_of += tl.sum(is_here.to(tl.int32), 0)
    out = bins + ((k * BINS + b) * 3) * G + tl.program_id(0)
    tl.store(out, mass_of)
    tl.store(out + G, sum_of)
    tl.store(out + 2 * G, number_of.to(tl.float64))


@triton.jit(do_not_specialize=SIZES)
def note(
    F, chosen, low, high, n_found, found, n, room,
    G, R: tl.constexpr, ROWS: tl.constexpr, IS_WIDE: tl.constexpr,
):  # fmt: skip
    """Note the rows whose value in one column has bits in [low, high]; those for which there is no room are counted."""
    k = tl.program_id(1)
    r, lowest, highest = tl.load(chosen + k), tl.load(low + k), tl.load(high + k)
    for first in range(tl.program_id(0) * ROWS, n, G * ROWS):
        row = first + tl.arange(0, ROWS)
        bits = tl.load(F + wide(row, IS_WIDE) * R + r, mask=row < n, other=0.0).to(tl.int32, bitcast=True)
        is_inside = (row < n) & (bits >= lowest) & (bits <= highest)
        place = tl.atomic_add(n_found + k + row * 0, 1, mask=is_inside)
        tl.store(found + k * room + place, row, mask=is_inside & (place < room))
