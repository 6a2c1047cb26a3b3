"""Large graphs are laid out by nearness before they are searched, and their finest coarsenings are shared: the answer
is one of the graph as it was given.
"""

from __future__ import annotations

import numpy as np
import pytest

from strategies import planted_graph, use_threads
from tautcut import Partition, Problem
from tautcut.graph import Graph
from tautcut.kernels.cpu.children import mass_apart
from tautcut.kernels.cpu.layout import permuted
from tautcut.search import driver, layout, multilevel
from tautcut.search.cycles import VCycles
from tautcut.search.driver import best_of_starts
from tautcut.search.ladder import Levels
from tautcut.search.layout import in_order, near_order
from tautcut.search.plan import Plan, Task

R, SIZE = 4, 150
SHUFFLE = np.random.default_rng(1).permutation(R * SIZE)
PLANTED = np.repeat(np.arange(R), SIZE)[SHUFFLE]


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Planted clusters whose vertices are in a random order."""
    return permuted(planted_graph(R, SIZE, seed=0, is_weighted=True), SHUFFLE)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large."""
    monkeypatch.setattr("tautcut.kernels.cpu.layout._CACHE_BYTES", 0)
    monkeypatch.setattr("tautcut.kernels.cpu.sharing._LEAST_SHARE", 100)
    monkeypatch.setattr(layout, "_PARTS", (R, R))
    monkeypatch.setattr("tautcut.search.ladder._SHARED_WORK", 0)
    monkeypatch.setattr("tautcut.search.ladder._SHARED_COARSEST", 65)
    monkeypatch.setattr(multilevel, "_ANNEALED_WORK", 0)


def test_an_order_brings_neighbours_together(graph, large):
    problem = Problem(graph, R)
    order = near_order(problem, 80)
    assert sorted(order) == list(range(R * SIZE))
    rows = np.repeat(np.arange(R * SIZE), np.diff(graph.indptr))
    before = np.abs(rows - graph.indices).mean()
    moved = in_order(problem, order).graph
    after = np.abs(np.repeat(np.arange(R * SIZE), np.diff(moved.indptr)) - moved.indices).mean()
    assert after < before / 2


def test_small_graphs_stay_as_they_are(graph):
    assert near_order(Problem(graph, R), 80) is None


@pytest.mark.parametrize("has_labels", [False, True])
def test_the_answer_is_in_the_order_of_the_graph(graph, large, monkeypatch, has_labels):
    labels = np.where(np.arange(R * SIZE) % 60 == 0, PLANTED, -1) if has_labels else None
    problem = Problem(graph, R, labels=labels)
    orders = []
    monkeypatch.setattr(driver, "near_order", lambda *given: orders.append(near_order(*given)) or orders[-1])
    result = best_of_starts(problem, Plan(init="multilevel"), rng=np.random.default_rng(0))
    assert orders[0] is not None
    assert result.problem.graph is graph or result.problem is problem
    assert result.partition.energy == pytest.approx(problem.partition(result.partition.labels).energy)
    np.testing.assert_array_equal(result.memberships.argmax(axis=1), result.partition.labels)
    pairs = {(a, b) for a, b in zip(result.partition.labels, PLANTED, strict=True)}
    assert len(pairs) == R  # the planted clusters, by other names
    if has_labels:
        np.testing.assert_array_equal(result.partition.labels, PLANTED)


def test_a_start_of_ones_own_is_laid_out_too(graph, large):
    start = np.eye(R)[PLANTED]
    problem = Problem(graph, R)
    result = best_of_starts(problem, Plan(init=start), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(result.partition.labels, PLANTED)


def test_the_same_bits_at_any_number_of_threads(graph, large, monkeypatch):
    found = []
    for n_threads in (1, 2, 8):
        use_threads(monkeypatch, n_threads)
        result = best_of_starts(Problem(graph, R), Plan(init="multilevel"), rng=np.random.default_rng(0))
        found.append((result.partition.labels.tobytes(), result.memberships.tobytes()))
    assert found[0] == found[1] == found[2]


def test_shared_levels(graph, large):
    problem = Problem(graph, R)
    task = Task(problem, Plan())
    cycles = VCycles(task.levels, task.smallest, children=5)
    ladder = task.levels.shared
    assert ladder.steps
    assert ladder.lowest.n_vertices <= 2 * 65 * R
    rng = np.random.default_rng(0)
    partition = cycles.start(0, rng)
    assert partition.energy == pytest.approx(problem.partition(partition.labels).energy)
    # a start is a partition of the lowest shared level
    np.testing.assert_array_equal(ladder.raised(ladder.inherited(partition.labels)), partition.labels)
    child = cycles.combine(partition, cycles.start(1, rng), rng=rng)
    settled = cycles.settled(child)
    assert settled.energy <= child.energy <= partition.energy
    assert settled.energy == pytest.approx(problem.partition(settled.labels).energy)


def test_the_best_of_each_kind_comes_down_to_the_finest_level(graph, large, monkeypatch):
    settled, come_down = [], VCycles.settled

    def watched(cycles: VCycles, partition: Partition) -> Partition:
        settled.append((partition, come_down(cycles, partition)))
        return settled[-1][1]

    monkeypatch.setattr(VCycles, "settled", watched)
    best_of_starts(Problem(graph, R), Plan(init="multilevel", n_init=3), rng=np.random.default_rng(0))
    assert all(after.energy <= before.energy for before, after in settled)
    best, regrouped = (before for before, _ in settled)
    assert mass_apart(graph.masses, best.labels, regrouped.labels, R) > 0.25 * SIZE


def test_kinds_are_told_apart_by_their_clusters(graph):
    problem = Problem(graph, R)
    cycles = VCycles(Levels(problem), np.zeros(R), children=5)
    planted, renamed = problem.partition(PLANTED), problem.partition((PLANTED + 1) % R)
    nearly = PLANTED.copy()
    nearly[: SIZE // 10] = 1
    merged = np.where(PLANTED == 1, 0, PLANTED)
    merged[: SIZE // 2] = 1
    partitions = [planted, renamed, problem.partition(nearly), problem.partition(merged)]
    assert cycles.with_other_clusters(partitions) == [partitions[0], partitions[-1]]


def test_labels_leave_nothing_to_share(graph, large):
    labels = np.where(np.arange(R * SIZE) < 5, PLANTED, -1)
    problem = Problem(graph, R, labels=labels)
    assert not Levels(problem).shared.steps
