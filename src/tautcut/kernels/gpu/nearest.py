"""Nearest neighbours on the GPU. Few points are compared with all others, by matrix products; of many, each is compared
with those that share its leaf of a few random trees, and then with its neighbours' neighbours, until a sample says that
this finds nearly all there is to find. A neighbour is a whole number, its squared distance before its index, so that
lists in order are ranked by distance, ties by index; distances are of differences, which rounding cannot reorder.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from tautcut.arrays import Array, FloatArray, IndexArray
from tautcut.kernels import gpu

_BLOCK_BYTES = 2 << 30  # of distances or differences at a time: enough to fill a GPU, little of its memory
_SPARE = 8  # candidates beyond k that are measured again: products round, and may misplace the last few
_FEW_PAIRS = 2e10  # up to which all are compared: less than a second
_TREES = 4
_LEAF = 384  # points of a leaf, or fewer
_LONGER = 2  # times k neighbours are kept meanwhile: with k, neighbours' neighbours soon find nothing new
_ROUNDS = 6  # of looking at them, at most
_SAMPLED_POINTS = 500  # whose true neighbours are found too
_AIM_OF_RECALL = 0.99
_LEAST_RECALL = 0.97  # below it, all points are compared after all
_INDEX_BITS = 32
_NOBODY = torch.iinfo(torch.int64).max


class FoundOnGpu(NamedTuple):
    """The k nearest other points of each, nearest first, ties by their number; and their squared distances.

    `recall` is the share of true neighbours among them, 1 where all points were compared; else it was found on
    `n_sampled` of them.
    """

    indices: IndexArray
    squared: FloatArray
    recall: float = 1.0
    n_sampled: int = 0


def nearest_on_gpu(
    points: Array, k: int, *, is_exact: bool = False, device: str | None = None, seed: int = 0
) -> FoundOnGpu:
    """The k nearest other points of each point; all of them if it is to be exact, or where that takes no longer."""
    centred = np.asarray(points - points.mean(axis=0), dtype=np.float32)
    rows = torch.from_numpy(centred).to(device or gpu.DEVICE)
    n = rows.shape[0]
    everyone = torch.arange(n, device=rows.device)
    if not is_exact and float(n) * n > _FEW_PAIRS and _LONGER * k < _LEAF // 2:
        sample = everyone[:: max(1, n // _SAMPLED_POINTS)]
        truth = _of_all(rows, sample, k)
        lists, recall = _of_leaves(rows, _LONGER * k, seed), 0.0
        for _ in range(_ROUNDS):
            lists, before = _of_neighbors(rows, lists), recall
            recall = float((lists[sample, :k, None] == truth[:, None, :]).any(dim=2).float().mean())
            if recall >= _AIM_OF_RECALL or recall - before < 1 - _AIM_OF_RECALL:
                break
        if recall >= _LEAST_RECALL and not bool((lists[:, k - 1] == _NOBODY).any()):
            return _on_host(lists[:, :k], recall, sample.numel())
    return _on_host(_of_all(rows, everyone, k))


def _on_host(lists: torch.Tensor, recall: float = 1.0, n_sampled: int = 0) -> FoundOnGpu:
    indices = _indices(lists).cpu().numpy().astype(np.intp)
    squared = (lists >> _INDEX_BITS).int().view(torch.float32).double().cpu().numpy()
    return FoundOnGpu(indices, squared, recall, n_sampled)


def _of_all(rows: torch.Tensor, asked: torch.Tensor, k: int) -> torch.Tensor:
    """The nearest of all points to those asked."""
    n = rows.shape[0]
    squares = (rows * rows).sum(dim=1)
    n_kept = min(n - 1, k + _SPARE)
    found = []
    for here in asked.split(max(1, _BLOCK_BYTES // (4 * n))):
        rough = torch.addmm(squares[None, :], rows[here], rows.T, alpha=-2.0)
        rough[torch.arange(here.numel(), device=rows.device), here] = torch.inf
        near = rough.topk(n_kept, dim=1, largest=False, sorted=False).indices
        found.append(_measured(rows, here, near).sort(dim=1).values[:, :k])
    return torch.cat(found)


def _of_leaves(rows: torch.Tensor, k: int, seed: int) -> torch.Tensor:
    """The nearest of the points that share a leaf, of several trees that cut at random directions."""
    n, device = rows.shape[0], rows.device
    generator = torch.Generator(device=device).manual_seed(seed)
    lists = torch.empty((n, 0), dtype=torch.int64, device=device)
    for _ in range(_TREES):
        leaves = _leaves(rows, generator)
        near = torch.empty((n, k), dtype=torch.int64, device=device)
        width = leaves.shape[1]
        for some in leaves.split(max(1, _BLOCK_BYTES // (8 * width * width))):
            is_point = some < n
            inside = rows[some.clamp_max(n - 1)]
            squares = torch.where(is_point, (inside * inside).sum(dim=2), torch.inf)
            rough = torch.baddbmm(squares[:, None, :], inside, inside.transpose(1, 2), alpha=-2.0)
            rough.diagonal(dim1=1, dim2=2).fill_(torch.inf)
            place = rough.topk(k, dim=2, largest=False, sorted=False).indices
            near[some[is_point]] = some[:, None, :].expand(-1, width, -1).gather(2, place)[is_point]
        lists = _nearest_once(torch.cat([lists, _measured_in_blocks(rows, near)], dim=1), k)
    return lists


def _leaves(rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A tree's leaves, (leaf, point): halved along random directions until they are small; n stands for no point."""
    n, device = rows.shape[0], rows.device
    depth = max(0, int(np.ceil(np.log2(n / _LEAF))))
    width = -(-n // 2**depth)
    order = torch.full((width << depth,), n, dtype=torch.int64, device=device)
    order[:n] = torch.arange(n, device=device)
    for level in range(depth):
        part = order.view(2**level, -1)
        ends = torch.randint(0, part.shape[1], (2, 2**level), generator=generator, device=device)
        first, second = (rows[part.gather(1, one[:, None])[:, 0].clamp_max(n - 1)] for one in ends)
        direction = torch.nn.functional.normalize(first - second, dim=1)
        along = torch.zeros(part.shape, device=device)
        for column in range(rows.shape[1]):  # one at a time takes little memory
            along.addcmul_(rows[part.clamp_max(n - 1), column], direction[:, column, None])
        along = torch.where(part < n, along, torch.inf)
        order = part.gather(1, along.argsort(dim=1, stable=True)).reshape(-1)
    return order.view(2**depth, width)


def _of_neighbors(rows: torch.Tensor, lists: torch.Tensor) -> torch.Tensor:
    """The nearest of the neighbours so far and their neighbours."""
    n, k = lists.shape
    found = []
    for here in torch.arange(n, device=rows.device).split(max(1, _BLOCK_BYTES // (24 * k * k))):
        near = lists[here]
        theirs = _indices(lists[_indices(near).clamp_max(n - 1)]).flatten(1)
        found.append(_nearest_once(torch.cat([near, _measured(rows, here, theirs)], dim=1), k))
    return torch.cat(found)


def _nearest_once(lists: torch.Tensor, k: int) -> torch.Tensor:
    """The k nearest in each list, none twice."""
    lists = lists.sort(dim=1).values
    is_new = torch.ones_like(lists, dtype=torch.bool)
    is_new[:, 1:] = lists[:, 1:] != lists[:, :-1]
    place = is_new.cumsum(dim=1) - 1
    place = torch.where(is_new & (place < k), place, k)  # all others share the last place, which is dropped
    nearest = torch.full((len(lists), k + 1), _NOBODY, dtype=torch.int64, device=lists.device)
    return nearest.scatter_(1, place, lists)[:, :k]


def _measured_in_blocks(rows: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    everyone = torch.arange(len(near), device=rows.device)
    blocks = everyone.split(max(1, _BLOCK_BYTES // (4 * _SPARE * rows.shape[1])))
    return torch.cat([_measured(rows, here, near[here]) for here in blocks])


def _measured(rows: torch.Tensor, here: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """The points `near` (point, place) as neighbours of the points `here`; nobody where it is the point itself or n."""
    n, own = rows.shape[0], rows[here]
    squared = torch.empty(near.shape, dtype=torch.float32, device=rows.device)
    for j in range(0, near.shape[1], _SPARE):  # a few at a time, so that the differences take little memory
        some = near[:, j : j + _SPARE].clamp_max(n - 1)
        squared[:, j : j + _SPARE] = (own[:, None] - rows[some]).square().sum(dim=2)
    is_other = (near < n) & (near != here[:, None])
    return torch.where(is_other, (squared.view(torch.int32).long() << _INDEX_BITS) | near, _NOBODY)


def _indices(lists: torch.Tensor) -> torch.Tensor:
    """The indices of neighbours; of nobody, one that is larger than any."""
    return lists & (2**_INDEX_BITS - 1)
