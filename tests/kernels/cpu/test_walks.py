"""The parts of the walks on the processor that choose: bars above which so many scores lie, in all lanes at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from tautcut.kernels.cpu import walks
from tautcut.kernels.cpu.compiling import compiled

SCORES = st.sampled_from([-1.0, 0.0, 1e-38, 1e-30, 0.25, 0.5, 0.5000001, 1.0, 3e38]) | st.floats(0, 2, width=32)


@compiled
def find_bars(score, n, rank, bars):
    walks._find_bars(score, n, rank, bars)


@given(st.lists(SCORES, min_size=1, max_size=40), st.integers(1, 12), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_so_many_scores_lie_above_the_bar(values, rank, seed):
    rng = np.random.default_rng(seed)
    score = np.array([rng.permutation(values) for _ in range(walks.LANES)], np.float32).T.copy()
    bars = np.empty((4, walks.LANES), np.float32)
    find_bars(score, len(values), rank, bars)
    for column, bar, below in zip(score.T, bars[0], bars[1], strict=True):
        n_wanted = min(rank, int((column > 0).sum()))
        n_above = int((column > bar).sum())
        on_bar = column[(column > below) & (column <= bar)]
        assert n_above <= n_wanted <= n_above + on_bar.size or n_above == n_wanted
        assert np.unique(on_bar).size <= 1 or n_above == n_wanted
