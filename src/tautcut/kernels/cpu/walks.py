"""Where random walks with restart go: from each vertex of a range, by pushing its mass along the edges until what is
left anywhere is small. Work for a vertex does not grow with the graph. Compiled with Numba; nothing is random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautcut.arrays import Array, IntArray
from tautcut.kernels.cpu.compiling import compiled

# Columns of `state`, what a walk knows of each vertex; a vertex with nothing in the first two was not reached.
_STAYED = 0  # visits counted so far
_MOVING = 1  # and those that are still to be passed on, when they exceed
_LEAST = 2  # this
_COLUMNS = 4  # a power of two, so that a vertex lies within one cache line


@compiled
def visits(
    first: int, last: int, indptr: IntArray, indices: Array, weights: Array, degrees: Array, continues: Any,
    least: Array, nearest: Array, scores: Array, returns: Array,
) -> None:  # fmt: skip
    """Walks from the vertices first … last − 1, each step with probability `continues`.

    A vertex passes on what exceeds `least` of it. Of the vertices j that a walk from i visits G_ij times,
    `nearest[i]` are those with the largest `scores` G_ij / √degrees[j], in no order, −1 where fewer are reached;
    `returns[i]` is G_ii.
    """
    n, kept = degrees.size, nearest.shape[1]
    state = np.zeros((n, _COLUMNS), np.float32)
    state[:, _LEAST] = least
    queue, reached = np.empty(n, np.int32), np.empty(n, np.int32)
    score = np.empty(n, np.float32)
    for start in range(first, last):
        state[start, _MOVING] = 1.0
        queue[0] = reached[0] = start
        head, waiting, n_reached = 0, 1, 1
        while waiting > 0:
            i = queue[head]
            head = head + 1 if head + 1 < n else 0
            waiting -= 1
            mass = state[i, _MOVING]
            state[i, _MOVING] = 0.0
            state[i, _STAYED] += mass
            per_weight = continues * mass / degrees[i]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                before = state[j, _MOVING]
                after = before + per_weight * weights[e]
                state[j, _MOVING] = after
                if before == 0.0 and state[j, _STAYED] == 0.0:
                    reached[n_reached] = j
                    n_reached += 1
                if before <= state[j, _LEAST] < after:  # it was not waiting
                    tail = head + waiting
                    queue[tail if tail < n else tail - n] = j
                    waiting += 1
        returns[start] = state[start, _STAYED] + state[start, _MOVING]
        for a in range(n_reached):
            j = reached[a]
            score[a] = (state[j, _STAYED] + state[j, _MOVING]) / np.sqrt(degrees[j])
            state[j, _STAYED] = state[j, _MOVING] = 0.0
        score[0] = -1.0  # the start itself
        bar = np.partition(score[:n_reached], n_reached - kept)[n_reached - kept] if n_reached > kept else 0.0
        filled = 0
        for above in (True, False):  # those on the bar fill what those above it leave
            for a in range(1, n_reached):
                if filled < kept and (score[a] > bar if above else score[a] == bar):
                    nearest[start, filled], scores[start, filled] = reached[a], score[a]
                    filled += 1
        nearest[start, filled:] = -1
