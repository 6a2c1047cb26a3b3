"""The engine of an NVIDIA GPU, bound to one problem: its tensors, how much memory they take, how many programs share a
sum. `GpuKernels` is an engine behind the `Kernels` protocol, one operation at a time, and it makes the `GpuBatch` that
does the same for many starts at once, the `GpuMoves` of the search and the `GpuSpectral` of starts.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
import triton

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.kernels import gpu
from tautcut.kernels.batch import Limits
from tautcut.kernels.gpu import programs, tables
from tautcut.kernels.gpu.batch import GpuBatch
from tautcut.kernels.gpu.coarsening import Coarse, coarsened
from tautcut.kernels.gpu.layout import Csr, exactly_summed, layout_of, tensor_of
from tautcut.kernels.gpu.moves import GpuMoves
from tautcut.kernels.gpu.spectral import GpuSpectral
from tautcut.kernels.protocol import Measures, StepSizes
from tautcut.problem import Problem, energy_unit

# The Kernels protocol does one operation at a time, and decides nothing: no limit is ever reached.
_ONE_OPERATION = Limits(tol=0.0, max_iter=1, max_inner=1, epsilon=0.5, progress=0.0, patience=0, n_history=1)
# How work is cut up was measured (decision 0020); none of it changes what is computed, but for the order of sums.
_TILE = 128  # values of F in the block of one warp: rows times columns, rounded up to a power of two
_FEWEST_LANES = 4  # rows of a block, however many columns: fewer would read neighbours' edges apart
_MOST_WARPS = 8  # of a block
UNROLL = 2  # edges of a row in flight at a time
MOST_CLUSTERS = 1024  # a row of F has to fit the registers of a block
_BLOCKS_OF_PROGRAM = 4  # of rows that a program of `vary` sums up: fewer partial sums for `select` to add
_MOST_PROGRAMS = 32768  # of `vary` to a start
_SURVEY_TILE = 512  # values that a program of `survey` reads at a time
_TILES_OF_PROGRAM = 4  # that a program of `survey` reads, before there are more tiles than _MOST_SURVEYORS can share
_WEIGH_TILE = 64  # values that a warp of `weigh` reads at a time: its 16 sums of each column are 64 bits wide
_TILES_WEIGHED = 16  # that a program of `weigh` reads
_MOST_SURVEYORS = 8192  # programs of `survey` or `weigh` to a start
_COLUMNS_OF_WARP = 256  # in `survey`: more columns would not fit a warp's registers
_NORM_ROUNDS = 20  # of the power iteration that bounds ‖K‖₂, as in `gradient_norm`
BYTES_OF_LAYOUT = 64  # per directed edge, while the graph is laid out
_SPARE = 0.9  # share of the free memory that a batch may take: torch and Triton need some too


class GpuKernels:
    """The engine, bound to one problem. float32, and duals in `duals` ("float32" or "float16")."""

    name = "cuda"

    def __init__(
        self, problem: Problem, *, device: str | None = None, duals: str = "float32", groups: IntArray | None = None,
        lanes: int | None = None, unroll: int = UNROLL,
    ) -> None:  # fmt: skip
        R = problem.n_clusters
        if R > MOST_CLUSTERS or problem.n_vertices * R >= 2**31:
            raise InputError(
                f"device='cuda' takes up to {MOST_CLUSTERS} clusters and 2³¹ values of F; found {R} clusters and "
                f"{problem.n_vertices * R} values. Ask for fewer clusters, or use device='cpu'."
            )
        self.problem = problem
        self.device = torch.device(device or gpu.DEVICE)
        self.duals = getattr(torch, duals)
        graph = problem.graph
        self._require_room(BYTES_OF_LAYOUT * graph.indices.size)
        scaled, self.weight_unit = (None, 1.0) if graph.is_unweighted else graph.scaled_weights()
        masses, self.mass_unit = graph.scaled_masses()
        self.masses, self.grain = exactly_summed(masses) if self.has_masses else (masses, 0.0)
        self.unit = energy_unit(self.weight_unit, self.mass_unit)
        self.RP = padded_columns(R)
        lanes = lanes or lanes_of(self.RP)
        self.csr = Csr(
            tensor_of(graph.indptr, self.device),
            tensor_of(graph.indices.astype(np.int32, copy=False), self.device),
            None if scaled is None else tensor_of(scaled, self.device),
        )
        near = None if groups is None else tensor_of(groups, self.device)
        self.layout = layout_of(self.csr, lanes=lanes, unroll=unroll, near=near)
        self.unroll, self.n_warps = unroll, warps_of(lanes, self.RP)

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The graph and the problem, on the GPU."""
        layout, problem, order = self.layout, self.problem, self.layout.order
        bar = self.bar if self.has_masses else np.floor(problem.median_mass / self.mass_unit).astype(np.int32)
        nothing = torch.zeros(1, device=self.device)
        return {
            "order": order,
            "offsets": layout.offsets,
            "neighbors": layout.neighbors,
            "weights": nothing if layout.weights is None else layout.weights,
            "owners": layout.owners if layout.n_hubs else nothing.int(),
            "hubs": tensor_of(layout.hubs.astype(np.int32), self.device),
            "fixed": tensor_of(problem.labels, self.device)[order].int(),
            "lam": tensor_of(problem.lam, self.device),
            "masses": tensor_of(self.masses, self.device)[order] if self.has_masses else nothing.double(),
            "bar": tensor_of(bar, self.device),
        }

    @cached_property
    def degrees(self) -> torch.Tensor:
        """Weighted degrees of the rows, in this engine's unit and float32."""
        return self.csr.degrees()[self.layout.order].float()

    @property
    def bar(self) -> FloatArray:
        """`Problem.median_mass` in the masses that this engine adds up, below all of which it stays."""
        bar = self.problem.median_mass * (self.total_mass / self.problem.total_mass)
        return np.minimum(bar, np.nextafter(self.total_mass, 0.0))

    @cached_property
    def total_mass(self) -> float:
        """The mass of all vertices in this engine's unit, of which they have one each on average."""
        return float(self.masses.sum())

    @cached_property
    def lipschitz(self) -> float:
        """An upper bound of ‖K‖₂, as `tautcut.kernels.protocol.gradient_norm` finds it."""
        squared = self.tensors["weights"] ** 2 if self.is_weighted else self.tensors["weights"]
        x = torch.ones((1, self.problem.n_vertices, 1), device=self.device)
        # W∘W x at x = 1 is the degrees of the squared weights; −L x vanishes there.
        d = self.csr.degrees(2)[self.layout.order].float()[None, :, None]
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
        partials = X.new_empty((S, layout.n_pieces, columns))
        RP = padded_columns(columns)
        sizes = {"R": columns, "RP": RP, "V": layout.lanes, "num_warps": warps_of(layout.lanes, RP)}
        programs.minus_laplacian[(layout.n_blocks, S)](
            X, Y, partials, graph["offsets"], graph["neighbors"], weights, graph["owners"], n, layout.n_short,
            layout.n_short_blocks, layout.n_whole_blocks, layout.n_blocks,
            E=self.unroll, IS_WEIGHTED=self.is_weighted, HAS_HUBS=self.has_hubs, **sizes,
        )  # fmt: skip
        if self.has_hubs:
            programs.join_hubs[(layout.n_hubs, S)](
                Y, partials, graph["hubs"], n, layout.n_whole_blocks, layout.n_blocks, **sizes
            )
        return Y

    @property
    def is_weighted(self) -> bool:
        return self.layout.weights is not None

    @property
    def has_hubs(self) -> bool:
        return self.layout.n_hubs > 0

    @property
    def has_masses(self) -> bool:
        return not self.problem.graph.is_even

    # How many programs share a sum is set by the graph alone: the sum does not depend on the batch.

    @property
    def n_varying(self) -> int:
        return programs_varying(self.layout.n_blocks)

    @property
    def n_surveyors(self) -> int:
        tiles = -(-self.problem.n_vertices // self.rows_surveyed)
        wanted = min(_MOST_SURVEYORS, -(-tiles // (_TILES_WEIGHED if self.has_masses else _TILES_OF_PROGRAM)))
        return max(wanted, -(-tiles // int(tables.MOST_TILES.value)))

    @property
    def rows_surveyed(self) -> int:
        """Rows that `survey` or `weigh` reads at a time."""
        return max(1, (_WEIGH_TILE if self.has_masses else _SURVEY_TILE) // self.RP)

    @property
    def survey_warps(self) -> int:
        return max(1, self.RP // (_WEIGH_TILE if self.has_masses else _COLUMNS_OF_WARP))

    @property
    def shape(self) -> dict[str, Any]:
        """What every program on blocks of rows is compiled for."""
        return {
            "R": self.problem.n_clusters, "RP": self.RP, "V": self.layout.lanes, "E": self.unroll,
            "IS_WEIGHTED": self.is_weighted, "HAS_HUBS": self.has_hubs, "HAS_MASSES": self.has_masses,
            "num_warps": self.n_warps,
        }  # fmt: skip

    def bytes_of_start(self) -> int:
        """Memory that one start of a batch takes: P, four planes of F, the best F, as much to make them, and sums."""
        n, R = self.problem.n_vertices, self.problem.n_clusters
        duals = self.layout.n_slots * R * torch.empty(0, dtype=self.duals).element_size()
        n_sums, of_threshold, of_candidate = (3, 8, 12) if self.has_masses else (2, 4, 4)
        sums = (8 * n_sums + of_threshold * tables.THRESHOLDS.value) * self.n_surveyors + 24 * self.n_varying
        candidates = of_candidate * tables.CANDIDATES.value
        small = (sums + candidates + 4 * self.layout.n_pieces) * R + 4 * self.layout.n_blocks
        return int(duals + 10 * n * R * 4 + 2 * n * 4 + small)

    def bytes_of_graph(self) -> int:
        """Memory that the starts share: the graph, in CSR order and laid out, and what its vertices have."""
        of_slot, of_edge = (8, 12) if self.is_weighted else (4, 4)
        of_vertex = 32 if self.has_masses else 24
        n_edges = self.problem.graph.indices.size
        return int(of_slot * self.layout.n_slots + of_edge * n_edges + of_vertex * self.problem.n_vertices)

    def starts_that_fit(self, wanted: int = 1) -> int:
        """How many of the wanted starts the GPU's memory holds; refuses a graph of which not even one fits."""
        if self.device.type != "cuda":
            return wanted
        of_start = self.bytes_of_start()  # the graph is there already
        return int(min(self._require_room(of_start, wanted=wanted * of_start) // of_start, wanted))

    def _require_room(self, needed: int, wanted: int = 0) -> int:
        """The bytes that are free on the GPU; refuses, with the sum, where they are fewer than are needed."""
        if self.device.type != "cuda":
            return max(needed, wanted)
        free = free_bytes(self.device, max(needed, wanted))
        if free < needed:
            raise InputError(
                f"{self.problem.n_vertices} vertices with {self.problem.graph.indices.size} directed edges and "
                f"{self.problem.n_clusters} clusters need {needed / 2**30:.1f} GiB on the GPU; {free / 2**30:.1f} GiB "
                "are free. Ask for fewer clusters or neighbours, free the GPU's memory, or use device='cpu'."
            )
        return free

    def starts_of_gpu(self, wanted: int) -> int:
        """How many of the wanted starts an empty GPU holds: what happens to be free must not change an answer."""
        if self.device.type != "cuda":
            return wanted
        room = int(_SPARE * torch.cuda.mem_get_info(self.device)[1]) - self.bytes_of_graph()
        return int(max(1, min(wanted, room // self.bytes_of_start())))

    def in_rows(self, values: Any) -> torch.Tensor:
        """An array (…, vertex, column) as a tensor (…, row, column) on the GPU, in float32; a tensor as it is."""
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
        if self.problem.has_labels:
            is_fixed = fixed >= 0
            projected[:, is_fixed] = torch.nn.functional.one_hot(fixed[is_fixed].long(), x.shape[2]).float()
        return projected

    def batch(self, starts: torch.Tensor, limits: Limits) -> GpuBatch:
        """Starts to be run side by side: (start, row, cluster), in C."""
        return GpuBatch(self, starts, limits)

    def moves(self, smallest: FloatArray) -> GpuMoves:
        """Greedy moves on hard partitions, in this engine's memory; bounds on masses are in the problem's unit."""
        return GpuMoves(self, smallest)

    def spectral(self) -> GpuSpectral:
        """The linear algebra of starts, in this engine's memory."""
        return GpuSpectral(self)

    def coarsened(
        self, n_vertices: int, *, heaviest: float, seed: int, respected: torch.Tensor | None = None
    ) -> Coarse:
        """A contraction of the graph to so many vertices or a few fewer, none heavier than `heaviest`.

        It keeps apart what any of the partitions `respected` (partition, row) keeps apart. More vertices are left where
        none of them may be joined any more.
        """
        return coarsened(self, n_vertices, heaviest=heaviest, seed=seed, respected=respected)

    # ------------------------------------------------------------ the Kernels protocol

    def allocate(self, F: FloatArray) -> GpuBatch:
        self.starts_that_fit()
        return GpuBatch(self, self.in_rows(F)[None], _ONE_OPERATION)

    def measure(self, arrays: GpuBatch) -> Measures:
        arrays.look_until_found()
        column = arrays.columns[0].cpu().numpy()
        T, B, median, tie = (column[i.value].copy() for i in (tables.T, tables.B, tables.MEDIAN, tables.TIE))
        return Measures(T, B, median, tie, squared_step=float(arrays.norms[0].double().sum()))

    def linearise(self, arrays: GpuBatch, measures: Measures, delta: float) -> None:
        pull = delta * measures.E / measures.B
        new = {
            tables.MEDIAN_K: measures.median, tables.UP: self.problem.lam * pull,
            tables.LEVEL: measures.tie * pull, tables.DOWN: -pull,
        }  # fmt: skip
        for place, values in new.items():
            arrays.columns[0, place.value] = torch.from_numpy(np.asarray(values))
        slot = arrays.word(tables.SLOT)
        arrays.set_words({tables.SLOT_K: slot, tables.SLOT: 1 - slot, tables.INNER: 0})

    def iterate(self, arrays: GpuBatch, scale: FloatArray, steps: StepSizes) -> None:
        arrays.columns[0, tables.SCALE.value] = torch.from_numpy(np.asarray(scale))
        arrays.reals[0, : tables.THETA.value + 1] = torch.tensor([steps.tau, steps.sigma, steps.theta])
        arrays.set_words({tables.PHASE: tables.ITERATE.value})
        arrays.launch_iterate(1)
        bar, inner = arrays.word(tables.BAR), arrays.word(tables.INNER)
        arrays.set_words({tables.BAR: 1 - bar, tables.INNER: inner + 1})

    def harden(self, arrays: GpuBatch) -> tuple[IntArray, FloatArray]:
        labels = self.in_graph_order(arrays.labels[0]).astype(np.int64)
        return labels, arrays.columns[0, tables.CUT.value].cpu().numpy() * self.weight_unit

    def memberships(self, arrays: GpuBatch, *, previous: bool = False) -> FloatArray:
        slot = arrays.word(tables.SLOT_K if previous else tables.SLOT)
        F: FloatArray = self.in_graph_order(arrays.X[0, slot]).astype(np.float64)
        return F


def padded_columns(n_columns: int) -> int:
    """The columns of a block that holds so many."""
    return max(2, int(triton.next_power_of_2(n_columns)))


def lanes_of(columns: int) -> int:
    """Rows of a block of so many columns."""
    return max(_FEWEST_LANES, _TILE // columns)


def warps_of(lanes: int, columns: int) -> int:
    """Warps of a block of that many rows and columns."""
    return max(1, min(_MOST_WARPS, lanes * columns // _TILE))


def programs_varying(n_blocks: int) -> int:
    """Programs that share the sums over the edges of so many blocks."""
    return max(1, min(_MOST_PROGRAMS, n_blocks // _BLOCKS_OF_PROGRAM))


def free_bytes(device: torch.device, enough: int) -> int:
    """The bytes that a batch may take on the GPU, counted no further than to see that there are enough."""
    free = int(_SPARE * torch.cuda.mem_get_info(device)[0])
    if free < enough:  # what torch holds and does not use is slow to ask for
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free


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
