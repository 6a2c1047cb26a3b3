"""Hard partitions on the GPU: what they cost, greedy moves, clusters merged and split; against the processor's."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_or_interpreter import MIXED, N, kernels_of, labelled_problem, masses_of, torch
from sample_graphs import random_graph
from stand_in_gpu import StandInGpu
from tautcut.kernels.cpu.coarsening import finest_level, weights_between
from tautcut.kernels.cpu.moves import descend
from tautcut.kernels.gpu import layout as layout_module
from tautcut.kernels.gpu.moves import GpuMoves
from tautcut.problem import Problem, cuts

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter


@pytest.fixture(params=MIXED, ids=str)
def problem(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.setattr(layout_module, "LONG_ROW", 8)  # so that both kinds of rows occur
    R, is_weighted, masses = request.param
    return labelled_problem(R, is_weighted=is_weighted, masses=masses)


def least_masses(problem: Problem) -> np.ndarray:
    """Two vertices, or a hundredth of all there is to a cluster."""
    graph = problem.graph
    least = 2.0 * graph.masses[0] if graph.is_even else 0.01 * problem.total_mass / problem.n_clusters
    return np.full(problem.n_clusters, least)


@pytest.fixture
def moves(problem: Problem) -> GpuMoves:
    return GpuMoves(kernels_of(problem), least_masses(problem))


def partitions(problem: Problem, count: int) -> np.ndarray:
    """Random ones, all clusters there, fixed vertices where they belong."""
    R, rng = problem.n_clusters, np.random.default_rng(3)
    labels = np.stack([rng.permutation(np.arange(N) % R) for _ in range(count)])
    return np.where(problem.is_labelled, problem.labels, labels)


def as_tensor(moves: GpuMoves, labels: np.ndarray) -> torch.Tensor:
    return torch.cat([moves.labels_of(one) for one in labels])


def to_host(problem: Problem, rows: torch.Tensor) -> np.ndarray:
    gpu = kernels_of(problem)
    return np.stack([gpu.in_graph_order(one) for one in rows])


def test_partitions_cost_what_they_cost_on_the_host(problem: Problem, moves: GpuMoves):
    pytest.importorskip("numba")
    labels, gpu = partitions(problem, 3), kernels_of(problem)
    unit = gpu.weight_unit
    found = [problem.partition(one) for one in labels]
    is_small = np.array([(one.masses < least_masses(problem)).any() for one in found])
    expected = [one.energy / gpu.unit for one in found] + 1e12 * is_small
    assert np.allclose(moves.energies(as_tensor(moves, labels)), expected, rtol=1e-6)
    cut, masses, between = moves.clusters(as_tensor(moves, labels)[0])
    level = finest_level(problem.graph, problem.is_labelled)
    assert np.allclose(cut * unit, cuts(problem.graph, labels[0], problem.n_clusters), rtol=1e-6)
    assert np.allclose(masses * gpu.mass_unit, found[0].masses, rtol=1e-14)
    assert np.allclose(between * unit, weights_between(level, labels[0], problem.n_clusters), rtol=1e-5, atol=1e-6)


def test_a_cluster_that_is_too_small_costs_more_than_any_other(problem: Problem):
    labels = partitions(problem, 1)
    few = GpuMoves(kernels_of(problem), np.full(problem.n_clusters, problem.total_mass))
    assert few.energies(as_tensor(few, labels))[0] > 1e11


def test_a_cluster_of_the_lightest_vertex_alone_may_be():
    """Where clusters may have just its mass; whatever that is, and however it is rounded."""
    for masses in ("few", "wide", "even"):
        problem = labelled_problem(2, is_weighted=True, n_labelled=0, masses=masses)
        lightest = problem.graph.masses.min()
        allowed = GpuMoves(kernels_of(problem), np.full(2, lightest))
        labels = (problem.graph.masses.argmin() == np.arange(N)).astype(np.int64)[None]
        assert allowed.energies(as_tensor(allowed, labels))[0] < 1e11
        refused = GpuMoves(kernels_of(problem), np.full(2, lightest * 1.001))
        assert refused.energies(as_tensor(refused, labels))[0] > 1e11


def test_moves_end_where_no_vertex_can_be_moved(problem: Problem, moves: GpuMoves):
    """The processor's greedy moves, one vertex at a time, find nothing more to do."""
    pytest.importorskip("numba")
    labels = partitions(problem, 2)
    found = to_host(problem, moves.descend(as_tensor(moves, labels)))
    level, smallest = finest_level(problem.graph, problem.is_labelled), least_masses(problem)
    for before, after in zip(labels, found, strict=True):
        start, end = problem.partition(before), problem.partition(after)
        assert end.energy < start.energy
        assert np.array_equal(after[problem.is_labelled], before[problem.is_labelled])
        assert (end.masses >= np.minimum(smallest, start.masses)).all()
        again = problem.partition(descend(level, after, problem.lam, smallest)[0])
        assert again.energy == pytest.approx(end.energy, rel=1e-5)


def test_merging_and_splitting_keeps_every_other_cluster():
    problem = Problem(random_graph(N, 4 * N, seed=1, is_weighted=False, n_isolated=0), 4)
    gpu = GpuMoves(kernels_of(problem), np.ones(4, dtype=int))
    labels = partitions(problem, 2)
    plans, shares = [(0, 1, 2), (2, 3, 2)], np.array([0.25, 0.5])
    found = to_host(problem, gpu.merge_and_split(as_tensor(gpu, labels), plans, shares, seed=1))
    again = to_host(problem, gpu.merge_and_split(as_tensor(gpu, labels), plans, shares, seed=1))
    assert np.array_equal(found, again)
    assert (found[0][labels[0] == 1] == 0).all()
    assert np.bincount(found[0]).tolist() == [24, 3, 9, 12]
    assert set(labels[0][found[0] == 1]) == {2}
    assert np.bincount(found[1]).tolist() == [12, 12, 12, 12]
    assert np.array_equal(found[1][labels[1] < 2], labels[1][labels[1] < 2])


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.99])
def test_a_cluster_is_split_by_its_mass(share: float):
    problem = Problem(random_graph(N, 4 * N, seed=1, is_weighted=True).with_masses(masses_of("few", N)), 3)
    gpu, masses = GpuMoves(kernels_of(problem), np.ones(3)), problem.graph.masses
    labels = partitions(problem, 1)
    (found,) = to_host(problem, gpu.merge_and_split(as_tensor(gpu, labels), [(0, 1, 2)], np.array([share]), seed=1))
    whole, split = masses[labels[0] == 2].sum(), masses[found == 1].sum()
    assert set(labels[0][found == 1]) == {2}
    assert 0 < split < whole
    assert split <= max(share * whole, 3.0)
    assert split > share * whole - 3.0  # no vertex is heavier


def test_half_way_between_a_partition_and_itself_is_that_partition(problem: Problem, moves: GpuMoves):
    R = problem.n_clusters
    labels = np.random.default_rng(0).permutation(np.arange(N) % R)
    first, renamed = as_tensor(moves, np.stack([labels, np.roll(np.arange(R), 1)[labels]]))
    expected = moves.soften(first[None], 0.5)[0]
    assert torch.equal(moves.mix(first, renamed, 0.5), expected)


def test_the_stand_in_offers_the_same(problem: Problem, moves: GpuMoves):
    """What the search asks for, so that its tests on the stand-in say something about a GPU."""
    pytest.importorskip("numba")
    stand_in = StandInGpu(problem)
    theirs = stand_in.moves(least_masses(problem))
    labels = partitions(problem, 2)
    rows, their_rows = as_tensor(moves, labels), stand_in.joined([theirs.labels_of(one) for one in labels])
    assert np.allclose(moves.energies(rows), theirs.energies(their_rows), rtol=1e-6)
    for ours, expected in zip(moves.clusters(rows[0]), theirs.clusters(their_rows[0]), strict=True):
        assert np.allclose(ours, expected, rtol=1e-5, atol=1e-6)
    mixed = kernels_of(problem).in_graph_order(moves.mix(rows[0], rows[1], 0.5))
    assert np.allclose(mixed, stand_in.in_graph_order(theirs.mix(their_rows[0], their_rows[1], 0.5)))
