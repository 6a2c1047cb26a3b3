"""One part of a graph that is divided among many processes: its own vertices with all their edges, and what it has to
know of the others. `Shard` is such a part, `Whole` what every part knows of the whole graph; `shard_of` makes one from
the rows of its vertices and never holds an array as long as the whole graph. How a graph is divided, and how parts are
kept in files, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.graph.graph import Graph, local_order


@dataclass(frozen=True)
class Whole:
    """What every part knows of the whole graph; a unit is the mean weight of an edge, or mass of a vertex."""

    n_vertices: int
    n_edges: int
    n_parts: int
    total_mass: float
    weight_unit: float = 1.0
    mass_unit: float = 1.0
    is_uniform: bool = True  # whether all edges weigh the same
    is_even: bool = True  # whether all vertices have the same mass

    @classmethod
    def of(cls, graph: Graph, n_parts: int) -> Whole:
        """What the parts of this graph know of it."""
        _, weight_unit = graph.scaled_weights()
        _, mass_unit = graph.scaled_masses()
        return cls(
            graph.n_vertices, graph.n_edges, n_parts, graph.total_mass, weight_unit, mass_unit, graph.is_uniform,
            graph.is_even,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Shard:
    """One part of a graph. Vertices have local numbers: its own from 0 on, then its ghosts, the neighbours elsewhere.

    Attributes
    ----------
    number : int
        Which part it is, from 0.
    vertices : ndarray of int64, shape (n_own,)
        The numbers of its own vertices in the whole graph; those with a neighbour elsewhere come first.
    n_boundary : int
        How many of them have one.
    ghosts : ndarray of int64, shape (n_ghosts,)
        The numbers of the neighbours elsewhere: those of part 0, then of part 1, …, rising within each.
    ghost_ptr : ndarray of int64, shape (n_parts + 1,)
        Where the ghosts of each part begin.
    indptr, indices, weights : ndarrays
        The edges of its own vertices in CSR order, with local numbers (int32), which rise in every row.
    masses : ndarray of float64, shape (n_own,)
        The masses of its own vertices.
    sent : ndarray of int32
        Its own vertices that are ghosts of part 0, then of part 1, …, in the order in which those parts have them.
    sent_ptr : ndarray of int64, shape (n_parts + 1,)
        Where those of each part begin.
    whole : Whole
        What it knows of the whole graph.
    """

    number: int
    vertices: IntArray
    n_boundary: int
    ghosts: IntArray
    ghost_ptr: IntArray
    indptr: IntArray
    indices: NDArray[np.int32]
    weights: FloatArray
    masses: FloatArray
    sent: NDArray[np.int32]
    sent_ptr: IntArray
    whole: Whole

    @property
    def n_own(self) -> int:
        return int(self.vertices.size)

    @property
    def n_local(self) -> int:
        """Its own vertices and its ghosts."""
        return int(self.vertices.size + self.ghosts.size)

    @property
    def neighbors(self) -> list[int]:
        """The parts that it shares edges with."""
        return np.flatnonzero(np.diff(self.ghost_ptr)).tolist()


def shard_of(
    number: int, own: IntArray, indptr: IntArray, neighbors: IntArray, weights: FloatArray, masses: FloatArray,
    owners: IntArray, whole: Whole,
) -> Shard:  # fmt: skip
    """The part of these vertices, whose numbers in the whole graph rise.

    Parameters
    ----------
    own : their numbers.
    indptr, neighbors, weights : their rows in the whole graph, neighbours by their numbers there, in any order.
    masses : their masses.
    owners : the part of each entry of `neighbors`.
    """
    is_ghost = owners != number
    rows = np.repeat(np.arange(own.size), np.diff(indptr))
    ghosts, where = np.unique(neighbors[is_ghost], return_inverse=True)
    owner = np.empty(ghosts.size, dtype=np.int64)
    owner[where] = owners[is_ghost]
    by_owner = np.lexsort((ghosts, owner))
    place_of_ghost = np.empty(ghosts.size, dtype=np.int64)
    place_of_ghost[by_owner] = np.arange(ghosts.size)
    ghost_ptr = np.searchsorted(owner[by_owner], np.arange(whole.n_parts + 1))

    columns = np.empty(neighbors.size, dtype=np.int64)
    columns[~is_ghost] = np.searchsorted(own, neighbors[~is_ghost])
    order, place = _boundary_first(rows, columns, is_ghost, own.size)
    columns[~is_ghost] = place[columns[~is_ghost]]
    columns[is_ghost] = own.size + place_of_ghost[where]
    matrix = sp.csr_matrix((weights, (place[rows], columns)), shape=(own.size, own.size + ghosts.size))
    matrix.sort_indices()

    to, who = np.unique(np.stack([owners[is_ghost], rows[is_ghost]]), axis=1)  # by part, then as `own` is ordered
    return Shard(
        number=number,
        vertices=own[order].astype(np.int64),
        n_boundary=int(np.unique(rows[is_ghost]).size),
        ghosts=ghosts[by_owner].astype(np.int64),
        ghost_ptr=ghost_ptr.astype(np.int64),
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(np.int32),
        weights=matrix.data,
        masses=masses[order],
        sent=place[who].astype(np.int32),
        sent_ptr=np.searchsorted(to, np.arange(whole.n_parts + 1)).astype(np.int64),
        whole=whole,
    )


def shards_of(graph: Graph, parts: IntArray, n_parts: int) -> Iterator[Shard]:
    """The parts of a graph that is in memory; `parts` has the part of each vertex."""
    whole = Whole.of(graph, n_parts)
    degrees = np.diff(graph.indptr)
    for number in range(n_parts):
        own = np.flatnonzero(parts == number)
        indptr = np.concatenate([[0], np.cumsum(degrees[own])]).astype(np.int64)
        entries = np.repeat(graph.indptr[own] - indptr[:-1], degrees[own]) + np.arange(indptr[-1])
        neighbors = graph.indices[entries].astype(np.int64)
        yield shard_of(
            number, own, indptr, neighbors, graph.weights[entries], graph.masses[own], parts[neighbors], whole
        )  # fmt: skip


def _boundary_first(rows: IntArray, columns: IntArray, is_ghost: BoolArray, n: int) -> tuple[IntArray, IntArray]:
    """An order of a part's vertices: those with a neighbour elsewhere, then the others, neighbours near one another;
    and the place of each vertex in it.
    """
    is_interior = np.ones(n, dtype=np.bool_)
    is_interior[rows[is_ghost]] = False
    inside = sp.csr_matrix((np.ones(int((~is_ghost).sum())), (rows[~is_ghost], columns[~is_ghost])), shape=(n, n))
    near = np.empty(n, dtype=np.int64)
    if n:
        near[local_order(inside)] = np.arange(n)
    order = np.lexsort((near, is_interior))
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return order, place
