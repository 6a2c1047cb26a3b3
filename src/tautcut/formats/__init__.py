"""Files in and out: features or a graph from whatever format people keep them in, labels and graphs to formats that
they can use. `base` owns the records and the sentences, `tables`, `arrays`, `graphs` and `annotated` one family of
formats each, `labels` known and found labels, `schema` where these stand among the cells of an AnnData object. Nothing
is ever unpickled; a file is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tautcut.checks import one_of
from tautcut.errors import InputError
from tautcut.formats.annotated import read_h5ad
from tautcut.formats.arrays import read_mtx, read_npy, read_npz
from tautcut.formats.base import KINDS, Data, Selection
from tautcut.formats.graphs import GRAPH_SUFFIXES, is_edge_list, read_edges, read_graphml, read_metis, write_graph
from tautcut.formats.labels import Labelling, check_label_path, known_labels, read_labels, write_labels
from tautcut.formats.schema import about_run
from tautcut.formats.tables import read_parquet, read_text

__all__ = [
    "Data", "GRAPH_SUFFIXES", "Labelling", "SUFFIXES", "about_run", "check_label_path", "check_source", "known_labels",
    "read", "read_labels", "write_graph", "write_labels",
]  # fmt: skip


def read(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    array: str | None = None,
) -> Data:
    """The features or the graph in a file; its suffix is its format.

    Parameters
    ----------
    path : path-like
        .csv, .tsv, .txt, .parquet: a table of features, a row for each point, or a list of edges. .npy, .npz: an array
        or a sparse matrix. .mtx: Matrix Market. .edges: edges. .graphml. .graph: METIS. .h5ad: AnnData.
    kind : {"features", "graph"}, optional
        What the file holds. By default its content decides: a symmetric matrix without a diagonal is a graph, so is a
        table with two columns named as ends of edges (source and target, say), or a .txt file with two or three
        columns of which the first two hold whole numbers.
    columns : sequence of str, optional
        The features of a table, by name or by patterns such as "pixel*". By default every column of numbers, except
        ids (named id or index) and labels (named label, target, class or truth).
    id_column : str, optional
        The ids of a table. By default the column named id or index, else the first whose texts all differ, else the
        numbers of the rows from 0.
    label_column : str, optional
        The column of a table or of `obs`, the array of a .npz file or the node attribute of GraphML that holds labels.
    array : str, optional
        The array of a .npz file, "X" or the only one by default; or of a .h5ad file, by default the first that is
        there of obsp/connectivities, obsm/X_pca and X.

    Raises
    ------
    InputError
        If the file cannot be read as what it should be; nothing in it is ever executed.
    """
    path = check_source(path)
    if kind is not None:
        one_of("kind", kind, KINDS)
    chosen = None if columns is None else tuple(columns)
    return _READERS[path.suffix.lower()](path, Selection(kind, chosen, id_column, label_column, array))


def check_source(path: str | os.PathLike[str]) -> Path:
    """The path, if a file of a known format is there."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"'{path}' has no known format; its name must end in one of {', '.join(SUFFIXES)}.")
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InputError(f"'{path}' {what}. Check the path.")
    return path


def _read_table(path: Path, selection: Selection) -> Data:
    """A text file: edges if it looks like them and nothing else was asked for, else a table."""
    is_about_columns = selection.columns is not None or selection.label_column is not None
    if selection.kind != "features" and not is_about_columns and is_edge_list(path, selection.kind == "graph"):
        why = () if selection.kind else ("Its two or three columns look like edges.",)
        return replace(read_edges(path, selection), notes=why)  # edges have no notes of their own
    return read_text(path, selection)


_READERS: dict[str, Callable[[Path, Selection], Data]] = {
    ".csv": _read_table,
    ".tsv": _read_table,
    ".txt": _read_table,
    ".parquet": read_parquet,
    ".npy": read_npy,
    ".npz": read_npz,
    ".mtx": read_mtx,
    ".edges": read_edges,
    ".graphml": read_graphml,
    ".graph": read_metis,
    ".h5ad": read_h5ad,
}
SUFFIXES = tuple(_READERS)
