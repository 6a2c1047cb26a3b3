"""The engine of an NVIDIA GPU: tensors on the card, launches of the programs, and what the host does between them.

`GpuKernels` is the engine behind the `Kernels` protocol, one operation at a time. `Batch` is the same arithmetic for
many starts at once, each at its own point of Algorithm 1; the card decides, and the host looks every so often.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.graph import Graph
from tautcut.kernels.batch import Ending, Limits, Look
from tautcut.kernels.gpu import programs as programs
from tautcut.kernels.gpu.layout import lay_out
from tautcut.kernels.protocol import Measures, StepSizes, scaled_weights
from tautcut.problem import Partition, Problem

if TYPE_CHECKING:
    from tautcut.kernels.gpu.moves import GpuMoves
    from tautcut.kernels.gpu.spectral import GpuSpectral

# The Kernels protocol does one operation at a time, and decides nothing: no limit is ever reached.
_ONE_OPERATION = Limits(tol=0.0, max_iter=1, max_inner=1, epsilon=0.5, progress=0.0, patience=0, n_history=1)
_TILE, _FEWEST_LANES = 128, 4  # values of F in one block, rows times columns rounded up to a power of two; rows
_UNROLL = 2  # edges of a row in flight at a time
_MOST_CLUSTERS = 1024
_BLOCKS_OF_PROGRAM, _MOST_PROGRAMS = 4, 32768  # that share a start's edges, in `vary`
_SURVEY_TILE, _TILES_OF_PROGRAM, _MOST_SURVEYORS = 512, 4, 8192  # that share a start's values, in `survey`
_COLUMNS_OF_WARP, _SELECT_WARPS = 256, 4  # more columns would not fit a warp's registers, in `survey`
_ROUNDS_OF_GRAPH = 2  # rounds in one captured graph
_LOOK_EVERY, _MOST_REPLAYS = 0.02, 24  # seconds between the host's looks, and graphs run in that time at most
_COPY_WIDTH = 4096
_NORM_ROUNDS = 20  # of the power iteration that bounds ‖K‖₂
_SPARE = 0.9  # share of the free memory that a batch may take


class GpuKernels:
    """The engine, bound to one problem. float32, and duals in `duals` ("float32" or "float16")."""

    name = "cuda"

    def __init__(
        self, problem: Problem, *, device: str = "cuda", duals: str = "float32", groups: IntArray | None = None,
        lanes: int | None = None, unroll: int = _UNROLL,
    ) -> None:  # fmt: skip
        R = problem.n_clusters
        if R > _MOST_CLUSTERS or problem.n_vertices * R >= 2**31:
            raise InputError(
                f"device='cuda' takes up to {_MOST_CLUSTERS} clusters and 2³¹ values of F; found {R} clusters and "
                f"{problem.n_vertices * R} values. Ask for fewer clusters, or use device='cpu'."
            )
        self.problem = problem
        self.device = torch.device(device)
        self.duals = getattr(torch, duals)
        scaled, self.unit = scaled_weights(problem.graph)
        self.RP: int = max(2, triton.next_power_of_2(R))
        lanes = lanes or max(_FEWEST_LANES, _TILE // self.RP)
        self.layout = lay_out(problem.graph, scaled, lanes=lanes, unroll=unroll, near=groups)
        self.unroll, self.n_warps = unroll, max(1, min(8, lanes * self.RP // _TILE))

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The graph and the problem, on the card."""
        layout, problem = self.layout, self.problem
        order = layout.order
        arrays: dict[str, Any] = {
            "order": order,
            "offsets": layout.offsets,
            "neighbors": layout.neighbors,
            "weights": layout.weights if layout.weights is not None else np.zeros(1, np.float32),
            "fixed": problem.labels[order].astype(np.int32),
            "lam": problem.lam,
            "rank": problem.median_rank.astype(np.int32),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(a)).to(self.device) for name, a in arrays.items()}

    @cached_property
    def lipschitz(self) -> float:
        """An upper bound of ‖K‖₂, as `tautcut.kernels.gradient_norm` finds it."""
        squared = self.tensors["weights"] ** 2 if self.is_weighted else self.tensors["weights"]
        x = torch.ones((1, self.problem.n_vertices, 1), device=self.device)
        # W∘W x at x = 1 is the degrees; −L x vanishes there, so they are summed on the host.
        graph = self.problem.graph
        degrees = np.diff(graph.indptr) if not self.is_weighted else _row_sums(graph, (graph.weights / self.unit) ** 2)
        d = self.in_rows(np.asarray(degrees, dtype=np.float64)[:, None])[None]
        has_edge = d > 0
        bound = float("inf")
        for _ in range(_NORM_ROUNDS):
            product = 2.0 * d * x + self.minus_laplacian(x, squared)
            bound = min(bound, float((product / x)[has_edge].max()))
            x = (product / product.max()).clamp_min(1e-12)
        return float(np.sqrt(bound) * (1 + 1e-6))  # float32 rounds

    def minus_laplacian(self, X: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """−L X = W X − D X of these weights, for X (start, row, column)."""
        layout, graph = self.layout, self.tensors
        S, n, columns = X.shape
        X = X.contiguous()
        Y = torch.empty_like(X)
        RP = max(2, triton.next_power_of_2(columns))
        programs.minus_laplacian[(layout.n_blocks, S)](
            X, Y, graph["offsets"], graph["neighbors"], weights, n, layout.n_short, layout.n_short_blocks,
            R=columns, RP=RP, V=layout.lanes, E=self.unroll, IS_WEIGHTED=self.is_weighted,
            num_warps=max(1, min(8, layout.lanes * RP // _TILE)),
        )  # fmt: skip
        return Y

    @property
    def is_weighted(self) -> bool:
        return self.layout.weights is not None

    @cached_property
    def has_labels(self) -> bool:
        return bool(self.problem.is_labelled.any())

    # How many programs share a sum is set by the graph alone: the sum does not depend on the batch.

    @property
    def n_varying(self) -> int:
        return max(1, min(_MOST_PROGRAMS, self.layout.n_blocks // _BLOCKS_OF_PROGRAM))

    @property
    def n_surveyors(self) -> int:
        tiles = -(-self.problem.n_vertices // self.rows_surveyed)
        wanted = min(_MOST_SURVEYORS, -(-tiles // _TILES_OF_PROGRAM))
        return max(wanted, -(-tiles // int(programs.MOST_TILES.value)))

    @property
    def rows_surveyed(self) -> int:
        """Rows that `survey` reads at a time."""
        return max(1, _SURVEY_TILE // self.RP)

    @property
    def shape(self) -> dict[str, Any]:
        """What every program on blocks of rows is compiled for."""
        return {
            "R": self.problem.n_clusters, "RP": self.RP, "V": self.layout.lanes, "E": self.unroll,
            "IS_WEIGHTED": self.is_weighted, "num_warps": self.n_warps,
        }  # fmt: skip

    def bytes_of_start(self) -> int:
        """Memory that one start of a batch takes: P, four planes of F, the best F, as much to make them, and sums."""
        n, R = self.problem.n_vertices, self.problem.n_clusters
        duals = self.layout.n_slots * R * torch.empty(0, dtype=self.duals).element_size()
        sums = (16 + 4 * programs.THRESHOLDS.value) * self.n_surveyors + 24 * self.n_varying
        small = (sums + 4 * programs.CANDIDATES.value) * R + 4 * self.layout.n_blocks
        return int(duals + 10 * n * R * 4 + 2 * n * 4 + small)

    def bytes_of_graph(self) -> int:
        """Memory that the starts share."""
        return int(self.layout.n_slots * (8 if self.is_weighted else 4) + 16 * self.problem.n_vertices)

    def starts_that_fit(self, wanted: int = 1) -> int:
        """How many of the wanted starts the card's memory holds; refuses a graph of which not even one fits."""
        if self.device.type != "cuda":
            return wanted
        free = int(_SPARE * torch.cuda.mem_get_info(self.device)[0])
        shared = 0 if "tensors" in self.__dict__ else self.bytes_of_graph()
        if (free - shared) // self.bytes_of_start() < wanted:  # what torch holds and does not use is slow to ask for
            free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        fits = (free - shared) // self.bytes_of_start()
        if fits < 1:
            needed = (shared + self.bytes_of_start()) / 2**30
            raise InputError(
                f"{self.problem.n_vertices} vertices with {self.problem.graph.indices.size} directed edges and "
                f"{self.problem.n_clusters} clusters need {needed:.1f} GiB on the card; {free / 2**30:.1f} GiB "
                "are free. Ask for fewer clusters or neighbours, free the card's memory, or use device='cpu'."
            )
        return int(min(fits, wanted))

    def starts_of_gpu(self, wanted: int) -> int:
        """How many of the wanted starts an empty card holds: what happens to be free must not change an answer."""
        if self.device.type != "cuda":
            return wanted
        room = int(_SPARE * torch.cuda.mem_get_info(self.device)[1]) - self.bytes_of_graph()
        return int(max(1, min(wanted, room // self.bytes_of_start())))

    def in_rows(self, values: Any) -> torch.Tensor:
        """An array (…, vertex, column) as a tensor (…, row, column) on the card, in float32; a tensor as it is."""
        if isinstance(values, torch.Tensor):
            return values
        tensor = torch.as_tensor(np.ascontiguousarray(values, dtype=np.float32)).to(self.device)
        return tensor[..., self.tensors["order"], :]

    def in_graph_order(self, rows: torch.Tensor) -> Any:
        """An array over the vertices from a tensor over the rows."""
        ordered = torch.empty_like(rows)
        ordered[self.tensors["order"]] = rows
        return ordered.cpu().numpy()

    def joined(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Tensors over several starts as one."""
        return torch.cat(tensors)

    def feasible(self, starts: Any) -> torch.Tensor:
        """The nearest points of C, (start, row, cluster): rows on the simplex, e_r where a label is fixed."""
        F = self.in_rows(starts)
        x = F - F.amax(dim=2, keepdim=True)
        descending = x.sort(dim=2, descending=True).values
        excess = descending.cumsum(dim=2) - 1.0
        numbers = torch.arange(1, x.shape[2] + 1, device=x.device)
        support = (descending * numbers > excess).sum(dim=2, keepdim=True)
        projected = (x - excess.gather(2, support - 1) / support).clamp_min_(0.0)
        fixed = self.tensors["fixed"]
        if self.has_labels:
            is_fixed = fixed >= 0
            projected[:, is_fixed] = torch.nn.functional.one_hot(fixed[is_fixed].long(), x.shape[2]).float()
        return projected

    def batch(self, starts: torch.Tensor, limits: Limits) -> Batch:
        """Starts to be run side by side: (start, row, cluster), in C."""
        return Batch(self, starts, limits)

    def moves(self, smallest: IntArray) -> GpuMoves:
        """Greedy moves on hard partitions, in this engine's memory."""
        from tautcut.kernels.gpu.moves import GpuMoves  # it builds on this module

        return GpuMoves(self, smallest)

    def spectral(self) -> GpuSpectral:
        """The linear algebra of starts, in this engine's memory."""
        from tautcut.kernels.gpu.spectral import GpuSpectral

        return GpuSpectral(self)

    # ------------------------------------------------------------ the Kernels protocol

    def allocate(self, F: FloatArray) -> Batch:
        self.starts_that_fit()
        return Batch(self, self.in_rows(F)[None], _ONE_OPERATION)

    def measure(self, arrays: Batch) -> Measures:
        arrays.look_until_found()
        column = arrays.columns[0].cpu().numpy()
        T, B, median, tie = (column[i.value].copy() for i in (programs.T, programs.B, programs.MEDIAN, programs.TIE))
        return Measures(T, B, median, tie, squared_step=float(arrays.norms[0].double().sum()))

    def linearise(self, arrays: Batch, measures: Measures, delta: float) -> None:
        pull = delta * measures.E / measures.B
        new = {
            programs.MEDIAN_K: measures.median, programs.UP: self.problem.lam * pull,
            programs.LEVEL: measures.tie * pull, programs.DOWN: -pull,
        }  # fmt: skip
        for place, values in new.items():
            arrays.columns[0, place.value] = torch.from_numpy(np.asarray(values))
        slot = arrays.word(programs.SLOT)
        arrays.set_words({programs.SLOT_K: slot, programs.SLOT: 1 - slot, programs.INNER: 0})

    def iterate(self, arrays: Batch, scale: FloatArray, steps: StepSizes) -> None:
        arrays.columns[0, programs.SCALE.value] = torch.from_numpy(np.asarray(scale))
        arrays.reals[0, : programs.THETA.value + 1] = torch.tensor([steps.tau, steps.sigma, steps.theta])
        arrays.set_words({programs.PHASE: programs.ITERATE.value})
        arrays.launch_iterate(1)
        bar, inner = arrays.word(programs.BAR), arrays.word(programs.INNER)
        arrays.set_words({programs.BAR: 1 - bar, programs.INNER: inner + 1})

    def harden(self, arrays: Batch) -> tuple[IntArray, FloatArray]:
        labels = self.in_graph_order(arrays.labels[0]).astype(np.int64)
        return labels, arrays.columns[0, programs.CUT.value].cpu().numpy() * self.unit

    def memberships(self, arrays: Batch, *, previous: bool = False) -> FloatArray:
        slot = arrays.word(programs.SLOT_K if previous else programs.SLOT)
        F: FloatArray = self.in_graph_order(arrays.X[0, slot]).astype(np.float64)
        return F


class Batch:
    """Starts that run side by side on one graph. F is (start, plane, row, cluster); planes 0 and 1 are F and F^k by
    turns, planes 2 and 3 the extrapolated F̄ by turns.
    """

    def __init__(self, kernels: GpuKernels, starts: torch.Tensor, limits: Limits) -> None:
        self._kernels, device = kernels, kernels.device
        self._graph = kernels.tensors
        S, n, R = starts.shape
        self.limits = (limits.max_iter, limits.max_inner, limits.patience, limits.n_history)
        layout = kernels.layout
        self.X = torch.empty((S, 4, n, R), dtype=torch.float32, device=device)
        self.X[:, 0] = starts
        self.P = torch.zeros((S, layout.n_slots, R), dtype=kernels.duals, device=device)
        self.labels = self.X[:, 0].argmax(dim=2).to(torch.int32)
        self.best_F, self.best_labels = self.X[:, 0].clone(), self.labels.clone()
        self.norms = torch.zeros((S, layout.n_blocks), dtype=torch.float32, device=device)
        self.variations = torch.zeros((S, 3, R, kernels.n_varying), dtype=torch.float64, device=device)
        self.steps = torch.zeros((S, kernels.n_varying), dtype=torch.float64, device=device)
        self.sums = torch.zeros((S, 2, R, kernels.n_surveyors), dtype=torch.float64, device=device)
        reached = (S, R, kernels.n_surveyors, programs.THRESHOLDS.value)
        self.counts = torch.zeros(reached, dtype=torch.int32, device=device)
        self.candidates = torch.zeros((S, R, programs.CANDIDATES.value), dtype=torch.float32, device=device)
        self.brackets = torch.zeros((S, R, programs.BRACKETS.value), dtype=torch.int32, device=device)
        self.brackets[:, :, : programs.LOW.value] = torch.linspace(
            1, programs.TOP.value - 1, programs.LOW.value, dtype=torch.float64, device=device
        ).to(torch.int32)
        self.brackets[:, :, programs.HIGH.value] = programs.TOP.value
        self.brackets[:, :, programs.LAST.value] = programs.TOP.value
        self.columns = torch.zeros((S, programs.COLUMNS.value, R), dtype=torch.float64, device=device)
        self.words = torch.zeros((S, programs.WORDS.value), dtype=torch.int32, device=device)
        self.words[:, programs.PHASE.value] = programs.BEGIN.value
        self.words[:, programs.OUTER.value] = -1
        self.reals = torch.zeros((S, programs.REALS.value), dtype=torch.float64, device=device)
        tau = 1.0 / kernels.lipschitz
        self.reals[:, programs.TAU.value] = tau
        self.reals[:, programs.THETA.value] = (1.0 + 2.0 * tau) ** -0.5
        self.reals[:, [programs.BEST.value, programs.MARK.value]] = float("inf")
        shared = [kernels.lipschitz, limits.tol, limits.epsilon, limits.progress]
        self.shared = torch.tensor(shared, dtype=torch.float64, device=device)
        self.history = torch.zeros((S, limits.n_history, 4), dtype=torch.float64, device=device)
        self.active = torch.full((_width(S),), -1, dtype=torch.int32, device=device)
        self.active[:S] = torch.arange(S, dtype=torch.int32, device=device)
        self._rounds: dict[int, Callable[[], None]] = {}
        is_gpu = device.type == "cuda"
        self._side = torch.cuda.Stream(device) if is_gpu else None
        self._sent = torch.cuda.Event() if is_gpu else None
        self._places = torch.empty(self.active.shape, dtype=torch.int32, pin_memory=is_gpu)
        self._seen = [torch.empty(a.shape, dtype=a.dtype, pin_memory=is_gpu) for a in (self.words, self.reals)]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    # ------------------------------------------------------------ launches

    @property
    def _where(self) -> tuple[int, int, int]:
        return self._kernels.problem.n_vertices, self._kernels.layout.n_short, self._kernels.layout.n_short_blocks

    def launch_iterate(self, width: int) -> None:
        layout, graph = self._kernels.layout, self._graph
        programs.iterate[(layout.n_blocks, width)](
            self.X, self.P, self.labels, self.norms, self.words, self.reals, self.columns, self.active,
            graph["offsets"], graph["neighbors"], graph["weights"], graph["fixed"],
            *self._where, layout.n_blocks, layout.n_slots,
            HAS_LABELS=self._kernels.has_labels, **self._kernels.shape,
        )  # fmt: skip

    def launch_vary(self, width: int) -> None:
        kernels, graph, G = self._kernels, self._graph, self._kernels.n_varying
        programs.vary[(G, width)](
            self.X, self.labels, self.variations, self.norms, self.steps, self.words, self.active,
            graph["offsets"], graph["neighbors"], graph["weights"], *self._where, kernels.layout.n_blocks,
            G=G, **kernels.shape,
        )  # fmt: skip

    def launch_survey(self, width: int) -> None:
        kernels, G = self._kernels, self._kernels.n_surveyors
        n, R = kernels.problem.n_vertices, kernels.problem.n_clusters
        programs.survey[(G, width)](
            self.X, self.sums, self.counts, self.candidates, self.brackets, self.words, self.active, n,
            G=G, R=R, RP=kernels.RP, ROWS=kernels.rows_surveyed, num_warps=max(1, kernels.RP // _COLUMNS_OF_WARP),
        )  # fmt: skip

    def launch_select(self, width: int) -> None:
        kernels, graph = self._kernels, self._graph
        n, R = kernels.problem.n_vertices, kernels.problem.n_clusters
        programs.select[(R, width)](
            self.variations, self.sums, self.counts, self.candidates, self.brackets, self.columns, self.words,
            self.active, graph["lam"], graph["rank"], n,
            G_VARY=kernels.n_varying, G=kernels.n_surveyors, R=R, WIDTH=512, num_warps=_SELECT_WARPS,
        )  # fmt: skip

    def launch_measure(self, width: int) -> None:
        if self._side is None:
            self.launch_survey(width)
            self.launch_vary(width)
        else:  # side by side: neither fills the card when starts are few
            main = torch.cuda.current_stream(self._kernels.device)
            self._side.wait_stream(main)
            with torch.cuda.stream(self._side):
                self.launch_survey(width)
            self.launch_vary(width)
            main.wait_stream(self._side)
        self.launch_select(width)

    def launch_decide(self, width: int) -> None:
        kernels = self._kernels
        n, R = kernels.problem.n_vertices, kernels.problem.n_clusters
        programs.decide[(width,)](
            self.columns, self.words, self.reals, self.steps, self.history, self.active, self._graph["lam"],
            self.shared, n, *self.limits, G=kernels.n_varying, R=R, RP=kernels.RP, num_warps=1,
        )  # fmt: skip
        programs.save[(triton.cdiv(n * R, _COPY_WIDTH), width)](
            self.X, self.labels, self.best_F, self.best_labels, self.words, self.active, n, R=R, WIDTH=_COPY_WIDTH,
        )  # fmt: skip

    def launch_round(self, width: int) -> None:
        self.launch_iterate(width)
        self.launch_measure(width)
        self.launch_decide(width)

    def look_until_found(self) -> None:
        """Measure until every λ-median is found: a bracket that misses it is moved, and narrowed if it is crowded."""
        for misses in range(programs.MOST_MISSES.value):
            self.set_words({programs.PHASE: programs.LOOK_AGAIN.value, programs.MISSES: misses})
            self.launch_measure(len(self))
            if bool((self.columns[:, programs.FOUND.value] > 0).all()):
                return
        self.columns[:, programs.T.value] = float("nan")  # F is not finite

    # ------------------------------------------------------------ the run

    def run(self) -> Iterator[list[Look]]:
        """Rounds until every start is done; after every few, where each of them stands. The card goes on meanwhile."""
        running, replays = len(self), 1
        self._advance(_width(running), replays)
        began = time.perf_counter()
        while running:
            self._send()
            self._advance(_width(running), replays)
            looks = self._receive()
            pace = (time.perf_counter() - began) / replays
            began = time.perf_counter()
            replays = max(1, min(_MOST_REPLAYS, int(_LOOK_EVERY / pace)))
            running = self._compact([number for number, one in enumerate(looks) if not one.ending])
            yield looks

    def look(self) -> list[Look]:
        """Where each start stands."""
        self._send()
        return self._receive()

    def _send(self) -> None:
        """Set the starts' words and reals on their way to the host."""
        for there, here in zip((self.words, self.reals), self._seen, strict=True):
            here.copy_(there, non_blocking=True)
        if self._sent is not None:
            self._sent.record()

    def _receive(self) -> list[Look]:
        if self._sent is not None:
            self._sent.synchronize()
        chosen = (programs.ITERATIONS, programs.OUTER)
        energies = (programs.ENERGY, programs.BEST, programs.RELAXED)
        return [
            Look(
                Ending(int(word[programs.STATUS.value])),
                *(int(word[i.value]) for i in chosen),
                *(float(real[i.value]) for i in energies),
            )
            for word, real in zip(*(seen.tolist() for seen in self._seen), strict=True)
        ]

    def _advance(self, width: int, replays: int) -> None:
        if width not in self._rounds:
            self.launch_round(width)  # compiles, and is a round like any other
            self._rounds[width] = recorded(partial(self._some_rounds, width), self._kernels.device)
        for _ in range(replays):
            self._rounds[width]()

    def _some_rounds(self, width: int) -> None:
        for _ in range(_ROUNDS_OF_GRAPH):
            self.launch_round(width)

    def _compact(self, running: list[int]) -> int:
        """Fill the first places with the starts that still run; how many there are."""
        self._places.fill_(-1)
        self._places[: len(running)] = torch.tensor(running, dtype=torch.int32)
        self.active.copy_(self._places, non_blocking=True)
        return len(running)

    def best(self, s: int) -> tuple[Partition, FloatArray]:
        """The best partition of start s, and the F that it was read from."""
        kernels, problem = self._kernels, self._kernels.problem
        labels = kernels.in_graph_order(self.best_labels[s]).astype(np.int64)
        F = kernels.in_graph_order(self.best_F[s]).astype(np.float64)
        has_begun = int(self.words[s, programs.OUTER.value]) >= 0
        if kernels.is_weighted or not has_begun:  # the card's weights are rounded, or nothing is measured yet
            return problem.partition(labels), F
        cut = self.columns[s, programs.BEST_CUT.value].cpu().numpy()
        return problem.measured(labels, cut * kernels.unit), F

    def last(self, s: int) -> FloatArray:
        """The F that start s has come to."""
        slot = int(self.words[s, programs.SLOT_K.value if self.is_between_steps(s) else programs.SLOT.value])
        F: FloatArray = self._kernels.in_graph_order(self.X[s, slot]).astype(np.float64)
        return F

    def is_between_steps(self, s: int) -> bool:
        """Whether an outer step has been begun and none of its iterations done: F is still F^k."""
        words = self.words[s]
        return int(words[programs.STATUS.value]) == 0 and int(words[programs.INNER.value]) == 0

    def lines(self, s: int, count: int) -> FloatArray:
        """The history of start s: iterations, Σ E(f_r), (P) in the scaled weights, descent; a line per outer step."""
        lines: FloatArray = self.history[s, :count].cpu().numpy()
        return lines

    # ------------------------------------------------------------ small things

    def word(self, place: Any) -> int:
        return int(self.words[0, place.value])

    def set_words(self, values: dict[Any, int]) -> None:
        for place, value in values.items():
            self.words[:, place.value] = value


def _row_sums(graph: Graph, values: FloatArray) -> FloatArray:
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    sums: FloatArray = np.bincount(rows, values, graph.n_vertices).astype(np.float64)
    return sums


def _width(running: int) -> int:
    """Places to launch for: a few sizes, so that few graphs are captured."""
    return int(triton.next_power_of_2(running))


def recorded(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same work as one launch of the host's, a CUDA graph that has not run yet; without a card, the work itself."""
    if device.type != "cuda":
        return work
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    torch.cuda.synchronize(device)
    with torch.cuda.stream(stream):
        graph.capture_begin()
        work()
        graph.capture_end()
    replay: Callable[[], None] = graph.replay
    return replay


def require_gpu() -> None:
    """Raise, in one sentence, where there is no GPU that torch can use."""
    with warnings.catch_warnings(record=True) as heard:  # an old driver is a warning of torch's
        warnings.simplefilter("always")
        is_there = torch.cuda.is_available()
    if not is_there:
        reason = str(heard[0].message).strip().splitlines()[0] if heard else f"torch {torch.__version__} sees none."
        raise EngineUnavailableError(
            f"device='cuda' needs an NVIDIA GPU with a driver that torch can use: {reason} "
            "Use device='cpu', or device='auto' to take what there is."
        )
