"""Which points to label next. The graph is cut into clusters, more of them the more labels there are, and the middle of
each cluster that has no label is asked for, where most of the mass is unsure first (decision 0048). This module owns
that choice and its reasons. It sees no label but those given, and classifies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray
from tautcut.checks import UNLABELLED, RandomState, generator, whole_labels, whole_number
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.adapters import is_graph, vertex_names
from tautcut.graph.laplacian import centrality_within
from tautcut.kernels.cpu import compiling
from tautcut.kernels.cpu.coarsening import Level, contract_matching, finest_level
from tautcut.neighbors import Metric, Weights, affordable_neighbors, distinct_rows, features_of, knn_graph
from tautcut.problem import Problem
from tautcut.search.certainty import class_probabilities
from tautcut.search.links import quick_partition
from tautcut.search.partitioners import imbalance_of_start, partition_level
from tautcut.search.transduction import Evidence
from tautcut.targets import encode_labels, in_order

# How the choice goes on, by measurement (decision 0048).
_EXPLORED = 2  # labels for each class that was met: with more, where classes meet matters more than new regions
_FINER = 2  # clusters for each label from then on
_UNMET = 0.1  # doubt of a point that nothing speaks against: the labels do not know the classes that they have not met
_ROUGH = 0.1  # tolerance of the labels' spreading: where they are unsure is seen long before they are exact
_SEARCHED = 64  # clusters at most of a first choice that is searched for, rather than cut by a partitioner alone
_GRID, _GRID_STEP = 32, 2**0.25  # from so many clusters on, their numbers are rounded up to powers, and partitions kept
_COARSE = 8192  # vertices of the graph that a large one is contracted to, to be cut quickly
_FEWEST_PER_CLUSTER = 16  # vertices of it, below which the graph itself is cut
_FAIR = 0.5  # of the mass per label: a component that has it is asked in before another is asked in twice


@dataclass(frozen=True)
class Question:
    """A point to be labelled, and why it was chosen.

    Attributes
    ----------
    vertex : int
        The point.
    n_around : int
        How many points without a label its cluster has, itself among them.
    doubt : float
        Which share of their mass would be labelled wrongly, as far as the labels can tell; NaN while they cannot.
    """

    vertex: int
    n_around: int
    doubt: float

    @property
    def reason(self) -> str:
        """Why this point, in words."""
        if self.n_around == 1:
            return "a point apart from the others"
        middle = f"in the middle of {self.n_around} points without a label"
        return middle if np.isnan(self.doubt) else f"{middle}, {self.doubt:.0%} of them in doubt"


@dataclass(frozen=True, eq=False)
class _Clusters:
    """The cluster of each vertex, none larger than a component; how central each vertex is in its own; their number."""

    of: IntArray
    centrality: FloatArray
    count: int


class Acquisition:
    """Chooses the vertices of one graph to label next, and keeps what the next choice can use again.

    What is chosen follows from the graph, the labels and `rng` alone, not from what was asked before.

    Parameters
    ----------
    graph : Graph
        The graph that is to be classified; clusters weigh the masses of its vertices.
    rng : numpy.random.Generator
        Seeds the partitions, once.
    groups : array-like of int, shape (n_vertices,), optional
        The group of each vertex, numbered from 0 without gaps: vertices that share one label, and one question.

    Examples
    --------
    >>> triangles = Graph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)])
    >>> acquisition = Acquisition(triangles, rng=np.random.default_rng(0))
    >>> acquisition.next([-1] * 6, 2).tolist()
    [4, 0]
    """

    def __init__(self, graph: Graph, *, rng: np.random.Generator, groups: ArrayLike | None = None) -> None:
        self._groups = np.arange(graph.n_vertices) if groups is None else np.asarray(groups, dtype=np.int64)
        self._graph = graph if groups is None else graph.contracted(self._groups)
        self._seed = int(rng.integers(2**32))
        self._clusters: dict[int, _Clusters] = {}

    def next(self, codes: ArrayLike, n_points: int = 1) -> IntArray:
        """The vertices to label next, the most telling first, none twice.

        Parameters
        ----------
        codes : array-like of int, shape (n_vertices,)
            The class of each labelled vertex, −1 for the others; all may be −1.
        n_points : int
            How many to choose, at most as many as have no label.
        """
        return np.array([one.vertex for one in self.questions(codes, n_points)], dtype=np.int64)

    def questions(self, codes: ArrayLike, n_points: int = 1) -> list[Question]:
        """The same with the reason for each."""
        given = _labels_of(self._groups, whole_labels(codes, self._groups.size))
        n_free = int((given < 0).sum())
        is_alone = given.size == self._groups.size
        n_points = _affordable(n_points, n_free, "points" if is_alone else "groups of points that stay together")
        classes, numbers = np.unique(given[given >= 0], return_inverse=True)
        given[given >= 0] = numbers
        clusters = self._first_cut(n_points) if n_free == given.size else self._cut(n_free, n_points, classes.size)
        doubt = self._doubt(given, classes.size)
        chosen = self._chosen(clusters, given, doubt, n_points)
        return self._told(clusters, given, doubt, chosen, is_known=classes.size > 1)

    def _first_cut(self, n_points: int) -> _Clusters:
        """As many clusters as points are asked for before there is a label: the only ones that deserve a search."""
        if not 1 < n_points <= min(_SEARCHED, self._graph.n_vertices // 2) or not self._graph.n_edges:
            return self._kept(n_points)
        if -n_points not in self._clusters:
            rng = np.random.default_rng([self._seed, n_points])
            parts = quick_partition(Problem(self._graph, n_points), rng=rng).labels
            self._clusters[-n_points] = _ordered(self._graph, parts)
        return self._clusters[-n_points]

    def _cut(self, n_free: int, n_points: int, n_classes: int) -> _Clusters:
        """The clusters to ask in: one for each label that there will be at first, then two.

        While labels are few for the classes that were met, the heaviest regions without any are what is unknown. Later
        it is where classes meet, which only finer clusters can tell from the rest.
        """
        n_labels = self._graph.n_vertices - n_free + n_points
        is_explored = n_labels > _EXPLORED * n_classes
        return self._kept(_FINER * n_labels if is_explored else n_labels)

    def _kept(self, count: int) -> _Clusters:
        """So many clusters, or a few more, by a partitioner alone; kept for the next choice."""
        n = self._graph.n_vertices
        if count > _GRID:
            count = round(_GRID * _GRID_STEP ** np.ceil(np.log(count / _GRID) / np.log(_GRID_STEP) - 1e-9))
        count = min(count, max(n // 2, 1))
        if count not in self._clusters:
            rng = np.random.default_rng([self._seed, count])  # the same whatever was asked before
            level, place = self._coarse if _FEWEST_PER_CLUSTER * count <= _COARSE else (self._graph, np.arange(n))
            shares = np.full(count, 1.0 / count)
            parts = partition_level(level, shares, imbalance=imbalance_of_start(0), rng=rng)
            self._clusters[count] = _ordered(self._graph, parts[place])
        return self._clusters[count]

    @cached_property
    def _coarse(self) -> tuple[Graph | Level, IntArray]:
        """A smaller graph, quicker to cut, and the place of each vertex in it; the graph itself if it is small."""
        graph, place = self._graph, np.arange(self._graph.n_vertices)
        if graph.n_vertices < 2 * _COARSE or not compiling.is_available():
            return graph, place
        rng, level = np.random.default_rng([self._seed, 0]), finest_level(graph, np.zeros(place.size, dtype=bool))
        while level.n_vertices > 2 * _COARSE:
            one = np.zeros(level.n_vertices, dtype=np.int64)
            coarser, parent = contract_matching(level, one, heaviest=4 * graph.total_mass / _COARSE, rng=rng)
            if coarser.n_vertices > 0.95 * level.n_vertices:  # a star, say
                break
            level, place = coarser, parent[place]
        return level, place

    def _doubt(self, given: IntArray, n_classes: int) -> FloatArray:
        """The chance that each vertex would be labelled wrongly; 1 for all while fewer than two classes were met."""
        if n_classes < 2:
            return np.where(given < 0, 1.0, 0.0)
        evidence = Evidence.of_labels(self._graph, given, n_classes, tol=_ROUGH)
        found = np.where(given < 0, evidence.values.argmax(axis=1), given)
        values = np.maximum(evidence.values, 0.0)
        certainty = class_probabilities(self._graph, found, given, values, is_even=True).max(axis=1)
        component = self._graph.components()[1]
        is_reached = np.isin(component, component[given >= 0])
        return np.where(given >= 0, 0.0, np.where(is_reached, 1.0 - certainty, 1.0 - 1.0 / n_classes))

    def _chosen(self, clusters: _Clusters, given: IntArray, doubt: FloatArray, n_points: int) -> list[int]:
        """The middle of one cluster after the other, no two of them neighbours while that can be had."""
        graph, is_taken = self._graph, given >= 0
        is_shut = is_taken.copy()
        chosen: list[int] = []
        order = self._order(clusters, given, doubt, n_points)
        middle_first = np.lexsort((-clusters.centrality * np.sqrt(doubt), clusters.of))
        ends = np.searchsorted(clusters.of[middle_first], np.arange(clusters.count + 1))
        while len(chosen) < n_points:
            n_before = len(chosen)
            for r in order.tolist():
                members = middle_first[ends[r] : ends[r + 1]]
                free = members[~is_shut[members]]
                if len(chosen) == n_points:
                    break
                if free.size:
                    vertex = int(free[0])
                    chosen.append(vertex)
                    is_taken[vertex] = is_shut[vertex] = True
                    is_shut[graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]]] = True
            if len(chosen) == n_before:
                is_shut = is_taken.copy()  # only neighbours of chosen ones are left
        return chosen

    def _order(self, clusters: _Clusters, given: IntArray, doubt: FloatArray, n_points: int) -> IntArray:
        """The clusters in which to ask, those without a label first, by the mass in doubt.

        Before all of them comes a cluster of each component that has no label, if its mass is worth one.
        """
        graph, is_known = self._graph, given >= 0
        unsure = np.where(is_known, 0.0, _UNMET + (1.0 - _UNMET) * doubt)
        weight = np.bincount(clusters.of, graph.scaled_masses()[0] * unsure, clusters.count)
        has_label = np.bincount(clusters.of[is_known], minlength=clusters.count) > 0
        component = graph.components()[1]
        masses = np.bincount(component, graph.masses)
        fair = _FAIR * graph.total_mass / (is_known.sum() + n_points)
        is_owed = (masses >= fair) & ~np.isin(np.arange(masses.size), component[is_known])
        heaviest_first = np.lexsort((-weight, has_label))
        place = component[np.unique(clusters.of, return_index=True)[1]][heaviest_first]
        first = np.zeros(clusters.count, dtype=bool)
        first[np.unique(place, return_index=True)[1]] = True
        return heaviest_first[np.argsort(~(first & is_owed[place]), kind="stable")]

    def _told(
        self, clusters: _Clusters, given: IntArray, doubt: FloatArray, chosen: Sequence[int], *, is_known: bool
    ) -> list[Question]:
        """The chosen vertices, a vertex of each group, with what their clusters are like."""
        free = given < 0
        n_around = np.bincount(clusters.of, np.bincount(self._groups) * free, clusters.count)
        mass, wrong = (np.bincount(clusters.of, self._graph.masses * part, clusters.count) for part in (free, doubt))
        first = np.unique(self._groups, return_index=True)[1]
        return [
            Question(int(first[v]), int(n_around[r]), float(wrong[r] / mass[r]) if is_known else np.nan)
            for v, r in zip(chosen, clusters.of[chosen].tolist(), strict=True)
        ]


def next_to_label(
    X: Any,
    y: Any,
    n_points: int = 1,
    *,
    n_neighbors: int = 10,
    metric: Metric = "euclidean",
    weights: Weights = "binary",
    random_state: RandomState = None,
) -> IntArray:
    """The points whose labels would tell most, the most telling first: what to label next.

    The graph is cut into clusters, as many as there will be labels and later up to twice as many, and the middle of
    those without a label is asked for: the vertex at which a walk that stays in its cluster ends most often. Clusters
    come in the order of the mass that is in doubt, which is all of it until two classes were met. No two chosen points
    are copies or neighbours of one another while others can be had.

    Parameters
    ----------
    X : array-like, sparse matrix, frame or graph
        Features, a row for each point; or a `Graph`, a networkx or an igraph graph. A matrix of weights becomes a graph
        by `Graph.from_any`.
    y : array-like of shape (n_samples,), dict, or None
        The known labels, as :class:`MTVClassifier` takes them: −1, None, NaN or an empty string where one is unknown,
        or a dict of the known ones by name. All may be unknown; None says so.
    n_points : int
        How many points to choose, at most as many as have no label.
    n_neighbors, metric, weights
        How features become a graph, as for :func:`knn_graph`.
    random_state : int, Generator or None
        Seeds the partitions; a whole number makes the choice repeatable.

    Returns
    -------
    ndarray of int64, shape (n_points,)
        Rows of X, or vertices of the graph.

    See Also
    --------
    MTVClassifier.query : the same for a fitted model.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tautcut import MTVClassifier, next_to_label
    >>> X, y = load_digits(return_X_y=True)
    >>> known = np.full(len(y), -1)
    >>> ask = next_to_label(X, known, 20, random_state=0)
    >>> known[ask] = y[ask]  # a person would look at these
    >>> bool((MTVClassifier(random_state=0).fit(X, known).transduction_ == y).mean() > 0.9)
    True
    """
    rng, names = generator(random_state), vertex_names(X)
    if isinstance(X, Graph) or is_graph(X):
        graph = Graph.from_any(X)
        kinds = np.arange(graph.n_vertices)
    else:
        points = features_of(X, "X")
        first, kinds = distinct_rows(points)
        graph = _joined(points[first], n_neighbors, metric=metric, weights=weights, random_state=rng)
        graph = graph.with_masses(np.bincount(kinds))
    nodes = range(kinds.size) if names is None else names
    target = np.full(kinds.size, UNLABELLED) if y is None else in_order(y, nodes)
    codes = encode_labels(target, kinds.size, or_none=True)[1]
    return _spread(Acquisition(graph, rng=rng), kinds, codes, n_points)


def _joined(points: Any, n_neighbors: int, **ways: Any) -> Graph:
    """The graph of the nearest neighbours; a single point has none."""
    if points.shape[0] == 1:
        return Graph.from_edges(np.empty((0, 2), dtype=np.int64), n_vertices=1)
    return knn_graph(points, affordable_neighbors(n_neighbors, points.shape[0], stacklevel=5), **ways)


def _spread(acquisition: Acquisition, kinds: IntArray, codes: IntArray, n_points: int) -> IntArray:
    """The points to label next, where some are copies of others: those come last, when nothing else is left."""
    free = np.flatnonzero(codes < 0)
    n_points = _affordable(n_points, free.size)
    of_kinds = _labels_of(kinds, codes)
    n_kinds = min(n_points, int((of_kinds < 0).sum()))
    chosen = acquisition.next(of_kinds, n_kinds) if n_kinds else np.empty(0, dtype=np.int64)
    points = np.unique(kinds, return_index=True)[1][chosen]
    return np.concatenate([points, np.setdiff1d(free, points)[: n_points - n_kinds]])


def _labels_of(groups: IntArray, codes: IntArray) -> IntArray:
    """The label of each group, that of any of its points; −1 where none has one."""
    given = np.full(int(groups.max()) + 1, UNLABELLED, dtype=np.int64)
    known = np.flatnonzero(codes >= 0)
    given[groups[known]] = codes[known]
    return given


def _affordable(n_points: object, n_free: int, what: str = "points") -> int:
    """The number of points that are asked for, if there are so many without a label."""
    number = whole_number("n_points", n_points)
    if number > n_free:
        fix = f"Ask for {n_free} or fewer." if n_free else "Nothing is left to be asked."
        raise InputError(f"n_points={number} is more than the {n_free} {what} without a label. {fix}")
    return number


def _ordered(graph: Graph, parts: IntArray) -> _Clusters:
    """The parts, divided where they are in several components, and how central each vertex is in its own."""
    n_components, component = graph.components()
    of = np.unique(parts * n_components + component, return_inverse=True)[1].astype(np.int64)
    return _Clusters(of, centrality_within(graph, of), int(of.max()) + 1)
