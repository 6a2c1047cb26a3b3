"""Partitions of a graph, or of a coarse level of it, by programs of the field: METIS and Mt-KaHyPar. This module owns
how they are called (weights as whole numbers, seeds, imbalance) and what serves where they cannot; they minimise the
cut alone, so their partitions are starts and no answers.
"""

from __future__ import annotations

from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import EngineUnavailableError
from tautcut.graph import Graph
from tautcut.kernels.cpu.moves import Level
from tautcut.problem import Problem

_IMBALANCES = (0.1, 0.3, 0.03)  # tolerances of the partitioner, taken in turn by several starts
_LARGEST_WEIGHT_SUM = 2**30  # METIS counts in 32 bits
_MEAN_WEIGHT = 1000.0  # what the mean weight becomes before rounding, where the sum allows it: three digits are kept

_engines: list[Any] = []  # Mt-KaHyPar's, once it is initialised
_mt_kahypar_lock = Lock()  # its seed is global


def imbalance_of_start(number: int) -> float:
    """The tolerance of cluster sizes that start `number` gives the partitioner."""
    return _IMBALANCES[number % len(_IMBALANCES)]


def partition_level(
    graph: Graph | Level, shares: FloatArray, *, imbalance: float, rng: np.random.Generator
) -> IntArray:
    """A partition into R non-empty clusters by a multilevel partitioner: METIS, or Mt-KaHyPar where METIS has no build.

    Clusters have the given shares of the original vertices, up to `imbalance`; a vertex of a coarse level counts those
    that it stands for. Where a partitioner cannot help (R > N/2, no edges) the vertices are cut into runs of the
    reverse Cuthill–McKee order.
    """
    seed = int(rng.integers(1, 2**30))
    if shares.size == 1 or 2 * shares.size > graph.n_vertices or graph.indices.size == 0:
        labels = _runs(graph, shares.size)
    else:
        partition = _metis if _is_installed("pymetis") else _mt_kahypar
        labels = partition(graph, shares, imbalance, seed)
    return fill_empty(labels, shares.size)


def strong_partition(problem: Problem, *, imbalance: float) -> IntArray | None:
    """A lower cut than the multilevel start's, in many times its time: Mt-KaHyPar's deterministic quality preset.

    None where it is not installed or cannot help; it draws nothing at random.
    """
    graph, shares = problem.graph, problem.shares
    if not _is_installed("mtkahypar") or 2 * shares.size > graph.n_vertices:
        return None
    return fill_empty(_mt_kahypar(graph, shares, imbalance, seed=0, preset="DETERMINISTIC_QUALITY"), shares.size)


def _metis(graph: Graph | Level, shares: FloatArray, imbalance: float, seed: int) -> IntArray:
    pymetis = import_module("pymetis")
    options = pymetis.Options()
    options.seed = seed
    options.ufactor = round(1000 * imbalance)
    adjacency = pymetis.CSRAdjacency(adj_starts=graph.indptr, adjacent=graph.indices)
    is_plain = isinstance(graph, Graph) and graph.is_unweighted
    is_even = bool(np.allclose(shares, shares[0]))
    _, labels = pymetis.part_graph(
        shares.size, adjacency=adjacency, options=options, recursive=False,
        eweights=None if is_plain else integer_weights(graph.weights),
        vweights=graph.masses.astype(np.int64) if isinstance(graph, Level) else None,
        tpwgts=None if is_even else shares.tolist(),
    )  # fmt: skip
    return np.asarray(labels, dtype=np.int64)


def _mt_kahypar(
    graph: Graph | Level, shares: FloatArray, imbalance: float, seed: int, preset: str = "DETERMINISTIC"
) -> IntArray:
    try:
        mtkahypar = import_module("mtkahypar")
    except ImportError as error:
        raise EngineUnavailableError(
            "init='multilevel' needs pymetis or mtkahypar: install one, or choose init='ncut-seeds'"
        ) from error
    owner = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    once = owner < graph.indices
    edges = list(zip(owner[once].tolist(), graph.indices[once].tolist(), strict=True))
    masses = graph.masses if isinstance(graph, Level) else np.ones(graph.n_vertices)
    weights = integer_weights(graph.weights)[once].tolist()
    with _mt_kahypar_lock:
        if not _engines:  # it can be initialised once per process
            _engines.append(mtkahypar.initialize(1))
        mtkahypar.set_seed(seed)
        context = _engines[0].context_from_preset(getattr(mtkahypar.PresetType, preset))
        context.set_partitioning_parameters(shares.size, imbalance, mtkahypar.Objective.CUT)
        context.logging = False
        if not np.allclose(shares, shares[0]):
            largest = np.ceil((1 + imbalance) * shares * masses.sum())
            context.set_individual_target_block_weights(largest.astype(int).tolist())
        masses = masses.astype(int).tolist()
        hypergraph = _engines[0].create_graph(context, graph.n_vertices, len(edges), edges, masses, weights)
        return np.asarray(hypergraph.partition(context).get_partition(), dtype=np.int64)


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


def fill_empty(labels: IntArray, n_clusters: int) -> IntArray:
    """Give each empty cluster the later half of the largest one, so that all R are there."""
    filled = np.array(labels, dtype=np.int64)
    for r in range(n_clusters):
        sizes = np.bincount(filled, minlength=n_clusters)
        if sizes[r] == 0:
            members = np.flatnonzero(filled == sizes.argmax())
            filled[members[(members.size + 1) // 2 :]] = r
    return filled


def _runs(graph: Graph | Level, n_clusters: int) -> IntArray:
    """R runs of equal length of the reverse Cuthill–McKee order, in which neighbours are near."""
    matrix = sp.csr_matrix((graph.weights, graph.indices, graph.indptr), shape=(graph.n_vertices,) * 2)
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    labels = np.empty(graph.n_vertices, dtype=np.int64)
    labels[order] = np.arange(graph.n_vertices) * n_clusters // graph.n_vertices
    return labels
