"""Mt-KaHyPar in this process and in one of its own: the same blocks, and what happens when the other one ends early."""

from __future__ import annotations

import signal
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from strategies import planted_graph
from tautcut.problem import Problem
from tautcut.search import kahypar
from tautcut.search.partitioners import strong_partition

PROBLEM = Problem(planted_graph(3, 40, seed=0), 3)


@pytest.fixture
def found(monkeypatch):
    """What the other process finds, however small the graph is."""
    here = strong_partition(PROBLEM, imbalance=0.03)
    monkeypatch.setattr(kahypar, "_LONG", 1)
    return here


def ended(monkeypatch, returncode: int) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *given, **named: SimpleNamespace(returncode=returncode, stdout=b""))


def test_another_process_finds_the_same(found):
    np.testing.assert_array_equal(strong_partition(PROBLEM, imbalance=0.03), found)


@pytest.mark.parametrize("shares", [(0.5, 0.25, 0.25), (0.2, 0.2, 0.6)])
def test_uneven_shares_travel_too(monkeypatch, shares):
    problem = Problem(PROBLEM.graph, 3, lam=[(1 - share) / share for share in shares])
    here = strong_partition(problem, imbalance=0.1)
    monkeypatch.setattr(kahypar, "_LONG", 1)
    np.testing.assert_array_equal(strong_partition(problem, imbalance=0.1), here)


def test_where_no_process_begins_the_work_is_done_here(monkeypatch, found):
    ended(monkeypatch, 1)
    np.testing.assert_array_equal(strong_partition(PROBLEM, imbalance=0.03), found)


def test_a_process_that_was_killed_found_nothing(monkeypatch, found):
    ended(monkeypatch, -signal.SIGKILL)
    assert strong_partition(PROBLEM, imbalance=0.03) is None


def test_an_interrupt_of_the_other_process_is_one_of_this(monkeypatch, found):
    ended(monkeypatch, -signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        strong_partition(PROBLEM, imbalance=0.03)
