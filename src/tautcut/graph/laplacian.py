"""What is computed with the Laplacian: the R-way normalised cut with the Yu-Shi discretisation, the diffusion (I + L)⁻¹
of indicator columns, the harmonic extension of labels, the walk that begins at them, and which vertices are in the
middle of their parts. All of them first divide the weights by their mean, so that none depends on their unit. This
module never sees an energy or a problem.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph

Eigenpairs = tuple[FloatArray, FloatArray]  # values in decreasing order; vectors as columns

_STEPS_WITHIN = 10  # of a walk that stays in its part (decision 0048)
_OFFSET = 0.5  # the regularisation of the published Ncut program
_NEGLIGIBLE_WEIGHT = 1e-6  # relative to the mean weight
_LEAST_WEIGHT = 1e-100  # relative to the mean weight: neither products nor inverses of such weights overflow
_EIGEN_TOL = 1e-6
_MAX_RESTARTS = 300  # of the Lanczos process; SciPy's default, 10 N, could run for hours
_DENSE_SIZE = 200  # below it a dense decomposition is faster than Lanczos
_DENSE_RESCUE_SIZE = 2000  # up to here a dense decomposition takes about a second
_SUBSPACE_ROUNDS = 100
_PROCRUSTES_ROUNDS = 20
_EIGSH_TAKES_RNG = "rng" in inspect.signature(eigsh).parameters  # SciPy 1.17 and later

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class System:
    """A X = B, where A = diag(diagonal) − W, in the rows whose `scale` is not 0; in the others X stays as it is.

    W is in CSR, as the graph has it: nothing of its size is made for a system. `scale` is the preconditioner, one over
    the diagonal.
    """

    indptr: IntArray
    indices: Array
    weights: FloatArray
    diagonal: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, graph: Graph, diagonal: Callable[[FloatArray], FloatArray]) -> System:
        """The system of the weights in units of their mean, whose diagonal follows from the degrees in that unit.

        Where the diagonal is 0 nothing is solved for.
        """
        weights = np.maximum(graph.in_mean_weights()[0].weights, _LEAST_WEIGHT)
        values = diagonal(_row_sums(graph.indptr, weights))
        scale = np.divide(1.0, values, out=np.zeros(values.size), where=values > 0)
        return cls(graph.indptr, graph.indices, weights, values, scale)


#: (system, B, X, tol, max_iter) to X with ‖B − A X‖ ≤ tol ‖B‖ in each column; overwrites X. Without a B, it is 0, and
#: the residual falls to `tol` of the first.
Solver = Callable[[System, FloatArray | None, FloatArray, float, int], FloatArray]


def laplacian(graph: Graph) -> SparseMatrix:
    """The unnormalised Laplacian L = D − W, D = diag(W 1); the row of an isolated vertex is zero."""
    return _laplacian_of(graph.to_scipy())


def centrality_within(graph: Graph, parts: IntArray) -> FloatArray:
    """How near to the middle of its own part each vertex is, shape (n_vertices,); larger is nearer.

    It is where a walk of ten steps that stays in its part ends most often: with D the degrees and W' the edges within
    parts, (I + D^-½ W' D^-½)^10 1. Half of the time the walk rests, or both ends of an edge would take turns.
    """
    scaled, n = graph.in_mean_weights()[0], graph.n_vertices
    scale = np.divide(1.0, np.sqrt(scaled.degrees), out=np.zeros(n), where=scaled.degrees > 0)
    row = np.repeat(np.arange(n), np.diff(graph.indptr))
    is_within = parts[row] == parts[graph.indices]
    within = np.where(is_within, scaled.weights * scale[row] * scale[graph.indices], 0.0)
    walk = sp.csr_matrix((within, graph.indices, graph.indptr), shape=(n, n))
    ends = np.ones(n)
    for _ in range(_STEPS_WITHIN):
        ends += walk @ ends
    return ends


def normalised_cut(graph: Graph, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
    """R-way normalised cut: the discrete partition nearest to the leading eigenvectors.

    With W' = W + ½ I and D' = diag(d + 1), take the R leading eigenvectors U of D'^{-½} W' D'^{-½}, scale the columns
    of V = D'^{-½} U to norm √N, then its rows to norm 1, and solve

        min ‖Y − V Q‖²_F   over indicator matrices Y and orthogonal Q

    by at most 20 rounds of alternating Procrustes. Weights below 1e-6 of their mean are dropped first.

    Parameters
    ----------
    graph : Graph
        Any graph; it may be disconnected or have isolated vertices.
    n_clusters : int
        R, from 1 to the number of vertices.
    rng : numpy.random.Generator
        Picks the first row of Q, and the start of the eigensolver where the vector of ones fails.

    Returns
    -------
    ndarray of int64, (n_vertices,)
        Labels in [0, R). A cluster may be empty. Vertices of components that no leading eigenvector touches have no
        direction in V: they get label 0.

    Notes
    -----
    The same `rng` gives the same labels. Before SciPy 1.17 there is one exception: a large component with very few
    distinct eigenvalues (a star, a complete graph), where ARPACK draws from a stream of its own.

    References
    ----------
    S. X. Yu and J. Shi, "Multiclass spectral clustering", ICCV 2003.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    >>> labels = normalised_cut(graph, 2, rng=np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] == labels[2] != labels[3] == labels[4] == labels[5])
    True
    """
    return nearest_partition(_embed(graph, n_clusters, rng), rng=rng)


def nearest_partition(V: FloatArray, *, rng: np.random.Generator) -> IntArray:
    """The partition whose indicator is nearest to a rotation of V, the columns D'^{-½} U of the normalised cut.

    V has shape (n_vertices, n_clusters) and is not modified; `rng` picks the first row of the rotation.
    """
    V = V * (np.sqrt(len(V)) / np.linalg.norm(V, axis=0))
    norms = np.linalg.norm(V, axis=1, keepdims=True)
    np.divide(V, norms, out=V, where=norms > 0)
    Q = _initial_rotation(V, rng)
    previous = np.inf
    for _ in range(_PROCRUSTES_ROUNDS):
        labels, value, Q = _procrustes_round(V, Q)
        if abs(previous - value) < np.finfo(np.float64).eps:
            break
        previous = value
    return labels


def diffuse(
    graph: Graph, B: FloatArray, *, tol: float = 1e-6, max_iter: int = 50, solver: Solver | None = None
) -> FloatArray:
    """Solve (I + L) X = B, where L is the Laplacian of the weights divided by their mean.

    Conjugate gradients for each column with step lengths of its own, and the Jacobi preconditioner 1/(1 + d), all
    columns advanced together. The exact solution keeps column sums (1ᵀX = 1ᵀB) and signs (B ≥ 0 gives X ≥ 0); at an
    isolated vertex X = B.

    Parameters
    ----------
    graph : Graph
    B : ndarray, (n_vertices, n_columns)
        Right-hand sides; not modified.
    tol : float
        A column is done, and is frozen, once ‖B − (I + L)X‖ ≤ tol ‖B‖ in that column.
    max_iter : int
        Bound on the iterations; the iterate reached there is returned.
    solver : callable, optional
        Conjugate gradients by somebody else, as on several cores.

    Returns
    -------
    ndarray of float64, (n_vertices, n_columns)

    Examples
    --------
    >>> diffuse(Graph.from_edges([(0, 1)]), np.array([[3.0], [0.0]])).round(6).ravel().tolist()
    [2.0, 1.0]
    """
    system = System.of(graph, lambda degrees: degrees + 1.0)
    B = np.ascontiguousarray(B, dtype=np.float64)
    # Starting at the Jacobi step makes the residual of an isolated vertex exactly zero for ever.
    X = system.scale[:, None] * B
    return (solver or _conjugate_gradients)(system, B, X, tol, max_iter)


def harmonic(
    graph: Graph, labels: IntArray, n_classes: int, *, tol: float = 1e-2, max_iter: int = 200,
    solver: Solver | None = None,
) -> FloatArray:  # fmt: skip
    """The harmonic extension of labels: u = e_r where the label is r, and L u = 0 elsewhere.

    u_ir is the chance that a random walk from i meets a label of class r first. By conjugate gradients, as in
    `diffuse`, from the barycentre 1/R, which is kept where no label can be reached.

    Parameters
    ----------
    graph : Graph
    labels : ndarray of int, (n_vertices,)
        The class of each labelled vertex, −1 for the others.
    n_classes : int
        R, the number of columns.
    tol : float
        A column is done once its residual has fallen to this share of the first.
    max_iter : int
        Bound on the iterations.
    solver : callable, optional
        As in `diffuse`.

    Returns
    -------
    ndarray of float64, (n_vertices, n_classes)
        Rows sum to one, up to `tol`.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> harmonic(path, np.array([0, -1, -1, 1]), 2, tol=1e-9)[1].round(3).tolist()
    [0.667, 0.333]
    """
    is_free = labels < 0
    U = np.asarray(labels[:, None] == np.arange(n_classes)).astype(np.float64)
    if not is_free.any():
        return U
    U[is_free] = 1.0 / n_classes
    system = System.of(graph, lambda degrees: np.where(is_free, degrees, 0.0))
    return (solver or _conjugate_gradients)(system, None, U, tol, max_iter)


def walk_from_labels(
    graph: Graph, labels: IntArray, n_classes: int, *, restart: float = 0.01, tol: float = 1e-4, max_iter: int = 300,
    solver: Solver | None = None,
) -> FloatArray:  # fmt: skip
    """How often a random walk from the labels of each class comes by, per degree: (L + restart · D) X = B.

    B_ir is one over the labels of class r where i has that label, and 0 elsewhere. In every connected graph the columns
    of D X have one sum, so that no class has the others' background to overcome, as it has in `harmonic`.

    Parameters
    ----------
    graph : Graph
    labels : ndarray of int, (n_vertices,)
        The class of each labelled vertex, −1 for the others; every class has a label.
    n_classes : int
        R, the number of columns.
    restart : float
        The chance that the walk ends at a step, > 0: the smaller, the further it goes.
    tol : float
        A column is done once its residual has fallen to this share of B. Far from the labels X is small.
    max_iter : int
        Bound on the iterations.
    solver : callable, optional
        As in `diffuse`.

    Returns
    -------
    ndarray of float64, (n_vertices, n_classes)
        Zero where no label can be reached.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> walk_from_labels(path, np.array([0, -1, -1, 1]), 2).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    system = System.of(graph, lambda degrees: np.where(degrees > 0, degrees + restart * degrees, 1.0))
    known = np.flatnonzero(labels >= 0)
    B = np.zeros((labels.size, n_classes))
    B[known, labels[known]] = 1.0 / np.bincount(labels[known], minlength=n_classes)[labels[known]]
    X = system.scale[:, None] * B
    return (solver or _conjugate_gradients)(system, B, X, tol, max_iter)


def _conjugate_gradients(system: System, B: FloatArray | None, X: FloatArray, tol: float, max_iter: int) -> FloatArray:
    """X, changed in place until ‖B − A X‖ ≤ tol ‖B‖ in each column, or until the iterations are spent."""
    n, scale = len(X), system.scale[:, None]
    W = sp.csr_matrix((system.weights, system.indices, system.indptr), shape=(n, n))
    A = sp.csr_matrix(sp.diags((system.scale > 0).astype(np.float64)) @ (sp.diags(system.diagonal) - W))
    residual = -np.asarray(A @ X) if B is None else B - np.asarray(A @ X)
    first = residual if B is None else B
    threshold = np.maximum(tol**2 * column_dots(first, first), rounding_squares(system, X))
    Z = scale * residual
    P = Z.copy()
    rho = column_dots(residual, Z)
    for _ in range(max_iter):
        is_active = column_dots(residual, residual) > threshold
        if not is_active.any():
            break
        AP = np.asarray(A @ P)
        alpha = divide_where(is_active, rho, column_dots(P, AP))
        AP *= alpha
        residual -= AP
        np.multiply(P, alpha, out=Z)  # Z is free here; it serves as the buffer
        X += Z
        np.multiply(residual, scale, out=Z)
        rho_next = column_dots(residual, Z)
        P *= divide_where(is_active, rho_next, rho)
        P += Z
        rho = rho_next
    return X


def column_dots(A: FloatArray, B: FloatArray) -> FloatArray:
    """⟨a_j, b_j⟩ for every pair of columns."""
    return np.asarray(np.einsum("ij,ij->j", A, B), dtype=np.float64)


def rounding_squares(system: System, X: FloatArray) -> FloatArray:
    """(4 ε ‖D X‖)² of each column: a smaller residual is what rounding leaves, and steps along it lead anywhere."""
    squares = np.einsum("i,ij,ij->j", system.diagonal**2, X, X)
    return np.asarray(16 * np.finfo(np.float64).eps ** 2 * squares, dtype=np.float64)


def divide_where(is_active: BoolArray, numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """numerator/denominator in the active columns, 0 in the frozen ones."""
    is_safe = is_active & (denominator > 0)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=is_safe)


def unit_mean_adjacency(graph: Graph, *, negligible: float = 0.0) -> SparseMatrix:
    """W divided by its mean positive weight; weights below `negligible` are dropped then."""
    W = graph.in_mean_weights()[0].to_scipy()
    np.maximum(W.data, _LEAST_WEIGHT, out=W.data)
    if negligible:
        W.data[W.data < negligible] = 0.0
        W.eliminate_zeros()
    return W


def _laplacian_of(W: SparseMatrix) -> SparseMatrix:
    return sp.csr_matrix(sp.diags(row_sums(W)) - W)


def row_sums(W: SparseMatrix) -> FloatArray:
    """W 1, the degrees."""
    return np.asarray(W.sum(axis=1), dtype=np.float64).ravel()


def _row_sums(indptr: IntArray, values: FloatArray) -> FloatArray:
    """The sum of each row of a matrix in CSR."""
    sums, filled = np.zeros(indptr.size - 1), np.flatnonzero(np.diff(indptr))
    if filled.size:
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def _embed(graph: Graph, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """The matrix V = D'^{-½} U of the normalised cut."""
    W = unit_mean_adjacency(graph, negligible=_NEGLIGIBLE_WEIGHT)
    degrees = row_sums(W) + 2 * _OFFSET
    scale = 1.0 / np.sqrt(degrees)
    S = sp.csr_matrix(sp.diags(scale) @ (W + _OFFSET * sp.identity(graph.n_vertices, format="csr")) @ sp.diags(scale))
    bounds = 1.0 - _OFFSET / degrees  # the row sums (d + ½)/(d + 1) of D'^-1 W'
    return np.asarray(scale[:, None] * _leading_eigenvectors(S, bounds, n_clusters, rng))


def _leading_eigenvectors(S: SparseMatrix, bounds: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """The `count` leading eigenvectors of S, (n_vertices, count), each supported on one component.

    Going component by component finds multiple eigenvalues, of which a Krylov space sees one copy. The spectrum of a
    component is at most the largest entry of `bounds` in it (Perron-Frobenius), so components are visited by that
    bound, until the rest cannot contribute.
    """
    n_components, component = connected_components(S, directed=False)
    order = np.argsort(component, kind="stable")
    S = S[order][:, order]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(component, minlength=n_components))))
    ceilings = np.maximum.reduceat(bounds[order], offsets[:-1])
    found: list[tuple[float, int, FloatArray]] = []
    for c in np.argsort(-ceilings, kind="stable"):
        if len(found) == count and found[-1][0] >= ceilings[c] - 1e-12:
            break
        block = S[offsets[c] : offsets[c + 1], offsets[c] : offsets[c + 1]]
        values, vectors = _block_eigenpairs(block, min(count, block.shape[0]), rng)
        for value, vector in zip(values, vectors.T, strict=True):
            found.append((float(value), int(offsets[c]), vector))
        found = sorted(found, key=lambda entry: -entry[0])[:count]
    U = np.zeros((S.shape[0], len(found)))
    for column, (_, first, vector) in enumerate(found):
        U[order[first : first + vector.size], column] = vector
    return U


def _block_eigenpairs(S: SparseMatrix, count: int, rng: np.random.Generator) -> Eigenpairs:
    """The `count` largest eigenvalues of a connected S, in decreasing order, and their eigenvectors."""
    n = S.shape[0]
    if n <= max(_DENSE_SIZE, 2 * count + 1):
        return _dense_eigenpairs(S, count)
    # The vector of ones starts it; a random one where ones is itself an eigenvector (a regular graph).
    image = row_sums(S)
    is_eigenvector = np.ptp(image) <= 1e-8 * np.abs(image).max()
    start = rng.standard_normal(n) if is_eigenvector else np.ones(n)
    # Where the Krylov space is exhausted (a star, a complete graph) ARPACK draws a new direction.
    seed: dict[str, Any] = {"rng": rng} if _EIGSH_TAKES_RNG else {}
    # Long chains and rings have gaps far below 1e-6: a second try asks for less, with a larger basis.
    for n_basis, tol in ((max(35, 2 * count + 1), _EIGEN_TOL), (max(70, 4 * count + 2), 10 * _EIGEN_TOL)):
        limits: dict[str, Any] = {"ncv": min(n_basis, n), "tol": tol, "maxiter": _MAX_RESTARTS}
        try:
            values, vectors = eigsh(S, count, which="LA", v0=start, **limits, **seed)
            return values[::-1], vectors[:, ::-1]
        except ArpackError as failure:
            logger.warning("Lanczos on %d vertices with a basis of %d failed: %s", n, n_basis, failure)
    if n <= _DENSE_RESCUE_SIZE:
        return _dense_eigenpairs(S, count)
    return _subspace_iteration(S, count, rng)


def _dense_eigenpairs(S: SparseMatrix, count: int) -> Eigenpairs:
    n, dense = S.shape[0], S.toarray()
    with suppress(np.linalg.LinAlgError):
        values, vectors = scipy.linalg.eigh(dense, subset_by_index=(n - count, n - 1))
        if values.size == count:
            return values[::-1], vectors[:, ::-1]
    # A part of the spectrum is LAPACK's fastest way and its frailest: it fails, or finds fewer. The whole is neither.
    values, vectors = scipy.linalg.eigh(dense, driver="ev")
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def _subspace_iteration(S: SparseMatrix, count: int, rng: np.random.Generator) -> Eigenpairs:
    """Rayleigh-Ritz pairs after a fixed number of products with I + S: rough, but it cannot fail."""
    X = np.linalg.qr(rng.standard_normal((S.shape[0], count)))[0]
    for _ in range(_SUBSPACE_ROUNDS):
        X = np.linalg.qr(S @ X + X)[0]
    values, rotation = np.linalg.eigh(X.T @ (S @ X))
    return values[::-1], (X @ rotation)[:, ::-1]


def _initial_rotation(V: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rows of V that are as orthogonal as a greedy choice makes them, as columns of Q."""
    rows = V[np.any(V != 0, axis=1)]  # a zero row is orthogonal to all and would be chosen every time
    Q = np.empty((V.shape[1], V.shape[1]))
    Q[:, 0] = rows[rng.integers(rows.shape[0])]
    overlap = np.zeros(rows.shape[0])
    for r in range(1, V.shape[1]):
        overlap += np.abs(rows @ Q[:, r - 1])
        Q[:, r] = rows[np.argmin(overlap)]
    return Q


def _procrustes_round(V: FloatArray, Q: FloatArray) -> tuple[IntArray, float, FloatArray]:
    """Y = the row argmax of V Q, then the best orthogonal Q for that Y: (labels, value, next Q).

    With the singular value decomposition YᵀV = U Σ Zᵀ the value is 2(N − tr Σ), which never increases from round to
    round, and the next Q is Z Uᵀ.
    """
    n, R = V.shape
    labels = np.argmax(V @ Q, axis=1).astype(np.int64)
    Yt = sp.csr_matrix((np.ones(n), (labels, np.arange(n))), shape=(R, n))
    U, sigma, Zt = np.linalg.svd(np.asarray(Yt @ V))
    return labels, float(2.0 * (n - sigma.sum())), (U @ Zt).T
