"""The projection inside the passes: the threshold of a row does not depend on where the search for it begins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautcut.kernels.cpu import passes
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.rows import full, largest, load, padded_width, spread

ROWS = 200
CASES = [(10, "float32"), (3, "float64")]  # two pieces of a row; one with a padding lane


@cache
def thresholds(width: int, dtype: str) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """The threshold of each row, beginning from the support of the row before."""
    one = np.dtype(dtype).type(1)
    zero, margin = one - one, passes.margin_of(width, one)

    @compiled
    def fill(X: np.ndarray, before: np.ndarray, found: np.ndarray) -> None:
        ones, nothing = full(one, width), full(zero, width)
        for i in range(found.size):
            x = load(X, i, width)
            x = x - spread(largest(x), x)
            found[i] = passes._threshold(x, load(before, i, width), width, ones, nothing, one, margin)

    return fill


def rows_of(R: int, dtype: str, seed: int) -> np.ndarray:
    """Rows near the simplex, some with ties and some that lie on a threshold; padding lanes as the passes have them."""
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(R, 0.3), ROWS) + rng.normal(size=(ROWS, R)) * rng.choice(
        [0.0, 1e-7, 1e-3, 1.0], (ROWS, 1)
    )
    X[::3] = np.round(4 * X[::3]) / 4
    padded = np.full((ROWS, padded_width(R)), passes.NEVER, dtype)
    padded[:, :R] = X
    return padded


@pytest.mark.parametrize(("R", "dtype"), CASES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_a_threshold_has_the_same_bits_wherever_its_search_begins(R, dtype, seed):
    X, find = rows_of(R, dtype, seed), thresholds(padded_width(R), dtype)
    rounds, warm = np.empty(ROWS, dtype), np.empty(ROWS, dtype)
    find(X, np.zeros_like(X), rounds)  # no lane is in the support: Michelot's rounds from the beginning
    projected = np.maximum(X - X.max(axis=1, keepdims=True) - rounds[:, None], 0)
    assert np.allclose(projected.sum(axis=1), 1, rtol=0, atol=20 * R * np.finfo(dtype).eps)
    rng = np.random.default_rng(seed + 1)
    shuffled = projected[:, rng.permutation(R)] if X.shape[1] == R else projected
    for before in (projected, shuffled, (X > 0).astype(dtype)):
        find(X, np.ascontiguousarray(before), warm)
        assert np.array_equal(warm, rounds)
