"""Nearest neighbours by cells: each point is compared with those of the cells near its own, sixteen at a time. This
module owns the comparison, the ranking by (distance, index) in double precision, and the joining of lists to a graph;
for sparse rows an inverted list of their columns. How many cells are enough it does not decide. Every row of an answer
depends on its own cell alone, so that threads may share the work in any way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray, SingleArray
from tautcut.kernels.cpu.cells import WIDTH, Cells, nearest_cells, squared_gap
from tautcut.kernels.cpu.compiling import absorbed, compiled
from tautcut.kernels.cpu.rows import full, lanes_up_to, load, store

_CHUNK = 16  # coordinates after which points that are too far are left
_NOBODY = np.int32(2**31 - 1)  # a place in a list that no neighbour has taken
_EMPTY = (np.int64(np.float32(np.inf).view(np.int32)) << 32) | np.int64(_NOBODY)  # the key of such a place
_HALVINGS = 12  # of a range of distances, in which a limit is looked for


# ---------------------------------------------------------------- distances, and lists of them


@absorbed
def _key(distance: Any, y: int) -> Any:
    """A squared distance in single precision and the number of a point as one number, which orders them so.

    The bits of a float that is not negative are in the order of its values.
    """
    return (np.int64(np.float32(distance).view(np.int32)) << 32) | np.int64(y)


@absorbed
def _distance(key: int) -> Any:
    """The squared distance in a key."""
    return np.int32(key >> 32).view(np.float32)


@absorbed
def _keep(keys: Array, key: int) -> None:
    """The least of a sorted list and one more, sorted; overwrites the list. Every place is written: no branch."""
    for at in range(keys.size - 1, 0, -1):
        keys[at] = min(keys[at], max(keys[at - 1], key))
    keys[0] = min(keys[0], key)


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
    points: SingleArray  # if so, features of the points, by their number, in single precision
    queries: SingleArray  # and of the rows


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
def visit(first: int, last: int, task: Task, most: int, wide: int, is_exact: bool, keys: Array) -> int:
    """The nearest points of the rows in the blocks first … last − 1: each row looks at the `most` cells near it.

    These are chosen among the `wide` cells near its block. The lists hold the nearest points by (distance in single
    precision, index). A block with a list that finds too few goes on with all cells, and so does every block if it has
    to be exact, but for cells that are too far. Overwrites the keys of the lists, shape (n_rows, n_listed), and returns
    the number of pairs compared.
    """
    cells, asked = task.cells, task.asked
    gaps, n_pairs, start = np.empty(cells.centres.shape[0], np.float32), 0, asked.bounds[first]
    desk = _desk((asked.bounds[first + 1 : last + 1] - asked.bounds[first:last]).max())
    for block in range(first, last):
        begin, end = asked.bounds[block], asked.bounds[block + 1]
        lists = keys[begin - start : end - start]
        lists[:] = _EMPTY
        near = nearest_cells(asked.centres, block, cells.centres, wide, gaps)
        table = _gaps_of_rows(asked.rows[begin:end], cells.centres, near)
        limits = _limits(table, most)
        for v in range(near.size):
            n_rows = 0
            for t in range(end - begin):
                desk.chosen[n_rows] = t
                n_rows += table[v, t] <= limits[t]
            if n_rows:
                n_pairs += _compare(task, block, near[v], n_rows, desk, lists)
        if is_exact or lists[:, -1].max() == _EMPTY:
            n_pairs += _go_on(task, block, near, table, limits, gaps, desk, lists)
    return n_pairs


@compiled
def _go_on(
    task: Task, block: int, near: Array, table: SingleArray, limits: SingleArray,
    gaps: SingleArray, desk: Desk, lists: Array,
) -> int:  # fmt: skip
    """Compare the rows of a block with the cells that they have not looked at, and that may hold a nearer point.

    Those are the cells that no row had near, and of the `near` ones those whose gap in the table is above its limit.
    """
    cells, asked, n_pairs = task.cells, task.asked, 0
    begin, end = asked.bounds[block], asked.bounds[block + 1]
    rounding = np.float32(1e-5 + 1e-7 * cells.rows.shape[1])
    place = np.full(gaps.size, -1)
    place[near] = np.arange(near.size)
    reach = np.sqrt(_distance(lists[:, -1].max()))
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
                gap = squared_gap(asked.rows, begin + t, cells.centres, other)
                is_left = True
            reach_of_row = np.sqrt(_distance(lists[t, -1])) * (1 + rounding)
            desk.chosen[n_rows] = t
            n_rows += is_left and np.sqrt(gap) * (1 - rounding) - far <= reach_of_row
        if n_rows:
            n_pairs += _compare(task, block, other, n_rows, desk, lists)
            reach = np.sqrt(_distance(lists[:, -1].max()))
    return n_pairs


@compiled
def _gaps_of_rows(rows: SingleArray, centres: SingleArray, near: Array) -> SingleArray:
    """The squared distances of rows to the centres of some cells, shape (n_near, n_rows or a few more)."""
    (n_rows, d), last = rows.shape, near.size - 1
    n_panels = (n_rows + WIDTH - 1) // WIDTH
    turned, table = np.zeros((n_panels * d, WIDTH), np.float32), np.empty((near.size * n_panels, WIDTH), np.float32)
    for t in range(n_rows):
        for j in range(d):
            turned[t // WIDTH * d + j, t % WIDTH] = rows[t, j]
    for v in range(0, near.size, 4):  # four centres at a time; the last ones may be the same
        v1, v2, v3 = min(v + 1, last), min(v + 2, last), min(v + 3, last)
        c0, c1, c2, c3 = near[v], near[v1], near[v2], near[v3]
        for panel in range(n_panels):
            a0 = full(np.float32(0), 16)
            a1, a2, a3 = a0, a0, a0
            for j in range(d):
                x = load(turned, panel * d + j, 16)
                e0, e1 = full(centres[c0, j], 16) - x, full(centres[c1, j], 16) - x
                e2, e3 = full(centres[c2, j], 16) - x, full(centres[c3, j], 16) - x
                a0, a1, a2, a3 = a0 + e0 * e0, a1 + e1 * e1, a2 + e2 * e2, a3 + e3 * e3
            store(table, v * n_panels + panel, a0)
            store(table, v1 * n_panels + panel, a1)
            store(table, v2 * n_panels + panel, a2)
            store(table, v3 * n_panels + panel, a3)
    return table.reshape(near.size, n_panels * WIDTH)


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
def _compare(task: Task, block: int, cell: int, n_rows: int, desk: Desk, lists: Array) -> Any:
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
            limits[s] = _limit(_distance(lists[row, -1]), slack)
            is_done = is_done and lists[row, -1] < _key(np.float32(0), lowest)
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
                        _enlist(task, block, cell, panel, chosen[t + s], masks[s], four[s], lists)
                        limits[s] = _limit(_distance(lists[chosen[t + s], -1]), slack)
    return n_rows * (cells.bounds[cell + 1] - cells.bounds[cell])


@absorbed
def _enlist(
    task: Task, block: int, cell: int, panel: int, row: int, lanes: int,
    near: SingleArray, lists: Array,
) -> None:  # fmt: skip
    """Put the points in these lanes of a panel, as near as `near` says, into the list of a row of a block."""
    cells, keys = task.cells, lists[row]
    own = task.asked.order[task.asked.bounds[block] + row]
    at = cells.bounds[cell] + (panel - cells.first_panels[cell]) * WIDTH
    for lane in range(min(WIDTH, cells.bounds[cell + 1] - at)):
        if (lanes >> lane) & 1:
            distance, y = near[lane], cells.order[at + lane]
            if task.is_outlined:
                distance = squared_gap(task.queries, own, task.points, y)
            key = _key(distance, y)
            if key < keys[-1] and not (task.is_self and y == own):
                _keep(keys, key)


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
def compare_in_full(rows: Array, outlined: Array, task: Task, n_listed: int) -> Array:
    """The keys of the nearest points in single precision, of those that each row lists by leading coordinates."""
    lists = np.full((rows.size, n_listed), _EMPTY)
    for t in range(rows.size):
        for listed in outlined[t]:
            if listed != _EMPTY:
                y = listed & _NOBODY
                key = _key(squared_gap(task.queries, rows[t], task.points, y), y)
                if key < lists[t, -1]:
                    _keep(lists[t], key)
    return lists


@compiled
def rank(
    rows: Array, keys: Array, points: Array, queries: Array, unit: float, rounding: float,
    slack: float, exact_below: float, indices: Array, squared: FloatArray, is_clear: Array,
) -> None:  # fmt: skip
    """Of the listed points of each row the first by (distance, index), measured in double precision.

    Overwrites indices, squared and is_clear at `rows`. A row is clear if no point that is not listed can belong there:
    its distance in single precision, times `unit`, is not below the last one listed, and off by `rounding` relative to
    itself and by `slack`; but right where its square is below `exact_below`.
    """
    k, n_listed = indices.shape[1], keys.shape[1]
    for t in range(rows.size):
        i, filled = rows[t], 0
        squared[i, :] = np.inf
        indices[i, :] = _NOBODY
        while filled < n_listed and keys[t, filled] != _EMPTY:
            y, distance = keys[t, filled] & _NOBODY, np.float64(_distance(keys[t, filled]))
            if not distance < exact_below:  # or it is right as it is
                distance = _squared_double(queries, i, points, y)
            if distance <= squared[i, -1]:
                _insert(squared[i], indices[i], distance, y)
            filled += 1
        last = np.float64(_distance(keys[t, -1]))
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
