"""Compiled kernels: kept on disk where that is possible, and still there where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tautcut.kernels.cpu.compiling as compiling

SCRIPT = """
import numpy as np
from tautcut import Graph, Problem, solve
path = Graph.from_edges([(i, i + 1) for i in range(5)])
print(solve(Problem(path, 2), np.linspace([1.0, 0.0], [0.2, 0.8], 6)).partition.labels.tolist())
"""


def test_without_a_place_for_the_cache_kernels_are_compiled_in_memory(monkeypatch, caplog):
    real = compiling.njit

    def njit_without_cache(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiling, "njit", njit_without_cache)
    double = compiling.compiled(lambda x: 2 * x)
    assert double(21) == 42
    assert "no writable folder" in caplog.text


@pytest.mark.parametrize("n_processes", [3])
def test_processes_that_compile_at_once_do_not_spoil_the_cache(tmp_path: Path, n_processes: int):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    several = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(n_processes)
    ]
    answers = {process.communicate()[0] for process in several}
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    assert answers == {again.stdout} == {"[0, 0, 0, 1, 1, 1]\n"}
    assert any(tmp_path.rglob("*.nbi"))


def test_a_second_process_compiles_nothing(tmp_path: Path):
    kept = []
    for _ in range(2):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, env=environment, check=True)
        kept.append(sorted(path.name for path in tmp_path.rglob("*.nbc")))
    assert kept[0] == kept[1] != []


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # importing it raises ImportError
import numpy as np
from tautcut import Graph, Problem
from tautcut.errors import EngineUnavailableError
from tautcut.search.driver import Plan, best_of_starts
problem = Problem(Graph.from_edges([(i, i + 1) for i in range(5)]), 2)
init = np.linspace([1.0, 0.0], [0.2, 0.8], 6)
plan = Plan(init=init, search="none", device="reference")
print(best_of_starts(problem, plan, rng=np.random.default_rng(0)).partition.labels.tolist())
for plan in (Plan(init=init, device="reference"), Plan(init=init, search="none")):
    try:
        best_of_starts(problem, plan, rng=np.random.default_rng(0))
    except EngineUnavailableError as error:
        print(error)
"""


def test_without_numba_the_solver_runs_and_the_rest_says_what_is_missing():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[0, 0, 0, 1, 1, 1]",
        "the search needs numba: install it, or choose search='none'.",
        "the cpu engine needs numba: install it, or choose device='reference'",
    ]
