"""What the GPU's engine reaches: milliseconds of an inner iteration and the share of the GPU's copy bandwidth, the
paper's 31 starts, one label per class, features to labels, and how it grows to ten million vertices. It needs torch,
Triton, NumPy and SciPy, and the data sets in the folder that TAUTCUT_DATA names. Every figure is a RunRecord in
docs/results/gpu.jsonl; `benchmarks/render.py` makes the table and the plot from them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut.algorithm.batch import limits_of, run_batch
from tautcut.algorithm.stopping import StopRule
from tautcut.graph import Graph
from tautcut.kernels.devices import thread_count
from tautcut.metrics import purity
from tautcut.problem import Problem
from tautcut.records import RunRecord, append_record, circumstances
from tautcut.search.starts import seed_vertices

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
N_STARTS, N_DRAWS, REPEATS = 31, 10, 5
N_DRAWS_OF_PEERS = {"Poisson": 3, "PoissonMBO": 1}  # the latter takes more than a minute
SIZES = (
    (70_000, 10),
    (70_000, 20),
    (1_000_000, 10),
    (1_000_000, 20),
    (1_000_000, 100),
    (10_000_000, 20),
    (10_000_000, 100),
)
ITERATIONS = 50  # of a growing graph that are timed
_COPIED = 1 << 30  # numbers


class Bench:
    """Where records go, and what they share."""

    def __init__(self, out: Path, commit: str | None) -> None:
        import torch

        self.out = out
        shared = circumstances()
        self.versions = {**shared["versions"], "torch": torch.__version__, "triton": version("triton")}
        machine = {**shared["machine"], "card": torch.cuda.get_device_name()}
        self.shared = {**shared, "versions": self.versions, "machine": machine, "commit": commit or shared["commit"]}

    def write(self, data: str, method: str, seconds: float, measures: dict[str, float], **fields: Any) -> None:
        given = {
            "settings": {}, "seed": 0, "n_labelled": 0, "energy": None, "purity": None, "sizes": (), "n_iter": 0,
            "status": "Done.", **fields,
        }  # fmt: skip
        record = RunRecord(data=data, method=method, seconds=seconds, measures=measures, **given, **self.shared)
        append_record(self.out, record)
        shown = " ".join(f"{name} {value:.5g}" for name, value in measures.items())
        print(
            f"{data:24} {method:28} {seconds:9.4f} s  E {given['energy']}  purity {given['purity']}  {shown}",
            flush=True,
        )


def milliseconds(work: Callable[[], Any], repeat: int = 20) -> float:
    """The median over five replays of a captured graph of `repeat` calls, per call."""
    import torch

    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeat):
            work()
    times = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / repeat)
    return statistics.median(times)


def copy_bandwidth() -> float:
    """Bytes read and written in a second by the fastest way to copy a large array."""
    import torch

    a = torch.rand(_COPIED, device="cuda")
    b = torch.empty_like(a)
    ways = (lambda: b.copy_(a), lambda: torch.add(a, 0.0, out=b))
    return max(8 * _COPIED / (milliseconds(way, 5) / 1e3) for way in ways)


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """The median of several runs after one that is not counted, and what the last one gave."""
    import torch

    work()
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        outcome = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times), outcome


def bytes_of_iteration(problem: Problem, size_of_dual: int) -> int:
    """Duals read and written, five arrays of F, and the indices."""
    edges, values = problem.graph.indices.size, problem.n_vertices * problem.n_clusters
    return 2 * edges * problem.n_clusters * size_of_dual + 5 * values * 4 + 4 * edges


# ---------------------------------------------------------------- the parts of an iteration


def iteration_times(kernels: Any, starts: Any, prepare: int = 16) -> dict[str, float]:
    """Milliseconds of each launch, with every start in the midst of its inner loop."""
    from tautcut.kernels.gpu import tables

    S = len(starts)
    batch = kernels.batch(starts, limits_of(StopRule(tol=0.0, max_iter=10_000)))
    for _ in range(prepare):
        batch.launch_round(S)

    def midway() -> None:
        batch.set_words({tables.PHASE: tables.ITERATE.value, tables.INNER: 1, tables.MISSES: 0})
        batch.brackets[:, :, tables.TAKEN.value] = 0

    times = {}
    for name, launch in (
        ("iterate", batch.launch_iterate), ("vary", batch.launch_vary), ("survey", batch.launch_survey),
        ("select", batch.launch_select), ("decide", batch.launch_decide),
    ):  # fmt: skip
        midway()
        times[name] = milliseconds(lambda launch=launch: launch(S), 5 if name == "survey" else 20)
    return times


def measure_iteration(bench: Bench, name: str, problem: Problem, bandwidth: float) -> None:
    from tautcut.kernels.gpu.engine import GpuKernels

    rng = np.random.default_rng(0)
    some = rng.dirichlet(np.ones(problem.n_clusters), problem.n_vertices)
    for duals, size in (("float32", 4), ("float16", 2)):
        kernels = GpuKernels(problem, duals=duals)
        for S in (1, N_STARTS):
            starts = kernels.in_rows(some)[None].repeat(S, 1, 1)
            times = iteration_times(kernels, starts)
            reached = S * bytes_of_iteration(problem, size) / (times["iterate"] / 1e3) / bandwidth
            measures = {**times, "starts": S, "of copy bandwidth": reached, "copy GB/s": bandwidth / 1e9}
            bench.write(name, "iteration", sum(times.values()) / 1e3, measures, settings={"duals": duals})


# ---------------------------------------------------------------- whole runs


def paper_starts(tools: Any, clusters: np.ndarray, seed: int = 0) -> Any:
    """The starts of `tautcut reproduce table1`: the normalised cut's indicator, and 30 times a vertex of each cluster,
    diffused.
    """
    import torch

    R = tools.kernels.problem.n_clusters
    generators = [np.random.default_rng([seed, trial]) for trial in range(N_STARTS - 1)]
    vertices = np.stack([seed_vertices(clusters, R, rng=rng) for rng in generators])
    indicator = (clusters[:, None] == np.arange(R)).astype(np.float32)
    return torch.cat([tools.kernels.in_rows(indicator)[None], tools.diffuse_seeds(vertices)])


def measure_starts(bench: Bench, name: str, problem: Problem, truth: np.ndarray, clusters: np.ndarray | None) -> None:
    """The paper's 31 starts, side by side; the lowest (P) wins. From starts on the GPU to labels on the host."""
    from tautcut.kernels.gpu.engine import GpuKernels
    from tautcut.kernels.gpu.spectral import GpuSpectral

    kernels = GpuKernels(problem)
    tools = GpuSpectral(kernels)
    seconds, found = seconds_of(lambda: tools.normalised_cut(problem.n_clusters, rng=np.random.default_rng(0)))
    bench.write(name, "normalised cut", seconds, {}, purity=purity(found, truth))
    clusters = found if clusters is None else clusters
    made, starts = seconds_of(lambda: paper_starts(tools, clusters))
    for duals in ("float32", "float16"):
        engine = GpuKernels(problem, duals=duals)
        seconds, outcome = seconds_of(lambda e=engine: run_batch(problem, starts, e, stop=StopRule()))
        best = outcome.best.partition
        measures = {"starts": N_STARTS, "making starts s": made, "iterations": int(outcome.iterations.sum())}
        measures |= {f"energy of start {number}": float(energy) for number, energy in enumerate(outcome.energies)}
        bench.write(
            name, "31 starts", seconds, measures, energy=best.energy, purity=purity(best.labels, truth),
            sizes=tuple(best.sizes.tolist()), n_iter=outcome.best.n_iter, settings={"duals": duals},
            status=str(outcome.best.status),
        )  # fmt: skip


def drawn_labels(truth: np.ndarray, draw: int) -> np.ndarray:
    """One vertex of each class, −1 elsewhere."""
    labels = np.full(truth.size, -1)
    R = int(truth.max()) + 1
    labels[seed_vertices(truth, R, rng=np.random.default_rng(draw))] = np.arange(R)
    return labels


def measure_few_labels(bench: Bench, name: str, problem: Problem, truth: np.ndarray) -> None:
    """One label per class: from the labels to the partition, the graph on the GPU already; and the estimator's fit."""
    from tautcut import MTVClassifier
    from tautcut.kernels.gpu.engine import GpuKernels
    from tautcut.kernels.gpu.spectral import GpuSpectral

    R = problem.n_clusters

    def diffused(kernels: Any, tools: Any, B: np.ndarray) -> Any:
        return tools.laplacian.diffuse(kernels.in_rows(B)[None])

    def classify(kernels: Any, tools: Any, B: np.ndarray) -> Any:
        return run_batch(kernels.problem, diffused(kernels, tools, B), kernels, stop=StopRule()).best

    estimator = MTVClassifier(affinity="precomputed", device="cuda", random_state=0)
    for draw in range(N_DRAWS):
        labels = drawn_labels(truth, draw)
        kernels = GpuKernels(Problem(problem.graph, R, labels=labels))
        B = (labels[:, None] == np.arange(R)).astype(np.float32)
        given = (kernels, GpuSpectral(kernels), B)
        start = seconds_of(partial(diffused, *given))[0]
        seconds, result = seconds_of(partial(classify, *given))
        fit, fitted = seconds_of(partial(estimator.fit, problem.graph, labels))
        is_free = labels < 0
        measures = {
            "accuracy": float((result.partition.labels == truth)[is_free].mean()), "making the start s": start,
            "fit s": fit, "accuracy of fit": float((fitted.transduction_ == truth)[is_free].mean()),
        }  # fmt: skip
        bench.write(
            name, "one label per class", seconds, measures, seed=draw, n_labelled=R,
            energy=result.partition.energy, purity=purity(result.partition.labels, truth), n_iter=result.n_iter,
            sizes=tuple(result.partition.sizes.tolist()), status=str(result.status),
        )  # fmt: skip


def measure_poisson(bench: Bench, name: str, W: sp.csr_matrix, truth: np.ndarray) -> None:
    """GraphLearning's Poisson learning on the same GPU and draws, where it is installed."""
    try:
        import graphlearning
    except ImportError as error:
        print(f"GraphLearning is left out: {error}")
        return
    R = int(truth.max()) + 1
    bench.versions["graphlearning"] = version("graphlearning")
    models = {
        "Poisson": lambda: graphlearning.ssl.poisson(W, solver="gradient_descent", use_cuda=True),
        "PoissonMBO": lambda: graphlearning.ssl.poisson_mbo(
            W, class_priors=np.full(R, 1 / R), solver="gradient_descent", use_cuda=True
        ),
    }
    for method, model in models.items():
        for draw in range(N_DRAWS_OF_PEERS[method]):
            labels = drawn_labels(truth, draw)
            known = np.flatnonzero(labels >= 0)
            began = time.perf_counter()
            found = model().fit_predict(known, labels[known])
            seconds = time.perf_counter() - began
            right = float((found == truth)[labels < 0].mean())
            bench.write(
                name, f"{method} (GraphLearning, use_cuda)", seconds, {"accuracy": right}, seed=draw, n_labelled=R
            )


def measure_fit(bench: Bench, name: str, given: Any, truth: np.ndarray, affinity: str) -> None:
    """What a user types: the estimator's default fit, search included, from a graph or from features.

    Of five seeds, the median of the seconds, and the fit with the median energy.
    """
    from tautcut import MTVClustering

    R, fits = int(truth.max()) + 1, []
    for seed in (0, *range(REPEATS)):  # the first compiles
        began = time.perf_counter()
        fitted = MTVClustering(R, affinity=affinity, device="cuda", random_state=seed).fit(given)
        fits.append((fitted.energy_, seed, time.perf_counter() - began, fitted))
    counted = sorted(fits[1:], key=lambda fit: fit[:2])
    _, seed, _, fitted = counted[len(counted) // 2]
    measures = {
        "lowest energy": counted[0][0],
        "highest energy": counted[-1][0],
        "longest s": max(f[2] for f in counted),
    }
    bench.write(
        name, "default fit", statistics.median(fit[2] for fit in counted), measures, energy=fitted.energy_, seed=seed,
        purity=purity(fitted.labels_, truth), n_iter=fitted.n_iter_, status=str(fitted.status_),
        sizes=tuple(np.bincount(fitted.labels_).tolist()),
    )  # fmt: skip


_FIRST_FIT = """
import sys, time
began = time.perf_counter()
import numpy as np, scipy.sparse as sp, torch
from tautcut import MTVClustering
imported = time.perf_counter()
file = np.load(sys.argv[1])
W = sp.csr_matrix((np.ones(file["indices"].size), file["indices"], file["indptr"]), shape=tuple(file["shape"]))
model, read = MTVClustering(10, affinity="precomputed", device="cuda", random_state=0), time.perf_counter()
model.fit(W)
print(imported - began, time.perf_counter() - read, model.energy_)
"""


def measure_first_fit(bench: Bench, name: str) -> None:
    """A default fit in a process of its own, the caches of compiled programs filled: what a user waits for first."""
    path = str(Path(os.environ["TAUTCUT_DATA"]) / "graph_mnist_nmfr.npz")
    command = [sys.executable, "-c", _FIRST_FIT, path]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(4)]
    imports, seconds, energies = zip(*([float(word) for word in run] for run in runs[1:]), strict=True)
    measures = {"imports s": statistics.median(imports)}
    bench.write(name, "first fit in a process", statistics.median(seconds), measures, energy=energies[0])


def measure_features(bench: Bench, name: str, X: np.ndarray, truth: np.ndarray) -> None:
    """Features to labels: neighbours, graph, normalised cut, 31 starts."""
    from tautcut.kernels.gpu.engine import GpuKernels
    from tautcut.kernels.gpu.nearest import nearest_on_gpu
    from tautcut.kernels.gpu.spectral import GpuSpectral
    from tautcut.neighbors import neighbor_graph

    R = int(truth.max()) + 1
    parts: dict[str, float] = {}

    def lap(part: str, began: float) -> float:
        parts[part] = time.perf_counter() - began
        return time.perf_counter()

    def whole() -> Any:
        t = time.perf_counter()
        graph = neighbor_graph(X, 10, finder=nearest_on_gpu)[0]
        t = lap("graph", t)
        kernels = GpuKernels(Problem(graph, R))
        tools = GpuSpectral(kernels)
        clusters = tools.normalised_cut(R, rng=np.random.default_rng(0))
        t = lap("normalised cut", t)
        starts = paper_starts(tools, clusters)
        best = run_batch(kernels.problem, starts, kernels, stop=StopRule()).best
        lap("31 starts", t)
        return best

    seconds, best = seconds_of(whole)
    bench.write(
        name, "features to labels", seconds, parts, energy=best.partition.energy,
        purity=purity(best.partition.labels, truth), n_iter=best.n_iter, status=str(best.status),
        sizes=tuple(best.partition.sizes.tolist()),
    )  # fmt: skip


def measure_processor(bench: Bench, name: str, problem: Problem) -> None:
    """The same iteration by the engine of the processor, where Numba is installed."""
    try:
        from tautcut.kernels.cpu.engine import CpuKernels
    except ImportError:
        print("no Numba: the processor's engine is left out")
        return
    from tautcut.algorithm.solver import run

    F = np.random.default_rng(0).dirichlet(np.ones(problem.n_clusters), problem.n_vertices)
    kernels = CpuKernels(problem, dtype=np.dtype("float32"))
    run(problem, F, kernels, stop=StopRule(max_iter=5))
    began = time.perf_counter()
    result = run(problem, F, kernels, stop=StopRule(tol=0.0, max_iter=60))
    seconds = time.perf_counter() - began
    bench.write(
        name, "iteration on the processor", seconds / result.n_iter, {"threads": thread_count()}, n_iter=result.n_iter
    )


# ---------------------------------------------------------------- growth


def planted_graph(n: int, R: int, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """About 15 directed edges to a vertex, six in seven inside one of R planted clusters, vertices in random order."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    name = torch.randperm(n, device="cuda", generator=generator)
    own = torch.arange(n, device="cuda").repeat_interleave(7)
    size = n // R
    block = (own // size).clamp_max(R - 1)
    other = block * size + torch.randint(0, size, own.shape, device="cuda", generator=generator)
    other[::7] = torch.randint(0, n, (n,), device="cuda", generator=generator)
    extra = torch.randint(0, n - 1, (7 * n // 10,), device="cuda", generator=generator)
    rows, columns = torch.cat([name[own], name[extra]]), torch.cat([name[other], name[extra + 1]])
    keep = rows != columns
    rows, columns = rows[keep], columns[keep]
    keys = torch.unique(torch.cat([rows * n + columns, columns * n + rows]))
    counts = torch.bincount(keys // n, minlength=n)
    indptr = np.concatenate([[0], counts.cumsum(0).cpu().numpy()])
    indices = (keys % n).to(torch.int32).cpu().numpy()
    planted = np.empty(n, dtype=np.int64)
    planted[name.cpu().numpy()] = np.minimum(np.arange(n) // size, R - 1)
    return Graph(indptr, indices, np.ones(indices.size)), planted


def measure_growth(bench: Bench, bandwidth: float, until: float) -> None:
    """A run from a rough copy of the planted clusters, whose vertices the layout puts side by side."""
    import torch

    from tautcut.kernels.gpu import tables
    from tautcut.kernels.gpu.engine import GpuKernels

    for n, R in SIZES:
        if time.monotonic() > until:
            print(f"{n} vertices, R = {R}: left out for lack of time")
            continue
        graph, planted = planted_graph(n, R)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        rng = np.random.default_rng(0)
        rough = np.where(rng.random(n) < 0.2, rng.integers(0, R, n), planted)
        began = time.perf_counter()
        kernels = GpuKernels(Problem(graph, R), groups=rough)
        kernels.starts_that_fit()
        order = kernels.tensors["order"]
        laid_out = time.perf_counter() - began
        label = torch.from_numpy(rough).cuda()[order]
        start = torch.full((1, n, R), 0.5 / R, device="cuda")
        start[0, torch.arange(n, device="cuda"), label] += 0.5
        for iterations in (2, ITERATIONS):  # the first compiles
            batch = kernels.batch(start, limits_of(StopRule(tol=0.0, max_iter=iterations)))
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in batch.run():
                pass
            torch.cuda.synchronize()
            seconds = time.perf_counter() - began
            after, looks = batch.look()[0], batch.word(tables.LOOKS)
            del batch
        iteration_ms = 1e3 * seconds / after.iterations
        iterate = iteration_times(kernels, start)["iterate"]
        edges = graph.indices.size
        measures = {
            "vertices": n, "clusters": R, "directed edges": edges, "layout s": laid_out,
            "ms per iteration": iteration_ms, "iterate ms": iterate, "looks per iteration": looks / after.iterations,
            "ps per edge, cluster and iteration": 1e9 * iteration_ms / (edges * R),
            "of copy bandwidth": bytes_of_iteration(kernels.problem, 4) / (iterate / 1e3) / bandwidth,
            "peak GB": torch.cuda.max_memory_allocated() / 1e9,
        }  # fmt: skip
        bench.write(f"planted {n} x {R}", "growth", seconds, measures, n_iter=after.iterations, energy=after.best)
        del kernels, start, graph


def load_graph(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    with np.load(Path(os.environ["TAUTCUT_DATA"]) / f"{name}.npz") as file:
        ones = np.ones(file["indices"].size)
        return sp.csr_matrix((ones, file["indices"], file["indptr"]), shape=tuple(file["shape"])), file["y"]


def load_features(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(os.environ["TAUTCUT_DATA"]) / f"{name}.npz") as file:
        return file["X"].reshape(len(file["X"]), -1).astype(np.float32), file["y"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.jsonl", help="file of records")
    parser.add_argument("--commit", help="what to write as the commit, where the folder is no checkout")
    parser.add_argument("--clusters", type=Path, help="the normalised cut's labels as .npy, to draw the 31 starts from")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which no larger graph is begun")
    parser.add_argument("--only", choices=("mnist", "fits", "growth", "peers"), help="one part of it")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    options.out.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.out, options.commit)
    bandwidth = copy_bandwidth()
    W, truth = load_graph("graph_mnist_nmfr")
    X, classes = load_features("mnist")
    problem = Problem(Graph.from_any(W), 10)
    name = "mnist (authors' graph)"

    def mnist() -> None:
        measure_starts(bench, name, problem, truth, options.clusters and np.load(options.clusters))
        measure_few_labels(bench, name, problem, truth)
        measure_iteration(bench, name, problem, bandwidth)
        measure_processor(bench, name, problem)
        measure_features(bench, "mnist (features)", X, classes)

    def fits() -> None:
        measure_fit(bench, name, problem.graph, truth, "precomputed")
        measure_first_fit(bench, name)
        measure_fit(bench, "mnist (features)", X, classes, "knn")
        for dataset in ("pendigits", "optdigits"):
            measure_fit(bench, f"{dataset} (features)", *load_features(dataset), "knn")
        measure_fit(bench, "20news (authors' graph)", *load_graph("graph_20news_incres"), "precomputed")

    parts = {
        "mnist": mnist,
        "fits": fits,
        "growth": lambda: measure_growth(bench, bandwidth, until),
        "peers": lambda: measure_poisson(bench, name, W, truth),
    }
    for part, measure in parts.items():
        if options.only in (None, part):
            measure()


if __name__ == "__main__":
    main()
