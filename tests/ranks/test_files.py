"""The folder of a sharded graph: what was written is read back, whole or not at all, and what lies is refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest

from tautcut import Graph, ShardedGraph, writing
from tautcut.errors import InputError
from tautcut.graph.shard import Shard, shards_of
from tautcut.ranks import files, is_sharded
from tautcut.ranks.files import writing_shards
from tautcut.ranks.sharding import shard_graph


def ring(n: int = 60, *, weighted: bool = True) -> Graph:
    edges = np.array([(i, (i + step) % n) for i in range(n) for step in (1, 2, 7)])
    return Graph.from_edges(edges, 0.5 + np.arange(len(edges)) % 5 if weighted else None)


def write(path, graph, n_parts=3, ids=None, seed=0):
    return shard_graph(graph, (n_parts,), path, ids=ids, rng=np.random.default_rng(seed))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "ring.shards"
    return write(path, ring().with_masses(1.0 + np.arange(60) % 3), ids=np.arange(60) + 7)


@pytest.fixture
def made(tmp_path, original):
    """A sharded graph to damage."""
    return ShardedGraph.open(shutil.copytree(original.path, tmp_path / "ring.shards"))


def same(one: Shard, other: Shard) -> bool:
    names = [field.name for field in fields(Shard)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("massive", [True, False])
def test_what_is_written_is_read_back_bit_for_bit(tmp_path, weighted, massive):
    graph = ring(weighted=weighted)
    graph = graph.with_masses(1.0 + np.arange(60) % 3) if massive else graph
    made = write(tmp_path / "ring.shards", graph)
    parts = np.empty(60, dtype=np.int64)
    for number in range(3):
        parts[made.part(number).vertices] = number
    for shard in shards_of(graph, parts, 3):
        assert same(shard, made.part(shard.number))
        facts = made.parts[shard.number]
        assert (facts.n_own, facts.n_boundary) == (shard.n_own, shard.n_boundary)
        assert (facts.n_ghosts, facts.n_entries) == (shard.ghosts.size, shard.indices.size)
    folder = tmp_path / "ring.shards" / "part-00000"
    assert (folder / "weights.npy").exists() == weighted
    assert (folder / "masses.npy").exists() == massive
    assert made.halo_share == sum(one.n_ghosts for one in made.parts) / 60
    assert made.ids(0) is None
    assert is_sharded(made.path)
    assert is_sharded(made.path.rename(tmp_path / "renamed"))
    assert not is_sharded(tmp_path)
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    assert not is_sharded(tmp_path)


def test_arrays_are_mapped_and_cannot_be_written(made):
    indices = made.part(0).indices
    assert isinstance(indices.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        indices[0] = 1


@pytest.mark.parametrize(
    "ids", [np.arange(60) - 30, np.array([f"v{i}€" for i in range(60)], dtype=object)], ids=["numbers", "texts"]
)
def test_ids_follow_the_vertices_of_their_part(tmp_path, ids):
    made = write(tmp_path / "ring.shards", ring(), ids=ids)
    for number in range(3):
        assert made.ids(number).tolist() == ids[made.part(number).vertices].tolist()


def test_a_digest_tells_graphs_and_divisions_apart(tmp_path):
    one = write(tmp_path / "a.shards", ring())
    again = write(tmp_path / "b.shards", ring())
    other = write(tmp_path / "c.shards", Graph.from_any(ring().to_scipy() * 2))
    assert one.digest == again.digest
    assert one.digest != other.digest


def test_parts_may_own_nothing(tmp_path):
    made = write(tmp_path / "few.shards", Graph.from_edges([(0, 1)]), n_parts=4)
    assert sorted(np.concatenate([made.part(number).vertices for number in range(4)]).tolist()) == [0, 1]
    assert sorted(one.n_own for one in made.parts) == [0, 0, 1, 1]


# ---------------------------------------------------------------- whole or not there


def test_nothing_is_left_of_a_folder_that_could_not_be_finished(tmp_path, monkeypatch):
    def full(path):
        if path.name == "indices.npy":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "flush_to_disk", full)
    with pytest.raises(OSError, match="No space") as raised:
        write(tmp_path / "ring.shards", ring())
    assert raised.value.filename == str(tmp_path / "ring.shards" / "part-00000" / "indices.npy")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(made, tmp_path):
    before = (made.path / "manifest.json").read_bytes()
    with pytest.raises(InputError, match="is there already"):
        write(made.path, ring())
    with pytest.raises(OSError, match="meanwhile"), writing_shards(tmp_path / "late.shards"):
        (tmp_path / "late.shards").mkdir()
    assert (made.path / "manifest.json").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late.shards", "ring.shards"]


@pytest.mark.parametrize(("name", "why"), [("ring", "must end in .shards"), ("none/ring.shards", "there is no folder")])
def test_a_folder_that_cannot_be_made_is_refused_first(tmp_path, name, why):
    with pytest.raises(InputError, match=why):
        write(tmp_path / name, ring())


LEAVES = """
import os, sys, time
from pathlib import Path
from tautcut.ranks.files import writing_shards
with writing_shards(Path(sys.argv[1])) as writer:
    (writer.folder / "half").write_bytes(b"x" * 100)
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_what_a_killed_process_left_is_swept(tmp_path, monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", LEAVES, tmp_path / "a.shards"], stdout=subprocess.PIPE)
    process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(writing, "_swept", set())
    write(tmp_path / "b.shards", ring())
    assert [path.name for path in tmp_path.iterdir()] == ["b.shards"]


def test_a_folder_under_way_is_given_up_whole(tmp_path):
    def give_up_half_way():
        with writing_shards(tmp_path / "b.shards") as writer:
            (writer.folder / "half").write_bytes(b"x")
            writing.give_up()
            assert list(tmp_path.iterdir()) == []

    with pytest.raises(OSError, match=r"b\.shards"):
        give_up_half_way()
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- folders that lie


def told(folder) -> str:
    """The sentence in which a folder is refused, whether by its manifest or by a part."""

    def read():
        opened = ShardedGraph.open(folder)
        for number in range(opened.n_parts):
            opened.part(number)
            opened.ids(number)

    with pytest.raises(InputError) as raised:
        read()
    return str(raised.value)


def edit(folder, change) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_what_is_no_sharded_graph_is_refused_with_the_fix(tmp_path):
    (tmp_path / "file.shards").write_text("x")
    (tmp_path / "empty.shards").mkdir()
    assert "does not exist" in told(tmp_path / "none.shards")
    assert "is a file" in told(tmp_path / "file.shards")
    assert "Make one by 'tautcut shard'" in told(tmp_path / "empty.shards")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.update(format="else"), "of something else"),
        (lambda c: c.update(number=99), "format number 99"),
        (lambda c: c.pop("whole"), "makes no sense"),
        (lambda c: c["whole"].update(n_vertices=10**30), "makes no sense"),
        (lambda c: c["whole"].update(n_vertices=61), "contradicts itself: vertices"),
        (lambda c: c["whole"].update(total_mass=None), "makes no sense"),
        (lambda c: c["whole"].update(weight_unit=-1.0), "weights that are none"),
        (lambda c: c["parts"].pop(), "contradicts itself"),
        (lambda c: c["parts"][1].update(n_ghosts=5), "contradicts itself: ghosts"),
        (lambda c: c["parts"][1].update(n_boundary=50), "makes no sense"),
        (lambda c: c.update(id_kind="pickles"), "makes no sense"),
        (lambda c: c.update(has_weights=1), "makes no sense"),
        (lambda c: c.update(hierarchy=[2, 2]), "contradicts itself: hierarchy"),
    ],
)
def test_a_manifest_that_lies_is_refused(made, change, why):
    edit(made.path, change)
    assert why in told(made.path)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null"])
def test_a_manifest_that_is_none_is_refused(made, content):
    (made.path / "manifest.json").write_bytes(content)
    assert "damaged" in told(made.path) or "of something else" in told(made.path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def pickled(path):
    np.save(path, np.array([print], dtype=object), allow_pickle=True)


def beyond(path):
    array = np.load(path)
    array[-1] = 60
    np.save(path, array)


def link(path):
    kept = path.with_name("kept")
    path.rename(kept)
    path.symlink_to(kept)


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("indices", lambda path: path.unlink(), "there is no 'part-00001/indices.npy'"),
        ("indices", cut, "bytes"),
        ("vertices", lambda path: np.save(path, np.load(path).astype(np.int32)), "int32"),
        ("weights", lambda path: np.save(path, np.load(path)[:-1]), "shape"),
        ("masses", pickled, "is no .npy file"),
        ("ghosts", lambda path: path.write_bytes(pickle.dumps([1])), "is no .npy file"),
        ("ghosts", lambda path: path.write_bytes(path.read_bytes().replace(b"}", b"(", 1)), "is no .npy file"),
        ("sent", link, "no ordinary file"),
        ("indices", beyond, "beyond 0 to"),
        ("sent", beyond, "beyond 0 to"),
        ("ghosts", beyond, "beyond 0 to"),
        ("indptr", beyond, "does not rise"),
        ("weights", lambda path: np.save(path, -np.load(path)), "no number > 0"),
        ("ids", lambda path: np.save(path, np.load(path).astype(float)), "whole numbers"),
        ("ids", lambda path: path.unlink(), "there is no"),
    ],
)
def test_a_file_that_is_not_what_the_manifest_says_is_refused(made, name, damage, why):
    damage(made.path / "part-00001" / f"{name}.npy")
    assert why in told(made.path)


def test_texts_that_are_not_what_the_manifest_says_are_refused(tmp_path):
    ids = np.array([f"v{i}" for i in range(60)], dtype=object)
    made = write(tmp_path / "ring.shards", ring(), ids=ids)
    first, second = (made.path / f"part-0000{number}" / "ids.parquet" for number in (0, 1))
    kept = first.read_bytes()
    first.write_bytes(kept[:50])
    assert "cannot be read" in told(made.path)
    first.unlink()
    assert "there is no" in told(made.path)
    write(tmp_path / "other.shards", ring(30), ids=ids[:30])
    shutil.copy(tmp_path / "other.shards" / "part-00000" / "ids.parquet", first)
    assert "texts" in told(made.path)
    assert second.exists()
