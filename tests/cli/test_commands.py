"""`cluster`, `classify`, `next`, `graph` and `suggest` as a user meets them: a file in, labels out, one JSON object if
asked for, a sentence for every mistake, and the best so far after Ctrl-C.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from tautcut import (
    Graph,
    MTVClassifier,
    MTVClustering,
    balanced_cut_energy,
    formats,
    interrupts,
    knn_graph,
    next_to_label,
    purity,
    walk_graph,
    writing,
)
from tautcut.algorithm import results
from tautcut.algorithm.stopping import Status
from tautcut.cli import app, main, shell
from tautcut.formats import read, write_graph
from tautcut.graph.confidence import confidence
from tautcut.metrics import ari
from tautcut.problem import Problem

pytestmark = pytest.mark.usefixtures("light_search")

N, R = 400, 10
BRIEF = ("--search", "none")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:N], y[:N]


@pytest.fixture
def folder(tmp_path, monkeypatch, digits):
    """The current folder, with a table of digits: ids, pixels and the truth."""
    monkeypatch.chdir(tmp_path)
    X, y = digits
    with open("digits.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"pixel{j}" for j in range(64)), "target"])
        writer.writerows([f"d{i}", *row, label] for i, (row, label) in enumerate(zip(X, y, strict=True)))
    return tmp_path


@pytest.fixture
def few(folder, digits):
    """Three labels of each class, by id."""
    rows = [(f"d{i}", label) for r in range(R) for i, label in enumerate(digits[1]) if label == r]
    kept = [row for r in range(R) for row in [one for one in rows if one[1] == r][:3]]
    with open("few.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *kept])
    return dict(kept)


@pytest.fixture
def names(folder):
    """The names of the files in the folder besides the input."""
    return lambda: sorted(path.name for path in folder.iterdir() if path.name != "digits.csv")


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    out, err = capsys.readouterr()
    assert exit_.value.code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("tautcut: ")
    return err


def rows_of(path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------- cluster


def test_from_a_table_to_labels(folder, names, digits):
    result = run("cluster", "digits.csv", "-k", "10")
    assert result.exit_code == 0, result.output
    assert names() == ["digits-tautcut.csv"]
    rows = rows_of("digits-tautcut.csv")
    assert [row["id"] for row in rows] == [f"d{i}" for i in range(N)]
    labels = np.array([int(row["label"]) for row in rows])
    assert purity(labels, digits[1]) > 0.85
    graph = knn_graph(digits[0], 10)
    energy = float(balanced_cut_energy(graph, labels))
    assert f"Energy (P): {energy:.6g}" in result.stdout
    partition = Problem(graph, R).partition(labels)
    certain = confidence(graph, labels, R)
    lines = [line.split() for line in result.stdout.splitlines()]
    for r in range(R):
        mean = certain[labels == r].mean()
        assert [str(r), str(partition.sizes[r]), f"{partition.terms[r]:.4g}", f"{mean:.2f}"] in lines
    sure = [float(row["confidence"]) for row in rows]
    assert np.allclose(sure, confidence(graph, labels, R), atol=1e-6)
    assert list(rows[0]) == ["id", "label", "confidence"]
    assert "holds features, 400 rows × 64 columns" in result.stderr
    assert "Left out because they look like labels: 'target'" in result.stderr
    assert "exact search" in result.stderr
    assert "--as" not in result.stderr  # a table that is not square cannot be a graph


def test_clusters_that_strain_against_the_expected_sizes_are_told(folder):
    X, _ = make_blobs([800, 60, 60], n_features=6, cluster_std=1.4, center_box=(-3, 3), random_state=0)
    np.save("uneven.npy", X)
    X, _ = make_blobs([200, 200], n_features=6, random_state=0)
    np.save("even.npy", X)
    told, silent = (run("cluster", f"{name}.npy", "-k", k) for name, k in (("uneven", "3"), ("even", "2")))
    (line,) = [line for line in told.stdout.splitlines() if "strain" in line]
    shares = re.search(r"the shares ([0-9.,]+) as class_prior \(--class-prior on the command line\)", line)[1]
    assert sum(map(float, shares.split(","))) == pytest.approx(1)
    assert "strain" not in silent.stdout
    again = run("cluster", "uneven.npy", "-k", "3", "--class-prior", shares, "--json")
    assert again.exit_code == 0, again.output
    assert set(json.loads(again.stdout)["strain"]) == {
        "is_strained", "fall", "less_cut", "shares", "clusters", "finding",
    }  # fmt: skip


def test_json_is_one_object_and_all_of_standard_output(folder, names):
    result = run("cluster", "digits.csv", *BRIEF, "--n-clusters", "10", "--json", "--out", "l.npy", "--seed", "3")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    table = np.load("l.npy", allow_pickle=False)
    sizes = [cluster["size"] for cluster in content["clusters"]]
    assert sizes == np.bincount(table["label"]).tolist()
    assert sum(cluster["term"] for cluster in content["clusters"]) == pytest.approx(content["energy"])
    for r, cluster in enumerate(content["clusters"]):
        assert cluster["label"] == r
        assert cluster["confidence"] == pytest.approx(table["confidence"][table["label"] == r].mean(), rel=1e-5)
    model = MTVClustering(R, search="none", random_state=3).fit(read("digits.csv").content)
    assert (content["energy"], content["relaxed_energy"]) == (model.energy_, model.relaxed_energy_)
    assert (content["status"], content["n_iter"]) == (str(model.status_), model.n_iter_)
    np.testing.assert_array_equal(table["label"], model.labels_)
    assert content["command"] == "cluster"
    assert content["input"]["kind"] == "features"
    assert content["neighbors"]["method"] == "exact"
    assert content["settings"]["n_clusters"] == 10
    assert content["seed"] == 3
    assert content["out"] == "l.npy"
    assert content["report"] is None
    assert content["diagnosis"]["n_clusters"] == 10
    assert names() == ["l.npy"]


def test_the_same_seed_gives_the_same_file(folder):
    for name in ("a.csv", "b.csv"):
        assert run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--out", name).exit_code == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()


def test_columns_and_ids_by_name(folder):
    result = run("cluster", "digits.csv", *BRIEF, "-k", "3", "--columns", "pixel1*,pixel20", "--columns", "pixel30",
                 "--id-column", "target", "--out", "l.json", "--quiet")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert json.loads((folder / "l.json").read_text())["vertices"][7]["id"] == 7


def test_a_graph_is_recognised_and_said(folder, digits):
    write_graph(folder / "g.mtx", knn_graph(digits[0], 10), np.arange(N))
    result = run("cluster", "g.mtx", *BRIEF, "-k", "10")
    assert result.exit_code == 0, result.output
    assert "holds a graph of 400 vertices" in result.stderr
    assert "--as features overrules" in result.stderr
    assert rows_of("g-tautcut.csv")[0]["id"] == "1"
    assert run("graph", "g.mtx", "--as", "features").exit_code == 0


def test_labels_go_into_a_copy_of_an_h5ad(folder, names, digits):
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    obs = pandas.DataFrame(index=[f"cell {i}" for i in range(N)])
    var = pandas.DataFrame(index=[f"gene {j}" for j in range(64)])
    anndata.AnnData(digits[0], obs=obs, var=var).write_h5ad("cells.h5ad")
    result = run("cluster", "cells.h5ad", *BRIEF, "-k", "10", "--out", "out.h5ad")
    assert result.exit_code == 0, result.output
    adata = anndata.read_h5ad("out.h5ad")
    assert purity(adata.obs["tautcut"].to_numpy(), digits[1]) > 0.7
    assert names() == ["cells.h5ad", "out.h5ad"]


def test_warnings_come_before_the_run(folder, digits):
    X = digits[0]
    np.save("apart.npy", np.r_[X[:60], X[:60] + 1000])
    result = run("cluster", "apart.npy", *BRIEF, "-k", "3")
    assert result.exit_code == 0, result.output
    assert "Warning: " in result.stderr
    assert result.stderr.index("Warning: ") < result.stderr.index("Clustering")


@pytest.mark.parametrize("status", [Status.INTERRUPTED, None])
def test_ctrl_c_writes_the_best_so_far_and_says_so(folder, names, monkeypatch, status):
    fit = MTVClustering.fit

    def interrupted(self, X, y=None):
        if status is None:
            raise KeyboardInterrupt
        fit(self, X)
        self.result_ = replace(self.result_, status=status)
        return self

    monkeypatch.setattr(MTVClustering, "fit", interrupted)
    result = run("cluster", "digits.csv", *BRIEF, "-k", "10", "--json", "--quiet")
    assert result.exit_code == 130
    if status is None:
        assert result.stderr == "tautcut: interrupted; nothing was written.\n"
        assert names() == []
    else:
        assert result.stderr == "tautcut: interrupted; the best partition so far is in digits-tautcut.csv.\n"
        assert json.loads(result.stdout)["status"] == str(status)
        assert len(rows_of("digits-tautcut.csv")) == N


def test_ctrl_c_while_the_report_is_made_leaves_the_labels(folder, names, monkeypatch):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "tautcut.report.page", types.SimpleNamespace(write_page=interrupted))
    result = run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html")
    assert result.exit_code == 130
    assert result.stderr == "tautcut: interrupted; written: digits-tautcut.csv.\n"
    assert names() == ["digits-tautcut.csv"]


def test_the_report_gets_what_is_known(folder, digits, monkeypatch):
    seen = {}
    page = types.SimpleNamespace(write_page=lambda path, result, **named: seen.update(named, path=path, result=result))
    monkeypatch.setitem(sys.modules, "tautcut.report.page", page)
    run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html", "--image", "8x8")
    assert seen["path"].name == "r.html"
    assert seen["images"].shape == (N, 8, 8)
    assert np.array_equal(seen["features"], digits[0])
    assert seen["feature_names"][0] == "pixel0"
    assert seen["ids"][0] == "d0"
    assert seen["settings"]["n_clusters"] == 10
    assert seen["settings"]["image"] == "8x8"
    assert "columns" not in seen["settings"]
    run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html", "--columns", "pixel*")
    assert seen["settings"]["columns"] == ["pixel*"]
    assert seen["settings"]["method"] == "auto"
    assert seen["diagnosis"].n_clusters == 10
    labels = [int(row["label"]) for row in rows_of("digits-tautcut.csv")]
    assert seen["result"].partition.labels.tolist() == labels


def test_columns_that_were_left_out_are_on_the_page(folder, digits):
    def cross_of(*options):
        assert (
            run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html", *options).exit_code == 0
        )
        text = Path("r.html").read_text(encoding="utf-8")
        return json.loads(re.findall(r'id="data">(.*?)</script>', text, flags=re.DOTALL)[0])["cross"]

    for options in ((), ("--columns", "pixel*")):
        (cross,) = cross_of(*options)
        assert cross["name"] == "target"
        totals = dict(zip(cross["words"], np.sum(cross["counts"], axis=0), strict=True))
        assert totals == {str(r): (digits[1] == r).sum() for r in range(10)}


def test_a_report_is_written(folder, names):
    result = run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html", "--image", "8x8")
    assert result.exit_code == 0, result.output
    assert "Report: r.html" in result.stdout
    assert names() == ["digits-tautcut.csv", "r.html"]
    text = (folder / "r.html").read_text(encoding="utf-8")
    shown = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0])
    labels = np.array([int(row["label"]) for row in rows_of("digits-tautcut.csv")])
    assert [one["size"] for one in shown["clusters"]] == np.bincount(labels, minlength=R).tolist()
    assert f"Energy (P): {shown['summary']['energy']:.6g}" in result.stdout
    assert shown["map"]["ids"] == [f"d{i}" for i in range(N)]
    assert shown["settings"]["image"] == "8x8"
    assert all("image" in one for few in shown["representatives"] for one in few)


def content_of(path) -> dict[str, object]:
    """What a page shows, without when it was made."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), flags=re.DOTALL)
    content = json.loads(data.group(1))
    del content["circumstances"]
    return content


def test_the_estimators_page_is_the_same(folder, digits, few):
    """Settings aside, which each side names in its own words."""
    ids, columns = [f"d{i}" for i in range(N)], [f"pixel{j}" for j in range(64)]
    known = np.array([few.get(one, -1) for one in ids])
    runs = {
        ("cluster", "-k", "10"): MTVClustering(10, search="none", random_state=2).fit(digits[0]),
        ("classify", "--labels", "few.csv"): MTVClassifier(search="none", random_state=2).fit(digits[0], known),
    }
    for command, model in runs.items():
        result = run(command[0], "digits.csv", *command[1:], *BRIEF, "--seed", "2", "--quiet", "--report", "cli.html")
        assert result.exit_code == 0, result.output
        left_out = {"target": [str(label) for label in digits[1]]}
        by_hand = model.report("model.html", ids=ids, feature_names=columns, columns=left_out)
        ours, theirs = content_of(folder / "cli.html"), content_of(by_hand)
        assert ours.pop("settings") != theirs.pop("settings")
        assert ours == theirs
        assert [one["size"] for one in ours["clusters"]] == model.result_.partition.sizes.tolist()


@pytest.mark.parametrize("command", [("cluster", "-k", "10"), ("classify", "--labels", "few.csv")])
def test_confidence_is_computed_once(folder, few, monkeypatch, command):
    calls = []
    monkeypatch.setattr(results, "confidence", lambda *given: calls.append(given) or confidence(*given))
    assert run(command[0], "digits.csv", *command[1:], *BRIEF, "--quiet", "--report", "r.html").exit_code == 0
    assert len(calls) == (command[0] == "cluster")  # with labels it is the chance that the search has estimated


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "0"], "--n-clusters must be a whole number ≥ 1, or auto; found '0'"),
        (["-k", "500"], "n_clusters=500"),
        (["-k", "ten"], "--n-clusters"),
        ([], "--n-clusters"),
        (["-k", "10", "--seed", "-1"], "--seed must be"),
        (["-k", "10", "--as", "table"], "features, graph; found 'table'"),
        (["-k", "10", "--as", "graph"], "square"),
        (["-k", "10", "--metric", "taxi"], "metric must be one of euclidean, cosine; found 'taxi'"),
        (["-k", "10", "--search", "long"], "search must be"),
        (["-k", "10", "--method", "magic"], "method must be one of auto, exact, approximate; found 'magic'"),
        (["-k", "10", "--n-neighbors", "400"], "n_neighbors=400"),
        (["-k", "10", "--class-prior", "a,b"], "--class-prior must be numbers"),
        (["-k", "10", "--class-prior", "0.5,0.5"], "class_prior must be 10 numbers"),
        (["-k", "10", "--columns", "nothing"], "no column 'nothing'"),
        (["-k", "10", "--array", "X"], "is a table"),
        (["-k", "10", "--image", "8"], "--image must be"),
        (["-k", "10", "--image", "9x9"], "--image 9x9 does not fit"),
        (["-k", "10", "--out", "labels.xls"], "must end in .csv"),
        (["-k", "10", "--out", "missing/labels.csv"], "no folder 'missing'"),
        (["-k", "10", "--out", "labels.h5ad"], "no .h5ad"),
        (["-k", "10", "--out", "digits.csv"], "never overwritten"),
        (["-k", "10", "--report", "report.pdf"], "must end in .html"),
        (["-k", "10", "--unknown"], "--unknown"),
    ],
)
def test_a_mistake_costs_one_sentence_and_leaves_no_file(folder, names, capsys, arguments, words):
    before = (folder / "digits.csv").read_bytes()
    assert words in refused(capsys, "cluster", "digits.csv", "--quiet", *arguments)
    assert names() == []
    assert (folder / "digits.csv").read_bytes() == before


def test_names_from_a_file_cannot_steer_the_terminal(folder, digits):
    with open("few.csv", "w", newline="", encoding="utf-8") as file:
        classes = {0: "\x1b[2Jzero", 1: "[red]one[/red]", 2: "<script>two</script>"}
        csv.writer(file).writerows(
            [f"d{i}", classes[label]] for i, label in enumerate(digits[1][:30]) if label in classes
        )
    result = run("classify", "digits.csv", *BRIEF, "--labels", "few.csv", "--out", "l.csv")
    assert result.exit_code == 0, result.output
    assert "\x1b[2J" not in result.output
    assert "[red]one[/red]" in result.stdout
    assert {row["label"] for row in rows_of("l.csv")} == set(classes.values())


# ---------------------------------------------------------------- classify


def test_few_labels_from_a_file(folder, few, digits):
    result = run("classify", "digits.csv", "--labels", "few.csv", "--json")
    assert result.exit_code == 0, result.output
    rows = rows_of("digits-tautcut.csv")
    labels = np.array([int(row["label"]) for row in rows])
    assert (labels == digits[1]).mean() > 0.85
    assert all(labels[int(id_[1:])] == label for id_, label in few.items())
    content = json.loads(result.stdout)
    assert content["command"] == "classify"
    assert content["n_clusters"] == R
    assert content["settings"]["labels"] == "few.csv"
    assert "Classifying from 30 labels of 10 classes" in result.stderr


def test_labels_against_the_graph_are_told(folder):
    """Four cliques; the first two are tied closely, the last two also, and one edge runs between the pairs."""
    networkx = pytest.importorskip("networkx")
    G = networkx.disjoint_union_all([networkx.complete_graph(12) for _ in range(4)])
    G.add_edges_from((12 * a + i, 12 * a + 12 + i) for a in (0, 2) for i in range(6))
    G.add_edge(12, 24)
    networkx.write_graphml(networkx.relabel_nodes(G, {i: f"v{i}" for i in G}), "chain.graphml")
    for name, rows in (("across", (0, 12)), ("along", (0, 36))):
        (folder / f"{name}.csv").write_text("id,label\n" + "".join(f"v{row},class{row}\n" for row in rows))
    across, along = (run("classify", "chain.graphml", "--labels", f"{name}.csv") for name in ("across", "along"))
    (line,) = [line for line in across.stdout.splitlines() if "disagree with the clusters" in line]
    assert re.search(r"Label v\d+(, v\d+)*( and v\d+)? to decide", line)
    assert along.exit_code == 0, along.output
    assert "disagree" not in along.stdout
    content = json.loads(run("classify", "chain.graphml", "--labels", "across.csv", "--json").stdout)
    assert set(content["disagreement"]) == {"energy", "free_energy", "undecided", "points", "finding"}


def test_labels_of_one_class_are_warned_of(folder):
    (folder / "one.csv").write_text("id,label\nd0,cat\nd5,cat\n")
    result = run("classify", "digits.csv", "--labels", "one.csv", *BRIEF)
    assert result.exit_code == 0, result.output
    assert "Warning: every known label is cat" in result.stderr
    assert {row["label"] for row in rows_of("digits-tautcut.csv")} == {"cat"}


def test_few_labels_from_a_column(folder, digits):
    y = [("" if i >= 100 else "odd" if label % 2 else "even") for i, label in enumerate(digits[1])]
    with open("t.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [[*(f"x{j}" for j in range(64)), "kind"], *([*x, k] for x, k in zip(digits[0], y, strict=True))]
        )
    result = run("classify", "t.csv", "--label-column", "kind", "--out", "l.json", *BRIEF)
    assert result.exit_code == 0, result.output
    content = json.loads((folder / "l.json").read_text())
    assert content["classes"] == ["even", "odd"]
    assert [one["label"] for one in content["vertices"][:100]] == y[:100]


def test_classify_is_what_the_estimator_does(folder, few, digits):
    assert run("classify", "digits.csv", "--labels", "few.csv", "--quiet", "--seed", "5", *BRIEF).exit_code == 0
    known = np.array([few.get(f"d{i}", -1) for i in range(N)])
    model = MTVClassifier(search="none", random_state=5).fit(digits[0], known)
    assert [int(row["label"]) for row in rows_of("digits-tautcut.csv")] == model.transduction_.tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "missing or given twice"),
        (["--labels", "few.csv", "--label-column", "target"], "missing or given twice"),
        (["--labels", "none.csv"], "no file 'none.csv'"),
        (["--labels", "wrong.csv"], "'z', which is not an id"),
        (["--labels", "labels.npy"], "labels are read from"),
        (["--label-column", "colour"], "no column 'colour'"),
    ],
)
def test_labels_that_do_not_fit(folder, few, names, capsys, arguments, words):
    (folder / "wrong.csv").write_text("id,label\nz,1\n")
    before = names()
    assert words in refused(capsys, "classify", "digits.csv", *arguments)
    assert names() == before


# ---------------------------------------------------------------- tables as they are


@pytest.fixture(scope="module")
def wine():
    return load_wine()


@pytest.fixture
def tables(tmp_path, monkeypatch, wine):
    """The current folder, and how to write a table of wine into it."""
    monkeypatch.chdir(tmp_path)

    def write(name, rows=wine.data, names=wine.feature_names):
        with open(name, "w", newline="") as file:
            csv.writer(file).writerows([names, *rows])

    return write


def labels_of(path) -> list[str]:
    return [row["label"] for row in rows_of(path)]


def test_columns_that_differ_widely_are_scaled_and_it_is_said(tables, wine):
    tables("wine.csv")
    result = run("cluster", "wine.csv", "-k", "3", "--json", "--report", "r.html")
    assert result.exit_code == 0, result.output
    assert ari([int(label) for label in labels_of("wine-tautcut.csv")], wine.target) > 0.75
    assert (
        "Columns are scaled by their standard deviations, because 1 of 13 columns ('proline') carries" in result.stderr
    )
    content = json.loads(result.stdout)
    assert content["scaling"]["how"] == content["settings"]["scale"] == "standard"
    assert content["scaling"]["carriers"] == ["proline"]
    shown = content_of(Path("r.html"))
    assert shown["settings"]["scale"] == "standard"
    assert any(one["name"] == "columns" and one["severity"] == "info" for one in content["diagnosis"]["findings"])


def test_scaling_is_that_of_the_library(tables, wine):
    tables("wine.csv")
    for how, X in (("standard", StandardScaler().fit_transform(wine.data)), ("none", wine.data)):
        assert run("cluster", "wine.csv", "-k", "3", "--scale", how, "--quiet", "--out", f"{how}.csv").exit_code == 0
        graph = knn_graph(X, 10)
        expected = MTVClustering(3, affinity="precomputed", random_state=0).fit(graph).labels_
        assert [int(label) for label in labels_of(f"{how}.csv")] == expected.tolist()


def test_without_scaling_the_columns_are_named(tables):
    tables("wine.csv")
    for command in (["cluster", "wine.csv", "-k", "3"], ["suggest", "wine.csv", "--max", "3"]):
        result = run(*command, "--scale", "none")
        assert result.exit_code == 0, result.output
        assert result.stderr.count("'proline') carries 99.8 % of the squared distances") == 1
    assert "! columns: 1 of 13 columns ('proline') carries" in run("graph", "wine.csv", "--scale", "none").stdout
    assert "  columns: The widest of 13 columns" in run("graph", "wine.csv").stdout


def test_pictures_directions_and_graphs_are_not_scaled(folder, tables, capsys, digits):
    tables("wine.csv")
    np.save("pictures.npy", digits[0].reshape(N, 8, 8) * np.r_[100, np.ones(7)])
    for words in (["digits.csv"], ["wine.csv", "--metric", "cosine"], ["pictures.npy"]):
        result = run("graph", *words, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["settings"]["scale"] == "none"
        assert "scaled" not in result.stderr
    write_graph(folder / "g.npz", knn_graph(digits[0], 10), np.arange(N))
    assert json.loads(run("graph", "g.npz", "--json").stdout)["scaling"] is None
    assert "--scale standard is for features" in refused(capsys, "graph", "g.npz", "--scale", "standard")
    assert "--scale must be one of auto" in refused(capsys, "graph", "wine.csv", "--scale", "minmax")


def test_missing_values_are_told_dropped_or_filled(tables, wine, capsys):
    rows = [list(row) for row in wine.data.tolist()]
    rows[3][2], rows[5][0] = "NA", "?"
    tables("wine.csv", rows)
    words = refused(capsys, "cluster", "wine.csv", "-k", "3", "--quiet")
    assert "2 values are missing, in 2 of the 178 rows; the first is in line 5, column 'ash'" in words
    for how, n in (("drop", 176), ("median", 178)):
        command = ["cluster", "wine.csv", "-k", "3", "--missing", how, "--json", "--report", "r.html"]
        result = run(*command)
        assert result.exit_code == 0, result.output
        labels = labels_of("wine-tautcut.csv")
        assert len(labels) == 178
        assert [row for row, label in enumerate(labels) if label == ""] == ([3, 5] if how == "drop" else [])
        content = json.loads(result.stdout)
        assert (content["input"]["n"], content["input"]["left_out"]) == (n, 178 - n)
        assert sum(cluster["size"] for cluster in content["clusters"]) == n
        assert content["settings"]["missing"] == how
        assert len(content_of(Path("r.html"))["map"]["ids"]) == n
        assert ("get no label" in result.stderr) == (how == "drop")
    assert "one of error, drop, median; found 'mean'" in refused(capsys, "graph", "wine.csv", "--missing", "mean")


def test_rows_that_are_left_out_may_have_labels(tables, wine):
    rows = [[f"w{i}", *row] for i, row in enumerate(wine.data.tolist())]
    rows[0][3] = rows[8][3] = ""
    tables("wine.csv", rows, ["id", *wine.feature_names])
    known = [f"w{i},{wine.target[i]}" for i in (0, 1, 2, 70, 71, 150, 151)]
    Path("known.csv").write_text("\n".join(["id,label", *known]))
    result = run("classify", "wine.csv", "--labels", "known.csv", "--missing", "drop")
    assert result.exit_code == 0, result.output
    assert "Classifying from 6 labels of 3 classes" in result.stderr
    labels = labels_of("wine-tautcut.csv")
    assert (labels[0], labels[8], labels[1], labels[70], labels[150]) == ("", "", "0", "1", "2")


def test_a_key_does_not_decide(tables, wine):
    tables("plain.csv")
    tables("key.csv", [[5000 + i, *row] for i, row in enumerate(wine.data.tolist())], ["customer", *wine.feature_names])
    for name in ("plain", "key"):
        assert run("cluster", f"{name}.csv", "-k", "3").exit_code == 0
    assert labels_of("plain-tautcut.csv") == labels_of("key-tautcut.csv")
    assert rows_of("key-tautcut.csv")[0]["id"] == "5000"
    result = run("graph", "key.csv", "--keep", "customer", "--without", "ash,hue", "--json")
    assert json.loads(result.stdout)["neighbors"]["n_features"] == 12
    assert json.loads(result.stdout)["settings"]["keep"] == ["customer"]


def test_labels_of_a_compressed_table_have_its_name(tables, wine):
    import gzip

    tables("wine.csv")
    Path("wine2.csv.gz").write_bytes(gzip.compress(Path("wine.csv").read_bytes()))
    assert run("cluster", "wine2.csv.gz", "-k", "3", *BRIEF).exit_code == 0
    assert len(labels_of("wine2-tautcut.csv")) == 178


@pytest.fixture
def placeholders(tables, wine):
    """A table with three labels of each class, and words in place of the others."""
    words = ["Unknown", "unlabelled", "", "n/a"]
    shown = {i for r in range(3) for i in np.flatnonzero(wine.target == r)[:3].tolist()}
    seeds = [f"class {wine.target[i]}" if i in shown else words[i % 4] for i in range(178)]
    tables("seeds.csv", [[*row, one] for row, one in zip(wine.data.tolist(), seeds, strict=True)],
           [*wine.feature_names, "seed"])  # fmt: skip


def test_placeholders_are_no_class(placeholders):
    unknown = ["--unknown", "unknown", "--unknown", "Unlabelled"]
    result = run("classify", "seeds.csv", "--label-column", "seed", *unknown, "--json")
    assert result.exit_code == 0, result.output
    assert set(labels_of("seeds-tautcut.csv")) == {"class 0", "class 1", "class 2"}
    assert json.loads(result.stdout)["settings"]["unknown"] == ["unknown", "Unlabelled"]
    result = run("classify", "seeds.csv", "--label-column", "seed", *unknown[:2])
    assert "Warning: 'unlabelled' is taken as a class" in result.stderr
    assert "--unknown 'unlabelled'" in result.stderr


def test_nothing_left_to_classify(tables, wine, capsys):
    names = [*wine.feature_names, "seed"]
    for word, hint in (("Unknown", "--unknown 'Unknown'"), ("red", "every row already has a label, of 3 classes")):
        seeds = np.where(wine.target == 0, word, wine.target.astype(str)).tolist()
        tables("seeds.csv", [[*row, one] for row, one in zip(wine.data.tolist(), seeds, strict=True)], names)
        assert hint in refused(capsys, "classify", "seeds.csv", "--label-column", "seed", "--quiet")


def test_edges_without_a_header(tables, capsys):
    Path("e.tsv").write_text("".join(f"n{i}\tn{j}\t{1 + (i // 6 == j // 6)}.0\n" for i in range(12) for j in range(i)))
    result = run("cluster", "e.tsv", "-k", "2")
    assert result.exit_code == 0, result.output
    assert "holds a graph of 12 vertices and 66 edges" in result.stderr
    groups = dict.fromkeys(labels_of("e-tautcut.csv"), 0)
    assert len(groups) == 2
    Path("e.tsv").write_text("ann\tparis\t3.0\nbob\trome\t1.5\n")
    assert "--as graph" in refused(capsys, "cluster", "e.tsv", "-k", "2")


def test_advice_is_about_what_was_brought(folder, tables, digits):
    """A graph file has no metric, no n_neighbors and no features."""
    rng = np.random.default_rng(0)
    stars = [(0, i) for i in range(1, 200)] + [(1, i) for i in range(2, 200)]
    for edges in (stars, [(i, i + 1) for i in range(0, 100, 2)], rng.integers(0, 300, (500, 2)).tolist()):
        write_graph(
            folder / "g.edges", Graph.from_edges([pair for pair in edges if pair[0] != pair[1]]), np.arange(300)
        )
        result = run("graph", "g.edges", "-k", "40")
        assert result.exit_code == 0, result.output
        assert "! " in result.stdout
        for word in ("metric", "n_neighbors", "features", "self-tuning"):
            assert word not in result.stdout
    np.save("apart.npy", np.r_[digits[0][:60], digits[0][:60] + 1000])
    assert "Raise n_neighbors" in run("graph", "apart.npy", "-k", "3").stdout


# ---------------------------------------------------------------- graph


def test_the_diagnosis_of_a_graph(folder, names):
    result = run("graph", "digits.csv", "-k", "10")
    assert result.exit_code == 0, result.output
    assert "400 vertices" in result.stdout
    content = json.loads(run("graph", "digits.csv", "-k", "10", "--json", "--quiet").stdout)
    assert content["diagnosis"]["n_vertices"] == 400
    assert {"name", "value", "severity", "meaning", "advice"} <= set(content["diagnosis"]["findings"][0])
    assert names() == []


@pytest.mark.parametrize("suffix", [".npz", ".mtx", ".edges", ".graphml", ".graph"])
def test_the_graph_can_be_kept(folder, digits, suffix):
    result = run("graph", "digits.csv", "--n-neighbors", "5", "--out", f"g{suffix}", "--quiet")
    assert result.exit_code == 0, result.output
    assert f"Graph: g{suffix}" in result.stdout
    data = read(f"g{suffix}")
    assert data.content.n_edges == knn_graph(digits[0], 5).n_edges
    assert (data.ids[0] == "d0") == (suffix in (".edges", ".graphml"))


def test_a_graph_that_cannot_be_kept(folder, names, capsys):
    assert "must end in .npz" in refused(capsys, "graph", "digits.csv", "--quiet", "--out", "g.png")
    weighted = ["graph", "digits.csv", "--quiet", "--out", "g.graph", "--weights", "gaussian"]
    assert "whole weights" in refused(capsys, *weighted)
    assert names() == []


# ---------------------------------------------------------------- next


def test_questions_become_the_labels_of_the_next_round(folder, digits):
    """A person who fills in what is asked for, twice, and classifies with the same file."""
    options = ("--without", "target", "--quiet")
    known = None
    for turn, n_points in enumerate((12, 6)):
        asked = f"ask{turn}.csv"
        labels = () if known is None else ("--labels", known)
        result = run("next", "digits.csv", *labels, "-n", str(n_points), "--out", asked, *options)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines[0].split() == ["id", "why"]
        rows = list(csv.DictReader(Path(asked).read_text().splitlines()))
        empty = [row["id"] for row in rows if not row["label"]]
        assert empty == [line.split()[0] for line in lines[1 : n_points + 1]] == list(dict.fromkeys(empty))
        assert len(rows) == n_points + 12 * turn
        known = f"known{turn}.csv"
        filled = [f"{row['id']},{row['label'] or digits[1][int(row['id'][1:])]}" for row in rows]
        Path(known).write_text("\n".join(["id,label", *filled]) + "\n")
    assert run("classify", "digits.csv", "--labels", known, "--out", "all.csv", *options).exit_code == 0
    assert (np.array(labels_of("all.csv")).astype(int) == digits[1]).mean() > 0.8


def test_questions_as_json_are_those_of_the_library(folder, digits):
    result = run("next", "digits.csv", "--without", "target", "-n", "3", "--seed", "4", "--json", "--quiet")
    content = json.loads(result.stdout)
    found = [one["row"] for one in content["next"]]
    assert found == next_to_label(knn_graph(digits[0], 10, random_state=4), None, 3, random_state=4).tolist()
    assert [one["id"] for one in content["next"]] == [f"d{row}" for row in found]
    assert all(one["reason"] for one in content["next"])
    # A table of questions that nobody has answered is no label.
    Path("ask.csv").write_text("id,label\nd1,\nd2,\n")
    again = run("next", "digits.csv", "--without", "target", "-n", "3", "--seed", "4", "--labels", "ask.csv", "--json")
    assert json.loads(again.stdout)["next"] == content["next"]


def test_questions_about_nothing(folder, few, capsys):
    beyond = refused(capsys, "next", "digits.csv", "--labels", "few.csv", "-n", "400", "--quiet")
    assert "n_points=400 is more than the 370 points without a label" in beyond
    assert "whole number" in refused(capsys, "next", "digits.csv", "-n", "0", "--quiet")
    assert "Nothing is left" in refused(capsys, "next", "digits.csv", "--label-column", "target", "--quiet")
    assert "given twice" in refused(capsys, "next", "digits.csv", "--label-column", "a", "--labels", "few.csv")
    assert "few.csv" in refused(capsys, "next", "digits.csv", "--labels", "few.csv", "--out", "few.csv")
    assert ".csv" in refused(capsys, "next", "digits.csv", "--out", "ask.json")


def test_rows_that_stay_together_are_asked_for_once(folder):
    Path("links.csv").write_text("\n".join(f"d{i},d{i + 1}" for i in range(0, 398, 2)) + "\n")
    options = ("--without", "target", "--must-link", "links.csv", "-n", "30", "--json", "--quiet")
    found = [one["row"] for one in json.loads(run("next", "digits.csv", *options).stdout)["next"]]
    assert len({row // 2 for row in found}) == 30


# ---------------------------------------------------------------- suggest


def test_a_number_of_clusters_is_suggested(folder, names):
    i = np.arange(90)
    ring = [(i, i // 30 * 30 + (i + step) % 30) for step in (1, 3, 7, 10, 12)]
    bridges = [(np.array([0, 30, 60]), np.array([30, 60, 0]))]
    write_graph(folder / "rings.edges", Graph.from_edges(np.hstack([*ring, *bridges]).T), i)
    result = run("suggest", "rings.edges", "--max", "4", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["suggestion"]["n_clusters"] == 3
    assert content["settings"] == {"min": 2, "max": 4}
    assert names() == ["rings.edges"]


def test_a_suggestion_cut_short_says_so(folder, monkeypatch):
    from tautcut import suggestion

    def interrupted(graph, candidates, **named):
        return suggestion.Suggestion(2, (), "Two were done.", is_complete=False)

    monkeypatch.setattr(suggestion, "suggest_n_clusters", interrupted)
    result = run("suggest", "digits.csv", "--quiet")
    assert result.exit_code == 130
    assert result.stdout.endswith("Two were done.\n")
    assert result.stderr.startswith("tautcut: interrupted; ")


def test_a_range_that_is_none(folder, capsys):
    assert "--min must be" in refused(capsys, "suggest", "digits.csv", "--min", "5", "--max", "3")


@pytest.fixture
def rings(folder):
    """Three rings with a bridge between any two: a file of a graph with three clusters."""
    i = np.arange(90)
    ring = [(i, i // 30 * 30 + (i + step) % 30) for step in (1, 3, 7, 10, 12)]
    bridges = [(np.array([0, 30, 60]), np.array([30, 60, 0]))]
    write_graph(folder / "rings.edges", Graph.from_edges(np.hstack([*ring, *bridges]).T), i)
    return "rings.edges"


@pytest.mark.parametrize("as_json", [False, True])
def test_the_number_can_be_left_to_the_suggestion(rings, as_json):
    result = run("cluster", rings, "-k", "auto", "--max", "5", *(["--json"] if as_json else []))
    assert result.exit_code == 0, result.output
    assert "Taking 3 clusters: 3 clusters stand out" in result.stderr
    if as_json:
        content = json.loads(result.stdout)
        assert content["n_clusters"] == content["suggestion"]["n_clusters"] == content["settings"]["n_clusters"] == 3
        assert [point["n_clusters"] for point in content["suggestion"]["curve"]] == [2, 3, 4, 5]
        assert content["suggestion"]["reason"].startswith("3 clusters stand out")
    else:
        assert "3 clusters were suggested: 3 clusters stand out" in result.stdout
    assert {row["label"] for row in rows_of("rings-tautcut.csv")} == {"0", "1", "2"}


def test_a_small_graph_is_tried_with_fewer_clusters(folder):
    (folder / "path.edges").write_text("".join(f"{i}\t{i + 1}\n" for i in range(4)))
    result = run("cluster", "path.edges", "-k", "auto", "--json")
    assert result.exit_code == 0, result.output
    assert [point["n_clusters"] for point in json.loads(result.stdout)["suggestion"]["curve"]] == [2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "many"], "--n-clusters must be a whole number ≥ 1, or auto; found 'many'"),
        (["-k", "3", "--max", "9"], "--min and --max are for -k auto; found -k 3"),
        (["-k", "auto", "--min", "5", "--max", "4"], "--min must be from 1 to --max; found 5 and 4"),
        (["-k", "auto", "--max", "200"], "between 2 and the 90 vertices; found 200"),
    ],
)
def test_a_number_that_cannot_be(rings, capsys, arguments, words):
    assert words in refused(capsys, "cluster", rings, "--quiet", *arguments)


def test_ctrl_c_while_the_number_is_looked_for_writes_nothing(rings, names, monkeypatch):
    from tautcut import suggestion

    def interrupted(graph, candidates, **named):
        return suggestion.Suggestion(2, (), "Two were done.", is_complete=False)

    monkeypatch.setattr(suggestion, "suggest_n_clusters", interrupted)
    result = run("cluster", rings, "-k", "auto", "--quiet")
    assert result.exit_code == 130
    assert result.stderr == "tautcut: interrupted; nothing was written.\n"
    assert names() == [rings]


# ---------------------------------------------------------------- nothing that is read is written


@pytest.mark.parametrize("out", ["few.csv", "./few.csv", "link.csv", "hard.csv", "digits.csv"])
def test_no_input_is_overwritten_by_labels(folder, few, capsys, out):
    os.symlink("few.csv", "link.csv")
    os.link("few.csv", "hard.csv")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    told = refused(capsys, "classify", "digits.csv", "--labels", "few.csv", "--out", out, "--quiet")
    assert "never overwritten" in told
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("source", ["few.csv", "digits.csv"])
def test_no_input_is_overwritten_by_a_report(folder, few, capsys, source):
    os.link(source, "page.html")
    told = refused(capsys, "classify", "digits.csv", "--labels", "few.csv", "--report", "page.html", "--quiet")
    assert "'page.html' is the input, which is never overwritten" in told


def test_the_default_name_is_no_exception(folder, few, capsys):
    os.rename("few.csv", "digits-tautcut.csv")
    assert "never overwritten" in refused(capsys, "classify", "digits.csv", "--labels", "digits-tautcut.csv", "--quiet")


def test_labels_and_report_are_two_files(folder, names, capsys):
    Path("same.csv").write_text("")
    os.symlink("same.csv", "same.html")
    told = refused(capsys, "cluster", "digits.csv", "-k", "3", "--out", "same.csv", "--report", "same.html", "--quiet")
    assert "are the same file" in told


# ---------------------------------------------------------------- Ctrl-C


def press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_ctrl_c_while_labels_are_written_waits_for_them(folder, names, monkeypatch):
    write = formats.write_labels

    def pressed(*given, **named):
        press_ctrl_c()
        while not interrupts.first_signal():
            pass
        write(*given, **named)

    monkeypatch.setattr(formats, "write_labels", pressed)
    with interrupts.listening(lambda number: None):
        result = run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "tautcut: interrupted; written: digits-tautcut.csv."
    assert result.stderr.startswith("tautcut: stopping")
    assert names() == ["digits-tautcut.csv"]


def test_leaving_at_once_tells_what_is_there_and_leaves_no_part(folder, names, monkeypatch):
    """What the thread that listens does with a second Ctrl-C, or one that nobody obeys."""
    codes, flush = [], writing.flush_to_disk

    def left(part):
        flush(part)
        shell.leave(signal.SIGTERM)  # while labels are written, and all but moved

    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(writing, "flush_to_disk", left)
    result = run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet")
    assert codes == [143]
    assert result.stderr.splitlines()[0] == "tautcut: interrupted; nothing was written."
    assert names() == []


def test_after_ctrl_c_the_report_is_left_out(folder, names, monkeypatch):
    fit = MTVClustering.fit

    def interrupted(self, X, y=None):
        fit(self, X)
        self.result_ = replace(self.result_, status=Status.INTERRUPTED)
        return self

    monkeypatch.setattr(MTVClustering, "fit", interrupted)
    result = run("cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet", "--report", "r.html")
    assert result.exit_code == 130
    assert result.stderr.endswith("is in digits-tautcut.csv; the report was left out.\n")
    assert names() == ["digits-tautcut.csv"]


@pytest.mark.parametrize(("module", "name"), [("tautcut.formats", "read"), ("tautcut.graph.diagnostics", "diagnose")])
def test_ctrl_c_before_the_run_is_one_sentence_at_once(folder, names, monkeypatch, module, name):
    release = threading.Event()

    def deaf(*given, **named):
        press_ctrl_c()
        release.wait(60)

    monkeypatch.setattr(f"{module}.{name}", deaf)
    result = run("cluster", "digits.csv", "-k", "10", "--quiet")
    release.set()
    assert result.exit_code == 130
    assert result.stderr == "tautcut: interrupted; nothing was written.\n"
    assert names() == []


def test_ctrl_c_is_heard_by_a_process_that_compiles(folder, names, tmp_path):
    """From outside: the kernels are compiled afresh, and the answer does not wait for the compiler."""
    (folder / "ring.edges").write_text("".join(f"{i} {(i + 1) % 3000}\n" for i in range(3000)))
    command = [sys.executable, "-m", "tautcut", "cluster", "ring.edges", "-k", "10"]
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
    ) as process:
        said = list(itertools.takewhile(lambda line: not line.startswith("Clustering"), process.stderr))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert said
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert rest.splitlines()[-1].startswith("tautcut: interrupted; ")
    assert not [name for name in names() if name.endswith(".part")]


# ---------------------------------------------------------------- from outside


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from tautcut.cli import main
for out in ("labels.csv", "labels.json", "labels.npy", "labels.parquet"):
    try:
        main([*sys.argv[1:], "--out", out])
    except SystemExit as left:
        print(left.code)
"""


def test_a_full_disk_names_the_file(folder, names):
    """A limit on the size of files stands for a disk that is full."""
    command = [sys.executable, "-c", FULL_DISK, "cluster", "digits.csv", *BRIEF, "-k", "10", "--quiet"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stdout.split() == ["2"] * 4, process.stderr
    for suffix in (".csv", ".json", ".npy", ".parquet"):  # kernels are not kept either
        assert f"\ntautcut: 'labels{suffix}': File too large" in f"\n{process.stderr}"
    assert names() == []


def test_a_process_of_its_own(folder, names):
    """Exit code, streams and files as another program sees them, without a terminal."""
    command = [sys.executable, "-m", "tautcut", "graph", "digits.csv", "--json", "--out", "g.npz"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(process.stdout)["diagnosis"]["n_vertices"] == N
    assert "\x1b" not in process.stdout + process.stderr  # no bars, no colours
    assert names() == ["g.npz"]

    command = [sys.executable, "-m", "tautcut", "cluster", "none.csv", "-k", "10"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == "tautcut: 'none.csv' does not exist. Check the path.\n"


@pytest.mark.parametrize("command", ["cluster", "classify", "graph", "suggest"])
def test_every_command_has_the_common_options(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = run(command, "--help")
    assert result.exit_code == 0
    for option in ("--json", "--seed", "--quiet", "--as"):
        assert option in result.stdout


def test_smooth_is_the_graph_of_the_walk(folder, digits):
    """`graph --smooth` writes it, `cluster --smooth` cuts it, and both say so."""
    walked = walk_graph(knn_graph(digits[0], 10), 12)
    made = json.loads(
        run("graph", "digits.csv", "--without", "target", "--smooth", "12", "--out", "walked.npz", "--json").stdout
    )
    assert made["settings"]["smooth"] == 12
    assert made["diagnosis"]["findings"][0]["name"] == "smoothing"
    np.testing.assert_array_equal(read("walked.npz").content.indices, walked.indices)
    told = run(
        "cluster", "digits.csv", "-k", "4", "--without", "target", "--smooth", "12", *BRIEF, "--report", "page.html"
    )
    assert f"Smoothed to a graph of {walked.n_edges:,} edges: 12 nearest under a random walk" in told.stderr
    page = Path("page.html").read_text(encoding="utf-8")
    assert "12 nearest to it under a random walk" in page


def test_smoothing_is_part_of_every_command(folder):
    Path("known.csv").write_text("id,label\nd0,a\nd1,b\n", encoding="utf-8")
    for arguments in (["suggest", "--max", "3"], ["classify", "--labels", "known.csv", *BRIEF]):
        told = run(arguments[0], "digits.csv", "--without", "target", "--smooth", "5", "--json", *arguments[1:])
        assert told.exit_code == 0, told.stderr
        assert json.loads(told.stdout)["settings"]["smooth"] == 5


def test_cluster_can_choose_whether_to_smooth(folder):
    told = run("cluster", "digits.csv", "-k", "4", "--without", "target", "--smooth", "auto", "--json", *BRIEF)
    about = json.loads(told.stdout)
    assert about["settings"]["smooth"] == "auto"
    assert "shows clear clusters, and was cut" in told.stderr
    assert about["diagnosis"]["findings"][0]["name"] == "smoothing"


@pytest.mark.parametrize("command", ["graph", "suggest", "classify"])
def test_other_commands_do_not_choose_whether_to_smooth(folder, capsys, command):
    asked = [command, "digits.csv", "--smooth", "auto"] + (
        ["--label-column", "target"] if command == "classify" else []
    )
    assert f"--smooth auto is for 'cluster'; {command} takes a number" in refused(capsys, *asked)


@pytest.mark.parametrize("smooth", ["0", "--3", "²", "2.5", "some"])
def test_a_wrong_smooth_is_refused(folder, capsys, smooth):
    told = refused(capsys, "graph", "digits.csv", f"--smooth={smooth}")
    assert "--smooth must be a whole number ≥ 1 or auto; found" in told
