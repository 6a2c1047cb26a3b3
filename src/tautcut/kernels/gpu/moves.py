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
_TOO_SMALL = 1e12  # added to (P) where a cluster is smaller than it may be: more than any (P) in the engine's units
_TINY = 1e-30  # keeps a quotient that is 0 / 0 at zero: a vertex without edges in its cluster
_LESS = 1 - 1e-9  # of a bound on masses, and half a grain: rounding must not forbid a cluster of just that mass
_EMPTY = 1e-9  # the denominator of an empty cluster's term: it costs more than any other, and is finite


class GpuMoves:
    """Moves on one problem; no cluster shrinks below `smallest`, a mass in the problem's unit. Other masses are in the
    engine's, and their sums exact (`layout.exactly_summed`), in whatever order a GPU adds them up.
    """

    def __init__(self, kernels: GpuKernels, smallest: FloatArray) -> None:
        self._kernels = kernels
        problem = kernels.problem
        self._n, self._R = problem.n_vertices, problem.n_clusters
        self._masses = kernels.tensors["masses"] if kernels.has_masses else None
        self._degrees = kernels.degrees
        self._is_free = kernels.tensors["fixed"] < 0
        self._lam = torch.from_numpy(problem.lam).to(kernels.device)
        least = np.asarray(smallest, dtype=np.float64) / kernels.mass_unit * _LESS - kernels.grain / 2
        self._smallest = torch.from_numpy(least).to(kernels.device)
        self._half = torch.from_numpy(np.random.default_rng(0).integers(0, 2, self._n)).to(kernels.device)
        self._columns = torch.arange(self._R, device=kernels.device)

    def labels_of(self, labels: IntArray) -> torch.Tensor:
        """A partition of the host's, (1, row)."""
        return self._kernels.in_rows(labels[:, None])[:, 0].long()[None]

    def soften(self, labels: torch.Tensor, softness: float) -> torch.Tensor:
        """Starts for Algorithm 1: (1 − s) e_r + s/R."""
        return (1 - softness) * self._indicator(labels) + softness / self._R

    def mix(self, first: torch.Tensor, second: torch.Tensor, softness: float) -> torch.Tensor:
        """A start half way between two partitions, whose clusters are paired so that they share most mass."""
        of_second = self._indicator(second[None])[0]
        if self._masses is not None:
            of_second *= self._masses[:, None].float()
        shared = self._indicator(first[None])[0].T @ of_second
        rows, columns = linear_sum_assignment(-shared.cpu().numpy())
        names = torch.from_numpy(rows[np.argsort(columns)]).to(second.device)
        return self.soften(torch.stack([first, names[second]]), softness).mean(dim=0)

    def energies(self, labels: torch.Tensor) -> FloatArray:
        """(P) in the engine's units; far above any other where a cluster is smaller than it may be."""
        cut, masses, _ = self._costs(labels)
        is_small = (masses < self._smallest).any(dim=1)
        energies: FloatArray = (self._terms(cut, masses).sum(dim=1) + _TOO_SMALL * is_small).cpu().numpy()
        return energies

    def clusters(self, labels: torch.Tensor) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cut and mass of each cluster of one partition, and the weight between each two of them."""
        cut, masses, towards = self._costs(labels[None])
        between = self._indicator(labels[None])[0].T @ towards[0]
        between.fill_diagonal_(0.0)
        return cut[0].cpu().numpy(), masses[0].cpu().numpy(), between.double().cpu().numpy()

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
        n_members, share = members.sum(dim=1), torch.from_numpy(shares).to(labels.device)
        places = _places(torch.where(members, x[0].T, -torch.inf))
        if self._masses is None:
            wanted = (share * n_members).long().clamp_min(1)
        else:  # as many as have no more than that share of the mass
            mass = members * self._masses
            up_to = torch.empty_like(mass).scatter_(1, places, mass).cumsum(dim=1)
            wanted = (up_to <= (share * mass.sum(dim=1))[:, None]).sum(dim=1).clamp_min(1)
        wanted = torch.minimum(wanted, n_members - 1)
        return torch.where(members & (places < wanted[:, None]), b, labels)

    def _indicator(self, labels: torch.Tensor) -> torch.Tensor:
        return (labels[:, :, None] == self._columns).float()

    def _towards(self, X: torch.Tensor) -> torch.Tensor:
        """W X, (start, row, column)."""
        product = self._kernels.minus_laplacian(X, self._kernels.tensors["weights"])
        return product.addcmul_(self._degrees[None, :, None], X)

    def _costs(self, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cut and mass of each cluster, and the weight from each row towards each cluster."""
        Y = self._indicator(labels)
        # −L Y is, in the column of a row's own cluster, the weight of its edges that leave: added up, nothing cancels.
        product = self._kernels.minus_laplacian(Y, self._kernels.tensors["weights"])
        cut = -(Y * product).sum(dim=1, dtype=torch.float64)
        return cut, self._masses_of(labels, Y), product.addcmul_(self._degrees[None, :, None], Y)

    def _masses_of(self, labels: torch.Tensor, indicator: torch.Tensor) -> torch.Tensor:
        if self._masses is None:
            return indicator.sum(dim=1, dtype=torch.float64)
        masses = torch.zeros(len(labels), self._R, dtype=torch.float64, device=labels.device)
        return masses.scatter_add_(1, labels.long(), self._masses.expand(labels.shape))

    def _room(self, masses: torch.Tensor) -> torch.Tensor:
        return torch.minimum(self._lam * masses, self._kernels.total_mass - masses)

    def _terms(self, cut: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
        room = self._room(masses)
        return torch.where(room > 0, cut / room, torch.inf)

    def _best_moves(
        self, labels: torch.Tensor, cut: torch.Tensor, masses: torch.Tensor, towards: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """By how much (P) falls if a row alone goes to its best other cluster, and that cluster.

        The term of a cluster whose mass changes falls by `level` − `slope` × (the change of its cut).
        """
        crossing = self._degrees[None, :, None] - 2 * towards  # how the cut changes when the row joins
        level, slope = self._joined(cut, masses)
        gain, target = (level - crossing * slope).scatter(2, labels[:, :, None], -torch.inf).max(dim=2)
        level, slope, may_leave = self._left(labels, cut, masses)
        own = crossing.gather(2, labels[:, :, None])[:, :, 0]
        gain = gain + level + own * slope
        return torch.where(may_leave & self._is_free, gain, 0.0), target

    def _joined(self, cut: torch.Tensor, masses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`level` and `slope` of each cluster when a row joins it: (start, row, cluster), one row if all are alike."""
        if self._masses is None:
            after = self._room(masses + 1.0).clamp_min(_EMPTY)
            return (self._terms(cut, masses) - cut / after).float()[:, None], (1.0 / after).float()[:, None]
        # In float32, because there is one for each row. So what the row adds to the room is found without subtracting
        # large numbers: of λ m(A) and m(Aᶜ), one is the room now, and the other exceeds it by so much.
        room = self._room(masses)
        excess = (self._lam * masses - room).float()[:, None]
        excess_outside = (self._kernels.total_mass - masses - room).float()[:, None]
        mass = self._masses[:, None].float()
        added = torch.minimum(excess + self._lam.float() * mass, excess_outside - mass)
        slope = 1.0 / (room.float()[:, None] + added).clamp_min(_EMPTY)
        level = torch.where((room > 0)[:, None], (cut / room).float()[:, None] * added * slope, torch.inf)
        return level, slope

    def _left(
        self, labels: torch.Tensor, cut: torch.Tensor, masses: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`level` and `slope` of each row's own cluster when it leaves, and whether it may: (start, row)."""
        terms = self._terms(cut, masses)
        if self._masses is None:
            after = self._room(masses - 1.0).clamp_min(_EMPTY)
            level, slope = (terms - cut / after).float(), (1.0 / after).float()
            is_large = masses - 1.0 >= self._smallest
            return level.gather(1, labels), slope.gather(1, labels), is_large.gather(1, labels)
        left = masses.gather(1, labels) - self._masses
        after = torch.minimum(self._lam[labels] * left, self._kernels.total_mass - left).clamp_min(_EMPTY)
        level = terms.gather(1, labels) - cut.gather(1, labels) / after
        return level.float(), (1.0 / after).float(), left >= self._smallest[labels]


def _places(values: torch.Tensor) -> torch.Tensor:
    """Where each value stands among those of its row, the largest first, equal ones in their order."""
    order = values.argsort(dim=1, descending=True, stable=True)
    number = torch.arange(values.shape[1], device=values.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, number.contiguous())
