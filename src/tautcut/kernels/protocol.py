"""What the solver asks of an engine: the `Kernels` protocol, the small records that pass through it, and what every
engine derives from a graph in the same way (the norm of K). Nothing here computes on F.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import matmul
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph


@dataclass(frozen=True, eq=False)
class Measures:
    """What one look at F says: T(f_r), B(f_r), med_λ(f_r) and the value of ∂B(f_r) on ties with the median (Theorem 2)
    for each cluster, and ‖F − F^k‖² for all of F.
    """

    T: FloatArray
    B: FloatArray
    median: FloatArray
    tie: FloatArray
    squared_step: float

    @cached_property
    def E(self) -> FloatArray:  # noqa: N802 - the paper's letter
        """E(f_r) = T(f_r) / B(f_r); infinite where a column is constant."""
        E: FloatArray = np.divide(self.T, self.B, out=np.full(self.T.size, np.inf), where=self.B > 0)
        return E

    @cached_property
    def relaxed_energy(self) -> float:
        """Σ_r E(f_r), the energy that Algorithm 1 lowers."""
        return float(self.E.sum())


@dataclass(frozen=True)
class StepSizes:
    """τ, σ and θ of one inner iteration."""

    tau: float
    sigma: float
    theta: float


class Kernels(Protocol):
    """One engine, bound to one problem. `arrays` is the engine's own record of F, F̄, F^k and P.

    An engine works with weights and masses divided by their means: its E times `unit` is that of the user's, its T
    times `weight_unit`.
    """

    name: str
    unit: float
    weight_unit: float

    @property
    def lipschitz(self) -> float:
        """L, an upper bound of ‖K‖₂ with the scaled weights (`gradient_norm`)."""

    def allocate(self, F: FloatArray) -> Any:
        """Arrays that hold the start F ∈ C, and P = 0."""

    def measure(self, arrays: Any) -> Measures:
        """T, B, med_λ of the current F, and its distance from F^k."""

    def linearise(self, arrays: Any, measures: Measures, delta: float) -> None:
        """Begin an outer step at the current F, whose `measures` these are: F^k = F̄ = F and G = F^k + Δ ∂B(F^k) D_E."""

    def iterate(self, arrays: Any, scale: FloatArray, steps: StepSizes) -> None:
        """One inner iteration of Algorithm 1; `scale` is the diagonal of D_B. Overwrites F, F̄ and P."""

    def harden(self, arrays: Any) -> tuple[IntArray, FloatArray]:
        """The argmax over the columns of F, lowest index first, and Cut(A_r, A_rᶜ) of those clusters.

        Only after `measure` of the same F, which may be where an engine adds up the cut.
        """

    def memberships(self, arrays: Any, *, previous: bool = False) -> FloatArray:
        """A copy of F, or of the F^k from which the last outer step began, shape (n_vertices, n_clusters)."""


def gradient_norm(
    graph: Graph, weights: ArrayLike, *, rounds: int = 20,
    product: Callable[[SparseMatrix, FloatArray], FloatArray] = matmul,
) -> float:  # fmt: skip
    """An upper bound of L = ‖K‖₂: within a few per cent on sparse graphs, a factor √2 on any.

    KᵀK is the Laplacian of the squared weights, whose largest eigenvalue is at most that of D + W∘W, a
    non-negative matrix Q. For any positive x, λ_max(Q) ≤ max_i (Qx)_i / x_i (Collatz–Wielandt), and power
    iteration drives the bound down. An engine may bring its own product of a matrix and a vector.
    """
    if graph.n_edges == 0:
        return 1.0
    squared = graph.to_scipy()
    squared.data = np.asarray(weights, dtype=np.float64) ** 2
    degrees = np.asarray(squared.sum(axis=1)).ravel()
    return power_bound(degrees, lambda x: product(squared, x), lambda values: float(values.max()), rounds=rounds)


def power_bound(
    degrees: FloatArray, product: Callable[[FloatArray], FloatArray], largest: Callable[[FloatArray], float], *,
    rounds: int = 20,
) -> float:  # fmt: skip
    """The bound of `gradient_norm`, from the row sums of W∘W, its product with a vector, and the largest of all values:
    so that each of many ranks may hold some rows.
    """
    has_edge = degrees > 0
    x = np.ones(degrees.size)
    bound = np.inf
    for _ in range(rounds):
        Qx = degrees * x + product(x)
        bound = min(bound, largest(Qx[has_edge] / x[has_edge]))
        x = np.maximum(Qx / largest(Qx), 1e-12)  # the bound needs x > 0; a vertex without edges has 0
    return float(np.sqrt(bound))
