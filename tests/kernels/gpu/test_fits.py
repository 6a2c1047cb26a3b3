"""Whole fits with `device="cuda"`: from features or a graph to labels, through everything that runs on the GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpu_or_interpreter import HAS_GPU, let_cuda_pass
from sample_graphs import planted_graph
from tautcut.algorithm.observers import Progress
from tautcut.algorithm.stopping import StopRule
from tautcut.kernels.gpu import spectral
from tautcut.problem import Problem
from tautcut.search import driver, generations, plan

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TRUTH = np.repeat(np.arange(3), 8)
GRAPH = planted_graph(3, 8, seed=0, is_weighted=True)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """`device="cuda"` everywhere; and in the interpreter two starts and one generation, because it is slow."""
    let_cuda_pass(monkeypatch)
    if not HAS_GPU:
        monkeypatch.setattr(generations, "STARTS", 2)
        monkeypatch.setattr(spectral, "_DEGREE", 6)
        monkeypatch.setitem(plan.EFFORTS, "short", replace(plan.EFFORTS["short"], generations=1))


def are_the_same(found: np.ndarray, truth: np.ndarray) -> bool:
    """Whether the partitions are, whatever their clusters are called."""
    pairs = set(zip(found.tolist(), truth.tolist(), strict=True))
    return len(pairs) == len(set(found.tolist())) == len(set(truth.tolist()))


def test_a_clustering_of_a_graph():
    pytest.importorskip("sklearn")
    from tautcut import MTVClustering

    model = MTVClustering(3, affinity="precomputed", device="cuda", max_iter=5, random_state=0).fit(GRAPH)
    assert are_the_same(model.labels_, TRUTH)
    assert model.energy_ == Problem(GRAPH, 3).partition(model.labels_).energy
    assert np.array_equal(model.memberships_.argmax(axis=1), model.labels_)


def test_a_classification_of_features():
    """One label per class; the neighbours are found on the GPU too."""
    pytest.importorskip("sklearn")
    from tautcut import MTVClassifier

    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    X = centres[TRUTH] + np.random.default_rng(0).normal(0, 0.5, (24, 2))
    y = np.where(np.arange(24) % 8 == 0, TRUTH, -1)
    model = MTVClassifier(n_neighbors=9, device="cuda", max_iter=5, random_state=0).fit(X, y)
    assert np.array_equal(model.transduction_, TRUTH)
    assert np.array_equal(model.predict(X + 0.01), TRUTH)


def test_a_search_by_mass():
    """One vertex has as much mass as a block: what is found costs no more than the blocks, in the user's units."""
    masses = np.where(np.arange(24) == 3, 9.0, 1.0)
    problem = Problem(GRAPH.with_masses(masses), 3)
    chosen = plan.Plan(device="cuda", init="ncut-seeds", stop=StopRule(max_iter=5))
    found, again = (driver.best_of_starts(problem, chosen, rng=np.random.default_rng(0)) for _ in range(2))
    assert found.partition.energy == problem.partition(found.partition.labels).energy
    assert found.partition.energy <= problem.partition(TRUTH).energy * (1 + 1e-12)  # names may change its last bit
    assert np.array_equal(found.memberships, again.memberships)
    # A common factor of the masses changes nothing else.
    other = Problem(GRAPH.with_masses(1e3 * masses), 3)
    scaled = driver.best_of_starts(other, chosen, rng=np.random.default_rng(0))
    assert np.array_equal(scaled.partition.labels, found.partition.labels)
    assert scaled.partition.energy == pytest.approx(found.partition.energy / 1e3, rel=1e-9)


@pytest.mark.parametrize(
    "chosen",
    [
        plan.Plan(device="cuda"),
        plan.Plan(device="cuda", init="ncut-seeds", n_init=2, algorithm="paper", search="none"),
        plan.Plan(device="auto", init=0.5 * np.eye(3)[TRUTH] + 0.5 / 3, search="none"),
    ],
    ids=["a search", "the paper's algorithm", "a start of the user's"],
)
def test_a_plan(chosen: plan.Plan):
    """The same without scikit-learn: every part of a search, and what observers see of it."""
    seen: list[Progress] = []
    chosen = replace(chosen, stop=StopRule(max_iter=5))
    result = driver.best_of_starts(Problem(GRAPH, 3), chosen, rng=np.random.default_rng(0), observers=[seen.append])
    assert are_the_same(result.partition.labels, TRUTH)
    assert result.n_iter > 0
    assert {one.phase for one in seen} >= {"starts", "solve"}
    assert ("search" in {one.phase for one in seen}) == (chosen.search == "short")
