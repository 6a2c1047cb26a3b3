"""Children that merge and split: only a lower (P) is kept, no cluster becomes too small, and the seed decides."""

from __future__ import annotations

import numpy as np
import pytest

from strategies import planted_graph
from tautcut.kernels.cpu.children import best_child, best_regrouped, mass_apart
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


def regrouped(
    labels: np.ndarray, *, n_children: int = 40, apart: float = 7.5, smallest: float = 5.0
) -> np.ndarray | None:
    options = {"plateau": 1.0, "n_children": n_children, "seed": 0, "apart": apart}
    return best_regrouped(LEVEL, labels, PROBLEM.lam, np.full(4, smallest), **options)


def test_regrouped_clusters_are_others_even_if_they_cost_more():
    right, before = np.arange(120) // 30, WRONG.copy()
    other = regrouped(right)
    assert mass_apart(PROBLEM.graph.masses, right, other, 4) > 7.5
    assert PROBLEM.partition(other).energy > PROBLEM.partition(right).energy
    assert PROBLEM.partition(other).masses.min() >= 5
    mended = regrouped(WRONG)
    assert PROBLEM.partition(mended).energy <= PROBLEM.partition(right).energy * (1 + 1e-9)
    np.testing.assert_array_equal(WRONG, before)


@pytest.mark.parametrize("options", [{"n_children": 0}, {"apart": 120.0}, {"smallest": 31.0}])
def test_where_no_other_clusters_are_found_there_are_none(options):
    assert regrouped(np.arange(120) // 30, **options) is None


def test_mass_apart_asks_not_what_clusters_are_called():
    masses, labels = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 0, 1, 1])
    assert mass_apart(masses, labels, 1 - labels, 2) == 0
    assert mass_apart(masses, labels, np.array([1, 0, 0, 0]), 2) == pytest.approx(2.0)
