"""Where the vertices and edges of a graph lie in the GPU's memory. Vertices of like degree share a block; the edges
of a block are stored step by step, the e-th edge of each of its vertices side by side, so that neighbouring lanes read
neighbouring words. A row too long for that has a block of its own, its edges side by side; a hub, whose one program
all others would wait for, has several, a piece of its edges in each. And masses, rounded so that they can be added up
in any order. Laid out where the arrays are: on the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from tautcut.arrays import Array, FloatArray, IntArray

WINDOW = 4096  # vertices among which rows are sorted by length: enough for even blocks, near enough for the cache
LONG_ROW = 64  # edges: from here on, a vertex has a block of its own
HUB_ROW = 2048  # edges: from here on, it is a hub; graphs of nearest neighbours have none (decision 0036)
PIECE = 512  # edges of a hub in one block
_DIGITS = 53  # binary, of a float64


class Csr(NamedTuple):
    """A graph in CSR order on the GPU: int64 `indptr`, int32 `indices`, and float64 `weights` of mean one, None where
    all are 1.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    weights: torch.Tensor | None

    @property
    def n_vertices(self) -> int:
        return int(self.indptr.numel()) - 1

    @property
    def rows(self) -> torch.Tensor:
        """The vertex at the near end of each directed edge."""
        return torch.repeat_interleave(self.indptr.diff(), output_size=self.indices.numel())

    def degrees(self, power: int = 1) -> torch.Tensor:
        """Σ_j w_ij^power of each vertex, in float64 and always in the same order."""
        counts = self.indptr.diff()
        if self.weights is None:
            return counts.double()
        return torch.segment_reduce(self.weights**power, "sum", lengths=counts, unsafe=True)


def tensor_of(array: Array, device: torch.device) -> torch.Tensor:
    """A copy on the device, or a view where that is the host. Nothing is ever written to it, so it may be read-only."""
    return torch.from_numpy(np.asarray(_Writable(array))).to(device)


class _Writable:
    """An array that may be read-only as one that is not: torch warns of those."""

    def __init__(self, array: Array) -> None:
        self._array = np.ascontiguousarray(array)
        interface = self._array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows, blocks and slots. Row i holds vertex `order[i]`; block b holds the slots of the steps `offsets[b]` …
    `offsets[b + 1]`, `lanes` slots to a step. A slot names the row at the other end of its edge; one that has no edge
    names its own row, and then nothing differs along it. Hubs are the last rows: the h-th of them has the blocks
    `hubs[h]` … `hubs[h + 1]`, and no others come after those.
    """

    order: torch.Tensor
    offsets: torch.Tensor
    neighbors: torch.Tensor
    weights: torch.Tensor | None
    lanes: int
    n_short: int
    n_short_blocks: int
    hubs: IntArray

    @property
    def n_blocks(self) -> int:
        return int(self.offsets.numel()) - 1

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
    def owners(self) -> torch.Tensor:
        """The row of each block that has only one, −1 for blocks of short rows."""
        n = self.order.numel()
        owners = np.full(self.n_blocks, -1, dtype=np.int32)
        owners[self.n_short_blocks : self.n_whole_blocks] = np.arange(self.n_short, n - self.n_hubs)
        owners[self.n_whole_blocks :] = np.repeat(np.arange(n - self.n_hubs, n), np.diff(self.hubs))
        return torch.from_numpy(owners).to(self.order.device)

    @property
    def n_slots(self) -> int:
        return int(self.neighbors.numel())


class Order(NamedTuple):
    """The vertex of each row: short rows first, then long ones, then hubs."""

    vertices: torch.Tensor
    n_short: int
    n_hubs: int

    @property
    def rows(self) -> torch.Tensor:
        """The row of each vertex."""
        rows = torch.empty(self.vertices.shape, dtype=torch.int32, device=self.vertices.device)
        rows[self.vertices] = torch.arange(rows.numel(), dtype=torch.int32, device=rows.device)
        return rows


def order_of(csr: Csr, near: torch.Tensor | None = None) -> Order:
    """An order in which short rows of like length lie side by side, and what is near stays near."""
    degrees, device = csr.indptr.diff(), csr.indptr.device
    place = torch.arange(csr.n_vertices, device=device) if near is None else near.argsort(stable=True)
    length = degrees[place]
    is_hub = length > max(LONG_ROW, HUB_ROW)
    short, long, hubs = place[length <= LONG_ROW], place[(length > LONG_ROW) & ~is_hub], place[is_hub]
    window = torch.arange(short.numel(), device=device) // WINDOW
    short = short[(window * (LONG_ROW + 1) + LONG_ROW - degrees[short]).argsort(stable=True)]
    return Order(torch.cat([short, long, hubs]), short.numel(), hubs.numel())


def layout_of(
    csr: Csr, *, lanes: int, unroll: int, near: torch.Tensor | None = None, row_of: torch.Tensor | None = None
) -> Layout:
    """The layout of a graph for blocks of `lanes` rows, whose steps are taken `unroll` at a time.

    `near` gives vertices that belong together neighbouring values, so that they come to lie side by side. `row_of` has
    the row of every vertex that an edge may lead to, where these are more than those of the graph itself.
    """
    degrees, device, n = csr.indptr.diff(), csr.indptr.device, csr.n_vertices
    ordered = order_of(csr, near)
    order, n_short, n_hubs = ordered
    row_of = ordered.rows if row_of is None else row_of

    n_short_blocks = -(-n_short // lanes)
    longest = torch.zeros(n_short_blocks * lanes, dtype=torch.int64, device=device)
    longest[:n_short] = degrees[order[:n_short]]
    steps = torch.cat([longest.view(-1, lanes).amax(dim=1), -(-degrees[order[n_short:]] // lanes)])
    steps = -(-steps // unroll) * unroll
    offsets = torch.cat([steps.new_zeros(1), steps.cumsum(0)])

    own = torch.arange(n_short_blocks * lanes, device=device).clamp_max(max(n_short - 1, 0)).view(-1, lanes)
    own = torch.cat([own, torch.arange(n_short, n, device=device)[:, None].expand(-1, lanes)]).to(torch.int32)
    neighbors = own.repeat_interleave(steps, dim=0).view(-1)
    slot = _slots(csr, order, offsets, lanes, n_short, n_short_blocks)
    neighbors[slot] = row_of[csr.indices]
    laid_weights = None
    if csr.weights is not None:
        laid_weights = torch.zeros(neighbors.shape, dtype=torch.float32, device=device)
        laid_weights[slot] = csr.weights.float()
    offsets, blocks_of_hubs = _cut_hubs(offsets, n_hubs, steps=_steps_of_piece(lanes, unroll))
    return Layout(order, offsets, neighbors, laid_weights, lanes, n_short, n_short_blocks, blocks_of_hubs)


class Extent(NamedTuple):
    """The sizes of a layout."""

    n_slots: int
    n_blocks: int
    n_pieces: int


def extent_of(degrees: IntArray, *, lanes: int, unroll: int) -> Extent:
    """The sizes that the layout of rows with so many edges will have, before anything is laid out."""
    short, long = degrees[degrees <= LONG_ROW], degrees[degrees > LONG_ROW]
    windows = np.zeros((-(-short.size // WINDOW), WINDOW), dtype=np.min_scalar_type(LONG_ROW))
    windows.ravel()[: short.size] = short
    windows.sort(axis=1, kind="stable")
    longest = windows[:, ::-1].reshape(-1, lanes)[:, 0].astype(np.int64)  # the first row of a block is its longest
    steps, long_steps = (-(-one // unroll) * unroll for one in (longest, -(-long // lanes)))
    pieces = -(-long_steps[long > HUB_ROW] // _steps_of_piece(lanes, unroll))
    n_slots, n_pieces = lanes * int(steps.sum() + long_steps.sum()), int(pieces.sum())
    return Extent(n_slots, -(-short.size // lanes) + long.size - pieces.size + n_pieces, n_pieces)


def _steps_of_piece(lanes: int, unroll: int) -> int:
    """Steps of a hub in one block."""
    return max(1, PIECE // (lanes * unroll)) * unroll


def exactly_summed(masses: FloatArray) -> tuple[FloatArray, float]:
    """Masses of mean one as multiples of a power of two, none 0, and that power: float64 has every sum of them exactly.

    So sums do not depend on their order, and what lies above, at and below a median adds up to everything. No mass
    changes by more than 2⁻⁵¹ of all of them together (decision 0046).
    """
    grain = 2.0 ** (int(np.ceil(np.log2(2 * masses.size))) - _DIGITS)  # for twice the sum: the lightest are rounded up
    rounded: FloatArray = np.maximum(np.round(masses / grain), 1.0) * grain
    return rounded, grain


def _cut_hubs(offsets: torch.Tensor, n_hubs: int, *, steps: int) -> tuple[torch.Tensor, IntArray]:
    """The offsets when the last `n_hubs` blocks are cut after every so many steps, and where each hub's blocks begin.

    No slot moves.
    """
    n_whole_blocks = offsets.numel() - 1 - n_hubs
    ends = offsets[n_whole_blocks:].tolist()
    pieces = [list(range(first, last, steps)) for first, last in pairwise(ends)]
    hubs = n_whole_blocks + np.cumsum([0, *map(len, pieces)])
    cut = torch.tensor([begin for piece in pieces for begin in piece] + ends[-1:], device=offsets.device)
    return torch.cat([offsets[:n_whole_blocks], cut]), hubs


def _slots(
    csr: Csr, order: torch.Tensor, offsets: torch.Tensor, lanes: int, n_short: int, n_short_blocks: int
) -> torch.Tensor:
    """The slot of every directed edge, in the order of the graph's own arrays."""
    rows = torch.arange(order.numel(), device=order.device)
    is_short = rows < n_short
    block = torch.where(is_short, rows // lanes, n_short_blocks + rows - n_short)
    first, stride = torch.empty_like(rows), torch.empty_like(rows)
    first[order] = offsets[block] * lanes + torch.where(is_short, rows % lanes, 0)
    stride[order] = torch.where(is_short, lanes, 1)
    # The e-th edge of a vertex is at first + e × stride; e is its place less that of the vertex's first edge.
    vertex = csr.rows
    number = torch.arange(vertex.numel(), device=order.device) - csr.indptr[vertex]
    return number * stride[vertex] + first[vertex]
