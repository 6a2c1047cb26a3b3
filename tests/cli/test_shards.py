"""`shard` as a user meets it: files in, a folder of parts out, the halo told, a sentence for every mistake, and nothing
left after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from tautcut import Graph, ShardedGraph, knn_graph
from tautcut.cli import main
from tautcut.ranks import files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a grid of 20 × 20 as a graph, as lists of edges and as points."""
    monkeypatch.chdir(tmp_path)
    points = np.stack(np.meshgrid(np.arange(20), np.arange(20)), axis=-1).reshape(-1, 2).astype(float)
    graph = knn_graph(points + np.random.default_rng(0).normal(0, 0.05, points.shape), 6)
    scipy.io.mmwrite("grid.mtx", graph.to_scipy())
    rows = np.repeat(np.arange(400), np.diff(graph.indptr))
    for k in range(2):
        pq.write_table(pa.table({"source": rows[k::2], "target": graph.indices[k::2]}), f"edges-{k}.parquet")
    pq.write_table(pa.table({"x": points[:, 0], "y": points[:, 1], "z": points[:, 0]}), "points.parquet")
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["shard", *arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix not in (".mtx", ".parquet")}


def test_a_graph_is_divided_and_told(folder, capsys):
    code, out, err = run(capsys, "grid.mtx", "--parts", "2x2", "--out", "grid.shards")
    made = ShardedGraph.open("grid.shards")
    assert code == 0
    assert made.hierarchy == (2, 2)
    assert "4 parts of 400 vertices" in out
    between, inside = made.halo_shares
    assert f"Halo: {made.halo_share:.3f} ghosts for each vertex ({between:.3f} between nodes, {inside:.3f} ins" in out
    assert between + inside == pytest.approx(made.halo_share)
    owner = np.empty(400, dtype=np.int64)
    for number in range(4):
        owner[made.part(number).vertices] = number
    for number, facts in enumerate(made.parts):
        assert facts.n_foreign == int((owner[made.part(number).ghosts] // 2 != number // 2).sum())
    assert "Warning" not in err


def test_lists_of_edges_and_json(folder, capsys):
    code, out, err = run(capsys, "edges-0.parquet", "edges-1.parquet", "--parts", "3", "--out", "e.shards", "--json")
    told = json.loads(out)
    made = ShardedGraph.open("e.shards")
    assert code == 0
    assert (told["n_vertices"], told["n_edges"]) == (400, made.whole.n_edges)
    assert told["digest"] == made.digest
    assert told["halo_shares"] == [made.halo_share]
    assert sum(one["share"] for one in told["parts"]) == pytest.approx(1)
    assert "edges in 2 files" in err
    code, again, _ = run(capsys, "edges-0.parquet", "edges-1.parquet", "--parts", "3", "--out", "f.shards", "--json",
                         "--quiet", "--memory", "500MB")  # fmt: skip
    assert json.loads(again)["parts"] == told["parts"]


def test_features_are_joined_first(folder, capsys):
    code, _, err = run(capsys, "points.parquet", "--parts", "2", "--neighbors", "5", "--out", "p.shards")
    assert code == 0
    assert "Joined to a graph" in err
    assert ShardedGraph.open("p.shards").whole.n_vertices == 400


def test_isolated_vertices_can_be_counted(folder, capsys):
    assert run(capsys, "edges-0.parquet", "--n-vertices", "500", "--parts", "2", "--out", "n.shards")[0] == 0
    assert ShardedGraph.open("n.shards").whole.n_vertices == 500


def test_a_large_halo_is_warned_of(folder, capsys):
    complete = np.array([(i, j) for i in range(40) for j in range(i)])
    pq.write_table(pa.table({"source": complete[:, 0], "target": complete[:, 1]}), "complete.parquet")
    _, _, err = run(capsys, "complete.parquet", "--parts", "4", "--out", "c.shards")
    assert "Warning: each vertex is a ghost 3.00 times" in err
    assert "Take fewer parts" in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("grid.mtx", "--parts", "0"), "--parts must be a number ≥ 1"),
        (("grid.mtx", "--parts", "2x2x2"), "--parts must be a number ≥ 1"),
        (("grid.mtx", "--parts", "1000x1000"), "--parts must not be more"),
        (("none.mtx", "--parts", "2"), "does not exist"),
        (("none.parquet", "--parts", "2"), "does not exist"),
        (("grid.mtx", "grid.mtx", "--parts", "2"), "several inputs"),
        (("edges-0.parquet", "grid.mtx", "--parts", "2"), "'grid.mtx' holds no list of edges"),
        (("edges-0.parquet", "points.parquet", "--parts", "2"), "'points.parquet' is no list of edges"),
        (("points.parquet", "--as", "graph", "--parts", "2"), "is no list of edges"),
        (("edges-0.parquet", "--as", "nothing", "--parts", "2"), "--as"),
        (("edges-0.parquet", "--parts", "2", "--memory", "much"), "--memory must be a size"),
        (("edges-0.parquet", "--parts", "2", "--n-vertices", "0"), "--n-vertices"),
        (("edges-0.parquet", "--parts", "2", "--n-vertices", "9"), "does not exist with --n-vertices 9"),
        (("grid.mtx", "--parts", "2", "--n-vertices", "400"), "--n-vertices is for lists"),
        (("grid.mtx", "--parts", "2", "--seed", "-1"), "--seed"),
        (("grid.mtx", "--parts", "2", "--smooth", "auto"), "--smooth"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(folder, capsys, arguments, why):
    code, out, err = run(capsys, *arguments, "--out", "x.shards", "--quiet")
    assert (code, out) == (2, "")
    assert why in err
    assert err.startswith("tautcut: ")
    assert err.count("\n") == 1
    assert names(folder) == set()


def test_an_output_that_is_there_is_refused_before_anything_is_read(folder, capsys):
    (folder / "x.shards").mkdir()
    code, _, err = run(capsys, "none.mtx", "--parts", "2", "--out", "x.shards")
    assert code == 2
    assert "is there already" in err


def test_a_full_disk_names_the_file(folder, capsys, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "flush_to_disk", full)
    code, _, err = run(capsys, "edges-0.parquet", "--parts", "2", "--out", "x.shards", "--quiet")
    assert code == 2
    assert "x.shards/part-00000/vertices.npy': No space left on device. Free some space" in err
    assert names(folder) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_an_interrupt_leaves_nothing(folder):
    ends = np.random.default_rng(0).integers(0, 100_000, (2, 500_000))
    pq.write_table(pa.table({"source": ends[0], "target": ends[1]}), "large.parquet")
    command = [sys.executable, "-m", "tautcut", "shard", "large.parquet", "--parts", "4", "--out", "x.shards"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 60
    while not any(name.endswith(".folder") for name in os.listdir()) and time.monotonic() < limit:
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "nothing was written" in err
    assert names(folder) == set()


def test_masses_and_ids_of_a_file_are_kept(folder, capsys):
    (folder / "g.graphml").write_text(
        '<graphml><key id="m" for="node" attr.name="mass"/><graph>'
        + "".join(f'<node id="n{i}"><data key="m">{i + 1}</data></node>' for i in range(6))
        + "".join(f'<edge source="n{i}" target="n{(i + 1) % 6}"/>' for i in range(6))
        + "</graph></graphml>"
    )
    assert run(capsys, "g.graphml", "--parts", "2", "--out", "g.shards")[0] == 0
    made = ShardedGraph.open("g.shards")
    for number in range(2):
        part, ids = made.part(number), made.ids(number)
        assert ids.tolist() == [f"n{i}" for i in part.vertices]
        assert part.masses.tolist() == [i + 1 for i in part.vertices]
    assert made.whole.total_mass == Graph.from_edges([(0, 1)]).with_masses([20, 1]).total_mass
