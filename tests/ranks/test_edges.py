"""Lists of edges of any size: the shards of a list are those of `Graph.from_edges`, whatever the ids are and however
little memory there is; what `Graph` refuses is refused, by the users' ids.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tautcut import Graph, memory
from tautcut.errors import InputError
from tautcut.ranks import edges as room_of_edges
from tautcut.ranks import metis
from tautcut.ranks.edge_files import edge_files
from tautcut.ranks.edges import rows_of_edges
from tautcut.ranks.rows import weighing_of
from tautcut.ranks.sharding import shard_edges

TIGHT = 2**18  # bytes: some 2,000 entries are sorted at once
N = 2000


@pytest.fixture(scope="module")
def listed():
    """20,000 rows of a ring's edges in any order: some twice, some in both directions, with loops and zeros."""
    rng = np.random.default_rng(0)
    u = rng.integers(0, N, 16_000)
    u[:N] = np.arange(N)
    v = (u + rng.integers(0, 12, u.size)) % N
    w = 0.25 + (np.minimum(u, v) * 31 + np.maximum(u, v) * 17) % 7  # the same in both directions
    w[(u + v) % 11 == 0] = 0.0
    again = rng.integers(0, u.size, 4000)
    u, v, w = np.r_[u, v[again]], np.r_[v, u[again]], np.r_[w, w[again]]
    order = rng.permutation(u.size)
    return u[order], v[order], w[order]


def write(path, u, v, w=None, n_files=1, **more):
    """The edges in one Parquet file, or in a folder of several."""
    columns = {"source": u, "target": v} | ({} if w is None else {"weight": w}) | more
    if n_files == 1:
        pq.write_table(pa.table(columns), path, row_group_size=3000)
        return path
    path.mkdir()
    for k in range(n_files):
        pq.write_table(pa.table({name: one[k::n_files] for name, one in columns.items()}), path / f"{k}.parquet")
    return path


def rows_of(source, folder, room=TIGHT, **more):
    folder.mkdir(exist_ok=True)
    return rows_of_edges(edge_files([source]), folder, room=room, **more)


def assert_same(rows, graph: Graph) -> None:
    assert np.array_equal(rows.indptr, graph.indptr)
    _, indices, weights = rows.read(0, rows.n_vertices)
    assert np.array_equal(indices, graph.indices)
    assert np.array_equal(np.ones(indices.size) if weights is None else weights, graph.weights)


# ---------------------------------------------------------------- the same graph


@pytest.mark.parametrize("room", [TIGHT, 2**30])
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_are_those_of_the_graph(tmp_path, listed, room, weighted):
    u, v, w = listed
    graph = Graph.from_edges(np.column_stack([u, v]), w if weighted else None)
    rows, numbered = rows_of(write(tmp_path / "edges", u, v, w if weighted else None, 3), tmp_path / "work", room)
    assert_same(rows, graph)
    assert numbered.ids is None
    found = weighing_of(rows, room)
    assert found.mean == pytest.approx(graph.weights.mean(), rel=1e-12)
    assert found.is_uniform == graph.is_uniform


KINDS = {
    "gaps": lambda i: 3 * i + 5,
    "negative": lambda i: 2 * i - 999,
    "huge": lambda i: i * 10**15 - 5 * 10**17,
    "unsigned": lambda i: np.uint64(2**64 - 1) - i.astype(np.uint64) * np.uint64(10**15),
    "small": lambda i: (i - 1000).astype(np.int16),
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_numbered_in_their_order_and_kept(tmp_path, listed, kind):
    u, v, w = listed
    names = np.sort(KINDS[kind](np.arange(N)))
    rows, numbered = rows_of(write(tmp_path / "edges.parquet", names[u], names[v], w), tmp_path / "work")
    assert_same(rows, Graph.from_edges(np.column_stack([u, v]), w))
    assert numbered.ids_of(np.arange(N)).tolist() == names.tolist()
    assert numbered.named(7) == int(names[7])


def test_texts_are_ids_too(tmp_path, listed):
    u, v, w = listed
    names = np.array([f"page/{i}€" for i in range(N)], dtype=object)
    rows, numbered = rows_of(write(tmp_path / "edges.parquet", names[u], names[v], w), tmp_path / "work")
    places = {name: place for place, name in enumerate(names)}
    order = np.array([places[name] for name in numbered.ids_of(np.arange(N))])
    assert sorted(order.tolist()) == list(range(N))
    matrix = Graph.from_edges(np.column_stack([u, v]), w).to_scipy()[order][:, order]
    assert_same(rows, Graph.from_any(matrix))


def test_dictionaries_of_texts_are_texts(tmp_path):
    coded = pa.array(["a", "b", "c"]).dictionary_encode()
    path = write(tmp_path / "edges.parquet", coded, pa.array(["b", "c", "a"]).dictionary_encode())
    rows, numbered = rows_of(path, tmp_path / "work")
    assert rows.n_entries == 6
    assert sorted(numbered.ids_of(np.arange(3)).tolist()) == ["a", "b", "c"]


def test_isolated_vertices_are_loops_or_counted(tmp_path):
    path = write(tmp_path / "edges.parquet", [0, 1, 3], [1, 2, 3])
    rows, numbered = rows_of(path, tmp_path / "work")
    assert (rows.n_vertices, rows.n_entries) == (4, 4)
    assert numbered.ids is None
    rows, numbered = rows_of(path, tmp_path / "work", n_vertices=9)
    assert (rows.n_vertices, rows.n_entries) == (9, 4)
    with pytest.raises(InputError, match="vertex 3 does not exist with --n-vertices 2"):
        rows_of(path, tmp_path / "work", n_vertices=2)


def test_edges_that_all_vanish_leave_vertices(tmp_path):
    path = write(tmp_path / "edges.parquet", [0, 1, 2], [1, 2, 2], [0.0, 0.0, 1.0])
    made = shard_edges(edge_files([path]), (2,), tmp_path / "a.shards", rng=np.random.default_rng(0), room=TIGHT)
    assert (made.whole.n_vertices, made.whole.n_edges) == (3, 0)
    assert sum(one.n_own for one in made.parts) == 3


def test_a_vertex_with_more_edges_than_can_be_sorted_at_once(tmp_path):
    spokes = np.arange(1, 4000)
    hub = np.zeros(spokes.size, int)
    u, v = np.r_[hub, spokes, spokes], np.r_[spokes, hub, hub]
    w = np.tile(0.5 + spokes % 3, 3)
    rows, _ = rows_of(write(tmp_path / "edges.parquet", u, v, w), tmp_path / "work")
    assert_same(rows, Graph.from_edges(np.column_stack([u, v]), w))


# ---------------------------------------------------------------- whole shards


def joined(made, names) -> Graph:
    """The whole graph of its parts, vertices in the order of these ids."""
    place, place_of = {name: i for i, name in enumerate(names.tolist())}, np.empty(names.size, dtype=np.int64)
    parts = [made.part(number) for number in range(made.n_parts)]
    for part in parts:
        ids = made.ids(part.number)
        place_of[part.vertices] = part.vertices if ids is None else [place[name] for name in ids.tolist()]
    pairs = [
        (np.repeat(part.vertices, np.diff(part.indptr)), np.r_[part.vertices, part.ghosts][part.indices])
        for part in parts
    ]
    edges = np.concatenate([np.column_stack([place_of[row], place_of[column]]) for row, column in pairs])
    return Graph.from_edges(edges, np.concatenate([part.weights for part in parts]))


@pytest.mark.parametrize("kind", ["plain", "huge", "text"])
@pytest.mark.parametrize("hierarchy", [(3,), (2, 2)])
def test_the_shards_of_a_list_are_those_of_its_graph(tmp_path, listed, monkeypatch, kind, hierarchy):
    monkeypatch.setattr(metis, "takes", lambda n, entries: 0 if entries < 9000 else 2**40)  # clusters have to serve
    u, v, w = listed
    names = {
        "plain": np.arange(N), "huge": np.arange(N) * 10**14 - 7, "text": np.array([f"v{i}" for i in range(N)]),
    }[kind]  # fmt: skip
    files = edge_files([write(tmp_path / "edges", names[u], names[v], w, 2)])
    told = []
    made = shard_edges(
        files, hierarchy, tmp_path / "a.shards", rng=np.random.default_rng(0), room=TIGHT,
        tell=lambda name, done, total: told.append(name),
    )  # fmt: skip
    assert (made.ids(0) is None) == (kind == "plain")
    back, graph = joined(made, names), Graph.from_edges(np.column_stack([u, v]), w)
    for name in ("indptr", "indices", "weights"):
        assert np.array_equal(getattr(back, name), getattr(graph, name))
    assert made.whole.n_edges == graph.n_edges
    assert {"ids", "sort", "cluster", "refine", "parts"} <= set(told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.shards", "edges"]
    assert sorted(path.name for path in made.path.iterdir()) == [
        "manifest.json", *(f"part-{number:05d}" for number in range(made.n_parts))
    ]  # fmt: skip


def test_a_limit_is_kept_to(tmp_path, listed, monkeypatch):
    """No single array of a sort is larger than what was allowed."""
    u, v, w = listed
    largest = 0
    read = np.fromfile

    def watched(*given, **named):
        nonlocal largest
        found = read(*given, **named)
        largest = max(largest, found.nbytes)
        return found

    monkeypatch.setattr(np, "fromfile", watched)
    rows_of(write(tmp_path / "edges.parquet", u, v, w), tmp_path / "work")
    assert 0 < largest < TIGHT


# ---------------------------------------------------------------- what is refused


def refused(tmp_path, *columns, **more) -> str:
    with pytest.raises(InputError) as raised:
        rows_of(write(tmp_path / "edges.parquet", *columns, **more), tmp_path / "work")
    return str(raised.value)


@pytest.mark.parametrize("names", [[0, 1, 2], [-5, -4, -3], ["a", "b", "c"]], ids=["plain", "negative", "texts"])
@pytest.mark.parametrize(
    ("weight", "why"),
    [(np.nan, "must be numbers; found nan"), (np.inf, "must be finite; found inf"), (-0.5, "must be ≥ 0; found -0.5")],
)
def test_weights_that_are_none_are_refused_by_the_edge(tmp_path, weight, why, names):
    u, v = names, [names[1], names[2], names[2]]
    told = refused(tmp_path, u, v, [1.0, weight, 1.0])
    assert why in told
    assert f"on edge ({names[1]}, {names[2]})" in told
    rows_of(write(tmp_path / "edges.parquet", u, v, [1.0, 1.0, weight]), tmp_path / "work")  # of a loop


def test_repeats_that_differ_are_refused_by_the_edge(tmp_path):
    assert "edge (1, 2) is listed with different weights, 1.0 and 3.0" in refused(
        tmp_path, [0, 1, 2], [1, 2, 1], [1.0, 3.0, 1.0]
    )
    assert "edge (-7, 12) is listed" in refused(tmp_path, [0, -7, 12], [-7, 12, -7], [1.0, 3.0, 1.0])
    assert re.search(r"edge \((a, b|b, a)\) is listed", refused(tmp_path, ["a", "b"], ["b", "a"], [1.0, 2.0]))
    rows, _ = rows_of(write(tmp_path / "edges.parquet", [0, 1], [1, 0], [1.0, 1.0 + 1e-9]), tmp_path / "work")
    assert rows.read(0, 1)[2][0] == pytest.approx(1.0 + 5e-10, abs=1e-16)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (([0.5], [1.0]), "whole numbers or texts as ids"),
        ((["a"], [1]), "texts as ids in one column and numbers in another"),
        (([0], [1], ["heavy"]), "numbers as weights"),
        (([0, None], [1, 2]), "names no vertex"),
        (([0, 1], [1, 2], [1.0, None]), "empty cells"),
        ((np.array([2**63], dtype=np.uint64), [-1]), "unsigned numbers in one column and negative"),
        ((np.empty(0, int), np.empty(0, int)), "holds no edges"),
        (([0, 1], [1, 2], [1e308, 1e308]), "overflows"),
    ],
)
def test_what_is_no_edge_is_refused_in_a_sentence(tmp_path, columns, why):
    path = write(tmp_path / "edges.parquet", *columns)
    with pytest.raises(InputError, match=why):
        shard_edges(edge_files([path]), (2,), tmp_path / "a.shards", rng=np.random.default_rng(0), room=TIGHT)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_damaged_or_missing_is_named(tmp_path):
    good = write(tmp_path / "good.parquet", np.arange(5000), np.arange(5000)[::-1])
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(good.read_bytes()[:-50])
    with pytest.raises(InputError, match=r"bad\.parquet' cannot be read as a Parquet file"):
        edge_files([good, bad])
    with pytest.raises(InputError, match=r"none\.parquet' does not exist"):
        edge_files([tmp_path / "none.parquet"])
    content = bytearray(good.read_bytes())
    content[40:4000] = b"\xff" * 3960
    bad.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.parquet'"):
        rows_of(bad, tmp_path / "work")


def test_columns_are_found_by_name_or_place(tmp_path):
    def columns(**given):
        path = tmp_path / "edges.parquet"
        pq.write_table(pa.table(given), path)
        found = edge_files([path])
        return None if found is None else found.columns[0]

    assert columns(kind=["x"], dst=[1], src=[0], weight=[1.0]) == ("src", "dst", "weight")
    assert columns(Source=[0], Target=[1]) == ("Source", "Target", None)
    assert columns(a=[0], b=[1]) == ("a", "b", None)
    assert columns(a=[0], b=[1], c=[0.5]) == ("a", "b", "c")
    assert columns(u=[0], v=[1], note=["x"], more=["y"]) == ("u", "v", None)
    assert columns(a=[0.5], b=[1.5]) is None  # points
    assert columns(a=[0], b=[1], c=[2], d=[3]) is None
    with pytest.raises(InputError, match="is no list of edges"):
        edge_files([tmp_path / "edges.parquet"], is_certain=True)


def test_folders_are_searched_for_parquet(tmp_path):
    folder = write(tmp_path / "edges", np.arange(4), np.arange(1, 5), n_files=2)
    (folder / "_metadata.parquet").write_bytes(b"not read")
    (folder / "notes.txt").write_text("not read")
    (folder / "old.shards").mkdir()
    (folder / "old.shards" / "ids.parquet").write_bytes(b"not read")
    (folder / "year=2020").mkdir()
    write(folder / "year=2020" / "more.parquet", [7], [8])
    found = edge_files([folder])
    assert [path.name for path in found.paths] == ["0.parquet", "1.parquet", "more.parquet"]
    assert found.n_rows == 5
    (tmp_path / "empty").mkdir()
    assert edge_files([tmp_path / "empty"]) is None
    with pytest.raises(InputError, match="empty' holds no list of edges"):
        edge_files([folder, tmp_path / "empty"])


def test_damaged_bytes_are_a_sentence(tmp_path, listed):
    u, v, w = (one[:2000] for one in listed)
    path, rng = write(tmp_path / "edges.parquet", u, v, w), np.random.default_rng(0)
    content, outcomes = path.read_bytes(), set()
    for _ in range(60):
        damaged = np.frombuffer(content, dtype=np.uint8).copy()
        where = rng.integers(0, damaged.size, rng.integers(1, 20))
        damaged[where] = rng.integers(0, 256, where.size)
        path.write_bytes(damaged.tobytes())
        try:
            found = edge_files([path])
            outcomes.add("none" if found is None else "read")
            if found is not None:
                rows_of_edges(found, tmp_path, room=TIGHT)
        except InputError:
            outcomes.add("refused")
    assert "refused" in outcomes


def test_a_disk_without_room_is_foreseen(tmp_path, monkeypatch):
    full = type("usage", (), {"free": 10})()
    monkeypatch.setattr(room_of_edges.shutil, "disk_usage", lambda folder: full)
    assert "are free" in refused(tmp_path, [0], [1])


def test_more_vertices_than_memory_are_foreseen(tmp_path):
    with pytest.raises(InputError, match="Rows of 20,000,000 vertices would take"):
        rows_of(write(tmp_path / "edges.parquet", [0], [1]), tmp_path / "work", n_vertices=20_000_000)
    assert memory.for_work() > 0
