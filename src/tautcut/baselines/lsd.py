"""LSD, left-stochastic decomposition: cW ≈ FFᵀ with F ≥ 0 and rows that sum to one, by the multiplicative updates that
all comparisons of it use. This module owns the updates and the scale c; it never normalises the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse.linalg import eigsh

from tautcut.arrays import FloatArray, SparseMatrix
from tautcut.baselines.base import GraphClusterer, largest_membership, starting_memberships
from tautcut.checks import one_of, positive_number, whole_number
from tautcut.graph import Graph

SCALES = ("auto", "pseudo-inverse", "triplets")

_DENSE_LIMIT = 8000  # "auto" inverts W below this number of vertices
_N_TRIPLETS = 30
_SMALL = 200  # up to here a dense decomposition is the faster one
_RANK_TOL = 1e-12  # singular values below this share of the largest are zero up to rounding
_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 4096  # rows updated at a time, so that their buffers stay in the cache
_NEGLIGIBLE = 1e-290  # smaller memberships become zero, before they are subnormal and slow; some recover from 1e-100
_STEPS_BETWEEN_SWEEPS = 50


@dataclass(eq=False, repr=False, kw_only=True)
class LSD(GraphClusterer):
    """Cluster by left-stochastic decomposition: minimise ‖cW − FFᵀ‖²_F over F ≥ 0 with F1 = 1.

    Parameters
    ----------
    n_clusters, random_state
        As for `GraphClusterer`; the seed is that of the normalised cut behind the default start.
    init : array-like of shape (n_vertices, n_clusters), default None
        The start, ≥ 0; its rows are scaled to sum one. A zero stays zero, so add 0.2 to an indicator. None is the
        indicator of the normalised cut plus 0.2.
    max_iter : int, default 10000
        Steps; there is no other stop.
    scale : {"auto", "pseudo-inverse", "triplets"} or float, default "auto"
        c: |1ᵀW⁺1|/R, or its estimate from the 30 largest singular triplets, or a number (several starts on one graph
        share `scale_`). "auto" is the pseudo-inverse below 8000 vertices and the triplets from there on.

    Attributes
    ----------
    labels_ : ndarray of int64, (n_vertices,)
        A cluster may be empty, and the label of an isolated vertex means nothing.
    memberships_ : ndarray of float64, (n_vertices, n_clusters)
        F. Its rows sum to one at the limit, not on the way.
    objective_ : float
        ‖cW − FFᵀ‖²_F.
    scale_ : float
        The scale c of W that was used.
    n_iter_ : int
        Steps that were taken.

    References
    ----------
    R. Arora, M. R. Gupta, A. Kapila, M. Fazel, "Clustering by left-stochastic matrix factorization", ICML 2011.

    Examples
    --------
    >>> from tautcut import Graph, purity
    >>> from tautcut.baselines import LSD
    >>> triangles = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
    >>> purity(LSD(n_clusters=2, max_iter=100, random_state=0).fit_predict(triangles), [0, 0, 0, 1, 1, 1])
    1.0
    """

    init: ArrayLike | None = None
    max_iter: int = 10_000
    scale: Literal["auto", "pseudo-inverse", "triplets"] | float = "auto"

    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        max_iter = whole_number("max_iter", self.max_iter)
        c = _checked_scale(self.scale, graph, n_clusters, rng)
        F = starting_memberships(self.init, graph, n_clusters, rng=rng)
        F /= F.sum(axis=1, keepdims=True)
        cW = c * graph.to_scipy()
        decompose(cW, F, max_iter)
        self.labels_ = largest_membership(F)
        self.memberships_ = F
        self.objective_ = decomposition_error(cW, F)
        self.scale_ = c
        self.n_iter_ = max_iter


def decompose(cW: SparseMatrix, F: FloatArray, n_steps: int) -> None:
    """Overwrites F, rows summing to one, by `n_steps` multiplicative steps down ‖cW − FFᵀ‖².

    The gradient is 4(Q − N), Q = F(FᵀF), N = cWF. With a_i = Σ_r F_ir/Q_ir and b_i = Σ_r F_ir N_ir/Q_ir a step is

        F_ir ← F_ir (a_i N_ir + 1) / (a_i Q_ir + b_i),

    whose fixed points satisfy the constraint and the optimality conditions.
    """
    for step in range(1, n_steps + 1):
        N = np.asarray(cW @ F)
        gram = F.T @ F + _EPS  # rows of F sum to about one, so Q is raised by eps: 0/0 cannot occur
        for first in range(0, F.shape[0], _BLOCK):
            _update_rows(F[first : first + _BLOCK], N[first : first + _BLOCK], gram)
        if step % _STEPS_BETWEEN_SWEEPS == 0:
            F[F < _NEGLIGIBLE] = 0.0


def _update_rows(F: FloatArray, N: FloatArray, gram: FloatArray) -> None:
    """One step on some rows; overwrites F and N."""
    ones = np.ones(F.shape[1])
    Q = F @ gram
    quotient = F / Q
    inverse_a = 1.0 / (quotient @ ones)
    quotient *= N
    Q += (inverse_a * (quotient @ ones))[:, None]
    N += inverse_a[:, None]
    N /= Q
    F *= N


def decomposition_error(cW: SparseMatrix, F: FloatArray) -> float:
    """‖cW − FFᵀ‖²_F, without the dense product."""
    gram = F.T @ F
    cross = np.vdot(F, np.asarray(cW @ F))
    return float(np.vdot(cW.data, cW.data) - 2.0 * cross + np.vdot(gram, gram))


def _checked_scale(scale: object, graph: Graph, n_clusters: int, rng: np.random.Generator) -> float:
    if not isinstance(scale, str):
        return positive_number("scale", scale, or_zero=True, otherwise=f", or one of {', '.join(SCALES)}")
    one_of("scale", scale, SCALES, otherwise=", or a number ≥ 0")
    is_dense = scale == "pseudo-inverse" or (scale == "auto" and graph.n_vertices < _DENSE_LIMIT)
    W = graph.to_scipy()
    return (_sum_of_inverse(W) if is_dense else _sum_of_leading_inverse(W, rng)) / n_clusters


def _sum_of_inverse(W: SparseMatrix) -> float:
    """|1ᵀW⁺1|. W is indefinite, so the sum can be negative."""
    has_edge = np.diff(W.indptr) > 0  # isolated vertices add nothing, and would make W singular
    dense = W[has_edge][:, has_edge].toarray()
    n = dense.shape[0]
    if n == 0:
        return 0.0
    factors, pivots, info = scipy.linalg.lapack.dgetrf(dense)
    rcond = scipy.linalg.lapack.dgecon(factors, np.abs(dense).sum(axis=0).max())[0] if info == 0 else 0.0
    if rcond > _RANK_TOL:  # then no singular value is below the cutoff, and W⁺ = W⁻¹
        return abs(float(scipy.linalg.lapack.dgetrs(factors, pivots, np.ones(n))[0].sum()))
    values, vectors = scipy.linalg.eigh(dense, overwrite_a=True, driver="evd")  # exact zeros stay nearest to zero
    return abs(_sum_over_pairs(values, vectors))


def _sum_of_leading_inverse(W: SparseMatrix, rng: np.random.Generator) -> float:
    """Σ_t (1ᵀu_t)²/s_t over the 30 largest singular triplets; u_t are eigenvectors, and s_t = |λ_t|."""
    n = W.shape[0]
    if n <= _SMALL:
        values, vectors = scipy.linalg.eigh(W.toarray())
        leading = np.argsort(-np.abs(values))[:_N_TRIPLETS]
        values, vectors = values[leading], vectors[:, leading]
    elif W.nnz:
        values, vectors = eigsh(W, _N_TRIPLETS, which="LM", v0=rng.standard_normal(n), tol=1e-6)
    else:
        return 0.0
    return _sum_over_pairs(np.abs(values), vectors)


def _sum_over_pairs(values: FloatArray, vectors: FloatArray) -> float:
    """Σ_t (1ᵀu_t)²/λ_t, without the eigenvalues that are zero up to rounding."""
    magnitude = np.abs(values)
    is_kept = magnitude > _RANK_TOL * magnitude.max()
    return float((vectors.sum(axis=0)[is_kept] ** 2 / values[is_kept]).sum())
