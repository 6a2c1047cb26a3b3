"""Tables and plots of docs/results, from the records alone: bench, scale, kernels and gpu (.jsonl). It runs nothing
and types no number. Of several records of one run the latest counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "tautcut", "svg.fonttype": "none", "font.size": 9})

import matplotlib.lines  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

from tautcut.records import RunRecord, read_records  # noqa: E402

OURS = "#c0392b"
OTHERS = ("#2c3e50", "#2980b9", "#16a085", "#7f8c8d", "#8e44ad", "#b7950b", "#6e2c00")


# ---------------------------------------------------------------- the benchmark


def bench(path: Path) -> None:
    """bench.md and bench.svg beside bench.jsonl."""
    records = latest(read_records(path))
    parts = ["# Benchmark", _circumstances(records), _legend()]
    for graph in _unique(record.data for record in records):
        mine = [record for record in records if record.data == graph]
        parts.append(f"## {graph}")
        parts.append(_clustering_table([record for record in mine if not record.n_labelled]))
        parts.append(_label_table([record for record in mine if record.n_labelled]))
    _write(path.with_suffix(".md"), parts)
    _bench_plot(records, path.with_suffix(".svg"))


def latest(records: list[RunRecord]) -> list[RunRecord]:
    """The last record of each (graph, method, seed, number of labels), in the order they first came."""
    newest: dict[tuple[Any, ...], RunRecord] = {}
    for record in records:
        newest[record.data, record.method, record.seed, record.n_labelled] = record
    return list(newest.values())


def _clustering_table(records: list[RunRecord]) -> str:
    if not records:
        return ""
    rows = []
    for name in _unique(record.method for record in records):
        mine = [record for record in records if record.method == name]
        energies = [record.energy for record in mine if record.energy is not None]
        answered = [record for record in mine if record.sizes]
        sizes = [size for record in answered for size in record.sizes]
        energy = mean(energies) if len(energies) == len(mine) else None
        row = [
            f"**{name}**" if is_ours(name) else name,
            "–" if not answered else "∞" if energy is None else f"{energy:.4f}",
            f"{100 * mean(r.purity or 0 for r in answered):.2f}" if answered else "–",
            f"{median(r.seconds for r in answered):.2f}" if answered else "–",
            f"{min(sizes):,} – {max(sizes):,}" + " ○" * any(map(has_tiny_cluster, answered)) if sizes else "–",
            _remark(mine),
        ]
        rows.append((float("inf") if energy is None else energy, row))
    rows.sort(key=lambda pair: pair[0])
    return table(["method", "energy (P)", "purity %", "seconds", "cluster sizes", "remark"], [row for _, row in rows])


def _label_table(records: list[RunRecord]) -> str:
    if not records:
        return ""
    counts = sorted({record.n_labelled for record in records})
    rows = []
    for name in _unique(record.method for record in records):
        row = [f"**{name}**" if is_ours(name) else name]
        for count in counts:
            mine = [record for record in records if (record.method, record.n_labelled) == (name, count)]
            right = [100 * record.measures["accuracy"] for record in mine if record.sizes]
            seconds = [record.seconds for record in mine if record.sizes]
            row.append(" / ".join(f"{value:.2f}" for value in right) or "–")
            row.append(f"{median(seconds):.2f}" if seconds else "–")
        rows.append([*row, _remark([record for record in records if record.method == name])])
    head = [title for count in counts for title in (f"{count} labels: accuracy %, each draw", "seconds")]
    return table(["method", *head, "remark"], rows)


def is_ours(method: str) -> bool:
    return method.startswith("tautcut")


def has_tiny_cluster(record: RunRecord) -> bool:
    """Whether a cluster has less than a quarter of the expected size; isolating it is a cheap way to a low (P)."""
    return 4 * min(record.sizes) * len(record.sizes) < sum(record.sizes)


def _remark(records: list[RunRecord]) -> str:
    """What is out of the ordinary in these runs; nothing for a run that simply ended."""
    remarks = _unique(r.status for r in records if not (is_ours(r.method) and r.sizes) and r.status != "Done.")
    return " ".join(remarks).replace("|", "/")


def _circumstances(records: list[RunRecord]) -> str:
    versions: dict[str, str] = {}
    for record in records:
        versions.update(record.versions)
    last = max(records, key=lambda record: record.created)
    commits = ", ".join(_unique(record.commit or "unknown" for record in records))
    machine = last.machine
    return "\n".join(
        [
            f"- machine: {machine.get('processor') or machine['platform']}, {machine['cpus']} cores, "
            f"{machine.get('threads', machine['cpus'])} threads, {machine['platform']}",
            f"- versions: {', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}",
            f"- commit: {commits}",
            f"- last run: {last.created}",
        ]
    )


def _legend() -> str:
    return (
        "Energy is (P) with λ = R − 1, lower is better; ∞ is another number of clusters than asked for. ○, a hollow "
        "mark in the plot, is a cluster of less than a quarter of the expected size: cutting off a tiny one lowers (P) "
        "cheaply.\n\n"
        "Each run has a process of its own. Warm-up, and turning the graph into a peer's own form, are off the clock; "
        "seconds are of a single run, or the median of three where it is shorter than 5 s. Resolutions are tuned, on "
        "the clock, without labels. PoissonMBO is told that the classes are of equal size, which is what tautcut "
        "assumes. The truth is used for purity and accuracy alone, over all points. Rendered by "
        "`benchmarks/render.py` from `bench.jsonl`."
    )


def _bench_plot(records: list[RunRecord], path: Path) -> None:
    """Energy against seconds, logarithmic in seconds, one panel per graph."""
    points = [record for record in records if record.energy is not None and not record.n_labelled]
    names = _unique(record.data for record in points)
    if not names:
        return
    columns = min(len(names), 3)
    n_rows = -(-len(names) // columns)
    size = (max(4 * columns, 8), 3.2 * n_rows + 1)
    figure, axes = plt.subplots(n_rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    styles = _styles(_unique(record.method for record in points))
    for axis, name in zip(axes.flat, names, strict=False):
        _panel(axis, [record for record in points if record.data == name], styles)
        axis.set_title(name)
    handles = [mpl.lines.Line2D([], [], linestyle="", label=name, **style) for name, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    _save(figure, path)


def _styles(methods: list[str]) -> dict[str, dict[str, Any]]:
    """A mark for each method: ours red and large, the others told apart by colour and shape."""
    ours = [name for name in methods if is_ours(name)]
    others = [name for name in methods if not is_ours(name)]
    styles = {
        name: {"color": OURS, "marker": "*DP"[i % 3], "markersize": (12, 8, 9)[i % 3]} for i, name in enumerate(ours)
    }
    for i, name in enumerate(others):
        styles[name] = {"color": OTHERS[i % len(OTHERS)], "marker": "os^vd<>p"[i % 8], "markersize": 6}
    return styles


def _panel(axis: Any, records: list[RunRecord], styles: dict[str, dict[str, Any]]) -> None:
    ceiling = 1.6 * min(record.energy for record in records)  # beyond it a method is drawn at the edge
    for record in sorted(records, key=lambda one: is_ours(one.method)):
        y = min(record.energy, ceiling)
        face = {"markerfacecolor": "white"} if has_tiny_cluster(record) else {}
        axis.plot(record.seconds, y, linestyle="", **styles[record.method], **face)
        if record.energy > ceiling:
            axis.annotate(
                f"↑ {record.energy:.2f}", (record.seconds, y), (0, 6), textcoords="offset points", ha="center",
                fontsize=7,
            )  # fmt: skip
    axis.set(xscale="log", xlabel="seconds", ylabel="energy (P)")
    axis.margins(0.12)
    axis.grid(alpha=0.3)


# ---------------------------------------------------------------- scale


STAGES = ("neighbours", "graph", "search", "polish", "rest")
DEVICES = {"tautcut, cpu": "CPU", "tautcut, cuda": "GPU"}


def scale(path: Path) -> None:
    """scale.md and scale.svg beside scale.jsonl."""
    records = [record for record in latest(read_records(path)) if record.method in DEVICES]
    records.sort(key=lambda record: (record.measures["n_vertices"], record.method))
    if not records:
        return
    head = [
        "points", "on", "directed edges", "recall", "energy (P)", "planted (P)", "purity %", "seconds",
        *(f"{stage}, s" for stage in STAGES), "µs per directed edge", "peak memory, GB", "of the GPU, GB", "remark",
    ]  # fmt: skip
    notes = (
        "Features to labels: Gaussian mixtures of 20 clusters in 10 dimensions, points in random order, the default "
        "fit of the 10 nearest neighbours; the stages sum up to the seconds. `graph` makes a symmetric graph of the "
        "neighbours, `search` looks for partitions, `polish` is Algorithm 1. Kernels were compiled before. Peak memory "
        "is of the process, libraries included. Rendered by `benchmarks/render.py` from `scale.jsonl`."
    )
    about = [f"## On a {name}\n\n{_circumstances(mine)}" for name, mine in _by_device(records).items()]
    grown = [_growth(name, mine) for name, mine in _by_device(records).items()]
    rows = [_scale_row(record) for record in records]
    _write(path.with_suffix(".md"), ["# Scale", notes, table(head, rows), *filter(None, grown), *about])
    _scale_plot(records, path.with_suffix(".svg"))


def _by_device(records: list[RunRecord]) -> dict[str, list[RunRecord]]:
    """The records of runs that ended, by where they ran."""
    found = {name: [r for r in records if r.method == method and r.sizes] for method, name in DEVICES.items()}
    return {name: mine for name, mine in found.items() if mine}


def _growth(name: str, records: list[RunRecord]) -> str:
    if len(records) < 2:
        return ""
    first, last = records[0], records[-1]
    parts = {
        "features to labels": _per_edge(last, last.seconds) / _per_edge(first, first.seconds),
        "the fit alone": _per_edge(last, _of_fit(last)) / _per_edge(first, _of_fit(first)),
    }
    told = ", ".join(f"{part} {factor:.2f}" for part, factor in parts.items())
    return (
        f"{name}: time per edge at {last.measures['n_vertices']:,.0f} points in times of that at "
        f"{first.measures['n_vertices']:,.0f}: {told}."
    )


def _of_fit(record: RunRecord) -> float:
    return sum(record.measures[f"{stage}_s"] for stage in ("search", "polish", "rest"))


def _per_edge(record: RunRecord, seconds: float) -> float:
    return seconds / record.measures["n_directed_edges"]


def _scale_row(record: RunRecord) -> list[str]:
    m = record.measures
    begin = [f"{m['n_vertices']:,.0f}", DEVICES[record.method]]
    if not record.sizes:
        return [*begin, *["–"] * 14, record.status]
    return [
        *begin, f"{m['n_directed_edges']:,.0f}", f"{m['recall']:.3f}", f"{record.energy:.4f}",
        f"{m['planted_energy']:.4f}", f"{100 * (record.purity or 0):.2f}", f"{record.seconds:.1f}",
        *(f"{m[f'{stage}_s']:.2f}" for stage in STAGES), f"{1e6 * _per_edge(record, record.seconds):.2f}",
        f"{m['peak_gb']:.2f}", f"{m['gpu_peak_gb']:.2f}" if "gpu_peak_gb" in m else "–", "",
    ]  # fmt: skip


def _scale_plot(records: list[RunRecord], path: Path) -> None:
    """The seconds of each stage over the number of points, side by side for each device."""
    devices = _by_device(records)
    if not devices:
        return
    figure, axes = plt.subplots(1, len(devices), figsize=(5.5 * len(devices), 3.6), layout="constrained", squeeze=False)
    for axis, (name, mine) in zip(axes[0], devices.items(), strict=True):
        n = [record.measures["n_vertices"] for record in mine]
        axis.plot(n, [record.seconds for record in mine], "o-", color=OURS, label="all")
        for stage, color in zip(STAGES, OTHERS, strict=False):
            taken = [max(record.measures[f"{stage}_s"], 1e-3) for record in mine]
            axis.plot(n, taken, ".--", color=color, label=stage)
        axis.set(xscale="log", yscale="log", xlabel="points", ylabel="seconds", title=name)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    _save(figure, path)


# ---------------------------------------------------------------- kernels


def neighbors(path: Path) -> None:
    """neighbors.md beside neighbors.jsonl."""
    records = latest(read_records(path))
    head = [
        "data", "method", "seconds", "processor seconds", "recall", "it says of itself", "first call, 5,000 points",
        "remark",
    ]  # fmt: skip
    notes = (
        "Features to 10 nearest neighbours: the methods take turns in one process, and the median is told. Ours is the "
        "whole of `knn_graph`, to the symmetric graph; the others' are their lists, with 16 neighbours for "
        "pynndescent, of which the first ten count. Recall is against brute force on 300 points; in our graph a "
        "neighbour counts too that only the other end has found. The first call, of about 5,000 points, compiles, or "
        "reads what is compiled. Rendered by `benchmarks/render.py` from `neighbors.jsonl`."
    )
    _write(
        path.with_suffix(".md"),
        ["# Neighbours", _circumstances(records), notes, table(head, list(map(_neighbor_row, records)))],
    )


def _neighbor_row(record: RunRecord) -> list[str]:
    found = record.measures
    if not found:
        return [record.data, record.method, f"{record.seconds:.1f}", "", "", "", "", record.status]
    says = f"{found['method']}, {found['reported_recall']:.3f}" if "reported_recall" in found else ""
    return [
        record.data, record.method, f"{record.seconds:.2f}", f"{found['processor_seconds']:.2f}",
        f"{found['recall']:.3f}", says, f"{found['first_call_of_5000']:.1f}", "",
    ]  # fmt: skip


def kernels(path: Path) -> None:
    """kernels.md beside kernels.jsonl: the latest line of each (graph, R)."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    newest = {(line["data"], line["R"]): line for line in lines}
    last = lines[-1]
    about = [
        f"- machine: {last['machine'].get('processor')}, {last['machine']['threads']} threads",
        f"- commit: {last['commit']}, {last['created']}",
    ]
    notes = (
        "Bytes are those of the duals read and written, six N×R arrays and the indices: 2·nnz·R·4 + 6·N·R·4 + nnz·8; "
        "the copy beside each row counts bytes read and written. Medians. "
        "Rendered by `benchmarks/render.py` from `kernels.jsonl`."
    )
    _write(path.with_suffix(".md"), ["# Kernels", "\n".join(about), notes, kernel_table(newest.values())])


def kernel_table(lines: Iterable[dict[str, Any]]) -> str:
    head = [
        "graph", "R", "inner iteration, ms", "check, ms", "argmax and cut, ms", "MB per iteration", "GB/s",
        "copy, GB/s", "of copy bandwidth", "check / iteration",
    ]  # fmt: skip
    rows = [
        [
            line["data"], str(line["R"]), f"{line['iterate_ms']:.2f}", f"{line['measure_ms']:.2f}",
            f"{line['harden_ms']:.2f}", f"{line['bytes'] / 1e6:.0f}", f"{line['gb_per_s']:.1f}",
            f"{line['copy_gb_per_s']:.1f}", f"{line['fraction']:.0%}", f"{line['check_share']:.0%}",
        ]
        for line in lines
    ]  # fmt: skip
    return table(head, rows)


# ---------------------------------------------------------------- shared


# ---------------------------------------------------------------- the GPU


def gpu(path: Path) -> None:
    """gpu.md and gpu.svg beside gpu.jsonl; the processor's energies of the same starts come from table1.jsonl."""
    records = read_records(path)
    groups = {name: [r for r in records if r.method == name] for name in _unique(r.method for r in records)}
    card = records[0].machine["card"]
    iterations = groups["iteration"]
    parts = [
        "# On a GPU",
        f"- GPU: {card}\n- copy bandwidth: {iterations[0].measures['copy GB/s']:,.0f} GB/s (bytes read and written)",
        _circumstances(records),
        "Each time is the median of five runs after one that compiles. Rendered by `benchmarks/render.py` from "
        "`gpu.jsonl`, which `make bench-gpu` writes.",
        "## One inner iteration",
        "mnist, the authors' graph, R = 10. Milliseconds of each launch; the bytes of `iterate` are those of the duals "
        "read and written, five N×R arrays and the indices.",
        _iteration_table(iterations, groups.get("iteration on the processor", [])),
        "## Whole runs",
        '`default fit` is `MTVClustering(n_clusters, device="cuda").fit`, search included, from arrays on the host to '
        "labels on the host, with five seeds; `first fit in a process` has the caches of compiled programs filled, and "
        "imports beside it; the other rows are the paper's protocol.",
        _run_table(records),
        "## One label per class",
        "From labels on the host to labels on the host, the graph on the GPU; `fit` is "
        '`MTVClassifier(device="cuda").fit` with the default search, the graph on the host.',
        _draw_table(groups["one label per class"]),
        *_peer_part([r for r in records if "GraphLearning" in r.method]),
        "## The same 31 starts on the processor",
        _energy_table(groups["31 starts"][0], path.parent / "table1.jsonl"),
        "## Growth",
        "Planted clusters, vertices in random order; the start is a rough copy of the clusters, and the layout puts "
        "its vertices side by side. One start, 50 iterations; an iteration is everything it takes, looks for medians "
        "and what the host does included.",
        _growth_table(groups["growth"]),
    ]
    _write(path.with_suffix(".md"), parts)
    _growth_plot(groups["growth"], path.with_suffix(".svg"))


def _iteration_table(records: list[RunRecord], processor: list[RunRecord]) -> str:
    names = ("iterate", "vary", "survey", "select", "decide")
    head = ["duals", "starts", *(f"{name}, ms" for name in names), "together, ms", "`iterate` of copy bandwidth"]
    rows = [
        [r.settings["duals"], f"{r.measures['starts']:.0f}", *(f"{r.measures[name]:.3f}" for name in names),
         f"{1e3 * r.seconds:.3f}", f"{r.measures['of copy bandwidth']:.0%}"]
        for r in records
    ]  # fmt: skip
    said = [
        f"The processor of that machine ({r.measures['threads']:.0f} threads) takes {1e3 * r.seconds:.2f} ms for an "
        "iteration of one start with its check."
        for r in processor
    ]
    return "\n\n".join([table(head, rows), *said])


def _run_table(records: list[RunRecord]) -> str:
    rows = []
    for r in records:
        if r.method not in (
            "normalised cut", "31 starts", "features to labels", "default fit", "first fit in a process"
        ):  # fmt: skip
            continue
        spent = ("graph", "normalised cut", "31 starts", "making starts s", "imports s", "longest s")
        words = {k: v for k, v in r.measures.items() if k in spent}
        parts = ", ".join(f"{name.removesuffix(' s')} {value:.2f} s" for name, value in words.items())
        if "highest energy" in r.measures:
            parts = f"(P) {r.measures['lowest energy']:.4f} to {r.measures['highest energy']:.4f}; {parts}"
        name = f"{r.method}, {r.settings['duals']} duals" if r.settings else r.method
        energy = "" if r.energy is None else f"{r.energy:.4f}"
        purity = "" if r.purity is None else f"{100 * r.purity:.2f}"
        rows.append([r.data, name, f"{r.seconds:.3f}", energy, purity, parts])
    return table(["data", "run", "seconds", "energy (P)", "purity %", "of which, or beside it"], rows)


def _draw_table(records: list[RunRecord]) -> str:
    rows = [
        [f"{r.seed}", f"{1e3 * r.seconds:.0f}", f"{1e3 * r.measures['making the start s']:.0f}",
         f"{100 * r.measures['accuracy']:.2f}", f"{r.energy:.4f}", f"{r.n_iter}",
         f"{1e3 * r.measures['fit s']:.0f}", f"{100 * r.measures['accuracy of fit']:.2f}"]
        for r in records
    ]  # fmt: skip
    head = [
        "draw", "ms", "of which the start", "accuracy % on the others", "energy (P)", "iterations", "ms of `fit`",
        "its accuracy %",
    ]  # fmt: skip
    return table(head, rows)


def _peer_part(records: list[RunRecord]) -> list[str]:
    """The peers on the same GPU and draws, if they were there."""
    rows = [[r.method, f"{r.seed}", f"{r.seconds:.2f}", f"{100 * r.measures['accuracy']:.2f}"] for r in records]
    head = ["method", "draw", "seconds", "accuracy % on the others"]
    return (
        ["The same draws by GraphLearning on the same GPU, from a graph on the host, one run each:", table(head, rows)]
        if rows
        else []
    )


def _energy_table(record: RunRecord, path: Path) -> str:
    ours = [value for name, value in record.measures.items() if name.startswith("energy of start")]
    theirs = [
        r.energy for r in read_records(path)
        if r.data == "mnist" and r.method == "MTV" and r.n_labelled == 0 and r.energy is not None
    ]  # fmt: skip
    rows = []
    for name, energies in ((record.machine["card"], ours), ("processor (table1.jsonl)", theirs)):
        quartiles = quantiles(energies, n=4, method="inclusive")
        best = f"{min(energies):.4f}"
        rows.append([name, f"{len(energies)}", best, *(f"{value:.4f}" for value in quartiles), f"{max(energies):.4f}"])
    head = ["engine", "starts", "lowest (P)", "lower quartile", "median", "upper quartile", "highest"]
    return table(head, rows)


def _growth_table(records: list[RunRecord]) -> str:
    head = [
        "vertices", "R", "directed edges", "ms per iteration", "`iterate` alone, ms", "of copy bandwidth",
        "looks per iteration", "ps per (edge × R × iteration)", "of `iterate` alone", "host's layout, s", "peak GB",
    ]  # fmt: skip
    rows = []
    for r in records:
        m = r.measures
        alone = 1e9 * m["iterate ms"] / (m["directed edges"] * m["clusters"])
        rows.append([
            f"{m['vertices']:,.0f}", f"{m['clusters']:.0f}", f"{m['directed edges']:,.0f}",
            f"{m['ms per iteration']:.2f}", f"{m['iterate ms']:.2f}", f"{m['of copy bandwidth']:.0%}",
            f"{m['looks per iteration']:.2f}", f"{m['ps per edge, cluster and iteration']:.1f}", f"{alone:.1f}",
            f"{m['layout s']:.1f}", f"{m['peak GB']:.1f}",
        ])  # fmt: skip
    return table(head, rows)


def _growth_plot(records: list[RunRecord], path: Path) -> None:
    figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for R, colour in zip(sorted({r.measures["clusters"] for r in records}), (OURS, *OTHERS), strict=False):
        mine = [r.measures for r in records if r.measures["clusters"] == R]
        axis.loglog(
            [m["vertices"] for m in mine],
            [m["ms per iteration"] for m in mine],
            "o-",
            color=colour,
            label=f"R = {R:.0f}",
        )
    axis.set(xlabel="vertices", ylabel="ms per inner iteration", title=records[0].machine["card"])
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table with columns of even width."""
    widths = [max(len(row[c]) for row in [head, *rows]) for c in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _write(path: Path, parts: list[str]) -> None:
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Render again whatever records there are in the folder named, or in docs/results."""
    default = Path(__file__).resolve().parents[1] / "docs" / "results"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for name, write in {"bench": bench, "scale": scale, "neighbors": neighbors, "kernels": kernels, "gpu": gpu}.items():
        if (folder / f"{name}.jsonl").is_file():
            write(folder / f"{name}.jsonl")


if __name__ == "__main__":
    main()
