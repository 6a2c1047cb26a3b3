"""Points sorted into small cells of neighbours: halved across their longest axis, then moved to the nearest centre.
This module owns the cells and how they lie in memory. Nothing in them is random; it compares points with centres alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, IntArray, SingleArray
from tautcut.kernels.cpu.compiling import compiled, summing
from tautcut.kernels.cpu.walks import largest_of

WIDTH = 16  # points of a panel, which are compared at a time
_FAR = np.float32(1e18)  # coordinate of a place of a panel that holds no point; its square is finite
_SAMPLED = 256  # points of a node by which it is split
_PASSES = 4  # of the power iteration towards its longest axis: a rough one will do
_HEIR_CELLS = 16  # near a point's cell, of which it may move to the one whose centre is nearest


class Cells(NamedTuple):
    """Points sorted into cells. All arrays but the last four hold points cell by cell."""

    order: Array  # the number of each point
    bounds: IntArray  # where each cell begins, and the end
    rows: SingleArray  # coordinates, shape (n_points, n_coordinates)
    panels: SingleArray  # the same, coordinate by coordinate for each sixteen points of a cell
    first_panels: IntArray  # of each cell, and the end
    centres: SingleArray
    radii: SingleArray  # how far from the centre any point of the cell is
    errors: SingleArray  # how far rounding may have moved any of them


@compiled
def split(
    level: int, first: int, last: int, rows: SingleArray, order: Array, places: SingleArray, spare: Array
) -> None:
    """Halve the nodes first … last − 1 of a level of a binary tree, each across its longest axis; overwrites order.

    Node c of level l holds order[c n / 2^l] to order[(c + 1) n / 2^l].
    """
    n, d = rows.shape
    axis, turned, mean = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32)
    for node in range(first, last):
        begin, end = (node * n) >> level, ((node + 1) * n) >> level
        middle = ((2 * node + 1) * n) >> (level + 1)
        _longest_axis(rows, order[begin:end], axis, turned, mean)
        for t in range(begin, end):
            places[t] = _along(rows, order[t], mean, axis)
        cut = largest_of(places[begin:end].copy(), end - begin, end - middle)
        on_cut = middle - begin  # how many of those on the cut go to the left
        for t in range(begin, end):
            on_cut -= places[t] < cut
        left, right = begin, middle
        for t in range(begin, end):
            goes_left = places[t] < cut
            if places[t] == cut and on_cut > 0:
                on_cut -= 1
                goes_left = True
            if goes_left:
                spare[left] = order[t]
                left += 1
            else:
                spare[right] = order[t]
                right += 1
        order[begin:end] = spare[begin:end]


@compiled
def _longest_axis(rows: SingleArray, members: Array, axis: SingleArray, turned: SingleArray, mean: SingleArray) -> None:
    """About the direction in which some of these points spread most; overwrites axis, turned and mean."""
    d, step = rows.shape[1], max(1, members.size // _SAMPLED)
    mean[:] = 0
    for t in range(0, members.size, step):
        for j in range(d):
            mean[j] += rows[members[t], j]
    mean /= np.float32((members.size + step - 1) // step)
    for j in range(d):
        axis[j] = np.float32(1) + np.float32(0.1) * np.float32((7 * j) % 13)  # any direction that is no coordinate's
    for _ in range(_PASSES):
        turned[:] = 0
        for t in range(0, members.size, step):
            along = _along(rows, members[t], mean, axis)
            for j in range(d):
                turned[j] += along * (rows[members[t], j] - mean[j])
        length = np.sqrt((turned * turned).sum())
        if not length > 0:
            return
        axis[:] = turned / length


@compiled
def centre(first: int, last: int, order: Array, bounds: IntArray, rows: SingleArray, centres: SingleArray) -> None:
    """Overwrites the centres of these cells by the means of their points; an empty cell is nowhere near."""
    for cell in range(first, last):
        begin, end = bounds[cell], bounds[cell + 1]
        centres[cell] = 0 if begin < end else _FAR
        for t in range(begin, end):
            for j in range(rows.shape[1]):
                centres[cell, j] += rows[order[t], j]
        if begin < end:
            centres[cell] /= np.float32(end - begin)


@compiled
def move(
    first: int, last: int, order: Array, bounds: IntArray, rows: SingleArray, centres: SingleArray, chosen: Array
) -> None:
    """Of the cells near its own, the one whose centre is nearest to each point of these cells; overwrites chosen."""
    gaps = np.empty(centres.shape[0], np.float32)
    for cell in range(first, last):
        near = nearest_cells(centres, cell, centres, min(_HEIR_CELLS, centres.shape[0]), gaps)
        for t in range(bounds[cell], bounds[cell + 1]):
            best = np.float32(np.inf)
            for other in near:
                gap = squared_gap(rows, order[t], centres, other)
                if gap < best:
                    best, chosen[order[t]] = gap, other


@compiled
def regroup(chosen: Array, counts: IntArray, order: Array) -> None:
    """Overwrites order: the points sorted by the cell chosen; counts[c] is where cell c begins, and is moved on."""
    for i in range(chosen.size):
        order[counts[chosen[i]]] = i
        counts[chosen[i]] += 1


@compiled
def furnish(first: int, last: int, points: SingleArray, errors: SingleArray, cells: Cells) -> None:
    """Fill rows, panels, radii and errors of these cells."""
    d = points.shape[1]
    for cell in range(first, last):
        begin, end, widest = cells.bounds[cell], cells.bounds[cell + 1], np.float32(0)
        cells.errors[cell] = 0
        for panel in range(cells.first_panels[cell] * d, cells.first_panels[cell + 1] * d):
            cells.panels[panel] = _FAR
        for t in range(begin, end):
            panel, lane = cells.first_panels[cell] + (t - begin) // WIDTH, (t - begin) % WIDTH
            for j in range(d):
                cells.rows[t, j] = points[cells.order[t], j]
                cells.panels[panel * d + j, lane] = cells.rows[t, j]
            widest = max(widest, squared_gap(cells.rows, t, cells.centres, cell))
            cells.errors[cell] = max(cells.errors[cell], errors[cells.order[t]])
        cells.radii[cell] = np.sqrt(widest)


@compiled
def nearest_cells(of: SingleArray, row: int, centres: SingleArray, count: int, gaps: SingleArray) -> Array:
    """The cells whose centres are nearest to of[row], nearest first; overwrites gaps, all squared distances."""
    for other in range(centres.shape[0]):
        gaps[other] = squared_gap(of, row, centres, other)
    limit = largest_of(gaps.copy(), gaps.size, gaps.size - count + 1)
    below = (gaps < limit).sum()
    near, filled, on_limit = np.empty(count, np.int64), 0, count - below
    for other in range(gaps.size):
        if gaps[other] < limit or (gaps[other] == limit and on_limit > 0):
            on_limit -= gaps[other] == limit
            near[filled] = other
            filled += 1
    return near[np.argsort(gaps[near], kind="mergesort")]


@summing
def _along(rows: SingleArray, i: int, mean: SingleArray, axis: SingleArray) -> Any:
    """⟨row i − mean, axis⟩."""
    total = np.float32(0)
    for j in range(axis.size):
        total += (rows[i, j] - mean[j]) * axis[j]
    return total


@summing
def squared_gap(a: Array, i: int, b: Array, j: int) -> Any:
    """‖a_i − b_j‖², in the precision of the rows."""
    total = a[i, 0] - b[j, 0]
    total *= total
    for c in range(1, a.shape[1]):
        gap = a[i, c] - b[j, c]
        total += gap * gap
    return total
