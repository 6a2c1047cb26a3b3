"""Which engine a device's name stands for, and what is said where it cannot run."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from stand_in_gpu import use_stand_in
from tautcut import Graph, MTVClustering, Problem, solve
from tautcut.algorithm.stopping import StopRule
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.kernels.cpu.engine import CpuKernels
from tautcut.kernels.devices import choose, gpu_engine, neighbor_finder, resolved, runs_on_gpu

PATH = Graph.from_edges([(i, i + 1) for i in range(5)])
START = np.linspace([1.0, 0.0], [0.2, 0.8], 6)


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("torch", "triton")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("tautcut.kernels.gpu.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it raises ImportError


@pytest.mark.usefixtures("without_torch")
def test_without_torch_a_gpu_is_refused_in_one_sentence():
    message = "device='cuda' needs torch and triton, of which torch is not installed"
    for attempt in (
        lambda: solve(Problem(PATH, 2), START, device="cuda"),
        lambda: choose(Problem(PATH, 2), device="cuda"),
        lambda: neighbor_finder("cuda"),
        lambda: MTVClustering(2, affinity="precomputed", device="cuda").fit(PATH),
    ):
        with pytest.raises(EngineUnavailableError, match=message):
            attempt()


@pytest.mark.usefixtures("without_torch")
def test_auto_takes_the_processor_where_there_is_no_gpu():
    assert resolved("auto") == "cpu"
    assert isinstance(choose(Problem(PATH, 2), device="auto"), CpuKernels)
    assert neighbor_finder("auto") is None
    labels = MTVClustering(2, affinity="precomputed", device="auto", random_state=0).fit_predict(PATH)
    assert labels.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_auto_takes_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch):
    use_stand_in(monkeypatch)
    assert resolved("auto") == resolved("cuda") == "cuda"
    assert runs_on_gpu(Problem(PATH, 2), "auto")


def test_a_solve_on_the_gpu_is_one_batch_there(monkeypatch: pytest.MonkeyPatch):
    made = use_stand_in(monkeypatch)
    found, expected = (solve(Problem(PATH, 2), START, device=device) for device in ("cuda", "reference"))
    assert [[size for size, _ in engine.batches] for engine in made] == [[1]]
    assert found.status is expected.status
    assert np.array_equal(found.memberships, expected.memberships)


def test_the_gpu_finds_the_neighbors_of_points_exactly(monkeypatch: pytest.MonkeyPatch):
    use_stand_in(monkeypatch)
    finder = neighbor_finder("cuda")
    indices, squared, *exact = finder(np.array([[0.0], [1.0], [3.0], [7.0]]), 2)
    assert exact == [1.0, 0]
    assert indices.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert squared.tolist() == [[1.0, 9.0], [1.0, 4.0], [4.0, 9.0], [16.0, 36.0]]


def test_the_spectral_relaxation_stays_with_the_reference(monkeypatch: pytest.MonkeyPatch):
    made = use_stand_in(monkeypatch)
    spectral = Problem(PATH, 2, numerator="laplacian")
    assert not runs_on_gpu(spectral, "cuda")
    stop = StopRule(max_iter=50)
    found, expected = (solve(spectral, START, device=device, stop=stop) for device in ("cuda", "reference"))
    assert np.array_equal(found.memberships, expected.memberships)
    assert not made


def test_a_gpu_computes_in_float32():
    with pytest.raises(InputError, match="float32; found dtype='float64'"):
        gpu_engine(Problem(PATH, 2), "float64")


def test_mixed_is_single_precision_with_duals_in_half(monkeypatch: pytest.MonkeyPatch):
    made = choose(Problem(PATH, 2), dtype="mixed").allocate(np.asarray(START))
    assert (made.F.dtype, made.P.itemsize) == (np.float32, 2)
    asked: list[str] = []
    engine = SimpleNamespace(GpuKernels=lambda problem, *, duals: asked.append(duals))
    monkeypatch.setattr("tautcut.kernels.devices._require_gpu", lambda: None)
    monkeypatch.setitem(sys.modules, "tautcut.kernels.gpu.engine", engine)
    for dtype in ("mixed", "float32"):
        gpu_engine(Problem(PATH, 2), dtype)
    assert asked == ["float16", "float32"]


def test_unknown_devices_are_refused():
    with pytest.raises(InputError, match="auto, cpu, cuda, reference; found 'tpu'"):
        solve(Problem(PATH, 2), START, device="tpu")
