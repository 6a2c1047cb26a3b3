"""Graphs into parts on disk: the straight line from a graph in memory, or from lists of edges of any size, to the
folder of a sharded graph. It owns how the rows of a part become its files, block by block; what the files are is known
to `files`, which vertices a part gets is decided in `parts`, and how edges become rows in `edges`.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from tautcut import memory
from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.graph.graph import local_order
from tautcut.graph.shard import Whole
from tautcut.ranks.edge_files import EdgeFiles
from tautcut.ranks.edges import rows_of_edges
from tautcut.ranks.files import PartWriter, ShardedGraph, ShardWriter, writing_shards
from tautcut.ranks.parts import PartArray, distributed, divided
from tautcut.ranks.rows import Rows, distinct, weighing_of

Hierarchy: TypeAlias = tuple[int, ...]
Tell: TypeAlias = Callable[[str, int, int], None]

_OWN = 350 * 2**20  # bytes that Python and its libraries take of a limit by themselves
_LEAST_ROOM = 2**20  # that work is given, however little is allowed
_SHARE = 0.6  # of the room for blocks: what is in use and what is not yet given back
_PER_BLOCK_ENTRY = 100  # bytes that an entry takes while its block becomes a part's
_PER_INSIDE_ENTRY = 12  # bytes that an entry takes while a part is put in an order of nearness
_PER_PLACED_VERTEX = 80  # (the same) for each of its vertices


def shard_graph(
    graph: Graph, hierarchy: Hierarchy, path: Path, *, ids: Array | None = None, rng: np.random.Generator,
    tell: Tell = lambda name, done, total: None,
) -> ShardedGraph:  # fmt: skip
    """Divide a graph that is in memory, and write its parts.

    Parameters
    ----------
    graph : the graph.
    hierarchy : how many parts there are: (8,); or (8, 8) for 8 nodes first, then 8 parts of each.
    path : the folder to make, whose name ends in .shards.
    ids : the users' names of the vertices, whole numbers or texts; None where these are 0, …, N − 1.
    rng : draws what the partitioner decides at random.
    tell : is told the name of a step, and how much of it is done.
    """
    kept = own_ids(ids)
    id_kind = None if kept is None else ("numbers" if kept.dtype.kind in "iu" else "texts")
    with writing_shards(path) as writer:
        work = writer.working_folder()
        sharding = _Sharding(Rows.of(graph), hierarchy, writer, work, _room(), tell)
        masses = graph.masses if graph.has_masses else None
        whole = Whole.of(graph, sharding.n_parts)
        sharding.carry_out(whole, rng, masses, lambda own: None if kept is None else kept[own], id_kind)
        shutil.rmtree(work)
    return ShardedGraph.open(path)


def shard_edges(
    files: EdgeFiles, hierarchy: Hierarchy, path: Path, *, n_vertices: int | None = None, rng: np.random.Generator,
    tell: Tell = lambda name, done, total: None, room: int | None = None,
) -> ShardedGraph:  # fmt: skip
    """Divide the graph of lists of edges, which may be too large for memory, and write its parts.

    `n_vertices` says that vertices are 0, …, n_vertices − 1, whether they have edges or not; else those there are that
    have an edge, or a loop. `room` is what may be taken besides some for each vertex; what `memory` says by default.
    """
    room = _room() if room is None else room
    with writing_shards(path) as writer:
        work = writer.working_folder()
        rows, numbered = rows_of_edges(files, work, room=room, n_vertices=n_vertices, tell=tell)
        sharding = _Sharding(rows, hierarchy, writer, work, room, tell)
        weighing = weighing_of(rows, room)
        whole = Whole(
            rows.n_vertices, rows.n_entries // 2, sharding.n_parts, float(rows.n_vertices),
            weight_unit=weighing.mean, is_uniform=weighing.is_uniform,
        )  # fmt: skip
        id_kind = "texts" if numbered.texts is not None else (None if numbered.ids is None else "numbers")
        sharding.carry_out(whole, rng, None, numbered.ids_of, id_kind)
        del numbered, sharding  # they hold open what is removed
        shutil.rmtree(work)
    return ShardedGraph.open(path)


def own_ids(ids: Array | None) -> Array | None:
    """The ids, unless they are 0, …, N − 1."""
    if ids is None:
        return None
    values = np.asarray(ids)
    if values.dtype.kind not in "iu":
        return values
    return None if np.array_equal(values, np.arange(values.size)) else values.astype(np.int64)


def _room() -> int:
    """The bytes of memory that blocks may take."""
    return max(_LEAST_ROOM, int(_SHARE * (memory.for_work() - _OWN)))


# ---------------------------------------------------------------- the parts' files


@dataclass(frozen=True, eq=False)
class _Sharding:
    """Rows that are divided and written."""

    rows: Rows
    hierarchy: Hierarchy
    writer: ShardWriter
    folder: Path
    room: int
    tell: Tell

    @property
    def n_parts(self) -> int:
        return math.prod(self.hierarchy)

    def carry_out(
        self, whole: Whole, rng: np.random.Generator, masses: FloatArray | None,
        ids_of: Callable[[IntArray], Array | None], id_kind: str | None,
    ) -> None:  # fmt: skip
        """Divide the rows and write every part, then the manifest."""
        rows, folder = self.rows, self.folder
        has_weights = rows.weights is not None and not (whole.is_uniform and whole.weight_unit == 1.0)
        rows = rows if has_weights else Rows(rows.indptr, rows.indices, None)
        parts = divided(rows, self.hierarchy, folder=folder, room=self.room, rng=rng, tell=self.tell)
        local = np.empty(rows.n_vertices, dtype=np.int32)
        for number, own, mine in distributed(rows, parts, self.n_parts, folder=folder, room=self.room):
            self.tell("parts", number, self.n_parts)
            part = _Part(number, own, mine, parts, self.n_parts, local, self.room)
            files = self.writer.part(number)
            order, ghost_ptr = part.write(files)
            if masses is not None:
                files.save("masses", masses[own[order]])
            ids = ids_of(own[order])
            if ids is not None:
                files.save_ids(ids)
            self.writer.finish_part(
                number, files, n_boundary=part.n_boundary, n_foreign=self._n_foreign(number, ghost_ptr)
            )
        self.tell("parts", self.n_parts, self.n_parts)
        self.writer.finish(
            whole, self.hierarchy, id_kind=id_kind, has_weights=has_weights, has_masses=masses is not None
        )

    def _n_foreign(self, number: int, ghost_ptr: IntArray) -> int:
        """How many ghosts of a part other nodes own."""
        per_node = self.n_parts // self.hierarchy[0]
        first = number // per_node * per_node
        return int(ghost_ptr[-1] - (ghost_ptr[first + per_node] - ghost_ptr[first]))


class _Part:
    """One part on its way from rows to files; the same as `graph.shard.shard_of` makes of rows in memory.

    `local` has a place for each vertex of the whole graph, and is for work.
    """

    def __init__(
        self, number: int, own: IntArray, rows: Rows, parts: PartArray, n_parts: int, local: PartArray, room: int
    ) -> None:
        self._number, self._own, self._rows, self._parts = number, own, rows, parts
        self._n_parts, self._local, self._room = n_parts, local, room
        self._is_near = rows.n_entries * _PER_INSIDE_ENTRY + own.size * _PER_PLACED_VERTEX <= room
        self.n_boundary = 0

    def write(self, files: PartWriter) -> tuple[IntArray, IntArray]:
        """Write all that rows decide; returns the order of its own vertices, and where the ghosts of parts begin."""
        ghosts, sent, is_boundary, inside = self._surveyed()
        ghosts = ghosts[np.argsort(self._parts[ghosts], kind="stable")]  # by part, rising within each
        n_own = self._own.size
        near = np.arange(n_own) if inside is None else _nearness(inside)
        order = np.lexsort((near, ~is_boundary))
        place = np.empty(n_own, dtype=np.int32)
        place[order] = np.arange(n_own, dtype=np.int32)
        self._local[self._own] = place
        self._local[ghosts] = n_own + np.arange(ghosts.size, dtype=np.int32)
        self.n_boundary = int(is_boundary.sum())

        numbers = np.arange(self._n_parts + 1)
        files.save("vertices", self._own[order])
        files.save("ghosts", ghosts)
        ghost_ptr = np.searchsorted(self._parts[ghosts], numbers).astype(np.int64)
        files.save("ghost_ptr", ghost_ptr)
        to, who = np.divmod(sent, max(1, n_own))
        files.save("sent", place[who])
        files.save("sent_ptr", np.searchsorted(to, numbers).astype(np.int64))
        degrees = np.diff(self._rows.indptr)[order]
        files.save("indptr", np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64))
        self._write_entries(files, order, n_own + ghosts.size)
        return order, ghost_ptr

    def _surveyed(self) -> tuple[IntArray, IntArray, BoolArray, sp.csr_matrix | None]:
        """The ghosts; part · n_own + vertex for each that is sent; who has a ghost; the edges inside, if they fit."""
        n_own = self._own.size
        ghosts: IntArray = np.empty(0, dtype=np.int64)
        sent: list[IntArray] = [np.empty(0, dtype=np.int64)]
        is_boundary = np.zeros(n_own, dtype=np.bool_)
        inside = np.empty(self._rows.n_entries if self._is_near else 0, dtype=np.int32)
        counts, filled = np.zeros(n_own, dtype=np.int64), 0
        self._local[self._own] = np.arange(n_own, dtype=np.int32)
        for first, stop in self._rows.blocks(self._room // _PER_BLOCK_ENTRY):
            indptr, columns, _ = self._rows.read(first, stop)
            owners = self._parts[columns]
            rows = np.repeat(np.arange(first, stop), np.diff(indptr))
            away = owners != self._number
            is_boundary[rows[away]] = True
            ghosts = distinct(np.concatenate([ghosts, columns[away]]))
            sent.append(distinct(owners[away].astype(np.int64) * n_own + rows[away]))
            if self._is_near:
                near = self._local[columns[~away]]
                inside[filled : filled + near.size] = near
                filled += near.size
                counts[first:stop] = np.bincount(rows[~away] - first, minlength=stop - first)
        matrix = None
        if self._is_near:
            indptr = np.concatenate([[0], np.cumsum(counts)])
            inside = inside[:filled]
            matrix = sp.csr_matrix((np.ones(filled, dtype=np.int8), inside, indptr), shape=(n_own, n_own))
        return ghosts, np.sort(np.concatenate(sent)), is_boundary, matrix

    def _write_entries(self, files: PartWriter, order: IntArray, n_local: int) -> None:
        """The columns of the vertices in their order, rising in each row, and the weights."""
        rows = self._rows
        degrees = np.diff(rows.indptr)[order]
        ordered = Rows(np.concatenate([[0], np.cumsum(degrees)]), rows.indices, rows.weights)
        indices = rows.indices.mapped()
        weights = None if rows.weights is None else rows.weights.mapped()
        with ExitStack() as stack:
            put = stack.enter_context(files.pieces("indices", np.int32, rows.n_entries))
            if weights is not None:
                weigh = stack.enter_context(files.pieces("weights", np.float64, rows.n_entries))
            for first, stop in ordered.blocks(self._room // _PER_BLOCK_ENTRY):
                ends = ordered.indptr[first : stop + 1] - ordered.indptr[first]
                begins = rows.indptr[order[first:stop]] - ends[:-1]
                entries = np.repeat(begins, degrees[first:stop]) + np.arange(ends[-1])
                columns = self._local[indices[entries]]
                keys = np.repeat(np.arange(stop - first) * n_local, degrees[first:stop]) + columns
                if weights is None:
                    keys.sort()
                    put(keys % n_local)
                else:
                    by_column = np.argsort(keys)
                    put(columns[by_column])
                    weigh(weights[entries[by_column]])


def _nearness(inside: sp.csr_matrix) -> IntArray:
    """The place of each vertex in an order in which neighbours are near."""
    near = np.empty(inside.shape[0], dtype=np.int64)
    if near.size:
        near[local_order(inside)] = np.arange(near.size)
    return near
