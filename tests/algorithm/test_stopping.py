"""When a run stops: the collapse, the weak descent estimate and the order of the reasons, from numbers by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tautcut.algorithm import stopping
from tautcut.algorithm.solver import State, terminate
from tautcut.algorithm.stopping import Status, StopRule, descent_estimate_holds, has_collapsed, is_past
from tautcut.kernels.protocol import Measures
from tautcut.problem import Partition

NOW = 1000.0


def measures(T: list[float], B: list[float], squared_step: float = 0.0) -> Measures:
    nothing = np.zeros(len(T))
    return Measures(np.array(T), np.array(B), nothing, nothing, squared_step)


def state(energy: float, *, iterations: int = 0, progress_at: int = 0, B: float = 1.0) -> State:
    """A state whose relaxed energy is this number."""
    partition = Partition(np.zeros(1, np.int64), np.array([1.0]), np.array([1]), np.array([1.0]))
    seen = measures([energy * B], [B])
    return State(None, seen, 1.0, partition, None, 1.0, iterations=iterations, progress_at=progress_at)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: NOW))


# ---------------------------------------------------------------- what has collapsed


@pytest.mark.parametrize(
    ("T", "B", "expected"),
    [
        ([1.0, 2.0], [3.0, 4.0], False),
        ([0.0, 2.0], [3.0, 4.0], False),  # a cluster that cuts nothing is none that faded
        ([1.0, 2.0], [3.0, 0.0], True),
        ([1.0, 2.0], [0.0, 0.0], True),
        ([1.0, 2.0], [3.0, np.nan], True),
        ([1.0, np.nan], [3.0, 4.0], True),
        ([np.inf, 2.0], [3.0, 4.0], True),
    ],
)
def test_one_constant_column_or_a_number_that_is_none_is_a_collapse(T, B, expected):
    assert has_collapsed(measures(T, B)) is expected


# ---------------------------------------------------------------- the weak descent estimate


def test_the_descent_estimate_by_hand():
    """Σ (B'/B)(E − E') = (2/4)(1 − 3/2) + (6/2)(5 − 4) = 2.75, against (1 − ε) 20 / 8 = 2.5 (1 − ε)."""
    before = measures([4.0, 10.0], [4.0, 2.0])
    after = measures([3.0, 24.0], [2.0, 6.0], squared_step=20.0)
    assert descent_estimate_holds(before, after, delta=8.0, epsilon=1e-3)
    assert not descent_estimate_holds(before, after, delta=7.0, epsilon=1e-3)  # 2.857 (1 − ε)
    assert descent_estimate_holds(before, after, delta=7.0, epsilon=0.04)  # 2.743
    assert not descent_estimate_holds(before, after, delta=7.0, epsilon=0.03)  # 2.771


def test_a_step_that_rises_is_no_descent_and_a_column_without_balance_needs_no_division():
    assert not descent_estimate_holds(measures([1.0], [1.0]), measures([1.1], [1.0], 1e-9), 1.0, 1e-3)
    assert descent_estimate_holds(measures([1.0], [1.0]), measures([0.0], [0.0], 0.0), 1.0, 1e-3)


# ---------------------------------------------------------------- which reason comes first

LAST = {"iterations": 50, "progress_at": 20}
RULE = {"tol": 1e-2, "patience": 10, "max_iter": 50}


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("before", "after", "rule", "deadline", "expected"),
    [
        (state(5.0), state(5.0, B=0.0, **LAST), RULE, NOW - 1, Status.COLLAPSED),
        (state(5.0), state(5.0, **LAST), RULE, NOW - 1, Status.CONVERGED),
        (state(5.0), state(4.0, **LAST), RULE, NOW - 1, Status.SETTLED),
        (state(5.0), state(4.0, **LAST), {**RULE, "patience": None}, NOW - 1, Status.BUDGET_SPENT),
        (state(5.0), state(4.0, **LAST), {**RULE, "patience": None, "max_iter": 51}, NOW - 1, Status.TIME_SPENT),
        (state(5.0), state(4.0, **LAST), {**RULE, "patience": None, "max_iter": 51}, NOW + 1, None),
    ],
    ids=["all of them", "no collapse", "not converged", "no patience", "more budget", "more time"],
)
def test_reasons_to_stop_have_an_order(before, after, rule, deadline, expected):
    assert terminate(before, after, StopRule(**rule), deadline) is expected


@pytest.mark.parametrize(("new", "expected"), [(99.0, True), (98.9, False), (101.0, True), (101.1, False)])
def test_the_tolerance_is_relative_and_a_rise_counts_as_a_change(new, expected):
    status = terminate(state(100.0), state(new, iterations=1), StopRule(tol=1e-2))
    assert status is (Status.CONVERGED if expected else None)


@pytest.mark.parametrize(
    ("iterations", "progress_at", "is_settled"),
    [
        (10, 0, False),
        (29, 0, False),  # the first two times the patience do not count
        (30, 0, True),
        (30, 19, True),
        (30, 21, False),
        (39, 30, False),
        (40, 30, True),
    ],
)
def test_a_run_has_settled_when_its_patience_is_over(iterations, progress_at, is_settled):
    after = state(4.0, iterations=iterations, progress_at=progress_at)
    status = terminate(state(5.0), after, StopRule(tol=0.0, patience=10))
    assert status is (Status.SETTLED if is_settled else None)


@pytest.mark.usefixtures("clock")
def test_the_deadline_is_the_time_limit_from_now_on():
    assert StopRule(time_limit=2.5).deadline() == NOW + 2.5
    assert StopRule().deadline() == np.inf
    assert is_past(NOW - 1e-6)
    assert not is_past(NOW)
