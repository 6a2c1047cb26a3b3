"""The benchmark of many ranks, without its runs: the halo by another count, the paper model beside the table that it
continues, and a page of whatever records there are.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp

from tautcut import Graph
from tautcut.graph.shard import shards_of
from tautcut.records import RunRecord, read_records

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark_of(monkeypatch: pytest.MonkeyPatch):
    """Imports a module of benchmarks/, and forgets all of them afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(ROOT / "benchmarks") in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


# vertices, GPUs, R: milliseconds, efficiencies in %, GB of a GPU, as a prototype's notes have them
ON_PAPER = {
    (10**8, 8, 10): (20, (99, 99, 100), 13),
    (10**8, 64, 100): (23, (76, 89, 99), 16),
    (10**9, 8, 10): (198, (99, 99, 100), 126),
    (10**9, 64, 10): (25, (81, 92, 99), 17),
    (10**9, 64, 100): (234, (81, 92, 100), 154),
}


@pytest.mark.parametrize("case", ON_PAPER)
def test_the_model_has_the_prototypes_table(benchmark_of, case) -> None:
    """With the prototype's halo, and what a GPU took then.

    Its notes tell the ghosts of 4 million points inside nodes and, once per node, between them; how many there are
    between nodes in all, 0.7, is what its plain column comes to.
    """
    model = benchmark_of("ranks_model")
    gpu = model.OneGpu({10: 10.5e-12, 20: 9.0e-12, 100: 9.8e-12}, 95.0, 86.25)
    shares = {
        8: model.Shares(1_000_000, 0.18, 0.0, 0.0, 0.16),
        64: model.Shares(4_000_000, 0.97, 0.7, 0.19, 0.8),
    }
    found = model.estimate(*case, gpu=gpu, shares=shares[case[1]])
    compute, efficiencies, held = ON_PAPER[case]
    assert 1e3 * found.compute == pytest.approx(compute, rel=0.15)
    assert [100 * one for one in found.efficiencies] == pytest.approx(efficiencies, abs=4)
    assert found.held / 1e9 == pytest.approx(held, rel=0.15)
    assert found.floor < found.compute


def test_the_model_takes_what_one_gpu_was_seen_to_take(benchmark_of) -> None:
    model = benchmark_of("ranks_model")
    records = read_records(ROOT / "docs" / "results" / "gpu.jsonl")
    gpu = model.OneGpu.recorded(records)
    largest = max((one for one in records if one.method == "growth"), key=lambda one: one.measures["peak GB"])
    m = largest.measures
    assert m["vertices"] * (gpu.of_vertex + m["clusters"] * gpu.of_column) / 1e9 == pytest.approx(m["peak GB"])
    assert gpu.rate(90) == pytest.approx(1e-12 * m["ps per edge, cluster and iteration"])


def test_the_halo_is_that_of_the_parts(benchmark_of) -> None:
    halo_of = benchmark_of("distributed").halo_of
    rng = np.random.default_rng(0)
    W = sp.random(300, 300, 0.02, random_state=0, format="csr")
    graph = Graph.from_any(W + W.T)
    parts = rng.integers(0, 6, 300)
    found = halo_of(graph, parts, (3, 2))
    shards = list(shards_of(graph, parts, 6))
    assert found["halo_share"] == pytest.approx(sum(one.ghosts.size for one in shards) / 300)
    assert found["boundary_share"] == pytest.approx(sum(one.n_boundary for one in shards) / 300)
    inside = sum((parts[one.ghosts] // 2 == one.number // 2).sum() for one in shards)
    assert found["inside_share"] == pytest.approx(inside / 300)
    assert found["inside_share"] + found["between_share"] == pytest.approx(found["halo_share"])
    nodes = sum(one.ghosts.size for one in shards_of(graph, parts // 2, 3))
    assert found["between_once_share"] == pytest.approx(nodes / 300)


def test_the_page_is_made_of_what_there_is(benchmark_of) -> None:
    bench = benchmark_of("distributed")
    assert "Nothing is recorded yet" in bench.page([], [])
    about = {"versions": {"python": "3"}, "commit": "abc", "machine": {"cpus": 2, "platform": "here"}, "created": "now"}
    measures = {
        "seconds_per_iteration": 0.01, "fastest": 0.01, "slowest": 0.02, "runs": 3, "wire_share": 0.04,
        "waiting_share": 0.1, "bytes_per_iteration": 1e5, "gathers_per_iteration": 2.5, "halo_share": 0.1,
    }  # fmt: skip

    def record(method: str, energy: float | None, seed: int = 0) -> RunRecord:
        return RunRecord(
            "a graph", method, {"n_clusters": 2, "threads": 1}, seed, 0, energy, None, 1.0, (1, 1) if energy else (),
            3, "Stopped: too slow." if energy is None else "Done.", measures=measures if energy else {}, **about,
        )  # fmt: skip

    page = bench.page(
        [record("strong, 1 rank", 0.5), record("strong, 4 ranks", 0.5), record("strong, 2 ranks", None)], []
    )
    assert "4 †" in page, "there are two cores"
    assert "Stopped: too slow." in page
    answers = [record("answers, one machine", 0.5), record("answers, 2 ranks", 0.501), record("answers, 4 ranks", None)]
    assert "1.0020" in bench.page(answers, [])
