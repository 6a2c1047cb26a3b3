"""Compiled conjugate gradients: those of `graph.laplacian`, and the same bits at any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from strategies import random_graph, use_threads
from tautcut import Graph
from tautcut.graph.laplacian import diffuse, harmonic
from tautcut.kernels.cpu import diffusion
from tautcut.kernels.cpu.diffusion import conjugate_gradients

GRAPH = random_graph(300, 900, seed=0, is_weighted=True, n_isolated=2)


@pytest.mark.parametrize("n_columns", [1, 5, 17])  # 17 take more than one tile
def test_it_solves_what_the_plain_solver_does(n_columns):
    B = np.random.default_rng(0).standard_normal((300, n_columns))
    np.testing.assert_allclose(diffuse(GRAPH, B, solver=conjugate_gradients), diffuse(GRAPH, B), atol=1e-9)
    labels = np.where(np.arange(300) % 40 == 0, np.arange(300) // 40 % n_columns, -1)
    plain = harmonic(GRAPH, labels, n_columns, tol=1e-6)
    np.testing.assert_allclose(
        harmonic(GRAPH, labels, n_columns, tol=1e-6, solver=conjugate_gradients), plain, atol=1e-6
    )


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(diffusion, "_LEAST_SHARE", 10)
    B = np.random.default_rng(0).standard_normal((300, 5))
    found = []
    for n_threads in (1, 2, 8):
        use_threads(monkeypatch, n_threads)
        found.append(diffuse(GRAPH, B, solver=conjugate_gradients).tobytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("solver", [None, conjugate_gradients], ids=["plain", "compiled"])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_solved_already_is_left_alone_however_wide_the_weights(solver, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(60, 120, seed=seed)
    wide = Graph(graph.indptr, graph.indices, mirrored(graph, 10.0 ** rng.uniform(-150, 150, graph.indices.size)))
    labels = np.where(np.arange(60) < 3, 0, -1)
    with np.errstate(all="raise", under="ignore"):  # steps along what rounding leaves end at ∞, and at what is none
        U = harmonic(wide, labels, 1, solver=solver)
    np.testing.assert_allclose(U, 1.0, rtol=1e-12)


def mirrored(graph, weights):
    """The weights, that of each edge the same in both directions."""
    W = sp.csr_matrix((weights, graph.indices, graph.indptr), shape=(graph.n_vertices, graph.n_vertices))
    return W.maximum(W.T).data
