"""Children that merge and split: only a lower (P) is kept, no cluster becomes too small, and the seed decides."""

from __future__ import annotations

import numpy as np
import pytest

from strategies import planted_graph
from tautcut.kernels.cpu.children import best_child
from tautcut.kernels.cpu.coarsening import finest_level
from tautcut.kernels.cpu.moves import descend
from tautcut.problem import Problem

PROBLEM = Problem(planted_graph(4, 30, seed=0), 4)
LEVEL = finest_level(PROBLEM.graph, PROBLEM.is_labelled)
# Two planted clusters are one, another is two: no single vertex wants to move, a merger and a split mend it.
WRONG = np.array([0, 0, 1, 2])[np.arange(120) // 30]
WRONG[105:] = 3


def child_of(labels: np.ndarray, *, n_children: int, seed: int = 0, smallest: float = 5.0) -> np.ndarray:
    bounds = np.full(4, smallest)
    found, cut, masses = best_child(LEVEL, labels, PROBLEM.lam, bounds, plateau=1.0, n_children=n_children, seed=seed)
    partition = PROBLEM.partition(found)
    assert masses == pytest.approx(partition.masses)
    assert (cut / np.minimum(3.0 * masses, 120.0 - masses)).sum() == pytest.approx(partition.energy)
    assert masses.min() >= smallest
    return found


def test_without_children_it_is_a_descent():
    moved, _, _ = descend(LEVEL, WRONG, PROBLEM.lam, np.full(4, 5.0))
    np.testing.assert_array_equal(child_of(WRONG, n_children=0), moved)


@pytest.mark.parametrize("seed", range(3))
def test_children_find_what_moves_cannot(seed):
    before = WRONG.copy()
    planted = PROBLEM.partition(np.arange(120) // 30).energy
    alone, found = (PROBLEM.partition(child_of(WRONG, n_children=n, seed=seed)).energy for n in (0, 40))
    assert found <= planted * (1 + 1e-9) < alone
    np.testing.assert_array_equal(WRONG, before)


def test_the_seed_decides():
    one, same = (child_of(WRONG, n_children=3, seed=7) for _ in range(2))
    np.testing.assert_array_equal(one, same)
