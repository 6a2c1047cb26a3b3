"""What columns of features mean for the distances between rows: how wide each one is, which of them carry nearly all of
the squared distances, and the scaling that gives every column a say. This module owns the rule by which columns differ
too widely (decision 0031). It never scales unasked: the command line asks, the estimators only warn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, BoolArray, Features, FloatArray, IntArray
from tautcut.checks import one_of
from tautcut.errors import InputError

Scale: TypeAlias = Literal["auto", "standard", "robust", "none"]

SCALES: tuple[Scale, ...] = get_args(Scale)

# A column a tenth as wide as the widest adds a hundredth as much to a squared distance: it has no say.
MUTE = 0.1
# "Nearly all" of the squared distances.
NEARLY_ALL = 0.95
# The most columns that may carry nearly all of them where columns differ too widely: a quarter, or two of a few.
# Principal components and counts of words have many mute columns too, but many that are not.
_CARRIERS = 0.25
_FEW = 2
# The two values of a column that has no others come to lie half a standard deviation of the other columns apart:
# further, and indicators of a category split the data by themselves (decision 0031).
_INDICATOR = 0.5
_HUGE = 1e300  # from here on sums of two numbers may be more than a number holds
_NORMAL_IQR = 1.349  # quartiles of a normal distribution are so many standard deviations apart
_MOST_NAMED = 20
_BLOCK = 2**22  # entries in double precision at a time


@dataclass(frozen=True)
class Carriers:
    """The columns, widest first, that carry `share` of the squared distances between rows; of `n_columns` that vary.

    `largest` is what the widest carries alone. `are_too_few` says that the others hardly count: the columns are of
    units that do not go together.
    """

    columns: tuple[int, ...]
    share: float
    largest: float
    n_columns: int
    are_too_few: bool

    def named(self, names: Sequence[object] | None, most: int = 3) -> str:
        """The columns by name or number, the widest first."""
        listed = [str(j) if names is None else repr(str(names[j])[:40]) for j in self.columns[:most]]
        more = len(self.columns) - len(listed)
        return ", ".join(listed) + (f" and {more} more" if more else "")

    def sentence(self, names: Sequence[object] | None) -> str:
        """Who carries the distances, in words."""
        verb = "carries" if len(self.columns) == 1 else "carry"
        share = f"{100 * self.share:.3g} % of the squared distances"
        return f"{len(self.columns)} of {self.n_columns} columns ({self.named(names)}) {verb} {share}"


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is done to columns before rows are compared: `how`, the `centres` taken away, the `units` divided by.

    `carriers` are those of the columns as they were, if they were looked at.
    """

    how: Scale
    centres: FloatArray | None = None
    units: FloatArray | None = None
    carriers: Carriers | None = None

    def to_dict(self, names: Sequence[object] | None) -> dict[str, Any]:
        """How columns are scaled, and which of them carried the distances before, as JSON knows it."""
        found = self.carriers
        if found is None:
            return {"how": self.how}
        columns = [str(j if names is None else names[j]) for j in found.columns[:_MOST_NAMED]]
        return {"how": self.how, "carriers": columns, "share": found.share, "differ_widely": found.are_too_few}

    def apply(self, X: Features) -> Features:
        """The features as they are compared; a sparse matrix is not centred."""
        if self.units is None or self.centres is None:
            return X
        if not isinstance(X, np.ndarray):
            sparse = sp.csr_matrix(X, dtype=np.float64)
            with np.errstate(over="ignore"):
                data = sparse.data / self.units[sparse.indices]
            self._require_finite(data, sparse.data, sparse.indices)
            return sp.csr_matrix((data, sparse.indices, sparse.indptr), X.shape)
        # Halves of what is huge, or a difference could be more than a number holds; the quotient is the same.
        part = np.where(np.maximum(np.abs(self.centres), self.units) > _HUGE, 0.5, 1.0)
        with np.errstate(over="ignore"):
            scaled = np.asarray((X * part - self.centres * part) / (self.units * part))
        self._require_finite(scaled, X, np.arange(X.shape[1]))
        return scaled

    def _require_finite(self, scaled: Array, before: Array, columns: Array) -> None:
        """Refuse numbers that are too far from the others of their column to be told in its units."""
        if np.isfinite(scaled).all():
            return
        at = tuple(np.argwhere(np.isinf(scaled) & np.isfinite(before))[:1].ravel())
        if at:
            assert self.units is not None  # for the type checker: something was scaled
            j = int(columns[at[-1]])
            raise InputError(
                f"{before[at]:g} in column {j} is too far from the others to be scaled: they vary by "
                f"{self.units[j]:g}. Correct it, or do not scale (--scale none)."
            )


def carriers(X: Features) -> Carriers | None:
    """The fewest columns that carry nearly all squared distances; None if no column varies.

    The mean squared distance of two rows is Σ_j 2 s_j², where s_j is the standard deviation of column j. Columns differ
    too widely if half of them or more are less than a tenth as wide as the widest, while a quarter of them (or two)
    carries 95 %. Sparse matrices are exempt: theirs is one unit.

    Examples
    --------
    >>> found = carriers(np.array([[1.0, 500.0], [1.5, 900.0], [0.5, 100.0]]))
    >>> found.columns, found.are_too_few
    ((1,), True)
    """
    widths = _moments(X)[1]
    varying = np.flatnonzero(widths > 0)
    if not varying.size:
        return None
    relative = widths / widths.max()
    shares = np.square(relative) / np.square(relative).sum()
    order = np.argsort(-shares, kind="stable")
    held = np.cumsum(shares[order])
    count = min(int(np.searchsorted(held, NEARLY_ALL)) + 1, varying.size)
    n = int(varying.size)
    is_lopsided = 2 * int((relative[varying] < MUTE).sum()) >= n and count <= max(_FEW, _CARRIERS * n)
    is_exempt = n < 2 or not isinstance(X, np.ndarray)
    return Carriers(
        tuple(order[:count].tolist()), float(held[count - 1]), float(held[0]), n, is_lopsided and not is_exempt
    )


def scaling(X: Features, how: Scale) -> Scaling:
    """How to scale the columns of X; "auto" scales to standard deviations where columns differ too widely.

    "standard" divides by the standard deviation, "robust" by the distance of the quartiles (or the standard deviation,
    where that is 0) after the median was taken away. A column of two values gets half a unit between them.
    """
    one_of("scale", how, SCALES)
    found = carriers(X)
    if how == "none" or (how == "auto" and (found is None or not found.are_too_few)):
        return Scaling("none", carriers=found)
    centres, widths = _moments(X)
    used: Scale = "robust" if how == "robust" else "standard"
    if used == "robust" and isinstance(X, np.ndarray):
        level, exponents = levelled(X)
        low, centre, high = np.percentile(level, [25, 50, 75], axis=0)
        centres = np.ldexp(centre, exponents)
        widths = np.where(high > low, _stretched((high - low) / _NORMAL_IQR, exponents), widths)
    units = np.where(widths > 0, widths, 1.0)
    if isinstance(X, np.ndarray):
        gap = X.max(axis=0) / 4.0 - X.min(axis=0) / 4.0  # of quarters: the whole may be more than a number holds
        units = np.where(_has_two_values(X) & (gap > 0), _stretched(gap / _INDICATOR, 2), units)
    return Scaling(used, centres, units, found)


def _stretched(widths: FloatArray, exponents: IntArray | int) -> FloatArray:
    """Times that power of two, or the largest number there is."""
    with np.errstate(over="ignore"):
        return np.minimum(np.ldexp(widths, exponents), np.finfo(np.float64).max)


def levelled(X: Features) -> tuple[Any, IntArray]:
    """X in double precision, each column divided by the power of two next to its largest entry, and their exponents.

    Exact, and whatever the size of the entries, no sum or square of a column overflows or vanishes.
    """
    if isinstance(X, np.ndarray):
        dense = X.astype(np.float64)
        exponents = np.frexp(np.maximum(dense.max(axis=0, initial=0.0), -dense.min(axis=0, initial=0.0)))[1]
        return np.ldexp(dense, -exponents), exponents
    sparse = sp.csr_matrix(X, dtype=np.float64)
    exponents = np.frexp(abs(sparse).max(axis=0).toarray().ravel())[1]
    data = np.ldexp(sparse.data, -exponents[sparse.indices])
    return sp.csr_matrix((data, sparse.indices, sparse.indptr), shape=sparse.shape), exponents


def _moments(X: Features) -> tuple[FloatArray, FloatArray]:
    """The mean and the standard deviation of each column; no square overflows or vanishes."""
    n = X.shape[0]
    if not isinstance(X, np.ndarray):
        level, exponents = levelled(X)
        means = np.asarray(level.mean(axis=0), dtype=np.float64).ravel()
        squares = np.asarray(level.multiply(level).mean(axis=0), dtype=np.float64).ravel()
        widths = np.sqrt(np.maximum(squares - means**2, 0.0))
        return np.ldexp(means, exponents), np.ldexp(widths, exponents)
    peaks = np.maximum(X.max(axis=0), -X.min(axis=0).astype(np.float64))
    peaks = np.where(peaks > 0, peaks, 1.0).astype(np.float64)
    means = np.sum([(block / peaks).sum(axis=0) for block in _blocks(X)], axis=0) / n
    squares = np.sum([np.square(block / peaks - means).sum(axis=0) for block in _blocks(X)], axis=0)
    widths = np.sqrt(squares / n)
    widths[widths <= np.finfo(np.float64).eps * np.sqrt(n)] = 0.0  # constant, but for the rounding of the mean
    return means * peaks, widths * peaks


def _has_two_values(X: Array) -> BoolArray:
    """Which columns hold no more than two values."""
    low, high = X.min(axis=0), X.max(axis=0)
    found: Any = np.ones(X.shape[1], dtype=bool)
    for block in _blocks(X):
        found &= ((block == low) | (block == high)).all(axis=0)
    return np.asarray(found, dtype=bool)


def _blocks(X: Array) -> Iterator[Array]:
    height = max(1, _BLOCK // max(X.shape[1], 1))
    return (X[start : start + height] for start in range(0, X.shape[0], height))
