"""Tables of features: .csv, .tsv and .txt text, and .parquet. This module owns which column plays which role: a header
is found, ids and labels are told from features by name or content, and the rest is chosen by name. Every number is
checked where it is read, so that a mistake is told with its line and column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, islice
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import TextIO, TypeAlias

import numpy as np

from tautcut.arrays import Array, FloatArray, TextArray
from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection, decided, optional, reading

Line: TypeAlias = tuple[int, list[str]]

# Names, in small letters, of columns that are ids or labels rather than features. The last is pyarrow's, of an index.
ID_NAMES = frozenset({"", "id", "ids", "index", "unnamed: 0", "__index_level_0__"})
LABEL_NAMES = frozenset({"label", "labels", "target", "class", "truth"})

_SAMPLE = 100  # lines that decide whether a column holds numbers
_BLOCK = 2**20  # cells held as text at a time
_FEWEST_COUNTED = 4  # columns from which a first line 0, 1, 2, … is a header


@dataclass(frozen=True)
class Roles:
    """Which columns, by position, are ids, labels and features; `excluded` look like labels."""

    names: tuple[str, ...]
    id: int | None
    label: int | None
    features: tuple[int, ...]
    excluded: tuple[int, ...]

    @property
    def texts(self) -> set[int]:
        """Columns that are kept as they are written."""
        return {position for position in (self.id, self.label) if position is not None}


def read_text(path: Path, selection: Selection) -> Data:
    """The features in a text file of columns."""
    with reading(path, "a table of text"):
        lines = rows(path)
        head = list(islice(lines, _SAMPLE + 1))
        if not head:
            raise InputError(f"'{path}' is empty. Give a table with a row for each point.")
        names, has_header = header([cells for _, cells in head])
        roles = assign(names, selection, path)
        sample = head[has_header:]
        numeric = tuple(j for j in roles.features if is_numeric(sample, j))
        texts = [j for j in range(len(names)) if j in roles.texts or (j in roles.features and j not in numeric)]
        matrix, columns = _blocks(chain(sample, lines), names, numeric, texts, path)
        return assemble(matrix, numeric, columns, roles, selection)


def read_parquet(path: Path, selection: Selection) -> Data:
    """The features in a Parquet file."""
    pq, types = (optional(f"pyarrow.{name}", "reading Parquet") for name in ("parquet", "types"))
    with reading(path, "a Parquet file"):
        file = pq.ParquetFile(path)
        names, kinds = tuple(file.schema_arrow.names), file.schema_arrow.types
        roles = assign(names, selection, path)
        is_number = [types.is_floating(t) or types.is_integer(t) or types.is_boolean(t) for t in kinds]
        numeric = tuple(j for j in roles.features if is_number[j])
        wanted = sorted({*roles.texts, *roles.features})
        table = file.read(columns=[names[j] for j in wanted])
        at = {j: table.column(position) for position, j in enumerate(wanted)}
        matrix = np.empty((table.num_rows, len(numeric)))
        for position, j in enumerate(numeric):
            values = matrix[:, position] = np.asarray(at[j].to_numpy(), dtype=np.float64)  # null becomes NaN
            bad = ~np.isfinite(values)
            if bad.any():
                raise InputError(_not_a_number(f"row {int(bad.argmax())}", names[j], "", values[bad][0]))
        texts = [j for j in wanted if j not in numeric]
        columns = {j: np.array(["" if one is None else str(one) for one in at[j].to_pylist()], np.str_) for j in texts}
    return assemble(matrix, numeric, columns, roles, selection)


def rows(path: Path) -> Iterator[Line]:
    """The cells of each line that is not blank, with the number of the line; comments are left out of .txt files."""
    delimiter = _delimiter(path)
    has_comments = path.suffix.lower() not in (".csv", ".tsv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        if delimiter is None:
            for number, line in enumerate(_lines(file, path), 1):
                if line.strip() and line.lstrip()[0] not in "#%":
                    yield number, line.split()
            return
        reader = csv.reader(_lines(file, path), delimiter=delimiter, skipinitialspace=True, strict=True)
        for cells in reader:
            if cells and not (has_comments and cells[0][:1] in ("#", "%")):
                yield reader.line_num, cells


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    for line in file:
        if "\0" in line:
            raise InputError(f"'{path}' is not text: it holds null bytes. Check its suffix.")
        yield line


def _delimiter(path: Path) -> str | None:
    """What separates the cells, by the first line; None is white space."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    with path.open(encoding="utf-8-sig") as file:
        lines = (line for line in islice(file, _SAMPLE) if line.strip() and line.lstrip()[0] not in "#%")
        first = next(lines, "")
    best = max(",;\t", key=first.count)
    if best in first:
        return best
    return "," if path.suffix.lower() == ".csv" else None


def header(head: list[list[str]]) -> tuple[tuple[str, ...], bool]:
    """The names of the columns, and whether the first line holds them; without one they are "0", "1", …

    The first line is a header if a column below one of its words holds numbers, if it holds words only, or if it
    counts the columns, as data frames without names do.
    """
    first, below = head[0], head[1:]
    words = [j for j, cell in enumerate(first) if number(cell) is None]
    sample = [(0, cells) for cells in below]
    is_header = any(is_numeric(sample, j) for j in words) or (bool(below) and len(words) == len(first))
    counted = first[1:] if first[0].strip() == "" else first
    is_counting = counted in ([str(j + start) for j in range(len(counted))] for start in (0, 1))
    if is_header or (len(counted) >= _FEWEST_COUNTED and is_counting):
        return tuple(cell.strip() for cell in first), True
    return tuple(str(j) for j in range(len(first))), False


def number(cell: str) -> float | None:
    """The number in a cell, which may be NaN; None if there is none."""
    try:
        return float(cell)
    except ValueError:
        return None


def is_numeric(sample: Sequence[Line], column: int) -> bool:
    """Whether a column holds numbers and nothing else, apart from empty cells."""
    cells = [cells[column].strip() for _, cells in sample if column < len(cells)]
    cells = [cell for cell in cells if cell]
    return bool(cells) and all(number(cell) is not None for cell in cells)


def assign(names: tuple[str, ...], selection: Selection, path: Path) -> Roles:
    """The role of each column, by the names asked for, else by their own names."""
    if selection.array is not None:
        raise InputError(f"'{path}' is a table; choose its columns by name, not the array {selection.array!r}.")
    chosen = () if selection.columns is None else tuple(_chosen(names, selection.columns, path))
    by_name = {j for j, name in enumerate(names) if name.casefold() in ID_NAMES and j not in chosen}
    id_ = _position(names, selection.id_column, path) if selection.id_column else min(by_name, default=None)
    label = None if selection.label_column is None else _position(names, selection.label_column, path)
    is_free = selection.columns is None
    others = [j for j in (range(len(names)) if is_free else chosen) if j not in (id_, label)]
    excluded = tuple(j for j in others if is_free and names[j].casefold() in LABEL_NAMES)
    return Roles(names, id_, label, tuple(j for j in others if j not in excluded), excluded)


def _chosen(names: tuple[str, ...], asked: Sequence[str], path: Path) -> list[int]:
    """The positions of the columns asked for by name or by a pattern such as pixel*."""
    found: dict[int, None] = {}
    for one in asked:
        exact = [j for j, name in enumerate(names) if name == one]
        matches = exact or [j for j, name in enumerate(names) if fnmatchcase(name, one)]
        if not matches:
            raise _no_column(names, one, path)
        found.update(dict.fromkeys(matches))
    return list(found)


def _position(names: tuple[str, ...], asked: str, path: Path) -> int:
    if asked not in names:
        raise _no_column(names, asked, path)
    return names.index(asked)


def _no_column(names: tuple[str, ...], asked: str, path: Path) -> InputError:
    some = ", ".join(repr(name) for name in names[:8]) + (", …" if len(names) > 8 else "")
    return InputError(f"'{path}' has no column {asked!r}; it has {some}.")


def _blocks(
    body: Iterator[Line], names: tuple[str, ...], numeric: tuple[int, ...], texts: list[int], path: Path
) -> tuple[FloatArray, dict[int, TextArray]]:
    """The numbers and the texts of the body, read some lines at a time."""
    height = max(1, _BLOCK // len(names))
    parts: list[FloatArray] = []
    words: dict[int, list[str]] = {j: [] for j in texts}
    for block in iter(lambda: list(islice(body, height)), []):
        for line, cells in block:
            if len(cells) != len(names):
                raise InputError(
                    f"'{path}' is uneven or cut short: line {line} has {len(cells)} columns in place of {len(names)}. "
                    "Give every line the same columns."
                )
        parts.append(_numbers(block, names, numeric))
        for j, column in words.items():
            column.extend(cells[j].strip() for _, cells in block)
    matrix = np.concatenate(parts) if parts else np.empty((0, len(numeric)))
    return matrix, {j: np.array(column, dtype=np.str_) for j, column in words.items()}


def _numbers(block: list[Line], names: tuple[str, ...], numeric: tuple[int, ...]) -> FloatArray:
    """The numbers of a block, shape (lines, numeric columns)."""
    if not numeric:
        return np.empty((len(block), 0))
    if len(numeric) == 1:
        cells: Iterator[str] = (line[numeric[0]] for _, line in block)
    elif len(numeric) == len(names):
        cells = chain.from_iterable(line for _, line in block)
    else:
        pick = itemgetter(*numeric)
        cells = chain.from_iterable(pick(line) for _, line in block)
    try:
        values = np.fromiter(map(float, cells), np.float64, len(block) * len(numeric))
    except ValueError:
        raise _first_bad(block, names, numeric) from None
    if not np.isfinite(values).all():
        raise _first_bad(block, names, numeric)
    return values.reshape(len(block), len(numeric))


def _first_bad(block: list[Line], names: tuple[str, ...], numeric: tuple[int, ...]) -> InputError:
    cells = ((line, j, cells[j]) for line, cells in block for j in numeric)
    line, j, cell = next(one for one in cells if not isfinite(number(one[2]) or 0.0) or number(one[2]) is None)
    return InputError(_not_a_number(f"line {line}", names[j], cell, number(cell)))


def _not_a_number(where: str, name: str, cell: str, value: float | None) -> str:
    found = repr(cell[:40]) if cell.strip() or value is None else f"a missing value ({value})"
    found = "an empty cell" if value is None and not cell.strip() else found
    return (
        f"features must be finite numbers; found {found} in {where}, column {name!r}. "
        "Fill it, or remove that row or column."
    )


def assemble(
    matrix: FloatArray, numeric: tuple[int, ...], texts: dict[int, TextArray], roles: Roles, selection: Selection
) -> Data:
    """Features, ids and labels from the columns, and what is to be said about the others."""
    names = roles.names
    words = [j for j in roles.features if j not in numeric]
    if selection.columns is not None and words:
        example = texts[words[0]][:1].tolist()
        raise InputError(f"column {names[words[0]]!r} does not hold numbers, but e.g. {example}. Choose another.")
    unique = (j for j in words if len(np.unique(texts[j])) == len(texts[j]))
    id_ = next(unique, None) if roles.id is None else roles.id
    ids: Array = np.arange(len(matrix)) if id_ is None else whole_numbers(texts[id_])
    left = [j for j in words if j != id_]
    notes = []
    if id_ is not None:
        is_repeated = np.unique(ids).size < ids.size
        notes.append(f"Ids are in column {names[id_]!r}{'; some occur more than once' if is_repeated else ''}.")
    if roles.excluded:
        notes.append(f"Left out because they look like labels: {_listed([names[j] for j in roles.excluded])}.")
    if left:
        notes.append(f"Left out because they hold text: {_listed([names[j] for j in left])}.")
        odd = {names[j]: cell for j in left if (cell := _odd_cell(texts[j])) is not None}
        if odd:
            example = next(iter(odd.values()))
            notes.append(f"Mostly numbers are in {_listed(list(odd))}: fill cells such as {example!r} to use them.")
    if not numeric or not len(matrix):
        raise InputError("the table holds no column of numbers. Give at least one feature, and a row for each point.")
    labels = None if roles.label is None else texts[roles.label]
    return decided(Data(matrix, ids, tuple(notes), tuple(names[j] for j in numeric), labels), selection.kind)


def _odd_cell(texts: TextArray) -> str | None:
    """The first cell that is no number, if most of the others are: a mistake rather than a column of words."""
    odd = [cell for cell in texts.tolist() if cell and number(cell) is None]
    return odd[0][:40] if odd and 2 * len(odd) < len(texts) else None


def whole_numbers(texts: TextArray) -> Array:
    """Ids as integers, if each is written as one; else as they are."""
    try:
        values = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    return values if np.array_equal(values.astype(np.str_), texts) else texts


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
