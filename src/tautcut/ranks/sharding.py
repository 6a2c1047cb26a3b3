"""Graphs into parts on disk. This module owns which vertices a part gets of a graph that is in memory, and what is
told of it; the parts' files are those of `files`. It never looks at labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tautcut.arrays import Array, IntArray
from tautcut.graph import Graph
from tautcut.graph.shard import Whole, shards_of
from tautcut.ranks.files import ShardedGraph, writing_shards
from tautcut.search.partitioners import partition_level

Hierarchy: TypeAlias = tuple[int, ...]
Progress: TypeAlias = Callable[[str, int, int], None]

_IMBALANCE = 0.03  # by which a part may have more than its share of the work
_WORK_OF_VERTEX = 3.0  # of an iteration, in directed edges: it moves 6 rows for a vertex and 2 for an edge


def shard_graph(
    graph: Graph, hierarchy: Hierarchy, path: Path, *, ids: Array | None = None, rng: np.random.Generator,
    progress: Progress | None = None,
) -> ShardedGraph:  # fmt: skip
    """Divide a graph that is in memory, and write its parts.

    Parameters
    ----------
    graph : the graph.
    hierarchy : how many parts there are: (8,); or (8, 8) for 8 nodes first, then 8 parts of each.
    path : the folder to make, whose name ends in .shards.
    ids : the users' names of the vertices, whole numbers or texts; None where these are 0, …, N − 1.
    rng : draws what the partitioner decides at random.
    progress : is told the name of a step, and how much of it is done.
    """
    n_parts = math.prod(hierarchy)
    tell = progress or (lambda name, done, total: None)
    kept = own_ids(ids)
    has_weights, has_masses = not graph.is_unweighted, graph.has_masses
    with writing_shards(path) as writer:
        parts = divided(graph, hierarchy, rng=rng)
        for shard in shards_of(graph, parts, n_parts):
            tell("parts", shard.number, n_parts)
            of_part = None if kept is None else kept[shard.vertices]
            writer.add(shard, of_part, has_weights=has_weights, has_masses=has_masses)
        id_kind = None if kept is None else ("numbers" if kept.dtype.kind in "iu" else "texts")
        writer.finish(
            Whole.of(graph, n_parts), hierarchy, id_kind=id_kind, has_weights=has_weights, has_masses=has_masses
        )  # fmt: skip
    return ShardedGraph.open(path)


def divided(graph: Graph, hierarchy: Hierarchy, *, rng: np.random.Generator) -> IntArray:
    """The part of each vertex: parts that take the same work, with a low cut, of the higher levels first."""
    parts = np.zeros(graph.n_vertices, dtype=np.int64)
    for n_pieces in hierarchy:
        finer = np.empty_like(parts)
        for number in np.unique(parts):
            own = np.flatnonzero(parts == number)
            piece = graph if own.size == graph.n_vertices else _induced(graph, own)
            finer[own] = number * n_pieces + _pieces(piece, n_pieces, rng=rng)
        parts = finer
    return parts


def own_ids(ids: Array | None) -> Array | None:
    """The ids, unless they are 0, …, N − 1."""
    if ids is None:
        return None
    values = np.asarray(ids)
    if values.dtype.kind not in "iu":
        return values
    return None if np.array_equal(values, np.arange(values.size)) else values.astype(np.int64)


def _pieces(graph: Graph, n_pieces: int, *, rng: np.random.Generator) -> IntArray:
    """A division of a graph by what its vertices take to work on."""
    work = np.diff(graph.indptr) + _WORK_OF_VERTEX
    weighed = Graph(graph.indptr, graph.indices, graph.weights, work)
    return partition_level(weighed, np.full(n_pieces, 1 / n_pieces), imbalance=_IMBALANCE, rng=rng)


def _induced(graph: Graph, own: IntArray) -> Graph:
    """The graph of these vertices, whose numbers rise, and of the edges between them."""
    matrix = graph.to_scipy()[own][:, own].tocsr()
    matrix.sort_indices()
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
