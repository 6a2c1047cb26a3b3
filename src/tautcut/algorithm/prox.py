"""The inner loop of Algorithm 1: F^{k+1} ≈ prox_{T^k + δ_C}(G^k) by the accelerated primal–dual method, until the
weak descent estimate holds. It owns the step sizes; the arithmetic is the kernels'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from tautcut.algorithm.stopping import StopRule, descent_estimate_holds
from tautcut.kernels.protocol import Kernels, Measures, StepSizes


@dataclass(frozen=True, eq=False)
class Inner:
    """How an inner loop ended: the measures of F^{k+1}, the τ it leaves, its length, whether it descends."""

    measures: Measures
    tau: float
    iterations: int
    is_descent: bool


# Where masses span hundreds of decades, so do the B of the columns, and a step of the lightest is as good as infinite;
# its square, by which σ is divided, is a number still.
_STEEPEST = 1e140


@np.errstate(over="ignore")
def prox_tv(
    kernels: Kernels, arrays: Any, before: Measures, tau: float, *, stop: StopRule, budget: int,
    is_late: Callable[[], bool],
) -> Inner:  # fmt: skip
    """Approximate the prox at the linearised F^k; overwrites `arrays`. At most `budget` inner iterations."""
    delta = float(before.B.max())
    scale = np.minimum(delta / before.B, _STEEPEST)  # D_B
    sigma = 1.0 / (tau * (scale.max() * kernels.lipschitz) ** 2)
    kernels.linearise(arrays, before, delta)
    after, is_descent, done = before, False, 0
    for _ in range(min(stop.max_inner, budget)):
        theta = 1.0 / sqrt(1.0 + 2.0 * tau)
        kernels.iterate(arrays, scale, StepSizes(tau, sigma, theta))
        # tau carries over from outer step to outer step: Algorithm 1 never resets it (decision 0002)
        tau, sigma = theta * tau, sigma / theta
        after, done = kernels.measure(arrays), done + 1
        is_descent = descent_estimate_holds(before, after, delta, stop.epsilon)
        if is_descent or is_late():
            break
    return Inner(after, tau, done, is_descent)
