"""How clearly a graph shows the clusters that were found in it: the weight between them, of what chance puts there. It
says whether a smoothed graph can be trusted (`smoothing="auto"`), and knows no true labels.
"""

from __future__ import annotations

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.arrays import IntArray
from tautcut.graph import Graph
from tautcut.problem import cuts

CLEAR = 0.15  # of what chance would cut: the clusters of a walk's graph that are cut off by less gain (decision 0044)


def is_clear(result: Result) -> bool:
    """Whether the clusters of a finished run stand out of its graph: of a smoothed one, whether to smooth at all.

    Where the walk's graph is cut through thicker places than this, its partitions were often worse than the graph's
    own; where it is not, they were better or alike (decision 0044).
    """
    return relative_cut(result.problem.graph, result.partition.labels) <= CLEAR


def relative_cut(graph: Graph, labels: IntArray) -> float:
    """The share of the weight that lies between clusters, over that of a random graph with the same degrees.

    With volumes v_r = Σ_{i∈A_r} d_i / Σ_i d_i it is Σ_r Cut(A_r, A_rᶜ) / (Σ_i d_i (1 − Σ_r v_r²)): 0 if no edge is
    cut, and about 1 for a partition by chance.
    """
    total = float(graph.degrees.sum())
    volumes = np.bincount(labels, weights=graph.degrees) / (total or 1.0)
    chance = 1.0 - float((volumes**2).sum())
    cut = float(cuts(graph, labels, volumes.size).sum())
    return cut / (total * chance) if cut else 0.0
