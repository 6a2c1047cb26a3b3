"""Masses, volumes and links on the command line: the same as in Python, beside the sizes, and refused in a sentence."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

from tautcut import Graph, MTVClassifier, MTVClustering, balanced_cut_energy, knn_graph
from tautcut.cli import app, main
from tautcut.formats import read, write_graph
from tautcut.suggestion import suggest_n_clusters

pytestmark = pytest.mark.usefixtures("light_search")

N = 90
X, TRUTH = make_blobs([30, 30, 30], 2, centers=[[0.0, 0], [4, 0], [2, 3]], cluster_std=0.9, random_state=0)
MASSES = np.where(TRUTH == 0, 5.0, 1.0) + np.arange(N) / N


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a table of points: a name, two features, a mass."""
    monkeypatch.chdir(tmp_path)
    with open("points.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "x", "y", "people"])
        writer.writerows([f"p{i}", *row, mass] for i, (row, mass) in enumerate(zip(X, MASSES, strict=True)))
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def done(*arguments: str) -> dict:
    """The JSON object of a command that ends well."""
    result = run(*arguments, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    out, err = capsys.readouterr()
    assert (exit_.value.code, out, err.count("\n")) == (2, "", 1)
    return err


def labels_of(path) -> np.ndarray:
    with open(path, newline="") as file:
        return np.array([int(row["label"]) for row in csv.DictReader(file)])


def pairs(path, rows) -> str:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def test_a_column_of_masses_does_what_sample_weight_does(folder):
    told = done("cluster", "points.csv", "-k", "3", "--mass-column", "people", "--out", "a.csv")
    model = MTVClustering(3, random_state=0).fit(X, sample_weight=MASSES)
    assert labels_of("a.csv").tolist() == model.labels_.tolist()
    assert told["energy"] == model.energy_
    assert told["settings"]["mass_column"] == "people"
    assert [one["mass"] for one in told["clusters"]] == pytest.approx(np.bincount(model.labels_, MASSES))
    assert list(told["clusters"][0]) == ["label", "size", "mass", "term", "confidence"]


def test_without_masses_nothing_is_said_of_them(folder):
    told = done("cluster", "points.csv", "-k", "3", "--without", "people", "--out", "a.csv")
    assert list(told["clusters"][0]) == ["label", "size", "term", "confidence"]
    assert not {"mass_column", "balance", "must_link"} & set(told["settings"])
    shown = run("cluster", "points.csv", "-k", "3", "--without", "people", "--out", "a.csv")
    assert shown.exit_code == 0
    assert "mass" not in shown.output


def test_the_table_has_masses_beside_sizes(folder):
    result = run("cluster", "points.csv", "-k", "3", "--mass-column", "people", "--out", "a.csv", "--report", "a.html")
    assert result.exit_code == 0
    head, *rows = [line.split() for line in result.stdout.splitlines() if re.match(r"\s+(cluster|\d)\s", line)]
    assert head[:3] == ["cluster", "size", "mass"]
    assert [float(row[2]) for row in rows] == pytest.approx(np.bincount(labels_of("a.csv"), MASSES), rel=1e-4)
    assert "Masses are in column 'people'." in result.stderr
    assert '"mass":' in (folder / "a.html").read_text()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".npy", ".parquet"])
def test_labels_of_weighed_rows_go_to_every_format(folder, suffix):
    out = f"a{suffix}"
    told = done("cluster", "points.csv", "-k", "3", "--mass-column", "people", "--search", "none", "--out", out)
    assert told["out"] == out
    assert (folder / out).stat().st_size > 0
    if suffix == ".json":
        masses = json.loads((folder / out).read_text())["masses"]
        assert masses == [one["mass"] for one in told["clusters"]]


def test_a_heavy_row_is_warned_of_before_the_run(folder):
    with open("heavy.csv", "w", newline="") as file:
        csv.writer(file).writerows([["x", "y", "w"], *([*row, 1000 if i == 7 else 1] for i, row in enumerate(X))])
    result = run("cluster", "heavy.csv", "-k", "3", "--mass-column", "w", "--out", "a.csv", "--search", "none")
    assert result.exit_code == 0
    assert "Vertex 7 alone has more than a cluster's expected share" in result.stderr


def test_volumes_balance(folder):
    told = done("cluster", "points.csv", "-k", "3", "--without", "people", "--balance", "volume", "--out", "a.csv")
    model = MTVClustering(3, balance="volume", random_state=0).fit(X)
    assert labels_of("a.csv").tolist() == model.labels_.tolist()
    assert told["settings"]["balance"] == "volume"
    volumes = np.bincount(model.labels_, knn_graph(X, 10).degrees)
    assert [one["mass"] for one in told["clusters"]] == pytest.approx(volumes)


@pytest.mark.parametrize(
    "rows",
    [
        [("p0", "p1"), ("p1", "p2")],
        [("one", "other"), ("p0", "p1"), ("p1", "p2")],
        [("id 1", "id 2"), ("p0", "p1"), ("p1", "p2")],
        [("source", "target"), ("p0", "p1"), ("p1", "p2")],
        [("p0", "p1", "p2")],
        [("p0", "p1", "p2"), ("p3", "p4", "")],
        [("id", "group"), ("p0", "a"), ("p1", "a"), ("p2", "a"), ("p5", ""), ("p6", "b")],
        [("group", "name"), ("a", "p0"), ("a", "p1"), ("a", "p2")],
    ],
)
def test_linked_rows_stay_together(folder, rows):
    told = done("cluster", "points.csv", "-k", "3", "--must-link", pairs("l.csv", rows), "--out", "a.csv")
    assert len(set(labels_of("a.csv")[:3])) == 1
    assert told["settings"]["must_link"] == "l.csv"


def test_links_do_what_must_link_does(folder):
    across = [(0, int(np.flatnonzero(np.diff(TRUTH, prepend=TRUTH[0]))[0])), (4, 5)]
    path = pairs("l.csv", [(f"p{i}", f"p{j}") for i, j in across])
    told = done("cluster", "points.csv", "-k", "3", "--without", "people", "--must-link", path, "--out", "a.csv")
    model = MTVClustering(3, must_link=across, random_state=0).fit(X)
    assert labels_of("a.csv").tolist() == model.labels_.tolist()
    assert told["energy"] == model.energy_ > MTVClustering(3, random_state=0).fit(X).energy_
    assert list(told["clusters"][0]) == ["label", "size", "term", "confidence"]  # links are no masses


def test_links_of_rows_that_were_left_out(folder):
    lines = (folder / "points.csv").read_text().splitlines()
    lines[2] = "p1,,1.5,2"
    (folder / "gaps.csv").write_text("\n".join(lines))
    path = pairs("l.csv", [("p0", "p1", "p89"), ("p1", "p5")])
    told = done("cluster", "gaps.csv", "-k", "3", "--missing", "drop", "--must-link", path, "--out", "a.json")
    found = {one["id"]: one["label"] for one in json.loads((folder / "a.json").read_text())["vertices"]}
    assert found["p0"] == found["p89"]
    assert found["p1"] is None
    assert told["input"]["left_out"] == 1


def test_classes_have_masses_and_links(folder):
    known = {0: "a", 31: "b", 62: "c"}
    pairs("known.csv", [("id", "label"), *((f"p{i}", label) for i, label in known.items())])
    path = pairs("l.csv", [("p0", "p1")])
    told = done(
        "classify", "points.csv", "--labels", "known.csv", "--mass-column", "people", "--must-link", path, "--balance",
        "volume", "--out", "a.csv",
    )  # fmt: skip
    y = np.full(N, None, dtype=object)
    y[list(known)] = list(known.values())
    model = MTVClassifier(random_state=0, balance="volume", must_link=[(0, 1)]).fit(X, y, sample_weight=MASSES)
    assert told["energy"] == model.energy_
    assert [one["mass"] for one in told["clusters"]] == pytest.approx(model.result_.partition.masses)


def test_labels_that_contradict_a_link_are_refused(folder, capsys):
    pairs("known.csv", [("id", "label"), ("p0", "a"), ("p1", "b")])
    pairs("l.csv", [("p0", "p1")])
    words = refused(capsys, "classify", "points.csv", "--labels", "known.csv", "--must-link", "l.csv", "--quiet")
    assert "'a' and 'b'" in words


def test_suggestions_know_masses_volumes_and_links(folder):
    graph = knn_graph(X, 10)
    told = done("suggest", "points.csv", "--mass-column", "people", "--max", "4")["suggestion"]
    assert told == suggest_n_clusters(graph.with_masses(MASSES), range(2, 5), random_state=0).to_dict()
    path, ways = pairs("l.csv", [("p0", "p40")]), ("--without", "people", "--balance", "volume", "--max", "3")
    told = done("suggest", "points.csv", *ways, "--must-link", path)["suggestion"]
    expected = suggest_n_clusters(graph.by_volume(), range(2, 4), must_link=[(0, 40)], random_state=0)
    assert told == expected.to_dict()


def test_a_suggested_number_keeps_to_the_groups(folder):
    path = pairs("l.csv", [[f"p{i}" for i in range(N - 4)]])
    told = done("suggest", "points.csv", "--must-link", path)
    assert told["settings"]["max"] == 4  # of five groups
    done("cluster", "points.csv", "-k", "auto", "--must-link", path, "--balance", "volume", "--out", "a.csv")


@pytest.mark.parametrize("suffix", [".npz", ".graphml"])
def test_a_graph_keeps_its_masses(folder, suffix):
    done("graph", "points.csv", "--mass-column", "people", "--out", f"g{suffix}")
    assert read(f"g{suffix}").content.masses.tolist() == MASSES.tolist()
    told = done("cluster", f"g{suffix}", "-k", "3", "--out", "a.csv")
    assert told["energy"] == MTVClustering(3, random_state=0).fit(X, sample_weight=MASSES).energy_


@pytest.mark.filterwarnings("default::tautcut.errors.GraphWarning")
def test_a_graph_that_loses_its_masses_says_so(folder, capsys):
    result = run("graph", "points.csv", "--mass-column", "people", "--out", "g.edges")
    assert result.exit_code == 0
    assert "Warning: 'g.edges' is without the masses" in result.stderr
    assert "whole masses only" in refused(
        capsys, "graph", "points.csv", "--mass-column", "people", "--out", "g.graph", "--quiet"
    )


def test_metis_weights_balance_a_cut(folder):
    # A path of six: by size it is cut in the middle; if its first vertex weighs as much as all others, after that.
    path = Graph.from_edges([(i, i + 1) for i in range(5)])
    write_graph(folder / "p.graph", path.with_masses([5, 1, 1, 1, 1, 1]), np.arange(6))
    told = done("cluster", "p.graph", "-k", "2", "--out", "a.csv")
    assert sorted(np.bincount(labels_of("a.csv")).tolist()) == [1, 5]
    assert told["energy"] == balanced_cut_energy(path, [0, 1, 1, 1, 1, 1], masses=[5, 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--balance", "weight"], "--balance must be one of size, volume; found 'weight'"),
        (["--mass-column", "nope"], "no column 'nope'"),
        (["--mass-column", "name"], "masses must be numbers > 0; found 'p0' in line 2"),
        (["--mass-column", "x"], "must be finite and > 0"),
        (["--must-link", "nope.csv"], "there is no file 'nope.csv' of links"),
        (["--must-link", "links.json"], "links are read from .csv, .tsv or .txt"),
        (["--must-link", "typo.csv"], "line 1 of 'typo.csv' links 'p0x', which is not an id"),
        (["--must-link", "numbers.csv"], "line 1 of 'numbers.csv' links '1', which is not an id"),
        (["--must-link", "odd.csv"], "line 2 of 'odd.csv' links 'z', which is not an id"),
        (["--must-link", "single.csv"], "line 2 of 'single.csv' links one id to none"),
        (["--must-link", "wide.csv"], "'wide.csv' has 3 columns"),
        (["--must-link", "uneven.csv"], "line 3 has 3 columns"),
        (["--must-link", "all.csv"], "2 clusters are more than the 1 groups"),
        (["--must-link", "pair.csv", "--out", "pair.csv"], "pair.csv"),
    ],
)
def test_a_mistake_costs_one_sentence(folder, capsys, arguments, words):
    pairs("odd.csv", [("p0", "p1"), ("p0", "z")])
    pairs("typo.csv", [("p0x", "p1x"), ("p0", "p1")])
    pairs("numbers.csv", [(1, 2), ("p0", "p1")])
    pairs("single.csv", [("p0", "p1"), ("p0", "")])
    pairs("wide.csv", [("id", "group", "more"), ("p0", "a", "b")])
    pairs("uneven.csv", [("id", "group"), ("p0", "a"), ("p1", "a", "b")])
    pairs("all.csv", [[f"p{i}" for i in range(N)]])
    pairs("pair.csv", [("p0", "p1")])
    (folder / "links.json").write_text("[]")
    before = sorted(path.name for path in folder.iterdir())
    assert words in refused(capsys, "cluster", "points.csv", "-k", "2", "--quiet", *arguments)
    assert sorted(path.name for path in folder.iterdir()) == before
