"""The similarity graph: `graph` owns `Graph` and its validation, `adapters` the objects that users hold, `neighbors`
the way from features to a graph, `laplacian` diffusion and the normalised cut, `diagnostics` what a graph means for
clustering. Nothing here knows the energy or looks for a partition of low energy.
"""

from tautcut.graph.graph import Graph

__all__ = ["Graph"]
