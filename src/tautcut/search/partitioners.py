"""Partitions of a graph, or of a coarse level of it, by programs of the field: METIS and Mt-KaHyPar. This module owns
how they are called (weights as whole numbers, seeds, imbalance) and what serves where they cannot; they minimise the
cut alone, so their partitions are starts and no answers.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import EngineUnavailableError
from tautcut.graph import Graph
from tautcut.graph.graph import local_order
from tautcut.kernels.cpu.coarsening import Level
from tautcut.problem import Problem, expected_masses
from tautcut.search import kahypar

_IMBALANCES = (0.1, 0.3, 0.03)  # tolerances of the partitioner, taken in turn by several starts
_LARGEST_WEIGHT_SUM = 2**30  # METIS counts in 32 bits
_LEAST_TARGET = 0.1  # of the largest share: of smaller ones METIS finds some bisection impossible, and says so aloud
_MEAN_WEIGHT = 1000.0  # what the mean weight becomes before rounding, where the sum allows it: three digits are kept


def imbalance_of_start(number: int) -> float:
    """The tolerance of cluster sizes that start `number` gives the partitioner."""
    return _IMBALANCES[number % len(_IMBALANCES)]


def partition_level(
    graph: Graph | Level, shares: FloatArray, *, imbalance: float, rng: np.random.Generator
) -> IntArray:
    """A partition into R non-empty clusters by a multilevel partitioner: METIS, or Mt-KaHyPar where METIS has no build.

    Clusters have the given shares of the mass, up to `imbalance`. Where a partitioner cannot help (R > N/2, no edges)
    the vertices are cut into runs of the reverse Cuthill–McKee order.
    """
    seed = int(rng.integers(1, 2**30))
    if shares.size == 1 or 2 * shares.size > graph.n_vertices or graph.indices.size == 0:
        labels = _runs(graph, shares.size)
    else:
        partition = _metis if _is_installed("pymetis") else _mt_kahypar
        found = partition(graph, shares, imbalance, seed)
        labels = _runs(graph, shares.size) if found is None else found
    return fill_empty(labels, shares.size)


def is_available() -> bool:
    """Whether a multilevel partitioner is installed."""
    return _is_installed("pymetis") or _is_installed("mtkahypar")


def strong_partition(problem: Problem, *, imbalance: float) -> IntArray | None:
    """A lower cut than the multilevel start's, in many times its time: Mt-KaHyPar's deterministic quality preset.

    None where it is not installed or cannot help; it draws nothing at random.
    """
    graph, shares = problem.graph, problem.shares
    if not _is_installed("mtkahypar") or 2 * shares.size > graph.n_vertices:
        return None
    labels = _mt_kahypar(graph, shares, imbalance, seed=0, preset="DETERMINISTIC_QUALITY")
    return None if labels is None else fill_empty(labels, shares.size)


def _metis(graph: Graph | Level, shares: FloatArray, imbalance: float, seed: int) -> IntArray:
    pymetis = import_module("pymetis")
    options = pymetis.Options()
    options.seed = seed
    options.ufactor = round(1000 * imbalance)
    adjacency = pymetis.CSRAdjacency(adj_starts=graph.indptr, adjacent=graph.indices)
    is_plain = isinstance(graph, Graph) and graph.is_uniform
    has_masses = not (isinstance(graph, Graph) and graph.is_even)
    is_even = bool(np.allclose(shares, shares[0]))
    targets = np.maximum(shares, _LEAST_TARGET * shares.max())
    _, labels = pymetis.part_graph(
        shares.size, adjacency=adjacency, options=options, recursive=False,
        eweights=None if is_plain else integer_weights(graph.weights),
        vweights=integer_masses(graph.masses, shares) if has_masses else None,
        tpwgts=None if is_even else (targets / targets.sum()).tolist(),
    )  # fmt: skip
    return np.asarray(labels, dtype=np.int64)


def _mt_kahypar(
    graph: Graph | Level, shares: FloatArray, imbalance: float, seed: int, preset: str = "DETERMINISTIC"
) -> IntArray | None:
    if not _is_installed("mtkahypar"):
        raise EngineUnavailableError(
            "init='multilevel' needs pymetis or mtkahypar: install one, or choose init='ncut-seeds'"
        )
    owner = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    once = owner < graph.indices
    masses = integer_masses(graph.masses, shares)
    largest = np.ceil((1 + imbalance) * shares * masses.sum())
    return kahypar.partition(
        kahypar.Request(
            edges=np.column_stack([owner[once], graph.indices[once]]),
            weights=integer_weights(graph.weights)[once],
            masses=masses,
            n_blocks=shares.size,
            imbalance=imbalance,
            largest=(np.empty(0) if np.allclose(shares, shares[0]) else largest).astype(np.int64),
            seed=seed,
            preset=preset,
        )
    )


def _is_installed(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def integer_weights(weights: FloatArray) -> IntArray:
    """Weights scaled and rounded to whole numbers ≥ 1, for the partitioner alone; their sum fits in 32 bits."""
    scale = min(_MEAN_WEIGHT, _LARGEST_WEIGHT_SUM / weights.size)
    return np.asarray(np.maximum(np.round(weights / weights.mean() * scale), 1).astype(np.int64))


def integer_masses(masses: FloatArray, shares: FloatArray) -> IntArray:
    """Masses as whole numbers ≥ 1, for the partitioner alone: as they are, where they are whole and not too many.

    A vertex that is heavier than a cluster has no more mass than that, or METIS finds no balance and says so aloud.
    """
    heaviest = float(expected_masses(masses, shares).max())
    masses = np.minimum(masses, max(heaviest, float(masses.min())))
    if masses.sum() < _LARGEST_WEIGHT_SUM and np.array_equal(masses, np.round(masses)):
        return masses.astype(np.int64)
    return integer_weights(masses)


def fill_empty(labels: IntArray, n_clusters: int) -> IntArray:
    """Give each empty cluster the later half of the largest one, so that all R are there."""
    filled = np.array(labels, dtype=np.int64)
    sizes = np.bincount(filled, minlength=n_clusters)
    for r in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        members = np.flatnonzero(filled == largest)
        given = members[(members.size + 1) // 2 :]
        filled[given] = r
        sizes[largest], sizes[r] = members.size - given.size, given.size
    return filled


def _runs(graph: Graph | Level, n_clusters: int) -> IntArray:
    """R runs of equal length of the reverse Cuthill–McKee order, in which neighbours are near."""
    matrix = sp.csr_matrix((graph.weights, graph.indices, graph.indptr), shape=(graph.n_vertices,) * 2)
    labels = np.empty(graph.n_vertices, dtype=np.int64)
    labels[local_order(matrix)] = np.arange(graph.n_vertices) * n_clusters // graph.n_vertices
    return labels
