"""The graphs of the benchmarks, with their truth. Data comes from the folder that TAUTCUT_DATA names; neighbour graphs
are built once and kept under build/graphs. Nothing here is timed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tautcut import knn_graph

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


def data_file(name: str) -> Path | None:
    """The file of this name in TAUTCUT_DATA, or None."""
    folder = os.environ.get("TAUTCUT_DATA")
    path = Path(folder) / f"{name}.npz" if folder else None
    return path if path is not None and path.is_file() else None


def load(name: str) -> Data:
    """The graph of this name; exits with a sentence if its file is not there."""
    file, make = GRAPHS[name]
    path = data_file(file)
    if path is None:
        sys.exit(f"{file}.npz is not in the folder that TAUTCUT_DATA names ({os.environ.get('TAUTCUT_DATA')}).")
    return make(name, path)


def cached(name: str, build: Callable[[], sp.csr_matrix]) -> sp.csr_matrix:
    """What `build` makes, kept under build/graphs."""
    path = CACHE / f"{name}.npz"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = CACHE / f"{name}.{os.getpid()}.part.npz"
        sp.save_npz(part, build(), compressed=False)
        os.replace(part, path)
    return sp.load_npz(path).tocsr()


def _published(name: str, path: Path) -> Data:
    z = np.load(path)
    ones = np.ones(z["indices"].size)
    W = sp.csr_matrix((ones, z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    W.sort_indices()
    return Data(name, W, z["y"].astype(np.int64))


def _neighbours(name: str, path: Path) -> Data:
    z = np.load(path)
    X = z["X"].astype(np.float32)
    W = cached(name, lambda: knn_graph(X, N_NEIGHBORS, method="exact").to_scipy())
    return Data(name, W, z["y"].astype(np.int64), X)


GRAPHS = {
    "mnist (authors' graph)": ("graph_mnist_nmfr", _published),
    "mnist raw 10-NN": ("mnist", _neighbours),
    "20news": ("graph_20news_incres", _published),
    "pendigits 10-NN": ("pendigits", _neighbours),
    "optdigits 10-NN": ("optdigits", _neighbours),
}
QUICK = ("mnist (authors' graph)", "optdigits 10-NN")
