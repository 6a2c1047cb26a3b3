"""Figures: the clusters of a set of images, each by its most and its least certain members. This module
owns the layout, and writes each picture to a temporary file first: half a picture never has its name. It
keeps no state between figures (no pyplot) and needs no screen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.writing import replacing, writable

if TYPE_CHECKING:  # a page needs no matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")
INK, FAINT, WRONG = "#1b1b1b", "#777777", "#d1422f"


@dataclass(frozen=True)
class ClusterRow:
    """One line of the picture: which images stand for a cluster, and what is said about it."""

    size: int
    most_certain: IntArray
    least_certain: IntArray
    majority: Any | None  # the most frequent true class, where the truth is known
    share: float  # of the majority in the cluster


def draw_clusters(
    path: str | os.PathLike[str], images: ArrayLike, *, labels: ArrayLike, certainty: ArrayLike, energy: float,
    truth: ArrayLike | None = None, subject: str = "images", n_most: int = 12, n_least: int = 6,
) -> Path:  # fmt: skip
    """A picture of the clusters, a row each: its most certain images and, on the right, its least certain.

    Images have shape (n_images, height, width), with high ink and low paper; `certainty` says how certain the label of
    each is. The truth, where it is known, names each cluster by its majority class, and frames the images of another.
    A row has up to `n_most` and `n_least` images; the title tells the `subject` and the energy (P). The path, which is
    returned, ends in .png, .pdf or .svg, and is replaced only once the picture is complete.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = check_picture_path(path)
    pictures = np.asarray(images, dtype=np.float64)
    classes = None if truth is None else np.asarray(truth)
    rows = _rows(np.asarray(labels), np.asarray(certainty), classes, n_most, n_least)
    figure = Figure(figsize=(10.4, 0.52 * len(rows) + 1.35), facecolor="white")
    FigureCanvasAgg(figure)
    _paint(figure, pictures, rows, classes, n_most, n_least)
    title = f"{len(rows)} clusters of {len(pictures)} {subject}  ·  energy (P) {energy:.4f}"
    top = 1 - 0.32 / figure.get_figheight()
    figure.text(0.022, top, title, size=14, weight="bold", color=INK, va="center")
    with replacing(path) as part:
        figure.savefig(part, format=path.suffix[1:].lower(), dpi=110)
    return path


def check_picture_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a picture can be written there; `InputError` if not."""
    return writable(path, SUFFIXES)


def _rows(labels: Array, certainty: Array, truth: Array | None, n_most: int, n_least: int) -> list[ClusterRow]:
    """A row for each cluster, in the order of the majority classes; without the truth, the largest first."""
    rows = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        ranked = members[np.argsort(-certainty[members], kind="stable")]
        most, rest = ranked[:n_most], ranked[n_most:]
        majority, share = None, 0.0
        if truth is not None:
            values, counts = np.unique(truth[members], return_counts=True)
            majority, share = values[counts.argmax()].item(), float(counts.max() / members.size)
        rows.append(ClusterRow(members.size, most, rest[::-1][:n_least], majority, share))
    if truth is None:
        return sorted(rows, key=lambda row: -row.size)
    order = np.unique(truth).tolist()
    return sorted(rows, key=lambda row: (order.index(row.majority), -row.size))


def _paint(
    figure: Figure, images: FloatArray, rows: list[ClusterRow], truth: Array | None, n_most: int, n_least: int
) -> None:
    """The rows on one pair of axes whose unit is an image: x counts images, y counts clusters."""
    height, gap = figure.get_figheight(), 0.5
    axes = figure.add_axes((0.2, 0.4 / height, 0.78, 1 - 1.3 / height))
    axes.set(xlim=(0, n_most + gap + n_least), ylim=(len(rows), 0))
    axes.axis("off")
    axes.text(n_most / 2, -0.3, "most certain", ha="center", va="center", color=FAINT)
    axes.text(n_most + gap + n_least / 2, -0.3, "least certain", ha="center", va="center", color=FAINT)
    darkest = max(float(images.max()), 1e-12)
    for y, row in enumerate(rows):
        _name(axes, y, row)
        halves = ((0.0, row.most_certain), (n_most + gap, row.least_certain))
        for x, image in ((left + i, image) for left, half in halves for i, image in enumerate(half)):
            is_wrong = truth is not None and truth[image] != row.majority
            _place(axes, images[image], x, y, darkest=darkest, frame=WRONG if is_wrong else None)
    if truth is not None:
        axes.text(0, len(rows) + 0.35, "framed: not of the cluster's majority class", color=WRONG, va="center")


def _name(axes: Axes, y: int, row: ClusterRow) -> None:
    """What is written to the left of a row: the majority class, its share, and the size."""
    middle = y + 0.5
    if row.majority is not None:
        axes.text(-4.2, middle, str(row.majority), size=15, weight="bold", color=INK, va="center")
        axes.text(-2.4, middle, f"{row.share:.0%}", color=FAINT, ha="right", va="center")
    axes.text(-0.25, middle, f"{row.size} images", color=INK, ha="right", va="center")


def _place(axes: Axes, image: FloatArray, x: float, y: float, *, darkest: float, frame: str | None) -> None:
    """One image in its cell, ink on paper, with a frame if one is asked for."""
    from matplotlib.patches import Rectangle

    margin = 0.06
    left, right, top, bottom = x + margin, x + 1 - margin, y + margin, y + 1 - margin
    extent = (left, right, bottom, top)
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=darkest, extent=extent, aspect="auto", interpolation="nearest")
    color, width = (frame, 1.8) if frame else ("#dddddd", 0.6)
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color, linewidth=width))
