"""The programs that run on the card, in Triton. One round of Algorithm 1 is six launches: `iterate` (duals, divergence,
primal step, projection, extrapolation), `vary` (T, cuts and sizes), `survey` (a bracket's worth of candidates for
each λ-median), `select` (sums up, finds the medians, B), `decide` (descent estimate, outer step, stopping) and `save`
(the best partition). Every start of a batch is at its own point of the algorithm, kept in small tables in the card's
memory, so that no launch waits for the host. Sums have a fixed order and shared counters hold whole numbers: the same
input gives the same bits. `decide` runs in a single warp, because it reads what it then overwrites.

F ∈ [0, 1], so the bits of a value, read as an integer, are in the values' own order: medians are searched among those.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

# What a start does in the next round.
DONE, ITERATE, LOOK_AGAIN, BEGIN = (tl.constexpr(i) for i in range(4))

# Words: whole numbers of a start. The best partition is saved from slot SAVE − 1, if SAVE > 0.
PHASE, SLOT_K, SLOT, BAR, INNER, ITERATIONS, OUTER, SAVE, STATUS, PROGRESS_AT, LOOKS, MISSES = (
    tl.constexpr(i) for i in range(12)
)
WORDS = tl.constexpr(16)

# Reals of a start.
TAU, SIGMA, THETA, DELTA, ENERGY, BEST, MARK, RELAXED, SQUARED_STEP = (tl.constexpr(i) for i in range(9))
REALS = tl.constexpr(16)

# Columns: reals of a start and cluster; those of F^k end in _K.
T, B, MEDIAN, TIE, CUT, SIZE, FOUND, T_K, B_K, MEDIAN_K, SCALE, UP, LEVEL, DOWN, BEST_CUT = (
    tl.constexpr(i) for i in range(15)
)
COLUMNS = tl.constexpr(16)

# Brackets: thresholds of a start and cluster; the values in [LOW, HIGH) are candidates for its median.
LOW, HIGH, LAST, MOVE, TAKEN = (tl.constexpr(i) for i in range(14, 19))
THRESHOLDS = tl.constexpr(16)
OTHERS = tl.constexpr(14)  # thresholds beside the bracket's two ends
BRACKETS = tl.constexpr(32)
CANDIDATES = tl.constexpr(2048)
TOP = tl.constexpr(0x3F800001)  # above the bits of 1.0
MOST_TILES = tl.constexpr(255)
MOST_MISSES = tl.constexpr(64)  # in a row; a bracket of all values is down to one of them in a dozen

# Reals and whole numbers that all starts share.
LIPSCHITZ, TOL, EPSILON, PROGRESS = (tl.constexpr(i) for i in range(4))

COLLAPSED, CONVERGED, SETTLED, BUDGET_SPENT = (tl.constexpr(i) for i in range(1, 5))


@triton.jit
def _rows(block, n_short, n_short_blocks, V: tl.constexpr):
    """The rows of a block, and which lanes count: a long row fills its block, and only the first lane owns it."""
    lane = tl.arange(0, V)
    is_long = block >= n_short_blocks
    row = tl.where(is_long, n_short + block - n_short_blocks, block * V + lane)
    counts = tl.where(is_long, lane == 0, row < n_short)
    return tl.where(counts | is_long, row, tl.maximum(n_short - 1, 0)), counts


@triton.jit
def _project(x, r, R: tl.constexpr):
    """Each row moved to the nearest point of the simplex: the threshold rises until the support stays the same."""
    x = tl.where(r < R, x, -1e30)
    x = x - tl.max(x, 1)[:, None]
    support = (x > -1e29).to(tl.int32)
    count = tl.sum(support, 1)
    threshold = (tl.sum(tl.where(support > 0, x, 0.0), 1) - 1.0) / count
    changed, rounds = 1, 0
    while (changed > 0) & (rounds < R):
        rounds += 1
        support = (x > threshold[:, None]).to(tl.int32)
        fewer = tl.sum(support, 1)
        changed = tl.max((fewer != count).to(tl.int32), 0)
        count = fewer
        threshold = (tl.sum(tl.where(support > 0, x, 0.0), 1) - 1.0) / count
    return tl.maximum(x - threshold[:, None], 0.0)


@triton.jit
def iterate(
    X, P, labels, norms, words, reals, columns, active, offsets, neighbors, weights, fixed,
    n, n_short, n_short_blocks, n_blocks, n_slots,
    R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr,
    IS_WEIGHTED: tl.constexpr, HAS_LABELS: tl.constexpr,
):  # fmt: skip
    """One inner iteration on one block of one start; leaves F, F̄, P, argmax labels and the block's ‖F − F^k‖²."""
    block = tl.program_id(0)
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

    plane = n * R
    F_k = X + (s * 4 + slot_k) * plane
    F_old = X + (s * 4 + tl.where(is_first, slot_k, slot)) * plane
    F_bar = X + (s * 4 + tl.where(is_first, slot_k, 2 + bar)) * plane

    row, counts = _rows(block, n_short, n_short_blocks, V)
    there = row[:, None] * R + r
    own = tl.load(F_bar + there, mask=is_column, other=0.0)
    first, last = tl.load(offsets + block), tl.load(offsets + block + 1)
    duals = P + (s * n_slots + first * V) * R
    ends = neighbors + first * V
    divergence = tl.zeros([V, RP], tl.float32)
    place = tl.arange(0, E)[:, None] * V + tl.arange(0, V)[None, :]
    rate = (sigma * scale)[None, :, :]
    for _ in range(0, (last - first).to(tl.int32), E):
        end = tl.load(ends + place)
        here = place[:, :, None] * R + r[None, :, :]
        mask = (r < R)[None, :, :]
        p = tl.load(duals + here, mask=mask, other=0.0).to(tl.float32)
        other = tl.load(F_bar + (end[:, :, None] * R + r[None, :, :]), mask=mask, other=0.0)
        difference = own[None, :, :] - other
        if IS_WEIGHTED:
            w = tl.load(weights + first * V + place)[:, :, None]
            p = tl.minimum(tl.maximum(p + rate * (w * difference), -1.0), 1.0)
            tl.store(duals + here, p.to(P.dtype.element_ty), mask=mask)
            divergence += tl.sum(w * p, 0)
        else:
            p = tl.minimum(tl.maximum(p + rate * difference, -1.0), 1.0)
            tl.store(duals + here, p.to(P.dtype.element_ty), mask=mask)
            divergence += tl.sum(p, 0)
        place += E * V
    if block >= n_short_blocks:
        divergence = tl.zeros([V, RP], tl.float32) + tl.sum(divergence, 0)[None, :]

    start = tl.load(F_k + there, mask=is_column, other=0.0)
    median = tl.load(column + MEDIAN_K * R, mask=is_column, other=0.0).to(tl.float32)
    up = tl.load(column + UP * R, mask=is_column, other=0.0).to(tl.float32)
    level = tl.load(column + LEVEL * R, mask=is_column, other=0.0).to(tl.float32)
    down = tl.load(column + DOWN * R, mask=is_column, other=0.0).to(tl.float32)
    target = start + tl.where(start > median, up, tl.where(start == median, level, down))
    old = tl.load(F_old + there, mask=is_column, other=0.0)
    new = _project((old - tau * scale * divergence + tau * target) / (1.0 + tau), r, R)
    if HAS_LABELS:
        label = tl.load(fixed + row)[:, None]
        new = tl.where(label >= 0, (label == r).to(tl.float32), new)
    stored = counts[:, None] & is_column
    tl.store(X + (s * 4 + slot) * plane + there, new, mask=stored)
    tl.store(X + (s * 4 + 3 - bar) * plane + there, new + theta * (new - old), mask=stored)
    tl.store(labels + s * n + row, tl.argmax(tl.where(is_column, new, -1.0), 1).to(tl.int32), mask=counts)
    moved = tl.where(stored, new - start, 0.0)
    tl.store(norms + s * n_blocks + block, tl.sum(tl.sum(moved * moved, 1), 0))


@triton.jit
def vary(
    X, labels, variations, norms, steps, words, active, offsets, neighbors, weights,
    n, n_short, n_short_blocks, n_blocks,
    G: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr, IS_WEIGHTED: tl.constexpr,
):  # fmt: skip
    """T, cut and size of each cluster, and ‖F − F^k‖², over every G-th block of one start; edges are seen twice."""
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    word = words + s * WORDS
    if (tl.load(word + PHASE) == DONE) | (tl.load(word + MISSES) > 0):
        return
    F = X + (s * 4 + tl.load(word + SLOT)) * (n * R)
    mine = labels + s * n
    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    variation = tl.zeros([V, RP], tl.float32)
    cut = tl.zeros([V, RP], tl.float32)
    size = tl.zeros([V, RP], tl.float32)
    squared_step = tl.zeros([], tl.float64)
    for block in range(tl.program_id(0), n_blocks, G):
        squared_step += tl.load(norms + s * n_blocks + block)
        row, counts = _rows(block, n_short, n_short_blocks, V)
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
        size += (is_mine & counts[:, None]).to(tl.float32)
    out = variations + (s * 3 * R + tl.arange(0, RP)) * G + tl.program_id(0)
    mask = tl.arange(0, RP) < R
    tl.store(out, tl.sum(variation.to(tl.float64), 0), mask=mask)
    tl.store(out + R * G, tl.sum(cut.to(tl.float64), 0), mask=mask)
    tl.store(out + 2 * R * G, tl.sum(size.to(tl.float64), 0), mask=mask)
    tl.store(steps + s * G + tl.program_id(0), squared_step)


@triton.jit
def _four_thresholds(bracket, is_column):
    t_0 = tl.load(bracket, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    t_1 = tl.load(bracket + 1, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    t_2 = tl.load(bracket + 2, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    t_3 = tl.load(bracket + 3, mask=is_column, other=TOP).to(tl.float32, bitcast=True)
    return t_0, t_1, t_2, t_3


@triton.jit
def _four_counts(value, t_0, t_1, t_2, t_3):
    """Which of four thresholds each value reaches: a byte for each."""
    low_half = tl.where(value >= t_0, 1, 0) + tl.where(value >= t_1, 1 << 8, 0)
    return low_half + tl.where(value >= t_2, 1 << 16, 0) + tl.where(value >= t_3, 1 << 24, 0)


@triton.jit
def _store_four_counts(packed, out, mask):
    for k in tl.static_range(0, 4):
        tl.store(out + k, tl.sum((packed >> (8 * k)) & 255, 0), mask=mask)


@triton.jit
def survey(
    X, sums, counts, candidates, brackets, words, active, n,
    G: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The values of one start's F: how many lie above each threshold, and those near each λ-median.

    Counts of four thresholds share a word, so a program may read MOST_TILES tiles, and no more.
    """
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    word = words + s * WORDS
    if tl.load(word + PHASE) == DONE:
        return
    F = X + (s * 4 + tl.load(word + SLOT)) * (n * R)
    r = tl.arange(0, RP)[None, :]
    is_column = r < R
    bracket = brackets + (s * R + r) * BRACKETS
    low_bits = tl.load(bracket + LOW, mask=is_column, other=0)
    high_bits = tl.load(bracket + HIGH, mask=is_column, other=0)
    low, high = low_bits.to(tl.float32, bitcast=True), high_bits.to(tl.float32, bitcast=True)
    is_collected = is_column & (high_bits - low_bits > 1)
    t_0, t_1, t_2, t_3 = _four_thresholds(bracket, is_column)
    t_4, t_5, t_6, t_7 = _four_thresholds(bracket + 4, is_column)
    t_8, t_9, t_10, t_11 = _four_thresholds(bracket + 8, is_column)
    t_12, t_13, t_14, t_15 = _four_thresholds(bracket + 12, is_column)
    above = tl.zeros([ROWS, RP], tl.float32)
    below = tl.zeros([ROWS, RP], tl.float32)
    counts_0 = tl.zeros([ROWS, RP], tl.int32)
    counts_4 = tl.zeros([ROWS, RP], tl.int32)
    counts_8 = tl.zeros([ROWS, RP], tl.int32)
    counts_12 = tl.zeros([ROWS, RP], tl.int32)
    for first in range(tl.program_id(0) * ROWS, n, G * ROWS):
        row = first + tl.arange(0, ROWS)
        counted = (row < n)[:, None] & is_column
        value = tl.load(F + (row[:, None] * R + r), mask=counted, other=-1.0)
        above += tl.where(value >= high, value, 0.0)
        below += tl.where(counted & (value < low), value, 0.0)
        counts_0 += _four_counts(value, t_0, t_1, t_2, t_3)
        counts_4 += _four_counts(value, t_4, t_5, t_6, t_7)
        counts_8 += _four_counts(value, t_8, t_9, t_10, t_11)
        counts_12 += _four_counts(value, t_12, t_13, t_14, t_15)
        is_near = counted & (value >= low) & (value < high) & is_collected
        if tl.max(tl.max(is_near.to(tl.int32), 1), 0) > 0:
            # Once there are more than fit, one more says nothing new.
            n_taken = tl.load(bracket + TAKEN, mask=is_column, other=0, volatile=True)
            is_near = is_near & (n_taken <= CANDIDATES)
            position = tl.atomic_add(bracket + TAKEN + row[:, None] * 0, 1, mask=is_near)
            tl.store(candidates + (s * R + r) * CANDIDATES + position, value, mask=is_near & (position < CANDIDATES))
    column = tl.arange(0, RP)
    mask = column < R
    out = sums + (s * 2 * R + column) * G + tl.program_id(0)
    tl.store(out, tl.sum(above.to(tl.float64), 0), mask=mask)
    tl.store(out + R * G, tl.sum(below.to(tl.float64), 0), mask=mask)
    out = counts + ((s * R + column) * G + tl.program_id(0)) * THRESHOLDS
    _store_four_counts(counts_0, out, mask)
    _store_four_counts(counts_4, out + 4, mask)
    _store_four_counts(counts_8, out + 8, mask)
    _store_four_counts(counts_12, out + 12, mask)


@triton.jit
def _sum(pointer, G: tl.constexpr, WIDTH: tl.constexpr):
    """The sum of G numbers, in a fixed order."""
    i = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float64)
    for first in range(0, G, WIDTH):
        total += tl.load(pointer + first + i, mask=first + i < G, other=0.0)
    return tl.sum(total, 0)


@triton.jit
def select(
    variations, sums, counts, candidates, brackets, columns, words, active, lam, rank, n,
    G_VARY: tl.constexpr, G: tl.constexpr, R: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum up one column: T, cut, size; and med_λ, ∂B on ties and B, if the bracket holds the median."""
    r = tl.program_id(0)
    s = tl.load(active + tl.program_id(1)).to(tl.int64)
    if s < 0:
        return
    if tl.load(words + s * WORDS + PHASE) == DONE:
        return
    column = columns + s * COLUMNS * R + r
    bracket = brackets + (s * R + r) * BRACKETS
    k = tl.arange(0, THRESHOLDS)
    thresholds = tl.load(bracket + k)
    low, high, taken = tl.load(bracket + LOW), tl.load(bracket + HIGH), tl.load(bracket + TAKEN)
    last, move = tl.load(bracket + LAST), tl.load(bracket + MOVE)
    was_found = (tl.load(words + s * WORDS + MISSES) > 0) & (tl.load(column + FOUND * R) > 0.5)
    tl.debug_barrier()  # every warp has read what is overwritten from here on
    tl.store(bracket + TAKEN, 0)
    if was_found:
        return  # by an earlier look at the same F; the bracket is ready for the next
    varied = variations + (s * 3 * R + r) * G_VARY
    tl.store(column + T * R, 0.5 * _sum(varied, G_VARY, WIDTH))
    tl.store(column + CUT * R, _sum(varied + R * G_VARY, G_VARY, WIDTH))
    tl.store(column + SIZE * R, _sum(varied + 2 * R * G_VARY, G_VARY, WIDTH))

    i = tl.arange(0, WIDTH // 2)[:, None]
    totals = tl.zeros([WIDTH // 2, THRESHOLDS], tl.int32)
    for first in range(0, G, WIDTH // 2):
        mine = counts + ((s * R + r) * G + first + i) * THRESHOLDS
        totals += tl.load(mine + k[None, :], mask=(first + i < G) & (k >= 0)[None, :], other=0)
    reached = tl.sum(totals, 0)
    # The tightest thresholds on either side of the median, and how many values lie at or above the bracket's ends.
    k0 = tl.load(rank + r)  # how many values lie above the median, or beside it
    lower = tl.max(tl.where(reached > k0, thresholds, 0), 0)
    upper = tl.min(tl.where(reached <= k0, thresholds, TOP), 0)
    n_low = tl.sum(tl.where(k == LOW, reached, 0), 0)
    n_high = tl.sum(tl.where(k == HIGH, reached, 0), 0)
    holds = (n_low > k0) & (n_high <= k0)
    is_found = holds & ((taken <= CANDIDATES) | (high - low == 1))
    tl.store(column + FOUND * R, tl.where(is_found, 1.0, 0.0).to(tl.float64))
    if is_found:
        c = tl.arange(0, CANDIDATES)
        n_kept = tl.where(high - low == 1, 0, taken)
        value = tl.load(candidates + (s * R + r) * CANDIDATES + c, mask=c < n_kept, other=-1.0)
        bits = tl.where(c < n_kept, value.to(tl.int32, bitcast=True), -1)
        found, beyond = low, high
        while beyond - found > 1:
            middle = found + (beyond - found) // 2
            is_lower = n_high + tl.sum((bits >= middle).to(tl.int32), 0) > k0
            found = tl.where(is_lower, middle, found)
            beyond = tl.where(is_lower, beyond, middle)
        median = found.to(tl.float32, bitcast=True).to(tl.float64)
        n_above = n_high + tl.sum((bits > found).to(tl.int32), 0)
        n_below = n - n_low + tl.sum(((bits >= 0) & (bits < found)).to(tl.int32), 0)
        # In whole numbers: candidates lie in no particular order.
        whole = tl.where(c < n_kept, (value.to(tl.float64) * 274877906944.0).to(tl.int64), 0)
        high_part = tl.sum(tl.where(bits > found, whole, 0), 0).to(tl.float64) / 274877906944.0
        low_part = tl.sum(tl.where(bits < found, whole, 0), 0).to(tl.float64) / 274877906944.0
        summed = sums + (s * 2 * R + r) * G
        sum_above = _sum(summed, G, WIDTH) + high_part
        sum_below = _sum(summed + R * G, G, WIDTH) + low_part
        lam_r = tl.load(lam + r)
        balance = lam_r * (sum_above - n_above * median) + (n_below * median - sum_below)
        tl.store(column + MEDIAN * R, median)
        tl.store(column + B * R, tl.maximum(balance, 0.0))
        n_level = n - n_above - n_below
        tl.store(column + TIE * R, (n_below - lam_r * n_above) / n_level)
        # The next bracket: a few times as far as the median has moved of late, if there is room for what lies there.
        move = tl.maximum(tl.abs(found - last), (0.8 * move).to(tl.int32))
        room = CANDIDATES // 2 - n_level
        share = room.to(tl.float64) / tl.maximum(taken - n_level, 1)
        reach = (((high - low) // 2).to(tl.float64) * tl.minimum(share, 64.0)).to(tl.int64)
        reach = tl.minimum(tl.maximum(tl.minimum(reach, 4 * move.to(tl.int64)), 64), 1 << 23).to(tl.int32)
        reach = tl.where(room > 0, reach, 0)
        low, high = tl.maximum(found - reach, 0), tl.minimum(found + reach + 1, TOP)
        # On either side thresholds at growing distances, in case the median has gone further.
        near = tl.maximum(tl.maximum(reach, move), 64).to(tl.int64)
        for j in tl.static_range(0, OTHERS // 2):
            tl.store(bracket + j, tl.maximum(low - (near << (2 * j)), 0).to(tl.int32))
            tl.store(bracket + OTHERS // 2 + j, tl.minimum(high + (near << (2 * j)), TOP).to(tl.int32))
        tl.store(bracket + LAST, found)
        tl.store(bracket + MOVE, move)
    else:
        # Look again between the two thresholds, with others evenly between them and one to set their lower end apart.
        low, high = lower, upper
        step = (high - low) // OTHERS
        tl.store(bracket + 0, low + 1)
        for j in tl.static_range(1, OTHERS):
            tl.store(bracket + j, low + j * step)
    tl.store(bracket + LOW, low)
    tl.store(bracket + HIGH, high)


@triton.jit
def decide(
    columns, words, reals, steps, history, active, lam, shared, n,
    max_iter, max_inner, patience, n_history, G: tl.constexpr, R: tl.constexpr, RP: tl.constexpr,
):  # fmt: skip
    """After a measurement of one start: the descent estimate, and at the end of an outer step all that follows."""
    s = tl.load(active + tl.program_id(0)).to(tl.int64)
    if s < 0:
        return
    word, real = words + s * WORDS, reals + s * REALS
    phase = tl.load(word + PHASE)
    if phase == DONE:
        return
    tl.store(word + SAVE, 0)
    r = tl.arange(0, RP)
    is_column = r < R
    column = columns + s * COLUMNS * R + r
    is_found = tl.min(tl.load(column + FOUND * R, mask=is_column, other=1.0), 0) > 0.5
    tl.store(word + LOOKS, tl.load(word + LOOKS) + 1)
    outer = tl.load(word + OUTER)
    if is_found == 0:
        # A start that has not begun (outer < 0) must begin again; any other repeats its look alone.
        misses = tl.load(word + MISSES) + 1
        tl.store(word + MISSES, misses)
        is_lost = misses > MOST_MISSES  # F is not finite
        tl.store(word + STATUS, tl.where(is_lost, COLLAPSED, 0))
        tl.store(word + PHASE, tl.where(is_lost, DONE, tl.where(outer < 0, BEGIN, LOOK_AGAIN)))
        return
    tl.store(word + MISSES, 0)

    squared_step = _sum(steps + s * G, G, 512)
    tl.store(real + SQUARED_STEP, squared_step)

    T_r = tl.load(column + T * R, mask=is_column, other=0.0)
    B_r = tl.load(column + B * R, mask=is_column, other=1.0)
    cut = tl.load(column + CUT * R, mask=is_column, other=0.0)
    size = tl.load(column + SIZE * R, mask=is_column, other=1.0)
    lam_r = tl.load(lam + r, mask=is_column, other=1.0)
    is_collapsed = tl.max(((B_r <= 0) | (T_r != T_r) | (T_r > 1e300)).to(tl.int32), 0) > 0
    inner, iterations = tl.load(word + INNER), tl.load(word + ITERATIONS)
    tau, sigma, theta = tl.load(real + TAU), tl.load(real + SIGMA), tl.load(real + THETA)
    lipschitz, tol = tl.load(shared + LIPSCHITZ), tl.load(shared + TOL)
    slack = 1.0 - tl.load(shared + EPSILON)
    is_descent = outer < 0
    if outer >= 0:  # an inner iteration has been done
        inner += 1
        iterations += 1
        tau = theta * tau
        sigma = sigma / theta
        theta = 1.0 / tl.sqrt(1.0 + 2.0 * tau)
        tl.store(word + BAR, 1 - tl.load(word + BAR))
        T_k = tl.load(column + T_K * R, mask=is_column, other=0.0)
        B_k = tl.load(column + B_K * R, mask=is_column, other=1.0)
        gain = tl.sum((T_k / B_k * B_r - T_r) / B_k, 0)
        is_descent = gain >= slack * squared_step / tl.load(real + DELTA)
    tl.store(word + INNER, inner)
    tl.store(word + ITERATIONS, iterations)
    tl.store(word + PHASE, ITERATE)
    if is_descent | (inner >= max_inner) | (iterations >= max_iter):
        room = tl.minimum(lam_r * size, n - size)
        energy = tl.sum(tl.where(room > 0, cut / tl.maximum(room, 1e-300), float("inf")), 0)
        relaxed = tl.sum(tl.where(B_r > 0, T_r / tl.maximum(B_r, 1e-300), float("inf")), 0)
        before = tl.load(real + RELAXED)
        slot = tl.load(word + SLOT)
        best, mark = tl.load(real + BEST), tl.load(real + MARK)
        is_best = (energy < best) | (outer < 0)
        tl.store(real + BEST, tl.where(is_best, energy, best))
        tl.store(word + SAVE, tl.where(is_best, slot + 1, 0))
        if is_best:
            tl.store(column + BEST_CUT * R, cut, mask=is_column)
        progress_at = tl.load(word + PROGRESS_AT)
        if outer >= 0:
            is_progress = energy < (1.0 - tl.load(shared + PROGRESS)) * mark
            tl.store(real + MARK, tl.where(is_progress, energy, mark))
            progress_at = tl.where(is_progress, iterations, progress_at)
            tl.store(word + PROGRESS_AT, progress_at)
        outer += 1
        tl.store(word + OUTER, outer)
        tl.store(real + ENERGY, energy)
        tl.store(real + RELAXED, relaxed)
        if outer < n_history:
            line = history + (s * n_history + outer) * 4
            tl.store(line + 0, iterations.to(tl.float64))
            tl.store(line + 1, relaxed)
            tl.store(line + 2, energy)
            tl.store(line + 3, is_descent.to(tl.float64))
        # The same order as `solver.terminate`.
        is_still = (outer > 0) & (tl.abs(before - relaxed) <= tol * before)
        waited = iterations >= tl.maximum(progress_at, 2 * patience) + patience
        is_settled = (outer > 0) & (patience > 0) & waited
        status = tl.where(iterations >= max_iter, BUDGET_SPENT, 0)
        status = tl.where(is_settled, SETTLED, status)
        status = tl.where(is_still, CONVERGED, status)
        status = tl.where(is_collapsed, COLLAPSED, status)
        tl.store(word + STATUS, status)
        if status > 0:
            tl.store(word + PHASE, DONE)
        else:
            delta = tl.max(tl.where(is_column, B_r, 0.0), 0)
            tl.store(real + DELTA, delta)
            scale = delta / B_r
            tl.store(column + SCALE * R, scale, mask=is_column)
            tl.store(column + T_K * R, T_r, mask=is_column)
            tl.store(column + B_K * R, B_r, mask=is_column)
            tl.store(column + MEDIAN_K * R, tl.load(column + MEDIAN * R, mask=is_column, other=0.0), mask=is_column)
            pull = delta * T_r / (B_r * B_r)
            tl.store(column + UP * R, lam_r * pull, mask=is_column)
            tl.store(column + LEVEL * R, tl.load(column + TIE * R, mask=is_column, other=0.0) * pull, mask=is_column)
            tl.store(column + DOWN * R, -pull, mask=is_column)
            steepest = tl.max(tl.where(is_column, scale, 0.0), 0) * lipschitz
            sigma = 1.0 / (tau * steepest * steepest)
            tl.store(word + SLOT_K, slot)
            tl.store(word + SLOT, 1 - slot)
            tl.store(word + INNER, 0)
    tl.store(real + TAU, tau)
    tl.store(real + SIGMA, sigma)
    tl.store(real + THETA, theta)


@triton.jit
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
    values = tl.load(X + (s * 4 + chosen - 1) * plane + i, mask=i < plane)
    tl.store(best_F + s * plane + i, values, mask=i < plane)
    tl.store(best_labels + s * n + i, tl.load(labels + s * n + i, mask=i < n), mask=i < n)


@triton.jit
def minus_laplacian(
    X, Y, offsets, neighbors, weights, n, n_short, n_short_blocks,
    R: tl.constexpr, RP: tl.constexpr, V: tl.constexpr, E: tl.constexpr, IS_WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Y = −L X = W X − D X, for one block of rows and R columns."""
    block = tl.program_id(0)
    plane = tl.program_id(1).to(tl.int64) * (n * R)
    r = tl.arange(0, RP)[None, :]
    row, counts = _rows(block, n_short, n_short_blocks, V)
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
    if block >= n_short_blocks:
        total = tl.zeros([V, RP], tl.float32) + tl.sum(total, 0)[None, :]
    tl.store(Y + plane + row[:, None] * R + r, total, mask=counts[:, None] & (r < R))
