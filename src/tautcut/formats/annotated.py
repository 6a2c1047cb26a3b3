"""AnnData's .h5ad files: the graph in `obsp`, or features in `obsm` or X, read element by element without loading the
rest; and a copy of such a file with results added. It follows no link into another file, and reads only encodings that
it knows.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.arrays import TextArray
from tautcut.errors import InputError
from tautcut.formats import schema
from tautcut.formats.arrays import checked
from tautcut.formats.base import Data, Selection, decided, optional, reading

GRAPH, PCA, X = f"obsp/{schema.GRAPH}", f"obsm/{schema.PCA}", "X"

_MATRICES = ("array", "csr_matrix", "csc_matrix")
_COLUMNS = ("array", "string-array", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")


def read_h5ad(path: Path, selection: Selection) -> Data:
    """The graph or the features of the cells, named as in the file; ids are the names of the cells."""
    if selection.columns is not None or selection.id_column is not None:
        raise InputError(f"'{path}' is an AnnData file; choose one of its arrays, such as {PCA}, not columns.")
    h5py = optional("h5py", "reading .h5ad")
    optional("anndata.io", "reading .h5ad")
    with reading(path, "an AnnData file"), h5py.File(path, "r") as file:
        name = _array_name(file, selection, path)
        matrix = _element(file, name, _MATRICES, path)
        ids = np.array(_element(file, _index(file, "obs"), _COLUMNS, path), dtype=np.str_)
        names = _gene_names(file, name, path)
        labels = None if selection.label_column is None else _labels(file, selection.label_column, path)
        others = {one: _labels(file, one, path) for one in _categories(file) if one != selection.label_column}
    if len(ids) != matrix.shape[0]:
        raise InputError(f"'{path}' is damaged: {name} has {matrix.shape[0]} rows for {len(ids)} cells.")
    if names is not None and len(names) != matrix.shape[1]:
        raise InputError(f"'{path}' is damaged: {name} has {matrix.shape[1]} columns for {len(names)} genes.")
    kind = "graph" if name.startswith("obsp/") else selection.kind or "features"
    notes = (f"Taken from {name}.",)
    return decided(Data(checked(matrix, path), ids, notes, names, labels, others=lambda: others), kind)


def write_h5ad(path: Path, source: Path, added: Mapping[str, Mapping[str, Any]]) -> None:
    """A copy of the source with more in it, given as by :func:`tautcut.formats.schema.entries`."""
    h5py = optional("h5py", "writing .h5ad")
    write = optional("anndata.io", "writing .h5ad").write_elem
    shutil.copyfile(source, path)
    with warnings.catch_warnings(), reading(source, "an AnnData file"), h5py.File(path, "r+") as file:
        warnings.simplefilter("ignore")  # of anndata, about its own future
        columns = list(dict.fromkeys([*_column_names(file), *added["obs"]]))
        for part, values in added.items():
            for name, value in values.items():
                write(file.require_group(part), name, value)
        file["obs"].attrs["column-order"] = np.array(columns, dtype=h5py.string_dtype())


def _array_name(file: Any, selection: Selection, path: Path) -> str:
    """The array asked for, else the first that is there."""
    if selection.array is not None:
        name = selection.array.strip("/")
        if not name.startswith(("obsp/", "obsm/", "layers/")) and name != X:
            raise InputError(f"the array must be X or in obsm, obsp or layers, such as {PCA}; found {name!r}.")
        return name
    order = {"graph": (GRAPH,), "features": (PCA, X)}.get(selection.kind or "", (GRAPH, PCA, X))
    name = next((one for one in order if one in file), "")
    if not name:
        raise InputError(f"'{path}' holds none of {', '.join(order)}. Compute one of them, or name another array.")
    return name


def _element(file: Any, name: str, encodings: tuple[str, ...], path: Path) -> Any:
    """One element, if it lies in this file and in an encoding that is known."""
    h5py, read_elem = optional("h5py", "reading .h5ad"), optional("anndata.io", "reading .h5ad").read_elem
    parts = name.split("/")
    links = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    if any(not isinstance(file.get(one, getlink=True), h5py.HardLink) for one in links if one in file):
        raise InputError(f"'{path}' is refused: {name!r} is a link to somewhere else. Copy the data into the file.")
    if name not in file:
        raise InputError(f"'{path}' holds no {name!r}. Name an array that is there.")
    encoding = str(file[name].attrs.get("encoding-type", "none"))
    if encoding not in encodings:
        raise InputError(
            f"{name!r} of '{path}' is encoded as {encoding[:40]!r}, not as {', '.join(encodings)}. "
            "Write the file again with a newer anndata."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_elem(file[name])


def _index(file: Any, axis: str) -> str:
    """Where the names of the cells ("obs") or of the genes ("var") are."""
    return f"{axis}/{file[axis].attrs['_index']}"


def _gene_names(file: Any, array: str, path: Path) -> tuple[str, ...] | None:
    """What the columns of X and of layers are called; those of other arrays have no names."""
    if not array.startswith((X, "layers/")) or "var" not in file:
        return None
    return tuple(str(name) for name in _element(file, _index(file, "var"), _COLUMNS, path))


def _column_names(file: Any) -> list[str]:
    return [str(name) for name in file["obs"].attrs["column-order"]]


def _categories(file: Any) -> list[str]:
    """The columns of `obs` that hold categories: what clusters are compared with."""
    kinds = {one: file[f"obs/{one}"].attrs.get("encoding-type") for one in _column_names(file) if f"obs/{one}" in file}
    return [one for one, kind in kinds.items() if kind == "categorical"]


def _labels(file: Any, name: str, path: Path) -> TextArray:
    """A column of `obs` as text, empty where a value is missing."""
    from pandas import Series

    if name not in _column_names(file):
        raise InputError(f"'{path}' has no column {name!r} in obs. Name one of {', '.join(_column_names(file)[:8])}.")
    column = Series(_element(file, f"obs/{name}", _COLUMNS, path))
    pairs = zip(column.tolist(), column.isna(), strict=True)
    return np.array(["" if is_missing else str(value) for value, is_missing in pairs], dtype=np.str_)
