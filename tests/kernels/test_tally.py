"""The bracket of a column: where it expects the next median."""

from __future__ import annotations

import numpy as np
import pytest

from tautcut.kernels.tally import HIGH, LOW, Bracket

HIT, MISS = np.zeros(2, dtype=np.bool_), np.ones(2, dtype=np.bool_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bracket_expects_the_median_to_drift_on(dtype: type):
    bracket = Bracket.empty(2, 4, np.dtype(dtype))
    assert (bracket.ends[LOW] > bracket.ends[HIGH]).all()
    for median in ([0.2, 0.5], [0.21, 0.49], [0.22, 0.48]):
        bracket.move(np.array(median), HIT, HIT)
    next_median = np.array([0.23, 0.47])
    assert (bracket.ends[LOW, :2] < next_median).all()
    assert (next_median < bracket.ends[HIGH, :2]).all()
    assert (bracket.ends[HIGH, :2] - bracket.ends[LOW, :2] < 0.021).all()  # a drift to either side
    assert (bracket.ends[LOW, 2:] > bracket.ends[HIGH, 2:]).all()  # padding holds nothing


def test_a_miss_widens_it_and_a_crowd_narrows_it():
    widths = []
    for missed, is_crowded in ((HIT, HIT), (MISS, HIT), (MISS, MISS)):
        bracket = Bracket.empty(2, 2, np.dtype(np.float64))
        bracket.move(np.array([0.3, 0.6]), missed, is_crowded)
        widths.append(float(bracket.ends[HIGH, 0] - bracket.ends[LOW, 0]))
    assert widths[1] > 3 * widths[0] > 3 * widths[2] > 0


def test_it_stays_below_one_and_above_zero():
    bracket = Bracket.empty(2, 2, np.dtype(np.float32))
    bracket.move(np.array([0.0, 1.0]), MISS, HIT)
    assert bracket.ends[LOW, 0] == 0.0
    assert bracket.ends[HIGH, 1] == np.nextafter(np.float32(1), np.float32(0))
