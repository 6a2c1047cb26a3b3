"""Which engine a device's name stands for, and what is said where it cannot run."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tautcut.kernels.devices as kernels
from tautcut import Graph, MTVClustering, Problem, solve
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.kernels.cpu.engine import CpuKernels
from tautcut.kernels.devices import choose, exact_finder, gpu_engine, resolved
from tautcut.search.driver import Plan, best_of_starts
from tautcut.search.generations import STARTS, n_generations
from tautcut.search.multilevel import EFFORTS

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
def test_without_torch_the_card_is_refused_in_one_sentence():
    message = "device='cuda' needs torch and triton, of which torch is not installed"
    for attempt in (
        lambda: solve(Problem(PATH, 2), START, device="cuda"),
        lambda: choose(Problem(PATH, 2), device="cuda"),
        lambda: exact_finder("cuda"),
        lambda: MTVClustering(2, affinity="precomputed", device="cuda").fit(PATH),
    ):
        with pytest.raises(EngineUnavailableError, match=message):
            attempt()


@pytest.mark.usefixtures("without_torch")
def test_auto_takes_the_processor_where_there_is_no_card():
    assert resolved("auto") == "cpu"
    assert isinstance(choose(Problem(PATH, 2), device="auto"), CpuKernels)
    assert exact_finder("auto") is None
    labels = MTVClustering(2, affinity="precomputed", device="auto", random_state=0).fit_predict(PATH)
    assert labels.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_auto_takes_the_card_where_there_is_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels, "_require_gpu", lambda: None)
    assert resolved("auto") == resolved("cuda") == "cuda"


def test_the_spectral_relaxation_stays_with_the_reference(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels, "_require_gpu", lambda: None)
    spectral = Problem(PATH, 2, numerator="laplacian")
    found, expected = (solve(spectral, START, device=device) for device in ("cuda", "reference"))
    assert np.array_equal(found.memberships, expected.memberships)


def test_a_card_computes_in_float32():
    with pytest.raises(InputError, match="float32; found dtype='float64'"):
        gpu_engine(Problem(PATH, 2), "float64")


def test_unknown_devices_are_refused():
    with pytest.raises(InputError, match="auto, cpu, cuda, reference; found 'tpu'"):
        solve(Problem(PATH, 2), START, device="tpu")


def test_starts_for_the_card_are_run_together(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    seen: list[int] = []
    problem = Problem(PATH, 2)

    class Card:
        def starts_that_fit(self, wanted: int = 1) -> int:
            return wanted

        def starts_of_gpu(self, wanted: int) -> int:
            return wanted

    def run_together(problem: Problem, starts: np.ndarray, card: object, **options: object) -> object:
        seen.append(len(starts))
        assert isinstance(card, Card)
        return type("Outcome", (), {"best": solve(problem, starts[0])})

    monkeypatch.setattr("tautcut.search.driver.runs_on_gpu", lambda problem, device: device == "cuda")
    monkeypatch.setattr("tautcut.search.driver.gpu_engine", lambda problem, dtype: Card())
    monkeypatch.setattr("tautcut.search.driver.run_batch", run_together)
    best_of_starts(problem, Plan(init="random", n_init=3, search="none", device="cuda"), rng=np.random.default_rng(0))
    assert seen == [3]


def test_how_many_starts_and_generations_a_card_gets():
    problem = Problem(Graph.from_edges([(i, i + 1) for i in range(40)]), 3)
    labelled = Problem(problem.graph, 3, labels=np.r_[0, 1, 2, np.full(38, -1)])
    assert Plan().n_starts(problem, is_on_gpu=True) == STARTS
    assert Plan(search="thorough", init="random").n_starts(problem, is_on_gpu=True) == 2 * STARTS
    assert Plan(init="ncut").n_starts(problem, is_on_gpu=True) == 1
    assert Plan(n_init=4).n_starts(problem, is_on_gpu=True) == 4
    assert Plan().n_starts(labelled, is_on_gpu=True) == 1
    assert n_generations(problem, EFFORTS["short"]) == EFFORTS["short"].generations
    assert n_generations(Problem(problem.graph, 2), EFFORTS["short"]) == 0
    assert n_generations(labelled, EFFORTS["short"]) == 0
