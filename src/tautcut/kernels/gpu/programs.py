"""The passes over F and the graph that run on the GPU, in Triton. One round of Algorithm 1 is six launches: `iterate`
(duals, divergence, primal step, projection, extrapolation) and `vary` (T, cuts and sizes) here, `survey` and `select`
(the λ-medians, B) in `medians`, `decide` (descent estimate, outer step, stopping) in `decisions`, and `save` (the best
partition). Sums have a fixed order and shared counters hold whole numbers: the same input gives the same bits. A part
of a graph has `iterate` too, and beside it `arrive` and `vary_once`.

A program works on a block of V rows (`layout`) and all R columns, rounded up to RP, a power of two; its edges are read
E at a time, so that several loads are in flight. A hub's row is shared by several programs, whose partial sums a second
launch adds up; graphs without hubs have neither that launch nor the lines for it.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

# isort: off
from tautcut.kernels.gpu.tables import (
    BAR, COLUMNS, DONE, DOWN, INNER, ITERATE, LEVEL, MEDIAN_K, MISSES, PHASE, PLANES, REALS, SAVE, SCALE, SIGMA,
    SIZES, SLOT, SLOT_K, TAU, THETA, UP, WORDS,
)  # fmt: skip
# isort: on

PIECES_IN_FLIGHT = tl.constexpr(8)  # of a hub, in each lane that adds them up
NOWHERE = tl.constexpr(-1e30)  # in columns that are there only to fill up a power of two: never in the support


@triton.jit
def _rows(block, owners, n_short, n_short_blocks, V: tl.constexpr, HAS_HUBS: tl.constexpr):
    """The rows of a block, and which lanes count: a long row fills its block, and only the first lane owns it; a hub
    fills several, and only the first lane of the first owns it.

    A lane without a row repeats the last one, so that every load is valid.
    """
    lane = tl.arange(0, V)
    is_long = block >= n_short_blocks
    long_row = n_short + block - n_short_blocks
    owner = 0
    if HAS_HUBS:
        long_row = tl.load(owners + block)
        goes_on = (block > 0) & (tl.load(owners + tl.maximum(block - 1, 0)) == long_row)
        owner = tl.where(goes_on, V, 0)  # no lane has the number V
    row = tl.where(is_long, long_row, block * V + lane)
    counts = tl.where(is_long, lane == owner, row < n_short)
    return tl.where(counts | is_long, row, tl.maximum(n_short - 1, 0)), counts


@triton.jit
def _project(x, r, R: tl.constexpr):
    """Each row moved to the nearest point of the simplex: the threshold rises until the support stays the same."""
    x = tl.where(r < R, x, NOWHERE)
    x = x - tl.max(x, 1)[:, None]
    support = (x > 0.1 * NOWHERE).to(tl.int32)
    count = tl.sum(support, 1)
    threshold = (tl.sum(tl.where(support > 0, x, 0.0), 1) - 1.0) / count
    changed, rounds = 1, 0
    while (changed > 0) & (rounds < R):  # the support shrinks in every round, so there are R of them at most
        rounds += 1
        support = (x > threshold[:, None]).to(tl.int32)
        fewer = tl.sum(support, 1)
        changed = tl.max((fewer != count).to(tl.int32), 0)
        count = fewer
        threshold = (tl.sum(tl.where(support > 0, x, 0.0), 1) - 1.0) / count
    return tl.maximum(x - threshold[:, None], 0.0)


@triton.jit
def wide(number, IS_WIDE: tl.constexpr):
    """The number in 64 bits, where its products need them."""
    return number.to(tl.int64) if IS_WIDE else number


@triton.jit
def _extrapolated(new, old, theta):
    """F̄ = F + θ (F − F_old), rounded in one way wherever it is computed: whoever has a ghost has its owner's bits."""
    return tl.fma(new - old, theta, new)


@triton.jit
def _largest(new, is_column):
    """The argmax of each row, its lowest index first."""
    return tl.argmax(tl.where(is_column, new, -1.0), 1).to(tl.int32)


@triton.jit(do_not_specialize=SIZES)
def iterate(
    X, P, labels, norms, partials, words, reals, columns, active, offsets, neighbors, weights, owners, hubs, fixed,
    masses, n, n_short, n_short_blocks, n_whole_blocks, n_blocks, n_slots,
    R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr,
    IS_WEIGHTED: tl.constexpr, HAS_HUBS: tl.constexpr, HAS_MASSES: tl.constexpr, HAS_LABELS: tl.constexpr,
    FINISHES: tl.constexpr, IS_WIDE: tl.constexpr,
):  # fmt: skip
    """One inner iteration on one block of one start; leaves F, F̄, P, argmax labels and the block's ‖F − F^k‖².

    A piece of a hub leaves only its P and its part of the divergence; the launch that FINISHES has a program for each
    hub, which leaves the rest in the place of the hub's first block. IS_WIDE where a plane of F has 2³¹ values or more.
    """
    block = tl.program_id(0)
    if FINISHES:
        block = tl.load(hubs + block)
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    word = words + s * WORDS
    if tl.load(word + PHASE) != ITERATE:
        return
    slot_k, slot, bar = tl.load(word + SLOT_K), tl.load(word + SLOT), tl.load(word + BAR)
    is_first = tl.load(word + INNER) == 0
    tau = tl.load(reals + s * REALS + TAU).to(tl.float32)
    sigma = tl.load(reals + s * REALS + SIGMA).to(tl.float32)
    theta = tl.load(reals + s * REALS + THETA).to(tl.float32)

    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    column = columns + s * COLUMNS * R + r
    scale = tl.load(column + SCALE * R, mask=is_column, other=0.0).to(tl.float32)

    plane = wide(n, IS_WIDE) * R
    F_k = X + (s * PLANES + slot_k) * plane
    # The first iteration of an outer step begins with F = F̄ = F^k, which is there and need not be copied.
    F_old = X + (s * PLANES + tl.where(is_first, slot_k, slot)) * plane
    F_bar = X + (s * PLANES + tl.where(is_first, slot_k, 2 + bar)) * plane

    row, counts = _rows(block, owners, n_short, n_short_blocks, V, HAS_HUBS)
    there = wide(row, IS_WIDE)[:, None] * R + r
    parts = partials + s * (n_blocks - n_whole_blocks) * R
    if FINISHES:
        divergence = _add_pieces(parts, hubs + tl.program_id(0), n_whole_blocks, r, R, RP, V)
    else:
        own = tl.load(F_bar + there, mask=is_column, other=0.0)
        first, last = tl.load(offsets + block), tl.load(offsets + block + 1)
        divergence = _move_duals(
            P + (s * n_slots + first * V) * R, F_bar, own, neighbors + first * V, weights + first * V,
            (last - first).to(tl.int32), (sigma * scale)[None, :, :], r, R, RP, V, E, IS_WEIGHTED, IS_WIDE,
        )  # fmt: skip
        if HAS_HUBS:  # noqa: SIM102 (the compiler drops it where there are none)
            if block >= n_whole_blocks:
                part = tl.sum(divergence, 0)[None, :]
                tl.store(parts + (block - n_whole_blocks) * R + r, part, mask=is_column)
                return
    if block >= n_short_blocks:  # the lanes share one row, each with some of its edges
        divergence = tl.zeros([V, RP], tl.float32) + tl.sum(divergence, 0)[None, :]

    start = tl.load(F_k + there, mask=is_column, other=0.0)
    pull = _pull(start, column, is_column, R)
    if HAS_MASSES:
        pull = pull * tl.load(masses + row).to(tl.float32)[:, None]
    target = start + pull
    old = tl.load(F_old + there, mask=is_column, other=0.0)
    new = _project((old - tau * scale * divergence + tau * target) / (1.0 + tau), r, R)
    if HAS_LABELS:
        label = tl.load(fixed + row)[:, None]
        new = tl.where(label >= 0, (label == r).to(tl.float32), new)
    stored = counts[:, None] & is_column
    tl.store(X + (s * PLANES + slot) * plane + there, new, mask=stored)
    # F̄ goes to the other plane: neighbours in other blocks may not have read the old one yet.
    tl.store(X + (s * PLANES + 3 - bar) * plane + there, _extrapolated(new, old, theta), mask=stored)
    tl.store(labels + s * n + row, _largest(new, is_column), mask=counts)
    moved = tl.where(stored, new - start, 0.0)
    tl.store(norms + s * n_blocks + block, tl.sum(tl.sum(moved * moved, 1), 0))


@triton.jit
def _move_duals(
    duals, F_bar, own, ends, weights, n_steps, rate, r,
    R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr, IS_WEIGHTED: tl.constexpr,
    IS_WIDE: tl.constexpr,
):  # fmt: skip
    """P ← clip(P + σ K F̄ D_B) on the directed edges of a block; (Kᵀ P) of its rows, lane by lane.

    Both ends of an edge compute its dual, of opposite sign, so that no program waits for another; and round it in one
    way, whatever else their programs are compiled for.
    """
    divergence = tl.zeros([V, RP], tl.float32)
    place = tl.arange(0, E)[:, None] * V + tl.arange(0, V)[None, :]
    mask = (r < R)[None, :, :]
    for _ in range(0, n_steps, E):
        end = wide(tl.load(ends + place), IS_WIDE)
        here = place[:, :, None] * R + r[None, :, :]
        p = tl.load(duals + here, mask=mask, other=0.0).to(tl.float32)
        other = tl.load(F_bar + (end[:, :, None] * R + r[None, :, :]), mask=mask, other=0.0)
        difference = own[None, :, :] - other
        if IS_WEIGHTED:
            w = tl.load(weights + place)[:, :, None]
            p = tl.minimum(tl.maximum(tl.fma(rate, w * difference, p), -1.0), 1.0)
            tl.store(duals + here, p.to(duals.dtype.element_ty), mask=mask)
            divergence += tl.sum(w * p, 0)
        else:
            p = tl.minimum(tl.maximum(tl.fma(rate, difference, p), -1.0), 1.0)
            tl.store(duals + here, p.to(duals.dtype.element_ty), mask=mask)
            divergence += tl.sum(p, 0)
        place += E * V
    return divergence


@triton.jit
def _add_pieces(parts, hub, n_whole_blocks, r, R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr):
    """The sum over the pieces of a hub, lane by lane, in a fixed order."""
    total = tl.zeros([V, RP], tl.float32)
    piece = tl.arange(0, PIECES_IN_FLIGHT)[:, None] * V + tl.arange(0, V)[None, :]
    first, last = tl.load(hub) - n_whole_blocks, tl.load(hub + 1) - n_whole_blocks
    for begin in range(first, last, PIECES_IN_FLIGHT * V):
        here = (begin + piece)[:, :, None]
        mask = (here < last) & (r < R)[None, :, :]
        total += tl.sum(tl.load(parts + here * R + r[None, :, :], mask=mask, other=0.0), 0)
    return total


@triton.jit
def _pull(start, column, is_column, R: tl.constexpr):
    """G − F^k = Δ ∂B(F^k) D_E of a unit of mass: one of three values, above, at and below the median."""
    median = tl.load(column + MEDIAN_K * R, mask=is_column, other=0.0).to(tl.float32)
    up = tl.load(column + UP * R, mask=is_column, other=0.0).to(tl.float32)
    level = tl.load(column + LEVEL * R, mask=is_column, other=0.0).to(tl.float32)
    down = tl.load(column + DOWN * R, mask=is_column, other=0.0).to(tl.float32)
    return tl.where(start > median, up, tl.where(start == median, level, down))


@triton.jit(do_not_specialize=SIZES)
def vary(
    X, labels, variations, norms, steps, words, active, offsets, neighbors, weights, owners, masses,
    n, n_short, n_short_blocks, n_blocks,
    G, R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr,
    IS_WEIGHTED: tl.constexpr, HAS_HUBS: tl.constexpr, HAS_MASSES: tl.constexpr,
):  # fmt: skip
    """T, cut and size (or mass) of each cluster, and ‖F − F^k‖², over every G-th block of one start.

    An edge is seen from both ends: T comes out twice as large, and a cut once for each of its two clusters. A start
    that looks again (MISSES > 0) has all this from its first look.
    """
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    word = words + s * WORDS
    if (tl.load(word + PHASE) == DONE) | (tl.load(word + MISSES) > 0):
        return
    F = X + (s * PLANES + tl.load(word + SLOT)) * (n * R)
    mine = labels + s * n
    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    variation = tl.zeros([V, RP], tl.float32)
    cut = tl.zeros([V, RP], tl.float32)
    size = tl.zeros([V, RP], tl.float64 if HAS_MASSES else tl.float32)
    squared_step = tl.zeros([], tl.float64)
    for block in range(tl.program_id(0), n_blocks, G):
        squared_step += tl.load(norms + s * n_blocks + block)
        row, counts = _rows(block, owners, n_short, n_short_blocks, V, HAS_HUBS)
        own = tl.load(F + (row[:, None] * R + r), mask=is_column, other=0.0)
        label = tl.load(mine + row)
        first, last = tl.load(offsets + block), tl.load(offsets + block + 1)
        place = tl.arange(0, E)[:, None] * V + tl.arange(0, V)[None, :]
        crossing = tl.zeros([V], tl.float32)
        for _ in range(0, (last - first).to(tl.int32), E):
            end = tl.load(neighbors + first * V + place)
            other = tl.load(F + (end[:, :, None] * R + r[None, :, :]), mask=(r < R)[None, :, :], other=0.0)
            differs = (tl.load(mine + end) != label[None, :]).to(tl.float32)
            if IS_WEIGHTED:
                w = tl.load(weights + first * V + place)
                variation += tl.sum(w[:, :, None] * tl.abs(own[None, :, :] - other), 0)
                crossing += tl.sum(w * differs, 0)
            else:
                variation += tl.sum(tl.abs(own[None, :, :] - other), 0)
                crossing += tl.sum(differs, 0)
            place += E * V
        is_mine = label[:, None] == r
        cut += tl.where(is_mine, crossing[:, None], 0.0)
        if HAS_MASSES:
            size += tl.where(is_mine & counts[:, None], tl.load(masses + row)[:, None], 0.0)
        else:
            size += (is_mine & counts[:, None]).to(tl.float32)
    out = variations + (s * 3 * R + tl.arange(0, RP)) * G + tl.program_id(0)
    mask = tl.arange(0, RP) < R
    tl.store(out, tl.sum(variation.to(tl.float64), 0), mask=mask)
    tl.store(out + R * G, tl.sum(cut.to(tl.float64), 0), mask=mask)
    tl.store(out + 2 * R * G, tl.sum(size.to(tl.float64), 0), mask=mask)
    tl.store(steps + s * G + tl.program_id(0), squared_step)


@triton.jit(do_not_specialize=SIZES)
def arrive(
    X, labels, incoming, words, reals, n, n_inside,
    R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, IS_WIDE: tl.constexpr,
):  # fmt: skip
    """What `iterate` leaves of a part's own rows, for V rows that came from elsewhere: those from `n_inside` on."""
    slot_k, slot = tl.load(words + SLOT_K).to(tl.int64), tl.load(words + SLOT).to(tl.int64)
    bar = tl.load(words + BAR).to(tl.int64)
    slot_old = tl.where(tl.load(words + INNER) == 0, slot_k, slot)
    theta = tl.load(reals + THETA).to(tl.float32)
    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    row = n_inside + tl.program_id(0) * V + tl.arange(0, V)
    counts = row < n
    stored = counts[:, None] & is_column
    plane = wide(n, IS_WIDE) * R
    there = wide(row, IS_WIDE)[:, None] * R + r
    new = tl.load(incoming + (wide(row, IS_WIDE) - n_inside)[:, None] * R + r, mask=stored, other=0.0)
    old = tl.load(X + slot_old * plane + there, mask=stored, other=0.0)
    tl.store(X + slot * plane + there, new, mask=stored)
    tl.store(X + (3 - bar) * plane + there, _extrapolated(new, old, theta), mask=stored)
    tl.store(labels + row, _largest(new, is_column), mask=counts)


@triton.jit(do_not_specialize=SIZES)
def vary_once(
    F, labels, numbers, ghosts, variations, offsets, neighbors, weights, owners,
    n_short, n_short_blocks, n_blocks, n_inside,
    G, R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr,
    IS_WEIGHTED: tl.constexpr, HAS_HUBS: tl.constexpr, HAS_GHOSTS: tl.constexpr, IS_WIDE: tl.constexpr,
):  # fmt: skip
    """T and cut of each cluster over every G-th block of a part's rows, every edge counted once among all parts.

    An edge inside the part is counted at the end that comes first, one between two parts at the end with the lower
    number in the whole graph. Rows from `n_inside` on are ghosts; only rows of the boundary have such neighbours.
    """
    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    variation = tl.zeros([V, RP], tl.float64)
    cut = tl.zeros([V, RP], tl.float64)
    for block in range(tl.program_id(0), n_blocks, G):
        row, _ = _rows(block, owners, n_short, n_short_blocks, V, HAS_HUBS)
        own = tl.load(F + (wide(row, IS_WIDE)[:, None] * R + r), mask=is_column, other=0.0)
        label = tl.load(labels + row)
        number = tl.load(numbers + row) if HAS_GHOSTS else row
        first, last = tl.load(offsets + block), tl.load(offsets + block + 1)
        place = tl.arange(0, E)[:, None] * V + tl.arange(0, V)[None, :]
        jumps = tl.zeros([V, RP], tl.float32)
        crossings = tl.zeros([V, RP], tl.float32)
        for _ in range(0, (last - first).to(tl.int32), E):
            end = tl.load(neighbors + first * V + place)
            counted = end > row[None, :]
            if HAS_GHOSTS:
                ghost = tl.load(ghosts + (end - n_inside), mask=end >= n_inside, other=0)
                counted = tl.where(end >= n_inside, number[None, :] < ghost, counted)
            mask = counted[:, :, None] & (r < R)[None, :, :]
            other = tl.load(F + (wide(end, IS_WIDE)[:, :, None] * R + r[None, :, :]), mask=mask, other=0.0)
            jump = tl.where(mask, tl.abs(own[None, :, :] - other), 0.0)
            other_label = tl.load(labels + end)
            differs = counted & (other_label != label[None, :])
            is_end = (other_label[:, :, None] == r[None, :, :]) | (label[None, :, None] == r[None, :, :])
            if IS_WEIGHTED:
                w = tl.load(weights + first * V + place)[:, :, None]
                jumps += tl.sum(w * jump, 0)
                crossings += tl.sum(tl.where(differs[:, :, None] & is_end, w, 0.0), 0)
            else:
                jumps += tl.sum(jump, 0)
                crossings += tl.sum((differs[:, :, None] & is_end).to(tl.float32), 0)
            place += E * V
        variation += jumps.to(tl.float64)
        cut += crossings.to(tl.float64)
    column = tl.arange(0, RP)
    out = variations + column * G + tl.program_id(0)
    tl.store(out, tl.sum(variation, 0), mask=column < R)
    tl.store(out + R * G, tl.sum(cut, 0), mask=column < R)


@triton.jit(do_not_specialize=SIZES)
def save(X, labels, best_F, best_labels, words, active, n, R: tl.constexpr, WIDTH: tl.constexpr):
    """Copy F and its labels of a start whose last partition is its best."""
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    chosen = tl.load(words + s * WORDS + SAVE)
    if chosen == 0:
        return
    plane = n * R
    i = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    values = tl.load(X + (s * PLANES + chosen - 1) * plane + i, mask=i < plane)
    tl.store(best_F + s * plane + i, values, mask=i < plane)
    tl.store(best_labels + s * n + i, tl.load(labels + s * n + i, mask=i < n), mask=i < n)


@triton.jit(do_not_specialize=SIZES)
def minus_laplacian(
    X, Y, partials, offsets, neighbors, weights, owners, n, n_short, n_short_blocks, n_whole_blocks, n_blocks,
    R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr,
    IS_WEIGHTED: tl.constexpr, HAS_HUBS: tl.constexpr,
):  # fmt: skip
    """Y = −L X = W X − D X, for one block of rows and R columns; of a piece of a hub, its part of that."""
    block = tl.program_id(0)
    plane = tl.program_id(1).to(tl.int64) * (n * R)
    r = tl.arange(0, RP)[None, :]
    row, counts = _rows(block, owners, n_short, n_short_blocks, V, HAS_HUBS)
    first, last = tl.load(offsets + block), tl.load(offsets + block + 1)
    place = tl.arange(0, E)[:, None] * V + tl.arange(0, V)[None, :]
    total = tl.zeros([V, RP], tl.float32)
    own = tl.load(X + plane + row[:, None] * R + r, mask=r < R, other=0.0)
    for _ in range(0, (last - first).to(tl.int32), E):
        end = tl.load(neighbors + first * V + place)
        other = tl.load(X + plane + (end[:, :, None] * R + r[None, :, :]), mask=(r < R)[None, :, :], other=0.0)
        if IS_WEIGHTED:
            w = tl.load(weights + first * V + place)
            total += tl.sum(w[:, :, None] * (other - own[None, :, :]), 0)
        else:
            total += tl.sum(other - own[None, :, :], 0)
        place += E * V
    if HAS_HUBS:  # noqa: SIM102
        if block >= n_whole_blocks:
            parts = partials + tl.program_id(1).to(tl.int64) * (n_blocks - n_whole_blocks) * R
            tl.store(parts + (block - n_whole_blocks) * R + r, tl.sum(total, 0)[None, :], mask=r < R)
            return
    if block >= n_short_blocks:
        total = tl.zeros([V, RP], tl.float32) + tl.sum(total, 0)[None, :]
    tl.store(Y + plane + row[:, None] * R + r, total, mask=counts[:, None] & (r < R))


@triton.jit(do_not_specialize=SIZES)
def join_hubs(
    Y, partials, hubs, n, n_whole_blocks, n_blocks, R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """The row of Y of one hub, from the parts that `minus_laplacian` has left."""
    s = tl.program_id(1).to(tl.int64)
    r = tl.arange(0, RP)[None, :]
    row = n - tl.num_programs(0) + tl.program_id(0)  # hubs are the last rows
    parts = partials + s * (n_blocks - n_whole_blocks) * R
    total = _add_pieces(parts, hubs + tl.program_id(0), n_whole_blocks, r, R, RP, V)
    tl.store(Y + s * (n * R) + row * R + r, tl.sum(total, 0)[None, :], mask=r < R)
