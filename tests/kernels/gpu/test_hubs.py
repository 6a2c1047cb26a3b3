"""Rows that several programs share: the GPU's engine against the reference, on graphs with hubs in many pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from gpu_or_interpreter import assert_close, engine, kernels_of, random_starts
from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.solver import run
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.kernels.gpu import layout as layout_module
from tautcut.kernels.gpu.batch import GpuBatch
from tautcut.kernels.protocol import StepSizes
from tautcut.kernels.reference import ReferenceArrays, ReferenceKernels
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter

SIZES = {"LONG_ROW": 6, "HUB_ROW": 14, "PIECE": 8}  # small, so that short rows, long rows and hubs all occur
LANES = 4
ITERATIONS = 3


def star() -> Problem:
    return Problem(Graph.from_edges([(0, i) for i in range(1, 50)]), 3)


def two_hubs() -> Problem:
    """A ring with weights and chords; one vertex knows nearly all others and has a label, one every third, one eight,
    and the last nobody.
    """
    spokes = [(20, i) for i in range(36)] + [(7, i) for i in range(0, 45, 3)] + [(11, i) for i in range(8)]
    edges = np.array([(i, (i + 1) % 45) for i in range(45)] + spokes)
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    graph = Graph.from_edges(edges, np.random.default_rng(3).uniform(0.2, 3.0, len(edges)), n_vertices=46)
    labels = np.full(46, -1)
    labels[[5, 20]] = [0, 1]
    return Problem(graph, 2, labels=labels)


def heavy_hubs() -> Problem:
    """The same, and a vertex weighs as much as it has neighbours."""
    problem = two_hubs()
    degrees = np.maximum(np.diff(problem.graph.indptr), 1).astype(np.float64)
    return Problem(problem.graph.with_masses(degrees), 2, labels=problem.labels)


@dataclass
class Run:
    """The engine and the reference after the same iterations of one outer step, from the same numbers."""

    problem: Problem
    gpu: engine.GpuKernels
    ours: GpuBatch
    theirs: ReferenceArrays


@pytest.fixture(scope="module", params=[star, two_hubs, heavy_hubs])
def iterated(request: pytest.FixtureRequest) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SIZES.items():
            patch.setattr(layout_module, name, value)
        problem = request.param()
        gpu = kernels_of(problem, lanes=LANES)
        yield Run(problem, gpu, *iterate_both(problem, gpu))


def iterate_both(problem: Problem, gpu: engine.GpuKernels) -> tuple[GpuBatch, ReferenceArrays]:
    reference, F = ReferenceKernels(problem), random_starts(problem, 1)[0]
    ours, theirs = gpu.allocate(F), reference.allocate(F)
    before = reference.measure(theirs)
    delta, tau = float(before.B.max()), 1 / reference.lipschitz
    scale = delta / before.B
    steps = StepSizes(tau, 1 / (tau * (scale.max() * reference.lipschitz) ** 2), 1 / np.sqrt(1 + 2 * tau))
    for kernels, arrays in ((gpu, ours), (reference, theirs)):
        kernels.linearise(arrays, before, delta)
        for _ in range(ITERATIONS):
            kernels.iterate(arrays, scale, steps)
    return ours, theirs


def test_memberships(iterated: Run):
    layout = iterated.gpu.layout
    assert layout.n_pieces > 2 * layout.n_hubs > 0
    assert iterated.gpu.lipschitz == pytest.approx(ReferenceKernels(iterated.problem).lipschitz, rel=1e-5)
    assert_close("F", iterated.gpu.memberships(iterated.ours), iterated.theirs.F)


def test_both_ends_of_an_edge_have_its_dual(iterated: Run):
    layout, problem = iterated.gpu.layout, iterated.problem
    short = np.minimum(np.arange(layout.n_short_blocks * LANES), layout.n_short - 1).reshape(-1, LANES)
    owners, offsets, neighbors, order = (
        part.cpu().numpy() for part in (layout.owners, layout.offsets, layout.neighbors, layout.order)
    )
    long = np.repeat(owners[layout.n_short_blocks :, None], LANES, axis=1)
    row = np.repeat(np.concatenate([short, long]), np.diff(offsets), axis=0).ravel()
    is_edge = row != neighbors
    P = np.zeros((problem.n_vertices, problem.n_vertices, problem.n_clusters))
    P[order[row[is_edge]], order[neighbors[is_edge]]] = iterated.ours.P[0].cpu().numpy()[is_edge]
    assert np.array_equal(P, -P.transpose(1, 0, 2))
    upper = sp.triu(problem.graph.to_scipy(), 1).tocoo()  # the order of the reference's edges
    assert np.abs(P[upper.row, upper.col] - iterated.theirs.P).max() < 1e-5


def test_measures_cuts_and_sizes(iterated: Run):
    reference, gpu, ours = ReferenceKernels(iterated.problem), iterated.gpu, iterated.ours
    found = gpu.measure(ours)
    assert_close("squared_step", found.squared_step, reference.measure(iterated.theirs).squared_step)
    there = reference.allocate(gpu.memberships(ours))
    assert_close("T", found.T, reference.measure(there).T)
    (labels, cut), (expected_labels, expected_cut) = gpu.harden(ours), reference.harden(there)
    assert np.array_equal(labels, expected_labels)
    assert_close("cut", cut, expected_cut)
    masses = ours.variations[0, 2].sum(dim=1).cpu().numpy()
    assert np.array_equal(masses, np.bincount(labels, gpu.masses, len(masses)))


def test_the_same_bits_twice(iterated: Run):
    again, _ = iterate_both(iterated.problem, iterated.gpu)
    for name in ("X", "P", "norms", "labels"):
        assert np.array_equal(getattr(again, name).cpu().numpy(), getattr(iterated.ours, name).cpu().numpy())


def test_the_laplacian(iterated: Run):
    """Greedy moves and starts are made of this product; two at once, of which neither notices the other."""
    gpu, W = iterated.gpu, iterated.problem.graph.to_scipy()
    X = np.random.default_rng(0).normal(size=(2, iterated.problem.n_vertices, 3))
    Y = gpu.minus_laplacian(gpu.in_rows(X), gpu.tensors["weights"])
    for one, found in zip(X, Y, strict=True):
        expected = (W @ one - np.asarray(W.sum(axis=1)) * one) / gpu.weight_unit
        assert_close("F", gpu.in_graph_order(found), expected)


def test_runs_of_two_starts_are_the_reference_runs(iterated: Run):
    problem, stop = iterated.problem, StopRule(tol=0.0, max_iter=2)
    F = random_starts(problem, 2)
    found = run_batch(problem, F, iterated.gpu, stop=stop)
    expected = [run(problem, one, ReferenceKernels(problem), stop=stop) for one in F]
    assert np.allclose(found.energies, [one.partition.energy for one in expected], rtol=1e-6)
    assert_close("F", found.best.memberships, expected[int(np.argmin(found.energies))].memberships)
