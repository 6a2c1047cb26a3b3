"""When a run stops, and why it did. `StopRule` holds the limits, validated once; `Status` is the reason, and each
status is its own sentence with cause and remedy. The descent
inequality that ends an inner loop lives here too, and what a collapse is.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tautcut.checks import whole_number
from tautcut.errors import InputError
from tautcut.kernels.protocol import Measures


class Status(StrEnum):
    """Why a run stopped; `str(status)` is a sentence."""

    CONVERGED = "Converged: the relative change of the energy fell below tol."
    SETTLED = "Settled: the partition stopped improving."
    BUDGET_SPENT = "Budget spent: max_iter inner iterations were done; raise max_iter to go on."
    TIME_SPENT = "Time spent: the time limit was reached; raise it to go on."
    COLLAPSED = (
        "Collapsed: a cluster faded away, so the best partition seen before is the answer; "
        "ask for fewer clusters, or try more starts."
    )
    STOPPED = "Stopped by an observer: the best partition so far is the answer."
    INTERRUPTED = "Interrupted: the best partition so far is the answer."
    TRIVIAL = "Nothing to solve: one cluster, no free vertex or no edge; the start's partition is the answer."


#: A run that ended so was cut short: what it has found is the best so far.
CUT_SHORT = (Status.STOPPED, Status.TIME_SPENT, Status.INTERRUPTED)
PROGRESS = 1e-4  # share by which (P) must fall for a run not to have settled


@dataclass(frozen=True)
class StopRule:
    """The limits of a run.

    Parameters
    ----------
    tol : float
        Relative change of Σ_r E(f_r) between outer steps below which the run has converged.
    max_iter : int
        Inner iterations over the whole run (decision 0003).
    max_inner : int
        Inner iterations of one outer step.
    epsilon : float
        ε of the weak descent estimate.
    patience : int or None
        Inner iterations in which (P) has not fallen by 1e-4 of itself, after which the run has settled; the first two
        times as many, in which a soft start sharpens, do not count. None waits for `tol`.
    time_limit : float or None
        Seconds that all starts may take together.
    """

    tol: float = 1e-4
    max_iter: int = 2000
    max_inner: int = 100
    epsilon: float = 1e-3
    patience: int | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise InputError(f"tol must be ≥ 0; found {self.tol!r}.")
        for name in ("max_iter", "max_inner"):
            whole_number(name, getattr(self, name))
        if self.patience is not None:
            whole_number("patience", self.patience)
        if not 0 < self.epsilon < 1:
            raise InputError(f"epsilon must lie between 0 and 1; found {self.epsilon!r}.")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"time_limit must be a positive number of seconds; found {self.time_limit!r}.")

    def deadline(self) -> float:
        """The moment, on the clock of `time.monotonic`, at which a run that begins now has spent its time."""
        return math.inf if self.time_limit is None else time.monotonic() + self.time_limit


def is_past(moment: float) -> bool:
    """Whether this moment of `time.monotonic` is over."""
    return time.monotonic() > moment


def has_collapsed(measures: Measures) -> bool:
    """Whether a column has become constant (B = 0), or F is not finite: there is no next step."""
    return not (measures.B > 0).all() or not np.isfinite(measures.T).all()


def descent_estimate_holds(before: Measures, after: Measures, delta: float, epsilon: float) -> bool:
    """Σ_r (B_r^{k+1} / B_r^k) (E_r^k − E_r^{k+1}) ≥ (1 − ε) ‖F^k − F^{k+1}‖² / Δ^k, the weak form of Theorem 3.

    Written with T = E·B, so that a column that has become constant (B = 0, T = 0) needs no division.
    """
    gain = ((before.E * after.B - after.T) / before.B).sum()
    return bool(gain >= (1 - epsilon) * after.squared_step / delta)
