"""The kernels against the floor that memory sets: the time of one inner iteration, of its check and of one argmax with
its cut, as a fraction of the machine's copy bandwidth with as many threads as the kernels use.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import scipy.sparse as sp
from run import commit_of_code, surroundings

from tautcut import Graph, Problem, datasets
from tautcut.errors import InputError
from tautcut.kernels.devices import choose, thread_count
from tautcut.kernels.protocol import StepSizes
from tautcut.search.starts import start_maker

COLUMNS = (10, 16)  # a row of 10 is an eight-lane piece and a shorter one, a row of 16 whole pieces alone
OUTER = 40  # outer steps timed
INNER = 20  # inner iterations in each
WARM_UP = 2  # outer steps before them, in which kernels are compiled and the brackets of the medians settle
COPIED = 256 * 2**20  # bytes of each array copied: far more than any cache holds


def copy_bandwidth(n_threads: int, rounds: int = 40) -> float:
    """Bytes read and written per second by np.copyto of 256 MB, a share on each thread; the best of several."""
    source, target = np.ones(COPIED // 8), np.empty(COPIED // 8)
    pairs = list(zip(np.array_split(target, n_threads), np.array_split(source, n_threads), strict=True))
    best = np.inf
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), pairs))
            best = min(best, time.perf_counter() - began)
    return 2 * COPIED / best


def graph_to_time() -> tuple[str, Graph]:
    """The authors' MNIST graph, or one of its size where it is not there."""
    name = "mnist (authors' graph)"
    try:
        return name, datasets.load_graph("mnist").graph
    except InputError as error:
        print(f"{error} A graph like it is timed instead.")
    n, degree = 70_000, 7.35  # mnist's vertices, and its undirected edges per vertex
    rng = np.random.default_rng(0)
    rows = rng.integers(0, n, round(n * degree))
    columns = (rows + np.round(rng.standard_cauchy(rows.size) * 500).astype(np.int64)) % n  # mostly near, some far
    keep = rows != columns
    half = sp.coo_matrix((np.ones(keep.sum()), (rows[keep], columns[keep])), shape=(n, n)).tocsr()
    W = (half + half.T).tocsr()
    W.data[:] = 1.0
    return "synthetic, of the size of mnist's", Graph.from_any(W)


def clock(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    answer = function(*arguments)
    return answer, time.perf_counter() - began


def kernel_times(problem: Problem, F: np.ndarray, *, outer: int = OUTER, inner: int = INNER) -> dict[str, float]:
    """Median seconds of `iterate`, `measure` and `harden` from the start F, called as Algorithm 1 calls them."""
    kernels = choose(problem)
    arrays = kernels.allocate(F)
    times: dict[str, list[float]] = {"iterate": [], "measure": [], "harden": []}
    measures, tau = kernels.measure(arrays), 1.0 / kernels.lipschitz
    for step in range(WARM_UP + outer):
        if step == WARM_UP:
            times = {name: [] for name in times}
        delta = float(measures.B.max())
        scale = delta / measures.B
        sigma = 1.0 / (tau * (scale.max() * kernels.lipschitz) ** 2)
        kernels.linearise(arrays, measures, delta)
        for _ in range(inner):
            theta = 1.0 / sqrt(1.0 + 2.0 * tau)
            times["iterate"].append(clock(kernels.iterate, arrays, scale, StepSizes(tau, sigma, theta))[1])
            tau, sigma = theta * tau, sigma / theta
            measures, seconds = clock(kernels.measure, arrays)
            times["measure"].append(seconds)
    times["harden"] = [clock(kernels.harden, arrays)[1] for _ in range(outer * inner)]
    return {name: float(np.median(values)) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=graphs.RESULTS / "kernels.jsonl", help="file of results")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    around = surroundings(set(), commit_of_code())
    name, graph = graph_to_time()
    lines = []
    for R in COLUMNS:
        bandwidth = copy_bandwidth(thread_count())
        problem, rng = Problem(graph, R), np.random.default_rng(0)
        seconds = kernel_times(problem, start_maker(problem, "multilevel", rng=rng)(0, rng))
        n, nnz = graph.n_vertices, 2 * graph.n_edges
        moved = 2 * nnz * R * 4 + 6 * n * R * 4 + nnz * 8
        lines.append({
            "data": name, "R": R, "n_vertices": n, "n_directed_edges": nnz, "bytes": moved,
            **{f"{kind}_ms": round(1e3 * value, 4) for kind, value in seconds.items()},
            "copy_gb_per_s": round(bandwidth / 1e9, 2), "gb_per_s": round(moved / seconds["iterate"] / 1e9, 2),
            "fraction": round(moved / seconds["iterate"] / bandwidth, 4),
            "check_share": round(seconds["measure"] / seconds["iterate"], 4), **around,
        })  # fmt: skip
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1], ensure_ascii=False) + "\n")
    print(f"copy bandwidth {lines[-1]['copy_gb_per_s']:.1f} GB/s, {thread_count()} threads")
    import render

    print(render.kernel_table(lines))
    render.kernels(options.out)


if __name__ == "__main__":
    main()
