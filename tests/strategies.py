"""What the property tests draw: random graphs, weighted or not, connected or not, memberships on the simplex with many
ties, and one λ per cluster; the graphs of `sample_graphs` can be imported from here too. And how tests choose the
number of threads, and see how many are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sample_graphs import noisy_start, planted_graph, random_graph, soft_start  # noqa: F401
from tautcut.graph import Graph
from tautcut.kernels.cpu import sharing
from tautcut.problem import Problem

WEIGHTS = st.sampled_from([0.125, 0.3, 0.7, 1.0, 1.7, 5.0, 11.0])


@st.composite
def graphs(
    draw: st.DrawFn, *, min_vertices: int = 2, max_vertices: int = 10, is_connected: bool | None = None
) -> Graph:
    """A graph with at least one edge; `is_connected=None` draws both kinds, isolated vertices among them."""
    n = draw(st.integers(min_vertices, max_vertices))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    if is_connected is None and not draw(st.booleans()):
        tree = tree[:1] + [edge for edge in tree[1:] if draw(st.booleans())]
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    others = draw(st.lists(pair, max_size=2 * n))
    edges = sorted({(min(e), max(e)) for e in [*tree, *others]})
    weights = [draw(WEIGHTS) for _ in edges] if draw(st.booleans()) else None
    return Graph.from_edges(edges, weights, n_vertices=n)


def vertex_masses(n_vertices: int) -> st.SearchStrategy[np.ndarray]:
    """A mass for each vertex: all alike, or not, some in whole numbers."""
    values = st.one_of(st.sampled_from([1.0, 2.0, 3.0, 0.5]), st.floats(0.05, 20.0))
    even = values.map(lambda mass: np.full(n_vertices, mass))
    return st.one_of(st.just(np.ones(n_vertices)), even, hnp.arrays(np.float64, n_vertices, elements=values))


def memberships(n_vertices: int, n_clusters: int) -> st.SearchStrategy[np.ndarray]:
    """Points of the simplex made of small parts, so that zeros, ones and ties abound in every column."""
    parts = hnp.arrays(np.int64, (n_vertices, n_clusters), elements=st.sampled_from([0, 0, 0, 1, 2, 5]))

    def normalise(counts: np.ndarray) -> np.ndarray:
        counts[counts.sum(axis=1) == 0, 0] = 1
        return counts / counts.sum(axis=1, keepdims=True)

    return parts.map(normalise)


def lams(n_clusters: int) -> st.SearchStrategy[np.ndarray | None]:
    """λ per cluster: the paper's choice, the same for all, or one each; some make N / (λ + 1) whole."""
    values = st.one_of(st.sampled_from([0.25, 1.0, 2.0, 3.0, 9.0]), st.floats(0.05, 20.0))
    return st.one_of(st.none(), hnp.arrays(np.float64, n_clusters, elements=values))


@st.composite
def problems(
    draw: st.DrawFn, *, min_clusters: int = 2, max_clusters: int = 4, has_labels: bool = False, **graph: Any
) -> Problem:
    """A problem on a small graph; with `has_labels`, some vertices are fixed and at least one is free."""
    drawn = draw(graphs(min_vertices=max(2, min_clusters), **graph))
    R = draw(st.integers(min_clusters, min(max_clusters, drawn.n_vertices)))
    labels = None
    if has_labels:
        fixed = st.one_of(st.just(-1), st.integers(0, R - 1))
        labels = np.array([draw(fixed) for _ in range(drawn.n_vertices)])
        labels[draw(st.integers(0, drawn.n_vertices - 1))] = -1
    return Problem(drawn.with_masses(draw(vertex_masses(drawn.n_vertices))), R, draw(lams(R)), labels)


@st.composite
def started(draw: st.DrawFn, **problem: Any) -> tuple[Problem, np.ndarray]:
    """A problem and a start that respects its labels, with no constant column: B > 0 for all of them."""
    drawn = draw(problems(**problem))
    F = draw(memberships(drawn.n_vertices, drawn.n_clusters))
    fixed = drawn.is_labelled
    F[fixed] = np.eye(drawn.n_clusters)[np.asarray(drawn.labels)[fixed]]
    constant, free = np.flatnonzero(np.ptp(F, axis=0) == 0), np.flatnonzero(~fixed)
    for column, vertex in zip(constant, free, strict=False):
        F[vertex] = np.eye(drawn.n_clusters)[column]
    assume((np.ptp(F, axis=0) > 0).all())
    return drawn, F


def use_threads(monkeypatch: pytest.MonkeyPatch, n_threads: int) -> None:
    """Ask for this many threads as a user does, by the environment."""
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))


@contextmanager
def pools_used() -> Iterator[set[int]]:
    """The sizes of all thread pools that are given work meanwhile, and how many threads help to share a pass."""
    sizes: set[int] = set()
    submit, grow = ThreadPoolExecutor.submit, sharing.Team.grow

    def watched(self: ThreadPoolExecutor, *given: Any, **named: Any) -> Any:
        sizes.add(self._max_workers)
        return submit(self, *given, **named)

    def watched_team(self: sharing.Team, size: int) -> None:
        sizes.add(size)
        grow(self, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", watched)
        patch.setattr(sharing.Team, "grow", watched_team)
        yield sizes
