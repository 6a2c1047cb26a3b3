"""Every way to make a start F⁰ ∈ C: a multilevel partition, NCut seeds (the paper's procedure (b)), the NCut indicator
(procedure (a)), noise, the fixed labels, or the user's own array. A start never looks at true labels other than the
fixed ones of the problem; the solver projects what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.graph.laplacian import diffuse, normalised_cut
from tautcut.kernels import devices
from tautcut.problem import Problem
from tautcut.search.partitioners import fill_empty, imbalance_of_start, partition_level

#: A maker gives the start of one run, from that run's own generator.
StartMaker = Callable[[int, np.random.Generator], FloatArray]

SOFTNESS = 0.5  # how far a hard partition is moved towards the barycentre (decision 0011)


class Spectral(Protocol):
    """The linear algebra that starts are made with, on one graph; `tautcut.graph.laplacian` on the host, or a GPU's."""

    def diffuse(self, B: FloatArray) -> FloatArray:
        """(I + L)⁻¹ B."""

    def normalised_cut(self, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
        """The clusters of the normalised cut."""


def start_maker(
    problem: Problem, init: str | ArrayLike, *, rng: np.random.Generator, spectral: Spectral | None = None
) -> StartMaker:
    """The maker of this name, or of the user's own array; what several starts share is computed once, here.

    "labels" are the fixed ones, propagated by (I + L)⁻¹; the other names are those of `Plan.init`.
    """
    if not isinstance(init, str):
        own = np.array(init, dtype=np.float64)
        shape = (problem.n_vertices, problem.n_clusters)
        if own.shape != shape:
            raise InputError(f"init must have shape {shape} (vertices, clusters); found {own.shape}.")
        return lambda number, rng: own
    graph = problem.graph
    on_host = SimpleNamespace(
        diffuse=partial(diffuse, graph, solver=devices.gradient_solver()), normalised_cut=partial(normalised_cut, graph)
    )
    return _MAKERS[init](problem, spectral or on_host, rng)


def soften(labels: IntArray, n_clusters: int, softness: float = SOFTNESS) -> FloatArray:
    """The indicator of a partition, moved towards the barycentre: (1 − s) e_r + s/R."""
    return (1 - softness) * indicator(labels, n_clusters) + softness / n_clusters


def _multilevel(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    def make(number: int, rng: np.random.Generator) -> FloatArray:
        labels = partition_level(problem.graph, problem.shares, imbalance=imbalance_of_start(number), rng=rng)
        return soften(labels, problem.n_clusters)

    return make


def _ncut_seeds(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    clusters = fill_empty(spectral.normalised_cut(problem.n_clusters, rng=rng), problem.n_clusters)

    def make(number: int, rng: np.random.Generator) -> FloatArray:
        seeds = np.zeros((problem.n_vertices, problem.n_clusters))
        seeds[seed_vertices(clusters, problem.n_clusters, rng=rng), np.arange(problem.n_clusters)] = 1.0
        return spectral.diffuse(seeds)

    return make


def seed_vertices(clusters: IntArray, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
    """A vertex of each cluster."""
    members = np.argsort(clusters, kind="stable")
    ends = np.cumsum(np.bincount(clusters, minlength=n_clusters))[:-1]
    return np.array([rng.choice(one) for one in np.split(members, ends)])


def _ncut(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    def make(number: int, rng: np.random.Generator) -> FloatArray:
        labels = spectral.normalised_cut(problem.n_clusters, rng=rng)
        return indicator(fill_empty(labels, problem.n_clusters), problem.n_clusters)

    return make


def _random(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    def make(number: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.random((problem.n_vertices, problem.n_clusters))
        chosen = rng.choice(problem.n_vertices, problem.n_clusters, replace=False)
        noise[chosen, np.arange(problem.n_clusters)] += 1.0  # every cluster has a vertex, so none starts empty
        return noise

    return make


def _labels(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    propagated = spectral.diffuse(indicator(problem.labels, problem.n_clusters))
    return lambda number, rng: propagated


_MAKERS: dict[str, Callable[[Problem, Spectral, np.random.Generator], StartMaker]] = {
    "multilevel": _multilevel,
    "ncut-seeds": _ncut_seeds,
    "ncut": _ncut,
    "random": _random,
    "labels": _labels,
}


def indicator(labels: IntArray, n_clusters: int) -> FloatArray:
    """Rows e_r; zero where the label is −1."""
    return np.asarray(labels[:, None] == np.arange(n_clusters)).astype(np.float64)
