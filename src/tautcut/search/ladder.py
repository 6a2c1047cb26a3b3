"""Ladders of levels: each is a coarsening of the one before. `Levels` holds those of one problem that a whole search
shares, whatever bounds it sets on clusters. Nothing here looks at true labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tautcut.arrays import IntArray
from tautcut.kernels.cpu.coarsening import Level, contract_matching, finest_level
from tautcut.problem import Problem

_COARSEST = 60  # vertices per cluster at which coarsening stops
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_MAX_LEVELS = 30
_SHARED_WORK = 500_000  # directed edges beyond which all starts and combinations share the finest coarsenings,
_SHARED_COARSEST = 1000  # down to so many vertices per cluster (decision 0054)


@dataclass(frozen=True, eq=False)
class Ladder:
    """Levels of which each is a coarsening of the one before: each with the places of its vertices in the next."""

    steps: tuple[tuple[Level, IntArray], ...]
    lowest: Level

    def inherited(self, values: IntArray) -> IntArray:
        """The value of each vertex of the lowest level: that of one of its vertices."""
        for _, parent in self.steps:
            values = _inherit(values, parent)
        return values

    def raised(self, values: IntArray) -> IntArray:
        """The value of each vertex of the highest level: that of the lowest one's that it became part of."""
        for _, parent in reversed(self.steps):
            values = values[parent]
        return values


def _inherit(values: IntArray, parent: IntArray) -> IntArray:
    """The value of each coarse vertex: that of its last vertex."""
    coarse_values = np.empty(int(parent.max()) + 1, dtype=np.int64)
    coarse_values[parent] = values
    return coarse_values


class Levels:
    """The levels of one problem, each made when it is first asked for."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._heaviest = max(2.0, _HEAVIEST_SHARE * problem.total_mass / problem.n_clusters)

    @cached_property
    def finest(self) -> Level:
        """The graph itself."""
        return finest_level(self.problem.graph, self.problem.is_labelled)

    @property
    def are_several(self) -> bool:
        """Whether the graph is coarsened at all."""
        return self.problem.n_vertices > _COARSEST * self.problem.n_clusters

    @cached_property
    def whole(self) -> Ladder:
        """The finest level alone."""
        return Ladder((), self.finest)

    @cached_property
    def shared(self) -> Ladder:
        """The finest coarsenings, made once: starts and combinations begin below them (decision 0054).

        Of a graph that is not large, or has labels, which a coarsening must heed, it is the finest level alone.
        """
        if self.problem.has_labels or self.finest.indices.size <= _SHARED_WORK:
            return self.whole
        return self._freely_coarsened(self.finest, per_cluster=_SHARED_COARSEST)

    @cached_property
    def coarsest(self) -> Level:
        """One coarsening as far as they go."""
        return self._freely_coarsened(self.shared.lowest, per_cluster=_COARSEST).lowest

    def _freely_coarsened(self, level: Level, *, per_cluster: int) -> Ladder:
        """The same each time: it belongs to the graph, not to a seed."""
        nowhere = np.zeros(level.n_vertices, dtype=np.int64)
        return self.coarsened(level, nowhere, np.random.default_rng(0), per_cluster=per_cluster)

    def coarsened(
        self, level: Level, groups: IntArray, rng: np.random.Generator, *, per_cluster: int = _COARSEST
    ) -> Ladder:
        """Coarsenings of the level inside `groups`, down to so many vertices per cluster."""
        steps: list[tuple[Level, IntArray]] = []
        for _ in range(_MAX_LEVELS):
            if level.n_vertices <= per_cluster * self.problem.n_clusters:
                break
            coarse, parent = contract_matching(level, groups, heaviest=self._heaviest, rng=rng)
            if coarse.n_vertices > 0.95 * level.n_vertices:
                break
            groups = _inherit(groups, parent)
            steps.append((level, parent))
            level = coarse
        return Ladder(tuple(steps), level)
