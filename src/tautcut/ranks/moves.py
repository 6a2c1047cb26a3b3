"""Greedy moves over all ranks: each rank moves its interior vertices, which have no edge to another part, all at once;
the vertices on the boundary move in turns, of parts that share no edge. Cuts then change by the sum of what each rank
changes, and a rank's moves are kept if they lower (P) beside those kept before: all ranks decide that alike.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.cpu.moves import descend_part
from tautcut.problem import Partition, balanced_terms
from tautcut.ranks.problem import DividedProblem

_MOST_ROUNDS = 12
_LEAST_GAIN = 1e-9  # of (P): what a round gains less is rounding


class Moves:
    """Moves of single vertices on a divided problem."""

    def __init__(self, problem: DividedProblem, smallest: FloatArray) -> None:
        self._problem, self._smallest = problem, smallest
        self._turns = _turns(problem)

    def descend(self, partition: Partition) -> Partition:
        """Move vertices while that lowers (P); never higher, and no cluster below its smallest mass."""
        shard = self._problem.shard
        is_boundary = np.arange(shard.n_own) < shard.n_boundary
        for _ in range(_MOST_ROUNDS):
            before = partition.energy
            partition = self._moved(partition, ~is_boundary)
            for turn in range(int(self._turns.max()) + 1):
                is_on = bool(self._turns[shard.number] == turn)
                partition = self._moved(partition, is_boundary & is_on)
            if partition.energy > before * (1 - _LEAST_GAIN):
                break
        return partition

    def _moved(self, partition: Partition, is_movable: BoolArray) -> Partition:
        """The partition after moves of these vertices, as far as (P) falls."""
        problem = self._problem
        labels = problem.halo.extended(partition.labels)
        cut, masses = problem.halo.world.total(problem.own_cuts(labels)), partition.masses
        level = self._level(is_movable)
        moved, new_cut, new_masses = descend_part(level, labels, cut, masses, problem.lam, self._smallest)
        changes = problem.halo.world.gather(np.stack([new_cut - cut, new_masses - masses]))
        is_kept = self._kept(cut, masses, changes)
        if not is_kept.any():
            return partition
        own = moved[: problem.shard.n_own] if is_kept[problem.halo.world.rank] else partition.labels
        after = problem.partition(own)
        return after if after.energy < partition.energy else partition

    def _kept(self, cut: FloatArray, masses: FloatArray, changes: FloatArray) -> BoolArray:
        """Which ranks' moves lower (P), one after the other in their order."""
        is_kept = np.zeros(len(changes), dtype=np.bool_)
        energy = float(balanced_terms(cut, masses, self._problem.lam).sum())
        for rank, (of_cut, of_masses) in enumerate(changes):
            tried = cut + of_cut, masses + of_masses
            is_small = (tried[1] < np.minimum(self._smallest, masses)).any()
            new = float(balanced_terms(*tried, self._problem.lam).sum())
            if new < energy and not is_small:
                is_kept[rank], energy, (cut, masses) = True, new, tried
        return is_kept

    @cached_property
    def _padded(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The rows of the part, its degrees and masses, with ghosts that have no edges of their own."""
        shard = self._problem.shard
        n_ghosts = shard.ghosts.size
        indptr = np.concatenate([shard.indptr, np.full(n_ghosts, shard.indptr[-1])])
        rows = np.repeat(np.arange(shard.n_own), np.diff(shard.indptr))
        degrees = np.bincount(rows, shard.weights, shard.n_local).astype(np.float64)
        return indptr, degrees, np.concatenate([shard.masses, np.zeros(n_ghosts)])

    def _level(self, is_movable: BoolArray) -> Level:
        shard, (indptr, degrees, masses) = self._problem.shard, self._padded
        is_fixed = np.ones(shard.n_local, dtype=np.bool_)
        is_fixed[: shard.n_own] = ~is_movable | self._problem.is_labelled
        weights = np.asarray(shard.weights)
        arrays = (indptr, np.asarray(shard.indices), weights, weights, degrees, masses, is_fixed)
        for array in arrays:
            array.setflags(write=False)
        return Level(*arrays)


def _turns(problem: DividedProblem) -> IntArray:
    """The turn of each part, such that no two that share an edge have the same: first come, first served."""
    world, shard = problem.halo.world, problem.shard
    are_neighbors = np.zeros(world.size)
    are_neighbors[shard.neighbors] = 1.0
    shares_edge = world.gather(are_neighbors) > 0
    turns = np.zeros(world.size, dtype=np.int64)
    for part in range(world.size):
        taken = set(turns[:part][shares_edge[part, :part]].tolist())
        turns[part] = next(turn for turn in range(world.size) if turn not in taken)
    return turns
