"""Vertices that stay together: groups of them are contracted to single vertices before a search, and the answer is
expanded after it. A partition that respects the groups has the same (P) on both graphs, so this is exact. It searches
nothing itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from tautcut.algorithm.observers import Observer
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.arrays import IntArray
from tautcut.checks import UNLABELLED
from tautcut.errors import CollapseWarning, InputError, InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.problem import Partition, Problem
from tautcut.search.driver import best_of_starts
from tautcut.search.plan import Plan, quick_plan
from tautcut.search.transduction import transduce


def linked_groups(must_link: Any, number: Mapping[Hashable, int]) -> IntArray:
    """The group of each vertex, numbered by their first vertices, from pairs or larger groups of vertex names.

    `number` has the names of all vertices in their order. Groups that share a vertex are one.
    """
    firsts, others = [], []
    for group in _listed(must_link):
        members = [_numbered(name, number) for name in group]
        firsts += members[:1] * (len(members) - 1)
        others += members[1:]
    return joined_groups(len(number), firsts, others)


def joined_groups(n_vertices: int, firsts: ArrayLike, others: ArrayLike) -> IntArray:
    """The group of each vertex, numbered by their first vertices, where firsts[i] and others[i] belong together."""
    pairs = (np.asarray(firsts, dtype=np.int64), np.asarray(others, dtype=np.int64))
    links = sp.coo_matrix((np.ones(pairs[0].size), pairs), shape=(n_vertices, n_vertices))
    component = connected_components(links, directed=False)[1]
    _, first, groups = np.unique(component, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    return rank[groups]


def best_of_linked(
    problem: Problem, groups: IntArray, plan: Plan, *, rng: np.random.Generator, observers: Iterable[Observer] = ()
) -> Result:
    """What `best_of_starts` finds among the partitions that keep each group together."""
    contracted = Problem(_contracted(problem.graph, groups, problem.n_clusters), problem.n_clusters, problem.lam)
    result = best_of_starts(contracted, _contracted_plan(plan, problem.graph, groups), rng=rng, observers=observers)
    return _expanded(result, problem.graph, groups)


def quick_partition(problem: Problem, groups: IntArray | None = None, *, rng: np.random.Generator) -> Partition:
    """The partition of a short search, which keeps groups together; KeyboardInterrupt if it was cut short."""
    search = partial(best_of_starts, problem) if groups is None else partial(best_of_linked, problem, groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedRunWarning)
        warnings.simplefilter("ignore", CollapseWarning)  # its energy says so
        result = search(quick_plan(problem.graph), rng=rng)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.partition


def transduce_linked(
    graph: Graph, labels: IntArray, n_classes: int, groups: IntArray, *, class_prior: ArrayLike | str | None,
    plan: Plan, rng: np.random.Generator, observers: Iterable[Observer] = (), unsmoothed: Graph | None = None,
    nodes: Sequence[Any], classes: Sequence[Any],
) -> Result:  # fmt: skip
    """What `transduce` finds where each group has one label; `nodes` and `classes` are what errors call them."""
    of_groups = _labels_of_groups(labels, groups, nodes, classes)
    contracted = _contracted(graph, groups, n_classes)
    plan = _contracted_plan(plan, graph, groups)
    result = transduce(
        contracted, of_groups, n_classes, class_prior=class_prior, plan=plan, rng=rng, observers=observers,
        unsmoothed=None if unsmoothed is None else unsmoothed.contracted(groups),
    )  # fmt: skip
    return _expanded(result, graph, groups)


def _listed(must_link: Any) -> list[list[Hashable]]:
    """The groups as lists of names."""
    try:
        groups = list(must_link)
        text = next((group for group in groups if isinstance(group, str | bytes)), None)
        if text is not None:
            raise InputError(f"must_link must be pairs or groups of vertices; found the text {text!r} among them.")
        return [list(group) for group in groups]
    except TypeError as error:
        raise InputError(f"must_link must be pairs or groups of vertices; found {must_link!r}.") from error


def _numbered(name: Any, number: Mapping[Hashable, int]) -> int:
    key = name.item() if isinstance(name, np.generic) else name
    try:
        found = number.get(key, number.get(name))
    except TypeError:
        found = None
    if found is None:
        raise InputError(f"must_link names {name!r}, which is no vertex of X; its first is {next(iter(number))!r}.")
    return found


def _contracted(graph: Graph, groups: IntArray, n_clusters: int) -> Graph:
    n_groups = int(groups.max()) + 1
    if n_groups < n_clusters:
        raise InputError(
            f"{n_clusters} clusters are more than the {n_groups} groups of vertices that stay together. Ask for "
            f"{n_groups} or fewer, or link less."
        )
    return graph.contracted(groups)


def _contracted_plan(plan: Plan, graph: Graph, groups: IntArray) -> Plan:
    """The plan for groups: a start of the user's own is averaged over each."""
    if isinstance(plan.init, str):
        return replace(plan, n_points=groups.size)
    F = np.asarray(plan.init, dtype=np.float64)
    if F.ndim != 2 or len(F) != groups.size:
        raise InputError(f"the start must have a row for each of the {groups.size} vertices; found shape {F.shape}.")
    member = sp.csr_matrix((graph.masses, (groups, np.arange(groups.size))))
    mean = np.asarray(member @ F) / np.bincount(groups, graph.masses)[:, None]
    return replace(plan, init=mean, n_points=groups.size)


def _labels_of_groups(labels: IntArray, groups: IntArray, nodes: Sequence[Any], classes: Sequence[Any]) -> IntArray:
    """The label of each group, −1 where none of its vertices has one; refused where two of them differ."""
    found = np.full(int(groups.max()) + 1, UNLABELLED, dtype=np.int64)
    known = np.flatnonzero(labels != UNLABELLED)
    found[groups[known]] = labels[known]
    against = known[found[groups[known]] != labels[known]]
    if against.size:
        one = int(against[0])
        other = int(known[(groups[known] == groups[one]) & (labels[known] != labels[one])][0])
        raise InputError(
            f"{nodes[one]!r} and {nodes[other]!r} stay together by must_link or as copies of one point, but y labels "
            f"them {classes[labels[one]]!r} and {classes[labels[other]]!r}. Drop the link, or correct a label."
        )
    return found


def _expanded(result: Result, graph: Graph, groups: IntArray) -> Result:
    """The result on groups as one on their vertices."""
    small = result.problem
    problem = Problem(graph, small.n_clusters, small.lam, small.labels[groups])
    return result.changed(
        problem=problem, partition=problem.partition(result.partition.labels[groups]),
        memberships=lambda: result.memberships[groups], last_memberships=lambda: result.last_memberships[groups],
        probabilities=lambda: None if result.probabilities is None else result.probabilities[groups],
    )  # fmt: skip
