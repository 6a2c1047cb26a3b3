"""How clearly a graph shows the clusters of a partition: the weight between them, of what chance would put there. It is
how partitions of two graphs on the same vertices are compared, a graph and its walk's, whose energies have no common
unit. It never changes a result, and knows no true labels.
"""

from __future__ import annotations

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.arrays import IntArray
from tautcut.graph import Graph
from tautcut.problem import cuts

CLEARER = 0.93  # of the graph's own relative cut: below it the walk's graph is the clearer one (decision 0044)


def clearer(plain: Result, smoothed: Result) -> Result:
    """The run on the smoothed graph if that shows its clusters more clearly than the graph itself shows its own, else
    the run on the graph itself.
    """
    before, after = (relative_cut(one.problem.graph, one.partition.labels) for one in (plain, smoothed))
    return smoothed if after < CLEARER * before else plain


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
