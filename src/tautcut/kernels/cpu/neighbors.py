"""Nearest neighbours by cells: points are sorted into small cells of neighbours, and each point is compared with those
of the cells near its own, sixteen at a time. This module owns the cells, the comparison, and the ranking by (distance,
index) in double precision; for sparse rows an inverted list of their columns. How many cells are enough it does not
decide. Every row of an answer depends on its own cell alone, so that threads may share the work in any way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray, SingleArray
from tautcut.kernels.cpu.compiling import absorbed, compiled, summing
from tautcut.kernels.cpu.rows import full, lanes_up_to, load, store
from tautcut.kernels.cpu.walks import largest_of

WIDTH = 16  # points of a panel, which are compared at a time
_CHUNK = 16  # coordinates after which points that are too far are left
_FAR = np.float32(1e18)  # coordinate of a place of a panel that holds no point; its square is finite
_NOBODY = np.int32(2**31 - 1)  # a place in a list that no neighbour has taken
_SAMPLED = 256  # points of a node by which it is split
_PASSES = 4  # of the power iteration towards its longest axis: a rough one will do
_HALVINGS = 12  # of a range of distances, in which a limit is looked for
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


# ---------------------------------------------------------------- cells


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
        near = _nearest_cells(centres, cell, centres, min(_HEIR_CELLS, centres.shape[0]), gaps)
        for t in range(bounds[cell], bounds[cell + 1]):
            best = np.float32(np.inf)
            for other in near:
                gap = _squared(rows, order[t], centres, other)
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
            widest = max(widest, _squared(cells.rows, t, cells.centres, cell))
            cells.errors[cell] = max(cells.errors[cell], errors[cells.order[t]])
        cells.radii[cell] = np.sqrt(widest)


@compiled
def _nearest_cells(of: SingleArray, row: int, centres: SingleArray, count: int, gaps: SingleArray) -> Array:
    """The cells whose centres are nearest to of[row], nearest first; overwrites gaps, all squared distances."""
    for other in range(centres.shape[0]):
        gaps[other] = _squared(of, row, centres, other)
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
def _squared(a: Array, i: int, b: Array, j: int) -> Any:
    """‖a_i − b_j‖², in the precision of the rows."""
    total = a[i, 0] - b[j, 0]
    total *= total
    for c in range(1, a.shape[1]):
        gap = a[i, c] - b[j, c]
        total += gap * gap
    return total


@absorbed
def _squared_double(a: Array, i: int, b: Array, j: int) -> float:
    """‖a_i − b_j‖² in double precision, in an order of its own: the same bits on every processor."""
    d = a.shape[1]
    s0, s1, s2, s3, first = 0.0, 0.0, 0.0, 0.0, d % 4
    for c in range(first):
        g0 = np.float64(a[i, c]) - np.float64(b[j, c])
        s0 += g0 * g0
    for c in range(first, d, 4):  # four sums, side by side
        g0, g1 = np.float64(a[i, c]) - np.float64(b[j, c]), np.float64(a[i, c + 1]) - np.float64(b[j, c + 1])
        g2, g3 = np.float64(a[i, c + 2]) - np.float64(b[j, c + 2]), np.float64(a[i, c + 3]) - np.float64(b[j, c + 3])
        s0 += g0 * g0
        s1 += g1 * g1
        s2 += g2 * g2
        s3 += g3 * g3
    return (s0 + s1) + (s2 + s3)


# ---------------------------------------------------------------- the nearest of the points in nearby cells


class Task(NamedTuple):
    """What is compared, and how far off its distances may be."""

    cells: Cells  # of the points
    asked: Cells  # rows whose neighbours are searched, in cells too; without panels
    is_self: bool  # the rows are points, and none is its own neighbour
    is_outlined: bool  # coordinates are fewer than features: their distances are at most those of the features
    points: SingleArray  # if so, features of the points, cell by cell, in single precision
    queries: SingleArray  # and of the rows, by their number


class Desk(NamedTuple):
    """Room to work in, for one thread."""

    chosen: Array  # the rows of a block that are compared
    four: SingleArray  # the distances of four of them to a panel
    limits: SingleArray  # up to which a distance counts
    masks: Array  # the lanes of the panel where it does


@compiled
def _desk(n_rows: int) -> Desk:
    return Desk(
        np.empty(n_rows + 1, np.int64), np.empty((4, WIDTH), np.float32), np.empty(4, np.float32), np.empty(4, np.int64)
    )


@compiled
def visit(
    first: int, last: int, task: Task, most: int, wide: int, is_exact: bool, nearest: SingleArray, found: Array
) -> int:
    """The nearest points of the rows in the blocks first … last − 1: each row looks at the `most` cells near it.

    These are chosen among the `wide` cells near its block. The lists hold the nearest points by (distance in single
    precision, index). A block with a list that finds too few goes on with all cells, and so does every block if it has
    to be exact, but for cells that are too far. Overwrites nearest and found, shape (n_rows, n_listed), and returns
    the number of pairs compared.
    """
    cells, asked = task.cells, task.asked
    gaps, n_pairs, start = np.empty(cells.centres.shape[0], np.float32), 0, asked.bounds[first]
    desk = _desk((asked.bounds[first + 1 : last + 1] - asked.bounds[first:last]).max())
    for block in range(first, last):
        begin, end = asked.bounds[block], asked.bounds[block + 1]
        lists, numbers = nearest[begin - start : end - start], found[begin - start : end - start]
        lists[:] = np.inf
        numbers[:] = _NOBODY
        near = _nearest_cells(asked.centres, block, cells.centres, wide, gaps)
        table = _gaps_of_rows(asked.rows[begin:end], cells.centres, near)
        limits = _limits(table, most)
        for v in range(near.size):
            n_rows = 0
            for t in range(end - begin):
                desk.chosen[n_rows] = t
                n_rows += table[v, t] <= limits[t]
            n_pairs += _compare(task, block, near[v], n_rows, desk, lists, numbers)
        if is_exact or not lists[:, -1].max() < np.inf:
            n_pairs += _go_on(task, block, near, table, limits, gaps, desk, lists, numbers)
    return n_pairs


@compiled
def _go_on(
    task: Task, block: int, near: Array, table: SingleArray, limits: SingleArray,
    gaps: SingleArray, desk: Desk, lists: SingleArray, numbers: Array,
) -> int:  # fmt: skip
    """Compare the rows of a block with the cells that they have not looked at, and that may hold a nearer point.

    Those are the cells that no row had near, and of the `near` ones those whose gap in the table is above its limit.
    """
    cells, asked, n_pairs = task.cells, task.asked, 0
    begin, end = asked.bounds[block], asked.bounds[block + 1]
    rounding = np.float32(1e-5 + 1e-7 * cells.rows.shape[1])
    place = np.full(gaps.size, -1)
    place[near] = np.arange(near.size)
    reach = np.sqrt(lists[:, -1].max())
    for other in range(gaps.size):
        far = cells.radii[other] + (asked.errors[block] + cells.errors[other]) * (1 + rounding)
        if np.sqrt(gaps[other]) * (1 - rounding) - asked.radii[block] - far > reach * (1 + rounding):
            continue
        n_rows = 0
        for t in range(end - begin):
            if place[other] >= 0:
                gap = table[place[other], t]
                is_left = gap > limits[t]
            else:
                gap = _squared(asked.rows, begin + t, cells.centres, other)
                is_left = True
            desk.chosen[n_rows] = t
            n_rows += is_left and np.sqrt(gap) * (1 - rounding) - far <= np.sqrt(lists[t, -1]) * (1 + rounding)
        if n_rows:
            n_pairs += _compare(task, block, other, n_rows, desk, lists, numbers)
            reach = np.sqrt(lists[:, -1].max())
    return n_pairs


@compiled
def _gaps_of_rows(rows: SingleArray, centres: SingleArray, near: Array) -> SingleArray:
    """The squared distances of rows to the centres of some cells, shape (n_near, n_rows)."""
    turned, table = rows.T.copy(), np.zeros((near.size, rows.shape[0]), np.float32)
    for v in range(near.size):
        for j in range(rows.shape[1]):
            value = centres[near[v], j]
            for t in range(rows.shape[0]):
                gap = value - turned[j, t]
                table[v, t] += gap * gap
    return table


@compiled
def _limits(table: SingleArray, most: int) -> Any:
    """For each column a limit that at least `most` of its entries do not exceed, and hardly more; by bisection."""
    low, high, counts = np.zeros(table.shape[1], np.float32), table[0].copy(), np.empty(table.shape[1], np.int32)
    for v in range(table.shape[0]):
        for t in range(high.size):
            high[t] = max(high[t], table[v, t])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        counts[:] = 0
        for v in range(table.shape[0]):
            for t in range(high.size):
                counts[t] += table[v, t] <= middle[t]
        for t in range(high.size):
            if counts[t] >= most:
                high[t] = middle[t]
            else:
                low[t] = middle[t]
    return high


@compiled
def _compare(task: Task, block: int, cell: int, n_rows: int, desk: Desk, lists: SingleArray, numbers: Array) -> Any:
    """Put the points of a cell into the lists of the chosen rows of a block, where they are nearer than those there."""
    cells, rows, d = task.cells, task.asked.rows, task.cells.rows.shape[1]
    begin, slack = task.asked.bounds[block], task.asked.errors[block] + cells.errors[cell]
    chosen, four, limits, masks, last = desk.chosen, desk.four, desk.limits, desk.masks, n_rows - 1
    lowest = cells.order[cells.bounds[cell] : cells.bounds[cell + 1]].min()
    for t in range(0, n_rows, 4):
        q0, q1 = begin + chosen[t], begin + chosen[min(t + 1, last)]
        q2, q3 = begin + chosen[min(t + 2, last)], begin + chosen[min(t + 3, last)]
        is_done = True
        for s in range(4):
            row = chosen[min(t + s, last)]
            limits[s] = _limit(lists[row, -1], slack)
            is_done = is_done and lists[row, -1] == 0 and numbers[row, -1] < lowest
        if is_done:  # each has as many copies as it lists, and those of the cell come later
            continue
        for panel in range(cells.first_panels[cell], cells.first_panels[cell + 1]):
            a0 = full(np.float32(0), 16)
            a1, a2, a3 = a0, a0, a0
            done, is_near = 0, True
            while done < d and is_near:
                for j in range(done, min(done + _CHUNK, d)):
                    x = load(cells.panels, panel * d + j, 16)
                    e0, e1 = full(rows[q0, j], 16) - x, full(rows[q1, j], 16) - x
                    e2, e3 = full(rows[q2, j], 16) - x, full(rows[q3, j], 16) - x
                    a0, a1, a2, a3 = a0 + e0 * e0, a1 + e1 * e1, a2 + e2 * e2, a3 + e3 * e3
                done += _CHUNK
                m0, m1 = lanes_up_to(a0, limits[0]), lanes_up_to(a1, limits[1])
                m2, m3 = lanes_up_to(a2, limits[2]), lanes_up_to(a3, limits[3])
                is_near = (m0 | m1 | m2 | m3) != 0
            if is_near:
                store(four, 0, a0)
                store(four, 1, a1)
                store(four, 2, a2)
                store(four, 3, a3)
                masks[0], masks[1], masks[2], masks[3] = m0, m1, m2, m3
                for s in range(min(4, n_rows - t)):
                    if masks[s]:
                        _enlist(task, block, cell, panel, chosen[t + s], masks[s], four[s], lists, numbers)
                        limits[s] = _limit(lists[chosen[t + s], -1], slack)
    return n_rows * (cells.bounds[cell + 1] - cells.bounds[cell])


@absorbed
def _enlist(
    task: Task, block: int, cell: int, panel: int, row: int, lanes: int,
    near: SingleArray, lists: SingleArray, numbers: Array,
) -> None:  # fmt: skip
    """Put the points in these lanes of a panel, as near as `near` says, into the list of a row of a block."""
    cells, distances, named = task.cells, lists[row], numbers[row]
    own = task.asked.order[task.asked.bounds[block] + row]
    at = cells.bounds[cell] + (panel - cells.first_panels[cell]) * WIDTH
    for lane in range(min(WIDTH, cells.bounds[cell + 1] - at)):
        if (lanes >> lane) & 1:
            distance, y = near[lane], cells.order[at + lane]
            if task.is_outlined:
                distance = _squared(task.queries, own, task.points, at + lane)
            if distance <= distances[-1] and not (task.is_self and y == own):
                _insert(distances, named, distance, y)


@absorbed
def _limit(distance: Any, slack: Any) -> Any:
    """The squared distance in coordinates beyond which a point is farther than `distance`, squared."""
    return distance if slack == 0 else (np.sqrt(distance) + slack) ** 2


@absorbed
def _insert(distances: Array, numbers: Array, distance: Any, y: Any) -> None:
    """Keep a list of nearest points in order, by (distance, index), when one more is found."""
    at = distances.size - 1
    if distance == distances[at] and y > numbers[at]:
        return
    while at > 0 and (distances[at - 1] > distance or (distances[at - 1] == distance and numbers[at - 1] > y)):
        distances[at], numbers[at] = distances[at - 1], numbers[at - 1]
        at -= 1
    distances[at], numbers[at] = distance, y


@compiled
def rank(
    rows: Array, found: Array, nearest: SingleArray, points: Array, queries: Array, unit: float, rounding: float,
    slack: float, exact_below: float, indices: Array, squared: FloatArray, is_clear: Array,
) -> None:  # fmt: skip
    """Of the listed points of each row the first by (distance, index), measured in double precision.

    Overwrites indices, squared and is_clear at `rows`. A row is clear if no point that is not listed can belong there:
    its distance in single precision, times `unit`, is not below the last one listed, and off by `rounding` relative to
    itself and by `slack`; but right where its square is below `exact_below`.
    """
    k, n_listed = indices.shape[1], found.shape[1]
    for t in range(rows.size):
        i, filled = rows[t], 0
        squared[i, :] = np.inf
        indices[i, :] = _NOBODY
        while filled < n_listed and found[t, filled] != _NOBODY:
            y = found[t, filled]
            distance = _squared_double(queries, i, points, y)
            if distance <= squared[i, -1]:
                _insert(squared[i], indices[i], distance, y)
            filled += 1
        last = np.float64(nearest[t, -1])
        least = max(0.0, np.sqrt(last) * unit * (1 - rounding) - slack) ** 2
        is_clear[i] = squared[i, k - 1] < least or last < exact_below or not last < np.inf


@compiled
def settle(rows: Array, points: Array, queries: Array, is_self: bool, indices: Array, squared: FloatArray) -> None:
    """The nearest of all points to these rows, in double precision throughout; overwrites indices and squared there."""
    for i in rows:
        squared[i, :] = np.inf
        indices[i, :] = _NOBODY
        for y in range(points.shape[0]):
            if not (is_self and y == i):
                distance = _squared_double(queries, i, points, y)
                if distance <= squared[i, -1]:
                    _insert(squared[i], indices[i], distance, y)


# ---------------------------------------------------------------- sparse rows


class Sparse(NamedTuple):
    """Sparse rows, their squared norms, and the same entries column by column."""

    indptr: Array
    indices: Array
    data: FloatArray
    norms: FloatArray
    column_starts: Array
    column_rows: Array
    column_data: FloatArray


@compiled
def sparse_nearest(
    first: int, last: int, points: Sparse, queries: Sparse, is_self: bool, indices: Array, squared: FloatArray
) -> None:
    """The nearest points to the rows first … last − 1, exactly; overwrites indices and squared there.

    Products with all points are added up column by column. Those that may belong to the nearest are measured again, as
    differences: a product is off by the rounding of the norms, which for copies is all there is.
    """
    n, k = points.norms.size, indices.shape[1]
    score, smallest = np.empty(n), np.empty(k)
    for i in range(first, last):
        score[:] = points.norms
        for e in range(queries.indptr[i], queries.indptr[i + 1]):
            twice, column = 2 * queries.data[e], queries.indices[e]
            for p in range(points.column_starts[column], points.column_starts[column + 1]):
                score[points.column_rows[p]] -= twice * points.column_data[p]
        if is_self:
            score[i] = np.inf
        smallest[:] = np.inf
        for y in range(n):
            if score[y] < smallest[-1]:
                at = k - 1
                while at > 0 and smallest[at - 1] > score[y]:
                    smallest[at] = smallest[at - 1]
                    at -= 1
                smallest[at] = score[y]
        n_terms = queries.indptr[i + 1] - queries.indptr[i] + 8
        limit = smallest[-1] + 1e-15 * n_terms * (2 * queries.norms[i] + abs(smallest[-1]))
        squared[i, :] = np.inf
        indices[i, :] = _NOBODY
        for y in range(n):
            if score[y] <= limit:
                distance = _sparse_squared(queries, i, points, y)
                if distance <= squared[i, -1]:
                    _insert(squared[i], indices[i], distance, y)


@compiled
def _sparse_squared(a: Sparse, i: int, b: Sparse, j: int) -> float:
    """‖a_i − b_j‖² of sparse rows whose columns are in order."""
    p, p_end, q, q_end, total = a.indptr[i], a.indptr[i + 1], b.indptr[j], b.indptr[j + 1], 0.0
    while p < p_end or q < q_end:
        if q == q_end or (p < p_end and a.indices[p] < b.indices[q]):
            gap = a.data[p]
            p += 1
        elif p == p_end or a.indices[p] > b.indices[q]:
            gap = b.data[q]
            q += 1
        else:
            gap = a.data[p] - b.data[q]
            p += 1
            q += 1
        total += gap * gap
    return total


# ---------------------------------------------------------------- from lists to a graph


@compiled
def order_lists(first: int, last: int, indices: Array, weights: FloatArray) -> None:
    """Sort the lists of these rows by index, their weights with them; overwrites both."""
    for i in range(first, last):
        for at in range(1, indices.shape[1]):
            j, weight = indices[i, at], weights[i, at]
            while at > 0 and indices[i, at - 1] > j:
                indices[i, at], weights[i, at] = indices[i, at - 1], weights[i, at - 1]
                at -= 1
            indices[i, at], weights[i, at] = j, weight


@compiled
def turn_lists(
    first: int, last: int, indices: Array, weights: FloatArray, ends: IntArray, who: Array, how_much: FloatArray
) -> None:
    """The rows that list the points first … last − 1, in order, and with which weight; overwrites both, and ends.

    ends[j] is where those of j begin, and becomes where they end. Without room for them it is raised by their number.
    """
    n, k = indices.shape
    for i in range(n):
        for at in range(k):
            j = indices[i, at]
            if first <= j < last:
                if who.size:
                    who[ends[j]], how_much[ends[j]] = i, weights[i, at]
                ends[j] += 1


@compiled
def join_lists(
    first: int, last: int, indices: Array, weights: FloatArray, ends: IntArray, who: Array, how_much: FloatArray,
    indptr: IntArray, columns: Array, values: FloatArray,
) -> None:  # fmt: skip
    """Merge the lists of these rows with the rows that list them, the larger weight where both do.

    Without columns it counts: overwrites indptr[i + 1] by the length of row i. With columns it fills them and values.
    """
    k = indices.shape[1]
    for i in range(first, last):
        a, b, b_end, n_joined = 0, ends[i - 1] if i else 0, ends[i], 0
        while a < k or b < b_end:
            from_list = a < k and (b == b_end or indices[i, a] <= who[b])
            from_turned = b < b_end and (a == k or who[b] <= indices[i, a])
            if columns.size:
                at = indptr[i] + n_joined
                columns[at] = indices[i, a] if from_list else who[b]
                values[at] = max(weights[i, a] if from_list else 0.0, how_much[b] if from_turned else 0.0)
            a += from_list
            b += from_turned
            n_joined += 1
        if not columns.size:
            indptr[i + 1] = n_joined
