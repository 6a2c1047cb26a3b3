"""Files in and out: features or a graph from whatever format people keep them in, labels and graphs to formats that
they can use. `base` owns the records and the sentences, `tables`, `arrays`, `graphs` and `annotated` one family of
formats each, `text` and `cells` how text becomes columns, `numerals` texts of nothing but numbers, `workbook` and
`footer` what a process of its own looks at, `missing` what is done about gaps, `masses` how much a row counts, `packed`
what is compressed, `labels` known and found labels, `schema` where these stand among the cells of an AnnData object.
Nothing is ever unpickled, nothing is allocated before it is known that it fits, and a file is written whole or not at
all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tautcut.arrays import Features
from tautcut.checks import one_of
from tautcut.errors import InputError
from tautcut.formats.annotated import read_h5ad
from tautcut.formats.arrays import read_mtx, read_npy, read_npz
from tautcut.formats.base import KINDS, MISSING_WAYS, Data, Missing, Selection
from tautcut.formats.graphs import GRAPH_SUFFIXES, read_edges, read_graphml, read_metis, read_text_or_edges, write_graph
from tautcut.formats.labels import (
    QUESTION_SUFFIXES,
    Labelling,
    check_label_path,
    known_labels,
    known_text,
    placeholder_among,
    read_known,
    read_labels,
    read_links,
    write_labels,
    write_questions,
)
from tautcut.formats.masses import weighed
from tautcut.formats.missing import settled
from tautcut.formats.networks import read_network
from tautcut.formats.packed import PACKED, inner_suffix, stem, unpacked
from tautcut.formats.pictures import PixelMaker, read_folder
from tautcut.formats.schema import about_run
from tautcut.formats.tables import read_parquet, read_spreadsheet
from tautcut.graph import Graph

__all__ = [
    "Data", "GRAPH_SUFFIXES", "Labelling", "QUESTION_SUFFIXES", "SUFFIXES", "about_run", "check_label_path",
    "check_source", "inner_suffix", "known_labels", "known_text", "placeholder_among", "read", "read_known",
    "read_labels", "read_links", "stem", "write_graph", "write_labels", "write_questions",
]  # fmt: skip


def read(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    mass_column: str | None = None,
    array: str | None = None,
    keep: Sequence[str] = (),
    without: Sequence[str] = (),
    missing: Missing = "error",
    missing_words: Sequence[str] = (),
    text_column: str | None = None,
    picture_column: str | None = None,
    is_open: bool = False,
    features: str | os.PathLike[str] | None = None,
    pixels: PixelMaker | None = None,
) -> Data:
    """The features or the graph in a file; its suffix is its format.

    Parameters
    ----------
    path : path-like
        .csv, .tsv, .txt, .dat, .data, .xlsx, .parquet: a table of features, a row for each point, or a list of edges.
        .npy, .npz: an array or a sparse matrix. .mtx: Matrix Market. .edges, .edgelist: edges. .graphml, .gml, .gexf.
        .graph: METIS. .h5ad: AnnData. Each may be compressed, and then ends in .gz, .bz2 or .xz besides.
        Or a folder of pictures.
    kind : {"features", "graph"}, optional
        What the file holds. By default its content decides: a symmetric matrix without a diagonal is a graph; so is a
        table with two columns named as ends of edges (source and target, say), or with two or three columns of which
        the first two hold names that occur in both, or whole numbers if it is a .txt file.
    columns : sequence of str, optional
        The features of a table, by name or by patterns such as "pixel*". By default every column of numbers, except
        ids (named id or index), keys (distinct whole numbers that run, or are named so) and labels (named label,
        target, class or truth).
    id_column : str, optional
        The ids of a table. By default the column named id or index, else the first key, else the first whose texts all
        differ, else the numbers of the rows from 0.
    label_column : str, optional
        The column of a table or of `obs`, the array of a .npz file or the node attribute of GraphML that holds labels.
    mass_column : str, optional
        The column, array or node attribute that holds the masses: numbers > 0, never a feature. By default METIS files
        have the weights of their vertices, .graphml, .gml and .gexf files the node attribute "mass", a graph in a .npz
        file the array "masses", and others none.
    array : str, optional
        The array of a .npz file, "X" or the only one by default; or of a .h5ad file, by default the first that is
        there of obsp/connectivities, obsm/X_pca and X.
    keep, without : sequence of str
        Columns of a table, by name or pattern, that are features whatever they look like, or never.
    missing : {"error", "drop", "median"}
        What to do about missing values of features: refuse the file, leave out their rows, or fill in the median of
        the column.
    missing_words : sequence of str
        What stands for a missing value in the file, besides an empty cell, NA, NaN, ? and the like.
    text_column, picture_column : str, optional
        The column of a table whose texts, or the pictures that it names, rows are compared by, instead of numbers.
    is_open : bool
        Whether the content of a table may decide that it is a column of texts or pictures.
    features : path-like, optional
        A .npy or .npz file of what is compared instead, a row for each row, vertex or picture.
    pixels : callable, optional
        Makes the `Bitmaps` of paths; by default :func:`tautcut.formats.pictures.bitmaps`.

    Raises
    ------
    InputError
        If the file cannot be read as what it should be; nothing in it is ever executed.
    """
    path = check_source(path)
    if kind is not None:
        one_of("kind", kind, KINDS)
    one_of("missing", missing, MISSING_WAYS)
    _check_shown(path, text_column, picture_column)
    chosen = None if columns is None else tuple(columns)
    more = {"keep": tuple(keep), "without": tuple(without), "missing_words": tuple(missing_words)}
    brought = None if features is None else _brought(features)
    selection = Selection(
        kind, chosen, id_column, label_column, array, missing=missing, mass_column=mass_column,
        text_column=text_column, picture_column=picture_column, is_open=is_open, folder=path.parent, pixels=pixels,
        brought=brought, **more,
    )  # fmt: skip
    if path.is_dir():
        return _with_brought(read_folder(path, selection), brought, features)
    with unpacked(path) as plain:
        data = _READERS[inner_suffix(path)](plain, selection)
        return weighed(settled(_with_brought(data, brought, features), missing), path)


def _check_shown(path: Path, text_column: str | None, picture_column: str | None) -> None:
    """Refuse a column of texts or pictures where there are no columns, or both."""
    asked = [one for one in (text_column, picture_column) if one is not None]
    if len(asked) == 2:
        raise InputError(f"rows are compared by texts or by pictures: found both, {asked[0]!r} and {asked[1]!r}.")
    if asked and (path.is_dir() or inner_suffix(path) not in _TABLES):
        raise InputError(f"'{path}' has no column {asked[0]!r}: texts and pictures are named in {', '.join(_TABLES)}.")


def _brought(path: str | os.PathLike[str]) -> Features:
    """The features that a user brings for the rows of another file."""
    if inner_suffix(Path(path)) not in (".npy", ".npz"):
        raise InputError(f"features are brought in a .npy or .npz file, a row each; found '{path}'.")
    content = read(path, kind="features").content
    assert not isinstance(content, Graph)  # for the type checker: it was asked for features
    return content


def _with_brought(data: Data, brought: Features | None, path: str | os.PathLike[str] | None) -> Data:
    if brought is None:
        return data
    if brought.shape[0] != len(data.ids):
        raise InputError(
            f"'{path}' must have a row for each of the {len(data.ids):,} there are; it has {brought.shape[0]:,}."
        )
    return replace(
        data, content=brought, names=None, image_shape=None, is_of_one_unit=False,
        notes=(*data.notes, f"Compared by the {brought.shape[1]:,} columns of '{path}'."),
    )  # fmt: skip


def check_source(path: str | os.PathLike[str]) -> Path:
    """The path, if a file of a known format is there."""
    path = Path(path)
    if path.is_dir():
        return path  # of pictures
    if inner_suffix(path) not in SUFFIXES:
        raise InputError(
            f"'{path}' has no known format; its name must end in one of {', '.join(SUFFIXES)}, and may end in "
            f"{', '.join(PACKED)} besides."
        )
    if not path.is_file():
        raise InputError(f"'{path}' does not exist. Check the path.")
    return path


_TABLES = (".csv", ".tsv", ".txt", ".dat", ".data", ".xlsx", ".xls", ".ods", ".parquet")
_READERS: dict[str, Callable[[Path, Selection], Data]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat", ".data"), read_text_or_edges),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), read_spreadsheet),
    ".parquet": read_parquet,
    ".npy": read_npy,
    ".npz": read_npz,
    ".mtx": read_mtx,
    ".edges": read_edges,
    **dict.fromkeys((".edgelist", ".gml", ".gexf"), read_network),
    ".graphml": read_graphml,
    ".graph": read_metis,
    ".h5ad": read_h5ad,
}
SUFFIXES = tuple(_READERS)
