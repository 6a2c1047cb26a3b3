"""One graph on many machines: a graph divided into parts on disk, and what processes that hold a part each do together.
`files` owns the folder of a sharded graph; `sharding` how one is made within a limit of memory, with `edges`, `rows`,
`parts` and `metis`. It computes nothing on edges itself, which is the work of `kernels`, and prints nothing.
"""

from __future__ import annotations

from tautcut.ranks.files import PartFacts, ShardedGraph, is_sharded

__all__ = ["PartFacts", "ShardedGraph", "is_sharded"]
