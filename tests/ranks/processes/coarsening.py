"""A graph coarsened by its ranks, as a program that torchrun starts; it fails where (P) is not kept, or where a graph
that is small enough does not come to rank 0 as it is.
"""

from __future__ import annotations

import numpy as np

from sample_graphs import planted_graph
from tautcut.graph.shard import shards_of
from tautcut.kernels.ranks.halo import Halo
from tautcut.kernels.ranks.world import World
from tautcut.problem import Problem
from tautcut.ranks import coarse
from tautcut.ranks.problem import DividedProblem

N_CLUSTERS = 3


def main() -> None:
    world = World.join(timeout=60)
    coarse._RANGE, coarse._PER_CLUSTER = (40, 200), 20
    graph = planted_graph(6, 60, seed=0, is_weighted=True).with_masses(np.random.default_rng(1).uniform(0.5, 2.0, 360))
    parts = np.random.default_rng(0).integers(0, world.size, graph.n_vertices)
    shard = list(shards_of(graph, parts, world.size))[world.rank]
    problem = DividedProblem(Halo(shard, world), N_CLUSTERS)
    made = coarse.coarsened(problem, np.zeros(shard.n_own, np.int64), seed=0)
    assert made.counts.sum() < 0.6 * graph.n_vertices
    labels, energy = None, 0.0
    if made.graph is not None:
        labels = np.arange(made.graph.n_vertices) % N_CLUSTERS
        energy = Problem(made.graph, N_CLUSTERS).partition(labels).energy
    projected = problem.partition(made.projected(problem, labels))
    expected = float(world.total(np.array([energy]))[0]) * shard.whole.weight_unit / shard.whole.mass_unit
    assert abs(projected.energy - expected) < 1e-9 * expected, (projected.energy, expected)
    inherited = made.inherited(problem, projected.labels)
    assert (inherited is None) == (world.rank > 0)
    assert inherited is None or np.array_equal(inherited, labels)
    coarse._RANGE = (400, 400)
    as_it_is = coarse.coarsened(problem, np.zeros(shard.n_own, np.int64), seed=0).graph
    if as_it_is is not None:
        assert np.array_equal(as_it_is.indptr, graph.indptr)
        assert np.array_equal(as_it_is.indices, graph.indices)
        assert np.array_equal(as_it_is.weights, graph.weights / shard.whole.weight_unit)
        assert np.array_equal(as_it_is.masses, graph.masses / shard.whole.mass_unit)
    world.leave()


if __name__ == "__main__":
    main()
