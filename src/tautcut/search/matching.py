"""Clusters that the graph has without labels, named by the labels in them: where these agree with the labels' own
spreading on most of the graph and cost far less, they are what a search with labels should have found. Nothing here
looks at true labels.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import IntArray
from tautcut.kernels import devices
from tautcut.problem import Partition, Problem
from tautcut.search.certainty import labels_per_class
from tautcut.search.cycles import VCycles, can_run
from tautcut.search.ladder import Levels
from tautcut.search.plan import Task
from tautcut.search.threads import in_threads

# Decision 0073 has the measurements behind these.
_FEW = 10  # labels per class, from which on their own spreading leads far enough
_STARTS = (2, 8)  # without labels, of which the lowest is taken: at least and at most,
_WORK = 500_000  # directed edges over all of them
_CHILDREN = 10  # of each
_WORTH = 0.5  # of (P) of what the labels led to: the clusters have to cost less,
_COMMON = 0.5  # and of the mass: they have to have more in common


def matched_clusters(task: Task, found: Partition) -> Partition | None:
    """The graph's own clusters with the names of the labels in them, if they are to be preferred to what was found.

    Each cluster has to hold labels of one class, and each class to have its labels in one cluster. They belong to the
    graph and its labels: no seed has a part in them.
    """
    problem = task.problem
    if not _is_worth_a_look(task, found):
        return None
    free = Problem(problem.graph, problem.n_clusters, problem.lam)
    cycles = VCycles(Levels(free), task.smallest, _CHILDREN)
    _ = cycles.levels.shared  # made before the threads that share it begin
    n_starts = int(np.clip(_WORK // max(problem.graph.indices.size, 1), *_STARTS))
    starts = in_threads(lambda number: cycles.start(number, np.random.default_rng(number)), range(n_starts))
    clusters = min(starts, key=lambda one: one.energy)
    labels = _named(clusters.labels, problem.labels, problem.n_clusters)
    if labels is None or clusters.energy >= found.energy:
        return None
    heeding = VCycles(task.levels, task.smallest, _CHILDREN)
    matched = heeding.refine(problem.partition(labels), rng=np.random.default_rng(0))
    common = problem.graph.masses[matched.labels == found.labels].sum()
    is_preferred = matched.energy < _WORTH * found.energy and common > _COMMON * problem.total_mass
    return matched if is_preferred else None


def _is_worth_a_look(task: Task, found: Partition) -> bool:
    """Whether a named start of few labels is searched at all, where V-cycles can run."""
    problem, plan = task.problem, task.plan
    is_searched = isinstance(plan.init, str) and plan.algorithm == "fast" and task.effort.is_refined
    if not is_searched or not problem.has_labels or problem.n_clusters == 1 or problem.numerator != "tv":
        return False
    if np.unique(problem.labels[problem.is_labelled]).size < problem.n_clusters or not 0 < found.energy < np.inf:
        return False
    if labels_per_class(problem.labels, problem.n_clusters) >= _FEW:
        return False
    return can_run() and not devices.runs_on_gpu(problem, plan.device)


def _named(clusters: IntArray, labels: IntArray, n_classes: int) -> IntArray | None:
    """The class of each vertex by the labels in its cluster; None unless clusters and classes match one to one."""
    is_known = labels >= 0
    pairs = np.unique(np.stack([clusters[is_known], labels[is_known]]), axis=1)
    is_matched = pairs.shape[1] == n_classes and np.unique(pairs[1]).size == n_classes
    if not is_matched or np.unique(pairs[0]).size < n_classes:
        return None
    name = np.empty(n_classes, dtype=np.int64)
    name[pairs[0]] = pairs[1]
    return name[clusters]
