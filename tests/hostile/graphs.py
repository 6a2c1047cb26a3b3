"""Graphs, features and labels at random, peculiar ones more often than a user has them, and the things that users hold
them in. The same generators make the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp

Edges = list[tuple[int, int]]


# ---------------------------------------------------------------- edges


def _random(n: int, draw: Random) -> Edges:
    return [(draw.randrange(n), draw.randrange(n)) for _ in range(draw.choice([n, 2 * n, 5 * n]))]


def _star(n: int, draw: Random) -> Edges:
    return [(0, j) for j in range(1, n)]


def _path(n: int, draw: Random) -> Edges:
    return [(i, i + 1) for i in range(n - 1)]


def _cycle(n: int, draw: Random) -> Edges:
    return [*_path(n, draw), (0, n - 1)]


def _complete(n: int, draw: Random) -> Edges:
    n = min(n, 60)
    return [(i, j) for i in range(n) for j in range(i + 1, n)]


def _bipartite(n: int, draw: Random) -> Edges:
    n = min(n, 80)
    return [(i, j) for i in range(n // 2) for j in range(n // 2, n)]


def _components(n: int, draw: Random) -> Edges:
    step = draw.choice([2, 3, n // 2 or 1, n])
    return [(i, i + step) for i in range(n - step)]


def _half_isolated(n: int, draw: Random) -> Edges:
    return _path(n // 2, draw)


def _empty(n: int, draw: Random) -> Edges:
    return []


def _blocks(n: int, draw: Random) -> Edges:
    size = max(1, n // draw.choice([2, 3, 5]))

    def partner(i: int) -> int:
        inside = min(n - 1, i // size * size + draw.randrange(size))
        return inside if draw.random() < 0.95 else draw.randrange(n)

    return [(i, partner(i)) for i in (draw.randrange(n) for _ in range(4 * n))]


def _tree(n: int, draw: Random) -> Edges:
    return [(draw.randrange(i), i) for i in range(1, n)]


def _grid(n: int, draw: Random) -> Edges:
    side = max(1, int(n**0.5))
    right = [(i, i + 1) for i in range(side * side) if (i + 1) % side]
    return right + [(i, i + side) for i in range(side * side - side)]


def _one_edge(n: int, draw: Random) -> Edges:
    return [(0, n - 1)]


def _lollipop(n: int, draw: Random) -> Edges:
    head = min(n // 2, 30)
    return _complete(head, draw) + [(i, i + 1) for i in range(max(head - 1, 0), n - 1)]


def _matching(n: int, draw: Random) -> Edges:
    return [(2 * i, 2 * i + 1) for i in range(n // 2)]


def _hubs(n: int, draw: Random) -> Edges:
    return [(hub, j) for j in range(2, n) for hub in draw.sample([0, 1], draw.choice([1, 2]))]


TOPOLOGIES: dict[str, Callable[[int, Random], Edges]] = {
    "random": _random, "star": _star, "path": _path, "cycle": _cycle, "complete": _complete, "bipartite": _bipartite,
    "components": _components, "half isolated": _half_isolated, "empty": _empty, "blocks": _blocks, "tree": _tree,
    "grid": _grid, "one edge": _one_edge, "lollipop": _lollipop, "matching": _matching, "hubs": _hubs,
}  # fmt: skip

WEIGHTS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "one": lambda m, rng: np.ones(m),
    "uniform": lambda m, rng: rng.random(m) + 1e-3,
    "wide": lambda m, rng: 10.0 ** rng.uniform(-300, 300, m),
    "tiny": lambda m, rng: 10.0 ** rng.uniform(-300, -290, m),
    "huge": lambda m, rng: 10.0 ** rng.uniform(290, 300, m),
    "integer": lambda m, rng: rng.integers(1, 100, m).astype(float),
    "two scales": lambda m, rng: np.where(rng.random(m) < 0.5, 1e-8, 1e8),
    "denormal": lambda m, rng: 5e-324 * rng.integers(1, 9, m),
    "lognormal": lambda m, rng: np.exp(rng.normal(0, 5, m)),
    "1e-12": lambda m, rng: (rng.random(m) + 0.1) * 1e-12,
    "1e12": lambda m, rng: (rng.random(m) + 0.1) * 1e12,
    "one huge": lambda m, rng: np.where(np.arange(m) == 0, 1e30, 1.0),
    "one tiny": lambda m, rng: np.where(np.arange(m) == 0, 1e-30, 1.0),
}


@dataclass(frozen=True)
class Drawn:
    """A graph: its number of vertices, its edges with i < j, their weights, and what it is in words."""

    n: int
    edges: Edges
    weights: np.ndarray
    about: str

    @property
    def matrix(self) -> sp.csr_matrix:
        i, j = np.array(self.edges, dtype=int).reshape(-1, 2).T
        values, rows, columns = np.r_[self.weights, self.weights], np.r_[i, j], np.r_[j, i]
        return sp.csr_matrix((values, (rows, columns)), shape=(self.n, self.n))


def drawn_graph(draw: Random, rng: np.random.Generator) -> Drawn:
    n = draw.choice([1, 2, 3, 4, 5, 8, 12, 20, 40, 80, 150, 300])
    topology = draw.choice([*TOPOLOGIES, "random", "blocks"])
    pairs = {(min(i, j), max(i, j)) for i, j in TOPOLOGIES[topology](n, draw) if i != j and max(i, j) < n}
    weights = draw.choice([*WEIGHTS, "one"])
    with np.errstate(all="ignore"):
        values = WEIGHTS[weights](len(pairs), rng)
    return Drawn(n, sorted(pairs), values, f"{topology}, weights {weights}")


# ---------------------------------------------------------------- what users hold a graph in


def _readonly(graph: Drawn, rng: np.random.Generator) -> Any:
    W = graph.matrix
    for part in (W.data, W.indices, W.indptr):
        part.setflags(write=False)
    return W


def _unsorted(graph: Drawn, rng: np.random.Generator) -> Any:
    W = graph.matrix
    for begin, end in zip(W.indptr[:-1], W.indptr[1:], strict=True):
        order = begin + rng.permutation(end - begin)
        W.indices[begin:end], W.data[begin:end] = W.indices[order], W.data[order]
    W.has_sorted_indices = False
    return W


def _long_indices(graph: Drawn, rng: np.random.Generator) -> Any:
    W = graph.matrix
    W.indices, W.indptr = W.indices.astype(np.int64), W.indptr.astype(np.int64)
    return W


def _with_zeros(graph: Drawn, rng: np.random.Generator) -> Any:
    W, (i, j) = graph.matrix.tocoo(), rng.integers(graph.n, size=(2, 5))
    parts = (np.r_[W.data, np.zeros(10)], (np.r_[W.row, i, j], np.r_[W.col, j, i]))
    return sp.coo_matrix(parts, shape=W.shape).tocsr()


def _in_halves(graph: Drawn, rng: np.random.Generator) -> Any:
    W = graph.matrix.tocoo()
    parts = (np.r_[W.data / 2, W.data / 2], (np.r_[W.row, W.row], np.r_[W.col, W.col]))
    return sp.coo_matrix(parts, shape=W.shape)


def _networkx(graph: Drawn, rng: np.random.Generator) -> Any:
    import networkx

    return networkx.from_scipy_sparse_array(graph.matrix)


def _igraph(graph: Drawn, rng: np.random.Generator) -> Any:
    import igraph

    network = igraph.Graph(n=graph.n, edges=graph.edges)
    if graph.edges:
        network.es["weight"] = graph.weights.tolist()
    return network


def _own(graph: Drawn, rng: np.random.Generator) -> Any:
    from tautcut import Graph

    return Graph.from_edges(np.array(graph.edges, dtype=int).reshape(-1, 2), graph.weights, n_vertices=graph.n)


def _frame(graph: Drawn, rng: np.random.Generator) -> Any:
    import pandas as pd

    return pd.DataFrame(graph.matrix.toarray())


SPARSE = ("csr", "csc", "coo", "lil", "dok", "bsr")
HOLDERS: dict[str, Callable[[Drawn, np.random.Generator], Any]] = {
    **{form: lambda graph, rng, form=form: graph.matrix.asformat(form) for form in SPARSE},
    "dia": lambda graph, rng: graph.matrix.todia() if graph.n <= 100 else graph.matrix,
    "dense": lambda graph, rng: graph.matrix.toarray(),
    "fortran": lambda graph, rng: np.asfortranarray(graph.matrix.toarray()),
    "list": lambda graph, rng: graph.matrix.toarray().tolist(),
    "sparray": lambda graph, rng: sp.csr_array(graph.matrix),
    "diagonal": lambda graph, rng: sp.csr_matrix(graph.matrix + sp.diags(rng.random(graph.n))),
    "bool": lambda graph, rng: graph.matrix.astype(bool),
    "int8": lambda graph, rng: graph.matrix.astype(np.int8),
    "float32": lambda graph, rng: graph.matrix.astype(np.float32),
    "float16": lambda graph, rng: graph.matrix.toarray().astype(np.float16),
    "longdouble": lambda graph, rng: graph.matrix.toarray().astype(np.longdouble),
    "big-endian": lambda graph, rng: graph.matrix.toarray().astype(">f8"),
    "object": lambda graph, rng: graph.matrix.toarray().astype(object),
    "readonly": _readonly, "unsorted": _unsorted, "long indices": _long_indices, "zeros": _with_zeros,
    "halves": _in_halves, "networkx": _networkx, "igraph": _igraph, "graph": _own, "frame": _frame,
}  # fmt: skip


def held(graph: Drawn, draw: Random, rng: np.random.Generator) -> tuple[str, Any]:
    """The name of a holder, and the graph in it."""
    name = draw.choice([*HOLDERS, "csr"])
    with np.errstate(all="ignore"):
        return name, HOLDERS[name](graph, rng)


def snapshot(thing: Any) -> Any:
    """What must be the same after a fit as before it."""
    if sp.issparse(thing):
        names = ("data", "indices", "indptr", "row", "col", "offsets", "rows")
        parts = [getattr(thing, name) for name in names if isinstance(getattr(thing, name, None), np.ndarray)]
        entries = sorted(thing.items()) if thing.format == "dok" else ()
        return type(thing), thing.shape, repr(entries), [snapshot(part) for part in parts]
    if isinstance(thing, np.ndarray):
        has_bytes = thing.dtype not in (object, np.longdouble)  # of which some would mean nothing
        content = thing.tobytes() if has_bytes else repr(thing.tolist())
        return content, str(thing.dtype), thing.flags.writeable
    if hasattr(thing, "get_edgelist"):
        return thing.get_edgelist(), thing.es["weight"] if "weight" in thing.es.attributes() else None
    if hasattr(thing, "number_of_edges"):
        return repr(sorted(thing.edges(data=True)))
    if hasattr(thing, "to_numpy"):
        return thing.to_numpy().tobytes()
    if hasattr(thing, "weights"):
        return [snapshot(part) for part in (thing.weights, thing.indices, thing.indptr)]
    return repr(thing)


# ---------------------------------------------------------------- features


def _cell_set_to(value: float) -> Callable[[np.ndarray, np.random.Generator], Any]:
    def changed(X: np.ndarray, rng: np.random.Generator) -> Any:
        X[0, 0] = value
        return X

    return changed


def _constant_column(X: np.ndarray, rng: np.random.Generator) -> Any:
    X[:, 0] = 7
    return X


def _framed(X: np.ndarray, rng: np.random.Generator) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


def _sparse_features(X: np.ndarray, rng: np.random.Generator) -> Any:
    form = ("csr", "csc", "coo")[rng.integers(3)]
    return sp.csr_matrix(np.where(rng.random(X.shape) < 0.3, X, 0)).asformat(form)


FEATURES: dict[str, Callable[[np.ndarray, np.random.Generator], Any]] = {
    "normal": lambda X, rng: X,
    "blobs": lambda X, rng: X + 8 * (np.arange(len(X)) % 3)[:, None],
    "constant column": _constant_column,
    "all the same": lambda X, rng: np.full_like(X, 3.25),
    "duplicates": lambda X, rng: X[rng.integers(max(1, len(X) // 4), size=len(X))],
    "huge": lambda X, rng: X * 1e150,
    "1e300": lambda X, rng: X * 1e300,
    "tiny": lambda X, rng: X * 1e-200,
    "offset": lambda X, rng: X * 1e-6 + 1e9,
    "negative zero": lambda X, rng: X * -0.0,
    "int": lambda X, rng: (X * 100).astype(np.int32),
    "few integers": lambda X, rng: rng.integers(0, 3, size=X.shape),
    "bool": lambda X, rng: X > 0,
    "float32": lambda X, rng: X.astype(np.float32),
    "float16": lambda X, rng: X.astype(np.float16),
    "sparse": _sparse_features,
    "sparse without values": lambda X, rng: sp.csr_matrix(X.shape),
    "one nan": _cell_set_to(np.nan),
    "one inf": _cell_set_to(np.inf),
    "list": lambda X, rng: X.tolist(),
    "object": lambda X, rng: X.astype(object),
    "strings": lambda X, rng: np.full(X.shape, "a"),
    "frame": _framed,
}


def drawn_features(draw: Random, rng: np.random.Generator) -> tuple[str, int, Any]:
    """A name, the number of points, and their features."""
    n, d = draw.choice([2, 3, 5, 20, 60, 150]), draw.choice([1, 2, 5, 30])
    kind = draw.choice(list(FEATURES))
    return kind, n, FEATURES[kind](rng.normal(size=(n, d)), rng)


# ---------------------------------------------------------------- labels

LABELS = ("few", "few", "one", "one class", "all", "none", "strings", "floats", "object", "bool")


def drawn_labels(n: int, n_classes: int, draw: Random, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """What y is like, and y: −1, NaN or None where a label is unknown."""
    style = draw.choice(LABELS)
    share = {"few": 0.2, "all": 1.1, "none": -1.0, "one": -1.0}.get(style, 0.3)
    is_known = rng.random(n) < share
    if style == "one":
        is_known[rng.integers(n)] = True
    truth = np.zeros(n, dtype=int) if style == "one class" else rng.permutation(np.arange(n) % n_classes)
    if style == "floats":
        return style, np.where(is_known, truth.astype(float), np.nan)
    named: dict[str, Callable[[int], Any]] = {"strings": "c{}".format, "object": int, "bool": lambda r: bool(r % 2)}
    if style in named:
        known = [named[style](r) if k else None for r, k in zip(truth.tolist(), is_known, strict=True)]
        return style, np.array(known, dtype=object)
    return style, np.where(is_known, truth, -1)


def is_unknown(label: Any) -> bool:
    return label is None or label != label or (label == -1 and not isinstance(label, bool))
