"""NMFR, non-negative matrix factorisation of a graph smoothed by random walks. This module owns the smoothing
G = (I − αS)⁻¹, which it applies by products with S and never forms, the multiplicative updates, and the choice of α.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray, RealArray, SparseMatrix
from tautcut.baselines.base import GraphClusterer, indicator, largest_membership, starting_memberships
from tautcut.checks import positive_number, whole_number
from tautcut.graph import Graph

CANDIDATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)

_DEFAULT_ALPHA = 0.8
_DENSE_LIMIT = 8000  # "auto" looks at the spectrum of S below this number of vertices
_CHOICE_ROUNDS = 10
_TOL = 4e-6  # bound on the relative error of G F in a step; the error is about a fifth of it
_FINE_TOL = 1e-12
_PRECISION = np.float32  # of the steps: half the time, and the labels of float64; F stays above eps
_EPS = float(np.finfo(np.float64).eps)


@dataclass(eq=False, repr=False, kw_only=True)
class NMFR(GraphClusterer):
    """Cluster by a non-negative factorisation of A, the sum of α-damped random walks, scaled to sum one.

    With S = D^{-½} W D^{-½} and A = G / 1ᵀG1, G = (I − αS)⁻¹, minimise

        J(F) = −tr(FᵀAF) + 1/(2R) Σ_i (Σ_r F_ir²)²   over F ≥ 0 with FᵀF = I.

    Parameters
    ----------
    n_clusters, random_state
        As for `GraphClusterer`; the seed is that of the normalised cut behind the default start.
    init, max_iter
        As for `LSD`; the rows of a start are left as they are.
    alpha : float or "auto", default 0.8
        α, between 0 and 1. "auto" chooses it by the partition, below 8000 vertices, running `max_iter` steps for each
        choice; it is 0.8 on larger graphs.
    n_products : int, default None
        The most terms of G's series in one step. None is as many as a relative error of 1e-6 takes.

    Attributes
    ----------
    labels_ : ndarray of int64, (n_vertices,)
        A cluster may be empty.
    memberships_ : ndarray of float64, (n_vertices, n_clusters)
        F, positive, of spectral norm 1; its columns are orthogonal only roughly.
    objective_ : float
        The value J(F) that was reached.
    alpha_ : float
        The damping α that was used.
    n_iter_ : int
        Steps, over all choices of α.

    References
    ----------
    Z. Yang, T. Hao, O. Dikmen, X. Chen, E. Oja, "Clustering by nonnegative matrix factorization using graph random
    walk", NIPS 2012.

    Examples
    --------
    >>> from tautcut import Graph, purity
    >>> from tautcut.baselines import NMFR
    >>> triangles = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
    >>> purity(NMFR(n_clusters=2, max_iter=100, random_state=0).fit_predict(triangles), [0, 0, 0, 1, 1, 1])
    1.0
    """

    init: ArrayLike | None = None
    alpha: float | Literal["auto"] = _DEFAULT_ALPHA
    max_iter: int = 10_000
    n_products: int | None = None

    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        max_iter = whole_number("max_iter", self.max_iter)
        n_products = None if self.n_products is None else whole_number("n_products", self.n_products)
        S = normalised_adjacency(graph)
        alphas = _Alphas(self.alpha, S)
        F = starting_memberships(self.init, graph, n_clusters, rng=rng).astype(_PRECISION)
        self.alpha_, self.n_iter_ = 0.0, 0
        for _ in range(_CHOICE_ROUNDS):
            alpha = alphas.best(F)
            if alpha == self.alpha_:
                break
            walk = RandomWalk(S, alpha, n_products=n_products, dtype=_PRECISION)
            factorise(walk, F, max_iter)
            self.alpha_, self.n_iter_ = alpha, self.n_iter_ + max_iter
        self.labels_ = largest_membership(F)
        self.memberships_ = F.astype(np.float64)
        self.objective_ = factorisation_value(RandomWalk(S, self.alpha_), self.memberships_)


class RandomWalk:
    """G = (I − αS)⁻¹ as an operator, for a sequence of similar right-hand sides.

    On [−1, 1], which holds the spectrum of S, G is the Chebyshev series

        G = (1 − α²)^{-½} (T_0(S) + 2 Σ_{j≥1} ρ^j T_j(S)),   ρ = α / (1 + √(1 − α²)),

    one product with S per term; ρ = ½ for α = 0.8. It is applied to the residual of a guess from earlier results.

    Parameters
    ----------
    S : csr_matrix of shape (n, n)
        Symmetric, with eigenvalues in [−1, 1].
    alpha : float
        α.
    n_products : int, default None
        The most terms of the series in `smooth`, each a product with S.
    dtype : numpy scalar type, default float64
        Of what it is applied to, and of the result.
    """

    def __init__(
        self,
        S: SparseMatrix,
        alpha: float,
        *,
        n_products: int | None = None,
        dtype: type[np.floating[Any]] = np.float64,
    ) -> None:
        self._root = float(np.sqrt(1.0 - alpha**2))
        self._rho = alpha / (1.0 + self._root)
        self._alpha = alpha
        self._n_products = n_products
        self._stepper = ((2.0 * self._rho) * S).astype(dtype)
        self._recent: list[RealArray] = []
        ones = np.ones((S.shape[0], 1), dtype=dtype)
        self.total = float(self._series(ones, self._degree(_FINE_TOL)).sum())  # 1ᵀG1

    def smooth(self, F: RealArray) -> RealArray:
        """G F for the next F ≥ 0 of a sequence, up to 1e-6; the array is overwritten three calls later."""
        size = float(np.linalg.norm(F))
        guess = self._guess(F)
        residual = np.asarray(self._stepper @ guess)
        residual *= self._alpha / (2.0 * self._rho)
        residual -= guess
        residual += F
        error = float(np.linalg.norm(residual))
        # F ≥ 0 gives G F ≥ F entrywise, hence ‖GF‖ ≥ ‖F‖; near a good guess its own norm is the better bound.
        reach = max(size, float(np.linalg.norm(guess)) - error / (1.0 - self._alpha))
        is_near = error < size
        degree = self._degree(_TOL * reach / max(error, _EPS * reach) if is_near else _TOL)
        if self._n_products is not None:
            degree = min(degree, self._n_products)
        if is_near:
            guess += self._series(residual, degree)
        else:
            guess[:] = self._series(F, degree)
        return guess

    def agreement(self, F: RealArray) -> float:
        """tr(FᵀAF), A = G/1ᵀG1, to the last digits."""
        return float(np.vdot(F, self._series(F, self._degree(_FINE_TOL)))) / self.total

    def _guess(self, F: RealArray) -> RealArray:
        """Y₁ + Y₂ − Y₃ of the last three results, in place of the third.

        The updates alternate about a slow trend; this is exact for any sequence a + bt + c(−1)^t.
        """
        if len(self._recent) < 3:
            guess = np.zeros_like(F)
        else:
            guess = self._recent.pop()
            np.subtract(self._recent[0], guess, out=guess)
            guess += self._recent[1]
        self._recent.insert(0, guess)
        return guess

    def _degree(self, tol: float) -> int:
        """The degree from which on the terms of the series sum to at most `tol` in norm."""
        tail = 2.0 / (self._root * (1.0 - self._rho))  # times ρ^(degree + 1)
        return max(1, int(np.ceil(np.log(tol / tail) / np.log(self._rho))) - 1)

    def _series(self, X: RealArray, degree: int) -> RealArray:
        """The series up to T_degree, applied to X."""
        earlier, term = X.copy(), 0.5 * np.asarray(self._stepper @ X)  # ρ^j T_j(S) X for j = 0, 1
        total = 0.5 * X
        total += term
        for _ in range(degree - 1):
            following = np.asarray(self._stepper @ term)
            earlier *= self._rho**2
            following -= earlier
            total += following
            earlier, term = term, following
        total *= 2.0 / self._root
        return total


def normalised_adjacency(graph: Graph) -> SparseMatrix:
    """S = D^{-½} W D^{-½}; the row of an isolated vertex is zero."""
    degrees = graph.degrees
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    return sp.csr_matrix(sp.diags(scale) @ graph.to_scipy() @ sp.diags(scale))


def factorise(walk: RandomWalk, F: RealArray, n_steps: int) -> None:
    """Overwrites F by `n_steps` multiplicative steps on J.

    With H = ĜF, Ĝ = (R/1ᵀG1) G, and M_ir = (Σ_s F_is²) F_ir a step is

        F ← F ∘ (H + F(FᵀM)) / (M + F(FᵀH)),

    then F ← max(F, eps), and F is divided by its spectral norm. H and M enter divided by R/1ᵀG1, which cancels.
    """
    unit = F.shape[1] / walk.total
    for _ in range(n_steps):
        Y = walk.smooth(F)
        M = F * (np.einsum("ij,ij->i", F, F) / unit)[:, None]
        ratio = F @ (F.T @ M)
        ratio += Y
        M += F @ (F.T @ Y)
        M += _EPS / unit
        ratio /= M
        F *= ratio
        np.maximum(F, _EPS, out=F)
        F /= np.sqrt(np.linalg.eigvalsh(F.T @ F)[-1])


def factorisation_value(walk: RandomWalk, F: FloatArray) -> float:
    """J(F) = −tr(FᵀAF) + 1/(2R) Σ_i (Σ_r F_ir²)²."""
    q = np.einsum("ij,ij->i", F, F)
    return float(np.vdot(q, q) / (2 * F.shape[1])) - walk.agreement(F)


class _Alphas:
    """The choice of α: what the user said, or the candidate for which A is nearest to the partition of F."""

    def __init__(self, alpha: object, S: SparseMatrix) -> None:
        self._fixed: float | None = None
        if not (isinstance(alpha, str) and alpha == "auto"):
            self._fixed = positive_number("alpha", alpha, below=1, otherwise=', or "auto"')
        elif S.shape[0] >= _DENSE_LIMIT:
            self._fixed = _DEFAULT_ALPHA
        else:
            self._S = S
            self._spectrum = np.asarray(scipy.linalg.eigvalsh(S.toarray(), overwrite_a=True), dtype=np.float64)

    def best(self, F: RealArray) -> float:
        if self._fixed is not None:
            return self._fixed
        labels, R = largest_membership(F), F.shape[1]
        misfits = [self.misfit(alpha, labels, R) for alpha in CANDIDATES]
        return CANDIDATES[int(np.argmin(misfits))]

    def misfit(self, alpha: float, labels: IntArray, n_clusters: int) -> float:
        """‖A − UUᵀ/R‖² − ‖UUᵀ/R‖², U the indicator of the clusters with columns of norm one.

        The second norm is the same for all α, and so large that it would hide the differences.
        """
        walk = RandomWalk(self._S, alpha)
        U = indicator(labels, n_clusters)
        U /= np.maximum(np.sqrt(U.sum(axis=0)), 1.0)  # an empty column stays zero
        square = float(((1.0 - alpha * self._spectrum) ** -2.0).sum()) / walk.total**2
        return square - 2.0 / n_clusters * walk.agreement(U)
