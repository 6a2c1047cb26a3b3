"""A graph beside a random one of the same degrees: how many eigenvalues of its spectrum stand out of chance, and how
many of its edges may be noise. Both are findings of `diagnostics`; neither looks for a partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from tautcut.arrays import FloatArray, IntArray, SparseMatrix
from tautcut.graph import Graph
from tautcut.graph.findings import Finding, Origin, percent, possible

# Half the edges no better than random ones: more noise than structure.
NOISE = 0.5
# A random edge whose ends have no common neighbour can be told from a real one only if most random edges are so.
SPARSE_ENOUGH = 0.5

# Bounds on time.
SPECTRAL_EDGES = 2_000_000  # the eigenvalues of more edges take minutes
SPECTRAL_VALUES = 16  # eigenvalues, unless more clusters are asked for
SAMPLED_EDGES = 20_000  # whose common neighbours are counted: a standard error of at most 0.4 %
LOOKUPS = 2**22  # of neighbours at a time
_LANCZOS_TOL = 1e-4
_CHANCE_TOL = 1e-2  # of the random graph, of which one eigenvalue is needed, roughly
_LANCZOS_WORK = 4e9  # products of numbers in all, which say how often Lanczos may restart,
_LANCZOS_RESTARTS = (10, 100)  # between these bounds
_DENSE_SIZE = 300  # below it a dense decomposition takes a fraction of a second


def spectrum(graph: Graph, n_clusters: int | None) -> Finding | None:
    """The gap after the R-th eigenvalue of D^-½ W D^-½, and how many eigenvalues stand out of chance.

    Chance is the second eigenvalue of a random graph of the same degrees: clusters whose eigenvalue is no larger
    cannot be told from it.
    """
    W = _largest_component(graph.to_scipy())
    count = min(max(SPECTRAL_VALUES, (n_clusters or 0) + 1), W.shape[0])
    if W.shape[0] < 3 or n_clusters == 1:
        return None
    if graph.n_edges > SPECTRAL_EDGES or count > 4 * SPECTRAL_VALUES:
        meaning = f"The spectrum was not measured: {graph.n_edges:,} edges and {count} eigenvalues take too long."
        return Finding("spectrum", {}, "info", meaning)
    rng = np.random.default_rng(0)  # the same graph gets the same diagnosis
    values = _leading_eigenvalues(W, count, rng, tol=_LANCZOS_TOL)
    random = _leading_eigenvalues(_largest_component(_rewired(W, rng)), 2, rng, tol=_CHANCE_TOL)
    if values is None or random is None:
        return Finding("spectrum", {}, "info", "The spectrum was not measured: its eigenvalues lie too close together.")
    return _spectral_finding(values, float(random[-1]), n_clusters)


def _spectral_finding(values: FloatArray, chance: float, n_clusters: int | None) -> Finding:
    """The finding on the leading eigenvalues; those of a random graph are at most `chance`."""
    steps = 1.0 - values  # eigenvalues of the normalised Laplacian, growing from 0
    gaps = np.diff(steps) / np.maximum(steps[1:], np.finfo(np.float64).eps)
    visible = max(int((values > chance).sum()), 1)
    widest = int(np.diff(steps)[1:].argmax()) + 2 if gaps.size > 1 else 1
    value: dict[str, float | int] = {"n_visible": visible, "chance": chance, "widest_gap_at": widest}
    seen = f"{visible}{' or more' if visible == values.size else ''}"
    meaning = f"{seen} eigenvalues are larger than chance gives, so as many clusters can be told from it."
    if n_clusters is None or n_clusters >= values.size:
        return Finding("spectrum", value, "info", f"{meaning} The widest gap is after {widest}.")
    value |= {"eigenvalue": float(values[n_clusters - 1]), "gap": float(gaps[n_clusters - 1])}
    if visible >= n_clusters:
        meaning += f" The relative gap after {n_clusters} is {gaps[n_clusters - 1]:.2f}."
        return Finding("spectrum", value, "info", meaning)
    meaning = (
        f"Only {visible} of {n_clusters} clusters can be told from chance: eigenvalue {n_clusters} of the graph is "
        f"{values[n_clusters - 1]:.2f}, and those of a random graph reach {chance:.2f}."
    )
    advice = f"Ask for {max(visible, 2)} clusters or fewer, or make a graph with less noise."
    return Finding("spectrum", value, "warning", meaning, advice)


def noise(graph: Graph, spectral: Finding | None, origin: Origin | None) -> Finding | None:
    """The share of edges whose ends have no common neighbour, against a random graph of the same degrees.

    If a share ν of the edges is random, at least ν q of all edges have no common neighbour, where q is that share in
    the random graph: so ν is at most the ratio of the two. Good graphs may have few common neighbours too, and then
    their spectrum shows it.
    """
    if not graph.n_edges:
        return None
    rng = np.random.default_rng(0)  # the same graph gets the same diagnosis
    i, j = _sampled_edges(graph, rng)
    alone = float(np.mean(_common_neighbors(graph, i, j) == 0))
    counts = np.diff(graph.indptr).astype(np.float64)
    pairs = float((counts * (counts - 1)).sum()) / counts.sum() ** 2
    random = float(np.exp(-pairs * (counts[i] - 1) * (counts[j] - 1)).mean())
    value: dict[str, float | int] = {"no_common_neighbor": alone, "random_graph": random}
    if random < SPARSE_ENOUGH:
        meaning = "Noise cannot be told: in a graph this dense the ends of random edges have common neighbours too."
        return Finding("noise", value, "info", meaning)
    share = min(alone / random, 1.0)
    value["noise"] = share
    meaning = (
        f"The ends of {percent(alone)} of the edges have no common neighbour, {percent(random)} in a random graph: "
        f"at most {percent(share)} of the edges are noise."
    )
    shows_clusters = spectral is not None and spectral.severity == "info" and spectral.value.get("n_visible", 0) > 1
    if share <= NOISE or shows_clusters:
        return Finding("noise", value, "info", meaning)
    advice = possible(
        origin,
        "Expect a poor cut unless the graph is of a kind without triangles, such as a grid",
        "; from features, reduce their dimension, choose another metric or raise n_neighbors",
    )
    return Finding("noise", value, "warning", meaning, advice)


def _largest_component(W: SparseMatrix) -> SparseMatrix:
    """The weights inside the largest component."""
    component = connected_components(W, directed=False)[1]
    inside = np.flatnonzero(component == np.bincount(component).argmax())
    return W if inside.size == W.shape[0] else sp.csr_matrix(W[inside][:, inside])


def _rewired(W: SparseMatrix, rng: np.random.Generator) -> SparseMatrix:
    """A random graph whose vertices have as many edges as in W, but for loops, which are left out."""
    edges = sp.triu(W, 1).tocoo()
    is_turned = rng.random(edges.nnz) < 0.5
    i = np.where(is_turned, edges.col, edges.row)
    j = rng.permutation(np.where(is_turned, edges.row, edges.col))
    proper = i != j
    upper = sp.coo_matrix((edges.data[proper], (i[proper], j[proper])), shape=W.shape)
    return sp.csr_matrix(upper + upper.T)


def _leading_eigenvalues(W: SparseMatrix, count: int, rng: np.random.Generator, *, tol: float) -> FloatArray | None:
    """The largest eigenvalues of D^-½ W D^-½ of a connected graph, in decreasing order.

    None where Lanczos does not get there in bounded time.
    """
    n = W.shape[0]
    if n < 2:
        return np.zeros(1)
    W = W.copy()
    W.data /= W.data.max()  # first, so that no degree overflows or vanishes
    scale = sp.diags(1.0 / np.sqrt(np.asarray(W.sum(axis=1)).ravel()))
    S = sp.csr_matrix(scale @ W @ scale)
    if n <= max(_DENSE_SIZE, 3 * count + 1):
        return np.asarray(np.linalg.eigvalsh(S.toarray())[::-1][:count], dtype=np.float64)
    n_basis = max(3 * count, 20)
    restarts = int(np.clip(_LANCZOS_WORK / (n_basis * S.nnz), *_LANCZOS_RESTARTS))
    options: dict[str, Any] = {"tol": tol, "maxiter": restarts, "ncv": n_basis, "v0": rng.standard_normal(n)}
    try:
        values = eigsh(S, count, which="LA", return_eigenvectors=False, **options)
    except ArpackError:
        return None
    return np.asarray(np.sort(values)[::-1], dtype=np.float64)


def _sampled_edges(graph: Graph, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Ends of the edges, at most SAMPLED_EDGES of them; the first end has no more neighbours than the second."""
    entries = np.arange(graph.indices.size)
    if entries.size > 2 * SAMPLED_EDGES:
        entries = np.sort(rng.choice(entries.size, SAMPLED_EDGES, replace=False))
    i = np.searchsorted(graph.indptr, entries, side="right") - 1
    j = graph.indices[entries].astype(np.int64)
    counts = np.diff(graph.indptr)
    is_larger = counts[i] > counts[j]
    return np.where(is_larger, j, i), np.where(is_larger, i, j)


def _common_neighbors(graph: Graph, i: IntArray, j: IntArray) -> IntArray:
    """How many neighbours of i are neighbours of j too, for each pair."""
    n, counts = graph.n_vertices, np.diff(graph.indptr)
    keys = np.repeat(np.arange(n), counts) * n + graph.indices  # growing, as rows and their neighbours are sorted
    common = np.empty(i.size, dtype=np.int64)
    part = (np.cumsum(counts[i]) - counts[i]) // LOOKUPS  # the pairs in parts of about so many lookups
    for block in np.split(np.arange(i.size), np.flatnonzero(np.diff(part)) + 1):
        lengths = counts[i[block]]
        pair = np.repeat(np.arange(lengths.size), lengths)
        within = np.arange(pair.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        third = graph.indices[graph.indptr[i[block]][pair] + within]
        wanted = j[block][pair] * n + third
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        common[block] = np.bincount(pair[keys[place] == wanted], minlength=lengths.size)
    return common
