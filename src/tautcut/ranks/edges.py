"""Lists of edges in Parquet, of any size: which files and columns they are, the numbers that vertices get, and the rows
of their graph, made within a limit of memory. It owns how users' ids become numbers (decision 0059); what weights and
repeats may be is as for `Graph.from_edges`. Nothing is ever held whole but what has one number for each vertex.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.formats.base import reading
from tautcut.formats.graphs import ENDS, WEIGHTS
from tautcut.memory import foresee
from tautcut.ranks.files import SUFFIX
from tautcut.ranks.rows import Edges, Files, Rows, Stored, distinct, sorted_rows

Tell = Callable[[str, int, int], None]

_PER_ROW = 400  # bytes that a listed edge takes while its batch is worked on
_LARGEST_BATCH = 2**20
_PER_ID = 24  # bytes for each possible id, where ids are looked up in a table
_PER_VERTEX = 64  # bytes that all steps take of memory, blocks aside
_SAMPLE = 512  # ids of each batch, by which buckets of ids are bounded
_PER_SORTED_ID, _PER_SORTED_TEXT = 40, 60  # bytes
_TEXT_COPIES = 4  # of the texts, while those of a run are sorted
_MOST_BUCKETS = 250


@dataclass(frozen=True)
class EdgeFiles:
    """Parquet files of edges, and the columns in which the ends and the weights of edges are."""

    paths: tuple[Path, ...]
    columns: tuple[tuple[str, str, str | None], ...]  # of each file
    n_rows: int
    n_bytes: int  # of the ids; of all columns, where ids are texts
    id_type: str  # "int64", "uint64" or "text"

    @property
    def has_weights(self) -> bool:
        return any(weight is not None for *_, weight in self.columns)

    def raw_batches(self, room: int, *, with_weights: bool = True) -> Iterator[tuple[Array, Array, FloatArray | None]]:
        """The edges as they are listed, loops among them: ids of both ends, and weights; 1 where a file has none."""
        import pyarrow.parquet as pq

        size = int(min(_LARGEST_BATCH, max(1000, room // _PER_ROW)))
        is_weighed = self.has_weights and with_weights
        for path, (u, v, w) in zip(self.paths, self.columns, strict=True):
            wanted = [u, v] if w is None or not is_weighed else [u, v, w]
            with reading(path, "a Parquet file"), pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
                for batch in file.iter_batches(size, columns=wanted, use_threads=False):
                    ends = [self._ids(batch.column(name), name, path) for name in (u, v)]
                    weights = None
                    if is_weighed:
                        weights = np.ones(len(batch)) if w is None else _weights(batch.column(w), w, path)
                        _check_weights(batch.column(u), batch.column(v), weights, ends[0] != ends[1])
                    yield ends[0], ends[1], weights

    def different_texts(self, room: int) -> Iterator[tuple[Array, Any]]:
        """What the ids of a column hash to, and their texts, each once in a batch."""
        import pyarrow.parquet as pq

        size = int(min(_LARGEST_BATCH, max(1000, room // _PER_ROW)))
        for path, (u, v, _) in zip(self.paths, self.columns, strict=True):
            with reading(path, "a Parquet file"), pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
                for batch in file.iter_batches(size, columns=[u, v], use_threads=False):
                    for name in (u, v):
                        yield _hashed(batch.column(name))[1:]

    def _ids(self, column: Any, name: str, path: Path) -> Array:
        """A column of ids as numbers: texts by what they hash to."""
        if column.null_count:
            raise InputError(f"column {name!r} of '{path}' names no vertex in some rows. Give every edge two ends.")
        if self.id_type == "text":
            return _hashed(column)[0]
        values: Array = column.to_numpy(zero_copy_only=False)
        if self.id_type == "uint64" and values.dtype.kind == "i" and values.size and values.min() < 0:
            raise InputError(
                f"ids are unsigned numbers in one column and negative in another: found {values.min()} in '{path}'. "
                "Give all of them one type."
            )
        return values.astype(np.uint64 if self.id_type == "uint64" else np.int64)


# ---------------------------------------------------------------- which files, which columns


def edge_files(sources: Sequence[Path], *, is_certain: bool = False) -> EdgeFiles | None:
    """The lists of edges that were given: Parquet files, and folders of them; None where they are something else.

    A single table whose columns do not look like edges is taken for features, unless it `is_certain` that it has edges.
    """
    found_in = {source: _parquet_of(source) for source in sources}
    paths = [path for found in found_in.values() for path in found]
    if not paths:
        return None
    empty = next((source for source, found in found_in.items() if not found), None)
    if empty is not None:
        raise InputError(f"'{empty}' holds no list of edges in .parquet, as the other inputs do. Leave it out.")
    is_many = is_certain or len(sources) > 1 or len(paths) > 1
    columns, types, n_rows, n_bytes = [], set(), 0, 0
    for path in paths:
        found, kinds, rows = _columns_of(path)
        if found is None and not is_many:
            return None
        if found is None:
            raise InputError(
                f"'{path}' is no list of edges. Name two of its columns source and target, and one of weights weight; "
                "or give two or three columns, ids first."
            )
        columns.append(found)
        types.update(kinds)
        n_rows += rows
        n_bytes += _bytes_of(path) if "text" in kinds else 16 * rows
    if "text" in types and len(types) > 1:
        raise InputError("vertices have texts as ids in one column and numbers in another. Give all of them one type.")
    return EdgeFiles(tuple(paths), tuple(columns), n_rows, n_bytes, max(types))  # "uint64" if one is


def _parquet_of(source: Path) -> list[Path]:
    """The file, or those in the folder: not what is hidden, nor what is in sharded graphs."""
    if not source.is_dir():
        return [source] if source.suffix.lower() == ".parquet" else []
    found = [path for path in source.rglob("*.parquet") if path.is_file()]
    parts = {path: path.relative_to(source).parts for path in found}
    return sorted(
        path for path in found if not any(one.startswith((".", "_")) or one.endswith(SUFFIX) for one in parts[path])
    )


def _columns_of(path: Path) -> tuple[tuple[str, str, str | None] | None, set[str], int]:
    """The columns of both ends and of the weights, the types of the ends, and how many rows there are."""
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError(f"'{path}' does not exist. Check the path.")
    with reading(path, "a Parquet file"), pq.ParquetFile(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    names = [name.strip().casefold().replace(" ", "_") for name in schema.names]
    ends = next(((names.index(u), names.index(v)) for u, v in sorted(ENDS) if u in names and v in names), None)
    if ends is None and len(names) not in (2, 3):
        return None, set(), 0
    u, v = ends or (0, 1)
    named = next((names.index(one) for one in WEIGHTS if one in names), None)
    w = named if named is not None else next((j for j in range(len(names)) if j not in (u, v)), None)
    w = w if named is not None or len(names) == 3 else None
    kinds = [_id_kind(schema.field(j).type) for j in (u, v)]
    if any(kind is None for kind in kinds) or (w is not None and not _is_number(schema.field(w).type)):
        if ends is None:
            return None, set(), 0
        odd = next((j for j, kind in zip((u, v), kinds, strict=True) if kind is None), w)
        what = "whole numbers or texts as ids" if odd in (u, v) else "numbers as weights"
        raise InputError(
            f"column {schema.names[odd or 0]!r} of '{path}' holds {schema.field(odd or 0).type}; edges have {what}. "
            "Convert it."
        )
    weight = None if w is None else schema.names[w]
    return (schema.names[u], schema.names[v], weight), {kind for kind in kinds if kind is not None}, n_rows


def _bytes_of(path: Path) -> int:
    """What the columns of a file take; at most, where texts repeat and are kept once."""
    import pyarrow.parquet as pq

    with reading(path, "a Parquet file"), pq.ParquetFile(path) as file:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        return sum(max(0, one.total_byte_size) for one in groups)


def _id_kind(type_: Any) -> str | None:
    import pyarrow as pa

    if pa.types.is_integer(type_):
        return "uint64" if pa.types.is_uint64(type_) else "int64"
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return "text" if pa.types.is_string(value) or pa.types.is_large_string(value) else None


def _is_number(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_))


def _weights(column: Any, name: str, path: Path) -> FloatArray:
    if column.null_count:
        raise InputError(f"weights must be numbers; column {name!r} of '{path}' has empty cells. Fill them.")
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _check_weights(u: Any, v: Any, weights: FloatArray, proper: BoolArray) -> None:
    """Refuse weights that `Graph` refuses, by the ids in these columns; those of loops do not count."""
    for demand, bad, fix in (
        ("numbers", np.isnan(weights), "Replace it, or remove that edge."),
        ("finite", np.isinf(weights), "Replace it by a finite weight."),
        ("≥ 0", weights < 0, "Clip or shift the weights."),
    ):
        bad &= proper
        if bad.any():
            at = int(bad.argmax())
            raise InputError(
                f"weights must be {demand}; found {weights[at]} on edge ({u[at].as_py()}, {v[at].as_py()}). {fix}"
            )


def _hashed(column: Any) -> tuple[Array, Array, Any]:
    """What the texts of a column hash to; and each different one once, beside its text."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = coded.dictionary
    hashes = np.array(
        [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts.to_pylist()],
        dtype=np.uint64,
    )
    return hashes[coded.indices.to_numpy(zero_copy_only=False)], hashes, texts


# ---------------------------------------------------------------- the numbers of vertices


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
            for start in range(0, edges.size, step := max(1024, self._room // _PER_ROW)):
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
