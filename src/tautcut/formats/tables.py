"""Tables of features: text, spreadsheets and .parquet. This module owns which column plays which role: ids and labels
are told from features by name or content, masses are named, keys are left out, and the rest is chosen by name. A column
that was meant to be numbers is never left out in silence.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from tautcut import memory
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import InputError, NotEnoughMemoryError
from tautcut.formats import footer, workbook
from tautcut.formats.base import Data, Selection, decided, foresee, optional, reading
from tautcut.formats.cells import Column, column_of, is_missing, is_number, plain, written
from tautcut.formats.shown import ShownColumn, compared_by, shown_among
from tautcut.formats.text import Sheet, read_sheet, sheet_of

# Names, in small letters, of columns that are ids or labels rather than features. The last is pyarrow's, of an index.
ID_NAMES = frozenset({"", "id", "ids", "index", "unnamed: 0", "__index_level_0__"})
LABEL_NAMES = frozenset({"label", "labels", "target", "class", "truth"})

# Words that a name ends in if the column numbers things: customer_id, PassengerId, order no.
_KEY_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|ids|key|nr|no|num|number|index|idx|code|row|rownum)$|(?<=[a-z])(?:ID|Id|Key|Nr|No|Index)$",
)  # fmt: skip
_FEWEST_RUNNING = 10  # distinct whole numbers in fewer rows run by chance
_MOST_UNUSED = 12  # columns that are no features, kept to be shown beside the result
_PER_VALUE, _PER_COLUMN, _PER_TEXT = 40, 7000, 160  # bytes of memory, measured (decision 0035)
_EVEN = 0.9  # of the steps of a run are alike; some are not once rows were deleted


@dataclass(frozen=True)
class Roles:
    """Which columns, by position, are ids, labels, masses and features.

    `excluded` look like labels, `kept` stay features, and `shown` is what rows are compared by instead of them.
    """

    names: tuple[str, ...]
    id: int | None
    label: int | None
    mass: int | None
    features: tuple[int, ...]
    excluded: tuple[int, ...]
    kept: frozenset[int]
    shown: int | None = None

    @property
    def texts(self) -> set[int]:
        """Columns that are kept as they are written."""
        return {position for position in (self.id, self.label, self.shown) if position is not None}

    @property
    def masses(self) -> set[int]:
        """The column of masses, if there is one."""
        return set() if self.mass is None else {self.mass}

    @property
    def unused(self) -> list[int]:
        """Columns without a role, labels among them; the first of very many."""
        used = {*self.texts, *self.masses, *self.features}
        return [j for j in range(len(self.names)) if j not in used][:_MOST_UNUSED]


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table, and how to look one up again: as text, or the place of a row in the file."""

    columns: Mapping[int, Column]
    n_rows: int
    texts: Callable[[Sequence[int]], Mapping[int, Sequence[str]]]
    place: Callable[[int], str]
    notes: tuple[str, ...] = ()


def read_text(path: Path, selection: Selection) -> Data:
    """The features in a text file of columns."""
    with reading(path, "a table of text"):
        return of_sheet(read_sheet(path), selection)


def of_sheet(sheet: Sheet, selection: Selection) -> Data:
    """The features in a text of columns."""
    roles = assign(sheet.names, selection, sheet.path)
    columns, notations = sheet.read(roles.texts, selection.missing_words)
    texts = sheet.texts(sorted(roles.texts)) if roles.texts else {}
    n_rows = next((len(one.values) for one in columns.values() if one.values is not None), -1)
    if n_rows < 0:
        n_rows = sum(1 for _ in sheet.rows())

    def again(asked: Sequence[int]) -> Mapping[int, Sequence[str]]:
        left = [j for j in asked if j not in texts]
        return {**texts, **(sheet.texts(left) if left else {})}

    table = Table(columns, n_rows, again, lambda row: f"line {sheet.line(row)}", (*sheet.notes, *notations))
    return assemble(table, roles, selection)


def read_spreadsheet(path: Path, selection: Selection) -> Data:
    """The features in the first sheet of a workbook."""
    optional("python_calamine", "reading spreadsheets")
    with reading(path, "a spreadsheet"):
        names, _, text = _sheet_text(path).partition(b"\n")
        sheets = json.loads(names)
        sheet = sheet_of(text, path.with_suffix(".csv"))
        notes = (f"Taken from its first sheet, {sheets[0]!r}.",) if len(sheets) > 1 else ()
        return of_sheet(replace(sheet, path=path, notes=notes), selection)


def _sheet_text(path: Path) -> bytes:
    """What `workbook` writes about a file, in a process whose end is a sentence."""
    room = memory.for_reading()
    done = subprocess.run(
        [sys.executable, "-P", workbook.__file__, str(path.absolute()), str(room)], capture_output=True, check=False
    )
    if done.returncode < 0:
        raise NotEnoughMemoryError(
            f"'{path}' needs more than {room >> 20:,} MiB of memory, or ends its reader otherwise (signal "
            f"{-done.returncode}). Allow more by --memory, or save its cells as .csv."
        )
    if done.returncode:
        raise ValueError(done.stderr.decode("utf-8", "replace"))
    return done.stdout


def read_parquet(path: Path, selection: Selection) -> Data:
    """The features in a Parquet file."""
    import pyarrow.parquet as pq

    with reading(path, "a Parquet file"), pq.ParquetFile(path) as file:
        coded = _foreseen(file.metadata, path)
    with reading(path, "a Parquet file"), pq.ParquetFile(path, read_dictionary=coded) as file:
        names = tuple(file.schema_arrow.names)
        roles = assign(names, selection, path)
        wanted = sorted({*roles.texts, *roles.unused, *roles.features, *roles.masses})
        read = file.read(columns=[names[j] for j in wanted])
        at = {j: plain(read.column(position)) for position, j in enumerate(wanted)}

        def texts(asked: Sequence[int]) -> Mapping[int, Sequence[str]]:
            foresee(_PER_TEXT * read.num_rows * len(asked), f"'{path}', {read.num_rows:,} rows of text,")
            return {j: written(at[j]) for j in asked}

        numbers = (*roles.features, *roles.masses)
        columns = {j: column_of(at[j], missing=selection.missing_words) for j in numbers}
        return assemble(Table(columns, read.num_rows, texts, lambda row: f"row {row}"), roles, selection)


def _foreseen(about: Any, path: Path) -> list[str]:
    """The columns that are best read as numbers of their different texts, once it is known that all would fit.

    A file of a few bytes can hold billions of numbers, and name one long text as often: Arrow would give each a copy.
    Groups of rows and the schema alone are looked at: over a damaged column Arrow would end the process.
    """
    columns = [about.schema.column(j) for j in range(about.num_columns)]
    groups = [
        (max(0, one.num_rows), max(0, one.total_byte_size)) for one in map(about.row_group, range(about.num_row_groups))
    ]
    n_values = max(about.num_rows, sum(rows for rows, _ in groups)) * len(columns)
    if any(column.max_repetition_level for column in columns):  # lists, of any length
        n_values = max(n_values, _values_of_lists(path))
    need = _PER_VALUE * n_values + 2 * sum(size for _, size in groups) + _PER_COLUMN * about.num_columns
    foresee(need, f"'{path}', a table of {about.num_rows:,} rows and {about.num_columns:,} columns,")
    room = memory.for_reading()
    is_large = any(rows * size > room for rows, size in groups)
    return sorted({column.path for column in columns if is_large and column.physical_type == "BYTE_ARRAY"})


def _values_of_lists(path: Path) -> int:
    """How many values a file with columns of lists says that it holds, told by a process whose end is a sentence."""
    done = subprocess.run(
        [sys.executable, "-P", footer.__file__, str(path.absolute())], capture_output=True, check=False
    )
    if done.returncode:
        raise ValueError(done.stderr.decode("utf-8", "replace").strip() or f"its reader ended by {-done.returncode}")
    return int(done.stdout)


def assign(names: tuple[str, ...], selection: Selection, path: Path) -> Roles:
    """The role of each column, by the names asked for, else by their own names."""
    if selection.array is not None:
        raise InputError(f"'{path}' is a table; choose its columns by name, not the array {selection.array!r}.")
    chosen = None if selection.columns is None else _chosen(names, selection.columns, path)
    kept, without = (frozenset(_chosen(names, asked, path)) for asked in (selection.keep, selection.without))
    fixed = kept | frozenset(chosen or ())
    mass = None if selection.mass_column is None else _position(names, selection.mass_column, path)
    if mass is not None and selection.mass_column in (selection.id_column, selection.label_column):
        raise InputError(f"column {names[mass]!r} of '{path}' cannot hold masses and something else. Name another.")
    taken = fixed | without | {mass}
    by_name = (j for j, name in enumerate(names) if name.casefold() in ID_NAMES and j not in taken)
    id_ = _position(names, selection.id_column, path) if selection.id_column else next(by_name, None)
    label = None if selection.label_column is None else _position(names, selection.label_column, path)
    asked = selection.picture_column or selection.text_column
    shown = None if asked is None else _position(names, asked, path)
    others = range(len(names)) if chosen is None else dict.fromkeys([*chosen, *sorted(kept)])
    free = [j for j in others if j not in (id_, label, mass, shown) and j not in without]
    excluded = tuple(j for j in free if j not in fixed and names[j].casefold() in LABEL_NAMES)
    left_out = frozenset(excluded)
    return Roles(names, id_, label, mass, tuple(j for j in free if j not in left_out), excluded, fixed, shown)


def _chosen(names: tuple[str, ...], asked: Iterable[str], path: Path) -> list[int]:
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
    some = ", ".join(repr(name[:40]) for name in names[:8]) + (", …" if len(names) > 8 else "")
    return InputError(f"'{path}' has no column {asked!r}; it has {some}.")


def assemble(table: Table, roles: Roles, selection: Selection) -> Data:
    """Features, ids and labels from the columns, and what is to be said about the others."""
    names, columns = roles.names, table.columns
    numeric = [j for j in roles.features if columns[j].values is not None]
    empty = [j for j in roles.features if columns[j].is_empty]
    words = [j for j in roles.features if columns[j].values is None and not columns[j].is_empty]
    _refuse_words(table, roles, words)
    keys = [j for j in numeric if j not in roles.kept and _is_key(names[j], columns[j].whole)]
    shown = shown_column(table, roles, selection, words, len(numeric) - len(keys))
    if len(keys) == len(numeric):  # a table needs features, however much they look like keys
        keys = []
    id_ = roles.id if roles.id is not None else next(iter(keys), None)
    if id_ is None:
        text = None if shown is None or shown.is_picture else shown.column
        id_ = next((j for j in words if columns[j].is_distinct and j != text), None)
    ids: Array = np.arange(table.n_rows) if id_ is None else whole_numbers(table.texts([id_])[id_])
    left_out = frozenset(keys)
    features = [j for j in numeric if j not in left_out]
    notes = list(table.notes)
    if id_ is not None:
        is_repeated = len(set(ids.tolist())) < len(ids)
        notes.append(f"Ids are in column {names[id_]!r}{'; some occur more than once' if is_repeated else ''}.")
    notes += _left_out(names, "they look like keys (--keep COLUMN uses one)", keys)
    notes += _left_out(names, "they look like labels", roles.excluded)
    notes += _left_out(names, "they hold text", [j for j in words if j != id_])
    notes += _left_out(names, "they are empty", [j for j in empty if names[j]])
    if (not features and shown is None and selection.brought is None) or not table.n_rows:
        raise InputError("the table holds no column of numbers. Give at least one feature, and a row for each point.")
    matrix: FloatArray = np.empty((table.n_rows, len(features)))
    for place, j in enumerate(features):
        matrix[:, place] = columns[j].values
    labels = None if roles.label is None else as_texts(table.texts([roles.label])[roles.label])
    is_seen = {id_, None if shown is None else shown.column}
    beside = [*roles.unused, *(j for j in words if j not in is_seen)][: 2 * _MOST_UNUSED]

    def others() -> Mapping[str, Array]:
        texts = table.texts(beside)
        return {names[j]: as_texts(texts[j]) for j in beside}

    chosen = tuple(names[j] for j in features)
    masses = None if roles.mass is None else _masses(table, roles.mass, names[roles.mass])
    if shown is not None:
        notes = [note for note in notes if "they hold text" not in note]
        notes.append(shown.why)
    if roles.mass is not None:
        notes.append(f"Masses are in column {names[roles.mass]!r}.")
    data = Data(matrix, ids, tuple(notes), chosen, labels, others=others, place=table.place, masses=masses)
    if shown is not None:
        return compared_by(data, shown, as_texts(table.texts([shown.column])[shown.column]), selection)
    if selection.brought is not None:
        return data
    return decided(data, selection.kind)


def shown_column(
    table: Table, roles: Roles, selection: Selection, words: Sequence[int], n_numbers: int
) -> ShownColumn | None:
    """The column of texts or pictures that rows are compared by: the one asked for, or the one that looks like it."""
    if roles.shown is not None:
        is_picture, name = selection.picture_column is not None, roles.names[roles.shown]
        why = f"Compared by the {'pictures that column' if is_picture else 'words in column'} {name!r}"
        return ShownColumn(roles.shown, is_picture, f"{why}{' names' if is_picture else ''}.")
    if not selection.is_open or selection.columns is not None:
        return None
    texts = {j: cells for j, cells in table.texts(list(words)).items() if j in words} if words else {}
    return shown_among(texts, roles.names, selection.folder, n_numbers)


def _refuse_words(table: Table, roles: Roles, words: Sequence[int]) -> None:
    """Columns that were asked for, or that hold numbers but for a few cells, are not left out in silence."""
    names = roles.names
    odd = {j: found for j in words if (found := table.columns[j].odd) is not None}
    if odd:
        j, (row, cell, count) = next(iter(odd.items()))
        more = f" (so do {_listed([names[other] for other in list(odd)[1:]])})" if len(odd) > 1 else ""
        raise InputError(
            f"column {names[j]!r} holds numbers, but {count} of its cells {'is' if count == 1 else 'are'} not: "
            f"the first is {cell!r} in {table.place(row)}{more}. Correct it, or say --na {cell!r} if that is a "
            f"missing value, or --without {names[j]!r} to leave the column out."
        )
    empty = next((j for j in roles.features if j in roles.kept and table.columns[j].is_empty), None)
    if empty is not None:
        raise InputError(f"column {names[empty]!r} is empty. Choose another.")
    asked = next((j for j in words if j in roles.kept), None)
    if asked is not None:
        example = [cell[:40] for cell in table.texts([asked])[asked][:1]]
        raise InputError(f"column {names[asked]!r} does not hold numbers, but e.g. {example}. Choose another.")


def _masses(table: Table, column: int, name: str) -> FloatArray:
    """The numbers of the column of masses, NaN where one is missing; words are refused."""
    found = table.columns[column]
    if found.values is not None:
        return found.values
    if found.is_empty:
        raise InputError(f"column {name!r} is empty, and cannot hold masses. Name another.")
    cells = table.texts([column])[column]
    is_word = (at for at, cell in enumerate(cells) if not is_missing(cell) and not is_number(cell))
    row = found.odd[0] if found.odd is not None else next(is_word, 0)
    raise InputError(
        f"masses must be numbers > 0; found {cells[row][:40]!r} in {table.place(row)}, column {name!r}. Correct it, or "
        "name another column."
    )


def _is_key(name: str, whole: IntArray | None) -> bool:
    """Whether a column numbers the rows: distinct whole numbers that run, in any order, or are named as keys are."""
    if whole is None or len(whole) < 2:
        return False
    ordered = np.sort(whole)
    steps = np.diff(ordered)
    if not steps.all():
        return False
    if _KEY_NAME.search(name.strip()) or name.strip().casefold() in ID_NAMES:
        return True
    return len(whole) >= _FEWEST_RUNNING and bool(np.mean(steps == np.median(steps)) >= _EVEN)


def whole_numbers(texts: Sequence[str]) -> Array:
    """Ids as integers, if each is written as one; else as they are."""
    try:
        values = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return as_texts(texts)
    return values if all(map(str.__eq__, map(str, values.tolist()), texts)) else as_texts(texts)


def as_texts(texts: Sequence[str]) -> Array:
    """Strings as objects: an array of fixed width would give each the room of the longest."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def _left_out(names: tuple[str, ...], why: str, columns: Sequence[int]) -> list[str]:
    return [f"Left out because {why}: {_listed([names[j] for j in columns])}."] if columns else []


def _listed(names: list[str]) -> str:
    some = ", ".join(repr(name[:40]) for name in names[:5])
    return some + (f" and {len(names) - 5} more" if len(names) > 5 else "")
