"""Which engine a device's name stands for: the engine itself, made for a problem, or an error that says what is
missing. Engines are imported when they are asked for, so that each needs its own packages alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from tautcut.arrays import IntArray
from tautcut.checks import one_of
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.kernels.protocol import Kernels
from tautcut.problem import Problem

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

DTYPES = ("float32", "float64", "mixed")  # the last: float32, and duals in float16 (decision 0056)
DEVICES = ("auto", "cpu", "cuda", "reference")


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
    one_of("dtype", dtype, DTYPES)
    device = resolved(device)
    if device == "reference" or problem.numerator != "tv":
        from tautcut.kernels.reference import ReferenceKernels

        return ReferenceKernels(problem)
    if device == "cuda":
        return gpu_engine(problem, dtype)
    has_half_duals = dtype == "mixed"
    precision = np.dtype("float32" if has_half_duals else dtype)
    try:
        from tautcut.kernels.cpu.engine import CpuKernels
    except ImportError as error:
        raise EngineUnavailableError("the cpu engine needs numba: install it, or choose device='reference'") from error
    return CpuKernels(problem, dtype=precision, has_half_duals=has_half_duals, n_threads=n_threads, groups=groups)


def resolved(device: str) -> str:
    """The device by its name, "auto" replaced: "cuda" where torch, Triton and a GPU are there, else "cpu"."""
    if one_of("device", device, DEVICES) != "auto":
        return device
    try:
        _require_gpu()
    except EngineUnavailableError:
        return "cpu"
    return "cuda"


def runs_on_gpu(problem: Problem, device: str) -> bool:
    """Whether a GPU runs Algorithm 1 on this problem: it has the numerator "tv" alone."""
    return resolved(device) == "cuda" and problem.numerator == "tv"


def gpu_engine(problem: Problem, dtype: str = "float32") -> GpuKernels:
    """The engine of an NVIDIA GPU; an error that says what is missing where it cannot run."""
    require_gpu(dtype)
    from tautcut.kernels.gpu.engine import GpuKernels

    return GpuKernels(problem, duals="float16" if dtype == "mixed" else "float32")


def require_gpu(dtype: str) -> None:
    """Raise, in one sentence, where there is no GPU, or none that computes in this precision."""
    if dtype == "float64":
        raise InputError(f"device='cuda' computes in float32; found dtype={dtype!r}. Use float32, or device='cpu'.")
    _require_gpu()


def neighbor_finder(device: str) -> Any:
    """The device's own search for nearest neighbours, for `neighbor_graph`; None leaves it to the host."""
    if resolved(device) != "cuda":
        return None
    _require_gpu()
    from tautcut.kernels.gpu.nearest import nearest_on_gpu

    return nearest_on_gpu


def gradient_solver() -> Any:
    """Conjugate gradients on all cores, for `graph.laplacian`; None, where numba is missing, leaves them to it."""
    try:
        from tautcut.kernels.cpu.diffusion import conjugate_gradients
    except ImportError:
        return None
    return conjugate_gradients


def walker(device: str) -> Any:
    """The device's own search for the nearest under a walk, for `walk_graph`; None leaves it to the processor."""
    if resolved(device) != "cuda":
        return None
    _require_gpu()
    from tautcut.kernels.gpu import walks

    return walks.nearest_on_gpu


def _require_gpu() -> None:
    try:
        from tautcut.kernels.gpu.engine import require_gpu
    except ImportError as error:
        raise EngineUnavailableError(
            f"device='cuda' needs torch and triton, of which {error.name or 'one'} is not installed: "
            "install torch, or use device='cpu'."
        ) from error
    require_gpu()


def thread_count() -> int:
    """Threads to use: NUMBA_NUM_THREADS or OMP_NUM_THREADS if set, as joblib does for its workers, else all cores."""
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "")
        if asked.isdigit() and int(asked) > 0:
            return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
