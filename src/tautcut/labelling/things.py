"""What is labelled: pictures, texts, rows of numbers or vertices with names, each with what a person is shown of it,
and the graph that joins them. It owns what is kept beside the data so that the next start is quick: pixels, the graph
and its map, as plain arrays under the digest of what they were made of. It reads no format.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tautcut._version import __version__
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.formats import Data
from tautcut.formats.pictures import Bitmaps, bitmaps, encoded, is_picture, shown
from tautcut.graph import Graph
from tautcut.labelling.refits import frame_of, graph_of
from tautcut.writing import write_whole

Kind = Literal["image", "text", "numbers", "name"]
SHOWN_VALUES = 24  # columns of a row of numbers
LONGEST_TEXT = 20_000  # letters of a text that are shown
_MARKED = 65_536  # bytes of a picture by which it is known again
NOT_A_PICTURE = "not an image"


@dataclass(frozen=True, eq=False)
class Things:
    """What is labelled, numbered from 0 in the order of the source.

    Attributes
    ----------
    source : Path
        The file or the folder.
    data : Data
        What it holds.
    graph : Graph
        Of those that could be compared.
    kept : Kept
        What is kept beside the data.
    """

    source: Path
    data: Data
    graph: Graph
    kept: Kept

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise InputError(
                f"the ids in '{self.source}' are not distinct, and labels go by them. Name a column of distinct ids by "
                "--id-column."
            )

    @cached_property
    def names(self) -> list[str]:
        """What each thing is called."""
        return [str(one) for one in self.data.all_ids.tolist()]

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each name."""
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def vertices(self) -> IntArray:
        """The vertex of each thing; −1 where it could not be compared."""
        n = len(self.names)
        vertices = np.arange(n)
        if self.data.dropped is not None:
            vertices = np.full(n, -1)
            vertices[np.delete(np.arange(n), self.data.dropped)] = np.arange(n - len(self.data.dropped))
        return vertices

    @cached_property
    def of_vertices(self) -> IntArray:
        """The thing of each vertex."""
        return np.flatnonzero(self.vertices >= 0)

    @property
    def title(self) -> str:
        return self.source.resolve().name

    @property
    def kind(self) -> Kind:
        if self.data.files is not None or self._pictures is not None:
            return "image"
        if self.data.texts is not None:
            return "text"
        return "name" if self.data.kind == "graph" else "numbers"

    @cached_property
    def _pictures(self) -> Array | None:
        """The rows of an array as pictures, if they are."""
        shape, content = self.data.image_shape, self.data.content
        if self.data.files is not None or shape is None or not isinstance(content, np.ndarray):
            return None
        return content.reshape(-1, *shape)

    @cached_property
    def _others(self) -> Mapping[str, Array]:
        return self.data.others()

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """What is black and what is white where rows are pictures."""
        assert self._pictures is not None
        low, high = float(self._pictures.min()), float(self._pictures.max())
        return min(low, 0.0), max(high, 1.0) if high > 0 else 1.0

    def has_image(self, index: int) -> bool:
        """Whether there is a picture to look at."""
        if self.data.files is not None:
            return self.data.files[index] is not None and self._opens(index)
        return self._pictures is not None and self.vertices[index] >= 0

    def _opens(self, index: int) -> bool:
        """Whether the file was a picture; those that a user brings features for are looked at when asked for."""
        if self.data.is_of_one_unit:
            return bool(self.vertices[index] >= 0)
        if index not in self._looked_at:
            path = self.data.files[index] if self.data.files is not None else None
            self._looked_at[index] = path is not None and is_picture(path)
        return self._looked_at[index]

    @cached_property
    def _looked_at(self) -> dict[int, bool]:
        return {}

    def image(self, index: int) -> tuple[bytes, str] | None:
        """The bytes of a thing's picture, and their type."""
        if self.data.files is not None:
            path = self.data.files[index]
            return None if path is None else shown(path)
        if self._pictures is None or self.vertices[index] < 0:
            return None
        low, high = self._scale
        picture = (self._pictures[self.vertices[index]].astype(np.float64) - low) / (high - low or 1.0)
        return encoded(np.round(255 * np.clip(picture, 0.0, 1.0)).astype(np.uint8)), "image/png"

    def text(self, index: int) -> str | None:
        """What there is to read of a thing."""
        if self.data.texts is not None:
            return self.data.texts[index][:LONGEST_TEXT]
        if self.data.files is not None and not self.has_image(index):
            return NOT_A_PICTURE
        return None

    def values(self, index: int) -> list[list[str]] | None:
        """Columns and what stands in them: the features of numbers, and what stands beside them."""
        vertex = int(self.vertices[index])
        if vertex < 0:
            return None
        found = [[name, str(column[vertex])[:200]] for name, column in self._others.items() if str(column[vertex])]
        content = self.data.content
        if self.kind == "numbers" and isinstance(content, np.ndarray):
            names = self.data.names or [f"feature {j}" for j in range(content.shape[1])]
            row = content[vertex].tolist()[:SHOWN_VALUES]
            found += [[str(name), f"{value:.6g}"] for name, value in zip(names, row, strict=False)]
        return found or None

    def mark(self, index: int) -> str:
        """By which a thing is known again when the data come back: a digest of what it holds."""
        digest = hashlib.blake2b(digest_size=8)
        vertex = int(self.vertices[index])
        if self.data.files is not None:
            path = self.data.files[index]
            with suppress(OSError):
                if path is not None:
                    digest.update(str(path.stat().st_size).encode())
                    with path.open("rb") as file:
                        digest.update(file.read(_MARKED))
        elif self.data.texts is not None:
            digest.update(self.data.texts[index].encode("utf-8", "surrogatepass"))
        elif vertex >= 0 and self.data.kind == "graph":
            row = slice(self.graph.indptr[vertex], self.graph.indptr[vertex + 1])
            names = sorted(self.names[self.of_vertices[j]] for j in self.graph.indices[row])
            digest.update("\0".join(names).encode("utf-8", "surrogatepass"))
        elif vertex >= 0:
            content: Any = self.data.content
            row = content[vertex] if isinstance(content, np.ndarray) else content[vertex].toarray()
            digest.update(np.ascontiguousarray(row, dtype=np.float64).tobytes())
        return digest.hexdigest()

    def similar(self, index: int, count: int, is_wanted: Callable[[int], bool]) -> list[int]:
        """The things nearest to one by the graph's edges, those of two steps among them, that are wanted."""
        vertex = int(self.vertices[index])
        if vertex < 0:
            return []
        near = self._steps(vertex)
        two: dict[int, float] = dict(near)
        for step, share in near.items():
            for other, more in self._steps(step).items():
                two[other] = two.get(other, 0.0) + 0.5 * share * more
        two.pop(vertex, None)
        ranked = sorted(two, key=lambda one: (-two[one], one))
        found = (int(self.of_vertices[one]) for one in ranked)
        return [one for one in found if is_wanted(one)][:count]

    def kept_map(self) -> FloatArray | None:
        """The coordinates of the vertices on a map, if they were kept."""
        stored = self.kept.get("map", self._map_key)
        return None if stored is None else stored["coordinates"]

    def keep_map(self, coordinates: FloatArray) -> None:
        """Keep the coordinates for the next start."""
        self.kept.put("map", self._map_key, coordinates=coordinates)

    @cached_property
    def _map_key(self) -> str:
        return _digest(*(part.tobytes() for part in (self.graph.indptr, self.graph.indices, self.graph.weights)))

    def _steps(self, vertex: int) -> dict[int, float]:
        """The share of each neighbour in the degree of a vertex."""
        row = slice(int(self.graph.indptr[vertex]), int(self.graph.indptr[vertex + 1]))
        weights = self.graph.weights[row]
        total = float(weights.sum()) or 1.0
        return dict(zip(self.graph.indices[row].tolist(), (weights / total).tolist(), strict=True))


# ---------------------------------------------------------------- what is kept beside the data


@dataclass
class Kept:
    """Arrays in files beside the data, each under the digest of what it was made of.

    Where the folder cannot be written nothing is kept, and `problem` says so. Nothing is ever unpickled.
    """

    source: Path
    problem: str | None = None

    def path(self, what: str) -> Path:
        source = self.source.resolve()
        return source.with_name(f".{source.name}.tautcut-{what}.npz")

    def get(self, what: str, key: str) -> dict[str, Array] | None:
        """The arrays, if they were made of the same."""
        try:
            with self.path(what).open("rb") as file, np.load(file, allow_pickle=False) as stored:
                if not _is_own(file.fileno()) or str(stored["key"]) != key:
                    return None
                return {name: stored[name] for name in stored.files if name != "key"}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, what: str, key: str, **arrays: Array) -> None:
        """Keep the arrays for the next start."""
        content = io.BytesIO()
        parts: dict[str, Any] = {"key": np.array(key), **arrays}
        np.savez(content, **parts)
        try:
            write_whole(self.path(what), content.getvalue())
        except OSError as error:
            self.problem = f"Nothing is kept for the next start: '{error.filename}': {error.strerror}."

    def pixels(self, progress: Callable[[int, int], None] | None = None) -> Callable[[Sequence[Path | None]], Bitmaps]:
        """What makes the pixels of pictures, or finds those that were made of the same files."""

        def made(paths: Sequence[Path | None]) -> Bitmaps:
            key = _digest(*("" if path is None else _stat(path) for path in paths))
            stored = self.get("pixels", key)
            if stored is not None:
                found = Bitmaps(stored["values"], stored["is_picture"], tuple(stored["shape"].tolist()))
                if found.values.shape == (found.is_picture.sum(), np.prod(found.shape)):
                    return found
            found = bitmaps(paths, progress)
            self.put(
                "pixels", key, values=found.values, is_picture=found.is_picture, shape=np.array(found.shape)
            )  # fmt: skip
            return found

        return made

    def graph(self, data: Data, settings: Mapping[str, Any], make: Callable[[], Graph]) -> tuple[Graph, bool]:
        """The graph of the data by these settings, and whether it was made: one that was made of the same is found."""
        if isinstance(data.content, Graph) and not settings.get("smooth"):
            return make(), True
        key = _digest(json.dumps(settings, sort_keys=True, default=str), _content_digest(data))
        stored = self.get("graph", key)
        if stored is not None:
            return graph_of(stored), False
        graph = make()
        self.put("graph", key, **frame_of(graph))
        return graph, True


def _digest(*parts: str | bytes | memoryview) -> str:
    """A digest of texts, and of the version that made something of them."""
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(memoryview(content).nbytes.to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _content_digest(data: Data) -> str:
    """A digest of what is compared."""
    content: Any = data.content if isinstance(data.content, Graph) else data.compared
    if isinstance(content, Graph):
        parts = [content.indptr, content.indices, content.weights]
    elif isinstance(content, np.ndarray):
        parts = [content]
    else:
        parts = [content.indptr, content.indices, content.data]
    if data.masses is not None:
        parts.append(data.masses)
    told = "".join(f"{part.dtype}{part.shape}" for part in parts)
    return _digest(told, *(np.ascontiguousarray(part).view(np.uint8).data for part in parts))


def _is_own(file: int) -> bool:
    """Whether a file is the user's: what others left in a shared folder is not believed."""
    return not hasattr(os, "getuid") or os.fstat(file).st_uid == os.getuid()


def _stat(path: Path) -> str:
    """What tells whether a file is as it was."""
    try:
        about = os.stat(path)
    except OSError:
        return ""
    return f"{path}\0{about.st_size}\0{about.st_mtime_ns}"
