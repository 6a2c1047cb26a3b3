"""Every way to make a start F⁰ ∈ C: a multilevel partition, NCut seeds (the paper's procedure (b)), the NCut
indicator (procedure (a)), noise, the known labels, or the user's own array. A start never looks at true labels
other than the fixed ones of the problem; the solver projects what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.graph import Graph
from tautcut.graph.laplacian import diffuse, normalised_cut
from tautcut.kernels.cpu.moves import Level
from tautcut.problem import Problem

#: A maker gives the start of one run, from that run's own generator.
StartMaker = Callable[[int, np.random.Generator], FloatArray]

SOFTNESS = 0.5  # how far a hard partition is moved towards the barycentre (decision 0011)
_IMBALANCES = (0.1, 0.3, 0.03)  # tolerances of the partitioner, taken in turn by several starts
_LARGEST_WEIGHT_SUM = 2**30  # METIS counts in 32 bits


class Spectral(Protocol):
    """The linear algebra that starts are made with, on one graph; `tautcut.graph.laplacian` on the host, or a GPU's."""

    def diffuse(self, B: FloatArray) -> FloatArray:
        """(I + L)⁻¹ B."""

    def normalised_cut(self, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
        """The clusters of the normalised cut."""


class _OnTheHost:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def diffuse(self, B: FloatArray) -> FloatArray:
        return diffuse(self._graph, B)

    def normalised_cut(self, n_clusters: int, *, rng: np.random.Generator) -> IntArray:
        return normalised_cut(self._graph, n_clusters, rng=rng)


def start_maker(
    problem: Problem, init: str | ArrayLike, *, rng: np.random.Generator, spectral: Spectral | None = None
) -> StartMaker:
    """The maker of this name; what several starts share (the NCut clusters) is computed once, here.

    Where labels are fixed, every named start is the labels' own: all of them propagated by (I + L)⁻¹.
    """
    if not isinstance(init, str):
        own = np.array(init, dtype=np.float64)
        shape = (problem.n_vertices, problem.n_clusters)
        if own.shape != shape:
            raise InputError(f"init must have shape {shape} (vertices, clusters); found {own.shape}.")
        return lambda number, rng: own
    if init not in NAMES:
        raise InputError(f"init must be one of {', '.join(NAMES)}, or an array; found {init!r}.")
    spectral = spectral or _OnTheHost(problem.graph)
    if problem.is_labelled.any():
        propagated = spectral.diffuse(_indicator(problem.labels, problem.n_clusters))
        return lambda number, rng: propagated
    return _MAKERS[init](problem, spectral, rng)


def soften(labels: IntArray, n_clusters: int, softness: float = SOFTNESS) -> FloatArray:
    """The indicator of a partition, moved towards the barycentre: (1 − s) e_r + s/R."""
    return (1 - softness) * _indicator(labels, n_clusters) + softness / n_clusters


def _multilevel(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    def make(number: int, rng: np.random.Generator) -> FloatArray:
        return soften(multilevel_partition(problem, imbalance=imbalance_of_start(number), rng=rng), problem.n_clusters)

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
    return np.array([rng.choice(np.flatnonzero(clusters == r)) for r in range(n_clusters)])


def _ncut(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    def make(number: int, rng: np.random.Generator) -> FloatArray:
        labels = spectral.normalised_cut(problem.n_clusters, rng=rng)
        return _indicator(fill_empty(labels, problem.n_clusters), problem.n_clusters)

    return make


def _random(problem: Problem, spectral: Spectral, rng: np.random.Generator) -> StartMaker:
    def make(number: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.random((problem.n_vertices, problem.n_clusters))
        chosen = rng.choice(problem.n_vertices, problem.n_clusters, replace=False)
        noise[chosen, np.arange(problem.n_clusters)] += 1.0  # every cluster has a vertex, so none starts empty
        return noise

    return make


_MAKERS: dict[str, Callable[[Problem, Spectral, np.random.Generator], StartMaker]] = {
    "multilevel": _multilevel,
    "ncut-seeds": _ncut_seeds,
    "ncut": _ncut,
    "random": _random,
}
NAMES = tuple(_MAKERS)


def imbalance_of_start(number: int) -> float:
    """The tolerance of cluster sizes that start `number` gives the partitioner."""
    return _IMBALANCES[number % len(_IMBALANCES)]


def multilevel_partition(problem: Problem, *, imbalance: float, rng: np.random.Generator) -> IntArray:
    """A partition into R non-empty clusters by a multilevel partitioner: METIS, or Mt-KaHyPar where METIS has no build.

    Clusters have the shares 1 / (1 + λ_r), up to `imbalance`. Where a partitioner cannot help (R > N/2, no edges)
    the vertices are cut into runs of the reverse Cuthill–McKee order.
    """
    return partition_level(problem.graph, problem.shares, imbalance=imbalance, rng=rng)


def strong_partition(problem: Problem, *, imbalance: float) -> IntArray | None:
    """A lower cut than the multilevel start's, in many times its time: Mt-KaHyPar's deterministic quality preset.

    None where it is not installed or cannot help; it draws nothing at random.
    """
    graph, shares = problem.graph, problem.shares
    if not _is_installed("mtkahypar") or 2 * shares.size > graph.n_vertices:
        return None
    return fill_empty(_mt_kahypar(graph, shares, imbalance, seed=0, preset="DETERMINISTIC_QUALITY"), shares.size)


def partition_level(
    graph: Graph | Level, shares: FloatArray, *, imbalance: float, rng: np.random.Generator
) -> IntArray:
    """The same for a graph or a coarse level of it, where clusters count the original vertices."""
    seed = int(rng.integers(1, 2**30))
    if shares.size == 1 or 2 * shares.size > graph.n_vertices or graph.indices.size == 0:
        labels = _runs(graph, shares.size)
    else:
        partition = _metis if _is_installed("pymetis") else _mt_kahypar
        labels = partition(graph, shares, imbalance, seed)
    return fill_empty(labels, shares.size)


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
    with _mt_kahypar_lock:
        return _mt_kahypar_seeded(mtkahypar, graph, shares, imbalance, seed, preset)


def _mt_kahypar_seeded(
    mtkahypar: Any, graph: Graph | Level, shares: FloatArray, imbalance: float, seed: int, preset: str
) -> IntArray:
    mtkahypar.set_seed(seed)
    engine = _mt_kahypar_engine(mtkahypar)
    context = engine.context_from_preset(getattr(mtkahypar.PresetType, preset))
    context.set_partitioning_parameters(shares.size, imbalance, mtkahypar.Objective.CUT)
    context.logging = False
    if not np.allclose(shares, shares[0]):
        total = graph.masses.sum() if isinstance(graph, Level) else graph.n_vertices
        context.set_individual_target_block_weights(np.ceil((1 + imbalance) * shares * total).astype(int).tolist())
    owner = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    once = owner < graph.indices
    edges = list(zip(owner[once].tolist(), graph.indices[once].tolist(), strict=True))
    counts = graph.masses.astype(int).tolist() if isinstance(graph, Level) else [1] * graph.n_vertices
    weights = integer_weights(graph.weights)[once].tolist()
    hypergraph = engine.create_graph(context, graph.n_vertices, len(edges), edges, counts, weights)
    return np.asarray(hypergraph.partition(context).get_partition(), dtype=np.int64)


_engines: list[Any] = []
_mt_kahypar_lock = Lock()  # its seed is global


def _mt_kahypar_engine(mtkahypar: Any) -> Any:
    """Mt-KaHyPar can be initialised once per process."""
    if not _engines:
        _engines.append(mtkahypar.initialize(1))
    return _engines[0]


def _is_installed(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def integer_weights(weights: FloatArray) -> IntArray:
    """Weights scaled and rounded to whole numbers ≥ 1, for the partitioner alone; their sum fits in 32 bits."""
    scale = min(1000.0, _LARGEST_WEIGHT_SUM / weights.size)  # of the mean
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


def _indicator(labels: IntArray, n_clusters: int) -> FloatArray:
    """Rows e_r; zero where the label is −1."""
    return np.asarray(labels[:, None] == np.arange(n_clusters)).astype(np.float64)
