"""The similarity graph, and the adapters that make one from what users hold: scipy sparse matrices, dense
arrays, edge lists, networkx and igraph graphs. This module owns the validation of weights, done once when a
graph enters; everything below may rely on it. It knows nothing of features or clusters, and never changes
the object it was given.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from tautcut.errors import InputError

if TYPE_CHECKING:
    from tautcut.diagnostics import Diagnosis

Scalar = TypeVar("Scalar", bound=np.generic)

# W_ij and W_ji that differ by no more than this fraction are the same weight up to rounding.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A symmetric, non-negative weighted graph without self-loops, in CSR order.

    Both directions of every edge are stored, neighbours are sorted, no stored weight is zero, and the
    arrays are read-only. Make one by :meth:`from_any` or :meth:`from_edges`, which validate; the plain
    constructor trusts its arrays. The diagonal of W is ignored: a self-loop never crosses a cut.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_vertices + 1,)
    indices : ndarray of int32 (int64 when vertices do not fit), shape (2 * n_edges,)
    weights : ndarray of float64, shape (2 * n_edges,)

    Examples
    --------
    >>> Graph.from_edges([(0, 1), (1, 2)])
    Graph(n_vertices=3, n_edges=2)
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("indptr", "indices", "weights"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))

    def __repr__(self) -> str:
        return f"Graph(n_vertices={self.n_vertices}, n_edges={self.n_edges})"

    def __reduce__(self) -> tuple[type[Graph], tuple[NDArray[Any], ...]]:
        # Rebuilding through the constructor makes the arrays of a copy read-only too.
        return type(self), (self.indptr, self.indices, self.weights)

    @classmethod
    def from_any(cls, obj: object) -> Graph:
        """The graph of a symmetric weight matrix or of a graph object.

        Parameters
        ----------
        obj : Graph, scipy sparse matrix or array, 2-D array-like, networkx graph or igraph graph
            Missing "weight" attributes of networkx and igraph edges count as 1, parallel edges are summed,
            and vertices keep their order. A Graph is returned as it is.

        Raises
        ------
        InputError
            If the weights are not a square, symmetric matrix of finite numbers ≥ 0. Differences between W
            and its transpose of relative size 1e-6 or less are rounding, and are averaged out.

        Examples
        --------
        >>> Graph.from_any([[0, 2], [2, 0]]).weights
        array([2., 2.])
        """
        if isinstance(obj, Graph):
            return obj
        if sp.issparse(obj):
            return _validate(_csr_of_sparse(obj), symmetrise="W.maximum(W.T)")
        networkx, igraph = sys.modules.get("networkx"), sys.modules.get("igraph")
        if networkx is not None and isinstance(obj, networkx.Graph):
            return _validate(_csr_of_networkx(obj, networkx), symmetrise="G.to_undirected()")
        if igraph is not None and isinstance(obj, igraph.Graph):
            return _validate(_csr_of_igraph(obj), symmetrise="G.as_undirected()")
        if isinstance(obj, list | tuple) or hasattr(obj, "__array__"):
            return _validate(_csr_of_dense(obj), symmetrise="np.maximum(W, W.T)")
        raise InputError(
            f"cannot make a graph from {type(obj).__name__!r}. Give a scipy sparse matrix, a square array, "
            "a networkx or igraph graph, or a tautcut Graph."
        )

    @classmethod
    def from_edges(cls, edges: ArrayLike, weights: ArrayLike | None = None, *, n_vertices: int | None = None) -> Graph:
        """The graph of a list of undirected edges.

        Parameters
        ----------
        edges : array-like of integers, shape (m, 2)
            Each undirected edge once, or in both directions. Repeats must carry the same weight and count
            once; self-loops are dropped.
        weights : array-like, shape (m,), optional
            One weight per row of `edges`; 1 each by default.
        n_vertices : int, optional
            The number of vertices; the largest vertex number plus one by default.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 0), (1, 2)], [0.5, 0.5, 1.0], n_vertices=4)
        Graph(n_vertices=4, n_edges=2)
        """
        pairs = _edge_array(edges)
        values = np.ones(len(pairs)) if weights is None else _real(weights, "weights")
        if values.shape != (len(pairs),):
            raise InputError(f"weights must have one value per edge: shape ({len(pairs)},), not {values.shape}.")
        n = _vertex_count(pairs, n_vertices)
        pairs, values = _merge_repeats(pairs, values)
        i, j = pairs.T
        both = sp.coo_matrix((np.r_[values, values], (np.r_[i, j], np.r_[j, i])), shape=(n, n))
        return _validate(both.tocsr(), symmetrise="W.maximum(W.T)")

    @property
    def n_vertices(self) -> int:
        """The number of vertices."""
        return self.indptr.size - 1

    @property
    def n_edges(self) -> int:
        """The number of undirected edges."""
        return self.indices.size // 2

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Weighted degrees d_i = Σ_j w_ij, shape (n_vertices,)."""
        rows = _row_numbers(self.indptr)
        return _frozen(np.bincount(rows, self.weights, self.n_vertices).astype(np.float64))

    @cached_property
    def is_unweighted(self) -> bool:
        """Whether every edge weighs exactly 1."""
        return bool(np.all(self.weights == 1.0))

    def to_scipy(self) -> sp.csr_matrix[np.float64]:
        """A float64 copy of the weight matrix W, shape (n_vertices, n_vertices)."""
        parts = (self.weights, self.indices, self.indptr)
        return sp.csr_matrix(parts, shape=(self.n_vertices, self.n_vertices), copy=True)

    def components(self) -> tuple[int, NDArray[np.int32]]:
        """How many connected components there are, and the component of each vertex."""
        return self._components

    def diagnose(self, n_clusters: int | None = None) -> Diagnosis:
        """What this graph means for clustering, in words: see :func:`tautcut.diagnostics.diagnose`.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (2, 3)]).diagnose().findings[2].meaning
        'All edges weigh 1.'
        """
        from tautcut.diagnostics import diagnose  # above this module: diagnoses are asked of the graph itself

        return diagnose(self, n_clusters)

    @cached_property
    def _components(self) -> tuple[int, NDArray[np.int32]]:
        # In a symmetric graph strong components are the components, and need no transpose.
        count, labels = connected_components(self.to_scipy(), directed=True, connection="strong")
        return int(count), _frozen(labels.astype(np.int32))


def _validate(matrix: sp.csr_matrix[np.float64], *, symmetrise: str) -> Graph:
    """The Graph of W once it is known to be one; `symmetrise` is the fix offered if W is not symmetric."""
    matrix = _without_loops_and_zeros(matrix)
    values = matrix.data
    _refuse(matrix, np.isnan(values), "numbers", "Replace it, or remove that edge.")
    _refuse(matrix, np.isinf(values), "finite", "Replace it by a finite weight.")
    _refuse(matrix, values < 0, "≥ 0", "Clip or shift W.")
    with np.errstate(over="ignore"):
        total = matrix.data.sum()
    if not np.isfinite(total):
        raise InputError(
            f"the total weight overflows to {total}; the largest weight is {matrix.data.max()}. "
            "Divide W by its largest entry."
        )
    weights = _symmetric_weights(matrix, symmetrise)
    fits = matrix.shape[0] <= np.iinfo(np.int32).max
    indices = matrix.indices.astype(np.int32) if fits else matrix.indices.astype(np.int64)
    return Graph(matrix.indptr.astype(np.int64), indices, weights)


def _without_loops_and_zeros(matrix: sp.csr_matrix[np.float64]) -> sp.csr_matrix[np.float64]:
    """W in canonical order without diagonal and explicit zeros; W itself may be put in order."""
    matrix.sum_duplicates()
    rows = _row_numbers(matrix.indptr)
    keep = (matrix.indices != rows) & (matrix.data != 0)
    if keep.all():
        return matrix
    indptr = np.r_[0, np.cumsum(np.bincount(rows[keep], minlength=matrix.shape[0]))]
    return sp.csr_matrix((matrix.data[keep], matrix.indices[keep], indptr), shape=matrix.shape)


def _refuse(matrix: sp.csr_matrix[np.float64], bad: NDArray[np.bool_], demand: str, fix: str) -> None:
    """Raise about the first bad entry, if there is one."""
    if bad.any():
        first = int(bad.argmax())
        i = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        value, edge = float(matrix.data[first]), (i, int(matrix.indices[first]))
        raise InputError(f"weights must be {demand}; found {value} on edge {edge}. {fix}")


def _symmetric_weights(matrix: sp.csr_matrix[np.float64], symmetrise: str) -> NDArray[np.float64]:
    """The weights in CSR order, rounding averaged out; InputError if W is not symmetric."""
    mirror = matrix.T.tocsr()  # sorted, as `matrix` is
    if np.array_equal(matrix.indptr, mirror.indptr) and np.array_equal(matrix.indices, mirror.indices):
        if np.array_equal(matrix.data, mirror.data):
            return matrix.data
        if not _differ(matrix.data, mirror.data).any():
            return _midpoint(matrix.data, mirror.data)
    i, j = _first_asymmetry(matrix, mirror)
    here, there = float(matrix[i, j]), float(matrix[j, i])
    raise InputError(
        f"W must be symmetric; W[{i}, {j}] = {here} but W[{j}, {i}] = {there}. Symmetrise it, e.g. {symmetrise}."
    )


def _first_asymmetry(matrix: sp.csr_matrix[np.float64], mirror: sp.csr_matrix[np.float64]) -> tuple[int, int]:
    """The first pair (i, j) whose two weights differ by more than rounding."""
    gap, largest = abs(matrix - mirror).tocsr(), matrix.maximum(mirror)
    excess = (gap - ROUNDING * largest).tocoo()
    i, j = excess.row[excess.data > 0], excess.col[excess.data > 0]
    first = np.lexsort((j, i))[0]
    return int(i[first]), int(j[first])


def _differ(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where two weights differ by more than rounding; NaN and infinities are left to their own check."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap: NDArray[np.bool_] = np.abs(a - b) > ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return gap


def _midpoint(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """(a + b) / 2, the same bits whichever comes first, and exactly a where a = b."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(invalid="ignore", over="ignore"):
        middle: NDArray[np.float64] = np.where(low == high, low, low + (high - low) / 2)
    return middle


def _csr_of_sparse(obj: Any) -> sp.csr_matrix[np.float64]:
    """A CSR float64 copy of any scipy sparse matrix or array."""
    _check_square(obj.shape)
    _check_real(obj.dtype, "W")
    # Booleans stay so until duplicates are merged: scipy sums them to True, not to 2.
    own = obj.copy() if obj.dtype == bool else obj.astype(np.float64, copy=True)
    try:
        if hasattr(own, "check_format"):
            own.check_format(full_check=True)
        csr = own.tocsr()
    except ValueError as error:
        raise InputError(f"the sparse matrix is malformed: {error}. Rebuild it from its entries.") from error
    csr.sum_duplicates()
    return sp.csr_matrix(csr, dtype=np.float64)


def _csr_of_dense(obj: Any) -> sp.csr_matrix[np.float64]:
    """The CSR form of a 2-D array, nested list or data frame."""
    dense = _real(obj, "W")
    _check_square(dense.shape)
    return sp.csr_matrix(dense)


def _csr_of_networkx(obj: Any, networkx: Any) -> sp.csr_matrix[np.float64]:
    """The weighted adjacency matrix of a networkx graph, vertices in the order of its nodes."""
    _check_square((obj.number_of_nodes(),) * 2)
    try:
        matrix = networkx.to_scipy_sparse_array(obj, weight="weight", dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f'the "weight" of every networkx edge must be a number: {error}.') from error
    return sp.csr_matrix(matrix)


def _csr_of_igraph(obj: Any) -> sp.csr_matrix[np.float64]:
    """The weighted adjacency matrix of an igraph graph."""
    n = obj.vcount()
    _check_square((n, n))
    i, j = np.array(obj.get_edgelist(), dtype=np.int64).reshape(-1, 2).T
    has_weights = "weight" in obj.es.attributes()
    values = _real(obj.es["weight"], 'the "weight" edge attribute') if has_weights else np.ones(i.size)
    matrix = sp.coo_matrix((values, (i, j)), shape=(n, n)).tocsr()
    return matrix if obj.is_directed() else sp.csr_matrix(matrix + matrix.T)


def vertex_names(obj: object) -> tuple[Any, ...] | None:
    """The vertices by the names that `obj` has for them, in their order; None if it has none.

    Names are the nodes of a networkx graph, the "name" attribute of an igraph graph, the index of a pandas frame.
    """
    networkx, igraph, pandas = (sys.modules.get(name) for name in ("networkx", "igraph", "pandas"))
    if networkx is not None and isinstance(obj, networkx.Graph):
        return tuple(obj.nodes)
    if igraph is not None and isinstance(obj, igraph.Graph) and "name" in obj.vs.attributes():
        return tuple(obj.vs["name"])
    if pandas is not None and isinstance(obj, pandas.DataFrame):
        return tuple(obj.index)
    return None


def _edge_array(edges: ArrayLike) -> NDArray[np.int64]:
    """`edges` as an (m, 2) array of vertex numbers."""
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise InputError(f"edges must be pairs of vertex numbers, shape (m, 2): {error}.") from error
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"edges must have shape (m, 2), one row (i, j) per edge; found shape {pairs.shape}.")
    if pairs.dtype.kind not in "iu":
        raise InputError(f"edges must hold integers, numbers of vertices; found dtype {pairs.dtype}.")
    if pairs.min() < 0:
        raise InputError(f"vertex numbers must be ≥ 0; found {pairs.min()}. Number the vertices from 0.")
    return pairs.astype(np.int64)


def _vertex_count(pairs: NDArray[np.int64], n_vertices: int | None) -> int:
    """The number of vertices asked for, or implied by the edges."""
    largest = int(pairs.max()) if pairs.size else -1
    if n_vertices is None:
        n = largest + 1
    elif isinstance(n_vertices, int | np.integer) and not isinstance(n_vertices, bool):
        n = int(n_vertices)
    else:
        raise InputError(f"n_vertices must be an integer; found {n_vertices!r}.")
    if n < 1:
        raise InputError(f"a graph needs at least one vertex; found {n}. Give edges or n_vertices.")
    if largest >= n:
        raise InputError(f"vertex {largest} does not exist with n_vertices={n}. Raise n_vertices.")
    return n


def _merge_repeats(
    pairs: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each undirected edge once, as (smaller, larger), and its weight; self-loops are left out."""
    proper = pairs[:, 0] != pairs[:, 1]
    pairs, values = np.sort(pairs[proper], axis=1), values[proper]
    if not len(pairs):
        return pairs, values
    order = np.lexsort(pairs.T[::-1])
    pairs, values = pairs[order], values[order]
    first = np.flatnonzero(np.r_[True, (pairs[1:] != pairs[:-1]).any(axis=1)])
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    conflict = _differ(low, high)
    if conflict.any():
        at = int(conflict.argmax())
        i, j = pairs[first[at]].tolist()
        raise InputError(
            f"edge ({i}, {j}) is listed with different weights, {low[at]} and {high[at]}. Keep one of them."
        )
    return pairs[first], _midpoint(low, high)


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"W must be a square matrix; found shape {shape}. Give one row per vertex.")
    if shape[0] == 0:
        raise InputError("a graph needs at least one vertex; found a square matrix of shape (0, 0).")


def _check_real(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers; found dtype {dtype}. Convert it to float64.")


def _real(obj: ArrayLike, name: str) -> NDArray[np.float64]:
    """`obj` as a float64 array, refused if it does not hold real numbers."""
    try:
        array = np.asarray(obj)
    except ValueError as error:
        raise InputError(f"{name} is not a regular array: {error}.") from error
    _check_real(array.dtype, name)
    return array.astype(np.float64)


def _row_numbers(indptr: NDArray[Any]) -> NDArray[np.intp]:
    """The row of each stored entry of a CSR matrix."""
    return np.repeat(np.arange(indptr.size - 1), np.diff(indptr))


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view; the array itself stays as it is."""
    view = array.view()
    view.setflags(write=False)
    return view
