"""Kernels that the first search on a machine needs, compiled side by side: Numba compiles on one core, so processes of
their own compile parts of them meanwhile, and this one finds those on the disk (decision 0070). Nothing depends on it:
what is not there is compiled when it is first called.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread

import numpy as np

from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.interrupts import end_with_parent
from tautcut.kernels import devices
from tautcut.kernels.cpu import compiling
from tautcut.kernels.cpu.annealing import anneal
from tautcut.kernels.cpu.coarsening import finest_level
from tautcut.kernels.cpu.excursions import excursions
from tautcut.kernels.cpu.moves import bisect
from tautcut.kernels.cpu.tabu import tabu
from tautcut.problem import Problem
from tautcut.search import partitioners
from tautcut.search.cycles import VCycles, pockets
from tautcut.search.ladder import Levels
from tautcut.search.plan import Task
from tautcut.search.starts import soften

_RING = 300  # vertices of the graph on which kernels are called to be compiled: what they are does not depend on it
_REACH = 3  # neighbours of each on either side


def compile_side_by_side(task: Task) -> None:
    """Have the kernels of a search without labels on the disk, if this is the first one there.

    A disk that keeps nothing is left alone: processes could not hand over what they have compiled.
    """
    problem, plan = task.problem, task.plan
    is_compiled = task.effort.is_refined and not problem.has_labels and devices.resolved(plan.device) == "cpu"
    can_begin = bool(sys.executable) and partitioners.is_available()  # V-cycles begin with a partitioner
    if not is_compiled or not can_begin or not compiling.is_first_here("small" if task.is_small else "large"):
        return
    words = [str(problem.n_clusters), plan.dtype, str(int(task.is_small)), str(int(problem.graph.is_uniform))]
    helpers = [_helper(parts, words) for parts in ("annealing", "engine,labels")]
    _compile("cycles", words)
    for helper in filter(None, helpers):
        with helper.stdout:  # type: ignore[union-attr]  # a pipe, which is closed after the first part
            helper.stdout.read()  # type: ignore[union-attr]
        Thread(target=helper.wait, name="tautcut-ahead", daemon=True).start()


def _helper(parts: str, words: list[str]) -> subprocess.Popen[bytes] | None:
    """A process that compiles these parts; None where there can be none."""
    path = os.pathsep.join(filter(None, sys.path))
    with suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(os.getpid()), parts, *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    return None


def main(parent: int, parts: str, *words: str) -> None:
    """Compile the parts, and close standard output after the first, for which the parent waits."""
    end_with_parent(parent)
    for part in parts.split(","):
        _compile(part, words)
        with suppress(OSError):
            os.close(1)


def _compile(part: str, words: Sequence[str]) -> None:
    """Call the kernels of one part with arguments of the types that they have in a search."""
    R, dtype, is_small, is_uniform = int(words[0]), words[1], words[2] == "1", words[3] == "1"
    rng = np.random.default_rng(0)
    if part in ("engine", "labels"):
        problem = Problem(_ring(max(_RING, R), is_uniform=is_uniform), R)
        labels = np.arange(problem.n_vertices) % R
        if part == "labels":
            from tautcut.search.transduction import Evidence  # which searches too

            labels[R:] = -1
            Evidence.of_labels(problem.graph, labels, R).shares()
            level = finest_level(problem.graph, problem.is_labelled)
            excursions(level, labels % R, problem.lam, np.ones(R))
            problem = Problem(problem.graph, R, labels=labels)
        solve(problem, soften(labels, R), dtype=dtype, stop=StopRule(max_iter=4))
        return
    problem, smallest = Problem(_ring(_RING), 3), np.full(3, 2.0)
    cycles = VCycles(Levels(problem), smallest, 2)
    level, lam = cycles.levels.finest, problem.lam
    if part == "annealing":
        labels = np.arange(problem.n_vertices) % 3
        anneal(level, labels, lam, smallest, hot=1.0, cold=0.5, work=100, seed=0)
        tabu(level, labels, lam, smallest, ban=0.1, work=100, seed=0, short=_RING if is_small else 0)
    else:
        one, other = cycles.start(0, rng), cycles.start(1, rng)
        cycles.combine(one, other, rng=rng)
        pockets(level, lam, smallest, rng=rng)
        if not is_small:
            cycles.refine(cycles.regrouped(one, rng) or other, rng=rng)
        bisect(level, rng=rng)


def _ring(n: int, *, is_uniform: bool = True) -> Graph:
    """A ring of vertices, each joined to its nearest on either side."""
    here = np.arange(n)
    edges = np.concatenate([np.c_[here, (here + step) % n] for step in range(1, _REACH + 1)])
    return Graph.from_edges(edges, None if is_uniform else 1.0 + np.arange(len(edges)) % 2)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
