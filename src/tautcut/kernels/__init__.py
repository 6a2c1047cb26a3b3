"""The arithmetic on arrays of length N or M: one protocol, several engines. A kernels object is bound to one
problem and one precision, owns the layout of its arrays, and decides nothing: the solver calls, the kernels
compute. A batch on a GPU is the exception (decision 0020).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautcut.errors import EngineUnavailableError, InputError
from tautcut.graph import Graph
from tautcut.problem import FloatArray, IntArray, Problem

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

DTYPES = ("float32", "float64")
DEVICES = ("auto", "cpu", "cuda", "reference")


@dataclass(frozen=True, eq=False)
class Measures:
    """What one look at F says, per cluster: T(f_r), B(f_r), med_λ(f_r), ∂B on ties; and ‖F − F^k‖²."""

    T: FloatArray
    B: FloatArray
    median: FloatArray
    tie: FloatArray
    squared_step: float

    @property
    def E(self) -> FloatArray:  # noqa: N802 - the paper's letter
        """E(f_r) = T(f_r) / B(f_r); infinite where a column is constant."""
        E: FloatArray = np.divide(self.T, self.B, out=np.full(self.T.size, np.inf), where=self.B > 0)
        return E

    @property
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

    Weights are divided by their mean; `unit` times T or E is in the user's weights.
    """

    name: str
    unit: float

    @property
    def lipschitz(self) -> float:
        """L ≥ ‖K‖₂."""

    def allocate(self, F: FloatArray) -> Any:
        """Arrays that hold the start F ∈ C, and P = 0."""

    def measure(self, arrays: Any) -> Measures:
        """T, B, med_λ of the current F, and its distance from F^k."""

    def linearise(self, arrays: Any, measures: Measures, delta: float) -> None:
        """Make the current F the F^k of a new outer step: G = F^k + Δ ∂B(F^k) D_E and F̄ = F^k."""

    def iterate(self, arrays: Any, scale: FloatArray, steps: StepSizes) -> None:
        """One inner iteration of Algorithm 1; `scale` is the diagonal of D_B. Overwrites F, F̄ and P."""

    def harden(self, arrays: Any) -> tuple[IntArray, FloatArray]:
        """The argmax over the columns of F, lowest index first, and Cut(A_r, A_rᶜ) of those clusters.

        F has been measured since it last changed.
        """

    def memberships(self, arrays: Any, *, previous: bool = False) -> FloatArray:
        """A copy of F, or of the F^k before the last outer step, shape (n_vertices, n_clusters)."""


def choose(
    problem: Problem,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    n_threads: int | None = None,
    groups: IntArray | None = None,
) -> Kernels:
    """The engine of that name. `reference` is the float64 oracle, whatever the dtype; `auto` a GPU if there is one.

    A problem with the numerator "laplacian" gets the reference engine whatever the device: no other has it, because
    that relaxation is only there to be compared with, on small graphs.

    `groups` may tell which vertices belong together, so that an engine can lay them out side by side.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}; found {dtype!r}.")
    device = resolved(device)
    if device == "reference" or problem.numerator != "tv":
        from tautcut.kernels.reference import ReferenceKernels

        return ReferenceKernels(problem)
    if device == "cuda":
        return card_for(problem, dtype)
    try:
        from tautcut.kernels.cpu import CpuKernels
    except ImportError as error:
        raise EngineUnavailableError("the cpu engine needs numba: install it, or choose device='reference'") from error
    return CpuKernels(problem, dtype=np.dtype(dtype), n_threads=n_threads, groups=groups)


def resolved(device: str) -> str:
    """The device by its name, "auto" replaced: "cuda" where torch, Triton and a GPU are there, else "cpu"."""
    if device not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}; found {device!r}.")
    if device != "auto":
        return device
    try:
        _require_card()
    except EngineUnavailableError:
        return "cpu"
    return "cuda"


def is_for_card(problem: Problem, device: str) -> bool:
    """Whether a GPU runs Algorithm 1 on this problem: it has the numerator "tv" alone."""
    return resolved(device) == "cuda" and problem.numerator == "tv"


def card_for(problem: Problem, dtype: str = "float32") -> GpuKernels:
    """The engine of an NVIDIA GPU; an error that says what is missing where it cannot run."""
    if dtype != "float32":
        raise InputError(f"device='cuda' computes in float32; found dtype={dtype!r}. Use float32, or device='cpu'.")
    _require_card()
    from tautcut.kernels.gpu.engine import GpuKernels

    return GpuKernels(problem)


def exact_finder(device: str) -> Any:
    """The device's own search for nearest neighbours, for `neighbour_graph`; None leaves it to the host."""
    if resolved(device) != "cuda":
        return None
    _require_card()
    from tautcut.kernels.gpu.nearest import nearest_on_card

    return nearest_on_card


def _require_card() -> None:
    try:
        from tautcut.kernels.gpu.engine import require_card
    except ImportError as error:
        raise EngineUnavailableError(
            f"device='cuda' needs torch and triton, of which {error.name or 'one'} is not installed: "
            "install torch, or use device='cpu'."
        ) from error
    require_card()


def thread_count() -> int:
    """Threads to use: NUMBA_NUM_THREADS or OMP_NUM_THREADS if set, as joblib does for its workers, else all cores."""
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "")
        if asked.isdigit() and int(asked) > 0:
            return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scaled_weights(graph: Graph) -> tuple[NDArray[np.float64], float]:
    """Weights divided by their mean, and that mean: Algorithm 1 is not invariant under scaling (decision 0008)."""
    if graph.n_edges == 0:
        return np.asarray(graph.weights), 1.0
    unit = float(graph.weights.mean())
    return graph.weights / unit, unit


def gradient_norm(graph: Graph, weights: ArrayLike, *, rounds: int = 20) -> float:
    """An upper bound of L = ‖K‖₂: within a few per cent on sparse graphs, a factor √2 on any.

    KᵀK is the Laplacian of the squared weights, whose largest eigenvalue is at most that of D + W∘W, a
    non-negative matrix Q. For any positive x, λ_max(Q) ≤ max_i (Qx)_i / x_i (Collatz–Wielandt), and power
    iteration drives the bound down.
    """
    if graph.n_edges == 0:
        return 1.0
    squared = graph.to_scipy()
    squared.data = np.asarray(weights, dtype=np.float64) ** 2
    degrees = np.asarray(squared.sum(axis=1)).ravel()
    has_edge = degrees > 0
    x = np.ones(graph.n_vertices)
    bound = np.inf
    for _ in range(rounds):
        product = degrees * x + squared @ x
        bound = min(bound, float((product[has_edge] / x[has_edge]).max()))
        x = np.maximum(product / product.max(), 1e-12)
    return float(np.sqrt(bound))
