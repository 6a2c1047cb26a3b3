"""Files of graphs: edge lists, GraphML and METIS, read and written; and the writing of matrices. GraphML is read by a
parser that refuses document type declarations, and with them every entity. It never symmetrises weights silently:
edges are undirected, and one that is listed twice must have one weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection, reading
from tautcut.formats.tables import Line, is_numeric, number, rows, whole_numbers
from tautcut.graph import Graph
from tautcut.writing import replacing, writable

# Pairs of names, in small letters, that the first two columns of an edge list have.
ENDS = frozenset({("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("i", "j"), ("node1", "node2")})

_BLOCK = 2**18  # edges held as text at a time
_SAMPLE = 100


def is_edge_list(path: Path, is_asked: bool) -> bool:
    """Whether a text file of two or three columns holds edges.

    It does if a graph was asked for, if its columns are named so, and if it is a .txt file whose first two columns
    hold whole numbers.
    """
    with reading(path, "a table of text"):
        head = list(islice(rows(path), _SAMPLE))
    if not head or len(head[0][1]) not in (2, 3):
        return False
    if is_asked or _has_end_names(head[0][1]):
        return True
    body = head[_is_edge_header(head) :]
    return path.suffix.lower() == ".txt" and all(cell.isdecimal() for _, cells in body for cell in cells[:2])


def read_edges(path: Path, selection: Selection) -> Data:
    """The graph of a list of edges: two columns of vertices, and weights in a third if there is one."""
    _refuse(path, selection)
    with reading(path, "a list of edges"):
        ends, weights = _edges(path)
    vertices, places = np.unique(ends, return_inverse=True)
    graph = Graph.from_edges(places.reshape(ends.shape), weights, n_vertices=len(vertices))
    return Data(graph, vertices)


def _edges(path: Path) -> tuple[Array, FloatArray]:
    """The ends, shape (m, 2), as integers or strings, and the weights of the edges in a file."""
    lines = rows(path)
    head = list(islice(lines, _SAMPLE))
    if head and (_has_end_names(head[0][1]) or _is_edge_header(head)):
        head = head[1:]
    if not head:
        raise InputError(f"'{path}' holds no edges. Give a line with two vertices for each edge.")
    width = len(head[0][1])
    if width not in (2, 3):
        raise InputError(f"an edge list has two or three columns; line {head[0][0]} of '{path}' has {width}.")
    ends: list[Array] = []
    weights: list[FloatArray] = []
    body = chain(head, lines)
    for block in iter(lambda: list(islice(body, _BLOCK)), []):
        uneven = next((line for line, cells in block if len(cells) != width), None)
        if uneven is not None:
            raise InputError(f"'{path}' is uneven or cut short: line {uneven} has not {width} columns, as others do.")
        ends.append(whole_numbers(np.array([[cell.strip() for cell in cells[:2]] for _, cells in block])))
        weights.append(np.ones(len(block)) if width == 2 else _weights(block))
    if any(block.dtype.kind == "U" for block in ends):
        ends = [block.astype(np.str_) for block in ends]
    return np.concatenate(ends), np.concatenate(weights)


def _weights(block: list[Line]) -> FloatArray:
    values = [number(cells[2]) for _, cells in block]
    bad = next((at for at, value in enumerate(values) if value is None), None)
    if bad is not None:
        raise InputError(f"weights must be numbers; found {block[bad][1][2][:40]!r} in line {block[bad][0]}. Fix it.")
    return np.array(values, dtype=np.float64)


def _has_end_names(cells: list[str]) -> bool:
    return tuple(cell.strip().casefold() for cell in cells[:2]) in ENDS


def _is_edge_header(head: list[Line]) -> bool:
    """Whether words stand above numbers; the names of vertices may be words too."""
    first, below = head[0][1], head[1:]
    words = [j for j, cell in enumerate(first) if number(cell) is None]
    return bool(below) and any(is_numeric(below, j) for j in words)


# ---------------------------------------------------------------- METIS


def read_metis(path: Path, selection: Selection) -> Data:
    """The graph of a METIS file; its vertices are numbered from 1, as in the file."""
    _refuse(path, selection)
    with reading(path, "a METIS graph"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("%")]
        if not lines:
            raise InputError(f"'{path}' is empty. A METIS graph begins with its numbers of vertices and edges.")
        layout = _metis_layout(lines[0], path)
        ends, weights = _metis_edges(lines[1:], layout, path)
    if len(ends) != 2 * layout.n_edges:
        raise InputError(
            f"'{path}' is damaged: it lists {len(ends)} neighbours, not the 2 × {layout.n_edges} that its edges have."
        )
    graph = Graph.from_edges(ends, weights, n_vertices=layout.n_vertices)
    return Data(graph, np.arange(1, layout.n_vertices + 1))


@dataclass(frozen=True)
class _MetisLayout:
    n_vertices: int
    n_edges: int
    n_skipped: int  # numbers about the vertex itself, before its neighbours
    has_weights: bool


def _metis_layout(first: str, path: Path) -> _MetisLayout:
    """What the first line says: vertices, edges, the format code, and weights per vertex."""
    cells = first.split()
    if not 2 <= len(cells) <= 4 or not all(cell.isdecimal() for cell in cells):
        raise InputError(f"'{path}' is not a METIS graph: it begins {first[:40]!r}, not with its vertices and edges.")
    code = cells[2].zfill(3) if len(cells) > 2 else "000"
    n_sizes, n_weights = int(code[-3] == "1"), int(code[-2] == "1")
    n_weights *= int(cells[3]) if len(cells) > 3 else 1
    return _MetisLayout(int(cells[0]), int(cells[1]), n_sizes + n_weights, code[-1] == "1")


def _metis_edges(lines: list[str], layout: _MetisLayout, path: Path) -> tuple[IntArray, FloatArray]:
    """Each edge from both of its ends, as (m, 2) vertex numbers from 0, and the weights."""
    has_more = any(line.strip() for line in lines[layout.n_vertices :])
    if len(lines) < layout.n_vertices or has_more:
        raise InputError(
            f"'{path}' is cut short or damaged: it announces {layout.n_vertices} vertices and has "
            f"{len(lines)} lines for them."
        )
    numbers = [np.array(line.split()[layout.n_skipped :], dtype=np.float64) for line in lines[: layout.n_vertices]]
    step = 2 if layout.has_weights else 1
    sizes = np.array([cells.size for cells in numbers])
    if (sizes % step).any():
        raise InputError(
            f"'{path}' is damaged: vertex {int((sizes % step).argmax()) + 1} has an edge without a weight."
        )
    cells = np.concatenate(numbers)
    others = cells[::step]
    bad = ~((others >= 1) & (others <= layout.n_vertices) & (others == np.floor(others)))
    if bad.any():
        raise InputError(f"vertices are numbered from 1 to {layout.n_vertices}; found {others[bad][0]:g} in '{path}'.")
    owners = np.repeat(np.arange(layout.n_vertices), sizes // step)
    weights = cells[1::2] if layout.has_weights else np.ones(others.size)
    return np.column_stack([owners, others.astype(np.int64) - 1]), weights


# ---------------------------------------------------------------- GraphML


def read_graphml(path: Path, selection: Selection) -> Data:
    """The graph of a GraphML file; the edge attribute named "weight" is the weight, 1 where it is missing."""
    _refuse(path, selection, has_labels=True)
    reader = _GraphmlReader(selection.label_column)
    with reading(path, "a GraphML file"), path.open("rb") as file:
        reader.parser.ParseFile(file)
        return reader.data(path)


@dataclass
class _GraphmlReader:
    """Collects nodes and edges as the parser meets them."""

    label_name: str | None
    parser: Any = field(default_factory=lambda: expat.ParserCreate(namespace_separator=" "))
    places: dict[str, int] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)  # id → (node or edge, name of the attribute)
    defaults: dict[tuple[str, str], str] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)
    is_directed: bool = False
    _key: str = ""
    _text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append

    def data(self, path: Path) -> Data:
        if not self.places:
            raise InputError(f"'{path}' holds no nodes of GraphML. Check its suffix.")
        unknown = next((end for edge in self.edges for end in edge if end not in self.places), None)
        if unknown is not None:
            raise InputError(f"'{path}' is damaged: an edge names the node {unknown[:40]!r}, which is not there.")
        if self.label_name is not None and ("node", self.label_name) not in self.keys.values():
            raise InputError(f"the nodes of '{path}' have no attribute {self.label_name!r}. Name one that they have.")
        ends = np.array([(self.places[i], self.places[j]) for i, j in self.edges], dtype=np.int64).reshape(-1, 2)
        graph = Graph.from_edges(ends, self.weights, n_vertices=len(self.places))
        notes = ("Its directed edges are taken as undirected.",) if self.is_directed else ()
        labels = None if self.label_name is None else np.array(self.labels, dtype=np.str_)
        return Data(graph, whole_numbers(np.array(list(self.places))), notes, labels=labels)

    def _refuse_doctype(self, *given: object) -> NoReturn:
        raise InputError("GraphML with a document type declaration is refused: it could name other files. Remove it.")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        self.inside.append(name)
        if name == "graph":
            self.is_directed |= attributes.get("edgedefault") == "directed"
        elif name == "key":
            self._key = attributes["id"]
            self.keys[self._key] = attributes.get("for", "all"), attributes.get("attr.name", self._key)
        elif name == "node":
            if attributes["id"] in self.places:
                raise InputError(f"the node {attributes['id'][:40]!r} is there twice. Give every node its own id.")
            self.places[attributes["id"]] = len(self.places)
            self.labels.append(self.defaults.get(("node", self.label_name or ""), ""))
        elif name == "edge":
            self.edges.append((attributes["source"], attributes["target"]))
            self.weights.append(float(self.defaults.get(("edge", "weight"), "1")))
        elif name == "data":
            self._key = attributes["key"]
        elif name == "hyperedge":
            raise InputError("hyperedges of GraphML join more than two nodes and are not supported. Expand them.")
        self._text.clear()

    def _end(self, tag: str) -> None:
        self.inside.pop()
        owner = self.inside[-1] if self.inside else ""
        text = "".join(self._text).strip()
        name = tag.rpartition(" ")[2]
        if name == "default":
            self.defaults[self.keys[self._key]] = text
        elif name == "data" and owner == "edge" and self.keys[self._key][1] == "weight":
            self.weights[-1] = float(text)
        elif name == "data" and owner == "node" and self.keys[self._key][1] == self.label_name:
            self.labels[-1] = text
        self._text.clear()


def _refuse(path: Path, selection: Selection, *, has_labels: bool = False) -> None:
    """A graph has no features, no columns and no named arrays."""
    if selection.kind == "features":
        raise InputError(f"'{path}' is a graph and holds no features. Read it as a graph.")
    has_names = selection.columns is not None or selection.id_column is not None or selection.array is not None
    if has_names or (selection.label_column is not None and not has_labels):
        raise InputError(f"'{path}' is a graph without columns to choose. Give labels in a file of their own.")


# ---------------------------------------------------------------- writing


def write_graph(path: Path, graph: Graph, ids: Array) -> None:
    """Write the graph in the format of the suffix; the file appears whole or not at all.

    Edge lists and GraphML keep the ids. A METIS file holds whole weights only.
    """
    path = writable(path, GRAPH_SUFFIXES)
    write = _WRITERS[path.suffix.lower()]
    with replacing(path) as part:
        write(part, graph, ids)


def _write_npz(path: Path, graph: Graph, ids: Array) -> None:
    with path.open("wb") as file:
        sp.save_npz(file, graph.to_scipy())


def _write_mtx(path: Path, graph: Graph, ids: Array) -> None:
    from scipy.io import mmwrite

    with path.open("wb") as file:
        mmwrite(file, sp.tril(graph.to_scipy()), symmetry="symmetric")


def _write_edges(path: Path, graph: Graph, ids: Array) -> None:
    bad = next((str(one) for one in ids.tolist() if _breaks_a_line(str(one))), None)
    if bad is not None:
        raise InputError(f"the id {bad[:40]!r} cannot stand in an edge list; write .graphml, .npz or .mtx.")
    _write_lines(path, (f"{ids[i]}\t{ids[j]}\t{weight!r}" for i, j, weight in _each_edge(graph)))


def _breaks_a_line(text: str) -> bool:
    return not text or text != text.strip() or text[0] in "#%" or any(c in text for c in '\t\n\r,;"')


def _write_graphml(path: Path, graph: Graph, ids: Array) -> None:
    names = [quoteattr(str(one)) for one in ids.tolist()]
    nodes = (f"<node id={name}/>" for name in names)
    edges = (
        f'<edge source={names[i]} target={names[j]}><data key="w">{weight!r}</data></edge>'
        for i, j, weight in _each_edge(graph)
    )
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '<key id="w" for="edge" attr.name="weight" attr.type="double"/>',
        '<graph edgedefault="undirected">',
    )
    _write_lines(path, chain(head, nodes, edges, ("</graph>", "</graphml>")))


def _write_metis(path: Path, graph: Graph, ids: Array) -> None:
    whole = graph.weights.astype(np.int64)
    if not np.array_equal(whole, graph.weights):
        raise InputError("METIS files hold whole weights only; write .npz, .mtx, .edges or .graphml.")
    code = "" if graph.is_unweighted else " 001"
    lines = (
        " ".join(str(one) for one in _metis_row(graph, whole, row, has_weights=bool(code)))
        for row in range(graph.n_vertices)
    )
    _write_lines(path, chain((f"{graph.n_vertices} {graph.n_edges}{code}",), lines))


def _metis_row(graph: Graph, whole: IntArray, row: int, *, has_weights: bool) -> list[int]:
    here = slice(graph.indptr[row], graph.indptr[row + 1])
    others = graph.indices[here] + 1
    pairs = np.column_stack([others, whole[here]]) if has_weights else others
    numbers: list[int] = pairs.ravel().tolist()
    return numbers


def _each_edge(graph: Graph) -> Iterator[tuple[int, int, float]]:
    """Each undirected edge once."""
    upper = sp.triu(graph.to_scipy()).tocoo()
    return zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


_WRITERS: dict[str, Callable[[Path, Graph, Array], None]] = {
    ".npz": _write_npz,
    ".mtx": _write_mtx,
    ".edges": _write_edges,
    ".graphml": _write_graphml,
    ".graph": _write_metis,
}
GRAPH_SUFFIXES = tuple(_WRITERS)
