"""Vertices that stay together."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from strategies import planted_graph
from tautcut import MTVClassifier, MTVClustering, balanced_cut_energy
from tautcut.errors import InputError
from tautcut.problem import Problem
from tautcut.search.driver import best_of_starts
from tautcut.search.links import best_of_linked, joined_groups, linked_groups
from tautcut.search.plan import Plan

TRUTH = np.repeat(np.arange(3), 25)
GRAPH = planted_graph(3, 25, seed=1)


def fitted(**params):
    return MTVClustering(3, affinity="precomputed", random_state=0, **params).fit(GRAPH)


def test_groups_that_share_a_vertex_are_one_and_are_numbered_by_their_first():
    number = {name: place for place, name in enumerate("abcdef")}
    assert linked_groups([("f", "b"), ("b", "d")], number).tolist() == [0, 1, 2, 1, 3, 1]
    assert linked_groups([], number).tolist() == [0, 1, 2, 3, 4, 5]
    assert linked_groups([["a"], ["c", "c"]], number).tolist() == [0, 1, 2, 3, 4, 5]
    assert joined_groups(4, [3, 0], [1, 0]).tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("links", [[(0, 30), (30, 60)], [[0, 30, 60]], np.array([[0, 30], [60, 30]])])
def test_links_hold_across_clusters_and_the_energy_is_that_of_all_vertices(links):
    model = fitted(must_link=links)
    assert model.labels_[0] == model.labels_[30] == model.labels_[60]
    assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, model.labels_))
    assert model.memberships_.shape == (75, 3)
    assert np.array_equal(model.memberships_[0], model.memberships_[30])
    assert model.graph_.n_vertices == 75
    assert model.energy_ > fitted().energy_


def test_links_inside_clusters_change_nothing_but_the_names():
    plain, linked = fitted(), fitted(must_link=[[int(i) for i in np.flatnonzero(r == TRUTH)[:10]] for r in range(3)])
    assert linked.energy_ == pytest.approx(plain.energy_)


def test_a_link_is_as_good_as_an_edge_too_heavy_to_cut():
    pairs = [(3, 40), (41, 70)]
    heavy = GRAPH.to_scipy().tolil()
    for i, j in pairs:
        heavy[i, j] = heavy[j, i] = 1e4
    problem = Problem(GRAPH, 3)
    rng = np.random.default_rng(0)
    linked = best_of_linked(problem, linked_groups(pairs, {i: i for i in range(75)}), Plan(), rng=rng)
    cut = MTVClustering(3, affinity="precomputed", random_state=0).fit(heavy.tocsr())
    assert linked.partition.energy == pytest.approx(cut.energy_, rel=1e-9)


def test_vertices_are_named_as_the_graph_names_them():
    G = networkx.relabel_nodes(networkx.barbell_graph(6, 0), lambda i: f"v{i}")
    model = MTVClustering(2, affinity="precomputed", must_link=[("v0", "v11")], random_state=0).fit(G)
    cluster = model.labels_by_node()
    assert cluster["v0"] == cluster["v11"]
    with pytest.raises(InputError, match="must_link names 'v99', which is no vertex"):
        MTVClustering(2, affinity="precomputed", must_link=[("v0", "v99")]).fit(G)


@pytest.mark.parametrize(
    ("links", "message"),
    [(5, "must be pairs or groups"), (["ab"], "found the text 'ab'"),
     (iter(["ab"]), "found the text 'ab'"), ([(0, 75)], "must_link names 75"),
     ([(0, -1)], "must_link names -1"), ([(0, 1.5)], "must_link names 1.5"), ([(0, [1])], "no vertex")],
)  # fmt: skip
def test_links_to_nowhere_are_refused(links, message):
    with pytest.raises(InputError, match=message):
        fitted(must_link=links)


def test_more_clusters_than_groups_are_refused():
    with pytest.raises(InputError, match="3 clusters are more than the 2 groups"):
        fitted(must_link=[range(30), range(30, 75)])


def test_a_label_reaches_its_whole_group():
    y = np.full(75, -1)
    y[[0, 25, 50]] = 0, 1, 2
    model = MTVClassifier(affinity="precomputed", must_link=[(0, 60)], random_state=0).fit(GRAPH, y)
    assert model.transduction_[60] == 0
    assert model.confidence_[60] == 1.0
    assert (model.transduction_ == TRUTH).mean() > 0.9


def test_labels_that_contradict_a_link_are_refused_by_name():
    y = np.array(["red", "blue"] + [""] * 73, dtype=object)
    with pytest.raises(InputError, match=r"stay together by must_link .* 'red'"):
        MTVClassifier(affinity="precomputed", must_link=[(0, 1)]).fit(GRAPH, y)


def test_a_start_of_ones_own_is_averaged_over_groups():
    F = np.eye(3)[TRUTH]
    model = fitted(must_link=[(0, 30)], init=F, search="none", max_iter=5)
    assert model.labels_[0] == model.labels_[30]
    with pytest.raises(InputError, match="a row for each of the 75 vertices"):
        fitted(must_link=[(0, 30)], init=F[:70])


def test_the_smallest_size_counts_points_and_not_groups():
    model = fitted(must_link=[range(8)], min_cluster_size=20)
    assert model.result_.partition.sizes.min() >= 20


def test_links_give_the_same_answer_every_time():
    assert np.array_equal(fitted(must_link=[(0, 30)]).labels_, fitted(must_link=[(0, 30)]).labels_)


def test_free_vertices_are_searched_as_without_links():
    alone = best_of_starts(Problem(GRAPH, 3), Plan(), rng=np.random.default_rng(0))
    linked = best_of_linked(Problem(GRAPH, 3), np.arange(75), Plan(), rng=np.random.default_rng(0))
    assert np.array_equal(alone.partition.labels, linked.partition.labels)
