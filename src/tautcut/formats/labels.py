"""Labels: known ones read from a table of id and label, found ones written with their confidence; and which vertices
are known to share one. It owns what an unknown label looks like, and keeps ids that begin like a formula from being run
by a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.arrays import Array
from tautcut.errors import InputError
from tautcut.formats import schema
from tautcut.formats.annotated import write_h5ad
from tautcut.formats.base import Data, optional, reading
from tautcut.formats.cells import number
from tautcut.formats.packed import inner_suffix, unpacked
from tautcut.formats.tables import ID_NAMES, LABEL_NAMES
from tautcut.formats.text import Line, Sheet, read_sheet
from tautcut.writing import replacing, writable

# What an unknown label looks like, in small letters. Words such as "none" may be classes: they have to be said.
UNKNOWN = frozenset({"", "-1", "-1.0", "nan", "na", "n/a", "#n/a", "<na>", "null", "?", "-", "--", "."})
# Words that stand for no label more often than for a class; they are asked about, never assumed.
PLACEHOLDERS = frozenset({
    "unknown", "unlabelled", "unlabeled", "none", "missing", "undefined", "unspecified", "unclassified", "unassigned",
    "not labelled", "not labeled", "no label", "tbd", "todo", "other?", "??", "???",
})  # fmt: skip
# What a column is called that names groups of rows which stay together.
GROUP_NAMES = frozenset({"group", "groups", "group_id", "group id", "link"})
# What the columns of pairs are called: id, id_1, from, node a.
_END_NAME = re.compile(
    r"(?:ids?|index|key|names?|node|vertex|point|row|item|sample|cell)(?:[ _-]?(?:\d|[a-z]|first|second|third|other))?|"
    r"[abijuv]|first|second|third|one|other|left|right|from|to|source|target"
)
DIGITS = 6  # of confidence and quality in text
QUESTION_SUFFIXES = (".csv", ".tsv")  # of tables that a person fills in

_TEXTS = (".csv", ".tsv", ".txt")  # what tables that are joined by ids are read from
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, eq=False)
class Labelling:
    """A label for each vertex, and how sure it is.

    Attributes
    ----------
    ids, labels : ndarray of shape (n,)
    confidence : ndarray of shape (n,)
        From 0 to 1. The relaxed memberships are not written beside it: they are no certainty (decision 0032).
    classes : ndarray of shape (n_classes,)
        All labels there could be, sorted.
    about : mapping
        What is told of the run, as by :func:`tautcut.formats.about_run`.
    quality : ndarray of shape (n,), optional
        How far the neighbours of a given label bear it out, NaN where none was given.
    """

    ids: Array
    labels: Array
    confidence: Array
    classes: Array
    about: Mapping[str, Any] = field(default_factory=dict)
    quality: Array | None = None

    def over(self, data: Data) -> Labelling:
        """The same for every row of the file: a row that was left out has no label, and no number beside it."""
        if data.dropped is None:
            return self
        return replace(
            self, ids=data.all_ids, labels=data.spread(self.labels.astype(object), None),
            confidence=data.spread(self.confidence, np.nan),
            quality=None if self.quality is None else data.spread(self.quality, np.nan),
        )  # fmt: skip

    @property
    def numbers(self) -> dict[str, Array]:
        """The columns beside id and label."""
        return {"confidence": self.confidence} | ({} if self.quality is None else {"label_quality": self.quality})

    @property
    def columns(self) -> list[str]:
        """The names of the columns of a table."""
        return ["id", "label", *self.numbers]


# ---------------------------------------------------------------- known labels


def known_labels(texts: Iterable[str], unknown: Collection[str] = (), *, or_none: bool = False) -> Array:
    """One label per vertex from text: None where it is unknown; numbers if all others are whole numbers.

    Unknown is an empty cell, −1, NaN, NA, ? and the like, and what the words in `unknown` say, in any case. With
    `or_none` all may be unknown.

    Examples
    --------
    >>> known_labels(["3", "", "5", "-1", "later"], ["Later"]).tolist()
    [3, None, 5, None, None]
    """
    gaps = UNKNOWN | {word.strip().casefold() for word in unknown}
    words: list[Any] = [None if word.strip().casefold() in gaps else word for word in map(str, texts)]
    given = [word for word in words if word is not None]
    if not (given or or_none):
        raise InputError("no label is known: every one is empty, −1 or NaN. Give at least one label per class.")
    numbers = [number(word) for word in given]
    if all(value is not None and value.is_integer() for value in numbers):  # 3.0 is whole too
        words = [None if word is None else int(float(word)) for word in words]
    return np.array(words, dtype=object)


def placeholder_among(labels: Array) -> str | None:
    """A class whose name says that it is none, as "Unknown" does; None if there is no such class."""
    return next(
        (one for one in labels.tolist() if isinstance(one, str) and one.strip().casefold() in PLACEHOLDERS), None
    )


def read_labels(path: Path, ids: Array, unknown: Collection[str] = (), *, or_none: bool = False) -> Array:
    """The known labels of the vertices, in the order of their ids, from a table of id and label.

    The columns are those named id and label, else the first two. Vertices that the table leaves out are unknown; all
    may be, with `or_none`.
    """
    places = _places(path, ids, "labels", "id and label", (*_TEXTS, ".parquet"))
    texts = [""] * len(ids)
    for line, id_, label in _known_pairs(path):
        if id_ not in places:
            raise InputError(f"line {line} of '{path}' labels {id_[:40]!r}, which is not an id of the input.")
        place = places[id_]
        if texts[place] not in ("", label):
            raise InputError(f"line {line} of '{path}' labels {id_[:40]!r} again, and differently. Keep one.")
        texts[place] = label
    return known_labels(texts, unknown, or_none=or_none)


def read_known(path: Path, unknown: Collection[str] = ()) -> tuple[list[str], Array]:
    """The ids in a table of id and label, and their labels, none of them unknown: for ids that are not at hand."""
    _check_table(path, "labels", "id and label", (*_TEXTS, ".parquet"))
    found: dict[str, str] = {}
    for line, id_, label in _known_pairs(path):
        if found.setdefault(id_, label) != label:
            raise InputError(f"line {line} of '{path}' labels {id_[:40]!r} again, and differently. Keep one.")
    labels = known_labels(found.values(), unknown)
    is_known = [one is not None for one in labels.tolist()]
    return [id_ for id_, kept in zip(found, is_known, strict=True) if kept], labels[is_known]


def _known_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, id and label of each row of a table of text or a Parquet file."""
    with unpacked(path) as plain, reading(path, "a table of id and label"):
        if inner_suffix(path) != ".parquet":
            yield from _pairs(read_sheet(plain), path)
            return
        table = optional("pyarrow.parquet", "reading Parquet").ParquetFile(plain)
        names = [name.strip().casefold() for name in table.schema_arrow.names]
        id_, label = _columns_of_pairs(names, path)
        line = 0
        for batch in table.iter_batches(columns=[table.schema_arrow.names[one] for one in (id_, label)]):
            columns = (batch.column(0 if id_ < label else 1), batch.column(1 if id_ < label else 0))
            for pair in zip(*(one.to_pylist() for one in columns), strict=True):
                line += 1
                id_text, label_text = ("" if cell is None else str(cell).strip() for cell in pair)
                yield line, id_text, label_text


def read_links(path: Path, ids: Array) -> list[list[int]]:
    """Groups of vertices that stay together, by their places among the ids.

    A line lists the ids of a group, two of them or more; or, where a column is named group, each line has an id and the
    name of its group, which is empty for an id that is free. The first line may hold names of columns, if it is plain
    that they are no ids: a mistyped link is never taken for a header.
    """
    places = _places(path, ids, "links", "ids that stay together")
    with unpacked(path) as plain, reading(path, "a table of ids that stay together"):
        rows = ((line, [_as_written(cell.strip()) for cell in cells]) for line, cells in _all_rows(read_sheet(plain)))
        first = next(rows)
        names = [cell.casefold() for cell in first[1]]
        if GROUP_NAMES.intersection(names):
            return _named_groups(rows, names, places, path)
        is_head = not any(cell in places for cell in first[1]) and all(map(_END_NAME.fullmatch, names))
        lines = rows if is_head else chain([first], rows)
        return [_listed_group(line, cells, places, path) for line, cells in lines]


def _named_groups(
    rows: Iterator[Line], names: list[str], places: Mapping[str, int], path: Path
) -> list[list[int]]:  # fmt: skip
    """The groups of a table of id and group."""
    if len(names) != 2:
        raise InputError(f"links need two columns, id and group, or ids alone; '{path}' has {len(names)} columns.")
    group = next(j for j, name in enumerate(names) if name in GROUP_NAMES)
    groups: dict[str, list[int]] = {}
    for line, cells in rows:
        if len(cells) != 2:
            raise InputError(f"'{path}' is uneven or cut short: line {line} has {len(cells)} columns.")
        place = _place(line, cells[1 - group], places, path)
        if cells[group]:
            groups.setdefault(cells[group], []).append(place)
    return list(groups.values())


def _listed_group(line: int, cells: list[str], places: Mapping[str, int], path: Path) -> list[int]:
    given = [cell for cell in cells if cell]
    if len(given) < 2:
        raise InputError(f"line {line} of '{path}' links one id to none. Give two or more, or columns id and group.")
    return [_place(line, cell, places, path) for cell in given]


def _place(line: int, id_: str, places: Mapping[str, int], path: Path) -> int:
    if id_ not in places:
        raise InputError(
            f"line {line} of '{path}' links {id_[:40]!r}, which is not an id of the input. Correct it; if it is a "
            "group, name the columns id and group."
        )
    return places[id_]


def _check_table(path: Path, what: str, columns: str, suffixes: Sequence[str] = _TEXTS) -> None:
    """Refuse what is no table of these columns by its name, or not there."""
    if inner_suffix(path) not in suffixes:
        *first, last = suffixes
        raise InputError(f"{what} are read from {', '.join(first)} or {last} files of {columns}; found '{path}'.")
    if not path.is_file():
        raise InputError(f"there is no file '{path}' of {what}. Check the path.")


def _places(path: Path, ids: Array, what: str, columns: str, suffixes: Sequence[str] = _TEXTS) -> dict[str, int]:
    """Where each id of the input stands, if a table can be joined to them."""
    _check_table(path, what, columns, suffixes)
    places = {str(one): place for place, one in enumerate(ids.tolist())}
    if len(places) < len(ids):
        raise InputError(f"the ids of the input are not distinct, so {what} cannot be joined to them. Rename them.")
    bare = Counter(one.strip() for one in places)
    # Cells of a table have no blanks around them; names of files may.
    return {one.strip(): place for one, place in places.items() if bare[one.strip()] == 1} | places


def _all_rows(sheet: Sheet) -> Iterator[Line]:
    """Every row, the first among them whether it is a header or not."""
    return replace(sheet, header=0).rows()


def _pairs(sheet: Sheet, path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, id and label of each row."""
    lines = _all_rows(sheet)
    first = next(lines)
    names = [cell.strip().casefold() for cell in first[1]]
    is_named = bool(LABEL_NAMES.intersection(names) or ID_NAMES.intersection(names))
    has_header = is_named or bool(sheet.header)
    id_, label = _columns_of_pairs(names, path)
    for line, cells in lines if has_header else chain([first], lines):
        if len(cells) != len(names):
            raise InputError(f"'{path}' is uneven or cut short: line {line} has {len(cells)} columns.")
        yield line, _as_written(cells[id_].strip()), _as_written(cells[label].strip())


def _columns_of_pairs(names: list[str], path: Path) -> tuple[int, int]:
    """Which column has the ids, and which the labels: those of such names, else the first two."""
    has_label = bool(LABEL_NAMES.intersection(names))
    if len(names) < 2 or (len(names) > 2 and not has_label):
        raise InputError(f"labels need two columns, id and label; '{path}' has {len(names)}, and no such names.")
    id_ = next((j for j, name in enumerate(names) if name in ID_NAMES), 0)
    label = next((j for j, name in enumerate(names) if name in LABEL_NAMES and j != id_), 1 - min(id_, 1))
    return id_, label


def known_text(ids: Iterable[object], labels: Iterable[object]) -> str:
    """A table of id and label, as `read_labels` reads it."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(["id", "label"])
    writer.writerows([_inert(id_), _inert(label)] for id_, label in zip(ids, labels, strict=True))
    return content.getvalue()


# ---------------------------------------------------------------- found labels


def check_label_path(path: Path, source: Path) -> Path:
    """The path, if labels can be written there; a .h5ad can only be a copy of the source with labels."""
    path = writable(path, tuple(_WRITERS), source=source if source.exists() else None)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        optional("pyarrow.parquet", "writing Parquet")
    if suffix == ".h5ad" and source.suffix.lower() != ".h5ad":
        raise InputError(f"'{path}' would be a copy of the input with labels, but the input '{source}' is no .h5ad.")
    if suffix == ".h5ad":
        optional("anndata.io", "writing .h5ad")
    return path


def write_labels(path: Path, found: Labelling, *, source: Path) -> None:
    """Write labels and confidence in the format of the suffix; the file appears whole or not at all.

    Parameters
    ----------
    path : Path
        Ends in .csv, .tsv, .parquet, .json, .npy (a structured array) or .h5ad (a copy of the source with labels).
    found : Labelling
    source : Path
        What the labels are of.
    """
    path = check_label_path(path, source)
    with replacing(path) as part:
        _WRITERS[path.suffix.lower()](part, found, source)


def write_questions(path: Path, ids: Array, known: Array, asked: Iterable[int]) -> None:
    """Write a table of id and label to be filled in: the asked vertices without a label, then those that have one.

    With its gaps filled it is what `read_labels` reads.
    """
    path = writable(path, QUESTION_SUFFIXES)
    labelled = [place for place, label in enumerate(known.tolist()) if label is not None]
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        writer.writerow(["id", "label"])
        writer.writerows([_inert(ids[place]), ""] for place in asked)
        writer.writerows([_inert(ids[place]), _inert(known[place])] for place in labelled)


def _write_text(path: Path, found: Labelling, source: Path, *, delimiter: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(found.columns)
        for id_, label, numbers in _records(found):
            writer.writerow(
                [_inert(id_), _inert(label), *("" if one is None else f"{one:.{DIGITS}g}" for one in numbers)]
            )


def _write_json(path: Path, found: Labelling, source: Path) -> None:
    vertices = [
        dict(zip(found.columns, (id_, label, *numbers), strict=True)) for id_, label, numbers in _records(found)
    ]
    about = {name: one for name, one in found.about.items() if not isinstance(one, float) or isfinite(one)}
    content = {**about, "classes": found.classes.tolist(), "vertices": vertices}
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def _write_npy(path: Path, found: Labelling, source: Path) -> None:
    ids, labels = _fixed(found.ids), _fixed(found.labels)
    kinds = (ids.dtype, labels.dtype, *("f4" for _ in found.numbers))
    table = np.empty(len(ids), dtype=np.dtype(list(zip(found.columns, kinds, strict=True))))
    for name, column in zip(found.columns, (ids, labels, *found.numbers.values()), strict=True):
        table[name] = column
    content = io.BytesIO()  # NumPy's own writing to a file does not say why it failed
    np.save(content, table, allow_pickle=False)
    path.write_bytes(content.getvalue())


def _write_parquet(path: Path, found: Labelling, source: Path) -> None:
    pa, pq = optional("pyarrow", "writing Parquet"), optional("pyarrow.parquet", "writing Parquet")
    columns = (found.ids.tolist(), found.labels.tolist(), *found.numbers.values())
    arrays = [pa.array(column, from_pandas=True) for column in columns]  # NaN is no value
    with path.open("wb") as file:
        pq.write_table(pa.Table.from_arrays(arrays, names=found.columns), file)


def _write_h5ad(path: Path, found: Labelling, source: Path) -> None:
    number_of = {one: code for code, one in enumerate(found.classes.tolist())}
    codes = np.array([number_of.get(label, -1) for label in found.labels.tolist()])
    added = schema.entries(
        schema.KEY, codes=codes, classes=found.classes, confidence=found.confidence, about=found.about
    )  # fmt: skip
    write_h5ad(path, source, added)


def _records(found: Labelling) -> Iterator[tuple[Any, Any, list[float | None]]]:
    """Id, label, and the rounded numbers of each vertex; None where there are none."""
    numbers = np.column_stack(list(found.numbers.values())).astype(np.float64).round(DIGITS)
    rows = ([None if isnan(one) else one for one in row] for row in numbers.tolist())
    return zip(found.ids.tolist(), found.labels.tolist(), rows, strict=True)


def _fixed(values: Array) -> Array:
    """Numbers or strings as an array that needs no pickling; where there is none, −1 or an empty string."""
    if values.dtype != object:
        return values
    is_words = any(isinstance(one, str) for one in values.tolist())
    return np.array([("" if is_words else -1) if one is None else one for one in values.tolist()])


def _inert(value: Any) -> Any:
    """Text that a spreadsheet does not take for a formula: it is marked by an apostrophe, one more than it has."""
    return f"'{value}" if isinstance(value, str) and value.lstrip("'").startswith(_FORMULA) else value


def _as_written(cell: str) -> str:
    """A cell without the mark that `_inert` put there."""
    return cell[1:] if cell[:1] == "'" and cell.lstrip("'").startswith(_FORMULA) else cell


_WRITERS: dict[str, Callable[[Path, Labelling, Path], None]] = {
    ".csv": partial(_write_text, delimiter=","),
    ".tsv": partial(_write_text, delimiter="\t"),
    ".parquet": _write_parquet,
    ".json": _write_json,
    ".npy": _write_npy,
    ".h5ad": _write_h5ad,
}
