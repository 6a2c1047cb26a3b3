"""The Numba engine against the reference engine, operation by operation, from the same numbers.

`TOLERANCE` is the whole allowance. It is relative to the largest value at hand; medians have none, since
selecting a value rounds nothing. F of a sequence of iterations carries the rounding of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from strategies import random_graph
from tautcut.kernels.cpu import passes
from tautcut.kernels.cpu.engine import CpuArrays, CpuKernels
from tautcut.kernels.protocol import Kernels, Measures, StepSizes
from tautcut.kernels.reference import ReferenceKernels, project
from tautcut.problem import Problem

TOLERANCE = {
    # operation: (float32, float64)
    "T": (1e-6, 1e-13),
    "B": (1e-12, 1e-12),
    "median": (0.0, 0.0),
    "tie": (1e-14, 1e-14),
    "squared_step": (1e-6, 1e-13),
    "cut": (1e-6, 1e-13),
    "F": (2e-5, 1e-13),
}

WIDTHS = [2, 3, 5, 8, 10, 17, 20, 33]
CASES = [
    *((R, "float32", True) for R in WIDTHS),
    *((R, "float64", False) for R in (2, 3, 5)),
    (10, "float64", True),
    *((R, "float32", False) for R in (1, 3)),
]
TILED = [(5, "float32", True), (33, "float32", False), (33, "float64", True), (33, "float32", True)]
ALL = [*((case, False) for case in CASES), *((case, True) for case in TILED)]
N = 130


def named(case: tuple[int, str, bool]) -> str:
    return f"R{case[0]}-{case[1]}-{'weighted' if case[2] else 'unweighted'}"


def named_with_tiles(case: tuple[tuple[int, str, bool], bool]) -> str:
    return named(case[0]) + ("-tiled" if case[1] else "")


@pytest.fixture(params=ALL, ids=named_with_tiles)
def case(request, monkeypatch) -> Iterator[tuple[Problem, str]]:
    (R, dtype, is_weighted), is_tiled = request.param
    if is_tiled:  # as beyond so many clusters, where a row is too long for registers
        monkeypatch.setattr(passes, "SPECIALISED", 0)
        passes.passes_for.cache_clear()
    graph = random_graph(N, 4 * N, seed=R, is_weighted=is_weighted, n_isolated=4)
    rng = np.random.default_rng(R)
    labels = np.where(rng.random(N) < 0.1, rng.integers(0, R, N), -1)
    labels[-1] = 0  # isolated and labelled
    yield Problem(graph, R, None if R == 1 else rng.uniform(0.3, 2 * R, R), labels), dtype
    if is_tiled:
        passes.passes_for.cache_clear()


def starts(problem: Problem, dtype: str) -> Iterator[np.ndarray]:
    """F with generic values, with many zeros and ones, with few distinct values; exact in that precision."""
    R = problem.n_clusters
    rng = np.random.default_rng(7)
    generic = rng.dirichlet(np.ones(R), N)
    hard = np.eye(R)[(np.cumsum(~problem.is_labelled) - 1) % R]  # no cluster is empty
    mixed = np.where(rng.random((N, 1)) < 0.6, hard, generic)
    coarse = rng.integers(0, 3, (N, R)) + np.eye(R)[rng.integers(0, R, N)]
    for F in (generic, hard, mixed, coarse / coarse.sum(axis=1, keepdims=True)):
        yield project(F, np.asarray(problem.labels)).astype(dtype).astype(np.float64)


def assert_close(name: str, found: object, expected: object, dtype: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    allowance = TOLERANCE[name][dtype == "float64"] * max(1.0, float(np.abs(expected).max()))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= allowance, name


def assert_same_measures(found: Measures, expected: Measures, dtype: str) -> None:
    for name in ("T", "B", "median", "tie", "squared_step"):
        assert_close(name, getattr(found, name), getattr(expected, name), dtype)


def reference_measures(kernels: ReferenceKernels, F: np.ndarray, F_k: np.ndarray) -> Measures:
    arrays = kernels.allocate(F)
    arrays.F_k = F_k
    return kernels.measure(arrays)


def test_engines_agree_on_the_unit_and_the_norm(case):
    problem, dtype = case
    cpu, reference = CpuKernels(problem, dtype=np.dtype(dtype)), ReferenceKernels(problem)
    assert (cpu.unit, cpu.lipschitz) == (reference.unit, reference.lipschitz)


def test_measure(case):
    problem, dtype = case
    cpu, reference = CpuKernels(problem, dtype=np.dtype(dtype)), ReferenceKernels(problem)
    for F in starts(problem, dtype):
        arrays = cpu.allocate(F)
        assert np.array_equal(cpu.memberships(arrays), F)
        for _ in range(2):  # the first look has no bracket for the median, the second has one
            assert_same_measures(cpu.measure(arrays), reference_measures(reference, F, F), dtype)


def test_harden(case):
    problem, dtype = case
    cpu, reference = CpuKernels(problem, dtype=np.dtype(dtype)), ReferenceKernels(problem)
    for F in starts(problem, dtype):  # the coarse one has ties in most rows
        arrays = cpu.allocate(F)
        cpu.measure(arrays)
        labels, cut = cpu.harden(arrays)
        expected_labels, expected_cut = reference.harden(reference.allocate(F))
        assert np.array_equal(labels, expected_labels)
        assert_close("cut", cut, expected_cut, dtype)


@pytest.mark.parametrize("case", [one for one in ALL if one[0][0] > 1], indirect=True, ids=named_with_tiles)
def test_iterations(case):
    """Two outer steps of eight inner iterations, F made equal before each, measured after every one.

    One cluster has λ = 0 and B = 0: there is nothing to iterate.
    """
    problem, dtype = case
    cpu, reference = CpuKernels(problem, dtype=np.dtype(dtype)), ReferenceKernels(problem)
    labels = np.asarray(problem.labels)
    fixed = labels >= 0
    for F in starts(problem, dtype):
        ours, theirs = cpu.allocate(F), reference.allocate(F)
        tau = 1 / cpu.lipschitz
        for _ in range(2):
            theirs.F = cpu.memberships(ours)
            before, start = reference.measure(theirs), theirs.F
            delta = float(before.B.max())
            scale = delta / before.B
            sigma = 1 / (tau * (scale.max() * cpu.lipschitz) ** 2)
            for kernels, arrays in ((cpu, ours), (reference, theirs)):
                kernels.linearise(arrays, before, delta)
            for _ in range(8):
                theta = 1 / np.sqrt(1 + 2 * tau)
                for kernels, arrays in ((cpu, ours), (reference, theirs)):
                    kernels.iterate(arrays, scale, StepSizes(tau, sigma, theta))
                tau, sigma = theta * tau, sigma / theta
                found = cpu.memberships(ours)
                assert_close("F", found, theirs.F, dtype)
                assert np.array_equal(found[fixed], np.eye(problem.n_clusters)[labels[fixed]])
                assert_same_measures(cpu.measure(ours), reference_measures(reference, found, start), dtype)
            assert np.array_equal(cpu.memberships(ours, previous=True), start)
            assert np.array_equal(reference.memberships(theirs, previous=True), start)


@pytest.mark.parametrize("is_tiled", [False, True])
def test_duals_in_half_precision_are_those_of_float32_rounded(is_tiled, monkeypatch):
    """One iteration rounds them once, and F not at all; they are −p from the other end of an edge, bit for bit."""
    if is_tiled:
        monkeypatch.setattr(passes, "SPECIALISED", 0)
    passes.passes_for.cache_clear()
    problem = Problem(random_graph(N, 4 * N, seed=1, is_weighted=True), 5)
    single, half = (CpuKernels(problem, dtype=np.dtype("float32"), has_half_duals=one) for one in (False, True))
    F = next(starts(problem, "float32"))
    arrays = []
    for kernels in (single, half):
        made = kernels.allocate(F)
        kernels.linearise(made, kernels.measure(made), 1.0)
        arrays.append(made)
    for number in range(2):
        for kernels, made in zip((single, half), arrays, strict=True):
            kernels.iterate(made, np.ones(5), StepSizes(0.05, 2.0, 0.9))
        exact, rounded = arrays[0].P, arrays[1].P.view(np.float16)
        assert rounded.nbytes == exact.nbytes // 2
        if number == 0:
            assert np.array_equal(rounded, exact.astype(np.float16))
            assert np.array_equal(arrays[0].F, arrays[1].F)
    np.testing.assert_allclose(arrays[1].F, arrays[0].F, atol=1e-3)
    assert not np.array_equal(arrays[1].F, arrays[0].F)
    graph = problem.graph
    owner = np.repeat(np.arange(N), np.diff(graph.indptr))
    back = np.lexsort((owner, graph.indices))  # the other direction of each edge
    assert np.array_equal(rounded, -rounded[back])
    passes.passes_for.cache_clear()


def overwrite(arrays: CpuArrays, F: np.ndarray) -> None:
    arrays.F[:, : F.shape[1]] = F


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_search_for_medians_survives_whatever_happens_to_the_bracket(dtype):
    """Medians that jump, crowds larger than the room for candidates, ties on the edges of the bracket."""
    n, R = 6000, 3
    problem = Problem(random_graph(n, 2 * n, seed=0), R, [0.5, 2.0, 9.0])
    cpu, reference = CpuKernels(problem, dtype=np.dtype(dtype)), ReferenceKernels(problem)
    rng = np.random.default_rng(0)
    generic = rng.dirichlet(np.ones(R), n)
    calm = [generic, generic + 1e-6 * rng.random((n, R)), generic + 1e-4]
    jump = [generic**2, np.sqrt(generic), generic]
    crowd = [
        np.full((n, R), 0.3),
        0.3 + 1e-7 * rng.random((n, R)),
        0.3 + 1e-6 * rng.integers(-20, 20, (n, R)),
    ]
    edges = [np.where(generic < 0.5, 0.0, 1.0), np.where(generic < 0.3, 0.0, 0.999999), np.ones((n, R))]
    rare = [np.where(generic < 0.95, 0.0, generic), np.zeros((n, R)), np.where(generic < 0.1, generic, 1.0)]
    halves = [np.where(rng.random((n, R)) < 0.5, 0.25, 0.75), np.where(rng.random((n, R)) < 0.5, 1e-5, 2e-5)]
    arrays = cpu.allocate(generic)
    for F in [*calm, *jump, *crowd, *calm, *edges, *jump, *rare, *crowd, *halves, *crowd, *rare, *calm]:
        overwrite(arrays, F)
        exact = cpu.memberships(arrays)
        for _ in range(2):
            found, expected = cpu.measure(arrays), reference_measures(reference, exact, exact)
            assert np.array_equal(found.median, expected.median)
            assert_close("tie", found.tie, expected.tie, dtype)
            assert pytest.approx(expected.B, rel=1e-9, abs=1e-9) == found.B


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_one_engine_do_not_disturb_each_other(dtype):
    """Several starts share one kernels object."""
    problem = Problem(random_graph(N, 4 * N, seed=2), 3)
    kernels: Kernels = CpuKernels(problem, dtype=np.dtype(dtype))
    first, second = (np.random.default_rng(s).dirichlet(np.ones(3), N) for s in (0, 1))
    alone = kernels.measure(kernels.allocate(first))
    ours, other = kernels.allocate(first), kernels.allocate(second)
    kernels.measure(other)
    together = kernels.measure(ours)
    for name in ("T", "B", "median", "tie"):
        assert np.array_equal(getattr(together, name), getattr(alone, name))
    assert alone.T is not together.T


@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 200])
def test_any_number_of_vertices_is_cut_into_chunks(n):
    """Fewer vertices than chunks, and chunks without vertices, lose nothing."""
    problem = Problem(random_graph(n, 1 if n == 2 else n, seed=5), 2)
    F = np.random.default_rng(n).dirichlet(np.ones(2), n)
    cpu, reference = CpuKernels(problem, dtype=np.dtype("float64")), ReferenceKernels(problem)
    assert_same_measures(cpu.measure(cpu.allocate(F)), reference_measures(reference, F, F), "float64")
