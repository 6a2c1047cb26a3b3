"""What a diagnosis says, on graphs made to have one thing wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from strategies import graphs, planted_graph, random_graph
from tautcut.errors import InputError
from tautcut.graph import Graph, chance
from tautcut.graph.diagnostics import diagnose
from tautcut.graph.findings import Finding
from tautcut.neighbors import knn_graph

BLOCKS = np.random.default_rng(0).normal(size=(4, 1, 8)) * 6 + np.random.default_rng(1).normal(size=(4, 100, 8))
CLEAR = knn_graph(BLOCKS.reshape(-1, 8), 12)


def found(graph: Graph, name: str, n_clusters: int | None = None) -> Finding:
    return next(finding for finding in diagnose(graph, n_clusters).findings if finding.name == name)


def disjoint(*parts: Graph) -> Graph:
    return Graph.from_any(sp.block_diag([part.to_scipy() for part in parts], format="csr"))


def ring(n: int) -> Graph:
    return Graph.from_edges([(i, (i + 1) % n) for i in range(n)])


def clique(n: int) -> Graph:
    return Graph.from_any(np.ones((n, n)) - np.eye(n))


def test_a_good_graph_has_no_warnings():
    diagnosis = diagnose(planted_graph(4, 60, seed=0), 4)
    assert diagnosis.warnings == ()
    assert [finding.name for finding in diagnosis.findings] == [
        "components", "degrees", "weights", "spectrum", "noise", "cluster size",
    ]  # fmt: skip


def test_outside_the_largest_component_with_the_neighbors_to_ask_for():
    X = np.random.default_rng(2).normal(size=(93, 3))
    far = 100 + np.random.default_rng(3).normal(size=(7 * 3, 3))
    finding = found(knn_graph(np.vstack([X, far]), 10), "components")
    assert finding.severity == "warning"
    assert finding.value["outside_largest"] == pytest.approx(21 / 114)
    assert "18 % of the vertices lie outside the largest of 2 components" in finding.meaning
    assert finding.advice == "Raise n_neighbors to 15, or cluster the components apart."


def test_advice_knows_no_neighbors_where_the_graph_has_none():
    finding = found(disjoint(ring(8), clique(8)), "components")
    assert finding.advice.startswith("Add edges to join them (a larger n_neighbors, if")


def test_components_as_many_as_clusters_are_the_answer():
    three = disjoint(*[clique(6)] * 3)
    assert found(three, "components", 3).severity == "info"
    assert "they are the answer" in found(three, "components", 3).meaning
    assert found(three, "components", 2).severity == "warning"


def test_a_small_component_matters_once_it_can_be_a_cluster():
    graph = disjoint(clique(300), clique(2))
    assert found(graph, "components", 2).severity == "info"
    assert found(graph, "components", 60).severity == "warning"


@pytest.mark.parametrize(("n_isolated", "severity"), [(1, "info"), (2, "info"), (3, "warning")])
def test_isolated_vertices(n_isolated, severity):
    finding = found(disjoint(clique(200), Graph.from_any(np.zeros((n_isolated, n_isolated)))), "isolated")
    assert (finding.value["count"], finding.severity) == (n_isolated, severity)
    assert found(disjoint(clique(200), clique(2)), "components").value["n_components"] == 2
    assert not any(other.name == "isolated" for other in diagnose(clique(5)).findings)


def test_hubs_are_told_of_when_they_hold_many_edges():
    star = [(0, i) for i in range(1, 400)]
    graph = Graph.from_edges([*star, *[(i, i + d) for i in range(1, 390) for d in (1, 2, 3)]])
    finding = found(graph, "degrees")
    assert (finding.value["n_hubs"], finding.severity) == (1, "warning")
    assert finding.value["largest"] == 399
    assert finding.value["edges_at_hubs"] == pytest.approx(399 / (2 * graph.n_edges))
    assert "1 hubs" in finding.meaning
    assert found(CLEAR, "degrees").value["n_hubs"] == 0


def test_nearly_a_forest():
    finding = found(ring(50), "degrees")
    assert finding.severity == "warning"
    assert finding.advice.startswith("Raise n_neighbors to 3")  # a ring is a 2-nearest-neighbour graph
    assert found(clique(4), "degrees").severity == "info"


def test_weights_over_many_decades_leave_edges_idle():
    edges = np.argwhere(np.triu(np.ones((30, 30)), 1))
    rng = np.random.default_rng(0)
    finding = found(Graph.from_edges(edges, 10.0 ** rng.uniform(-9, 0, len(edges))), "weights")
    assert finding.severity == "warning"
    assert 8 < finding.value["decades"] <= 9
    assert finding.value["idle_edges"] > 0.5
    mild = found(Graph.from_edges(edges, rng.uniform(0.5, 2, len(edges))), "weights")
    assert (mild.severity, mild.advice) == ("info", "")
    assert found(clique(4), "weights").meaning == "All edges weigh 1."


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_unit_of_the_weights_does_not_matter(scale):
    graph = planted_graph(3, 40, seed=1, is_weighted=True)
    scaled = Graph(graph.indptr, graph.indices, graph.weights * scale)
    for one, other in zip(diagnose(graph, 3).findings, diagnose(scaled, 3).findings, strict=True):
        if one.name == "weights":
            assert one.value["decades"] == pytest.approx(other.value["decades"])
        else:
            assert one.value == pytest.approx(other.value, abs=1e-6)


@pytest.mark.parametrize("size", [50, 150])  # a dense decomposition, and Lanczos
def test_the_spectrum_shows_planted_blocks(size):
    finding = found(planted_graph(4, size, seed=2), "spectrum", 4)
    assert finding.severity == "info"
    assert (finding.value["widest_gap_at"], finding.value["n_visible"]) == (4, 4)
    assert finding.value["gap"] > 0.3


def test_a_random_graph_has_one_visible_cluster_and_is_all_noise():
    graph = random_graph(1500, 9000, seed=3)
    spectrum = found(graph, "spectrum", 5)
    assert spectrum.severity == "warning"
    assert spectrum.value["n_visible"] <= 2
    assert "Ask for 2 clusters or fewer" in spectrum.advice
    noise = found(graph, "noise")
    assert noise.severity == "warning"
    assert noise.value["no_common_neighbor"] == pytest.approx(noise.value["random_graph"], abs=0.02)


def test_chance_has_the_degrees_of_the_graph():
    graph = planted_graph(3, 60, seed=5)
    W = chance._rewired(graph.to_scipy(), np.random.default_rng(0))
    degrees, rewired = np.diff(graph.indptr), W.sum(axis=1).A1
    assert np.all(rewired <= degrees)
    assert rewired.sum() >= 0.95 * degrees.sum()
    assert (W != W.T).nnz == 0
    assert not W.diagonal().any()


def test_the_spectrum_is_left_out_where_it_would_take_long(monkeypatch):
    monkeypatch.setattr(chance, "SPECTRAL_EDGES", 100)
    assert "not measured" in found(CLEAR, "spectrum", 4).meaning
    assert found(CLEAR, "spectrum", 4).value == {}


def test_the_spectrum_is_left_out_where_it_does_not_converge(monkeypatch):
    monkeypatch.setattr(chance, "_LANCZOS_RESTARTS", (1, 1))
    assert "too close together" in found(ring(5000), "spectrum").meaning


def test_more_clusters_than_measured_eigenvalues():
    finding = found(clique(6), "spectrum", 6)
    assert finding.severity == "info"
    assert "gap" not in finding.value


def test_noise_is_the_share_of_edges_without_a_common_neighbor():
    # Two cliques of six, joined by two edges: only those have no common neighbour.
    graph = disjoint(clique(6), clique(6))
    W = graph.to_scipy().tolil()
    for i, j in ((0, 6), (1, 7)):
        W[i, j] = W[j, i] = 1
    finding = found(Graph.from_any(W.tocsr()), "noise")
    assert finding.value["no_common_neighbor"] == pytest.approx(2 / 32)
    assert "Noise cannot be told" in finding.meaning  # twelve vertices are dense by any measure


@given(graphs(max_vertices=12), st.integers(1, 5))
def test_common_neighbors_by_the_matrix_square(graph, lookups):
    A = (graph.to_scipy().toarray() > 0).astype(int)
    i, j = np.nonzero(A)
    usual = chance.LOOKUPS
    chance.LOOKUPS = lookups
    try:
        common = chance._common_neighbors(graph, i, j)
    finally:
        chance.LOOKUPS = usual
    assert np.array_equal(common, (A @ A)[i, j])


def test_a_sample_of_the_edges_is_close_to_all_of_them(monkeypatch):
    graph = planted_graph(5, 60, seed=4)
    everything = found(graph, "noise").value["no_common_neighbor"]
    monkeypatch.setattr(chance, "SAMPLED_EDGES", 400)
    sampled = found(graph, "noise").value["no_common_neighbor"]
    assert sampled != everything
    assert sampled == pytest.approx(everything, abs=0.1)


def test_clusters_smaller_than_a_neighborhood():
    finding = found(clique(10), "cluster size", 5)
    assert finding.severity == "warning"
    assert finding.advice == "Ask for at most 1 clusters, or lower n_neighbors."
    assert found(CLEAR, "cluster size", 4).severity == "info"
    assert found(ring(12), "cluster size", 4).severity == "info"  # a vertex and its two neighbours fit exactly
    assert found(ring(12), "cluster size", 5).severity == "warning"


@given(graphs(max_vertices=9), st.integers(1, 4))
def test_any_graph_gets_a_diagnosis_that_json_and_people_can_read(graph, n_clusters):
    R = min(n_clusters, graph.n_vertices)
    diagnosis = diagnose(graph, R)
    assert json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))["n_clusters"] == R
    text = str(diagnosis)
    assert text.count("\n! ") == len(diagnosis.warnings)
    assert len(text.splitlines()) == 1 + len(diagnosis.findings)
    for finding in diagnosis.findings:
        assert finding.meaning.endswith(".")
        assert finding.severity == "info" or finding.advice.endswith(".")


def test_no_edge_at_all_and_one_vertex():
    diagnosis = diagnose(Graph.from_any(np.zeros((3, 3))), 2)
    assert {finding.name for finding in diagnosis.warnings} == {"isolated", "degrees"}
    assert diagnose(Graph.from_any([[0]])).n_vertices == 1


def test_the_graph_diagnoses_itself_and_the_same_twice():
    first, second = CLEAR.diagnose(4), diagnose(CLEAR, 4)
    assert first == second


@pytest.mark.parametrize("R", [0, -1, 2.5, True, "3"])
def test_bad_cluster_counts_are_refused(R):
    with pytest.raises(InputError, match="n_clusters must be a whole number"):
        diagnose(CLEAR, R)


def test_more_clusters_than_vertices_are_refused():
    with pytest.raises(InputError, match="n_clusters=5 is more than the 4 vertices"):
        clique(4).diagnose(5)


# ---------------------------------------------------------------- masses


def test_without_masses_there_is_no_word_of_them():
    assert all(one.name != "masses" for one in diagnose(CLEAR, 3).findings)
    same = diagnose(CLEAR.with_masses(np.ones(CLEAR.n_vertices)), 3)
    assert same == diagnose(CLEAR, 3)


def test_the_range_of_the_masses_is_told():
    graph = ring(8)
    even = found(graph.with_masses(np.full(8, 2.5)), "masses", 2)
    assert even.meaning == "All vertices have the mass 2.5."
    uneven = found(graph.with_masses([1, 1, 1, 1, 1, 1, 1, 3]), "masses", 2)
    assert uneven.severity == "info"
    assert uneven.value == {
        "smallest": 1, "largest": 3, "total": 10, "heaviest": 7, "share": 0.3, "n_too_heavy": 0
    }  # fmt: skip


def test_a_vertex_heavier_than_a_cluster_is_warned_of():
    graph = ring(8).with_masses([1, 1, 1, 1, 6, 1, 1, 1])
    heavy = found(graph, "masses", 3)
    assert heavy.severity == "warning"
    assert "Vertex 4 alone has more than a cluster's expected share of the mass, 1/3" in heavy.meaning
    assert heavy.advice.startswith("Ask for 2 clusters or fewer")
    assert found(graph, "masses", 2).severity == "info"  # 6 of 13 is less than half
    assert found(graph, "masses", 1).severity == "info"
    several = found(ring(8).with_masses([5, 5, 1, 1, 1, 1, 1, 1]), "masses", 4)
    assert several.value["n_too_heavy"] == 2
    assert "and 1 more alone have" in several.meaning


def test_a_vertex_with_most_of_the_mass_is_warned_of_whatever_is_asked():
    heavy = found(ring(5).with_masses([1, 1, 9, 1, 1]), "masses")
    assert heavy.severity == "warning"
    assert heavy.advice.startswith("Split what is heavy")


def test_a_small_component_of_much_mass_can_be_a_cluster():
    both = disjoint(ring(300), clique(3))
    assert found(both, "components", 2).severity == "info"
    heavy = both.with_masses(np.r_[np.ones(300), np.full(3, 100.0)])
    assert "they are the answer" in found(heavy, "components", 2).meaning


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_unit_of_the_masses_does_not_matter(scale):
    masses = np.array([1, 1, 1, 1, 6, 1, 1, 1.0])
    one, other = (found(ring(8).with_masses(masses * s), "masses", 3) for s in (1.0, scale))
    assert one.severity == other.severity == "warning"
    assert one.value["share"] == pytest.approx(other.value["share"])
