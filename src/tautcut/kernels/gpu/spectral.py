"""Linear algebra on the graph Laplacian, on the GPU: the diffusion (I + L)⁻¹ of many starts at once, and the leading
eigenvectors of the normalised cut. What `tautcut.graph.laplacian` does on the host, in float32.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tautcut.arrays import FloatArray, IntArray
from tautcut.graph.laplacian import nearest_partition
from tautcut.kernels.gpu.recording import recorded

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

_CHECK_EVERY = 4  # iterations of the conjugate gradients between looks at the residuals
_DEGREE = 30  # of the Chebyshev filter: higher separates better, and costs as many products more
_ROUNDS = 20  # of filtering, at most: graphs without clear clusters would go on for long
_RESIDUAL = 1e-4  # of an eigenvector of norm one: a start need not be better, and float32 reaches little more
_EXTRA = 8  # eigenvectors beside those asked for, or half as many again: the last of them converge slowly
_OFFSET = 0.5  # as in `tautcut.graph.laplacian`: the regularisation of the published Ncut program


class GpuSpectral:
    """The linear algebra of starts for `tautcut.search.starts`, arrays in and out."""

    def __init__(self, kernels: GpuKernels) -> None:
        self.kernels = kernels

    @cached_property
    def laplacian(self) -> Laplacian:
        return Laplacian(self.kernels)

    def diffuse(self, B: FloatArray) -> FloatArray:
        """(I + L)⁻¹ B."""
        X = self.laplacian.diffuse(self.kernels.in_rows(B)[None])[0]
        diffused: FloatArray = self.kernels.in_graph_order(X).astype(np.float64)
        return diffused

    def diffuse_seeds(self, vertices: IntArray) -> torch.Tensor:
        """(I + L)⁻¹ B for starts at once, on the GPU: B of start s is e_r at `vertices[s, r]`, and zero elsewhere."""
        kernels = self.kernels
        S, R = vertices.shape
        row_of = kernels.layout.order.argsort()
        B = torch.zeros((S, kernels.problem.n_vertices, R), device=kernels.device)
        starts, columns = (torch.arange(size, device=kernels.device) for size in (S, R))
        B[starts[:, None], row_of[torch.from_numpy(vertices).to(kernels.device)], columns] = 1.0
        return self.laplacian.diffuse(B)

    def normalised_cut(self, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
        """The clusters of the normalised cut; the nearest partition to the eigenvectors is found on the host."""
        V = self.laplacian.leading_eigenvectors(n_clusters, rng=rng)
        return nearest_partition(self.kernels.in_graph_order(V).astype(np.float64), rng=rng)


class Laplacian:
    """L of the weights divided by their mean; tensors are (start, row, column) in the order of the layout's rows."""

    def __init__(self, kernels: GpuKernels) -> None:
        self._kernels = kernels
        self.degrees = kernels.degrees[None, :, None]

    def times(self, X: torch.Tensor) -> torch.Tensor:
        """L X."""
        return -self._kernels.minus_laplacian(X, self._kernels.tensors["weights"])

    def diffuse(self, B: torch.Tensor, *, tol: float = 1e-4, max_iter: int = 48) -> torch.Tensor:
        """Solve (I + L) X = B by conjugate gradients with the Jacobi preconditioner, all columns together.

        Less exactly than the host does: a start need not be better.
        """
        inverse = 1.0 / (1.0 + self.degrees)
        X = inverse * B
        residual = B - X - self.times(X)
        P = inverse * residual
        rho = _dots(residual, P)
        threshold = tol**2 * _dots(B, B)

        def some_steps() -> None:
            for _ in range(_CHECK_EVERY):
                AP = P - self._kernels.minus_laplacian(P, self._kernels.tensors["weights"])
                alpha = _ratio(rho, _dots(P, AP))
                X.addcmul_(alpha, P)
                residual.addcmul_(alpha, AP, value=-1.0)
                Z = inverse * residual
                rho_next = _dots(residual, Z)
                torch.addcmul(Z, _ratio(rho_next, rho), P, out=P)
                rho.copy_(rho_next)

        advance = some_steps
        for number in range(-(-max_iter // _CHECK_EVERY)):
            if bool((_dots(residual, residual) <= threshold).all()):
                break
            if number == 1:  # the first time compiles
                advance = recorded(some_steps, self._kernels.device)
            advance()
        return X

    def leading_eigenvectors(self, count: int, *, rng: np.random.Generator) -> torch.Tensor:
        """V = D'^{-½} U, (row, column), for the leading eigenvectors U of D'^{-½} (W + ½ I) D'^{-½}.

        Subspace iteration with a Chebyshev filter, which finds multiple eigenvalues too.
        """
        n = self._kernels.problem.n_vertices
        width = min(n, count + max(_EXTRA, count // 2))
        X = torch.from_numpy(rng.standard_normal((1, n, width)).astype(np.float32)).to(self._kernels.device)
        scale = (self.degrees + 2 * _OFFSET).rsqrt()

        def times(Y: torch.Tensor) -> torch.Tensor:
            inner = scale * Y
            return scale * ((self.degrees + _OFFSET) * inner - self.times(inner))

        bound = 0.0
        for _ in range(_ROUNDS):
            X = _chebyshev(times, X, bound)
            Q = torch.linalg.qr(X[0].double())[0].float()[None]
            AQ = times(Q)
            values, rotation = torch.linalg.eigh(Q[0].double().T @ AQ[0].double())
            rotation = rotation.flip(1).float()
            values = values.flip(0)
            X, AX = Q @ rotation, AQ @ rotation
            residual = (AX - X * values.float())[0, :, :count].norm(dim=0)
            bound = float(values[-1])
            if float(residual.max()) <= _RESIDUAL:
                break
        return (scale * X)[0, :, :count]


def _chebyshev(times: Any, X: torch.Tensor, bound: float) -> torch.Tensor:
    """A polynomial of the operator that is small on [−1, bound] and grows fast above."""
    centre, half = (bound - 1.0) / 2, (bound + 1.0) / 2
    before, now = X, (times(X) - centre * X) / half
    for _ in range(_DEGREE - 1):
        before, now = now, 2.0 * (times(now) - centre * now) / half - before
    return now / now.abs().amax(dim=1, keepdim=True).clamp_min(1e-30)


def _dots(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return (A * B).sum(dim=1, keepdim=True)


def _ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    """Their quotient, and 0 where both vanish: a column that is solved already."""
    return numerator / denominator.clamp_min(1e-30)
