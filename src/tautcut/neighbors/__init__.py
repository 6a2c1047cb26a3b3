"""From features to the k-nearest-neighbour graph: `features` owns what users may bring, `search` finds neighbours,
exactly or approximately, `graphs` weighs the edges and joins them. None of them sees labels.
"""

from __future__ import annotations

from tautcut.neighbors.features import Metric
from tautcut.neighbors.graphs import Weights, edge_weights, knn_graph, neighbour_graph
from tautcut.neighbors.search import Method, NeighbourReport, nearest

__all__ = [
    "Method",
    "Metric",
    "NeighbourReport",
    "Weights",
    "edge_weights",
    "knn_graph",
    "nearest",
    "neighbour_graph",
]
