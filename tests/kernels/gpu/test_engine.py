"""The GPU's engine against the reference engine, operation by operation, within written tolerances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpu_or_interpreter import (
    HAS_GPU,
    MIXED,
    N,
    assert_close,
    engine,
    kernels_of,
    labelled_problem,
    masses_of,
    needs_gpu,
    torch,
)
from sample_graphs import random_graph
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.graph import Graph
from tautcut.kernels.gpu import layout as layout_module
from tautcut.kernels.gpu import medians, tables
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.kernels.reference import ReferenceKernels, project
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter


@pytest.fixture(params=MIXED, ids=str)
def problem(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.setattr(layout_module, "LONG_ROW", 8)  # so that both kinds of rows occur
    R, is_weighted, masses = request.param
    return labelled_problem(R, is_weighted=is_weighted, masses=masses)


def starts(problem: Problem) -> Iterator[np.ndarray]:
    """Generic values, many zeros and ones, few distinct values; exact in float32."""
    R = problem.n_clusters
    rng = np.random.default_rng(7)
    generic = rng.dirichlet(np.ones(R), N)
    hard = np.eye(R)[(np.cumsum(~problem.is_labelled) - 1) % R]
    coarse = rng.integers(0, 3, (N, R)) + np.eye(R)[rng.integers(0, R, N)]
    for F in (generic, hard, coarse / coarse.sum(axis=1, keepdims=True)):
        yield project(F, problem.labels).astype(np.float32).astype(np.float64)


def assert_same_measures(found: Measures, expected: Measures) -> None:
    for name in ("T", "B", "median", "tie", "squared_step"):
        assert_close(name, getattr(found, name), getattr(expected, name))


def test_the_norm_and_the_unit(problem: Problem):
    gpu, reference = kernels_of(problem), ReferenceKernels(problem)
    assert (gpu.unit, gpu.weight_unit) == (reference.unit, reference.weight_unit)
    assert gpu.lipschitz == pytest.approx(reference.lipschitz, rel=1e-5)


def test_measure_and_harden(problem: Problem):
    gpu, reference = kernels_of(problem), ReferenceKernels(problem)
    for F in starts(problem):
        ours, theirs = gpu.allocate(F), reference.allocate(F)
        assert np.array_equal(gpu.memberships(ours), F)
        for _ in range(2):  # the first look has no bracket for the medians, the second has one
            assert_same_measures(gpu.measure(ours), reference.measure(theirs))
        labels, cut = gpu.harden(ours)
        expected_labels, expected_cut = reference.harden(theirs)
        assert np.array_equal(labels, expected_labels)
        assert_close("cut", cut, expected_cut)


def test_iterations(problem: Problem):
    """Two outer steps of three inner iterations, from the same numbers; duals too are the same, or F would part."""
    gpu, reference = kernels_of(problem), ReferenceKernels(problem)
    F = next(starts(problem))
    ours, theirs = gpu.allocate(F), reference.allocate(F)
    tau = 1 / reference.lipschitz
    for _ in range(2):
        before = reference.measure(theirs)
        delta = float(before.B.max())
        scale = delta / before.B
        sigma = 1 / (tau * (scale.max() * reference.lipschitz) ** 2)
        gpu.linearise(ours, before, delta)
        reference.linearise(theirs, before, delta)
        for _ in range(3):
            theta = 1 / np.sqrt(1 + 2 * tau)
            for kernels, arrays in ((gpu, ours), (reference, theirs)):
                kernels.iterate(arrays, scale, StepSizes(tau, sigma, theta))
            tau, sigma = theta * tau, sigma / theta
            assert_close("F", gpu.memberships(ours), theirs.F)
            measures = gpu.measure(ours)
            assert_close("squared_step", measures.squared_step, reference.measure(theirs).squared_step)
        theirs.F = gpu.memberships(ours)


@pytest.mark.parametrize("masses", ["even", "wide"])
@pytest.mark.parametrize("kind", ["generic", "hard", "half tied", "all but equal"])
def test_medians_are_found_when_few_candidates_fit(monkeypatch: pytest.MonkeyPatch, kind: str, masses: str):
    """Brackets that miss, brackets that are crowded, more ties than there is room for."""
    if HAS_GPU:
        pytest.skip("the room for candidates is compiled in")
    for module in (tables, medians):  # where the tensor is made, and where the programs read it
        monkeypatch.setattr(module, "CANDIDATES", type(tables.CANDIDATES)(16))
    R, rng = 3, np.random.default_rng(0)
    graph = random_graph(150, 300, seed=1, is_weighted=False, n_isolated=0)
    problem = Problem(graph.with_masses(masses_of(masses, 150)), R)
    F = {
        "generic": rng.dirichlet(np.ones(R), 150),
        "hard": np.eye(R)[rng.integers(0, R, 150)],
        "half tied": np.where(rng.random((150, 1)) < 0.5, 1 / R, rng.dirichlet(np.ones(R), 150)),
        "all but equal": np.full((150, R), 1 / R) + rng.normal(0, 1e-6, (150, R)),
    }[kind]
    F = project(F, problem.labels).astype(np.float32).astype(np.float64)
    gpu, reference = kernels_of(problem), ReferenceKernels(problem)
    arrays = gpu.allocate(F)
    for _ in range(3):
        assert_same_measures(gpu.measure(arrays), reference.measure(reference.allocate(F)))


def test_starts_are_projected_onto_the_constraints(problem: Problem):
    gpu = kernels_of(problem)
    X = np.random.default_rng(0).normal(size=(2, N, problem.n_clusters))
    for raw, projected in zip(X, gpu.feasible(gpu.in_rows(X)), strict=True):
        assert_close("F", gpu.in_graph_order(projected), project(raw, problem.labels))


def test_too_many_clusters_are_refused():
    graph = Graph.from_edges([(i, i + 1) for i in range(2000)])
    with pytest.raises(InputError, match=r"up to 1024 clusters.*found 1500 clusters"):
        kernels_of(Problem(graph, 1500))


def test_without_a_gpu_the_device_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineUnavailableError, match=r"needs an NVIDIA GPU .* Use device='cpu'"):
        engine.require_gpu()


@needs_gpu
def test_a_gpu_that_is_there_passes():
    engine.require_gpu()


def pretend_memory(monkeypatch: pytest.MonkeyPatch, *, free: int, whole: int) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, whole))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)


def test_as_many_starts_as_its_memory_holds(monkeypatch: pytest.MonkeyPatch):
    gpu = kernels_of(labelled_problem(3, is_weighted=True, masses="few"))
    gpu.device = torch.device("cuda")  # from here on no tensor is made
    room = 3.5 * gpu.bytes_of_start()
    pretend_memory(monkeypatch, free=int(room / 0.9), whole=int((2.1 * room + gpu.bytes_of_graph()) / 0.9))
    assert gpu.starts_that_fit(2) == 2
    assert gpu.starts_that_fit(5) == 3
    assert gpu.starts_of_gpu(5) == 5  # of an empty one
    assert gpu.starts_of_gpu(9) == 7


def test_a_start_takes_the_memory_that_was_foreseen(problem: Problem):
    """But for tables of a few numbers, and the room in which starts are made."""
    gpu = kernels_of(problem)
    batch = gpu.allocate(next(starts(problem)))
    small = {"columns", "words", "reals", "brackets", "history", "active", "shared", "steps"}
    taken = sum(t.nbytes for name, t in vars(batch).items() if isinstance(t, torch.Tensor) and name[0] != "_"
                and name not in small)  # fmt: skip
    assert taken == gpu.bytes_of_start() - 5 * N * problem.n_clusters * 4


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch):
    problem = labelled_problem(3, is_weighted=True)
    gpu = kernels_of(problem)
    gpu.device = torch.device("cuda")
    pretend_memory(monkeypatch, free=1 << 10, whole=1 << 40)
    refused = rf"{N} vertices .* GiB on the GPU; 0.0 GiB are free"
    with pytest.raises(InputError, match=refused):
        gpu.starts_that_fit()
    with pytest.raises(InputError, match=refused):
        engine.GpuKernels(problem, device="cuda")  # not even laid out
    assert "tensors" not in vars(gpu)
