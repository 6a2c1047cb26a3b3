"""What a graph says about the clustering to come. `diagnose` measures a graph, without labels, and puts each finding in
words: what it means for clustering, and what to do. This module owns those words and the thresholds behind them; what
is measured against chance is in `chance`. It never changes a graph and never looks for a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tautcut.arrays import Features
from tautcut.checks import cluster_count
from tautcut.graph import Graph
from tautcut.graph.chance import noise, spectrum
from tautcut.graph.columns import carriers
from tautcut.graph.findings import Diagnosis, Finding, Origin, Severity, percent, possible

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
    spectral = spectrum(graph, n_clusters)
    measured = (
        None if smoothing is None else _smoothing(smoothing),
        _components(graph, n_clusters, origin),
        _isolated(graph),
        _degrees(graph, origin),
        _weights(graph, origin),
        _masses(graph, n_clusters),
        spectral,
        noise(graph, spectral, origin),
        _cluster_size(graph, n_clusters, origin),
        None if features is None else _columns(features, names),
    )
    findings = tuple(finding for finding in measured if finding is not None)
    return Diagnosis(graph.n_vertices, graph.n_edges, n_clusters, findings)


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
        f"{percent(outside)} of the vertices lie outside the largest of {sizes.size:,} components; no cut is needed "
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
    meaning = f"{count:,} vertices ({percent(share)}) have no edge; whatever label they get is arbitrary."
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
            f"{percent(at_hubs)} of the edge ends are at {is_hub.sum():,} hubs with more than {HUB * median:.0f} "
            "neighbours; hubs tie clusters together, and the cut is about them."
        )
        advice = possible(
            origin, "Leave out the hubs, or keep only edges between mutual neighbours", ", or try metric='cosine'"
        )
        return Finding("degrees", value, "warning", meaning, advice)
    hubs = f"; {is_hub.sum():,} hubs hold {percent(at_hubs)} of the edge ends" if is_hub.any() else ""
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
        f"{span}, {decades:.1f} decades; {percent(idle)} of the edges hold {percent(IDLE_WEIGHT)} of the total "
        "weight, so the few heavy ones decide alone."
    )
    advice = possible(origin, "Take the logarithm or a root of the weights", ", or weights='self-tuning' or 'binary'")
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
        return Finding("masses", value, "info", f"{span}; the heaviest vertex has {percent(largest / whole)} of all.")
    others = "" if n_heavy == 1 else f" and {n_heavy - 1:,} more"
    meaning = (
        f"{span}. Vertex {heaviest}{others} alone {'has' if n_heavy == 1 else 'have'} more than a cluster's expected "
        f"share of the mass, 1/{R}: no cut can balance {'its cluster' if n_heavy == 1 else 'their clusters'}, and the "
        "others divide what is left."
    )
    fewer = f"Ask for {int(whole // largest)} clusters or fewer" if whole >= 2 * largest else "Split what is heavy"
    advice = f"{fewer}, give the expected shares by class_prior, or take a root of the masses."
    return Finding("masses", value, "warning", meaning, advice)


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
    return Finding("cluster size", value, "warning", meaning, possible(origin, fewer, ", or lower n_neighbors"))


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
            f"The widest of {found.n_columns} columns ({widest}) carries {percent(found.largest)} of the squared "
            f"distances; it takes {len(found.columns)} to carry nearly all."
        )
        return Finding("columns", value, "info", meaning)
    meaning = f"{found.sentence(names)}; the others hardly count."
    advice = "Scale the columns (--scale standard; in Python, sklearn's StandardScaler), unless they share a unit."
    return Finding("columns", value, "warning", meaning, advice)


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
