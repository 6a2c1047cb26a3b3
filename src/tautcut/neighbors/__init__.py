"""From features to the k-nearest-neighbour graph: `features` owns what users may bring, `outlines` what of it is
compared, `search` finds neighbours, exactly or approximately, `graphs` weighs the edges and joins them. None of them
sees labels.
"""

from __future__ import annotations

from tautcut.neighbors.features import Metric, distinct_rows, features_of
from tautcut.neighbors.graphs import (
    DUPLICATES,
    Duplicates,
    Weights,
    affordable_neighbors,
    edge_weights,
    knn_graph,
    neighbor_graph,
    tie_copies,
)  # fmt: skip
from tautcut.neighbors.search import Method, NeighborReport, nearest

__all__ = [
    "DUPLICATES", "Duplicates", "Method", "Metric", "NeighborReport", "Weights", "affordable_neighbors",
    "distinct_rows", "edge_weights", "features_of", "knn_graph", "nearest", "neighbor_graph", "tie_copies",
]  # fmt: skip
