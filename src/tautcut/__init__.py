"""tautcut: clusters and classifies the vertices of a similarity graph by Multiclass Total Variation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tautcut._version import __version__

if TYPE_CHECKING:
    from tautcut.acquisition import Acquisition as Acquisition
    from tautcut.acquisition import next_to_label as next_to_label
    from tautcut.algorithm.results import Result as Result
    from tautcut.algorithm.solver import solve as solve
    from tautcut.algorithm.stopping import Status as Status
    from tautcut.algorithm.stopping import StopRule as StopRule
    from tautcut.estimators import MTVClassifier as MTVClassifier
    from tautcut.estimators import MTVClustering as MTVClustering
    from tautcut.graph import Graph as Graph
    from tautcut.metrics import purity as purity
    from tautcut.neighbors import knn_graph as knn_graph
    from tautcut.problem import Partition as Partition
    from tautcut.problem import Problem as Problem
    from tautcut.problem import balanced_cut_energy as balanced_cut_energy
    from tautcut.ranks import ShardedGraph as ShardedGraph
    from tautcut.ranks.launch import cluster_shards as cluster_shards
    from tautcut.walk import walk_graph as walk_graph

# Loaded on first use, so that the solver works where scikit-learn or numba is not installed.
_HOME = {
    "Acquisition": "acquisition",
    "Graph": "graph",
    "MTVClassifier": "estimators",
    "MTVClustering": "estimators",
    "Partition": "problem",
    "Problem": "problem",
    "Result": "algorithm.results",
    "ShardedGraph": "ranks",
    "Status": "algorithm.stopping",
    "StopRule": "algorithm.stopping",
    "balanced_cut_energy": "problem",
    "cluster_shards": "ranks.launch",
    "knn_graph": "neighbors",
    "next_to_label": "acquisition",
    "purity": "metrics",
    "solve": "algorithm.solver",
    "walk_graph": "walk",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tautcut' has no attribute {name!r}")
    return getattr(import_module(f"tautcut.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
