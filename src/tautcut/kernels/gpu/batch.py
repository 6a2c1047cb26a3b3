"""Many starts of Algorithm 1 on one GPU, each at its own point of it: `GpuBatch` holds their tensors and launches the
programs, a round at a time. The GPU decides, by `decisions.decide`; the host looks every so often, and neither waits
for the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton

from tautcut.arrays import FloatArray, RealArray
from tautcut.kernels.batch import Ending, Limits, Look
from tautcut.kernels.gpu import decisions, medians, programs, tables
from tautcut.kernels.gpu.recording import recorded
from tautcut.problem import Partition

if TYPE_CHECKING:
    from tautcut.kernels.gpu.engine import GpuKernels

_SELECT_WARPS = 4  # that share the candidates of one median: twice as fast as one (decision 0020)
_ROUNDS_OF_GRAPH = 2  # rounds in one recorded graph: recording takes time, and so do rounds after the last start's end
_LOOK_EVERY = 0.02  # seconds between the host's looks: prompt for an observer, rare for the GPU
_MOST_REPLAYS = 24  # between two looks, so that no more rounds are in vain where all starts have ended
_COPY_WIDTH = 4096  # values that one program of `save` copies
_FEW_VALUES = 1 << 23  # of F in all starts: a GPU is not full with them, so those that have ended are carried along
_PRODUCT_BITS = 62  # of the sum of all masses times values of F, as a whole number


class GpuBatch:
    """Starts that run side by side on one graph. F is (start, plane, row, cluster); planes 0 and 1 are F and F^k by
    turns, planes 2 and 3 the extrapolated F̄ by turns.
    """

    def __init__(self, kernels: GpuKernels, starts: torch.Tensor, limits: Limits) -> None:
        self._kernels, device = kernels, kernels.device
        self._graph = kernels.tensors
        self._limits = (limits.max_iter, limits.max_inner, limits.patience, limits.n_history)
        parts = 2.0 ** (_PRODUCT_BITS - int(np.ceil(np.log2(kernels.total_mass))))
        shared = [kernels.lipschitz, limits.tol, limits.epsilon, limits.progress, kernels.total_mass, parts]
        self.shared = torch.tensor(shared, dtype=torch.float64, device=device)
        S, n, R = starts.shape
        self.X = self._made(tables.PLANES.value, n, R, starts=S)
        self.X[:, 0] = starts
        self.P = self._made(kernels.layout.n_slots, R, starts=S, dtype=kernels.duals)
        self.labels = self.X[:, 0].argmax(dim=2).to(torch.int32)
        self.best_F, self.best_labels = self.X[:, 0].clone(), self.labels.clone()
        self.history = self._made(limits.n_history, 4, starts=S, dtype=torch.float64)
        # Partial sums of the programs.
        self.norms = self._made(kernels.layout.n_blocks, starts=S)
        self.partials = self._made(kernels.layout.n_pieces, R, starts=S)
        self.variations = self._made(3, R, kernels.n_varying, starts=S, dtype=torch.float64)
        self.steps = self._made(kernels.n_varying, starts=S, dtype=torch.float64)
        n_sums, counted = (3, torch.float64) if kernels.has_masses else (2, torch.int32)
        self.sums = self._made(n_sums, R, kernels.n_surveyors, starts=S, dtype=torch.float64)
        self.counts = self._made(R, kernels.n_surveyors, tables.THRESHOLDS.value, starts=S, dtype=counted)
        self.candidates = self._made(R, tables.CANDIDATES.value, starts=S)
        n_weighed = tables.CANDIDATES.value if kernels.has_masses else 0
        self.candidate_masses = self._made(R, n_weighed, starts=S, dtype=torch.float64)
        self._make_tables(S, R)
        self.active = torch.full((_width(S),), -1, dtype=torch.int32, device=device)
        self.active[:S] = torch.arange(S, dtype=torch.int32, device=device)
        self._rounds: dict[int, Callable[[], None]] = {}
        is_gpu = device.type == "cuda"
        self._side = torch.cuda.Stream(device) if is_gpu else None
        self._sent = torch.cuda.Event() if is_gpu else None
        self._places = torch.empty(self.active.shape, dtype=torch.int32, pin_memory=is_gpu)
        self._seen = [torch.empty(a.shape, dtype=a.dtype, pin_memory=is_gpu) for a in (self.words, self.reals)]

    def _made(self, *shape: int, starts: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros((starts, *shape), dtype=dtype, device=self._kernels.device)

    def _make_tables(self, S: int, R: int) -> None:
        """The tables of starts that are to begin; the first bracket of a median holds all values."""
        self.columns = self._made(tables.COLUMNS.value, R, starts=S, dtype=torch.float64)
        self.words = self._made(tables.WORDS.value, starts=S, dtype=torch.int32)
        self.words[:, tables.PHASE.value] = tables.BEGIN.value
        self.words[:, tables.OUTER.value] = -1
        self.reals = self._made(tables.REALS.value, starts=S, dtype=torch.float64)
        tau = 1.0 / self._kernels.lipschitz
        self.reals[:, tables.TAU.value] = tau
        self.reals[:, tables.THETA.value] = (1.0 + 2.0 * tau) ** -0.5
        self.reals[:, [tables.BEST.value, tables.MARK.value]] = float("inf")
        self.brackets = self._made(R, tables.BRACKETS.value, starts=S, dtype=torch.int32)
        evenly = torch.linspace(1, tables.TOP.value - 1, tables.OTHERS.value, dtype=torch.float64)
        self.brackets[:, :, : tables.OTHERS.value] = evenly.to(self._kernels.device).to(torch.int32)
        self.brackets[:, :, [tables.HIGH.value, tables.LAST.value]] = tables.TOP.value

    def __len__(self) -> int:
        return int(self.X.shape[0])

    # ------------------------------------------------------------ launches

    @property
    def _where(self) -> tuple[int, int, int]:
        return self._kernels.problem.n_vertices, self._kernels.layout.n_short, self._kernels.layout.n_short_blocks

    def launch_iterate(self, width: int) -> None:
        layout, graph = self._kernels.layout, self._graph
        for n_programs, finishes in ((layout.n_blocks, False), (layout.n_hubs, True)):
            if n_programs:
                programs.iterate[(n_programs, width)](
                    self.X, self.P, self.labels, self.norms, self.partials, self.words, self.reals, self.columns,
                    self.active, graph["offsets"], graph["neighbors"], graph["weights"], graph["owners"],
                    graph["hubs"], graph["fixed"], graph["masses"],
                    *self._where, layout.n_whole_blocks, layout.n_blocks, layout.n_slots,
                    HAS_LABELS=self._kernels.problem.has_labels, FINISHES=finishes, IS_WIDE=False,
                    **self._kernels.shape,
                )  # fmt: skip

    def launch_vary(self, width: int) -> None:
        kernels, graph, G = self._kernels, self._graph, self._kernels.n_varying
        programs.vary[(G, width)](
            self.X, self.labels, self.variations, self.norms, self.steps, self.words, self.active,
            graph["offsets"], graph["neighbors"], graph["weights"], graph["owners"], graph["masses"], *self._where,
            kernels.layout.n_blocks, G=G, **kernels.shape,
        )  # fmt: skip

    def launch_survey(self, width: int) -> None:
        kernels, G = self._kernels, self._kernels.n_surveyors
        n, R = kernels.problem.n_vertices, kernels.problem.n_clusters
        sizes = {"G": G, "R": R, "RP": kernels.RP, "ROWS": kernels.rows_surveyed, "num_warps": kernels.survey_warps}
        if kernels.has_masses:
            medians.weigh[(G, width)](
                self.X, self._graph["masses"], self.sums, self.counts, self.candidates, self.candidate_masses,
                self.brackets, self.words, self.active, n, **sizes,
            )  # fmt: skip
        else:
            medians.survey[(G, width)](
                self.X, self.sums, self.counts, self.candidates, self.brackets, self.words, self.active, n, **sizes
            )

    def launch_select(self, width: int) -> None:
        kernels, graph = self._kernels, self._graph
        n, R = kernels.problem.n_vertices, kernels.problem.n_clusters
        medians.select[(R, width)](
            self.variations, self.sums, self.counts, self.candidates, self.candidate_masses, self.brackets,
            self.columns, self.words, self.active, graph["lam"], graph["bar"], self.shared, n,
            G_VARY=kernels.n_varying, G=kernels.n_surveyors, R=R, WIDTH=tables.SUM_WIDTH.value,
            HAS_MASSES=kernels.has_masses, num_warps=_SELECT_WARPS,
        )  # fmt: skip

    def launch_measure(self, width: int) -> None:
        if self._side is None:
            self.launch_survey(width)
            self.launch_vary(width)
        else:  # side by side: neither fills the GPU when starts are few
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
        decisions.decide[(width,)](
            self.columns, self.words, self.reals, self.steps, self.history, self.active, self._graph["lam"],
            self.shared, n, *self._limits, G=kernels.n_varying, R=R, RP=kernels.RP, HAS_MASSES=kernels.has_masses,
            num_warps=1,
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
        for misses in range(tables.MOST_MISSES.value):
            self.set_words({tables.PHASE: tables.LOOK_AGAIN.value, tables.MISSES: misses})
            self.launch_measure(len(self))
            if bool((self.columns[:, tables.FOUND.value] > 0).all()):
                return
        self.columns[:, tables.T.value] = float("nan")  # F is not finite

    # ------------------------------------------------------------ the run

    def run(self) -> Iterator[list[Look]]:
        """Rounds until every start is done; after every few, where each of them stands. The GPU goes on meanwhile."""
        running, replays = len(self), 1
        self._advance(self._width(running), replays)
        began = time.perf_counter()
        while running:
            self._send()
            self._advance(self._width(running), replays)
            looks = self._receive()
            pace = (time.perf_counter() - began) / replays
            began = time.perf_counter()
            replays = max(1, min(_MOST_REPLAYS, int(_LOOK_EVERY / pace)))
            running = self._compact([number for number, one in enumerate(looks) if not one.ending])
            yield looks

    def _width(self, running: int) -> int:
        """Places to launch for while so many starts run."""
        return _width(len(self) if self.best_F.numel() <= _FEW_VALUES else running)

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
        chosen = (tables.ITERATIONS, tables.OUTER)
        energies = (tables.ENERGY, tables.BEST, tables.RELAXED)
        return [
            Look(
                Ending(int(word[tables.STATUS.value])),
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

    def best(self, s: int) -> tuple[Partition, Callable[[], FloatArray]]:
        """The best partition of start s, and what fetches the F that it was read from."""
        kernels, problem = self._kernels, self._kernels.problem
        labels = kernels.in_graph_order(self.best_labels[s]).astype(np.int64)
        F = _fetching(self.best_F[s], self._graph["order"], torch.float64)
        has_begun = int(self.words[s, tables.OUTER.value]) >= 0
        if kernels.is_weighted or not has_begun:  # the GPU's weights are rounded, or nothing is measured yet
            return problem.partition(labels), F
        cut = self.columns[s, tables.BEST_CUT.value].cpu().numpy()
        return problem.measured(labels, cut * kernels.weight_unit), F

    def last(self, s: int) -> Callable[[], RealArray]:
        """What fetches the F that start s has come to."""
        words = self.words[s].tolist()
        # Where an outer step has begun and none of its iterations is done, F is still F^k.
        is_between = words[tables.STATUS.value] == Ending.RUNNING and words[tables.INNER.value] == 0
        slot = words[tables.SLOT_K.value if is_between else tables.SLOT.value]
        return _fetching(self.X[s, slot], self._graph["order"], torch.float32)

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


def _fetching(F: torch.Tensor, order: torch.Tensor, dtype: torch.dtype) -> Callable[[], Any]:
    """What brings an F to the host, in the order of the graph. It keeps a copy of that F alone on the GPU."""
    kept = F.clone()

    def fetch() -> Any:
        rows = torch.empty(kept.shape, dtype=dtype, device=kept.device)
        rows[order] = kept.to(dtype)  # widened there: memory that is new to the host is slow
        return rows.cpu().numpy()

    return fetch


def _width(running: int) -> int:
    """Places to launch for: a few sizes, so that few graphs are captured."""
    return int(triton.next_power_of_2(running))
