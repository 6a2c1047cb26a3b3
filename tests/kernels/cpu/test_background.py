"""Evidence above its background, compiled: that of `search.transduction`, to the bit, at any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from strategies import use_threads
from tautcut.kernels.cpu import background
from tautcut.kernels.cpu.background import above_background
from tautcut.search.transduction import _above_background


@pytest.mark.parametrize("n_classes", [1, 3, 10])
def test_it_is_the_plain_one_to_the_bit_with_any_threads(n_classes, monkeypatch):
    U = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.1), 301)
    U[:20] = 1.0 / n_classes  # where no label is near
    values, nearest = _above_background(U, 10, 0.999)
    monkeypatch.setattr(background, "_LEAST_SHARE", 10)
    for n_threads in (1, 2, 8):
        use_threads(monkeypatch, n_threads)
        found, places = above_background(U, 10, 0.999)
        assert np.array_equal(found, values)
        assert np.array_equal(places, nearest)
