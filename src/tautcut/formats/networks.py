"""Graphs in the formats of networkx: .gml, .gexf and .edgelist, read by networkx, which only they need. XML is looked
at first by a parser that refuses document type declarations. Its readers execute nothing that is in a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection, foresee, optional, reading
from tautcut.formats.graphs import parsed_xml, read_edges, refuse_columns
from tautcut.formats.masses import attribute_of, masses_of_texts
from tautcut.formats.tables import as_texts, whole_numbers
from tautcut.graph import Graph

# The edge attribute that is the weight: networkx's name, and that of many .gml files.
_WEIGHTS = ("weight", "value")
_PER_BYTE = 60  # bytes in memory, measured (decision 0035)


def read_network(path: Path, selection: Selection) -> Data:
    """The graph of a .gml, .gexf or .edgelist file; its nodes by their labels, or their ids where they have none."""
    suffix = path.suffix.lower()
    foresee(path.stat().st_size, f"'{path}'")
    if suffix == ".edgelist" and b"{" not in path.read_bytes():
        return read_edges(path, selection)  # plain lines of two vertices and a weight
    refuse_columns(path, selection, has_attributes=True)
    networkx = optional("networkx", f"reading {suffix}")
    foresee(_PER_BYTE * path.stat().st_size, f"'{path}', in the hands of networkx,")
    with reading(path, f"a {suffix} graph"):
        try:
            network = _READERS[suffix](path, networkx)
        except networkx.NetworkXException as error:
            raise ValueError(str(error)) from error
        return _of_network(network, selection, path)


def _gml(path: Path, networkx: Any) -> Any:
    try:
        return networkx.read_gml(path, label="label")
    except networkx.NetworkXError:  # nodes without labels, or with the same
        return networkx.read_gml(path, label="id")


def _gexf(path: Path, networkx: Any) -> Any:
    parsed_xml(path, "GEXF")
    return networkx.read_gexf(path)


def _edgelist(path: Path, networkx: Any) -> Any:
    return networkx.read_edgelist(path)


def _of_network(network: Any, selection: Selection, path: Path) -> Data:
    """The graph of a network, and the node attributes that were asked for as labels and masses."""
    nodes = list(network.nodes)
    if not nodes:
        raise InputError(f"'{path}' holds no nodes. Check its suffix.")
    places = {node: place for place, node in enumerate(nodes)}
    edges = list(network.edges(data=True))
    pairs = np.array([(places[u], places[v]) for u, v, _ in edges], dtype=np.int64).reshape(-1, 2)
    name = next((one for one in _WEIGHTS if any(one in about for *_, about in edges)), None)
    weights = None if name is None else [float(about.get(name, 1)) for *_, about in edges]
    notes = ["Its directed edges are taken as undirected."] if network.is_directed() else []
    if name is not None and name != _WEIGHTS[0]:
        notes.append(f"Weights are the edges' attribute {name!r}.")
    label, of_nodes = selection.label_column, {one for _, about in network.nodes(data=True) for one in about}
    if label is not None and label not in of_nodes:
        raise InputError(f"the nodes of '{path}' have no attribute {label!r}. Name one that they have.")
    mass, said = attribute_of(of_nodes, selection.mass_column, path)
    texts = {
        name: ["" if one is None else str(one) for _, one in network.nodes(data=name)]
        for name in (label, mass) if name is not None
    }  # fmt: skip
    labels = None if label is None else as_texts(texts[label])
    masses = None if mass is None else masses_of_texts(texts[mass], nodes, path)
    graph = Graph.from_edges(pairs, weights, n_vertices=len(nodes))
    ids = whole_numbers([str(node) for node in nodes])
    return Data(graph, ids, (*notes, *said), labels=labels, masses=masses)


_READERS = {".gml": _gml, ".gexf": _gexf, ".edgelist": _edgelist}
