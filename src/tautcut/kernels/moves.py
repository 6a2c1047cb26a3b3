"""Greedy single-vertex moves on a hard partition, the discrete companion of the fused passes. Compiled with Numba;
sequential, so the same input gives the same labels whatever the machine's number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tautcut.problem import IntArray, Problem

Array = NDArray[Any]

_MAX_SWEEPS = 50


def greedy_moves(problem: Problem, labels: IntArray, *, smallest: IntArray) -> IntArray:
    """Move single vertices to neighbouring clusters while each move lowers (P).

    Moving a vertex changes two terms of (P) only, so a move is priced in the time of its edges. Labelled vertices
    stay; no cluster shrinks below `smallest` (one number per cluster). At most 50 sweeps over the vertices.
    """
    graph, R = problem.graph, problem.n_clusters
    moved = labels.astype(np.int64)
    cut = np.zeros(R)
    _sweep(
        graph.indptr, graph.indices, graph.weights, np.asarray(graph.degrees), problem.is_labelled,
        moved, np.bincount(moved, minlength=R), cut, np.asarray(problem.lam), smallest, _MAX_SWEEPS,
    )  # fmt: skip
    return moved


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _term(cut: float, size: int, lam: float, n: int) -> float:
    balance = min(lam * size, n - size)
    return cut / balance if balance > 0 else np.inf


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _sweep(
    indptr: Array, indices: Array, weights: Array, degrees: Array, is_fixed: Array,
    labels: Array, sizes: Array, cut: Array, lam: Array, smallest: Array, max_sweeps: int,
) -> None:  # fmt: skip
    n = labels.size
    towards = np.zeros(lam.size)  # weight from the vertex at hand to each cluster
    touched = np.empty(lam.size, np.int64)
    is_active = np.zeros(n, np.bool_)  # vertices worth a look: on the boundary, or beside a vertex that moved
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] != labels[i]:
                cut[labels[i]] += weights[e]
                is_active[i] = True
    for _ in range(max_sweeps):
        n_moves = 0
        for i in range(n):
            own = labels[i]
            if not is_active[i] or is_fixed[i] or sizes[own] <= smallest[own]:
                continue
            is_active[i] = False
            n_touched = 0
            for e in range(indptr[i], indptr[i + 1]):
                r = labels[indices[e]]
                if towards[r] == 0.0:
                    touched[n_touched] = r
                    n_touched += 1
                towards[r] += weights[e]
            leave = _term(cut[own] - degrees[i] + 2 * towards[own], sizes[own] - 1, lam[own], n)
            saved = _term(cut[own], sizes[own], lam[own], n) - leave
            best, gain = own, 1e-12 * (abs(saved) + 1e-300)
            for t in range(n_touched):
                r = touched[t]
                if r != own:
                    enter = _term(cut[r] + degrees[i] - 2 * towards[r], sizes[r] + 1, lam[r], n)
                    rise = enter - _term(cut[r], sizes[r], lam[r], n)
                    if saved - rise > gain:
                        best, gain = r, saved - rise
            if best != own:
                cut[own] += 2 * towards[own] - degrees[i]
                cut[best] += degrees[i] - 2 * towards[best]
                sizes[own] -= 1
                sizes[best] += 1
                labels[i] = best
                n_moves += 1
                for e in range(indptr[i], indptr[i + 1]):
                    is_active[indices[e]] = True
            for t in range(n_touched):
                towards[touched[t]] = 0.0
        if n_moves == 0:
            break
