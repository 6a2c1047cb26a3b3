"""The discrete problem: the energy (P) against brute force, λ and priors, the median's rank, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import graphs, lams
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.problem import Problem, balanced_cut_energy, energy_unit, lam_of_prior

PATH = Graph.from_edges([(0, 1), (1, 2), (2, 3)])


def brute_force(graph: Graph, labels: np.ndarray, lam: np.ndarray) -> list[float]:
    """The terms of (P), one pair of vertices after the other."""
    W, n, terms = graph.to_scipy().toarray(), graph.n_vertices, []
    for r, weight in enumerate(lam):
        inside = [i for i in range(n) if labels[i] == r]
        outside = [i for i in range(n) if labels[i] != r]
        balance = min(weight * len(inside), len(outside))
        terms.append(sum(W[i, j] for i in inside for j in outside) / balance if balance else np.inf)
    return terms


@st.composite
def labelled_graphs(draw: st.DrawFn) -> tuple[Graph, np.ndarray, np.ndarray | None]:
    """A graph, labels in 0 … R − 1 (the last of which occurs, others may not), and λ."""
    graph = draw(graphs())
    R = draw(st.integers(2, 4))
    n = graph.n_vertices
    labels = draw(st.lists(st.integers(0, R - 1), min_size=n, max_size=n))
    labels[draw(st.integers(0, n - 1))] = R - 1
    return graph, np.array(labels), draw(lams(R))


@given(labelled_graphs())
def test_energy_is_what_brute_force_says(drawn):
    graph, labels, lam = drawn
    R = labels.max() + 1
    expected = sum(brute_force(graph, labels, np.full(R, R - 1.0) if lam is None else lam))
    for W in (graph, graph.to_scipy(), graph.to_scipy().toarray()):
        assert balanced_cut_energy(W, labels, lam) == pytest.approx(expected)


@given(labelled_graphs())
def test_a_partition_knows_its_terms_and_sizes(drawn):
    graph, labels, lam = drawn
    R = int(labels.max()) + 1
    if graph.n_vertices < R:
        return
    problem = Problem(graph, R, lam)
    partition = problem.partition(labels)
    assert partition.terms == pytest.approx(brute_force(graph, labels, np.asarray(problem.lam)))
    assert list(partition.sizes) == [(labels == r).sum() for r in range(R)]
    assert partition.energy == pytest.approx(balanced_cut_energy(graph, labels, lam))
    assert partition.has_empty_cluster == (len(set(labels)) < R)
    assert (partition.energy == np.inf) == partition.has_empty_cluster


def test_lambda_default_number_and_vector():
    labels = [0, 0, 1, 2]
    assert balanced_cut_energy(PATH, labels) == pytest.approx(1 / 2 + 2 / 2 + 1 / 2)
    assert balanced_cut_energy(PATH, labels, 1) == pytest.approx(1 / 2 + 2 / 1 + 1 / 1)
    assert balanced_cut_energy(PATH, labels, [0.5, 1, 3]) == pytest.approx(1 / 1 + 2 / 1 + 1 / 3)
    assert list(Problem(PATH, 3).lam) == [2, 2, 2]
    assert list(Problem(PATH, 3, 1.5).lam) == [1.5] * 3


def test_an_empty_cluster_has_infinite_energy():
    assert balanced_cut_energy(PATH, [0, 0, 2, 2]) == np.inf
    assert balanced_cut_energy(PATH, [0, 0, 1, 1], [1, 1, 1]) == np.inf
    assert Problem(PATH, 2).partition([0, 0, 0, 0]).energy == np.inf


def test_one_cluster_costs_nothing():
    assert balanced_cut_energy(PATH, [0, 0, 0, 0]) == 0
    assert Problem(PATH, 1).partition([0, 0, 0, 0]).energy == 0
    assert Problem(Graph.from_edges([], n_vertices=1), 1).partition([0]).energy == 0


def test_labels_may_be_booleans_or_whole_floats():
    expected = balanced_cut_energy(PATH, [0, 0, 1, 1])
    assert balanced_cut_energy(PATH, [False, False, True, True]) == expected
    assert balanced_cut_energy(PATH, [0.0, 0.0, 1.0, 1.0]) == expected


# ---------------------------------------------------------------- λ from a prior, and the median's rank


def test_lambda_of_a_prior():
    assert lam_of_prior([0.5, 0.25, 0.25], 3) == pytest.approx([1, 3, 3])
    assert list(lam_of_prior(None, 4)) == [3, 3, 3, 3]
    assert list(lam_of_prior([1.0], 1)) == [0]


def test_a_single_cluster_may_have_the_lambda_of_its_prior():
    """λ = (1 − 1)/1 = 0, which is refused as soon as there are two clusters."""
    assert list(Problem(PATH, 1, lam_of_prior([1.0], 1)).lam) == [0]


def test_shares_are_the_prior_and_sum_to_one():
    assert Problem(PATH, 4).shares == pytest.approx([0.25] * 4)
    assert Problem(PATH, 3, lam_of_prior([0.5, 0.3, 0.2], 3)).shares == pytest.approx([0.5, 0.3, 0.2])
    assert Problem(PATH, 2, [1.0, 3.0]).shares == pytest.approx([2 / 3, 1 / 3])  # peaks at ½ and ¼


@given(st.integers(2, 40), st.integers(1, 20))
def test_the_balance_is_largest_at_the_prior(n_parts, share):
    share = min(share, n_parts - 1)
    prior = np.array([share, n_parts - share]) / n_parts
    lam = lam_of_prior(prior, 2)[0]
    sizes = np.arange(n_parts + 1)
    balance = np.minimum(lam * sizes, n_parts - sizes)
    assert balance[share] == pytest.approx(balance.max())


def median_rank(problem):
    """The number of values above the λ-median of a column without ties or masses."""
    return np.floor(problem.median_mass).astype(int)


def test_rank_survives_the_rounding_of_a_prior():
    """N·⅓ = 1 vertex, though λ = (1 − ⅓)/⅓ is not exactly 2."""
    triangle = Graph.from_edges([(0, 1), (1, 2), (0, 2)])
    assert list(median_rank(Problem(triangle, 3, lam_of_prior([1 / 3] * 3, 3)))) == [1, 1, 1]


@given(st.integers(2, 400), st.data())
def test_rank_of_a_whole_share_is_that_share(n, data):
    share = data.draw(st.integers(1, n - 1))
    lam = lam_of_prior(np.array([share, n - share]) / n, 2)
    problem = Problem(Graph.from_edges([(0, 1)], n_vertices=n), 2, lam)
    assert list(median_rank(problem)) == [share, n - share]


@given(st.integers(2, 400), st.integers(2, 20))
def test_rank_of_the_default_is_the_floor_of_n_over_r(n, R):
    R = min(n, R)
    assert set(median_rank(Problem(Graph.from_edges([(0, 1)], n_vertices=n), R))) == {n // R}


def test_rank_stays_below_n():
    assert list(median_rank(Problem(PATH, 2, [1e-300, 1e300]))) == [3, 0]
    assert list(median_rank(Problem(PATH, 1))) == [3]


# ---------------------------------------------------------------- labels


def test_fixed_labels_are_copied_and_known():
    labels = np.array([0, -1, -1, 1])
    problem = Problem(PATH, 2, labels=labels)
    labels[:] = 0
    assert list(problem.labels) == [0, -1, -1, 1]
    assert list(problem.is_labelled) == [True, False, False, True]
    assert not Problem(PATH, 2).is_labelled.any()


def test_lambda_is_copied():
    lam = np.array([1.0, 2.0])
    problem = Problem(PATH, 2, lam)
    lam[:] = 7
    assert list(problem.lam) == [1, 2]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Problem(PATH, 0), "n_clusters.*0"),
        (lambda: Problem(PATH, -2), "n_clusters.*-2"),
        (lambda: Problem(PATH, 2.0), "n_clusters.*2.0"),
        (lambda: Problem(PATH, True), "n_clusters.*True"),
        (lambda: Problem(PATH, np.True_), "n_clusters.*True"),
        (lambda: Problem(PATH, 5), "n_clusters=5.*4 vertices"),
        (lambda: Problem(PATH, 2, [1.0, 1.0, 1.0]), "lam.*2 numbers"),
        (lambda: Problem(PATH, 2, [1.0, 0.0]), "lam.*positive"),
        (lambda: Problem(PATH, 2, [1.0, -3.0]), "lam.*-3.0"),
        (lambda: Problem(PATH, 2, np.nan), "lam.*nan"),
        (lambda: Problem(PATH, 2, np.inf), "lam.*inf"),
        (lambda: Problem(PATH, 2, "many"), "lam.*many"),
        (lambda: Problem(PATH, 2, labels=[0, 1]), r"labels.*4.*\(2,\)"),
        (lambda: Problem(PATH, 2, labels=[0, 1, 2, -1]), "fixed labels.*2"),
        (lambda: Problem(PATH, 2, labels=[0, 1, -2, -1]), "fixed labels.*-2"),
        (lambda: Problem(PATH, 2, labels=[0, 1, 0.5, -1]), "whole"),
        (lambda: Problem(PATH, 2, labels=["a", "b", "a", "b"]), "whole"),
        (lambda: Problem(PATH, 2).partition([0, 1, 2, 0]), "0 … 1; found 2"),
        (lambda: Problem(PATH, 2).partition([0, 1, -1, 0]), "found -1"),
        (lambda: Problem(PATH, 2).partition([[0, 1, 1, 0]]), "shape"),
        (lambda: balanced_cut_energy(PATH, [0, 1]), r"labels.*4.*\(2,\)"),
        (lambda: balanced_cut_energy(PATH, [0, 1, -1, 0]), "found -1"),
        (lambda: balanced_cut_energy(PATH, [0, 1, 0.5, 1]), "whole"),
        (lambda: balanced_cut_energy(PATH, [0, 1, np.nan, 1]), "whole"),
        (lambda: balanced_cut_energy(PATH, ["a", "b", "a", "b"]), "whole"),
        (lambda: balanced_cut_energy(PATH, [0, 1, 2, 0], [1.0, 1.0]), "found 2"),
        (lambda: balanced_cut_energy(PATH, [0, 1, 1, 0], -1.0), "lam"),
        (lambda: lam_of_prior([0.5, 0.4], 2), "class_prior.*0.9"),
        (lambda: lam_of_prior([0.5, 0.4999], 2), "class_prior.*0.9999"),
        (lambda: lam_of_prior([1.0, 1e-9], 2), "class_prior leaves nothing for the other clusters"),
        (lambda: lam_of_prior([1.5, -0.5], 2), "class_prior.*-0.5"),
        (lambda: lam_of_prior([1.0, 0.0], 2), "class_prior"),
        (lambda: lam_of_prior([0.5, np.nan], 2), "class_prior.*nan"),
        (lambda: lam_of_prior([0.5, 0.5], 3), "class_prior.*3 numbers"),
        (lambda: lam_of_prior("equal", 2), "class_prior.*equal"),
    ],
)
def test_bad_input_is_refused_with_its_value(make, words):
    with pytest.raises(InputError, match=words):
        make()


@given(graphs(), st.data())
def test_what_is_outside_a_cluster_is_not_lost_beside_it(graph, data):
    """Masses over many decades: m(A_rᶜ) is the sum of what is there, and no difference of larger sums."""
    R = data.draw(st.integers(2, min(4, graph.n_vertices)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    masses = 10.0 ** rng.uniform(-6, 0, graph.n_vertices)
    masses[0] = 1e5
    labels = rng.permutation(np.arange(graph.n_vertices) % R)
    found = Problem(graph.with_masses(masses), R).partition(labels)
    W = graph.to_scipy().toarray()
    for r in range(R):
        inside = labels == r
        balance = min((R - 1) * masses[inside].sum(), masses[~inside].sum())
        assert found.terms[r] == pytest.approx(W[inside][:, ~inside].sum() / balance, rel=1e-12)


@pytest.mark.parametrize("factor", [2.0**-1060, 1.0, 2.0**1000])
@pytest.mark.parametrize("of_weights", [True, False])
def test_the_unit_of_the_energy_is_a_number_where_weights_and_masses_are_none_to_speak_of(factor, of_weights):
    """Weights and masses times one factor leave (P) as it is, be it next to the smallest number there is."""
    whole = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], factor * np.array([4.0, 1.0, 2.0, 1.0]))
    problem = Problem(whole.with_masses(factor * np.array([1.0, 2.0, 3.0, 4.0])), 2)
    scaled, unit = problem.in_means(of_weights=of_weights)
    labels = [0, 0, 1, 1]
    assert problem.partition(labels).energy == pytest.approx(2 * 2 / 3)
    assert unit * scaled.partition(labels).energy == pytest.approx(2 * 2 / 3)
    assert scaled.graph.weights.max() <= 4.0


@pytest.mark.parametrize(("weight", "mass"), [(5e-324, 1e300), (1e300, 5e-324), (3.0, 2.0)])
def test_an_infinite_energy_stays_infinite_in_any_unit(weight, mass):
    unit = energy_unit(weight, mass)
    assert unit * np.inf == np.inf
    assert unit * 0.0 == 0.0
    assert energy_unit(3.0, 2.0) == 1.5
