"""The rows of a graph that may be too large for memory: read in blocks, from arrays or from files, and made of edges in
any order by an external sort. It owns that sort, its temporary files and what repeats of an edge become; what has one
number for each vertex stays in memory (decision 0059). It knows no format that users have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.adapters import differ, midpoint
from tautcut.writing import naming

Edges: TypeAlias = "tuple[IntArray, IntArray, FloatArray | None]"  # rows, columns, weights if there are any

_PER_SORTED_ENTRY = 112  # bytes that an entry takes while its bucket is sorted
_MOST_BUCKETS = 400  # files that are open at once
_GRANULES = 2**16  # runs of vertices whose entries are counted, of which buckets are made


@dataclass(frozen=True, eq=False)
class Stored:
    """Numbers in an array, or in a file of nothing else; read in pieces."""

    source: Array | Path
    dtype: np.dtype[Any]
    size: int

    @classmethod
    def of(cls, array: Array) -> Stored:
        return cls(array, array.dtype, int(array.size))

    def read(self, start: int, stop: int) -> Array:
        """The numbers from place `start` to before `stop`."""
        if isinstance(self.source, Path):
            offset = start * self.dtype.itemsize
            return np.fromfile(self.source, dtype=self.dtype, count=stop - start, offset=offset)
        return self.source[start:stop]

    def mapped(self) -> Array:
        """All of them, as far as they are looked at."""
        if isinstance(self.source, Path):
            return np.memmap(self.source, dtype=self.dtype, mode="r") if self.size else np.empty(0, self.dtype)
        return self.source

    def remove(self) -> None:
        """Delete the file, if it is one."""
        if isinstance(self.source, Path):
            self.source.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a symmetric matrix in CSR order; `weights` is None where all are 1."""

    indptr: IntArray
    indices: Stored
    weights: Stored | None

    @classmethod
    def of(cls, graph: Graph) -> Rows:
        """Those of a graph that is in memory."""
        weights = None if graph.is_unweighted else Stored.of(graph.weights)
        return cls(graph.indptr, Stored.of(graph.indices), weights)

    @property
    def n_vertices(self) -> int:
        return int(self.indptr.size - 1)

    @property
    def n_entries(self) -> int:
        return int(self.indptr[-1])

    def blocks(self, most: int) -> Iterator[tuple[int, int]]:
        """Runs of vertices, from the first to before the second, of so many entries together if that is possible."""
        first = 0
        while first < self.n_vertices:
            end = int(np.searchsorted(self.indptr, self.indptr[first] + most, side="right")) - 1
            stop = min(max(first + 1, end), first + max(1, most), self.n_vertices)
            yield first, stop
            first = stop

    def read(self, first: int, stop: int) -> tuple[IntArray, Array, FloatArray | None]:
        """The rows of a run of vertices: where each begins, from 0, the columns and the weights."""
        start, end = int(self.indptr[first]), int(self.indptr[stop])
        weights = None if self.weights is None else self.weights.read(start, end)
        return self.indptr[first : stop + 1] - start, self.indices.read(start, end), weights

    def remove(self) -> None:
        """Delete the files, if there are any."""
        self.indices.remove()
        if self.weights is not None:
            self.weights.remove()


@dataclass(frozen=True)
class Weighing:
    """The weights of all entries: the smallest, the largest and the mean; 1 where there are none."""

    smallest: float = 1.0
    largest: float = 1.0
    mean: float = 1.0

    @property
    def is_uniform(self) -> bool:
        return self.smallest == self.largest


def weighing_of(rows: Rows, room: int) -> Weighing:
    """What is to be known of the weights; refused if they add up to more than there are numbers for."""
    if rows.weights is None or not rows.n_entries:
        return Weighing()
    smallest, largest, n_done, mean = math.inf, 0.0, 0, 0.0
    for start in range(0, rows.n_entries, step := max(1024, room // 64)):
        block = rows.weights.read(start, min(rows.n_entries, start + step))
        smallest, largest = min(smallest, float(block.min())), max(largest, float(block.max()))
        n_done += block.size
        mean += (float((block / block.size).sum()) - mean) * (block.size / n_done)
    if not math.isfinite(2.0 * mean * rows.n_entries):
        raise InputError(f"the total weight overflows; the largest weight is {largest}. Divide the weights by that.")
    return Weighing(smallest, largest, mean if smallest < largest else smallest)


# ---------------------------------------------------------------- sorting


class Files:
    """Files of numbers of one type, appended to in turn; closed and removed by their owner."""

    def __init__(self, folder: Path, name: str, n_files: int, dtype: Any) -> None:
        self.paths = [folder / f"{name}-{k}.raw" for k in range(n_files)]
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._open: list[BinaryIO | None] = [None] * n_files
        self._stack = ExitStack()

    def append(self, k: int, values: Array) -> None:
        """Add numbers to the k-th file."""
        file = self._open[k]
        if file is None:
            file = self._open[k] = self._stack.enter_context(self.paths[k].open("wb", buffering=2**16))
        file.write(np.ascontiguousarray(values, dtype=self.dtype).view(np.uint8).data)

    def close(self) -> None:
        """Write what is left of them."""
        self._stack.close()

    def stored(self, k: int) -> Stored:
        path = self.paths[k]
        size = path.stat().st_size // self.dtype.itemsize if path.exists() else 0
        return Stored(path, self.dtype, size) if size else Stored.of(np.empty(0, self.dtype))

    def remove(self, k: int) -> None:
        """Delete the k-th file."""
        self.paths[k].unlink(missing_ok=True)


def sorted_rows(
    batches: Callable[[], Iterable[Edges]], n_vertices: int, folder: Path, *, room: int, has_weights: bool,
    is_sum: bool = False, named: Callable[[int], object] = lambda number: number,
    tell: Callable[[int], None] = lambda done: None, name: str = "rows",
) -> Rows:  # fmt: skip
    """The rows of edges that come in any order.

    Parameters
    ----------
    batches : gives the edges, the same each time it is called; without loops.
    n_vertices : how many rows there are.
    folder : where temporary files may be written, and the rows stay.
    room : bytes of memory that may be taken, besides some for each vertex.
    has_weights : whether the edges have weights.
    is_sum : whether the weights of repeats add up, and every edge comes in both directions; else an edge comes in
        either or in both, repeats have to have one weight, and edges of weight 0 are left out.
    named : what a vertex is called in errors.
    tell : is told how many edges have been seen.
    """
    buckets = _Buckets(batches, n_vertices, folder, room=room, has_weights=has_weights, is_sum=is_sum)
    buckets.fill(batches, tell)
    counts = np.zeros(n_vertices, dtype=np.int64)
    indices = Files(folder, f"{name}-indices", 1, np.int32)
    weights = Files(folder, f"{name}-weights", 1, np.float64)
    for k in range(buckets.n_buckets):
        keys, values = buckets.merged(k, named)
        first = buckets.bounds[k]
        own, columns = np.divmod(keys, np.uint64(n_vertices))
        counts[first : buckets.bounds[k + 1]] = np.bincount(
            own.astype(np.int64), minlength=buckets.bounds[k + 1] - first
        )
        with naming(folder):
            indices.append(0, columns)
            if values is not None:
                weights.append(0, values)
    for files in (indices, weights):
        with naming(folder):
            files.close()
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return Rows(indptr, indices.stored(0), weights.stored(0) if has_weights else None)


class _Buckets:
    """Entries by runs of rows, in files, each run small enough to be sorted in memory."""

    def __init__(
        self, batches: Callable[[], Iterable[Edges]], n_vertices: int, folder: Path, *, room: int, has_weights: bool,
        is_sum: bool,
    ) -> None:  # fmt: skip
        self._n, self._room, self._is_sum = n_vertices, room, is_sum
        self.bounds = self._bounded(batches)
        self.n_buckets = self.bounds.size - 1
        self._keys = Files(folder, "keys", self.n_buckets, np.uint64)
        self._values = Files(folder, "values", self.n_buckets, np.float64) if has_weights else None
        self._folder = folder

    def _bounded(self, batches: Callable[[], Iterable[Edges]]) -> IntArray:
        """Where buckets begin: runs of rows with about as many entries as can be sorted at once."""
        width = -(-self._n // _GRANULES)
        loads = np.zeros(-(-self._n // width), dtype=np.int64)
        for u, v, _ in batches():
            for ends in (u,) if self._is_sum else (u, v):
                loads += np.bincount(ends // width, minlength=loads.size)
        total = int(loads.sum())
        most = max(self._room // _PER_SORTED_ENTRY, total // (_MOST_BUCKETS - 1), 1)
        # A key is row · n + column, counted from the bucket's first row: it has to fit into 64 bits.
        longest = max(1, (2**63 // max(1, self._n)) // width)
        bounds, held, length = [0], 0, 0
        for granule, load in enumerate(loads.tolist()):
            if granule and (held + load > most or length == longest):
                bounds.append(granule * width)
                held, length = 0, 0
            held, length = held + load, length + 1
        return np.array([*bounds, self._n], dtype=np.int64)

    def fill(self, batches: Callable[[], Iterable[Edges]], tell: Callable[[int], None]) -> None:
        """Write every entry to the file of its bucket."""
        done = 0
        for u, v, weights in batches():
            self._add(u, v, weights)
            if not self._is_sum:
                self._add(v, u, weights)
            done += u.size
            tell(done)
        for files in (self._keys, self._values):
            if files is not None:
                with naming(self._folder):
                    files.close()

    def _add(self, rows: IntArray, columns: IntArray, weights: FloatArray | None) -> None:
        bucket = (np.searchsorted(self.bounds, rows, side="right") - 1).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self.n_buckets + 1))
        keys = ((rows - self.bounds[bucket]).astype(np.uint64) * np.uint64(self._n) + columns.astype(np.uint64))[order]
        with naming(self._folder):
            for k in np.flatnonzero(np.diff(ends)).tolist():
                self._keys.append(k, keys[ends[k] : ends[k + 1]])
                if self._values is not None and weights is not None:
                    self._values.append(k, weights[order[ends[k] : ends[k + 1]]])

    def merged(self, k: int, named: Callable[[int], object]) -> tuple[Array, FloatArray | None]:
        """The entries of a bucket in order, each once; its files are removed."""
        keys, low, high = np.empty(0, np.uint64), np.empty(0), np.empty(0)
        stored = self._keys.stored(k)
        values = None if self._values is None else self._values.stored(k)
        step = max(1024, self._room // _PER_SORTED_ENTRY)  # all of it, but where one granule has more
        for start in range(0, stored.size, step):
            stop = min(stored.size, start + step)
            keys = np.concatenate([keys, stored.read(start, stop)])
            if values is None:
                keys = distinct(keys)
            else:
                new = values.read(start, stop)
                low, high = np.concatenate([low, new]), np.concatenate([high, new])
                keys, low, high = _gathered(keys, low, high, is_sum=self._is_sum)
        self._keys.remove(k)
        if self._values is None or values is None:
            return keys, None
        self._values.remove(k)
        if self._is_sum:
            return keys, low
        conflict = differ(low, high)
        if conflict.any():
            at = int(conflict.argmax())
            row, column = divmod(int(keys[at]), self._n)
            ends = sorted([int(self.bounds[k]) + row, column])
            i, j = (named(one) for one in ends)
            raise InputError(f"edge ({i}, {j}) is listed with different weights, {low[at]} and {high[at]}. Keep one.")
        found = midpoint(low, high)
        keep = found != 0
        return (keys, found) if keep.all() else (keys[keep], found[keep])


def distinct(keys: Array) -> Array:
    """Each number once, in order; sorts `keys`. NumPy's own looks them up in a table, which takes longer."""
    keys.sort()
    if keys.size < 2:
        return keys
    is_new = np.concatenate([[True], keys[1:] != keys[:-1]])
    return keys if is_new.all() else keys[is_new]


def _gathered(keys: Array, low: FloatArray, high: FloatArray, *, is_sum: bool) -> tuple[Array, FloatArray, FloatArray]:
    """Each key once, in order, with the lowest and the highest of its weights, or their sum."""
    if not keys.size:
        return keys, low, high
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    low = low[order]
    if is_sum:
        low = np.add.reduceat(low, first)
        return keys[first], low, low
    if first.size == keys.size:
        return keys, low, high[order]
    return keys[first], np.minimum.reduceat(low, first), np.maximum.reduceat(high[order], first)
