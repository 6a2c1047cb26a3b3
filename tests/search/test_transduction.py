"""Given labels: what they say of every vertex, the shares that follow, and what they change."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from sklearn.datasets import load_digits, make_blobs

from strategies import graphs
from tautcut import Graph, MTVClassifier, Problem, knn_graph
from tautcut.algorithm.stopping import Status
from tautcut.errors import InputError, InterruptedRunWarning
from tautcut.graph.laplacian import harmonic, laplacian, walk_from_labels
from tautcut.kernels.cpu.moves import settle
from tautcut.problem import cuts
from tautcut.search import transduction
from tautcut.search.certainty import class_probabilities, label_quality
from tautcut.search.transduction import Evidence


def blobs(sizes: tuple[int, ...], *, spread: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    angles = 2 * np.pi * np.arange(len(sizes)) / len(sizes)
    centers = 6 * np.column_stack([np.cos(angles), np.sin(angles)])
    return make_blobs(sizes, centers=centers, cluster_std=spread, random_state=seed)


def drawn(truth: Any, per_class: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    labels = np.full(truth.size, -1)
    for r in np.unique(truth):
        labels[rng.choice(np.flatnonzero(truth == r), per_class, replace=False)] = r
    return labels


def test_the_harmonic_extension_solves_the_laplace_equation() -> None:
    X, truth = blobs((60, 60, 60))
    graph, labels = knn_graph(X, 8), drawn(truth, 3)
    U = harmonic(graph, labels, 3, tol=1e-10, max_iter=1000)
    free = labels < 0
    np.testing.assert_array_equal(U[~free], np.eye(3)[labels[~free]])
    assert np.abs((laplacian(graph) @ U)[free]).max() < 1e-6
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-6)


def test_where_no_label_can_be_reached_the_extension_is_even() -> None:
    graph = Graph.from_edges([(0, 1), (2, 3)], n_vertices=5)
    U = harmonic(graph, np.array([0, -1, -1, -1, 1]), 2)
    np.testing.assert_allclose(U, [[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5], [0, 1]])


def test_the_walk_keeps_its_mass_in_every_column() -> None:
    """1ᵀ L = 0, so (L + ρ D) X = B gives ρ Σ_i d_i X_ir = Σ_i B_ir = 1, whatever the class."""
    X, truth = blobs((60, 60, 60), spread=2.5)
    graph, labels = knn_graph(X, 8), drawn(truth, 3)
    walk = walk_from_labels(graph, labels, 3, restart=0.01, tol=1e-10, max_iter=1000)
    degrees = graph.in_mean_weights()[0].degrees
    np.testing.assert_allclose(0.01 * degrees @ walk, 1.0, rtol=1e-6)
    assert walk.min() > -1e-9


def test_the_walk_reaches_no_vertex_without_a_label_in_its_piece() -> None:
    graph = Graph.from_edges([(0, 1), (2, 3)], n_vertices=5)
    walk = walk_from_labels(graph, np.array([0, -1, -1, -1, 1]), 2)
    np.testing.assert_array_equal(walk.max(axis=1) > 0, [True, True, False, False, True])


def test_evidence_sees_past_the_background_that_few_labels_leave() -> None:
    """With one label per class the extension is nearly flat: its largest entry is of one class nearly everywhere."""
    rng = np.random.default_rng(0)
    X, truth = make_blobs(4 * [600], n_features=20, centers=rng.normal(0, 0.7, (4, 20)), random_state=0)
    graph, labels = knn_graph(X, 10), drawn(truth, 1, seed=3)
    flat = harmonic(graph, labels, 4).argmax(axis=1)
    evidence = Evidence.of_labels(graph, labels, 4)
    assert (evidence.values.argmax(axis=1) == truth).mean() > (flat == truth).mean()


@pytest.mark.parametrize("per_class", [5, 20])
def test_shares_of_uneven_classes_are_estimated(per_class: int) -> None:
    X, truth = blobs((600, 120, 600, 120), spread=1.3)
    shares = Evidence.of_labels(knn_graph(X, 10), drawn(truth, per_class), 4).shares()
    assert np.abs(shares - np.bincount(truth) / truth.size).sum() < 0.1


def test_too_few_labels_leave_shares_equal() -> None:
    X, truth = blobs((300, 300, 300), spread=2.5)
    for seed in range(5):
        shares = Evidence.of_labels(knn_graph(X, 10), drawn(truth, 1, seed=seed), 3).shares()
        np.testing.assert_array_equal(shares, np.full(3, 1 / 3))


@pytest.mark.parametrize(("sizes", "at_most"), [((600, 200, 600, 200), 0.15), ((400, 400, 400, 400), 0.0)])
def test_one_label_of_each_class_tells_uneven_from_even(sizes: tuple[int, ...], at_most: float) -> None:
    X, truth = blobs(sizes, spread=1.3)
    graph = knn_graph(X, 10)
    for seed in range(10):
        shares = Evidence.of_labels(graph, drawn(truth, 1, seed=seed), 4).shares()
        assert np.abs(shares - np.bincount(truth) / truth.size).sum() <= at_most


@pytest.mark.parametrize(("per_class", "is_believed"), [(1, False), (20, True)])
def test_what_the_evidence_alone_sees_is_believed_where_labels_are_many(
    per_class: int, is_believed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk says equal shares, so what few labels say may be chance."""
    X, truth = blobs((600, 200, 600, 200), spread=1.3)
    evidence = Evidence.of_labels(knn_graph(X, 10), drawn(truth, per_class), 4)
    assert np.ptp(evidence.shares()) > 0.1
    turns = np.eye(4)[np.arange(truth.size) % 4]
    monkeypatch.setattr(transduction, "walk_from_labels", lambda *given, **settings: turns)
    assert (np.ptp(evidence.shares()) > 0.1) == is_believed


def test_estimates_that_disagree_are_believed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are as far from equal shares as before, but the walk takes the small classes for the large ones."""
    X, truth = blobs((560, 240, 560, 240), spread=1.3)
    evidence = Evidence.of_labels(knn_graph(X, 10), drawn(truth, 5), 4)
    assert np.ptp(evidence.shares()) > 0.1
    monkeypatch.setattr(transduction, "walk_from_labels", lambda *given, **settings: np.eye(4)[(truth + 1) % 4])
    np.testing.assert_array_equal(evidence.shares(), np.full(4, 0.25))


def test_on_a_clear_graph_the_walk_confirms_and_the_evidence_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, truth = blobs((600, 120, 600, 120), spread=1.3)
    evidence = Evidence.of_labels(knn_graph(X, 10), drawn(truth, 20), 4)
    shares = evidence.shares()
    walk = np.eye(4)[np.where(np.arange(truth.size) % 10 == 0, 1, truth)]
    monkeypatch.setattr(transduction, "walk_from_labels", lambda *given, **settings: walk)
    np.testing.assert_array_equal(evidence.shares(), shares)


@pytest.mark.parametrize(("smallest", "is_believed"), [(1, False), (12, True)])
def test_a_label_that_spread_to_nothing_discredits_the_estimate(smallest: int, is_believed: bool) -> None:
    """Else a class of a single vertex is what the balanced cut would look for."""
    sizes = np.array([180, 120 - smallest, smallest])
    ends = np.cumsum(sizes)
    part = np.repeat(np.arange(3), sizes)
    cliques = np.argwhere(np.triu(part[:, None] == part, 1))
    graph = Graph.from_edges(np.r_[cliques, np.c_[ends[:-1] - 1, ends[:-1]]])
    labels = np.full(300, -1)
    labels[ends - 1] = np.arange(3)
    shares = Evidence.of_labels(graph, labels, 3).shares()
    np.testing.assert_allclose(shares, sizes / 300 if is_believed else np.full(3, 1 / 3), atol=0.02)


def test_the_classifier_says_which_shares_it_used() -> None:
    X, truth = blobs((600, 100), spread=2.5)
    labels = drawn(truth, 5)
    auto = MTVClassifier(random_state=0).fit(X, labels)
    equal = MTVClassifier(class_prior=None, random_state=0).fit(X, labels)
    told = MTVClassifier(class_prior=[0.7, 0.3], random_state=0).fit(X, labels)
    assert abs(auto.class_prior_[0] - 6 / 7) < 0.05
    np.testing.assert_allclose(equal.class_prior_, [0.5, 0.5])
    np.testing.assert_allclose(told.class_prior_, [0.7, 0.3])
    with pytest.raises(InputError, match=r"class_prior.*'equal'"):
        MTVClassifier(class_prior="equal").fit(X, labels)


def test_uneven_classes_need_no_prior() -> None:
    X, truth = blobs((800, 160, 800, 160), spread=2.2)
    labels = drawn(truth, 10)
    free = labels < 0

    def accuracy(prior: Any) -> float:
        found = MTVClassifier(class_prior=prior, random_state=0).fit(X, labels).transduction_
        return float((found == truth)[free].mean())

    assert accuracy("auto") > accuracy(np.bincount(truth) / truth.size) - 0.02
    assert accuracy("auto") > accuracy(None)


@given(graph=graphs(max_vertices=12))
def test_settling_lowers_the_cut_with_the_pull_and_moves_nothing_fixed(graph: Graph) -> None:
    rng = np.random.default_rng(graph.n_vertices)
    R = 3
    labels = rng.integers(0, R, graph.n_vertices)
    pull = rng.random((graph.n_vertices, R)) * (1 + graph.degrees[:, None])
    is_fixed = rng.random(graph.n_vertices) < 0.3

    def cost(one: Any) -> float:
        return float(cuts(graph, one, R).sum() / 2 - pull[np.arange(one.size), one].sum())

    settled = settle(graph, labels, pull, is_fixed)
    np.testing.assert_array_equal(settled[is_fixed], labels[is_fixed])
    assert cost(settled) <= cost(labels) + 1e-9 * (1 + abs(cost(labels)))


def test_labels_in_plenty_are_not_overruled() -> None:
    """Uneven digits with 20 labels per class: by equal shares the balanced cut alone does worse than the spread."""
    X, truth = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    kept = np.flatnonzero((truth % 2 == 0) | (rng.random(truth.size) < 0.2))
    graph, truth = knn_graph(X[kept], 10), truth[kept]
    right: dict[str, list[float]] = {"search": [], "cut": [], "spread": []}
    for seed in range(3):
        labels = drawn(truth, 20, seed=seed)
        free = labels < 0
        for name, found in {
            "search": MTVClassifier(affinity="precomputed", class_prior=None, random_state=0)
            .fit(graph, labels)
            .transduction_,
            "cut": MTVClassifier(affinity="precomputed", class_prior=None, search="none", random_state=0)
            .fit(graph, labels)
            .transduction_,
            "spread": harmonic(graph, labels, 10).argmax(axis=1),
        }.items():
            right[name].append((found == truth)[free].mean())
    mean = {name: np.mean(values) for name, values in right.items()}
    assert mean["search"] > mean["cut"] + 0.05
    assert mean["search"] > mean["spread"] - 0.01


def test_probabilities_lie_on_the_simplex_and_follow_the_labels() -> None:
    X, truth = blobs((200, 200, 200), spread=3.0)
    given_labels = drawn(truth, 4)
    model = MTVClassifier(random_state=0).fit(X, given_labels)
    P = model.result_.probabilities
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P.min() >= 0
    np.testing.assert_array_equal(P.argmax(axis=1), model.result_.partition.labels)
    np.testing.assert_array_equal(model.confidence_[given_labels >= 0], 1.0)
    free = given_labels < 0
    is_right = (model.transduction_ == truth)[free]
    assert model.confidence_[free][is_right].mean() > model.confidence_[free][~is_right].mean()
    assert abs(model.confidence_[free].mean() - is_right.mean()) < 0.1


def test_one_class_is_certain() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)])
    labels, known = np.zeros(3, dtype=np.int64), np.array([0, -1, -1])
    np.testing.assert_array_equal(
        class_probabilities(graph, labels, known, np.ones((3, 1)), is_even=True), np.ones((3, 1))
    )


def test_labels_that_their_neighbors_contradict_have_a_low_quality() -> None:
    X, truth = blobs((200, 200, 200), spread=1.8)
    labels = drawn(truth, 20)
    flipped = np.flatnonzero(labels >= 0)[::7]
    labels[flipped] = (labels[flipped] + 1) % 3
    model = MTVClassifier(random_state=0).fit(X, labels)
    quality = model.label_quality_
    assert np.isnan(quality[labels < 0]).all()
    right = np.setdiff1d(np.flatnonzero(labels >= 0), flipped)
    assert np.median(quality[flipped]) < 0.2 < 0.8 < np.median(quality[right])


def test_an_isolated_labelled_vertex_has_no_quality() -> None:
    graph = Graph.from_edges([(0, 1)], n_vertices=3)
    quality = label_quality(graph, np.array([0, 0, 1]), np.array([0, -1, 1]))
    np.testing.assert_array_equal(quality, [1.0, np.nan, np.nan])


def test_shares_count_only_what_labels_reach() -> None:
    edges = [(0, 1), (2, 3), (4, 5), (5, 6), (6, 7), (7, 8), (8, 4)]  # nothing reaches 4 … 8
    labels = np.array([0, -1, 1, -1, -1, -1, -1, -1, -1])
    np.testing.assert_allclose(Evidence.of_labels(Graph.from_edges(edges), labels, 2).shares(), [0.5, 0.5])
    assert Problem(Graph.from_edges(edges), 2, labels=labels).has_labels


def test_ctrl_c_while_the_labels_pull_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def deaf(*given: Any, **named: Any) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        release.wait(60)

    monkeypatch.setattr(transduction, "heed", deaf)
    X, truth = blobs((60, 60, 60), spread=2.2)
    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        model = MTVClassifier(random_state=0).fit(X, drawn(truth, 3))
    release.set()
    assert model.status_ is Status.INTERRUPTED
    assert (model.transduction_ == truth).mean() > 0.9
    assert model.result_.probabilities.shape == (180, 3)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("factor", [1e-300, 3.0, 1e300])
def test_the_pull_of_the_labels_does_not_depend_on_the_unit_of_the_weights(factor: float) -> None:
    X, truth = blobs((60, 60, 60), spread=2.5)
    graph, labels = knn_graph(X, 8, weights="self-tuning"), drawn(truth, 5)
    plain, scaled = (
        MTVClassifier(affinity="precomputed", random_state=0).fit(graph.to_scipy() * one, labels).transduction_
        for one in (1.0, factor)
    )
    np.testing.assert_array_equal(plain, scaled)
