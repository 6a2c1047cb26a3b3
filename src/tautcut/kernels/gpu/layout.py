"""Where the vertices and edges of a graph lie in the GPU's memory. Vertices of like degree share a block; the edges
of a block are stored step by step, the e-th edge of each of its vertices side by side, so that neighbouring lanes read
neighbouring words. A row too long for that has a block of its own, its edges side by side. Plain NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tautcut.arrays import Array, IntArray, SingleArray
from tautcut.graph import Graph

WINDOW = 4096  # vertices among which rows are sorted by length: enough for even blocks, near enough for the cache
LONG_ROW = 64  # edges: from here on, a vertex has a block of its own


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows, blocks and slots. Row i holds vertex `order[i]`; block b holds the slots of the steps `offsets[b]` …
    `offsets[b + 1]`, `lanes` slots to a step. A slot names the row at the other end of its edge; one that has no edge
    names its own row, and then nothing differs along it.
    """

    order: IntArray
    offsets: IntArray
    neighbors: NDArray[np.int32]
    weights: SingleArray | None
    lanes: int
    n_short: int
    n_short_blocks: int

    @property
    def n_blocks(self) -> int:
        return int(self.offsets.size - 1)

    @property
    def n_slots(self) -> int:
        return int(self.neighbors.size)


def layout_of(graph: Graph, weights: Array, *, lanes: int, unroll: int, near: Array | None = None) -> Layout:
    """The layout for blocks of `lanes` rows, whose steps are taken `unroll` at a time.

    `near` gives vertices that belong together neighbouring values, so that they come to lie side by side.
    """
    n = graph.n_vertices
    degrees = np.diff(graph.indptr).astype(np.int64)
    place = np.arange(n) if near is None else np.argsort(near, kind="stable")
    is_long = degrees[place] > LONG_ROW
    short, long = place[~is_long], place[is_long]
    window = np.arange(short.size) // WINDOW
    short = short[np.lexsort((-degrees[short], window))]
    order = np.concatenate([short, long])
    row_of = np.empty(n, dtype=np.int32)
    row_of[order] = np.arange(n, dtype=np.int32)

    n_short_blocks = -(-short.size // lanes)
    longest = np.zeros(n_short_blocks * lanes, dtype=np.int64)
    longest[: short.size] = degrees[short]
    steps = np.concatenate([longest.reshape(-1, lanes).max(axis=1), -(-degrees[long] // lanes)])
    steps = -(-steps // unroll) * unroll
    offsets = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)

    own = np.minimum(np.arange(n_short_blocks * lanes), max(short.size - 1, 0)).reshape(-1, lanes)
    own = np.concatenate([own, np.repeat(np.arange(short.size, n)[:, None], lanes, axis=1)]).astype(np.int32)
    neighbors = np.repeat(own, steps, axis=0).ravel()
    slot = _slots(graph, degrees, order, offsets, lanes, short.size, n_short_blocks)
    neighbors[slot] = row_of[graph.indices]
    laid_weights = None
    if graph.n_edges and not graph.is_unweighted:
        laid_weights = np.zeros(neighbors.size, dtype=np.float32)
        laid_weights[slot] = weights
    return Layout(order, offsets, neighbors, laid_weights, lanes, int(short.size), int(n_short_blocks))


def _slots(
    graph: Graph, degrees: IntArray, order: IntArray, offsets: IntArray, lanes: int,
    n_short: int, n_short_blocks: int,
) -> IntArray:  # fmt: skip
    """The slot of every directed edge, in the order of the graph's own arrays."""
    rows = np.arange(order.size)
    is_short = rows < n_short
    block = np.where(is_short, rows // lanes, n_short_blocks + rows - n_short)
    first, stride = np.empty_like(rows), np.empty_like(rows)
    first[order] = offsets[block] * lanes + np.where(is_short, rows % lanes, 0)
    stride[order] = np.where(is_short, lanes, 1)
    number = np.arange(graph.indices.size) - np.repeat(graph.indptr[:-1].astype(np.int64), degrees)
    slot: IntArray = np.repeat(first, degrees) + number * np.repeat(stride, degrees)
    return slot
