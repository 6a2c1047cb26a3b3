"""An order of the vertices in which neighbours are near, found before a search on a large graph begins: all that
follows looks up neighbours, and waits for memory where they are far. It decides when that is worth its time, and never
looks at labels.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import IntArray
from tautcut.kernels.cpu import compiling
from tautcut.kernels.cpu.coarsening import contract_matching, plain_level
from tautcut.kernels.cpu.layout import is_scattered, permuted
from tautcut.problem import Problem
from tautcut.search import partitioners

_PART_BYTES = 2**20  # of the rows of a part: about a core's own cache
_PARTS = (16, 64)  # at least and at most
_COARSEST = 60  # vertices per part at which coarsening stops
_HEAVIEST_SHARE = 0.05  # of a part: no coarse vertex weighs more
_MAX_LEVELS = 30
_IMBALANCE = 0.1


def near_order(problem: Problem, row_bytes: int) -> IntArray | None:
    """The vertices in an order that brings neighbours together; None where they are near, or few.

    The graph is coarsened by a quick matching; parts whose rows fit in a cache follow one another, and within them, at
    every level, the vertices that became one. Rows of `row_bytes` are what will be looked up most.
    """
    graph = problem.graph
    if not compiling.is_available() or not partitioners.is_available() or not is_scattered(graph, row_bytes):
        return None
    n_parts = int(np.clip(graph.n_vertices * row_bytes // _PART_BYTES, *_PARTS))
    rng = np.random.default_rng(0)  # the order of a graph is its own: no seed of a search changes it
    level, parents = plain_level(graph), []
    heaviest = _HEAVIEST_SHARE * problem.total_mass / n_parts
    for _ in range(_MAX_LEVELS):
        if level.n_vertices <= _COARSEST * n_parts:
            break
        nowhere = np.zeros(level.n_vertices, dtype=np.int64)
        coarse, parent = contract_matching(level, nowhere, heaviest=heaviest, rng=rng)
        if coarse.n_vertices > 0.95 * level.n_vertices:
            break
        parents.append(parent)
        level = coarse
    rank = partitioners.partition_level(level, np.full(n_parts, 1.0 / n_parts), imbalance=_IMBALANCE, rng=rng)
    for parent in reversed(parents):
        rank = _places(rank)[parent]
    return np.argsort(rank, kind="stable")


def in_order(problem: Problem, order: IntArray) -> Problem:
    """The same problem with vertex order[k] in place k."""
    labels = problem.labels[order]
    return Problem(permuted(problem.graph, order), problem.n_clusters, problem.lam, labels, problem.numerator)


def _places(rank: IntArray) -> IntArray:
    """The place of each vertex in the order of these ranks, of equals the first one first."""
    places = np.empty(rank.size, dtype=np.int64)
    places[np.argsort(rank, kind="stable")] = np.arange(rank.size)
    return places
