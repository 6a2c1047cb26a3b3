"""A graph smoothed by a random walk: each vertex joined to those nearest to it under the walk with restart. Edges that
only noise made lose their say, because the walk takes many ways. It owns what near means; `kernels` walks.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, FloatArray
from tautcut.checks import positive_number, whole_number
from tautcut.graph import Graph
from tautcut.graph.graph import local_order
from tautcut.interrupts import apart
from tautcut.kernels import devices
from tautcut.memory import for_work, foresee
from tautcut.search.threads import in_threads

OnStep = Callable[[int, int], None]

# Over the number of neighbours that have to settle: what may wait at a vertex of mean degree, to begin with,
_TOLERANCE = 0.4
_LARGE = 20_000  # in a graph of so many vertices or more; smaller ones are walked more exactly, as that costs little
_CANDIDATES = 1.5  # for each neighbour: returns, by which they are compared, are known only when all walks are done
_SPARE = 8  # more of them, however few neighbours
_SETTLING = 30  # neighbours have to settle at least, however few are asked for: the very nearest are told apart by them
_PATIENCE = 250  # vertices of mean degree for each neighbour, from which a group of walks may pass on at most
_CHUNK = 1024  # vertices between looks whether to stop
_LIGHTEST = 1e-30  # degree beside the mean one, in single precision


def walk_graph(
    graph: object,
    n_neighbors: int = 30,
    *,
    restart: float = 0.1,
    device: str = "cpu",
    progress: OnStep | None = None,
) -> Graph:
    """The graph that joins each vertex to its nearest under a random walk with restart.

    With M = (I − (1 − restart) D^{-½} W D^{-½})^{-1}, the nearest to i are the vertices j with the largest cosine
    M_ij / √(M_ii M_jj). Each of these edges has the weight 1, and 2 where i is as well among the nearest of j. A vertex
    that reaches fewer is joined to all it reaches. Masses stay as they are.

    Parameters
    ----------
    graph : Graph, or whatever `Graph.from_any` takes
        The graph that is walked on; the heavier an edge, the more often.
    n_neighbors : int
        How many nearest vertices each one is joined to.
    restart : float
        The probability with which the walk begins again, in (0, 1): the smaller, the further it goes.
    device : {"cpu", "cuda", "auto"}
        Where to walk; "cuda" is an NVIDIA GPU, "auto" takes one where there is one.
    progress : callable, optional
        Called with the vertices done and their total, as the walks go on.

    Examples
    --------
    >>> walk_graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], 1).n_edges
    2
    """
    W = Graph.from_any(graph)
    k = min(whole_number("n_neighbors", n_neighbors), W.n_vertices - 1)
    continues = 1.0 - positive_number("restart", restart, below=1)
    if not k or not W.n_edges:
        return W
    on_gpu, stop = devices.walker(device), Event()
    walked = W.in_mean_weights()[0]  # a common factor of the weights changes nothing (decision 0028)

    def on_step(done: int, total: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        if progress is not None:
            progress(done, total)

    def smoothed() -> Graph:
        nearest = (_nearest if on_gpu is None else on_gpu)(walked, k, continues, on_step)
        return _joined(nearest, W.masses)

    return apart(smoothed, stop.set)


def _nearest(W: Graph, k: int, continues: float, on_step: OnStep) -> Array:
    """The k nearest of each vertex, −1 behind them where there are fewer, shape (n, k)."""
    from tautcut.kernels.cpu import walks

    n, kept = W.n_vertices, min(int(_CANDIDATES * k) + _SPARE, W.n_vertices)
    n_threads = min(devices.thread_count(), -(-n // _CHUNK))
    foresee(
        n * (8 * kept + 40 * k) + 20 * W.indices.size + n_threads * walks.room_bytes(n), for_work(),
        f"The {k} nearest of {n:,} vertices under the walk", "Ask for fewer, or use a machine with more.",
    )  # fmt: skip
    degrees = np.clip(np.where(W.degrees > 0, W.degrees / W.degrees.mean(), 1.0), _LIGHTEST, 1 / _LIGHTEST)
    order = walks.groups(local_order(W.to_scipy()), W.indptr, W.indices)
    links = walks.links_in(order, W.indptr, W.indices, W.weights, W.degrees, np.sqrt(degrees).astype(np.float32))
    nearest, scores = np.empty((n, kept), np.int32), np.empty((n, kept), np.float32)
    roots, chosen = np.empty(n, np.float32), np.empty((n, k), np.int32)
    settling, size = min(max(k, _SETTLING), n - 1), min(1.0, n / _LARGE)
    tolerance = np.float32(_TOLERANCE / settling * size)
    most = int(_PATIENCE * settling * W.indices.size / n / size)
    rooms: SimpleQueue[Any] = SimpleQueue()

    def walk(first: int) -> int:
        last = min(first + _CHUNK, n)
        try:
            room = rooms.get_nowait()
        except Empty:
            room = walks.room_for(links.indptr)
        walks.visits(first, last, links, np.float32(continues), tolerance, most, settling, room, nearest, scores, roots)
        rooms.put(room)
        return last

    def choose(first: int) -> None:
        walks.choose(first, min(first + _CHUNK, n), order, nearest, scores, roots, chosen)

    firsts = range(0, n, _CHUNK)
    for done in in_threads(walk, firsts):
        on_step(done, n)
    for _ in in_threads(choose, firsts):
        on_step(n, n)
    return chosen


def _joined(nearest: Array, masses: FloatArray) -> Graph:
    """The graph of these neighbours, in which mutual ones count twice, with these masses."""
    n = nearest.shape[0]
    is_there = nearest >= 0
    indptr = np.r_[0, np.cumsum(is_there.sum(axis=1))]
    listed = nearest.ravel() if is_there.all() else nearest[is_there]
    directed = sp.csr_matrix((np.ones(listed.size, np.int8), listed, indptr), shape=(n, n))
    reverse = directed.T.tocsr()
    both = reverse.T.tocsr() + reverse  # the neighbours of each vertex in order: quicker than by sorting them
    indices = both.indices.astype(np.int32, copy=False)
    return Graph(both.indptr.astype(np.int64), indices, both.data.astype(np.float64), masses)
