"""The two scikit-learn estimators: thin skins that check what scikit-learn checks, build the graph, hand over to the
search and keep what comes back, `result_`. No algorithm lives here.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from tautcut.algorithm.observers import ProgressBar
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import FloatArray, IntArray
from tautcut.checks import UNLABELLED, RandomState, cluster_count, generator, one_of
from tautcut.errors import GraphWarning, InputError
from tautcut.graph import Graph
from tautcut.graph.adapters import vertex_names
from tautcut.graph.diagnostics import Diagnosis
from tautcut.graph.neighbors import Metric, Weights, nearest, neighbor_graph
from tautcut.kernels.devices import exact_finder, resolved
from tautcut.problem import Problem, lam_of_prior
from tautcut.search.driver import best_of_starts
from tautcut.search.plan import Plan

AFFINITIES = ("knn", "precomputed")


class _MTVEstimator(BaseEstimator):
    """What the two estimators share: the knobs, the graph, the run, the page, and memberships of new points."""

    nodes_: Sequence[Any]
    result_: Result

    def __init__(
        self,
        *,
        affinity: Literal["knn", "precomputed"] = "knn",
        n_neighbors: int = 10,
        metric: Metric = "euclidean",
        weights: Weights = "binary",
        class_prior: ArrayLike | None = None,
        init: str | ArrayLike = "auto",
        n_init: int | Literal["auto"] = "auto",
        algorithm: Literal["fast", "paper"] = "fast",
        search: Literal["short", "thorough", "none"] = "short",
        min_cluster_size: int | None = None,
        max_iter: int = 2000,
        tol: float = 1e-4,
        device: str = "cpu",
        dtype: Literal["float32", "float64"] = "float32",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights
        self.class_prior = class_prior
        self.init = init
        self.n_init = n_init
        self.algorithm = algorithm
        self.search = search
        self.min_cluster_size = min_cluster_size
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _graph_of(self, X: Any, rng: np.random.Generator) -> Graph:
        """The graph that X is, or the nearest-neighbour graph of its rows."""
        names = vertex_names(X)
        if one_of("affinity", self.affinity, AFFINITIES) == "precomputed":
            graph = Graph.from_any(X)
            self.n_features_in_ = graph.n_vertices
        else:
            X = validate_data(self, X, accept_sparse="csr", ensure_min_samples=2, dtype="numeric")
            # From the generator's own seed, which fixes the neighbours then, and takes nothing from the starts.
            seeded = np.random.default_rng(rng.bit_generator.seed_seq.generate_state(4))
            graph, _ = neighbor_graph(
                X, _affordable_neighbors(self.n_neighbors, X.shape[0]), metric=self.metric, weights=self.weights,
                random_state=seeded, finder=exact_finder(self.device),
            )  # fmt: skip
            self._X_fit = X
        _warn_of_pieces(graph)
        self.nodes_ = range(graph.n_vertices) if names is None else names
        return graph

    def _fit_problem(self, problem: Problem, rng: np.random.Generator) -> Result:
        plan = Plan(
            init=self.init, n_init=self.n_init, algorithm=self.algorithm, search=self.search,
            min_cluster_size=self.min_cluster_size, stop=StopRule(tol=self.tol, max_iter=self.max_iter),
            device=self.device, dtype=self.dtype, n_jobs=self.n_jobs,
        )  # fmt: skip
        with ExitStack() as stack:
            bars = [stack.enter_context(ProgressBar(resolved(self.device)))] if self.verbose else []
            result = best_of_starts(problem, plan, rng=rng, observers=bars)
        self.result_ = result
        self.graph_ = problem.graph
        self.memberships_ = result.memberships
        self.energy_ = result.partition.energy
        self.relaxed_energy_ = result.relaxed_energy
        self.status_ = result.status
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        return result

    @property
    def confidence_(self) -> FloatArray:
        """How firmly the neighbours of each point agree on its label, from 0 to 1, shape (n_samples,)."""
        check_is_fitted(self, "result_")
        return self.result_.confidence

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Sequence[object] | NDArray[Any] | None = None,
        features: Any = None,
        feature_names: Sequence[object] | None = None,
        images: ArrayLike | None = None,
        diagnosis: Diagnosis | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write a page to look at, one HTML file: what was found, how firmly, on what graph, and how to repeat it.

        Parameters
        ----------
        path : path-like
            Ends in .html or .htm; replaced only once the page is complete.
        ids : sequence of length n_samples, optional
            What each point is called; by default the names in `nodes_`.
        features : array or scipy sparse matrix of shape (n_samples, n_features), optional
            The page names the features that set each cluster apart; by default those that the model was fitted on.
        feature_names : sequence of length n_features, optional
            By default the columns of the frame that the model was fitted on.
        images : array-like of shape (n_samples, height, width), optional
            Thumbnails of representative and of doubtful points.
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
        return write_page(
            path, self.result_, ids=self.nodes_ if ids is None else ids, features=features, feature_names=names,
            images=images, diagnosis=diagnosis, settings=self._changed_params() if settings is None else settings,
            names=self._cluster_names(),
        )  # fmt: skip

    def _changed_params(self) -> dict[str, Any]:
        """The parameters that differ from their defaults, and how the model is called."""
        defaults = type(self)().get_params()
        changed = {name: value for name, value in self.get_params().items() if np.any(value != defaults[name])}
        return {"model": type(self).__name__, **changed}

    def _cluster_names(self) -> Sequence[Any]:
        return range(self.result_.problem.n_clusters)

    def _memberships_of(self, X: Any) -> FloatArray:
        """Memberships of new points: the mean over their nearest neighbours in the training data.

        With `affinity="precomputed"`, X holds the (n_new, n_train) similarities, and they weight the mean.
        """
        check_is_fitted(self, "memberships_")
        if self.affinity == "precomputed":
            return _weighted_mean(X, self.memberships_)
        X = validate_data(self, X, accept_sparse="csr", reset=False, dtype="numeric")
        n_train = self.memberships_.shape[0]
        k = _affordable_neighbors(self.n_neighbors, n_train)
        neighbors, _ = nearest(self._X_fit, X, k, metric=self.metric)
        return np.asarray(self.memberships_[neighbors].mean(axis=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


class MTVClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, _MTVEstimator):
    """Cluster by Multiclass Total Variation: minimise Σ_r Cut(A_r, A_rᶜ) / min{λ_r |A_r|, |A_rᶜ|}.

    Parameters
    ----------
    n_clusters : int, default 8
        R.
    affinity : {"knn", "precomputed"}, default "knn"
        "knn" builds the nearest-neighbour graph of the rows of X, an array, a scipy sparse matrix or a pandas or
        polars frame; with "precomputed", X is the graph: scipy sparse, dense, a frame, `Graph`, networkx or igraph.
    n_neighbors : int, default 10
        Neighbours of each point, for "knn" and for `predict`.
    class_prior : array-like of shape (n_clusters,), default None
        Expected share π_r of each cluster, λ_r = (1 − π_r)/π_r. None is 1/R each, the paper's λ = R − 1.
    init : {"multilevel", "ncut-seeds", "ncut", "random"} or array of shape (n_samples, n_clusters)
        The starts: a multilevel partition; the paper's procedures (b) and (a); noise; or your own.
    n_init : int or "auto", default "auto"
        Starts; the lowest energy wins. "auto" is 2 to 8 multilevel starts, more on smaller graphs, and 1 of others;
        on a GPU it is 15.
    algorithm : {"fast", "paper"}, default "fast"
        "paper" is Algorithm 1 as printed.
    search : {"short", "thorough", "none"}, default "short"
        The search around the starts: V-cycles, merged and split clusters, combined partitions (decision 0012; on a
        GPU, generations of such partitions, decision 0022).
    min_cluster_size : int, default None
        The search keeps every cluster at least this large. None is a quarter of the expected size.
    max_iter : int, default 2000
        Inner iterations per start.
    tol : float, default 1e-4
        Relative change of the relaxed energy at which a start has converged.
    device : {"cpu", "cuda", "auto", "reference"}, default "cpu"
        "cuda" is an NVIDIA GPU, from neighbours to the search, which there starts from the normalised cut; it needs
        torch. "auto" takes a GPU where there is one, and says so with `verbose=True`. "reference" is the plain float64
        oracle.
    dtype : {"float32", "float64"}, default "float32"
    n_jobs : int, default None
        Starts at a time, as joblib tasks.
    verbose : bool, default False
        Show a progress bar.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    memberships_ : ndarray of shape (n_samples, n_clusters)
        Rows on the simplex; the largest entry is the label's.
    energy_ : float
        (P) of `labels_`.
    relaxed_energy_ : float
    status_ : Status
        Why the run stopped, as a sentence.
    n_iter_ : int
    history_ : tuple of Step
    graph_ : Graph
    nodes_ : sequence of length n_samples
        The names of the rows or vertices: nodes of networkx, names of igraph, the index of pandas, else 0, 1, ….
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X is a frame whose columns have strings for names.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        affinity: Literal["knn", "precomputed"] = "knn",
        n_neighbors: int = 10,
        metric: Metric = "euclidean",
        weights: Weights = "binary",
        class_prior: ArrayLike | None = None,
        init: str | ArrayLike = "auto",
        n_init: int | Literal["auto"] = "auto",
        algorithm: Literal["fast", "paper"] = "fast",
        search: Literal["short", "thorough", "none"] = "short",
        min_cluster_size: int | None = None,
        max_iter: int = 2000,
        tol: float = 1e-4,
        device: str = "cpu",
        dtype: Literal["float32", "float64"] = "float32",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        super().__init__(
            affinity=affinity, n_neighbors=n_neighbors, metric=metric, weights=weights, class_prior=class_prior,
            init=init, n_init=n_init, algorithm=algorithm, search=search, min_cluster_size=min_cluster_size,
            max_iter=max_iter, tol=tol, device=device, dtype=dtype, n_jobs=n_jobs, verbose=verbose,
            random_state=random_state,
        )  # fmt: skip

    def fit(self, X: Any, y: Any = None) -> MTVClustering:
        """Cluster the rows of X, or the vertices of the graph X; y is ignored."""
        R = cluster_count(self.n_clusters)
        rng = generator(self.random_state)
        problem = Problem(self._graph_of(X, rng), R, lam_of_prior(self.class_prior, R))
        self.labels_ = self._fit_problem(problem, rng).partition.labels
        self._n_features_out = problem.n_clusters
        return self

    def labels_by_node(self) -> dict[Any, int]:
        """`labels_` by the names in `nodes_`: what networkx takes as a node attribute.

        Examples
        --------
        >>> import networkx
        >>> from tautcut import MTVClustering
        >>> G = networkx.barbell_graph(4, 0)
        >>> cluster = MTVClustering(2, affinity="precomputed", random_state=0).fit(G).labels_by_node()
        >>> cluster[0] == cluster[3] != cluster[4] == cluster[7]
        True
        """
        check_is_fitted(self, "labels_")
        return _by_node(self.nodes_, self.labels_)

    def predict(self, X: Any) -> IntArray:
        """The cluster of new points: the largest of their memberships."""
        return np.asarray(self._memberships_of(X).argmax(axis=1))

    def transform(self, X: Any) -> FloatArray:
        """The memberships of new points, shape (n_new, n_clusters)."""
        return self._memberships_of(X)


class MTVClassifier(ClassifierMixin, _MTVEstimator):
    """Classify by a few labels: the same energy, minimised over partitions that keep the known labels.

    The knobs are those of :class:`MTVClustering`, without `n_clusters`. With labels, every named `init` is the known
    labels propagated by (I + L)⁻¹.

    Attributes
    ----------
    classes_ : ndarray
        The labels seen, sorted; only these are predicted.
    transduction_ : ndarray of shape (n_samples,)
        A label for every sample; the known ones are kept.
    memberships_, energy_, relaxed_energy_, status_, n_iter_, history_, graph_, nodes_, n_features_in_
        As for :class:`MTVClustering`; the columns of `memberships_` follow `classes_`.

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

    def fit(self, X: Any, y: Any) -> MTVClassifier:
        """Label every row of X, or vertex of the graph X.

        y holds a label for each, −1, None or NaN where it is unknown; or it is a dict of the known ones alone, by the
        name of the vertex (see `nodes_`).
        """
        if y is None:
            raise InputError("MTVClassifier requires y to be passed, but the target y is None.")
        rng = generator(self.random_state)
        graph = self._graph_of(X, rng)
        self.classes_, codes = encode_labels(_in_order(y, self.nodes_), graph.n_vertices)
        R = self.classes_.size
        problem = Problem(graph, R, lam_of_prior(self.class_prior, R), codes)
        self.transduction_ = self.classes_[self._fit_problem(problem, rng).partition.labels]
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of new points: the largest of their memberships."""
        largest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[largest])

    def predict_proba(self, X: Any) -> FloatArray:
        """The memberships of new points, columns in the order of `classes_`."""
        return self._memberships_of(X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of right predictions; a row of X whose label is unknown (−1, None or NaN) does not count."""
        from sklearn.metrics import accuracy_score

        target, known = _target(y)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        predicted = self.predict(X)
        check_consistent_length(predicted, target)
        return float(accuracy_score(_known_labels(target[known]), predicted[known], sample_weight=weights))

    def _cluster_names(self) -> Sequence[Any]:
        names: list[Any] = self.classes_.tolist()
        return names

    def labels_by_node(self) -> dict[Any, Any]:
        """`transduction_` by the names in `nodes_`."""
        check_is_fitted(self, "transduction_")
        return _by_node(self.nodes_, self.transduction_)


def encode_labels(y: Any, n_vertices: int) -> tuple[NDArray[Any], IntArray]:
    """The classes in y, and y as their numbers with −1 where the label is −1, None or NaN."""
    target, known = _target(y)
    if target.size != n_vertices:
        check_consistent_length(target, range(n_vertices))
    classes, codes = np.unique(_known_labels(target[known]), return_inverse=True)
    encoded = np.full(n_vertices, UNLABELLED, dtype=np.int64)
    encoded[known] = codes
    return classes, encoded


def _target(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The labels as a 1-D array, and which of them are known; one has to be."""
    polars = sys.modules.get("polars")
    is_polars = polars is not None and isinstance(y, polars.Series)
    # NumPy would make floats of whole numbers where a polars series has missing values.
    target = np.array(y.to_list(), dtype=object) if is_polars else np.asarray(y)
    if target.ndim == 2 and target.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected.", _conversion_warning(), 4)
        target = target.ravel()
    if target.ndim != 1:
        raise InputError(f"y must be one label per sample; found shape {target.shape}.")
    known = np.array([not _is_unknown(value) for value in target.tolist()], dtype=bool)
    if not known.any():
        raise InputError("y has no labelled point: every label is −1, None or NaN. Give at least one label.")
    return target, known


def _in_order(y: Any, nodes: Sequence[Any]) -> Any:
    """What is in y, with a dict of labels as one label per vertex, None where there is none."""
    if not isinstance(y, Mapping):
        return y
    number = _by_node(nodes, np.arange(len(nodes)))
    target = np.full(len(nodes), None, dtype=object)
    for node, label in y.items():
        if node not in number:
            raise InputError(f"y labels {node!r}, which is no vertex of X; its vertices are {nodes[0]!r} and so on.")
        target[number[node]] = label
    return target


def _by_node(nodes: Sequence[Any], labels: NDArray[Any]) -> dict[Any, Any]:
    """The labels by the names of their vertices."""
    by_node = dict(zip(nodes, labels.tolist(), strict=True))
    if len(by_node) < len(nodes):
        twice = next(node for node, count in Counter(nodes).items() if count > 1)
        raise InputError(f"{twice!r} names more than one vertex. Rename one, or use the labels in their order.")
    return by_node


def _known_labels(known: NDArray[Any]) -> NDArray[Any]:
    """The labels as whole numbers, booleans or strings; a number that is no class is refused."""
    labels = np.array(known.tolist()) if known.dtype == object else known
    n_strings = sum(isinstance(value, str) for value in known.tolist())
    if labels.ndim != 1 or labels.dtype.kind not in "biufUS" or 0 < n_strings < labels.size:
        raise InputError(f"Unknown label type: y must hold numbers or strings, not both; found {known[:5].tolist()}.")
    if labels.dtype.kind == "f":
        is_whole = np.isfinite(labels) & (labels == np.round(labels))
        if not is_whole.all():
            raise InputError(f"Unknown label type: classes must be whole numbers; found {labels[~is_whole][0]} in y.")
    return labels


def _is_unknown(value: Any) -> bool:
    if value is None or value is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    if isinstance(value, str | bytes | bool):
        return False
    return bool(value != value or value == UNLABELLED)


def _conversion_warning() -> type[Warning]:
    from sklearn.exceptions import DataConversionWarning

    warning: type[Warning] = DataConversionWarning
    return warning


def _affordable_neighbors(n_neighbors: int, n_points: int) -> int:
    """n_neighbors, or all other points where there are fewer."""
    if isinstance(n_neighbors, int | np.integer) and n_neighbors >= n_points > 1:
        message = f"n_neighbors={n_neighbors} is more than the other {n_points - 1} points; all of them are used."
        warnings.warn(message, GraphWarning, stacklevel=4)
        return n_points - 1
    return n_neighbors


def _warn_of_pieces(graph: Graph) -> None:
    n_isolated = int((np.diff(graph.indptr) == 0).sum())
    n_components = graph.components()[0]
    if n_isolated:
        message = f"{n_isolated} of the {graph.n_vertices} vertices are isolated; their labels are arbitrary."
        warnings.warn(message, GraphWarning, stacklevel=4)
    if n_components - n_isolated > 1:
        beside = " beside the isolated vertices" if n_isolated else ""
        message = (
            f"the graph has {n_components - n_isolated} components{beside}; no cut is needed between them. "
            "Raise n_neighbors, or cluster them apart, if that is not meant."
        )
        warnings.warn(message, GraphWarning, stacklevel=4)


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
    total = np.asarray(S.sum(axis=1)).ravel()
    mean = np.full((S.shape[0], memberships.shape[1]), 1.0 / memberships.shape[1])
    has_any = total > 0
    mean[has_any] = (S[has_any] @ memberships) / total[has_any, None]
    return mean
