"""The search around the solver: greedy single-vertex moves after every run, and merge–split evolution, which merges
two clusters, splits another and keeps what is lower. Every step is accepted only if (P) falls, and no cluster
shrinks below a size that the caller sets. It never looks at true labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.kernels.moves import greedy_moves
from tautcut.problem import FloatArray, IntArray, Partition, Problem
from tautcut.starts import multilevel_partition

SMALLEST_SHARE = 0.25  # of a cluster's expected size: the default of min_cluster_size


@dataclass(frozen=True)
class Effort:
    """How long to search: merge–split children per generation, and generations."""

    children: int
    generations: int


EFFORTS = {"none": Effort(0, 0), "short": Effort(20, 2), "thorough": Effort(60, 12)}


def smallest_sizes(problem: Problem, min_cluster_size: int | None) -> IntArray:
    """The fewest vertices each cluster may keep: the caller's number, or a quarter of the expected size."""
    if min_cluster_size is not None:
        is_whole = isinstance(min_cluster_size, int | np.integer) and not isinstance(min_cluster_size, bool)
        if not is_whole or min_cluster_size < 1:
            raise InputError(f"min_cluster_size must be a whole number ≥ 1; found {min_cluster_size!r}.")
        if min_cluster_size * problem.n_clusters > problem.n_vertices:
            raise InputError(
                f"min_cluster_size={min_cluster_size} asks for more than the {problem.n_vertices} vertices "
                f"there are for {problem.n_clusters} clusters. Lower it."
            )
        return np.full(problem.n_clusters, int(min_cluster_size))
    expected = problem.n_vertices / (1.0 + np.asarray(problem.lam))
    return np.maximum(np.floor(SMALLEST_SHARE * expected), 1).astype(np.int64)


def refine(problem: Problem, partition: Partition, smallest: IntArray) -> Partition:
    """The partition after greedy moves; never higher in (P)."""
    refined = problem.partition(greedy_moves(problem, partition.labels, smallest=smallest))
    return refined if refined.energy < partition.energy else partition


def is_better(challenger: Partition, champion: Partition, smallest: IntArray) -> bool:
    """Lower (P) wins; but a partition whose clusters are all large enough beats one that has too small a cluster."""
    fits, fitted = (bool((p.sizes >= smallest).all()) for p in (challenger, champion))
    return challenger.energy < champion.energy if fits == fitted else fits


def evolve(
    problem: Problem,
    champion: Partition,
    *,
    children: int,
    smallest: IntArray,
    rng: np.random.Generator,
    should_stop: Callable[[], bool] = lambda: False,
) -> Partition:
    """Merge–split evolution: each child merges two clusters of the champion, splits one, and is refined greedily.

    A child replaces the champion if its (P) is lower and no cluster is below `smallest`.
    """
    if problem.n_clusters < 3 or problem.is_labelled.any():
        return champion
    for _ in range(children):
        if should_stop():
            break
        child = merge_and_split(problem, champion, rng=rng)
        if child is None:
            continue
        candidate = problem.partition(greedy_moves(problem, child, smallest=smallest))
        if is_better(candidate, champion, smallest):
            champion = candidate
    return champion


def merge_and_split(problem: Problem, partition: Partition, *, rng: np.random.Generator) -> IntArray | None:
    """Merge a pair of clusters, cheap pairs first, and split a large cluster in two; None if it cannot be split."""
    a, b = _pair_to_merge(problem, partition, rng)
    labels = np.where(partition.labels == b, a, partition.labels)
    sizes = np.bincount(labels, minlength=problem.n_clusters).astype(np.float64)
    large = rng.choice(problem.n_clusters, p=sizes**2 / (sizes**2).sum())
    members = np.flatnonzero(labels == large)
    if members.size < 4:
        return None
    halves = multilevel_partition(
        Problem(induced_subgraph(problem.graph, members), 2), imbalance=rng.choice([0.03, 0.3, 0.8]), rng=rng
    )
    labels[members[halves == 1]] = b
    return labels


def _pair_to_merge(problem: Problem, partition: Partition, rng: np.random.Generator) -> tuple[int, int]:
    """A pair of clusters, the cheapest union most often (geometrically by rank)."""
    R, sizes = problem.n_clusters, partition.sizes
    between = weights_between(problem.graph, partition.labels, R)
    cut = between.sum(axis=1)
    pairs = [(a, b) for a in range(R) for b in range(a + 1, R)]
    first, second = np.array(pairs).T
    joint_cut = cut[first] + cut[second] - 2 * between[first, second]
    joint_size = sizes[first] + sizes[second]
    lam = np.minimum(np.asarray(problem.lam)[first], np.asarray(problem.lam)[second])
    union = joint_cut / np.minimum(lam * joint_size, problem.n_vertices - joint_size).clip(1e-300)
    cost = union - partition.terms[first] - partition.terms[second]
    rank = min(int(rng.geometric(0.3)) - 1, len(pairs) - 1)
    return pairs[int(np.argsort(cost, kind="stable")[rank])]


def weights_between(graph: Graph, labels: IntArray, n_clusters: int) -> FloatArray:
    """The weight of the edges between each two clusters, zero on the diagonal, shape (R, R)."""
    owner = np.repeat(labels, np.diff(graph.indptr))
    pair = owner * n_clusters + labels[graph.indices]
    between = np.bincount(pair, graph.weights, n_clusters**2).reshape(n_clusters, n_clusters)
    np.fill_diagonal(between, 0.0)
    return between


def induced_subgraph(graph: Graph, members: IntArray) -> Graph:
    """The graph on `members` alone, renumbered in their order."""
    part = graph.to_scipy()[members][:, members].tocsr()
    part.sort_indices()
    return Graph(part.indptr.astype(np.int64), part.indices.astype(graph.indices.dtype), part.data)
