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
from tautcut.kernels.cpu.crew import Crew, begin, finish, take
from tautcut.kernels.cpu.rows import entry, full, load, prefetch, store
from tautcut.kernels.cpu.sharing import affordable_threads, chunk_bounds

_LEAST_SHARE = 400_000  # entries of the matrix × columns for each thread
_LANES = 4  # columns in a register of 256 bits
_WIDEST = 16  # columns at a time, whose sums stay in registers
_AHEAD = 32  # entries between asking for a row and using it (decision 0066)
_X, _RESIDUAL, _P, _PRODUCT = 0, 1, 2, 3  # the arrays of rows
_MULTIPLY, _ADVANCE, _TURN = 1, 2, 3  # the passes of an iteration


def conjugate_gradients(
    A: SparseMatrix, B: FloatArray, X: FloatArray, inverse_diagonal: FloatArray, threshold: FloatArray, max_iter: int
) -> FloatArray:
    """X, changed in place until ‖B − A X‖² ≤ threshold in each column, or until the iterations are spent."""
    n, R = X.shape
    n_tiles = -(-R // _WIDEST)
    tile = _LANES * -(-R // (_LANES * n_tiles))  # all arrays of rows are ones of tiles, n_tiles to a row
    rows = np.zeros((4, n, n_tiles * tile))
    rows[_RESIDUAL, :, :R], rows[_P, :, :R] = B, X  # as if at 0, and about to take the step to X
    indptr = A.indptr.astype(np.int64)
    bounds = chunk_bounds(indptr)
    columns, sums = np.zeros((n_tiles, tile)), np.zeros((bounds.size - 1, 2 * n_tiles, tile))
    crew = Crew(min(affordable_threads(A.indices.size * R, _LEAST_SHARE), bounds.size - 1))
    arrays = (
        bounds, indptr, A.indices, A.data, np.ascontiguousarray(inverse_diagonal).ravel(),
        rows.reshape(4, -1, tile), columns, sums,
    )  # fmt: skip

    def run(command: int, numbers: FloatArray) -> FloatArray:
        """The sums over all vertices after this pass, which is told a number for each column."""
        columns.ravel()[:R] = numbers
        crew.run(command, _pass(tile), *arrays)
        return np.asarray(sums.sum(axis=0).reshape(2, -1)[:, :R])

    run(_MULTIPLY, np.zeros(R))
    rho, squares = run(_ADVANCE, np.ones(R))
    run(_TURN, np.zeros(R))
    for _ in range(max_iter):
        is_active = squares > threshold
        if not is_active.any():
            break
        alpha = divide_where(is_active, rho, run(_MULTIPLY, rho)[0])
        rho_next, squares = run(_ADVANCE, alpha)
        run(_TURN, divide_where(is_active, rho_next, rho))
        rho = rho_next
    X[:] = rows[_X, :, :R]
    return X


@cache
def _pass(tile: int) -> Any:
    """The passes of an iteration, for tiles of so many columns; a crew runs them."""

    @compiled
    def work(
        me: int, words: IntArray, bounds: IntArray, indptr: IntArray, indices: Array, data: FloatArray,
        scale: FloatArray, rows: FloatArray, columns: FloatArray, sums: FloatArray,
    ) -> None:  # fmt: skip
        """MULTIPLY writes A P and adds up ⟨P, A P⟩. ADVANCE takes the step X += α P, residual −= α A P, and adds up
        scale · residual² and residual². TURN takes the next direction P ← scale · residual + β P.
        """
        X, residual, P, product = rows[_X], rows[_RESIDUAL], rows[_P], rows[_PRODUCT]
        n_chunks, n_tiles = bounds.size - 1, columns.shape[0]
        command = begin(words, me)
        while command > 0:
            chunk = take(words)
            while chunk < n_chunks:
                first, last = bounds[chunk], bounds[chunk + 1]
                if command == _MULTIPLY:
                    for t in range(n_tiles):
                        dots = full(0.0, tile)
                        for i in range(first, last):
                            row = full(0.0, tile)
                            for e in range(indptr[i], indptr[i + 1]):
                                ahead = entry(indices, min(e + _AHEAD, indices.size - 1))
                                prefetch(P, ahead * n_tiles + t, tile)
                                row = row + full(entry(data, e), tile) * load(P, entry(indices, e) * n_tiles + t, tile)
                            store(product, i * n_tiles + t, row)
                            dots = dots + load(P, i * n_tiles + t, tile) * row
                        store(sums[chunk], t, dots)
                elif command == _ADVANCE:
                    for t in range(n_tiles):
                        alpha, scaled, squares = load(columns, t, tile), full(0.0, tile), full(0.0, tile)
                        for i in range(first, last):
                            at = i * n_tiles + t
                            store(X, at, load(X, at, tile) + alpha * load(P, at, tile))
                            left = load(residual, at, tile) - alpha * load(product, at, tile)
                            store(residual, at, left)
                            scaled = scaled + full(scale[i], tile) * left * left
                            squares = squares + left * left
                        store(sums[chunk], t, scaled)
                        store(sums[chunk], n_tiles + t, squares)
                else:
                    for i in range(first, last):
                        for t in range(n_tiles):
                            at = i * n_tiles + t
                            along = load(columns, t, tile) * load(P, at, tile)
                            store(P, at, full(scale[i], tile) * load(residual, at, tile) + along)
                chunk = take(words)
            command = finish(words, me)

    return work
