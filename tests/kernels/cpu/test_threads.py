"""The same bits at any number of threads, kernel by kernel and through a whole run; and so many threads do run."""

from __future__ import annotations

import numpy as np
import pytest

from strategies import pools_used, random_graph, soft_start, use_threads
from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import StopRule
from tautcut.kernels.cpu import layout
from tautcut.kernels.cpu.engine import _SMALL, CpuKernels
from tautcut.kernels.protocol import StepSizes
from tautcut.problem import Problem

N, R = 9000, 5
THREADS = [1, 2, 3]


def large_problem(*, is_weighted: bool) -> Problem:
    """Too large for the path that small graphs take, which uses one thread whatever is asked."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(N) < 0.02, rng.integers(0, R, N), -1)
    problem = Problem(random_graph(N, 6 * N, seed=1, is_weighted=is_weighted, n_isolated=7), R, labels=labels)
    assert 2 * problem.graph.n_edges * R >= _SMALL
    return problem


def trace(problem: Problem, dtype: str, n_threads: int) -> list[bytes]:
    """The bits of everything the kernels return along a few iterations."""
    kernels = CpuKernels(problem, dtype=np.dtype(dtype), n_threads=n_threads)
    assert kernels._n_threads == n_threads
    arrays = kernels.allocate(soft_start(N, R, seed=2))
    seen: list[bytes] = []
    for _ in range(2):
        before = kernels.measure(arrays)
        kernels.linearise(arrays, before, float(before.B.max()))
        for _ in range(3):
            kernels.iterate(arrays, before.B.max() / before.B, StepSizes(0.1, 0.2, 0.9))
            measures = kernels.measure(arrays)
            seen += [
                measures.T.tobytes(),
                measures.B.tobytes(),
                measures.median.tobytes(),
                measures.tie.tobytes(),
            ]
            seen += [np.float64(measures.squared_step).tobytes(), kernels.memberships(arrays).tobytes()]
        labels, cut = kernels.harden(arrays)
        seen += [labels.tobytes(), cut.tobytes()]
    return seen


@pytest.mark.parametrize(("dtype", "is_weighted"), [("float32", True), ("float64", False)])
def test_kernels_give_the_same_bits(dtype, is_weighted):
    problem = large_problem(is_weighted=is_weighted)
    alone = trace(problem, dtype, 1)
    for n_threads in THREADS[1:]:
        assert trace(problem, dtype, n_threads) == alone


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_gives_the_same_bits(monkeypatch, dtype):
    """In float64 above all: most sums of float32 values are exact in float64, whatever their order."""
    problem = large_problem(is_weighted=True)

    def run(n_threads: int) -> Result:
        use_threads(monkeypatch, n_threads)
        with pools_used() as pools:
            result = solve(problem, soft_start(N, R, seed=3), stop=StopRule(max_iter=30), dtype=dtype)
        assert pools == ({n_threads - 1} if n_threads > 1 else set())  # the calling thread takes a share itself
        return result

    alone = run(1)
    assert alone.n_iter == 30
    for n_threads in THREADS[1:]:
        other = run(n_threads)
        assert np.array_equal(other.memberships, alone.memberships)
        assert np.array_equal(other.last_memberships, alone.last_memberships)
        assert np.array_equal(other.partition.labels, alone.partition.labels)
        assert other.history == alone.history


def test_small_graphs_use_one_thread(monkeypatch):
    small = Problem(random_graph(50, 100, seed=0), 3)
    use_threads(monkeypatch, 3)
    with pools_used() as pools:
        solve(small, soft_start(50, 3, seed=0), stop=StopRule(max_iter=5))
    assert pools == set()
    assert CpuKernels(small, dtype=np.dtype("float32"), n_threads=3)._n_threads == 1


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_local_order_changes_nothing_but_the_layout(monkeypatch: pytest.MonkeyPatch, has_groups: bool) -> None:
    graph = random_graph(60, 150, seed=3, is_weighted=True)
    labels = np.where(np.arange(60) % 9 == 0, np.arange(60) % 3, -1)
    problem = Problem(graph, 3, labels=labels)
    F = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    F[labels >= 0] = np.eye(3)[labels[labels >= 0]]
    plain = CpuKernels(problem, dtype=np.dtype("float64"))
    monkeypatch.setattr(layout, "_CACHE_BYTES", 0)
    monkeypatch.setattr(layout, "_NEAR", 0.0)
    laid_out = CpuKernels(problem, dtype=np.dtype("float64"), groups=F.argmax(axis=1) if has_groups else None)
    assert laid_out._order is not None
    seen = []
    for kernels in (plain, laid_out):
        arrays = kernels.allocate(F)
        before = kernels.measure(arrays)
        kernels.linearise(arrays, before, before.B.max())
        for _ in range(5):
            kernels.iterate(arrays, before.B.max() / before.B, StepSizes(0.1, 0.1, 0.9))
        seen.append((before.T, kernels.measure(arrays).B, kernels.memberships(arrays), *kernels.harden(arrays)))
    for mine, other in zip(*seen, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
