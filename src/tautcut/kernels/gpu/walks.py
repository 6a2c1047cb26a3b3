"""Random walks with restart on the GPU: those from many vertices at a time, side by side as the columns of one dense
block, by Chebyshev's iteration and sparse products. A block holds the vertices that some walk of it reaches, not all
of a large graph. What `kernels.cpu.walks` does on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tautcut.arrays import Array
from tautcut.graph import Graph
from tautcut.graph.graph import local_order
from tautcut.kernels import gpu
from tautcut.kernels.gpu.products import SparseMatrix

_COLUMNS = 2048  # walks of a block: twice as many are hardly quicker
_BLOCK_BYTES = 4 << 30  # of a block, which with what its largest are found by is four arrays: fewer columns if large
_PRECISION = 1e-3  # to which the iteration solves: a hundredth of it moves 2 in 1,000 of the nearest (decision 0043)
_LEAST = 0.02  # over the number of neighbours: visits below which a vertex is left out of a block
_WHOLE = 0.5  # of all vertices: where walks reach more, a block holds them all
_CANDIDATES = 2  # for each neighbour: returns, by which they are compared, are known only when all walks are done
_SPARE = 8  # more of them, however many neighbours


def nearest_on_gpu(
    graph: Graph, k: int, continues: float, on_step: Callable[[int, int], None], *, device: str | None = None
) -> Array:
    """The k vertices nearest to each under the walk, −1 behind them where there are fewer, shape (n, k).

    Parameters
    ----------
    graph : Graph
    k : how many, below the number of vertices.
    continues : the probability of each further step.
    on_step : called with the vertices done and their total after each block.
    """
    W = graph.to_scipy()
    order = local_order(W)
    S = _Steps.of(W[order][:, order], continues, torch.device(device or gpu.DEVICE))
    n, kept = graph.n_vertices, min(_CANDIDATES * k + _SPARE, graph.n_vertices - 1)
    width = max(1, min(_COLUMNS, n, _BLOCK_BYTES // (16 * n) if n * 16 < _BLOCK_BYTES else 1))
    nearest = torch.empty((n, kept), dtype=torch.int64, device=S.device)
    scores = torch.empty((n, kept), device=S.device)
    returns = torch.empty(n, device=S.device)
    for first in range(0, n, width):
        last = min(first + width, n)
        inside, part = S.around(first, last, _LEAST / (k + _SPARE))
        columns = torch.arange(last - first, device=S.device)
        starts = torch.searchsorted(inside, torch.arange(first, last, device=S.device))
        M = part.walked(starts, columns, k + 1)
        returns[first:last] = M[starts, columns]
        M[starts, columns] = -1.0
        best, rows = M.topk(min(kept, M.shape[0] - 1), dim=0)
        nearest[first:last, : rows.shape[0]] = inside[rows.T]
        scores[first:last] = 0.0
        scores[first:last, : rows.shape[0]] = best.T
        on_step(last, n)
    cosines = torch.where(scores > 0, scores / returns[nearest.clamp(0, n - 1)].sqrt(), -1.0)
    best, places = cosines.topk(min(k, kept), dim=1)
    chosen = torch.where(best > 0, nearest.gather(1, places), -1).cpu().numpy()
    found = np.full((n, k), -1, np.int32)
    found[order, : chosen.shape[1]] = np.where(chosen >= 0, order[chosen], -1)
    return found


class _Steps:
    """S = D^{-½} W D^{-½} of a graph, or of a part of it whose walks are lost where they leave it, on the GPU."""

    def __init__(self, begins: torch.Tensor, ends: torch.Tensor, values: torch.Tensor, continues: float) -> None:
        self.begins, self.ends, self.values, self.continues = begins, ends, values, continues
        self.n, self.device = begins.numel() - 1, begins.device
        self._matrix = SparseMatrix(begins, ends, values)

    @classmethod
    def of(cls, W: Any, continues: float, device: torch.device) -> _Steps:
        """Of the weights W, a CSR matrix."""
        degrees = np.asarray(W.sum(axis=1)).ravel()
        scale = np.sqrt(np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0))
        rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
        values = (W.data * scale[rows] * scale[W.indices]).astype(np.float32)
        parts = (W.indptr.astype(np.int64), W.indices.astype(np.int64), values)
        begins, ends, values = (torch.from_numpy(part).to(device) for part in parts)
        return cls(begins, ends, values, continues)

    def walked(self, starts: torch.Tensor, columns: torch.Tensor, n_reached: int = 1) -> torch.Tensor:
        """(I − continues S)^{-1} B for the B that is 1 at these starts and columns, and 0 elsewhere.

        Chebyshev's iteration X' = ω (continues S X + B − X°) + X°, where X° came before X. The eigenvalues of
        continues S lie between ± continues, so each step divides the error by (√c + 1) / (√c − 1), for
        c = (1 + continues) / (1 − continues). It goes on until each column has `n_reached` entries > 0, or has all
        that it can have.
        """
        a = self.continues
        root = math.sqrt((1 + a) / (1 - a))
        n_steps = math.ceil(math.log(_PRECISION) / math.log((root - 1) / (root + 1)))
        before = torch.zeros((self.n, int(columns[-1]) + 1), device=self.device)
        X = before.clone()
        X[starts, columns] = 1.0
        weight, n_positive = 1.0 / (1.0 - a * a / 2.0), -1
        for _ in range(max(1, self.n // n_steps)):
            for _ in range(n_steps):
                self._matrix.add_product(X, before, keep=1.0 - weight, scale=weight * a)
                before[starts, columns] += weight
                X, before = before, X
                weight = 1.0 / (1.0 - a * a * weight / 4.0)
            positive = (X > 0).sum(dim=0)
            last, n_positive = n_positive, int(positive.sum())
            if int(positive.min()) >= n_reached or n_positive == last:
                break
        return X

    def around(self, first: int, last: int, least: float) -> tuple[torch.Tensor, _Steps]:
        """The vertices that a walk from first … last − 1 visits `least` times or more, in order, and the part of them.

        All walks together visit a vertex at least as often as one of them.
        """
        starts = torch.arange(first, last, device=self.device)
        is_inside = self.walked(starts, torch.zeros_like(starts))[:, 0] >= least
        is_inside[first:last] = True
        if int(is_inside.sum()) > _WHOLE * self.n:
            return torch.arange(self.n, device=self.device), self
        inside = is_inside.nonzero()[:, 0]
        number = torch.full((self.n,), -1, dtype=torch.int64, device=self.device)
        number[inside] = torch.arange(inside.numel(), device=self.device)
        counts = self.begins[inside + 1] - self.begins[inside]
        rows = torch.repeat_interleave(torch.arange(inside.numel(), device=self.device), counts)
        begins = counts.cumsum(0) - counts
        edges = torch.arange(rows.numel(), device=self.device) + (self.begins[inside] - begins)[rows]
        ends = number[self.ends[edges]]
        stays = ends >= 0
        kept = torch.zeros(inside.numel() + 1, dtype=torch.int64, device=self.device)
        kept[1:] = torch.bincount(rows[stays], minlength=inside.numel()).cumsum(0)
        return inside, _Steps(kept, ends[stays], self.values[edges[stays]], self.continues)
