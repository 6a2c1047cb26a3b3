"""1SPEC: the inverse power method, cuts valued in the whole graph, and the recursion built on them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from strategies import graphs, planted_graph
from tautcut import Graph, balanced_cut_energy, knn_graph, purity
from tautcut.baselines import OneSpectral
from tautcut.baselines.cheeger import Cluster, Relaxation, Split, _best_split, cut_in_two
from tautcut.baselines.one_spectral import inverse_power
from tautcut.errors import InputError

BOWTIE = Graph.from_edges([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])


def part_of(graph: Graph, vertices: np.ndarray) -> Cluster:
    """A cluster whose cuts are valued in the whole graph, by degrees."""
    W = graph.to_scipy()[vertices][:, vertices]
    degrees = graph.degrees[vertices]
    return Cluster(vertices, W, degrees, degrees - np.asarray(W.sum(axis=1)).ravel())


def quotient(graph: Graph, inside: np.ndarray) -> float:
    """Cut(A) / vol(A), from the definition."""
    W = graph.to_scipy().toarray()
    return float(W[inside][:, ~inside].sum() / graph.degrees[inside].sum())


def members(graph: Graph, vertices: np.ndarray) -> np.ndarray:
    return np.isin(np.arange(graph.n_vertices), vertices)


@given(graphs(is_connected=True), st.booleans(), st.integers(0, 99))
def test_the_inverse_power_method_never_raises_the_energy(graph, is_ratio, seed):
    theta = np.ones(graph.n_vertices) if is_ratio else np.array(graph.degrees)
    relaxation = Relaxation(graph.to_scipy(), theta)
    iterates = list(inverse_power(relaxation, np.random.default_rng(seed).standard_normal(graph.n_vertices)))
    energies = [iterate.energy for iterate in iterates]
    assert all(after <= before for before, after in pairwise(energies))
    assert all(relaxation.energy(f) == pytest.approx(E) for f, E, _ in iterates)
    assert [iterate.n_iter for iterate in iterates] == sorted(iterate.n_iter for iterate in iterates)


def test_the_inverse_power_method_reaches_the_best_cut_of_the_bowtie_from_anywhere():
    relaxation = Relaxation(BOWTIE.to_scipy(), np.ones(6))
    for seed in range(20):
        *_, last = inverse_power(relaxation, np.random.default_rng(seed).standard_normal(6))
        assert last.energy == pytest.approx(1 / 3, rel=1e-3)


def test_the_best_cut_stays_where_it_is():
    relaxation = Relaxation(BOWTIE.to_scipy(), np.ones(6))
    start = np.array([1.0, 1, 1, 0, 0, 0])
    *_, last = inverse_power(relaxation, start)
    assert last.energy == pytest.approx(1 / 3, rel=1e-12)
    assert np.ptp(last.f[:3]) == pytest.approx(0)


@given(graphs(min_vertices=4, is_connected=True), st.data())
def test_cuts_are_valued_in_the_whole_graph(graph, data):
    n = graph.n_vertices
    vertices = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=2, max_size=n))))
    cluster, f = part_of(graph, vertices), np.random.default_rng(n).permutation(vertices.size).astype(float)
    value, is_upper = cluster.sweep(f)
    sides = (members(graph, vertices[is_upper]), members(graph, vertices[~is_upper]))
    assert value == pytest.approx(max(quotient(graph, side) for side in sides))
    every = [members(graph, vertices[f > t]) for t in np.sort(f)[:-1]]
    inside = members(graph, vertices)
    assert value == pytest.approx(min(max(quotient(graph, A), quotient(graph, inside & ~A)) for A in every))
    if vertices.size < n:
        assert cluster.quotient == pytest.approx(quotient(graph, inside))


def test_the_split_kept_has_the_lowest_multicut_value():
    def cluster(cost: float) -> Cluster:
        return Cluster(np.arange(2), Graph.from_edges([(0, 1)]).to_scipy(), np.ones(2), np.array([cost, cost]))

    def split(value: float) -> Split:
        return Split(value, (np.arange(1), np.arange(1, 2)), 0)

    clusters = [cluster(0.1), cluster(0.5), cluster(0.2)]
    assert _best_split(clusters, [split(0.6), split(0.55), split(0.9)]) == 1
    assert _best_split(clusters, [split(0.3), split(0.6), split(0.2)]) == 0  # 0.5 either way: the first
    assert _best_split(clusters, [split(0.9), split(0.8), split(0.2)]) == 2


def test_a_stray_component_of_a_cluster_is_not_worth_a_cut():
    """Vertex 6 has neighbours outside only: the cluster {0 … 6} falls apart, but is best cut between its triangles."""
    triangles = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]
    graph = Graph.from_edges([*triangles, (6, 7), (6, 8), (6, 9), (7, 8), (8, 9)])
    cluster = part_of(graph, np.arange(7))

    def solve(part: Cluster) -> tuple[np.ndarray, int]:
        assert part.vertices.tolist() == [0, 1, 2, 3, 4, 5]
        return np.array([2.0, 2, 1, -1, -2, -2]), 3

    split = cut_in_two(cluster, solve)
    assert split.n_iter == 3
    assert sorted(side.size for side in split.sides) == [3, 4]
    assert split.value == pytest.approx(max(quotient(graph, members(graph, side)) for side in split.sides))
    assert split.value < quotient(graph, members(graph, np.array([6])))  # what the cut along components costs


def test_planted_blocks_are_found_whatever_the_seed():
    graph, truth = planted_graph(6, 25, seed=5, is_weighted=True), np.repeat(np.arange(6), 25)
    for weights in ("normalised", "ratio"):
        model = OneSpectral(6, weights=weights).fit(graph)
        assert purity(model.labels_, truth) > 0.98
        assert np.array_equal(model.labels_, OneSpectral(6, weights=weights, random_state=1).fit_predict(graph))


def test_digits_end_as_recursion_ends():
    """Two digits are merged and one is split: the failure that recursion is known for, at a known purity."""
    X, y = load_digits(return_X_y=True)
    graph = knn_graph(X, 10)
    labels = OneSpectral(10).fit_predict(graph)
    assert purity(labels, y) == pytest.approx(0.8815, abs=0.003)
    assert balanced_cut_energy(graph, labels) == pytest.approx(0.43, abs=0.005)
    assert np.sort(np.bincount(labels))[[0, -1]] == pytest.approx([27, 373], abs=3)


def test_an_unknown_weighting_is_named():
    with pytest.raises(InputError, match="weights must be one of normalised, ratio; found 'ncut'"):
        OneSpectral(2, weights="ncut").fit(BOWTIE)
