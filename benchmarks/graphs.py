"""The graphs of the benchmarks, with their truth. The data are those of `tautcut.datasets`; neighbour graphs are built
once and kept under build/graphs. Nothing here is timed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tautcut import datasets, knn_graph
from tautcut.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
CACHE = ROOT / "build" / "graphs"
N_NEIGHBORS = 10


@dataclass(frozen=True, eq=False)
class Data:
    """A graph, the classes of its vertices, and the features where they are known."""

    name: str
    W: sp.csr_matrix
    truth: np.ndarray
    X: np.ndarray | None = None

    @property
    def n_clusters(self) -> int:
        return int(self.truth.max()) + 1


def load(name: str) -> Data:
    """The graph of this name; exits with a sentence if its data cannot be had."""
    make, dataset = GRAPHS[name]
    try:
        return make(name, dataset)
    except InputError as error:
        sys.exit(str(error))


def cached(name: str, build: Callable[[], sp.csr_matrix]) -> sp.csr_matrix:
    """What `build` makes, kept under build/graphs."""
    path = CACHE / f"{name}.npz"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = CACHE / f"{name}.{os.getpid()}.part.npz"
        sp.save_npz(part, build(), compressed=False)
        os.replace(part, path)
    return sp.load_npz(path).tocsr()


def _published(name: str, dataset: str) -> Data:
    published = datasets.load_graph(dataset)
    return Data(name, published.graph.to_scipy(), published.truth)


def _neighbors(name: str, dataset: str) -> Data:
    data = datasets.load(dataset)
    X = data.X.astype(np.float32)
    W = cached(name, lambda: knn_graph(X, N_NEIGHBORS, method="exact").to_scipy())
    return Data(name, W, data.truth, X)


GRAPHS = {
    "mnist (authors' graph)": (_published, "mnist"),
    "mnist raw 10-NN": (_neighbors, "mnist"),
    "20news": (_published, "20news"),
    "pendigits 10-NN": (_neighbors, "pendigits"),
    "optdigits 10-NN": (_neighbors, "optdigits"),
}
QUICK = ("mnist (authors' graph)", "optdigits 10-NN")
