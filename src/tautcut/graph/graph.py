"""The similarity graph. This module owns `Graph` and the validation of its weights, done once when a graph enters;
everything below may rely on it. It knows nothing of features or clusters, and never changes the object it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from tautcut.arrays import Array, BoolArray, FloatArray, IndexArray, IntArray, SparseMatrix
from tautcut.checks import vertex_masses
from tautcut.errors import InputError
from tautcut.graph.adapters import ROUNDING, differ, masses_of, matrix_of_edges, midpoint, weight_matrix

if TYPE_CHECKING:
    from tautcut.graph.findings import Diagnosis

Scalar = TypeVar("Scalar", bound=np.generic)

_LIGHTEST = float(np.finfo(np.float64).tiny)  # that a weight may become beside much heavier ones; it has an inverse
_HUB = 5000  # neighbours from which on a vertex is left out of the order in which neighbours are near


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Graph:
    """A symmetric, non-negative weighted graph without self-loops, in CSR order, whose vertices have masses.

    Both directions of every edge are stored, neighbours are sorted, no stored weight is zero, and the arrays are
    read-only. Make one by :meth:`from_any` or :meth:`from_edges`, which validate; the plain constructor trusts its
    arrays. The diagonal of W is ignored: a self-loop never crosses a cut.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_vertices + 1,)
        Where the neighbours of each vertex begin in `indices` and `weights`, as in scipy's CSR.
    indices : ndarray of int32 (int64 when vertices do not fit), shape (2 * n_edges,)
        The neighbours of all vertices, one vertex after the other.
    weights : ndarray of float64, shape (2 * n_edges,)
        The weight of the edge to each of those neighbours.
    masses : ndarray of float64, shape (n_vertices,)
        How much each vertex counts in the size of a cluster: m_i > 0, and 1 unless :meth:`with_masses` says otherwise.

    Examples
    --------
    >>> Graph.from_edges([(0, 1), (1, 2)])
    Graph(n_vertices=3, n_edges=2)
    """

    indptr: IntArray
    indices: NDArray[np.int32] | IntArray
    weights: FloatArray
    masses: FloatArray

    def __init__(
        self,
        indptr: IntArray,
        indices: NDArray[np.int32] | IntArray,
        weights: FloatArray,
        masses: FloatArray | None = None,
    ) -> None:
        masses = np.ones(indptr.size - 1) if masses is None else masses
        arrays: dict[str, Array] = {"indptr": indptr, "indices": indices, "weights": weights, "masses": masses}
        for name, array in arrays.items():
            object.__setattr__(self, name, read_only(array))

    def __repr__(self) -> str:
        return f"Graph(n_vertices={self.n_vertices}, n_edges={self.n_edges})"

    def __reduce__(self) -> tuple[type[Graph], tuple[Array, ...]]:
        # Rebuilding through the constructor makes the arrays of a copy read-only too.
        return type(self), (self.indptr, self.indices, self.weights, self.masses)

    @classmethod
    def from_any(cls, obj: object) -> Graph:
        """The graph of a symmetric weight matrix or of a graph object.

        Parameters
        ----------
        obj : Graph, scipy sparse matrix or array, 2-D array-like, networkx graph or igraph graph
            Missing "weight" attributes of networkx and igraph edges count as 1, parallel edges are summed, and
            vertices keep their order; an attribute "mass" of the vertices is their mass. A Graph is returned as it is.

        Raises
        ------
        InputError
            If the weights are not a square, symmetric matrix of finite numbers ≥ 0. Differences between W and its
            transpose of relative size 1e-6 or less are rounding, and are averaged out.

        Examples
        --------
        >>> Graph.from_any([[0, 2], [2, 0]]).weights
        array([2., 2.])
        """
        if isinstance(obj, Graph):
            return obj
        matrix, symmetrise = weight_matrix(obj)
        graph, masses = _validate(matrix, symmetrise=symmetrise), masses_of(obj)
        return graph if masses is None else graph.with_masses(masses)

    @classmethod
    def from_edges(cls, edges: ArrayLike, weights: ArrayLike | None = None, *, n_vertices: int | None = None) -> Graph:
        """The graph of a list of undirected edges.

        Parameters
        ----------
        edges : array-like of integers, shape (m, 2)
            Each undirected edge once, or in both directions. Repeats must carry the same weight and count once;
            self-loops are dropped.
        weights : array-like, shape (m,), optional
            One weight per row of `edges`; 1 each by default.
        n_vertices : int, optional
            The number of vertices; the largest vertex number plus one by default.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 0), (1, 2)], [0.5, 0.5, 1.0], n_vertices=4)
        Graph(n_vertices=4, n_edges=2)
        """
        return _validate(matrix_of_edges(edges, weights, n_vertices), symmetrise="W.maximum(W.T)")

    @property
    def n_vertices(self) -> int:
        """The number of vertices."""
        return self.indptr.size - 1

    @property
    def n_edges(self) -> int:
        """The number of undirected edges."""
        return self.indices.size // 2

    def with_masses(self, masses: ArrayLike) -> Graph:
        """The same graph with these masses, one finite number > 0 for each vertex.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 2)]).with_masses([1, 2, 1]).total_mass
        4.0
        """
        return Graph(self.indptr, self.indices, self.weights, vertex_masses(masses, self.n_vertices))

    def by_volume(self) -> Graph:
        """The same graph, the mass of each vertex times its degree: clusters weigh their volume.

        Vertices without edges have no volume; they count as much as the one that has the least.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 2)]).by_volume().masses
        array([1., 2., 1.])
        """
        least = self.degrees[self.degrees > 0].min(initial=np.inf)
        volumes = np.where(self.degrees > 0, self.degrees, least if np.isfinite(least) else 1.0)
        with np.errstate(over="ignore"):  # which is refused
            return self.with_masses(self.masses * volumes)

    def contracted(self, groups: ArrayLike) -> Graph:
        """The graph whose vertices are groups of these: masses and parallel edges add up, edges inside a group vanish.

        Parameters
        ----------
        groups : array-like of integers, shape (n_vertices,)
            The group of each vertex, numbered from 0 without gaps.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 2), (2, 3)]).contracted([0, 0, 1, 2]).masses
        array([2., 1., 1.])
        """
        of = np.asarray(groups, dtype=np.int64)
        n_groups = int(of.max()) + 1
        member = sp.csr_matrix((np.ones(of.size), (np.arange(of.size), of)), shape=(of.size, n_groups))
        graph = _validate(sp.csr_matrix(member.T @ self.to_scipy() @ member), symmetrise="W.maximum(W.T)")
        masses = np.bincount(of, self.masses, n_groups).astype(np.float64)
        return Graph(graph.indptr, graph.indices, graph.weights, masses)

    @property
    def total_mass(self) -> float:
        """m(V) = Σ_i m_i; the number of vertices where no masses are given."""
        return float(self.masses.sum())

    @cached_property
    def is_even(self) -> bool:
        """Whether all vertices have the same mass."""
        return bool((self.masses == self.masses[:1]).all())

    @cached_property
    def has_masses(self) -> bool:
        """Whether masses are given: whether any differs from 1."""
        return not (self.is_even and bool((self.masses[:1] == 1.0).all()))

    @cached_property
    def degrees(self) -> FloatArray:
        """Weighted degrees d_i = Σ_j w_ij, shape (n_vertices,)."""
        return read_only(np.bincount(_row_numbers(self.indptr), self.weights, self.n_vertices).astype(np.float64))

    @cached_property
    def is_unweighted(self) -> bool:
        """Whether every edge weighs exactly 1."""
        return bool(np.all(self.weights == 1.0))

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all edges weigh the same."""
        return bool((self.weights == self.weights[:1]).all())

    def in_mean_weights(self) -> tuple[Graph, float]:
        """The graph with its mean weight as the unit, and that unit; itself, and 1, if every edge weighs 1.

        The weights are rounded to 32 bits, so that graphs whose weights differ by a common factor become one and the
        same, bit for bit (decision 0028). None vanishes, however much lighter than the others.
        """
        if self.is_unweighted or not self.n_edges:
            return self, 1.0
        weights, unit = self.scaled_weights()
        return Graph(self.indptr, self.indices, _rounded(weights), self.masses), unit

    def in_mean_masses(self) -> tuple[Graph, float]:
        """The graph with its mean mass as the unit, and that unit, as `in_mean_weights` does it with weights."""
        if not self.has_masses:
            return self, 1.0
        masses, unit = self.scaled_masses()
        return Graph(self.indptr, self.indices, self.weights, _rounded(masses)), unit

    def in_level_weights(self) -> tuple[Graph, float]:
        """The graph with weights of 1 at most, and the power of two that they were divided by: no digit is lost."""
        if not self.n_edges:
            return self, 1.0
        level, shift = _levelled(self.weights)
        weights = np.maximum(level, _LIGHTEST)
        return Graph(self.indptr, self.indices, weights, self.masses), float(np.ldexp(1.0, shift))

    def scaled_weights(self) -> tuple[FloatArray, float]:
        """The weights divided by their mean, and that mean; exactly 1 where all are the same, and none 0."""
        return _in_means(self.weights, are_alike=self.is_uniform)

    def scaled_masses(self) -> tuple[FloatArray, float]:
        """The masses divided by their mean, and that mean; exactly 1 where all are the same, and none 0."""
        return _in_means(self.masses, are_alike=self.is_even)

    def to_scipy(self) -> SparseMatrix:
        """A float64 copy of the weight matrix W, shape (n_vertices, n_vertices)."""
        parts = (self.weights, self.indices, self.indptr)
        return sp.csr_matrix(parts, shape=(self.n_vertices, self.n_vertices), copy=True)

    def components(self) -> tuple[int, NDArray[np.int32]]:
        """How many connected components there are, and the component of each vertex."""
        return self._components

    def diagnose(self, n_clusters: int | None = None) -> Diagnosis:
        """What this graph means for clustering, in words: see :func:`tautcut.graph.diagnostics.diagnose`.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (2, 3)]).diagnose().findings[2].meaning
        'All edges weigh 1.'
        """
        from tautcut.graph.diagnostics import diagnose  # a cycle, if it were imported before it is asked for

        return diagnose(self, n_clusters)

    @cached_property
    def _components(self) -> tuple[int, NDArray[np.int32]]:
        # In a symmetric graph strong components are the components, and need no transpose.
        count, labels = connected_components(self.to_scipy(), directed=True, connection="strong")
        return int(count), read_only(labels.astype(np.int32))


def _in_means(values: FloatArray, *, are_alike: bool) -> tuple[FloatArray, float]:
    """Positive numbers divided by their mean, and that mean."""
    if are_alike:
        return np.ones(values.size), float(values[0]) if values.size else 1.0
    # First by a power of two, which is exact: the mean of the smallest numbers there are would have few digits.
    level, shift = _levelled(values)
    mean = float(level.mean())
    return np.maximum(level / mean, _LIGHTEST), float(np.ldexp(mean, shift))


def _levelled(values: FloatArray) -> tuple[FloatArray, int]:
    """Positive numbers divided by a power of two, the largest between ½ and 1, and its exponent."""
    shift = int(np.frexp(values.max())[1])
    return np.ldexp(values, -shift), shift


def _rounded(values: FloatArray) -> FloatArray:
    """Positive numbers with 32 binary digits each."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.maximum(np.ldexp(np.round(np.ldexp(mantissa, 32)), exponent - 32), _LIGHTEST))


def local_order(W: SparseMatrix) -> IntArray:
    """An order of the vertices in which neighbours are near: reverse Cuthill–McKee, of all edges but those of hubs.

    SciPy's sorts the neighbours of a vertex by insertion, d² steps for d of them; and a hub is near nothing anyway.
    """
    is_hub = np.diff(W.indptr) > _HUB
    if is_hub.any():
        rows = _row_numbers(W.indptr)
        keep = ~(is_hub[rows] | is_hub[W.indices])
        W = sp.csr_matrix((W.data[keep], (rows[keep], W.indices[keep])), shape=W.shape)
    return np.asarray(reverse_cuthill_mckee(W, symmetric_mode=True), dtype=np.int64)


def _validate(matrix: SparseMatrix, *, symmetrise: str) -> Graph:
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


def _without_loops_and_zeros(matrix: SparseMatrix) -> SparseMatrix:
    """W in canonical order without diagonal and explicit zeros; W itself may be put in order."""
    matrix.sum_duplicates()
    rows = _row_numbers(matrix.indptr)
    keep = (matrix.indices != rows) & (matrix.data != 0)
    if keep.all():
        return matrix
    indptr = np.r_[0, np.cumsum(np.bincount(rows[keep], minlength=matrix.shape[0]))]
    return sp.csr_matrix((matrix.data[keep], matrix.indices[keep], indptr), shape=matrix.shape)


def _refuse(matrix: SparseMatrix, bad: BoolArray, demand: str, fix: str) -> None:
    """Raise about the first bad entry, if there is one."""
    if bad.any():
        first = int(bad.argmax())
        i = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        value, edge = float(matrix.data[first]), (i, int(matrix.indices[first]))
        raise InputError(f"weights must be {demand}; found {value} on edge {edge}. {fix}")


def _symmetric_weights(matrix: SparseMatrix, symmetrise: str) -> FloatArray:
    """The weights in CSR order, rounding averaged out; InputError if W is not symmetric."""
    mirror = matrix.T.tocsr()  # sorted, as `matrix` is
    if np.array_equal(matrix.indptr, mirror.indptr) and np.array_equal(matrix.indices, mirror.indices):
        if np.array_equal(matrix.data, mirror.data):
            return matrix.data
        if not differ(matrix.data, mirror.data).any():
            return midpoint(matrix.data, mirror.data)
    excess = (abs(matrix - mirror).tocsr() - ROUNDING * matrix.maximum(mirror)).tocoo()
    is_apart = excess.data > 0
    first = np.lexsort((excess.col[is_apart], excess.row[is_apart]))[0]
    i, j = int(excess.row[is_apart][first]), int(excess.col[is_apart][first])
    here, there = float(matrix[i, j]), float(matrix[j, i])
    raise InputError(
        f"W must be symmetric; W[{i}, {j}] = {here} but W[{j}, {i}] = {there}. Symmetrise it, e.g. {symmetrise}."
    )


def _row_numbers(indptr: Array) -> IndexArray:
    """The row of each stored entry of a CSR matrix."""
    return np.repeat(np.arange(indptr.size - 1), np.diff(indptr))


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view; the array itself stays as it is."""
    view = array.view()
    view.setflags(write=False)
    return view
