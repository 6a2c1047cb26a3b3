"""The page of a run: one HTML file that needs no network and no other file. This module checks what the user adds to a
run, puts the numbers of `content` into the template of `assets/`, and writes the file whole or not at all. Whatever
users name can hold HTML: it travels as JSON, is shown as text only, and the page's policy forbids every script but
its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from tautcut.algorithm.results import Result
from tautcut.arrays import Array, FloatArray
from tautcut.errors import InputError
from tautcut.graph.diagnostics import diagnose
from tautcut.graph.findings import Diagnosis
from tautcut.records.records import circumstances
from tautcut.report.columns import SHOWN_FEATURES, Column, columns_of
from tautcut.report.content import Json, Subject, content_of
from tautcut.search.disagreement import Disagreement
from tautcut.search.strain import Strain, strain_of
from tautcut.writing import writable, write_whole

SUFFIXES = (".html", ".htm")
MASS = "mass"  # what the column of masses is called, by which the map can be coloured

# In JSON these stand inside strings only, where an escape means the same. Without "<" no tag or comment can begin;
# the other two end a line in JavaScript.
_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def write_page(
    path: str | os.PathLike[str],
    result: Result,
    *,
    ids: Sequence[object] | Array | None = None,
    features: Any = None,
    feature_names: Sequence[object] | None = None,
    images: ArrayLike | None = None,
    coordinates: ArrayLike | None = None,
    columns: Mapping[str, Any] | None = None,
    diagnosis: Diagnosis | None = None,
    strain: Strain | None = None,
    disagreement: Disagreement | None = None,
    settings: Mapping[str, Any] | None = None,
    names: Sequence[object] | None = None,
) -> Path:
    """Write a page to look at: what a run found, how firmly, on what graph, and how to run it again.

    Parameters
    ----------
    path : path-like
        Ends in .html or .htm; replaced only once the page is complete.
    result : Result
        What is shown: the result of `solve`, or the `result_` of an estimator.
    ids : sequence of length n_vertices, optional
        What each point is called; its number by default.
    features : array or scipy sparse matrix of shape (n_vertices, n_features), optional
        The page names the features that set each cluster apart.
    feature_names : sequence of length n_features, optional
        What each feature is called; its number by default.
    images : array-like of shape (n_vertices, height, width), optional
        Thumbnails of the points; the largest value of all is white.
    coordinates : array-like of shape (n_vertices, 2), optional
        Where to draw each point on the map; laid out from the graph alone by default.
    columns : mapping of str to array-like of shape (n_vertices,), or frame, optional
        Further columns of the table, which points were not compared by: texts, labels, numbers. They stand in the
        tooltips, the map can be coloured by them, and those with few values are counted against the clusters.
    diagnosis : Diagnosis, optional
        Of the graph; made here by default.
    strain : Strain, optional
        Whether the expected sizes decided the clusters; found here by default.
    disagreement : Disagreement, optional
        How far the given labels lead away from the graph's own clusters; left out by default.
    settings : mapping, optional
        What to repeat the run with.
    names : sequence of length n_clusters, optional
        What each cluster is called; its number by default.

    Returns
    -------
    Path
        Where the page is.
    """
    path = writable(path, SUFFIXES)
    n, R = result.problem.n_vertices, result.problem.n_clusters
    subject = Subject(
        result,
        diagnosis or diagnose(result.problem.graph, R),
        names=_texts("names", names, R) or [str(r) for r in range(R)],
        settings=settings or {"n_clusters": R},
        ids=_texts("ids", ids, n),
        features=_checked_features(features, n),
        feature_names=_texts("feature_names", feature_names, np.shape(features)[1] if np.ndim(features) == 2 else 0),
        images=None if images is None else _checked_images(images, n),
        coordinates=None if coordinates is None else _checked_coordinates(coordinates, n),
        strain=strain or strain_of(result),
        disagreement=disagreement,
    )
    named = columns_of(None if images is not None else subject.features, subject.feature_names, result.partition)
    own = _checked_columns(columns, n)
    if subject.graph.has_masses and all(one.name != MASS for one in own):
        own = [Column(MASS, subject.graph.masses), *own][:SHOWN_FEATURES]
    subject = replace(subject, columns=[*own, *named])
    write_whole(path, render(content_of(subject, circumstances())))
    return path


def render(content: Json) -> bytes:
    """The page that shows this content, in UTF-8."""
    style = asset("look.css") + asset("page.css")
    script = asset("drawing.js") + asset("page.js")
    template = asset("page.html")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    noun, nouns = content["summary"]["nouns"]
    marks = {"cluster": noun, "clusters": nouns, "Clusters": nouns.capitalize(), "POLICY": policy, "STYLE": style}
    marks |= {"SCRIPT": script, "DATA": embedded(content)}  # data last: what looks like a mark in it is never replaced
    for mark, text in marks.items():
        template = template.replace(f"@@{mark}@@", text)
    # A lone surrogate has no UTF-8; its escape is what JSON would have written.
    return template.encode("utf-8", errors="backslashreplace")


def embedded(content: Json) -> str:
    """JSON that can stand inside a script element."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def asset(name: str) -> str:
    """A file of this room's assets; `look.css` and `drawing.js` are what other pages of tautcut can share."""
    return (files("tautcut.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a policy allows exactly this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _texts(what: str, values: Sequence[object] | Array | None, count: int) -> list[str] | None:
    if values is None:
        return None
    texts = [str(value) for value in values]
    if len(texts) != count:
        raise InputError(f"{what} must hold {count} names, one each; found {len(texts)}.")
    return texts


def _checked_features(features: Any, n_vertices: int) -> Any:
    if features is None:
        return None
    is_sparse = sp.issparse(features)
    X = features.tocsr() if is_sparse else np.asarray(features)
    if X.ndim != 2 or X.shape[0] != n_vertices or X.dtype.kind not in "buif":
        raise InputError(f"features must be {n_vertices} rows of numbers; found shape {X.shape} of dtype {X.dtype}.")
    return X.astype(np.float64) if X.dtype.kind == "b" else X


def _checked_columns(columns: Mapping[str, Any] | None, n_vertices: int) -> list[Column]:
    """The further columns, the first of them where there are very many."""
    checked = []
    for name, values in () if columns is None else columns.items():
        is_array = hasattr(values, "__array__")
        # Strings as objects: an array of fixed width would give each the room of the longest.
        array = np.asarray(values) if is_array else np.array(values, dtype=object)
        if array.dtype.kind == "O" and all(isinstance(one, int | float | np.number) for one in array.flat):
            array = np.array(array.tolist())
        if array.shape != (n_vertices,):
            raise InputError(f"columns must hold {n_vertices} values each; found shape {array.shape} for {name!r}.")
        checked.append(Column(str(name), array))
    return checked[:SHOWN_FEATURES]


def _checked_images(images: ArrayLike, n_vertices: int) -> Array:
    pictures = np.asarray(images)
    if pictures.ndim != 3 or len(pictures) != n_vertices or 0 in pictures.shape or pictures.dtype.kind not in "buif":
        raise InputError(
            f"images must be grey, of shape ({n_vertices}, height, width); found shape {pictures.shape} of dtype "
            f"{pictures.dtype}."
        )
    return pictures


def _checked_coordinates(coordinates: ArrayLike, n_vertices: int) -> FloatArray:
    points = np.asarray(coordinates, dtype=np.float64)
    if points.shape != (n_vertices, 2) or not np.isfinite(points).all():
        raise InputError(f"coordinates must be {n_vertices} pairs of finite numbers; found shape {points.shape}.")
    return points
