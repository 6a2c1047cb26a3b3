"""What a graph says about the clustering to come, before it is run and after. `diagnose` measures a graph, without
labels, and puts each finding in words: what it means for clustering, and what to do; `confidence` says how firmly
the neighbours of each vertex agree on its cluster. This module owns those words and the thresholds behind them. It
never changes a graph and never looks for a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from tautcut.arrays import Features, FloatArray, IntArray, SparseMatrix
from tautcut.checks import cluster_count, hard_labels
from tautcut.graph import Graph
from tautcut.graph.columns import carriers

Severity = Literal["info", "warning"]
Origin = Literal["features", "graph"]

# A share of the vertices whose labels nothing decides. Good methods differ by about a point in a hundred, so more
# than that is seen in the result.
NOTICEABLE = 0.01
# A component this large, relative to the expected size of a cluster, may become a cluster of its own: the default
# search allows no smaller ones.
CLUSTER_LIKE = 0.25
# A hub has this many times the neighbours of the median vertex: random links almost never give so many.
HUB = 5.0
# Edges at hubs join everything to everything. A clear partition cuts a tenth of the edges or less, so with more than
# that at hubs the cut is about them.
HUB_EDGES = 0.1
# A forest has fewer than two neighbours per vertex on average, and every edge of it is a cut. With three, one edge in
# three is more than a spanning tree needs.
FEWEST_NEIGHBORS = 3.0
# The edges that together hold this little of the total weight may as well be missing.
IDLE_WEIGHT = 0.01
# Half the edges idle: the graph has less than half the edges that it seems to have.
IDLE_EDGES = 0.5
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


@dataclass(frozen=True)
class Finding:
    """One thing measured on a graph.

    Attributes
    ----------
    name : str
    value : dict of str to number
        What was measured; shares lie in [0, 1].
    severity : {"info", "warning"}
        A warning says that a run on this graph is likely to disappoint.
    meaning : str
        What it means for clustering, as a sentence.
    advice : str
        What to do, as a sentence; empty where there is nothing to do.
    """

    name: str
    value: dict[str, float | int]
    severity: Severity
    meaning: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.meaning} {self.advice}".rstrip()


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; `str(diagnosis)` is readable text."""

    n_vertices: int
    n_edges: int
    n_clusters: int | None
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings to show before a run that will disappoint."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, numbers and strings."""
        return {**asdict(self), "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        asked = "" if self.n_clusters is None else f", asked for {self.n_clusters} clusters"
        head = f"{self.n_vertices:,} vertices and {self.n_edges:,} edges{asked}"
        marks = {"info": "  ", "warning": "! "}
        return "\n".join([head, *(marks[finding.severity] + str(finding) for finding in self.findings)])


def diagnose(
    graph: Graph,
    n_clusters: int | None = None,
    *,
    features: Features | None = None,
    names: Sequence[object] | None = None,
    made_from: Origin | None = None,
    smoothing: int | None = None,
) -> Diagnosis:
    """Measure a graph and say what it means for clustering.

    Parameters
    ----------
    graph : Graph
        The graph to measure.
    n_clusters : int, optional
        How many clusters you will ask for, if you know: the gap in the spectrum is judged there, and the expected
        size of a cluster.
    features, names : optional
        What the graph was made from, if by Euclidean distances, and what its columns are called: the columns that carry
        the distances are named then.
    made_from : {"features", "graph"}, optional
        Whether the graph was made from features, which could be made into another, or was given as it is; by default
        that is not known, unless there are features. Advice is given on what can be changed.
    smoothing : int, optional
        To how many others `walk_graph` joined each vertex, if this is a graph that it made: that is told first.

    Returns
    -------
    Diagnosis
        Findings on components, isolated vertices, degrees, weights, masses if there are any, the spectrum, noise and,
        with R, cluster sizes.
        Takes seconds; what would take longer is measured on a sample or left out, and its finding says so.

    Examples
    --------
    >>> from tautcut import Graph
    >>> apart = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    >>> [finding.name for finding in diagnose(apart, 3).warnings]
    ['components', 'degrees', 'cluster size']
    """
    if n_clusters is not None:
        n_clusters = cluster_count(n_clusters, graph.n_vertices)
    origin: Origin | None = "features" if features is not None else made_from
    spectrum = _spectrum(graph, n_clusters)
    measured = (
        None if smoothing is None else _smoothing(smoothing),
        _components(graph, n_clusters, origin),
        _isolated(graph),
        _degrees(graph, origin),
        _weights(graph, origin),
        _masses(graph, n_clusters),
        spectrum,
        _noise(graph, spectrum, origin),
        _cluster_size(graph, n_clusters, origin),
        None if features is None else _columns(features, names),
    )
    findings = tuple(finding for finding in measured if finding is not None)
    return Diagnosis(graph.n_vertices, graph.n_edges, n_clusters, findings)


def confidence(graph: Graph, labels: ArrayLike, n_clusters: int) -> FloatArray:
    """How firmly the neighbourhood of each vertex agrees on one cluster, in [0, 1].

    The share of a vertex's weight that goes to each cluster, its own vote among them with the mean weight of its
    edges; of these shares the largest minus the second largest. An isolated vertex has 0.

    Parameters
    ----------
    graph : Graph
        The graph whose edges say who is a neighbour of whom.
    labels : array-like of int, shape (n_vertices,)
        The cluster of each vertex, in 0 … n_clusters - 1.
    n_clusters : int
        How many clusters the labels number.

    Returns
    -------
    ndarray of float64, shape (n_vertices,)

    Examples
    --------
    >>> from tautcut import Graph
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> confidence(path, [0, 0, 1, 1], 2).round(2).tolist()
    [1.0, 0.33, 0.33, 1.0]
    """
    hard = hard_labels(labels, graph.n_vertices, n_clusters)
    return margins_of_rows(graph.to_scipy(), graph.degrees, hard, n_clusters)


def margins_of_rows(W: SparseMatrix, degrees: FloatArray, labels: IntArray, n_clusters: int) -> FloatArray:
    """`confidence` of the vertices whose rows W has, which are the first of all that are labelled: W may be wider."""
    (n, width), n_neighbors = W.shape, np.diff(W.indptr)
    Y = sp.csr_matrix((np.ones(width), (np.arange(width), labels)), shape=(width, max(n_clusters, 2)))
    own = degrees / np.maximum(n_neighbors, 1)
    votes = np.asarray((W @ Y).toarray(), dtype=np.float64)
    votes[np.arange(n), labels[:n]] += own
    top = np.partition(votes, -2, axis=1)[:, -2:]
    margins = np.zeros(n)
    np.divide(top[:, 1] - top[:, 0], degrees + own, out=margins, where=n_neighbors > 0)
    return margins


def _smoothing(n_neighbors: int) -> Finding:
    meaning = (
        f"Each vertex is joined to the {n_neighbors} nearest to it under a random walk on the graph that there was; "
        "all that follows is about the graph so smoothed."
    )
    return Finding("smoothing", {"n_neighbors": n_neighbors}, "info", meaning)


def _components(graph: Graph, n_clusters: int | None, origin: Origin | None) -> Finding:
    """Components of two vertices or more; isolated vertices have a finding of their own."""
    component = graph.components()[1]
    sizes, masses = np.bincount(component), np.bincount(component, graph.masses)
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 1]
    sizes = sizes[order]
    outside = float(sizes[1:].sum() / graph.n_vertices)
    is_large = masses[order] >= CLUSTER_LIKE * graph.total_mass / (n_clusters or 1)
    value: dict[str, float | int] = {"n_components": int(sizes.size), "outside_largest": outside}
    if sizes.size <= 1:
        return Finding("components", value, "info", "All vertices with edges are connected.")
    if is_large.all() and sizes.size == n_clusters:
        meaning = f"The graph falls into {sizes.size} components, as many as clusters asked for: they are the answer."
        return Finding("components", value, "info", meaning)
    meaning = (
        f"{_percent(outside)} of the vertices lie outside the largest of {sizes.size:,} components; no cut is needed "
        "between components, so nothing says which of them belong together."
    )
    advice = f"{_more_neighbors(graph, 'to join them', origin)}, or cluster the components apart."
    is_noticed = outside > NOTICEABLE or is_large[1:].any()
    return Finding("components", value, "warning" if is_noticed else "info", meaning, advice)


def _isolated(graph: Graph) -> Finding | None:
    count = int((np.diff(graph.indptr) == 0).sum())
    if not count:
        return None
    share = count / graph.n_vertices
    meaning = f"{count:,} vertices ({_percent(share)}) have no edge; whatever label they get is arbitrary."
    advice = "Remove them, or give them edges to their nearest vertices."
    severity: Severity = "warning" if share > NOTICEABLE else "info"
    return Finding("isolated", {"count": count, "share": share}, severity, meaning, advice)


def _degrees(graph: Graph, origin: Origin | None) -> Finding:
    """How many neighbours vertices have, and how many edges end at hubs."""
    counts = np.diff(graph.indptr)
    mean, median = float(counts.mean()), float(np.median(counts))
    is_hub = counts > HUB * max(median, 1.0)
    at_hubs = float(counts[is_hub].sum() / max(counts.sum(), 1))
    value: dict[str, float | int] = {
        "smallest": int(counts.min()), "median": median, "mean": mean, "largest": int(counts.max()),
        "n_hubs": int(is_hub.sum()), "edges_at_hubs": at_hubs,
    }  # fmt: skip
    if mean < FEWEST_NEIGHBORS:
        meaning = f"A vertex has {mean:.1f} neighbours on average: nearly every edge is a cut, and cuts cost the same."
        advice = f"{_more_neighbors(graph, 'for the graph to hold together', origin)}."
        return Finding("degrees", value, "warning", meaning, advice)
    if at_hubs > HUB_EDGES:
        meaning = (
            f"{_percent(at_hubs)} of the edge ends are at {is_hub.sum():,} hubs with more than {HUB * median:.0f} "
            "neighbours; hubs tie clusters together, and the cut is about them."
        )
        advice = _possible(
            origin, "Leave out the hubs, or keep only edges between mutual neighbours", ", or try metric='cosine'"
        )
        return Finding("degrees", value, "warning", meaning, advice)
    hubs = f"; {is_hub.sum():,} hubs hold {_percent(at_hubs)} of the edge ends" if is_hub.any() else ""
    meaning = f"Vertices have {counts.min():,} to {counts.max():,} neighbours, {mean:.1f} on average{hubs}."
    return Finding("degrees", value, "info", meaning)


def _weights(graph: Graph, origin: Origin | None) -> Finding | None:
    """The range of the weights, and how many of the edges carry next to none of the total."""
    if not graph.n_edges:
        return None
    smallest, largest = float(graph.weights.min()), float(graph.weights.max())
    held = np.cumsum(np.sort(graph.weights / largest))
    idle = float(np.searchsorted(held, IDLE_WEIGHT * held[-1]) / held.size)
    decades = float(np.log10(largest) - np.log10(smallest))
    value: dict[str, float | int] = {"smallest": smallest, "largest": largest, "decades": decades, "idle_edges": idle}
    if smallest == largest:
        return Finding("weights", value, "info", f"All edges weigh {smallest:g}.")
    span = f"Weights run from {smallest:.3g} to {largest:.3g}"
    if idle <= IDLE_EDGES:
        return Finding("weights", value, "info", f"{span}, {decades:.1f} decades.")
    meaning = (
        f"{span}, {decades:.1f} decades; {_percent(idle)} of the edges hold {_percent(IDLE_WEIGHT)} of the total "
        "weight, so the few heavy ones decide alone."
    )
    advice = _possible(origin, "Take the logarithm or a root of the weights", ", or weights='self-tuning' or 'binary'")
    return Finding("weights", value, "warning", meaning, advice)


def _masses(graph: Graph, n_clusters: int | None) -> Finding | None:
    """The range of the masses, and whether a vertex alone has more than a cluster is expected to."""
    if not graph.has_masses:
        return None
    masses, heaviest = graph.masses, int(graph.masses.argmax())
    smallest, largest, whole = float(masses.min()), float(masses.max()), graph.total_mass
    value: dict[str, float | int] = {
        "smallest": smallest, "largest": largest, "total": whole, "heaviest": heaviest, "share": largest / whole,
    }  # fmt: skip
    if graph.is_even:
        return Finding("masses", value, "info", f"All vertices have the mass {smallest:g}.")
    span = f"Masses run from {smallest:.3g} to {largest:.3g}, {whole / masses.size:.3g} on average"
    R = n_clusters or 2  # the fewest that there is a cut between
    value["n_too_heavy"] = n_heavy = int((masses > whole / R).sum())
    if R == 1 or not n_heavy:
        return Finding("masses", value, "info", f"{span}; the heaviest vertex has {_percent(largest / whole)} of all.")
    others = "" if n_heavy == 1 else f" and {n_heavy - 1:,} more"
    meaning = (
        f"{span}. Vertex {heaviest}{others} alone {'has' if n_heavy == 1 else 'have'} more than a cluster's expected "
        f"share of the mass, 1/{R}: no cut can balance {'its cluster' if n_heavy == 1 else 'their clusters'}, and the "
        "others divide what is left."
    )
    fewer = f"Ask for {int(whole // largest)} clusters or fewer" if whole >= 2 * largest else "Split what is heavy"
    advice = f"{fewer}, give the expected shares by class_prior, or take a root of the masses."
    return Finding("masses", value, "warning", meaning, advice)


def _spectrum(graph: Graph, n_clusters: int | None) -> Finding | None:
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


def _noise(graph: Graph, spectrum: Finding | None, origin: Origin | None) -> Finding | None:
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
    noise = min(alone / random, 1.0)
    value["noise"] = noise
    meaning = (
        f"The ends of {_percent(alone)} of the edges have no common neighbour, {_percent(random)} in a random graph: "
        f"at most {_percent(noise)} of the edges are noise."
    )
    shows_clusters = spectrum is not None and spectrum.severity == "info" and spectrum.value.get("n_visible", 0) > 1
    if noise <= NOISE or shows_clusters:
        return Finding("noise", value, "info", meaning)
    advice = _possible(
        origin,
        "Expect a poor cut unless the graph is of a kind without triangles, such as a grid",
        "; from features, reduce their dimension, choose another metric or raise n_neighbors",
    )
    return Finding("noise", value, "warning", meaning, advice)


def _cluster_size(graph: Graph, n_clusters: int | None, origin: Origin | None) -> Finding | None:
    """Whether a cluster of the expected size can hold a vertex and its neighbours."""
    if n_clusters is None or n_clusters == 1:
        return None
    expected, around = graph.n_vertices / n_clusters, float(np.median(np.diff(graph.indptr))) + 1
    value: dict[str, float | int] = {"expected": expected, "neighborhood": around}
    if expected >= around:
        meaning = f"{n_clusters} clusters have {expected:,.0f} vertices each on average."
        return Finding("cluster size", value, "info", meaning)
    meaning = (
        f"{n_clusters} clusters have {expected:,.1f} vertices each on average, and a vertex with its neighbours is "
        f"{around:.0f}: every cluster must cut most of its own edges."
    )
    fewer = f"Ask for at most {int(graph.n_vertices // around)} clusters"
    return Finding("cluster size", value, "warning", meaning, _possible(origin, fewer, ", or lower n_neighbors"))


def _columns(features: Features, names: Sequence[object] | None) -> Finding | None:
    """Which columns carry the distances between rows."""
    found = carriers(features)
    if found is None or found.n_columns < 2:
        return None
    value: dict[str, float | int] = {
        "carriers": len(found.columns),
        "columns": found.n_columns,
        "share": found.share,
        "largest": found.largest,
    }
    if not found.are_too_few:
        widest = replace(found, columns=found.columns[:1]).named(names)
        meaning = (
            f"The widest of {found.n_columns} columns ({widest}) carries {_percent(found.largest)} of the squared "
            f"distances; it takes {len(found.columns)} to carry nearly all."
        )
        return Finding("columns", value, "info", meaning)
    meaning = f"{found.sentence(names)}; the others hardly count."
    advice = "Scale the columns (--scale standard; in Python, sklearn's StandardScaler), unless they share a unit."
    return Finding("columns", value, "warning", meaning, advice)


def _possible(origin: Origin | None, always: str, for_features: str) -> str:
    """Advice on what can be changed: how features are made into a graph only where there are, or may be, features."""
    return f"{always}." if origin == "graph" else f"{always}{for_features}."


def _more_neighbors(graph: Graph, purpose: str, origin: Origin | None) -> str:
    """How to get more edges: a larger n_neighbors where the graph looks like one of nearest neighbours."""
    if origin == "graph":
        return f"Add edges {purpose}"
    k, n = int(np.diff(graph.indptr).min()), graph.n_vertices
    # k lists of n vertices, symmetrised: between n k / 2 and n k edges, and no vertex with fewer than k.
    if k >= 2 and n * k / 2 <= graph.n_edges <= n * k:
        return f"Raise n_neighbors to {min(-(-3 * k // 2), n - 1)}"
    if origin == "features":
        return f"Raise n_neighbors {purpose}"
    return f"Add edges {purpose} (a larger n_neighbors, if the graph was made from features)"


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


def _percent(share: float) -> str:
    """A share in words: 7 %, 0.3 %."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
