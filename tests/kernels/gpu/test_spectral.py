"""The linear algebra of starts and the nearest neighbours on the GPU, against the host's."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_or_interpreter import DEVICE, kernels_of
from sample_graphs import random_graph
from tautcut.graph import Graph
from tautcut.graph.laplacian import diffuse, normalised_cut
from tautcut.kernels.gpu import spectral
from tautcut.kernels.gpu.nearest import nearest_on_gpu
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter


@pytest.mark.parametrize("is_weighted", [False, True])
def test_diffusion(is_weighted: bool):
    graph = random_graph(50, 150, seed=3, is_weighted=is_weighted, n_isolated=2)
    tools = spectral.GpuSpectral(kernels_of(Problem(graph, 3)))
    B = np.random.default_rng(0).random((50, 3))
    assert np.abs(tools.diffuse(B) - diffuse(graph, B)).max() <= 1e-3 * B.max()
    X = tools.laplacian.diffuse(tools.kernels.in_rows(B)[None], tol=1e-7)[0]
    assert np.abs(tools.kernels.in_graph_order(X) - diffuse(graph, B)).max() <= 2e-6
    seeds = tools.kernels.in_graph_order(tools.diffuse_seeds(np.array([[4, 7, 11]]))[0])
    assert np.abs(seeds - diffuse(graph, np.eye(50)[:, [4, 7, 11]])).max() <= 1e-3


def test_leading_eigenvectors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spectral, "_DEGREE", 12)
    rng = np.random.default_rng(0)
    block = np.arange(36) // 12
    joined = np.triu(rng.random((36, 36)) < np.where(block[:, None] == block, 0.5, 0.03), 1)
    graph = Graph.from_edges(np.argwhere(joined), n_vertices=36)
    tools = spectral.GpuSpectral(kernels_of(Problem(graph, 3)))
    found = tools.normalised_cut(3, rng=np.random.default_rng(0))
    expected = normalised_cut(graph, 3, rng=np.random.default_rng(0))
    assert len(set(zip(found.tolist(), expected.tolist(), strict=True))) == 3  # the same partition, named anew


def test_nearest_neighbors():
    X = np.random.default_rng(0).normal(size=(80, 5)) + 100.0  # far from the origin, where products round
    X[10] = X[20] = X[30]  # copies
    indices, squared, *_ = nearest_on_gpu(X, 6, device=DEVICE)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    assert np.allclose(squared, np.sort(distances, axis=1)[:, :6], atol=1e-4)
    assert (indices != np.arange(80)[:, None]).all()
    assert set(indices[10, :2]) == {20, 30}
    assert all(len(set(row)) == 6 for row in indices.tolist())
