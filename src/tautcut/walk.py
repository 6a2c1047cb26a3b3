"""A graph smoothed by a random walk: each vertex joined to those nearest to it under the walk with restart. Edges that
only noise made lose their say, because the walk takes many ways. It owns what near means; `kernels` walks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from tautcut.checks import whole_number
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.kernels.cpu.walks import visits
from tautcut.memory import for_work, foresee
from tautcut.search.threads import in_threads

_TOLERANCE = 0.04  # over the number of neighbours: what a vertex of mean degree may hold back (decision 0043)
_CANDIDATES = 2  # for each neighbour: returns, by which candidates are compared, are known only when all walks are done
_CHUNKS = 64


def walk_graph(
    graph: object,
    n_neighbors: int = 30,
    *,
    restart: float = 0.1,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Graph:
    """The graph that joins each vertex to its nearest under a random walk with restart.

    With M = (I − (1 − restart) D^{-½} W D^{-½})^{-1}, the nearest to i are the vertices j with the largest cosine
    M_ij / √(M_ii M_jj). Each of these edges has the weight 1, and 2 where i is as well among the nearest of j. A vertex
    that reaches fewer is joined to all it reaches.

    Parameters
    ----------
    graph : Graph, or what `Graph.from_any` takes
    n_neighbors : int
        How many nearest vertices each one is joined to.
    restart : float
        The probability with which the walk begins again, in (0, 1): the smaller, the further it goes.
    device : {"cpu", "cuda", "auto"}
        Where to walk; "cuda" is an NVIDIA GPU, "auto" takes one where there is one.
    progress : callable, optional
        Called with the walks done and their total, as it goes on.

    Examples
    --------
    >>> walk_graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], 1).n_edges
    2
    """
    W = Graph.from_any(graph)
    n = W.n_vertices
    k = min(whole_number("n_neighbors", n_neighbors), n - 1)
    if not 0 < restart < 1:
        raise InputError(f"restart must lie between 0 and 1; found {restart}.")
    nearest, cosines = _candidates(W, k, restart)
    order = np.lexsort((nearest, -cosines), axis=1)[:, :k]
    chosen = np.take_along_axis(nearest, order, axis=1)
    rows, columns = np.repeat(np.arange(n), k)[chosen.ravel() >= 0], chosen[chosen >= 0]
    directed = sp.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(n, n))
    return Graph.from_any(directed + directed.T)


def _candidates(W: Graph, k: int, restart: float) -> tuple[np.ndarray, np.ndarray]:
    """For each vertex a few times k others, −1 where there are fewer, and their cosines up to a factor of the row."""
    n, kept = W.n_vertices, min(_CANDIDATES * k, W.n_vertices)
    foresee(24 * n * kept, for_work(), f"The {k} nearest of {n:,} vertices under the walk", "Ask for fewer.")
    nearest, scores = np.empty((n, kept), np.int32), np.zeros((n, kept), np.float32)
    returns = np.ones(n, np.float32)
    degrees = np.maximum(W.degrees / (W.degrees.mean() or 1.0), np.finfo(np.float32).tiny).astype(np.float32)
    weights = (W.weights / (W.degrees.mean() or 1.0)).astype(np.float32)
    least = (_TOLERANCE / k) * degrees
    bounds = np.linspace(0, n, min(_CHUNKS, n) + 1).astype(np.int64)

    def walk(chunk: int) -> None:
        visits(
            bounds[chunk], bounds[chunk + 1], W.indptr, W.indices, weights, degrees, np.float32(1.0 - restart), least,
            nearest, scores, returns,
        )  # fmt: skip

    list(in_threads(walk, range(bounds.size - 1)))
    return nearest, np.where(nearest >= 0, scores / np.sqrt(returns)[nearest], -1.0)
