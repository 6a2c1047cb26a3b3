"""The sparse product with sums in a fixed order, against SciPy's, with rows that are cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gpu_or_interpreter import DEVICE, HAS_GPU, torch
from tautcut.kernels.gpu import products


def on_device(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.tensor(array, device=DEVICE) for array in arrays]


def hub_and_others(n: int, *, seed: int) -> sp.csr_matrix:
    """Few entries in most rows, none in some, and one row that has nearly all of them."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.1)
    dense[3] = rng.normal(size=n)
    dense[5] = 0.0
    return sp.csr_matrix(dense.astype(np.float32))


def add_product(matrix: sp.csr_matrix, X: np.ndarray, Y: np.ndarray, keep: float, scale: float) -> np.ndarray:
    arrays = on_device(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
    there, result = on_device(X, Y)
    products.SparseMatrix(*arrays).add_product(there, result, keep=keep, scale=scale)
    return result.cpu().numpy()


@pytest.mark.parametrize("piece", [7, 512])
@pytest.mark.parametrize("width", [1, 5])
def test_the_product_is_scaled_and_added(monkeypatch, piece, width):
    monkeypatch.setattr(products, "PIECE", piece)
    matrix, rng = hub_and_others(30, seed=0), np.random.default_rng(1)
    X, Y = rng.normal(size=(2, 30, width)).astype(np.float32)
    found = add_product(matrix, X, Y, 0.25, -1.5)
    expected = 0.25 * Y.astype(np.float64) - 1.5 * (matrix.astype(np.float64) @ X)
    assert np.abs(found - expected).max() < 1e-5


@pytest.mark.skipif(not HAS_GPU, reason="the order of sums can change on a GPU alone")
def test_a_hub_has_the_same_bits_each_time():
    n = 20_000
    rng = np.random.default_rng(0)
    leaves = np.arange(1, n)
    star = sp.csr_matrix((rng.random(n - 1).astype(np.float32), (np.zeros_like(leaves), leaves)), shape=(n, n))
    W = (star + star.T).tocsr()
    X, Y = rng.normal(size=(2, n, 64)).astype(np.float32)
    first = add_product(W, X, Y, 0.5, 2.0)
    assert all((add_product(W, X, Y, 0.5, 2.0) == first).all() for _ in range(5))
