"""Exact nearest neighbours on the GPU: distances of a block of points to all others by one matrix product, the
nearest of them and a few to spare measured again as differences, which rounding cannot reorder.
"""

from __future__ import annotations

import numpy as np
import torch

from tautcut.arrays import Array, FloatArray, IndexArray
from tautcut.kernels import gpu

_BLOCK_BYTES = 2 << 30  # of distances at a time: enough to fill a GPU, little of its memory
_SPARE = 8  # candidates beyond k that are measured again: products round, and may misplace the last few


def nearest_on_gpu(points: Array, k: int, *, device: str | None = None) -> tuple[IndexArray, FloatArray]:
    """The k nearest other points of each, nearest first, ties by their number; and their squared distances."""
    device = device or gpu.DEVICE
    centred = np.asarray(points - points.mean(axis=0), dtype=np.float32)
    rows = torch.from_numpy(centred).to(device)
    n = rows.shape[0]
    squares = (rows * rows).sum(dim=1)
    n_kept = min(n - 1, k + _SPARE)
    height = max(1, min(n, _BLOCK_BYTES // (4 * n)))
    indices = torch.empty((n, k), dtype=torch.int64, device=device)
    squared = torch.empty((n, k), dtype=torch.float32, device=device)
    for first in range(0, n, height):
        block = rows[first : first + height]
        here = torch.arange(block.shape[0], device=device)
        rough = torch.addmm(squares[None, :], block, rows.T, alpha=-2.0)
        rough[here, first + here] = float("inf")
        near = rough.topk(n_kept, dim=1, largest=False, sorted=False).indices.sort(dim=1).values
        exact = torch.empty(near.shape, dtype=torch.float32, device=device)
        for j in range(n_kept):  # one candidate of every point at a time, so that the differences take little memory
            exact[:, j] = (block - rows[near[:, j]]).square().sum(dim=1)
        order = exact.sort(dim=1, stable=True)
        indices[first : first + height] = near.gather(1, order.indices[:, :k])
        squared[first : first + height] = order.values[:, :k]
    return indices.cpu().numpy().astype(np.intp), squared.double().cpu().numpy()
