"""Graphs of networkx and igraph in, results by the names of their nodes out, and labels by those names in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from tautcut import MTVClassifier, MTVClustering, balanced_cut_energy
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.adapters import vertex_names

pytestmark = pytest.mark.usefixtures("light_search")

networkx = pytest.importorskip("networkx")
igraph = pytest.importorskip("igraph")

TEAMS = {name: name[0] for name in ("a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4")}
EDGES = [(u, v) for u in TEAMS for v in TEAMS if u < v and TEAMS[u] == TEAMS[v]] + [("a4", "b1")]


def as_networkx(order: Any = tuple(TEAMS)) -> Any:
    G = networkx.Graph()
    G.add_nodes_from(order)
    G.add_edges_from(EDGES)
    return G


def as_igraph(order: Any = tuple(TEAMS)) -> Any:
    number = {name: i for i, name in enumerate(order)}
    G = igraph.Graph(n=len(order), edges=[(number[u], number[v]) for u, v in EDGES])
    G.vs["name"] = list(order)
    return G


def clustering() -> MTVClustering:
    return MTVClustering(2, affinity="precomputed", n_init=1, random_state=0)


def classifier() -> MTVClassifier:
    return MTVClassifier(affinity="precomputed", random_state=0)


def teams_of(cluster: dict[Any, int]) -> set[frozenset[Any]]:
    return {frozenset(node for node, label in cluster.items() if label == r) for r in cluster.values()}


EXPECTED = {frozenset(name for name in TEAMS if TEAMS[name] == team) for team in "ab"}


@pytest.mark.parametrize("make", [as_networkx, as_igraph])
@given(order=st.permutations(list(TEAMS)))
def test_clusters_are_found_by_node_in_whatever_order_the_nodes_are(make: Any, order: list[str]) -> None:
    model = clustering().fit(make(order))
    assert list(model.nodes_) == order
    assert teams_of(model.labels_by_node()) == EXPECTED
    assert [model.labels_by_node()[node] for node in order] == model.labels_.tolist()


@pytest.mark.parametrize("make", [as_networkx, as_igraph])
@given(order=st.permutations(list(TEAMS)))
def test_labels_are_given_and_returned_by_node(make: Any, order: list[str]) -> None:
    model = classifier().fit(make(order), {"b3": "b", "a2": "a"})
    assert model.labels_by_node() == TEAMS
    assert list(model.labels_by_node()) == order


def test_values_are_those_of_python_so_that_files_take_them(tmp_path: Any) -> None:
    G = as_networkx()
    cluster = clustering().fit(G).labels_by_node()
    assert {type(label) for label in cluster.values()} == {int}
    networkx.set_node_attributes(G, cluster, "cluster")
    networkx.write_graphml(G, tmp_path / "teams.graphml")
    back = networkx.read_graphml(tmp_path / "teams.graphml")
    assert dict(back.nodes(data="cluster")) == cluster


def test_a_node_attribute_is_a_set_of_labels() -> None:
    G = as_networkx()
    networkx.set_node_attributes(G, {"a1": 5, "b1": 7}, "team")
    model = classifier().fit(G, dict(G.nodes(data="team")))
    assert model.classes_.tolist() == [5, 7]
    assert model.labels_by_node() == {name: 5 if team == "a" else 7 for name, team in TEAMS.items()}


def test_nodes_may_be_anything_that_networkx_takes() -> None:
    names = {name: (name[0], int(name[1])) for name in TEAMS}
    cluster = clustering().fit(networkx.relabel_nodes(as_networkx(), names)).labels_by_node()
    assert teams_of(cluster) == {frozenset(names[name] for name in team) for team in EXPECTED}


def test_igraph_takes_the_labels_as_its_own_clustering() -> None:
    G = as_igraph()
    found = igraph.VertexClustering(G, clustering().fit(G).labels_.tolist())
    assert {frozenset(G.vs[part]["name"]) for part in found} == EXPECTED


def test_vertices_without_names_are_numbered() -> None:
    G = as_igraph()
    del G.vs["name"]
    for graph in (G, Graph.from_any(G), Graph.from_any(G).to_scipy(), Graph.from_any(G).to_scipy().toarray()):
        assert vertex_names(graph) is None
        model = classifier().fit(graph, {0: "a", 7: "b"})
        assert model.labels_by_node() == dict(enumerate(TEAMS.values()))


def test_rows_of_features_are_numbered_and_labelled_so() -> None:
    X = np.r_[np.arange(6.0), np.arange(6.5, 12.5)][:, None]
    model = MTVClassifier(n_neighbors=3, random_state=0).fit(X, {1: "low", 10: "high"})
    assert model.labels_by_node() == {row: "low" if row < 6 else "high" for row in range(12)}


def test_a_label_of_no_node_is_named() -> None:
    with pytest.raises(InputError, match=r"'c1'.*'a1'"):
        classifier().fit(as_networkx(), {"a1": 0, "c1": 1})
    with pytest.raises(InputError, match="no labelled point"):
        classifier().fit(as_networkx(), {})


def test_a_name_of_two_vertices_is_refused_where_names_are_used_and_only_there() -> None:
    G = as_igraph()
    G.vs["name"] = ["a1", "a1", *list(TEAMS)[2:]]
    model = clustering().fit(G)
    assert model.labels_.size == 8
    assert "labels_" in model._repr_html_()
    with pytest.raises(InputError, match="'a1' names more than one vertex"):
        model.labels_by_node()
    with pytest.raises(InputError, match="'a1' names more than one vertex"):
        classifier().fit(G, {"a1": 0})


def test_before_fit_there_is_nothing_by_node() -> None:
    for model in (clustering(), classifier()):
        with pytest.raises(NotFittedError):
            model.labels_by_node()


@pytest.mark.parametrize("make", [as_networkx, as_igraph, lambda: Graph.from_any(as_networkx())])
def test_a_graph_is_a_graph_whatever_affinity_says(make: Any) -> None:
    G = make()
    for affinity in ("knn", "precomputed"):
        model = MTVClustering(2, affinity=affinity, random_state=0).fit(G)
        assert model.graph_.n_edges == len(EDGES)
        assert sorted(np.bincount(model.labels_)) == [4, 4]
        few = [0, -1, -1, -1, -1, -1, -1, 1]
        found = MTVClassifier(affinity=affinity, random_state=0).fit(G, few)
        assert found.transduction_.tolist() == [0] * 4 + [1] * 4
        assert found.predict(np.eye(8)[:2]).tolist() == [0, 0]  # similarities to the vertices


def test_a_sparse_matrix_is_features_unless_it_is_said_to_be_a_graph() -> None:
    W = Graph.from_any(as_networkx()).to_scipy()
    assert MTVClustering(2, n_neighbors=5, random_state=0).fit(W).graph_.n_edges != len(EDGES)
    assert MTVClustering(2, affinity="precomputed", random_state=0).fit(W).graph_.n_edges == len(EDGES)


def test_a_second_fit_on_features_forgets_the_graph() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    model = MTVClustering(2, n_neighbors=5, random_state=0)
    assert model.fit(as_networkx()).fit(X).predict(X[:3]).shape == (3,)
    assert model.fit(X).fit(as_networkx()).predict(np.eye(8)).shape == (8,)


@pytest.mark.parametrize("package", ["networkx", "igraph"])
def test_the_masses_of_nodes_count(package: str) -> None:
    """A path of six is cut in the middle; if its first node weighs as much as all others, after that one."""
    masses = [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    G: Any = networkx.path_graph(6) if package == "networkx" else igraph.Graph([(i, i + 1) for i in range(5)])
    plain = MTVClustering(2, random_state=0).fit(G)
    assert sorted(np.bincount(plain.labels_)) == [3, 3]
    if package == "networkx":
        networkx.set_node_attributes(G, dict(enumerate(masses)), "mass")
    else:
        G.vs["mass"] = masses
    weighed = MTVClustering(2, random_state=0).fit(G)
    assert sorted(np.bincount(weighed.labels_)) == [1, 5]
    assert weighed.energy_ == balanced_cut_energy(G, weighed.labels_) == 0.4
