"""Conjugate gradients for many right-hand sides at once, on all cores: the compiled twin of the solver that
`graph.laplacian` has for itself. Sums are taken in fixed chunks and added in their order, so the bits do not depend on
the number of threads. It knows no Laplacian.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray, SparseMatrix
from tautcut.graph.laplacian import divide_where
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.rows import full, load, store
from tautcut.kernels.cpu.sharing import affordable_threads, chunk_bounds, share

_LEAST_SHARE = 400_000  # entries of the matrix × columns for each thread
_LANES = 4  # columns in a register of 256 bits
_WIDEST = 16  # columns at a time, whose sums stay in registers


def conjugate_gradients(
    A: SparseMatrix, B: FloatArray, X: FloatArray, inverse_diagonal: FloatArray, threshold: FloatArray, max_iter: int
) -> FloatArray:
    """X, changed in place until ‖B − A X‖² ≤ threshold in each column, or until the iterations are spent."""
    R = X.shape[1]
    n_tiles = -(-R // _WIDEST)
    tile = _LANES * -(-R // (_LANES * n_tiles))  # all arrays of rows are ones of tiles, n_tiles to a row
    multiply, advance, turn = _passes(tile)
    indptr = A.indptr.astype(np.int64)
    bounds = chunk_bounds(indptr)
    n_chunks = bounds.size - 1
    n_threads = min(affordable_threads(A.indices.size * R, _LEAST_SHARE), n_chunks)
    places = [n_chunks * t // n_threads for t in range(n_threads + 1)]
    matrix, scale = (indptr, A.indices, A.data), np.ascontiguousarray(inverse_diagonal).ravel()
    values, residual = _tiles(X, n_tiles, tile), _tiles(B, n_tiles, tile)
    P, product = np.zeros_like(values), np.zeros_like(values)
    sums = np.empty((n_chunks, 2 * n_tiles, tile))
    columns = np.zeros((n_tiles, tile))

    def totals() -> FloatArray:
        return np.asarray(sums.sum(axis=0).reshape(2, -1)[:, :R])

    def spread(numbers: FloatArray) -> FloatArray:
        columns.ravel()[:R] = numbers
        return columns

    share(multiply, places, bounds, *matrix, values, product, sums)
    share(advance, places, bounds, scale, spread(np.ones(R)), P, product, values, residual, sums)
    rho, squares = totals()
    share(turn, places, bounds, scale, spread(np.zeros(R)), residual, P)
    for _ in range(max_iter):
        is_active = squares > threshold
        if not is_active.any():
            break
        share(multiply, places, bounds, *matrix, P, product, sums)
        alpha = divide_where(is_active, rho, totals()[0])
        share(advance, places, bounds, scale, spread(alpha), P, product, values, residual, sums)
        rho_next, squares = totals()
        share(turn, places, bounds, scale, spread(divide_where(is_active, rho_next, rho)), residual, P)
        rho = rho_next
    X[:] = values.reshape(X.shape[0], -1)[:, :R]
    return X


def _tiles(rows: FloatArray, n_tiles: int, tile: int) -> FloatArray:
    """A copy of the rows, each filled up with zeros to whole tiles."""
    n, R = rows.shape
    tiles = np.zeros((n, n_tiles * tile))
    tiles[:, :R] = rows
    return tiles.reshape(-1, tile)


@cache
def _passes(tile: int) -> tuple[Any, Any, Any]:
    """The three passes of an iteration over chunks [first, last), for tiles of so many columns."""

    @compiled
    def multiply(
        first: int, last: int, bounds: IntArray, indptr: IntArray, indices: Array, data: FloatArray, P: FloatArray,
        product: FloatArray, sums: FloatArray,
    ) -> None:  # fmt: skip
        """Write A P, and add up ⟨P, A P⟩ of each chunk and column."""
        n_tiles = sums.shape[1] // 2
        for chunk in range(first, last):
            sums[chunk] = 0.0
            for i in range(bounds[chunk], bounds[chunk + 1]):
                for t in range(n_tiles):
                    row = full(0.0, tile)
                    for e in range(indptr[i], indptr[i + 1]):
                        row = row + full(data[e], tile) * load(P, indices[e] * n_tiles + t, tile)
                    at = i * n_tiles + t
                    store(product, at, row)
                    store(sums[chunk], t, load(sums[chunk], t, tile) + load(P, at, tile) * row)

    @compiled
    def advance(
        first: int, last: int, bounds: IntArray, scale: FloatArray, alpha: FloatArray, P: FloatArray,
        product: FloatArray, X: FloatArray, residual: FloatArray, sums: FloatArray,
    ) -> None:  # fmt: skip
        """Take the step X += α P, residual −= α A P; add up scale · residual² and residual² of each chunk and column."""
        n_tiles = alpha.shape[0]
        for chunk in range(first, last):
            for t in range(n_tiles):
                step, scaled, squares = load(alpha, t, tile), full(0.0, tile), full(0.0, tile)
                for i in range(bounds[chunk], bounds[chunk + 1]):
                    at = i * n_tiles + t
                    store(X, at, load(X, at, tile) + step * load(P, at, tile))
                    left = load(residual, at, tile) - step * load(product, at, tile)
                    store(residual, at, left)
                    scaled = scaled + full(scale[i], tile) * left * left
                    squares = squares + left * left
                store(sums[chunk], t, scaled)
                store(sums[chunk], n_tiles + t, squares)

    @compiled
    def turn(
        first: int, last: int, bounds: IntArray, scale: FloatArray, beta: FloatArray, residual: FloatArray,
        P: FloatArray,
    ) -> None:  # fmt: skip
        """Take the next direction: P ← scale · residual + β P."""
        n_tiles = beta.shape[0]
        for i in range(bounds[first], bounds[last]):
            for t in range(n_tiles):
                at = i * n_tiles + t
                along = load(beta, t, tile) * load(P, at, tile)
                store(P, at, full(scale[i], tile) * load(residual, at, tile) + along)

    return multiply, advance, turn
