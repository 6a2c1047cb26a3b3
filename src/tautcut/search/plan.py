"""How to look for a partition: `Plan` is what the user asks for, validated once; `Effort` is how long the search goes
on; `Task` is a plan applied to one problem, and all that a searcher is given. Whether labels are fixed is asked here,
once: what follows from it is in the task. Nothing here searches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tautcut import memory
from tautcut.algorithm.observers import Observer
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import StopRule
from tautcut.arrays import FloatArray
from tautcut.checks import one_of, whole_number
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.kernels import devices
from tautcut.problem import Problem, expected_masses
from tautcut.search.ladder import Levels

ALGORITHMS = ("fast", "paper")
INITS = ("auto", "multilevel", "ncut-seeds", "ncut", "random")

SMALLEST_SHARE = 0.25  # of a cluster's expected size: the default of min_cluster_size,
_APART_SHARE = 0.05  # and where smaller clusters stand apart,
_APART_LEAST = 10  # though of so many points (decision 0072)
SMALL = 2000  # vertices up to which a graph is solved and not only searched (decision 0027),
SMALL_EDGES = 100_000  # or directed edges,
SMALL_VALUES = 500_000  # and vertices times clusters: annealing looks at each cluster for each vertex
# A glance: two to four multilevel starts, combined, and a short polish (decision 0034).
_QUICK_STARTS = (2, 4)
_QUICK_WORK = 2_000_000  # directed edges over the starts: large graphs get fewer
_QUICK_POLISH = StopRule(max_iter=50)
_LESS = 1 - 1e-9  # of a bound on masses, whose sums are rounded
_PATIENCE = 25  # inner iterations without progress after which the fast algorithm has settled
_FAST_INNER = 25  # inner iterations of an outer step in the fast algorithm (decision 0013)


@dataclass(frozen=True)
class Effort:
    """How long to search."""

    start_factor: int = 0  # n_init="auto" is so many times the searcher's own number of starts; 0 is a single one
    is_refined: bool = False  # whether what Algorithm 1 finds is refined by moves of single vertices
    children: int = 0  # that merge two clusters and split another, on each coarsest level (decision 0012)
    combinations: int = 0  # of two partitions, at most
    annealed_children: int = 0  # for each start, where the graph is not large, at most (decision 0029)
    generations: int = 0  # of children on a GPU (decision 0022)
    cycles: int = 0  # that follow the first, where a GPU coarsens the graph (decision 0057)
    small_children: int = 0  # on a small graph, at most (decision 0027)
    polishes: int = 0  # rounds of Algorithm 1 from the best partition, each with a refinement, while they help
    strong: tuple[float, ...] = ()  # imbalances of a strong partitioner's starts, on any graph (decision 0021)
    strong_if_noisy: tuple[float, ...] = ()  # and on noisy graphs


EFFORTS = {
    "none": Effort(),
    "short": Effort(
        start_factor=1, is_refined=True, children=40, combinations=24, annealed_children=4, generations=16, polishes=1,
        small_children=240, strong_if_noisy=(0.03,),
    ),
    "thorough": Effort(
        start_factor=2, is_refined=True, children=80, combinations=120, annealed_children=8, generations=64,
        cycles=4, polishes=5, small_children=960, strong=(0.03, 0.1, 0.3),
    ),
}  # fmt: skip
# What a fit takes at its peak, beside the duals p_ij of R columns: per directed edge, for the graph, its levels and the
# partitioner's copy; and planes of F, of Algorithm 1 and of the answer (decision 0042).
_BYTES_PER_EDGE = 96
_PLANES = 12

# Where labels are fixed, clusters have names: none is merged or split, and the labels' spreading is the start, unless
# `matching` knows a better one.
_WITH_LABELS = {
    name: Effort(is_refined=effort.is_refined, combinations=effort.combinations) for name, effort in EFFORTS.items()
}


@dataclass(frozen=True, eq=False)
class Plan:
    """How to look for a partition.

    `algorithm="paper"` with `search="none"` is Algorithm 1 as printed and nothing on top of it. The fast algorithm
    also stops when the partition has settled, and hands multilevel starts to the search before it solves, so that
    Algorithm 1 runs once, from the best of them. `init="auto"` is the start that suits the device (decision 0023).
    """

    init: str | ArrayLike = "auto"
    n_init: int | str = "auto"
    algorithm: str = "fast"
    search: str = "short"
    min_cluster_size: int | None = None
    stop: StopRule = field(default_factory=StopRule)
    device: str = "cpu"
    dtype: str = "float32"
    n_jobs: int | None = None
    n_points: int | None = None  # that the vertices stand for, where they are groups of points; else one each

    def __post_init__(self) -> None:
        if isinstance(self.init, str):
            one_of("init", self.init, INITS, otherwise=", or an array")
        if self.n_init != "auto":
            whole_number("n_init", self.n_init, otherwise=" or 'auto'")
        one_of("algorithm", self.algorithm, ALGORITHMS)
        one_of("search", self.search, tuple(EFFORTS))

    @property
    def bytes_of_value(self) -> int:
        """The size of a value of F."""
        return 8 if self.dtype == "float64" else 4

    def bytes_of_fit(self, n_vertices: int, n_entries: int, n_clusters: int) -> int:
        """The bytes that a fit takes at its peak on the processor, beside its graph (docs/memory.md)."""
        of_value = self.bytes_of_value
        of_dual = 2 if self.dtype == "mixed" else of_value
        on_edges = n_entries * (n_clusters * of_dual + _BYTES_PER_EDGE)
        return on_edges + n_vertices * n_clusters * _PLANES * of_value

    def foresee_memory(self, graph: Graph, n_clusters: int) -> None:
        """Refuse, with the sum, what the processor's memory cannot hold; a GPU looks at its own."""
        if devices.resolved(self.device) == "cuda":
            return
        memory.foresee(
            self.bytes_of_fit(graph.n_vertices, graph.indices.size, n_clusters), memory.for_work(),
            f"{n_clusters:,} clusters of {graph.n_vertices:,} vertices with {graph.n_edges:,} edges",
            "Ask for fewer clusters or neighbours, take a sample, or use a machine with more.",
        )  # fmt: skip

    @property
    def stop_rule(self) -> StopRule:
        if self.algorithm == "paper":
            return self.stop
        return replace(self.stop, patience=_PATIENCE, max_inner=min(self.stop.max_inner, _FAST_INNER))


def quick_plan(graph: Graph) -> Plan:
    """A short search without labels, of fewer starts on a large graph: enough to see what its clusters are like."""
    n_init = int(np.clip(_QUICK_WORK // max(graph.indices.size, 1), *_QUICK_STARTS))
    return Plan(init="multilevel", n_init=n_init, stop=_QUICK_POLISH)


@dataclass(frozen=True, eq=False)
class Task:
    """A plan applied to one problem: what every part of a search shares."""

    problem: Problem
    plan: Plan
    observers: tuple[Observer, ...] = ()
    deadline: float = np.inf
    keep: Callable[[Result], None] = lambda run: None  # shown a run before it is refined, in case that is cut short
    keeps_small: bool = False  # whether clusters of less than a quarter of their expected size may stay (`bounds`)
    levels: Levels = field(default=None)  # type: ignore[assignment]  # of the problem, shared by all that search it

    def __post_init__(self) -> None:
        if self.levels is None or self.levels.problem is not self.problem:
            object.__setattr__(self, "levels", Levels(self.problem))

    @cached_property
    def effort(self) -> Effort:
        """What the plan's search comes to on this problem."""
        effort = (_WITH_LABELS if self.problem.has_labels else EFFORTS)[self.plan.search]
        # on a GPU, merging and splitting needs a third cluster
        return effort if self.problem.n_clusters > 2 else replace(effort, generations=0)

    @property
    def is_searched(self) -> bool:
        """Whether the search chooses its own starts, without labels, before Algorithm 1 runs."""
        plan = self.plan
        is_own = isinstance(plan.init, str) and plan.init == "auto" and plan.algorithm == "fast"
        return is_own and self.effort.start_factor > 0 and self.problem.numerator == "tv"

    @property
    def is_small(self) -> bool:
        """Whether the graph is to be solved by the search of small graphs (decision 0027)."""
        problem = self.problem
        is_light = problem.n_vertices <= SMALL or problem.graph.indices.size <= SMALL_EDGES
        return self.is_searched and is_light and problem.n_vertices * problem.n_clusters <= SMALL_VALUES

    def init(self, own: str) -> str | ArrayLike:
        """The plan's `init`, "auto" being a searcher's own; where labels are fixed, every named start is theirs."""
        if not isinstance(self.plan.init, str):
            return self.plan.init
        if self.problem.has_labels:
            return "labels"
        return own if self.plan.init == "auto" else self.plan.init

    @property
    def point_mass(self) -> float:
        """The mean mass of a point: of a vertex, or of the points that vertices stand for."""
        return self.problem.total_mass / (self.plan.n_points or self.problem.n_vertices)

    @cached_property
    def smallest(self) -> FloatArray:
        """The least mass that each cluster may keep: what was asked for, or a quarter of the expected one.

        A twentieth, where clusters that small stand apart. Without a search nothing heeds it: Algorithm 1 as printed
        knows no such bound, and the driver warns.
        """
        graph, R, asked = self.problem.graph, self.problem.n_clusters, self.plan.min_cluster_size
        if asked is not None:
            lightest = float(graph.masses.min())  # no cluster is empty
            least = whole_number("min_cluster_size", asked)
            n_points = self.plan.n_points or graph.n_vertices
            if least * R > n_points:
                raise InputError(
                    f"min_cluster_size={asked} asks for more than the {n_points} vertices there are for {R} clusters. "
                    "Lower it."
                )
            smallest = np.full(R, least * self.point_mass if least > 1 else lightest)
        else:
            smallest = self._share_of_expected(SMALLEST_SHARE)
            if self.keeps_small:
                few = np.maximum(self._share_of_expected(_APART_SHARE), _APART_LEAST * self.point_mass)
                smallest = np.minimum(smallest, few)
        if not graph.is_even:
            smallest *= _LESS
        return smallest if self.effort.is_refined else np.zeros(R)

    def _share_of_expected(self, share: float) -> FloatArray:
        """So much of the mass that each cluster is expected to have; no cluster is empty."""
        graph, shares = self.problem.graph, self.problem.shares
        lightest = float(graph.masses.min())
        if graph.is_even:
            return lightest * np.maximum(np.floor(share * graph.n_vertices * shares), 1.0)
        return np.maximum(share * expected_masses(graph.masses, shares), lightest)

    def n_starts(self, own_number: Callable[[], int]) -> int:
        """n_init; "auto" is a single start, or as many times the searcher's own number as the effort says."""
        if self.plan.n_init != "auto":
            return int(self.plan.n_init)
        return self.effort.start_factor * own_number() or 1
