"""Coarser graphs on the GPU: contractions that keep (P), respect partitions and masses, and are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_or_interpreter import kernels_of, masses_of, torch
from sample_graphs import random_graph
from tautcut.graph import Graph
from tautcut.kernels.gpu.coarsening import Coarse
from tautcut.kernels.gpu.engine import GpuKernels
from tautcut.problem import Problem

N, R = 300, 3
KINDS = [(False, None), (True, None), (True, "wide"), (False, "few")]


@pytest.fixture(params=KINDS, ids=str)
def gpu(request: pytest.FixtureRequest) -> GpuKernels:
    is_weighted, masses = request.param
    graph = random_graph(N, 1200, seed=0, is_weighted=is_weighted, n_isolated=2)
    return kernels_of(Problem(graph if masses is None else graph.with_masses(masses_of(masses, N)), R))


def coarse_of(gpu: GpuKernels, n_vertices: int = 40, **options: object) -> Coarse:
    heaviest = 0.5 * gpu.problem.total_mass
    return gpu.coarsened(n_vertices, **{"heaviest": heaviest, "seed": 1, **options})


def parents_of(gpu: GpuKernels, coarse: Coarse) -> np.ndarray:
    return np.asarray(gpu.in_graph_order(coarse.parents))


def test_it_is_the_contraction_of_the_graph(gpu: GpuKernels):
    coarse = coarse_of(gpu)
    graph, expected = coarse.graph, gpu.problem.graph.contracted(parents_of(gpu, coarse))
    assert graph.n_vertices < 0.5 * N
    assert np.array_equal(graph.indptr, expected.indptr)
    assert np.array_equal(graph.indices, expected.indices)
    assert np.allclose(graph.weights, expected.weights, rtol=1e-9)
    assert np.allclose(graph.masses, expected.masses, rtol=1e-12)


def test_partitions_cost_the_same_on_both(gpu: GpuKernels):
    coarse = coarse_of(gpu)
    labels = np.random.default_rng(0).integers(0, R, (2, coarse.graph.n_vertices))
    rows = coarse.projected(labels)
    assert np.array_equal(coarse.restricted(rows), labels)
    for one, fine in zip(labels, rows, strict=True):
        expected = Problem(coarse.graph, R).partition(one).energy
        assert gpu.problem.partition(gpu.in_graph_order(fine)).energy == pytest.approx(expected, rel=1e-9)


def test_what_partitions_keep_apart_stays_apart(gpu: GpuKernels):
    partitions = np.random.default_rng(0).integers(0, R, (2, N))
    rows = torch.stack([gpu.in_rows(one[:, None])[:, 0].long() for one in partitions])
    parents = parents_of(gpu, coarse_of(gpu, respected=rows))
    for one in partitions:
        assert all(np.unique(one[parents == parent]).size == 1 for parent in np.unique(parents))
    assert parents.max() + 1 < N


def test_no_vertex_becomes_too_heavy_and_heavy_edges_go_first():
    edges = [(i, i + 1) for i in range(99)]
    weights = np.where(np.arange(99) % 2 == 0, 10.0, 1.0)  # pairs
    gpu = kernels_of(Problem(Graph.from_edges(edges, weights), 2))
    coarse = gpu.coarsened(10, heaviest=2.0, seed=0)
    assert np.array_equal(parents_of(gpu, coarse), np.arange(100) // 2)
    assert coarse.graph.masses.max() == 2.0


def test_a_seed_fixes_it_and_another_differs(gpu: GpuKernels):
    first, again, other = (parents_of(gpu, coarse_of(gpu, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_graph_without_edges_stays_as_it_is():
    gpu = kernels_of(Problem(Graph.from_any(np.zeros((5, 5))), 2))
    assert np.array_equal(parents_of(gpu, gpu.coarsened(2, heaviest=9.0, seed=0)), np.arange(5))
