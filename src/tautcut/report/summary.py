"""A fitted model in a notebook: a few lines of HTML with the sizes and masses, the energy and why the run stopped, to
stand below scikit-learn's diagram of its parameters. Names of classes are the user's: they are escaped, never markup.
It measures nothing but means over clusters, and needs no script.
"""

from __future__ import annotations

from html import escape

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.arrays import Array

SHOWN = 20  # clusters, the largest; a cell of a notebook is no page

_CELL = "border:0;background:none;padding:.15em 1.2em .15em 0;text-align:"


def summary_html(result: Result, names: Array) -> str:
    """The result as a fragment of HTML; colours are those of the notebook, light or dark."""
    partition, graph = result.partition, result.problem.graph
    one, many = ("class", "classes") if result.problem.has_labels else ("cluster", "clusters")
    sizes = partition.sizes
    sure = np.bincount(partition.labels, result.confidence, sizes.size) / np.maximum(sizes, 1)
    order = np.argsort(-sizes, kind="stable")[:SHOWN].tolist()
    largest = max(int(sizes.max()), 1)
    rows = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL}left;font-weight:400">{escape(str(names[r]))}</th>'
        f'<td style="{_CELL}left">{_bar(int(sizes[r]) / largest)}</td>'
        f'<td style="{_CELL}right">{int(sizes[r]):,}</td>'
        f"{_mass(partition.masses[r]) if graph.has_masses else ''}"
        f'<td style="{_CELL}right">{sure[r]:.2f}</td></tr>'
        for r in order
    )
    masses = [("mass", "right")] if graph.has_masses else []
    heads = "".join(
        f'<th scope="col" style="{_CELL}{side};font-weight:400;opacity:.7">{text}</th>'
        for text, side in ((one, "left"), ("", "left"), ("points", "right"), *masses, ("confidence", "right"))
    )
    rest = sizes.size - len(order)
    more = f'<p style="margin:.3em 0;opacity:.7">The {len(order)} largest; {rest:,} more.</p>' if rest else ""
    return (
        '<div class="tautcut-summary" style="margin:.6em 0 0;font-variant-numeric:tabular-nums">'
        f"<p style='margin:0 0 .3em'><strong>{sizes.size:,} {one if sizes.size == 1 else many} of "
        f"{graph.n_vertices:,} points</strong>, energy (P) {partition.energy:.6g}. {escape(str(result.status))}</p>"
        f'<table style="border-collapse:collapse;margin:0"><thead><tr style="background:none">{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}</div>"
    )


def _mass(mass: float) -> str:
    return f'<td style="{_CELL}right">{mass:,.6g}</td>'


def _bar(share: float) -> str:
    return (
        f'<span style="display:inline-block;height:.5em;width:{7 * share:.2f}em;border-radius:.25em;'
        'background:currentColor;opacity:.45"></span>'
    )
