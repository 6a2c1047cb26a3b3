"""Points that are generated: the four moons. This module owns their geometry; it reads no file, and the same seed
gives the same points.
"""

from __future__ import annotations

import numpy as np

from tautcut.arrays import IntArray, SingleArray
from tautcut.checks import positive_number, whole_number

# Measured from a published figure of the set: the centres of neighbouring moons differ by this much.
ACROSS, UP = 1.3, 0.5


def four_moons(
    n_per_moon: int = 1000, *, noise: float = 0.08, dimension: int = 100, random_state: int | np.random.Generator = 0
) -> tuple[SingleArray, IntArray]:
    """Four interleaved half circles in a space of many dimensions, with noise in all of them.

    Moon m = 0, …, 3 is a half circle of radius 1 in the first two coordinates, with its centre at (1.3 m, 0) and
    open below for even m, at (1.3 m, 0.5) and open above for odd m. Angles are uniform, and Gaussian noise is
    added to every coordinate.

    Parameters
    ----------
    n_per_moon : int
        How many points each moon has.
    noise : float
        Standard deviation of the noise.
    dimension : int
        How many coordinates the space has, at least 2.
    random_state : int or Generator
        Seeds the angles and the noise.

    Returns
    -------
    X : ndarray of float32, shape (4 * n_per_moon, dimension)
        The points, moon after moon.
    truth : ndarray of int64, shape (4 * n_per_moon,)

    Examples
    --------
    >>> X, truth = four_moons(5)
    >>> X.shape, truth.tolist()[::5]
    ((20, 100), [0, 1, 2, 3])
    """
    n_points = 4 * whole_number("n_per_moon", n_per_moon)
    n_columns = whole_number("dimension", dimension, least=2)
    noise = positive_number("noise", noise, or_zero=True)
    rng = np.random.default_rng(random_state)
    truth = np.repeat(np.arange(4, dtype=np.int64), n_per_moon)
    is_odd = truth % 2 == 1
    angles = rng.uniform(0, np.pi, n_points)
    X = rng.normal(0, noise, (n_points, n_columns))
    X[:, 0] += ACROSS * truth + np.cos(angles)
    X[:, 1] += np.where(is_odd, UP - np.sin(angles), np.sin(angles))
    return X.astype(np.float32), truth
