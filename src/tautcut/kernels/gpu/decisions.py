"""What is decided after every look at F, on the GPU: `decide` is `solver.step` and `solver.terminate` for one start,
and is tested against them decision by decision. It runs in a single warp, because it reads what it then overwrites.
`tautcut.kernels.batch` says what is decided when.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

# isort: off
from tautcut.kernels.gpu.tables import (
    B, BAR, BEGIN, BEST, BEST_CUT, BUDGET_SPENT, B_K, COLLAPSED, COLUMNS, CONVERGED, CUT, DELTA, DONE, DOWN,
    ENERGY, EPSILON, FOUND, INNER, ITERATE, ITERATIONS, LEVEL, LIPSCHITZ, LOOKS, LOOK_AGAIN, MARK, MEDIAN,
    MEDIAN_K, MISSES, MOST_MISSES, OUTER, PHASE, PROGRESS, PROGRESS_AT, REALS, RELAXED, RUNNING, SAVE, SCALE,
    SETTLED, SIGMA, SIZE, SIZES, SLOT, SLOT_K, SQUARED_STEP, STATUS, SUM_WIDTH, T, TAU, THETA, TIE, TOL, T_K, UP,
    WHOLE, WORDS, total,
)  # fmt: skip
# isort: on

TINY = tl.constexpr(1e-300)  # keeps a quotient that is not used from dividing by zero


@triton.jit(do_not_specialize=SIZES)
def decide(
    columns, words, reals, steps, history, active, lam, shared, n,
    max_iter, max_inner, patience, n_history,
    G, R: tl.constexpr, RP: tl.constexpr, HAS_MASSES: tl.constexpr,
):  # fmt: skip
    """After a measurement of one start: the descent estimate, and at the end of an outer step all that follows."""
    s = tl.load(active + tl.program_id(0)).to(tl.int64)
    if s < 0:
        return
    word, real = words + s * WORDS, reals + s * REALS
    if tl.load(word + PHASE) == DONE:
        return
    r = tl.arange(0, RP)
    is_column = r < R
    column = columns + s * COLUMNS * R + r
    outer = tl.load(word + OUTER)
    tl.store(word + SAVE, 0)
    tl.store(word + LOOKS, tl.load(word + LOOKS) + 1)
    is_found = tl.min(tl.load(column + FOUND * R, mask=is_column, other=1.0), 0) > 0.5
    if is_found == 0:
        _look_again(word, outer)
        return
    tl.store(word + MISSES, 0)
    squared_step = total(steps + s * G, G, SUM_WIDTH)
    tl.store(real + SQUARED_STEP, squared_step)

    T_r = tl.load(column + T * R, mask=is_column, other=0.0)
    B_r = tl.load(column + B * R, mask=is_column, other=1.0)
    lam_r = tl.load(lam + r, mask=is_column, other=1.0)
    inner, iterations = tl.load(word + INNER), tl.load(word + ITERATIONS)
    tau, sigma, theta = tl.load(real + TAU), tl.load(real + SIGMA), tl.load(real + THETA)
    is_descent = outer < 0
    if outer >= 0:  # an inner iteration has been done
        inner += 1
        iterations += 1
        tau = theta * tau
        sigma = sigma / theta
        theta = 1.0 / tl.sqrt(1.0 + 2.0 * tau)
        tl.store(word + BAR, 1 - tl.load(word + BAR))  # F̄ was written to the plane that was not read
        is_descent = _descends(T_r, B_r, column, is_column, real, shared, squared_step, R)
    tl.store(word + INNER, inner)
    tl.store(word + ITERATIONS, iterations)
    tl.store(word + PHASE, ITERATE)
    if is_descent | (inner >= max_inner) | (iterations >= max_iter):
        before = tl.load(real + RELAXED)
        whole = tl.load(shared + WHOLE) if HAS_MASSES else n
        energy, relaxed = _energies(T_r, B_r, column, is_column, lam_r, whole, R)
        tl.store(real + ENERGY, energy)
        tl.store(real + RELAXED, relaxed)
        progress_at = _keep_best(word, real, column, is_column, shared, energy, outer, iterations, R)
        outer += 1
        tl.store(word + OUTER, outer)
        if outer < n_history:
            line = history + (s * n_history + outer) * 4
            tl.store(line + 0, iterations.to(tl.float64))
            tl.store(line + 1, relaxed)
            tl.store(line + 2, energy)
            tl.store(line + 3, is_descent.to(tl.float64))
        is_still = tl.abs(before - relaxed) <= tl.load(shared + TOL) * before
        status = _ending(T_r, B_r, is_still, outer, iterations, progress_at, max_iter, patience)
        tl.store(word + STATUS, status)
        if status != RUNNING:
            tl.store(word + PHASE, DONE)
        else:
            sigma = _begin_step(T_r, B_r, word, real, column, is_column, lam_r, tau, tl.load(shared + LIPSCHITZ), R)
    tl.store(real + TAU, tau)
    tl.store(real + SIGMA, sigma)
    tl.store(real + THETA, theta)


@triton.jit
def _look_again(word, outer):
    """A median was missed: look again, and give up where no look finds it, because F is not finite."""
    misses = tl.load(word + MISSES) + 1
    tl.store(word + MISSES, misses)
    is_lost = misses > MOST_MISSES
    tl.store(word + STATUS, tl.where(is_lost, COLLAPSED, RUNNING))
    # A start that has not begun must begin again; any other repeats its look alone, or it would iterate twice.
    again = tl.where(outer < 0, BEGIN, LOOK_AGAIN)
    tl.store(word + PHASE, tl.where(is_lost, DONE, again))


@triton.jit
def _descends(T_r, B_r, column, is_column, real, shared, squared_step, R: tl.constexpr):
    """Whether the descent estimate holds: `stopping.descent_estimate_holds`."""
    T_k = tl.load(column + T_K * R, mask=is_column, other=0.0)
    B_k = tl.load(column + B_K * R, mask=is_column, other=1.0)
    gain = tl.sum((T_k / B_k * B_r - T_r) / B_k, 0)
    slack = 1.0 - tl.load(shared + EPSILON)
    return gain >= slack * squared_step / tl.load(real + DELTA)


@triton.jit
def _energies(T_r, B_r, column, is_column, lam_r, whole, R: tl.constexpr):
    """(P) of the partition and Σ E(f_r), both in the engine's units."""
    cut = tl.load(column + CUT * R, mask=is_column, other=0.0)
    size = tl.load(column + SIZE * R, mask=is_column, other=1.0)
    room = tl.minimum(lam_r * size, whole - size)
    energy = tl.sum(tl.where(room > 0, cut / tl.maximum(room, TINY), float("inf")), 0)
    relaxed = tl.sum(tl.where(B_r > 0, T_r / tl.maximum(B_r, TINY), float("inf")), 0)
    return energy, relaxed


@triton.jit
def _keep_best(word, real, column, is_column, shared, energy, outer, iterations, R: tl.constexpr):
    """Keep the partition if its (P) is the lowest; when (P) made progress last, to which a start does not count."""
    best, mark, progress_at = tl.load(real + BEST), tl.load(real + MARK), tl.load(word + PROGRESS_AT)
    is_best = (energy < best) | (outer < 0)  # the start's own partition is the first best, whatever it costs
    tl.store(real + BEST, tl.where(is_best, energy, best))
    tl.store(word + SAVE, tl.where(is_best, tl.load(word + SLOT) + 1, 0))
    if is_best:
        cut = tl.load(column + CUT * R, mask=is_column, other=0.0)
        tl.store(column + BEST_CUT * R, cut, mask=is_column)
    if outer >= 0:
        is_progress = energy < (1.0 - tl.load(shared + PROGRESS)) * mark
        tl.store(real + MARK, tl.where(is_progress, energy, mark))
        progress_at = tl.where(is_progress, iterations, progress_at)
        tl.store(word + PROGRESS_AT, progress_at)
    return progress_at


@triton.jit
def _ending(T_r, B_r, is_still, outer, iterations, progress_at, max_iter, patience):
    """Why the start ends here: `solver.terminate`, whose first reason is the last that is written."""
    is_step = outer > 0  # the start itself can only collapse
    is_settled = (patience > 0) & (iterations >= tl.maximum(progress_at, 2 * patience) + patience)
    status = tl.where(iterations >= max_iter, BUDGET_SPENT, RUNNING)
    status = tl.where(is_step & is_settled, SETTLED, status)
    status = tl.where(is_step & is_still, CONVERGED, status)
    is_sound = (B_r > 0) & (tl.abs(T_r) < float("inf"))  # neither is NaN: `stopping.has_collapsed`
    return tl.where(tl.min(is_sound.to(tl.int32), 0) == 0, COLLAPSED, status)


@triton.jit
def _begin_step(T_r, B_r, word, real, column, is_column, lam_r, tau, lipschitz, R: tl.constexpr):
    """F becomes the F^k of a new outer step, with Δ, D_B and the three values of ∂B D_E; its σ.

    τ goes on as it is (decision 0002).
    """
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
    slot = tl.load(word + SLOT)
    tl.store(word + SLOT_K, slot)
    tl.store(word + SLOT, 1 - slot)
    tl.store(word + INNER, 0)
    steepest = tl.max(tl.where(is_column, scale, 0.0), 0) * lipschitz
    return 1.0 / (tau * steepest * steepest)
