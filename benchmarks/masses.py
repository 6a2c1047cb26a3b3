"""What masses bring: the balance by volume beside that by size on the paper's six data sets, and starts of the search
with and without Algorithm 1 on their coarsest level, which masses allow. Records go to docs/results/masses.jsonl, and
masses.md is written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/masses.py
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

import numpy as np
import scipy.sparse as sp
from render import table

from tautcut import Graph, MTVClustering, Problem, purity
from tautcut.algorithm.solver import run
from tautcut.arrays import IntArray
from tautcut.datasets import PAPER_NAMES
from tautcut.datasets.registry import LabelledGraph, paper_graph
from tautcut.kernels.cpu.coarsening import Level
from tautcut.kernels.devices import choose
from tautcut.records import RunRecord, append_record, read_records, run_estimator
from tautcut.records.records import circumstances
from tautcut.search.cycles import VCycles
from tautcut.search.plan import Plan, Task
from tautcut.search.starts import soften

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "masses.jsonl"
SEEDS = (0, 1, 2)
STARTS = range(10)
WAYS = {"40 children": (40, False), "40 children, then Algorithm 1": (40, True),
        "20 children, then Algorithm 1": (20, True), "60 children": (60, False)}  # fmt: skip


class PolishedCycles(VCycles):
    """V-cycles in which Algorithm 1 goes on from the best partition of the coarsest level, and moves from there."""

    is_polished = False

    def _merge_and_split(self, level: Level, labels: IntArray, rng: np.random.Generator):  # type: ignore[no-untyped-def]
        found = super()._merge_and_split(level, labels, rng)
        if not self.is_polished:
            return found
        problem = Problem(graph_of(level), self._lam.size, self._lam)
        F = soften(found.labels, self._lam.size)
        polished = run(problem, F, choose(problem), stop=Plan().stop_rule).partition.labels
        challenger = self._descend(level, polished)
        is_allowed = (challenger.masses >= self._smallest).all()
        return challenger if is_allowed and challenger.energy < found.energy else found


def graph_of(level: Level) -> Graph:
    W = sp.csr_matrix((level.weights, level.indices, level.indptr), shape=(level.n_vertices,) * 2, copy=True)
    W.sort_indices()
    return Graph(W.indptr.astype(np.int64), W.indices.astype(np.int32), W.data, level.masses)


def main() -> None:
    warnings.simplefilter("ignore")
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for name in PAPER_NAMES:
        one = paper_graph(name)
        for record in (*balances(one), *(coarse_starts(one) if name not in ("4moons", "mnist") else ())):
            append_record(part, record)
            print(record.data, record.method, record.settings, record.energy, record.purity, record.seconds, flush=True)
    os.replace(part, RECORDS)
    RECORDS.with_suffix(".md").write_text(page(read_records(RECORDS)), encoding="utf-8")


def balances(one: LabelledGraph) -> Iterator[RunRecord]:
    R = np.unique(one.truth).size
    for balance in ("size", "volume"):
        for seed in SEEDS:
            model = MTVClustering(R, affinity="precomputed", balance=balance, random_state=seed)
            yield run_estimator(model, one.graph, data=one.name, truth=one.truth, warm_up=seed == 0)[1]


def coarse_starts(one: LabelledGraph) -> Iterator[RunRecord]:
    """Starts of the search alone, on one thread, timed by the processor's clock."""
    problem, unit = Problem(one.graph, np.unique(one.truth).size).in_means()
    smallest = Task(problem, Plan()).smallest
    for way, (children, is_polished) in WAYS.items():
        cycles = PolishedCycles(problem, smallest, children)
        cycles.is_polished = is_polished
        cycles.start(0, np.random.default_rng(99))  # compile off the clock
        for seed in STARTS:
            began = time.process_time()
            found = cycles.start(seed, np.random.default_rng(seed))
            seconds = time.process_time() - began
            yield RunRecord(
                data=one.name, method=f"a start: {way}", settings={}, seed=seed, n_labelled=0,
                energy=found.energy * unit, purity=purity(found.labels, one.truth), seconds=round(seconds, 4),
                sizes=tuple(found.sizes.tolist()), n_iter=0, status="Done.", **circumstances(),
            )  # fmt: skip


def page(records: list[RunRecord]) -> str:
    rows, starts = [], []
    for data in dict.fromkeys(record.data for record in records):
        mine = [record for record in records if record.data == data]
        fits = {b: [r for r in mine if r.settings.get("balance") == b] for b in ("size", "volume")}
        cells = [f"{100 * mean(r.purity or 0.0 for r in fits[b]):.1f} ({_each(fits[b])})" for b in fits]
        rows.append([data, *cells])
        for way in WAYS:
            made = [r for r in mine if r.method == f"a start: {way}"]
            if made:
                energies = [r.energy or 0.0 for r in made]
                seconds = median(r.seconds for r in made)
                starts.append([data, way, f"{mean(energies):.4f}", f"{min(energies):.4f}", f"{seconds:.3f}"])
    return (
        "\n\n".join(
            [
                "# Masses",
                "Purity in per cent of the default fit, the mean over three seeds and each of them, where clusters are "
                "balanced by their size and by their volume (`benchmarks/masses.py`).",
                table(["data", "by size", "by volume"], rows),
                "Starts of the search, ten seeds: mean and lowest (P), and seconds of the processor for one (median).",
                table(["data", "on the coarsest level", "mean (P)", "lowest (P)", "seconds"], starts),
            ]
        )
        + "\n"
    )


def _each(records: list[RunRecord]) -> str:
    return ", ".join(f"{100 * (r.purity or 0.0):.1f}" for r in records)


if __name__ == "__main__":
    main()
