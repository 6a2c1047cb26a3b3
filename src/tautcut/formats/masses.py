"""Masses of rows and vertices: how much each counts in the size of a cluster. It owns how they are called where nobody
names them, how texts become masses, and the one check of what a file says, with the place of what is wrong. Where they
stand in a file is known to the reader of its format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tautcut.arrays import FloatArray
from tautcut.checks import vertex_masses
from tautcut.errors import InputError
from tautcut.formats.base import Data
from tautcut.formats.cells import is_missing, number
from tautcut.graph import Graph
from tautcut.graph.adapters import MASS

# What nodes may be weighed by in files of others: taken only if asked for, since it may mean anything.
_ELSEWHERE = "weight"


def attribute_of(names: Sequence[str] | set[str], asked: str | None, path: Path) -> tuple[str | None, tuple[str, ...]]:
    """The attribute of nodes that holds their masses, if one does, and what is said about it."""
    if asked is not None and asked not in names:
        raise InputError(f"the nodes of '{path}' have no attribute {asked!r}. Name one that they have.")
    found = asked if asked is not None else MASS if MASS in names else None
    if found is not None:
        return found, (f"Masses are the nodes' attribute {found!r}.",)
    hint = f"Its nodes have an attribute {_ELSEWHERE!r}; --mass-column {_ELSEWHERE} takes it for their masses."
    return None, (hint,) if _ELSEWHERE in names else ()


def masses_of_texts(texts: Sequence[str], ids: Sequence[object], path: Path) -> FloatArray:
    """Masses as they are written, NaN where one is missing; a word is refused with the id that it belongs to."""
    found = [np.nan if is_missing(text) else number(text) for text in texts]
    odd = next((at for at, value in enumerate(found) if value is None), None)
    if odd is not None:
        raise InputError(
            f"masses must be numbers > 0; found {texts[odd][:40]!r} for {str(ids[odd])[:40]!r} in '{path}'. Correct it."
        )
    return np.array(found, dtype=np.float64)


def weighed(data: Data, path: Path) -> Data:
    """The data with masses that are known to be right; a graph takes them over."""
    if data.masses is None:
        return data

    def place(row: int) -> str:
        if data.kind == "graph":
            return f"for vertex {str(data.ids[row])[:40]!r}"
        used = data.spread(np.ones(len(data.ids), dtype=bool), False)
        return f"in {data.place(int(np.flatnonzero(used)[row]))}"

    masses = vertex_masses(data.masses, len(data.ids), name=f"masses in '{path}'", place=place)
    content = data.content
    return replace(data, masses=masses, content=content.with_masses(masses) if isinstance(content, Graph) else content)
