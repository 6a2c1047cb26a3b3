"""What both estimators share: the knobs, the way from points to a graph and from a run to attributes, the page, and
memberships of new points. What is searched for is each estimator's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from tautcut.acquisition import Acquisition
from tautcut.algorithm.observers import Observer, ProgressBar
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.checks import RandomState, one_of
from tautcut.errors import InputError
from tautcut.estimators.entrance import warn_of_columns, warn_of_copies, warn_of_pieces, weighed
from tautcut.graph import Graph
from tautcut.graph.adapters import is_graph, vertex_names
from tautcut.graph.diagnostics import diagnose
from tautcut.graph.findings import Diagnosis
from tautcut.kernels.devices import neighbor_finder, resolved
from tautcut.neighbors import (
    DUPLICATES,
    Duplicates,
    Metric,
    Weights,
    affordable_neighbors,
    distinct_rows,
    nearest,
    neighbor_graph,
)  # fmt: skip
from tautcut.records.records import plain_setting
from tautcut.search.disagreement import Disagreement
from tautcut.search.links import joined_groups, linked_groups
from tautcut.search.plan import Plan
from tautcut.search.strain import Strain, strain_of
from tautcut.targets import by_node
from tautcut.walk import walk_graph

AFFINITIES = ("knn", "precomputed")
BALANCES = ("size", "volume")


@dataclass(kw_only=True, eq=False, repr=False)
class MTVEstimator(BaseEstimator):
    """What the two estimators share: the knobs, the graph, the run, the page, and memberships of new points.

    The fields are the parameters of the constructor, which only stores them.
    """

    affinity: Literal["knn", "precomputed"] = "knn"
    n_neighbors: int = 10
    metric: Metric = "euclidean"
    weights: Weights = "binary"
    duplicates: Duplicates = "keep"
    balance: Literal["size", "volume"] = "size"
    must_link: Any = None
    smoothing: int | Literal["auto"] | None = None
    class_prior: ArrayLike | str | None = None
    init: str | ArrayLike = "auto"
    n_init: int | Literal["auto"] = "auto"
    algorithm: Literal["fast", "paper"] = "fast"
    search: Literal["short", "thorough", "none"] = "short"
    min_cluster_size: int | None = None
    max_iter: int = 2000
    tol: float = 1e-4
    device: str = "cpu"
    dtype: Literal["float32", "float64", "mixed"] = "float32"
    n_jobs: int | None = None
    verbose: bool | Observer = False
    random_state: RandomState = None

    def _graph_of(self, X: Any, rng: np.random.Generator) -> tuple[Graph, IntArray | None]:
        """The graph that X is, or that of its rows' nearest neighbours; and the vertex of each point, if copies merge.

        Keeps the names of the points, and the `_groups` of them that stay together.
        """
        names, kinds = vertex_names(X), None
        self._X_fit = None
        if one_of("affinity", self.affinity, AFFINITIES) == "precomputed" or isinstance(X, Graph) or is_graph(X):
            graph = Graph.from_any(X)
            self.n_features_in_ = graph.n_vertices
        else:
            X = validate_data(self, X, accept_sparse="csr", ensure_min_samples=2, dtype="numeric")
            if one_of("duplicates", self.duplicates, DUPLICATES) == "merge":
                first, kinds = distinct_rows(X)
            distinct = X if kinds is None else X[first]
            # From the generator's own seed, which fixes the neighbours then, and takes nothing from the starts.
            seeded = np.random.default_rng(cast("np.random.SeedSequence", rng.bit_generator.seed_seq))
            graph, report = neighbor_graph(
                distinct, affordable_neighbors(self.n_neighbors, distinct.shape[0]), metric=self.metric,
                weights=self.weights, random_state=seeded, finder=neighbor_finder(self.device),
            )  # fmt: skip
            self._X_fit = X
            warn_of_copies(report.n_copied, report.n_points, report.n_neighbors)
            if self.metric == "euclidean":
                warn_of_columns(X, getattr(self, "feature_names_in_", None))
        self.nodes_ = range(graph.n_vertices if kinds is None else kinds.size) if names is None else names
        self._groups = self._linked(kinds)
        return graph, kinds

    def _to_be_cut(
        self, graph: Graph, kinds: IntArray | None, sample_weight: ArrayLike | None, smoothing: int | None
    ) -> Graph:
        """The graph smoothed, if that was asked for, and with the masses of the points."""
        if smoothing is not None:
            graph = walk_graph(graph, smoothing, device=self.device)
        self.smoothing_ = smoothing
        warn_of_pieces(graph, is_given=self._X_fit is None)
        return weighed(graph, kinds, sample_weight, one_of("balance", self.balance, BALANCES))

    def _linked(self, kinds: IntArray | None) -> IntArray | None:
        """The group of each point that stays together with others, copies among them; None where all are free."""
        if self.must_link is None:
            return kinds
        groups = linked_groups(self.must_link, by_node(self.nodes_, np.arange(len(self.nodes_))))
        if kinds is None:
            return groups
        first = np.unique(kinds, return_index=True)[1]
        leader = np.unique(groups, return_index=True)[1]
        points = np.arange(kinds.size)
        return joined_groups(kinds.size, np.r_[points, points], np.r_[first[kinds], leader[groups]])

    def _plan(self) -> Plan:
        """How to search, by the parameters."""
        return Plan(
            init=self.init, n_init=self.n_init, algorithm=self.algorithm, search=self.search,
            min_cluster_size=self.min_cluster_size, stop=StopRule(tol=self.tol, max_iter=self.max_iter),
            device=self.device, dtype=self.dtype, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _run(self, search: Callable[..., Result], rng: np.random.Generator) -> Result:
        """What the search finds by the plan of the parameters, kept."""
        with ExitStack() as stack:
            watching = self.verbose
            if watching and not callable(watching):
                watching = stack.enter_context(ProgressBar(resolved(self.device)))
            result = search(plan=self._plan(), rng=rng, observers=[watching] if callable(watching) else [])
        self.result_ = result
        self._strain: Strain | None = None
        self._disagreement: Disagreement | None = None
        self._acquisition: Acquisition | None = None
        self.graph_ = result.problem.graph
        self.energy_ = result.partition.energy
        self.relaxed_energy_ = result.relaxed_energy
        self.status_ = result.status
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        return result

    @property
    def memberships_(self) -> FloatArray:
        """How much each point belongs to each cluster, shape (n_samples, n_clusters); fetched when first asked for."""
        check_is_fitted(self, "result_")
        return self.result_.memberships

    @property
    def confidence_(self) -> FloatArray:
        """How sure the label of each point is, from 0 to 1, shape (n_samples,)."""
        check_is_fitted(self, "result_")
        return self.result_.confidence

    @property
    def strain_(self) -> Strain:
        """Whether the expected sizes, rather than the graph, decided the clusters; computed when it is asked for."""
        check_is_fitted(self, "result_")
        strain = self._strain = self._strain or strain_of(self.result_)
        return strain

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Sequence[object] | Array | None = None,
        features: Any = None,
        feature_names: Sequence[object] | None = None,
        images: ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
        diagnosis: Diagnosis | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the page that `tautcut cluster --report` writes: one HTML file that opens without a network.

        Parameters
        ----------
        path : path-like
            Ends in .html or .htm; replaced only once the page is complete.
        ids, features, feature_names : optional
            What each point is called, what it was compared by, and what the columns of that are called; by default the
            names in `nodes_`, and the features that the model was fitted on.
        images : array-like of shape (n_samples, height, width), optional
            Thumbnails of the points.
        columns : mapping of str to array-like of shape (n_samples,), or frame, optional
            Further columns, which points were not compared by: texts, known labels, numbers. They stand in the
            tooltips, the map can be coloured by them, and those with few values are counted against the clusters.
        diagnosis : Diagnosis, optional
            Of the graph; made here by default.
        settings : mapping, optional
            What to repeat the run with; by default the parameters that differ from their defaults.

        Returns
        -------
        Path
            Where the page is.
        """
        from tautcut.report.page import write_page

        check_is_fitted(self, "result_")
        features = getattr(self, "_X_fit", None) if features is None else features
        names = getattr(self, "feature_names_in_", None) if feature_names is None else feature_names
        diagnosis = self._diagnosis(names) if diagnosis is None else diagnosis
        return write_page(
            path, self.result_, ids=self.nodes_ if ids is None else ids, features=features, feature_names=names,
            images=images, columns=columns, diagnosis=diagnosis, strain=self.strain_,
            disagreement=getattr(self, "disagreement_", None),
            settings=self._changed_params() if settings is None else settings, names=self._names().tolist(),
        )  # fmt: skip

    def _diagnosis(self, names: Sequence[object] | None) -> Diagnosis:
        """What the graph is like, and the columns that it was made from."""
        compared = self._X_fit if self.metric == "euclidean" else None
        made_from: Literal["features", "graph"] = "graph" if self._X_fit is None else "features"
        R = self.result_.problem.n_clusters
        return diagnose(self.graph_, R, features=compared, names=names, made_from=made_from, smoothing=self.smoothing_)

    def _changed_params(self) -> dict[str, Any]:
        """The parameters that differ from their defaults, and how the model is called."""
        defaults, given = type(self)().get_params(), self.get_params()
        changed = {name: plain_setting(given[name]) for name in defaults if np.any(given[name] != defaults[name])}
        return {"model": type(self).__name__, **changed}

    def predict(self, X: Any) -> Array:
        """The label of new points: the one in which their nearest fitted points have the largest share.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_new, n_features)
            New points; with `affinity="precomputed"`, their similarities to the fitted ones, (n_new, n_samples).
        """
        largest = self._mean_of(self._shares_to_ask(), X).argmax(axis=1)
        return np.asarray(self._names()[largest])

    def labels_by_node(self) -> dict[Any, Any]:
        """The labels as a dict, by the names in `nodes_`: what networkx takes as a node attribute.

        Examples
        --------
        >>> import networkx
        >>> from tautcut import MTVClustering
        >>> G = networkx.barbell_graph(4, 0)
        >>> cluster = MTVClustering(2, affinity="precomputed", random_state=0).fit(G).labels_by_node()
        >>> cluster[0] == cluster[3] != cluster[4] == cluster[7]
        True
        """
        check_is_fitted(self, "result_")
        return by_node(self.nodes_, self._names()[self.result_.partition.labels])

    def _names(self) -> Array:
        """What the clusters are called: their numbers, or the classes."""
        return np.arange(self.result_.problem.n_clusters)

    def _shares_to_ask(self) -> FloatArray:
        """What `predict` averages over the neighbours of a new point, a row for each fitted one."""
        check_is_fitted(self, "result_")
        return self.result_.memberships

    def _mean_of(self, rows: FloatArray, X: Any) -> FloatArray:
        """The mean of these rows, one for each fitted point, over the nearest of them to each new point.

        With `affinity="precomputed"`, X holds the (n_new, n_train) similarities, and they weight the mean.
        """
        if self._X_fit is None:
            return weighted_mean(X, rows)
        X = validate_data(self, X, accept_sparse="csr", reset=False, dtype="numeric")
        k = affordable_neighbors(self.n_neighbors, len(rows))
        neighbors, _ = nearest(self._X_fit, X, k, metric=self.metric)
        return np.asarray(rows[neighbors].mean(axis=1))

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram of the parameters; of a fitted model, what was found below it."""
        diagram: str = super()._repr_html_inner()
        return diagram + self._found_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        return {kind: text + self._found_html() if kind == "text/html" else text for kind, text in bundle.items()}

    def _found_html(self) -> str:
        from tautcut.report.summary import summary_html

        return summary_html(self.result_, self._names()) if hasattr(self, "result_") else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


def weighted_mean(X: Any, memberships: FloatArray) -> FloatArray:
    """Memberships of new points from their (n_new, n_train) similarities; uniform where all of them are zero."""
    S = sp.csr_matrix(X, dtype=np.float64)
    if S.shape[1] != memberships.shape[0]:
        raise InputError(
            f"X must hold similarities to the {memberships.shape[0]} training points, one column each; "
            f"found {S.shape[1]} columns."
        )
    is_bad = ~(np.isfinite(S.data) & (S.data >= 0))
    if is_bad.any():
        raise InputError(f"similarities must be finite and ≥ 0; found {S.data[is_bad][0]}.")
    # In units of the largest of each row: huge similarities do not overflow when they are added, and tiny ones count.
    largest = S.max(axis=1).toarray().ravel() if S.shape[0] else np.zeros(0)
    S.data = np.divide(S.data, np.repeat(largest, np.diff(S.indptr)), out=np.zeros_like(S.data), where=S.data > 0)
    mean = np.full((S.shape[0], memberships.shape[1]), 1.0 / memberships.shape[1])
    has_any = largest > 0
    mean[has_any] = S[has_any] @ memberships
    return np.asarray(mean / mean.sum(axis=1, keepdims=True))
