"""The search of a graph in pieces: where whole pieces make up clusters that are large enough, no edge is cut, and no
partition costs less. Nothing here looks at true labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.arrays import FloatArray, IntArray
from tautcut.problem import Partition, Problem
from tautcut.search.plan import Task
from tautcut.search.population import Found, Population


class PiecesSearcher:
    """The searcher that has its answer before it begins; Algorithm 1 then runs from it as `solve` does."""

    capacity: int | None = None
    is_exact = True
    n_starts = 1
    n_children = 0

    def __init__(self, task: Task, labels: IntArray, solve: Callable[..., Result]) -> None:
        self._partition = task.problem.partition(labels)
        self.n_polishes = task.effort.polishes
        self.solve = solve

    def starts(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """The packed pieces."""
        yield Found(self._partition)

    def children(self, population: Population, *, rng: np.random.Generator) -> Iterator[Found]:
        """None: nothing costs less than nothing."""
        return iter(())

    def refine(self, partition: Partition, *, rng: np.random.Generator) -> Partition:
        """The partition as it is."""
        return partition


def packed_pieces(problem: Problem, smallest: FloatArray) -> IntArray | None:
    """Whole pieces packed into clusters, the heaviest first, each where most room is left; None if one stays too small.

    Of pieces of one mass, and of clusters with one room, the first is taken: a graph that is written down twice is
    divided into its copies.
    """
    n_pieces, piece = problem.graph.components()
    if n_pieces < problem.n_clusters:
        return None
    masses = np.bincount(piece, weights=problem.graph.masses, minlength=n_pieces)
    room = problem.shares * problem.total_mass
    packed = np.zeros_like(room)
    cluster_of = np.empty(n_pieces, dtype=np.int64)
    for one in np.argsort(-masses, kind="stable"):
        taken = int(room.argmax())
        cluster_of[one] = taken
        room[taken] -= masses[one]
        packed[taken] += masses[one]
    has_all = np.bincount(cluster_of, minlength=packed.size).all()
    return cluster_of[piece] if has_all and (packed >= smallest).all() else None
