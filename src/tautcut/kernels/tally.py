"""What one look at the rows of F says, on any device: the sums of each column, and the values in a bracket, which is
the interval where the next median is expected. It owns the names of those sums and how a bracket follows its median;
who adds up, and which value is the median, is decided elsewhere. Free of torch and of Numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray

# Rows of the sums of each column of F.
VARIATION = 0  # T, every edge once
SUM = 1  # Σ m f
STEP = 2  # ‖f − f_k‖²
SUM_ABOVE = 3  # Σ m f of the values above the bracket
MASS_ABOVE = 4  # and their mass
MASS_POSITIVE = 5  # of the values > 0
MASS_ONE = 6  # of the values ≥ 1
CUT = 7  # weight of the edges that leave the cluster
SUM_ROWS = 8

# Rows of a bracket's ends: low < f ≤ high is inside.
LOW = 0
HIGH = 1

N_BINS = 256  # into which an interval of values is divided at a time

# The half width of a bracket is the median's last drift times a slack that adapts.
_LEAST_DRIFT = 5e-4  # the drift that a median which stood still is given, or its bracket would be empty
_AFTER_MISS = 3.0  # slack grows by this: a miss costs far more than candidates that were not needed
_AFTER_SPARSE = 1.5  # and by this where there is room for far more candidates, and a miss is dearer still
_AFTER_HIT = 0.97  # and shrinks by this, so that 36 hits undo a miss
_AFTER_CROWDING = 0.5  # and by this where the candidates fill half of their room: overflowing it is a miss as well
_SLACK_RANGE = (0.5, 30.0)  # it stays in here, so that a long run of one kind is soon undone,
_MOST_SLACK = 3000.0  # or below this, where sparse brackets widen


class Tally(NamedTuple):
    """What one look at the rows of a part says, of each column.

    `totals` are the rows named above; the values inside the bracket are candidates for the median, of which there may
    be more than have room.
    """

    totals: FloatArray
    n_candidates: IntArray
    candidates: FloatArray  # (R, room)
    candidate_masses: FloatArray  # the same, empty where all masses are 1


@dataclass
class Bracket:
    """The interval of each column where the next median is expected, in the precision of F."""

    ends: Array  # (2, columns and padding)
    median: FloatArray
    slack: FloatArray
    has_median: bool = False

    @classmethod
    def empty(cls, n_columns: int, width: int, dtype: np.dtype[Any]) -> Bracket:
        """One that holds nothing, because no median is known: low is above high."""
        ends = np.zeros((2, width), dtype)
        ends[LOW] = 2.0
        return cls(ends, np.zeros(n_columns), np.ones(n_columns))

    def move(
        self, median: FloatArray, missed: BoolArray, is_crowded: BoolArray, is_sparse: BoolArray | None = None
    ) -> None:
        """Expect each median to drift on as it did. The bracket stays below 1: a median there is found by counting.

        It widens where it is `is_sparse`, said by one to whom a miss costs more than the room for candidates.
        """
        drift = np.where(self.has_median, median - self.median, 0.0)
        least, most = _SLACK_RANGE
        after_hit: Any = _AFTER_HIT
        if is_sparse is not None:
            after_hit, most = np.where(is_sparse, _AFTER_SPARSE, _AFTER_HIT), _MOST_SLACK
        self.slack *= np.where(is_crowded, _AFTER_CROWDING, np.where(missed, _AFTER_MISS, after_hit))
        np.clip(self.slack, least, most, out=self.slack)
        self.median, self.has_median = median, True
        half = self.slack * np.maximum(np.abs(drift), _LEAST_DRIFT)
        one = self.ends.dtype.type(1)
        below_one = np.nextafter(one, one - one)
        self.ends[LOW, : median.size] = np.clip(median + drift - half, 0.0, below_one)
        self.ends[HIGH, : median.size] = np.clip(median + drift + half, 0.0, below_one)
