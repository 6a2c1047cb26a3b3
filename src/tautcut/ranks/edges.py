"""From lists of edges of any size to the rows of their graph, within a limit of memory. It owns how users' ids become
numbers (decision 0059). Nothing is ever held whole but what has one number for each vertex.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.arrays import Array, IntArray
from tautcut.errors import InputError
from tautcut.memory import foresee
from tautcut.ranks.edge_files import PER_ROW, EdgeFiles
from tautcut.ranks.rows import Edges, Files, Rows, Stored, distinct, sorted_rows

Tell = Callable[[str, int, int], None]

_PER_ID = 24  # bytes for each possible id, where ids are looked up in a table
_PER_VERTEX = 64  # bytes that all steps take of memory, blocks aside
_SAMPLE = 512  # ids of each batch, by which buckets of ids are bounded
_PER_SORTED_ID, _PER_SORTED_TEXT = 40, 60  # bytes
_TEXT_COPIES = 4  # of the texts, while those of a run are sorted
_MOST_BUCKETS = 250


@dataclass(frozen=True, eq=False)
class Numbered:
    """Edges whose vertices are numbers from 0: how many vertices there are, and their ids, if these are others.

    `ids` are whole numbers, in the order of the numbers, in memory or mapped; `texts` are those that are no numbers.
    """

    n_vertices: int
    batches: Callable[[], Iterator[Edges]]
    ids: Array | None = None
    texts: Texts | None = None

    def named(self, number: int) -> object:
        """What the user calls a vertex."""
        if self.texts is not None:
            return self.texts.of(np.array([number]))[0]
        return number if self.ids is None else int(self.ids[number])

    def ids_of(self, numbers: IntArray) -> Array | None:
        """What the user calls these vertices; None where their numbers are their ids."""
        if self.texts is not None:
            return self.texts.of(numbers)
        return None if self.ids is None else np.asarray(self.ids[numbers])


def rows_of_edges(
    files: EdgeFiles, folder: Path, *, room: int, n_vertices: int | None = None,
    tell: Tell = lambda name, done, total: None,
) -> tuple[Rows, Numbered]:  # fmt: skip
    """The rows of the graph of these edges, on disk, and the ids of its vertices.

    `folder` is for temporary files; `room` bytes of memory are taken besides some for each vertex.
    """
    if not files.n_rows and n_vertices is None:
        raise InputError(f"'{files.paths[0]}' holds no edges. Give a row with two vertices for each edge.")
    _foresee_disk(files, folder)
    numbered = _numbered(files, folder, room, n_vertices, tell)
    if numbered.n_vertices > np.iinfo(np.int32).max:
        raise InputError(f"a graph has {np.iinfo(np.int32).max:,} vertices at most; found {numbered.n_vertices:,}.")
    foresee(
        _PER_VERTEX * numbered.n_vertices, room, f"Rows of {numbered.n_vertices:,} vertices",
        "Allow more by --memory, or check the ids.",
    )  # fmt: skip
    rows = sorted_rows(
        numbered.batches, numbered.n_vertices, folder, room=room, has_weights=files.has_weights, named=numbered.named,
        tell=lambda done: tell("sort", done, files.n_rows),
    )  # fmt: skip
    return rows, numbered


def _foresee_disk(files: EdgeFiles, folder: Path) -> None:
    """Refuse what the disk has no room for: every edge in both directions, then its rows."""
    entry = 16 if files.has_weights else 8
    need, free = 2 * files.n_rows * 2 * entry, shutil.disk_usage(folder).free
    if need > free:
        raise InputError(
            f"sorting {files.n_rows:,} edges takes {need / 2**30:,.1f} GiB beside '{folder.parent}', and "
            f"{free / 2**30:,.1f} GiB are free. Free some space, or write elsewhere."
        )


def _numbered(files: EdgeFiles, folder: Path, room: int, n_vertices: int | None, tell: Tell) -> Numbered:
    if files.id_type == "text" and n_vertices is not None:
        raise InputError(f"--n-vertices {n_vertices} is for vertices that are numbers, and these have texts as ids.")
    seen = None if files.id_type == "text" else _seen(files, room, n_vertices, tell)
    if seen is None:
        return _compact(files, folder, room, tell)
    if n_vertices is not None or seen.all():
        return Numbered(n_vertices or seen.size, lambda: _plain(files, room, lambda ids: ids))
    ids = np.flatnonzero(seen)
    place = np.cumsum(seen) - 1
    return Numbered(ids.size, lambda: _plain(files, room, place.__getitem__), ids)


def _plain(files: EdgeFiles, room: int, number: Callable[[IntArray], IntArray]) -> Iterator[Edges]:
    """The edges with numbers for ids, without loops."""
    for u, v, weights in files.raw_batches(room):
        proper = u != v
        kept = None if weights is None else weights[proper]
        yield number(u[proper].astype(np.int64)), number(v[proper].astype(np.int64)), kept


def _seen(files: EdgeFiles, room: int, n_vertices: int | None, tell: Tell) -> Array | None:
    """Which of 0, …, largest id there are; None where there are ids below 0, or too large for such a table."""
    most = room // _PER_ID if n_vertices is None else n_vertices
    seen, largest, done = np.zeros(min(most, 1024), dtype=np.bool_), -1, 0
    for u, v, _ in files.raw_batches(room):
        for ids in (u, v):
            if not ids.size:
                continue
            low, high = int(ids.min()), int(ids.max())
            if n_vertices is not None and (low < 0 or high >= n_vertices):
                odd = low if low < 0 else high
                raise InputError(f"vertex {odd} does not exist with --n-vertices {n_vertices}. Raise or leave it out.")
            if low < 0 or high >= most:
                return None
            if high >= seen.size:
                grown = np.zeros(min(most, max(high + 1, 2 * seen.size)), dtype=np.bool_)
                grown[: seen.size] = seen
                seen = grown
            seen[ids.astype(np.int64)] = True
            largest = max(largest, high)
        done += u.size
        tell("ids", done, files.n_rows)
    return seen[: largest + 1]


# ---------------------------------------------------------------- ids of any kind


def _compact(files: EdgeFiles, folder: Path, room: int, tell: Tell) -> Numbered:
    """Numbers in the order of the ids, or of what texts hash to: sorted on disk, and looked up run by run."""
    bounds = _bounded(files, room, tell)
    finder = _Finder(files, folder, bounds, room)
    finder.gather(tell)
    record = np.dtype([("u", np.uint64), ("v", np.uint64), ("w", np.float64)])
    by_source = Files(folder, "by-source", bounds.size + 1, record)
    for u, v, weights in files.raw_batches(room):
        edges = np.empty(u.size, dtype=record)
        edges["u"], edges["v"], edges["w"] = _ordered(u), _ordered(v), 1.0 if weights is None else weights
        _append_by(by_source, edges[u != v], "u", bounds)
    by_source.close()
    by_target = Files(folder, "by-target", bounds.size + 1, record)
    for edges in finder.looked_up(by_source, "u"):
        _append_by(by_target, edges, "v", bounds)
    by_target.close()

    def batches() -> Iterator[Edges]:
        for edges in finder.looked_up(by_target, "v", keep=True):
            weights = edges["w"].copy() if files.has_weights else None
            yield edges["u"].astype(np.int64), edges["v"].astype(np.int64), weights

    return Numbered(finder.n_ids, batches, finder.numbers(), finder.texts())


def _ordered(ids: Array) -> Array:
    """Whole numbers as unsigned ones in the same order."""
    return ids if ids.dtype == np.uint64 else ids.view(np.uint64) ^ np.uint64(2**63)


def _bounded(files: EdgeFiles, room: int, tell: Tell) -> Array:
    """Ids that divide all ids into runs, each of which can be sorted in memory; those of numbers are from a sample."""
    if files.id_type == "text":  # whose hashes are spread evenly, and whose texts are sorted with them
        need = 2 * files.n_rows * (_PER_SORTED_ID + _PER_SORTED_TEXT) + _TEXT_COPIES * files.n_bytes
        n_runs = int(min(_MOST_BUCKETS, 1 + need // room))
        return np.array([k * 2**64 // n_runs for k in range(1, n_runs)], dtype=np.uint64)
    sample, done, in_all = [], 0, 0
    for u, v, _ in files.raw_batches(room):
        ids = distinct(_ordered(np.concatenate([u, v])))
        sample.append(ids[:: max(1, ids.size // _SAMPLE)])
        in_all += ids.size
        done += u.size
        tell("ids", done, files.n_rows)
    n_runs = min(_MOST_BUCKETS, 1 + in_all * _PER_SORTED_ID // room)
    found = distinct(np.concatenate(sample))
    return np.unique(found[np.arange(1, n_runs) * found.size // n_runs])


def _append_by(files: Files, edges: Array, end: str, bounds: Array) -> None:
    """Add edges to the files of the runs in which one of their ends is."""
    run = np.searchsorted(bounds, edges[end], side="right").astype(np.uint16)
    order = np.argsort(run, kind="stable")
    ends = np.searchsorted(run[order], np.arange(len(files.paths) + 1))
    for k in np.flatnonzero(np.diff(ends)).tolist():
        files.append(k, edges[order[ends[k] : ends[k + 1]]])


class _Finder:
    """All ids there are, in order, in a file for each run of them; and their numbers."""

    def __init__(self, files: EdgeFiles, folder: Path, bounds: Array, room: int) -> None:
        self._files, self._folder, self._bounds, self._room = files, folder, bounds, room
        self._runs: list[Stored] = []
        self._texts: list[Any] = []

    @property
    def n_ids(self) -> int:
        return sum(run.size for run in self._runs)

    def gather(self, tell: Tell) -> None:
        """Sort the ids, each once."""
        n_runs, done = self._bounds.size + 1, 0
        found = Files(self._folder, "found", n_runs, np.uint64)
        for u, v, _ in self._files.raw_batches(self._room, with_weights=False):
            ids = distinct(_ordered(np.concatenate([u, v])))
            ends = [0, *np.searchsorted(ids, self._bounds).tolist(), ids.size]
            for k in range(n_runs):
                if ends[k] < ends[k + 1]:
                    found.append(k, ids[ends[k] : ends[k + 1]])
            done += u.size
            tell("ids", done, self._files.n_rows)
        found.close()
        kept = Files(self._folder, "ids", n_runs, np.uint64)
        for k in range(n_runs):
            run, ids = found.stored(k), np.empty(0, np.uint64)
            for start in range(0, run.size, step := max(1024, self._room // _PER_SORTED_ID)):
                ids = distinct(np.concatenate([ids, run.read(start, min(run.size, start + step))]))
            kept.append(k, ids)
            found.remove(k)
        kept.close()
        self._runs = [kept.stored(k) for k in range(n_runs)]

    def looked_up(self, files: Files, end: str, *, keep: bool = False) -> Iterator[Array]:
        """The edges of all runs, one of their ends as its number; the files are removed unless they are to stay."""
        base = 0
        for k, run in enumerate(self._runs):
            ids, edges = run.read(0, run.size), files.stored(k)
            for start in range(0, edges.size, step := max(1024, self._room // PER_ROW)):
                block = edges.read(start, min(edges.size, start + step))
                block[end] = np.searchsorted(ids, block[end]) + base
                yield block
            base += ids.size
            if not keep:
                files.remove(k)

    def numbers(self) -> Array | None:
        """The ids as the user has them, in a file; None where they are texts."""
        if self._files.id_type == "text":
            return None
        path, dtype = self._folder / "all-ids.raw", np.dtype(self._files.id_type)
        with path.open("wb") as file:
            for run in self._runs:
                ids = run.read(0, run.size)
                (ids if dtype == np.uint64 else ids ^ np.uint64(2**63)).tofile(file)
        return np.memmap(path, dtype=dtype, mode="r")

    def texts(self) -> Texts | None:
        """The texts of the ids in the order of their numbers; None where they are numbers."""
        if self._files.id_type != "text":
            return None
        import pyarrow as pa

        schema = pa.schema([("hash", pa.uint64()), ("text", pa.large_string())])
        paths = [self._folder / f"texts-{k}.arrow" for k in range(len(self._runs))]
        with ExitStack() as stack:
            writers = [stack.enter_context(pa.ipc.new_stream(str(path), schema)) for path in paths]
            for hashes, texts in self._files.different_texts(self._room):
                order = np.argsort(hashes)
                ends = [0, *np.searchsorted(hashes[order], self._bounds).tolist(), hashes.size]
                for k, writer in enumerate(writers):
                    own = order[ends[k] : ends[k + 1]]
                    if own.size:
                        columns = [pa.array(hashes[own]), texts.take(pa.array(own)).cast(pa.large_string())]
                        writer.write_batch(pa.record_batch(columns, schema=schema))
        path = self._folder / "texts.arrow"
        with pa.ipc.new_file(str(path), schema) as kept:
            for one in paths:
                kept.write_table(_each_once(one))
                one.unlink()
        bounds = np.cumsum([0, *(run.size for run in self._runs)])
        return Texts(path, bounds)


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of all ids in a file of Arrow's, a batch for each run of them; `bounds` says where runs begin."""

    path: Path
    bounds: IntArray

    def of(self, numbers: IntArray) -> Array:
        """The texts of these numbers."""
        import pyarrow as pa

        found = np.empty(numbers.size, dtype=object)
        run = np.searchsorted(self.bounds, numbers, side="right") - 1
        with pa.memory_map(str(self.path)) as source:
            file = pa.ipc.open_file(source)
            batches = iter(file.get_batch(k) for k in range(file.num_record_batches))
            for k in range(self.bounds.size - 1):
                if self.bounds[k] == self.bounds[k + 1]:
                    continue
                texts = next(batches).column("text")
                own = np.flatnonzero(run == k)
                found[own] = texts.take(pa.array(numbers[own] - self.bounds[k])).to_pylist()
        return found


def _each_once(path: Path) -> Any:
    """The table of hashes and texts in a file, in the order of the hashes, each once."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_stream(source).read_all()
        hashes = table.column("hash").to_numpy()
        order = np.argsort(hashes, kind="stable")
        is_new = np.concatenate([[True], np.diff(hashes[order]) != 0])[: hashes.size]
        once = table.take(pa.array(order)).combine_chunks()
    texts, first = once.column("text"), np.flatnonzero(is_new)
    again = np.flatnonzero(~is_new)
    if again.size and not texts.take(pa.array(again)).equals(texts.take(pa.array(again - 1))):
        raise InputError("two texts that are ids hash to the same number. Give numbers as ids.")
    return once.take(pa.array(first)).combine_chunks()
