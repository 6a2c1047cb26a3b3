"""A stand-in for a GPU, in NumPy, so that `device="cuda"` can be tested on any machine: the engine with everything that
the package asks of `tautcut.kernels.gpu`, on the reference engine and the processor's moves. Rows lie in an order of
their own, as on a GPU, so that a test notices where one is taken for the other. It is slow: use small graphs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from tautcut.algorithm.reference_batch import ReferenceBatch
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.laplacian import diffuse, normalised_cut
from tautcut.kernels import devices
from tautcut.kernels.batch import Limits
from tautcut.kernels.cpu.coarsening import Level, finest_level, weights_between
from tautcut.kernels.cpu.moves import descend
from tautcut.kernels.reference import ReferenceKernels, project
from tautcut.problem import Problem, cuts


class Rows(np.ndarray):
    """What a tensor is on a GPU: labels (partition, row) or starts (start, row, cluster), in the engine's order."""


class StandInBatch(ReferenceBatch):
    """The oracle's batch, its labels in the engine's order."""

    def __init__(self, engine: StandInGpu, starts: Rows, limits: Limits) -> None:
        in_graph_order = np.stack([engine.in_graph_order(F) for F in starts])
        super().__init__(engine.problem, in_graph_order, engine.reference, limits)
        self._engine = engine

    def __len__(self) -> int:
        return len(self.states)

    @property
    def best_labels(self) -> Any:
        return np.asarray(super().best_labels)[:, self._engine.order].view(Rows)


@dataclass(eq=False)
class StandInGpu:
    """The engine. `room` is the number of starts that fit; `batches` has the size and the limits of each batch."""

    problem: Problem
    room: int = 1000
    batches: list[tuple[int, Limits]] = field(default_factory=list)
    name = "cuda"

    def __post_init__(self) -> None:
        self.order = np.random.default_rng(1).permutation(self.problem.n_vertices)
        self.reference = ReferenceKernels(self.problem)
        self.unit, self.weight_unit = self.reference.unit, self.reference.weight_unit
        self.mass_unit = self.weight_unit / self.unit

    def starts_that_fit(self, wanted: int = 1) -> int:
        return min(self.room, wanted)

    def starts_of_gpu(self, wanted: int) -> int:
        return min(self.room, wanted)

    def in_rows(self, values: Any) -> Rows:
        if isinstance(values, Rows):
            return values
        return np.asarray(values, dtype=np.float64)[..., self.order, :].view(Rows)

    def in_graph_order(self, rows: Any) -> Any:
        assert isinstance(rows, Rows), "an array of the host's is in the order of the graph already"
        ordered = np.empty_like(np.asarray(rows))
        ordered[self.order] = np.asarray(rows)
        return ordered

    def joined(self, parts: Sequence[Any]) -> Rows:
        return np.concatenate([np.asarray(part) for part in parts]).view(Rows)

    def feasible(self, starts: Any) -> Rows:
        labels = self.problem.labels[self.order]
        return np.stack([project(np.asarray(F), labels) for F in self.in_rows(starts)]).view(Rows)

    def batch(self, starts: Rows, limits: Limits) -> StandInBatch:
        self.batches.append((len(starts), limits))
        return StandInBatch(self, starts, limits)

    def moves(self, smallest: np.ndarray) -> StandInMoves:
        return StandInMoves(self, np.asarray(smallest, dtype=np.float64))

    def spectral(self) -> StandInSpectral:
        return StandInSpectral(self)

    def coarsened(self, n_vertices: int, *, heaviest: float, seed: int, respected: Rows | None = None) -> StandInCoarse:
        """Pairs along random edges, again and again."""
        graph, rng = self.problem.graph, np.random.default_rng(seed)
        parents = np.arange(graph.n_vertices)
        groups = np.zeros(graph.n_vertices, dtype=np.int64)
        for one in [] if respected is None else respected:
            groups = np.unique(groups * self.problem.n_clusters + self.in_graph_order(one), return_inverse=True)[1]
        while graph.n_vertices > n_vertices:
            pairs, taken = np.arange(graph.n_vertices), np.zeros(graph.n_vertices, dtype=bool)
            W = graph.to_scipy().tocoo()
            for i, j in rng.permutation(np.column_stack([W.row, W.col])):
                if not taken[[i, j]].any() and groups[i] == groups[j] and graph.masses[[i, j]].sum() <= heaviest:
                    taken[[i, j]], pairs[j] = True, i
            if not taken.any():
                break
            first, parent = np.unique(pairs, return_inverse=True)
            graph, parents, groups = graph.contracted(parent), parent[parents], groups[first]
        return StandInCoarse(graph, parents[self.order])


@dataclass(frozen=True, eq=False)
class StandInCoarse:
    """What `Coarse` is on a GPU."""

    graph: Graph
    parents: np.ndarray

    def projected(self, labels: np.ndarray) -> Rows:
        return np.asarray(labels)[:, self.parents].view(Rows)

    def restricted(self, labels: Rows) -> np.ndarray:
        coarse = np.empty((len(labels), self.graph.n_vertices), dtype=np.int64)
        coarse[:, self.parents] = np.asarray(labels)
        return coarse


@dataclass(frozen=True, eq=False)
class StandInMoves:
    """What `GpuMoves` offers, one partition at a time; `smallest` is in the problem's unit of mass."""

    kernels: StandInGpu
    smallest: np.ndarray

    @property
    def _problem(self) -> Problem:
        return self.kernels.problem

    @cached_property
    def _level(self) -> Level:
        return finest_level(self._problem.graph, self._problem.is_labelled)

    def _host(self, labels: Rows) -> np.ndarray:
        return np.stack([self.kernels.in_graph_order(one) for one in labels])

    def _rows(self, labels: np.ndarray) -> Rows:
        return np.asarray(labels, dtype=np.int64)[:, self.kernels.order].view(Rows)

    def labels_of(self, labels: np.ndarray) -> Rows:
        return self._rows(np.asarray(labels)[None])

    def soften(self, labels: Rows, softness: float) -> Rows:
        R = self._problem.n_clusters
        return ((1 - softness) * np.eye(R)[np.asarray(labels)] + softness / R).view(Rows)

    def mix(self, first: Rows, second: Rows, softness: float) -> Rows:
        R = self._problem.n_clusters
        masses = self._problem.graph.masses[self.kernels.order, None]
        shared = np.eye(R)[np.asarray(first)].T @ (masses * np.eye(R)[np.asarray(second)])
        rows, columns = linear_sum_assignment(-shared)
        names = rows[np.argsort(columns)]
        both = np.stack([np.asarray(first), names[np.asarray(second)]])
        return np.asarray(self.soften(both.view(Rows), softness)).mean(axis=0).view(Rows)

    def energies(self, labels: Rows) -> np.ndarray:
        found = [self._problem.partition(one) for one in self._host(labels)]
        return np.array([p.energy / self.kernels.unit + 1e12 * bool((p.masses < self.smallest).any()) for p in found])

    def clusters(self, labels: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        problem, unit, one = self._problem, self.kernels.weight_unit, self.kernels.in_graph_order(labels)
        masses = problem.partition(one).masses / self.kernels.mass_unit
        between = weights_between(self._level, one, problem.n_clusters)
        return cuts(problem.graph, one, problem.n_clusters) / unit, masses, between / unit

    def descend(self, labels: Rows) -> Rows:
        if not len(labels):
            return labels
        problem = self._problem
        return self._rows(
            np.stack([descend(self._level, one, problem.lam, self.smallest)[0] for one in self._host(labels)])
        )

    def merge_and_split(
        self, labels: Rows, plans: list[tuple[int, int, int]], shares: np.ndarray, seed: int
    ) -> Rows:  # fmt: skip
        W, rng = self._problem.graph.to_scipy(), np.random.default_rng(seed)
        made = self._host(labels)
        for one, (a, b, c), share in zip(made, plans, shares, strict=True):
            one[one == b] = a
            members = np.flatnonzero(one == c)
            inside = W[members][:, members]
            degrees = np.maximum(np.asarray(inside.sum(axis=1)).ravel(), 1e-30)
            x = rng.standard_normal(members.size)
            for _ in range(60):
                x = 0.5 * (x + inside @ x / degrees)
                x = x - (degrees * x).sum() / degrees.sum() if members.size else x
            order = members[np.argsort(-x, kind="stable")]
            up_to = np.cumsum(self._problem.graph.masses[order])
            wanted = min(max(1, int((up_to <= share * up_to[-1:]).sum())), members.size - 1)
            one[order[: max(wanted, 0)]] = b
        return self._rows(made)


@dataclass(frozen=True, eq=False)
class StandInSpectral:
    """What `GpuSpectral` offers."""

    kernels: StandInGpu

    def diffuse(self, B: np.ndarray) -> np.ndarray:
        return diffuse(self.kernels.problem.graph, B)

    def diffuse_seeds(self, vertices: np.ndarray) -> Rows:
        seeds = np.zeros((len(vertices), self.kernels.problem.n_vertices, vertices.shape[1]))
        seeds[np.arange(len(vertices))[:, None], vertices, np.arange(vertices.shape[1])] = 1.0
        return self.kernels.in_rows(np.stack([self.diffuse(B) for B in seeds]))

    def normalised_cut(self, n_clusters: int, *, rng: np.random.Generator) -> np.ndarray:
        return normalised_cut(self.kernels.problem.graph, n_clusters, rng=rng)


def nearest(points: np.ndarray, k: int, *, is_exact: bool = False) -> tuple[np.ndarray, np.ndarray, float, int]:
    """The k nearest other points of each, nearest first, and their squared distances; found exactly."""
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(squared, indices, axis=1), 1.0, 0


def use_stand_in(monkeypatch: pytest.MonkeyPatch, *, room: int = 1000) -> list[StandInGpu]:
    """Let `device="cuda"` be the stand-in, until the test ends; the engines that were asked for, in their order."""
    made: list[StandInGpu] = []

    def gpu_engine(problem: Problem, dtype: str = "float32") -> StandInGpu:
        if dtype == "float64":
            raise InputError(f"device='cuda' computes in float32; found dtype={dtype!r}.")
        made.append(StandInGpu(problem, room))
        return made[-1]

    monkeypatch.setattr(devices, "_require_gpu", lambda: None)
    monkeypatch.setattr(devices, "gpu_engine", gpu_engine)
    monkeypatch.setitem(sys.modules, "tautcut.kernels.gpu.nearest", SimpleNamespace(nearest_on_gpu=nearest))
    return made
