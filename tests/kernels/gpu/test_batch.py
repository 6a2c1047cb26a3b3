"""Many starts side by side on the GPU: run by run against the reference, and step by step against `ReferenceBatch`."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_or_interpreter import (
    assert_close,
    engine,
    kernels_of,
    labelled_problem,
    masses_of,
    needs_gpu,
    random_starts,
)
from sample_graphs import random_graph
from tautcut.algorithm.batch import limits_of, run_batch
from tautcut.algorithm.reference_batch import ReferenceBatch
from tautcut.algorithm.solver import run
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.graph import Graph
from tautcut.kernels.batch import Ending
from tautcut.kernels.gpu.batch import GpuBatch
from tautcut.kernels.reference import ReferenceKernels
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter


GRAPH = random_graph(40, 120, seed=5, is_weighted=True, n_isolated=0)


@pytest.fixture
def small() -> Problem:
    return Problem(GRAPH, 3)


@pytest.mark.parametrize(
    ("stop", "status", "masses"),
    [
        (StopRule(max_iter=12), Status.BUDGET_SPENT, "even"),
        (StopRule(tol=0.05, max_iter=60), Status.CONVERGED, "few"),
        (StopRule(tol=0.0, max_iter=60, patience=2, max_inner=3), Status.SETTLED, "even"),
    ],
)
def test_a_run_is_the_reference_run(stop: StopRule, status: Status, masses: str):
    small = Problem(GRAPH.with_masses(masses_of(masses, 40)), 3)
    F = random_starts(small, 1)
    found = run_batch(small, F, kernels_of(small), stop=stop).best
    expected = run(small, F[0], ReferenceKernels(small), stop=stop)
    assert found.status is expected.status is status
    assert [line.iterations for line in found.history] == [line.iterations for line in expected.history]
    assert [line.is_descent for line in found.history] == [line.is_descent for line in expected.history]
    assert np.array_equal(found.partition.labels, expected.partition.labels)
    assert found.partition.energy == expected.partition.energy
    for name in ("relaxed_energy", "energy"):
        ours, theirs = ([getattr(line, name) for line in run.history] for run in (found, expected))
        assert np.allclose(ours, theirs, rtol=1e-4)
    assert_close("F", found.memberships, expected.memberships)
    assert_close("F", found.last_memberships, expected.last_memberships)


def test_a_start_does_not_notice_its_companions(small: Problem):
    F, stop = random_starts(small, 3), StopRule(tol=0.02, max_iter=10)
    together = run_batch(small, F, kernels_of(small), stop=stop)
    alone = [run_batch(small, F[i : i + 1], kernels_of(small), stop=stop) for i in range(3)]
    assert np.array_equal(together.energies, np.concatenate([one.energies for one in alone]))
    assert np.array_equal(together.iterations, np.concatenate([one.iterations for one in alone]))
    assert np.array_equal(together.best.memberships, alone[int(np.argmin(together.energies))].best.memberships)


def test_a_start_that_was_never_looked_at_is_its_own_best(small: Problem):
    gpu = kernels_of(small)
    F = random_starts(small, 2)
    batch = gpu.batch(gpu.feasible(F), limits_of(StopRule()))
    assert [look.best for look in batch.look()] == [np.inf, np.inf]
    assert_close("F", batch.last(1)(), F[1])
    partition, memberships = batch.best(1)
    assert partition.energy == small.partition(F[1].argmax(axis=1)).energy
    assert_close("F", memberships(), F[1])


def test_half_precision_duals_give_the_same_partition(small: Problem):
    F, stop = random_starts(small, 1), StopRule(max_iter=15)
    found = run_batch(small, F, kernels_of(small, duals="float16"), stop=stop).best
    expected = run_batch(small, F, kernels_of(small), stop=stop).best
    assert found.partition.energy == pytest.approx(expected.partition.energy, rel=0.02)


@pytest.mark.parametrize(
    ("is_weighted", "n_labelled", "masses"),
    [(False, 0, None), (True, 5, None), (False, 5, "wide"), (True, 0, "one")],
)  # fmt: skip
def test_a_batch_goes_the_way_of_the_reference_batch(is_weighted: bool, n_labelled: int, masses: str | None):
    """Round by round: where a start has ended an outer step, it stands where the oracle's start stood after it."""
    problem = labelled_problem(3, is_weighted=is_weighted, n_labelled=n_labelled, masses=masses)
    stop = StopRule(tol=0.0, max_iter=9, max_inner=4)
    F, gpu = random_starts(problem, 3), kernels_of(problem)
    ours: GpuBatch = gpu.batch(gpu.feasible(F), limits_of(stop))
    theirs = ReferenceBatch(problem, F, ReferenceKernels(problem), limits_of(stop))
    stood = [[(look, theirs.last(s)())] for s, look in enumerate(theirs.look())]
    for looks in theirs.run():
        for s, look in enumerate(looks):
            if look.outer == len(stood[s]):
                stood[s].append((look, theirs.last(s)()))
    seen = [0, 0, 0]
    for _ in range(40):
        ours.launch_round(4)
        for s, look in enumerate(ours.look()):
            if look.outer == seen[s]:  # it has just come to the end of an outer step
                expected, F_then = stood[s][seen[s]]
                assert (look.ending, look.iterations) == (expected.ending, expected.iterations)
                for name in ("energy", "best", "relaxed"):
                    assert getattr(look, name) == pytest.approx(getattr(expected, name), rel=1e-4)
                assert_close("F", ours.last(s)(), F_then)
                seen[s] += 1
        if all(look.ending is not Ending.RUNNING for look in ours.look()):
            break
    assert seen == [len(one) for one in stood]
    assert {look.ending for look in ours.look()} == {Ending.BUDGET_SPENT}
    for s in range(3):
        lines, expected_lines = ours.lines(s, seen[s]), theirs.lines(s, seen[s])
        assert np.array_equal(lines[:, [0, 3]], expected_lines[:, [0, 3]])  # iterations, descent
        assert np.allclose(lines, expected_lines, rtol=1e-4)
        (partition, F_best), (expected_partition, F_expected) = ours.best(s), theirs.best(s)
        assert np.array_equal(partition.labels, expected_partition.labels)
        assert partition.energy == expected_partition.energy
        assert_close("F", F_best(), F_expected())
    labels = np.stack([gpu.in_graph_order(rows) for rows in ours.best_labels])
    assert np.array_equal(labels, theirs.best_labels)


def test_the_last_f_is_the_one_that_was_iterated_last(small: Problem):
    """In the midst of an outer step it is F, at its beginning F^k, at the end of a run F again."""
    F, gpu, reference = random_starts(small, 1), kernels_of(small), ReferenceKernels(small)
    batch: GpuBatch = gpu.batch(gpu.feasible(F), limits_of(StopRule(tol=0.0, max_iter=6, max_inner=3, epsilon=1e-9)))
    expected = [run(small, F[0], reference, stop=StopRule(tol=0.0, max_iter=i, max_inner=3, epsilon=1e-9))
                for i in range(1, 7)]  # fmt: skip
    assert_close("F", batch.last(0)(), F[0])
    done = 0
    for _ in range(40):
        batch.launch_round(1)
        look = batch.look()[0]
        assert_close("F", batch.last(0)(), expected[look.iterations - 1].last_memberships if look.iterations else F[0])
        done = max(done, look.iterations)
        if look.ending is not Ending.RUNNING:
            break
    assert done == 6


def test_a_start_with_a_constant_column_has_collapsed_on_both(small: Problem):
    F = random_starts(small, 2)
    F[1] = 1 / 3
    gpu, stop = kernels_of(small), StopRule(max_iter=2)
    ours = gpu.batch(gpu.feasible(F), limits_of(stop))
    theirs = ReferenceBatch(small, F, ReferenceKernels(small), limits_of(stop))
    for batch in (ours, theirs):
        for _ in batch.run():
            pass
    for one, other in zip(ours.look(), theirs.look(), strict=True):
        assert (one.ending, one.iterations, one.outer) == (other.ending, other.iterations, other.outer)
        assert one.best == pytest.approx(other.best, rel=1e-6)
    assert ours.look()[1].ending is Ending.COLLAPSED
    assert ours.look()[1].outer == 0


# ---------------------------------------------------------------- on a GPU alone


@pytest.fixture(scope="module")
def large() -> Problem:
    n, R = 20_000, 10
    rng = np.random.default_rng(0)
    block = np.arange(n) * R // n
    inside = rng.integers(0, n // R, (n, 6)) + (block * (n // R))[:, None]
    across = rng.integers(0, n, (n, 1))
    ends = np.hstack([inside, across])
    edges = np.column_stack([np.repeat(np.arange(n), 7), ends.ravel()])
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    return Problem(Graph.from_edges(edges, n_vertices=n), R)


@pytest.fixture(scope="module", params=[None, "few", "wide", "one"])
def weighed(request: pytest.FixtureRequest, large: Problem) -> Problem:
    if request.param is None:
        return large
    return Problem(large.graph.with_masses(masses_of(request.param, large.n_vertices)), large.n_clusters)


@needs_gpu
def test_the_same_bits_run_after_run(weighed: Problem):
    F, stop = random_starts(weighed, 5), StopRule(max_iter=120)
    first, second = (run_batch(weighed, F, kernels_of(weighed), stop=stop) for _ in range(2))
    assert np.array_equal(first.energies, second.energies)
    assert np.array_equal(first.best.partition.labels, second.best.partition.labels)
    assert np.array_equal(first.best.memberships, second.best.memberships)


@needs_gpu
def test_a_long_iteration_agrees_with_the_reference(weighed: Problem):
    # From the fourth iteration on, rounding in float32 may put a weighted median on the next vertex.
    F, stop = random_starts(weighed, 1), StopRule(max_iter=3)
    found = run_batch(weighed, F, kernels_of(weighed), stop=stop).best
    expected = run(weighed, F[0], ReferenceKernels(weighed), stop=stop)
    assert [line.iterations for line in found.history] == [line.iterations for line in expected.history]
    assert_close("F", found.memberships, expected.memberships)


@needs_gpu
@pytest.mark.parametrize("masses", ["even", "few"])
def test_energies_agree_with_the_processor(large: Problem, masses: str):
    problem = Problem(large.graph.with_masses(masses_of(masses, large.n_vertices)), large.n_clusters)
    pytest.importorskip("numba")
    from tautcut.kernels.cpu import engine as cpu

    F, stop = random_starts(problem, 30), StopRule(max_iter=300)
    ours = run_batch(problem, F, kernels_of(problem), stop=stop).energies
    theirs = [run(problem, one, cpu.CpuKernels(problem, dtype=np.dtype("float32")), stop=stop) for one in F]
    energies = np.array([result.partition.energy for result in theirs])
    assert abs(np.median(ours) / np.median(energies) - 1) < 0.05
    assert abs(ours.min() / energies.min() - 1) < 0.05


def test_starts_that_do_not_fit_together_take_turns(small: Problem, monkeypatch: pytest.MonkeyPatch):
    F, stop = random_starts(small, 3), StopRule(max_iter=4)
    together = run_batch(small, F, kernels_of(small), stop=stop)
    monkeypatch.setattr(engine.GpuKernels, "starts_that_fit", lambda self, wanted: min(2, wanted))
    by_turns = run_batch(small, F, kernels_of(small), stop=stop)
    assert np.array_equal(together.energies, by_turns.energies)
    assert np.array_equal(together.best.partition.labels, by_turns.best.partition.labels)
