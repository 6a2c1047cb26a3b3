"""The theorems with masses, and what masses mean, on the GPU's engine itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpu_or_interpreter import N, engine, kernels_of, labelled_problem, masses_of, random_starts
from sample_graphs import random_graph
from tautcut.algorithm.batch import run_batch
from tautcut.algorithm.solver import steps
from tautcut.algorithm.stopping import StopRule
from tautcut.kernels.protocol import Measures
from tautcut.kernels.reference import ReferenceKernels, subgradient
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter

KINDS = ["few", "wide", "one"]


def weighed(kind: str, R: int = 3) -> Problem:
    return labelled_problem(R, is_weighted=True, n_labelled=0, masses=kind)


def measured(gpu: engine.GpuKernels, F: np.ndarray) -> Measures:
    return gpu.measure(gpu.allocate(F))


@pytest.mark.parametrize("kind", KINDS)
def test_theorem_1_the_terms_of_an_indicator_are_those_of_the_partition(kind: str):
    """T(1_A) = Cut(A, Aᶜ) and B(1_A) = min{λ m(A), m(Aᶜ)}."""
    problem = weighed(kind)
    gpu = kernels_of(problem)
    labels = np.random.default_rng(2).permutation(np.arange(N) % 3)
    found, partition = measured(gpu, np.eye(3)[labels]), problem.partition(labels)
    sides = np.minimum(problem.lam * partition.masses, problem.total_mass - partition.masses)
    assert found.B * gpu.mass_unit == pytest.approx(sides, rel=1e-9)
    assert found.E * gpu.unit == pytest.approx(partition.terms, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_theorem_2_the_subgradient_sums_to_zero_and_reproduces_b(kind: str):
    """v_i ∈ m_i [−1, λ], Σ v = 0, ⟨v, f⟩ = B(f), and the mass at and above the median exceeds its share."""
    problem = weighed(kind)
    gpu = kernels_of(problem)
    coarse = np.random.default_rng(3).integers(0, 3, (N, 3)) + np.eye(3)[np.arange(N) % 3]
    tied = (coarse / coarse.sum(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    for F in (random_starts(problem, 1)[0], tied):
        found = measured(gpu, F)
        V = subgradient(F, gpu.masses, problem.lam, found.median, found.tie)
        assert (found.tie >= -1).all()
        assert (found.tie <= problem.lam).all()
        assert np.abs(V.sum(axis=0)).max() <= 1e-13 * np.abs(V).sum(axis=0).max()
        assert (V * F).sum(axis=0) == pytest.approx(found.B, rel=1e-9)
        share = gpu.total_mass / (problem.lam + 1)
        assert (gpu.masses @ (found.median < F) <= share * (1 + 1e-9)).all()
        assert (gpu.masses @ (found.median <= F) >= share * (1 - 1e-9)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_theorem_3_accepted_steps_descend(kind: str):
    """In the weak form, Σ (B'/B)(E − E') ≥ (1 − ε) ‖F − F'‖² / Δ, as the reference measures both ends of a step."""
    problem, stop = weighed(kind, R=2), StopRule(tol=0.0, max_iter=20)
    gpu, reference = kernels_of(problem), ReferenceKernels(problem)
    seen = [(gpu.memberships(state.arrays), state.is_descent)
            for state in steps(problem, random_starts(problem, 1)[0], gpu, stop)]  # fmt: skip
    accepted = 0
    for (before, _), (after, is_descent) in pairwise(seen):
        then, now = (reference.measure(reference.allocate(F)) for F in (before, after))
        gain = float(((then.E * now.B - now.T) / then.B).sum())
        if is_descent:
            assert gain >= (1 - stop.epsilon) * ((after - before) ** 2).sum() / then.B.max() - 1e-5
            accepted += 1
    assert accepted > 2


@pytest.mark.parametrize(("R", "is_weighted"), [(2, False), (3, True)])
def test_masses_that_are_all_alike_are_none_bit_for_bit(R: int, is_weighted: bool):
    """The same programs on the same numbers; only the unit of (P) is another."""
    plain = labelled_problem(R, is_weighted=is_weighted)
    alike = labelled_problem(R, is_weighted=is_weighted, masses="even")
    ours, theirs = kernels_of(alike), kernels_of(plain)
    assert not ours.has_masses
    assert ours.bytes_of_start() == theirs.bytes_of_start()
    F, stop = random_starts(plain, 2), StopRule(max_iter=6)
    found, expected = (run_batch(one.problem, F, one, stop=stop) for one in (ours, theirs))
    assert np.array_equal(found.best.memberships, expected.best.memberships)
    assert np.array_equal(found.best.last_memberships, expected.best.last_memberships)
    assert np.array_equal(found.iterations, expected.iterations)
    assert found.energies == pytest.approx(expected.energies / 0.3, rel=1e-14)


@pytest.mark.parametrize("factor", [2.0**40, 1e-7])
def test_a_common_factor_of_the_masses_is_a_unit(factor: float):
    problem = weighed("wide")
    larger = Problem(problem.graph.with_masses(factor * problem.graph.masses), 3, problem.lam)
    F = random_starts(problem, 1)[0]
    one, other = (measured(kernels_of(p), F) for p in (problem, larger))
    assert np.array_equal(one.median, other.median)
    assert np.allclose(one.B, other.B, rtol=1e-9)
    assert kernels_of(larger).unit == pytest.approx(kernels_of(problem).unit / factor)


def test_a_vertex_of_mass_three_is_three_vertices():
    """The measures of a contracted graph are those of F on the whole graph, alike within every group."""
    graph = random_graph(N, 4 * N, seed=8, is_weighted=True)
    groups = np.minimum(np.arange(N), 2 * np.arange(N)[::-1] // 3 % 20)  # of one vertex and of several
    groups = np.unique(groups, return_inverse=True)[1]
    small = Problem(graph.contracted(groups), 3)
    assert not small.graph.is_even
    F = random_starts(small, 1)[0]
    ours, theirs = kernels_of(small), kernels_of(Problem(graph, 3))
    found, expected = measured(ours, F), measured(theirs, F[groups])
    assert np.array_equal(found.median, expected.median)
    assert found.tie == pytest.approx(expected.tie, rel=1e-9, abs=1e-9)
    assert found.T * ours.weight_unit == pytest.approx(expected.T * theirs.weight_unit, rel=1e-6)
    assert found.B * ours.mass_unit == pytest.approx(expected.B * theirs.mass_unit, rel=1e-6)


def test_a_median_among_light_vertices_is_found_beside_a_heavy_one():
    """A vertex has all but a billionth of the mass: ties of vertices so light stay between −1 and λ."""
    masses = np.where(np.arange(N) == 5, 1e9 * N, masses_of("few", N))
    problem = Problem(random_graph(N, 4 * N, seed=3).with_masses(masses), 2, [1.0, 3.0])
    gpu, F = kernels_of(problem), random_starts(problem, 1)[0]
    found = measured(gpu, F)
    assert np.array_equal(found.median, F[5])
    light = Problem(problem.graph, 2, [1e-10, 1e10])  # the shares are now those of light vertices
    found = measured(kernels_of(light), F)
    assert (found.tie >= -1).all()
    assert (found.tie <= light.lam).all()
    assert (found.B > 0).all()
