"""What NCC-TV and 1SPEC share: the two-class Cheeger cut and its exact relaxation, the dual iteration that solves both
methods' inner problems, the sweep that reads a cut off a function, and the recursion from two classes to R. How the
energy of a function is brought down is left to the methods.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import lobpcg

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray, SparseMatrix
from tautcut.baselines.base import GraphClusterer
from tautcut.checks import one_of
from tautcut.graph import Graph
from tautcut.graph.laplacian import row_sums, unit_mean_adjacency
from tautcut.problem import cuts

WEIGHTS = ("normalised", "ratio")

_NEGLIGIBLE_WEIGHT = 1e-12  # relative to the mean weight
_SMALLEST_LAM = 1e-3  # for a cluster that is no larger than its share: it is cut last
_DENSE_SIZE = 200  # up to here a dense decomposition is the faster one
_EIGEN_TOL = 1e-6
_EIGEN_ITERATIONS = 300


class Relaxation:
    """The exact relaxation of the two-class Cheeger cut of a connected graph.

    E(f) = T(f) / B(f) with T(f) = ‖Kf‖₁ and B(f) = Σ_i θ_i |f_i − med(f)|_λ, where |t|_λ is λt above zero and −t below
    it. Its minimum over non-constant f is that of Cut(A) / min{λθ(A), θ(Aᶜ)} over sets A.

    Parameters
    ----------
    W : csr_matrix of shape (n, n)
    theta : ndarray of shape (n,)
        Vertex weights θ > 0.
    lam : float, default 1
        λ > 0; 1 is the symmetric cut.
    """

    def __init__(self, W: SparseMatrix, theta: FloatArray, lam: float = 1.0) -> None:
        self.K = incidence(W)
        self.theta = theta
        self.lam = lam
        self._below_median = float(theta.sum()) * lam / (1.0 + lam)

    def median(self, f: FloatArray) -> float:
        """The θ-weighted median, one of the values of f: θ(f < m) ≤ λθ(f ≥ m) and λθ(f > m) ≤ θ(f ≤ m)."""
        order = np.argsort(f)
        position = int(np.searchsorted(np.cumsum(self.theta[order]), self._below_median))
        return float(f[order[min(position, f.size - 1)]])

    def centred(self, f: FloatArray) -> FloatArray:
        """Shift f by its median; what lies on the median becomes exactly zero."""
        return f - self.median(f)

    def balance(self, f: FloatArray) -> float:
        """B(f) of a centred f."""
        return float(self.lam * (self.theta @ np.maximum(f, 0.0)) - self.theta @ np.minimum(f, 0.0))

    def energy(self, f: FloatArray) -> float:
        """E(f) of a centred f; `inf` if f is constant."""
        B = self.balance(f)
        T = float(np.abs(np.asarray(self.K @ f)).sum())
        return T / B if B > 0 else np.inf

    def subgradient(self, f: FloatArray) -> FloatArray:
        """A v ∈ ∂B(f) of a centred f with Σ v_i = 0: vertices on the median share what balances the others."""
        v = self.theta * ((f > 0) * self.lam - (f < 0))
        on_median = f == 0
        v[on_median] = self.theta[on_median] * (-v.sum() / self.theta[on_median].sum())
        return v


class Iterate(NamedTuple):
    """A centred function after an outer step, its energy E, and the inner iterations made so far."""

    f: FloatArray
    energy: float
    n_iter: int


class DualAscent:
    """The total-variation proximal map: the u = `target` − Kᵀp of least norm, |p_e| ≤ `radius`.

    Projected gradients with Nesterov's acceleration. The dual p outlives a change of target.
    """

    def __init__(self, K: SparseMatrix) -> None:
        self._K, self._Kt = K, K.T
        self._step = 1.0 / (2.0 * float(np.max(K.power(2).sum(axis=0))))  # ‖K‖² ≤ 2 max_i Σ_j w_ij²
        self._p = np.zeros(K.shape[0])

    def aim(self, target: FloatArray, radius: float) -> None:
        """Begin a new problem at the dual of the last one."""
        self._target, self._radius = target, radius
        self._p = np.clip(self._p, -radius, radius)
        self._q, self._t = self._p.copy(), 1.0

    def run(self, n_steps: int) -> FloatArray:
        """Make `n_steps` more iterations; the u reached."""
        p, q, t = self._p, self._q, self._t
        for _ in range(n_steps):
            p_old, t_old = p, t
            p = np.asarray(self._K @ (self._step * (self._target - self._Kt @ q)))
            p += q
            np.clip(p, -self._radius, self._radius, out=p)
            t = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
            np.subtract(p, p_old, out=q)
            q *= (t_old - 1.0) / t
            q += p
        self._p, self._t = p, t
        return np.asarray(self._target - self._Kt @ p)


@dataclass(frozen=True, eq=False)
class Cluster:
    """A set C of vertices to be cut in two, and what a cut costs.

    The value of A ⊂ C is the larger of (Cut(A, C∖A) + ext(A)) / λθ(A) and (Cut(A, C∖A) + ext(C∖A)) / θ(C∖A). With
    `external` zero, cuts are measured inside C, and the value is Cut / min{λθ(A), θ(C∖A)}; with `external` the weight
    of the edges from each vertex to outside C, they are measured in the whole graph.
    """

    vertices: IntArray
    W: SparseMatrix
    theta: FloatArray
    external: FloatArray
    lam: float = 1.0

    @cached_property
    def degrees(self) -> FloatArray:
        """Degrees inside the cluster."""
        return row_sums(self.W)

    @property
    def quotient(self) -> float:
        """ext(C) / θ(C)."""
        return float(_ratio(self.external.sum(), self.theta.sum()))

    def component(self, members: IntArray) -> Cluster:
        """One connected component of this cluster."""
        W = sp.csr_matrix(self.W[members][:, members])
        return Cluster(self.vertices[members], W, self.theta[members], self.external[members], self.lam)

    def values(self, cut: FloatArray, theta: FloatArray, external: FloatArray) -> FloatArray:
        """The values of sets A of which Cut(A, C∖A), θ(A) and ext(A) are given."""
        inner = _ratio(cut + external, self.lam * theta)
        outer = _ratio(cut + self.external.sum() - external, self.theta.sum() - theta)
        return np.maximum(inner, outer)

    def sweep(self, f: FloatArray) -> tuple[float, BoolArray]:
        """The lowest value of a set {f > t}, and that set; thresholds lie between distinct values."""
        order = np.argsort(-f, kind="stable")
        rank = np.empty(f.size, dtype=np.int64)
        rank[order] = np.arange(f.size)
        i, j, w = _edges(self.W)
        opened = _sums(np.minimum(rank[i], rank[j]), w, f.size)  # one end of the edge joins the set: it is cut
        closed = _sums(np.maximum(rank[i], rank[j]), w, f.size)  # the other end joins as well
        cut = np.maximum(np.cumsum(opened - closed), 0.0)
        values = self.values(cut, np.cumsum(self.theta[order]), np.cumsum(self.external[order]))[:-1]
        values[np.diff(f[order]) == 0] = np.inf
        best = int(np.argmin(values))
        return float(values[best]), rank <= best


@dataclass(frozen=True, eq=False)
class Split:
    """The best cut found of a cluster: its value, the vertices of both sides, the inner iterations made."""

    value: float
    sides: tuple[IntArray, IntArray]
    n_iter: int


# A function on a connected cluster whose level sets cut it well, and the inner iterations made.
Solve: TypeAlias = Callable[[Cluster], tuple[FloatArray, int]]
# The functions of a descent on a connected cluster, of which the last is the best.
Descend: TypeAlias = Callable[[Cluster, Relaxation], Iterator[Iterate]]


@dataclass(eq=False, repr=False, kw_only=True)
class CheegerClusterer(GraphClusterer):
    """Recursive two-class Cheeger cuts, min Cut(A) / min{θ(A), θ(Aᶜ)}; how a cut is found is left to the method.

    Parameters
    ----------
    n_clusters, random_state
        As for `GraphClusterer`.
    weights : {"normalised", "ratio"}, default "normalised"
        θ: degrees, or 1.

    Attributes
    ----------
    labels_ : ndarray of int64, (n_vertices,)
        No cluster is empty.
    objective_ : float
        max_r Cut(A_r) / θ(A_r).
    n_iter_ : int
        Inner iterations, of all cuts tried.
    """

    weights: str = "normalised"

    def _recurse(
        self, graph: Graph, n_clusters: int, descend: Descend, *, is_global: bool, is_asymmetric: bool = False
    ) -> None:
        """Sets the results, each cut read off the last function of a descent."""
        recursion = Recursion(self.weights, is_global, is_asymmetric)

        def solve(cluster: Cluster) -> tuple[FloatArray, int]:
            *_, last = descend(cluster, recursion.relaxation(cluster))
            return last.f, last.n_iter

        self.labels_, self.n_iter_ = recursion.run(graph, n_clusters, solve)
        self.objective_ = multicut_value(graph, self.labels_, self.weights)


@dataclass(frozen=True)
class Recursion:
    """From two classes to R: all clusters are cut tentatively, and the cut of the lowest multi-cut value is kept.

    Parameters
    ----------
    weights : {"normalised", "ratio"}
        θ: degrees, or 1.
    is_global : bool
        Measure cuts in the whole graph, not inside the cluster that is cut.
    is_asymmetric : bool, default False
        Cut off pieces of share 1/R: λ = R θ(C)/θ(V) − 1 in place of 1.
    """

    weights: str
    is_global: bool
    is_asymmetric: bool = False

    def __post_init__(self) -> None:
        one_of("weights", self.weights, WEIGHTS)

    def run(self, graph: Graph, n_clusters: int, solve: Solve) -> tuple[IntArray, int]:
        """Labels in [0, R), each of them used, and the inner iterations made."""
        W = unit_mean_adjacency(graph, negligible=_NEGLIGIBLE_WEIGHT)
        degrees = row_sums(W)
        clusters = [self._cluster(W, degrees, np.arange(graph.n_vertices), n_clusters)]
        splits: list[Split | None] = [None]
        n_iter = 0
        for _ in range(n_clusters - 1):
            tried = [split or cut_in_two(cluster, solve) for cluster, split in zip(clusters, splits, strict=True)]
            n_iter += sum(new.n_iter for new, old in zip(tried, splits, strict=True) if old is None)
            k = _best_split(clusters, tried)
            clusters[k], part = (self._cluster(W, degrees, side, n_clusters) for side in tried[k].sides)
            clusters.append(part)
            splits = [*tried[:k], None, *tried[k + 1 :], None]
        labels = np.empty(graph.n_vertices, dtype=np.int64)
        for r, cluster in enumerate(clusters):
            labels[cluster.vertices] = r
        return labels, n_iter

    def relaxation(self, cluster: Cluster) -> Relaxation:
        """The relaxed problem on a connected cluster, weighted by degrees inside the cluster or by 1."""
        theta = cluster.degrees if self.weights == "normalised" else cluster.theta
        return Relaxation(cluster.W, theta, cluster.lam)

    def _cluster(self, W: SparseMatrix, degrees: FloatArray, vertices: IntArray, n_clusters: int) -> Cluster:
        part = sp.csr_matrix(W[vertices][:, vertices])
        inside, whole = row_sums(part), degrees[vertices]
        external = np.maximum(whole - inside, 0.0) if self.is_global else np.zeros(vertices.size)
        if self.weights == "normalised":
            theta, share = (whole if self.is_global else inside), float(_ratio(whole.sum(), degrees.sum()))
        else:
            theta, share = np.ones(vertices.size), vertices.size / degrees.size
        lam = max(n_clusters * share - 1.0, _SMALLEST_LAM) if self.is_asymmetric else 1.0
        return Cluster(vertices, part, theta, external, lam)


def multicut_value(graph: Graph, labels: IntArray, weights: str) -> float:
    """max_r Cut(A_r) / θ(A_r); for two clusters it is Cut / min{θ(A), θ(Aᶜ)}."""
    theta = graph.degrees if weights == "normalised" else np.ones(graph.n_vertices)
    R = int(labels.max()) + 1
    return float(np.max(_ratio(cuts(graph, labels, R), _sums(labels, theta, R))))


def cut_in_two(cluster: Cluster, solve: Solve) -> Split:
    """The best cut of a cluster. One with several components may be cut along them, or inside the largest."""
    n = cluster.vertices.size
    if n == 1:
        return Split(np.inf, (cluster.vertices, cluster.vertices[:0]), 0)
    n_components, component = connected_components(cluster.W, directed=False)
    if n_components == 1:
        f, n_iter = solve(cluster)
        return _split(cluster, cluster.sweep(f), n_iter)
    candidates = [_component_cut(cluster, n_components, component)]
    largest = np.flatnonzero(component == np.argmax(np.bincount(component)))
    if candidates[0][0] == 0 or largest.size == 1:
        return _split(cluster, candidates[0], 0)
    f, n_iter = solve(cluster.component(largest))
    for elsewhere in (f.min() - 1.0, f.max() + 1.0):  # the other components join one side or the other
        extended = np.full(n, elsewhere)
        extended[largest] = f
        candidates.append(cluster.sweep(extended))
    return _split(cluster, min(candidates, key=lambda candidate: candidate[0]), n_iter)


def second_eigenvector(cluster: Cluster) -> FloatArray:
    """The first non-constant f with (D − W) f = ω Θ f, on a connected cluster; D holds the degrees inside it."""
    n, root = cluster.vertices.size, np.sqrt(cluster.theta)
    scale = sp.diags(1.0 / root)
    A = sp.csr_matrix(scale @ (sp.diags(cluster.degrees) - cluster.W) @ scale)
    if n <= _DENSE_SIZE:
        f = scipy.linalg.eigh(A.toarray(), subset_by_index=(1, 1))[1][:, 0]
    else:
        start = np.random.default_rng(0).standard_normal((n, 1))  # always the same
        limits: dict[str, Any] = {"tol": _EIGEN_TOL, "maxiter": _EIGEN_ITERATIONS, "largest": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it serves as a start, and need not have converged
            f = lobpcg(A, start, M=sp.diags(1.0 / A.diagonal()), Y=root[:, None], **limits)[1][:, 0]
    f = f / root
    is_usable = bool(np.isfinite(f).all()) and np.ptp(f) > 0
    return f if is_usable else np.arange(n, dtype=np.float64)


def incidence(W: SparseMatrix) -> SparseMatrix:
    """K: one row w_ij (e_i − e_j) per undirected edge."""
    i, j, w = _edges(W)
    columns, values = np.stack([i, j], axis=1).ravel(), np.stack([w, -w], axis=1).ravel()
    return sp.csr_matrix((values, columns, np.arange(0, 2 * w.size + 1, 2)), shape=(w.size, W.shape[0]))


def _best_split(clusters: list[Cluster], splits: list[Split]) -> int:
    """The split after which the largest quotient of a cluster is lowest; ties go to the first."""
    quotients = np.array([cluster.quotient for cluster in clusters])
    rest = [np.delete(quotients, k).max(initial=0.0) for k in range(quotients.size)]
    return int(np.argmin(np.maximum([split.value for split in splits], rest)))


def _component_cut(cluster: Cluster, n_components: int, component: NDArray[np.int32]) -> tuple[float, BoolArray]:
    """The best cut along components, and of equals the most even: all of them dealt out, or one against the rest."""
    theta, external = (_sums(component, x, n_components) for x in (cluster.theta, cluster.external))
    dealt = _deal(theta, cluster.lam)
    theta, external = np.r_[theta[dealt].sum(), theta], np.r_[external[dealt].sum(), external]
    values = cluster.values(np.zeros(n_components + 1), theta, external)
    evenness = np.minimum(cluster.lam * theta, cluster.theta.sum() - theta)
    best = int(np.lexsort((-evenness, values))[0])
    return float(values[best]), dealt[component] if best == 0 else component == best - 1


def _deal(theta: FloatArray, lam: float) -> BoolArray:
    """Which components go to the first of two sides: heaviest first, each to the side that has less of its share."""
    is_first = np.zeros(theta.size, dtype=bool)
    first, second = (0.0, 0), (0.0, 0)  # weight, then the count, where components weigh nothing
    for c in np.argsort(-theta, kind="stable"):
        is_first[c] = first <= second
        if is_first[c]:
            first = first[0] + lam * float(theta[c]), first[1] + 1
        else:
            second = second[0] + float(theta[c]), second[1] + 1
    return is_first


def _split(cluster: Cluster, cut: tuple[float, BoolArray], n_iter: int) -> Split:
    value, is_upper = cut
    return Split(value, (cluster.vertices[is_upper], cluster.vertices[~is_upper]), n_iter)


def _edges(W: SparseMatrix) -> tuple[Array, Array, FloatArray]:
    """Each undirected edge once: both ends and the weight."""
    upper = sp.triu(W, 1, format="coo")
    return upper.row, upper.col, upper.data


def _sums(group: Array, values: FloatArray, n_groups: int) -> FloatArray:
    """The sum of the values of each group."""
    return np.bincount(group, values, n_groups).astype(np.float64)


def _ratio(numerator: FloatArray | float, denominator: FloatArray | float) -> FloatArray:
    """numerator/denominator; nothing cut costs nothing, whatever it is divided by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.greater(numerator, 0), np.divide(numerator, denominator), 0.0)
