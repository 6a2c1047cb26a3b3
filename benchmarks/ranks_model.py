"""A paper model of Algorithm 1 over many GPUs: the time of an iteration, what of it is lost on the wire, and the memory
of each GPU. What one GPU takes comes from the recorded runs of docs/results/gpu.jsonl, the halo from a graph that was
divided; the links and their latencies are assumed. Nobody has run any of it, and it runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tautcut.records import RunRecord

CASES = ((10**8, 8, 10), (10**8, 64, 100), (10**9, 8, 10), (10**9, 64, 10), (10**9, 64, 100))  # vertices, GPUs, R
DEGREE = 15.0  # directed edges of a vertex: 10 nearest neighbours, made symmetric
DIMENSIONS = 10  # of the points; the halo's share shrinks with the number of points to the power of -1 / DIMENSIONS
OF_VALUE = 4  # bytes: float32, the duals too
HALO_PLANES = 3  # rows that are kept for a ghost: F, the one before, and what arrives
GATHERS = 2.5  # of an iteration
CANDIDATES, SUMS = 8192, 16  # numbers of 8 bytes that a GPU tells at a gather: for all medians, and for each column
INDEX_LIMIT = 2**31  # entries that 32 bits can count


@dataclass(frozen=True)
class Links:
    """What is assumed of the machines: bytes per second and GPU, seconds, bytes."""

    copy: float = 4.2e12  # a GPU's own memory
    nvlink: float = 450e9
    infiniband: float = 50e9
    gather_in_node: float = 20e-6  # the latency of a gather
    gather_between_nodes: float = 40e-6
    gpus_of_node: int = 8
    room: float = 141e9  # of a GPU's memory


@dataclass(frozen=True)
class Shares:
    """The halo of a divided graph as shares of its vertices: ghosts inside a node, between nodes, between nodes where a
    row goes to each node once, and the vertices with a neighbour in another part.
    """

    n_vertices: int
    inside: float
    between: float
    between_once: float
    boundary: float

    def at(self, n_vertices: int) -> Shares:
        """The same division of a larger graph of its kind."""
        factor = (n_vertices / self.n_vertices) ** (-1 / DIMENSIONS)
        ghosts = (factor * one for one in (self.inside, self.between, self.between_once))
        # Many a vertex is the ghost of several parts: the logarithm of the others' share is what shrinks.
        return Shares(n_vertices, *ghosts, 1 - (1 - self.boundary) ** factor)

    def times(self, factor: float) -> Shares:
        """So many times the ghosts, and the same boundary: those of a part that has more than the mean."""
        return Shares(
            self.n_vertices, factor * self.inside, factor * self.between, factor * self.between_once, self.boundary
        )  # fmt: skip


@dataclass(frozen=True)
class OneGpu:
    """What one GPU was seen to take: seconds for each directed edge, column and iteration by R, and bytes for each
    vertex, and for each vertex and column.
    """

    seconds: dict[int, float]
    of_vertex: float
    of_column: float

    @classmethod
    def recorded(cls, records: Sequence[RunRecord]) -> OneGpu:
        """From the growth of gpu.jsonl: the largest graph for each R; the bytes from the two R of the largest graph."""
        grown = sorted((dict(one.measures) for one in records if one.method == "growth"), key=lambda m: m["vertices"])
        seconds = {int(m["clusters"]): 1e-12 * m["ps per edge, cluster and iteration"] for m in grown}
        largest = {int(m["clusters"]): 1e9 * m["peak GB"] / m["vertices"] for m in grown if m["vertices"] == 1e7}
        (few, at_few), (many, at_many) = min(largest.items()), max(largest.items())
        slope = (at_many - at_few) / (many - few)
        return cls(seconds, at_few - slope * few, slope)

    def rate(self, R: int) -> float:
        """Seconds for each directed edge and column, of the nearest R that was run."""
        return self.seconds[min(self.seconds, key=lambda one: abs(one - R))]


@dataclass(frozen=True)
class Estimate:
    """What the model says of one case; seconds, and bytes of one GPU."""

    n_vertices: int
    n_gpus: int
    n_clusters: int
    moved: float  # bytes of the GPU's own memory in an iteration, at the least
    flops: float
    floor: float  # seconds that moving them takes
    compute: float
    plain: float  # seconds of an exchange
    once: float  # where a row goes to each node once
    hidden: float  # what of that can go on beside the interior's work
    gathers: float
    held: float  # bytes
    has_long_offsets: bool

    @property
    def efficiencies(self) -> tuple[float, float, float]:
        """The share of the time that is compute: plain, each row once per node, and overlapped too."""
        exposed = (self.plain, self.once, max(self.once - self.hidden, 0.0))
        plain, once, overlapped = (self.compute / (self.compute + self.gathers + one) for one in exposed)
        return plain, once, overlapped


def estimate(
    n_vertices: int, n_gpus: int, n_clusters: int, *, gpu: OneGpu, shares: Shares, links: Links | None = None
) -> Estimate:
    """One case; `shares` are of the division into as many parts, of whatever graph of this kind."""
    links, R, halo = links or Links(), n_clusters, shares.at(n_vertices)
    own, row = n_vertices / n_gpus, OF_VALUE * R
    edges, has_one_node = own * DEGREE, n_gpus <= links.gpus_of_node
    # The duals are read and written, F of a neighbour and the index read; five arrays of F's shape for the vertices.
    moved = edges * (3 * row + 4) + own * 5 * row
    flops = R * (8 * edges + 24 * own)
    compute = gpu.rate(R) * edges * R
    plain = own * row * (halo.inside / links.nvlink + halo.between / links.infiniband)
    handed_on = (halo.inside + halo.between) / links.nvlink  # inside the node every GPU gets its own copy
    once = own * row * (handed_on + halo.between_once / links.infiniband)
    told = 8 * n_gpus * (CANDIDATES + SUMS * R)
    latency, wire = (
        (links.gather_in_node, links.nvlink) if has_one_node else (links.gather_between_nodes, links.infiniband)
    )
    of_ghosts = (halo.inside + halo.between) * HALO_PLANES * row
    return Estimate(
        n_vertices, n_gpus, R, moved, flops, moved / links.copy, compute, plain, once,
        (1 - halo.boundary) * compute, GATHERS * (latency + told / wire),
        own * (gpu.of_vertex + gpu.of_column * R + of_ghosts), own * DEGREE * R >= INDEX_LIMIT,
    )  # fmt: skip


def flat_efficiency(case: Estimate, ghosts: float, worst: float, links: Links | None = None) -> float:
    """The share of the time that is compute where parts know nothing of nodes and every row goes over InfiniBand.

    `ghosts` is the share at this size, `worst` how many times the mean the largest part has: the others wait for it.
    """
    links = links or Links()
    exchange = case.n_vertices / case.n_gpus * OF_VALUE * case.n_clusters * ghosts * worst / links.infiniband
    return case.compute / (case.compute + exchange + case.gathers)


def cells(case: Estimate, links: Links | None = None) -> list[str]:
    """A row of the table."""
    room = (links or Links()).room
    remarks = []
    if case.held > room:
        half = case.held - case.n_vertices / case.n_gpus * DEGREE * 2 * case.n_clusters
        remarks.append(f"more than a GPU has; {half / 1e9:.0f} with duals in float16")
    if case.has_long_offsets:
        remarks.append("64-bit offsets")
    return [
        f"{case.n_vertices:.0e}".replace("e+0", "e"), str(case.n_gpus), str(case.n_clusters),
        f"{case.moved / 1e9:,.0f}", f"{case.flops / 1e9:,.0f}", f"{1e3 * case.floor:,.1f}",
        f"{1e3 * case.compute:,.0f}",
        " / ".join(f"{one:.0%}" for one in case.efficiencies), f"{case.held / 1e9:,.0f}", "; ".join(remarks),
    ]  # fmt: skip


HEAD = [
    "vertices", "GPUs", "R", "GB moved", "Gflop", "ms to move them", "compute, ms",
    "parallel efficiency: plain / each row once per node / overlapped", "GB per GPU", "remark",
]  # fmt: skip
