"""Masses of rows and vertices: read from all formats that can hold them, kept by the writers, refused in a sentence."""

from __future__ import annotations

import csv
import warnings

import anndata
import h5py
import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tautcut import Graph, formats
from tautcut.errors import GraphWarning, InputError
from tautcut.formats import read, write_graph

PATH = Graph.from_edges([(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 1.0])
MASSES = [1.0, 2.5, 4.0, 0.25]
ROWS = [[0.0, 1.5], [0.5, 1.0], [7.0, 8.0], [7.5, 9.0]]


def table(path, masses=MASSES, *, name="w"):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "x", "y", name])
        writer.writerows([f"p{i}", *row, mass] for i, (row, mass) in enumerate(zip(ROWS, masses, strict=True)))
    return path


def parquet(path, masses=MASSES):
    columns = {"name": list("abcd"), **{f"x{j}": list(column) for j, column in enumerate(zip(*ROWS, strict=True))}}
    pq.write_table(pa.table({**columns, "w": masses}), path)
    return path


def h5ad(path, masses=MASSES, *, graph=None):
    obs = pd.DataFrame({"w": masses}, index=list("abcd"))
    cells = anndata.AnnData(np.array(ROWS, dtype=np.float32), obs=obs)
    if graph is not None:
        cells.obsp["connectivities"] = graph.to_scipy()
    cells.write_h5ad(path)
    return path


def graphml(path, masses=MASSES, *, name="mass", default=""):
    nodes = "".join(
        f'<node id="n{i}">{"" if mass is None else f"""<data key="m">{mass}</data>"""}</node>'
        for i, mass in enumerate(masses)
    )
    edges = "".join(f'<edge source="n{i}" target="n{i + 1}"/>' for i in range(len(masses) - 1))
    key = f'<key id="m" for="node" attr.name="{name}" attr.type="double">{default}</key>'
    path.write_text(f'<graphml>{key}<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>')
    return path


# ---------------------------------------------------------------- there and back


def test_a_column_of_a_table_is_the_masses_and_no_feature(tmp_path):
    data = read(table(tmp_path / "a.csv"), mass_column="w")
    assert data.masses.tolist() == MASSES
    assert data.names == ("x", "y")
    assert "w" not in data.others()
    assert read(table(tmp_path / "a.csv")).masses is None  # nobody asked


def test_a_column_of_masses_is_neither_a_key_nor_the_ids(tmp_path):
    data = read(table(tmp_path / "a.csv", [4, 3, 2, 1], name="id"), mass_column="id")
    assert data.masses.tolist() == [4, 3, 2, 1]
    assert data.ids.tolist() == ["p0", "p1", "p2", "p3"]


def test_masses_with_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("x;w\n1,5;2,5\n2,5;1,25\n3,5;4\n")
    assert read(tmp_path / "a.csv", mass_column="w").masses.tolist() == [2.5, 1.25, 4]


@pytest.mark.parametrize("write", [parquet, h5ad])
def test_a_column_of_other_tables_is_the_masses(tmp_path, write):
    path = write(tmp_path / f"a.{write.__name__}")
    data = read(path, mass_column="w")
    assert data.masses.tolist() == MASSES
    assert data.content.shape == (4, 2)


def test_cells_of_a_graph_have_masses(tmp_path):
    data = read(h5ad(tmp_path / "a.h5ad", graph=PATH), mass_column="w")
    assert data.content.masses.tolist() == MASSES


def test_an_array_of_a_npz_file_is_the_masses(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array(ROWS), m=MASSES, masses=[9, 9, 9, 9])
    assert read(tmp_path / "a.npz", mass_column="m").masses.tolist() == MASSES
    assert read(tmp_path / "a.npz").masses is None  # of features, masses are named


def test_a_square_table_of_similarities_has_masses(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,w\n0,1,0,5\n1,0,2,6\n0,2,0,7\n")
    data = read(tmp_path / "a.csv", mass_column="w")
    assert data.kind == "graph"
    assert data.content.masses.tolist() == [5, 6, 7]


@pytest.mark.parametrize("suffix", [".npz", ".graphml", ".graph"])
@pytest.mark.parametrize("masses", [[1, 2, 3, 4], [2, 2, 2, 2], MASSES])
def test_masses_are_written_as_they_are_read(tmp_path, suffix, masses):
    path, graph = tmp_path / f"g{suffix}", PATH.with_masses(masses)
    if suffix == ".graph" and masses is MASSES:
        with pytest.raises(InputError, match="whole masses only"):
            write_graph(path, graph, np.arange(4))
        return
    write_graph(path, graph, np.arange(4))
    again = read(path).content
    assert again.masses.tolist() == [float(mass) for mass in masses]
    assert np.array_equal(again.to_scipy().toarray(), graph.to_scipy().toarray())


@pytest.mark.parametrize("suffix", formats.GRAPH_SUFFIXES)
def test_without_masses_files_are_as_they_were(tmp_path, suffix):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_graph(tmp_path / f"g{suffix}", PATH, np.arange(4))
    content = (tmp_path / f"g{suffix}").read_bytes()
    assert b"mass" not in content
    if suffix == ".graph":
        assert content == b"4 3 001\n2 1\n1 1 3 2\n2 2 4 1\n3 1\n"
    data = read(tmp_path / f"g{suffix}")
    assert data.masses is None
    assert not data.content.has_masses


@pytest.mark.parametrize("suffix", [".mtx", ".edges"])
def test_what_cannot_hold_masses_says_so(tmp_path, suffix):
    with pytest.warns(GraphWarning, match="without the masses"):
        write_graph(tmp_path / f"g{suffix}", PATH.with_masses(MASSES), np.arange(4))
    assert read(tmp_path / f"g{suffix}").content.n_edges == 3


def test_others_can_read_what_is_written(tmp_path):
    graph = PATH.with_masses([1, 2, 3, 4])
    write_graph(tmp_path / "g.npz", graph, np.arange(4))
    assert (sp.load_npz(tmp_path / "g.npz") != graph.to_scipy()).nnz == 0
    write_graph(tmp_path / "g.graphml", graph, np.arange(4))
    nodes = nx.read_graphml(tmp_path / "g.graphml").nodes(data="mass")
    assert dict(nodes) == {"0": 1.0, "1": 2.0, "2": 3.0, "3": 4.0}


@pytest.mark.parametrize(
    ("content", "masses"),
    [
        ("3 2 10\n9 2\n8 1 3\n7 2\n", [9, 8, 7]),
        ("3 2 011\n9 2 5\n8 1 5 3 7\n7 2 7\n", [9, 8, 7]),
        ("3 2 011 1\n9 2 5\n8 1 5 3 7\n7 2 7\n", [9, 8, 7]),
        ("3 2 111\n1 9 2 5\n1 8 1 5 3 7\n1 7 2 7\n", [9, 8, 7]),  # a size comes first, and is no mass
        ("3 2 100\n5 2\n5 1 3\n5 2\n", None),
        ("3 1 010\n9 2\n8 1\n7\n", [9, 8, 7]),  # the last vertex has no edge
    ],
)
def test_weights_of_vertices_in_metis_are_masses(tmp_path, content, masses):
    (tmp_path / "a.graph").write_text(content)
    data = read(tmp_path / "a.graph")
    assert (data.masses is None) if masses is None else (data.content.masses.tolist() == masses)
    assert data.content.n_edges == int(content.split()[1])


def test_the_attribute_mass_of_nodes_is_taken_and_others_are_named(tmp_path):
    assert read(graphml(tmp_path / "a.graphml")).content.masses.tolist() == MASSES
    other = graphml(tmp_path / "b.graphml", name="population")
    assert not read(other).content.has_masses
    assert read(other, mass_column="population").content.masses.tolist() == MASSES


def test_a_weight_of_nodes_is_told_and_not_taken(tmp_path):
    data = read(graphml(tmp_path / "a.graphml", name="weight"))
    assert not data.content.has_masses
    assert any("--mass-column weight" in note for note in data.notes)
    assert data.content.is_unweighted  # it is no weight of edges


def test_a_default_of_graphml_is_the_mass_of_nodes_without_one(tmp_path):
    path = graphml(tmp_path / "a.graphml", [3, None, 4], default="<default>2</default>")
    assert read(path).content.masses.tolist() == [3, 2, 4]


@pytest.mark.parametrize("suffix", [".gml", ".gexf"])
def test_networks_have_masses(tmp_path, suffix):
    G = nx.path_graph(4)
    nx.set_node_attributes(G, dict(enumerate(MASSES)), "mass")
    (nx.write_gml if suffix == ".gml" else nx.write_gexf)(G, tmp_path / f"a{suffix}")
    assert read(tmp_path / f"a{suffix}").content.masses.tolist() == MASSES


def test_rows_without_a_mass_are_left_out_if_asked(tmp_path):
    path = table(tmp_path / "a.csv", [1, "", 3, 4])
    data = read(path, mass_column="w", missing="drop")
    assert data.masses.tolist() == [1, 3, 4]
    assert data.dropped.tolist() == [1]
    with pytest.raises(InputError, match="found nan in line 3"):
        read(path, mass_column="w", missing="median")  # masses are not invented


def test_the_place_is_that_of_the_file_though_rows_were_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,w\n,1,1\n2,2,1\n3,4,-5\n5,5,1\n")
    with pytest.raises(InputError, match=r"found -5\.0 in line 4"):
        read(tmp_path / "a.csv", mass_column="w", missing="drop")


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("0", "found 0.0 in line 4"),
        ("-1", "found -1.0 in line 4"),
        ("", "found nan in line 4"),
        ("nan", "found nan in line 4"),
        ("inf", "found inf in line 4|found 'inf' in line 4"),
        ("1e999", "found inf in line 4"),
        ("heavy", "found 'heavy' in line 4, column 'w'"),
        ("1e308", "overflows"),
        ("1e14", "in line 4 is more than 1e.12 times all others"),
    ],
)
def test_bad_masses_of_a_table(tmp_path, bad, words):
    path = table(tmp_path / "a.csv", [1, 1e308 if bad == "1e308" else 2, bad, 3])
    with pytest.raises(InputError, match=words):
        read(path, mass_column="w")


def test_a_column_of_words_is_refused(tmp_path):
    with pytest.raises(InputError, match="masses must be numbers > 0; found 'a' in line 2"):
        read(table(tmp_path / "a.csv", ["a", "b", "c", "d"]), mass_column="w")
    with pytest.raises(InputError, match="column 'w' is empty"):
        read(table(tmp_path / "a.csv", [""] * 4), mass_column="w")


def test_a_column_that_is_not_there_or_is_something_else(tmp_path):
    path = table(tmp_path / "a.csv")
    with pytest.raises(InputError, match="no column 'nope'"):
        read(path, mass_column="nope")
    for role in ("id_column", "label_column"):
        with pytest.raises(InputError, match="cannot hold masses and something else"):
            read(path, mass_column="w", **{role: "w"})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("2 1 010 2\n1 1 2\n1 1 1\n", "2 weights for each vertex.*ncon 1"),
        ("2 1 010\n0 2\n1 1\n", "found 0.0 for vertex '1'"),
        ("2 1 010\n1 2\n-3 1\n", "found -3.0 for vertex '2'"),
        ("2 1 010\n1 2\nnan 1\n", "found nan for vertex '2'"),
        ("2 1 010\n1 2\n1e400 1\n", "found inf for vertex '2'"),
        ("2 0 010\n1\n\n", "vertex 2 has no weight"),
        ("2 0 100\n1\n\n", "vertex 2 has no size"),
    ],
)
def test_bad_weights_of_metis(tmp_path, content, words):
    (tmp_path / "a.graph").write_text(content)
    with pytest.raises(InputError, match=words):
        read(tmp_path / "a.graph")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("0", "found 0.0 for vertex 'n1'"),
        ("-2", "found -2.0 for vertex 'n1'"),
        ("x", "found 'x' for 'n1'"),
        ("1e999", "found inf for vertex 'n1'"),
        (None, "found nan for vertex 'n1'"),
    ],
)
def test_bad_masses_of_nodes(tmp_path, bad, words):
    with pytest.raises(InputError, match=words):
        read(graphml(tmp_path / "a.graphml", [1, bad, 3]))


def test_a_node_attribute_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no attribute 'nope'"):
        read(graphml(tmp_path / "a.graphml"), mass_column="nope")


@pytest.mark.parametrize(
    ("masses", "words"),
    [
        ([1, 2, 3], "must be 4 numbers"),
        ([[1, 2], [3, 4]], "shape \\(2, 2\\)"),
        (["a", "b", "c", "d"], "masses must be one number > 0"),
        ([1, 2, 0, 4], "found 0.0 for vertex '2'"),
    ],
)
def test_bad_masses_beside_a_sparse_matrix(tmp_path, masses, words):
    W = PATH.to_scipy()
    parts = {"data": W.data, "indices": W.indices, "indptr": W.indptr, "shape": W.shape}
    np.savez(tmp_path / "a.npz", masses=np.array(masses), **parts)
    with pytest.raises(InputError, match=words):
        read(tmp_path / "a.npz")


def test_bad_masses_of_cells(tmp_path):
    with pytest.raises(InputError, match="found 'heavy' for 'b'"):
        read(h5ad(tmp_path / "a.h5ad", ["1", "heavy", "2", "3"]), mass_column="w")
    path = h5ad(tmp_path / "b.h5ad")
    with h5py.File(path, "r+") as file:
        del file["obs/w"]
        file["obs"].create_dataset("w", data=np.ones(3)).attrs["encoding-type"] = "array"
    with pytest.raises(InputError, match="3 rows for 4 cells"):
        read(path, mass_column="w")


@pytest.mark.parametrize("suffix", [".npy", ".mtx", ".edges", ".graph"])
def test_formats_without_names_refuse_one(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        np.save(path, np.array(ROWS))
    else:
        write_graph(path, PATH, np.arange(4))
    with pytest.raises(InputError, match="masses"):
        read(path, mass_column="w")
