"""The GPU's engine against the reference engine, operation by operation and run by run.

On a machine without a GPU, Triton's interpreter runs the same programs, on graphs small enough for it. The tests at
the end need a card.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
HAS_CARD = torch.cuda.is_available()
if not HAS_CARD:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import tautcut.kernels.gpu.engine as engine  # noqa: E402
import tautcut.kernels.gpu.layout as layout_module  # noqa: E402
import tautcut.kernels.gpu.spectral as spectral  # noqa: E402
import tautcut.search.driver as restarts  # noqa: E402
import tautcut.search.generations as evolution  # noqa: E402
from strategies import random_graph  # noqa: E402
from tautcut.algorithm.batch import run_batch  # noqa: E402
from tautcut.algorithm.observers import Progress  # noqa: E402
from tautcut.algorithm.solver import run  # noqa: E402
from tautcut.algorithm.stopping import Status, StopRule  # noqa: E402
from tautcut.errors import InputError  # noqa: E402
from tautcut.graph import Graph  # noqa: E402
from tautcut.graph.laplacian import diffuse, normalised_cut  # noqa: E402
from tautcut.kernels.cpu.moves import descend, finest_level, weights_between  # noqa: E402
from tautcut.kernels.gpu import programs  # noqa: E402
from tautcut.kernels.gpu.moves import GpuMoves  # noqa: E402
from tautcut.kernels.gpu.nearest import nearest_on_gpu  # noqa: E402
from tautcut.kernels.protocol import Measures, StepSizes  # noqa: E402
from tautcut.kernels.reference import ReferenceKernels, project  # noqa: E402
from tautcut.problem import Problem, cuts  # noqa: E402
from tautcut.search.driver import Plan, best_of_starts  # noqa: E402
from tautcut.search.multilevel import EFFORTS  # noqa: E402

DEVICE = "cuda" if HAS_CARD else "cpu"
TOLERANCE = {"T": 1e-6, "B": 2e-6, "median": 0.0, "tie": 1e-12, "squared_step": 1e-5, "cut": 1e-6, "F": 2e-5}
N = 48

needs_card = pytest.mark.skipif(not HAS_CARD, reason="needs an NVIDIA GPU")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def kernels_of(problem: Problem) -> engine.GpuKernels:
    return engine.GpuKernels(problem, device=DEVICE)


@pytest.fixture(params=[(2, False), (3, True), (10, False)], ids=lambda c: f"R{c[0]}-{c[1]}")
def problem(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Problem:
    R, is_weighted = request.param
    monkeypatch.setattr(layout_module, "LONG_ROW", 8)  # so that both kinds of rows occur
    graph = random_graph(N, 4 * N, seed=R, is_weighted=is_weighted, n_isolated=2)
    rng = np.random.default_rng(R)
    labels = np.where(rng.random(N) < 0.1, rng.integers(0, R, N), -1)
    return Problem(graph, R, rng.uniform(0.3, 2 * R, R), labels)


def starts(problem: Problem) -> Iterator[np.ndarray]:
    """Generic values, many zeros and ones, few distinct values; exact in float32."""
    R = problem.n_clusters
    rng = np.random.default_rng(7)
    generic = rng.dirichlet(np.ones(R), N)
    hard = np.eye(R)[(np.cumsum(~problem.is_labelled) - 1) % R]
    coarse = rng.integers(0, 3, (N, R)) + np.eye(R)[rng.integers(0, R, N)]
    for F in (generic, hard, coarse / coarse.sum(axis=1, keepdims=True)):
        yield project(F, problem.labels).astype(np.float32).astype(np.float64)


def assert_close(name: str, found: object, expected: object) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= TOLERANCE[name] * max(1.0, float(np.abs(expected).max())), name


def assert_same_measures(found: Measures, expected: Measures) -> None:
    for name in ("T", "B", "median", "tie", "squared_step"):
        assert_close(name, getattr(found, name), getattr(expected, name))


def test_the_norm_and_the_unit(problem: Problem):
    card, reference = kernels_of(problem), ReferenceKernels(problem)
    assert card.unit == reference.unit
    assert card.lipschitz == pytest.approx(reference.lipschitz, rel=1e-5)


def test_measure_and_harden(problem: Problem):
    card, reference = kernels_of(problem), ReferenceKernels(problem)
    for F in starts(problem):
        ours, theirs = card.allocate(F), reference.allocate(F)
        assert np.array_equal(card.memberships(ours), F)
        for _ in range(2):  # the first look has no bracket for the medians, the second has one
            assert_same_measures(card.measure(ours), reference.measure(theirs))
        labels, cut = card.harden(ours)
        expected_labels, expected_cut = reference.harden(theirs)
        assert np.array_equal(labels, expected_labels)
        assert_close("cut", cut, expected_cut)


def test_iterations(problem: Problem):
    """Two outer steps of three inner iterations, from the same numbers; duals too are the same, or F would part."""
    card, reference = kernels_of(problem), ReferenceKernels(problem)
    F = next(starts(problem))
    ours, theirs = card.allocate(F), reference.allocate(F)
    tau = 1 / reference.lipschitz
    for _ in range(2):
        before = reference.measure(theirs)
        delta = float(before.B.max())
        scale = delta / before.B
        sigma = 1 / (tau * (scale.max() * reference.lipschitz) ** 2)
        card.linearise(ours, before, delta)
        reference.linearise(theirs, before, delta)
        for _ in range(3):
            theta = 1 / np.sqrt(1 + 2 * tau)
            for kernels, arrays in ((card, ours), (reference, theirs)):
                kernels.iterate(arrays, scale, StepSizes(tau, sigma, theta))
            tau, sigma = theta * tau, sigma / theta
            assert_close("F", card.memberships(ours), theirs.F)
            measures = card.measure(ours)
            assert_close("squared_step", measures.squared_step, reference.measure(theirs).squared_step)
        theirs.F = card.memberships(ours)


@pytest.mark.parametrize("kind", ["generic", "hard", "half tied", "all but equal"])
def test_medians_are_found_when_few_candidates_fit(monkeypatch: pytest.MonkeyPatch, kind: str):
    """Brackets that miss, brackets that are crowded, more ties than there is room for."""
    if HAS_CARD:
        pytest.skip("the room for candidates is compiled in")
    monkeypatch.setattr(programs, "CANDIDATES", tl.constexpr(16))
    R, rng = 3, np.random.default_rng(0)
    problem = Problem(random_graph(150, 300, seed=1, is_weighted=False, n_isolated=0), R)
    F = {
        "generic": rng.dirichlet(np.ones(R), 150),
        "hard": np.eye(R)[rng.integers(0, R, 150)],
        "half tied": np.where(rng.random((150, 1)) < 0.5, 1 / R, rng.dirichlet(np.ones(R), 150)),
        "all but equal": np.full((150, R), 1 / R) + rng.normal(0, 1e-6, (150, R)),
    }[kind]
    F = project(F, problem.labels).astype(np.float32).astype(np.float64)
    card, reference = kernels_of(problem), ReferenceKernels(problem)
    arrays = card.allocate(F)
    for _ in range(3):
        assert_same_measures(card.measure(arrays), reference.measure(reference.allocate(F)))


@pytest.fixture
def small() -> Problem:
    return Problem(random_graph(40, 120, seed=5, is_weighted=True, n_isolated=0), 3)


def random_starts(problem: Problem, count: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.stack([rng.dirichlet(np.ones(problem.n_clusters), problem.n_vertices) for _ in range(count)])


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        (StopRule(max_iter=12), Status.BUDGET_SPENT),
        (StopRule(tol=0.05, max_iter=60), Status.CONVERGED),
        (StopRule(tol=0.0, max_iter=60, patience=2, max_inner=3), Status.SETTLED),
    ],
)
def test_a_run_is_the_reference_run(small: Problem, stop: StopRule, status: Status):
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


def test_a_start_does_not_notice_its_companions(small: Problem):
    F, stop = random_starts(small, 3), StopRule(tol=0.02, max_iter=10)
    together = run_batch(small, F, kernels_of(small), stop=stop)
    alone = [run_batch(small, F[i : i + 1], kernels_of(small), stop=stop) for i in range(3)]
    assert np.array_equal(together.energies, np.concatenate([one.energies for one in alone]))
    assert np.array_equal(together.iterations, np.concatenate([one.iterations for one in alone]))
    assert np.array_equal(together.best.memberships, alone[int(np.argmin(together.energies))].best.memberships)


def test_a_start_that_was_never_looked_at_is_its_own_best(small: Problem):
    card = kernels_of(small)
    F = random_starts(small, 2)
    batch = card.batch(card.feasible(card.in_rows(F)))
    assert [look.best for look in batch.look()] == [np.inf, np.inf]
    partition, memberships = batch.best(1)
    assert partition.energy == small.partition(F[1].argmax(axis=1)).energy
    assert_close("F", memberships, F[1])


def test_starts_are_projected_onto_the_constraints(problem: Problem):
    card = kernels_of(problem)
    X = np.random.default_rng(0).normal(size=(2, N, problem.n_clusters))
    for raw, projected in zip(X, card.feasible(card.in_rows(X)), strict=True):
        assert_close("F", card.in_graph_order(projected), project(raw, problem.labels))


def test_half_precision_duals_give_the_same_partition(small: Problem):
    F, stop = random_starts(small, 1), StopRule(max_iter=15)
    found = run_batch(small, F, engine.GpuKernels(small, device=DEVICE, duals="float16"), stop=stop).best
    expected = run_batch(small, F, kernels_of(small), stop=stop).best
    assert found.partition.energy == pytest.approx(expected.partition.energy, rel=0.02)


def test_too_many_clusters_are_refused():
    graph = Graph.from_edges([(i, i + 1) for i in range(2000)])
    with pytest.raises(InputError, match=r"up to 1024 clusters.*found 1500 clusters"):
        engine.GpuKernels(Problem(graph, 1500), device=DEVICE)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_diffusion(is_weighted: bool):
    graph = random_graph(50, 150, seed=3, is_weighted=is_weighted, n_isolated=2)
    tools = spectral.GpuSpectral(kernels_of(Problem(graph, 3)))
    B = np.random.default_rng(0).random((50, 3))
    assert np.abs(tools.diffuse(B) - diffuse(graph, B)).max() <= 1e-3 * B.max()
    X = tools.laplacian.diffuse(tools.kernels.in_rows(B)[None], tol=1e-7)[0]
    assert np.abs(tools.kernels.in_graph_order(X) - diffuse(graph, B)).max() <= 2e-6


def test_leading_eigenvectors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spectral, "_DEGREE", 12)
    rng = np.random.default_rng(0)
    block = np.arange(36) // 12
    joined = np.triu(rng.random((36, 36)) < np.where(block[:, None] == block, 0.5, 0.03), 1)
    graph = Graph.from_edges(np.argwhere(joined), n_vertices=36)
    tools = spectral.GpuSpectral(kernels_of(Problem(graph, 3)))
    found = tools.normalised_cut(3, rng=np.random.default_rng(0))
    expected = normalised_cut(graph, 3, rng=np.random.default_rng(0))
    assert len(set(zip(found.tolist(), expected.tolist(), strict=True))) == 3  # the same partition, named anew


def test_nearest_neighbors():
    X = np.random.default_rng(0).normal(size=(80, 5)) + 100.0  # far from the origin, where products round
    X[10] = X[20] = X[30]  # copies
    indices, squared = nearest_on_gpu(X, 6, device=DEVICE)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    assert np.allclose(squared, np.sort(distances, axis=1)[:, :6], atol=1e-4)
    assert (indices != np.arange(80)[:, None]).all()
    assert set(indices[10, :2]) == {20, 30}
    assert all(len(set(row)) == 6 for row in indices.tolist())


# ---------------------------------------------------------------- hard partitions


@pytest.fixture
def moves(problem: Problem) -> GpuMoves:
    return GpuMoves(kernels_of(problem), np.full(problem.n_clusters, 2))


def partitions(problem: Problem, count: int) -> np.ndarray:
    """Random ones, all clusters there, fixed vertices where they belong."""
    R, rng = problem.n_clusters, np.random.default_rng(3)
    labels = np.stack([rng.permutation(np.arange(N) % R) for _ in range(count)])
    return np.where(problem.is_labelled, problem.labels, labels)


def as_tensor(moves: GpuMoves, labels: np.ndarray) -> torch.Tensor:
    return torch.cat([moves.labels_of(one) for one in labels])


def off_card(problem: Problem, rows: torch.Tensor) -> np.ndarray:
    card = kernels_of(problem)
    return np.stack([card.in_graph_order(one) for one in rows])


def test_partitions_cost_what_they_cost_on_the_host(problem: Problem, moves: GpuMoves):
    labels, unit = partitions(problem, 3), kernels_of(problem).unit
    expected = [problem.partition(one).energy / unit for one in labels]
    assert np.allclose(moves.energies(as_tensor(moves, labels)), expected, rtol=1e-6)
    cut, sizes, between = moves.clusters(as_tensor(moves, labels)[0])
    level = finest_level(problem.graph, problem.is_labelled)
    assert np.allclose(cut * unit, cuts(problem.graph, labels[0], problem.n_clusters), rtol=1e-6)
    assert np.array_equal(sizes, np.bincount(labels[0], minlength=problem.n_clusters))
    assert np.allclose(between * unit, weights_between(level, labels[0], problem.n_clusters), rtol=1e-5, atol=1e-6)


def test_a_cluster_that_is_too_small_costs_more_than_any_other(problem: Problem):
    labels = partitions(problem, 1)
    few = GpuMoves(kernels_of(problem), np.full(problem.n_clusters, N))
    assert few.energies(as_tensor(few, labels))[0] > 1e11


def test_moves_end_where_no_vertex_can_be_moved(problem: Problem, moves: GpuMoves):
    """The processor's greedy moves, one vertex at a time, find nothing more to do."""
    labels = partitions(problem, 2)
    found = off_card(problem, moves.descend(as_tensor(moves, labels)))
    level, smallest = finest_level(problem.graph, problem.is_labelled), np.full(problem.n_clusters, 2.0)
    for before, after in zip(labels, found, strict=True):
        start, end = problem.partition(before), problem.partition(after)
        assert end.energy < start.energy
        assert np.array_equal(after[problem.is_labelled], before[problem.is_labelled])
        assert (end.sizes >= np.minimum(2, start.sizes)).all()
        again = problem.partition(descend(level, after, problem.lam, smallest)[0])
        assert again.energy == pytest.approx(end.energy, rel=1e-5)


def test_merging_and_splitting_keeps_every_other_cluster(monkeypatch: pytest.MonkeyPatch):
    problem = Problem(random_graph(N, 4 * N, seed=1, is_weighted=False, n_isolated=0), 4)
    card = GpuMoves(kernels_of(problem), np.ones(4, dtype=int))
    labels = partitions(problem, 2)
    plans, shares = [(0, 1, 2), (2, 3, 2)], np.array([0.25, 0.5])
    found = off_card(problem, card.merge_and_split(as_tensor(card, labels), plans, shares, seed=1))
    again = off_card(problem, card.merge_and_split(as_tensor(card, labels), plans, shares, seed=1))
    assert np.array_equal(found, again)
    assert (found[0][labels[0] == 1] == 0).all()
    assert np.bincount(found[0]).tolist() == [24, 3, 9, 12]
    assert set(labels[0][found[0] == 1]) == {2}
    assert np.bincount(found[1]).tolist() == [12, 12, 12, 12]
    assert np.array_equal(found[1][labels[1] < 2], labels[1][labels[1] < 2])


def test_half_way_between_a_partition_and_itself_is_that_partition(problem: Problem, moves: GpuMoves):
    R = problem.n_clusters
    labels = np.random.default_rng(0).permutation(np.arange(N) % R)
    first, renamed = as_tensor(moves, np.stack([labels, np.roll(np.arange(R), 1)[labels]]))
    expected = moves.soften(first[None], 0.5)[0]
    assert torch.equal(moves.mix(first, renamed, 0.5), expected)


def test_evolution_keeps_the_best_and_repeats_itself(small: Problem, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evolution, "STARTS", 3)
    smallest, stop = np.full(3, 5), StopRule(max_iter=4)

    def champions() -> list[float]:
        population = evolution.Generations(kernels_of(small), smallest, stop=stop)
        steps = [population.solve(random_starts(small, 2))]
        steps += population.generations(2, rng=np.random.default_rng(0))
        assert steps[0][1].energy <= steps[0][0].partition.energy
        assert (steps[-1][1].sizes >= smallest).all()
        assert population.refine(steps[-1][1]).energy <= steps[-1][1].energy
        return [champion.energy for _, champion in steps]

    found = champions()
    assert sorted(found, reverse=True) == found
    assert champions() == found


@pytest.mark.parametrize(
    ("plan", "few"),
    [
        (Plan(device="cuda"), False),
        (Plan(device="cuda", init="ncut-seeds", n_init=2, search="none"), False),
        (Plan(device="cuda"), True),
    ],
)
def test_a_plan_for_the_card(plan: Plan, few: bool, monkeypatch: pytest.MonkeyPatch):
    """Everything from the graph to the partition: starts, Algorithm 1, generations; or the labels' own start."""
    monkeypatch.setattr("tautcut.search.driver.runs_on_gpu", lambda problem, device: True)
    monkeypatch.setattr("tautcut.search.driver.gpu_engine", lambda problem, dtype: kernels_of(problem))
    for module in (evolution, restarts):
        monkeypatch.setattr(module, "STARTS", 2)
    monkeypatch.setattr(spectral, "_DEGREE", 6)
    block = np.arange(30) // 10
    joined = np.triu(np.random.default_rng(0).random((30, 30)) < np.where(block[:, None] == block, 0.7, 0.03), 1)
    labels = np.where(np.arange(30) % 10 == 0, block, -1) if few else None
    problem = Problem(Graph.from_edges(np.argwhere(joined), n_vertices=30), 3, labels=labels)
    plan = replace(plan, stop=StopRule(max_iter=10))
    monkeypatch.setitem(EFFORTS, "short", replace(EFFORTS["short"], generations=1))
    seen: list[Progress] = []
    result = best_of_starts(problem, plan, rng=np.random.default_rng(0), observers=[seen.append])
    assert len(set(zip(result.partition.labels.tolist(), block.tolist(), strict=True))) == 3
    assert result.n_iter > 0
    assert {one.phase for one in seen} >= ({"starts"} if plan.search == "short" else {"solve"})
    assert not few or np.array_equal(result.partition.labels, block)


# ---------------------------------------------------------------- on a card alone


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


@needs_card
def test_the_same_bits_run_after_run(large: Problem):
    F, stop = random_starts(large, 5), StopRule(max_iter=120)
    first, second = (run_batch(large, F, kernels_of(large), stop=stop) for _ in range(2))
    assert np.array_equal(first.energies, second.energies)
    assert np.array_equal(first.best.partition.labels, second.best.partition.labels)
    assert np.array_equal(first.best.memberships, second.best.memberships)


@needs_card
def test_a_long_iteration_agrees_with_the_reference(large: Problem):
    F, stop = random_starts(large, 1), StopRule(max_iter=6)
    found = run_batch(large, F, kernels_of(large), stop=stop).best
    expected = run(large, F[0], ReferenceKernels(large), stop=stop)
    assert [line.iterations for line in found.history] == [line.iterations for line in expected.history]
    assert_close("F", found.memberships, expected.memberships)


@needs_card
def test_energies_agree_with_the_processor(large: Problem):
    cpu = pytest.importorskip("tautcut.kernels.cpu.engine")
    F, stop = random_starts(large, 30), StopRule(max_iter=300)
    ours = run_batch(large, F, kernels_of(large), stop=stop).energies
    theirs = [run(large, one, cpu.CpuKernels(large, dtype=np.dtype("float32")), stop=stop) for one in F]
    energies = np.array([result.partition.energy for result in theirs])
    assert abs(np.median(ours) / np.median(energies) - 1) < 0.05
    assert abs(ours.min() / energies.min() - 1) < 0.05


@needs_card
def test_what_does_not_fit_is_refused_before_it_is_allocated(large: Problem, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 20, 1 << 40))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    with pytest.raises(InputError, match=r"20000 vertices .* GiB on the card; 0.0 GiB are free"):
        run_batch(large, random_starts(large, 1), kernels_of(large), stop=StopRule())


@needs_card
def test_starts_that_do_not_fit_together_take_turns(large: Problem, monkeypatch: pytest.MonkeyPatch):
    F, stop = random_starts(large, 5), StopRule(max_iter=40)
    together = run_batch(large, F, kernels_of(large), stop=stop)
    monkeypatch.setattr(engine.GpuKernels, "starts_that_fit", lambda self, wanted: min(2, wanted))
    by_turns = run_batch(large, F, kernels_of(large), stop=stop)
    assert np.array_equal(together.energies, by_turns.energies)
    assert np.array_equal(together.best.partition.labels, by_turns.best.partition.labels)
