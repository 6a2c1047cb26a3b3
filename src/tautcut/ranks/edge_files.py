"""Lists of edges in Parquet, of any size: which files and columns they are, and what stands in them, a batch at a time.
What weights and repeats may be is as for `Graph.from_edges`. It reads and refuses; `edges` makes a graph of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.arrays import Array, BoolArray, FloatArray
from tautcut.errors import InputError
from tautcut.formats.base import reading
from tautcut.formats.graphs import ENDS, WEIGHTS
from tautcut.ranks.files import SUFFIX

PER_ROW = 400  # bytes that a listed edge takes while its batch is worked on
_LARGEST_BATCH = 2**20


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

        size = int(min(_LARGEST_BATCH, max(1000, room // PER_ROW)))
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

        size = int(min(_LARGEST_BATCH, max(1000, room // PER_ROW)))
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
