"""Checks of arguments, one meaning each: whole and positive numbers, names out of a list, labels, seeds. Each returns
the value in the form in which it is used, or raises an `InputError` that names the argument, the value and the fix.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InputError

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Name = TypeVar("Name", bound=str)

UNLABELLED = -1
# Of all mass, what the heaviest vertex leaves: with less, the mass outside of its cluster would be lost in rounding.
_LEAST_REST = 1e-12


def whole_number(name: str, value: object, *, least: int = 1, otherwise: str = "") -> int:
    """The value as an int ≥ `least`: Python's, NumPy's, anything with `__index__`; a truth value is none.

    `otherwise` names what else the argument may be, as " or 'auto'".
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool_) or number < least:
        raise InputError(f"{name} must be a whole number ≥ {least}{otherwise}; found {value!r}.")
    return number


def positive_number(
    name: str, value: object, *, or_zero: bool = False, below: float = math.inf, otherwise: str = ""
) -> float:
    """The value as a finite float above 0, or from 0 on, and below `below`; a truth value is none."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if is_number and (0 < value < below or (or_zero and value == 0)):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    demand = f"{'≥' if or_zero else '>'} 0" + (f" and < {below:g}" if below < math.inf else "")
    raise InputError(f"{name} must be a finite number {demand}{otherwise}; found {value!r}.")


def one_of(name: str, value: object, choices: Sequence[Name], *, otherwise: str = "") -> Name:
    """The value, if it is one of the choices; `otherwise` names what else the argument may be."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise InputError(f"{name} must be one of {', '.join(choices)}{otherwise}; found {value!r}.")


def real_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse an array whose entries are not real numbers; truth values are 0 and 1."""
    if dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers; found dtype {dtype}. Convert it to float64.")


def cluster_count(n_clusters: object, n_vertices: int | None = None) -> int:
    """R, at most as many as there are vertices."""
    R = whole_number("n_clusters", n_clusters)
    if n_vertices is not None and n_vertices < R:
        raise InputError(f"n_clusters={R} is more than the {n_vertices} vertices. Ask for {n_vertices} or fewer.")
    return R


def neighbor_count(n_neighbors: object, n_points: int, *, most: int) -> int:
    """k, at most as many as there are points to choose from."""
    k = whole_number("n_neighbors", n_neighbors)
    if k > most:
        raise InputError(f"n_neighbors={k} is too large for {n_points} points: at most {most}. Lower n_neighbors.")
    return k


def whole_labels(labels: ArrayLike, n_vertices: int) -> IntArray:
    """One whole number per vertex."""
    array = np.asarray(labels)
    if array.shape != (n_vertices,):
        raise InputError(f"labels must be {n_vertices} numbers, one per vertex; found shape {array.shape}.")
    kind = array.dtype.kind
    if kind not in "iub" and not (kind == "f" and np.all(np.isfinite(array) & (array == np.round(array)))):
        raise InputError(f"labels must be whole numbers; found {array[:3].tolist()} … of dtype {array.dtype}.")
    return array.astype(np.int64)


def hard_labels(labels: ArrayLike, n_vertices: int, n_clusters: int, *, or_unknown: bool = False) -> IntArray:
    """A cluster in 0 … R−1 for every vertex; with `or_unknown`, −1 for some."""
    hard = whole_labels(labels, n_vertices)
    is_bad = (hard < (UNLABELLED if or_unknown else 0)) | (hard >= n_clusters)
    if is_bad.any():
        name, otherwise = ("fixed labels", ", or be −1 where unknown") if or_unknown else ("labels", "")
        raise InputError(f"{name} must lie in 0 … {n_clusters - 1}{otherwise}; found {hard[is_bad].min()}.")
    return hard


def fixed_labels(labels: ArrayLike | None, n_vertices: int, n_clusters: int) -> IntArray:
    """A cluster in 0 … R−1 for the labelled vertices, −1 for the others; None leaves all of them free."""
    if labels is None:
        return np.full(n_vertices, UNLABELLED, dtype=np.int64)
    return hard_labels(labels, n_vertices, n_clusters, or_unknown=True)


def vertex_masses(
    masses: ArrayLike, n_vertices: int, *, name: str = "masses", place: Callable[[int], str] = "at vertex {}".format
) -> FloatArray:
    """A finite mass > 0 for each vertex, in an array of its own; `place` says in words where one stands."""
    try:
        values = np.array(masses, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be {n_vertices} numbers > 0, one per vertex; found {error}.") from error
    if values.shape != (n_vertices,):
        raise InputError(f"{name} must be {n_vertices} numbers > 0, one per vertex; found shape {values.shape}.")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        at, value = int(bad[0]), float(values[bad[0]])
        raise InputError(f"{name} must be finite and > 0; found {value} {place(at)}. Correct it, or leave that out.")
    with np.errstate(over="ignore"):
        total = float(values.sum())
    if not np.isfinite(total):
        raise InputError(f"the sum of {name} overflows; the largest is {values.max()}. Divide them by it.")
    heaviest = int(values.argmax()) if values.size else 0
    if values.size > 1 and total - values[heaviest] < _LEAST_REST * total:
        raise InputError(
            f"{name} leave nothing to balance: {values[heaviest]} {place(heaviest)} is more than {1 / _LEAST_REST:g} "
            "times all others together. Correct it, or divide it."
        )
    return values


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator of a `random_state`: a number always gives the same one, a generator is used as it is."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be None, a whole number ≥ 0 or a generator; found {random_state!r}."
        ) from error
