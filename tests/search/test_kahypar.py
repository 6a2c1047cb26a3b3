"""Mt-KaHyPar in this process and in one of its own: the same blocks, and what happens when the other one ends early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
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


def test_it_runs_nothing_from_the_folder_where_a_user_works(monkeypatch, found, tmp_path):
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(strong_partition(PROBLEM, imbalance=0.03), found)
    assert not (tmp_path / "run").exists()


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


def test_the_other_process_does_not_outlive_the_one_that_asks(tmp_path):
    """Its number is that of a process which is not its parent: it has ended before."""
    answer = subprocess.run(
        [sys.executable, "-m", "tautcut.search.kahypar", "1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (1, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_what_another_thread_partitions():
    holds, done = threading.Event(), threading.Event()

    def partition() -> None:
        with kahypar._lock:
            holds.set()
            threading.Event().wait(0.2)
            done.set()

    thread = threading.Thread(target=partition)
    thread.start()
    holds.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 and later, on forks beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if done.is_set() and kahypar._lock.acquire(timeout=20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
