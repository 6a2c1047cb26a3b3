"""Things to label that tests share: a few small pictures of two sorts, which a graph tells apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tautcut import knn_graph
from tautcut.formats import read
from tautcut.labelling.journal import Journal
from tautcut.labelling.session import Session
from tautcut.labelling.things import Kept, Things

N_PICTURES = 24


def draw_pictures(folder: Path, count: int = N_PICTURES) -> Path:
    """Pictures of 6 × 6 pixels: the even ones dark, the odd ones bright."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 60, (6, 6)) + 190 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"p{number}.png")
    return folder


def things_of(source: Path, n_neighbors: int = 4, **options: object) -> Things:
    """What `tautcut label` makes of a file or a folder."""
    kept = Kept(source)
    data = read(source, is_open=True, pixels=kept.pixels(), **options)  # type: ignore[arg-type]
    made, _ = kept.graph(data, {"n": n_neighbors}, lambda: _graph_of(data, n_neighbors))
    return Things(source, data, made, kept)


def _graph_of(data: object, n_neighbors: int) -> object:
    content = data.content  # type: ignore[attr-defined]
    return content if data.kind == "graph" else knn_graph(content, n_neighbors)  # type: ignore[attr-defined]


def session_of(source: Path, **options: object) -> Session:
    """A session on a file or a folder, without its processes."""
    things = things_of(source)
    journal = Journal(source.with_name(f"{source.name}.labels.jsonl"), {"title": things.title})
    try:
        return Session(things, journal, **options)  # type: ignore[arg-type]
    except BaseException:
        journal.close()
        raise
