"""Files of graphs: edge lists, GraphML and METIS, read and written; and the writing of matrices. GraphML is read by a
parser that refuses document type declarations, and with them every entity. It never symmetrises weights silently:
edges are undirected, and one that is listed twice must have one weight.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import GraphWarning, InputError
from tautcut.formats.arrays import MASSES
from tautcut.formats.base import Data, Selection, foresee, foresee_graph, reading
from tautcut.formats.cells import is_missing, is_number
from tautcut.formats.masses import attribute_of, masses_of_texts
from tautcut.formats.numerals import counts_by_line, numbers
from tautcut.formats.tables import as_texts, of_sheet, read_text, whole_numbers
from tautcut.formats.text import Sheet, is_numeric, read_sheet, sample
from tautcut.graph import Graph
from tautcut.graph.adapters import MASS
from tautcut.writing import replacing, writable

# Pairs of names, in small letters, that the ends of edges have in a table, and names of their weights.
ENDS = frozenset({
    ("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("i", "j"), ("node1", "node2"), ("head", "tail"),
    ("node_1", "node_2"), ("source_id", "target_id"), ("fromnodeid", "tonodeid"), ("vertex1", "vertex2"),
})  # fmt: skip
_MOST_EDGE_COLUMNS = 12
_METIS_COMMENT = re.compile(rb"^%[^\n]*\n?", re.MULTILINE)
_BLOCK = 2**20
_PER_TAG, _PER_ATTRIBUTE = 200, 300  # bytes of memory for a document of XML and its graph, measured (decision 0035)
_MOST_OF_METIS = 2.0**63  # its whole numbers have 64 bits at most
_METIS_PER_BYTE = 10  # bytes in memory: a line may be empty, and is counted by a whole number
WEIGHTS = ("weight", "weights", "w", "value", "similarity", "strength", "score", "count")
# Other columns that a table of edges has beside these, as Gephi and Cytoscape write it.
ABOUT_EDGES = frozenset(
    {*WEIGHTS, "", "id", "no", "type", "label", "kind", "interval", "timeset", "directed", "edge_id"}
)


def read_text_or_edges(path: Path, selection: Selection) -> Data:
    """A text file: edges if it looks like them and nothing else was asked for, else a table."""
    named = (
        selection.columns, selection.label_column, selection.id_column, selection.mass_column, selection.text_column,
        selection.picture_column, *selection.keep, *selection.without,
    )  # fmt: skip
    if selection.kind == "features" or any(one is not None for one in named):
        return read_text(path, selection)
    sheet = read_sheet(path)
    with reading(path, "a table of text"):
        if selection.kind == "graph":
            is_list = len(sheet.names) in (2, 3) or _named_ends(sheet) is not None
            return _of_edges(sheet, selection) if is_list else of_sheet(sheet, selection)
        why = _why_edges(sheet)
        if why:
            return replace(_of_edges(sheet, selection), notes=(*sheet.notes, why))
        data = of_sheet(sheet, selection)
        said = ("If these columns are edges, say --as graph.",) if _could_be_edges(sheet) else ()
        return replace(data, notes=(*data.notes, *said))


def _why_edges(sheet: Sheet) -> str:
    """Why a text looks like a list of edges, as a sentence; empty if it does not. What could be both is refused."""
    if _named_ends(sheet) is not None:
        return "Its columns are named as those of edges."
    if len(sheet.names) not in (2, 3):
        return ""
    head = [cells for _, cells in sample(sheet.rows()) if len(cells) == len(sheet.names)]
    ends = [[cell.strip() for cell in cells[:2]] for cells in head]
    if len(head) + bool(sheet.header) < 2 or (len(sheet.names) == 3 and not is_numeric(head, 2)):
        return ""
    if all(cell.isdecimal() for pair in ends for cell in pair):
        return "Its two or three columns look like edges." if sheet.path.suffix.lower() == ".txt" else ""
    if any(is_number(cell) or is_missing(cell) for pair in ends for cell in pair):
        return ""
    sources, targets = ({pair[side] for pair in ends} for side in (0, 1))
    if not sheet.header and sources & targets:
        return "Its two or three columns look like edges: names of the first are in the second too."
    if sheet.header and len(sheet.names) == 3 and not sources & targets:
        return ""  # a table of words with a header: its numbers are the features
    raise InputError(
        f"'{sheet.path}' could be a list of edges: it has two columns of names"
        f"{' and one of numbers' if len(sheet.names) == 3 else ''}. Say --as graph if it is one, --as features if not."
    )


def _could_be_edges(sheet: Sheet) -> bool:
    """Whether two or three columns without a header begin with pairs of whole numbers, as edges do, and points may."""
    if len(sheet.names) not in (2, 3) or sheet.header:
        return False
    return all(cell.strip().isdecimal() for _, cells in sample(sheet.rows()) for cell in cells[:2])


def _named_ends(sheet: Sheet) -> tuple[int, int] | None:
    """The columns whose names say that they are the ends of edges; all others have to be about edges too."""
    if len(sheet.names) > _MOST_EDGE_COLUMNS:
        return None
    names = [name.strip().casefold().replace(" ", "_") for name in sheet.names]
    found = next(((u, v) for u, v in sorted(ENDS) if u in names and v in names), None)
    is_about_edges = found is not None and (len(names) <= 3 or {*names} - {*found} <= ABOUT_EDGES)
    return (names.index(found[0]), names.index(found[1])) if found is not None and is_about_edges else None


def read_edges(path: Path, selection: Selection) -> Data:
    """The graph of a list of edges: two columns of vertices, and weights in a third if there is one."""
    refuse_columns(path, selection)
    with reading(path, "a list of edges"):
        sheet = read_sheet(path)
        return replace(_of_edges(sheet, selection), notes=sheet.notes)


def _of_edges(sheet: Sheet, selection: Selection) -> Data:
    refuse_columns(sheet.path, selection)
    ends, width = _named_ends(sheet), len(sheet.names)
    if ends is None and width not in (2, 3):
        line = next(sheet.rows(), (sheet.header, []))[0]
        raise InputError(f"an edge list has two or three columns; line {line} of '{sheet.path}' has {width}.")
    u, v = ends or (0, 1)
    head = [cells for _, cells in sample(sheet.rows())]
    if ends is None and sheet.header and not any(is_numeric(head, j) for j in range(width)):
        sheet = replace(sheet, header=0)  # names above names are an edge too
    names = [name.strip().casefold() for name in sheet.names]
    named = (names.index(one) for one in WEIGHTS if one in names)
    weight = next(named, None) if width > 3 else next((j for j in range(width) if j not in (u, v)), None)
    vertices, places = _vertices(sheet, u, v)
    if not len(places):
        raise InputError(f"'{sheet.path}' holds no edges. Give a line with two vertices for each edge.")
    weights = None if weight is None else _weights(sheet, weight)
    return Data(Graph.from_edges(places, weights, n_vertices=len(vertices)), vertices)


def _vertices(sheet: Sheet, u: int, v: int) -> tuple[Array, IntArray]:
    """The names of the vertices in order, and the ends of the edges as their places, shape (m, 2)."""
    found, codes = sheet.coded((u, v))
    foresee_graph(len(found), 2 * len(codes))
    if "" in found:
        row = int((codes == found.index("")).any(axis=1).argmax())
        raise InputError(f"line {sheet.line(row)} of '{sheet.path}' names one vertex only. Give an edge two ends.")
    vertices = whole_numbers(found)
    order = np.argsort(vertices, kind="stable")
    place = np.empty(len(found), dtype=np.int64)
    place[order] = np.arange(len(found))
    return vertices[order], place[codes]


def _weights(sheet: Sheet, column: int) -> FloatArray:
    found = sheet.read({j for j in range(len(sheet.names)) if j != column})[0][column]
    if found.values is not None and not np.isnan(found.values).any():
        return found.values
    cells = sheet.texts([column])[column]
    if found.values is not None:
        row = int(np.isnan(found.values).argmax())
    else:
        row = found.odd[0] if found.odd else next((at for at, cell in enumerate(cells) if not is_number(cell)), 0)
    raise InputError(f"weights must be numbers; found {cells[row][:40]!r} in line {sheet.line(row)}. Fix it.")


# ---------------------------------------------------------------- METIS


def read_metis(path: Path, selection: Selection) -> Data:
    """The graph of a METIS file; its vertices are numbered from 1, as in the file."""
    refuse_columns(path, selection)
    with reading(path, "a METIS graph"):
        foresee(_METIS_PER_BYTE * path.stat().st_size, f"'{path}'")
        first, body = _metis_parts(path.read_bytes(), path)
        n, n_edges = int(first[0][:30]), int(first[1][:30])
        counts = counts_by_line(body)
        if len(counts) < n or counts[n:].any():
            raise InputError(
                f"'{path}' is cut short or damaged: it announces {n} vertices and has {len(counts)} lines for them."
            )
        foresee_graph(n, int(counts.sum()), more=len(body))
        ends, weights, masses = _metis_edges(numbers(body, counts, path), counts[:n], first[2:], path)
    if len(ends) != 2 * n_edges:
        raise InputError(f"'{path}' is damaged: it lists {len(ends)} neighbours, not the 2 × {n_edges} of its edges.")
    notes = () if masses is None else ("Masses are the weights of its vertices.",)
    return Data(Graph.from_edges(ends, weights, n_vertices=n), np.arange(1, n + 1), notes, masses=masses)


def _metis_parts(text: bytes, path: Path) -> tuple[list[str], bytes]:
    """The numbers of the first line, as words, and the text below it; without comments."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"%" in text:
        text = _METIS_COMMENT.sub(b"", text)
    line, _, body = text.partition(b"\n")
    if not text:
        raise InputError(f"'{path}' is empty. A METIS graph begins with its numbers of vertices and edges.")
    first = line.split()
    if not 2 <= len(first) <= 4 or not all(cell.isdigit() for cell in first):
        begin = line[:40].decode("utf-8", "replace")
        raise InputError(f"'{path}' is not a METIS graph: it begins {begin!r}, not with its vertices and edges.")
    return [cell.decode() for cell in first], body


def _metis_edges(
    cells: FloatArray, counts: IntArray, form: list[str], path: Path
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Each edge from both of its ends, as (m, 2) vertex numbers from 0, the weights, and the masses if there are any.

    `counts` says how many of the numbers stand in the line of each vertex. `form` is the end of the first line: a code
    of three digits, which say whether vertices have a size, whether they have weights and whether edges have one; then
    how many weights a vertex has. The size is what a vertex takes to be sent elsewhere, and is skipped.
    """
    n, code = len(counts), form[0].zfill(3) if form else "000"
    n_sizes = int(code[-3] == "1")
    n_masses = int(code[-2] == "1") * (int(form[1][:30]) if len(form) > 1 else 1)
    if n_masses > 1:
        raise InputError(
            f"'{path}' has {n_masses} weights for each vertex, and a mass is one number. Keep one of them (ncon 1)."
        )
    masses = None
    if n_sizes + n_masses:
        if (counts < n_sizes + n_masses).any():
            vertex = int((counts < n_sizes + n_masses).argmax()) + 1
            what = "weight" if n_masses else "size"
            raise InputError(f"'{path}' is damaged: vertex {vertex} has no {what} of its own. Give it one.")
        begins = counts.cumsum() - counts
        masses = cells[begins + n_sizes] if n_masses else None
        place = np.arange(cells.size) - np.repeat(begins, counts)  # in the line
        cells, counts = cells[place >= n_sizes + n_masses], counts - n_sizes - n_masses
    has_weights = code[-1] == "1"
    step = 2 if has_weights else 1
    if (counts % step).any():
        raise InputError(
            f"'{path}' is damaged: vertex {int((counts % step).argmax()) + 1} has an edge without a weight."
        )
    others = cells[::step]
    bad = ~((others >= 1) & (others <= n) & (others == np.floor(others)))
    if bad.any():
        raise InputError(f"vertices are numbered from 1 to {n}; found {others[bad][0]:g} in '{path}'.")
    owners = np.repeat(np.arange(n), counts // step)
    weights = cells[1::2] if has_weights else np.ones(others.size)
    return np.column_stack([owners, others.astype(np.int64) - 1]), weights, masses


# ---------------------------------------------------------------- GraphML


def read_graphml(path: Path, selection: Selection) -> Data:
    """The graph of a GraphML file; the edge attribute named "weight" is the weight, 1 where it is missing.

    The node attribute named "mass" is the mass, unless another is asked for.
    """
    refuse_columns(path, selection, has_attributes=True)
    with reading(path, "a GraphML file"):
        return _of_graphml(parsed_xml(path, "GraphML"), selection, path)


def parsed_xml(path: Path, what: str) -> Any:
    """The root of a document of XML that declares no type, and so no entities."""
    with path.open("rb") as file:
        n_tags, n_attributes = 0, 0
        while block := file.read(_BLOCK):
            n_tags, n_attributes = n_tags + block.count(b"<"), n_attributes + block.count(b"=")
    need = 2 * path.stat().st_size + _PER_TAG * n_tags + _PER_ATTRIBUTE * n_attributes
    foresee(need, f"'{path}', a document of {n_tags:,} tags,")
    try:
        return ElementTree.parse(path, ElementTree.XMLParser(target=_WithoutDoctype())).getroot()
    except _DoctypeError as error:
        raise InputError(
            f"{what} with a document type declaration is refused: it could name other files. Remove it."
        ) from error


class _DoctypeError(Exception):
    """A document declares its type."""


class _WithoutDoctype(ElementTree.TreeBuilder):
    """Builds the tree of a document, and stops before it would read a declaration of entities."""

    def doctype(self, *given: object) -> NoReturn:
        raise _DoctypeError


def _of_graphml(root: Any, selection: Selection, path: Path) -> Data:
    """The graph in a tree, with the node attributes that were asked for as labels and masses."""
    found: dict[str, list[Any]] = {name: [] for name in ("graph", "key", "node", "edge", "hyperedge")}
    for element in root.iter():
        found.get(_name(element), []).append(element)
    keys, nodes, edges = found["key"], found["node"], found["edge"]
    about = {key.attrib["id"]: (key.get("for", "all"), key.get("attr.name", key.attrib["id"])) for key in keys}
    defaults = {about[key.attrib["id"]]: one.text for key in keys for one in key if _name(one) == "default"}

    def attributes(elements: list[Any], kind: str, name: str, otherwise: str) -> list[str]:
        """The attribute of each node or edge: its own, else the default."""
        otherwise = defaults.get((kind, name), otherwise)
        data = ([one for one in element if _name(one) == "data"] for element in elements)
        own = ([one.text for one in each if about[one.attrib["key"]][1] == name] for each in data)
        return [((texts[-1] if texts else otherwise) or "").strip() for texts in own]

    if found["hyperedge"]:
        raise InputError("hyperedges of GraphML join more than two nodes and are not supported. Expand them.")
    places: dict[str, int] = {}
    for node in nodes:
        if node.attrib["id"] in places:
            raise InputError(f"the node {node.attrib['id'][:40]!r} is there twice. Give every node its own id.")
        places[node.attrib["id"]] = len(places)
    if not places:
        raise InputError(f"'{path}' holds no nodes of GraphML. Check its suffix.")
    ends = [edge.attrib[end] for edge in edges for end in ("source", "target")]
    unknown = next((end for end in ends if end not in places), None)
    if unknown is not None:
        raise InputError(f"'{path}' is damaged: an edge names the node {unknown[:40]!r}, which is not there.")
    label, of_nodes = selection.label_column, {name for kind, name in about.values() if kind in ("node", "all")}
    if label is not None and label not in of_nodes:
        raise InputError(f"the nodes of '{path}' have no attribute {label!r}. Name one that they have.")
    mass, said = attribute_of(of_nodes, selection.mass_column, path)
    pairs = np.array([places[end] for end in ends], dtype=np.int64).reshape(-1, 2)
    weights = [float(text) for text in attributes(edges, "edge", "weight", "1")]
    graph = Graph.from_edges(pairs, weights, n_vertices=len(places))
    is_directed = any(one.get("edgedefault") == "directed" for one in found["graph"])
    notes = (*(("Its directed edges are taken as undirected.",) if is_directed else ()), *said)
    labels = None if label is None else as_texts(attributes(nodes, "node", label, ""))
    masses = None if mass is None else masses_of_texts(attributes(nodes, "node", mass, ""), list(places), path)
    return Data(graph, whole_numbers(list(places)), notes, labels=labels, masses=masses)


def _name(element: Any) -> str:
    """The name of an element, without its namespace."""
    return str(element.tag).rpartition("}")[2]


def refuse_columns(path: Path, selection: Selection, *, has_attributes: bool = False) -> None:
    """A graph has no features, no columns and no named arrays; some formats have attributes of vertices."""
    if selection.kind == "features":
        raise InputError(f"'{path}' is a graph and holds no features. Read it as a graph.")
    has_names = selection.columns is not None or selection.id_column is not None or selection.array is not None
    if has_names or (selection.label_column is not None and not has_attributes):
        raise InputError(f"'{path}' is a graph without columns to choose. Give labels in a file of their own.")
    if selection.mass_column is not None and not has_attributes:
        raise InputError(
            f"'{path}' has no attribute {selection.mass_column!r} to take masses from. Give the graph as .graphml, or "
            "as METIS or .npz, which keep masses without a name."
        )


# ---------------------------------------------------------------- writing


def write_graph(path: Path, graph: Graph, ids: Array) -> None:
    """Write the graph in the format of the suffix; the file appears whole or not at all.

    Edge lists and GraphML keep the ids. A METIS file holds whole weights and masses only. Masses are kept by .npz,
    GraphML and METIS; a `GraphWarning` says that they are lost in the others.
    """
    path = writable(path, GRAPH_SUFFIXES)
    write = _WRITERS[path.suffix.lower()]
    with replacing(path) as part:
        write(part, graph, ids)
    if graph.has_masses and path.suffix.lower() in _WITHOUT_MASSES:
        message = f"'{path}' is without the masses of the vertices: write .npz, .graphml or .graph to keep them."
        warnings.warn(message, GraphWarning, stacklevel=2)


def _write_npz(path: Path, graph: Graph, ids: Array) -> None:
    with path.open("wb") as file:
        sp.save_npz(file, graph.to_scipy())
    if graph.has_masses:  # beside what SciPy reads
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{MASSES}.npy", "w") as file:
            np.save(file, graph.masses, allow_pickle=False)


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
    if graph.has_masses:
        pairs = zip(names, graph.masses.tolist(), strict=True)
        nodes = (f'<node id={name}><data key="m">{mass!r}</data></node>' for name, mass in pairs)
    else:
        nodes = (f"<node id={name}/>" for name in names)
    edges = (
        f'<edge source={names[i]} target={names[j]}><data key="w">{weight!r}</data></edge>'
        for i, j, weight in _each_edge(graph)
    )
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '<key id="w" for="edge" attr.name="weight" attr.type="double"/>',
        *([f'<key id="m" for="node" attr.name="{MASS}" attr.type="double"/>'] if graph.has_masses else []),
        '<graph edgedefault="undirected">',
    )
    _write_lines(path, chain(head, nodes, edges, ("</graph>", "</graphml>")))


def _write_metis(path: Path, graph: Graph, ids: Array) -> None:
    weights, masses = _whole(graph.weights), _whole(graph.masses)
    if weights is None:
        raise InputError("METIS files hold whole weights only; write .npz, .mtx, .edges or .graphml.")
    if masses is None:
        raise InputError("METIS files hold whole masses only; write .npz or .graphml.")
    code = f"0{int(graph.has_masses)}{int(not graph.is_unweighted)}"
    entries = graph.indices + 1 if graph.is_unweighted else np.column_stack([graph.indices + 1, weights])
    rows = (row.ravel().tolist() for row in np.split(entries, graph.indptr[1:-1]))
    if graph.has_masses:
        rows = ([mass, *row] for mass, row in zip(masses.tolist(), rows, strict=True))
    first = f"{graph.n_vertices} {graph.n_edges}" + ("" if code == "000" else f" {code}")
    _write_lines(path, chain((first,), (" ".join(map(str, row)) for row in rows)))


def _whole(values: FloatArray) -> IntArray | None:
    """The same as whole numbers, if they are and METIS can count them."""
    if values.size and float(values.max()) >= _MOST_OF_METIS:
        return None
    whole = values.astype(np.int64)
    return whole if np.array_equal(whole, values) else None


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
_WITHOUT_MASSES = (".mtx", ".edges")
