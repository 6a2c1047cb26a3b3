"""What a search compares: features in single precision, and of many features the leading coordinates alone. This module
owns both, and how far rounding may have moved them; distances in leading coordinates never exceed those of features. It
compares no two rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from tautcut.arrays import FloatArray, RealArray, SingleArray
from tautcut.neighbors.features import squared_norms
from tautcut.search.threads import in_threads

FEW_FEATURES = 64  # are compared as they are
AXES = (32, 64, 128, 256)  # principal axes to try, at most half as many as features,
SHARE_OF_SPREAD = 0.8  # until they carry so much of the squared distances
AXES_POINTS = 2048  # from which the axes are found,
AXES_PASSES = 2  # in so many passes: rough axes will do
ROWS = 2048  # projected at a time
EPS = float(np.finfo(np.float32).eps)
WHOLE_BELOW = 2.0**24  # whole numbers that single precision holds, all of them


@dataclass(frozen=True)
class Single:
    """Points in single precision, and what that means for their distances."""

    rows: SingleArray
    unit: float  # by which they were divided
    slack: float  # how far a distance may have been moved by it
    exact_below: float  # squared distances of rows that are below this are exact


@dataclass(frozen=True)
class Coordinates:
    """Rows to compare, and how far rounding may have moved each."""

    rows: SingleArray
    errors: SingleArray

    def part(self, rows: slice) -> Coordinates:
        return Coordinates(self.rows[rows], self.errors[rows])


def in_single_precision(points: RealArray) -> Single:
    """The points in single precision; those that it does not hold are centred, and scaled by a power of two."""
    largest = float(max(points.max(), -points.min()))
    if largest == 0 or 2.0**-30 < largest < 2.0**30:
        rows = points.astype(np.float32, copy=False)
        if rows is points or np.array_equal(rows, points):
            is_whole = all(np.array_equal(some, np.rint(some)) for some in _in_blocks(rows))
            return Single(rows, 1.0, 0.0, WHOLE_BELOW if is_whole else 0.0)
    centre = points.mean(axis=0, dtype=np.float64)
    largest = max(float(np.abs(edge - centre).max()) for edge in (points.min(axis=0), points.max(axis=0)))
    unit = float(np.ldexp(1.0, np.frexp(largest)[1]))
    rows = np.empty(points.shape, np.float32)
    for first in range(0, len(points), ROWS):  # no second copy in double precision
        rows[first : first + ROWS] = (points[first : first + ROWS] - centre) / unit
    return Single(rows, unit, 2 * EPS * float(np.sqrt(points.shape[1])) * unit, 0.0)


def _in_blocks(rows: SingleArray) -> Iterator[SingleArray]:
    """Some rows after others: what is computed of them stays in the cache, and memory need not hold all of it."""
    return (rows[first : first + ROWS] for first in range(0, len(rows), ROWS))


def coordinates_of(single: SingleArray) -> Coordinates:
    """The features themselves, or the leading principal coordinates, where few of them carry most of the distances."""
    n, d = single.shape
    if d > FEW_FEATURES:
        with threadpool_limits(1, user_api="blas"):  # the bits of a product depend on its threads
            mean, axes = _principal_axes(single)
            if axes is not None:
                return _projected(single, mean, axes)
    return Coordinates(np.require(single, requirements="W"), np.zeros(n, np.float32))


def _projected(single: SingleArray, mean: SingleArray, axes: SingleArray) -> Coordinates:
    n, d = single.shape
    rows, norms = np.empty((n, axes.shape[1]), np.float32), np.empty(n, np.float32)

    def project(first: int) -> None:
        centred = single[first : first + ROWS] - mean
        rows[first : first + ROWS] = centred @ axes
        norms[first : first + ROWS] = np.sqrt(squared_norms(centred))

    for _ in in_threads(project, range(0, n, ROWS)):
        pass
    return Coordinates(rows, norms * np.float32(4 * EPS * np.sqrt(d)))


def _principal_axes(single: SingleArray) -> tuple[SingleArray, SingleArray | None]:
    """The mean, and the fewest of the leading axes, as columns, that carry most of the spread; None if too many do."""
    n, d = single.shape
    rng = np.random.default_rng(0)
    rows = single if n <= AXES_POINTS else single[np.sort(rng.choice(n, AXES_POINTS, replace=False))]
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows = rows - mean
    spread = max(float(squared_norms(rows).sum(dtype=np.float64)), 1e-300)
    for most in (AXES[-2], AXES[-1]):  # more axes take longer to find
        if 2 * AXES[0] <= d:
            axes, carried = _leading_axes(rows, min(most, d), rng)
            for count in AXES:
                if 2 * count <= d and count <= most and carried[count - 1] >= SHARE_OF_SPREAD * spread:
                    return mean, axes[:, :count].astype(np.float32)
    return mean, None


def _leading_axes(rows: SingleArray, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """About the leading principal axes of centred rows, as columns, and how much of the spread the first of them carry.

    By subspace iteration.
    """
    axes: FloatArray = rng.standard_normal((rows.shape[1], count))
    for _ in range(AXES_PASSES):
        product = rows.T @ (rows @ axes.astype(np.float32))
        axes = np.linalg.qr(product.astype(np.float64))[0]  # orthonormal up to one rounding to single precision
    projected = (rows @ axes.astype(np.float32)).astype(np.float64)
    spreads, rotation = np.linalg.eigh(projected.T @ projected)
    return axes @ rotation[:, ::-1], np.cumsum(spreads[::-1])
