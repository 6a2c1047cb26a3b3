"""A run over many ranks, as each of them runs it: a start by way of a coarse graph on rank 0, Algorithm 1 over all
ranks, moves of single vertices, and the labels of each part on disk; a checkpoint after each stage, and now and then in
between. A rank holds its own part, and rank 0 the coarse graph, which is all of a small one. All ranks take the same
steps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tautcut import memory
from tautcut.algorithm.solver import State, init, step
from tautcut.algorithm.stopping import Status
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.checks import UNLABELLED
from tautcut.errors import InputError
from tautcut.graph.confidence import margins_of_rows
from tautcut.kernels import devices
from tautcut.kernels.cpu.layout import grouped_order, permuted_part
from tautcut.kernels.cpu.passes import row_width
from tautcut.kernels.ranks.engine import RankKernels
from tautcut.kernels.ranks.halo import Halo
from tautcut.kernels.ranks.piece import piece_for
from tautcut.kernels.ranks.world import World
from tautcut.problem import Partition, Problem, lam_of_prior, shares_of_lam
from tautcut.ranks.checkpoints import DONE, Checkpoint, Checkpoints
from tautcut.ranks.coarse import Coarsened, coarsened, most_vertices
from tautcut.ranks.files import ShardedGraph
from tautcut.ranks.moves import Moves
from tautcut.ranks.problem import DividedProblem
from tautcut.ranks.results import LABELS
from tautcut.search.cycles import VCycles
from tautcut.search.driver import best_of_starts
from tautcut.search.ladder import Levels
from tautcut.search.plan import SMALLEST_SHARE, Plan, Task
from tautcut.search.starts import soften
from tautcut.search.transduction import transduce
from tautcut.writing import naming, replacing

STARTED, SOLVING, SOLVED = "started", "solving", "solved"

# What a rank takes beside the duals: for each directed edge the graph, its counted half and the first coarsenings, and
# planes of F: four of the engine, the start, the copy that is the best so far, and the checkpoint.
_BYTES_PER_EDGE = 72
_PLANES = 7
_DENSER = 2  # times as many neighbours as others has a coarse vertex

_WHOLE = re.compile(r"-?\d{1,18}")

Say = Callable[[str], None]


class Known(NamedTuple):
    """Labels that are given: ids as texts, and the number of the class of each."""

    ids: list[str]
    codes: IntArray


@dataclass(frozen=True)
class Asked:
    """What a run over many ranks is asked for."""

    n_clusters: int
    plan: Plan
    seed: int = 0
    class_prior: Any = None  # shares, None for equal ones, "auto" for those that labels suggest
    classes: tuple[Any, ...] | None = None  # the names of the clusters, where labels are given
    checkpoint_every: float = 60.0  # seconds

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it this run and no other, as JSON knows it."""
        prior = self.class_prior if isinstance(self.class_prior, str | None) else [float(x) for x in self.class_prior]
        classes = None if self.classes is None else list(self.classes)
        return {
            "n_clusters": self.n_clusters, "seed": self.seed, "class_prior": prior, "classes": classes,
            "search": self.plan.search, "device": self.plan.device, "dtype": self.plan.dtype,
        }  # fmt: skip


def bytes_of_rank(graph: ShardedGraph, rank: int, n_clusters: int, dtype: str) -> int:
    """The bytes that a rank takes at its peak: rank 0 as it searches the coarse graph, or iterates, as any other."""
    facts, whole = graph.parts[rank], graph.whole
    of_value = 8 if dtype == "float64" else 4
    of_dual = 2 if dtype == "mixed" else of_value
    width = row_width(n_clusters, f"float{8 * of_value}")
    rows = facts.n_own + facts.n_ghosts
    own = facts.n_entries * (width * of_dual + _BYTES_PER_EDGE) + rows * width * _PLANES * of_value
    if rank > 0:
        return own
    n_coarse = int(min(most_vertices(whole.n_vertices, n_clusters), whole.n_vertices))
    n_entries = int(min(_DENSER * n_coarse / max(whole.n_vertices, 1), 1.0) * 2 * whole.n_edges)
    return max(own, facts.n_entries * _BYTES_PER_EDGE + Plan().bytes_of_fit(n_coarse, n_entries, n_clusters))


def foresee_memory(graph: ShardedGraph, rank: int, asked: Asked, *, n_here: int) -> None:
    """Refuse, with the sum, a rank that this machine cannot hold beside the others of the `n_here` that it has.

    A GPU looks at its own memory when it has the part.
    """
    if devices.resolved(asked.plan.device) == "cuda":
        return
    facts, n_clusters = graph.parts[rank], asked.n_clusters
    memory.foresee(
        bytes_of_rank(graph, rank, n_clusters, asked.plan.dtype), memory.for_work() // n_here,
        f"Rank {rank} of {graph.n_parts}, with {facts.n_own:,} vertices and {facts.n_entries:,} directed edges in "
        f"{n_clusters:,} clusters,",
        "Divide the graph into more parts and take more machines, or ask for fewer clusters.",
    )  # fmt: skip


class RankRun:
    """One rank of a run."""

    def __init__(
        self, graph: ShardedGraph, world: World, asked: Asked, out: Path, labels: IntArray | None, *, say: Say,
        detail: Say,
    ) -> None:  # fmt: skip
        self._graph, self._world, self._asked, self._out = graph, world, asked, out
        self._say, self._detail = say, detail
        self._labels = labels
        identity = asked.identity | {"shards": graph.digest, "ranks": world.size}
        self._checkpoints = Checkpoints(out, world, identity)
        self._spent: dict[str, float] = {}
        self._began = 0.0

    def go(self, *, resume: bool) -> dict[str, Any]:
        """Run, from the last checkpoint if there is one, to the labels on disk; the facts about them."""
        found = self._checkpoints.begin(resume=resume)
        if found is not None:
            self._say(f"Going on from a checkpoint: {found.stage}.")
            if found.stage == DONE:
                return dict(found.facts)
        self._world.together(self._foresee_memory)
        problem, smallest, found = self._started(found)
        partition, facts = self._solved(problem, found)
        self._mark("solve")
        partition = self._refined(problem, partition, smallest)
        self._mark("refine")
        facts |= {
            "energy": partition.energy, "sizes": partition.sizes.tolist(), "masses": partition.masses.tolist(),
            "seconds": self._spent, "n_vertices": self._graph.whole.n_vertices,
            "classes": None if self._asked.classes is None else list(self._asked.classes),
        }  # fmt: skip
        confidence = self._confidence(partition.labels)
        self._world.together(lambda: self._write(partition.labels, confidence))
        self._mark("write")
        facts["peak_bytes"] = self._world.gather(np.array([float(memory.peak())])).ravel().tolist()  # of each rank
        self._checkpoints.finish(facts, goes_on=facts["status"] == Status.INTERRUPTED.name)
        return facts

    def _foresee_memory(self) -> None:
        n_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        foresee_memory(self._graph, self._world.rank, self._asked, n_here=n_here)

    @cached_property
    def _halo(self) -> Halo:
        shard = self._world.together(lambda: self._graph.part(self._world.rank))
        return Halo(shard, self._world)

    def _mark(self, stage: str) -> None:
        """Book the time since the last mark, by rank 0's clock."""
        self._world.barrier()
        self._spent[stage] = self._world.now - self._began
        self._began = self._world.now

    # ------------------------------------------------------------ the start

    def _started(self, found: Checkpoint | None) -> tuple[DividedProblem, FloatArray, Checkpoint]:
        """The problem, its smallest masses, and a checkpoint with a start in it at least."""
        self._world.barrier()
        self._began = self._world.now
        if found is None:
            found = self._start()
            self._checkpoints.save(found)
        problem = DividedProblem(self._halo, self._asked.n_clusters, found.facts["lam"], self._labels)
        self._mark("start")
        return problem, self._smallest(problem), found

    def _start(self) -> Checkpoint:
        """A partition by way of the coarse graph."""
        asked, world = self._asked, self._world
        equal = None if isinstance(asked.class_prior, str) else asked.class_prior
        problem = DividedProblem(self._halo, asked.n_clusters, lam_of_prior(equal, asked.n_clusters), self._labels)
        coarse = coarsened(problem, problem.labels - UNLABELLED, seed=asked.seed)
        known = coarse.inherited(problem, problem.labels)
        if coarse.graph is not None:
            self._say(f"A coarse graph of {coarse.graph.n_vertices:,} vertices is searched on rank 0 ...")
        made: list[tuple[IntArray, FloatArray]] = []
        world.on_rank_0(lambda: made.append(self._searched(problem, coarse, known)))
        labels = coarse.projected(problem, made[0][0] if made else None)
        lam = world.total(made[0][1] if made else np.zeros(asked.n_clusters))
        return Checkpoint(STARTED, {"lam": lam.tolist()}, {"labels": labels.astype(np.int32)})

    def _searched(
        self, problem: DividedProblem, coarse: Coarsened, known: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """On rank 0: labels of the coarse graph, and λ."""
        assert coarse.graph is not None  # on rank 0
        assert known is not None
        asked, rng = self._asked, np.random.default_rng(self._asked.seed)
        plan = replace(asked.plan, device="cpu", dtype="float32", n_points=self._graph.whole.n_vertices)
        if (known != UNLABELLED).any():
            result = transduce(
                coarse.graph, known, asked.n_clusters, class_prior=asked.class_prior, plan=plan, rng=rng
            )  # fmt: skip
        else:
            result = best_of_starts(Problem(coarse.graph, asked.n_clusters, problem.lam), plan, rng=rng)
        return result.partition.labels, result.problem.lam

    def _smallest(self, problem: DividedProblem) -> FloatArray:
        """The least mass that each cluster may keep, as `Task.smallest` has it."""
        whole, shares = self._graph.whole, shares_of_lam(problem.lam)
        if whole.is_even:
            return whole.mass_unit * np.maximum(np.floor(SMALLEST_SHARE * whole.n_vertices * shares), 1.0)
        return SMALLEST_SHARE * whole.total_mass * shares

    # ------------------------------------------------------------ Algorithm 1

    def _solved(self, problem: DividedProblem, found: Checkpoint) -> tuple[Partition, dict[str, Any]]:
        """The best partition of Algorithm 1, and the facts about its run."""
        if found.stage == SOLVED:
            return problem.partition(found.arrays["labels"].astype(np.int64)), dict(found.facts["run"])
        is_free = not problem.is_labelled.all()
        is_trivial = problem.n_clusters == 1 or not self._graph.whole.n_edges
        if is_trivial or not self._world.gather(np.array([float(is_free)])).any():
            partition = problem.partition(found.arrays["labels"].astype(np.int64))
            facts: dict[str, Any] = {"status": Status.TRIVIAL.name, "n_iter": 0}
        else:
            partition, facts = self._iterated(problem, found)
        if facts["status"] == Status.INTERRUPTED.name:
            return partition, facts
        after = Checkpoint(
            SOLVED, {"lam": problem.lam.tolist(), "run": facts}, {"labels": partition.labels.astype(np.int32)}
        )  # fmt: skip
        self._checkpoints.save(after)
        return partition, facts

    def _iterated(self, problem: DividedProblem, found: Checkpoint) -> tuple[Partition, dict[str, Any]]:
        plan, world = self._asked.plan, self._world
        kernels = self._kernels(problem, found.arrays["labels"])
        state = self._first_state(problem, kernels, found)
        world.timings = type(world.timings)()
        began, saved_at, first = world.now, world.now, state.iterations
        while state.status is None:
            state = step(problem, state, kernels, plan.stop_rule)
            self._detail(
                f"Algorithm 1: {state.iterations} iterations, (P) {state.best.energy:.6g}; "
                f"{world.timings.wire_share:.1%} of the time on the wire, {world.timings.waiting_share:.1%} waiting."
            )
            if world.is_stopping:
                state = replace(state, status=Status.INTERRUPTED)
            elif plan.stop.time_limit is not None and world.now - began > plan.stop.time_limit:
                state = replace(state, status=Status.TIME_SPENT)
            is_due = state.status is None and world.now - saved_at >= self._asked.checkpoint_every
            if is_due or state.status is Status.INTERRUPTED:
                self._checkpoints.save(_checkpoint(problem, state, kernels))
                saved_at = world.now
        shares = world.gather(np.array([world.timings.wire_share, world.timings.waiting_share, world.timings.n_bytes]))
        n_iter = max(state.iterations - first, 1)
        return state.best, {
            "status": state.status.name, "n_iter": state.iterations,
            "relaxed_energy": state.measures.relaxed_energy * kernels.unit,
            "wire_share": float(shares[:, 0].max()), "waiting_share": float(shares[:, 1].max()),
            "bytes_per_iteration": float(shares[:, 2].max()) / n_iter,
            "seconds_per_iteration": (world.now - began) / n_iter,
            "gathers_per_iteration": world.timings.n_gathers / n_iter,
        }  # fmt: skip

    def _kernels(self, problem: DividedProblem, labels: Array) -> RankKernels:
        """The engine of this rank, which has the vertices of a cluster side by side (decision 0064)."""
        plan, shard, is_fixed = self._asked.plan, problem.shard, problem.is_labelled
        order = grouped_order(shard, labels, problem.n_clusters * np.dtype(np.float32).itemsize)
        if order is not None:
            shard, is_fixed = permuted_part(shard, order), is_fixed[order]
        piece = self._world.together(
            lambda: piece_for(shard, problem.lam, is_fixed, device=plan.device, dtype=plan.dtype, world=self._world)
        )
        return RankKernels(piece, self._halo, problem.lam, problem.median_mass, order=order)

    def _first_state(self, problem: DividedProblem, kernels: RankKernels, found: Checkpoint) -> State:
        """Algorithm 1 from the start, or from where it stood."""
        if found.stage == STARTED:
            labels = found.arrays["labels"].astype(np.int64)
            F = soften(labels, problem.n_clusters)
            F[problem.is_labelled] = np.eye(problem.n_clusters)[problem.labels[problem.is_labelled]]
            return init(problem, F, kernels)
        state = init(problem, found.arrays["F"], kernels)
        best = problem.partition(found.arrays["labels"].astype(np.int64))
        facts = found.facts["state"]
        return replace(
            state, tau=facts["tau"], iterations=facts["iterations"], outer=facts["outer"],
            mark=np.inf if facts["mark"] is None else facts["mark"], progress_at=facts["progress_at"],
            best=best if best.energy < state.best.energy else state.best,
        )  # fmt: skip

    # ------------------------------------------------------------ the end

    def _refined(self, problem: DividedProblem, partition: Partition, smallest: FloatArray) -> Partition:
        """The partition after moves of single vertices, and of groups by way of a coarse graph that respects it."""
        moves = Moves(problem, smallest)
        partition = moves.descend(partition)
        if self._asked.plan.search == "none" or problem.n_clusters == 1:
            return partition
        groups = partition.labels + problem.n_clusters * problem.is_labelled
        coarse = coarsened(problem, groups, seed=self._asked.seed + 1)
        labels, known = (coarse.inherited(problem, one) for one in (partition.labels, problem.labels))
        found: list[IntArray] = []
        self._world.on_rank_0(lambda: found.append(self._cycled(problem, coarse, labels, known, smallest)))
        challenger = problem.partition(coarse.projected(problem, found[0] if found else None))
        is_better = challenger.energy < partition.energy and (challenger.masses >= smallest).all()
        return moves.descend(challenger) if is_better else partition

    def _cycled(
        self, problem: DividedProblem, coarse: Coarsened, labels: IntArray | None, known: IntArray | None,
        smallest: FloatArray,
    ) -> IntArray:  # fmt: skip
        """On rank 0: these labels of the coarse graph after a V-cycle."""
        assert coarse.graph is not None  # on rank 0
        assert labels is not None
        whole = Problem(coarse.graph, problem.n_clusters, problem.lam, known)
        effort = Task(whole, self._asked.plan).effort
        cycles = VCycles(Levels(whole), smallest / self._graph.whole.mass_unit, effort.children)
        rng = np.random.default_rng([self._asked.seed, 1])
        return cycles.refine(whole.partition(labels), rng=rng).labels

    def _confidence(self, labels: IntArray) -> FloatArray:
        """How firmly the neighbours of each vertex agree on its label."""
        shard = self._halo.shard
        W = sp.csr_matrix((shard.weights, shard.indices, shard.indptr), shape=(shard.n_own, shard.n_local))
        degrees = np.asarray(W.sum(axis=1)).ravel()
        return margins_of_rows(W, degrees, self._halo.extended(labels), self._asked.n_clusters)

    def _write(self, labels: IntArray, confidence: FloatArray) -> None:
        """The labels of the part, beside the ids of its vertices."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        ids = self._graph.ids(self._world.rank)
        named: Array = labels
        if self._asked.classes is not None:
            named = np.asarray(self._asked.classes)[labels]
        columns = {
            "vertex": self._halo.shard.vertices, **({} if ids is None else {"id": ids}), "label": named,
            "confidence": confidence.astype(np.float32),
        }  # fmt: skip
        path = self._out / LABELS.format(self._world.rank)
        with replacing(path) as part, naming(path):
            pq.write_table(pa.table({name: pa.array(np.asarray(one)) for name, one in columns.items()}), part)


def _checkpoint(problem: DividedProblem, state: State, kernels: RankKernels) -> Checkpoint:
    """Where Algorithm 1 stands: F and τ, which are as good as all of the duals (decision 0062)."""
    facts = {
        "tau": state.tau, "iterations": state.iterations, "outer": state.outer,
        "mark": state.mark if np.isfinite(state.mark) else None,
        "progress_at": state.progress_at,
    }  # fmt: skip
    arrays = {"F": kernels.memberships(state.arrays), "labels": state.best.labels.astype(np.int32)}
    return Checkpoint(SOLVING, {"lam": problem.lam.tolist(), "state": facts}, arrays)


def run_on_rank(
    graph: ShardedGraph, asked: Asked, out: Path, *, resume: bool, timeout: float, say: Say | None = None,
    detail: Say | None = None, known: Known | None = None,
    joined: Callable[[World], None] = lambda world: None,
) -> dict[str, Any]:  # fmt: skip
    """Run as one of the ranks that torchrun's environment describes; the facts about the labels, the same on each.

    `joined` is told of the world as soon as there is one. Rank 0 says each stage, and every outer step in `detail`.
    """
    world = World.join(timeout=timeout, device=asked.plan.device)
    try:
        joined(world)
        if world.size != graph.n_parts:
            raise InputError(
                f"'{graph.path}' has {graph.n_parts} parts, and there are {world.size} ranks. Start {graph.n_parts}, "
                f"or shard the graph again with --parts {world.size}."
            )
        labels = None if known is None else _labels_of_part(graph, known, world)
        told, more = (one if one is not None and world.rank == 0 else _silent for one in (say, detail))
        return RankRun(graph, world, asked, out, labels, say=told, detail=more).go(resume=resume)
    finally:
        world.leave()


def _labels_of_part(graph: ShardedGraph, known: Known, world: World) -> IntArray:
    """The known labels of this rank's own vertices, −1 where there is none; every id has to be some rank's."""
    own = world.together(lambda: graph.ids(world.rank))
    names: Array = graph.part(world.rank).vertices if own is None else own
    place_of = {one: place for place, one in enumerate(known.ids)}
    if names.dtype.kind in "iu":
        numbers = [int(one) for one in known.ids if _WHOLE.fullmatch(one)]
        here = np.flatnonzero(np.isin(names, np.array(numbers, dtype=np.int64)))
    else:
        here = np.array([at for at, one in enumerate(names.tolist()) if str(one) in place_of], dtype=np.int64)
    places = np.array([place_of[str(one)] for one in names[here].tolist()], dtype=np.int64)
    is_seen = world.total(np.bincount(places, minlength=len(known.ids)).astype(np.float64)) > 0
    if not is_seen.all():
        missing = known.ids[int(np.flatnonzero(~is_seen)[0])]
        raise InputError(f"the id {missing[:40]!r} has a label, and is no vertex of '{graph.path}'. Correct it.")
    labels = np.full(len(names), UNLABELLED, dtype=np.int64)
    labels[here] = known.codes[places]
    return labels


def _silent(message: str) -> None:
    """Say nothing: rank 0 speaks for all."""
