"""Every start: its shape, that it is feasible once projected, that its seed decides it, and that no cluster
of it is empty; the partitioners behind "multilevel", and what happens where one of them or both are missing.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from strategies import planted_graph, random_graph
from tautcut import Graph, MTVClustering, Problem
from tautcut import starts as former_starts
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.kernels.reference import project
from tautcut.problem import lam_of_prior
from tautcut.search.partitioners import fill_empty, integer_weights, partition_level
from tautcut.search.plan import INITS, Plan, Task
from tautcut.search.starts import soften, start_maker

NAMES = [name for name in INITS if name != "auto"]

BLOCKS = np.repeat(np.arange(3), 20)
PARTITIONERS = ("pymetis", "mtkahypar")

PROBLEMS = {
    "planted": Problem(planted_graph(3, 20, seed=0), 3),
    "weighted": Problem(planted_graph(3, 20, seed=0, is_weighted=True), 3),
    "prior": Problem(planted_graph(3, 20, seed=0), 3, lam_of_prior([0.5, 0.3, 0.2], 3)),
    "isolated": Problem(random_graph(40, 60, seed=2, n_isolated=5), 3),
    "pieces": Problem(Graph.from_edges([(2 * i, 2 * i + 1) for i in range(8)]), 3),
    "edgeless": Problem(Graph.from_edges([], n_vertices=9), 3),
    "star": Problem(Graph.from_edges([(0, i) for i in range(1, 12)]), 3),
    "many": Problem(Graph.from_edges([(i, i + 1) for i in range(9)]), 8),
    "all": Problem(Graph.from_edges([(i, i + 1) for i in range(9)]), 10),
    "one": Problem(Graph.from_edges([(i, i + 1) for i in range(9)]), 1),
}
SMALLEST, LARGEST = 1e-12, 1e12
WILD = Graph.from_edges([(i, i + 1) for i in range(19)], np.geomspace(SMALLEST, LARGEST, 19))


def start(problem: Problem, init: Any, *, seed: int = 0, number: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    make = start_maker(problem, init, rng=rng)
    return make(number, rng.spawn(1)[0])


def partition(problem: Problem, *, imbalance: float = 0.03, seed: int = 0) -> np.ndarray:
    return partition_level(problem.graph, problem.shares, imbalance=imbalance, rng=np.random.default_rng(seed))


@pytest.fixture(params=PARTITIONERS)
def partitioner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each partitioner in turn, the other one hidden."""
    name: str = request.param
    pytest.importorskip(name)
    hide(monkeypatch, *(other for other in PARTITIONERS if other != name))
    return name


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make these packages fail to import."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


# ---------------------------------------------------------------- every start


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("init", NAMES)
def test_a_start_projects_to_memberships_with_every_cluster(init: str, name: str) -> None:
    problem = PROBLEMS[name]
    for number in range(3):
        F = start(problem, init, number=number)
        assert F.shape == (problem.n_vertices, problem.n_clusters)
        assert np.isfinite(F).all()
        feasible = project(F, np.asarray(problem.labels))
        assert feasible.min() >= 0
        np.testing.assert_allclose(feasible.sum(axis=1), 1, rtol=1e-9)
        assert not problem.partition(feasible.argmax(axis=1)).has_empty_cluster


@pytest.mark.parametrize("init", NAMES)
def test_the_seed_decides_the_start(init: str) -> None:
    problem = PROBLEMS["weighted"]
    np.testing.assert_array_equal(start(problem, init, seed=4), start(problem, init, seed=4))


@pytest.mark.parametrize("init", ["ncut-seeds", "random"])
def test_another_seed_gives_another_start(init: str) -> None:
    problem = PROBLEMS["weighted"]
    assert not np.array_equal(start(problem, init, seed=4), start(problem, init, seed=5))


def test_several_starts_of_one_maker_differ() -> None:
    problem = Problem(random_graph(60, 150, seed=0), 3)
    for init in ("multilevel", "ncut-seeds", "random"):
        rng = np.random.default_rng(0)
        make = start_maker(problem, init, rng=rng)
        starts = {make(number, child).tobytes() for number, child in enumerate(rng.spawn(4))}
        assert len(starts) > 1, init


@pytest.mark.parametrize("init", ["multilevel", "ncut-seeds", "ncut"])
def test_informed_starts_find_planted_blocks(init: str) -> None:
    problem = PROBLEMS["planted"]
    labels = start(problem, init).argmax(axis=1)
    agreement = np.array([[np.sum((labels == a) & (b == BLOCKS)) for b in range(3)] for a in range(3)])
    assert agreement.max(axis=1).sum() >= 54
    assert set(agreement.argmax(axis=1)) == {0, 1, 2}


def test_ncut_is_an_indicator_and_multilevel_a_softened_one() -> None:
    problem = PROBLEMS["planted"]
    np.testing.assert_array_equal(np.sort(start(problem, "ncut"), axis=1)[:, 1:], np.tile([0.0, 1.0], (60, 1)))
    np.testing.assert_allclose(np.unique(start(problem, "multilevel")), [1 / 6, 2 / 3])


def test_softening_moves_towards_the_barycentre() -> None:
    labels = np.array([0, 2, 1])
    np.testing.assert_array_equal(soften(labels, 3, 0.0), np.eye(3)[labels])
    np.testing.assert_allclose(soften(labels, 3, 1.0), np.full((3, 3), 1 / 3))
    np.testing.assert_allclose(soften(labels, 3, 0.3).sum(axis=1), 1)
    np.testing.assert_array_equal(soften(labels, 3).argmax(axis=1), labels)


# ---------------------------------------------------------------- labels, and the user's own array


@pytest.mark.parametrize("init", INITS)
def test_with_labels_a_start_is_the_labels_propagated(init: str) -> None:
    labels = np.full(60, -1)
    labels[[0, 23, 44]] = 0, 1, 2
    problem = Problem(planted_graph(3, 20, seed=0), 3, labels=labels)
    F = start(problem, Task(problem, Plan(init=init)).init("multilevel"))
    L = np.diag(problem.graph.degrees) - problem.graph.to_scipy().toarray()
    B = (labels[:, None] == np.arange(3)).astype(float)
    np.testing.assert_allclose(F, np.linalg.solve(np.eye(60) + L, B), atol=1e-5)


def test_the_own_array_is_taken_and_copied() -> None:
    own = np.random.default_rng(0).random((60, 3))
    before = own.copy()
    rng = np.random.default_rng(0)
    make = start_maker(PROBLEMS["planted"], own, rng=rng)
    own[:] = 0
    np.testing.assert_array_equal(make(0, rng), before)
    np.testing.assert_array_equal(make(1, rng), before)


@pytest.mark.parametrize("shape", [(60, 2), (3, 60), (60,), (60, 3, 1)])
def test_an_array_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"\(60, 3\)"):
        start(PROBLEMS["planted"], np.ones(shape))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="'magic'") as raised:
        Plan(init="magic")
    assert all(name in str(raised.value) for name in INITS)


# ---------------------------------------------------------------- partitioners


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_partition_has_every_cluster(partitioner: str, name: str) -> None:
    problem = PROBLEMS[name]
    for seed in range(5):
        sizes = np.bincount(partition(problem, seed=seed), minlength=problem.n_clusters)
        assert sizes.size == problem.n_clusters
        assert sizes.min() >= 1


def test_a_partition_is_decided_by_its_seed(partitioner: str) -> None:
    for problem in (PROBLEMS["weighted"], PROBLEMS["prior"], PROBLEMS["isolated"]):
        np.testing.assert_array_equal(partition(problem, seed=3), partition(problem, seed=3))


def test_planted_blocks_are_found_with_and_without_weights(partitioner: str) -> None:
    for name in ("planted", "weighted"):
        problem = PROBLEMS[name]
        found = problem.partition(partition(problem))
        assert found.energy == pytest.approx(problem.partition(BLOCKS).energy)


def test_weights_are_looked_at(partitioner: str) -> None:
    weights = np.where(np.arange(19) == 7, 0.01, 1.0)
    path = Graph.from_edges([(i, i + 1) for i in range(19)], weights)
    labels = partition(Problem(path, 2), imbalance=0.8)
    np.testing.assert_array_equal(labels == labels[0], np.arange(20) < 8)


@pytest.mark.parametrize("imbalance", [0.03, 0.1])
def test_even_shares_are_kept_up_to_the_imbalance(partitioner: str, imbalance: float) -> None:
    problem = Problem(random_graph(120, 400, seed=1), 3)
    sizes = np.bincount(partition(problem, imbalance=imbalance), minlength=3)
    assert sizes.max() <= np.ceil((1 + imbalance) * 40)


def test_shares_follow_the_class_prior(partitioner: str) -> None:
    prior = np.array([0.6, 0.3, 0.1])
    problem = Problem(random_graph(200, 700, seed=1), 3, lam_of_prior(prior, 3))
    sizes = np.bincount(partition(problem), minlength=3)
    assert (sizes <= np.ceil(1.03 * 200 * prior) + 1).all()
    np.testing.assert_allclose(sizes / 200, prior, atol=0.05)


def test_very_uneven_shares_are_nothing_to_complain_of() -> None:
    """METIS says so on standard output, from a buffer of its own, if it finds a bisection impossible."""
    code = """
import numpy as np
from tautcut import knn_graph
from tautcut.search.partitioners import partition_level
graph = knn_graph(np.random.default_rng(0).normal(size=(1000, 3)))
for seed in range(10):
    for shares in ([0.92, 0.03, 0.025, 0.025], [0.9, 0.05, 0.05], [0.5, 0.49, 0.005, 0.005]):
        rng = np.random.default_rng(seed)
        labels = partition_level(graph, np.array(shares), imbalance=(0.1, 0.3)[seed % 2], rng=rng)
        assert set(labels) == {*range(len(shares))}
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_weights_of_every_scale_are_partitioned(partitioner: str) -> None:
    labels = partition(Problem(WILD, 3), imbalance=0.3)
    assert np.bincount(labels, minlength=3).min() >= 1


def test_without_metis_the_estimator_uses_mt_kahypar(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "pymetis")
    graph = PROBLEMS["weighted"].graph
    a, b = (MTVClustering(3, affinity="precomputed", random_state=1).fit(graph) for _ in range(2))
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.energy_ == pytest.approx(PROBLEMS["weighted"].partition(BLOCKS).energy)


def test_without_a_partitioner_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, *PARTITIONERS)
    with pytest.raises(EngineUnavailableError, match=r"pymetis or mtkahypar.*ncut-seeds"):
        MTVClustering(3, affinity="precomputed").fit(PROBLEMS["planted"].graph)


def test_without_a_partitioner_the_other_starts_work(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, *PARTITIONERS)
    for init in ("ncut-seeds", "ncut", "random"):
        labels = MTVClustering(3, affinity="precomputed", init=init, search="none", random_state=0).fit_predict(
            PROBLEMS["planted"].graph
        )
        assert set(labels) == {0, 1, 2}


def test_where_no_partitioner_can_help_none_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, *PARTITIONERS)
    for name in ("many", "all", "one", "edgeless"):
        problem = PROBLEMS[name]
        assert set(partition(problem)) == set(range(problem.n_clusters))


# ---------------------------------------------------------------- small parts


def test_integer_weights_keep_the_order_and_fit_in_32_bits() -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 1000)
    whole = integer_weights(weights)
    assert whole.dtype == np.int64
    np.testing.assert_allclose(whole / whole.mean(), weights / weights.mean(), rtol=2e-3)
    wild = integer_weights(np.geomspace(SMALLEST, LARGEST, 100))
    assert wild.min() >= 1
    assert (np.diff(wild) >= 0).all()
    assert wild.sum() < 2**31
    assert integer_weights(np.full(10**6, LARGEST)).sum() < 2**31


def test_equal_weights_become_equal_numbers() -> None:
    for scale in (SMALLEST, 1.0, LARGEST):
        assert len(set(integer_weights(np.full(7, scale)))) == 1


def test_filling_gives_empty_clusters_a_part_of_the_largest() -> None:
    labels = np.array([0, 0, 0, 0, 0, 0, 3])
    filled = fill_empty(labels, 4)
    assert np.bincount(filled, minlength=4).min() >= 1
    assert filled[6] == 3
    np.testing.assert_array_equal(labels, [0, 0, 0, 0, 0, 0, 3])
    np.testing.assert_array_equal(fill_empty(np.zeros(5, dtype=int), 5), fill_empty(np.zeros(5, dtype=int), 5))
    assert set(fill_empty(np.zeros(5, dtype=int), 5)) == set(range(5))


def test_filling_leaves_full_partitions_alone() -> None:
    labels = np.array([2, 0, 1, 1, 0])
    np.testing.assert_array_equal(fill_empty(labels, 3), labels)


def test_whoever_looks_where_starts_were_finds_them_and_is_told() -> None:
    with pytest.warns(FutureWarning, match=r"tautcut\.search"):
        assert former_starts.start_maker is start_maker
    with pytest.warns(FutureWarning, match="_mt_kahypar_lock"):
        assert not former_starts._mt_kahypar_lock.locked()
    with pytest.raises(AttributeError, match="nothing"):
        _ = former_starts.nothing
