"""Parts of a graph on a GPU, whose rows are handed over by hand: against the reference on the whole graph, against
NumPy, and against the processor's pieces where Numba is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from gpu_or_interpreter import DEVICE, HAS_GPU, assert_close, let_cuda_pass, masses_of, random_starts, torch
from tautcut.errors import InputError, NotEnoughMemoryError
from tautcut.graph import Graph
from tautcut.graph.shard import Shard, shards_of
from tautcut.kernels.gpu import layout as layout_module
from tautcut.kernels.gpu import piece as piece_module
from tautcut.kernels.gpu.piece import GpuPiece, GpuPieceArrays, bytes_of_gpu_piece
from tautcut.kernels.protocol import StepSizes
from tautcut.kernels.reference import ReferenceArrays, ReferenceKernels
from tautcut.kernels.tally import (
    CUT,
    HIGH,
    LOW,
    MASS_ABOVE,
    MASS_ONE,
    MASS_POSITIVE,
    N_BINS,
    STEP,
    SUM,
    SUM_ABOVE,
    VARIATION,
)
from tautcut.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Triton's interpreter

N = 60
N_PARTS = 4
EMPTY = 2  # a part that owns nothing
APART = 3  # one that has no neighbours elsewhere
ROOM = 8
SMALL = {"LONG_ROW": 6, "HUB_ROW": 14, "PIECE": 8}  # so that short rows, long rows and hubs all occur
LANES = 4  # where rows are that short


@dataclass(frozen=True)
class Case:
    """What parts are tried with; `wide_from` is where offsets begin to have 64 bits, in values of F."""

    R: int
    is_weighted: bool = False
    masses: str | None = None
    n_labelled: int = 0
    has_hubs: bool = False
    wide_from: int = 2**31
    has_half_duals: bool = False
    n_outer: int = 2

    def set_sizes(self, patch: pytest.MonkeyPatch) -> None:
        if self.has_hubs:
            for name, value in SMALL.items():
                patch.setattr(layout_module, name, value)
            patch.setattr(piece_module, "lanes_of", lambda columns: LANES)
        patch.setattr(piece_module, "_NARROW", self.wide_from)


CASES = {
    "two clusters": Case(2),
    "all at once": Case(3, True, "wide", n_labelled=6, has_hubs=True, wide_from=1),
    "many clusters": Case(40, masses="few", n_outer=1),  # after it, some columns are constant
    "half duals": Case(3, True, n_labelled=3, has_half_duals=True),
}


def problem_of(case: Case) -> tuple[Problem, np.ndarray]:
    """A band of vertices in two parts, one of which knows many of both; a ring that is a part of its own, with two
    vertices that know nobody; numbered at random. And the part of each vertex.
    """
    rng = np.random.default_rng(5)
    band = [(i, j) for i in range(48) for j in range(i + 1, min(i + 4, 48))]
    spokes = [(5, j) for j in range(9, 36)]
    ring = [(48 + i, 48 + (i + 1) % 10) for i in range(10)]
    number = rng.permutation(N)
    edges = np.unique(np.sort(number[np.array(band + spokes + ring)], axis=1), axis=0)
    graph = Graph.from_edges(edges, rng.uniform(0.2, 3.0, len(edges)) if case.is_weighted else None, n_vertices=N)
    graph = graph if case.masses is None else graph.with_masses(masses_of(case.masses, N))
    parts = np.empty(N, dtype=np.int64)
    parts[number] = np.repeat([0, 1, APART], [20, 28, 12])
    labels = np.full(N, -1)
    labels[number[: case.n_labelled]] = np.arange(case.n_labelled) % case.R
    return Problem(graph, case.R, rng.uniform(0.5, 2 * case.R, case.R), labels), parts


@dataclass
class Run:
    """All parts and the reference, after the same iterations from the same numbers."""

    case: Case
    problem: Problem
    shards: list[Shard]
    pieces: list[GpuPiece]
    arrays: list[GpuPieceArrays]
    reference: ReferenceKernels
    theirs: ReferenceArrays

    def gathered(self, of_parts: list[np.ndarray]) -> np.ndarray:
        """What the parts have of their own vertices, in the order of the graph."""
        whole = np.empty((N, *of_parts[0].shape[1:]), of_parts[0].dtype)
        for shard, own in zip(self.shards, of_parts, strict=True):
            whole[shard.vertices] = own
        return whole

    def local(self, k: int, tensor: torch.Tensor) -> np.ndarray:
        """A tensor over the rows of part k as an array over its vertices and ghosts."""
        ordered = torch.empty_like(tensor)
        ordered[self.pieces[k]._order] = tensor
        return ordered.cpu().numpy()

    def hand_over(self) -> None:
        for a, ours in enumerate(self.pieces):
            for b, theirs in enumerate(self.pieces):
                ghosts = slice(*self.shards[a].ghost_ptr[b : b + 2].tolist())
                ours.incoming[ghosts] = theirs.outgoing[slice(*self.shards[b].sent_ptr[a : a + 2].tolist())]

    def iterate(self, scale: np.ndarray, steps: StepSizes) -> None:
        both = list(zip(self.pieces, self.arrays, strict=True))
        for piece, arrays in both:
            piece.iterate_boundary(arrays, scale, steps)
        self.hand_over()
        for piece, arrays in both:
            piece.iterate_interior(arrays)
            piece.arrive(arrays)
        self.reference.iterate(self.theirs, scale, steps)


def started(case: Case) -> Run:
    problem, parts = problem_of(case)
    shards = list(shards_of(problem.graph, parts, N_PARTS))
    F = random_starts(problem, 1)[0]
    reference = ReferenceKernels(problem)
    pieces = [
        GpuPiece(
            shard, problem.lam, problem.is_labelled[shard.vertices], has_half_duals=case.has_half_duals,
            is_through_host=k == 1, device=DEVICE,
        )
        for k, shard in enumerate(shards)
    ]  # fmt: skip
    arrays = [
        piece.allocate(F[np.concatenate([one.vertices, one.ghosts])]) for piece, one in zip(pieces, shards, strict=True)
    ]
    return Run(case, problem, shards, pieces, arrays, reference, reference.allocate(F))


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def iterated(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Two iterations of each outer step, which the reference begins with what the parts have come to."""
    case = request.param
    with pytest.MonkeyPatch.context() as patch:
        case.set_sizes(patch)
        run = started(case)
        tau = 1 / run.reference.lipschitz
        for _ in range(case.n_outer):
            run.theirs.F = run.gathered(own_rows(run)).astype(np.float64)
            before = run.reference.measure(run.theirs)
            delta = float(before.B.max())
            scale = delta / before.B
            sigma = 1 / (tau * (scale.max() * run.reference.lipschitz) ** 2)
            for piece, arrays in zip(run.pieces, run.arrays, strict=True):
                piece.linearise(arrays, before, delta)
            run.reference.linearise(run.theirs, before, delta)
            for _ in range(2):
                theta = 1 / np.sqrt(1 + 2 * tau)
                run.iterate(scale, StepSizes(tau, sigma, theta))
                tau, sigma = theta * tau, sigma / theta
        yield run


def own_rows(run: Run, *, previous: bool = False) -> list[np.ndarray]:
    return [p.rows(a, previous=previous) for p, a in zip(run.pieces, run.arrays, strict=True)]


def test_the_cases_are_what_they_say(iterated: Run):
    sizes = [(one.n_own, one.n_boundary, one.ghosts.size) for one in iterated.shards]
    assert sizes[EMPTY] == (0, 0, 0)
    assert sizes[APART] == (12, 0, 0)
    assert all(0 < n_boundary < n_own for n_own, n_boundary, _ in sizes[:2])
    layouts = [rows.layout for rows in iterated.pieces[0]._rows]
    if iterated.case.has_hubs:
        assert layouts[0].n_pieces > layouts[0].n_hubs > 0
        assert all(0 < one.n_short < one.order.numel() - one.n_hubs for one in layouts[1:])


def test_memberships_are_the_reference(iterated: Run):
    F = iterated.gathered(own_rows(iterated)).astype(np.float64)
    if iterated.case.has_half_duals:
        assert np.abs(F - iterated.theirs.F).max() < 5e-3
    else:
        assert_close("F", F, iterated.theirs.F)
    assert np.array_equal(iterated.gathered(own_rows(iterated, previous=True)), iterated.theirs.F_k)
    assert np.array_equal(F[iterated.problem.is_labelled], iterated.theirs.F[iterated.problem.is_labelled])
    labels = iterated.gathered([p.labels(a) for p, a in zip(iterated.pieces, iterated.arrays, strict=True)])
    assert np.array_equal(labels, F.argmax(axis=1))


def test_ghosts_have_their_owners_bits(iterated: Run):
    """F, F^k, F̄ and the argmax, in every plane that will be read."""
    of_parts = []
    for k, arrays in enumerate(iterated.arrays):
        planes = [arrays.F, arrays.F_k, arrays.X[2 + arrays.bar], arrays.labels[:, None].float()]
        of_parts.append(np.concatenate([iterated.local(k, one) for one in planes], axis=1))
    owned = iterated.gathered([all_[: one.n_own] for all_, one in zip(of_parts, iterated.shards, strict=True)])
    for all_, shard in zip(of_parts, iterated.shards, strict=True):
        assert np.array_equal(all_[shard.n_own :], owned[shard.ghosts])


def test_both_ends_of_an_edge_have_its_dual(iterated: Run):
    P = np.zeros((N, N, iterated.case.R))
    seen = np.zeros((N, N), dtype=np.int64)
    for piece, arrays, shard in zip(iterated.pieces, iterated.arrays, iterated.shards, strict=True):
        numbers = np.concatenate([shard.vertices, shard.ghosts])[piece._order.cpu().numpy()]
        for rows, duals in zip(piece._rows, arrays.P, strict=True):
            row, end = ends_of_slots(rows.layout)
            is_edge = row != end
            where = numbers[row[is_edge] + rows.first], numbers[end[is_edge] + rows.first]
            P[where] = duals.cpu().numpy()[is_edge]
            np.add.at(seen, where, 1)
    assert np.array_equal(seen, (iterated.problem.graph.to_scipy().toarray() > 0).astype(np.int64))
    assert np.abs(P).max() > 0
    assert np.array_equal(P, -P.transpose(1, 0, 2))


def ends_of_slots(layout: layout_module.Layout) -> tuple[np.ndarray, np.ndarray]:
    """The rows at both ends of each slot, counted from the first of the layout."""
    short = np.minimum(np.arange(layout.n_short_blocks * layout.lanes), max(layout.n_short - 1, 0))
    long = np.repeat(layout.owners.cpu().numpy()[layout.n_short_blocks :, None], layout.lanes, axis=1)
    rows = np.concatenate([short.reshape(-1, layout.lanes), long])
    steps = np.diff(layout.offsets.cpu().numpy())
    return np.repeat(rows, steps, axis=0).ravel(), layout.neighbors.cpu().numpy()


def test_sums_over_all_parts_are_the_reference(iterated: Run):
    tallies = [p.tally(a, ROOM) for p, a in zip(iterated.pieces, iterated.arrays, strict=True)]
    totals = np.sum([one.totals for one in tallies], axis=0)
    F = iterated.gathered(own_rows(iterated)).astype(np.float64)
    there, F_k = iterated.reference.allocate(F), iterated.gathered(own_rows(iterated, previous=True))
    there.F_k = F_k.astype(np.float64)
    expected = iterated.reference.measure(there)
    assert_close("T", totals[VARIATION], expected.T)
    assert_close("squared_step", totals[STEP].sum(), expected.squared_step)
    _, cut = iterated.reference.harden(there)
    assert_close("cut", totals[CUT] * iterated.reference.weight_unit, cut)
    masses, _ = iterated.problem.graph.scaled_masses()
    assert np.allclose(totals[SUM], masses @ F, rtol=1e-12)


def test_a_tally_is_what_numpy_counts(iterated: Run):
    """In an empty bracket, around every median, and in one that holds nearly all; and the same bits twice."""
    median = iterated.reference.measure(iterated.theirs).median
    nobody = np.zeros(median.size, dtype=np.bool_)
    for piece, arrays, shard in zip(iterated.pieces, iterated.arrays, iterated.shards, strict=True):
        F, moved = piece.rows(arrays), piece.rows(arrays) - piece.rows(arrays, previous=True)
        masses = shard.masses / shard.whole.mass_unit
        arrays.bracket = type(arrays.bracket).empty(median.size, median.size, np.dtype(np.float32))
        for look, room in enumerate((ROOM, ROOM, 2)):
            if look == 1:
                piece.move_bracket(arrays, median, ~nobody, nobody, nobody)
            elif look == 2:
                arrays.bracket.ends[LOW], arrays.bracket.ends[HIGH] = 0.0, 0.9
            low, high = arrays.bracket.ends[LOW], arrays.bracket.ends[HIGH]
            found = piece.tally(arrays, room)
            for row, values in {
                SUM: F, STEP: None, SUM_ABOVE: np.where(high < F, F, 0), MASS_ABOVE: high < F, MASS_POSITIVE: F > 0,
                MASS_ONE: F >= 1,
            }.items():  # fmt: skip
                expected = (moved.astype(np.float64) ** 2).sum(axis=0) if values is None else masses @ values
                assert np.allclose(found.totals[row], expected, rtol=1e-6 if values is None else 1e-12), row
            is_inside = (low < F) & (high >= F)
            counts = is_inside.sum(axis=0)
            assert np.array_equal(found.n_candidates, np.minimum(counts, room + 1))
            for r in range(median.size):
                candidates = sorted(zip(F[is_inside[:, r], r], masses[is_inside[:, r]], strict=True))
                kept = len(candidates) if len(candidates) <= room else 0
                given = found.candidate_masses[r] if found.candidate_masses.size else (found.candidates[r] > 0) * 1.0
                told = sorted(zip(found.candidates[r][:kept], given[:kept], strict=True))
                assert told == candidates[:kept]
                assert not found.candidates[r][kept:].any()
        again = piece.tally(arrays, room)
        assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_how_values_are_spread(iterated: Run):
    """From the least number above 0 up to 1; one value alone, with all its ties; and nothing at all. And the values
    themselves, where they are few.
    """
    columns = np.array([iterated.case.R - 1, 0, 1])
    for piece, arrays, shard in zip(iterated.pieces, iterated.arrays, iterated.shards, strict=True):
        F, masses = piece.rows(arrays), shard.masses / shard.whole.mass_unit
        bits = F.view(np.int32).astype(np.int64)
        one = int(bits.max(initial=0, where=bits < piece.bits_of_one))
        low, high = np.array([1, one, 5]), np.array([piece.bits_of_one, one, 4])
        found = piece.spread(arrays, columns, low, high)
        expected = np.zeros((3, N_BINS, 3))
        for k, r in enumerate(columns):
            width = max((high[k] - low[k]) // N_BINS + 1, 1)
            for b in range(N_BINS):
                first = low[k] + b * width
                is_here = (bits[:, r] >= first) & (bits[:, r] < first + width) & (bits[:, r] <= high[k])
                expected[k, b] = masses[is_here].sum(), masses[is_here] @ F[is_here, r], is_here.sum()
        assert np.allclose(found, expected, rtol=1e-12, atol=0)
        low[0] = np.sort(bits[:, columns[0]])[-ROOM] if len(bits) else 0  # the largest, if they are not tied
        told = piece.between(arrays, columns, low, high, ROOM)
        for k, r in enumerate(columns):
            is_inside = (bits[:, r] >= low[k]) & (bits[:, r] <= high[k])
            assert told[k, 0] == is_inside.sum()
            if is_inside.sum() <= ROOM:
                inside = sorted(zip(F[is_inside, r], masses[is_inside], strict=True))
                given = told[k, 1 : 1 + len(inside)], told[k, 1 + ROOM : 1 + ROOM + len(inside)]
                assert sorted(zip(*given, strict=True)) == inside


def test_bits_and_numbers(iterated: Run):
    piece, arrays = iterated.pieces[0], iterated.arrays[0]
    assert piece.values_of_bits(np.array([piece.bits_of_one, 0]))[0] == 1.0
    high = arrays.bracket.ends[HIGH]
    assert np.array_equal(piece.values_of_bits(piece.high_bits(arrays)), high.astype(np.float64))


def test_it_takes_the_memory_that_was_foreseen(iterated: Run, monkeypatch: pytest.MonkeyPatch):
    """But for tables of a few numbers, and the room in which F is filled in and tallies are made."""
    iterated.case.set_sizes(monkeypatch)
    monkeypatch.setattr(piece_module, "BYTES_OF_LAYOUT", 0)
    R = iterated.case.R
    for piece, arrays, shard in zip(iterated.pieces, iterated.arrays, iterated.shards, strict=True):
        taken = {}
        for holder in (piece, arrays, *piece._rows, *(one.layout for one in piece._rows)):
            for value in vars(holder).values():
                for one in value if isinstance(value, tuple) else [value]:
                    if isinstance(one, torch.Tensor) and one.numel() and one.device.type == piece.device.type:
                        taken[one.data_ptr()] = one.nbytes
        foreseen = bytes_of_gpu_piece(shard, R, has_half_duals=iterated.case.has_half_duals)
        small = 8 * (40 + 16 * R) + 16 * 8  # the tables, and hubs
        assert sum(taken.values()) <= foreseen + small
        assert foreseen <= 1.6 * sum(taken.values()) + 64 * R + small


def test_pieces_of_the_processor_count_the_same(iterated: Run):
    if not iterated.case.has_hubs:
        pytest.skip("compiling takes seconds for every number of clusters")
    pytest.importorskip("numba")
    from tautcut.kernels.ranks.piece import CpuPiece

    problem = iterated.problem
    for shard, piece, arrays in zip(iterated.shards, iterated.pieces, iterated.arrays, strict=True):
        whole = np.concatenate([shard.vertices, shard.ghosts])
        F = iterated.gathered(own_rows(iterated)).astype(np.float64)[whole]
        cpu = CpuPiece(shard, problem.lam, problem.is_labelled[shard.vertices], dtype=np.dtype(np.float32))
        theirs = cpu.allocate(F)
        for one in (arrays, theirs):
            one.bracket.ends[LOW, : problem.n_clusters], one.bracket.ends[HIGH, : problem.n_clusters] = 0.25, 0.3
        ours, expected = piece.tally(arrays, ROOM), cpu.tally(theirs, ROOM)
        others = [row for row in range(len(ours.totals)) if row != STEP]  # theirs has not moved
        assert np.allclose(ours.totals[others], expected.totals[others], rtol=1e-5, atol=1e-6)
        fits = ours.n_candidates <= ROOM
        assert np.array_equal(ours.n_candidates[fits], expected.n_candidates[fits])
        assert np.array_equal(fits, expected.n_candidates <= ROOM)
        assert np.array_equal(np.sort(ours.candidates[fits], axis=1), np.sort(expected.candidates[fits], axis=1))
        high, columns = np.full(2, piece.bits_of_one), np.array([0, 1])
        low = np.ones(2, dtype=np.int64)
        assert np.allclose(piece.spread(arrays, columns, low, high), cpu.spread(theirs, columns, low, high))


def test_one_rank_measures_what_the_reference_does():
    """The medians too, of which the first look knows nothing, and which have to be narrowed down."""
    pytest.importorskip("numba")
    import torch.distributed as dist

    from tautcut.kernels.ranks.engine import RankKernels
    from tautcut.kernels.ranks.halo import Halo
    from tautcut.kernels.ranks.world import World

    problem, _ = problem_of(CASES["all at once"])
    (shard,) = shards_of(problem.graph, np.zeros(N, dtype=np.int64), 1)
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        halo = Halo(shard, World(store, 0, 1, timeout=10.0, device="cpu"))
        piece = GpuPiece(shard, problem.lam, problem.is_labelled[shard.vertices], device=DEVICE)
        kernels, reference = RankKernels(piece, halo, problem.lam, problem.median_mass), ReferenceKernels(problem)
        F = random_starts(problem, 1)[0]
        ours = kernels.allocate(F[shard.vertices])
        for _ in range(3):
            found, expected = kernels.measure(ours), reference.measure(reference.allocate(F))
            for name in ("T", "B", "median", "tie"):
                assert_close(name, getattr(found, name), getattr(expected, name))
            delta, tau = float(found.B.max()), 1 / reference.lipschitz
            scale = delta / found.B
            kernels.linearise(ours, found, delta)
            sigma = 1 / (tau * (scale.max() * reference.lipschitz) ** 2)
            kernels.iterate(ours, scale, StepSizes(tau, sigma, 1 / np.sqrt(1 + 2 * tau)))
            F = np.empty(F.shape)
            F[shard.vertices] = kernels.memberships(ours)
    finally:
        dist.destroy_process_group()


class OfWorld:
    """What `piece_for` asks of the ranks: where rows go."""

    def __init__(self, device: str) -> None:
        self.device = device


def test_the_piece_of_a_device(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("numba")
    from tautcut.kernels.ranks.piece import CpuPiece, piece_for

    problem, parts = problem_of(Case(2))
    shard = next(iter(shards_of(problem.graph, parts, N_PARTS)))
    given = shard, problem.lam, problem.is_labelled[shard.vertices]
    assert isinstance(piece_for(*given, device="cpu", dtype="mixed", world=OfWorld("cpu")), CpuPiece)
    with pytest.raises(InputError, match="computes in float32; found dtype='float64'"):
        piece_for(*given, device="cuda", dtype="float64", world=OfWorld("cuda"))
    with pytest.raises(InputError, match="device must be"):
        piece_for(*given, device="reference", dtype="float32", world=OfWorld("cpu"))
    let_cuda_pass(monkeypatch)
    for device in ("cpu", "cuda"):
        piece = piece_for(*given, device="cuda", dtype="float32", world=OfWorld(device))
        assert isinstance(piece, GpuPiece)
        assert piece.outgoing.shape == (shard.sent.size, 2)
        assert piece.outgoing.device.type == (device if HAS_GPU else "cpu")
        assert piece.incoming.shape == (shard.ghosts.size, 2)


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch):
    problem, parts = problem_of(Case(2))
    shard = next(iter(shards_of(problem.graph, parts, N_PARTS)))
    fixed = problem.is_labelled[shard.vertices]
    with pytest.raises(InputError, match="up to 1024 clusters; found 1025"):
        GpuPiece(shard, np.ones(1025), fixed, device=DEVICE)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    for free, whole, n_sharing in ((1 << 10, 1 << 40, 1), (1 << 40, 1 << 40, 1 << 30)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, both=(free, whole): both)
        with pytest.raises(NotEnoughMemoryError, match=r"Part 0 with 2 clusters on a GPU would take .* more parts"):
            GpuPiece(shard, problem.lam, fixed, device="cuda", n_sharing=n_sharing)
