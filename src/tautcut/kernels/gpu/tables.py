"""Where the numbers of a start stand in the GPU's memory. Every start of a batch is at its own point of Algorithm 1,
kept in a few small tables there, so that no launch waits for the host: the programs read and write them, the host looks
at them. The endings are those of `tautcut.kernels.batch`.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from tautcut.kernels.batch import Ending

PLANES = tl.constexpr(4)  # of F in a start: F and F^k by turns, then the old and the new F̄ by turns

# What a start does in the next round.
DONE, ITERATE, LOOK_AGAIN, BEGIN = (tl.constexpr(i) for i in range(4))

RUNNING, COLLAPSED, CONVERGED, SETTLED, BUDGET_SPENT = (
    tl.constexpr(int(ending))
    for ending in (Ending.RUNNING, Ending.COLLAPSED, Ending.CONVERGED, Ending.SETTLED, Ending.BUDGET_SPENT)
)

# Words: whole numbers of a start. The best partition is saved from slot SAVE − 1, if SAVE > 0.
PHASE, SLOT_K, SLOT, BAR, INNER, ITERATIONS, OUTER, SAVE, STATUS, PROGRESS_AT, LOOKS, MISSES = (
    tl.constexpr(i) for i in range(12)
)
WORDS = tl.constexpr(16)  # with room to spare: rows of a table begin at even addresses

# Reals of a start.
TAU, SIGMA, THETA, DELTA, ENERGY, BEST, MARK, RELAXED, SQUARED_STEP = (tl.constexpr(i) for i in range(9))
REALS = tl.constexpr(16)

# Columns: reals of a start and cluster; those of F^k end in _K.
T, B, MEDIAN, TIE, CUT, SIZE, FOUND, T_K, B_K, MEDIAN_K, SCALE, UP, LEVEL, DOWN, BEST_CUT = (
    tl.constexpr(i) for i in range(15)
)
COLUMNS = tl.constexpr(16)

# Brackets: thresholds of a start and cluster. The first 14 only count; the values in [LOW, HIGH) are candidates for the
# median. LAST is where it was found, MOVE how far it has gone of late, TAKEN how many candidates were collected.
LOW, HIGH, LAST, MOVE, TAKEN = (tl.constexpr(i) for i in range(14, 19))
OTHERS = tl.constexpr(14)
THRESHOLDS = tl.constexpr(16)  # the others and the bracket's two ends
BRACKETS = tl.constexpr(32)
CANDIDATES = tl.constexpr(2048)  # room for them: what one program sorts through in its registers
TOP = tl.constexpr(0x3F800001)  # the bits of 1.0, and one: above every value of F
MOST_TILES = tl.constexpr(255)  # tiles that a program of `survey` reads: it counts in bytes
MOST_MISSES = tl.constexpr(64)  # looks in a row; each divides a bracket by 14 or more, so that eight find any number

# Reals that all starts share. Where vertices have masses: the mass of all, and in how many parts of a unit the products
# of masses and candidates are added up.
LIPSCHITZ, TOL, EPSILON, PROGRESS, WHOLE, PARTS = (tl.constexpr(i) for i in range(6))

# Parameters of programs that are of a graph's size: one compiled program serves all sizes (decision 0057).
SIZES = (
    "n", "n_short", "n_short_blocks", "n_whole_blocks", "n_blocks", "n_slots", "G", "G_VARY", "max_iter", "max_inner",
    "patience", "n_history", "n_inside", "room",
)  # fmt: skip

SUM_WIDTH = tl.constexpr(512)  # partial sums that are added up at a time


@triton.jit
def total(pointer, G, WIDTH: tl.constexpr):
    """The sum of G numbers, in a fixed order."""
    i = tl.arange(0, WIDTH)
    sums = tl.zeros([WIDTH], tl.float64)
    for first in range(0, G, WIDTH):
        sums += tl.load(pointer + first + i, mask=first + i < G, other=0.0)
    return tl.sum(sums, 0)
