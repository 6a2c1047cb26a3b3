"""Every method of the benchmark, and one run of one of them in this process: `run.py` starts it with a time limit, so
that a peer that crashes or hangs takes nothing with it. A method turns the graph into the form it wants off the clock,
is warmed up off the clock, and then answers. No method sees the truth, other than the few labels it is given.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from graphs import Data, load

from tautcut import MTVClassifier, MTVClustering, balanced_cut_energy, purity
from tautcut.kernels.devices import thread_count
from tautcut.records import draw_labels

SHORT, REPEATS = 5.0, 3  # a run shorter than this many seconds is timed this many times, for the median
MOST_TUNING = 15  # resolutions tried to find the wanted number of communities


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given: the graph, R, the features if there are any, the known labels (−1 elsewhere), a seed."""

    W: sp.csr_matrix
    R: int
    X: np.ndarray | None
    labels: np.ndarray | None
    seed: int

    @property
    def known(self) -> np.ndarray:
        return np.flatnonzero(self.labels >= 0)


@dataclass(frozen=True, eq=False)
class Answer:
    labels: np.ndarray
    n_iter: int = 0
    status: str = "Done."


Run = Callable[[], np.ndarray | Answer]


@dataclass(frozen=True)
class Method:
    """`prepare(task, **settings)` gives the function that is timed."""

    prepare: Callable[..., Run]
    package: str
    settings: dict[str, Any] = field(default_factory=dict)
    with_labels: bool = False
    needs_features: bool = False
    max_vertices: int | None = None
    is_quick: bool = False
    is_optional: bool = False  # runs only when it is asked for by name

    def reason_to_skip(self, data: Data) -> str | None:
        n = data.W.shape[0]
        if self.needs_features and data.X is None:
            return "Skipped: it needs features, and this is a graph alone."
        if self.max_vertices is not None and n > self.max_vertices:
            return f"Skipped: too slow beyond {self.max_vertices:,} vertices."
        return None


# ---------------------------------------------------------------- tautcut


def tautcut_clustering(task: Task, **settings: Any) -> Run:
    model = MTVClustering(task.R, affinity="precomputed", random_state=task.seed, **settings)
    return _tautcut(model, task.W, None)


def tautcut_classification(task: Task, **settings: Any) -> Run:
    model = MTVClassifier(affinity="precomputed", random_state=task.seed, **settings)
    return _tautcut(model, task.W, task.labels)


def _tautcut(model: Any, W: sp.csr_matrix, y: np.ndarray | None) -> Run:
    max_iter = model.max_iter
    model.set_params(max_iter=1).fit(W, y)  # compiles every kernel
    model.set_params(max_iter=max_iter)

    def run() -> Answer:
        model.fit(W, y)
        labels = model.labels_ if y is None else model.transduction_
        return Answer(labels, int(model.n_iter_), str(model.status_))

    return run


# ---------------------------------------------------------------- partitioners


def metis(task: Task) -> Run:
    import pymetis

    options = pymetis.Options()
    options.seed = task.seed
    adjacency = pymetis.CSRAdjacency(adj_starts=task.W.indptr, adjacent=task.W.indices)
    return lambda: np.array(pymetis.part_graph(task.R, adjacency=adjacency, options=options, recursive=False)[1])


def kahip(task: Task, *, imbalance: float) -> Run:
    import kahip

    n, graph = task.W.shape[0], (task.W.indptr.tolist(), [1] * task.W.nnz, task.W.indices.tolist())
    return lambda: np.array(kahip.kaffpa([1] * n, *graph, task.R, imbalance, True, task.seed, kahip.ECO)[1])


def mt_kahypar(task: Task, *, imbalance: float) -> Run:
    import mtkahypar

    mtkahypar.set_seed(task.seed)
    engine = _mt_kahypar_engine()
    context = engine.context_from_preset(mtkahypar.PresetType.QUALITY)
    context.set_partitioning_parameters(task.R, imbalance, mtkahypar.Objective.CUT)
    context.logging = False
    upper = sp.triu(task.W, 1).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    graph = engine.create_graph(context, task.W.shape[0], len(edges), edges)
    return lambda: np.array(graph.partition(context).get_partition())


@cache
def _mt_kahypar_engine() -> Any:
    """Mt-KaHyPar can be initialised once per process."""
    import mtkahypar

    return mtkahypar.initialize(thread_count())


# ---------------------------------------------------------------- clustering


def gl_clustering(task: Task, *, name: str) -> Run:
    import graphlearning as gl

    def run() -> np.ndarray:
        np.random.seed(task.seed)  # noqa: NPY002 - the state that graphlearning draws from
        return getattr(gl.clustering, name)(task.W, task.R).fit_predict()

    return run


def leiden(task: Task) -> Run:
    import igraph
    import leidenalg

    upper = sp.triu(task.W, 1).tocoo()
    graph = igraph.Graph(n=task.W.shape[0], edges=np.column_stack([upper.row, upper.col]))
    kind = leidenalg.RBConfigurationVertexPartition

    def communities(resolution: float) -> np.ndarray:
        found = leidenalg.find_partition(graph, kind, resolution_parameter=resolution, seed=task.seed)
        return np.array(found.membership)

    return lambda: _tuned(communities, task.R)


def louvain(task: Task) -> Run:
    from sknetwork.clustering import Louvain

    def communities(resolution: float) -> np.ndarray:
        return Louvain(resolution=resolution, random_state=task.seed).fit_predict(task.W)

    return lambda: _tuned(communities, task.R)


def _tuned(communities: Callable[[float], np.ndarray], R: int) -> Answer:
    """The communities at a resolution that gives R of them, by bisection; the nearest number if none is found."""
    low, high, resolution = 1e-3, 1e2, 1.0
    best, tried = None, 0
    for tried in range(1, MOST_TUNING + 1):  # noqa: B007 - said below
        labels = communities(resolution)
        count = int(labels.max()) + 1
        if best is None or abs(count - R) < abs(int(best.max()) + 1 - R):
            best = labels
        if count == R:
            break
        low, high = (resolution, high) if count < R else (low, resolution)
        resolution = float(np.sqrt(low * high))
    return Answer(best, tried, f"Tuned without labels: {tried} resolutions.")


def sklearn_spectral(task: Task) -> Run:
    from sklearn.cluster import SpectralClustering

    model = SpectralClustering(task.R, affinity="precomputed", random_state=task.seed)
    return lambda: model.fit_predict(task.W)


def umap_hdbscan(task: Task, *, n_neighbors: int, min_cluster_size: int) -> Run:
    import umap
    from hdbscan import HDBSCAN

    smallest = max(min_cluster_size, task.W.shape[0] // (10 * task.R))

    def run() -> Answer:
        plane = umap.UMAP(n_neighbors=n_neighbors, min_dist=0.0).fit_transform(task.X)  # a seed would cost its threads
        labels = HDBSCAN(min_cluster_size=smallest).fit_predict(plane)
        return Answer(labels, 0, f"From the features, unseeded; {int((labels < 0).sum())} points are noise.")

    return run


# ---------------------------------------------------------------- few labels


def gl_classification(task: Task, *, name: str, priors: str | None = None) -> Run:
    import graphlearning as gl

    shares = np.full(task.R, 1 / task.R) if priors == "uniform" else None
    known = task.known
    return lambda: getattr(gl.ssl, name)(task.W, shares).fit_predict(known, task.labels[known])


def label_spreading(task: Task) -> Run:
    from sklearn.semi_supervised import LabelSpreading

    model = LabelSpreading(kernel=lambda X, Y: task.W)
    vertices = np.arange(task.W.shape[0])[:, None]
    return lambda: model.fit(vertices, task.labels).transduction_


def diffusion(task: Task) -> Run:
    from sknetwork.classification import DiffusionClassifier

    return lambda: DiffusionClassifier().fit_predict(task.W, task.labels)


def _gl(name: str, **settings: Any) -> Method:
    return Method(gl_clustering, "graphlearning", {"name": name}, **settings)


def _gl_labels(name: str, *, is_quick: bool = False, **settings: Any) -> Method:
    return Method(gl_classification, "graphlearning", {"name": name, **settings}, with_labels=True, is_quick=is_quick)


PAPER = {"algorithm": "paper", "search": "none", "init": "multilevel", "n_init": 1}

METHODS = {
    "tautcut": Method(tautcut_clustering, "tautcut", is_quick=True),
    "tautcut thorough": Method(tautcut_clustering, "tautcut", {"search": "thorough"}, is_optional=True),
    "tautcut paper": Method(tautcut_clustering, "tautcut", PAPER, is_quick=True),
    "METIS": Method(metis, "pymetis", is_quick=True),
    "KaHIP eco": Method(kahip, "kahip", {"imbalance": 0.03}),
    "Mt-KaHyPar quality 3 %": Method(mt_kahypar, "mtkahypar", {"imbalance": 0.03}),
    "Mt-KaHyPar quality 30 %": Method(mt_kahypar, "mtkahypar", {"imbalance": 0.3}, is_quick=True),
    "spectral (graphlearning)": _gl("spectral", is_quick=True),
    "INCRES (graphlearning)": _gl("incres", is_quick=True),
    "Leiden": Method(leiden, "leidenalg"),
    "Louvain (scikit-network)": Method(louvain, "scikit-network"),
    "spectral (scikit-learn)": Method(sklearn_spectral, "scikit-learn", max_vertices=25_000),
    "UMAP + HDBSCAN": Method(
        umap_hdbscan, "umap-learn", {"n_neighbors": 10, "min_cluster_size": 20}, needs_features=True
    ),
    "tautcut, few labels": Method(tautcut_classification, "tautcut", with_labels=True, is_quick=True),
    "Poisson (graphlearning)": _gl_labels("poisson", is_quick=True),
    "PoissonMBO (graphlearning)": _gl_labels("poisson_mbo", priors="uniform", is_quick=True),
    "Laplace (graphlearning)": _gl_labels("laplace"),
    "LabelSpreading (scikit-learn)": Method(label_spreading, "scikit-learn", with_labels=True),
    "diffusion (scikit-network)": Method(diffusion, "scikit-network", with_labels=True),
}


# ---------------------------------------------------------------- one run


def measure(method: Method, data: Data, *, seed: int, per_class: int) -> dict[str, Any]:
    """What one run gave: seconds, energy, purity, sizes and a word, ready for a record."""
    task = task_of(data, seed, per_class)
    if method.package != "tautcut":
        with suppress(Exception, SystemExit):  # a failure on a toy is no verdict
            method.prepare(task_of(_toy(data), seed, per_class), **method.settings)()
    run = method.prepare(task, **method.settings)
    answer, seconds = _timed(run)
    return {"seconds": round(seconds, 4), **judge(answer, data, is_labelled=per_class > 0)}


def task_of(data: Data, seed: int, per_class: int) -> Task:
    labels = draw_labels(data.truth, per_class=per_class, rng=np.random.default_rng(seed)) if per_class else None
    return Task(data.W, data.n_clusters, data.X, labels, seed)


def _toy(data: Data) -> Data:
    """A ring of R rings of 40 vertices, to load what is loaded lazily; more points, as UMAP compiles more for many."""
    R, size = data.n_clusters, 40
    i = np.arange(R * size)
    inner = [(i, i // size * size + (i + step) % size) for step in range(1, 5)]
    ends = np.arange(R) * size
    rows, columns = np.hstack([*inner, (ends, np.roll(ends, 1))])
    half = sp.coo_matrix((np.ones(rows.size), (rows, columns)), shape=(i.size, i.size))
    W = (half + half.T).tocsr()
    W.data[:] = 1.0
    X = None if data.X is None else np.random.default_rng(0).random((5000, 4), dtype=np.float32)
    return Data("toy", W, i // size, X)


def _timed(run: Run) -> tuple[Answer, float]:
    times: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - began)
        if times[0] >= SHORT:
            break
    return found if isinstance(found, Answer) else Answer(np.asarray(found)), float(np.median(times))


def judge(answer: Answer, data: Data, *, is_labelled: bool) -> dict[str, Any]:
    """(P), purity and, where labels were given, the share of right labels, over all points."""
    labels, R = np.asarray(answer.labels, dtype=np.int64), data.n_clusters
    count = int(np.unique(labels[labels >= 0]).size)  # −1 is noise
    codes = labels if is_labelled else np.unique(labels, return_inverse=True)[1]
    is_partition = count == R and bool((labels >= 0).all())
    energy = balanced_cut_energy(data.W, codes) if is_partition else np.inf
    note = "" if count == R else f" It found {count} clusters, not {R}."
    return {
        "energy": float(energy) if np.isfinite(energy) else None,
        "purity": purity(codes, data.truth),
        "sizes": np.bincount(codes).tolist(),
        "n_iter": answer.n_iter,
        "status": answer.status + note,
        "measures": {"accuracy": float((codes == data.truth).mean())} if is_labelled else {},
    }


def main() -> None:
    """Arguments: method, graph, seed, labels per class, and the file to write the outcome to."""
    name, graph, seed, per_class, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    outcome = measure(METHODS[name], load(graph), seed=int(seed), per_class=int(per_class))
    Path(out).write_text(json.dumps(outcome), encoding="utf-8")


if __name__ == "__main__":
    main()
