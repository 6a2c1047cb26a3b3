"""When given labels and the graph's own clusters part, that is told, with points to label; else nothing is."""

import networkx
import numpy as np
import pytest

from tautcut import Graph, MTVClassifier, MTVClustering
from tautcut.search.disagreement import ASKED, disagreement_of

SIZE = 12


@pytest.fixture(scope="module")
def chain():
    """Four cliques; the first two are tied closely, the last two also, and one edge runs between the pairs."""
    G = networkx.disjoint_union_all([networkx.complete_graph(SIZE) for _ in range(4)])
    for a in (0, 2):
        G.add_edges_from((a * SIZE + i, (a + 1) * SIZE + i) for i in range(SIZE // 2))
    G.add_edge(SIZE, 2 * SIZE)
    return Graph.from_any(networkx.to_scipy_sparse_array(G))


def fitted(graph, labels, **params):
    return MTVClassifier(affinity="precomputed", random_state=0, class_prior=None, **params).fit(graph, labels)


def test_labels_across_a_cluster_are_told_with_points_in_what_no_label_speaks_for(chain):
    model = fitted(chain, {0: "a", SIZE: "b"})
    before = model.transduction_.copy()
    found = model.disagreement_
    assert found.is_noticeable
    assert found.free_energy < found.energy == model.energy_
    assert found.undecided >= 0.25
    assert 1 <= found.points.size <= ASKED
    assert (found.points >= 2 * SIZE).all(), "the second pair of cliques has no label"
    assert "disagree with the clusters of the graph" in found.finding().meaning
    np.testing.assert_array_equal(model.transduction_, before)
    assert model.transduction_[0] == "a"
    assert model.transduction_[SIZE] == "b"


def test_the_points_named_decide_it(chain):
    labels = {0: "a", SIZE: "b"}
    asked = {int(i): "c" for i in fitted(chain, labels).disagreement_.points}
    assert not fitted(chain, labels | asked).disagreement_.is_noticeable


def test_labels_that_agree_with_the_graph_are_not_talked_about(chain):
    model = fitted(chain, {0: "a", 3 * SIZE: "b"})
    assert model.disagreement_.energy == pytest.approx(model.disagreement_.free_energy)
    assert model.disagreement_.undecided == 0
    assert model.disagreement_.finding() is None


def test_names_stand_in_the_sentence(chain):
    found = fitted(chain, {0: "a", SIZE: "b"}).disagreement_
    names = [f"point-{i}" for i in range(chain.n_vertices)]
    assert f"point-{found.points[0]}" in found.finding(names).advice
    assert found.to_dict(names)["points"] == found.points.tolist()


def test_one_class_or_no_labels_have_nothing_to_disagree_about(chain):
    assert fitted(chain, {0: "a"}).disagreement_ is None
    clustering = MTVClustering(2, affinity="precomputed", random_state=0).fit(chain)
    assert disagreement_of(clustering.result_) is None
    assert not hasattr(clustering, "disagreement_")


def test_many_labels_are_not_judged(chain):
    labels = dict.fromkeys(range(3), "a") | dict.fromkeys(range(SIZE, SIZE + 3), "b")
    assert fitted(chain, labels).disagreement_ is None
    del labels[0]
    assert fitted(chain, labels).disagreement_.is_noticeable


def test_a_graph_in_pieces_that_cost_nothing_to_part_is_not_judged():
    G = networkx.disjoint_union(networkx.complete_graph(5), networkx.complete_graph(5))
    with pytest.warns(UserWarning, match="components"):
        model = fitted(Graph.from_any(networkx.to_scipy_sparse_array(G)), {0: 0, 1: 1})
    assert model.disagreement_ is None


def test_groups_stay_together_in_the_graphs_own_partition(chain):
    """With the tie between the pairs cut open by links across it, the labels' partition is the best there is."""
    links = [(i, i + 2 * SIZE) for i in range(SIZE)] + [(i + SIZE, i + 3 * SIZE) for i in range(SIZE)]
    model = fitted(chain, {0: "a", SIZE: "b"}, must_link=links)
    assert model.disagreement_.energy == pytest.approx(model.disagreement_.free_energy)


def test_a_second_fit_is_judged_anew(chain):
    model = fitted(chain, {0: "a", SIZE: "b"})
    assert model.disagreement_.is_noticeable
    assert not model.fit(chain, {0: "a", 3 * SIZE: "b"}).disagreement_.is_noticeable
