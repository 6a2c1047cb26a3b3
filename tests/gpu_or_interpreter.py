"""Where the tests of the GPU's programs run: on a GPU where there is one, else in Triton's interpreter, which runs the
same programs on the processor, on graphs small enough for it. A test module that imports this is skipped where torch or
Triton is not installed. It needs neither hypothesis nor numba: a machine with a GPU may not have them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton")

from sample_graphs import random_graph  # noqa: E402
from tautcut.kernels import gpu  # noqa: E402
from tautcut.kernels.gpu import engine  # noqa: E402
from tautcut.kernels.reference import project  # noqa: E402
from tautcut.problem import Problem  # noqa: E402

DEVICE = "cuda" if HAS_GPU else "cpu"
TOLERANCE = {"T": 1e-6, "B": 2e-6, "median": 0.0, "tie": 1e-12, "squared_step": 1e-5, "cut": 1e-6, "F": 2e-5}
N = 48
# Clusters, whether there are weights, and the kind of masses, for `labelled_problem`.
MIXED = [(2, False, None), (3, True, None), (10, False, None), (2, False, "one"), (3, True, "wide"), (10, False, "few")]

needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs an NVIDIA GPU")


def let_cuda_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `device="cuda"` be the GPU, or the interpreter: torch's tensors then lie in the host's memory."""
    if not HAS_GPU:
        monkeypatch.setattr(engine, "require_gpu", lambda: None)
        monkeypatch.setattr(gpu, "DEVICE", DEVICE)


def kernels_of(problem: Problem, **options: object) -> engine.GpuKernels:
    return engine.GpuKernels(problem, device=DEVICE, **options)


def masses_of(kind: str, n_vertices: int) -> np.ndarray:
    """Masses that an engine may find hard."""
    rng = np.random.default_rng(n_vertices)
    return {
        "even": np.full(n_vertices, 0.3),
        "few": rng.integers(1, 4, n_vertices).astype(np.float64),  # ties between sums of masses
        "wide": 10 ** rng.uniform(-3, 3, n_vertices),
        "one": np.where(np.arange(n_vertices) == n_vertices // 3, 100.0 * n_vertices, 1.0),  # has nearly all of it
    }[kind]


def labelled_problem(R: int, *, is_weighted: bool, n_labelled: int = 5, masses: str | None = None) -> Problem:
    """A problem on a random graph with isolated vertices, with one λ for each cluster and some labels fixed."""
    graph = random_graph(N, 4 * N, seed=R, is_weighted=is_weighted, n_isolated=2)
    graph = graph if masses is None else graph.with_masses(masses_of(masses, N))
    rng = np.random.default_rng(R)
    labels = np.full(N, -1)
    labels[rng.choice(N, n_labelled, replace=False)] = rng.integers(0, R, n_labelled)
    return Problem(graph, R, rng.uniform(0.3, 2 * R, R), labels)


def random_starts(problem: Problem, count: int) -> np.ndarray:
    """Generic points of C, exact in float32."""
    rng = np.random.default_rng(1)
    drawn = [rng.dirichlet(np.ones(problem.n_clusters), problem.n_vertices) for _ in range(count)]
    return np.stack([project(F, problem.labels).astype(np.float32).astype(np.float64) for F in drawn])


def assert_close(name: str, found: object, expected: object) -> None:
    """Within the tolerance of that name, relative to the largest expected value or to one."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= TOLERANCE[name] * max(1.0, float(np.abs(expected).max())), name
