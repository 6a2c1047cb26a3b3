"""The page of a run: its numbers are those of the run, it stays small, no text on it can become code, and it is
written whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from strategies import noisy_start, planted_graph, random_graph
from tautcut import MTVClassifier
from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import Status
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.confidence import confidence
from tautcut.graph.findings import Diagnosis
from tautcut.problem import Problem
from tautcut.report import columns, content, page
from tautcut.report.layout import map_coordinates
from tautcut.report.page import write_page

pytestmark = pytest.mark.usefixtures("light_search")

N_BLOCKS, BLOCK = 4, 30
N = N_BLOCKS * BLOCK
HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\u2028\u2029&amp;@@SCRIPT@@@@DATA@@ \ud800 \0",
]


@pytest.fixture(scope="module")
def result() -> Result:
    """A run on four blocks, the last one with two labels given."""
    truth = np.repeat(np.arange(N_BLOCKS), BLOCK)
    labels = np.full(N, -1)
    labels[[N - 1, N - 2]] = N_BLOCKS - 1
    problem = Problem(planted_graph(N_BLOCKS, BLOCK, seed=0, is_weighted=True), N_BLOCKS, labels=labels)
    return solve(problem, noisy_start(truth, N_BLOCKS, seed=0), device="reference")


def result_of(graph: Graph, found: Any, n_clusters: int, **fixed: Any) -> Result:
    """A result that nothing was solved for."""
    problem = Problem(graph, n_clusters, **fixed)
    partition = problem.partition(found)
    return Result(
        problem,
        partition,
        np.eye(n_clusters)[partition.labels],
        partition.energy,
        Status.TRIVIAL,
        (),
        np.eye(n_clusters)[partition.labels],
    )


def read(path: Path) -> dict[str, Any]:
    """The data in a page."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert len(found) == 1
    data: dict[str, Any] = json.loads(found[0])
    return data


def unpacked(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


class Elements(HTMLParser):
    """The elements of a page, with their attributes and the text inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is not None:
            self.inside.append(data)


# ---------------------------------------------------------------- what it says


def test_the_numbers_are_those_of_the_run(result, tmp_path):
    data = read(write_page(tmp_path / "page.html", result))
    graph, partition, labels = result.problem.graph, result.partition, result.partition.labels
    W = graph.to_scipy().toarray()
    is_inside = labels[:, None] == labels
    sure = confidence(graph, labels, N_BLOCKS)
    assert data["summary"] == {
        "nouns": ["class", "classes"],
        "n_points": N, "n_edges": graph.n_edges, "n_clusters": N_BLOCKS, "lam": N_BLOCKS - 1, "n_labelled": 2,
        "is_unweighted": False, "energy": short(partition.energy), "relaxed_energy": short(result.relaxed_energy),
        "status": result.outcome, "n_iter": result.n_iter, "kept": short(W[is_inside].sum() / W.sum()),
        "confidence": short(sure.mean()), "doubtful": (sure < 1 / 3).sum(), "doubtful_below": short(1 / 3),
        "is_chance": False,
    }  # fmt: skip
    assert short(result.relaxed_energy) != short(partition.energy)
    for r, one in enumerate(data["clusters"]):
        inside = labels == r
        assert one == {
            "name": str(r), "colour": r, "size": inside.sum(), "term": short(partition.terms[r]),
            "volume": short(W[inside].sum()), "cut": short(W[inside][:, ~inside].sum()),
            "confidence": short(sure[inside].mean()), "strains": False,
        }  # fmt: skip
    assert data["history"] == [
        {"iterations": one.iterations, "relaxed": short(one.relaxed_energy), "energy": short(one.energy)}
        for one in result.history
    ]


def short(value: float) -> Any:
    """The number as far as the page has it: six digits."""
    return pytest.approx(float(value), rel=1e-5)


def test_doubtful_points_are_counted(tmp_path):
    noise = result_of(planted_graph(2, 12, seed=0), np.r_[np.zeros(12, int), np.arange(12) % 3], 3)
    doubtful = (confidence(noise.problem.graph, noise.partition.labels, 3) < 1 / 3).sum()
    assert 0 < doubtful < 24
    assert read(write_page(tmp_path / "page.html", noise))["summary"]["doubtful"] == doubtful


def test_a_long_history_is_thinned_and_keeps_its_ends(result, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "HISTORY_STEPS", 5)
    steps = tuple(replace(result.history[0], outer=k, iterations=3 * k) for k in range(41))
    shown = read(write_page(tmp_path / "page.html", replace(result, history=steps)))["history"]
    assert [one["iterations"] for one in shown] == [0, 30, 60, 90, 120]


def test_lambda_is_shown_if_it_is_one_number(tmp_path):
    graph, labels = planted_graph(2, 6, seed=0), np.repeat([0, 1], 6)
    for lam, shown in (([1.5, 1.5], 1.5), ([1.0, 2.0], None)):
        data = read(write_page(tmp_path / "page.html", result_of(graph, labels, 2, lam=lam)))
        assert data["summary"]["lam"] == shown


def test_of_many_clusters_the_largest_are_shown_and_the_table_has_all(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "SHOWN_CLUSTERS", 2)
    labels = np.repeat([0, 1, 2, 3], [4, 9, 3, 8])
    data = read(write_page(tmp_path / "page.html", result_of(planted_graph(2, 12, seed=0), labels, 4)))
    assert [one["size"] for one in data["clusters"]] == [4, 9, 3, 8]
    assert data["shown"] == [1, 3]
    assert len(data["matrix"]) == len(data["representatives"]) == len(data["certainty"]) == 2
    assert {one["vertex"] for one in data["representatives"][1]} <= set(range(16, 24))


def test_the_matrix_adds_up_to_the_cuts(result, tmp_path):
    data = read(write_page(tmp_path / "page.html", result))
    matrix = np.array(data["matrix"])
    balance = np.minimum(result.problem.lam * result.partition.sizes, N - result.partition.sizes)
    cut = matrix.sum(axis=1) - np.diag(matrix)
    np.testing.assert_allclose(cut / balance, result.partition.terms, rtol=1e-4)
    np.testing.assert_allclose([one["cut"] for one in data["clusters"]], cut, rtol=1e-4)
    assert matrix.sum() == pytest.approx(result.problem.graph.weights.sum(), rel=1e-4)
    W, labels = result.problem.graph.to_scipy().toarray(), result.partition.labels
    between = [[W[labels == r][:, labels == s].sum() for s in range(N_BLOCKS)] for r in range(N_BLOCKS)]
    np.testing.assert_allclose(matrix, between, rtol=1e-5)


def test_the_map_shows_every_vertex_once_with_its_cluster_and_confidence(result, tmp_path):
    drawn = read(write_page(tmp_path / "page.html", result))["map"]
    sure = confidence(result.problem.graph, result.partition.labels, N_BLOCKS)
    assert drawn["vertex"] is drawn["drawn"] is None  # all of them, in their order
    assert unpacked(drawn["cluster"], "<u2").tolist() == result.partition.labels.tolist()
    np.testing.assert_allclose(unpacked(drawn["confidence"], "<u2") / 65535, sure, atol=1e-5)
    edges = unpacked(drawn["edges"], "<u2").reshape(-1, 2)
    assert len(edges) == result.problem.graph.n_edges
    assert (result.problem.graph.to_scipy()[edges[:, 0], edges[:, 1]] > 0).all()


def test_given_coordinates_are_drawn_to_scale(result, tmp_path):
    given = np.random.default_rng(0).uniform(-3, 5, (N, 2)) * [1.0, 0.5]
    drawn = read(write_page(tmp_path / "page.html", result, coordinates=given))["map"]
    x, y = unpacked(drawn["x"], "<u2") / 65535, unpacked(drawn["y"], "<u2") / 65535
    width = np.ptp(given[:, 0])
    np.testing.assert_allclose(np.column_stack([x, y]), (given - given.min(axis=0)) / width, atol=1e-4)


def test_doubtful_points_are_the_least_certain_free_ones(result, tmp_path):
    doubtful = read(write_page(tmp_path / "page.html", result))["uncertain"]
    sure = confidence(result.problem.graph, result.partition.labels, N_BLOCKS)
    assert 0 < len(doubtful) <= content.UNCERTAIN
    values = [one["confidence"] for one in doubtful]
    assert values == sorted(values)
    assert values[0] == pytest.approx(sure[~result.problem.is_labelled].min(), abs=1e-5)
    assert not result.problem.is_labelled[[one["vertex"] for one in doubtful]].any()
    W, labels = result.problem.graph.to_scipy().toarray(), result.partition.labels
    for one in doubtful:
        votes = np.bincount(labels, W[one["vertex"]], N_BLOCKS)
        assert one["cluster"] == labels[one["vertex"]]
        assert one["other"] == np.where(np.arange(N_BLOCKS) == one["cluster"], -1, votes).argmax()
        assert votes[one["other"]] > 0


def test_representatives_are_members_and_not_neighbors_of_one_another(result, tmp_path):
    data = read(write_page(tmp_path / "page.html", result))
    W = result.problem.graph.to_scipy()
    for cluster, points in zip(data["shown"], data["representatives"], strict=True):
        vertices = [point["vertex"] for point in points]
        assert len(set(vertices)) == content.REPRESENTATIVES
        assert (result.partition.labels[vertices] == cluster).all()
        first = vertices[:3]  # a block of thirty has room for these
        assert W[first][:, first].nnz == 0
        assert vertices[0] in deepest(result, cluster)


def deepest(result: Result, cluster: int) -> list[int]:
    """The members whose neighbours' neighbours are surest, by the mean of means."""
    W = result.problem.graph.to_scipy().toarray()
    W /= W.sum(axis=1, keepdims=True)
    depth = W @ W @ confidence(result.problem.graph, result.partition.labels, N_BLOCKS)
    members = np.flatnonzero(result.partition.labels == cluster)
    return members[depth[members] > depth[members].max() - 1e-5].tolist()


def test_the_confidence_of_each_cluster_is_counted_in_tenths(result, tmp_path):
    sure = confidence(result.problem.graph, result.partition.labels, N_BLOCKS)
    for r, one in enumerate(read(write_page(tmp_path / "page.html", result))["certainty"]):
        mine = sure[result.partition.labels == r]
        assert one["counts"] == np.histogram(mine, bins=10, range=(0, 1))[0].tolist()
        assert one["doubtful"] == (mine < 1 / 3).sum()


def test_typical_features_are_found_in_dense_and_sparse_data(result, tmp_path):
    X = np.random.default_rng(0).random((N, 12)).round(1)
    X[result.partition.labels == 2, 7] += 3.0
    names = [f"column {j}" for j in range(12)]
    dense, sparse = (
        read(write_page(tmp_path / "page.html", result, features=one, feature_names=names))["typical"]
        for one in (X, sp.csr_matrix(X))
    )
    assert dense == sparse
    assert dense[2][0]["name"] == "column 7"
    for r, few in enumerate(dense):
        means = X[result.partition.labels == r].mean(axis=0)
        shift = (means - X.mean(axis=0)) / X.std(axis=0)
        assert [one["name"] for one in few] == [names[j] for j in np.argsort(-np.abs(shift), kind="stable")[:5]]
        for one in few:
            j = names.index(one["name"])
            assert (one["mean"], one["overall"]) == (short(means[j]), short(X[:, j].mean()))
            assert one["shift"] == pytest.approx(shift[j], rel=1e-4)


def test_a_constant_feature_sets_nothing_apart(result, tmp_path):
    X = np.full((N, 2), 0.1)
    X[:, 1] = result.partition.labels
    typical = read(write_page(tmp_path / "page.html", result, features=X))["typical"]
    assert [few[0]["name"] for few in typical] == ["feature 1"] * N_BLOCKS
    assert [few[1]["shift"] for few in typical] == pytest.approx([0] * N_BLOCKS, abs=1e-6)


@pytest.mark.parametrize("kind", ["uint8", "float32", "bool"])
def test_thumbnails_are_the_images_scaled_to_black_and_white(result, tmp_path, kind):
    images = (np.random.default_rng(0).random((N, 5, 7)) * 16).astype(kind)
    images[0] = 0
    points = read(write_page(tmp_path / "page.html", result, images=images))["representatives"][1]
    assert len(points) == content.REPRESENTATIVES
    for point in points:
        head, body = point["image"].split(",")
        assert head == "data:image/png;base64"
        grey = imread(io.BytesIO(base64.b64decode(body)), format="png")
        expected = images[point["vertex"]].astype(float) / float(images.max())
        np.testing.assert_allclose(grey, expected, atol=1 / 255)


def test_large_images_become_small_thumbnails(result, tmp_path):
    images = np.broadcast_to(np.arange(150.0)[:, None], (N, 150, 100))
    point = read(write_page(tmp_path / "page.html", result, images=images))["uncertain"][0]
    grey = imread(io.BytesIO(base64.b64decode(point["image"].split(",")[1])), format="png")
    assert grey.shape == (38, 25)  # by four, so that the longer side is at most 48
    assert max(grey.shape) <= content.THUMBNAIL
    rows = np.minimum(np.arange(152), 149).reshape(38, 4).mean(axis=1)
    np.testing.assert_allclose(grey, np.tile(rows[:, None] / 149, (1, 25)), atol=1 / 255)


def test_settings_versions_and_findings_are_there(result, tmp_path):
    settings = {"n_clusters": 4, "prior": np.array([0.5, np.nan]), "path": tmp_path, "limit": np.inf, "x": (1, None)}
    data = read(write_page(tmp_path / "page.html", result, settings=settings))
    assert data["settings"] == {
        "n_clusters": 4, "prior": [0.5, "nan"], "path": str(tmp_path), "limit": "inf", "x": [1, None],
    }  # fmt: skip
    assert {"python", "tautcut", "numpy"} <= set(data["circumstances"]["versions"])
    assert "components" in [finding["name"] for finding in data["findings"]]


def test_clusters_are_called_by_their_names_or_by_their_numbers(result, tmp_path):
    for names, shown in ((None, ["0", "1", "2", "3"]), (["a", "b", 3, None], ["a", "b", "3", "None"])):
        data = read(write_page(tmp_path / "page.htm", result, names=names))
        assert [one["name"] for one in data["clusters"]] == shown


def test_with_labels_the_page_speaks_of_classes(result, tmp_path):
    free = replace(result, problem=Problem(result.problem.graph, N_BLOCKS))
    for one, nouns in ((result, ["class", "classes"]), (free, ["cluster", "clusters"])):
        path = write_page(tmp_path / "page.html", one)
        text = path.read_text(encoding="utf-8")
        assert read(path)["summary"]["nouns"] == nouns
        assert f'<h2 id="clusters-title">{nouns[1].capitalize()}</h2>' in text
        body = text.split("</style>")[1].split('<script type="application/json"')[0]
        words = re.sub(r'\b(id|href|aria-labelledby)="[^"]*"', "", body)
        assert nouns[0] in words
        assert "@@" not in words
        assert bool(re.search(r"\b[Cc]lusters?\b", words)) == (one is free)


def test_labels_that_neighbors_contradict_are_listed_with_what_these_say(tmp_path):
    truth = np.repeat(np.arange(N_BLOCKS), BLOCK)
    given_labels, found = np.full(N, -1), truth.copy()
    given_labels[[0, 1, BLOCK]] = 0, 2, 1
    found[1] = 2  # the label of vertex 1, though its block is 0
    one = result_of(planted_graph(N_BLOCKS, BLOCK, seed=0), found, N_BLOCKS, labels=given_labels)
    data = read(write_page(tmp_path / "page.html", one))
    assert [(point["vertex"], point["cluster"], point["other"]) for point in data["contradicted"]] == [(1, 2, 0)]
    assert data["contradicted"][0]["quality"] < 0.5
    free = replace(one, problem=Problem(one.problem.graph, N_BLOCKS))
    assert read(write_page(tmp_path / "page.html", free))["contradicted"] == []


def test_the_confidence_of_classes_is_a_chance(result, tmp_path):
    n = result.problem.n_vertices
    chances = np.full((n, N_BLOCKS), 0.2)
    chances[np.arange(n), result.partition.labels] = 0.4
    summary = read(write_page(tmp_path / "page.html", replace(result, probabilities=chances)))["summary"]
    assert (summary["is_chance"], summary["doubtful"], summary["confidence"]) == (True, n, 0.4)


def test_clusters_of_one_colour_have_little_between_them():
    between = np.zeros((24, 24))
    between[10:20, :10] = np.eye(10)  # by number alone, each would share the colour of its only neighbour
    colours = content._colours(between)
    assert sorted(colours[:10]) == sorted(colours[10:20]) == list(range(content.COLOURS))
    assert all(colours[r] != colours[r - 10] for r in range(10, 20))


# ---------------------------------------------------------------- odd runs

ODD = {
    "one cluster": result_of(planted_graph(2, 6, seed=0), np.zeros(12, int), 1),
    "an empty cluster": result_of(planted_graph(2, 6, seed=0), np.repeat([0, 1], 6), 3),
    "no edges": result_of(Graph.from_edges(np.empty((0, 2), int), n_vertices=4), [0, 1, 0, 1], 2),
    "isolated vertices": result_of(random_graph(20, 40, seed=0, n_isolated=5), np.arange(20) % 3, 3),
    "every label given": result_of(
        planted_graph(2, 6, seed=0), np.repeat([0, 1], 6), 2, labels=np.repeat([0, 1], 6), lam=[1.0, 2.0]
    ),
    "every vertex a cluster": result_of(planted_graph(5, 10, seed=0), np.arange(50), 50),
    "two vertices": result_of(Graph.from_edges([(0, 1)]), [0, 1], 2),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_runs_have_a_page(case, tmp_path):
    odd = ODD[case]
    data = read(write_page(tmp_path / "page.html", odd))
    assert len(data["clusters"]) == odd.problem.n_clusters
    assert len(data["shown"]) == min(odd.problem.n_clusters, content.SHOWN_CLUSTERS)
    assert data["summary"]["energy"] == (
        pytest.approx(odd.partition.energy, rel=1e-5) if np.isfinite(odd.partition.energy) else None
    )
    assert data["history"] == []


def test_the_layout_draws_neighbors_near_and_is_the_same_every_time():
    graph = planted_graph(3, 60, seed=1)
    position = map_coordinates(graph)
    i, j = graph.to_scipy().nonzero()
    near = np.linalg.norm(position[i] - position[j], axis=1).mean()
    any_two = np.linalg.norm(position[:, None] - position, axis=-1).mean()
    assert near < 0.4 * any_two
    np.testing.assert_array_equal(position, map_coordinates(graph))


@pytest.mark.parametrize("scale", [2.0**-600, 0.5, 2.0**600])  # exact, so that rounding is the same
def test_the_layout_does_not_depend_on_the_unit_of_the_weights(scale):
    W = planted_graph(2, 20, seed=0, is_weighted=True).to_scipy()
    position = map_coordinates(Graph.from_any(W * scale))
    assert np.isfinite(position).all()
    np.testing.assert_array_equal(position, map_coordinates(Graph.from_any(W)))


def test_the_layout_of_weights_that_are_next_to_nothing():
    W = planted_graph(2, 20, seed=0).to_scipy()
    position = map_coordinates(Graph.from_any(1e-310 * W))
    np.testing.assert_allclose(position, map_coordinates(Graph.from_any(W)), atol=0.1)


# ---------------------------------------------------------------- how large it is


def test_seventy_thousand_points_stay_below_five_megabytes(tmp_path):
    n, R, rng = 70_000, 60, np.random.default_rng(0)
    ring = np.arange(n)
    pairs = np.vstack([np.column_stack([ring, (ring + k) % n]) for k in (1, 2, 3, 4, 5)])
    result = result_of(
        Graph.from_edges(pairs, n_vertices=n), np.minimum(ring * R // n + rng.integers(0, 2, n), R - 1), R
    )
    path = write_page(
        tmp_path / "page.html", result, ids=[f"{'名' * 60}{i}" for i in ring], names=["<" * 100] * R,
        images=rng.integers(0, 256, (n, 8, 8), dtype=np.uint8), coordinates=rng.random((n, 2)),
        diagnosis=Diagnosis(n, 5 * n, R, ()),
    )  # fmt: skip
    assert path.stat().st_size < 5e6
    drawn = read(path)["map"]
    vertices = unpacked(drawn["drawn"], "<u4")
    assert len(np.unique(vertices)) == content.MAP_POINTS
    assert len(drawn["ids"]) == len(unpacked(drawn["x"], "<u2")) == n  # all of them can be found
    assert 0 < unpacked(drawn["edges"], "<u2").size <= 2 * content.MAP_EDGES
    listed = [one["vertex"] for few in read(path)["representatives"] for one in few]
    assert np.isin(listed, vertices).all()


def test_columns_of_seventy_thousand_points_stay_small_too(tmp_path):
    n, rng = 70_000, np.random.default_rng(0)
    ring = np.arange(n)
    graph = Graph.from_edges(np.column_stack([ring, (ring + 1) % n]), n_vertices=n)
    path = write_page(
        tmp_path / "page.html", result_of(graph, ring * 5 // n, 5), features=rng.random((n, 40)),
        columns={f"text {k}": [f"{'文' * 150}{i}" for i in ring] for k in range(3)},
        coordinates=rng.random((n, 2)), diagnosis=Diagnosis(n, n, 5, ()),
    )  # fmt: skip
    assert path.stat().st_size < 8e6
    assert len(read(path)["map"]["columns"]) == 3 + columns.SHOWN_FEATURES


def test_of_very_many_points_those_that_are_drawn_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MAP_POINTS", 40)
    monkeypatch.setattr(content, "LISTED_POINTS", 60)
    result = result_of(planted_graph(2, 40, seed=0), np.repeat([0, 1], 40), 2)
    drawn = read(write_page(tmp_path / "page.html", result, ids=range(80)))["map"]
    vertices = unpacked(drawn["vertex"], "<u4")
    assert vertices.size == 40
    assert drawn["drawn"] is None
    assert drawn["ids"] == [str(one) for one in vertices]
    assert unpacked(drawn["cluster"], "<u2").tolist() == (vertices >= 40).astype(int).tolist()


# ---------------------------------------------------------------- the user's columns


def test_columns_are_numbers_categories_or_text(result, tmp_path):
    rng = np.random.default_rng(0)
    given = {
        "price": np.where(np.arange(N) == 5, np.nan, rng.normal(size=N)),
        "kind": np.array(["a", "b", None], dtype=object)[np.arange(N) % 3],
        "digit": np.arange(N) % 10,
        "serial": np.arange(N),
        "note": [f"row {i}" for i in range(N)],
    }
    data = read(write_page(tmp_path / "page.html", result, columns=given))
    shown = {one["name"]: one for one in data["map"]["columns"]}
    kinds = {"price": "number", "kind": "category", "digit": "category", "serial": "number", "note": "text"}
    assert {name: one["kind"] for name, one in shown.items()} == kinds
    levels = unpacked(shown["price"]["values"], "<u2")
    assert levels[5] == 65535
    low, high = shown["price"]["low"], shown["price"]["high"]
    there = np.delete(np.arange(N), 5)
    np.testing.assert_allclose(low + levels[there] / 65534 * (high - low), given["price"][there], atol=1e-4)
    assert shown["serial"]["is_whole"]
    words = np.array(shown["note"]["words"])[unpacked(shown["note"]["values"], "<u2")]
    assert words.tolist() == given["note"]
    assert set(shown["kind"]["words"]) == {"a", "b", ""}


def test_the_features_that_differ_most_between_clusters_are_columns(result, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "SHOWN_FEATURES", 2)
    X = np.random.default_rng(0).random((N, 6))
    X[:, 4] += result.partition.labels
    X[:, 1] -= 0.5 * result.partition.labels
    data = read(write_page(tmp_path / "page.html", result, features=X, feature_names=list("abcdef")))
    assert [one["name"] for one in data["map"]["columns"]] == ["b", "e"]
    assert data["cross"] == []  # features are not what clusters are compared with


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_columns_of_the_widest_range_are_coloured(result, tmp_path):
    widest = np.finfo(np.float64).max
    values = np.linspace(-1.0, 1.0, result.problem.n_vertices) * widest
    given = {"wide": values, "constant": np.full(values.size, widest)}
    wide, constant = read(write_page(tmp_path / "page.html", result, columns=given))["map"]["columns"]
    assert -widest <= wide["from"] < 0 < wide["to"] <= widest
    assert constant["from"] == constant["to"] > 0.9 * widest


def test_a_cross_table_counts_all_points(result, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MAP_POINTS", 30)
    monkeypatch.setattr(content, "UNCERTAIN", 2)
    monkeypatch.setattr(content, "REPRESENTATIVES", 2)
    kind = np.array(["a", "b", "c", "d"])[(np.arange(N) // 3) % 4]
    (cross,) = read(write_page(tmp_path / "page.html", result, columns={"kind": kind}))["cross"]
    counts = [
        [int((kind[result.partition.labels == r] == word).sum()) for word in cross["words"]] for r in range(N_BLOCKS)
    ]
    assert cross["counts"] == counts
    assert cross["majority"] == pytest.approx(sum(map(max, counts)) / N)


def test_rare_values_of_a_cross_table_are_counted_together(result, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "COUNTED_CATEGORIES", 2)
    kind = np.repeat(["x", "y", "p", "q"], [60, 40, 12, 8])
    (cross,) = read(write_page(tmp_path / "page.html", result, columns={"kind": kind}))["cross"]
    assert cross["words"] == ["x", "y", "2 others"]
    assert np.sum(cross["counts"], axis=0).tolist() == [60, 40, 20]
    best = sum(max((kind[result.partition.labels == r] == word).sum() for word in "xypq") for r in range(N_BLOCKS))
    assert cross["majority"] == pytest.approx(best / N)  # of the values themselves


def test_thumbnails_of_all_points_are_on_one_sheet(result, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (N, 6, 5), dtype=np.uint8)
    images[0, 0, :2] = 0, 255
    sheet = read(write_page(tmp_path / "page.html", result, images=images))["map"]["sheet"]
    grey = imread(io.BytesIO(base64.b64decode(sheet["image"].split(",")[1])), format="png")
    assert (sheet["height"], sheet["width"]) == (6, 5)
    for i in (0, 7, N - 1):
        row, column = divmod(i, sheet["across"])
        tile = grey[row * 6 : row * 6 + 6, column * 5 : column * 5 + 5]
        np.testing.assert_allclose(tile, images[i] / 255, atol=1 / 255)


def test_the_sheet_shrinks_until_it_is_small(result, tmp_path, monkeypatch):
    images = np.random.default_rng(0).random((N, 32, 16))
    for limit, shape in ((10**6, (32, 16)), (30_000, (16, 8)), (1, (8, 4))):
        monkeypatch.setattr(content, "SHEET_BYTES", limit)
        sheet = read(write_page(tmp_path / "page.html", result, images=images))["map"]["sheet"]
        assert (sheet["height"], sheet["width"]) == shape


# ---------------------------------------------------------------- strain


def test_clusters_that_strain_are_told_first(tmp_path):
    truth = np.repeat([0, 1], [80, 20])
    chance = np.where(truth[:, None] == truth, 0.4, 0.01)
    W = np.triu(np.random.default_rng(0).random((100, 100)) < chance, 1)
    found = np.r_[np.arange(80) % 2, np.ones(20, int)]
    data = read(write_page(tmp_path / "page.html", result_of(Graph.from_any((W + W.T).astype(float)), found, 2)))
    assert data["findings"][0]["name"] == "balance"
    assert "0.8,0.2" in data["findings"][0]["advice"]
    assert [one["strains"] for one in data["clusters"]] == [True, True]


def test_labels_that_the_graph_contradicts_are_told_with_the_names_of_points_to_label(tmp_path):
    blocks = np.repeat(np.arange(4), 12)
    tie = (blocks[:, None] // 2 == blocks // 2) & (np.arange(48)[:, None] % 12 == np.arange(48) % 12)
    W = ((blocks[:, None] == blocks) | tie).astype(float) - np.eye(48)
    W[12, 24] = W[24, 12] = 1.0
    model = MTVClassifier(affinity="precomputed", class_prior=None, random_state=0).fit(W, {0: "a", 12: "b"})
    path = model.report(tmp_path / "page.html", ids=[f"thing {i}" for i in range(48)])
    (told,) = [one for one in read(path)["findings"] if one["name"] == "labels"]
    assert "disagree with the clusters of the graph" in told["meaning"]
    assert f"thing {model.disagreement_.points[0]}" in told["advice"]


# ---------------------------------------------------------------- texts


@given(st.text(max_size=200))
def test_long_texts_are_clipped_in_the_middle(text):
    short = content.clipped(text)
    assert len(short) <= content.LONGEST_TEXT
    assert short == text or (short[:20] == text[:20] and short[-20:] == text[-20:])


# ---------------------------------------------------------------- nothing in it can run


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), min_size=1, max_size=5))
def test_any_text_survives_and_none_of_it_is_markup(texts):
    summary = {"nouns": ["cluster", "clusters"]}
    hostile = {"texts": texts, "summary": summary}
    elements = Elements(page.render(hostile).decode("utf-8"))
    clean = Elements(page.render({"summary": summary}).decode("utf-8"))
    assert elements.found == clean.found
    assert [json.loads(one) for one in elements.inside if one.startswith('{"texts"')] == [hostile]
    embedded = page.embedded({"texts": texts})
    assert not set("<>&\u2028\u2029") & set(embedded)


def test_hostile_names_reach_the_page_as_text(result, tmp_path):
    ids = [HOSTILE[i % len(HOSTILE)] for i in range(N)]
    path = write_page(
        tmp_path / "page.html", result, ids=ids, names=HOSTILE, settings={HOSTILE[0]: HOSTILE[1]},
        columns={HOSTILE[2]: ids},  # a list: an array would drop the zero byte
    )  # fmt: skip
    data = read(path)
    assert sorted(data["cross"][0]["words"]) == sorted(columns._cut(one.strip(), 48) for one in HOSTILE)
    assert [one["name"] for one in data["clusters"]] == [content.clipped(name) for name in HOSTILE]
    assert data["map"]["ids"] == [content.clipped(one) for one in ids]
    scripts = [attributes for tag, attributes in Elements(path.read_text("utf-8")).found if tag == "script"]
    assert len(scripts) == 2


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(result, tmp_path):
    text = write_page(tmp_path / "page.html", result).read_text(encoding="utf-8")
    (policy,) = [
        one["content"] for tag, one in Elements(text).found if one.get("http-equiv") == "Content-Security-Policy"
    ]
    script, style = (re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL) for tag in ("script", "style"))
    allowed = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (*script, *style)]
    assert len(allowed) == 2
    assert f"script-src 'sha256-{allowed[0]}';" in policy
    assert f"style-src 'sha256-{allowed[1]}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_page_refers_to_nothing_outside_itself(result, tmp_path):
    text = write_page(tmp_path / "page.html", result).read_text(encoding="utf-8")
    references = [
        value for _, attributes in Elements(text).found for name, value in attributes.items() if name in ("src", "href")
    ]
    assert references
    assert all(str(value).startswith("#") for value in references)
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    for reach in ("url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "innerHTML", "insertAdjacent", "eval("):
        assert reach not in text


# ---------------------------------------------------------------- the file, and what is refused


def test_a_failure_leaves_the_old_page_and_nothing_else(result, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(Path, "write_bytes", lambda self, data: (self.write_text("half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        write_page(path, result)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["page.pdf", "missing/page.html", "."])
def test_paths_that_cannot_be_written_are_refused(result, tmp_path, name):
    with pytest.raises(InputError, match="cannot be written"):
        write_page(tmp_path / name, result)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": ["a"]},
        {"names": ["a"] * (N_BLOCKS + 1)},
        {"features": np.zeros((N - 1, 2))},
        {"features": np.zeros(N)},
        {"features": np.full((N, 2), "a")},
        {"features": np.zeros((N, 2)), "feature_names": ["a"]},
        {"images": np.zeros((N, 4))},
        {"images": np.zeros((N - 1, 4, 4))},
        {"images": np.zeros((N, 0, 4))},
        {"columns": {"kind": ["a"] * (N - 1)}},
        {"columns": {"kind": np.zeros((N, 2))}},
        {"coordinates": np.zeros((N, 3))},
        {"coordinates": np.full((N, 2), np.nan)},
    ],
    ids=str,
)
def test_what_does_not_fit_the_run_is_refused(result, tmp_path, wrong):
    with pytest.raises(InputError, match=f"^({'|'.join(wrong)}) must"):
        write_page(tmp_path / "page.html", result, **wrong)
    assert not list(tmp_path.iterdir())


def test_masses_stand_beside_sizes_once_there_are_any(tmp_path):
    graph, labels = planted_graph(2, 10, seed=0), np.repeat([0, 1], [12, 8])
    plain = read(write_page(tmp_path / "plain.html", result_of(graph, labels, 2)))
    assert "mass" not in plain["summary"]
    assert all("mass" not in one for one in plain["clusters"])
    assert plain["map"]["columns"] == []
    masses = np.arange(1.0, 21.0)
    data = read(write_page(tmp_path / "page.html", result_of(graph.with_masses(masses), labels, 2)))
    assert data["summary"]["mass"] == masses.sum()
    assert [one["mass"] for one in data["clusters"]] == [masses[:12].sum(), masses[12:].sum()]
    assert [one["size"] for one in data["clusters"]] == [12, 8]
    assert [one["name"] for one in data["map"]["columns"]] == ["mass"]
    assert any(one["name"] == "masses" for one in data["findings"])


def test_the_users_own_column_of_masses_is_not_doubled(tmp_path):
    graph = planted_graph(2, 10, seed=0).with_masses(np.arange(1.0, 21.0))
    result = result_of(graph, np.repeat([0, 1], 10), 2)
    data = read(write_page(tmp_path / "page.html", result, columns={"mass": np.arange(20.0)}))
    assert [one["name"] for one in data["map"]["columns"]] == ["mass"]
