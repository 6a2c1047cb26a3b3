"""What the paper prints in its two tables, beside which the reproduction stands. This module holds these numbers once,
and computes nothing.

Source: X. Bresson, T. Laurent, D. Uminsky, J. H. von Brecht, "Multiclass Total Variation Clustering", NIPS 2013,
section 5: the first table (no labels) and the second (few labels).
"""

from __future__ import annotations

from typing import TypeVar

SOURCE = "Bresson, Laurent, Uminsky, von Brecht: Multiclass Total Variation Clustering, NIPS 2013, section 5"

_DATA = ("4moons", "webkb4", "optdigits", "pendigits", "20news", "mnist")


Cell = TypeVar("Cell")


def _by_data(*cells: Cell) -> dict[str, Cell]:
    return dict(zip(_DATA, cells, strict=True))


#: Purity in per cent without labels, by method and data set. LSD and NMFR: the highest of 31 runs; MTV: of lowest (P).
TABLE1: dict[str, dict[str, float]] = {
    "NCC-TV": _by_data(88.75, 51.76, 95.91, 73.25, 23.20, 88.80),
    "1SPEC": _by_data(73.92, 39.68, 88.65, 82.42, 11.49, 88.17),
    "LSD": _by_data(99.40, 54.50, 97.94, 88.44, 41.25, 95.67),
    "NMFR": _by_data(77.80, 64.32, 97.92, 91.21, 63.93, 96.99),
    "MTV": _by_data(99.53, 59.15, 98.29, 89.06, 39.40, 97.60),
}

#: MTV with labels, by how many of each class are known ("1" is one, the others are shares) and data set: purity in per
#: cent, and the mean seconds of a run of the authors' MATLAB code.
TABLE2: dict[str, dict[str, tuple[float, float]]] = {
    "1": _by_data((99.55, 3.0), (56.58, 1.8), (98.29, 7), (89.17, 14), (50.07, 52), (97.53, 98)),
    "1%": _by_data((99.55, 3.1), (58.75, 2.0), (98.29, 4), (93.73, 9), (61.70, 54), (97.59, 54)),
    "2.5%": _by_data((99.55, 1.9), (57.01, 1.7), (98.35, 3), (95.83, 7), (67.61, 42), (97.72, 39)),
    "5%": _by_data((99.53, 1.2), (58.34, 1.3), (98.38, 2), (97.98, 5), (70.51, 32), (97.79, 31)),
    "10%": _by_data((99.55, 0.8), (62.01, 1.2), (98.45, 2), (98.22, 4), (73.97, 25), (98.05, 25)),
}
