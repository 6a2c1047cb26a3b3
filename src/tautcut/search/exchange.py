"""Vertices of a partition exchanged between clusters whose sizes stay: two clusters, or three in a ring, each give one
vertex, or two at once. A move alone would leave the kink of (P), or a cluster below its smallest size, and so is never
made. NumPy, for the few partitions that are worth it; draws nothing, and never looks at true labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import FloatArray, IntArray
from tautcut.problem import Partition, Problem
from tautcut.search.population import is_better, is_same

_ROUNDS = 20  # exchanges at most, each of which lowers (P)
_CHOICE = 6  # the best to give of each cluster to each other: as many are looked at,
_TRIED = 60  # and so many exchanges measured, the most promising first
_MOST_CLUSTERS = 32  # of which all pairs are looked at: the time grows with their square,
_MOST_IN_RINGS = 12  # and with the cube for rings of three


def exchanged(problem: Problem, partition: Partition, smallest: FloatArray) -> Partition:
    """The partition, or one of lower (P) that exchanges of vertices lead to; itself where clusters are many."""
    for _ in range(_ROUNDS if problem.n_clusters <= _MOST_CLUSTERS else 0):
        better = _exchanged_once(problem, partition, smallest)
        if better is None:
            break
        partition = better
    return partition


def _exchanged_once(problem: Problem, partition: Partition, smallest: FloatArray) -> Partition | None:
    with np.errstate(all="ignore"):  # masses or weights next to nothing promise what is measured below
        proposed = sorted(_proposals(problem, partition), key=lambda one: one[0])
    for _, moves in proposed[:_TRIED]:
        labels = partition.labels.copy()
        for members, where in moves:
            labels[members] = where
        found = problem.partition(labels)
        if is_better(found, partition, smallest) and not is_same(found, partition):
            return found
    return None


def _proposals(problem: Problem, partition: Partition) -> Iterator[tuple[float, list[tuple[IntArray, int]]]]:
    """Exchanges that might lower (P), and by how much at most: what an edge between two of them adds is left out."""
    R = problem.n_clusters
    gifts = _gifts(problem, partition)
    rings: list[tuple[int, ...]] = list(combinations(range(R), 2))
    if R <= _MOST_IN_RINGS:
        rings += [ring for ring in permutations(range(R), 3) if ring[0] == min(ring)]
    worth = -1e-12 * partition.energy
    for ring in rings:
        arcs = list(zip(ring, ring[1:] + ring[:1], strict=True))
        for given in gifts:
            changes = [given[arc][0] for arc in arcs if arc in given]
            if len(changes) < len(arcs):
                continue
            total = changes[0]
            for more in changes[1:]:
                total = np.add.outer(total, more)
            for places in np.argwhere(total < worth):
                moves = [(given[arc][1][place], arc[1]) for arc, place in zip(arcs, places, strict=True)]
                yield float(total[tuple(places)]), moves


Gifts = dict[tuple[int, int], tuple[FloatArray, IntArray]]


def _gifts(problem: Problem, partition: Partition) -> tuple[Gifts, Gifts]:
    """What each cluster best gives to each other, by (giver, taker): changes of (P) at these sizes, and the vertices.

    First of single vertices, shape (choices, 1), then of two, shape (choices, 2).
    """
    graph, labels, R = problem.graph, partition.labels, problem.n_clusters
    W = sp.csr_matrix((graph.weights, graph.indices, graph.indptr), shape=(labels.size, labels.size))
    towards = np.asarray(W @ np.eye(R)[labels])
    degrees = towards.sum(axis=1)
    unit = 1.0 / np.minimum(problem.lam * partition.masses, problem.total_mass - partition.masses)
    own = towards[np.arange(labels.size), labels]
    change = (unit[labels] * (2 * own - degrees))[:, None] + unit * (degrees[:, None] - 2 * towards)
    first, second = (W.indices, np.repeat(np.arange(labels.size), np.diff(W.indptr)))
    is_inside = (labels[first] == labels[second]) & (first < second)
    first, second, weights = first[is_inside], second[is_inside], W.data[is_inside]
    singles, pairs = Gifts(), Gifts()
    for a in range(R):
        members = np.flatnonzero(labels == a)
        of_a = labels[first] == a
        edges, joined = np.stack([first[of_a], second[of_a]], axis=1), weights[of_a]
        for b in range(R):
            if a == b:
                continue
            one = members[np.argsort(change[members, b], kind="stable")[:_CHOICE]]
            singles[a, b] = change[one, b], one[:, None]
            two = np.array(list(combinations(one, 2)), dtype=np.int64).reshape(-1, 2)
            both = np.concatenate([edges, two])
            # Two that are joined take their edge along; listed apart as well, they only look dearer than they are.
            sums = change[both, b].sum(axis=1)
            sums[: len(edges)] -= 2 * joined * (unit[a] + unit[b])
            best = np.argsort(sums, kind="stable")[:_CHOICE]
            if best.size:
                pairs[a, b] = sums[best], both[best]
    return singles, pairs
