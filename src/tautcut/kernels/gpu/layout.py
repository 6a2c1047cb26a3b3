"""Where the vertices and edges of a graph lie in the GPU's memory. Vertices of like degree share a block; the edges
of a block are stored step by step, the e-th edge of each of its vertices side by side, so that neighbouring lanes read
neighbouring words. A row too long for that has a block of its own, its edges side by side; a hub, whose one program
all others would wait for, has several, a piece of its edges in each. And masses, rounded so that they can be added up
in any order. Plain NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tautcut.arrays import Array, FloatArray, IntArray, SingleArray
from tautcut.graph import Graph

WINDOW = 4096  # vertices among which rows are sorted by length: enough for even blocks, near enough for the cache
LONG_ROW = 64  # edges: from here on, a vertex has a block of its own
HUB_ROW = 2048  # edges: from here on, it is a hub; graphs of nearest neighbours have none (decision 0036)
PIECE = 512  # edges of a hub in one block
_DIGITS = 53  # binary, of a float64


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows, blocks and slots. Row i holds vertex `order[i]`; block b holds the slots of the steps `offsets[b]` …
    `offsets[b + 1]`, `lanes` slots to a step. A slot names the row at the other end of its edge; one that has no edge
    names its own row, and then nothing differs along it. Hubs are the last rows: the h-th of them has the blocks
    `hubs[h]` … `hubs[h + 1]`, and no others come after those.
    """

    order: IntArray
    offsets: IntArray
    neighbors: NDArray[np.int32]
    weights: SingleArray | None
    lanes: int
    n_short: int
    n_short_blocks: int
    hubs: IntArray

    @property
    def n_blocks(self) -> int:
        return int(self.offsets.size - 1)

    @property
    def n_hubs(self) -> int:
        return int(self.hubs.size - 1)

    @property
    def n_whole_blocks(self) -> int:
        """Blocks that are no pieces of hubs."""
        return int(self.hubs[0])

    @property
    def n_pieces(self) -> int:
        return self.n_blocks - self.n_whole_blocks

    @property
    def owners(self) -> NDArray[np.int32]:
        """The row of each block that has only one, −1 for blocks of short rows."""
        n = self.order.size
        owners = np.full(self.n_blocks, -1, dtype=np.int32)
        owners[self.n_short_blocks : self.n_whole_blocks] = np.arange(self.n_short, n - self.n_hubs)
        owners[self.n_whole_blocks :] = np.repeat(np.arange(n - self.n_hubs, n), np.diff(self.hubs))
        return owners

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
    is_hub = degrees[long] > HUB_ROW
    long = np.concatenate([long[~is_hub], long[is_hub]])
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
    offsets, hubs = _cut_hubs(offsets, int(is_hub.sum()), steps=max(1, PIECE // (lanes * unroll)) * unroll)
    return Layout(order, offsets, neighbors, laid_weights, lanes, int(short.size), int(n_short_blocks), hubs)


def exactly_summed(masses: FloatArray) -> tuple[FloatArray, float]:
    """Masses of mean one as multiples of a power of two, none 0, and that power: float64 has every sum of them exactly.

    So sums do not depend on their order, and what lies above, at and below a median adds up to everything. No mass
    changes by more than 2⁻⁵¹ of all of them together (decision 0046).
    """
    grain = 2.0 ** (int(np.ceil(np.log2(2 * masses.size))) - _DIGITS)  # for twice the sum: the lightest are rounded up
    rounded: FloatArray = np.maximum(np.round(masses / grain), 1.0) * grain
    return rounded, grain


def _cut_hubs(offsets: IntArray, n_hubs: int, *, steps: int) -> tuple[IntArray, IntArray]:
    """The offsets when the last `n_hubs` blocks are cut after every so many steps, and where each hub's blocks begin.

    No slot moves.
    """
    n_whole_blocks = offsets.size - 1 - n_hubs
    ends = offsets[n_whole_blocks:]
    pieces = [np.arange(first, last, steps) for first, last in pairwise(ends)]
    hubs = n_whole_blocks + np.cumsum([0, *map(len, pieces)])
    return np.concatenate([offsets[:n_whole_blocks], *pieces, ends[-1:]]), hubs


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
