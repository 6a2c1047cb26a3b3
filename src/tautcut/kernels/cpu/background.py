"""What labels that were spread over a graph say of each vertex above what they say of all: the compiled twin of what
`search.transduction` has for itself. Every median and every row is one thread's own, so the bits do not depend on their
number. It decides nothing.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.sharing import affordable_threads, share

_LEAST_SHARE = 100_000  # values of U for each thread


def above_background(U: FloatArray, n_rounds: int, ceiling: float) -> tuple[FloatArray, IntArray]:
    """(U − b) / (1 − b), where b_r is the median of U_r over the vertices whose largest value is not that of r, and at
    most `ceiling`; and the place of the largest value in each row.

    Both follow from each other, round by round, until no place changes.
    """
    n, R = U.shape
    n_threads = affordable_threads(U.size, _LEAST_SHARE)
    rows = [n * t // n_threads for t in range(n_threads + 1)]
    columns = [R * t // min(n_threads, R) for t in range(min(n_threads, R) + 1)]
    background, values, nearest = np.zeros(R), np.empty((n, R)), np.zeros(n, np.int64)
    has_changed = np.zeros(n_threads, np.bool_)
    share(_raise_rows, rows, n_threads, U, background, values, nearest, has_changed)
    for _ in range(n_rounds):
        has_changed[:] = False
        share(_find_medians, columns, U, nearest, ceiling, background)
        share(_raise_rows, rows, n_threads, U, background, values, nearest, has_changed)
        if not has_changed.any():
            break
    return values, nearest


@compiled
def _find_medians(
    first: int, last: int, U: FloatArray, nearest: IntArray, ceiling: float, background: FloatArray
) -> None:
    """Write the background of the columns [first, last); 0 where every row is nearest to it."""
    room = np.empty(U.shape[0])
    for r in range(first, last):
        size = 0
        for i in range(U.shape[0]):
            room[size] = U[i, r]
            size += nearest[i] != r
        background[r] = min(max(np.median(room[:size]), 0.0), ceiling) if size else 0.0


@compiled
def _raise_rows(
    first: int, last: int, n_shares: int, U: FloatArray, background: FloatArray, values: FloatArray, nearest: IntArray,
    has_changed: BoolArray,
) -> None:  # fmt: skip
    """Write the rows [first, last) above the background, and where they are largest."""
    n, R = U.shape
    for i in range(first, last):
        best = 0
        for r in range(R):
            values[i, r] = (U[i, r] - background[r]) / (1.0 - background[r])
            if values[i, r] > values[i, best]:
                best = r
        if best != nearest[i]:
            nearest[i] = best
            has_changed[(first * n_shares) // n] = True
