"""Several starts, one answer: the lowest (P) wins, ties keep the first, and neither the number of jobs nor an
interruption loses what was found.
"""

from __future__ import annotations

import itertools
import signal
import threading
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tautcut.search.multilevel as multilevel
from strategies import planted_graph, random_graph
from tautcut import Graph, Problem, balanced_cut_energy
from tautcut.algorithm import stopping
from tautcut.algorithm.observers import Progress
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.errors import CollapseWarning, InputError, InterruptedRunWarning
from tautcut.search.driver import best_of_starts
from tautcut.search.multilevel import MultilevelSearcher
from tautcut.search.plan import EFFORTS, Effort, Plan, Task

# Random graphs have many local minima, so that starts differ.
ROUGH = Problem(random_graph(60, 150, seed=0), 3)
PLANTED = Problem(planted_graph(3, 20, seed=0, is_weighted=True), 3)
PATH = Problem(Graph.from_edges([(i, i + 1) for i in range(11)]), 2)


def best(problem: Problem, *, seed: int = 0, observers: Any = (), **settings: Any) -> Result:
    plan = Plan(**{"init": "random", "search": "none", **settings})
    return best_of_starts(problem, plan, rng=np.random.default_rng(seed), observers=observers)


class Watch:
    """Keeps the best cut that each start has shown."""

    def __init__(self) -> None:
        self.best: dict[int, float] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.phase == "solve":
            self.best[progress.start] = progress.best_energy


# ---------------------------------------------------------------- the lowest wins


@pytest.mark.parametrize("seed", range(4))
def test_the_lowest_energy_of_all_starts_wins(seed: int) -> None:
    watch = Watch()
    result = best(ROUGH, seed=seed, n_init=5, observers=[watch])
    assert sorted(watch.best) == list(range(5))
    assert len(set(watch.best.values())) > 1
    assert result.partition.energy == min(watch.best.values())
    assert result.partition.energy == pytest.approx(balanced_cut_energy(ROUGH.graph, result.partition.labels))


@pytest.mark.parametrize("search", ["none", "short"])
@pytest.mark.parametrize("init", ["random", "ncut-seeds", "multilevel"])
def test_more_starts_never_cost(init: str, search: str) -> None:
    energies = [
        best(ROUGH, init=init, search=search, n_init=n_init, min_cluster_size=1).partition.energy
        for n_init in (1, 2, 4)
    ]
    assert energies == sorted(energies, reverse=True)


def test_a_tie_keeps_the_first() -> None:
    ring = Problem(Graph.from_edges([(i, (i + 1) % 12) for i in range(12)]), 2)
    n_ties = 0
    for seed in range(8):
        watch = Watch()
        first, several = best(ring, seed=seed), best(ring, seed=seed, n_init=4, observers=[watch])
        lowest = [start for start, energy in watch.best.items() if energy == min(watch.best.values())]
        if len(lowest) > 1 and lowest[0] == 0:
            np.testing.assert_array_equal(first.partition.labels, several.partition.labels)
            n_ties += 1
    assert n_ties >= 3


def test_the_generator_decides_the_answer() -> None:
    for search in ("none", "short"):
        a, b = (best(ROUGH, n_init=2, search=search, seed=3) for _ in range(2))
        np.testing.assert_array_equal(a.partition.labels, b.partition.labels)
        np.testing.assert_array_equal(a.memberships, b.memberships)


def test_two_jobs_give_what_one_gives() -> None:
    for search in ("none", "short"):
        one, two = (best(ROUGH, n_init=3, search=search, n_jobs=n_jobs) for n_jobs in (1, 2))
        np.testing.assert_array_equal(one.partition.labels, two.partition.labels)
        np.testing.assert_array_equal(one.memberships, two.memberships)
        assert one.partition.energy == two.partition.energy
        assert one.history == two.history


# ---------------------------------------------------------------- search


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("problem", [ROUGH, PLANTED, PATH], ids=["rough", "planted", "path"])
def test_search_never_costs(problem: Problem, seed: int) -> None:
    for init in ("multilevel", "random"):
        none, short = (
            best(problem, seed=seed, init=init, search=search, min_cluster_size=1).partition.energy
            for search in ("none", "short")
        )
        assert short <= none * (1 + 1e-6)  # the solver measures cuts in single precision


def test_a_longer_search_helps_on_a_rough_graph() -> None:
    none, thorough = (
        best(ROUGH, init="multilevel", search=search, min_cluster_size=1).partition.energy
        for search in ("none", "thorough")
    )
    assert thorough < none


@pytest.mark.parametrize("smallest", [5, 15, 20])
def test_the_answer_keeps_clusters_large_enough(smallest: int) -> None:
    result = best(ROUGH, init="multilevel", search="short", n_init=2, min_cluster_size=smallest)
    assert result.partition.sizes.min() >= smallest


def test_fixed_labels_stay_through_search_and_starts() -> None:
    labels = np.full(60, -1)
    labels[[0, 1, 2, 30, 31]] = 0, 1, 2, 0, 0
    for search in ("none", "short"):
        result = best(Problem(ROUGH.graph, 3, labels=labels), search=search, n_init=2)
        np.testing.assert_array_equal(result.partition.labels[labels >= 0], labels[labels >= 0])


def test_a_class_without_labels_is_found_too() -> None:
    labels = np.full(60, -1)
    labels[[0, 25]] = 0, 1
    problem = Problem(PLANTED.graph, 3, labels=labels)
    for search in ("none", "short"):
        result = best(problem, search=search)
        np.testing.assert_array_equal(result.partition.labels, np.repeat([0, 1, 2], 20))


# ---------------------------------------------------------------- interruption


def test_an_interruption_in_the_second_start_keeps_the_first() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.start == 1:
            raise KeyboardInterrupt

    watch = Watch()
    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        result = best(ROUGH, n_init=5, observers=[watch, interrupt])
    assert sorted(watch.best) == [0, 1]
    assert result.partition.energy == min(watch.best.values())
    assert result.partition.energy <= best(ROUGH, n_init=1).partition.energy


def test_an_interruption_in_the_first_start_gives_what_it_had() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.outer == 2:
            raise KeyboardInterrupt

    for search in ("none", "short"):
        with pytest.warns(InterruptedRunWarning):
            result = best(ROUGH, n_init=3, search=search, observers=[interrupt])
        assert result.status is Status.INTERRUPTED
        assert result.partition.energy == pytest.approx(balanced_cut_energy(ROUGH.graph, result.partition.labels))


@pytest.mark.parametrize("phase", ["starts", "search", "solve"])
def test_an_interruption_of_any_phase_of_a_search_gives_what_it_had(phase: str) -> None:
    shown = []

    def interrupt(progress: Progress) -> None:
        shown.append(progress.best_energy)
        if progress.phase == phase and progress.iterations >= 1:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        result = best(ROUGH, init="multilevel", search="short", n_init=3, observers=[interrupt])
    assert result.status is Status.INTERRUPTED
    assert result.partition.energy <= shown[-1] * (1 + 1e-6)
    assert result.memberships.shape == (60, 3)
    np.testing.assert_allclose(result.memberships.sum(axis=1), 1, atol=1e-5)


def press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def work_that_cannot_hear() -> tuple[Any, threading.Event]:
    """Work that presses Ctrl-C when it is first called, and ends when it is released."""
    release, presses = threading.Event(), iter([press_ctrl_c])

    def deaf(*given: Any, **named: Any) -> None:
        next(presses, lambda: None)()
        release.wait(60)

    return deaf, release


def test_ctrl_c_does_not_wait_for_work_that_cannot_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf, release = work_that_cannot_hear()
    monkeypatch.setattr(multilevel.VCycles, "combine", deaf)
    shown: list[Progress] = []
    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        result = best(ROUGH, init="multilevel", search="short", n_init=3, observers=[shown.append])
    release.set()
    assert result.status is Status.INTERRUPTED
    assert result.partition.energy == pytest.approx(shown[-1].best_energy)


def test_ctrl_c_before_there_is_anything_goes_on_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf, release = work_that_cannot_hear()
    monkeypatch.setattr(multilevel.VCycles, "start", deaf)
    with pytest.raises(KeyboardInterrupt):
        best(ROUGH, init="multilevel", search="short", n_init=3)
    release.set()


def test_ctrl_c_ends_a_run_that_hears_it_with_its_memberships() -> None:
    def press(progress: Progress) -> None:
        if progress.outer == 2:
            press_ctrl_c()

    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        result = best(ROUGH, stop=StopRule(tol=0.0, max_iter=10**6), observers=[press], algorithm="paper")
    assert result.status is Status.INTERRUPTED
    assert len(result.history) > 2


def test_ctrl_c_while_the_first_run_is_refined_keeps_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf, release = work_that_cannot_hear()
    monkeypatch.setattr(multilevel.VCycles, "refine", deaf)
    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        result = best(ROUGH, search="short", n_init=2)
    release.set()
    assert result.status is Status.INTERRUPTED
    assert result.partition.energy == pytest.approx(best(ROUGH, n_init=1).partition.energy)


def test_an_observer_sees_the_best_cut_fall_through_all_phases() -> None:
    shown: list[Progress] = []
    result = best(ROUGH, init="multilevel", search="short", n_init=3, observers=[shown.append])
    # three starts and, the graph being rough, a strong partition; then their children
    phases = [p.phase for p in shown if p.phase != "solve"]
    assert phases == ["starts"] * 4 + ["search"] * (len(phases) - 4)
    assert len(phases) > 4
    assert shown[-1].phase == "solve"
    energies = [p.best_energy for p in shown if p.phase != "solve"]
    assert energies == sorted(energies, reverse=True)
    assert result.partition.energy <= energies[-1]


def test_an_observer_can_stop_all_starts() -> None:
    seen = []

    def stop_in_the_second(progress: Progress) -> bool:
        seen.append(progress.start)
        return progress.start == 1

    result = best(ROUGH, n_init=5, observers=[stop_in_the_second])
    assert set(seen) == {0, 1}
    assert seen.count(1) == 1
    assert np.isfinite(result.partition.energy)


# ---------------------------------------------------------------- the plan


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_init", 0),
        ("n_init", -1),
        ("n_init", 2.0),
        ("n_init", True),
        ("n_init", "3"),
        ("algorithm", "quick"),
        ("search", "long"),
        ("search", None),
        ("n_init", "many"),
    ],
)
def test_a_plan_refuses_what_it_cannot_do(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name) as raised:
        Plan(**{name: value})
    assert str(value) in str(raised.value)


@pytest.mark.parametrize(("name", "value"), [("device", "abacus"), ("dtype", "int8"), ("init", "magic")])
def test_what_the_parts_refuse_is_named(name: str, value: str) -> None:
    with pytest.raises(InputError, match=value):
        best(ROUGH, **{name: value})


def n_starts(problem: Problem, **settings: Any) -> int:
    return MultilevelSearcher(Task(problem, Plan(**settings))).n_starts


def test_a_start_is_not_repeated_where_all_would_be_the_same() -> None:
    labels = np.full(60, -1)
    labels[:3] = 0, 1, 2
    assert n_starts(Problem(ROUGH.graph, 3, labels=labels)) == 1
    assert n_starts(ROUGH, search="none") == 1
    assert n_starts(ROUGH, init="ncut") == 1
    assert n_starts(ROUGH) == n_starts(ROUGH, init="multilevel") == 8
    assert n_starts(ROUGH, search="thorough") == 16
    assert n_starts(ROUGH, n_init=3) == 3


def test_what_labels_and_two_clusters_leave_of_an_effort() -> None:
    """Clusters with names cannot be merged and split, and on a GPU neither can two clusters."""
    labels = np.full(60, -1)
    labels[:3] = 0, 1, 2
    named = Task(Problem(ROUGH.graph, 3, labels=labels), Plan(init="random"))
    assert named.init("multilevel") == "labels"
    assert named.effort == Effort(is_refined=True, combinations=EFFORTS["short"].combinations)
    assert Task(named.problem, Plan(search="none")).effort == Effort()
    own = np.full((60, 3), 1 / 3)
    assert Task(named.problem, Plan(init=own)).init("multilevel") is own
    assert Task(ROUGH, Plan()).init("ncut-seeds") == "ncut-seeds"
    assert Task(ROUGH, Plan(init="random")).init("ncut-seeds") == "random"
    pair = Task(Problem(ROUGH.graph, 2), Plan())
    assert pair.effort == replace(EFFORTS["short"], generations=0)
    assert Task(ROUGH, Plan()).effort is EFFORTS["short"]


def test_the_time_limit_is_that_of_all_starts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    watch = Watch()
    result = best(ROUGH, n_init=50, stop=StopRule(time_limit=100.0, tol=0.0), observers=[watch])
    assert result.status is Status.TIME_SPENT
    assert len(watch.best) < 50
    assert result.partition.energy == min(watch.best.values())


def test_numpy_numbers_are_whole_numbers() -> None:
    assert np.isfinite(best(ROUGH, n_init=np.int64(2), min_cluster_size=np.int32(3)).partition.energy)


def test_the_stop_rule_reaches_every_start() -> None:
    result = best(ROUGH, n_init=2, stop=StopRule(max_iter=3, tol=0.0))
    assert result.n_iter <= 3
    assert result.status is Status.BUDGET_SPENT


def test_nothing_to_decide_is_said() -> None:
    alone = best(Problem(ROUGH.graph, 1), n_init=3, init="multilevel")
    assert alone.status is Status.TRIVIAL
    assert alone.partition.energy == 0
    fixed = np.random.default_rng(0).integers(0, 3, 60)
    kept = best(Problem(ROUGH.graph, 3, labels=fixed), n_init=3)
    np.testing.assert_array_equal(kept.partition.labels, fixed)


@pytest.mark.parametrize(("share_across", "search", "expected"), [(0.02, "short", []), (0.5, "short", [0.03])])
def test_noisy_graphs_get_a_strong_partition(
    monkeypatch: pytest.MonkeyPatch, share_across: float, search: str, expected: list[float]
):
    """Where the starts cut more than a tenth of the edges, and only there (decision 0021)."""
    asked: list[float] = []

    def record(problem: Problem, *, imbalance: float) -> None:
        asked.append(imbalance)

    monkeypatch.setattr(multilevel, "strong_partition", record)
    rng = np.random.default_rng(0)
    block = np.arange(120) // 40
    own = np.repeat(np.arange(120), 4)
    inside = block[own] * 40 + rng.integers(0, 40, own.size)
    ends = np.where(rng.random(own.size) < share_across, rng.integers(0, 120, own.size), inside)
    edges = np.unique(np.sort(np.column_stack([own, ends])[own != ends], axis=1), axis=0)
    problem = Problem(Graph.from_edges(edges, n_vertices=120), 3)
    best_of_starts(problem, Plan(init="multilevel", search=search), rng=rng)
    assert asked == expected


def test_large_graphs_are_spared_the_slow_partitioner(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multilevel, "_STRONG_WORK", 3)
    monkeypatch.setattr(multilevel, "_NOISY_SHARE", 0.0)
    monkeypatch.setattr(multilevel, "strong_partition", lambda problem, imbalance: pytest.fail("it was asked"))
    ring = Graph.from_edges([(i, (i + 1) % 30) for i in range(30)])
    best_of_starts(Problem(ring, 3), Plan(), rng=np.random.default_rng(0))


# ---------------------------------------------------------------- sizes that were asked for


STAR = Graph.from_edges([(0, i) for i in range(1, 30)])


@pytest.mark.parametrize("settings", [
    {"init": "ncut"}, {"search": "none", "init": "random"}, {"search": "none", "init": np.eye(4)[[0] * 27 + [1, 2, 3]]},
    {}, {"init": "multilevel"},
])  # fmt: skip
def test_a_smallest_size_is_kept_or_warned_of(settings):
    problem = Problem(STAR, 4)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        plan = Plan(min_cluster_size=5, **settings)
        sizes = best_of_starts(problem, plan, rng=np.random.default_rng(0)).partition.sizes
    told = [one for one in heard if issubclass(one.category, CollapseWarning)]
    assert bool(told) == bool(sizes.min() < 5)
    if told:
        assert "min_cluster_size=5" in str(told[0].message)


def test_an_empty_cluster_is_warned_of_without_edges_too():
    problem = Problem(Graph.from_edges(np.empty((0, 2), int), n_vertices=5), 3)
    with pytest.warns(CollapseWarning):
        best_of_starts(problem, Plan(init=np.eye(3)[[0] * 5]), rng=np.random.default_rng(0))


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40, 3.0])
def test_algorithm_1_alone_does_not_see_the_unit_of_the_weights(factor):
    W = planted_graph(3, 20, seed=1, is_weighted=True).to_scipy()
    plan = Plan(search="none", algorithm="paper", init="random")
    one, other = (
        best_of_starts(Problem(Graph.from_any(W * c), 3), plan, rng=np.random.default_rng(0)) for c in (1.0, factor)
    )
    np.testing.assert_array_equal(one.partition.labels, other.partition.labels)
    np.testing.assert_array_equal(one.memberships, other.memberships)
