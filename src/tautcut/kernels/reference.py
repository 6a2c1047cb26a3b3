"""The oracle: every operation of Algorithm 1 in plain float64 NumPy, one formula per function, written to be
read. Every faster engine is tested against this one. Nothing here is tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.kernels.protocol import Measures, StepSizes, gradient_norm
from tautcut.problem import Problem, cuts, energy_unit


def gradient_matrix(graph: Graph) -> sp.csr_matrix:
    """K, one row w_ij (e_i − e_j) per undirected edge (decision 0001), shape (n_edges, n_vertices)."""
    upper = sp.triu(graph.to_scipy(), 1).tocoo()
    rows = np.arange(upper.nnz)
    data = np.concatenate([upper.data, -upper.data])
    where = (np.concatenate([rows, rows]), np.concatenate([upper.row, upper.col]))
    return sp.csr_matrix((data, where), shape=(upper.nnz, graph.n_vertices))


def total_variation(K: sp.csr_matrix, F: FloatArray) -> FloatArray:
    """T(f_r) = ‖K f_r‖₁, shape (R,)."""
    return np.asarray(np.abs(K @ F).sum(axis=0))


def laplacian_norm(K: sp.csr_matrix, F: FloatArray) -> FloatArray:
    """T(f_r) = ‖f_r‖_Lap = ‖K f_r‖₂ of (P-rlx2), shape (R,); K has the rows √w_ij (e_i − e_j)."""
    return np.asarray(np.sqrt(((K @ F) ** 2).sum(axis=0)))


def lambda_median(F: FloatArray, masses: FloatArray, threshold: FloatArray) -> FloatArray:
    """med_λ(f_r): the largest value c of each column with m{f ≥ c} above the `threshold`, m(V) / (λ_r + 1)."""
    order = np.argsort(-F, axis=0, kind="stable")
    mass = np.cumsum(masses[order], axis=0)
    place = np.minimum((mass <= threshold).sum(axis=0), len(F) - 1)
    columns = np.arange(F.shape[1])
    return np.asarray(F[order[place, columns], columns])


def balance(F: FloatArray, masses: FloatArray, lam: FloatArray, median: FloatArray) -> FloatArray:
    """B(f_r) = Σ_i m_i |f_i − med_λ(f_r)|_λ, where |t|_λ is λt for t ≥ 0 and −t below."""
    H = F - median
    return np.asarray(masses @ np.where(H > 0, lam * H, -H))


def tie_value(F: FloatArray, masses: FloatArray, lam: FloatArray, median: FloatArray) -> FloatArray:
    """(m⁻ − λ m⁺) / m⁰, what ∂B assigns to a unit of mass whose value equals the median (Theorem 2)."""
    minus, plus, equal = masses @ (median > F), masses @ (median < F), masses @ (median == F)
    return np.asarray((minus - lam * plus) / equal)


def subgradient(F: FloatArray, masses: FloatArray, lam: FloatArray, median: FloatArray, tie: FloatArray) -> FloatArray:
    """An element of ∂B(f_r) in each column (Theorem 2)."""
    return np.asarray(masses[:, None] * np.where(median < F, lam, np.where(median == F, tie, -1.0)))


def clip_entries(P: FloatArray) -> FloatArray:
    """The nearest duals of ‖·‖₁: every entry in [−1, 1]."""
    return np.asarray(P / np.maximum(np.abs(P), 1.0))


def clip_columns(P: FloatArray) -> FloatArray:
    """The nearest duals of ‖·‖₂: every column in the Euclidean unit ball."""
    return np.asarray(P / np.maximum(np.sqrt((P**2).sum(axis=0)), 1.0))


_LARGEST = float(np.finfo(np.float64).max) / 4  # an entry of a step, so that rows of them can be projected
_ROWS_AT_A_TIME = 4096  # that are projected: what that takes beside them is some six times their size


def project_simplex(X: FloatArray) -> FloatArray:
    """The nearest point of Σ: each row x becomes max(x − t, 0) with t such that the row sums to one.

    If s values exceed t, then t = (their sum − 1) / s, and s is the last for which the s-th largest value exceeds it.
    """
    R = X.shape[1]
    with np.errstate(over="ignore"):
        X = X - X.max(axis=1, keepdims=True)  # shifts t alone, and keeps huge entries exact
    X = np.maximum(X, -2.0)  # t is now −1 or more: what lies below does not count, and could overflow in a sum
    descending = -np.sort(-X, axis=1)
    excess = np.cumsum(descending, axis=1) - 1.0
    support = (descending * np.arange(1, R + 1) > excess).sum(axis=1)
    threshold = excess[np.arange(len(X)), support - 1] / support
    return np.asarray(np.maximum(X - threshold[:, None], 0.0))


def project(X: FloatArray, labels: IntArray) -> FloatArray:
    """The nearest point of C = Σ ∩ Λ: labelled rows are e_r, the others lie on the simplex."""
    F = np.empty(X.shape)
    for begin in range(0, len(X), _ROWS_AT_A_TIME):
        block = slice(begin, begin + _ROWS_AT_A_TIME)
        F[block] = project_simplex(X[block])
    fixed = labels >= 0
    F[fixed] = np.eye(X.shape[1])[labels[fixed]]
    return F


@dataclass
class ReferenceArrays:
    """F, the extrapolated F̄, the F^k of the outer step with its target G, and the duals P of the edges."""

    F: FloatArray
    F_bar: FloatArray
    F_k: FloatArray
    G: FloatArray
    P: FloatArray


class ReferenceKernels:
    """The float64 NumPy engine, and the only one that has both numerators."""

    name = "reference"

    def __init__(self, problem: Problem) -> None:
        self._problem, self._lam = problem, problem.lam
        graph = problem.graph
        weights, self.weight_unit = graph.scaled_weights()
        self._masses, mass_unit = graph.scaled_masses()
        self._median_mass = problem.median_mass / mass_unit
        self._T, self._project_dual = total_variation, clip_entries
        if problem.numerator == "laplacian":  # ‖f‖_Lap is the root of a sum of w_ij (f_i − f_j)², so K has √w_ij
            weights, self.weight_unit = np.sqrt(weights), sqrt(self.weight_unit)
            self._T, self._project_dual = laplacian_norm, clip_columns
        self.unit = energy_unit(self.weight_unit, mass_unit)
        self._K = gradient_matrix(Graph(graph.indptr, graph.indices, weights))
        self.lipschitz = gradient_norm(graph, weights)

    def allocate(self, F: FloatArray) -> ReferenceArrays:
        F = np.array(F, dtype=np.float64)
        P = np.zeros((self._K.shape[0], F.shape[1]))
        return ReferenceArrays(F, F_bar=F.copy(), F_k=F.copy(), G=F.copy(), P=P)

    def measure(self, arrays: ReferenceArrays) -> Measures:
        F = arrays.F
        median = lambda_median(F, self._masses, self._median_mass)
        return Measures(
            T=self._T(self._K, F),
            B=balance(F, self._masses, self._lam, median),
            median=median,
            tie=tie_value(F, self._masses, self._lam, median),
            squared_step=float(((F - arrays.F_k) ** 2).sum()),
        )

    def linearise(self, arrays: ReferenceArrays, measures: Measures, delta: float) -> None:
        V = subgradient(arrays.F, self._masses, self._lam, measures.median, measures.tie)
        with np.errstate(over="ignore"):  # clusters of next to no mass have steps of ∞, which times a tie of 0 are none
            step = np.minimum(delta * measures.E / measures.B, _LARGEST / max(float(abs(V).max()), 1.0))
        arrays.G = arrays.F + V * step
        arrays.F_k = arrays.F.copy()
        arrays.F_bar = arrays.F.copy()

    def iterate(self, arrays: ReferenceArrays, scale: FloatArray, steps: StepSizes) -> None:
        P = arrays.P + steps.sigma * (self._K @ arrays.F_bar) * scale
        arrays.P = self._project_dual(P)
        F_old = arrays.F
        F = F_old - steps.tau * (self._K.T @ arrays.P) * scale
        F = (F + steps.tau * arrays.G) / (1.0 + steps.tau)  # the prox of ‖F − G‖²/2
        arrays.F = project(F, self._problem.labels)
        arrays.F_bar = (1.0 + steps.theta) * arrays.F - steps.theta * F_old

    def harden(self, arrays: ReferenceArrays) -> tuple[IntArray, FloatArray]:
        labels = arrays.F.argmax(axis=1).astype(np.int64)
        return labels, cuts(self._problem.graph, labels, self._problem.n_clusters)

    def memberships(self, arrays: ReferenceArrays, *, previous: bool = False) -> FloatArray:
        return (arrays.F_k if previous else arrays.F).copy()
