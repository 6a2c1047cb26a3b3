"""The two scikit-learn estimators: thin skins that check what scikit-learn checks, build the graph, hand over to the
search and keep what comes back, `result_`. No algorithm lives here.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from tautcut.acquisition import Acquisition
from tautcut.algorithm.observers import Observer, ProgressBar
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import CUT_SHORT, StopRule
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.checks import RandomState, cluster_count, generator, one_of, vertex_masses, whole_number
from tautcut.errors import GraphWarning, InputError
from tautcut.graph import Graph
from tautcut.graph.adapters import is_graph, vertex_names
from tautcut.graph.columns import carriers
from tautcut.graph.diagnostics import NOTICEABLE, Diagnosis, diagnose
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
    tie_copies,
)  # fmt: skip
from tautcut.problem import Problem, lam_of_prior
from tautcut.records.records import plain_setting
from tautcut.search.certainty import HELD_BACK_WORTH, AccuracyEstimate, estimated_accuracy, held_back, label_quality
from tautcut.search.clarity import is_clear
from tautcut.search.disagreement import Disagreement, disagreement_of
from tautcut.search.driver import best_of_starts
from tautcut.search.links import best_of_linked, joined_groups, linked_groups, transduce_linked
from tautcut.search.plan import Plan
from tautcut.search.strain import Strain, strain_of
from tautcut.search.transduction import transduce
from tautcut.targets import by_node, class_values, encode_labels, in_order, target_of
from tautcut.walk import walk_graph

AFFINITIES = ("knn", "precomputed")
BALANCES = ("size", "volume")
TRIED_SMOOTHING = 30  # neighbours of the walk's graph that smoothing="auto" tries
_NOTHING = 1e-9  # of the mean weight: what a point of weight 0 counts
_SAMPLED_ROWS = 20_000  # from which the spread of columns is judged


@dataclass(kw_only=True, eq=False, repr=False)
class _MTVEstimator(BaseEstimator):
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
            _warn_of_copies(report.n_copied, report.n_points, report.n_neighbors)
            if self.metric == "euclidean":
                _warn_of_columns(X, getattr(self, "feature_names_in_", None))
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
        _warn_of_pieces(graph, is_given=self._X_fit is None)
        return _weighed(graph, kinds, sample_weight, one_of("balance", self.balance, BALANCES))

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
            return _weighted_mean(X, rows)
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


@dataclass(eq=False, repr=False)
class MTVClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, _MTVEstimator):
    """Cluster points, or the vertices of a graph, into a given number of groups.

    Points become a graph in which each is joined to its nearest neighbours. The answer is a partition that cuts few
    edges for the size of its clusters: it minimises the balanced cut

        (P) = Σ_r Cut(A_r, A_rᶜ) / min{λ_r m(A_r), m(A_rᶜ)}

    by Multiclass Total Variation and a search around it. m(A) is the number of points in A, or the sum of their masses.

    Parameters
    ----------
    n_clusters : int, default 8
        How many clusters to look for. All of them are found, whether the data has so many or not;
        `tautcut.suggestion.suggest_n_clusters` compares several numbers.
    affinity : {"knn", "precomputed"}, default "knn"
        What a matrix is. With "knn", X holds features, a row for each point (an array, a scipy sparse matrix, a pandas
        or polars frame), and the graph is that of the nearest neighbours; columns are not scaled, and a `GraphWarning`
        names those that carry nearly all distances. With "precomputed", X is itself the graph: a scipy sparse or dense
        matrix of similarities. A `Graph`, or a graph of networkx or igraph, is taken as a graph in either case.
    n_neighbors : int, default 10
        How many neighbours each point is joined to, and how many fitted points `predict` asks about a new one. More
        make the graph smoother, fewer keep thin groups apart. For "knn" alone.
    metric : {"euclidean", "cosine"}, default "euclidean"
        The distance by which neighbours are near: Euclidean, or 1 − cos of the angle, which suits texts and other
        directions. For "knn" alone.
    weights : {"binary", "self-tuning", "gaussian"}, default "binary"
        How much an edge counts when it is cut: 1 each; or less the longer it is, measured by the distances around its
        two ends ("self-tuning") or by one length for the whole graph ("gaussian"). For "knn" alone; `knn_graph` has
        the formulas.
    duplicates : {"keep", "merge"}, default "keep"
        What becomes of points that are equal. "merge" finds neighbours among the distinct ones, and keeps copies
        together; "keep" joins copies to one another like any neighbours, and where more than `n_neighbors` coincide,
        to nothing else. For "knn" alone.
    balance : {"size", "volume"}, default "size"
        What the size of a cluster is: the number of its points, or their sum of `sample_weight`; or its volume, the
        sum of their degrees (times their weights), which makes (P) the normalised Cheeger cut.
    must_link : array-like of shape (n_pairs, 2), or list of groups, default None
        Points that end up in one cluster: pairs or larger groups, by the names in `nodes_` (0, 1, 2, … unless X has
        names of its own). Groups that share a point are one group.
    smoothing : int or "auto", default None
        Cut not this graph but the one that joins each vertex to so many others, those nearest to it under a random walk
        with restart (`walk_graph`): edges that only noise made lose their say. 30 is a good middle. "auto" cuts the
        graph of 30, and keeps that where its clusters stand out clearly; else it cuts the graph itself, in a second
        fit. None cuts the graph as it is.
    class_prior : array-like of shape (n_clusters,), default None
        The share of all points that each cluster is expected to hold; the shares sum to 1. They move the balance of
        the cut (λ_r = (1 − π_r) / π_r) and do not force sizes. None expects equal shares, the paper's λ = R − 1.
    init : {"auto", "multilevel", "ncut-seeds", "ncut", "random"} or array (n_samples, n_clusters), default "auto"
        Where runs start. "auto" is starts of several kinds on small graphs, else "multilevel" on the processor and
        "ncut-seeds" on a GPU. The others mean the same on every device:

        - "multilevel": a partition by a multilevel graph partitioner;
        - "ncut-seeds": one random point of each cluster of the normalised cut, spread over the graph (the paper's
          procedure (b));
        - "ncut": the clusters of the normalised cut (the paper's procedure (a));
        - "random": noise;
        - an array: your own memberships, one row for each point; they are projected onto the simplex.
    n_init : int or "auto", default "auto"
        How many starts to make; the partition of the lowest energy wins. "auto" takes 16 starts on small graphs, 2 to
        8 multilevel starts on others, more on smaller ones, 15 drawn starts on a GPU, and 1 where all starts would be
        alike or each would be solved in full; `search="thorough"` doubles those that the search begins with.
    algorithm : {"fast", "paper"}, default "fast"
        "paper" is Algorithm 1 as printed, run until the relaxed energy stops changing. "fast" takes shorter steps, and
        also stops once the partition no longer improves.
    search : {"short", "thorough", "none"}, default "short"
        How long to look for lower energies around the starts: by moving single points, by merging and splitting
        clusters, and by combining partitions. "thorough" takes several times as long as "short"; "none" leaves it to
        Algorithm 1 alone.
    min_cluster_size : int, default None
        The fewest points that a cluster should have: the search prefers any partition that keeps to it over one that
        does not. None is a quarter of the expected size. Without a search it has no effect, but one that is missed is
        warned of, as always.
    max_iter : int, default 2000
        The most inner iterations of Algorithm 1 in one run. A run that reaches it says so in `status_`.
    tol : float, default 1e-4
        A run of Algorithm 1 has converged once its relaxed energy changes by less than this share of itself from one
        outer step to the next.
    device : {"cpu", "cuda", "auto", "reference"}, default "cpu"
        Where to compute. "cuda" is an NVIDIA GPU, for everything from the neighbours to the search; it needs torch.
        "auto" takes a GPU where there is one, and says which it took with `verbose=True`. "reference" is the plain
        NumPy engine that the others are tested against: exact, slow, for small graphs.
    dtype : {"float32", "float64", "mixed"}, default "float32"
        The precision of Algorithm 1. "mixed" is "float32" with the duals in float16, its largest array: half of the
        memory where there are many clusters. A GPU has no "float64"; "reference" always computes in it.
    n_jobs : int, default None
        How many starts to run at a time as joblib tasks; −1 is one for each core. None uses threads inside this
        process. The labels do not depend on it.
    verbose : bool or callable, default False
        Show progress bars on standard error; or the observer that is shown a `Progress` after every step, and stops the
        fit where it returns True.
    random_state : int, Generator, RandomState or None, default None
        Seeds everything that is drawn. A whole number makes a fit repeatable; None differs from fit to fit.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point, from 0 to n_clusters − 1. The numbers themselves mean nothing.
    memberships_ : ndarray of shape (n_samples, n_clusters)
        The relaxed F of Algorithm 1: rows are ≥ 0 and sum to 1, and the largest entry is the label's. How sure a label
        is, they do not say; `confidence_` does.
    confidence_ : ndarray of shape (n_samples,)
        How firmly the neighbours of each point agree on its cluster, from 0 (they are divided) to 1 (all in one).
    energy_ : float
        The balanced cut (P) of `labels_`: what was minimised. Lower is better, on the same graph and `class_prior`.
    relaxed_energy_ : float
        The relaxed energy Σ_r E(f_r) with which Algorithm 1 ended; NaN if it was stopped before it began.
    status_ : Status
        Why the run stopped; `str(status_)` is a sentence that also says what to do about it.
    n_iter_ : int
        Inner iterations of the run of Algorithm 1 behind the answer.
    history_ : tuple of Step
        The course of that run: a line for each outer step, with iterations, relaxed energy and energy.
    result_ : Result
        The whole result: problem, partition, memberships, status, history, the last F of Algorithm 1, and how many
        starts agree (`result_.agreement`).
    strain_ : Strain
        Whether the sizes that were expected, rather than the graph, decided some clusters: `strain_.is_strained`, and
        `strain_.finding`, which says what `class_prior` could do. Computed when it is asked for.
    smoothing_ : int or None
        How many neighbours the walk joined each vertex to, in the graph that was cut; None if that was not smoothed.
    graph_ : Graph
        The graph that was cut, the smoothed one with `smoothing`; `graph_.diagnose()` says what it is like.
    nodes_ : sequence of length n_samples
        The names of the points: nodes of networkx, names of igraph, the index of a pandas frame, or else 0, 1, 2, ….
    n_features_in_ : int
        How many columns X had in `fit`; with "precomputed", how many vertices.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns, if X was a frame whose columns have strings for names.

    References
    ----------
    X. Bresson, T. Laurent, D. Uminsky, J. H. von Brecht: Multiclass Total Variation Clustering. NIPS 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tautcut import MTVClustering, purity
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MTVClustering(n_clusters=10, random_state=0).fit(X)
    >>> purity(model.labels_, y) > 0.9
    True
    """

    n_clusters: int = 8

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> MTVClustering:
        """Cluster the rows of X, or the vertices of the graph X.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or graph
            Features or a graph, as `affinity` says.
        y : ignored
            It is there because scikit-learn's pipelines pass it.
        sample_weight : array-like of shape (n_samples,), optional
            How much each point counts in the size of its cluster: its mass. A point of weight 2 weighs as much as two
            copies of it do; but copies are also one another's neighbours, unless `duplicates="merge"`. A point of
            weight 0 has its neighbours and gets a label, and counts for nothing.
        """
        R = cluster_count(self.n_clusters)
        is_tried = isinstance(self.smoothing, str) and self.smoothing == "auto"
        smoothing = TRIED_SMOOTHING if is_tried else _checked_smoothing(self.smoothing, ', "auto"')
        joined = self._graph_of(X, generator(self.random_state))
        result = self._cut(self._to_be_cut(*joined, sample_weight, smoothing), R)
        if is_tried and not is_clear(result) and result.status not in CUT_SHORT:
            result = self._cut(self._to_be_cut(*joined, sample_weight, None), R)
        self.labels_ = result.partition.labels
        self._n_features_out = R
        return self

    def _cut(self, graph: Graph, R: int) -> Result:
        """What the search finds on this graph."""
        problem = Problem(graph, R, lam_of_prior(self.class_prior, R))
        search = partial(best_of_starts, problem)
        if self._groups is not None:
            search = partial(best_of_linked, problem, self._groups)
        return self._run(search, generator(self.random_state))

    def transform(self, X: Any) -> FloatArray:
        """The memberships of new points: the mean over their nearest fitted points, shape (n_new, n_clusters)."""
        return self._mean_of(self._shares_to_ask(), X)


@dataclass(eq=False, repr=False)
class MTVClassifier(ClassifierMixin, _MTVEstimator):
    """Label every point from a few labelled ones, which keep their labels.

    Minimises the same balanced cut as :class:`MTVClustering`, over the partitions that agree with the labels given.
    Then points at the boundary of two classes follow the labels near them (not with `search="none"`). A wrong label
    is kept too, though its neighbours seldom follow it; `predict` on the fitted points shows which labels their
    neighbours contradict.

    Parameters
    ----------
    affinity, n_neighbors, metric, weights, duplicates, balance, algorithm, search, min_cluster_size, \
max_iter, tol, device, dtype, n_jobs, verbose, random_state
        As for :class:`MTVClustering`.
    smoothing : int, default None
        As for :class:`MTVClustering`; "auto" is for clusters alone, which can be looked at without labels.
    must_link : array-like of shape (n_pairs, 2), or list of groups, default None
        Points that get one label, as for :class:`MTVClustering`. Labels in y that contradict a link are refused.
    class_prior : "auto", array-like of shape (n_classes,) or None, default "auto"
        The share of all points that each class is expected to hold, in the order of `classes_`; the shares sum to 1.
        "auto" estimates them from how the labels spread over the graph, and takes equal shares where the labels are
        too few to tell; None expects equal shares. Do not count the given labels to get them, unless they were drawn
        at random.
    init : {"auto", "multilevel", "ncut-seeds", "ncut", "random"} or array (n_samples, n_classes), default "auto"
        Where runs start. With labels every name means the same: the known labels spread over the graph by (I + L)⁻¹.
        An array is your own start, one row for each point; the rows of labelled points are replaced by their labels.
    n_init : int or "auto", default "auto"
        How many starts to make. The labels fix the start, so "auto" is 1.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels that were given, sorted. A class without a label is never predicted.
    class_prior_ : ndarray of shape (n_classes,)
        The shares that were used.
    transduction_ : ndarray of shape (n_samples,)
        A label for every point; the known ones are kept.
    memberships_ : ndarray of shape (n_samples, n_classes)
        The relaxed F of Algorithm 1, in the order of `classes_`: rows are ≥ 0 and sum to 1. They are not probabilities.
    confidence_ : ndarray of shape (n_samples,)
        The chance that the label of each point is right, estimated from its neighbourhood and the labels given; 1 where
        the label was given.
    label_quality_ : ndarray of shape (n_samples,)
        How far the neighbours of each labelled point bear its label out: the share of its edge weight that goes to its
        own class, NaN for points without a label. One below ½ may be a mistake.
    disagreement_ : Disagreement or None
        Whether the labels lead far away from the clusters that the graph has without them: `disagreement_.finding()`
        says so in words, and `disagreement_.points` are up to three points whose labels would decide. Computed when it
        is asked for.
    energy_, relaxed_energy_, status_, n_iter_, history_, result_, graph_, nodes_, n_features_in_, feature_names_in_
        As for :class:`MTVClustering`, of `transduction_`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from tautcut import MTVClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> few = np.full(len(y), -1)
    >>> few[:50] = y[:50]
    >>> model = MTVClassifier(random_state=0).fit(X, few)
    >>> bool((model.transduction_ == y).mean() > 0.9)
    True
    """

    class_prior: ArrayLike | Literal["auto"] | None = field(default="auto", kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> MTVClassifier:
        """Label every row of X, or every vertex of the graph X.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or graph
            Features or a graph, as `affinity` says.
        y : array-like of shape (n_samples,), or dict
            The known labels: one entry for each point, with −1, None, NaN or an empty string where it is unknown; or
            a dict of the known ones alone, by the name of the point (see `nodes_`).
        sample_weight : array-like of shape (n_samples,), optional
            How much each point counts in the size of its class, as for :class:`MTVClustering`.
        """
        if y is None:
            raise InputError("MTVClassifier requires y to be passed, but the target y is None.")
        rng = generator(self.random_state)
        smoothing = _checked_smoothing(self.smoothing)
        given, kinds = self._graph_of(X, rng)
        graph = self._to_be_cut(given, kinds, sample_weight, smoothing)
        self._unsmoothed = None if smoothing is None else _weighed(given, kinds, None, "size")
        self.classes_, codes = encode_labels(in_order(y, self.nodes_), graph.n_vertices)
        result = self._run(self._search_of(graph, codes), rng)
        self.class_prior_ = result.problem.shares
        self.transduction_ = self.classes_[result.partition.labels]
        return self

    def _search_of(self, graph: Graph, codes: IntArray) -> Callable[..., Result]:
        """The search for a class of every vertex, from these labels."""
        given = (graph, codes, self.classes_.size)
        if self._groups is None:
            return partial(transduce, *given, class_prior=self.class_prior, unsmoothed=self._unsmoothed)
        names = {"nodes": self.nodes_, "classes": self.classes_.tolist()}
        return partial(
            transduce_linked, *given, self._groups, class_prior=self.class_prior, unsmoothed=self._unsmoothed, **names
        )

    def predict_proba(self, X: Any) -> FloatArray:
        """The chance of each class, in the order of `classes_`: for new points the mean over their nearest fitted ones.

        Those of the fitted points themselves are `result_.probabilities`; the label's own is `confidence_`.
        """
        return self._mean_of(self._shares_to_ask(), X)

    def _shares_to_ask(self) -> FloatArray:
        check_is_fitted(self, "result_")
        return cast("FloatArray", self.result_.probabilities)

    @property
    def label_quality_(self) -> FloatArray:
        """How far the neighbours of each labelled point bear its label out, shape (n_samples,); NaN without a label.

        The share of the point's edge weight that goes to points of its own class. A label below ½ may be a mistake.
        """
        check_is_fitted(self, "result_")
        problem = self.result_.problem
        return label_quality(problem.graph, self.result_.partition.labels, problem.labels)

    def estimate_accuracy(self, n_folds: int = 5) -> AccuracyEstimate:
        """Which share of the points without a given label is right, and an interval: when to stop labelling.

        Each fifth of the given labels is held back once, and guessed by a fit on the others; a class keeps one label at
        least. Labels drawn at random give an honest estimate. Those of points that were chosen because they are hard
        give too low a one.

        Parameters
        ----------
        n_folds : int, default 5
            Into how many parts the labels are divided: so many fits it takes.
        """
        check_is_fitted(self, "result_")
        given = self.result_.problem.labels
        n_right = n_wrong = 0
        for few in held_back(given, self._groups, whole_number("n_folds", n_folds, least=2)):
            found = self._search_of(self.graph_, few)(plan=self._plan(), rng=generator(self.random_state))
            is_right = (found.partition.labels == given)[(given >= 0) & (few < 0)]
            n_right, n_wrong = n_right + int(is_right.sum()), n_wrong + int((~is_right).sum())
        return estimated_accuracy(self.result_, n_right=n_right, n_wrong=n_wrong, worth=HELD_BACK_WORTH)

    def query(self, n_points: int = 1) -> IntArray:
        """The points to label next, the most telling first; as :func:`tautcut.next_to_label` chooses them.

        They are numbers of rows or vertices, whatever the points are called in `nodes_`. Of points that stay together,
        by `must_link` or as copies, at most one is asked for, and none where one has a label.

        Parameters
        ----------
        n_points : int
            How many, at most as many as have no label.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = MTVClassifier(random_state=0).fit(X, np.where(np.arange(len(y)) < 20, y, -1))
        >>> ask = model.query(10)
        >>> bool((ask >= 20).all())
        True
        """
        check_is_fitted(self, "result_")
        if self._acquisition is None:
            self._acquisition = Acquisition(self.graph_, rng=generator(self.random_state), groups=self._groups)
        return self._acquisition.next(self.result_.problem.labels, n_points)

    @property
    def disagreement_(self) -> Disagreement | None:
        """Whether the given labels disagree with the clusters that the graph has without them.

        Computed when it is asked for, by a short search without labels; None with a single class, with three labels per
        class or more, and after an interrupt.
        """
        check_is_fitted(self, "result_")
        self._disagreement = self._disagreement or disagreement_of(self.result_, self._groups)
        return self._disagreement

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of right predictions on X; rows whose label is unknown (−1, None, NaN, "") do not count."""
        from sklearn.metrics import accuracy_score

        target, known = target_of(y)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        predicted = self.predict(X)
        check_consistent_length(predicted, target)
        return float(accuracy_score(class_values(target[known]), predicted[known], sample_weight=weights))

    def _names(self) -> Array:
        return self.classes_


def _checked_smoothing(smoothing: object, otherwise: str = "") -> int | None:
    """How many neighbours a walk is to join each vertex to."""
    return None if smoothing is None else whole_number("smoothing", smoothing, otherwise=f"{otherwise} or None")


def _warn_of_columns(X: Any, names: Sequence[object] | None) -> None:
    """Say so where a few columns carry nearly all distances; the estimators scale nothing."""
    found = carriers(X[:: -(-X.shape[0] // _SAMPLED_ROWS)])
    if found is not None and found.are_too_few:
        message = (
            f"{found.sentence(names)}, so the others hardly count. Scale X first, e.g. by "
            "sklearn.preprocessing.StandardScaler, unless its columns share a unit."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


def _warn_of_copies(n_copied: int, n: int, k: int) -> None:
    """Say so where many points coincide with all of their neighbours."""
    if n_copied > NOTICEABLE * n:
        message = (
            f"{n_copied} of the {n} points have {k} or more duplicates: which of these are joined, and where a cut may "
            "run between them, is arbitrary. Use duplicates='merge', or raise n_neighbors above their number."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


def _warn_of_pieces(graph: Graph, *, is_given: bool) -> None:
    n_isolated = int((np.diff(graph.indptr) == 0).sum())
    n_components = graph.components()[0]
    if n_isolated:
        message = f"{n_isolated} of the {graph.n_vertices} vertices are isolated; their labels are arbitrary."
        warnings.warn(message, GraphWarning, stacklevel=4)
    if n_components - n_isolated > 1:
        beside = " beside the isolated vertices" if n_isolated else ""
        mend = "Add edges" if is_given else "Raise n_neighbors"
        message = (
            f"the graph has {n_components - n_isolated} components{beside}; no cut is needed between them. "
            f"{mend}, or cluster them apart, if that is not meant."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


def _weighed(graph: Graph, kinds: IntArray | None, sample_weight: ArrayLike | None, balance: str) -> Graph:
    """The graph of all points with their masses: the graph's own, times the weights, times the degrees if asked.

    `kinds` says which vertex of the graph each point is, where copies were merged.
    """
    masses = graph.by_volume().masses if balance == "volume" else graph.masses
    if kinds is not None:
        graph, masses = tie_copies(graph, kinds), masses[kinds]
    if sample_weight is not None:
        masses = masses * _weights_of_points(sample_weight, graph.n_vertices)
    return graph if masses is graph.masses else graph.with_masses(masses)


def _weights_of_points(sample_weight: ArrayLike, n_points: int) -> FloatArray:
    """A weight for each point; that of one which is to count for nothing is too small to matter."""
    weights = np.asarray(sample_weight)
    if weights.shape == (n_points,) and weights.dtype.kind in "biuf" and (weights >= 0).all() and (weights == 0).any():
        if not weights.any():
            raise InputError(f"all {n_points} entries of sample_weight are zero. Give at least one point some weight.")
        weights = np.where(weights > 0, weights, _NOTHING * weights[weights > 0].mean())
    return vertex_masses(weights, n_points, name="sample_weight")


def _weighted_mean(X: Any, memberships: FloatArray) -> FloatArray:
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
