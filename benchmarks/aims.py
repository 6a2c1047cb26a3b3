"""What large graphs take beside what was aimed at: a row for each aim, filled in from the records of the other
benchmarks (threads, neighbors, scale, kernels and gpu in docs/results). It runs nothing and types no measured number.

    python benchmarks/aims.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render import latest, table

from tautcut.records import RunRecord, read_records

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
MNIST, TEXT = "mnist (authors' graph)", "20news (authors' graph)"
OURS, ONE_LABEL, RIVAL = "tautcut", "tautcut, one label per class", "Mt-KaHyPar quality 30 %"
NEIGHBORS = ("100 k × 10", "300 k × 10", "100 k × 50", "mnist, 70 k × 784", "1 M × 10")
FIT = ("search", "polish", "rest")  # stages of a fit whose graph is given


@dataclass(frozen=True)
class Seen:
    """What records say of an aim: in words, whether it is reached, and which they are."""

    words: str
    is_reached: bool
    records: list[RunRecord]


@dataclass(frozen=True)
class Aim:
    work: str
    aim: str
    seen: Callable[[], Seen]

    def row(self) -> list[str]:
        seen = self.seen()
        cores = sorted({one.machine.get("threads", one.machine.get("cpus")) for one in seen.records})
        commits = dict.fromkeys((one.commit or "unknown")[:7] for one in seen.records)
        machine = f"{seen.records[0].machine.get('processor', '')}, {cores[-1]} threads"
        machine = seen.records[0].machine.get("card", machine)
        return [self.work, self.aim, seen.words, "yes" if seen.is_reached else "**no**", machine, ", ".join(commits)]


def records(name: str) -> list[RunRecord]:
    return read_records(RESULTS / f"{name}.jsonl")


def by_threads(method: str) -> dict[int, RunRecord]:
    """The last record of the method on the machine with most cores, by the number of threads."""
    mine = [one for one in records("threads") if one.method == method]
    most = max(one.machine["cpus"] for one in mine)
    return {one.machine["threads"]: one for one in mine if one.machine["cpus"] == most}


def default_fit_by_threads() -> Seen:
    ours, rival = by_threads(OURS), by_threads(RIVAL)
    gain = ours[1].seconds / ours[8].seconds
    is_ahead = all(ours[count].seconds < rival[count].seconds for count in ours)
    words = (
        f"{_seconds(ours)}: 8 threads {gain:.1f} ×; Mt-KaHyPar {_seconds(rival)}; "
        f"{'ahead of it at every count' if is_ahead else 'not ahead of it at every count'}"
    )
    is_reached = gain >= 4.5 and ours[16].seconds <= ours[8].seconds and is_ahead
    return Seen(words, is_reached, [*ours.values(), *rival.values()])


def _seconds(by_count: dict[int, RunRecord]) -> str:
    return ", ".join(f"{count}: {by_count[count].seconds:.2f}" for count in sorted(by_count)) + " s"


def one_label_by_threads() -> Seen:
    many = by_threads(ONE_LABEL)
    return Seen(_seconds(many), many[8].seconds <= 0.4, list(many.values()))


def one_label_on_two_cores() -> Seen:
    mine = [one for one in records("threads") if one.method == ONE_LABEL and one.machine["cpus"] == 2]
    last = [one for one in mine if one.machine["threads"] == 2][-1:]
    if not last:
        return Seen("not recorded", False, list(by_threads(ONE_LABEL).values()))
    return Seen(f"{last[0].seconds:.2f} s", last[0].seconds <= 1.0, last)


def neighbours() -> Seen:
    found = {(one.data, one.method): one for one in latest(records("neighbors"))}
    pairs = {data: (found[data, "tautcut"], found[data, "pynndescent"]) for data in NEIGHBORS}
    words = "; ".join(
        f"{data}: {ours.seconds:.2f} / {theirs.seconds:.2f} s, "
        f"{ours.measures['recall']:.3f} / {theirs.measures['recall']:.3f}"
        for data, (ours, theirs) in pairs.items()
    )
    is_reached = all(
        ours.seconds <= theirs.seconds and ours.measures["recall"] >= 0.97 for ours, theirs in pairs.values()
    )
    return Seen(words, is_reached, [one for pair in pairs.values() for one in pair])


def by_size(device: str) -> dict[int, RunRecord]:
    mine = [one for one in latest(records("scale")) if one.method == f"tautcut, {device}" and one.sizes]
    return {int(one.measures["n_vertices"]): one for one in mine}


def of_fit(record: RunRecord) -> float:
    return sum(record.measures[f"{stage}_s"] for stage in FIT)


def million_on_two_cores() -> Seen:
    one = by_size("cpu")[1_000_000]
    return Seen(f"{of_fit(one):.1f} s, {one.measures['peak_gb']:.1f} GB", of_fit(one) <= 40, [one])


def growth() -> Seen:
    sizes = by_size("cpu")
    first, last = sizes[100_000], sizes[max(sizes)]
    per_edge = [of_fit(one) / one.measures["n_directed_edges"] for one in (first, last)]
    words = f"{per_edge[1] / per_edge[0]:.2f}-fold from 100,000 to {last.measures['n_vertices']:,.0f} vertices"
    return Seen(words, per_edge[1] <= 1.25 * per_edge[0] and max(sizes) >= 3_000_000, [first, last])


def kernel() -> Seen:
    lines = [json.loads(line) for line in (RESULTS / "kernels.jsonl").read_text(encoding="utf-8").splitlines()]
    last = {line["R"]: line for line in lines if line["data"] == MNIST}
    words = "; ".join(
        f"R = {R}: {100 * line['fraction']:.0f} % of copy bandwidth, check {100 * line['check_share']:.0f} %"
        for R, line in sorted(last.items())
    )
    is_reached = all(line["fraction"] >= 0.6 and line["check_share"] <= 0.2 for line in last.values())
    return Seen(words, is_reached, [_plain(line) for line in last.values()])


def _plain(line: dict[str, Any]) -> RunRecord:
    """A line of the kernels' file, of which machine and commit count here."""
    return RunRecord(
        data=line["data"], method="kernels", settings={}, seed=0, n_labelled=0, energy=None, purity=None, seconds=0.0,
        sizes=(), n_iter=0, status="", versions=line["versions"], commit=line["commit"], machine=line["machine"],
        created=line["created"],
    )  # fmt: skip


def on_gpu(data: str, method: str) -> RunRecord:
    return [one for one in records("gpu") if (one.data, one.method) == (data, method)][-1]


def gpu_fit(data: str, seconds: float, energy: float) -> Seen:
    one = on_gpu(data, "default fit")
    low, high = one.measures["lowest energy"], one.measures["highest energy"]
    words = f"{one.seconds:.2f} s, at most {one.measures['longest s']:.2f} s; E {low:.4f} to {high:.4f} over five seeds"
    return Seen(words, one.seconds <= seconds and high <= energy, [one])


def gpu_points(n: int, seconds: float, *, is_given: bool) -> Seen:
    one = by_size("cuda")[n]
    taken = of_fit(one) if is_given else one.seconds
    planted = one.measures["planted_energy"]
    words = f"{taken:.1f} s; E {one.energy:.3f}, planted {planted:.3f}"
    return Seen(words, taken <= seconds and (one.energy or 1e9) < planted, [one])


def gpu_first_fit() -> Seen:
    one = on_gpu(MNIST, "first fit in a process")
    return Seen(f"{one.seconds:.2f} s, beside {one.measures['imports s']:.1f} s of imports", one.seconds <= 3.0, [one])


AIMS = (
    Aim("mnist, default fit by threads", "8 threads ≥ 4.5 × one; 16 no slower than 8; ahead of Mt-KaHyPar at each",
        default_fit_by_threads),
    Aim("one label per class, mnist, by threads", "≤ 0.4 s on 8", one_label_by_threads),
    Aim("one label per class, mnist, 2 cores", "≤ 1.0 s", one_label_on_two_cores),
    Aim("features to a 10-NN graph, 2 cores, ours / pynndescent", "no slower, recall ≥ .97", neighbours),
    Aim("1 M vertices, R = 20, given graph, 2 cores", "≤ 40 s", million_on_two_cores),
    Aim("time of a fit for each edge", "≤ 1.25-fold from 100 k to 3 M vertices", growth),
    Aim("kernel, mnist, R = 10 and 16", "≥ 60 % of copy bandwidth, check ≤ 20 % of an iteration", kernel),
    Aim("GPU, mnist default fit, given graph", "≤ 0.3 s at E ≤ 0.4397", lambda: gpu_fit(MNIST, 0.3, 0.43975)),
    Aim("GPU, 1 M × 10 features to labels, R = 20", "≤ 4 s", lambda: gpu_points(1_000_000, 4.0, is_given=False)),
    Aim("GPU, 10 M vertices, given graph, R = 20", "≤ 20 s, planted energy beaten",
        lambda: gpu_points(10_000_000, 20.0, is_given=True)),
    Aim("GPU, 20news", "E ≤ 1.135", lambda: gpu_fit(TEXT, 1e9, 1.135)),
    Aim("GPU, first fit in a new process", "≤ 3 s with a filled cache", gpu_first_fit),
)  # fmt: skip


def main() -> None:
    head = ["work", "aim", "seen", "reached", "machine", "commit"]
    about = (
        "What was aimed at for large graphs, and what records of the other benchmarks say: `make bench`, `make "
        "bench-scale`, `make bench-gpu`. Rendered by `benchmarks/aims.py`; the pages beside this one say more."
    )
    text = "\n\n".join(["# Millions of points: aims", about, table(head, [aim.row() for aim in AIMS])]) + "\n"
    (RESULTS / "aims.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
