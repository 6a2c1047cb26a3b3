"""Which part each vertex of a graph gets, within a limit of memory: METIS where the graph fits; else labels spread over
its rows until clusters of it do, and parts of the clusters are projected and refined (decision 0059). Parts take the
same work; of a hierarchy the first level is divided first. It never looks at labels of users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tautcut.arrays import IntArray
from tautcut.errors import NotEnoughMemoryError
from tautcut.kernels.cpu.propagation import propagate
from tautcut.ranks import metis
from tautcut.ranks.rows import Edges, Files, Rows, sorted_rows

PartArray: TypeAlias = "NDArray[np.int32]"
Tell: TypeAlias = Callable[[str, int, int], None]

WORK_OF_VERTEX = 3  # of an iteration, in directed edges: it moves 6 rows for a vertex and 2 for an edge
_CLUSTERS_PER_PART = 64  # at least: parts of clusters this small can be as even as METIS makes them
_SPREADS = 4  # passes over the rows in which clusters form; most vertices have settled then
_REFINEMENTS = 8  # passes at most in which parts are refined
_SETTLED = 0.001  # of the vertices: where fewer move in a pass, it was the last
_LEAST_SHRINKAGE = 0.9  # of the vertices that clusters may be left, or spreading has come to an end
_PER_BLOCK_ENTRY = 48  # bytes that an entry takes while its block is worked on
_MOST_FILES = 250  # that are open at once


def divided(
    rows: Rows, hierarchy: tuple[int, ...], *, folder: Path, room: int, rng: np.random.Generator,
    tell: Tell = lambda name, done, total: None,
) -> PartArray:  # fmt: skip
    """The part of each vertex; of several levels node · parts + k is the k-th part of a node.

    Parameters
    ----------
    hierarchy : the parts at each level.
    folder : for temporary files.
    room : bytes of memory that may be taken besides some for each vertex.
    """
    work = np.diff(rows.indptr) + WORK_OF_VERTEX
    parts = _pieces(rows, work, hierarchy[0], folder=folder, room=room, rng=rng, tell=tell)
    n_nodes = hierarchy[0]
    for n_pieces in hierarchy[1:]:
        finer = np.empty_like(parts)
        for node, own, inside in distributed(rows, parts, n_nodes, folder=folder, room=room, is_inside=True):
            mine = _pieces(inside, work[own], n_pieces, folder=folder, room=room, rng=rng, tell=tell)
            finer[own] = node * n_pieces + mine
            tell("nodes", node + 1, n_nodes)
        parts, n_nodes = finer, n_nodes * n_pieces
    return parts


def distributed(
    rows: Rows, parts: PartArray, n_parts: int, *, folder: Path, room: int, is_inside: bool = False
) -> Iterator[tuple[int, IntArray, Rows]]:
    """Each part, its vertices, and their rows: all of them, or the entries inside the part by their places in it.

    The files of a part are there until the next is asked for.
    """
    place = np.empty(rows.n_vertices, dtype=np.int32) if is_inside else None
    by_part = np.argsort(parts, kind="stable")
    ends = np.searchsorted(parts[by_part], np.arange(n_parts + 1))
    for first in range(0, n_parts, _MOST_FILES // 2):
        numbers = range(first, min(n_parts, first + _MOST_FILES // 2))
        owned = [by_part[ends[number] : ends[number + 1]] for number in numbers]
        if place is not None:
            for own in owned:
                place[own] = np.arange(own.size, dtype=np.int32)
        indices = Files(folder, "part-indices", len(numbers), rows.indices.dtype)
        weights = Files(folder, "part-weights", len(numbers), np.float64)
        counts = np.zeros(rows.n_vertices, dtype=np.int64)
        for start, stop in rows.blocks(room // _PER_BLOCK_ENTRY):
            _distribute(rows, parts, place, (start, stop), numbers, indices, weights, counts)
        indices.close()
        weights.close()
        for k, number in enumerate(numbers):
            indptr = np.concatenate([[0], np.cumsum(counts[owned[k]])])
            stored = None if rows.weights is None else weights.stored(k)
            yield number, owned[k], Rows(indptr, indices.stored(k), stored)
            indices.remove(k)
            weights.remove(k)


def _distribute(
    rows: Rows, parts: PartArray, place: PartArray | None, run: tuple[int, int], numbers: range, indices: Files,
    weights: Files, counts: IntArray,
) -> None:  # fmt: skip
    """Add the rows of a run of vertices to the files of their parts."""
    start, stop = run
    indptr, columns, values = rows.read(start, stop)
    owner = np.repeat(parts[start:stop], np.diff(indptr))
    if place is not None:
        row = np.repeat(np.arange(start, stop), np.diff(indptr))
        is_kept = parts[columns] == owner
        columns, owner, row = place[columns[is_kept]], owner[is_kept], row[is_kept]
        values = None if values is None else values[is_kept]
        counts[start:stop] = np.bincount(row - start, minlength=stop - start)
    else:
        counts[start:stop] = np.diff(indptr)
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], [*numbers, numbers[-1] + 1])
    for k in np.flatnonzero(np.diff(ends)).tolist():
        indices.append(k, columns[order[ends[k] : ends[k + 1]]])
        if values is not None:
            weights.append(k, values[order[ends[k] : ends[k + 1]]])


# ---------------------------------------------------------------- one level


def _pieces(
    rows: Rows, work: IntArray, n_pieces: int, *, folder: Path, room: int, rng: np.random.Generator, tell: Tell
) -> PartArray:
    """A division by METIS, of the graph or of clusters of it."""
    seed = int(rng.integers(2**30))
    if n_pieces == 1 or not rows.n_vertices:
        return np.zeros(rows.n_vertices, dtype=np.int32)
    need = metis.takes(rows.n_vertices, rows.n_entries)
    if need <= room:
        tell("divide", 0, 1)
        found = metis.partition(rows, work, n_pieces, folder=folder, room=room, seed=seed)
        return found.astype(np.int32)
    clusters = _clusters(
        rows, work, int(work.sum()) // (n_pieces * _CLUSTERS_PER_PART), room=room, seed=seed, tell=tell
    )
    n_clusters = int(clusters.max()) + 1
    if n_clusters > _LEAST_SHRINKAGE * rows.n_vertices:
        raise NotEnoughMemoryError(
            f"a graph of {rows.n_vertices:,} vertices and {rows.n_entries // 2:,} edges has no clusters that are small "
            f"enough to be divided; dividing it whole takes {need / 2**30:,.1f} GiB. Allow so much by --memory."
        )
    coarse = _contracted(rows, clusters, n_clusters, folder=folder, room=room)
    coarse_work = np.bincount(clusters, work, n_clusters).astype(np.int64)
    parts = _pieces(coarse, coarse_work, n_pieces, folder=folder, room=room, rng=rng, tell=tell)[clusters]
    coarse.remove()
    _refine(rows, work, parts, n_pieces, room=room, seed=seed, tell=tell)
    return parts


def _clusters(rows: Rows, work: IntArray, largest: int, *, room: int, seed: int, tell: Tell) -> PartArray:
    """The cluster of each vertex, numbered from 0: vertices that are strongly joined, `largest` together at most."""
    labels = np.arange(rows.n_vertices, dtype=np.int32)
    sizes = work.astype(np.int64)
    for number in range(_SPREADS):
        tell("cluster", number, _SPREADS)
        if _pass(rows, labels, sizes, work, largest, room=room, seed=seed + number) < _SETTLED * rows.n_vertices:
            break
    is_there = np.zeros(rows.n_vertices, dtype=np.bool_)
    is_there[labels] = True
    return (np.cumsum(is_there, dtype=np.int32) - 1)[labels]


def _refine(rows: Rows, work: IntArray, parts: PartArray, n_pieces: int, *, room: int, seed: int, tell: Tell) -> None:
    """Move vertices to the part that they are joined to most; overwrites `parts`."""
    sizes = np.bincount(parts, work, n_pieces).astype(np.int64)
    largest = int((1 + metis.IMBALANCE) * work.sum() / n_pieces)
    for number in range(_REFINEMENTS):
        tell("refine", number, _REFINEMENTS)
        if _pass(rows, parts, sizes, work, largest, room=room, seed=seed + number) < _SETTLED * rows.n_vertices:
            break


def _pass(rows: Rows, labels: PartArray, sizes: IntArray, work: IntArray, largest: int, *, room: int, seed: int) -> int:
    """How many vertices moved, when each was looked at once; overwrites `labels` and `sizes`."""
    strength = np.zeros(sizes.size)
    seen = np.empty(max(1, int(np.diff(rows.indptr).max(initial=0))), dtype=np.int32)
    moved = 0
    for first, stop in rows.blocks(room // _PER_BLOCK_ENTRY):
        indptr, indices, weights = rows.read(first, stop)
        weights = np.ones(indices.size) if weights is None else weights
        moved += propagate(first, indptr, indices, weights, labels, sizes, work, largest, strength, seen, seed)
    return moved


def _contracted(rows: Rows, clusters: PartArray, n_clusters: int, *, folder: Path, room: int) -> Rows:
    """The rows of the graph whose vertices are clusters; the weights of edges between two of them add up."""

    def batches() -> Iterator[Edges]:
        for first, stop in rows.blocks(room // _PER_BLOCK_ENTRY // 2):
            indptr, columns, weights = rows.read(first, stop)
            here = np.repeat(clusters[first:stop], np.diff(indptr))
            there = clusters[columns]
            apart = here != there
            kept = np.ones(int(apart.sum())) if weights is None else weights[apart]
            yield here[apart].astype(np.int64), there[apart].astype(np.int64), kept

    name = f"coarse-{n_clusters}"
    return sorted_rows(batches, n_clusters, folder, room=room, has_weights=True, is_sum=True, name=name)
