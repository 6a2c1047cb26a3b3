"""The data sets of the paper's experiments and the graphs they run on: `load` for features, `load_graph` for the
authors' own graphs, `paper_graph` for the graph of each column of the paper's table, `four_moons` for the one
set that is generated. This package owns where data comes from and that it is intact. It never clusters.
"""

from __future__ import annotations

from tautcut.datasets.registry import PAPER_NAMES, Dataset, LabelledGraph, load, load_graph, paper_graph
from tautcut.datasets.synthetic import four_moons

__all__ = ["Dataset", "LabelledGraph", "PAPER_NAMES", "four_moons", "load", "load_graph", "paper_graph"]
