"""What small and uneven graphs are partitioned with besides tautcut: partitioners of the field, with the weights as
whole numbers, greedy descents from noise, and plain simulated annealing. Each gives the best of several tries among
those whose clusters are large enough; a record of it is made here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from tautcut.kernels.cpu.annealing import anneal
from tautcut.kernels.cpu.coarsening import finest_level
from tautcut.kernels.cpu.moves import descend
from tautcut.problem import Partition, Problem
from tautcut.records import RunRecord, circumstances
from tautcut.search.bounds import with_bounds
from tautcut.search.partitioners import integer_weights
from tautcut.search.plan import Plan, Task

Tries = Iterator[Any]
IMBALANCES = (0.03, 0.3, 1.0)
DESCENTS = 1000
ANNEALINGS, PROPOSALS = 10, 1_000_000
HOT, COLD = 20.0, 0.1  # temperatures, in edges of mean weight


def smallest_sizes(problem: Problem) -> Any:
    return with_bounds(Task(problem, Plan())).smallest


def best_of(problem: Problem, name: str, tries: Callable[[Problem], Tries], *, data: str) -> RunRecord:
    """The record of the lowest of these partitions; of those with too small a cluster only if there are no others."""
    began = time.perf_counter()
    bounds = smallest_sizes(problem)
    found: Partition | None = None
    n_tries = 0
    for labels in tries(problem):
        partition, n_tries = problem.partition(labels), n_tries + 1
        rank = (bool((partition.sizes < bounds).any()), partition.energy)
        if found is None or rank < (bool((found.sizes < bounds).any()), found.energy):
            found = partition
    seconds = time.perf_counter() - began
    is_allowed = found is not None and bool((found.sizes >= bounds).all())
    energy = float(found.energy) if found is not None and np.isfinite(found.energy) else None
    return RunRecord(
        data=data, method=name, settings={"n_clusters": problem.n_clusters, "tries": n_tries}, seed=0, n_labelled=0,
        energy=energy, purity=None, seconds=round(seconds, 4),
        sizes=() if found is None else tuple(found.sizes.tolist()), n_iter=0,
        status="Done." if is_allowed else "A cluster is too small.", **circumstances(),
    )  # fmt: skip


def metis(problem: Problem) -> Tries:
    import pymetis

    graph, weights = problem.graph, integer_weights(problem.graph.weights)
    adjacency = pymetis.CSRAdjacency(adj_starts=graph.indptr, adjacent=graph.indices)
    for imbalance in IMBALANCES:
        for seed in range(3):
            options = pymetis.Options()
            options.seed, options.ufactor = seed, round(1000 * imbalance)
            yield pymetis.part_graph(
                problem.n_clusters, adjacency=adjacency, options=options, eweights=weights, recursive=False
            )[1]


def kahip(problem: Problem) -> Tries:
    import kahip

    graph, weights = problem.graph, integer_weights(problem.graph.weights).tolist()
    parts = ([1] * graph.n_vertices, graph.indptr.tolist(), weights, graph.indices.tolist())
    for imbalance in IMBALANCES:
        for seed in range(2):
            yield kahip.kaffpa(*parts, problem.n_clusters, imbalance, True, seed, kahip.ECO)[1]


def mt_kahypar(problem: Problem) -> Tries:
    import mtkahypar

    graph, engine = problem.graph, _mt_kahypar_engine()
    owner = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    once = owner < graph.indices
    edges = list(zip(owner[once].tolist(), graph.indices[once].tolist(), strict=True))
    weights = integer_weights(graph.weights)[once].tolist()
    for imbalance in IMBALANCES:
        for seed in range(2):
            mtkahypar.set_seed(seed)
            context = engine.context_from_preset(mtkahypar.PresetType.QUALITY)
            context.set_partitioning_parameters(problem.n_clusters, imbalance, mtkahypar.Objective.CUT)
            context.logging = False
            made = engine.create_graph(context, graph.n_vertices, len(edges), edges, [1] * graph.n_vertices, weights)
            yield made.partition(context).get_partition()


@cache
def _mt_kahypar_engine() -> Any:
    """Mt-KaHyPar can be initialised once per process."""
    import mtkahypar

    return mtkahypar.initialize(1)


def greedy_descents(problem: Problem) -> Tries:
    """Single vertices moved from noise while that lowers (P), a thousand times."""
    level, bounds = finest_level(problem.graph, problem.is_labelled), smallest_sizes(problem).astype(float)
    for seed in range(DESCENTS):
        yield descend(level, _noise(problem, seed), problem.lam, bounds)[0]


def annealing(problem: Problem) -> Tries:
    """Noise cooled slowly, ten times."""
    level, bounds = finest_level(problem.graph, problem.is_labelled), smallest_sizes(problem).astype(float)
    for seed in range(ANNEALINGS):
        noise = _noise(problem, seed)
        yield anneal(level, noise, problem.lam, bounds, hot=HOT, cold=COLD, work=PROPOSALS, seed=seed)[0]


def _noise(problem: Problem, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.permutation(np.arange(problem.n_vertices) % problem.n_clusters)


PARTITIONERS: dict[str, Callable[[Problem], Tries]] = {"METIS": metis, "KaHIP eco": kahip, "Mt-KaHyPar": mt_kahypar}
RIVALS = {**PARTITIONERS, "1,000 greedy descents": greedy_descents, "simulated annealing": annealing}
