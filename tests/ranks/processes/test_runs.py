"""Whole runs over real processes: the answers of one machine, labels that can be joined, given labels, and what is
refused. Ranks are started as users start them, by `--ranks` or by torchrun.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from tautcut import Graph, MTVClassifier, MTVClustering, balanced_cut_energy, cluster_shards, knn_graph
from tautcut.errors import InputError
from tautcut.ranks import sharding
from tautcut.ranks.files import ShardedGraph
from tautcut.ranks.results import ShardedLabels
from tautcut.ranks.run import bytes_of_rank
from tautcut.ranks.sharding import shard_graph
from tautcut.search.plan import Plan
from torchrun import environment, torchrun


def tautcut(*words: object, cwd: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tautcut", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, cwd=cwd, env=environment(), check=False
    )  # fmt: skip


def mixture(n: int = 5000) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.standard_normal((6, 8))
    return (centres[rng.integers(0, 6, n)] + rng.standard_normal((n, 8))).astype(np.float32)


@pytest.fixture(scope="module")
def digits() -> Graph:
    return knn_graph(load_digits().data.astype(np.float32), 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, digits) -> Path:
    """Sharded graphs of digits, of a mixture, and of digits with masses, ids and weights."""
    path = tmp_path_factory.mktemp("shards")
    for n_parts in (2, 4):
        shard_graph(digits, (n_parts,), path / f"digits{n_parts}.shards", rng=np.random.default_rng(0))
    shard_graph(knn_graph(mixture(), 10), (3,), path / "mixture.shards", rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    W = digits.to_scipy()
    W.data[:] = 1.0 + (W.indices + np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))) % 3
    weighed = Graph.from_any(W).with_masses(rng.uniform(0.5, 2.0, W.shape[0]))
    ids = np.array([f"picture {number}" for number in range(W.shape[0])])
    shard_graph(weighed, (2,), path / "weighed.shards", ids=ids, rng=rng)
    sp.save_npz(path / "weighed.npz", W)
    np.save(path / "masses.npy", weighed.masses)
    return path


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_the_answer_of_one_machine(folder, digits, n_ranks):
    one = MTVClustering(10, affinity="precomputed", random_state=0).fit(digits).energy_
    done = tautcut(
        "cluster", f"digits{n_ranks}.shards", "-k", 10, "--ranks", n_ranks, "--out", f"d{n_ranks}", cwd=folder
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Energy (P)" in done.stdout
    joined = tautcut("gather", f"d{n_ranks}", "--out", f"d{n_ranks}.npy", cwd=folder)
    assert joined.returncode == 0, joined.stderr
    labels = np.load(folder / f"d{n_ranks}.npy")
    found = ShardedLabels.open(folder / f"d{n_ranks}")
    assert balanced_cut_energy(digits, labels) == pytest.approx(found.energy, rel=1e-12)
    assert found.energy <= 1.003 * one
    assert np.bincount(labels).tolist() == list(found.sizes)
    assert not list((folder / f"d{n_ranks}").glob("state/*")), "checkpoints are gone when the labels are there"


def test_torchrun_starts_the_same_run(folder):
    out = folder / "by-torchrun"
    words = ("-m", "tautcut", "cluster", str(folder / "digits2.shards"), "-k", "10", "--out", str(out), "--json")
    done = torchrun(2, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    again = cluster_shards(folder / "digits2.shards", 10, out=folder / "by-python")
    labels = [ShardedLabels.open(one).joined()[1] for one in (out, again.path)]
    assert np.array_equal(*labels)
    assert facts["energy"] == again.energy
    assert 0 <= facts["wire_share"] <= 1
    assert len(facts["peak_bytes"]) == 2
    assert min(facts["peak_bytes"]) > 2**24
    assert facts["n_iter"] == again.n_iter > 0


def test_three_ranks_of_a_mixture(folder):
    found = cluster_shards(folder / "mixture.shards", 6, out=folder / "mixed", random_state=1)
    one = MTVClustering(6, random_state=1).fit(mixture())
    assert found.energy <= 1.003 * one.energy_
    ids, labels, confidence = found.joined()
    assert np.array_equal(ids, np.arange(5000))
    assert balanced_cut_energy(one.graph_, labels) == pytest.approx(found.energy, rel=1e-12)
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert confidence.mean() > 0.5


def test_given_labels_masses_weights_and_ids(folder):
    truth = load_digits().target
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.choice(np.flatnonzero(truth == one), 3, replace=False) for one in range(10)])
    names = np.array([f"d{one}" for one in truth])
    lines = ["id,label", *(f"picture {place},{names[place]}" for place in known)]
    (folder / "known.csv").write_text("\n".join(lines))
    done = tautcut("classify", "weighed.shards", "--labels", "known.csv", "--out", "classes", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["classes"] == [f"d{one}" for one in range(10)]
    joined = tautcut("gather", "classes", "--out", "classes.csv", cwd=folder)
    assert joined.returncode == 0, joined.stderr
    rows = (folder / "classes.csv").read_text().splitlines()
    assert rows[0] == "id,label,confidence"
    assert rows[1].startswith("picture 0,d")
    labels = np.array([row.split(",")[1] for row in rows[1:]])
    assert (labels[known] == names[known]).all()
    y = np.full(truth.size, -1)
    y[known] = truth[known]
    graph = Graph.from_any(sp.load_npz(folder / "weighed.npz")).with_masses(np.load(folder / "masses.npy"))
    one = (MTVClassifier(affinity="precomputed", random_state=0).fit(graph, y).transduction_ == truth).mean()
    assert (labels == names).mean() > one - 0.02


def test_a_label_of_no_vertex_is_refused(folder):
    (folder / "stranger.csv").write_text("id,label\npicture 3,a\npicture 9999,b\n")
    done = tautcut("classify", "weighed.shards", "--labels", "stranger.csv", "--out", "strange", cwd=folder)
    assert done.returncode == 2
    assert "'picture 9999' has a label, and is no vertex" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_part_without_vertices(tmp_path, monkeypatch):
    path = Graph.from_edges([(i, i + 1) for i in range(59)])
    parts = np.repeat([0, 2], 30).astype(np.int32)
    monkeypatch.setattr(sharding, "divided", lambda rows, hierarchy, **how: parts)
    made = shard_graph(path, (3,), tmp_path / "path.shards", rng=np.random.default_rng(0))
    assert [one.n_own for one in made.parts] == [30, 0, 30]
    found = cluster_shards(tmp_path / "path.shards", 3, out=tmp_path / "out")
    assert found.energy == pytest.approx(MTVClustering(3, affinity="precomputed").fit(path).energy_)


def test_the_coarse_graph_of_ranks_keeps_the_energy():
    done = torchrun(3, str(Path(__file__).with_name("coarsening.py")))
    assert done.returncode == 0, done.stderr[-2000:]


def test_one_cluster_and_no_edges(tmp_path):
    lonely = Graph.from_edges(np.zeros((0, 2), int), n_vertices=8)
    shard_graph(lonely, (2,), tmp_path / "lonely.shards", rng=np.random.default_rng(0))
    found = cluster_shards(tmp_path / "lonely.shards", 2, out=tmp_path / "two")
    assert sorted(np.unique(found.joined()[1]).tolist()) == [0, 1]
    alone = cluster_shards(tmp_path / "lonely.shards", 1, out=tmp_path / "one")
    assert alone.energy == 0.0
    assert alone.sizes == (8,)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("digits2.shards", "-k", 10, "--ranks", 3), "--ranks is 3, and 'digits2.shards' has 2 parts"),
        (("digits2.shards", "-k", 5000), "5000"),
        (("digits2.shards", "-k", "auto"), "-k auto is not for a sharded graph"),
        (("digits2.shards", "-k", 10, "--report", "page.html"), "--report is not for a sharded graph"),
        (("digits2.shards", "-k", 10, "--timeout", 0), "--timeout must be a positive number"),
        (("digits2.shards", "-k", 10, "--dtype", "float8"), "--dtype must be"),
        (("missing.shards", "-k", 10), "missing.shards"),
        (("weighed.npz", "-k", 10, "--ranks", 2), "--ranks is for a sharded graph"),
        (("digits2.shards", "-k", 10, "--out", "weighed.npz"), "is a file"),
    ],
)
def test_what_is_refused(folder, words, sentence):
    done = tautcut("cluster", *words, cwd=folder, timeout=60)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_other_commands_say_what_a_sharded_graph_is_for(folder):
    done = tautcut("graph", "digits2.shards", cwd=folder)
    assert done.returncode == 2
    assert "is a sharded graph, which 'cluster' and 'classify' alone work on" in done.stderr


def test_memory_is_foreseen_before_it_is_taken(folder):
    done = tautcut("cluster", "digits2.shards", "-k", 10, "--memory", "1MB", "--out", "small", cwd=folder)
    assert done.returncode == 2
    assert "would take" in done.stderr
    assert "Divide the graph into more parts" in done.stderr
    assert "Traceback" not in done.stderr


def test_rank_0_is_foreseen_with_the_coarse_graph_and_rows_as_they_lie_in_memory(folder):
    graph = ShardedGraph.open(folder / "digits2.shards")
    rank_0, rank_1 = (bytes_of_rank(graph, rank, 10, "float32") for rank in (0, 1))
    whole = Plan().bytes_of_fit(graph.whole.n_vertices, 2 * graph.whole.n_edges, 10)  # few vertices are not coarsened
    assert rank_0 > whole > rank_1
    wide, wider = (bytes_of_rank(graph, 1, R, "float32") for R in (129, 160))
    assert wide == wider > bytes_of_rank(graph, 1, 128, "float32")  # beyond 128 a row is whole tiles of 32


def test_another_folder_or_none(folder, tmp_path):
    with pytest.raises(InputError, match="holds no labels"):
        ShardedLabels.open(tmp_path)
    done = tautcut("gather", tmp_path, "--out", tmp_path / "x.npy", cwd=folder)
    assert done.returncode == 2
    assert "holds no labels" in done.stderr
    assert ShardedGraph.open(folder / "digits2.shards").n_parts == 2
