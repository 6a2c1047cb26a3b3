"""Whether the given labels and the graph's own clusters disagree. `disagreement_of` cuts the graph once more without
the labels, and names the points whose labels would decide where the two differ. It changes no answer: the labels that a
user gave win (decision 0017). It knows no true labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import CUT_SHORT
from tautcut.arrays import Array, IntArray
from tautcut.graph.findings import Finding
from tautcut.graph.laplacian import centrality_within
from tautcut.problem import Problem
from tautcut.search.certainty import labels_per_class
from tautcut.search.links import quick_partition

# Decision 0050 has the measurements behind these four.
FEW = 3  # labels per class, from which on further ones decide as much wherever they lie
COSTLIER = 0.04  # by which (P) with the labels exceeds (P) without them, before anybody is told
UNDECIDED = 0.02  # share of the mass that no label speaks for, from which on it is worth telling
ASKED = 3  # points whose labels would decide most of it

_LONGEST_NAME = 60  # characters of a point's name in a sentence


@dataclass(frozen=True, eq=False)
class Disagreement:
    """How far the given labels lead away from the clusters that the graph has without them.

    A *piece* is what a class and a cluster of the graph have in common. One that holds no given label is undecided: the
    labels' own spreading put it into its class, and the graph puts it with points of another.

    Attributes
    ----------
    energy, free_energy : float
        (P) of the classes, and of the partition found without the labels.
    undecided : float
        The share of the mass in undecided pieces.
    points : ndarray of int64, at most 3
        The most central vertex of each of the heaviest undecided pieces, the heaviest first: what to label next.
    """

    energy: float
    free_energy: float
    undecided: float
    points: IntArray

    @property
    def is_noticeable(self) -> bool:
        """Whether the classes cost noticeably more than the graph's own clusters, and labels can be had that decide."""
        return self.energy > (1 + COSTLIER) * self.free_energy and self.undecided >= UNDECIDED

    def finding(self, names: Sequence[object] | Array | None = None) -> Finding | None:
        """What it means and what to do, as sentences; none where there is nothing to tell. `names` has all points."""
        if not self.is_noticeable:
            return None
        value = {"costlier": round(self.energy / self.free_energy - 1, 4), "undecided": round(self.undecided, 4)}
        meaning = (
            f"These labels disagree with the clusters of the graph: the classes cost {value['costlier']:.0%} more than "
            f"the partition found without labels, and no label speaks for {self.undecided:.0%} of the points."
        )
        called = [str(i if names is None else names[i])[:_LONGEST_NAME] for i in self.points.tolist()]
        asked = called[0] if len(called) == 1 else f"{', '.join(called[:-1])} and {called[-1]}"
        advice = f"Label {asked} to decide; the labels given are kept as they are."
        return Finding("labels", value, "warning", meaning, advice)

    def to_dict(self, names: Sequence[object] | Array | None = None) -> dict[str, Any]:
        """Plain numbers, lists and sentences."""
        found = self.finding(names)
        return {
            "energy": self.energy, "free_energy": self.free_energy, "undecided": self.undecided,
            "points": self.points.tolist(), "finding": None if found is None else str(found),
        }  # fmt: skip


def disagreement_of(result: Result, groups: IntArray | None = None) -> Disagreement | None:
    """How far the labels of a finished run disagree with the graph; None where that cannot be said.

    That is without given labels, with a single class or three labels per class and more, after an interrupt, and where
    the graph's own partition costs nothing or cannot be had. `groups` are the vertices that stay together
    (`search.links`).
    """
    problem, partition = result.problem, result.partition
    if not problem.has_labels or problem.n_clusters == 1 or result.status in CUT_SHORT:
        return None
    if labels_per_class(problem.labels, problem.n_clusters) >= FEW:
        return None
    free = Problem(problem.graph, problem.n_clusters, problem.lam)
    found = quick_partition(free, groups, rng=np.random.default_rng(0))
    if not 0 < found.energy < np.inf or not np.isfinite(partition.energy):
        return None
    pieces = partition.labels * problem.n_clusters + found.labels
    masses = np.bincount(pieces, problem.graph.masses, problem.n_clusters**2)
    masses[pieces[problem.is_labelled]] = 0.0
    heaviest = np.argsort(-masses, kind="stable")[:ASKED]
    centrality = centrality_within(problem.graph, pieces)
    points = [np.where(pieces == piece, centrality, 0.0).argmax() for piece in heaviest[masses[heaviest] > 0]]
    undecided = float(masses.sum() / problem.graph.total_mass)
    return Disagreement(partition.energy, found.energy, undecided, np.array(points, dtype=np.int64))
