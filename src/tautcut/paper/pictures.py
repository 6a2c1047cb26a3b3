"""The paper's Figures 1 and 2, drawn from their numbers: each as a PNG, an SVG and, beside them, the numbers as JSON.
Lines and shades differ without colour too. Nothing is computed here.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tautcut.paper.figures import IN_BETWEEN, Figure1, Figure2, LineFunction, SortedFunction
from tautcut.report.figures import FAINT, INK, check_picture_path
from tautcut.writing import replacing, write_whole

CURVE, SHADE, RULE = "#1f5f8b", "#e9e9e9", "#bbbbbb"

_STYLE: Any = {  # matplotlib types the names of its settings in some versions only
    "font.size": 10,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "svg.hashsalt": "tautcut",  # the same numbers give the same file
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}


def draw_figure1(data: Figure1, path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Figure 1: the line and its best cut, and below it f₁ of the total variation and of the spectral relaxation.

    The path has no suffix: `path`.png, `path`.svg and `path`.json are written; returns these three.
    """
    title = "Total variation finds the cut itself, the spectral relaxation a smooth version of it"
    note = "E is that of one cluster. It does not depend on the amplitude of f, which is therefore shown rescaled."
    with matplotlib.rc_context(_STYLE):
        figure = _canvas(10.0, 5.0, title, note)
        _draw_line(figure.add_axes((0.07, 0.74, 0.905, 0.13)), data)
        left, right = figure.add_axes((0.07, 0.19, 0.42, 0.42)), figure.add_axes((0.555, 0.19, 0.42, 0.42))
        _draw_line_function(left, data.tv, "(a)  Total variation (P-rlx)")
        _draw_line_function(right, data.spectral, "(b)  Spectral relaxation (P-rlx2)")
        left.set_ylabel("$f_1$, rescaled to [0, 1]")
        return _save(figure, data, path)


def draw_figure2(data: Figure2, path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Figure 2: the function of the first digit over the vertices of both, sorted, by MTV and by LSD.

    Files are written as by `draw_figure1`.
    """
    first, second = data.digits
    low, high = IN_BETWEEN
    title = f"The function of the cluster of {first}s, over the {first}s and {second}s"
    note = f"Strip: the true digits, {first} dark and {second} light. Grey: in between, from {low} to {high}."
    with matplotlib.rc_context(_STYLE):
        figure = _canvas(10.0, 4.4, f"{title} of {data.data}" if data.data else title, note)
        for left, one, letter in ((0.07, data.mtv, "(a)"), (0.555, data.lsd, "(b)")):
            axes = figure.add_axes((left, 0.265, 0.42, 0.525))
            _draw_sorted_function(axes, one, f"{letter}  {one.method}")
            axes.set_ylabel(f"$f_{{{first}}}$, rescaled to [0, 1]" if one is data.mtv else "")
            strip = figure.add_axes((left, 0.205, 0.42, 0.03))
            _draw_classes(strip, one)
            strip.set_xlabel(
                f"{len(one.values)} vertices of the digits {first} and {second}, highest $f_{{{first}}}$ first"
            )
        return _save(figure, data, path)


def _canvas(width: float, height: float, title: str, note: str) -> Figure:
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.02, 1 - 0.3 / height, title, size=13.5, weight="bold", va="center")
    figure.text(0.07, 0.2 / height, note, size=8.5, color=FAINT, va="center")
    return figure


def _draw_line(axes: Axes, data: Figure1) -> None:
    """The graph: one side of the cut filled, the other hollow, and the cut between them."""
    points = np.array(data.positions)
    is_first = np.array(data.tv.rescaled) > 0.5
    cut = next(i for i, j in data.edges if is_first[i] != is_first[j])
    for i, j in data.edges:
        axes.plot(points[[i, j], 0], points[[i, j], 1], color=INK, linewidth=1.2, zorder=1)
    for side, fill in ((is_first, CURVE), (~is_first, "white")):
        axes.scatter(points[side, 0], points[side, 1], s=95, facecolor=fill, edgecolor=INK, linewidth=1.2, zorder=2)
    for number, (x, y) in enumerate(data.positions, 1):
        axes.text(x, y - 0.75, str(number), size=8.5, color=FAINT, ha="center", va="center")
    middle = points[cut : cut + 2, 0].mean()
    axes.plot([middle, middle], [-0.6, 0.65], color=INK, linestyle="--", linewidth=1.2)
    axes.text(middle, 0.95, "best cut", size=9, ha="center", va="center")
    axes.set(xlim=(points[0, 0] - 0.6, points[-1, 0] + 0.6), ylim=(-1.1, 1.1))
    axes.axis("off")


def _draw_line_function(axes: Axes, one: LineFunction, title: str) -> None:
    vertices = np.arange(1, len(one.rescaled) + 1)
    axes.axvline(vertices.size / 2 + 0.5, color=RULE, linestyle="--", linewidth=1)
    axes.plot(vertices, one.rescaled, color=CURVE, linewidth=1.6, marker="o", markersize=5.5, clip_on=False, zorder=3)
    axes.set(xlim=(0.5, vertices.size + 0.5), ylim=(-0.04, 1.04), xlabel="vertex")
    axes.set(xticks=[1, *range(5, vertices.size + 1, 5)], yticks=[0, 0.5, 1])
    axes.set_title(title, loc="left", size=11, weight="bold", pad=12)
    energies = f"E, total variation: {one.tv_energy:.4f}\nE, spectral: {one.spectral_energy:.4f}"
    facts = f"largest drop: {one.largest_drop:.2f}\n{energies}"
    axes.text(0.985, 0.97, facts, transform=axes.transAxes, size=9, ha="right", va="top", linespacing=1.5)


def _draw_sorted_function(axes: Axes, one: SortedFunction, title: str) -> None:
    low, high = IN_BETWEEN
    rank = np.arange(len(one.rescaled))
    axes.axhspan(low, high, color=SHADE, linewidth=0, zorder=0)
    axes.plot(rank, one.rescaled, color=CURVE, linewidth=2.2, clip_on=False, zorder=3)
    axes.set(xlim=(0, rank.size - 1), ylim=(-0.03, 1.03), xticks=[], yticks=[0, low, 0.5, high, 1])
    axes.set_title(title, loc="left", size=11, weight="bold", pad=10)
    facts = f"in between: {one.in_between:.1%} of the values\npurity of the clustering: {one.purity:.1%}"
    axes.text(0.985, 0.86, facts, transform=axes.transAxes, size=9, ha="right", va="top", linespacing=1.5)


def _draw_classes(axes: Axes, one: SortedFunction) -> None:
    """A strip below the curve: dark where the vertex is of the first class."""
    strip = np.array([one.is_first], dtype=float)
    axes.imshow(strip, cmap="gray_r", vmin=-0.15, vmax=1.2, aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[])


def _save(figure: Figure, data: Figure1 | Figure2, path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The picture in both formats and its numbers, each file whole or not at all."""
    base = Path(path)
    png, svg, numbers = (base.with_name(base.name + suffix) for suffix in (".png", ".svg", ".json"))
    for picture in (png, svg):
        check_picture_path(picture)
    with replacing(png) as part:
        figure.savefig(part, format="png", dpi=150)
    with replacing(svg) as part:
        figure.savefig(part, format="svg", metadata={"Date": None})
    write_whole(numbers, json.dumps(asdict(data), ensure_ascii=False, allow_nan=False) + "\n")
    return png, svg, numbers
