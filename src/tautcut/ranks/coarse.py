"""A graph that fits on one rank, made of one that does not: every rank coarsens its own part, and rank 0 gets the
coarse graph of all, its vertices in the order of the whole graph's: one that is not coarsened at all is that graph
itself. What is found there is projected to the parts. How far to coarsen is decided here; what to search for is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.graph.shard import Shard
from tautcut.kernels.cpu.coarsening import Level, contract_matching, finest_level
from tautcut.kernels.cpu.layout import permuted
from tautcut.ranks.problem import DividedProblem

_SHARE = 0.1  # of the vertices that the coarse graph has: with a third of it, noisy graphs end higher (decision 0062)
_RANGE = (50_000, 200_000)  # and how many it has at least, and at most
_TOO_MANY = 2.0  # times as many are few enough: another matching would leave half of them
_PER_CLUSTER = 200  # vertices, at least
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_MAX_LEVELS = 40


@dataclass(frozen=True, eq=False)
class Coarsened:
    """A coarse graph of all parts: rank 0 has it, and every rank the places of its own vertices in its share of it."""

    graph: Graph | None
    order: IntArray | None  # on rank 0: where each vertex of the graph is among those of all ranks, one after the other
    parent: IntArray
    counts: IntArray  # the coarse vertices of each rank

    def projected(self, problem: DividedProblem, labels: IntArray | None) -> IntArray:
        """The labels of a rank's own vertices, from those of the coarse graph, which rank 0 has."""
        world, shares = problem.halo.world, None
        if labels is not None and self.order is not None:
            by_rank = np.empty(labels.size, np.int64)
            by_rank[self.order] = labels
            shares = np.split(by_rank, np.cumsum(self.counts)[:-1])
        mine = world.hand_out(shares, np.empty(int(self.counts[world.rank]), np.int64))
        return mine[self.parent]

    def inherited(self, problem: DividedProblem, values: IntArray) -> IntArray | None:
        """On rank 0, a value for each coarse vertex: that of one of its vertices, which all have the same."""
        own = np.empty(int(self.counts[problem.halo.world.rank]), np.int64)
        own[self.parent] = values
        brought = problem.halo.world.bring(own)
        return None if brought is None else np.concatenate(brought)[self.order]


def most_vertices(n_vertices: int, n_clusters: int) -> float:
    """How many vertices a coarse graph may have."""
    fewest, most = (max(one, _PER_CLUSTER * n_clusters) for one in _RANGE)
    return _TOO_MANY * float(np.clip(_SHARE * n_vertices, fewest, most))


def coarsened(problem: DividedProblem, groups: IntArray, *, seed: int) -> Coarsened:
    """Coarsen every part inside its `groups`, numbered from 0, and bring what is left to rank 0."""
    halo, shard = problem.halo, problem.shard
    world, whole = halo.world, shard.whole
    most = most_vertices(whole.n_vertices, problem.n_clusters)
    rng = np.random.default_rng([seed, shard.number])
    heaviest = max(2.0, _HEAVIEST_SHARE * problem.total_mass / whole.mass_unit / problem.n_clusters)
    level = finest_level(_inner_graph(shard), problem.is_labelled)
    parent = np.arange(shard.n_own)
    for _ in range(_MAX_LEVELS):
        if level.n_vertices <= most * shard.n_own / whole.n_vertices:
            break
        coarse, step = contract_matching(level, groups, heaviest=heaviest, rng=rng)
        if coarse.n_vertices > 0.95 * level.n_vertices:
            break
        finer, groups = groups, np.empty(coarse.n_vertices, np.int64)
        groups[step] = finer
        parent, level = step[parent], coarse
    counts = world.gather(np.array([float(level.n_vertices)])).astype(np.int64).ravel()
    graph = _on_rank_0(problem, level, parent, counts)
    order = _order_on_rank_0(problem, level.n_vertices, parent)
    return Coarsened(None if graph is None or order is None else permuted(graph, order), order, parent, counts)


def _order_on_rank_0(problem: DividedProblem, n_coarse: int, parent: IntArray) -> IntArray | None:
    """The coarse vertices of all ranks by the lowest number in the whole graph of what is in them, on rank 0."""
    lowest = np.full(n_coarse, problem.shard.whole.n_vertices, np.int64)
    np.minimum.at(lowest, parent, np.asarray(problem.shard.vertices))
    brought = problem.halo.world.bring(lowest)
    return None if brought is None else np.argsort(np.concatenate(brought))


def _on_rank_0(problem: DividedProblem, level: Level, parent: IntArray, counts: IntArray) -> Graph | None:
    """The coarse graph of all ranks, in their order, on rank 0."""
    halo, shard = problem.halo, problem.shard
    world, first = halo.world, int(counts[: halo.world.rank].sum())
    place = halo.extended(first + parent)
    rows = np.repeat(parent, np.diff(shard.indptr))
    shape = (level.n_vertices, int(counts.sum()))
    weights = np.asarray(shard.weights) / shard.whole.weight_unit
    edges = sp.csr_matrix((weights, (rows, place[shard.indices])), shape=shape)
    edges.sum_duplicates()
    brought: list[list[Array] | None] = [
        world.bring(one)
        for one in (
            np.diff(edges.indptr).astype(np.int64), edges.indices.astype(np.int64), edges.data.astype(np.float64),
            np.asarray(level.masses),
        )
    ]  # fmt: skip
    lengths, columns, values, masses = (None if one is None else np.concatenate(one) for one in brought)
    if lengths is None or columns is None or values is None or masses is None:
        return None
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    matrix = sp.csr_matrix((values, columns, indptr), shape=(shape[1], shape[1]))
    return Graph.from_any(matrix).with_masses(masses)


def _inner_graph(shard: Shard) -> Graph:
    """The part's own vertices and the edges between them, in mean weights and masses."""
    is_inside = np.asarray(shard.indices) < shard.n_own
    before = np.concatenate([[0], np.cumsum(is_inside)])
    weights: FloatArray = np.asarray(shard.weights)[is_inside] / shard.whole.weight_unit
    masses: FloatArray = np.asarray(shard.masses) / shard.whole.mass_unit
    return Graph(before[shard.indptr], np.asarray(shard.indices)[is_inside], weights, masses)
