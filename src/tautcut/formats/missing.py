"""Missing values of features: refused with their number and the first place, left out with their rows, or filled in.
It owns what happens to them, whatever format they came in; what counts as missing is decided where cells are read. It
invents no value but a median, and never touches a graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, BoolArray
from tautcut.errors import InputError
from tautcut.formats.base import Data, Missing


def settled(data: Data, how: Missing) -> Data:
    """The data without missing values of features; infinite ones are refused."""
    X = data.content
    if sp.issparse(X):
        _refuse_infinite_entries(data, X)
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return data  # a graph, whole numbers, or a sparse matrix
    gaps: BoolArray = np.isnan(X)
    _refuse_infinite(data, X)
    lacks_mass = np.isnan(data.masses) if data.masses is not None and how == "drop" else np.zeros(len(X), dtype=bool)
    if not gaps.any() and not lacks_mass.any():
        return data
    if how == "error":
        raise InputError(_sentence(data, gaps))
    empty = np.flatnonzero(gaps.all(axis=0))
    if empty.size:
        raise InputError(f"{_column(data, int(empty[0]))} holds no value at all. Leave it out by --without.")
    if how == "median":
        filled = np.where(gaps, np.nanmedian(X, axis=0).astype(X.dtype), X)
        count, n_columns = int(gaps.sum()), int(gaps.any(axis=0).sum())
        return _with(data, f"{_cells(count)} missing in {n_columns} of the columns; filled with the median.", filled)
    is_left = ~(gaps.any(axis=1) | lacks_mass)
    dropped = np.flatnonzero(~is_left)
    if dropped.size == len(X):
        raise InputError(f"every row has a missing value. {_worst(data, gaps)}Leave columns out, or fill by a median.")
    note = (
        f"{dropped.size:,} of the {len(X):,} rows have a missing value and are left out; they get no label, the first "
        f"of them being {data.place(int(dropped[0]))}."
    )
    return without_rows(_with(data, note, X[is_left]), is_left)


def without_rows(data: Data, is_left: BoolArray) -> Data:
    """The data of some rows, whose content is already of these alone; the others are left out."""
    dropped = np.flatnonzero(~is_left)
    if not dropped.size:
        return data
    labels = None if data.labels is None else data.labels[is_left]
    masses = None if data.masses is None else data.masses[is_left]
    return replace(
        data, ids=data.ids[is_left], labels=labels, masses=masses, dropped=dropped, dropped_ids=data.ids[dropped],
        others=lambda: {name: column[is_left] for name, column in data.others().items()},
    )  # fmt: skip


def _with(data: Data, note: str, X: Array) -> Data:
    return replace(data, content=X, notes=(*data.notes, note))


def _sentence(data: Data, gaps: BoolArray) -> str:
    """How many values are missing, and where the first is."""
    row = int(gaps.any(axis=1).argmax())
    column = int(gaps[row].argmax())
    count, n_rows = int(gaps.sum()), int(gaps.any(axis=1).sum())
    return (
        f"{_cells(count)} missing, in {n_rows:,} of the {len(gaps):,} rows; the first is in {data.place(row)}, "
        f"{_column(data, column)}. {_worst(data, gaps)}Say --missing drop to leave those rows out, --missing median "
        "to fill them in, or --without COLUMN."
    )


def _worst(data: Data, gaps: BoolArray) -> str:
    """The columns that lack the most."""
    counts = gaps.sum(axis=0)
    order = [j for j in np.argsort(-counts, kind="stable")[:3].tolist() if counts[j]]
    more = int((counts > 0).sum()) - len(order)
    if len(order) < 2:
        return ""
    named = ", ".join(f"{counts[j]:,} in {_column(data, j)}" for j in order)
    return f"The most are missing so: {named}{f', and {more} more columns lack some' if more else ''}. "


def _refuse_infinite(data: Data, X: Array) -> None:
    infinite = np.isinf(X)
    if infinite.any():
        row = int(infinite.any(axis=1).argmax())
        column = int(infinite[row].argmax())
        raise InputError(
            f"features must be finite numbers; found {X[row, column]} in {data.place(row)}, {_column(data, column)}. "
            "Correct it, or remove that row or column."
        )


def _refuse_infinite_entries(data: Data, X: Any) -> None:
    """Entries of a sparse matrix are finite; none is missing, since what is not stored is 0."""
    is_bad = ~np.isfinite(X.data)
    if is_bad.any():
        entry = int(is_bad.argmax())
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        raise InputError(
            f"features must be finite numbers; found {X.data[entry]} in {data.place(row)}, "
            f"{_column(data, int(X.indices[entry]))}. Correct it, or remove that row or column."
        )


def _column(data: Data, j: int) -> str:
    return f"column {data.names[j][:40]!r}" if data.names is not None else f"column {j}"


def _cells(count: int) -> str:
    return "1 value is" if count == 1 else f"{count:,} values are"
