"""Whether clusters strain against the balance: told where a looser one cuts much less, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError

from strategies import planted_graph
from tautcut import Graph, MTVClassifier, MTVClustering, Problem, knn_graph, purity
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.problem import cuts
from tautcut.search import strain as strain_module
from tautcut.search.strain import NOTICEABLE, strain_of

pytestmark = pytest.mark.usefixtures("light_search")


def result_of(problem: Problem, labels: object) -> Result:
    partition = problem.partition(labels)
    F = np.eye(problem.n_clusters)[partition.labels]
    return Result(problem, partition, F, partition.energy, Status.TRIVIAL, (), F)


def digits_of(counts: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """So many images of each digit."""
    X, y = load_digits(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == digit)[:n] for digit, n in counts.items()])
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def mixture(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(sizes, n_features=8, cluster_std=1.6, center_box=(-3, 3), random_state=seed)
    return X, y


@pytest.mark.parametrize(
    "data",
    [
        digits_of(dict.fromkeys(range(10), 174)),
        digits_of({0: 150, 4: 150, 6: 150}),
        mixture([300] * 4),
        mixture([400, 400], seed=1),
    ],
    ids=["digits", "three digits", "four Gaussians", "two Gaussians"],
)
def test_equal_classes_raise_no_alarm(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    model = MTVClustering(len(np.unique(y)), random_state=0).fit(X)
    strain = model.strain_
    assert not strain.is_strained
    assert strain.finding is None
    assert not strain.clusters.any()
    assert strain.fall < NOTICEABLE


@pytest.mark.parametrize(
    "data", [mixture([1000, 500, 375, 250, 150]), mixture([1000, 50, 50])], ids=["five Gaussians", "20:1"]
)
def test_uneven_classes_raise_one_and_the_shares_that_are_named_help(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    R = len(np.unique(y))
    model = MTVClustering(R, random_state=0).fit(X)
    strain = model.strain_
    assert strain.is_strained
    assert strain.clusters.any()
    assert sum(strain.prior) == pytest.approx(1, abs=1e-12)
    assert strain.prior == sorted(strain.prior, reverse=True)
    finding = strain.finding
    assert finding is not None
    assert ",".join(f"{share:g}" for share in strain.prior) in finding.advice
    again = MTVClustering(R, random_state=0, class_prior=strain.prior).fit(X)
    assert purity(again.labels_, y) > purity(model.labels_, y) + 0.02


def halves() -> tuple[Problem, np.ndarray]:
    """A block of 80 that is cut in two, and a block of 20 joined to one of the halves."""
    truth = np.repeat([0, 1], [80, 20])
    rng = np.random.default_rng(0)
    chance = np.where(truth[:, None] == truth, 0.4, 0.01)
    W = np.triu(rng.random((100, 100)) < chance, 1)
    return Problem(Graph.from_any((W + W.T).astype(float)), 2), np.r_[np.arange(80) % 2, np.ones(20, int)]


def test_what_is_told_is_what_the_looser_partition_cuts() -> None:
    problem, labels = halves()
    strain = strain_of(result_of(problem, labels))
    assert strain.clusters.tolist() == [True, True]
    assert strain.shares.tolist() == [0.8, 0.2]
    np.testing.assert_array_equal(np.bincount(strain.labels)[[0, 1]].max(), 80)
    before, after = (cuts(problem.graph, one, 2).sum() for one in (labels, strain.labels))
    assert strain.less_cut == pytest.approx(1 - after / before)
    assert strain.to_dict()["shares"] == strain.prior == [0.8, 0.2]
    assert "2 of the 2 clusters strain" in str(strain.finding)


def test_a_factor_common_to_all_weights_changes_nothing() -> None:
    problem, labels = halves()
    one = strain_of(result_of(problem, labels))
    other = strain_of(result_of(Problem(Graph.from_any(4 * problem.graph.to_scipy()), 2), labels))
    assert one.fall == pytest.approx(other.fall, rel=1e-12)
    np.testing.assert_array_equal(one.labels, other.labels)


def test_it_is_the_same_every_time_and_changes_no_result() -> None:
    problem, labels = halves()
    result = result_of(problem, labels)
    before = result.partition.labels.copy()
    one, other = strain_of(result), strain_of(result)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(result.partition.labels, before)


@pytest.mark.parametrize(
    ("graph", "labels", "n_clusters"),
    [
        (planted_graph(2, 6, seed=0), np.zeros(12, int), 1),
        (planted_graph(2, 6, seed=0), np.repeat([0, 1], 6), 3),
        (planted_graph(2, 6, seed=0), np.arange(12), 12),
        (Graph.from_edges(np.empty((0, 2), int), n_vertices=4), [0, 1, 0, 1], 2),
        (Graph.from_edges([(0, 1)]), [0, 1], 2),
        (Graph.from_edges([(0, 1), (2, 3)]), [0, 0, 1, 1], 2),
    ],
    ids=["one cluster", "an empty cluster", "a cluster each", "no edges", "two vertices", "nothing cut"],
)
def test_odd_partitions_do_not_strain(graph: Graph, labels: object, n_clusters: int) -> None:
    strain = strain_of(result_of(Problem(graph, n_clusters), labels))
    assert not strain.is_strained
    assert strain.shares.sum() == pytest.approx(1)


def test_with_labels_nothing_strains() -> None:
    problem, labels = halves()
    known = np.full(100, -1)
    known[[0, 99]] = [0, 1]
    given = replace(result_of(problem, labels), problem=Problem(problem.graph, 2, labels=known))
    assert not strain_of(given).is_strained
    y = np.full(100, -1)
    y[[0, 99]] = 0, 1
    model = MTVClassifier(affinity="precomputed", random_state=0).fit(problem.graph, y)
    assert not model.strain_.is_strained


def test_an_interrupted_run_is_not_judged() -> None:
    stopped = replace(result_of(*halves()), status=Status.INTERRUPTED)
    assert not strain_of(stopped).is_strained


def test_before_fit_there_is_no_strain() -> None:
    with pytest.raises(NotFittedError):
        _ = MTVClustering(2).strain_


def test_a_new_fit_forgets_the_strain_of_the_last() -> None:
    X, _ = mixture([1000, 50, 50])
    model = MTVClustering(3, random_state=0).fit(X)
    assert model.strain_.is_strained
    Y, _ = mixture([300, 300, 300])
    assert not model.fit(Y).strain_.is_strained
    assert model.strain_ is model.strain_


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    bisect = strain_module.bisect
    monkeypatch.setattr(strain_module, "bisect", lambda level, *, rng: (calls.append(1), bisect(level, rng=rng))[1])
    problem, labels = halves()
    strain_of(result_of(problem, labels))
    n_calls = len(calls)
    monkeypatch.setattr(strain_module, "_WORK", 5 * problem.graph.indices.size)
    strain_of(result_of(problem, labels))
    assert 5 <= len(calls) - n_calls < n_calls


def test_what_moves_alone_would_gain_is_no_strain() -> None:
    truth = np.repeat(np.arange(4), 50)
    problem = Problem(planted_graph(4, 50, seed=0), 4)
    worse = np.where(np.random.default_rng(0).random(200) < 0.2, (truth + 1) % 4, truth)
    assert problem.partition(worse).energy > 1.5 * problem.partition(truth).energy
    assert not strain_of(result_of(problem, worse)).is_strained


def test_many_clusters_take_bounded_work() -> None:
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    graph = knn_graph(X, 8)
    grid = (X[:, 0] * 15).astype(int) * 15 + (X[:, 1] * 15).astype(int)
    strain = strain_of(result_of(Problem(graph, 225), np.unique(grid, return_inverse=True)[1]))
    assert len(strain.prior) == 225
    assert min(strain.prior) > 0
    assert sum(strain.prior) == pytest.approx(1, abs=1e-9)
