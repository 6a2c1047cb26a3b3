"""How many clusters to ask for. `suggest_n_clusters` searches a little for every candidate R, twice, and keeps the
curve of (P), of the agreement of the two partitions and of their modularity; the R where the product of the last two
peaks is the suggestion. This module owns that rule and its words. It never sees labels, and it is advice: the curve
is there to be looked at.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tautcut.errors import CollapseWarning, InputError, InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.metrics import ari
from tautcut.observers import Observer, Progress
from tautcut.problem import IntArray, Partition, Problem, checked_cluster_count, cuts
from tautcut.restarts import Plan, best_of_starts
from tautcut.stopping import Status, StopRule

# Enough to see the curve: two multilevel starts, combined, and a short polish.
_PLAN = Plan(n_init=2, stop=StopRule(max_iter=50))
_CLOSE = 0.98  # scores this near to the best are named beside it
_WEAK = 0.3  # modularity below which networks have no marked clusters (Newman & Girvan 2004)


class CurvePoint(NamedTuple):
    """What was found for one number of clusters.

    `energy` is the lower (P) of two runs, `stability` the adjusted Rand index between their partitions, `modularity`
    that of the better one, and `score` the product of the last two.
    """

    n_clusters: int
    energy: float
    stability: float
    modularity: float

    @property
    def score(self) -> float:
        """Stability times modularity: what chance does not explain and another run finds again."""
        return self.stability * self.modularity


@dataclass(frozen=True)
class Suggestion:
    """The suggested number of clusters, the curve behind it, and the reason; `str(suggestion)` is readable text."""

    n_clusters: int
    curve: tuple[CurvePoint, ...]
    reason: str
    is_complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, numbers and strings; an infinite energy is None."""
        curve = [{**point._asdict(), "score": point.score} for point in self.curve]
        for point in curve:
            point["energy"] = point["energy"] if math.isfinite(point["energy"]) else None
        return {
            "n_clusters": self.n_clusters, "curve": curve, "reason": self.reason, "is_complete": self.is_complete,
        }  # fmt: skip

    def __str__(self) -> str:
        head = f"{'clusters':>8}  {'(P)':>9}  {'stability':>9}  {'modularity':>10}  {'score':>6}"
        rows = [
            f"{point.n_clusters:>8}  {point.energy:>9.4g}  {point.stability:>9.2f}  {point.modularity:>10.3f}  "
            f"{point.score:>6.3f}{' *' if point.n_clusters == self.n_clusters else ''}"
            for point in self.curve
        ]
        return "\n".join([head, *rows, self.reason])


def suggest_n_clusters(
    graph: Graph,
    candidates: Iterable[int] = range(2, 16),
    *,
    random_state: int | np.random.Generator | None = None,
    observers: Iterable[Observer] = (),
) -> Suggestion:
    """The number of clusters that the graph itself speaks for, and the curve to judge it by.

    For every candidate R two short searches for the partition of lowest (P) are run. Suggested is the R of the
    highest

        modularity × stability.

    The modularity is the share of the weight inside clusters minus the share that a random graph of the same degrees
    would have there, so that more clusters do not win by being more; (P) itself mostly grows with R. The stability is
    the adjusted Rand index between the two partitions: where a cluster is split that has no seam, two runs split it
    in two ways.

    Parameters
    ----------
    graph : Graph
    candidates : iterable of int, default 2 to 15
        Numbers of clusters, from 2 to the number of vertices.
    random_state : int, Generator or None
    observers : iterable of callables
        Each is shown a `Progress` after every candidate, with phase "suggest"; one that returns True stops.

    Returns
    -------
    Suggestion
        After an interrupt or a stop, of the candidates done by then, with `is_complete` False.

    References
    ----------
    M. E. J. Newman and M. Girvan, "Finding and evaluating community structure in networks", 2004.

    Examples
    --------
    >>> from tautcut import Graph
    >>> triangles = [(3 * t + i, 3 * t + j) for t in range(4) for i, j in ((0, 1), (0, 2), (1, 2))]
    >>> ring = Graph.from_edges(triangles + [(2, 3), (5, 6), (8, 9), (11, 0)])
    >>> suggest_n_clusters(ring, range(2, 7), random_state=0).n_clusters
    4
    """
    numbers = _checked(candidates, graph)
    watchers = tuple(observers)
    curve: list[CurvePoint] = []
    try:
        for R, rng in zip(numbers, np.random.default_rng(random_state).spawn(len(numbers)), strict=True):
            curve.append(_point(Problem(graph, R), rng))
            lowest = min(point.energy for point in curve)
            seen = Progress(0, 0, len(curve), len(numbers), np.nan, curve[-1].energy, lowest, "suggest")
            if any([watch(seen) for watch in watchers]):
                break
    except KeyboardInterrupt:
        if not curve:
            raise
        warnings.warn("Interrupted: the candidates done so far are compared.", InterruptedRunWarning, stacklevel=2)
    return _suggestion(tuple(curve), is_complete=len(curve) == len(numbers))


def _checked(candidates: Iterable[int], graph: Graph) -> list[int]:
    """The candidates in order, each once; refused unless the graph can be cut into so many clusters."""
    numbers = sorted({checked_cluster_count(number) for number in candidates})
    if not numbers:
        raise InputError("candidates is empty. Give numbers of clusters, e.g. range(2, 16).")
    if numbers[0] < 2 or numbers[-1] > graph.n_vertices:
        wrong = numbers[0] if numbers[0] < 2 else numbers[-1]
        raise InputError(
            f"candidates must lie between 2 and the {graph.n_vertices} vertices; found {wrong}. "
            f"Give e.g. range(2, {max(min(16, graph.n_vertices), 3)})."
        )
    if not graph.n_edges:
        raise InputError("a graph without edges has no clusters to count; found 0 edges. Give it edges.")
    return numbers


def _point(problem: Problem, rng: np.random.Generator) -> CurvePoint:
    """The point of the curve for one number of clusters."""
    one, other = (_partition(problem, generator) for generator in rng.spawn(2))
    best = one if one.energy <= other.energy else other
    modularity = _modularity(problem.graph, best.labels, problem.n_clusters)
    return CurvePoint(problem.n_clusters, best.energy, ari(one.labels, other.labels), modularity)


def _partition(problem: Problem, rng: np.random.Generator) -> Partition:
    """The partition of one short search; KeyboardInterrupt if it was cut short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedRunWarning)
        warnings.simplefilter("ignore", CollapseWarning)  # its energy says so
        result = best_of_starts(problem, _PLAN, rng=rng)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.partition


def _modularity(graph: Graph, labels: IntArray, n_clusters: int) -> float:
    """Σ_r (inside_r / total − (degrees_r / total)²), with weights counted from both ends."""
    shares = np.bincount(labels, graph.degrees / graph.degrees.sum(), minlength=n_clusters)
    cut = cuts(graph, labels, n_clusters) / graph.degrees.sum()
    return float((shares - cut - shares**2).sum())


def _suggestion(curve: tuple[CurvePoint, ...], *, is_complete: bool) -> Suggestion:
    """The best point of the curve, in words."""
    best = max(curve, key=lambda point: point.score)  # the first, so the fewest clusters, of equals
    reason = (
        f"{best.n_clusters} clusters have the highest score: modularity {best.modularity:.2f}, and two runs agree to "
        f"{best.stability:.2f} (adjusted Rand index)."
    )
    near = [str(point.n_clusters) for point in curve if point is not best and point.score >= _CLOSE * best.score]
    if near:
        reason += f" Close behind: {', '.join(near)}."
    if best.n_clusters == curve[-1].n_clusters and len(curve) > 1:
        reason += " It is the largest candidate: try larger ones too."
    if best.modularity < _WEAK:
        reason += " No number of clusters stands out of chance: expect little."
    if not is_complete:
        reason += " Not all candidates were tried."
    return Suggestion(best.n_clusters, curve, reason, is_complete)
