"""What a cell of a table says: a number, in any of the ways in which people write numbers; nothing, by the marks that
stand for a missing value; or a word. It judges single cells, to tell a header from its body, and whole columns of
Arrow. It knows no file and no role of a column, and never guesses what a word was meant to be.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.formats.base import foresee

# What stands for a missing value, in small letters and without blanks around it.
MISSING = frozenset({
    "", "na", "n/a", "n.a.", "#n/a", "#na", "<na>", "nan", "-nan", "#nan", "null", "#null!", "none", "nil", "nul",
    "missing", "unknown", "?", "-", "--", "---", "–", "—", ".", "..", "...", "*", "#div/0!", "#value!", "#ref!",
    "#name?", "#num!", "n.d.", "nd", "n.v.", "k.a.", "s.o.", "\\n",
})  # fmt: skip
# Those that Arrow looks for, letter by letter, in every column, which costs memory for each word and column; columns
# with others are text to Arrow, and looked at again.
FREQUENT_MISSING = ("", "NA", "NaN", "nan", "?")

LONGEST_NAME = 200  # letters: longer texts are notes
_LONGEST_NUMBER = 400  # letters: the longest number in double precision, written out, has 325 digits and a sign or two
_LONG = "\u2026"  # stands for a longer text, which is no number whatever it is

# Blanks that group digits: plain, no-break, narrow no-break, thin, figure.
_BLANKS = "\u0020\u00a0\u202f\u2009\u2007"
_GROUPS = _BLANKS + "'’"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_SIGNS = "$€£¥%"


def _grammar(point: str, group: str) -> str:
    """A number with that decimal sign, whole or grouped by threes; no group begins with 0."""
    whole = rf"[1-9]\d{{0,2}}(?:[{group}]\d{{3}})+"
    return rf"[+\-−]?(?:(?:{whole}|\d+)(?:{point}\d*)?|{point}\d+){_EXPONENT}"


_POINT, _COMMA = _grammar(r"\.", f",{_GROUPS}"), _grammar(",", rf"\.{_GROUPS}")
_ALL_POINT, _ALL_COMMA = f"^(?:{_POINT})$", f"^(?:{_COMMA})$"  # for Arrow, which searches
_NUMBER = re.compile(rf"[{_SIGNS}]?\s?(?:{_POINT}|{_COMMA}|[+-]?(?:inf|infinity|nan))\s?[{_SIGNS}]?", re.IGNORECASE)
_SIGNED = re.compile(rf"([{_SIGNS}]?)\s?.*?\s?([{_SIGNS}]?)", re.DOTALL)


def is_missing(cell: str) -> bool:
    """Whether a cell is empty or holds a mark that stands for nothing."""
    return cell.strip().casefold() in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell can be read as a number, in whatever notation."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_fraction(cell: str) -> bool:
    """Whether a cell holds a number that is written with a decimal sign, which no name of a column is."""
    return is_number(cell) and any(sign in cell for sign in ".,")


def number(cell: str) -> float | None:
    """The number in a cell as Python writes numbers, which may be NaN; None if there is none."""
    try:
        return float(cell)
    except ValueError:
        return None


@dataclass(frozen=True, eq=False)
class Column:
    """What a column of a table holds.

    Attributes
    ----------
    values : ndarray of float64, optional
        Its numbers, NaN where one is missing; None if it holds words, or nothing at all.
    whole : ndarray of int64, optional
        The same as whole numbers, if all of them are there and are written so.
    notation : str
        How the numbers are written, if unusually; empty otherwise.
    is_empty : bool
        Whether every cell is missing.
    odd : tuple of (row, cell, count), optional
        The first cell that is no number where most are, and how many there are.
    is_distinct : bool
        Whether it holds words that are all different, and short enough to be names.
    """

    values: FloatArray | None = None
    whole: IntArray | None = None
    notation: str = ""
    is_empty: bool = False
    odd: tuple[int, str, int] | None = None
    is_distinct: bool = False


def column_of(cells: Any, *, prefers_comma: bool = False, missing: Collection[str] = ()) -> Column:
    """What an Arrow column holds. Numbers are taken as they are; text is read as numbers if all of it can be.

    `prefers_comma` settles what 1,234 and 1.234 mean where nothing in the column does. `missing` are more words that
    stand for a missing value.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = plain(cells)
    types, kind = pa.types, cells.type
    if types.is_null(kind):
        return Column(is_empty=True)
    if types.is_integer(kind) and not cells.null_count:
        whole = to_numpy(cells if types.is_int64(kind) else cells.cast(pa.int64(), safe=False))
        return Column(whole.astype(np.float64), whole)
    if types.is_float64(kind):
        values = to_numpy(cells)
        return Column(is_empty=True) if np.isnan(values).all() else Column(values)
    if any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
        values = to_numpy(cells.cast(pa.float64(), safe=False))
        return Column(is_empty=True) if np.isnan(values).all() else Column(values)
    if types.is_string(kind) or types.is_large_string(kind):
        return _column_of_text(cells, prefers_comma, MISSING | {word.strip().casefold() for word in missing})
    is_distinct = not types.is_nested(kind) and pc.count_distinct(cells).as_py() == len(cells)  # dates and times
    return Column(is_empty=cells.null_count == len(cells), is_distinct=is_distinct)


def plain(cells: Any) -> Any:
    """An Arrow column in which no text is coded by a number; refused if it would not fit in memory then."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(cells.type):
        return cells
    if pa.types.is_string(cells.type.value_type) or pa.types.is_large_string(cells.type.value_type):
        lengths = (pc.take(pc.binary_length(one.dictionary), one.indices) for one in cells.chunks)
        n_letters = sum(pc.sum(one.cast(pa.int64())).as_py() or 0 for one in lengths)
        foresee(4 * n_letters, f"A column of {len(cells):,} texts")
    return cells.cast(cells.type.value_type)


def written(cells: Any) -> list[str]:
    """An Arrow column as texts, empty where one is missing, or is a list of values."""
    import pyarrow as pa

    if pa.types.is_nested(cells.type):
        return [""] * len(cells)
    return ["" if one is None else str(one) for one in cells.to_pylist()]


def _column_of_text(cells: Any, prefers_comma: bool, missing: Collection[str]) -> Column:
    """What a column of text holds: numbers if all of it can be read so in one notation, else words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.utf8_length(cells), 0)
    is_distinct = pc.max(lengths).as_py() <= LONGEST_NAME and pc.count_distinct(cells).as_py() == len(cells)
    texts = pc.if_else(pc.less_equal(lengths, _LONGEST_NUMBER), pc.fill_null(cells, ""), _LONG)
    texts = pc.utf8_trim_whitespace(texts)
    is_gap = pc.is_in(pc.utf8_lower(texts), value_set=pa.array(sorted(missing), texts.type))
    present = texts.filter(pc.invert(is_gap))
    if not len(present):
        return Column(is_empty=True)
    sign = _common_sign(present, pc)
    if sign:
        texts, present = (pc.utf8_trim(one, f"{sign}{_BLANKS}") for one in (texts, present))
    n_point, n_comma = (pc.sum(pc.match_substring_regex(present, one)).as_py() for one in (_ALL_POINT, _ALL_COMMA))
    has_comma = n_comma > n_point or (n_comma == n_point and prefers_comma)
    n_odd = len(present) - max(n_point, n_comma)
    if not n_odd:
        values, notation = _numbers(texts, is_gap, present, has_comma, pc)
        return Column(values, notation=" ".join(filter(None, [notation, f"with {sign}" if sign else ""])))
    if 2 * n_odd >= len(present):
        return Column(is_distinct=is_distinct)
    is_fine = pc.or_(is_gap, pc.match_substring_regex(texts, _ALL_COMMA if has_comma else _ALL_POINT))
    row = pc.index(is_fine, False).as_py()
    return Column(odd=(row, cells[row].as_py().strip()[:40], n_odd), is_distinct=is_distinct)


def _numbers(texts: Any, is_gap: Any, present: Any, has_comma: bool, pc: Any) -> tuple[FloatArray, str]:
    """The numbers in texts that are all of one notation, and that notation where it is unusual."""
    import pyarrow as pa

    group = f"[{'.' if has_comma else ','}{_GROUPS}]"
    is_grouped = pc.any(pc.match_substring_regex(present, rf"\d{group}\d")).as_py()
    plain = pc.replace_substring(pc.replace_substring_regex(texts, group, ""), "−", "-")
    if has_comma:
        plain = pc.replace_substring(plain, ",", ".")
    has_decimals = has_comma and pc.any(pc.match_substring(present, ",")).as_py()
    notation = [
        name for name, is_so in (("decimal commas", has_decimals), ("thousands separators", is_grouped)) if is_so
    ]
    values = pc.if_else(is_gap, pa.scalar(None, pa.string()), plain.cast(pa.string())).cast(pa.float64())
    return to_numpy(values), " and ".join(notation)


def _common_sign(present: Any, pc: Any) -> str:
    """The currency or per cent sign that every cell begins or ends with; empty if there is none."""
    match = _SIGNED.fullmatch(present[0].as_py())
    sign = (match.group(1) or match.group(2)) if match else ""
    if not sign:
        return ""
    has_sign = pc.or_(pc.starts_with(present, sign), pc.ends_with(present, sign))
    return sign if pc.all(has_sign).as_py() else ""


def to_numpy(cells: Any) -> Any:
    """An Arrow column of numbers as an array, NaN where one is missing; to_numpy of Arrow would load pandas for it."""
    import pyarrow.compute as pc

    chunks = cells.chunks if hasattr(cells, "chunks") else [cells]
    parts = [np.from_dlpack(pc.coalesce(one, _nan()) if one.null_count else one) for one in chunks if len(one)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)


@cache
def _nan() -> Any:
    """NaN as Arrow holds it, made of bytes: Arrow would load pandas to make it of a number."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([np.nan]).tobytes())])[0]
