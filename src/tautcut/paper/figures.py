"""The numbers of the paper's Figures 1 and 2, plain and complete, so that a picture is drawn from them alone. Truth is
used to say which cluster is which, after the clustering. This module draws nothing and times nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import IntArray, RealArray
from tautcut.baselines import LSD
from tautcut.checks import whole_number
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.laplacian import diffuse
from tautcut.kernels.devices import choose
from tautcut.metrics import purity
from tautcut.paper.protocol import OFFSET
from tautcut.problem import Numerator, Problem
from tautcut.search.starts import start_maker

IN_BETWEEN = (0.1, 0.9)  # of a rescaled function: the values that belong to neither side

_LINE = 20  # vertices of Figure 1
_SEEDS = (3, 18)  # counted from 1, as in the paper; symmetric, for another pair converges much more slowly
_LINE_STOP = StopRule(tol=0, max_iter=2_000)  # a tolerance stops far too early on a line
_MAX_ITER = 2_000  # of either method in Figure 2: the paper's, for starts of this kind


@dataclass(frozen=True)
class LineFunction:
    """f₁ of one relaxation on the line: as the algorithm left it, rescaled to [0, 1], and E(f₁) in both models."""

    values: tuple[float, ...]
    rescaled: tuple[float, ...]
    tv_energy: float
    spectral_energy: float

    @property
    def largest_drop(self) -> float:
        """The largest difference of neighbours of the rescaled function: 1 for an indicator."""
        return float(np.abs(np.diff(self.rescaled)).max())


@dataclass(frozen=True)
class Figure1:
    """Where the vertices of the line lie, the pairs of them that are joined, and f₁ of the two relaxations."""

    positions: tuple[tuple[float, float], ...]
    edges: tuple[tuple[int, int], ...]
    tv: LineFunction
    spectral: LineFunction


@dataclass(frozen=True)
class SortedFunction:
    """f of one method over the vertices of two classes, from the highest value down."""

    method: str
    values: tuple[float, ...]
    rescaled: tuple[float, ...]  # to [0, 1]
    is_first: tuple[bool, ...]  # whether the vertex is of the first class
    in_between: float  # share of the vertices whose rescaled value lies there
    purity: float  # of the whole clustering


@dataclass(frozen=True)
class Figure2:
    """The function of the first class, over the vertices of both, by MTV and by LSD."""

    data: str
    digits: tuple[int, int]
    mtv: SortedFunction
    lsd: SortedFunction


def figure1() -> Figure1:
    """The total variation (P-rlx) and the spectral relaxation (P-rlx2) of a line of 20 vertices, cut in two.

    E does not depend on the amplitude of f, so that the algorithm stops at some amplitude: compare the rescaled ones.
    """
    edges = tuple((i, i + 1) for i in range(_LINE - 1))
    line = Graph.from_edges(edges)
    start = diffuse(line, np.eye(_LINE)[:, [seed - 1 for seed in _SEEDS]])
    positions = tuple((float(number), 0.0) for number in range(1, _LINE + 1))
    return Figure1(positions, edges, _line_function(line, start, "tv"), _line_function(line, start, "laplacian"))


def figure2(
    graph: Graph, truth: ArrayLike, *, digits: tuple[int, int] = (4, 9), data: str = "", n_starts: int = 5,
    random_state: int = 0,
) -> Figure2:  # fmt: skip
    """The function f of the first digit over the vertices of both digits, sorted, by MTV and by LSD.

    Both methods run from the same starts, the paper's procedure (b), which are smooth: what is sharp at the end was
    made so by the method. MTV is Algorithm 1 as printed, without search. Of the runs of a method the one with the
    lowest value of its own objective is shown, and of its functions that of the cluster which holds most of the first
    digit. The methods see of the truth the number of classes alone. `data` is for the title.
    """
    classes = _classes(truth, graph, digits)
    problem = Problem(graph, np.unique(classes).size)
    make = start_maker(problem, "ncut-seeds", rng=np.random.default_rng(random_state))
    numbers = range(whole_number("n_starts", n_starts))
    starts = [make(number, np.random.default_rng([random_state, number])) for number in numbers]
    mtv = _sorted_function("MTV", _mtv(problem, starts), classes, digits)
    lsd = _sorted_function("LSD", _lsd(problem, starts), classes, digits)
    return Figure2(data, digits, mtv, lsd)


def _line_function(line: Graph, start: RealArray, numerator: Numerator) -> LineFunction:
    F = solve(Problem(line, 2, numerator=numerator), start, stop=_LINE_STOP, device="reference").last_memberships
    f = F[:, 0]
    return LineFunction(_rounded(f), _rounded(_rescaled(f)), _energy(line, F, "tv"), _energy(line, F, "laplacian"))


def _energy(graph: Graph, F: RealArray, numerator: Numerator) -> float:
    """E(f₁) of one model, in the units of the weights."""
    kernels = choose(Problem(graph, F.shape[1], numerator=numerator), device="reference")
    return round(float(kernels.measure(kernels.allocate(F.astype(np.float64))).E[0] * kernels.unit), 9)


def _classes(truth: ArrayLike, graph: Graph, digits: tuple[int, int]) -> IntArray:
    classes = np.asarray(truth)
    if classes.shape != (graph.n_vertices,):
        raise InputError(f"truth must be {graph.n_vertices} classes, one per vertex; found shape {classes.shape}.")
    missing = [digit for digit in digits if digit not in classes]
    if missing:
        raise InputError(f"digits must be classes of the truth, {np.unique(classes).tolist()}; found {missing[0]}.")
    return classes


def _mtv(problem: Problem, starts: Sequence[RealArray]) -> RealArray:
    """F of Algorithm 1 from the start that leads to the lowest (P)."""
    stop = StopRule(max_iter=_MAX_ITER)
    ends = [solve(problem, start, stop=stop).last_memberships for start in starts]
    return min(ends, key=lambda F: problem.partition(F.argmax(axis=1)).energy)


def _lsd(problem: Problem, starts: Sequence[RealArray]) -> RealArray:
    """F of LSD from the start, lifted from zero as in the paper, that leads to the lowest ‖cW − FFᵀ‖²."""
    models: list[LSD] = []
    for start in starts:
        scale: Literal["auto"] | float = models[0].scale_ if models else "auto"  # c is the graph's, and dear
        model = LSD(problem.n_clusters, init=start + OFFSET, max_iter=_MAX_ITER, scale=scale, random_state=0)
        models.append(model.fit(problem.graph))
    return min(models, key=lambda model: model.objective_).memberships_


def _sorted_function(method: str, F: RealArray, truth: IntArray, digits: tuple[int, int]) -> SortedFunction:
    labels = F.argmax(axis=1)
    column = np.bincount(labels[truth == digits[0]], minlength=F.shape[1]).argmax()
    shown = np.flatnonzero(np.isin(truth, digits))
    order = shown[np.argsort(-F[shown, column], kind="stable")]
    values = F[order, column]
    rescaled = _rescaled(values)
    low, high = IN_BETWEEN
    return SortedFunction(
        method, _rounded(values), _rounded(rescaled), is_first=tuple((truth[order] == digits[0]).tolist()),
        in_between=float(((rescaled > low) & (rescaled < high)).mean()), purity=purity(labels, truth),
    )  # fmt: skip


def _rescaled(f: RealArray) -> RealArray:
    """The function stretched to [0, 1]; zero if it is constant."""
    extent = float(np.ptp(f))
    return (f - f.min()) / extent if extent > 0 else np.zeros_like(f)


def _rounded(f: RealArray) -> tuple[float, ...]:
    """Numbers for a file: more digits than a picture can show, and the same ones on every machine."""
    return tuple(round(float(value), 6) for value in f)
