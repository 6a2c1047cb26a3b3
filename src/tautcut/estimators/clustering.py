"""`MTVClustering`: a given number of clusters, smoothed or not. How the search goes is decided in `search`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import CUT_SHORT
from tautcut.arrays import FloatArray
from tautcut.checks import cluster_count, generator
from tautcut.estimators.entrance import checked_smoothing
from tautcut.estimators.shared import MTVEstimator
from tautcut.graph import Graph
from tautcut.problem import Problem, lam_of_prior
from tautcut.search.clarity import is_clear
from tautcut.search.driver import best_of_starts
from tautcut.search.links import best_of_linked

TRIED_SMOOTHING = 30  # neighbours of the walk's graph that smoothing="auto" tries


@dataclass(eq=False, repr=False)
class MTVClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, MTVEstimator):
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
        How many starts to make; the partition of the lowest energy wins. "auto" takes 16 starts on small graphs, 4 to
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
        does not. None is a quarter of the expected size; or down to a twentieth, where smaller clusters stand so much
        apart that the energy is less than half with them. Without a search it has no effect, but one that is missed
        is warned of, as always.
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
        smoothing = TRIED_SMOOTHING if is_tried else checked_smoothing(self.smoothing, ', "auto"')
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
