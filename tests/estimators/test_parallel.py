"""Threads and processes change no bit of a fit: a whole default one at several numbers of threads, and the starts of
one fit in processes of their own, which end with it. That they are really used is asserted each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import joblib
import numpy as np
import pytest

from strategies import pools_used, use_threads
from tautcut import Graph, MTVClustering, knn_graph
from tautcut.kernels.cpu.engine import _SMALL

pytestmark = pytest.mark.usefixtures("light_search")

R = 16


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Sixteen clouds that touch: large enough that the engine uses threads."""
    rng = np.random.default_rng(0)
    centres = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(R, 2)
    made = knn_graph(np.repeat(3 * centres, 140, axis=0) + rng.normal(size=(140 * R, 2)), 10)
    assert 2 * made.n_edges * R >= _SMALL
    return made


def fitted(graph: Graph, **knobs: Any) -> MTVClustering:
    return MTVClustering(R, affinity="precomputed", random_state=0, **knobs).fit(graph)


def assert_same_bits(model: MTVClustering, other: MTVClustering) -> None:
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_array_equal(model.memberships_, other.memberships_)
    assert model.energy_ == other.energy_
    assert model.history_ == other.history_


@pytest.mark.parametrize(("dtype", "others"), [("float32", [3]), ("float64", [2, 3])])  # the latter's sums round
def test_a_default_fit_gives_the_same_bits_at_any_number_of_threads(graph, monkeypatch, dtype, others):
    def fit(n_threads: int) -> tuple[MTVClustering, set[int]]:
        use_threads(monkeypatch, n_threads)
        with pools_used() as pools:
            return fitted(graph, dtype=dtype), pools

    alone, pools = fit(1)
    assert pools == set()
    assert alone.n_iter_ > 10
    for n_threads in others:
        model, pools = fit(n_threads)
        assert n_threads in pools  # those of the search,
        assert min(pools) < n_threads  # and those that share a pass with the thread that calls
        assert_same_bits(model, alone)


@pytest.mark.parametrize(
    "knobs",
    [{"init": "multilevel"}, {"init": "random", "search": "none", "n_init": 2, "max_iter": 30}],
    ids=["search", "solve"],
)
def test_starts_in_processes_of_their_own_give_the_same_bits(graph, monkeypatch, knobs):
    plain, asked = joblib.Parallel.__call__, []

    def watched(self: joblib.Parallel, tasks: Any) -> Any:
        asked.append(self.n_jobs)
        return plain(self, tasks)

    monkeypatch.setattr(joblib.Parallel, "__call__", watched)
    alone = fitted(graph, n_jobs=None, **knobs)
    assert asked == []
    both = fitted(graph, n_jobs=2, **knobs)
    assert asked == [2]
    assert_same_bits(both, alone)


POOL = """
import os
from tautcut import Graph, MTVClustering
path = Graph.from_edges([(i, i + 1) for i in range(9)])
plain = {"init": "random", "search": "none", "device": "reference", "affinity": "precomputed", "random_state": 0}
MTVClustering(2, n_init=4, n_jobs=2, **plain).fit(path)
print("fitted", flush=True)
os.read(0, 1)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that learn of their parent's end")
def test_workers_end_with_a_parent_that_is_killed():
    """Those without work as well, which would wait for some for five minutes, with the pipe in their hands."""
    process = subprocess.Popen([sys.executable, "-c", POOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "fitted\n"
    said, _ = process.communicate("x", timeout=60)
    assert said == ""
