"""What a plan comes to."""

import types

import numpy as np
import pytest

from tautcut.search.plan import quick_plan


@pytest.mark.parametrize(("n_edges", "starts"), [(100, 4), (400_000, 2), (250_001, 3), (9_000_000, 2)])
def test_a_glance_at_a_large_graph_takes_fewer_starts(n_edges, starts):
    directed = types.SimpleNamespace(indices=np.empty(2 * n_edges, dtype=np.int8))
    assert quick_plan(directed).n_init == starts
