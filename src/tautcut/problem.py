"""What is minimised: the balanced cut (P) of a graph into R clusters. `Problem` holds the graph with its masses, R, one
λ per cluster, the fixed labels and the numerator of the relaxation, and owns the discrete energy (P); `Partition` is a
hard labelling with that energy. Nothing here iterates or relaxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.checks import UNLABELLED, cluster_count, fixed_labels, hard_labels, one_of, whole_labels
from tautcut.errors import InputError
from tautcut.graph import Graph

Numerator = Literal["tv", "laplacian"]

NUMERATORS: tuple[Numerator, ...] = get_args(Numerator)
_EDGES_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class Partition:
    """Hard labels with their energy (P), its R terms and the cluster sizes.

    Attributes
    ----------
    labels : ndarray of int64, shape (n_vertices,)
        The cluster of each vertex, from 0 to R − 1.
    terms : ndarray of float64, shape (R,)
        What each cluster adds to (P); `inf` where it is empty.
    sizes : ndarray of int64, shape (R,)
        How many vertices each cluster has.
    masses : ndarray of float64, shape (R,)
        The mass m(A_r) of each cluster; its size where no masses are given.
    """

    labels: IntArray
    terms: FloatArray
    sizes: IntArray
    masses: FloatArray

    @property
    def energy(self) -> float:
        """(P) = Σ_r Cut(A_r, A_rᶜ) / min{λ_r m(A_r), m(A_rᶜ)}; `inf` if a cluster is empty."""
        return float(self.terms.sum())

    @property
    def has_empty_cluster(self) -> bool:
        return bool((self.sizes == 0).any())


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """Minimise Σ_r Cut(A_r, A_rᶜ) / min{λ_r m(A_r), m(A_rᶜ)} over partitions that respect the fixed labels.

    Parameters
    ----------
    graph : Graph
        The graph whose vertices are to be divided; m(A) adds up their masses, and is |A| where none are given.
    n_clusters : int
        How many clusters there are to be, R, between 1 and the number of vertices.
    lam : array-like of shape (R,), float, or None
        λ_r > 0, one per cluster; a number stands for all of them, None for R − 1, the paper's choice. Use
        `lam_of_prior` to ask for clusters of given shares.
    labels : array-like of shape (n_vertices,), or None
        The cluster of each labelled vertex, −1 for the others. None leaves all of them free.
    numerator : {"tv", "laplacian"}, default "tv"
        T(f) of the relaxation Σ_r T(f_r)/B(f_r): the total variation Σ_{i<j} w_ij |f_i − f_j| of (P-rlx), or
        ‖f‖_Lap = √(Σ_{i<j} w_ij (f_i − f_j)²) of the spectral relaxation (P-rlx2). The latter is there to be compared
        with, on small graphs: only the reference engine has it. Partitions are measured by (P) in either case.

    Examples
    --------
    >>> from tautcut import Graph, Problem
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> Problem(path, 2).partition([0, 0, 1, 1]).energy
    1.0
    """

    graph: Graph
    n_clusters: int
    lam: FloatArray
    labels: IntArray
    numerator: Numerator

    def __init__(
        self,
        graph: Graph,
        n_clusters: int,
        lam: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        numerator: Numerator = "tv",
    ) -> None:
        n, R = graph.n_vertices, cluster_count(n_clusters, graph.n_vertices)
        values = {
            "graph": graph, "n_clusters": R, "lam": lam_vector(lam, R), "labels": fixed_labels(labels, n, R),
            "numerator": one_of("numerator", numerator, NUMERATORS),
        }  # fmt: skip
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def n_vertices(self) -> int:
        return self.graph.n_vertices

    @property
    def total_mass(self) -> float:
        """m(V); the number of vertices where no masses are given."""
        return self.graph.total_mass

    @cached_property
    def is_labelled(self) -> BoolArray:
        """Which vertices are fixed, the set Λ of the paper."""
        return np.asarray(self.labels != UNLABELLED)

    @cached_property
    def has_labels(self) -> bool:
        """Whether any vertex is fixed, and with it the name of a cluster."""
        return bool(self.is_labelled.any())

    @property
    def shares(self) -> FloatArray:
        """1 / (1 + λ_r), scaled to sum one: the share at which each denominator of (P) peaks."""
        return shares_of_lam(self.lam)

    @cached_property
    def median_mass(self) -> FloatArray:
        """m(V) / (λ_r + 1): see `median_mass`."""
        return median_mass(self.total_mass, self.lam)

    def in_means(self, *, of_weights: bool = True) -> tuple[Problem, float]:
        """The same problem with the mean mass, and the mean weight if asked, as units; and the unit of its (P).

        A common factor of all weights, or of all masses, then changes nothing else (decision 0028). Where masses alone
        have a mean of 1, weights are divided by a power of two, which rounds none: (P) would be lost between a tiny
        weight and a tiny mass otherwise. Of the numerator "laplacian", energies are no multiples of a unit of weight,
        so weights stay as they are.
        """
        graph, mass_unit, weight_unit = *self.graph.in_mean_masses(), 1.0
        if self.numerator == "tv" and (of_weights or graph is not self.graph):
            graph, weight_unit = graph.in_mean_weights() if of_weights else graph.in_level_weights()
        if graph is self.graph:
            return self, 1.0
        scaled = Problem(graph, self.n_clusters, self.lam, self.labels, self.numerator)
        return scaled, energy_unit(weight_unit, mass_unit)

    def partition(self, labels: ArrayLike) -> Partition:
        """The partition of these labels, in 0 … R−1, with its energy."""
        hard = hard_labels(labels, self.n_vertices, self.n_clusters)
        return self.measured(hard, cuts(self.graph, hard, self.n_clusters))

    def measured(self, labels: IntArray, cut: FloatArray) -> Partition:
        """The partition of labels whose cuts are known."""
        sizes = np.bincount(labels, minlength=self.n_clusters)
        weighed = self.graph.masses if self.graph.has_masses else None
        masses = (sizes if weighed is None else np.bincount(labels, weighed, self.n_clusters)).astype(np.float64)
        return Partition(labels, balanced_terms(cut, masses, self.lam), sizes, masses)


def energy_unit(weight_unit: float, mass_unit: float) -> float:
    """The unit of (P) where weights and masses have these: a positive number, so that ∞ stays ∞ and 0 stays 0 in it."""
    with np.errstate(over="ignore"):
        ratio = np.float64(weight_unit) / np.float64(mass_unit)
    return float(np.clip(ratio, np.finfo(np.float64).smallest_subnormal, np.finfo(np.float64).max))


def lam_of_prior(class_prior: ArrayLike | None, n_clusters: int) -> FloatArray:
    """λ_r = (1 − π_r) / π_r, for which min{λ_r m(A_r), m(A_rᶜ)} peaks at the share π_r; None is 1/R each."""
    if class_prior is None:
        return np.full(n_clusters, n_clusters - 1.0)
    prior = _per_cluster("class_prior", class_prior, n_clusters)
    if not (prior > 0).all() or abs(prior.sum() - 1) > 1e-6:
        raise InputError(f"class_prior must be positive and sum to 1; {prior.tolist()} sums to {prior.sum():g}.")
    if n_clusters > 1 and prior.max() >= 1:
        raise InputError(f"class_prior leaves nothing for the other clusters: {prior.tolist()}.")
    return (1 - prior) / prior


def shares_of_lam(lam: FloatArray) -> FloatArray:
    """The shares, which sum to one, at which the denominators of (P) peak."""
    peaks = 1.0 / (1.0 + lam)
    return np.asarray(peaks / peaks.sum())


def median_mass(total_mass: float, lam: FloatArray) -> FloatArray:
    """m(V) / (λ_r + 1): med_λ is the largest value such that it and what lies above have more mass (decision 0007).

    A little is added: λ from a prior is rounded, and N·⅓ must not become 0.99…
    """
    return np.minimum(total_mass / (lam + 1.0) * (1 + 1e-12), np.nextafter(total_mass, 0.0))


def balanced_cut_energy(
    W: object, labels: ArrayLike, lam: ArrayLike | None = None, *, masses: ArrayLike | None = None
) -> float:
    """(P) = Σ_r Cut(A_r, A_rᶜ) / min{λ_r m(A_r), m(A_rᶜ)} of any hard partition, each edge counted once.

    Parameters
    ----------
    W : graph or matrix
        Anything that `Graph.from_any` takes.
    labels : array-like of shape (n_vertices,)
        Whole numbers from 0. R is the largest label + 1, or the length of `lam`.
    lam : float or array-like of shape (R,), default R − 1
        λ, one for all clusters or one for each.
    masses : array-like of shape (n_vertices,), optional
        The masses m_i > 0 of the vertices; by default the graph's own, 1 each if W is none that has masses.

    Returns
    -------
    float
        `inf` if a cluster is empty; 0 for a single cluster, which cuts nothing.

    Examples
    --------
    >>> from tautcut import Graph, balanced_cut_energy
    >>> balanced_cut_energy(Graph.from_edges([(0, 1), (1, 2), (2, 3)]), [0, 0, 1, 1])
    1.0
    """
    graph = Graph.from_any(W)
    if masses is not None:
        graph = graph.with_masses(masses)
    whole = whole_labels(labels, graph.n_vertices)
    R = max(int(whole.max()) + 1 if lam is None or np.ndim(lam) == 0 else len(np.asarray(lam)), 1)
    if graph.n_vertices < R:
        return np.inf  # more clusters than vertices: one of them is empty
    return Problem(graph, R, lam).partition(whole).energy


def cuts(graph: Graph, labels: IntArray, n_clusters: int) -> FloatArray:
    """Cut(A_r, A_rᶜ) of each cluster, shape (R,)."""
    cut = np.zeros(n_clusters)
    labels = labels.astype(np.min_scalar_type(n_clusters))  # small, they are found in the cache
    # Some vertices at a time: what is made for their edges stays there too.
    starts = np.searchsorted(graph.indptr, np.arange(0, max(graph.indices.size, 1), _EDGES_AT_A_TIME), side="right") - 1
    for first, last in pairwise([*np.unique(starts).tolist(), graph.n_vertices]):
        edges = slice(graph.indptr[first], graph.indptr[last])
        owner = np.repeat(labels[first:last], np.diff(graph.indptr[first : last + 1]))
        crosses = np.flatnonzero(owner != labels.take(graph.indices[edges]))
        cut += np.bincount(owner[crosses], graph.weights[edges][crosses], n_clusters)
    return cut


def balanced_terms(cut: FloatArray, masses: FloatArray, lam: FloatArray) -> FloatArray:
    """Cut_r / min{λ_r m(A_r), m(A_rᶜ)}; `inf` where a cluster is empty or all there is of several."""
    if masses.size == 1:
        return np.zeros(1)
    with np.errstate(over="ignore"):  # a cut of 1e300 for a share of 1e-300 is as good as infinite
        balance = np.minimum(lam * masses, masses_outside(masses))
        terms: FloatArray = np.divide(cut, balance, out=np.full(masses.size, np.inf), where=balance > 0)
    return terms


def masses_outside(masses: FloatArray) -> FloatArray:
    """m(A_rᶜ) of each cluster, the masses of the others added up: taken off the whole, little would be left of them
    beside a cluster that has nearly all of it.
    """
    before, after = np.cumsum(masses), np.cumsum(masses[::-1])[::-1]
    outside: FloatArray = np.concatenate([[0.0], before[:-1]]) + np.concatenate([after[1:], [0.0]])
    return outside


def expected_masses(masses: FloatArray, shares: FloatArray) -> FloatArray:
    """What each cluster would have if these masses were divided by the shares.

    A vertex that alone has more than a cluster's share leaves the others less to divide.
    """
    R, whole, left = shares.size, float(masses.sum()), 1.0
    for mass in -np.sort(-masses)[: R - 1]:
        if mass * left * R <= whole:
            break
        whole, left = whole - float(mass), left - 1.0 / R
    return shares * (whole / left)


def lam_vector(lam: ArrayLike | None, n_clusters: int) -> FloatArray:
    """λ of each cluster, checked: a number stands for all of them, None for R − 1."""
    if lam is None:
        return np.full(n_clusters, n_clusters - 1.0)
    vector = _per_cluster("lam", lam, n_clusters, or_one=True)
    if not np.isfinite(vector).all() or (vector < 0).any() or (n_clusters > 1 and (vector == 0).any()):
        raise InputError(f"lam must be positive and finite; found {vector.tolist()}.")
    return vector


def _per_cluster(name: str, values: ArrayLike, n_clusters: int, *, or_one: bool = False) -> FloatArray:
    """A number for each cluster, in an array of its own; with `or_one`, one number may stand for all."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if or_one and numbers.ndim == 0:
        return np.full(n_clusters, float(numbers))
    if numbers.shape != (n_clusters,):
        also = "a number, or " if or_one else ""
        raise InputError(f"{name} must be {also}{n_clusters} numbers, one per cluster; found {values!r}.")
    return numbers
