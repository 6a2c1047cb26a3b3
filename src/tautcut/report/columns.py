"""What the page knows of the user's columns: values for tooltips and colours, and how clusters and categories meet. It
decides what kind a column is, keeps as much of it as a page can hold, and counts. It knows no HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.graph.columns import levelled
from tautcut.problem import Partition

Json = dict[str, Any]
Kind = Literal["number", "category", "text"]

SHOWN_FEATURES = 12  # of the features, those that differ most between clusters; of further columns, the first
MOST_CATEGORIES = 60  # distinct values; a column with more is text
COUNTED_CATEGORIES = 30  # columns of a cross-table, the most frequent; the others are counted together
TEXT_LENGTHS = (120, 80, 48, 32, 16)  # of a cell: the longest for which a column stays below
TEXT_BYTES = 500_000
_LEVELS = 65534  # of a number on the page; one more stands for a missing value


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the user's table, one value for each point; `is_feature` if points were compared by it."""

    name: str
    values: Array
    is_feature: bool = False

    @cached_property
    def kind(self) -> Kind:
        """Numbers, a few values that repeat, or free text."""
        if self.values.dtype.kind == "f" or (self.values.dtype.kind in "iu" and self.is_feature):
            return "number"
        n_words = len(self.words[0])
        if n_words <= min(MOST_CATEGORIES, max(self.values.size // 2, 1)):
            return "category"
        return "number" if self.values.dtype.kind in "iu" else "text"

    @cached_property
    def words(self) -> tuple[list[str], IntArray]:
        """The distinct values as text, the most frequent first, and the number of each point's."""
        texts = np.array([_text(value) for value in self.values.tolist()], dtype=object)
        found, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return found[order].tolist(), rank[codes.ravel()]


def columns_of(features: Any, feature_names: Sequence[str] | None, partition: Partition) -> list[Column]:
    """The features that a page shows: those whose means differ most between clusters for their spread."""
    if not isinstance(features, np.ndarray) or features.ndim != 2:
        return []
    chosen = np.argsort(-_separation(features, partition), kind="stable")[:SHOWN_FEATURES]
    names = feature_names or [f"feature {j}" for j in range(features.shape[1])]
    return [Column(names[j], features[:, j], is_feature=True) for j in sorted(chosen.tolist())]


def _separation(X: Array, partition: Partition) -> FloatArray:
    """The share of each feature's variance that lies between the clusters."""
    n = X.shape[0]
    X = np.asarray(levelled(X)[0])
    mean = X.mean(axis=0)
    spread = X.var(axis=0)
    sums = np.zeros((partition.sizes.size, X.shape[1]))
    for r in np.flatnonzero(partition.sizes):
        sums[r] = X[partition.labels == r].mean(axis=0)
    between = partition.sizes @ np.square(sums - mean) / max(n, 1)
    share = np.zeros(X.shape[1])
    np.divide(between, spread, out=share, where=spread > 1e-18 * np.maximum(mean**2, 1e-300))
    return share


def shown_column(column: Column, drawn: IntArray, packed: Any) -> Json:
    """The values of the drawn points: numbers in 65,535 steps, texts by their number in a list without repetitions."""
    if column.kind == "number":
        return {"name": column.name, "kind": "number", "is_feature": column.is_feature} | _numbers(
            column, drawn, packed
        )
    words, codes = column.words
    if column.kind == "text":
        there, codes = np.unique(codes[drawn], return_inverse=True)
        words = _shortened([words[code] for code in there])
        drawn = np.arange(drawn.size)
    else:
        words = [_cut(word, TEXT_LENGTHS[2]) for word in words]
    values = packed(codes[drawn], "<u2" if len(words) <= _LEVELS else "<u4")
    return {"name": column.name, "kind": column.kind, "is_feature": False, "words": words, "values": values}


def _numbers(column: Column, drawn: IntArray, packed: Any) -> Json:
    values = column.values.astype(np.float64)
    is_there = np.isfinite(values)
    known = values[is_there]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    # Outliers do not take all colours. Of halves: the whole range may be more than a number holds.
    ends = (2.0 * np.quantile(known / 2.0, [0.02, 0.98])).tolist() if known.size else [0.0, 0.0]
    half = high / 2.0 - low / 2.0
    levels = np.full(values.size, _LEVELS + 1.0)
    levels[is_there] = np.round((known / 2.0 - low / 2.0) / half * _LEVELS) if half > 0 else 0.0
    is_whole = bool((known == np.round(known)).all()) and high - low <= _LEVELS
    short = {name: float(f"{value:.9g}") for name, value in zip(("from", "to"), ends, strict=True)}
    return {"low": low, "high": high, **short, "is_whole": is_whole, "values": packed(levels[drawn], "<u2")}


def cross_table(column: Column, partition: Partition, shown: IntArray) -> Json:
    """How many points of each shown cluster have each value; counted over all points."""
    words, codes = column.words
    few = min(len(words), COUNTED_CATEGORIES)
    width = few + (len(words) > few)
    counts = np.bincount(
        partition.labels * width + np.minimum(codes, width - 1), minlength=partition.sizes.size * width
    ).reshape(-1, width)
    majority = int(np.bincount(partition.labels * len(words) + codes, minlength=partition.sizes.size * len(words))
                   .reshape(-1, len(words)).max(axis=1).sum())  # fmt: skip
    others = [f"{len(words) - few} others"] if width > few else []
    return {
        "name": column.name,
        "words": [_cut(word, TEXT_LENGTHS[2]) for word in words[:few]] + others,
        "counts": counts[shown].tolist(),
        "majority": majority / max(partition.labels.size, 1),
    }


def _text(value: Any) -> str:
    """What is shown of a value; nothing for one that is missing."""
    return "" if value is None or value != value else str(value).strip()


def _shortened(texts: list[str]) -> list[str]:
    """The texts, cut to the greatest length at which all of them together stay small."""
    for length in TEXT_LENGTHS:
        cut = [_cut(text, length) for text in texts]
        if sum(len(text.encode("utf-8", "replace")) for text in cut) <= TEXT_BYTES:
            break
    return cut


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
