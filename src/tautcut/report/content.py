"""What the page of a run says: every number on it, as plain dicts, lists, numbers and strings. This module measures a
partition and chooses what is shown of it (points of the map, representatives, least certain points); it knows no
HTML, and it looks for no partition.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from tautcut.algorithm.results import Result
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.graph import Graph
from tautcut.graph.columns import levelled
from tautcut.graph.findings import Diagnosis
from tautcut.problem import Partition
from tautcut.records.records import plain_setting
from tautcut.report.columns import Column, cross_table, shown_column
from tautcut.report.layout import map_coordinates
from tautcut.search.certainty import label_quality
from tautcut.search.disagreement import Disagreement
from tautcut.search.strain import Strain

Json = dict[str, Any]

# What is shown at most. With these the page stays below 8 MB whatever the graph, and far below for most.
MAP_POINTS = 20_000  # drawn
LISTED_POINTS = 250_000  # found by name, drawn or not; of more, those that are drawn
MAP_EDGES = 20_000
SHOWN_CLUSTERS = 40  # with a row of the heat map, representatives and a profile; the table has them all
REPRESENTATIVES = 8  # of each cluster
UNCERTAIN = 24  # points of lowest confidence
TYPICAL_FEATURES = 5  # of each cluster
HISTORY_STEPS = 400
CONFIDENCE_BINS = 10  # of the histogram of a cluster
THUMBNAIL = 48  # pixels, the longer side
SHEET_BYTES = 2_000_000  # of the sheet with the thumbnails of all drawn points, for which they shrink,
SMALLEST_THUMBNAIL = 8  # but not below these pixels
LONGEST_TEXT = 48  # characters of an id or a name
ID_LENGTHS = (LONGEST_TEXT, 32, 24, 16, 12, 8)  # of the ids of all points: the longest that fit into
ID_BYTES = 1_500_000
COLOURS = 10  # in the style sheet; further clusters share a colour and differ in shape

DOUBTFUL = 1 / 3  # confidence below which fewer than two thirds of the neighbourhood agree, of two clusters
UNLIKELY = 1 / 2  # chance below which a class is more likely wrong than right
CONTRADICTED = 1 / 2  # share of a labelled point's neighbourhood in its own class, below which its label is listed


@dataclass(frozen=True, eq=False)
class Subject:
    """What a page is about: the run, and what its user knows of the vertices. Validated by `page.write_page`."""

    result: Result
    diagnosis: Diagnosis
    names: Sequence[str]
    settings: Mapping[str, Any]
    ids: Sequence[str] | None = None
    features: Any = None
    feature_names: Sequence[str] | None = None
    images: Any = None
    coordinates: FloatArray | None = None
    columns: Sequence[Column] = ()
    strain: Strain | None = None
    disagreement: Disagreement | None = None

    @property
    def graph(self) -> Graph:
        return self.result.problem.graph

    @property
    def partition(self) -> Partition:
        return self.result.partition

    @property
    def confidence(self) -> FloatArray:
        return self.result.confidence

    @property
    def doubtful(self) -> float:
        """The confidence below which a point is counted as doubtful."""
        return DOUBTFUL if self.result.probabilities is None else UNLIKELY

    @cached_property
    def depth(self) -> FloatArray:
        """The mean confidence of the neighbours' neighbours: many vertices have confidence 1, few lie deep."""
        W, degrees = self.graph.to_scipy(), np.maximum(self.graph.degrees, np.finfo(np.float64).tiny)
        return np.asarray(W @ ((W @ self.confidence) / degrees) / degrees, dtype=np.float64).round(6)

    @cached_property
    def indicator(self) -> sp.csr_matrix[np.float64]:
        """The partition as a matrix of zeros and ones, (n_vertices, n_clusters)."""
        n, labels = self.graph.n_vertices, self.partition.labels
        return sp.csr_matrix((np.ones(n), (np.arange(n), labels)), shape=(n, self.result.problem.n_clusters))

    @cached_property
    def between(self) -> FloatArray:
        """Weight between each two clusters, (n_clusters, n_clusters); twice the weight inside on the diagonal."""
        Y = self.indicator
        return np.asarray((Y.T @ self.graph.to_scipy() @ Y).toarray(), dtype=np.float64)

    @cached_property
    def grey(self) -> tuple[float, float]:
        """The smallest value of the images, and the factor that makes their largest 255."""
        low, high = float(np.min(self.images)), float(np.max(self.images))
        return low, 255.0 / (high - low) if high > low else 0.0

    def edges(self, vertex: int) -> slice:
        return slice(self.graph.indptr[vertex], self.graph.indptr[vertex + 1])

    def point(self, vertex: int) -> Json:
        """What is said of one point where it is listed."""
        listed: Json = {"vertex": vertex, "confidence": _short(self.confidence[vertex])}
        if self.ids is not None:
            listed["id"] = clipped(self.ids[vertex])
        if self.images is not None:
            low, factor = self.grey
            listed["image"] = _data_uri((_thumbnail(self.images[vertex]) - low) * factor)
        return listed


def content_of(subject: Subject, circumstances: Mapping[str, Any]) -> Json:
    """Everything that the page shows; `circumstances` are the versions, the machine and the time."""
    shown = np.sort(np.argsort(-subject.partition.sizes, kind="stable")[:SHOWN_CLUSTERS])
    representatives = {int(r): _representatives(subject, int(r)) for r in shown}
    uncertain = _least_certain(subject)
    always = [*uncertain, *(vertex for few in representatives.values() for vertex in few)]
    return {
        "summary": _summary(subject),
        "clusters": _clusters(subject),
        "shown": shown.tolist(),
        "matrix": [[_short(w) for w in row] for row in subject.between[np.ix_(shown, shown)]],
        "map": _map(subject, np.array(always, dtype=np.int64)),
        "cross": [
            cross_table(one, subject.partition, shown)
            for one in subject.columns
            if one.kind == "category" and not one.is_feature
        ],
        "representatives": [[subject.point(vertex) for vertex in few] for few in representatives.values()],
        "typical": _typical_features(subject, shown),
        "uncertain": [_doubt(subject, vertex) for vertex in uncertain],
        "contradicted": _contradicted(subject),
        "certainty": [_certainty(subject, int(r)) for r in shown],
        "history": _history(subject.result),
        "findings": [*_of_run(subject), *subject.diagnosis.to_dict()["findings"]],
        "settings": {clipped(str(name)): plain_setting(value) for name, value in subject.settings.items()},
        "circumstances": plain_setting(circumstances),
    }


def clipped(text: str, length: int = LONGEST_TEXT) -> str:
    """The text, shortened in the middle where it is too long for a page with thousands of them."""
    head = length // 2
    return text if len(text) <= length else f"{text[:head]}…{text[head + 1 - length :]}"


def _of_run(subject: Subject) -> list[Json]:
    """What is worth telling of the run itself: what the expected sizes cost, and labels that the graph contradicts."""
    strain = None if subject.strain is None else subject.strain.finding
    disagreement = None if subject.disagreement is None else subject.disagreement.finding(subject.ids)
    return [asdict(finding) for finding in (strain, disagreement) if finding is not None]


def _summary(subject: Subject) -> Json:
    result, graph = subject.result, subject.graph
    total, inside = float(subject.between.sum()), float(np.trace(subject.between))
    return {
        "nouns": ("class", "classes") if result.problem.has_labels else ("cluster", "clusters"),
        "n_points": graph.n_vertices,
        "n_edges": graph.n_edges,
        **({"mass": _short(graph.total_mass)} if graph.has_masses else {}),
        "n_clusters": result.problem.n_clusters,
        "lam": _short(result.problem.lam[0]) if np.ptp(result.problem.lam) == 0 else None,
        "n_labelled": int(result.problem.is_labelled.sum()),
        "is_unweighted": graph.is_unweighted,
        "energy": _short(result.partition.energy),
        "relaxed_energy": _short(result.relaxed_energy),
        "status": result.outcome,
        "n_iter": result.n_iter,
        "kept": _short(inside / total) if total > 0 else None,
        "confidence": _short(subject.confidence.mean()),
        "doubtful": int((subject.confidence < subject.doubtful).sum()),
        "doubtful_below": _short(subject.doubtful),
        "is_chance": subject.result.probabilities is not None,
    }


def _clusters(subject: Subject) -> list[Json]:
    """One line for each cluster."""
    partition, volumes = subject.partition, subject.between.sum(axis=1)
    sure = np.bincount(partition.labels, subject.confidence, partition.sizes.size) / np.maximum(partition.sizes, 1)
    colours = _colours(subject.between)
    return [
        {
            "name": clipped(subject.names[r]),
            "colour": colours[r],
            "size": int(partition.sizes[r]),
            **({"mass": _short(partition.masses[r])} if subject.graph.has_masses else {}),
            "term": _short(partition.terms[r]),
            "volume": _short(volumes[r]),
            "cut": _short(volumes[r] - subject.between[r, r]),
            "confidence": _short(sure[r]),
            "strains": subject.strain is not None and bool(subject.strain.clusters[r]),
        }
        for r in range(partition.sizes.size)
    ]


def _colours(between: FloatArray) -> list[int]:
    """A colour for each cluster. After the first round of them, clusters of one colour have little between them."""
    colours = np.arange(len(between))
    for first in range(COLOURS, len(between), COLOURS):
        drawn = np.eye(COLOURS)[colours[:first]]
        few, chosen = linear_sum_assignment(between[first : first + COLOURS, :first] @ drawn)
        colours[first + few] = chosen
    return [int(colour) for colour in colours]


def _representatives(subject: Subject, cluster: int) -> list[int]:
    """Members deep inside the cluster, none next to another while there is a choice; the most central first."""
    members = np.flatnonzero(subject.partition.labels == cluster)
    ranked = members[np.lexsort((-subject.graph.degrees[members], -subject.depth[members]))].tolist()
    chosen: list[int] = []
    taken: set[int] = set()
    for vertex in ranked:
        if len(chosen) == REPRESENTATIVES:
            break
        if vertex not in taken:
            chosen.append(vertex)
            taken |= {vertex, *subject.graph.indices[subject.edges(vertex)].tolist()}
    rest = (vertex for vertex in ranked if vertex not in chosen)
    return [*chosen, *(next(rest) for _ in range(min(REPRESENTATIVES, len(ranked)) - len(chosen)))]


def _least_certain(subject: Subject) -> list[int]:
    """The vertices of lowest confidence, of those whose label was not given and whose neighbours do not all agree."""
    free = np.flatnonzero(~subject.result.problem.is_labelled & (subject.confidence < 1 - 1e-9))
    return [int(vertex) for vertex in free[np.argsort(subject.confidence[free], kind="stable")[:UNCERTAIN]]]


def _doubt(subject: Subject, vertex: int) -> Json:
    """A point, with its cluster and the one that it could as well be in."""
    label = int(subject.partition.labels[vertex])
    one = subject.edges(vertex)
    neighbors = subject.partition.labels[subject.graph.indices[one]]
    votes = np.bincount(neighbors, subject.graph.weights[one], subject.partition.sizes.size)
    votes[label] = 0
    other = int(votes.argmax()) if votes.any() else None
    return {**subject.point(vertex), "cluster": label, "other": other}


def _contradicted(subject: Subject) -> list[Json]:
    """The given labels that their neighbours bear out least, with the class of most of these."""
    problem = subject.result.problem
    if not problem.has_labels:
        return []
    quality = label_quality(subject.graph, subject.partition.labels, problem.labels)
    listed = np.flatnonzero(quality < CONTRADICTED)
    order = listed[np.argsort(quality[listed], kind="stable")[:UNCERTAIN]]
    return [{**_doubt(subject, int(vertex)), "quality": _short(quality[vertex])} for vertex in order]


def _map(subject: Subject, always: IntArray) -> Json:
    """The points and edges of the map, as base64 of little-endian integers: small, and quick to read.

    Every point is listed, with its place, cluster and confidence, so that it can be found; a sample is `drawn`, given
    by places in that list. With very many points only those of the sample are listed.
    """
    graph, rng = subject.graph, np.random.default_rng(0)
    given = subject.coordinates
    position = map_coordinates(graph) if given is None else given
    drawn = np.arange(graph.n_vertices)
    if drawn.size > MAP_POINTS:
        others = np.setdiff1d(drawn, always)
        always = np.setdiff1d(drawn, others)
        drawn = np.sort(np.r_[always, rng.choice(others, MAP_POINTS - always.size, replace=False)])
    listed = np.arange(graph.n_vertices) if graph.n_vertices <= LISTED_POINTS else drawn
    corner, width = position[listed].min(axis=0), max(float(np.ptp(position[listed], axis=0).max()), 1e-12)
    grid = np.round((position[listed] - corner) / width * 65535)
    content: Json = {
        "is_given": given is not None,
        "x": _packed(grid[:, 0], "<u2"),
        "y": _packed(grid[:, 1], "<u2"),
        "vertex": None if listed.size == graph.n_vertices else _packed(listed, "<u4"),
        "drawn": None if drawn.size == listed.size else _packed(drawn, "<u4"),
        "cluster": _packed(subject.partition.labels[listed], "<u2"),
        "confidence": _packed(np.round(subject.confidence[listed] * 65535), "<u2"),
        "edges": _packed(_shown_edges(graph, drawn, rng), "<u2"),
        "columns": [shown_column(one, drawn, _packed) | {"name": clipped(one.name)} for one in subject.columns],
        "sheet": _sheet(subject, drawn),
    }
    if subject.ids is not None:
        content["ids"] = _short_ids([subject.ids[vertex] for vertex in listed.tolist()])
    return content


def _short_ids(ids: list[str]) -> list[str]:
    """The ids, clipped to the greatest length at which all of them together stay small."""
    for length in ID_LENGTHS:
        short = [clipped(one, length) for one in ids]
        if sum(len(one.encode("utf-8", "replace")) for one in short) <= ID_BYTES:
            break
    return short


def _sheet(subject: Subject, drawn: IntArray) -> Json | None:
    """One picture with a thumbnail of each drawn point, row by row; blocks of pixels become one until it is small."""
    if subject.images is None:
        return None
    low, scale = subject.grey
    longest = max(subject.images.shape[1:])
    chunks = np.array_split(drawn, -(-drawn.size // 1000))
    for factor in range(-(-longest // THUMBNAIL), max(longest // SMALLEST_THUMBNAIL, -(-longest // THUMBNAIL)) + 1):
        tiles = np.concatenate([_block_means(subject.images[chunk], factor) for chunk in chunks])
        n, h, w = tiles.shape
        across = max(int(np.ceil(np.sqrt(n * h / w))), 1)
        whole = np.zeros((-(-n // across) * across, h, w))
        whole[:n] = (tiles - low) * scale
        picture = _data_uri(whole.reshape(-1, across, h, w).swapaxes(1, 2).reshape(-1, across * w))
        if len(picture) <= SHEET_BYTES:
            break
    return {"image": picture, "height": h, "width": w, "across": across}


def _shown_edges(graph: Graph, shown: IntArray, rng: np.random.Generator) -> IntArray:
    """Pairs of places in `shown`, for the edges between shown points; a sample where there are too many."""
    place = np.full(graph.n_vertices, -1, dtype=np.int64)
    place[shown] = np.arange(shown.size)
    ends = np.column_stack([np.repeat(place, np.diff(graph.indptr)), place[graph.indices]])
    ends = ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])]
    few = rng.choice(len(ends), MAP_EDGES, replace=False) if len(ends) > MAP_EDGES else slice(None)
    return ends[few].ravel()


def _typical_features(subject: Subject, shown: IntArray) -> list[list[Json]] | None:
    """For each cluster, the features whose mean differs most from the overall mean, in standard deviations."""
    X, names = subject.features, subject.feature_names
    if X is None or subject.images is not None:
        return None
    is_sparse = sp.issparse(X)
    X, exponents = levelled(X)
    squares = X.multiply(X) if is_sparse else np.square(X)
    overall = np.asarray(X.mean(axis=0)).ravel()
    spread = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)).ravel() - overall**2, 0))
    sums = subject.indicator.T @ X
    means = np.asarray(sums.toarray() if is_sparse else sums) / np.maximum(subject.partition.sizes, 1)[:, None]
    shift = np.zeros_like(means)
    np.divide(means - overall, spread, out=shift, where=spread > 1e-9 * np.abs(overall))
    means, overall = np.ldexp(means, exponents), np.ldexp(overall, exponents)
    return [
        [
            {
                "name": clipped(names[column]) if names is not None else f"feature {column}",
                "mean": _short(means[r, column]),
                "overall": _short(overall[column]),
                "shift": _short(shift[r, column]),
            }
            for column in np.argsort(-np.abs(shift[r]), kind="stable")[:TYPICAL_FEATURES].tolist()
        ]
        for r in shown
    ]


def _certainty(subject: Subject, cluster: int) -> Json:
    """How the confidence of a cluster's points is spread: counts in equal bins from 0 to 1, and the doubtful ones."""
    confidence = subject.confidence[subject.partition.labels == cluster]
    bins = np.minimum((confidence * CONFIDENCE_BINS).astype(np.int64), CONFIDENCE_BINS - 1)
    counts = np.bincount(bins, minlength=CONFIDENCE_BINS)
    return {"counts": counts.tolist(), "doubtful": int((confidence < subject.doubtful).sum())}


def _history(result: Result) -> list[Json]:
    """The steps of the run, thinned where there are many, the last one kept."""
    steps = result.history
    few = np.linspace(0, len(steps) - 1, min(len(steps), HISTORY_STEPS)).round().astype(np.int64).tolist()
    return [
        {"iterations": one.iterations, "relaxed": _short(one.relaxed_energy), "energy": _short(one.energy)}
        for one in (steps[k] for k in few)
    ]


def _short(value: float) -> float | None:
    """The number to six digits; None where it is infinite or not a number, which JSON does not have."""
    return float(f"{float(value):.6g}") if np.isfinite(value) else None


def _packed(values: Array, kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


def _thumbnail(image: Array) -> FloatArray:
    """The image by block means, so that no side is longer than THUMBNAIL."""
    return np.asarray(_block_means(image[None], -(-max(image.shape) // THUMBNAIL))[0])


def _block_means(images: Array, factor: int) -> FloatArray:
    """The images with squares of this many pixels as one; the last row and column are repeated to fill theirs."""
    pad = [(0, 0), *((0, -side % factor) for side in images.shape[1:])]
    padded = np.pad(images.astype(np.float64), pad, mode="edge")
    n, h, w = padded.shape
    return np.asarray(padded.reshape(n, h // factor, factor, w // factor, factor).mean(axis=(2, 4)))


def _data_uri(grey: FloatArray) -> str:
    """The image as a PNG in a data URI: grey, eight bits."""
    height, width = grey.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = np.clip(np.round(grey), 0, 255)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode("ascii")
