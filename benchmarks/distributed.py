"""Runs over several ranks on one machine, as users start them: strong and weak scaling with the shares of the wire and
of waiting, the halo of divided graphs, the memory of each rank, and the answers beside those of one machine. Each part
is run alone by --only; records go to docs/results/distributed.jsonl, and the page beside it is written from whatever is
there, with the paper model of `ranks_model.py`. Graphs are kept under build/graphs, parts under build/shards. A run
that the file already holds, for this code, is not repeated.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/distributed.py --only strong [--sizes 100000]
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import graphs
import numpy as np
import ranks_model
import scale
from run import FAILED, commit_of_code, run_apart, surroundings

from tautcut import Graph, MTVClustering, knn_graph, memory
from tautcut.algorithm.stopping import Status
from tautcut.ranks.files import ShardedGraph
from tautcut.ranks.parts import divided
from tautcut.ranks.rows import Rows
from tautcut.ranks.sharding import Hierarchy, shard_graph
from tautcut.records import RunRecord, append_record, read_records

SHARDS = graphs.ROOT / "build" / "shards"
PARTS = ("strong", "weak", "halo", "memory", "answers", "model")
RANKS = (1, 2, 4)
MORE_RANKS = (1, 2, 4, 8)  # of small parts, whose memory is looked at
SIZES = {"strong": (100_000, 1_000_000), "halo": (100_000, 1_000_000), "answers": (1_000_000,)}
PER_RANK = {"weak": 250_000, "memory": 50_000}  # points
MNIST = "mnist (authors' graph)"
NAMED = {
    "strong": (MNIST,), "halo": (MNIST,), "answers": (MNIST, "mnist raw 10-NN", "pendigits 10-NN", "20news"),
}  # fmt: skip
DIVISIONS: tuple[Hierarchy, ...] = ((2,), (4,), (8,), (16,), (64,), (8, 8))
SEEDS_OF_ANSWERS = 3  # of graphs up to SEVERAL_UP_TO vertices, one of others
SEVERAL_UP_TO = 200_000
REPEATS = 3  # of a run of up to SHORT seconds, whose median is told
SHORT = 120.0
WARM_UP = 5_000  # points of the run before, which compiles the kernels and shows what an idle rank takes


@dataclass(frozen=True)
class Subject:
    """A graph to be divided, and into how many clusters it is cut."""

    name: str
    n_clusters: int
    graph: Callable[[], Graph]

    def shards(self, hierarchy: Hierarchy) -> ShardedGraph:
        """Its parts on disk, made if they are not there."""
        slug = "".join(letter if letter.isalnum() else "-" for letter in self.name)
        path = SHARDS / f"{slug}-{_told(hierarchy)}.shards"
        if not path.is_dir():
            SHARDS.mkdir(parents=True, exist_ok=True)
            shard_graph(self.graph(), hierarchy, path, rng=np.random.default_rng(0))
        return ShardedGraph.open(path)


def mixture(n: int) -> Subject:
    return Subject(f"mixture, {n:,} points", scale.R, partial(_mixture_graph, n))


def named(name: str) -> Subject:
    data = graphs.load(name)
    return Subject(name, data.n_clusters, lambda: Graph.from_any(data.W))


def _mixture_graph(n: int) -> Graph:
    def build() -> Any:
        return knn_graph(scale.mixture(n, 0)[0], scale.NEIGHBORS, random_state=0).to_scipy()

    return Graph.from_any(graphs.cached(f"mixture-{n}-{scale.NEIGHBORS}", build))


def _told(hierarchy: Hierarchy) -> str:
    return "x".join(map(str, hierarchy))


class Bench:
    """The runs that are asked for, and the file that their records go to."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.commit = options.commit or commit_of_code()
        self._done: set[tuple[Any, ...]] = set()
        if options.out.is_file() and not options.fresh:
            self._done = {(one.data, one.method, one.seed, one.commit, *_how(one)) for one in read_records(options.out)}
        self._bare: dict[tuple[int, int], float] = {}  # GB of an idle rank, by R and the number of ranks

    def is_done(self, subject: Subject, method: str, seed: int = 0) -> bool:
        how = f"{self.options.threads}", self.options.device
        return (subject.name, method, seed, self.commit, *how) in self._done

    def write(self, subject: Subject, method: str, seed: int = 0, **outcome: Any) -> None:
        blank = {**FAILED, "seconds": 0.0, "status": "Done."}
        settings = {
            "n_clusters": subject.n_clusters, "threads": self.options.threads, "device": self.options.device,
        }  # fmt: skip
        record = RunRecord(
            data=subject.name, method=method, settings=settings, seed=seed, n_labelled=0, **{**blank, **outcome},
            **surroundings({"torch"}, self.commit),
        )  # fmt: skip
        append_record(self.options.out, record)
        print(f"{record.data}, {method}: {record.measures} {record.status}", flush=True)

    # ------------------------------------------------------------ the parts

    def strong(self) -> None:
        """One graph over more and more ranks."""
        for subject in self._subjects("strong"):
            for n_ranks in self.options.ranks or RANKS:
                self._timed(subject, "strong", n_ranks)

    def weak(self) -> None:
        """More ranks for more points."""
        for per_rank in self.options.sizes or (PER_RANK["weak"],):
            for n_ranks in self.options.ranks or RANKS:
                self._timed(mixture(per_rank * n_ranks), f"weak, {per_rank:,} points per rank", n_ranks)

    def memory(self) -> None:
        """The same with small parts, to more ranks than the machine has cores: their memory counts alone."""
        for per_rank in self.options.sizes or (PER_RANK["memory"],):
            for n_ranks in self.options.ranks or MORE_RANKS:
                self._timed(mixture(per_rank * n_ranks), f"memory, {per_rank:,} points per rank", n_ranks, repeats=1)

    def answers(self) -> None:
        """(P) over several ranks, and by the default fit in one process."""
        for subject in self._subjects("answers"):
            graph = subject.graph()
            seeds = self.options.seeds if graph.n_vertices <= SEVERAL_UP_TO else 1
            for seed in range(seeds):
                if not self.is_done(subject, "answers, one machine", seed):
                    model = MTVClustering(subject.n_clusters, affinity="precomputed", random_state=seed).fit(graph)
                    self.write(
                        subject, "answers, one machine", seed, energy=float(model.energy_), n_iter=int(model.n_iter_),
                        sizes=tuple(np.bincount(model.labels_).tolist()), status=str(model.status_),
                    )  # fmt: skip
            del graph
            for n_ranks in self.options.ranks or RANKS[1:]:
                for seed in range(seeds):
                    self._timed(subject, "answers", n_ranks, seed=seed, repeats=1)

    def halo(self) -> None:
        """Ghosts of divided graphs; nothing is run."""
        for subject in self._subjects("halo"):
            graph: Graph | None = None
            for hierarchy in DIVISIONS:
                method = f"halo, {_told(hierarchy)} parts"
                if not self.is_done(subject, method):
                    graph = graph or subject.graph()
                    parts = parts_of(graph, hierarchy)
                    self.write(subject, method, measures=halo_of(graph, parts, hierarchy))

    def model(self) -> None:
        """Nothing: the page computes it."""

    # ------------------------------------------------------------ runs

    def _subjects(self, part: str) -> Iterator[Subject]:
        """The graphs that are asked for; all of the part's where none is."""
        has_choice = self.options.sizes or self.options.graphs
        names = graphs.GRAPHS if self.options.graphs else () if has_choice else NAMED[part]
        wanted = self.options.graphs or names
        for name in names:
            if any(name.startswith(one) for one in wanted):
                yield named(name)
        for n in self.options.sizes or (() if has_choice else SIZES[part]):
            yield mixture(n)

    def _timed(self, subject: Subject, part: str, n_ranks: int, *, seed: int = 0, repeats: int | None = None) -> None:
        """The record of a run over this many ranks: the one in the middle of several, where they are short."""
        method = f"{part}, {n_ranks} rank{'s' * (n_ranks > 1)}"
        if self.is_done(subject, method, seed):
            return
        sharded = subject.shards((n_ranks,))
        bare = self._idle(subject.n_clusters, n_ranks)
        facts: list[dict[str, Any]] = []
        wanted = self.options.repeats if repeats is None else repeats
        while len(facts) < (wanted if not facts or sum(facts[0]["seconds"].values()) <= SHORT else 1):
            reason, seconds, told = self._run(sharded, subject.n_clusters, seed)
            if told is None:
                self.write(subject, method, seed, seconds=round(seconds, 1), status=str(reason))
                return
            facts.append(told)
        facts.sort(key=lambda one: float(one.get("seconds_per_iteration", 0.0)))
        middle = facts[(len(facts) - 1) // 2]
        self.write(
            subject, method, seed, energy=middle["energy"], n_iter=middle["n_iter"], sizes=tuple(middle["sizes"]),
            status=str(Status[middle["status"]]), seconds=median(sum(one["seconds"].values()) for one in facts),
            measures=_measures(sharded, subject.n_clusters, middle, bare) | {
                "runs": len(facts), "fastest": facts[0].get("seconds_per_iteration", 0.0),
                "slowest": facts[-1].get("seconds_per_iteration", 0.0),
            },
        )  # fmt: skip

    def _idle(self, n_clusters: int, n_ranks: int) -> float:
        """The GB of a rank with a few points, after a run that has compiled what all others need."""
        if (n_clusters, n_ranks) not in self._bare:
            sharded = mixture(WARM_UP).shards((n_ranks,))
            for _ in range(2):  # a rank that compiles takes more
                _, _, facts = self._run(sharded, n_clusters, 0)
            self._bare[n_clusters, n_ranks] = math.nan if facts is None else max(facts["peak_bytes"]) / 1e9
        return self._bare[n_clusters, n_ranks]

    def _run(
        self, sharded: ShardedGraph, n_clusters: int, seed: int
    ) -> tuple[str | None, float, dict[str, Any] | None]:
        """Why a run failed, or None; its seconds with the start of the processes, and its facts."""
        from tautcut.ranks.results import ShardedLabels

        threads = self.options.threads
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "labels"
            command = [
                "env", f"NUMBA_NUM_THREADS={threads}", f"OMP_NUM_THREADS={threads}", sys.executable, "-m", "tautcut",
                "cluster", str(sharded.path), "-k", str(n_clusters), "--out", str(out), "--seed", str(seed), "--quiet",
                "--device", self.options.device,
            ]  # fmt: skip
            reason, seconds = run_apart(command, self.options.limit)
            return reason, seconds, None if reason else dict(ShardedLabels.open(out).facts)


def _measures(sharded: ShardedGraph, n_clusters: int, facts: dict[str, Any], bare: float) -> dict[str, float]:
    """What the page tells of a run; GB are 1e9 bytes, and those of ranks the peaks of whole processes."""
    from tautcut.ranks.run import bytes_of_rank  # and torch, which halo and page do not need

    names = ("seconds_per_iteration", "wire_share", "waiting_share", "bytes_per_iteration", "gathers_per_iteration")
    peaks = [one / 1e9 for one in facts["peak_bytes"]]
    foreseen = [bytes_of_rank(sharded, rank, n_clusters, "float32") / 1e9 for rank in range(sharded.n_parts)]
    return {
        "ranks": sharded.n_parts, "n_vertices": sharded.whole.n_vertices, "n_directed_edges": 2 * sharded.whole.n_edges,
        "halo_share": sharded.halo_share, **{name: facts[name] for name in names if name in facts},
        **{f"{stage}_s": seconds for stage, seconds in facts["seconds"].items()},
        "peak_gb_rank_0": peaks[0], "peak_gb": max(peaks), "peak_gb_others": max(peaks[1:], default=0.0),
        "foreseen_gb": max(foreseen), **({} if math.isnan(bare) else {"idle_gb": bare}),
    }  # fmt: skip


def parts_of(graph: Graph, hierarchy: Hierarchy) -> np.ndarray:
    """The part of each vertex, as `tautcut shard` divides a graph that is in memory."""
    with tempfile.TemporaryDirectory() as folder:
        rows, rng = Rows.of(graph), np.random.default_rng(0)
        return divided(rows, hierarchy, folder=Path(folder), room=memory.for_work(), rng=rng).astype(np.int64)


def halo_of(graph: Graph, parts: np.ndarray, hierarchy: Hierarchy) -> dict[str, float]:
    """The ghosts of all parts, as shares of the vertices; of a hierarchy, those whose owner is in the same node, those
    whose is not, and these counted once per node.
    """
    n, n_parts = graph.n_vertices, math.prod(hierarchy)
    of_node = n_parts // hierarchy[0] if len(hierarchy) > 1 else n_parts
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    crosses = parts[rows] != parts[graph.indices]
    pairs = np.unique(graph.indices[crosses].astype(np.int64) * n_parts + parts[rows[crosses]])
    ghosts, holders = np.divmod(pairs, n_parts)
    is_inside = parts[ghosts] // of_node == holders // of_node
    outside = ghosts[~is_inside] * n_parts + holders[~is_inside] // of_node
    of_part = np.bincount(holders, minlength=n_parts)
    return {
        "parts": n_parts, "n_vertices": n, "n_directed_edges": graph.indices.size, "halo_share": pairs.size / n,
        "inside_share": float(is_inside.sum()) / n, "between_share": float((~is_inside).sum()) / n,
        "between_once_share": np.unique(outside).size / n, "boundary_share": np.unique(rows[crosses]).size / n,
        "worst": float(of_part.max() / of_part.mean()) if pairs.size else 1.0,
    }  # fmt: skip


# ---------------------------------------------------------------- the page


def page(records: list[RunRecord], of_gpu: list[RunRecord]) -> str:
    """docs/results/distributed.md, from the records of these runs and of one GPU."""
    newest = list({(one.data, one.method, one.seed, _machine(one), *_how(one)): one for one in records}.values())
    sections = [
        _scaling(newest, "strong", "## Strong scaling", "One graph over more and more ranks."),
        _scaling(newest, "weak", "## Weak scaling", "As many points for each rank: at best the time stays."),
        _memory(newest), _halo(newest), _answers(newest), _model(newest, of_gpu),
    ]  # fmt: skip
    intro = (
        "Ranks are processes of one machine that `tautcut cluster X.shards` starts, and gloo goes between them. "
        "Rendered by `benchmarks/distributed.py` from `distributed.jsonl`, which `make bench-distributed` writes."
    )
    return "\n\n".join(["# Many machines", _circumstances(newest), intro, *filter(None, sections)]) + "\n"


def _machine(record: RunRecord) -> str:
    machine = record.machine
    return f"{machine.get('processor') or machine['platform']}, {machine['cpus']} cores"


def _how(record: RunRecord) -> tuple[str, str]:
    """The threads of each rank, and what it computes on."""
    return f"{record.settings['threads']}", record.settings.get("device", "cpu")


def _circumstances(records: list[RunRecord]) -> str:
    if not records:
        return "Nothing is recorded yet."
    last_of = {_machine(one): one for one in sorted(records, key=lambda one: one.created)}
    commits = dict.fromkeys(one.commit or "unknown" for one in records)
    return "\n".join([
        *(
            f"- machine: {name}; {', '.join(f'{name} {version}' for name, version in sorted(one.versions.items()))}"
            for name, one in last_of.items()
        ),
        f"- commit: {', '.join(commits)}",
        f"- last run: {max(one.created for one in records)}",
    ])  # fmt: skip


def _of(records: list[RunRecord], part: str) -> list[RunRecord]:
    """The records of a part, graph by graph as they first came, and by the number of ranks or parts."""
    mine = [one for one in records if one.method.startswith(part)]
    order = {name: place for place, name in enumerate(dict.fromkeys(one.data for one in mine))}
    return sorted(mine, key=lambda one: order[one.data])


def _ranks(record: RunRecord) -> int:
    return int(record.method.split(", ")[-1].split()[0])


def _scaling(records: list[RunRecord], part: str, title: str, what: str) -> str:
    mine = _of(records, part)
    if not mine:
        return ""
    names = [*dict.fromkeys(one.data for one in mine)]
    mine.sort(key=lambda one: (0 if part == "weak" else names.index(one.data), _setting(one), _ranks(one)))
    alone = {
        (_kind(one), _setting(one)): one.measures["seconds_per_iteration"] for one in mine
        if _ranks(one) == 1 and one.sizes
    }  # fmt: skip
    rows = []
    for one in mine:
        if not one.sizes:
            rows.append([one.data, _on(one), _marked(one), *["–"] * 9, one.status])
            continue
        m = one.measures
        before = alone.get((_kind(one), _setting(one)))
        rows.append([
            one.data, _on(one), _marked(one), f"{1e3 * m['seconds_per_iteration']:.1f}",
            f"{1e3 * m['fastest']:.1f} – {1e3 * m['slowest']:.1f} ({m['runs']:.0f})",
            f"{before / m['seconds_per_iteration']:.2f}" if before else "–", f"{m['wire_share']:.1%}",
            f"{m['waiting_share']:.1%}", f"{m['bytes_per_iteration'] / 1e3:,.0f}", f"{m['gathers_per_iteration']:.2f}",
            f"{m['halo_share']:.3f}", f"{one.energy:.4f}", f"{one.seconds:.1f}",
        ])  # fmt: skip
    head = [
        "graph", "each rank has", "ranks", "ms per iteration", "range (runs)", "one rank's time as a multiple of it",
        "on the wire", "waiting", "kB sent per iteration", "gathers per iteration", "ghosts per vertex", "(P)",
        "seconds in all",
    ]  # fmt: skip
    said = (
        f"{what} † More ranks than the machine has cores or GPUs for share them: such a row says nothing of speed, and "
        "its waiting is for a core. An iteration is an inner one of Algorithm 1, with its look at F; the kernels are "
        "compiled before, and the first iteration reads them from the disk. On the wire is the time in which not even "
        "the slowest rank computes, waiting that of the rank that waits longest for the slowest; both, and the bytes, "
        f"are of the rank with most. The run in the middle is told, of {REPEATS} where it took less than {SHORT:g} s."
    )
    return "\n\n".join([title, said, _table(head, rows)])


def _setting(record: RunRecord) -> tuple[str, ...]:
    """What the runs have alike whose times are compared."""
    return (*_how(record)[::-1], _machine(record))


def _on(record: RunRecord) -> str:
    """What each rank has of the machine."""
    threads, device = _how(record)
    counted = f"{threads} thread{'s' * (threads != '1')}"
    return f"a GPU, {counted}" if device == "cuda" else f"{counted} of {record.machine['cpus']} cores"


def _kind(record: RunRecord) -> str:
    """The graph of a run; of a weak one, how many points each rank has."""
    return record.method.rsplit(", ", 1)[0] if record.method.startswith("weak") else record.data


def _marked(record: RunRecord) -> str:
    threads, device = _how(record)
    n_ranks, has = _ranks(record), 1 if device == "cuda" else record.machine["cpus"] // int(threads)
    return f"{n_ranks}{' †' * (n_ranks > has)}"


def _memory(records: list[RunRecord]) -> str:
    mine = [one for one in records if one.method.startswith(("weak", "memory")) and one.sizes]
    if not mine:
        return ""
    rows = []
    for one in sorted(mine, key=lambda one: (one.method.rsplit(", ", 1)[0], _ranks(one))):
        m = one.measures
        rows.append([
            one.method.split(", ")[1], str(_ranks(one)), f"{m['n_vertices']:,.0f}", f"{m['halo_share']:.3f}",
            f"{m['peak_gb_rank_0']:.2f}", f"{m['peak_gb_others']:.2f}" if m["peak_gb_others"] else "–",
            f"{m['idle_gb']:.2f}" if "idle_gb" in m else "–", f"{m['foreseen_gb']:.2f}",
        ])  # fmt: skip
    head = [
        "points of each rank", "ranks", "vertices", "ghosts per vertex", "GB of rank 0", "GB of the largest other",
        f"GB of a rank of {WARM_UP:,} points in all", "GB foreseen beside that",
    ]  # fmt: skip
    said = (
        "The peak of each rank's process, Python and torch included, and the pages of its files that it has read; what "
        "is foreseen is the sum that a run is refused by. A rank's own part does not grow with the number of ranks, "
        "but for its ghosts; rank 0 also has the coarse graph, whose size follows the whole graph's up to a limit."
    )
    return "\n\n".join(["## Memory of each rank", said, _table(head, rows)])


def _halo(records: list[RunRecord]) -> str:
    mine = _of(records, "halo")
    if not mine:
        return ""
    found = {(one.data, one.method.split(", ")[1].split()[0]): one.measures for one in mine}
    names = [_told(one) for one in DIVISIONS]
    rows = []
    for data in dict.fromkeys(one.data for one in mine):
        cells = [found.get((data, name)) for name in names]
        rows.append([data, "ghosts per vertex", *(f"{m['halo_share']:.3f}" if m else "–" for m in cells)])
        rows.append(["", "worst part, of the mean", *(f"{m['worst']:.2f}" if m else "–" for m in cells)])
        rows.append(["", "share of boundary vertices", *(f"{m['boundary_share']:.2f}" if m else "–" for m in cells)])
        nested = [m if m and "x" in name else None for name, m in zip(names, cells, strict=True)]
        for name, key in (
            ("ghosts inside a node", "inside_share"), ("ghosts between nodes", "between_share"),
            ("the same, once per node", "between_once_share"),
        ):  # fmt: skip
            rows.append(["", name, *(f"{m[key]:.3f}" if m else "" for m in nested)])
    said = (
        "Graphs divided as `tautcut shard` does, nothing run. 8x8 are 8 nodes first, then 8 parts of each; of their "
        "ghosts those count between nodes whose owner is in another one."
    )
    return "\n\n".join(["## The halo", said, _table(["graph", "parts", *names], rows)])


def _answers(records: list[RunRecord]) -> str:
    mine = _of(records, "answers")
    if not mine:
        return ""
    energies = {(one.data, one.seed, one.method.split(", ")[1]): one.energy for one in mine}
    columns = sorted({name for *_, name in energies if name != "one machine"}, key=lambda name: int(name.split()[0]))
    rows, worst = [], 0.0
    for data, seed in dict.fromkeys((one.data, one.seed) for one in mine):
        one = energies.get((data, seed, "one machine"))
        row = [data, str(seed), f"{one:.5f}" if one is not None else "–"]
        for name in columns:
            many = energies.get((data, seed, name))
            ratio = many / one if many is not None and one else None
            worst = max(worst, ratio or 0.0)
            row += [f"{many:.5f}" if many is not None else "–", f"{ratio:.4f}" if ratio else "–"]
        rows.append(row)
    head = ["graph", "seed", "(P), one machine", *(cell for name in columns for cell in (f"(P), {name}", "ratio"))]
    said = (
        "(P) of the default fit in one process, and over ranks, from the same seed; below 1 the ranks found a lower "
        f"one. The highest ratio is {worst:.4f}."
    )
    return "\n\n".join(["## The same answers", said, _table(head, rows)])


def _model(records: list[RunRecord], of_gpu: list[RunRecord]) -> str:
    """The paper model, with the halo that was measured on the largest mixture."""
    if not any(one.method == "growth" for one in of_gpu):
        return ""
    gpu = ranks_model.OneGpu.recorded(of_gpu)
    halos = {(one.data, one.method): one.measures for one in records if one.method.startswith("halo")}
    sizes = sorted(
        (halo["n_vertices"], data) for (data, method), halo in halos.items()
        if method == "halo, 8x8 parts" and data.startswith("mixture") and (data, "halo, 8 parts") in halos
    )  # fmt: skip
    if not sizes:
        return ""
    n, data = sizes[-1]
    shares = {
        n_gpus: ranks_model.Shares(
            int(n), *(halos[data, method][f"{one}_share"] for one in ("inside", "between", "between_once", "boundary"))
        )
        for n_gpus, method in ((8, "halo, 8 parts"), (64, "halo, 8x8 parts"))
    }  # fmt: skip
    links = ranks_model.Links()
    cases = [
        ranks_model.estimate(n, n_gpus, R, gpu=gpu, shares=shares[n_gpus]) for n, n_gpus, R in ranks_model.CASES
    ]  # fmt: skip
    said = [
        "## On paper: many GPUs",
        "**A model that nobody has run.** It is arithmetic, and no row of it is a measurement.",
        "\n".join([
            "Measured is what one H200 takes (gpu.jsonl) and the halo of a mixture (above):", "",
            "- compute: " + ", ".join(
                f"{1e12 * seconds:.1f} ps at R = {R}" for R, seconds in sorted(gpu.seconds.items())
            ) + f" for each directed edge, column and iteration, looks for medians included; {ranks_model.DEGREE:g} "
            "directed edges for each vertex;",
            f"- memory: {gpu.of_vertex:.0f} + {gpu.of_column:.0f} R bytes for each vertex, and "
            f"{ranks_model.HALO_PLANES} rows for each ghost;",
            f"- halo: shares of {data} in 8 parts ({shares[8].inside:.2f}) and in 8x8 ({shares[64].inside:.2f} inside "
            f"nodes, {shares[64].between:.2f} between them, {shares[64].between_once:.2f} of it once per node), "
            f"boundary {shares[64].boundary:.2f}.", "",
            "Assumed is the rest:", "",
            f"- NVLink {links.nvlink / 1e9:.0f} GB/s and InfiniBand {links.infiniband / 1e9:.0f} GB/s for each GPU, at "
            f"full rate; a GPU's own memory {links.copy / 1e12:.1f} TB/s, {links.room / 1e9:.0f} GB;",
            f"- a gather {1e6 * links.gather_in_node:.0f} µs in a node and {1e6 * links.gather_between_nodes:.0f} µs "
            f"between nodes, {ranks_model.GATHERS} in an iteration, {ranks_model.CANDIDATES:,} + {ranks_model.SUMS} R "
            "numbers of 8 bytes from each GPU;",
            f"- the halo's share falls with the number of vertices to the power of −1/{ranks_model.DIMENSIONS}, as the "
            "surface of cells of points in so many dimensions does; so does the logarithm of the interior's share; "
            "and parts are even;",
            "- the least that is moved: duals read and written, F of the neighbour and its index for each directed "
            "edge, five rows for each vertex; 8 flops for each edge and column, 24 for each vertex and column;",
            "- once per node: a row that goes to a node once is handed on inside it by NVLink; overlapped: that "
            "exchange goes on beside the work on the interior, at no cost to it.",
        ]),
        _table(ranks_model.HEAD, [ranks_model.cells(one) for one in cases]),
    ]  # fmt: skip
    worst = halos[data, "halo, 8x8 parts"]["worst"]
    waited = [
        ranks_model.estimate(n, n_gpus, R, gpu=gpu, shares=shares[n_gpus].times(worst)).efficiencies
        for n, n_gpus, R in ranks_model.CASES if n_gpus == 64
    ]  # fmt: skip
    lowest = ", ".join(f"{min(one):.0%}" for one in zip(*waited, strict=True))
    said.append(
        f"Parts are not even: where all wait for the one with most ghosts, {worst:.2f} times the mean in 8x8, the "
        f"three efficiencies at 64 GPUs fall to {lowest} at the lowest."
    )
    flat = halos.get((data, "halo, 64 parts"))
    if flat is not None:
        lost = [
            ranks_model.flat_efficiency(
                one, flat["halo_share"] * (one.n_vertices / n) ** (-1 / ranks_model.DIMENSIONS), flat["worst"]
            )
            for one in cases if one.n_gpus == 64
        ]  # fmt: skip
        said.append(
            f"64 flat parts ({flat['halo_share']:.2f} ghosts per vertex, the worst part {flat['worst']:.2f} times the "
            f"mean) with all rows on InfiniBand and the exchange in the open: {min(lost):.0%} to {max(lost):.0%}."
        )
    return "\n\n".join(said)


def _table(head: list[str], rows: list[list[str]]) -> str:
    from render import table

    return table(head, rows)


def render(out: Path) -> None:
    """The page beside the records."""
    records = read_records(out) if out.is_file() else []
    out.with_suffix(".md").write_text(page(records, read_records(graphs.RESULTS / "gpu.jsonl")), encoding="utf-8")
    print(f"written: {out.with_suffix('.md')}")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts of it")
    parser.add_argument("--sizes", type=int, nargs="+", help="points of mixtures; of weak and memory, for each rank")
    parser.add_argument("--graphs", nargs="+", help=f"names, or how they begin: {', '.join(graphs.GRAPHS)}")
    parser.add_argument("--ranks", type=int, nargs="+", help="numbers of ranks")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of each rank; one GPU is shared")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--seeds", type=int, default=SEEDS_OF_ANSWERS, help="of answers")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs, of which the one in the middle is told")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one run, all included")
    parser.add_argument("--fresh", action="store_true", help="run again what the file holds already")
    parser.add_argument("--commit", help="what to write as the commit, where the folder is no checkout")
    parser.add_argument("--out", type=Path, default=graphs.RESULTS / "distributed.jsonl", help="file of records")
    return parser


def main() -> None:
    options = parser().parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    works: Iterable[Callable[[], None]] = (getattr(bench, part) for part in PARTS if part in options.only)
    for work in works:
        work()
    render(options.out)


if __name__ == "__main__":
    main()
