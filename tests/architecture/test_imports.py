"""What importing costs, and what the solver can do without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tautcut

HEAVY = ["torch", "matplotlib", "numba", "sklearn", "faiss", "pymetis", "mtkahypar", "joblib", "plotly"]
OPTIONAL = ["numba", "llvmlite", "sklearn", "faiss", "pymetis", "mtkahypar", "joblib", "matplotlib"]

SOLVE_ALONE = """
import numpy as np
from tautcut.errors import EngineUnavailableError
from tautcut.graph import Graph
from tautcut.problem import Problem
from tautcut.algorithm.solver import solve

problem = Problem(Graph.from_edges([(i, i + 1) for i in range(5)]), 2)
start = np.linspace([1.0, 0.0], [0.2, 0.8], 6)
print(solve(problem, start, device="reference").partition.labels.tolist())
try:
    solve(problem, start, device="cpu")
except EngineUnavailableError as error:
    print(error)
"""


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    source = str(Path(tautcut.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str) -> set[str]:
    """The heavy packages that a statement loads."""
    return set(python(f"import sys\n{statement}\nprint(*(m for m in {HEAVY} if m in sys.modules))").split())


def test_importing_tautcut_loads_nothing_heavy():
    assert loaded_by("import tautcut") == set()


def test_importing_the_solver_loads_nothing_heavy():
    assert loaded_by("import tautcut.algorithm.solver") == set()
    assert loaded_by("from tautcut import Graph, Problem, StopRule, Status, balanced_cut_energy, solve") == set()


def test_using_the_cpu_engine_loads_no_more_than_numba():
    assert loaded_by("import tautcut.kernels.cpu.engine") == {"numba"}


def test_a_page_needs_no_matplotlib():
    assert "matplotlib" not in loaded_by("import tautcut.report.page")


def test_the_solver_works_without_optional_packages():
    hidden = f"import sys\nfor name in {OPTIONAL}:\n    sys.modules[name] = None\n"
    lines = python(hidden + SOLVE_ALONE).splitlines()
    assert lines[0] == "[0, 0, 0, 1, 1, 1]"
    assert "numba" in lines[1]


def test_unknown_names_are_refused_and_public_ones_are_there():
    assert not hasattr(tautcut, "nonsense")
    assert set(tautcut.__all__) == {"__version__", *tautcut._HOME}
    assert set(tautcut.__all__) <= set(dir(tautcut))
    for name in tautcut._HOME:
        assert getattr(tautcut, name).__name__ == name  # the thing itself, and not one of another name
