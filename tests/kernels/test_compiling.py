"""Compiled kernels: kept on disk where that is possible, and still there where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tautcut.kernels.compiling as compiling

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
