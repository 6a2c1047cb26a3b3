"""How many clusters to ask for. `suggest_n_clusters` searches a little for every candidate R, twice, and keeps the
curve of (P) and of what leaves the worst cluster; suggested is the R after which both go up most (decision 0019).
This module owns that rule and its words. It never sees labels, and it is advice: the curve is there to be looked at.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tautcut.algorithm.observers import Observer, Progress
from tautcut.arrays import FloatArray, IntArray
from tautcut.checks import cluster_count
from tautcut.errors import InputError, InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.metrics import ari
from tautcut.problem import Problem, cuts
from tautcut.search.links import linked_groups, quick_partition

_SMALL = 0.05  # a rise of (P)/R by a twentieth is none, and a twentieth of the largest leakage is small (decision 0019)
_LOOSE = 0.5  # a cluster that loses this share of its weight or more is none, and is never praised (decision 0034)
_CLOSE = 0.8  # scores this near to the best are named beside it


class CurvePoint(NamedTuple):
    """What was found for one number of clusters.

    `energy` is the lower (P) of two runs, `stability` the adjusted Rand index between their partitions, `modularity`
    that of the better one, and `leakage` the largest share of a cluster's edge weight that leaves the cluster, 1 for a
    cluster without any. `score` says how many times the leakage grows up to the next candidate; it is 0 where (P)/R
    does not grow with it or the leakage is a half or more, and NaN for the last candidate, which has no next one.
    """

    n_clusters: int
    energy: float
    stability: float
    modularity: float
    leakage: float = math.nan
    score: float = math.nan


@dataclass(frozen=True)
class Suggestion:
    """The suggested number of clusters, the curve behind it, and the reason; `str(suggestion)` is readable text."""

    n_clusters: int
    curve: tuple[CurvePoint, ...]
    reason: str
    is_complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, numbers and strings; an infinite energy and an unknown score are None."""
        points = (point._asdict().items() for point in self.curve)
        curve = [{name: value if math.isfinite(value) else None for name, value in point} for point in points]
        return {**asdict(self), "curve": curve}

    def __str__(self) -> str:
        head = f"{'clusters':>8}  {'(P)':>9}  {'stability':>9}  {'modularity':>10}  {'leakage':>7}  {'score':>6}"
        rows = [
            f"{point.n_clusters:>8}  {point.energy:>9.4g}  {point.stability:>9.2f}  {point.modularity:>10.3f}  "
            f"{point.leakage:>7.3f}  {'-' if math.isnan(point.score) else format(point.score, '.2f'):>6}"
            f"{' *' if point.n_clusters == self.n_clusters else ''}"
            for point in self.curve
        ]
        return "\n".join([head, *rows, self.reason])


def suggest_n_clusters(
    graph: Graph,
    candidates: Iterable[int] = range(2, 16),
    *,
    must_link: Any = None,
    random_state: int | np.random.Generator | None = None,
    observers: Iterable[Observer] = (),
) -> Suggestion:
    """The number of clusters that the graph itself speaks for, and the curve to judge it by.

    For every candidate R two short searches for the partition of lowest (P) are run. Suggested is the R that has the
    largest jump of the leakage to the next candidate R⁺,

        (leakage(R⁺) + ε) / (leakage(R) + ε)   among those with   (P)(R⁺)/R⁺ > 1.05 (P)(R)/R   and   leakage(R) < ½.

    The leakage is the largest share of a cluster's edge weight that leaves the cluster: it jumps once a cluster is
    split that has no seam; ε is a twentieth of the largest one on the curve. (P)/R, the mean term, grows only if the
    next cut costs more than those before it; in a path, a grid or a random graph, which have no seams, it does not. If
    no R fulfils this, the reason says that no number of clusters stands out. The largest candidate has nothing to be
    compared with and is not suggested unless alone.

    Parameters
    ----------
    graph : Graph
        The graph to be clustered, from `knn_graph` or `Graph.from_any`; clusters weigh the masses of its vertices.
    candidates : iterable of int, default 2 to 15
        Numbers of clusters, from 2 to the number of vertices; the largest should exceed what you expect.
    must_link : array-like of shape (n_pairs, 2), or list of groups, optional
        Vertices that stay together, by their numbers.
    random_state : int, Generator or None
        Seeds the searches; a whole number makes the suggestion repeatable.
    observers : iterable of callables
        Each is shown a `Progress` after every candidate, with phase "suggest"; one that returns True stops.

    Returns
    -------
    Suggestion
        After an interrupt or a stop, of the candidates done by then, with `is_complete` False.

    Examples
    --------
    >>> from tautcut import Graph
    >>> triangles = [(3 * t + i, 3 * t + j) for t in range(4) for i, j in ((0, 1), (0, 2), (1, 2))]
    >>> ring = Graph.from_edges(triangles + [(2, 3), (5, 6), (8, 9), (11, 0)])
    >>> suggest_n_clusters(ring, range(2, 7), random_state=0).n_clusters
    4
    """
    groups = None if must_link is None else linked_groups(must_link, {i: i for i in range(graph.n_vertices)})
    numbers = _checked(candidates, graph, graph.n_vertices if groups is None else int(groups.max()) + 1)
    watchers = tuple(observers)
    curve: list[CurvePoint] = []
    try:
        for R, rng in zip(numbers, np.random.default_rng(random_state).spawn(len(numbers)), strict=True):
            curve.append(_point(Problem(graph, R), rng, groups))
            lowest = min(point.energy for point in curve)
            seen = Progress(0, 0, len(curve), len(numbers), np.nan, curve[-1].energy, lowest, "suggest")
            if any([watch(seen) for watch in watchers]):
                break
    except KeyboardInterrupt:
        if not curve:
            raise
        warnings.warn("Interrupted: the candidates done so far are compared.", InterruptedRunWarning, stacklevel=2)
    return _suggestion(tuple(curve), is_complete=len(curve) == len(numbers))


def _checked(candidates: Iterable[int], graph: Graph, most: int) -> list[int]:
    """The candidates in order, each once; refused unless the graph can be cut into so many clusters, `most` of all."""
    numbers = sorted({cluster_count(number) for number in candidates})
    if not numbers:
        raise InputError("candidates is empty. Give numbers of clusters, e.g. range(2, 16).")
    if numbers[0] < 2 or numbers[-1] > most:
        wrong = numbers[0] if numbers[0] < 2 else numbers[-1]
        of = "vertices" if most == graph.n_vertices else "groups of vertices that stay together"
        raise InputError(
            f"candidates must lie between 2 and the {most} {of}; found {wrong}. "
            f"Give e.g. range(2, {max(min(16, most), 3)})."
        )
    if not graph.n_edges:
        raise InputError("a graph without edges has no clusters to count; found 0 edges. Give it edges.")
    return numbers


def _point(problem: Problem, rng: np.random.Generator, groups: IntArray | None = None) -> CurvePoint:
    """The point of the curve for one number of clusters."""
    one, other = (quick_partition(problem, groups, rng=generator) for generator in rng.spawn(2))
    best = one if one.energy <= other.energy else other
    shares, cut = _shares(problem.graph, best.labels, problem.n_clusters)
    leakage = float(np.max(np.where(shares > 0, cut, 1) / np.where(shares > 0, shares, 1)))
    modularity = float((shares - cut - shares**2).sum())
    return CurvePoint(problem.n_clusters, best.energy, ari(one.labels, other.labels), modularity, leakage)


def _shares(graph: Graph, labels: IntArray, n_clusters: int) -> tuple[FloatArray, FloatArray]:
    """The share of all edge weight, counted from both ends, that each cluster holds and that leaves it."""
    total = graph.degrees.sum()
    return np.bincount(labels, graph.degrees, minlength=n_clusters) / total, cuts(graph, labels, n_clusters) / total


def _suggestion(points: tuple[CurvePoint, ...], *, is_complete: bool) -> Suggestion:
    """The point of the curve that stands out most, in words."""
    unit = _SMALL * max(point.leakage for point in points) or 1.0
    jumps = [(after.leakage + unit) / (point.leakage + unit) for point, after in pairwise(points)]
    # Where (P)/R grows, the next cut costs more than the mean of those before it.
    rises = [
        point.leakage < _LOOSE and after.energy / after.n_clusters > (1 + _SMALL) * point.energy / point.n_clusters
        for point, after in pairwise(points)
    ]
    scores = [*(jump if is_rise else 0.0 for jump, is_rise in zip(jumps, rises, strict=True)), math.nan]
    curve = tuple(point._replace(score=score) for point, score in zip(points, scores, strict=True))
    if len(curve) == 1:
        best, reason = curve[0], f"{curve[0].n_clusters} was the only candidate: give more, to compare them."
    else:
        # The fewest clusters, of equals; a guess loses as little of its worst cluster as can be, if it loses half.
        top = max(range(len(jumps)), key=lambda i: (scores[i], -max(points[i].leakage, _LOOSE), jumps[i]))
        best = curve[top]
        reason = _clear(curve, top) if best.score > 0 else _unclear(curve, best)
    if not is_complete:
        reason += " Not all candidates were tried."
    return Suggestion(best.n_clusters, curve, reason, is_complete)


def _unclear(curve: tuple[CurvePoint, ...], best: CurvePoint) -> str:
    """Why no number is suggested in earnest."""
    if all(point.leakage >= _LOOSE for point in curve):
        why = "whatever the number, some cluster loses half of its edge weight or more"
    else:
        most = curve[-1].n_clusters
        why = f"(P) per cluster does not rise, as in a graph with no marked clusters, or with {most} or more"
    return f"No number of clusters stands out: {why}. {best.n_clusters} is a guess."


def _clear(curve: tuple[CurvePoint, ...], top: int) -> str:
    """What speaks for the best, and the numbers that are nearly as good, or else the second best."""
    best, after = curve[top], curve[top + 1]
    reason = (
        f"{best.n_clusters} clusters stand out: {best.leakage:.1%} of the edge weight of the worst one leaves it, and "
        f"{after.leakage:.1%} with {after.n_clusters} clusters. Two runs agree to {best.stability:.2f} (adjusted Rand "
        "index)."
    )
    others = sorted((point for point in curve if point.score > 0 and point is not best), key=lambda point: -point.score)
    near = [str(point.n_clusters) for point in others if point.score >= _CLOSE * best.score]
    if near:
        return f"{reason} Close behind: {', '.join(near)}."
    return f"{reason} The next best is {others[0].n_clusters}." if others else reason
