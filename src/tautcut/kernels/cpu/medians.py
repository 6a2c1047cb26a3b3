"""med_λ of each column from the values that a look at F has kept, and B and ∂B on ties with it (Theorem 2). The bracket
is the interval of a column where the median is expected; where it is missed, the column is read again, or whoever has
the column is told so. Compiled; it decides nothing but which value is the median.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.tally import HIGH, LOW, MASS_ABOVE, MASS_ONE, MASS_POSITIVE, SUM, SUM_ABOVE


@compiled
def locate_medians(
    first: int, last: int, F: Array, masses: FloatArray, lam: FloatArray, median_mass: FloatArray, bracket: Array,
    totals: FloatArray, n_candidates: IntArray, candidates: Array, candidate_masses: FloatArray, B: FloatArray,
    medians: FloatArray, tie: FloatArray, missed: BoolArray,
) -> None:  # fmt: skip
    """Write B, the exact median, ∂B on ties, and whether the bracket missed the median, of the columns [first, last).

    A column whose bracket missed it is read again. `masses` is empty where each vertex has the mass 1.
    """
    n = F.shape[0]
    everything = masses.sum() if masses.size else float(n)
    choose_medians(
        first, last, everything, lam, median_mass, totals, n_candidates, candidates, candidate_masses, B, medians, tie,
        missed,
    )  # fmt: skip
    if not missed[first:last].any():
        return
    room, room_masses = np.empty(n, F.dtype), np.ones(n)
    for r in range(first, last):
        if not missed[r]:
            continue
        bar, above = median_mass[r], totals[MASS_ABOVE, r]
        low, high = bracket[LOW, r], bracket[HIGH, r]
        is_full = n_candidates[:, r].max() > candidates.shape[2]
        if bar < above:
            low, high = high, F.dtype.type(1)
        elif is_full and (masses.size or bar < above + n_candidates[:, r].sum()):
            low = F.dtype.type(0) if masses.size else low  # with masses, how much of them lies inside is not known
        else:
            low, high = F.dtype.type(0), low
        size, above, sum_above = _read_again(F, masses, r, low, high, room, room_masses)
        choose(r, room[:size], room_masses[:size], above, sum_above, everything, totals, lam, bar, B, medians, tie)


@compiled
def choose_medians(
    first: int, last: int, everything: float, lam: FloatArray, median_mass: FloatArray, totals: FloatArray,
    n_candidates: IntArray, candidates: Array, candidate_masses: FloatArray, B: FloatArray, medians: FloatArray,
    tie: FloatArray, missed: BoolArray,
) -> None:  # fmt: skip
    """Write B, the exact median and ∂B on ties of the columns [first, last) whose median is among the candidates, and
    which `missed` it: it is not among them, or some found no room.

    Where F is hard the median is 0 or 1, and the masses in `totals` say everything, which add up to `everything`.
    `candidate_masses` is empty where each vertex has the mass 1.
    """
    has_masses = candidate_masses.size > 0
    most = 0
    for r in range(first, last):
        most = max(most, n_candidates[:, r].sum())
    room, room_masses = np.empty(most, candidates.dtype), np.ones(most)
    for r in range(first, last):
        missed[r] = False
        bar, whole = median_mass[r], totals[SUM, r]  # the median is where the mass from above exceeds the bar
        positive, ones = totals[MASS_POSITIVE, r], totals[MASS_ONE, r]
        if bar < ones:
            write_column(r, 1.0, 0.0, ones, 0.0, whole, everything, lam[r], B, medians, tie)
        elif bar >= positive:
            write_column(r, 0.0, positive, everything - positive, whole, whole, everything, lam[r], B, medians, tie)
        else:
            above, sum_above = totals[MASS_ABOVE, r], totals[SUM_ABOVE, r]
            if n_candidates[:, r].max() > candidates.shape[2]:
                missed[r] = True
                continue
            size, inside = _collect(has_masses, candidates, candidate_masses, n_candidates, r, room, room_masses)
            missed[r] = bar < above or bar >= above + inside
            if not missed[r]:
                choose(
                    r, room[:size], room_masses[:size], above, sum_above, everything, totals, lam, bar, B, medians, tie
                )  # fmt: skip


@compiled
def choose(
    r: int, values: Array, weights: FloatArray, above: float, sum_above: float, everything: float, totals: FloatArray,
    lam: FloatArray, bar: float, B: FloatArray, medians: FloatArray, tie: FloatArray,
) -> None:  # fmt: skip
    """Write what follows from the median of column r being among these values, above which is so much mass."""
    chosen = _select(values, weights, bar - above)
    plus, equal, sum_plus = above, 0.0, sum_above
    for c in range(values.size):
        if values[c] > chosen:
            plus += weights[c]
            sum_plus += weights[c] * values[c]
        elif values[c] == chosen:
            equal += weights[c]
    write_column(r, float(chosen), plus, equal, sum_plus, totals[SUM, r], everything, lam[r], B, medians, tie)


@compiled
def write_column(
    r: int, median: float, plus: float, equal: float, sum_plus: float, whole: float, everything: float, lam: float,
    B: FloatArray, medians: FloatArray, tie: FloatArray,
) -> None:  # fmt: skip
    """Write B, the median and ∂B on ties of column r, whose values above the median have the mass `plus` and add up to
    `sum_plus`; `whole` is the sum of all.
    """
    minus = everything - plus - equal
    sum_minus = whole - sum_plus - median * equal
    B[r] = lam * (sum_plus - median * plus) + (median * minus - sum_minus)
    medians[r] = median
    tie[r] = (minus - lam * plus) / equal


@compiled
def _collect(
    has_masses: bool, candidates: Array, candidate_masses: FloatArray, n_candidates: IntArray, r: int, room: Array,
    room_masses: FloatArray,
) -> tuple[int, float]:  # fmt: skip
    """Write the candidates of column r and their masses into the rooms; how many there are, and their mass."""
    size, inside = 0, 0.0
    for chunk in range(n_candidates.shape[0]):
        for c in range(n_candidates[chunk, r]):
            room[size] = candidates[chunk, r, c]
            if has_masses:
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
