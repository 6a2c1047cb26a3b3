"""Columns of a table that people look at rather than compute with: texts, and names of pictures. This module owns how
they are told from other columns, and how rows are compared by them: texts by their words, pictures by their pixels.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.arrays import Array
from tautcut.errors import InputError
from tautcut.formats.base import Data, Selection
from tautcut.formats.missing import without_rows
from tautcut.formats.pictures import SUFFIXES, inside, of_pictures

_SAMPLE = 200  # cells by which a column is judged
_SENTENCE = 4  # words of the middle cell from which a column holds texts, not names
_FEW_NUMBERS = 8  # columns of numbers: fewer stand beside a text, more are what it was embedded as
_MOST_WORDS = 50_000
_RARE = 100  # texts from which on a word has to occur twice to count


@dataclass(frozen=True)
class ShownColumn:
    """A column that rows are compared by, and why."""

    column: int
    is_picture: bool
    why: str


def shown_among(
    texts: Mapping[int, Sequence[str]], names: Sequence[str], folder: Path, n_numbers: int
) -> ShownColumn | None:
    """The first column that names pictures beside the table; else the one of the longest texts, if numbers are few."""
    samples = {j: _sample(cells) for j, cells in texts.items()}
    for j, cells in samples.items():
        is_named_so = bool(cells) and all(cell.lower().endswith(SUFFIXES) for cell in cells)
        if is_named_so and any(inside(folder, cell) is not None for cell in cells):
            why = f"Compared by the pictures that column {names[j]!r} names (--text or --columns overrules)."
            return ShownColumn(j, True, why)
    lengths = {j: statistics.median(len(cell.split()) for cell in cells) for j, cells in samples.items() if cells}
    longest = max(lengths, key=lambda j: lengths[j], default=None)
    if longest is None or lengths[longest] < _SENTENCE or n_numbers >= _FEW_NUMBERS:
        return None
    beside = f", not by its {n_numbers} columns of numbers (--columns overrules)" if n_numbers else ""
    return ShownColumn(longest, False, f"Compared by the words in column {names[longest]!r}{beside}.")


def _sample(cells: Sequence[str]) -> list[str]:
    step = max(1, len(cells) // _SAMPLE)
    return [cell.strip() for cell in cells[::step] if cell.strip()]


def compared_by(data: Data, shown: ShownColumn, texts: Array, selection: Selection) -> Data:
    """The data whose features are those of the texts, or of the pictures that they name."""
    if shown.is_picture:
        paths = [inside(selection.folder, cell.strip()) for cell in texts.tolist()]
        more: dict[str, Any] = {
            "labels": data.labels, "others": data.others, "place": data.place, "masses": data.masses
        }  # fmt: skip
        return of_pictures(paths, selection, ids=data.ids, notes=data.notes, **more)
    data = replace(data, texts=texts.tolist(), names=None, is_of_one_unit=True)
    return data if selection.brought is not None else of_words(data, texts)


def of_words(data: Data, texts: Array) -> Data:
    """The data compared by words: rows of tf-idf of unit length, so that the nearest are those of greatest cosine."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        sublinear_tf=True, min_df=2 if texts.size >= _RARE else 1, max_df=0.5 if texts.size >= _RARE else 1.0,
        max_features=_MOST_WORDS,
    )  # fmt: skip
    try:
        rows = vectorizer.fit_transform(texts.tolist()).tocsr()
    except ValueError:
        raise InputError(
            "the texts share no words to compare them by. Name another column, or bring features."
        ) from None
    has_words = np.diff(rows.indptr) > 0
    n_empty = int((~has_words).sum())
    said = (f"{n_empty:,} texts share no word with another and are left out; they get no label.",) if n_empty else ()
    made = replace(data, content=rows[has_words], notes=(*data.notes, *said))
    return without_rows(made, has_words)
