"""Hard partitions on the GPU, many at a time: what they cost, greedy moves, and clusters merged and split. A partition
is a row of labels, in the order of the layout's rows. What `tautcut.kernels.cpu.moves` is to the processor, but
vertices move together, and only as many as lower (P) together. What to search for is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from tautcut.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

_MAX_ROUNDS = 40  # of moves made together: a bound, for partitions that go back and forth within rounding
_FEWER = 4  # by which a set of moves is divided when (P) has not fallen
_LOWER = 1 - 1e-9  # (P) has fallen if it is below this share of itself: sums in float32 round
_SMOOTHINGS = 60  # steps of the random walk that make noise a smooth function on a cluster
_TOO_SMALL = 1e12  # added to (P) where a cluster is smaller than it may be: more than any (P) in the scaled weights
_TINY = 1e-30  # keeps a quotient that is 0 / 0 at zero: a vertex without edges in its cluster


class GpuMoves:
    """Moves on one problem; no cluster shrinks below `smallest`."""

    def __init__(self, kernels: GpuKernels, smallest: FloatArray) -> None:
        self._kernels = kernels
        problem = kernels.problem
        self._n, self._R = problem.n_vertices, problem.n_clusters
        self._degrees = kernels.in_rows((problem.graph.degrees / kernels.weight_unit)[:, None])[:, 0]
        self._is_free = kernels.tensors["fixed"] < 0
        self._lam = torch.from_numpy(problem.lam).to(kernels.device)
        self._smallest = torch.from_numpy(np.asarray(smallest, dtype=np.float64)).to(kernels.device)
        self._half = torch.from_numpy(np.random.default_rng(0).integers(0, 2, self._n)).to(kernels.device)
        self._columns = torch.arange(self._R, device=kernels.device)

    def labels_of(self, labels: IntArray) -> torch.Tensor:
        """A partition of the host's, (1, row)."""
        return self._kernels.in_rows(labels[:, None])[:, 0].long()[None]

    def soften(self, labels: torch.Tensor, softness: float) -> torch.Tensor:
        """Starts for Algorithm 1: (1 − s) e_r + s/R."""
        return (1 - softness) * self._indicator(labels) + softness / self._R

    def mix(self, first: torch.Tensor, second: torch.Tensor, softness: float) -> torch.Tensor:
        """A start half way between two partitions, whose clusters are paired so that they share most vertices."""
        shared = self._indicator(first[None])[0].T @ self._indicator(second[None])[0]
        rows, columns = linear_sum_assignment(-shared.cpu().numpy())
        names = torch.from_numpy(rows[np.argsort(columns)]).to(second.device)
        return self.soften(torch.stack([first, names[second]]), softness).mean(dim=0)

    def energies(self, labels: torch.Tensor) -> FloatArray:
        """(P) in the scaled weights; far above any other where a cluster is smaller than it may be."""
        cut, sizes, _ = self._costs(labels)
        is_small = (sizes < self._smallest).any(dim=1)
        energies: FloatArray = (self._terms(cut, sizes).sum(dim=1) + _TOO_SMALL * is_small).cpu().numpy()
        return energies

    def clusters(self, labels: torch.Tensor) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cut and size of each cluster of one partition, and the weight between each two of them."""
        cut, sizes, towards = self._costs(labels[None])
        between = self._indicator(labels[None])[0].T @ towards[0]
        between.fill_diagonal_(0.0)
        return cut[0].cpu().numpy(), sizes[0].cpu().numpy(), between.double().cpu().numpy()

    def descend(self, labels: torch.Tensor) -> torch.Tensor:
        """Move vertices while that lowers (P); fixed ones stay.

        The moves that would lower it alone are made together, the best first, as many as lower it together; a random
        half of the vertices at a time, because two neighbours that change places gain nothing.
        """
        found = labels.long().clone()
        going = torch.arange(len(found), device=found.device)  # the partitions that still change
        idle = torch.zeros_like(going)  # rounds in which they have not
        best, costs = found, self._costs(found)
        for number in range(_MAX_ROUNDS):
            gain, target = self._best_moves(best, *costs)
            gain = torch.where(self._half == number % 2, gain, 0.0)
            best, costs, has_moved = self._move_together(best, costs, gain, target)
            idle = torch.where(has_moved, 0, idle + 1)
            is_done = idle > 1  # neither half has a move
            found[going[is_done]] = best[is_done]
            going, idle, best = going[~is_done], idle[~is_done], best[~is_done]
            if not len(going):
                return found
            costs = tuple(cost[~is_done] for cost in costs)
        found[going] = best
        return found

    def _move_together(
        self, labels: torch.Tensor, costs: tuple[torch.Tensor, ...], gain: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...], torch.Tensor]:
        """The best moves of each partition, fewer and fewer until (P) falls; and whether any did."""
        energy = self._terms(*costs[:2]).sum(dim=1)
        place, count = _places(gain), (gain > 0).sum(dim=1)
        has_moved = torch.zeros_like(count, dtype=torch.bool)
        while bool((count > 0).any()):
            trial = torch.where(place < count[:, None], target, labels)
            trial_costs = self._costs(trial)
            is_large = (trial_costs[1] >= torch.minimum(self._smallest, costs[1])).all(dim=1)
            is_lower = self._terms(*trial_costs[:2]).sum(dim=1) < energy * _LOWER
            wins = (count > 0) & is_large & is_lower
            labels = torch.where(wins[:, None], trial, labels)
            costs = tuple(
                torch.where(wins.view(-1, *[1] * (new.dim() - 1)), new, old)
                for new, old in zip(trial_costs, costs, strict=True)
            )
            has_moved |= wins
            count = torch.where(wins | (count == 1), 0, (count // _FEWER).clamp_min(1) * (count > 0))
        return labels, costs, has_moved

    def merge_and_split(
        self, labels: torch.Tensor, plans: list[tuple[int, int, int]], shares: FloatArray, seed: int
    ) -> torch.Tensor:
        """Each partition changed by its plan (a, b, c): b joins a; then a share of c, along its edges, becomes b."""
        a, b, c = torch.tensor(plans, device=labels.device).T[:, :, None]
        labels = torch.where(labels == b, a, labels.long())
        members = labels == c
        inside = members.T[None].float()  # one column for each partition
        generator = torch.Generator(device=labels.device).manual_seed(seed)
        x = torch.randn(inside.shape, generator=generator, device=labels.device) * inside
        degrees = self._towards(inside)
        weights = inside * degrees
        total = weights.sum(dim=1, keepdim=True).clamp_min(_TINY)
        for _ in range(_SMOOTHINGS):
            x = 0.5 * (x + inside * self._towards(x) / degrees.clamp_min(_TINY))
            x = inside * (x - (weights * x).sum(dim=1, keepdim=True) / total)
            x = x / x.abs().amax(dim=1, keepdim=True).clamp_min(_TINY)
        n_members = members.sum(dim=1)
        wanted = (torch.from_numpy(shares).to(labels.device) * n_members).long().clamp_min(1)
        wanted = torch.minimum(wanted, n_members - 1)
        is_split = members & (_places(torch.where(members, x[0].T, -torch.inf)) < wanted[:, None])
        return torch.where(is_split, b, labels)

    def _indicator(self, labels: torch.Tensor) -> torch.Tensor:
        return (labels[:, :, None] == self._columns).float()

    def _towards(self, X: torch.Tensor) -> torch.Tensor:
        """W X, (start, row, column)."""
        product = self._kernels.minus_laplacian(X, self._kernels.tensors["weights"])
        return product.addcmul_(self._degrees[None, :, None], X)

    def _costs(self, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cut and size of each cluster, and the weight from each row towards each cluster."""
        Y = self._indicator(labels)
        # −L Y is, in the column of a row's own cluster, the weight of its edges that leave: added up, nothing cancels.
        product = self._kernels.minus_laplacian(Y, self._kernels.tensors["weights"])
        cut = -(Y * product).sum(dim=1, dtype=torch.float64)
        return cut, Y.sum(dim=1, dtype=torch.float64), product.addcmul_(self._degrees[None, :, None], Y)

    def _room(self, sizes: torch.Tensor) -> torch.Tensor:
        return torch.minimum(self._lam * sizes, self._n - sizes)

    def _terms(self, cut: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        room = self._room(sizes)
        return torch.where(room > 0, cut / room, torch.inf)

    def _best_moves(
        self, labels: torch.Tensor, cut: torch.Tensor, sizes: torch.Tensor, towards: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """By how much (P) falls if a row alone goes to its best other cluster, and that cluster.

        The term of a cluster whose size changes by one falls by `level` − `slope` × (the change of its cut).
        """

        def change(by: float) -> tuple[torch.Tensor, torch.Tensor]:
            after = self._room(sizes + by).clamp_min(1e-9)  # an empty cluster costs more than any other, and is finite
            return (self._terms(cut, sizes) - cut / after).float(), (1.0 / after).float()

        crossing = self._degrees[None, :, None] - 2 * towards  # how the cut changes when the row joins
        level, slope = change(1.0)
        joining = level[:, None, :] - crossing * slope[:, None, :]
        gain, target = joining.scatter(2, labels[:, :, None], -torch.inf).max(dim=2)
        level, slope = change(-1.0)
        own = crossing.gather(2, labels[:, :, None])[:, :, 0]
        gain = gain + level.gather(1, labels) + own * slope.gather(1, labels)
        may_leave = (sizes - 1 >= self._smallest).gather(1, labels) & self._is_free
        return torch.where(may_leave, gain, 0.0), target


def _places(values: torch.Tensor) -> torch.Tensor:
    """Where each value stands among those of its row, the largest first, equal ones in their order."""
    order = values.argsort(dim=1, descending=True, stable=True)
    number = torch.arange(values.shape[1], device=values.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, number.contiguous())
