"""Few labels of clusters that stand apart: the graph's own clusters, by the names of the labels in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons

from tautcut import Graph, MTVClassifier, Problem, knn_graph
from tautcut.kernels import devices
from tautcut.search import driver, partitioners
from tautcut.search.driver import best_of_starts
from tautcut.search.matching import _named, matched_clusters
from tautcut.search.plan import Plan, Task

N = 1000


@pytest.fixture(scope="module")
def moons() -> tuple[Graph, np.ndarray]:
    X, truth = make_moons(N, noise=0.08, random_state=0)
    return knn_graph(X, 10), truth


def one_each(truth: np.ndarray, seed: int, per_class: int = 1) -> np.ndarray:
    labels, rng = np.full(truth.size, -1), np.random.default_rng(seed)
    for r in np.unique(truth):
        labels[rng.choice(np.flatnonzero(truth == r), per_class, replace=False)] = r
    return labels


def spread(graph: Graph, labels: np.ndarray, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> Any:
    """What the labels lead to by themselves."""
    with monkeypatch.context() as patch:
        patch.setattr(driver, "matched_clusters", lambda task, found: None)
        return best_of_starts(Problem(graph, 2, labels=labels), Plan(**asked), rng=np.random.default_rng(0)).partition


def test_one_label_is_enough_where_clusters_stand_apart(moons, monkeypatch):
    graph, truth = moons
    n_mended = 0
    for seed in range(6):
        labels = one_each(truth, seed)
        alone = spread(graph, labels, monkeypatch)
        found = best_of_starts(Problem(graph, 2, labels=labels), Plan(), rng=np.random.default_rng(0)).partition
        assert found.energy <= alone.energy
        np.testing.assert_array_equal(found.labels[labels >= 0], labels[labels >= 0])
        if found.energy < alone.energy:
            n_mended += 1
            assert found.energy < 0.5 * alone.energy
            assert (found.labels == truth).mean() > 0.99 > (alone.labels == truth).mean()
    assert n_mended >= 2


def test_the_classifier_and_its_memberships_follow(moons, monkeypatch):
    graph, truth = moons
    labels = next(
        one for one in (one_each(truth, seed) for seed in range(20))
        if (spread(graph, one, monkeypatch).labels == truth).mean() < 0.95
    )  # fmt: skip
    model = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, labels)
    assert (model.transduction_ == truth).mean() > 0.99
    np.testing.assert_array_equal(model.memberships_.argmax(axis=1), model.transduction_)


def rough(truth: np.ndarray, labels: np.ndarray, n_wrong: int = 450) -> np.ndarray:
    """A partition that heeds the labels and has cut through the first moon."""
    found = np.where(np.arange(N) < n_wrong, 0, truth)
    found[labels >= 0] = labels[labels >= 0]
    return found


def looked_at(graph: Graph, labels: np.ndarray, found: np.ndarray, **asked: Any) -> Any:
    task = Task(Problem(graph, 2, labels=labels), Plan(**asked))
    return matched_clusters(task, task.problem.partition(found))


def test_clusters_need_most_in_common_with_what_the_labels_led_to(moons):
    graph, truth = moons
    labels = np.full(N, -1)
    labels[[np.flatnonzero(truth == 0)[0], np.flatnonzero(truth == 1)[0]]] = 0, 1
    matched = looked_at(graph, labels, rough(truth, labels))
    assert (matched.labels == truth).mean() > 0.99
    far = np.where(np.arange(N) < 550, 1 - truth, truth)
    far[labels >= 0] = labels[labels >= 0]
    assert looked_at(graph, labels, far) is None


def test_clusters_have_to_cost_far_less(moons):
    graph, truth = moons
    assert looked_at(graph, one_each(truth, 0), truth) is None


def test_labels_of_two_classes_in_one_cluster_leave_it_alone(moons):
    graph, truth = moons
    labels = np.full(N, -1)
    labels[np.flatnonzero(truth == 0)[:2]] = 0, 1
    assert looked_at(graph, labels, rough(truth, labels)) is None


@pytest.mark.parametrize(
    "asked", [{"algorithm": "paper"}, {"search": "none"}, {"init": np.full((N, 2), 0.5)}, {"device": "cuda"}],
    ids=["as printed", "no search", "a start", "a GPU"],
)  # fmt: skip
def test_other_searches_are_left_alone(moons, monkeypatch, asked):
    graph, truth = moons
    monkeypatch.setattr(devices, "runs_on_gpu", lambda problem, device: device == "cuda")
    labels = one_each(truth, 0)
    assert looked_at(graph, labels, rough(truth, labels)) is not None
    assert looked_at(graph, labels, rough(truth, labels), **asked) is None


def test_many_labels_and_no_partitioner_are_left_alone(moons, monkeypatch):
    graph, truth = moons
    many, few = one_each(truth, 0, per_class=10), one_each(truth, 0)
    assert looked_at(graph, many, rough(truth, many)) is None
    monkeypatch.setattr(partitioners, "is_available", lambda: False)
    assert looked_at(graph, few, rough(truth, few)) is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=3, max_size=12))
@settings(max_examples=200, deadline=None)
def test_names_are_given_where_clusters_and_classes_match_one_to_one(pairs):
    clusters, labels = np.array(pairs).T
    named = _named(clusters, labels, 3)
    met = {(cluster, label) for cluster, label in pairs if label >= 0}
    is_one_to_one = len(met) == len({a for a, _ in met}) == len({b for _, b in met}) == 3
    assert (named is not None) == is_one_to_one
    if named is not None:
        np.testing.assert_array_equal(named[labels >= 0], labels[labels >= 0])
        assert len(set(zip(named, clusters, strict=True))) == len(set(clusters))
