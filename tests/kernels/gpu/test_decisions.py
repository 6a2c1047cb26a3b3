"""The program `decide` against the solver, decision by decision. A script prescribes what every look at F finds; the
solver reads it through an engine that computes nothing, the GPU finds it in its tables. After every look both have
decided the same, and iterate next with the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from gpu_or_interpreter import kernels_of
from sample_graphs import random_graph
from tautcut.algorithm.batch import limits_of
from tautcut.algorithm.reference_batch import ReferenceBatch
from tautcut.algorithm.solver import State
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.kernels.batch import Ending
from tautcut.kernels.gpu import tables
from tautcut.kernels.gpu.batch import GpuBatch
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")

R, N = 3, 12
GRAPH = random_graph(N, 30, seed=0, is_weighted=True)
PROBLEM = Problem(GRAPH, R, np.array([0.7, 2.0, 3.1]))
WEIGHED = Problem(GRAPH.with_masses(np.linspace(0.2, 9.0, N)), R, PROBLEM.lam)
ROUNDING = 1e-13  # sums in another order, quotients of quotients


@dataclass(frozen=True, eq=False)
class Seen:
    """What one look at F finds; cuts in the scaled weights."""

    measures: Measures
    labels: np.ndarray
    cut: np.ndarray


def script(seed: int, length: int) -> list[Seen]:
    """Looks at random: T tends to fall, steps of all sizes, clusters of all sizes, now and then an empty one."""
    rng = np.random.default_rng(seed)
    T, B = rng.uniform(1, 9, R), rng.uniform(1, 9, R)
    seen = []
    for _ in range(length):
        T, B = T * rng.uniform(0.9, 1.02, R), B * rng.uniform(0.95, 1.05, R)
        measures = Measures(T, B, rng.random(R), rng.uniform(-1, 3, R), float(10 ** rng.uniform(-4, 1)))
        labels = rng.integers(0, R if rng.random() < 0.8 else R - 1, N)
        seen.append(Seen(measures, labels, rng.uniform(0.1, 9, R)))
    return seen


@dataclass
class Scripted:
    """An engine that finds what it is told, and writes down what it is asked to do."""

    seen: list[Seen]
    unit: float
    weight_unit: float
    lipschitz: float
    name: str = "scripted"
    looks: int = 0
    linearised: list[tuple[int, Measures, float]] = field(default_factory=list)
    iterated: list[tuple[np.ndarray, StepSizes]] = field(default_factory=list)

    def allocate(self, F: np.ndarray) -> None:
        return None

    def measure(self, arrays: Any) -> Measures:
        self.looks += 1
        return self.seen[self.looks - 1].measures

    def linearise(self, arrays: Any, measures: Measures, delta: float) -> None:
        self.linearised.append((self.looks, measures, delta))

    def iterate(self, arrays: Any, scale: np.ndarray, steps: StepSizes) -> None:
        self.iterated.append((scale, steps))

    def harden(self, arrays: Any) -> tuple[np.ndarray, np.ndarray]:
        now = self.seen[self.looks - 1]
        return now.labels, now.cut * self.weight_unit

    def memberships(self, arrays: Any, *, previous: bool = False) -> np.ndarray:
        return np.zeros((N, R))


class Sides:
    """The same script on both sides: the solver has read it to its end, the GPU is shown one look after another."""

    def __init__(self, seen: list[Seen], stop: StopRule, problem: Problem = PROBLEM) -> None:
        self.gpu = gpu = kernels_of(problem)
        gpu.__dict__["lipschitz"] = 1.7  # any number: the solver's side has no graph to bound it by
        start = np.full((1, N, R), 1 / R)
        self.engine = Scripted(seen, gpu.unit, gpu.weight_unit, gpu.lipschitz)
        self.states: list[State] = []
        oracle = ReferenceBatch(problem, start, self.engine, limits_of(stop))
        self.states += oracle.states
        for _ in oracle.run():
            self.states += oracle.states
        self.lines = oracle.lines(0, len(self.states))
        self.batch: GpuBatch = gpu.batch(gpu.feasible(start), limits_of(stop))
        self.seen = seen

    def show(self, number: int, *, is_found: bool = True) -> None:
        """What `vary`, `survey` and `select` would leave in the tables, and the decision."""
        now, batch = self.seen[number], self.batch
        sizes = np.bincount(now.labels, self.gpu.masses, R)
        values = {
            tables.T: now.measures.T, tables.B: now.measures.B, tables.MEDIAN: now.measures.median,
            tables.TIE: now.measures.tie, tables.CUT: now.cut, tables.SIZE: sizes,
            tables.FOUND: np.where(np.arange(R) == 1, is_found, True),
        }  # fmt: skip
        for place, value in values.items():
            batch.columns[0, place.value] = batch.columns.new_tensor(np.asarray(value, dtype=np.float64))
        batch.steps[0] = 0.0
        batch.steps[0, 0] = now.measures.squared_step
        batch.launch_decide(1)

    def word(self, place: Any) -> int:
        return int(self.batch.words[0, place.value])

    def real(self, place: Any) -> float:
        return float(self.batch.reals[0, place.value])

    def column(self, place: Any) -> np.ndarray:
        return self.batch.columns[0, place.value].cpu().numpy()

    def assert_same_next_iteration(self, number: int) -> None:
        """The inner iteration after look `number` is the solver's, and so is the outer step that it belongs to."""
        assert self.word(tables.PHASE) == tables.ITERATE.value
        scale, sizes = self.engine.iterated[number]
        assert [self.real(place) for place in (tables.TAU, tables.SIGMA, tables.THETA)] == pytest.approx(
            [sizes.tau, sizes.sigma, sizes.theta], rel=ROUNDING
        )
        _, before, delta = [begun for begun in self.engine.linearised if begun[0] <= number + 1][-1]
        pull = delta * before.E / before.B
        assert self.real(tables.DELTA) == delta
        for place, expected in (
            (tables.SCALE, scale), (tables.MEDIAN_K, before.median), (tables.T_K, before.T), (tables.B_K, before.B),
            (tables.UP, PROBLEM.lam * pull), (tables.LEVEL, before.tie * pull), (tables.DOWN, -pull),
        ):  # fmt: skip
            assert self.column(place) == pytest.approx(expected, rel=ROUNDING)

    def assert_same_state(self, outer: int, iterations: int) -> None:
        """After an outer step: counts, energies, the best partition, progress, the line of the history, the ending."""
        state, line = self.states[outer], self.batch.lines(0, outer + 1)[outer]
        look, unit = self.batch.look()[0], self.engine.unit
        assert look.ending is (Ending.RUNNING if state.status is None else Ending[state.status.name])
        assert (look.outer, look.iterations) == (state.outer, state.iterations) == (outer, iterations)
        expected = np.array([state.energy / unit, state.best.energy / unit, state.measures.relaxed_energy])
        assert [look.energy, look.best, look.relaxed] == pytest.approx(expected, rel=ROUNDING, nan_ok=True)
        assert self.real(tables.MARK) == pytest.approx(state.mark / unit, rel=ROUNDING)
        assert self.word(tables.PROGRESS_AT) == state.progress_at
        assert line == pytest.approx(self.lines[outer], rel=ROUNDING, nan_ok=True)
        is_saved = self.word(tables.SAVE) > 0
        assert is_saved == (outer == 0 or state.best.energy < self.states[outer - 1].best.energy)
        if is_saved:
            assert np.array_equal(self.column(tables.BEST_CUT), self.seen[iterations].cut)

    def assert_same_decisions(self) -> Status:
        """Look after look to the end of the run; why it ended."""
        ends = [state.iterations for state in self.states]  # the look at which each outer step ends
        begun = 0
        for number in range(ends[-1] + 1):
            slot, bar = self.word(tables.SLOT), self.word(tables.BAR)
            self.show(number)
            assert self.real(tables.SQUARED_STEP) == self.seen[number].measures.squared_step
            assert self.word(tables.BAR) == (1 - bar if number else bar)
            is_end, is_over = number in ends, number == ends[-1]
            if is_end:
                self.assert_same_state(ends.index(number), number)
                begun = number
            else:
                assert self.word(tables.STATUS) == Ending.RUNNING
                assert self.word(tables.SAVE) == 0
                assert self.word(tables.OUTER) == ends.index(begun)
            # F of an outer step is written to the slot that does not hold its F^k.
            assert self.word(tables.SLOT) == (1 - slot if is_end and not is_over else slot)
            if not is_over:
                assert self.word(tables.INNER) == number - begun
                assert self.word(tables.ITERATIONS) == number
                self.assert_same_next_iteration(number)
        assert self.word(tables.PHASE) == tables.DONE.value
        assert self.word(tables.LOOKS) == ends[-1] + 1 == self.engine.looks
        status = self.states[-1].status
        assert status is not None
        return status


STOPS = {
    "as the paper": StopRule(max_iter=25),
    "short inner loops": StopRule(tol=0.0, max_iter=20, max_inner=3),
    "hardly a descent": StopRule(tol=0.0, max_iter=18, max_inner=6, epsilon=1e-6),
    "a loose tolerance": StopRule(tol=0.05, max_iter=25, max_inner=5),
    "little patience": StopRule(tol=0.0, max_iter=40, max_inner=4, patience=3),
    "one iteration": StopRule(max_iter=1),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_every_decision_is_the_solver_s(seed: int, stop: StopRule):
    Sides(script(seed, stop.max_iter + 1), stop).assert_same_decisions()


@pytest.mark.parametrize("name", ["as the paper", "little patience"])
def test_every_decision_is_the_solver_s_where_vertices_have_masses(name: str):
    stop = STOPS[name]
    Sides(script(4, stop.max_iter + 1), stop, WEIGHED).assert_same_decisions()


def test_the_scripts_end_in_every_way_and_descend_or_not():
    """The tests above would say little if they all ended alike."""
    endings, descents = set(), set()
    for stop in STOPS.values():
        for seed in range(4):
            gpu = kernels_of(PROBLEM)
            engine = Scripted(script(seed, stop.max_iter + 1), gpu.unit, gpu.weight_unit, 1.7)
            oracle = ReferenceBatch(PROBLEM, np.full((1, N, R), 1 / R), engine, limits_of(stop))
            for _ in oracle.run():
                pass
            endings.add(oracle.look()[0].ending)
            descents |= set(oracle.lines(0, 99)[1:, 3].tolist())
    assert endings == {Ending.CONVERGED, Ending.SETTLED, Ending.BUDGET_SPENT}
    assert descents == {0.0, 1.0}


@pytest.mark.parametrize("at", [0, 1, 5], ids=["the start", "the first iteration", "later"])
@pytest.mark.parametrize(
    ("name", "value"), [("B", 0.0), ("B", np.nan), ("T", np.nan), ("T", np.inf)], ids=["B=0", "B=NaN", "T=NaN", "T=inf"]
)
def test_a_collapse_is_seen_when_the_solver_sees_it(at: int, name: str, value: float):
    seen = script(1, 30)
    for number in range(at, 30):
        broken = getattr(seen[number].measures, name).copy()
        broken[2] = value
        seen[number] = replace(seen[number], measures=replace(seen[number].measures, **{name: broken}))
    sides = Sides(seen, StopRule(tol=0.0, max_iter=29, max_inner=4))
    assert sides.assert_same_decisions() is Status.COLLAPSED


@pytest.mark.parametrize("reason", [Status.COLLAPSED, Status.CONVERGED, Status.SETTLED])
def test_of_several_reasons_to_end_the_solver_s_first_is_told(reason: Status):
    """After three iterations the budget is spent and patience is over; the energy stands still, or a column is flat."""
    first, second, third = script(2, 3)
    third = replace(second, measures=third.measures)  # no progress: the partition is the same
    last = replace(second, measures=third.measures if reason is Status.CONVERGED else first.measures)
    if reason is Status.COLLAPSED:
        last = replace(third, measures=replace(third.measures, B=np.zeros(R)))
    sides = Sides([first, second, third, last], StopRule(tol=0.0, max_iter=3, max_inner=1, patience=1))
    assert sides.assert_same_decisions() is reason


@pytest.mark.parametrize("misses", [1, 3])
def test_a_missed_median_is_looked_for_again_and_nothing_else_happens(misses: int):
    sides, patient = (Sides(script(3, 7), StopRule(tol=0.0, max_iter=6, max_inner=2)) for _ in range(2))
    for number in range(patient.engine.looks):
        before = sides.batch.words[0].tolist(), sides.batch.reals[0].tolist()
        for miss in range(1, misses + 1):
            sides.show(number, is_found=False)
            assert sides.word(tables.MISSES) == miss
            assert sides.word(tables.STATUS) == Ending.RUNNING
            assert sides.word(tables.PHASE) == (tables.LOOK_AGAIN if number else tables.BEGIN).value
            for place in (tables.INNER, tables.ITERATIONS, tables.OUTER, tables.SLOT, tables.SLOT_K, tables.BAR):
                assert sides.word(place) == before[0][place.value]
            assert sides.batch.reals[0].tolist() == before[1]
        sides.show(number)
        patient.show(number)
        assert sides.word(tables.MISSES) == 0
        assert sides.batch.look() == patient.batch.look()
        assert sides.batch.reals[0].tolist() == patient.batch.reals[0].tolist()
        assert sides.batch.columns[0].tolist() == patient.batch.columns[0].tolist()
    assert sides.batch.look()[0].ending is Ending.BUDGET_SPENT


def test_a_median_that_no_look_finds_is_a_collapse():
    """F is not finite then, and the best partition before is the answer; the solver says so too."""
    sides = Sides(script(3, 7), StopRule(tol=0.0, max_iter=6, max_inner=2))
    for number in range(3):
        sides.show(number)
    best = sides.batch.look()[0].best
    for _ in range(tables.MOST_MISSES.value + 1):
        assert sides.batch.look()[0].ending is Ending.RUNNING
        sides.show(3, is_found=False)
    look = sides.batch.look()[0]
    assert (look.ending, look.iterations, look.best) == (Ending.COLLAPSED, 2, best)
    assert sides.word(tables.PHASE) == tables.DONE.value
    sides.show(3)  # a start that has ended decides no more
    assert sides.batch.look()[0] == look
