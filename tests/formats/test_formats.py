"""Files in and out: every format there and back on scikit-learn's digits; a file that is cut short, empty, something
else or hostile costs exit code 2 and one sentence, and leaves no file.
"""

from __future__ import annotations

import csv
import json
import os
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from tautcut import Graph, formats, knn_graph
from tautcut.cli import main
from tautcut.errors import InputError
from tautcut.formats import Labelling, known_labels, read, read_labels, write_graph, write_labels
from tautcut.formats import graphs as graphs_module
from tautcut.formats import labels as labels_module

pytest.importorskip("pyarrow")
pytest.importorskip("anndata")

N = 150


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:N], y[:N]


@pytest.fixture(scope="module")
def graph(digits):
    return knn_graph(digits[0], 5, weights="self-tuning")


# ---------------------------------------------------------------- files as others write them


def _npy(path, X, y, graph):
    np.save(path, X)


def _npz(path, X, y, graph):
    np.savez(path, X=X.astype(np.uint8), y=y, class_names=np.array(list("0123456789")))


def _sparse_npz(path, X, y, graph):
    sp.save_npz(path, graph.to_scipy())


def _parts_npz(path, X, y, graph):
    W = graph.to_scipy()
    np.savez(path, data=W.data, indices=W.indices, indptr=W.indptr, shape=W.shape)


def _delimited(path, X, y, delimiter):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["name", *(f"pixel{j}" for j in range(X.shape[1])), "target"])
        writer.writerows([f"image {i}", *row, label] for i, (row, label) in enumerate(zip(X, y, strict=True)))


def _csv(path, X, y, graph):
    _delimited(path, X, y, ",")


def _tsv(path, X, y, graph):
    _delimited(path, X, y, "\t")


def _txt(path, X, y, graph):
    np.savetxt(path, X, header="digits")


def _parquet(path, X, y, graph):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"name": [f"image {i}" for i in range(len(X))], **{f"pixel{j}": x for j, x in enumerate(X.T)}}
    pq.write_table(pa.table({**columns, "target": y}), path)


def _mtx(path, X, y, graph):
    scipy.io.mmwrite(path, graph.to_scipy())


def _edges(path, X, y, graph):
    upper = sp.triu(graph.to_scipy()).tocoo()
    lines = (f"{i} {j} {w!r}\n" for i, j, w in zip(upper.row, upper.col, upper.data.tolist(), strict=True))
    path.write_text("# digits\n" + "".join(lines))


def _graphml(path, X, y, graph):
    import networkx as nx

    G = nx.from_scipy_sparse_array(graph.to_scipy())
    nx.set_node_attributes(G, {i: str(label) for i, label in enumerate(y)}, "digit")
    nx.write_graphml_xml(G, path)


def _metis(path, X, y, graph):
    rows = [" ".join(str(j + 1) for j in row.indices) for row in graph.to_scipy()]
    path.write_text("\n".join([f"% digits\n{graph.n_vertices} {graph.n_edges}", *rows]) + "\n")


def _h5ad(path, X, y, graph):
    import anndata
    import pandas as pd

    obs = pd.DataFrame({"digit": pd.Categorical(y.astype(str))}, index=[f"cell {i}" for i in range(len(X))])
    adata = anndata.AnnData(X.astype(np.float32), obs=obs)
    adata.obsm["X_pca"] = X[:, 20:30]
    adata.obsp["connectivities"] = graph.to_scipy()
    adata.write_h5ad(path)


WRITERS = {
    "digits.npy": _npy, "digits.npz": _npz, "digits.csv": _csv, "digits.tsv": _tsv, "digits.txt": _txt,
    "digits.parquet": _parquet, "sparse.npz": _sparse_npz, "parts.npz": _parts_npz, "digits.mtx": _mtx,
    "digits.edges": _edges, "digits.graphml": _graphml, "digits.graph": _metis, "digits.h5ad": _h5ad,
}  # fmt: skip
FEATURES = ("digits.npy", "digits.npz", "digits.csv", "digits.tsv", "digits.txt", "digits.parquet")
GRAPHS = tuple(name for name in WRITERS if name not in FEATURES)


@pytest.fixture
def make(digits, graph, tmp_path):
    """Writes one of the files, into a folder of its own."""

    def make_file(name):
        path = tmp_path / name
        WRITERS[name](path, *digits, graph)
        return path

    return make_file


def same_graph(one: Graph, other: Graph, *, is_weighted: bool = True) -> bool:
    same = np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices)
    return same and (not is_weighted or np.allclose(one.weights, other.weights, rtol=1e-12))


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", FEATURES)
def test_features_come_back(make, digits, name):
    data = read(make(name))
    assert data.kind == "features"
    assert np.array_equal(data.content, digits[0])
    has_ids = name.endswith((".csv", ".tsv", ".parquet"))
    assert data.ids.tolist() == ([f"image {i}" for i in range(N)] if has_ids else list(range(N)))
    assert (data.names is not None and data.names[-1] == "pixel63") == has_ids
    assert any("'target'" in note for note in data.notes) == has_ids


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_come_back(make, graph, name):
    data = read(make(name))
    assert data.kind == "graph"
    assert same_graph(data.content, graph, is_weighted=name != "digits.graph")
    first = {"digits.mtx": 1, "digits.graph": 1, "digits.h5ad": "cell 0"}.get(name, 0)
    assert data.ids.tolist()[0] == first
    assert len(data.ids) == N


@pytest.mark.parametrize("array", ["X", "layers/counts", "obsm/X_pca"])
def test_genes_have_names_and_other_columns_have_none(tmp_path, array):
    import anndata
    import pandas as pd

    genes = ["CD3E", "CD19", "MS4A1"]
    adata = anndata.AnnData(np.eye(5, 3), pd.DataFrame(index=list("abcde")), pd.DataFrame(index=genes))
    adata.layers["counts"], adata.obsm["X_pca"] = np.eye(5, 3), np.eye(5, 2)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    names = read(tmp_path / "cells.h5ad", array=array).names
    assert names == (None if array == "obsm/X_pca" else tuple(genes))


@pytest.mark.parametrize("suffix", formats.GRAPH_SUFFIXES)
def test_graphs_are_written_as_they_are_read(tmp_path, graph, suffix):
    whole = Graph.from_any(graph.to_scipy().multiply(100).ceil())
    for one in (Graph(graph.indptr, graph.indices, np.ones(graph.weights.size)), whole, graph):
        path, ids = tmp_path / f"graph{suffix}", np.arange(N)
        if suffix == ".graph" and one is graph:
            with pytest.raises(InputError, match="whole weights"):
                write_graph(path, one, ids)
            continue
        write_graph(path, one, ids)
        assert same_graph(read(path).content, one)
        assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", [".edges", ".graphml"])
def test_names_of_vertices_are_kept(tmp_path, suffix):
    names = np.array(["a", "b & <b>", "zoë"])
    path = tmp_path / f"graph{suffix}"
    write_graph(path, Graph.from_edges([(0, 1), (1, 2)]), names)
    data = read(path)
    assert data.ids.tolist() == names.tolist()
    assert same_graph(data.content, Graph.from_edges([(0, 1), (1, 2)]))


def test_an_id_that_would_break_an_edge_list_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot stand in an edge list"):
        write_graph(tmp_path / "g.edges", Graph.from_edges([(0, 1)]), np.array(["a", "b\tc"]))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("bad", ["", " a", "#a", "%a", "a,b", "a;b", 'a"b', "a\nb"])
def test_every_id_that_would_not_come_back_is_refused(tmp_path, bad):
    with pytest.raises(InputError, match="cannot stand in an edge list"):
        write_graph(tmp_path / "g.edges", Graph.from_edges([(0, 1)]), np.array(["a", bad]))
    assert os.listdir(tmp_path) == []


def test_isolated_vertices_stay_in_a_metis_file(tmp_path):
    graph = Graph.from_edges([(0, 2)], n_vertices=4)
    write_graph(tmp_path / "g.graph", graph, np.arange(4))
    assert same_graph(read(tmp_path / "g.graph").content, graph)


@pytest.fixture
def found(digits):
    """Labels of the digits with ids that are up to no good."""
    ids = np.array(["=cmd()", "<script>alert(1)</script>", *(f"image {i}" for i in range(2, N))])
    about = {"energy": 0.5, "status": "Done."}
    return Labelling(ids, digits[1], np.linspace(0, 1, N), np.arange(10), about)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_labels_as_text(tmp_path, found, suffix):
    path = tmp_path / f"labels{suffix}"
    write_labels(path, found, source=tmp_path / "digits.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="," if suffix == ".csv" else "\t"))
    assert rows[0]["id"] == "'=cmd()"  # a spreadsheet shows it and does not run it
    assert [row["id"] for row in rows[1:]] == found.ids.tolist()[1:]
    assert [int(row["label"]) for row in rows] == found.labels.tolist()
    assert np.allclose([float(row["confidence"]) for row in rows], found.confidence, atol=1e-6)
    assert list(rows[0]) == ["id", "label", "confidence"]
    assert read_labels(path, found.ids).tolist() == found.labels.tolist()


def test_labels_as_json(tmp_path, found):
    write_labels(tmp_path / "labels.json", found, source=tmp_path / "digits.csv")
    content = json.loads((tmp_path / "labels.json").read_text())
    assert (content["energy"], content["status"]) == (0.5, "Done.")
    assert [one["id"] for one in content["vertices"]] == found.ids.tolist()
    assert content["classes"] == list(range(10))
    assert [one["label"] for one in content["vertices"]] == found.labels.tolist()
    assert np.allclose([one["confidence"] for one in content["vertices"]], found.confidence, atol=1e-6)
    assert set(content["vertices"][0]) == {"id", "label", "confidence"}


def test_labels_as_an_array(tmp_path, found):
    write_labels(tmp_path / "labels.npy", found, source=tmp_path / "digits.csv")
    table = np.load(tmp_path / "labels.npy", allow_pickle=False)
    assert table["id"].tolist() == found.ids.tolist()
    assert np.array_equal(table["label"], found.labels)
    assert np.allclose(table["confidence"], found.confidence)
    assert table.dtype.names == ("id", "label", "confidence")


def test_labels_as_parquet(tmp_path, found):
    import pyarrow.parquet as pq

    write_labels(tmp_path / "labels.parquet", found, source=tmp_path / "digits.csv")
    table = pq.read_table(tmp_path / "labels.parquet")
    assert table.column_names == ["id", "label", "confidence"]
    assert table["id"].to_pylist() == found.ids.tolist()
    assert table["label"].to_pylist() == found.labels.tolist()
    assert np.allclose(table["confidence"].to_numpy(), found.confidence)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_labels_that_look_like_formulas_come_back_as_they_were(tmp_path, suffix):
    words = np.array(["=cmd()", "+1", "@x", "plain"])
    path, ids = tmp_path / f"labels{suffix}", np.arange(4)
    write_labels(path, Labelling(ids, words, np.ones(4), np.sort(words)), source=tmp_path / "x.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="," if suffix == ".csv" else "\t"))
    assert [row["label"] for row in rows] == ["'=cmd()", "'+1", "'@x", "plain"]
    assert read_labels(path, ids).tolist() == words.tolist()


def test_labels_in_a_copy_of_an_h5ad(make, found):
    import anndata

    source = make("digits.h5ad")
    before = source.read_bytes()
    for _ in range(2):  # over labels of an earlier run too
        copy = source.with_name("copy.h5ad")
        write_labels(copy, found, source=source)
    adata = anndata.read_h5ad(copy)
    assert adata.obs["tautcut"].astype(int).tolist() == found.labels.tolist()
    assert list(adata.obs.columns) == ["digit", "tautcut", "tautcut_confidence"]
    assert np.allclose(adata.obs["tautcut_confidence"], found.confidence)
    assert list(adata.obsm) == ["X_pca"]
    assert adata.uns["tautcut"]["energy"] == 0.5
    assert adata.obsm["X_pca"].shape == (N, 10)
    assert source.read_bytes() == before


def test_an_h5ad_is_a_copy_or_nothing(tmp_path, found):
    with pytest.raises(InputError, match=r"no \.h5ad"):
        write_labels(tmp_path / "labels.h5ad", found, source=tmp_path / "digits.csv")


def torn(error: BaseException):
    """A writer that dies with half of its file written."""

    def write(path, *given):
        path.write_bytes(b"half of a fi")
        raise error

    return write


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "ctrl-c"])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("suffix", list(labels_module._WRITERS))
def test_labels_are_written_whole_or_not_at_all(make, found, monkeypatch, suffix, is_there, error):
    source = make("digits.h5ad")
    path = source.with_name(f"labels{suffix}")
    if is_there:
        path.write_text("before")
    monkeypatch.setitem(labels_module._WRITERS, suffix, torn(error))
    with pytest.raises(type(error)):
        write_labels(path, found, source=source)
    assert sorted(os.listdir(path.parent)) == sorted([source.name, path.name] if is_there else [source.name])
    assert not is_there or path.read_text() == "before"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "ctrl-c"])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("suffix", formats.GRAPH_SUFFIXES)
def test_graphs_are_written_whole_or_not_at_all(tmp_path, graph, monkeypatch, suffix, is_there, error):
    path = tmp_path / f"graph{suffix}"
    if is_there:
        path.write_text("before")
    monkeypatch.setitem(graphs_module._WRITERS, suffix, torn(error))
    with pytest.raises(type(error)):
        write_graph(path, graph, np.arange(N))
    assert os.listdir(tmp_path) == ([path.name] if is_there else [])
    assert not is_there or path.read_text() == "before"


# ---------------------------------------------------------------- bad files


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def _pickled_npy(path):
    np.save(path, np.array([Bomb(path.with_name("harm"))], dtype=object), allow_pickle=True)


def _pickled_npz(path):
    np.savez(path, X=np.array([[Bomb(path.with_name("harm"))]], dtype=object), allow_pickle=True)


def _wild_npz(path):
    with path.open("wb") as file:  # indices far outside: unchecked, compiled code would follow them
        np.savez(file, data=np.ones(2), indices=np.array([0, 10**6]), indptr=np.array([0, 1, 2]), shape=(2, 2))


def _wild_scipy_npz(path):
    parts = {"data": np.ones(2), "indices": np.array([0, -(10**6)]), "indptr": np.array([0, 1, 2]), "shape": (2, 2)}
    np.savez(path, **parts, format=np.array(b"csr"))


def _formula(path):
    rows = ["a,b", *["1,2"] * 500, '=HYPERLINK("http://x"),2']
    path.write_text("\n".join(rows))


def _long_cell(path):
    path.write_text("a\tb\n" + "1" * 200_000 + "\t2\n")


def _null_bytes(path):
    path.write_bytes(b"1 2 3 4\n" + b"\x001 2 3 4\n" * 3)


def _script_parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"<script>": ["=cmd()", "\x1b[2J"], "a": ["x", "x"]}), path)


def _boasting_mtx(path):
    path.write_text("%%MatrixMarket matrix coordinate real general\n5 5 1000000000000000\n1 2 1.0\n")


def _boasting_array_mtx(path):
    path.write_text("%%MatrixMarket matrix array real general\n1000000000 1000000\n1.0\n")


def _weight_of_words(path):
    path.write_text("a b 1\nb c __import__('os')\n")


def _laughs(path):
    path.write_text(
        '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;">'
        '<!ENTITY c SYSTEM "file:///etc/passwd">]><graphml><graph><node id="&b;&c;"/></graph></graphml>'
    )


def _boasting_metis(path):
    path.write_text("99999999999 99999999999\n1\n")


def _linked_h5ad(path):
    import h5py

    _small_h5ad(path)
    os.rename(path, path.with_name("other"))
    with h5py.File(path, "w") as file:
        file["obs"] = h5py.ExternalLink("other", "/obs")
        file["X"] = h5py.ExternalLink("other", "/X")


def _wild_h5ad(path):
    import h5py

    _small_h5ad(path, sp.csr_matrix(np.eye(4)))
    with h5py.File(path, "r+") as file:
        file["X/indices"][:] = 10**6


def _small_h5ad(path, X=None):
    import anndata
    import pandas as pd

    X = np.ones((4, 4), dtype=np.float32) if X is None else X
    anndata.AnnData(X, obs=pd.DataFrame(index=list("abcd")), var=pd.DataFrame(index=list("abcd"))).write_h5ad(path)


HOSTILE = [
    ("bad.npy", _pickled_npy), ("bad.npz", _pickled_npz), ("wild.npz", _wild_npz), ("wild2.npz", _wild_scipy_npz),
    ("bad.csv", _formula), ("bad.tsv", _long_cell), ("bad.txt", _null_bytes), ("bad.parquet", _script_parquet),
    ("bad.mtx", _boasting_mtx), ("array.mtx", _boasting_array_mtx), ("bad.edges", _weight_of_words),
    ("bad.graphml", _laughs), ("bad.graph", _boasting_metis), ("bad.h5ad", _linked_h5ad), ("wild.h5ad", _wild_h5ad),
]  # fmt: skip


def refused(path, capsys, *arguments) -> str:
    """The sentence about a file that cannot be used, once it is known that this is all that happened."""
    before = {one: one.stat().st_mtime_ns for one in path.parent.iterdir()}
    for command in (["cluster", str(path), "-k", "3"], ["graph", str(path)]):
        with pytest.raises(SystemExit) as exit_:
            main([*command, *arguments])
        out, err = capsys.readouterr()
        assert exit_.value.code == 2
        assert out == ""
        assert err.startswith("tautcut: ")
        assert err.count("\n") == 1
        assert err.rstrip("\n").isprintable()
        assert len(err) < 500
    assert {one: one.stat().st_mtime_ns for one in path.parent.iterdir()} == before
    return err


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_cut_short(make, capsys, monkeypatch, name):
    path = make(name)
    monkeypatch.chdir(path.parent)
    content = path.read_bytes()
    half = content[: len(content) // 2]
    if name.endswith((".csv", ".tsv", ".txt", ".edges")):  # inside a line; text that ends with one is a shorter file
        half = half[: half.rindex(b"\n")].rstrip()
        half = half[: max(half.rindex(c) for c in (b",", b"\t", b" ") if c in half)]
    path.write_bytes(half)
    refused(path, capsys)


@pytest.mark.parametrize("name", WRITERS)
def test_an_empty_file(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.touch()
    refused(path, capsys)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_something_else(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    refused(path, capsys)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_words(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_text("<html>\n<body>404: this file is not here any more</body>\n</html>\n")
    refused(path, capsys)


@pytest.mark.parametrize(("name", "write"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_a_hostile_file(tmp_path, capsys, monkeypatch, name, write):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    write(path)
    refused(path, capsys)
    assert not (tmp_path / "harm").exists()


@given(cut=st.integers(0, 10**6), name=st.sampled_from(["digits.npy", "sparse.npz", "digits.graphml", "digits.graph"]))
def test_wherever_a_file_is_cut_reading_it_ends_in_a_sentence(tmp_path_factory, digits, graph, cut, name):
    path = tmp_path_factory.mktemp("cut") / name
    WRITERS[name](path, *digits, graph)
    content = path.read_bytes()
    path.write_bytes(content[: cut % (len(content) - 2)])
    with pytest.raises(InputError, match=rf"{name}"):
        read(path)


@pytest.mark.parametrize(
    ("path", "words"),
    [("missing.csv", "does not exist"), ("digits.xyz", "no known format"), ("digits", "no known format")],
)
def test_a_file_that_is_not_there(tmp_path, capsys, monkeypatch, path, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused(tmp_path / path, capsys)


def test_a_folder_is_no_file(tmp_path, capsys):
    (tmp_path / "data.csv").mkdir()
    assert "is a folder" in refused(tmp_path / "data.csv", capsys)


def test_a_package_that_is_not_installed(make, capsys, monkeypatch):
    path = make("digits.h5ad")
    monkeypatch.chdir(path.parent)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "h5py", None)
        assert "pip install 'tautcut[formats]'" in refused(path, capsys)
    monkeypatch.setitem(sys.modules, "anndata.io", None)
    with pytest.raises(InputError, match="needs the package anndata"):  # before anything is computed
        formats.check_label_path(path.with_name("out.h5ad"), path)


# ---------------------------------------------------------------- features or a graph


def test_content_decides_and_kind_overrules(tmp_path):
    W = np.array([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]])
    path = tmp_path / "w.npy"
    np.save(path, W)
    assert read(path).kind == "graph"
    assert "not distances" in read(path).notes[0]
    assert read(path, kind="features").kind == "features"
    for other in (W + np.eye(3), -W, np.triu(W), W[:2]):
        np.save(path, other)
        assert read(path).kind == "features"
    sp.save_npz(tmp_path / "w.npz", sp.csr_matrix(W + np.eye(3)))
    assert read(tmp_path / "w.npz").kind == "graph"
    with pytest.raises(InputError, match="features, graph; found 'table'"):
        read(path, kind="table")


def test_a_square_table_is_a_graph_too(tmp_path):
    (tmp_path / "w.csv").write_text("a,b,c,d\n0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n")
    data = read(tmp_path / "w.csv")
    assert data.kind == "graph"
    assert data.content.n_edges == 4


@pytest.mark.parametrize(
    ("name", "text", "kind", "expected"),
    [
        ("e.csv", "source,target\na,b\nb,c\n", None, "graph"),
        ("e.csv", "From;To;Weight\na;b;2\nb;c;2\n", None, "graph"),
        ("e.csv", "1,2\n2,3\n3,4\n", None, "features"),
        ("e.csv", "1,2\n2,3\n3,4\n", "graph", "graph"),
        ("e.csv", "left,right,weight\n1,2,0.5\n2,3,0.5\n", "graph", "graph"),
        ("e.txt", "1 2\n2 3\n3 4\n", None, "graph"),
        ("e.txt", "% a comment\n1 2 0.5\n2 3 0.5\n", None, "graph"),
        ("e.txt", "1 2\n2 3\n3 4\n", "features", "features"),
        ("e.txt", "1.5 2\n2 3\n3 4\n", None, "features"),
        ("e.tsv", "u\tv\n1\t2\n2\t3\n", None, "graph"),
        ("e.edges", "a b\nb c\n", None, "graph"),
    ],
)
def test_edge_lists_are_recognised(tmp_path, name, text, kind, expected):
    (tmp_path / name).write_text(text)
    data = read(tmp_path / name, kind=kind)
    assert data.kind == expected
    if expected == "graph":
        assert data.content.n_edges == len(data.ids) - 1
    is_said = kind is None and name != "e.edges" and "1.5" not in text
    assert is_said == any("edges" in note for note in data.notes)


def test_large_numbers_of_vertices_stay_apart(tmp_path):
    big = 2**53
    (tmp_path / "e.edges").write_text(f"{big} {big + 1}\n{big + 1} {big + 2}\n")
    assert read(tmp_path / "e.edges").ids.tolist() == [big, big + 1, big + 2]
    (tmp_path / "e.edges").write_text("007 7\n7 x\n")
    assert read(tmp_path / "e.edges").ids.tolist() == ["007", "7", "x"]


def test_an_edge_with_two_weights_is_refused(tmp_path):
    (tmp_path / "e.edges").write_text("a b 1\nb a 2\n")
    with pytest.raises(InputError, match="different weights"):
        read(tmp_path / "e.edges")


def test_graphml_weights_defaults_and_directions(tmp_path):
    path = tmp_path / "g.graphml"
    path.write_text(
        '<graphml><key id="k" for="edge" attr.name="weight" attr.type="double"><default>3</default></key>'
        '<key id="c" for="node" attr.name="colour"/><graph edgedefault="directed">'
        '<node id="n1"><data key="c">red</data></node><node id="n0"/><node id="n2"/>'
        '<edge source="n0" target="n1"/><edge source="n1" target="n2"><data key="k">2</data></edge></graph></graphml>'
    )
    data = read(path, label_column="colour")
    assert data.ids.tolist() == ["n1", "n0", "n2"]
    assert data.content.to_scipy().toarray().tolist() == [[0, 3, 2], [3, 0, 0], [2, 0, 0]]
    assert data.labels.tolist() == ["red", "", ""]
    assert "undirected" in data.notes[0]
    with pytest.raises(InputError, match="no attribute 'size'"):
        read(path, label_column="size")


@pytest.mark.parametrize("name", ["digits.graphml", "digits.graph", "digits.edges"])
def test_a_graph_has_no_features(make, name):
    path = make(name)
    with pytest.raises(InputError, match="holds no features"):
        read(path, kind="features")
    with pytest.raises(InputError, match="without columns"):
        read(path, columns=["a"])


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("text", "names", "n"),
    [
        ("a,b\n1,2\n3,4\n", ("a", "b"), 2),
        ("1,2\n3,4\n", ("0", "1"), 2),
        ("0,1,2,3\n5,6,7,8\n", ("0", "1", "2", "3"), 1),  # a data frame without names
        (",0,1,2,3\n0,5,6,7,8\n1,5,6,7,8\n", ("0", "1", "2", "3"), 2),  # and with its index
        ("x,1,2\ny,3,4\n", ("1", "2"), 2),  # ids, and no header
        ("a;b\n1;2\n3;4\n", ("a", "b"), 2),
        ('"a, b",c\n1,2\n', ("a, b", "c"), 1),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", ("a", "b"), 2),
        ("a\n1\n2\n", ("a",), 2),
    ],
)
def test_headers_are_found(tmp_path, text, names, n):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    data = read(tmp_path / "t.csv", kind="features")
    assert data.names == names
    assert data.content.shape == (n, len(names))


def test_a_few_odd_cells_are_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x,y,colour\na,1,2,red\nb,few,3,blue\nb,2,4,red\nc,3,5,blue\n")
    with pytest.raises(InputError, match=r"column 'x' holds numbers, but 1 of its cells is not: the first is 'few'"):
        read(path)
    assert read(path, without=["x"]).notes == (
        "Ids are in column 'id'; some occur more than once.",
        "Left out because they hold text: 'colour'.",
    )


TABLE = "id,x1,x2,y,colour,class\n007,1,2,3,red,0\n008,4,5,6,red,1\n"


def test_columns_are_chosen_by_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    data = read(path)
    assert data.names == ("x1", "x2", "y")
    assert data.ids.tolist() == ["007", "008"]
    assert data.notes == (
        "Ids are in column 'id'.",
        "Left out because they look like labels: 'class'.",
        "Left out because they hold text: 'colour'.",
    )
    assert read(path, columns=["x*", "class"]).names == ("x1", "x2", "class")
    assert read(path, columns=["id", "y"]).content.tolist() == [[7, 3], [8, 6]]
    assert read(path, id_column="y").ids.tolist() == [3, 6]
    assert read(path, label_column="colour").labels.tolist() == ["red", "red"]
    for options, words in (
        ({"columns": ["z"]}, "no column 'z'"),
        ({"columns": ["colour"]}, "does not hold numbers"),
        ({"id_column": "z"}, "no column 'z'"),
        ({"label_column": "z"}, "no column 'z'"),
        ({"array": "X"}, "is a table"),
    ):
        with pytest.raises(InputError, match=words):
            read(path, **options)


def test_parquet_columns_are_chosen_by_name(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [7, 8], "a": [1, 2], "b": [True, False], "label": ["x", None]}), path)
    data = read(path, label_column="label")
    assert data.names == ("a", "b")
    assert data.content.tolist() == [[1, 1], [2, 0]]
    assert data.ids.tolist() == [7, 8]
    assert data.labels.tolist() == ["x", ""]
    pq.write_table(pa.table({"a": [1.0, None]}), path)
    with pytest.raises(InputError, match=r"1 value is missing.*row 1, column 'a'"):
        read(path)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("", "1 value is missing"),
        ("nan", "1 value is missing"),
        ("inf", "found inf"),
        ("x", "'x'"),
        ("1,2", "4 columns in place of 3"),
    ],
)
def test_what_is_no_number_is_told_with_its_place(tmp_path, cell, words):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n" + "1,2,3\n" * 200 + f"1,{cell},3\n")
    with pytest.raises(InputError, match=words) as error:
        read(tmp_path / "t.csv")
    assert "line 203" in str(error.value)


@given(
    st.lists(
        st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3), min_size=1, max_size=20, unique=True
    )
)  # fmt: skip
def test_numbers_keep_every_digit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
    assert read(path, kind="features").content.tolist() == [list(row) for row in rows]


# ---------------------------------------------------------------- arrays


def test_arrays_of_a_npz(tmp_path, digits):
    path = tmp_path / "d.npz"
    np.savez(path, pixels=digits[0], y=digits[1])
    assert read(path, label_column="y").labels.tolist() == [str(label) for label in digits[1]]
    np.savez(path, pixels=digits[0], others=digits[0], y=digits[1], few=digits[1][:3])
    assert read(path, array="pixels").content.shape == (N, 64)
    for options, words in (
        ({}, "several arrays"),
        ({"array": "z"}, "no array 'z'"),
        ({"array": "y"}, "shape"),
        ({"array": "pixels", "label_column": "z"}, "no array 'z' of labels"),
        ({"array": "pixels", "label_column": "few"}, "3 labels for 150 rows"),
        ({"columns": ["a"]}, "no columns"),
    ):
        with pytest.raises(InputError, match=words):
            read(path, **options)


def test_pictures_and_small_types(tmp_path):
    path = tmp_path / "d.npy"
    np.save(path, np.ones((5, 4, 3), dtype=np.float16))
    data = read(path)
    assert data.content.shape == (5, 12)
    assert data.content.dtype == np.float32
    assert data.image_shape == (4, 3)
    np.save(path, np.ones((5, 2), dtype=bool))
    assert read(path).content.dtype == np.uint8
    for array, words in (
        (np.ones(5), r"shape \(5,\)"),
        (np.ones((5, 2), dtype=complex), "complex128"),
        (np.array([["a", "b"]]), "<U1"),
        (np.ones((0, 3)), r"\(0, 3\)"),
        (np.ones((3, 0)), r"\(3, 0\)"),
    ):
        np.save(path, array)
        with pytest.raises(InputError, match=words):
            read(path)


def test_sparse_features(tmp_path, digits):
    sp.save_npz(tmp_path / "d.npz", sp.csr_matrix(digits[0]))
    scipy.io.mmwrite(tmp_path / "d.mtx", sp.coo_matrix(digits[0]))
    for name in ("d.npz", "d.mtx"):
        data = read(tmp_path / name)
        assert data.kind == "features"
        assert np.array_equal(data.content.toarray(), digits[0])


def test_parts_of_an_h5ad(make, digits, graph):
    path = make("digits.h5ad")
    assert read(path, kind="features").content.shape == (N, 10)
    assert np.array_equal(read(path, array="X").content, digits[0].astype(np.float32))
    assert same_graph(read(path, array="obsp/connectivities").content, graph)
    assert read(path, label_column="digit").labels.tolist() == [str(label) for label in digits[1]]
    for options, words in (
        ({"array": "obsm/X_umap"}, "holds no 'obsm/X_umap'"),
        ({"array": "uns/x"}, "must be X or in obsm"),
        ({"label_column": "z"}, "no column 'z'"),
        ({"columns": ["a"]}, "not columns"),
    ):
        with pytest.raises(InputError, match=words):
            read(path, **options)


# ---------------------------------------------------------------- known labels


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["3", "", "-1", "nan", "05"], [3, None, None, None, 5]),
        (["1.0", "2.0", ""], [1, 2, None]),
        (["a", "", "3"], ["a", None, "3"]),
        (["1.5", "2"], ["1.5", "2"]),
    ],
)
def test_known_labels(texts, labels):
    assert known_labels(texts).tolist() == labels


def test_no_known_label_is_refused():
    with pytest.raises(InputError, match="no label is known"):
        known_labels(["", "-1"])


@pytest.mark.parametrize(
    "text",
    [
        "id,label\nb,1\na,0\n", "b,1\na,0\n", "label,id\n1,b\n0,a\n", "id;class\nb;1\na;0\n",
        "confidence,id,label\n0.5,b,1\n0.5,a,0\n", "id,label\na,0\nb,1\na,0\nc,\n",
    ],
)  # fmt: skip
def test_labels_are_joined_by_id(tmp_path, text):
    (tmp_path / "l.csv").write_text(text)
    assert read_labels(tmp_path / "l.csv", np.array(["a", "b", "c"])).tolist() == [0, 1, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,label\nz,1\n", "labels 'z', which is not an id"),
        ("id,label\na,1\na,2\n", "again, and differently"),
        ("id,label\na\n", "cut short"),
        ("label\n1\n", "two columns"),
        ("a,b,c\n1,2,3\n", "two columns"),
        ("", "is empty"),
        ("id,label\na,\n", "no label is known"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, text, words):
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_labels(tmp_path / "l.csv", np.array(["a", "b"]))


def test_ids_that_are_not_distinct_cannot_be_joined(tmp_path):
    (tmp_path / "l.csv").write_text("id,label\na,1\n")
    with pytest.raises(InputError, match="not distinct"):
        read_labels(tmp_path / "l.csv", np.array(["a", "a"]))


def test_columns_without_a_role_are_kept_beside_the_features(tmp_path, make):
    rows = [[f"r{i}", 1.5 * i, i % 3, "red" if i % 2 else "blue", i % 4] for i in range(12)]
    (tmp_path / "t.csv").write_text("id,a,b,colour,target\n" + "\n".join(",".join(map(str, row)) for row in rows))
    others = read(tmp_path / "t.csv").others()
    assert {name: one.tolist() for name, one in others.items()} == {
        "target": [str(i % 4) for i in range(12)], "colour": ["blue", "red"] * 6,
    }  # fmt: skip
    chosen = read(tmp_path / "t.csv", columns=["a"], label_column="target").others()
    assert set(chosen) == {"b", "colour"}
    assert list(read(make("digits.h5ad")).others()) == ["digit"]
    assert read(make("digits.npy")).others() == {}
