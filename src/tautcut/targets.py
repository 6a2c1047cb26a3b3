"""The labels that users give: one for each point in an array, a list, a series, or those that are known by the names of
their points. This module owns what an unknown label looks like in Python, and turns labels into the numbers of their
classes. It never guesses a label.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_consistent_length

from tautcut.arrays import Array, BoolArray, IntArray
from tautcut.checks import UNLABELLED
from tautcut.errors import InputError


def encode_labels(y: Any, n_vertices: int, *, or_none: bool = False) -> tuple[Array, IntArray]:
    """The classes in y, and y as their numbers with −1 where the label is −1, None, NaN or empty.

    With `or_none` no label need be known.
    """
    target, known = target_of(y, or_none=or_none)
    if target.size != n_vertices:
        check_consistent_length(target, range(n_vertices))
    classes, codes = np.unique(class_values(target[known]), return_inverse=True)
    encoded = np.full(n_vertices, UNLABELLED, dtype=np.int64)
    encoded[known] = codes
    return classes, encoded


def target_of(y: Any, *, or_none: bool = False) -> tuple[Array, BoolArray]:
    """The labels as a 1-D array, and which of them are known; one has to be, unless `or_none`."""
    polars = sys.modules.get("polars")
    is_polars = polars is not None and isinstance(y, polars.Series)
    # NumPy would make floats of whole numbers where a polars series has missing values, and strings of −1 and None
    # where a list has strings too.
    is_mixed = isinstance(y, list | tuple) and any(isinstance(one, str) for one in y)
    target = np.array(y.to_list() if is_polars else y, dtype=object) if is_polars or is_mixed else np.asarray(y)
    if target.ndim == 2 and target.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, 4)
        target = target.ravel()
    if target.ndim != 1:
        raise InputError(f"y must be one label per sample; found shape {target.shape}.")
    known = _known(target)
    if not (or_none or known.any()):
        raise InputError("y has no labelled point: every label is −1, None, NaN or empty. Give at least one label.")
    return target, known


def in_order(y: Any, nodes: Sequence[Any]) -> Any:
    """What is in y, with a dict of labels as one label per vertex, None where there is none."""
    if not isinstance(y, Mapping):
        return y
    number = by_node(nodes, np.arange(len(nodes)))
    target = np.full(len(nodes), None, dtype=object)
    for node, label in y.items():
        if node not in number:
            raise InputError(f"y labels {node!r}, which is no vertex of X; its vertices are {nodes[0]!r} and so on.")
        target[number[node]] = label
    return target


def by_node(nodes: Sequence[Any], labels: Array) -> dict[Any, Any]:
    """The labels by the names of their vertices."""
    named = dict(zip(nodes, labels.tolist(), strict=True))
    if len(named) < len(nodes):
        twice = next(node for node, count in Counter(nodes).items() if count > 1)
        raise InputError(f"{twice!r} names more than one vertex. Rename one, or use the labels in their order.")
    return named


def class_values(known: Array) -> Array:
    """The labels as whole numbers, booleans or strings; a number that is no class is refused."""
    labels = np.array(known.tolist()) if known.dtype == object else known
    n_strings = sum(isinstance(value, str) for value in known.tolist())
    if labels.ndim != 1 or labels.dtype.kind not in "biufUS" or 0 < n_strings < labels.size:
        raise InputError(f"Unknown label type: y must hold numbers or strings, not both; found {known[:5].tolist()}.")
    if labels.dtype.kind == "f":
        is_whole = np.isfinite(labels) & (labels == np.round(labels))
        if not is_whole.all():
            raise InputError(f"Unknown label type: classes must be whole numbers; found {labels[~is_whole][0]} in y.")
    return labels


def _known(target: Array) -> BoolArray:
    """Which labels are known; whole numbers are asked all at once."""
    if target.dtype.kind == "i":
        return np.asarray(target != UNLABELLED)
    # Most are None, as a rule: those are not asked any further.
    return np.array([value is not None and not _is_unknown(value) for value in target.tolist()], dtype=bool)


def _is_unknown(value: Any) -> bool:
    if value is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    if isinstance(value, str | bytes):
        return not value.strip()
    if isinstance(value, bool):
        return False
    return bool(value != value or value == UNLABELLED)
