"""The data sets by name, and the graphs that the paper's experiments run on. This module owns the list of sets, the
digests of their files, how each graph is built, and the note that says how it differs from the paper's. It
leaves to `files` where a file lies, and never looks at the truth while it builds a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tautcut.arrays import Features, IntArray
from tautcut.checks import one_of
from tautcut.datasets.files import Arrays, Origin, read_arrays
from tautcut.datasets.synthetic import four_moons
from tautcut.datasets.text import COUNT_ARRAYS, fetch_newsgroups, tfidf_rows
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.graph import read_only
from tautcut.neighbors import knn_graph

# In the order of the paper's table.
PAPER_NAMES = ("4moons", "webkb4", "optdigits", "pendigits", "20news", "mnist")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features with their classes. The arrays are read-only.

    Attributes
    ----------
    name : str
        The name that `load` knows it by.
    X : ndarray of float32 or uint8, or csr_matrix of float64, shape (n_points, n_features)
        The points, a row each; tf-idf rows where the set is text.
    truth : ndarray of int64, shape (n_points,)
        The class of each point, from 0.
    class_names : tuple of str
        The name of each class, indexed by `truth`.
    """

    name: str
    X: Features
    truth: IntArray
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        X = self.X
        if isinstance(X, np.ndarray):
            X = read_only(X)
        else:
            X = sp.csr_matrix((read_only(X.data), read_only(X.indices), read_only(X.indptr)), shape=X.shape)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "truth", read_only(self.truth))


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with the classes of its vertices, which are read-only.

    Attributes
    ----------
    name : str
        The name of the data set.
    graph : Graph
        The graph, a vertex for each point.
    truth : ndarray of int64, shape (n_vertices,)
        The class of each vertex, from 0.
    note : str
        What the graph is, and how it differs from the one of the paper.
    """

    name: str
    graph: Graph
    truth: IntArray
    note: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "truth", read_only(self.truth))


def load(name: str) -> Dataset:
    """The features and classes of a data set.

    Files are looked for in the folder that the environment variable TAUTCUT_DATA names, then in the user's cache
    (`$XDG_CACHE_HOME/tautcut` or `~/.cache/tautcut`). What is in neither is downloaded where scikit-learn has a
    fetcher for it, and kept in the cache. A download may differ from the published file: its rows can be in
    another order, and its 20 Newsgroups are a later version with fewer messages.

    Parameters
    ----------
    name : {"4moons", "webkb4", "optdigits", "pendigits", "20news", "mnist", "digits"}
        "4moons" is generated and "digits" comes with scikit-learn; neither needs a file. The text sets are
        tf-idf rows without stop words, without words that occur fewer than 5 ("webkb4") or 20 times ("20news"),
        and without the documents that this leaves empty.

    Raises
    ------
    InputError
        If the data cannot be had, or its file is not the expected one.

    Examples
    --------
    >>> load("digits").X.shape
    (1797, 64)
    """
    one_of("data set", name, (*PAPER_NAMES, "digits"))
    if name == "4moons":
        X, truth = four_moons()
        return Dataset(name, X, truth, ("first", "second", "third", "fourth"))
    stored = _bundled_digits() if name == "digits" else read_arrays(_FEATURES[name])
    truth, class_names = stored["y"].astype(np.int64), tuple(str(one) for one in stored["class_names"])
    if name not in _FEWEST_OCCURRENCES:
        return Dataset(name, stored["X"], truth, class_names)
    rows, is_kept = tfidf_rows(stored, fewest=_FEWEST_OCCURRENCES[name])
    return Dataset(name, rows, truth[is_kept], class_names)


def load_graph(name: str) -> LabelledGraph:
    """A graph that the authors published, "mnist" or "20news".

    Its file is looked for as in `load`; there is no download. The rows of `load(name).X` are not its vertices:
    they come in another order, and some messages of 20 Newsgroups are not in the graph.
    """
    one_of("published graph", name, tuple(_GRAPHS))
    stored = read_arrays(_GRAPHS[name])
    ones = np.ones(stored["indices"].size)
    W = sp.csr_matrix((ones, stored["indices"], stored["indptr"]), shape=tuple(stored["shape"]))
    return LabelledGraph(name, Graph.from_any(W), stored["y"].astype(np.int64), _NOTES[name])


def paper_graph(name: str) -> LabelledGraph:
    """The graph for a column of the paper's table: the authors' own where it is public, else the nearest to it.

    Parameters
    ----------
    name : {"4moons", "webkb4", "optdigits", "pendigits", "20news", "mnist"}
        `PAPER_NAMES`, in the order of the table. Graphs other than those of `load_graph` are built anew, by
        exact search, in seconds.
    """
    one_of("data set of the paper", name, PAPER_NAMES)
    if name in _GRAPHS:
        return load_graph(name)
    data = load(name)
    is_text = name in _FEWEST_OCCURRENCES
    graph = knn_graph(data.X, 5 if is_text else 10, metric="cosine" if is_text else "euclidean", method="exact")
    return LabelledGraph(name, graph, data.truth, _NOTES[name])


def _bundled_digits() -> Arrays:
    """The digits that come with scikit-learn."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return _small_integers(digits.data, digits.target)


def _fetch_digits(openml_name: str) -> Arrays:
    """A set of digits from OpenML; version 1 is the complete set."""
    from sklearn.datasets import fetch_openml

    parser = "pandas" if find_spec("pandas") else "liac-arff"  # the same values; pandas is far quicker
    X, y = fetch_openml(openml_name, version=1, cache=False, as_frame=False, return_X_y=True, parser=parser)
    return _small_integers(X, y)


def _small_integers(X: NDArray[np.generic], y: NDArray[np.generic]) -> Arrays:
    """The arrays of a set whose features are whole numbers from 0 to 255, as bytes."""
    with np.errstate(invalid="ignore"):
        compact = X.astype(np.uint8)
    if not np.array_equal(compact, X):
        raise InputError("features must be whole numbers from 0 to 255; found others. Use the published file.")
    class_names, truth = np.unique(y.astype(np.str_), return_inverse=True)
    return {"X": compact, "y": truth.astype(np.int64), "class_names": class_names}


_FEATURES = {
    "webkb4": Origin("webkb4.npz", "36c4f083b81f54dddd2c58e50e6613aece365e98d86db49e86a0f7e4061a0ab8", COUNT_ARRAYS),
    "20news": Origin(
        "newsgroups20.npz", "60853974aa073fc4d718089da2b6d13b7594e14b91dd71d96006a939ac0ad744", COUNT_ARRAYS,
        fetch_newsgroups,
    ),
} | {
    name: Origin(f"{name}.npz", sha256, ("X", "y", "class_names"), partial(_fetch_digits, openml_name))
    for name, openml_name, sha256 in (
        ("optdigits", "optdigits", "1b54d99f1867fc3835f129b352fd94e79d23c5227b7c5e892c2a60972ab499fa"),
        ("pendigits", "pendigits", "3bb29749042a9cdc3962427fc2c74fb3e105148019ef6d16efa981ac654bb031"),
        ("mnist", "mnist_784", "9f4fee899cbb051b11d9ac0b44ebf9e1e27e0ec6a0b2b38e6c05e6a91248d738"),
    )
}  # fmt: skip

_GRAPHS = {
    name: Origin(file, sha256, ("indices", "indptr", "shape", "y"))
    for name, file, sha256 in (
        ("20news", "graph_20news_incres.npz", "2a19406ce9f5f8df9283b4e46a2ee798f40c85e02c1b6c8a704917bdf3a4fb02"),
        ("mnist", "graph_mnist_nmfr.npz", "adfd49ec20d131337009f2f5ad5d2f89cce1c358e570c01a445c9ebe185c7275"),
    )
}

# Of a word in all documents of a text set together; rarer words are left out.
_FEWEST_OCCURRENCES = {"webkb4": 5, "20news": 20}

_RAW_NEIGHBORS = (
    "The binary 10-nearest-neighbour graph of the raw features. The paper's graph is that of Yang et al. (2012), "
    "which is said to be built on scattering features."
)

_NOTES = {
    "4moons": (
        "The binary 10-nearest-neighbour graph of points generated anew, as the paper's own are not public: their "
        "positions are measured from a figure, and the noise is chosen so that the graph behaves as reported. The "
        "paper's graph has self-tuning weights, which MTV uses binarised."
    ),
    "webkb4": (
        "The unweighted 5-nearest-neighbour graph by cosine of tf-idf rows, without stop words and words with fewer "
        "than 5 occurrences (the recipe of INCRES). The paper's graph is that of Yang et al. (2012), on the 10,000 "
        "words of largest information gain about the classes, and is not public."
    ),
    "optdigits": _RAW_NEIGHBORS,
    "pendigits": _RAW_NEIGHBORS,
    "20news": (
        "The graph published with INCRES and Product Cut: 5 nearest neighbours by cosine of tf-idf rows, unweighted. "
        "The paper's graph is that of Yang et al. (2012), on the 10,000 words of largest information gain about the "
        "classes, and is not public."
    ),
    "mnist": (
        "The 10-nearest-neighbour graph on scattering features that the authors published, unweighted, its diagonal "
        "left out. It is taken to be the paper's, that of Yang et al. (2012): the normalised cut of both has the "
        "same purity."
    ),
}
