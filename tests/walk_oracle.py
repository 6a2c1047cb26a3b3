"""What the nearest under a walk are by definition: the dense inverse, for small graphs."""

from __future__ import annotations

import numpy as np

from tautcut.graph import Graph


def cosines(graph: Graph, restart: float = 0.1) -> np.ndarray:
    """M_ij / √(M_ii M_jj), −1 on the diagonal, for M = (I − (1 − restart) D^{-½} W D^{-½})^{-1}."""
    W, degrees = graph.to_scipy().toarray(), graph.degrees
    scale = np.sqrt(np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0))
    M = np.linalg.inv(np.eye(graph.n_vertices) - (1 - restart) * W * scale[:, None] * scale[None])
    root = np.sqrt(M.diagonal())
    C = M / root[:, None] / root[None]
    np.fill_diagonal(C, -1.0)
    return C


def share_found(nearest: np.ndarray, C: np.ndarray, k: int) -> float:
    """The share of found neighbours that are no further than the k-th nearest, of as many as there could be.

    Of vertices as near as the k-th, but for a thousandth, any will do.
    """
    n_right = n_wanted = 0
    for i, row in enumerate(nearest):
        found = row[row >= 0]
        assert np.unique(found).size == found.size
        n_there = min(k, int((C[i] > 1e-12).sum()))
        if n_there:
            bar = np.sort(C[i])[-n_there] * (1 - 1e-3)
            n_right += int((C[i, found] >= bar).sum())
        n_wanted += n_there
    return n_right / max(n_wanted, 1)
