"""Coarser graphs, made on the GPU: vertices are matched along their heaviest edges, and each pair becomes one vertex.
A partition of the coarse graph has the same (P) as what it is on the finer one. All sums are of whole numbers, so that
the order in which a GPU adds them up changes nothing. What coarse graphs are for is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tautcut.arrays import IntArray
from tautcut.graph import Graph
from tautcut.kernels.gpu.layout import tensor_of

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

_ROUNDS = 4  # of proposals in a matching: each pairs most of the vertices that are left
_FEWEST_JOINED = 0.05  # of the vertices: a matching that joins fewer is the last
_WEIGHT_BITS = 52  # of the sum of all weights, as whole numbers; float64 has them exactly
_HASH_BITS = 31
_DROPPED_BITS = 20  # of a float32: ratings that differ by less than an eighth or so may be equal
_RATINGS = (1e-37, 1e38)  # that float32 has
_FREE = -1


@dataclass(frozen=True, eq=False)
class Coarse:
    """A graph on the host whose vertices are groups of rows on the GPU; `parents` (row,) names the group of each."""

    graph: Graph
    parents: torch.Tensor

    def projected(self, labels: IntArray) -> torch.Tensor:
        """Partitions (partition, coarse vertex) as partitions (partition, row)."""
        return tensor_of(labels, self.parents.device)[:, self.parents]

    def restricted(self, labels: torch.Tensor) -> IntArray:
        """Partitions (partition, row) that keep every group together as partitions (partition, coarse vertex)."""
        coarse = labels.new_empty((len(labels), self.graph.n_vertices), dtype=torch.int64)
        coarse[:, self.parents] = labels.long()
        found: IntArray = coarse.cpu().numpy()
        return found


@dataclass(frozen=True, eq=False)
class _Level:
    """A graph as its directed edges, sorted by their near ends. Weights are whole numbers, None for 1 each; masses are
    sums that float64 has exactly. Vertices of different groups are never joined.
    """

    rows: torch.Tensor
    ends: torch.Tensor
    weights: torch.Tensor | None
    masses: torch.Tensor
    groups: torch.Tensor | None

    @property
    def n_vertices(self) -> int:
        return int(self.masses.numel())


def coarsened(
    kernels: GpuKernels, n_vertices: int, *, heaviest: float, seed: int, respected: torch.Tensor | None = None
) -> Coarse:
    """See `GpuKernels.coarsened`."""
    csr, order = kernels.csr, kernels.layout.order
    unit = 1.0
    weights = None
    if csr.weights is not None:
        unit = float(csr.weights.sum()) * 2.0**-_WEIGHT_BITS
        weights = (csr.weights / unit).round().clamp_min(1.0).long()
    groups = None
    if respected is not None:
        groups = torch.empty(csr.n_vertices, dtype=torch.int64, device=kernels.device)
        groups[order] = _joint(respected)
    masses = tensor_of(kernels.masses, kernels.device)
    level = _Level(csr.rows, csr.indices.long(), weights, masses, groups)
    parents = torch.arange(csr.n_vertices, device=kernels.device)
    while level.n_vertices > n_vertices:
        parent, n_left = _matched(level, heaviest / kernels.mass_unit, seed + level.n_vertices)
        if n_left > (1 - _FEWEST_JOINED) * level.n_vertices:
            break
        level = _contracted(level, parent, n_left)
        parents = parent[parents]
    return Coarse(_on_host(level, unit * kernels.weight_unit, kernels.mass_unit), parents[order])


def _joint(labels: torch.Tensor) -> torch.Tensor:
    """Numbers that two rows share if all partitions (partition, row) keep them together."""
    joint = labels[0].long()
    for one in labels[1:]:
        joint = torch.unique(joint * (int(one.max()) + 1) + one, return_inverse=True)[1]
    return joint


def _matched(level: _Level, heaviest: float, seed: int) -> tuple[torch.Tensor, int]:
    """The number of the pair of each vertex, or of itself alone, and how many there are.

    Every vertex proposes to the neighbour with the highest w_ij / (m_i m_j), of nearly equal ones by a hash of the edge
    that both ends see alike; two that propose to each other are a pair.
    """
    n, device = level.n_vertices, level.rows.device
    may_join = level.masses[level.rows] + level.masses[level.ends] <= heaviest
    if level.groups is not None:
        may_join &= level.groups[level.rows] == level.groups[level.ends]
    rows, ends = level.rows[may_join], level.ends[may_join]
    rating = 1.0 / (level.masses[rows] * level.masses[ends])
    if level.weights is not None:
        rating *= level.weights[may_join]
    # Positive floats are in order as whole numbers too; their last digits are dropped, so that many are equal.
    rank = rating.clamp(*_RATINGS).float().view(torch.int32) >> _DROPPED_BITS
    bid = (rank.long() << _HASH_BITS) | _hashed(rows, ends, seed)
    vertices = torch.arange(n, device=device)
    mate, is_free = vertices.clone(), torch.ones(n, dtype=torch.bool, device=device)
    for _ in range(_ROUNDS):
        highest = torch.full((n,), _FREE, device=device).scatter_reduce_(0, rows, bid, "amax")
        is_highest = bid == highest[rows]
        choice = torch.full((n,), _FREE, device=device)
        choice.scatter_reduce_(0, rows[is_highest], ends[is_highest], "amax")
        is_paired = (choice != _FREE) & (choice[choice.clamp_min(0)] == vertices)
        mate = torch.where(is_paired, choice, mate)
        is_free &= ~is_paired
        is_left = is_free[rows] & is_free[ends]
        rows, ends, bid = rows[is_left], ends[is_left], bid[is_left]
    first = torch.minimum(mate, vertices)
    number = (first == vertices).cumsum(0) - 1
    return number[first], int(number[-1]) + 1


def _hashed(rows: torch.Tensor, ends: torch.Tensor, seed: int) -> torch.Tensor:
    """A number below 2³¹ for each edge, the same in both directions."""
    x = torch.minimum(rows, ends) * 0x9E3779B1 + torch.maximum(rows, ends) * 0x85EBCA77 + seed * 0xC2B2AE3D
    for shift in (15, 13, 16):  # 64-bit products wrap around
        x = (x ^ (x >> shift)) * 0x27D4EB2F165667C5
    return (x >> 24) & (2**_HASH_BITS - 1)


def _contracted(level: _Level, parent: torch.Tensor, n: int) -> _Level:
    """The level whose vertices are those of `parent`: parallel edges and masses add up, edges inside vanish."""
    rows, ends = parent[level.rows], parent[level.ends]
    is_across = rows != ends
    edge, order = (rows[is_across] * n + ends[is_across]).sort()
    edge, counts = torch.unique_consecutive(edge, return_counts=True)
    weights = counts
    if level.weights is not None:
        which = torch.repeat_interleave(counts, output_size=order.numel())
        weights = torch.zeros_like(counts).index_add_(0, which, level.weights[is_across][order])
    masses = torch.zeros(n, dtype=torch.float64, device=parent.device).index_add_(0, parent, level.masses)
    groups = None if level.groups is None else torch.empty_like(level.groups[:n]).scatter_(0, parent, level.groups)
    return _Level(edge // n, edge % n, weights, masses, groups)


def _on_host(level: _Level, weight_unit: float, mass_unit: float) -> Graph:
    n = level.n_vertices
    indptr = np.zeros(n + 1, dtype=np.int64)
    indptr[1:] = torch.bincount(level.rows, minlength=n).cumsum(0).cpu().numpy()
    weights = torch.ones_like(level.rows) if level.weights is None else level.weights
    return Graph(
        indptr, level.ends.int().cpu().numpy(), weights.double().cpu().numpy() * weight_unit,
        level.masses.cpu().numpy() * mass_unit,
    )  # fmt: skip
