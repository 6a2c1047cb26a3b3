"""`MTVClassifier`: a label for every point from a few labelled ones, and what may be asked of it: how sure it is, which
labels to doubt, which point to label next. How labels spread is decided in `search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from tautcut.acquisition import Acquisition
from tautcut.algorithm.results import Result
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.checks import generator, whole_number
from tautcut.errors import InputError
from tautcut.estimators.entrance import checked_smoothing, weighed
from tautcut.estimators.shared import MTVEstimator
from tautcut.graph import Graph
from tautcut.search.certainty import HELD_BACK_WORTH, AccuracyEstimate, estimated_accuracy, held_back, label_quality
from tautcut.search.disagreement import Disagreement, disagreement_of
from tautcut.search.links import transduce_linked
from tautcut.search.transduction import transduce
from tautcut.targets import class_values, encode_labels, in_order, target_of


@dataclass(eq=False, repr=False)
class MTVClassifier(ClassifierMixin, MTVEstimator):
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
        smoothing = checked_smoothing(self.smoothing)
        given, kinds = self._graph_of(X, rng)
        graph = self._to_be_cut(given, kinds, sample_weight, smoothing)
        self._unsmoothed = None if smoothing is None else weighed(given, kinds, None, "size")
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
