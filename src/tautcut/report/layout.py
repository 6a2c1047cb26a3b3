"""A map of a graph: two coordinates for each vertex, so that neighbours lie near one another. It sees the graph and
nothing else, so clusters that lie apart on the map are no artefact of the partition. The same graph always gets the
same map, in bounded time; it decides nothing and is only ever looked at.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tautcut.arrays import FloatArray
from tautcut.graph import Graph

_COLUMNS = 12  # eigenvectors, whose rows are then projected onto two axes
_ROUNDS = 40  # of the subspace iteration; a map needs no more precision
_ORTHOGONALISED = 4  # every fourth round: the columns stay apart in single precision
_EXTENT = 10.0  # of the spectral coordinates before neighbours attract: about the extent of the final map
_WORK = 150_000_000  # directed edges over all steps: large graphs get fewer steps, so that the time is bounded
_STEPS = (20, 300)  # fewest and most, whatever the number of edges
_STRANGERS = 5  # random vertices that each vertex is pushed from in a step
_LONGEST_PUSH = 4.0  # in one step: two vertices at the same place would fly apart
_MOMENTUM = 0.5  # the share of a step that the next one keeps


def map_coordinates(graph: Graph) -> FloatArray:
    """Two coordinates for each vertex, (n_vertices, 2).

    The leading eigenvectors of D^-½ W D^-½ projected onto their two principal axes; then each vertex is drawn to its
    neighbours with force 2 d / (1 + d²) and pushed from random vertices with 2 d / (d² (1 + d²)), for distance d, in
    steps that shrink to zero. This is the layout of UMAP with the kernel 1 / (1 + d²).
    """
    if graph.n_vertices < 3 or not graph.n_edges:
        return np.column_stack([np.arange(graph.n_vertices), np.zeros(graph.n_vertices)]).astype(np.float64)
    rng = np.random.default_rng(0)
    return _attract(graph, _EXTENT * _spectral_coordinates(graph, rng=rng), rng)


def _spectral_coordinates(graph: Graph, *, rng: np.random.Generator) -> FloatArray:
    """Rows of the leading eigenvectors, scaled to norm 1, on their two principal axes; zero at isolated vertices.

    The eigenvectors come from a fixed number of products: a map needs no more precision, and this cannot fail.
    """
    scale = np.zeros(graph.n_vertices)
    np.divide(1.0, np.sqrt(graph.degrees), out=scale, where=graph.degrees > 0)
    S = sp.csr_matrix(sp.diags(scale) @ graph.to_scipy() @ sp.diags(scale)).astype(np.float32)
    X = rng.standard_normal((graph.n_vertices, min(_COLUMNS, graph.n_vertices)), dtype=np.float32)
    for number in range(1, _ROUNDS + 1):
        X = S @ X + X
        if number % _ORTHOGONALISED == 0:
            X = np.linalg.qr(X)[0]
    V = np.where(scale[:, None] > 0, X, 0.0).astype(np.float64)
    norms = np.linalg.norm(V, axis=1, keepdims=True)
    np.divide(V, norms, out=V, where=norms > 0)
    V -= V.mean(axis=0)
    axes = np.linalg.eigh(V.T @ V)[1][:, ::-1][:, :2]
    return np.asarray(V @ axes, dtype=np.float64)


def _attract(graph: Graph, start: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The coordinates after neighbours have been drawn together and strangers pushed apart."""
    n, counts = graph.n_vertices, np.diff(graph.indptr)
    owner = np.repeat(np.arange(n), counts)
    share = (graph.weights / graph.degrees[owner]).astype(np.float32)  # of each edge in the degree of its vertex
    pull = sp.csr_matrix((share, graph.indices, graph.indptr), shape=(n, n), copy=True)
    z = start.astype(np.float32).view(np.complex64).ravel()  # a vertex is one number: half the lookups
    velocity = np.zeros_like(z)
    n_steps = int(np.clip(_WORK // graph.indices.size, *_STEPS))
    for step in range(n_steps):
        apart = z[graph.indices] - z[owner]
        pull.data[:] = 2 * share / (1 + _squared(apart))
        drawn = pull @ z - np.asarray(pull.sum(axis=1)).ravel() * z
        velocity = _MOMENTUM * velocity + (1 - step / n_steps) * (drawn + _pushed(z, rng))
        z = z + velocity
    return z.view(np.float32).reshape(n, 2).astype(np.float64)


def _pushed(z: NDArray[np.complex64], rng: np.random.Generator) -> NDArray[np.complex64]:
    """How far each vertex is pushed by random others, at most _LONGEST_PUSH."""
    push = np.zeros_like(z)
    for _ in range(_STRANGERS):
        apart = z - z[rng.integers(0, z.size, z.size)]
        squared = _squared(apart)
        push += apart * (2 / ((1e-3 + squared) * (1 + squared)))
    push /= _STRANGERS
    length = np.abs(push)
    return push * np.minimum(1, _LONGEST_PUSH / np.maximum(length, 1e-9)).astype(np.float32)


def _squared(z: NDArray[np.complex64]) -> NDArray[np.float32]:
    return np.asarray(z.real**2 + z.imag**2)
