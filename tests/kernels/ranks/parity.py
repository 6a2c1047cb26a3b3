"""What the ranks of a run compute beside the reference, as a program that torchrun starts: one rank writes its figures,
a line of JSON for each case, and every rank the duals of its edges to others.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tautcut.algorithm.solver import steps
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.graph.shard import Shard, shards_of
from tautcut.kernels.cpu import layout
from tautcut.kernels.ranks.engine import RankKernels
from tautcut.kernels.ranks.halo import Halo
from tautcut.kernels.ranks.piece import CpuPiece
from tautcut.kernels.ranks.world import World
from tautcut.kernels.reference import ReferenceKernels, project
from tautcut.problem import Problem
from tautcut.ranks.problem import DividedProblem

STOP = StopRule(max_iter=50, tol=0)


@dataclass(frozen=True)
class Case:
    """A random graph, and what is peculiar about it."""

    n_clusters: int
    is_weighted: bool = False
    has_masses: bool = False
    has_labels: bool = False
    is_tied: bool = False  # the start takes two values alone
    has_isolated: bool = False
    leaves_one_empty: bool = False  # the last rank owns nothing
    is_apart: bool = False  # no edges between parts
    is_renamed: bool = False  # every rank has what another had
    is_grouped: bool = False  # vertices lie by cluster

    def problem(self, rng: np.random.Generator, n: int = 240) -> Problem:
        upper = sp.triu(sp.random(n, n, 0.04, random_state=rng), 1)
        if not self.is_weighted:
            upper.data[:] = 1.0
        W = sp.csr_matrix(upper + upper.T)
        if self.has_isolated:
            keep = sp.diags_array((np.arange(n) % 17 != 5).astype(float))
            W = sp.csr_matrix(keep @ W @ keep)
        if self.is_apart:
            coo = W.tocoo()
            inside = coo.row // (n // 4) == coo.col // (n // 4)
            W = sp.csr_matrix((coo.data[inside], (coo.row[inside], coo.col[inside])), shape=W.shape)
        graph = Graph.from_any(W)
        if self.has_masses:
            graph = graph.with_masses(rng.uniform(0.5, 3.0, n))
        labels = np.full(n, -1)
        if self.has_labels:
            labels[rng.choice(n, 2 * self.n_clusters, replace=False)] = np.arange(2 * self.n_clusters) % self.n_clusters
        return Problem(graph, self.n_clusters, None, labels)

    def start(self, problem: Problem, rng: np.random.Generator) -> np.ndarray:
        n, R = problem.n_vertices, problem.n_clusters
        F = 0.5 * np.eye(R)[rng.integers(0, R, n)] + 0.5 / R if self.is_tied else rng.random((n, R))
        return project(F, problem.labels)

    def parts(self, n: int, n_ranks: int, rng: np.random.Generator) -> np.ndarray:
        if self.is_apart:
            return np.minimum(np.arange(n) // (n // 4), n_ranks - 1)
        parts = rng.integers(0, n_ranks, n)
        if self.leaves_one_empty and n_ranks > 1:
            parts[parts == n_ranks - 1] = 0
        return n_ranks - 1 - parts if self.is_renamed else parts


CASES = {
    "weights and masses": Case(4, is_weighted=True, has_masses=True),
    "the same, ranks renamed": Case(4, is_weighted=True, has_masses=True, is_renamed=True),
    "the same, by cluster": Case(4, is_weighted=True, has_masses=True, is_grouped=True),
    "plain": Case(4),
    "two clusters, tied": Case(2, is_tied=True),
    "given labels": Case(4, has_labels=True),
    "isolated vertices": Case(4, has_isolated=True),
    "a rank without vertices": Case(4, leaves_one_empty=True),
    "parts without ghosts": Case(2, is_apart=True),
    "a hundred clusters": Case(100, is_tied=True),
}


def main(out: Path) -> None:
    world = World.join(timeout=120)
    layout._CACHE_BYTES = layout._NEAR = 0  # every part is large, and its neighbours are far
    lines = []
    for name, case in CASES.items():
        rng = np.random.default_rng(3)
        problem = case.problem(rng)
        start = case.start(problem, rng)
        parts = case.parts(problem.n_vertices, world.size, rng)
        shard = list(shards_of(problem.graph, parts, world.size))[world.rank]
        halo = Halo(shard, world)
        divided = DividedProblem(halo, case.n_clusters, None, problem.labels[shard.vertices])
        laid, is_fixed, order = shard, divided.is_labelled, None
        if case.is_grouped:
            order = layout.grouped_order(shard, start[shard.vertices].argmax(axis=1), 1)
            assert order is not None
            laid, is_fixed = layout.permuted_part(shard, order), is_fixed[order]
        piece = CpuPiece(laid, divided.lam, is_fixed, dtype=np.dtype("float64"))
        kernels = RankKernels(piece, halo, divided.lam, divided.median_mass, order=order)
        *_, state = steps(divided, start[shard.vertices], kernels, STOP)
        oracle = ReferenceKernels(problem)
        *_, expected = steps(problem, start, oracle, STOP)
        arrays, own = state.arrays, shard.vertices
        F, labels = kernels.memberships(arrays), kernels.harden(arrays)[0]
        apart = np.abs(F - oracle.memberships(expected.arrays)[own]).max(initial=0.0)
        bar = arrays.F_bar
        bar_apart = np.abs(Halo(laid, world).of(bar[: laid.n_own]) - bar[laid.n_own :]).max(initial=0.0)
        others = int((labels != oracle.harden(expected.arrays)[0][own]).sum())
        told = world.gather(np.array([apart, bar_apart, others, state.iterations, state.tau, state.energy]))
        lines.append({
            "case": name, "F": told[:, 0].max(), "F_bar": told[:, 1].max(), "labels": told[:, 2].sum(),
            "decisions": [sorted(set(column)) for column in told[:, 3:].T.tolist()],
            "iterations": expected.iterations,
            "lipschitz": abs(kernels.lipschitz / oracle.lipschitz - 1),
        })  # fmt: skip
        is_free = ~Halo(laid, world).extended(is_fixed)  # no engine needs the duals of a row that stays as it is
        save_duals(out / f"{len(lines) - 1}-{world.rank}.npz", laid, arrays.P[:, : case.n_clusters], is_free)
    if world.rank == 0:
        (out / "figures.json").write_text(json.dumps(lines, default=str))
    world.leave()


def save_duals(path: Path, shard: Shard, P: np.ndarray, is_free: np.ndarray) -> None:
    """The duals of edges to other parts, of whose ends none is fixed, with the numbers of both."""
    rows = np.repeat(np.arange(shard.n_own), np.diff(shard.indptr))
    crosses = (shard.indices >= shard.n_own) & is_free[rows] & is_free[shard.indices]
    np.savez(
        path, here=shard.vertices[rows[crosses]], there=shard.ghosts[shard.indices[crosses] - shard.n_own], P=P[crosses]
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
