"""Conjugate gradients for many right-hand sides at once, on all cores: the compiled twin of the solver that
`graph.laplacian` has for itself. Sums are taken in fixed chunks and added in their order, so the bits do not depend on
the number of threads. It knows no Laplacian.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.graph.laplacian import System, column_dots, divide_where, rounding_squares
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.crew import Crew, begin, finish, take
from tautcut.kernels.cpu.layout import aligned
from tautcut.kernels.cpu.rows import entry, full, load, padded_width, prefetch, store
from tautcut.kernels.cpu.sharing import affordable_threads, chunk_bounds, even_shares, share

_LEAST_SHARE = 400_000  # entries of the matrix × columns for each thread
_WIDEST = 16  # columns at a time, whose sums stay in registers
_AHEAD = 32  # entries between asking for a row and using it (decision 0066)
_X, _RESIDUAL, _P, _PRODUCT = 0, 1, 2, 3  # the arrays of rows
_MULTIPLY, _ADVANCE, _TURN = 1, 2, 3  # the passes of an iteration


def conjugate_gradients(system: System, B: FloatArray | None, X: FloatArray, tol: float, max_iter: int) -> FloatArray:
    """X, changed in place until ‖B − A X‖ ≤ tol ‖B‖ in each column, or until the iterations are spent."""
    n, R = X.shape
    n_tiles = -(-R // _WIDEST)
    tile = padded_width(-(-R // n_tiles))  # all arrays of rows are ones of tiles, n_tiles to a row
    rows = aligned((4 * n, n_tiles * tile), np.dtype(np.float64)).reshape(4, n, -1)
    rows[_P, :, :R] = X  # as if at 0, and about to take the step to X
    if B is not None:
        rows[_RESIDUAL, :, :R] = B
    indptr, indices, entries = _assembled(system)
    bounds = chunk_bounds(indptr)
    columns, sums = np.zeros((2, n_tiles, tile)), np.zeros((bounds.size - 1, 2 * n_tiles, tile))
    crew = Crew(min(affordable_threads(indices.size * R, _LEAST_SHARE), bounds.size - 1))
    arrays = (bounds, indptr, indices, entries, system.scale, rows.reshape(4, -1, tile), columns, sums)

    def run(command: int) -> FloatArray:
        """The sums over all vertices after this pass."""
        crew.run(command, _pass(tile), *arrays)
        return np.asarray(sums.sum(axis=0).reshape(2, -1)[:, :R])

    alpha, beta = columns.reshape(2, -1)[:, :R]
    alpha[:] = 1.0
    run(_MULTIPLY)
    rho, squares = run(_ADVANCE)
    run(_TURN)
    threshold = np.maximum(tol**2 * (squares if B is None else column_dots(B, B)), rounding_squares(system, X))
    for _ in range(max_iter):
        is_active = squares > threshold
        if not is_active.any():
            break
        alpha[:] = divide_where(is_active, rho, run(_MULTIPLY)[0])
        rho_next, squares = run(_ADVANCE)
        beta[:] = divide_where(is_active, rho_next, rho)
        run(_TURN)
        rho = rho_next
    X[:] = rows[_X, :, :R]
    return X


def _assembled(system: System) -> tuple[IntArray, Array, FloatArray]:
    """The matrix of the system in CSR."""
    indptr = system.indptr + np.arange(system.indptr.size)
    indices, entries = np.empty(indptr[-1], system.indices.dtype), np.empty(indptr[-1])
    share(
        _assemble, even_shares(indptr), system.indptr, system.indices, system.weights, system.diagonal, indices, entries
    )
    return indptr, indices, entries


@compiled
def _assemble(
    first: int, last: int, indptr: IntArray, neighbors: Array, weights: FloatArray, diagonal: FloatArray,
    indices: Array, entries: FloatArray,
) -> None:  # fmt: skip
    """Write the rows [first, last): minus the weights, and the diagonal in its place."""
    for i in range(first, last):
        at, e = indptr[i] + i, indptr[i]
        while e < indptr[i + 1] and neighbors[e] < i:
            indices[at], entries[at] = neighbors[e], -weights[e]
            at, e = at + 1, e + 1
        indices[at], entries[at] = i, diagonal[i]
        for rest in range(e, indptr[i + 1]):
            indices[rest + i + 1], entries[rest + i + 1] = neighbors[rest], -weights[rest]


@cache
def _pass(tile: int) -> Any:
    """The passes of an iteration, for tiles of so many columns; a crew runs them."""

    @compiled
    def work(
        me: int, words: IntArray, bounds: IntArray, indptr: IntArray, indices: Array, data: FloatArray,
        scale: FloatArray, rows: FloatArray, columns: FloatArray, sums: FloatArray,
    ) -> None:  # fmt: skip
        """MULTIPLY writes A P and adds up ⟨P, A P⟩. ADVANCE takes residual −= α A P, and adds up scale · residual² and
        residual². TURN takes the step X += α P, and the next direction P ← scale · residual + β P.
        """
        X, residual, P, product = rows[_X], rows[_RESIDUAL], rows[_P], rows[_PRODUCT]
        n_chunks, n_tiles = bounds.size - 1, columns.shape[1]
        command = begin(words, me)
        while command > 0:
            chunk = take(words)
            while chunk < n_chunks:
                first, last = bounds[chunk], bounds[chunk + 1]
                if command == _MULTIPLY:
                    for t in range(n_tiles):
                        dots = full(0.0, tile)
                        for i in range(first, last):
                            if scale[i] == 0.0:  # its product stays 0, and with it its residual
                                continue
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
                        alpha, scaled, squares = load(columns[0], t, tile), full(0.0, tile), full(0.0, tile)
                        for i in range(first, last):
                            at = i * n_tiles + t
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
                            store(X, at, load(X, at, tile) + load(columns[0], t, tile) * load(P, at, tile))
                            along = load(columns[1], t, tile) * load(P, at, tile)
                            store(P, at, full(scale[i], tile) * load(residual, at, tile) + along)
                chunk = take(words)
            command = finish(words, me)

    return work
