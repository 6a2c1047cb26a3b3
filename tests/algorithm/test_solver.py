"""Algorithm 1 as a whole: descent, fixed labels, the best partition seen, and every reason to stop."""

from __future__ import annotations

import io
import json
import logging
import math
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import noisy_start, planted_graph, random_graph, soft_start, started
from tautcut.algorithm import observers, solver, stopping
from tautcut.algorithm.observers import JsonLines, Progress, ProgressBar, log_progress
from tautcut.algorithm.results import Result
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.errors import EngineUnavailableError, InputError, InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.kernels.devices import choose
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.problem import Problem

R, SIZE = 3, 25
N = R * SIZE
TRUTH = np.repeat(np.arange(R), SIZE)
GRAPH = planted_graph(R, SIZE, seed=0)
LABELS = np.where(np.arange(N) % 9 == 0, TRUTH, -1)
PROBLEM = Problem(GRAPH, R)
START = noisy_start(TRUTH, R, seed=1, trust=0.3)
ENGINES = [
    {"device": "reference"},
    {"device": "cpu", "dtype": "float64"},
    {"device": "cpu", "dtype": "float32"},
]


def run(problem: Problem = PROBLEM, start: np.ndarray = START, **options: object) -> Result:
    rule = StopRule(**{"max_iter": 200, **options.pop("stop", {})})
    return solve(problem, start, stop=rule, **{"device": "reference", **options})


def energy_of_start(problem: Problem, start: np.ndarray) -> float:
    labels = start.argmax(axis=1)
    return problem.partition(np.where(problem.is_labelled, np.asarray(problem.labels), labels)).energy


# ---------------------------------------------------------------- what a run does


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_run_descends_and_finds_the_planted_clusters(engine):
    result = run(stop={"tol": 1e-3}, **engine)
    relaxed = [line.relaxed_energy for line in result.history]
    assert relaxed[-1] < 0.5 * relaxed[0]
    assert (np.diff(relaxed) < 1e-6 * relaxed[0]).all()
    assert all(line.is_descent for line in result.history)
    assert np.array_equal(result.partition.labels, TRUTH)
    assert result.partition.energy == pytest.approx(PROBLEM.partition(TRUTH).energy)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_history_counts_what_was_done(engine):
    result = run(stop={"tol": 0.0, "max_iter": 60}, **engine)
    assert [line.outer for line in result.history] == list(range(len(result.history)))
    assert result.history[0].iterations == 0
    assert (np.diff([line.iterations for line in result.history]) >= 1).all()
    assert result.n_iter == result.history[-1].iterations <= 60
    assert result.partition.energy == pytest.approx(min(line.energy for line in result.history))


@pytest.mark.parametrize("max_inner", [1, 2, 7])
def test_an_outer_step_ends_after_max_inner_iterations(max_inner):
    result = run(stop={"tol": 0.0, "max_inner": max_inner, "epsilon": 1e-9, "max_iter": 200})
    lengths = np.diff([line.iterations for line in result.history])
    assert lengths.max() == max_inner


def test_a_step_that_ends_without_descent_says_so():
    """Near the end one inner iteration is not enough; the history must not claim a descent."""
    problem = Problem(Graph.from_edges([(i, i + 1) for i in range(19)]), 2)
    start = np.linspace([0.9, 0.1], [0.2, 0.8], 20)
    history = run(problem, start, stop={"tol": 0.0, "max_inner": 1, "max_iter": 500}).history
    assert not all(line.is_descent for line in history)
    assert history[0].is_descent


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_labelled_rows_are_unit_vectors_throughout(engine):
    problem = Problem(GRAPH, R, labels=LABELS)
    fixed, unit_rows = LABELS >= 0, np.eye(R)[LABELS[LABELS >= 0]]
    start = START.copy()
    start[fixed] = START[fixed][:, ::-1]  # a start that contradicts the labels
    kernels = choose(problem, **engine)
    state = solver.init(problem, solver.feasible(problem, start), kernels)
    for _ in range(20):
        assert np.array_equal(kernels.memberships(state.arrays)[fixed], unit_rows)
        state = solver.step(problem, state, kernels, StopRule(), deadline=np.inf)
    result = run(problem, start, **engine)
    assert np.array_equal(result.memberships[fixed], unit_rows)
    assert np.array_equal(result.partition.labels[fixed], LABELS[fixed])


@settings(max_examples=25)
@given(started(has_labels=True, max_vertices=9), st.integers(1, 60))
def test_the_answer_is_never_worse_than_the_start(drawn, max_iter):
    problem, start = drawn
    result = run(problem, start, stop={"max_iter": max_iter, "tol": 0.0})
    assert result.partition.energy <= energy_of_start(problem, start)
    assert result.partition.energy == problem.partition(result.partition.labels).energy
    assert np.array_equal(result.memberships.argmax(axis=1), result.partition.labels)
    assert np.array_equal(result.partition.labels[problem.is_labelled], np.asarray(problem.labels)[problem.is_labelled])
    assert result.memberships.sum(axis=1) == pytest.approx(1)
    assert result.memberships.min() >= 0
    assert result.n_iter <= max_iter


def test_a_perfect_start_is_kept():
    start = 0.4 * np.eye(R)[TRUTH] + 0.6 / R
    result = run(start=start, stop={"tol": 0.0, "max_iter": 100})
    assert np.array_equal(result.partition.labels, TRUTH)
    assert np.array_equal(result.memberships.argmax(axis=1), TRUTH)


def test_inputs_are_never_changed():
    W, lam, labels, start = GRAPH.to_scipy(), np.array([1.0, 2.0, 3.0]), LABELS.copy(), 3 * START
    copies = [W.copy(), lam.copy(), labels.copy(), start.copy()]
    for engine in ENGINES:
        result = run(Problem(Graph.from_any(W), R, lam, labels), start, stop={"max_iter": 20}, **engine)
        result.memberships[:] = 0  # the caller's own
    assert (copies[0] != W).nnz == 0
    assert np.array_equal(lam, copies[1])
    assert np.array_equal(labels, copies[2])
    assert np.array_equal(start, copies[3])


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_the_same_input_gives_the_same_bits(engine):
    first, second = run(**engine), run(**engine)
    assert np.array_equal(first.memberships, second.memberships)
    assert first.history == second.history


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("amplitude", [1e-4, 1e-7, 1e-9, 1e-12])
def test_a_nearly_absent_cluster_does_not_break_the_run(engine, amplitude):
    """A column of tiny amplitude makes Δ/B and the primal step huge; it is a legal start all the same."""
    start = soft_start(N, R, seed=0)
    start[:, 0] *= amplitude
    start[:, 1:] *= ((1 - start[:, 0]) / start[:, 1:].sum(axis=1))[:, None]
    result = run(start=start, stop={"max_iter": 40, "tol": 0.0}, **engine)
    assert result.partition.energy <= energy_of_start(PROBLEM, start)
    assert result.memberships.sum(axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_disconnected_graphs_and_isolated_vertices_are_solved(engine):
    edges = [(i, j) for block in (range(5), range(5, 10)) for i in block for j in block if i < j]
    problem = Problem(Graph.from_edges(edges, n_vertices=12), 2)
    truth = np.array([0] * 5 + [1] * 5 + [0, 1])
    result = run(problem, noisy_start(truth, 2, seed=5, trust=0.4), **engine)
    assert result.partition.energy == 0
    assert len(set(result.partition.labels[:5])) == len(set(result.partition.labels[5:10])) == 1


def test_as_many_clusters_as_vertices():
    problem = Problem(random_graph(6, 12, seed=0), 6)
    result = run(problem, 0.6 * np.eye(6) + 0.4 / 6)
    assert not result.partition.has_empty_cluster
    assert sorted(result.partition.labels) == list(range(6))


# ---------------------------------------------------------------- what is kept


class Scripted:
    """An engine that finds a partition of each of these energies in turn, at one inner iteration a step.

    In F^k vertex k is alone in its cluster, so that each partition and its F can be told.
    """

    name, unit, lipschitz = "scripted", 1.0, 1.0

    def __init__(self, energies: list[float]) -> None:
        self.energies = energies
        self.taus: list[float] = []

    def allocate(self, F: np.ndarray) -> list[int]:
        return [0]

    def measure(self, arrays: list[int]) -> Measures:
        T = np.array([1.0, 1.0]) / (1 + arrays[0])  # falls in every step, and never settles down
        return Measures(T, np.ones(2), np.zeros(2), np.zeros(2), 0.0)

    def linearise(self, arrays: list[int], measures: Measures, delta: float) -> None:
        arrays[0] += 1

    def iterate(self, arrays: list[int], scale: np.ndarray, steps: StepSizes) -> None:
        self.taus.append(steps.tau)

    def labels(self, k: int) -> np.ndarray:
        return (np.arange(PATH.n_vertices) == k).astype(np.int64)

    def harden(self, arrays: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return self.labels(arrays[0]), np.array([0.0, self.energies[arrays[0]]])  # one vertex: its term is its cut

    def memberships(self, arrays: list[int], *, previous: bool = False) -> np.ndarray:
        return np.eye(2)[self.labels(arrays[0] - previous)]


PATH = Graph.from_edges([(i, i + 1) for i in range(29)])


def run_scripted(energies: list[float], **limits: object) -> tuple[Result, Scripted]:
    kernels = Scripted(energies)
    stop = StopRule(**{"tol": 0.0, "max_iter": len(energies) - 1, **limits})
    return solver.run(Problem(PATH, 2), np.full((30, 2), 0.5), kernels, stop=stop), kernels


@pytest.mark.parametrize(
    ("energies", "best"),
    [
        ([5, 4, 6, 3, 7, 8], 3),
        ([5, 4, 6, 3, 7], 3),
        ([5, 4, 6, 3], 3),  # the last is the best
        ([1, 4, 6, 3, 7], 0),  # the start is
        ([5, 4, 6, 4, 4], 1),  # the first of equals
        ([5, np.inf, 4, 3, np.inf], 3),
    ],
)
def test_the_best_partition_seen_is_kept_with_its_own_memberships(energies, best):
    result, kernels = run_scripted(energies)
    assert [line.energy for line in result.history] == energies
    assert np.array_equal(result.partition.labels, kernels.labels(best))
    assert result.partition.energy == Problem(PATH, 2).partition(kernels.labels(best)).energy  # measured again
    assert np.array_equal(result.memberships, kernels.memberships([best]))
    assert np.array_equal(result.last_memberships, kernels.memberships([len(energies) - 1]))


@pytest.mark.parametrize(
    ("energies", "n_iter"),
    [
        ([9.0] * 20, 6),  # two times the patience, and the patience
        ([9.0, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1], 10),  # progress until the eighth
        ([9.0, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7], 8),
        ([9.0, 8, 8, 8, 8, 8, 7.9999, 7.9999, 7.9999], 6),  # less than 1e-4 of itself is none
        ([9.0, 8, 8, 8, 8, 8, 7.999, 7.999, 7.999], 8),
        ([1.0, 8, 8, 8, 8, 7, 6, 5, 5, 5, 5], 9),  # progress is the run's own: the start was better
        ([1.0, 8, 9, 8, 9, 8, 9, 8], 6),  # what was lost and found again is no progress
    ],
)
def test_a_run_settles_when_its_own_partitions_stop_improving(energies, n_iter):
    result, _ = run_scripted(energies, patience=2, max_iter=19)
    assert result.status is Status.SETTLED
    assert result.n_iter == n_iter


def test_tau_starts_at_one_over_the_norm_and_carries_over():
    """θ = 1/√(1 + 2τ), τ ← θτ, in every inner iteration of the run: an outer step resets nothing."""
    _, kernels = run_scripted([5.0] * 8)
    tau, expected = 1 / kernels.lipschitz, []
    for _ in range(7):
        expected.append(tau)
        tau /= math.sqrt(1 + 2 * tau)
    assert kernels.taus == pytest.approx(expected)


def test_a_deadline_may_be_shared_by_several_runs():
    result = solver.run(PROBLEM, START, choose(PROBLEM, device="reference"), stop=StopRule(), deadline=-math.inf)
    assert result.status is Status.TIME_SPENT
    assert result.n_iter == 1


# ---------------------------------------------------------------- why it stops


def test_converged():
    result = run(stop={"tol": 1e-2, "max_iter": 2000})
    last, previous = result.history[-1].relaxed_energy, result.history[-2].relaxed_energy
    assert result.status is Status.CONVERGED
    assert abs(previous - last) <= 1e-2 * previous
    assert result.n_iter < 2000


def test_settled():
    result = run(stop={"tol": 0.0, "patience": 10, "max_iter": 2000})
    best = min(line.energy for line in result.history)
    found_at = next(line.iterations for line in result.history if line.energy == best)
    assert result.status is Status.SETTLED
    assert result.n_iter - found_at >= 10


def test_budget_spent():
    result = run(stop={"tol": 0.0, "max_iter": 7})
    assert result.status is Status.BUDGET_SPENT
    assert result.n_iter == 7


def test_time_spent(monkeypatch):
    seconds = iter(range(10_000))
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    result = run(stop={"tol": 0.0, "time_limit": 20.0, "max_iter": 2000})
    assert result.status is Status.TIME_SPENT
    assert 1 <= result.n_iter <= 21


def test_time_may_end_a_long_inner_loop(monkeypatch):
    """The clock is looked at after every inner iteration, not only between outer steps."""
    monkeypatch.setattr("tautcut.algorithm.prox.descent_estimate_holds", lambda *_: False)
    seconds = iter(range(10_000))
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    result = run(stop={"tol": 0.0, "time_limit": 5.0, "max_inner": 100})
    assert result.status is Status.TIME_SPENT
    assert result.n_iter <= 6
    assert not result.history[-1].is_descent


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_collapsed_from_the_start(engine):
    start = np.tile([0.6, 0.3, 0.1], (N, 1))
    result = run(start=start, **engine)
    assert result.status is Status.COLLAPSED
    assert result.n_iter == 0
    assert result.partition.energy == np.inf


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_collapsed_on_the_way_keeps_the_best_partition(engine, monkeypatch):
    """A cluster that becomes constant ends the run; the partition seen before is the answer."""
    kernels = choose(PROBLEM, **engine)
    plain, calls = type(kernels).iterate, []

    def fade(self, arrays, scale, steps):
        plain(self, arrays, scale, steps)
        calls.append(None)
        if len(calls) >= 6:
            arrays.F[:, :R] = [0.5, 0.5, 0.0]

    monkeypatch.setattr(type(kernels), "iterate", fade)
    result = run(stop={"tol": 0.0}, **engine)
    assert result.status is Status.COLLAPSED
    assert len(calls) < 120
    assert result.partition.energy <= energy_of_start(PROBLEM, START)
    assert not result.partition.has_empty_cluster


def test_stopped_by_an_observer():
    seen = []
    result = run(observers=[lambda progress: seen.append(progress) or len(seen) == 3], stop={"tol": 0.0})
    assert result.status is Status.STOPPED
    assert len(result.history) == 1 + 3


def interrupt(progress: Progress) -> None:
    if progress.outer == 2:
        raise KeyboardInterrupt


def test_interrupted_by_the_user_returns_the_best_so_far():
    with pytest.warns(InterruptedRunWarning, match="best partition so far"):
        result = run(observers=[interrupt], stop={"tol": 0.0})
    assert result.status is Status.INTERRUPTED
    assert len(result.history) == 1 + 2
    assert result.partition.energy <= energy_of_start(PROBLEM, START)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("n_done", [0, 1, 5, 12])
def test_an_interrupt_inside_a_step_leaves_a_consistent_answer(engine, n_done, monkeypatch):
    kernels = choose(PROBLEM, **engine)
    plain, calls = type(kernels).iterate, []

    def iterate(self, *args):
        if len(calls) == n_done:
            raise KeyboardInterrupt
        calls.append(None)
        plain(self, *args)

    monkeypatch.setattr(type(kernels), "iterate", iterate)
    monkeypatch.setattr("tautcut.algorithm.prox.descent_estimate_holds", lambda *_: len(calls) % 4 == 0)
    with pytest.warns(InterruptedRunWarning):
        result = run(stop={"tol": 0.0}, **engine)
    assert result.status is Status.INTERRUPTED
    assert result.partition.energy <= energy_of_start(PROBLEM, START)
    assert np.array_equal(result.memberships.argmax(axis=1), result.partition.labels)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(GRAPH, 1),
        Problem(GRAPH, R, labels=TRUTH),
        Problem(Graph.from_edges([], n_vertices=N), R),
    ],
    ids=["one cluster", "everything labelled", "no edge"],
)
@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_trivial(problem, engine):
    start = START[:, : problem.n_clusters]
    result = run(problem, start, **engine)
    assert result.status is Status.TRIVIAL
    assert result.n_iter == 0
    assert np.array_equal(result.memberships.argmax(axis=1), result.partition.labels)
    if problem.is_labelled.all():
        assert np.array_equal(result.partition.labels, TRUTH)
    else:
        assert result.partition.energy == 0


def test_every_status_is_a_sentence_of_its_own():
    assert len({str(status) for status in Status}) == len(Status.__members__) == 8
    for status in Status:
        assert str(status)[0].isupper()
        assert " " in str(status)
        assert str(status).endswith(".")


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (START[:-1], rf"shape \({N}, {R}\).*found \({N - 1}, {R}\)"),
        (START.T, rf"found \({R}, {N}\)"),
        (START[:, 0], "shape"),
        (np.where(START.max() == START, np.nan, START), "finite; found nan"),
        (np.where(START.max() == START, -np.inf, START), "finite; found -inf"),
    ],
)
def test_bad_starts_are_refused(start, words):
    with pytest.raises(InputError, match=words):
        solve(PROBLEM, start, device="reference")


def test_a_start_outside_the_simplex_is_projected():
    inside = run(stop={"max_iter": 30})
    outside = run(start=START + 5.0, stop={"max_iter": 30})  # the same point of the simplex is nearest
    assert outside.memberships == pytest.approx(inside.memberships, abs=1e-9)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tol": -1e-3}, "tol.*-0.001"),
        ({"tol": float("nan")}, "tol.*nan"),
        ({"max_iter": 0}, "max_iter.*0"),
        ({"max_iter": 10.0}, "max_iter.*10.0"),
        ({"max_iter": True}, "max_iter.*True"),
        ({"max_iter": None}, "max_iter.*None"),
        ({"max_inner": -1}, "max_inner.*-1"),
        ({"patience": 0}, "patience.*0"),
        ({"epsilon": 0.0}, "epsilon.*0.0"),
        ({"epsilon": 1.0}, "epsilon.*1.0"),
        ({"time_limit": 0.0}, "time_limit.*0.0"),
        ({"time_limit": -5}, "time_limit.*-5"),
        ({"time_limit": float("nan")}, "time_limit.*nan"),
    ],
)
def test_bad_limits_are_refused(limits, words):
    with pytest.raises(InputError, match=words):
        StopRule(**limits)


def test_good_limits_are_kept():
    rule = StopRule(tol=0, max_iter=np.int64(5), max_inner=1, epsilon=0.5, patience=3, time_limit=0.1)
    assert (rule.tol, rule.max_iter, rule.patience, rule.time_limit) == (0, 5, 3, 0.1)


@pytest.mark.parametrize(("option", "value"), [("device", "gpu9"), ("dtype", "float16")])
def test_unknown_engines_are_refused(option, value):
    with pytest.raises(InputError, match=value):
        solve(PROBLEM, START, **{option: value})


def test_a_missing_engine_raises_instead_of_being_replaced(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tautcut.kernels.cpu.engine", None)
    with pytest.raises(EngineUnavailableError, match="numba"):
        solve(PROBLEM, START)


# ---------------------------------------------------------------- who watches


def test_observers_see_every_outer_step():
    first, second = [], []
    result = run(observers=[first.append, second.append], stop={"tol": 0.0, "max_iter": 25})
    assert first == second
    seen = [(p.outer, p.iterations, p.relaxed_energy, p.energy) for p in first]
    assert seen == [(s.outer, s.iterations, s.relaxed_energy, s.energy) for s in result.history[1:]]
    assert {(p.max_iter, p.start, p.phase) for p in first} == {(25, 0, "solve")}
    assert first[-1].best_energy == result.partition.energy
    assert (np.diff([p.best_energy for p in first]) <= 0).all()


def test_observers_see_which_start_it_is():
    seen: list[Progress] = []
    kernels = choose(PROBLEM, device="reference")
    solver.run(PROBLEM, START, kernels, stop=StopRule(max_iter=3), observers=[seen.append], start_number=4)
    assert {progress.start for progress in seen} == {4}


def test_energies_are_in_the_units_of_the_weights():
    heavy = Problem(Graph(GRAPH.indptr, GRAPH.indices, 8 * GRAPH.weights), R)
    seen: list[Progress] = []
    light, other = run(stop={"max_iter": 20}), run(heavy, stop={"max_iter": 20}, observers=[seen.append])
    for name in ("relaxed_energy", "energy"):
        expected = [8 * getattr(line, name) for line in light.history]
        assert [getattr(line, name) for line in other.history] == expected
        assert [getattr(progress, name) for progress in seen] == expected[1:]
    assert other.relaxed_energy == other.history[-1].relaxed_energy == 8 * light.relaxed_energy


def test_every_observer_is_shown_the_step_at_which_one_asks_to_stop():
    seen = []
    run(observers=[lambda _: True, seen.append])
    assert [progress.outer for progress in seen] == [1]


def test_observers_do_not_change_the_result():
    plain, watched = run(), run(observers=[lambda _: None, log_progress])
    assert np.array_equal(plain.memberships, watched.memberships)
    assert plain.history == watched.history


def test_json_lines_are_one_record_per_step():
    file = io.StringIO()
    result = run(observers=[JsonLines(file)], stop={"tol": 0.0, "max_iter": 12})
    records = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [record["outer"] for record in records] == [line.outer for line in result.history[1:]]
    assert records[-1]["best_energy"] == result.partition.energy


def test_json_lines_are_json_even_without_a_finite_energy():
    """Infinity is no JSON number; other programs refuse it."""
    file = io.StringIO()
    JsonLines(file)(Progress(0, 1, 1, 10, 2.0, float("inf"), float("inf")))

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    record = json.loads(file.getvalue(), parse_constant=refuse)
    assert (record["outer"], record["relaxed_energy"], record["energy"], record["best_energy"]) == (1, 2.0, None, None)


def test_the_log_has_one_line_per_step(caplog):
    with caplog.at_level(logging.INFO, logger="tautcut"):
        result = run(observers=[log_progress], stop={"tol": 0.0, "max_iter": 12})
    assert len(caplog.records) == len(result.history) - 1
    assert "best cut" in caplog.records[-1].getMessage()


def test_the_bar_shows_each_phase_and_ends_full(capsys):
    with warnings.catch_warnings(), ProgressBar() as bar:
        warnings.simplefilter("error")
        bar(Progress(0, 0, 1, 3, math.nan, 1.7, 1.7, "starts"))
        bar(Progress(0, 1, 40, 100, 2.0, 1.5, 1.5))
        bar(Progress(1, 1, 50, 100, 2.0, 1.6, 1.6))
    shown = capsys.readouterr().err
    assert "starts 1" in shown
    assert "40/40" in shown
    assert "50/50" in shown
    assert "best cut 1.5" in shown
    assert "best cut 1.6" in shown


@pytest.mark.parametrize(("device", "name"), [("cpu", "solve 2 "), ("cuda", "solve 2 on cuda ")])
def test_the_bar_names_the_start_and_a_device_that_is_not_the_processor(capsys, device, name):
    with ProgressBar(device) as bar:
        bar(Progress(1, 1, 50, 100, 2.0, 1.6, 1.6))
    assert name in capsys.readouterr().err


def clocks(text: str) -> list[str]:
    return re.findall(r"\d:\d\d:\d\d", text)


def test_the_clock_of_the_bar_moves_while_nothing_is_reported_and_never_runs_backwards(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr(observers, "monotonic", lambda: now)
    shown = []
    with ProgressBar() as bar:

        def look(seconds: float) -> None:
            nonlocal now
            now += seconds
            with bar._bars.console.capture() as caught:
                bar._bars.console.print(bar._bars.get_renderable())
            shown.append(caught.get())

        look(2)  # before anything is reported
        look(3)
        bar.show("neighbors", 10, 10)
        look(4)  # between phases
        bar(Progress(0, 0, 1, 3, math.nan, 1.7, 1.7, "starts"))
        look(5)
        bar(Progress(0, 1, 40, 100, 2.0, 1.5, 1.5))
        look(60)
        bar(Progress(0, 0, 2, 3, math.nan, 1.7, 1.7, "starts"))  # an earlier bar goes on
        look(1)
    times = ["0:00:02", "0:00:05", "0:00:09", "0:00:14", "0:01:14", "0:01:15"]
    assert [clocks(one) for one in shown] == [[time] for time in times]
    assert "preparing" in shown[0]
    assert "preparing" not in shown[2]
    assert [one.count("starts") for one in shown] == [0, 0, 0, 1, 1, 1]


def test_a_bar_does_not_go_back(capsys):
    with ProgressBar() as bar:
        bar.show("neighbors", 7, 10)
        bar.show("neighbors", 5, 6)
    assert "7/7" in capsys.readouterr().err
