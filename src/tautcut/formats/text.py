"""Text in columns, as programs and people write it: .csv, .tsv, .txt and their like, in UTF-8, UTF-16 or Windows-1252,
separated by whatever separates it. This module owns how bytes become cells: encoding, separator, comments, header, and
the number of a line. The cells themselves are parsed by Arrow. It never decides what a column is for.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tautcut.arrays import IntArray
from tautcut.errors import InputError
from tautcut.formats.base import foresee, reading
from tautcut.formats.cells import FREQUENT_MISSING, Column, column_of, is_fraction, is_missing, is_number
from tautcut.formats.numerals import counts_by_line

Line: TypeAlias = tuple[int, list[str]]

SAMPLE = 100  # lines that decide about separator and header,
_SAMPLED_CELLS = 100_000  # or fewer with so many cells,
_SAMPLED_BYTES = 2**21  # or so many letters
_BLANKED_BYTES = 2**16  # in which comments are found together
_FEWEST_COUNTED = 4  # columns from which a first line 0, 1, 2, … is a header
_FIRST_YEAR, _LAST_YEAR = 1800, 2100
_SEPARATORS = (",", ";", "\t", "|")
_BLANK = " "  # any white space
_BLANK_COSTS = 0.2  # blanks stand inside cells too: they separate only what reads as many more numbers then
_BLOCK = 2**25  # bytes that Arrow parses at a time; a row has to fit
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MOST_CHUNKS = 100_000  # columns of blocks: each costs some kilobytes, however short it is
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LETTER = re.compile(rb"[^\r\n]")
_COMMENT = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
_CONTENT = re.compile(rb"(?:\A|(?<=[\r\n]))(?![#%])[ \t]*[^ \t\r\n]")  # begins a line that is neither comment nor blank
_ALL_BUT_LINE_ENDS = bytes(sorted({*range(256)} - {*b"\r\n"}))

# Bytes that a text takes in memory until its columns are arrays, measured (decision 0035).
_PER_BYTE = 4
_PER_CELL = 36
_PER_COLUMN = 7000
_PER_TEXT = 160  # a cell that is kept as it is written


@dataclass(frozen=True, eq=False)
class Sheet:
    """A text of columns that was understood, but not yet read.

    Attributes
    ----------
    path : Path
        Where it comes from, for messages.
    data : bytes
        The text in UTF-8, in which every line stands where it stood in the file.
    separator : str
    names : tuple of str
        Of the columns; "0", "1", … without a header.
    header : int
        The number of the header's line; 0 if there is none.
    notes : tuple of str
        What is unusual about the text.
    """

    path: Path
    data: bytes
    separator: str
    names: tuple[str, ...]
    header: int
    notes: tuple[str, ...] = ()

    def rows(self) -> Iterator[Line]:
        """The cells of each row below the header, with the number of the line that it ends in."""
        return (row for row in _rows(self.data, self.separator) if row[0] > self.header)

    def line(self, row: int) -> int:
        """The number in the file, from 1, of the line that holds a row of the table, from 0."""
        return next(islice(self.rows(), row, None), (0, []))[0]

    def texts(self, columns: Sequence[int]) -> dict[int, list[str]]:
        """Columns as they are written, without the blanks around their cells."""
        table = self._read(set(columns), only=columns)
        foresee(_PER_TEXT * table.num_rows * len(columns), f"'{self.path}', {table.num_rows:,} rows of text,")
        return {j: [text.strip() for text in table.column(str(j)).to_pylist()] for j in columns}

    def coded(self, columns: Sequence[int]) -> tuple[list[str], IntArray]:
        """The different texts in some columns, and the columns as their numbers, shape (n_rows, n_columns)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        table = self._read(set(columns), only=columns)
        chunks = [pc.utf8_trim_whitespace(chunk) for j in columns for chunk in table.column(str(j)).chunks]
        if not chunks:
            return [], np.empty((0, len(columns)), dtype=np.int64)
        coded = pa.chunked_array(chunks).dictionary_encode().unify_dictionaries().chunks
        codes = np.concatenate([np.from_dlpack(one.indices) for one in coded]).astype(np.int64)
        return coded[0].dictionary.to_pylist(), codes.reshape(len(columns), -1).T

    def read(
        self, as_text: Collection[int], missing: Collection[str] = ()
    ) -> tuple[dict[int, Column], tuple[str, ...]]:
        """What each column holds, apart from those that are wanted as text; and how its numbers are written."""
        table = self._read(as_text)
        found = {j: column_of(table.column(j), missing=missing) for j in range(len(self.names)) if j not in as_text}
        if any("comma" in one.notation for one in found.values()):  # then 1.234 and 1,234 may mean something else
            import pyarrow.types as types

            doubted = [
                j for j, one in found.items()
                if types.is_floating(table.column(j).type) or (one.notation and "comma" not in one.notation)
            ]  # fmt: skip
            if doubted:
                again = self._read(set(doubted), only=doubted)
                found |= {j: column_of(again.column(str(j)), prefers_comma=True, missing=missing) for j in doubted}
        notations = Counter(one.notation for one in found.values() if one.notation)
        said = tuple(f"Numbers are read {_with(one)}, in {n} of the columns." for one, n in notations.items())
        return found, said

    @cached_property
    def _body(self) -> bytes:
        """What stands below the header."""
        ends = islice(_LINE_END.finditer(self.data), self.header - 1, None) if self.header else iter(())
        end = next(ends, None)
        if end is None:
            return b"" if self.header else self.data
        return self.data[end.end() :]

    def _read(self, as_text: Collection[int], *, only: Sequence[int] | None = None) -> Any:
        """The columns, named by their numbers, in the types that Arrow finds, or as text."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        names, width = [str(j) for j in range(len(self.names))], len(self.names)
        if not self._body.strip():
            return pa.table({name: pa.array([], pa.string()) for name in names})
        size = len(self._body) + 1
        for block in (min(size, max(_BLOCK, size * width // _MOST_CHUNKS)), size):
            try:
                return arrow.read_csv(
                    pa.BufferReader(self._body),
                    read_options=arrow.ReadOptions(column_names=names, use_threads=False, block_size=block),
                    parse_options=arrow.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                    convert_options=arrow.ConvertOptions(
                        column_types={str(j): pa.string() for j in as_text}, null_values=list(FREQUENT_MISSING),
                        include_columns=None if only is None else [str(j) for j in only],
                    ),
                )  # fmt: skip
            except pa.ArrowInvalid as error:
                if "straddling" not in str(error) or block == size:
                    self._refuse_uneven(width)
                    raise
        raise AssertionError  # the second block holds everything

    def _refuse_uneven(self, width: int) -> None:
        """Raise an error that names the first line with more or fewer cells than the others, if there is one."""
        for line, cells in self.rows():
            if len(cells) != width:
                raise InputError(
                    f"'{self.path}' is uneven or cut short: line {line} has {len(cells)} columns in place of {width}. "
                    "Give every line the same columns."
                )


def read_sheet(path: Path) -> Sheet:
    """The text in a file, understood."""
    with reading(path, "a table of text"):
        foresee(_PER_BYTE * path.stat().st_size, f"'{path}'")
        return sheet_of(path.read_bytes(), path)


def sheet_of(data: bytes, path: Path) -> Sheet:
    """A text, understood: its encoding, its separator and its header."""
    text, encoding = _utf8(data, path)
    asked = re.match(rb"sep=(.)(?=\r?\n)", text)  # a line for spreadsheets
    text, comment = _without_comments(text[asked.end() :] if asked else text, path)
    separator = asked.group(1).decode() if asked else _separator(text, path)
    _foresee(text, separator, path)
    text = _tabbed(text) if separator == _BLANK else _tidied(text, separator)
    stored = "\t" if separator == _BLANK else separator
    head = sample(_rows(text, stored))
    if not head:
        raise InputError(f"'{path}' is empty. Give a table with a row for each point.")
    names, has_header = header([cells for _, cells in head])
    if comment and not has_header:  # NumPy and others write the names so
        named = next((cells for _, cells in _rows(comment, separator)), [])
        names = tuple(cell.strip() for cell in named) if len(named) == len(names) else names
    notes = () if encoding is None else (f"Its text is {encoding}, not UTF-8.",)
    return Sheet(path, text, stored, names, head[0][0] if has_header else 0, notes)


def sample(rows: Iterator[Line]) -> list[Line]:
    """The first rows: enough to decide by, and few where they are wide."""
    taken, n_cells = [], 0
    for row in islice(rows, SAMPLE + 1):
        taken.append(row)
        n_cells += len(row[1])
        if n_cells > _SAMPLED_CELLS:
            break
    return taken


def header(head: list[list[str]]) -> tuple[tuple[str, ...], bool]:
    """The names of the columns, and whether the first line holds them; without one they are "0", "1", …

    The first line is a header if a column below one of its words holds numbers, if it holds words only, or if it
    counts the columns, as data frames without names do, or years. A line with a fraction in it is none.
    """
    first, below = [cell.strip() for cell in head[0]], head[1:]
    words = [j for j, cell in enumerate(first) if not is_number(cell) and not is_missing(cell)]
    names = _widened(first, below)
    shift = len(names) - len(first) if names and not names[0] else 0
    is_header = bool(below) and bool(words) and not any(is_fraction(cell) for cell in first)
    n_cells = sum(map(bool, first))
    is_all_words = len(words) == n_cells and not _recur(first, below)
    is_header = is_header and (any(is_numeric(below, j + shift) for j in words) or is_all_words)
    counted = first[1:] if first[0] == "" else first
    is_counting = counted in ([str(j + start) for j in range(len(counted))] for start in (0, 1))
    is_counting = len(counted) >= _FEWEST_COUNTED and is_counting
    if is_header or is_counting or (bool(words) and _are_years(first) and not all(map(_are_years, below))):
        return tuple(names), True
    return tuple(str(j) for j in range(len(first))), False


def _recur(first: list[str], below: list[list[str]]) -> bool:
    """Whether a table of words alone has words of its first line further below: then they are no names of columns."""
    if any(is_numeric(below, j) for j in range(len(first))):
        return False
    return not {cell.strip() for cells in below for cell in cells}.isdisjoint(filter(None, first))


def _are_years(cells: list[str]) -> bool:
    """Whether the numbers among some cells are consecutive years."""
    years = [int(cell) for cell in cells if cell.strip().isdecimal() and len(cell.strip()) == 4]
    is_run = len(years) > 1 and years == list(range(years[0], years[0] + len(years)))
    return is_run and years[0] >= _FIRST_YEAR and years[-1] <= _LAST_YEAR


def _widened(first: list[str], below: list[list[str]]) -> list[str]:
    """The names, with one more where every row has one cell more: names of rows in front, or nothing at the end."""
    if not below or any(len(cells) != len(first) + 1 for cells in below):
        return first
    return [*first, ""] if all(not cells[-1].strip() for cells in below) else ["", *first]


def is_numeric(rows: Sequence[list[str]], column: int) -> bool:
    """Whether a column holds numbers, and nothing else but missing values."""
    cells = [cells[column] for cells in rows if column < len(cells)]
    cells = [cell for cell in cells if not is_missing(cell)]
    return bool(cells) and all(is_number(cell) for cell in cells)


def _utf8(data: bytes, path: Path) -> tuple[bytes, str | None]:
    """The text in UTF-8 without a mark in front, and what it was written in if that was something else."""
    mark = next((one for one in _MARKS if data.startswith(one)), b"")
    text = data[len(mark) :]
    is_wide = len(text) > 3 and all(text[0:64:2]) and not any(text[1:64:2])  # Latin letters in two bytes each
    encoding = "utf-16-le" if is_wide else _MARKS.get(mark, "utf-8")
    name = None
    if encoding != "utf-8":
        text, name = text.decode(encoding).encode(), "UTF-16"
    if b"\0" in text:
        raise InputError(f"'{path}' is not text: it holds null bytes. Check its suffix.")
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), _BLOCK):
            decoder.decode(text[start : start + _BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        try:
            text, name = text.decode("cp1252").encode(), "Windows-1252 (Latin-1)"
        except UnicodeDecodeError:
            text, name = text.decode("latin-1").encode(), "Latin-1"
    return text, name


def _without_comments(data: bytes, path: Path) -> tuple[bytes, bytes]:
    """The text with its comments blanked, and the last of those at the top, without its mark; empty if there is none.

    In .csv and .tsv files only lines at the top can be comments.
    """
    content = _CONTENT.search(data)
    top = data[: content.start()] if content else data
    last = _LINE_END.split(top.rstrip()[-_SAMPLED_BYTES:])[-1].lstrip(b"#% \t")
    if path.suffix.lower() not in (".csv", ".tsv"):
        return _blanked(data) if b"#" in data or b"%" in data else data, last
    if not top or content is None:
        return data, b""
    return top.translate(None, _ALL_BUT_LINE_ENDS) + data[len(top) :], last


def _blanked(data: bytes) -> bytes:
    """The text with nothing in the lines that are comments."""
    blocks, start = [], 0
    while start < len(data):  # a block at a time, because every comment in it costs memory
        end = data.find(b"\n", start + _BLANKED_BYTES) + 1 or len(data)
        blocks.append(_COMMENT.sub(b"", data[start:end]))
        start = end
    return b"".join(blocks)


def _foresee(data: bytes, separator: str, path: Path) -> None:
    """Refuse a text whose cells would not fit in memory, before any of them is looked at."""
    if separator == _BLANK:
        counts = counts_by_line(data)
        n_cells, width = int(counts.sum()), int(counts.max(initial=0))
    else:
        sign = separator.encode()
        n_cells = data.count(sign) + max(data.count(b"\n"), data.count(b"\r")) + 1
        width = max(line.count(sign) for line in _LINE_END.split(data, SAMPLE)[:SAMPLE]) + 1
    need = _PER_BYTE * len(data) + _PER_CELL * n_cells + _PER_COLUMN * width
    foresee(need, f"'{path}', a table of {n_cells:,} cells in {width:,} columns,")


def _separator(data: bytes, path: Path) -> str:
    """What separates the cells: what gives the lines at the top one width, and the most numbers."""
    first = _LETTER.search(data)
    start = first.start() if first else 0
    top = b"\n".join(_LINE_END.split(data[start : start + _SAMPLED_BYTES], SAMPLE)[:SAMPLE])
    best, best_score = "", (0.0, -2.0)
    for one in (*_SEPARATORS, _BLANK):
        try:
            rows = [cells for _, cells in sample(_rows(top, one))]
        except csv.Error:
            continue
        widths = Counter(len(cells) for cells in rows)
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width < 2:
            continue
        cells = [cell for row in rows for cell in row]
        fit = sum(map(_fitness, cells)) / len(cells)
        score = (round(count / len(rows), 1), fit - (_BLANK_COSTS if one == _BLANK else 0.0))
        if score > best_score:
            best, best_score = one, score
    return best or {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower(), _BLANK)


def _fitness(cell: str) -> int:
    """How much a cell looks like one: a number does, a word less, and what holds other separators is torn or joined."""
    if is_number(cell) or is_missing(cell):
        return 1
    return -1 if any(one in cell for one in _SEPARATORS) else 0


def _tabbed(data: bytes) -> bytes:
    """The text with tabs in place of white space, line for line."""
    out, at = io.StringIO(), 1
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    for line, cells in _rows(data, _BLANK):
        out.write("\n" * (line - at))
        writer.writerow(cells)
        at = line + 1
    return out.getvalue().encode()


def _tidied(data: bytes, separator: str) -> bytes:
    """The text without rows of nothing at its end, as spreadsheets leave them, and without blanks before a quote."""
    sign = separator.encode()
    last = _LINE_END.search(data, len(data.rstrip(sign + b" \t\r\n\x1a")))
    data = data[: last.start()] if last else data
    return re.sub(rb"(" + re.escape(sign) + rb") +\"", rb'\1"', data) if b' "' in data else data


def _rows(data: bytes, separator: str) -> Iterator[Line]:
    """The cells of each line that is not blank, with the number of the line that it ends in."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    if separator == _BLANK and b'"' not in data:
        yield from ((number, line.split()) for number, line in enumerate(lines, 1) if line.strip())
        return
    if separator == _BLANK:
        reader = csv.reader((line.strip().replace("\t", " ") for line in lines), delimiter=" ", skipinitialspace=True)
    else:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    for cells in reader:
        if cells and (len(cells) > 1 or cells[0].strip()):
            yield reader.line_num, cells


def _with(notation: str) -> str:
    return notation if notation.startswith("with ") else f"with {notation}"
