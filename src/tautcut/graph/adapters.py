"""What users hold, as a matrix of weights: scipy sparse matrices, dense arrays, networkx and igraph graphs, lists of
edges; and the names and masses that these have for their vertices. It checks that they are matrices of real numbers;
whether the weights are those of a graph is checked by `Graph`. It never changes the object it was given.
"""

from __future__ import annotations

import sys
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from tautcut.arrays import BoolArray, FloatArray, IntArray, SparseMatrix
from tautcut.checks import real_dtype, vertex_masses, whole_number
from tautcut.errors import InputError
from tautcut.memory import for_work, foresee

# W_ij and W_ji that differ by no more than this fraction are the same weight up to rounding.
ROUNDING = 1e-6
# The attribute of vertices of networkx and igraph that is their mass, as "weight" is that of their edges.
MASS = "mass"
# What making a graph takes at its peak (decision 0042).
_BYTES_PER_ENTRY, _BYTES_PER_LISTED_EDGE, _BYTES_PER_VERTEX = 40, 130, 32


def weight_matrix(obj: object) -> tuple[SparseMatrix, str]:
    """W of a matrix or of a graph object, and how its user would make it symmetric if it is not."""
    if sp.issparse(obj):
        return _csr_of_sparse(obj), "W.maximum(W.T)"
    networkx, igraph = sys.modules.get("networkx"), sys.modules.get("igraph")
    if networkx is not None and isinstance(obj, networkx.Graph):
        return _csr_of_networkx(obj, networkx), "G.to_undirected()"
    if igraph is not None and isinstance(obj, igraph.Graph):
        return _csr_of_igraph(obj), "G.as_undirected()"
    if isinstance(obj, list | tuple) or hasattr(obj, "__array__"):
        dense = _real(obj, "W")
        _check_square(dense.shape)
        _foresee_graph(len(dense), int(np.count_nonzero(dense)) * _BYTES_PER_ENTRY)
        return sp.csr_matrix(dense), "np.maximum(W, W.T)"
    raise InputError(
        f"cannot make a graph from {type(obj).__name__!r}. Give a scipy sparse matrix, a square array, "
        "a networkx or igraph graph, or a tautcut Graph."
    )


def is_graph(obj: object) -> bool:
    """Whether an object is a graph of networkx or igraph, whatever it is used for."""
    modules = (sys.modules.get(name) for name in ("networkx", "igraph"))
    return any(module is not None and isinstance(obj, module.Graph) for module in modules)


def matrix_of_edges(edges: ArrayLike, weights: ArrayLike | None, n_vertices: int | None) -> SparseMatrix:
    """W of a list of undirected edges, each of them once or in both directions."""
    pairs = _edge_array(edges)
    values = np.ones(len(pairs)) if weights is None else _real(weights, "weights")
    if values.shape != (len(pairs),):
        raise InputError(f"weights must have one value per edge: shape ({len(pairs)},), not {values.shape}.")
    n = _vertex_count(pairs, n_vertices)
    _foresee_graph(n, len(pairs) * _BYTES_PER_LISTED_EDGE)
    pairs, values = _merge_repeats(pairs, values)
    i, j = pairs.T
    return sp.coo_matrix((np.r_[values, values], (np.r_[i, j], np.r_[j, i])), shape=(n, n)).tocsr()


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


def masses_of(obj: object) -> FloatArray | None:
    """The attribute "mass" of the vertices of a networkx or igraph graph; None if there is none, and of matrices."""
    networkx, igraph = sys.modules.get("networkx"), sys.modules.get("igraph")
    if networkx is not None and isinstance(obj, networkx.Graph):
        found = list(obj.nodes(data=MASS))
        names, values = [node for node, _ in found], [mass for _, mass in found]
    elif igraph is not None and isinstance(obj, igraph.Graph) and MASS in obj.vs.attributes():
        names, values = list(range(obj.vcount())), list(obj.vs[MASS])
    else:
        return None
    if all(mass is None for mass in values):
        return None
    odd = next((at for at, mass in enumerate(values) if not isinstance(mass, Real)), None)
    if odd is not None:
        what = "there is none" if values[odd] is None else f"found {values[odd]!r}"
        raise InputError(f'the "{MASS}" of every vertex must be a number > 0; {what} at vertex {names[odd]!r}.')
    return vertex_masses(values, len(values), name=f'"{MASS}"', place=lambda at: f"at vertex {names[at]!r}")


def _csr_of_sparse(obj: Any) -> SparseMatrix:
    """A CSR float64 copy of any scipy sparse matrix or array."""
    _check_square(obj.shape)
    real_dtype("W", obj.dtype)
    _foresee_graph(obj.shape[0], obj.nnz * _BYTES_PER_ENTRY)
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


def _csr_of_networkx(obj: Any, networkx: Any) -> SparseMatrix:
    """The weighted adjacency matrix of a networkx graph, vertices in the order of its nodes."""
    _check_square((obj.number_of_nodes(),) * 2)
    try:
        matrix = networkx.to_scipy_sparse_array(obj, weight="weight", dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f'the "weight" of every networkx edge must be a number: {error}.') from error
    return sp.csr_matrix(matrix)


def _csr_of_igraph(obj: Any) -> SparseMatrix:
    """The weighted adjacency matrix of an igraph graph."""
    n = obj.vcount()
    _check_square((n, n))
    i, j = np.array(obj.get_edgelist(), dtype=np.int64).reshape(-1, 2).T
    has_weights = "weight" in obj.es.attributes()
    values = _real(obj.es["weight"], 'the "weight" edge attribute') if has_weights else np.ones(i.size)
    matrix = sp.coo_matrix((values, (i, j)), shape=(n, n)).tocsr()
    return matrix if obj.is_directed() else sp.csr_matrix(matrix + matrix.T)


def _edge_array(edges: ArrayLike) -> IntArray:
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


def _vertex_count(pairs: IntArray, n_vertices: int | None) -> int:
    """The number of vertices asked for, or implied by the edges."""
    largest = int(pairs.max()) if pairs.size else -1
    if n_vertices is None and largest < 0:
        raise InputError("a graph needs at least one vertex; found no edge. Give edges or n_vertices.")
    n = largest + 1 if n_vertices is None else whole_number("n_vertices", n_vertices)
    if largest >= n:
        raise InputError(f"vertex {largest} does not exist with n_vertices={n}. Raise n_vertices.")
    return n


def _merge_repeats(pairs: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Each undirected edge once, as (smaller, larger), and its weight; self-loops are left out."""
    proper = pairs[:, 0] != pairs[:, 1]
    pairs, values = np.sort(pairs[proper], axis=1), values[proper]
    if not len(pairs):
        return pairs, values
    order = np.lexsort(pairs.T[::-1])
    pairs, values = pairs[order], values[order]
    first = np.flatnonzero(np.r_[True, (pairs[1:] != pairs[:-1]).any(axis=1)])
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    conflict = differ(low, high)
    if conflict.any():
        at = int(conflict.argmax())
        i, j = pairs[first[at]].tolist()
        raise InputError(
            f"edge ({i}, {j}) is listed with different weights, {low[at]} and {high[at]}. Keep one of them."
        )
    return pairs[first], midpoint(low, high)


def differ(a: FloatArray, b: FloatArray) -> BoolArray:
    """Where two weights differ by more than rounding; NaN and infinities are left to their own check."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap: BoolArray = np.abs(a - b) > ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return gap


def midpoint(a: FloatArray, b: FloatArray) -> FloatArray:
    """(a + b) / 2, the same bits whichever comes first, and exactly a where a = b."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(invalid="ignore", over="ignore"):
        middle: FloatArray = np.where(low == high, low, low + (high - low) / 2)
    return middle


def _foresee_graph(n_vertices: int, bytes_of_edges: int) -> None:
    foresee(
        bytes_of_edges + n_vertices * _BYTES_PER_VERTEX, for_work(), f"A graph of {n_vertices:,} vertices",
        "Check its number of vertices, or keep the strongest edges alone.",
    )  # fmt: skip


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"W must be a square matrix; found shape {shape}. Give one row per vertex.")
    if shape[0] == 0:
        raise InputError("a graph needs at least one vertex; found a square matrix of shape (0, 0).")


def _real(obj: ArrayLike, name: str) -> FloatArray:
    """`obj` as a float64 array, refused if it does not hold real numbers."""
    try:
        array = np.asarray(obj)
    except ValueError as error:
        raise InputError(f"{name} is not a regular array: {error}.") from error
    real_dtype(name, array.dtype)
    return array.astype(np.float64)
