"""A graph in parts on disk: the folder NAME.shards, with a manifest and a folder of .npy files for each part. It owns
that format, its writing (whole or not at all, the manifest last) and its reading, memory-mapped, never unpickled, and
checked against the manifest. How a graph is divided is not decided here (decision 0059).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tautcut._version import __version__
from tautcut.arrays import Array
from tautcut.errors import InputError
from tautcut.graph.shard import Shard, Whole
from tautcut.writing import AnyPath, building, flush_to_disk, naming

SUFFIX = ".shards"
MANIFEST = "manifest.json"

_FORMAT = "tautcut shards"
_NUMBER = 1  # of the format: folders of another are refused
_LARGEST_MANIFEST = 2**28  # bytes: a million parts, and more than anybody has
# How a .npy file of format 1.0 begins. It is matched, not evaluated as NumPy does it: what is damaged never gets there.
_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type><[iuf][48])', 'fortran_order': False, "
    rb"'shape': \((?P<size>\d{1,19}),\), \} *\n",
    re.DOTALL,
)
_LARGEST_HEAD = 2**16  # bytes
_BLOCK = 2**22  # entries that are looked at together
_MOST = 2**62  # that a count can be


@dataclass(frozen=True)
class PartFacts:
    """The sizes of a part: its own vertices, those of them with a neighbour elsewhere, its ghosts, those of them that
    other nodes own, its directed edges, and how many rows it sends to others; and the digest of its files.
    """

    n_own: int
    n_boundary: int
    n_ghosts: int
    n_foreign: int
    n_entries: int
    n_sent: int
    digest: str = ""


@dataclass(frozen=True, eq=False)
class ShardedGraph:
    """A graph that is divided into parts on disk, as `tautcut shard` makes it. Open one by :meth:`open`.

    Attributes
    ----------
    path : Path
        The folder.
    whole : Whole
        What is known of the whole graph: its vertices, edges, parts, total mass and units.
    hierarchy : tuple of int
        The parts at each level: (8,), or (8, 8) for 8 nodes with 8 parts each, of which node · 8 + k is one. Where
        there is one level, every part is a node.
    parts : tuple of PartFacts
        The sizes of each part.
    digest : str
        What tells this division of this graph from every other.
    """

    path: Path
    whole: Whole
    hierarchy: tuple[int, ...]
    parts: tuple[PartFacts, ...]
    digest: str
    has_weights: bool  # whether any edge weighs other than 1
    has_masses: bool  # whether any vertex has a mass other than 1
    id_kind: str | None  # how the users' ids are kept: "numbers", "texts", or not at all

    @classmethod
    def open(cls, path: AnyPath) -> ShardedGraph:
        """The sharded graph in a folder.

        Raises
        ------
        InputError
            If the folder is none, was not written to its end, or is of another version of the format.
        """
        folder = Path(path)
        content = _manifest(folder)
        try:
            text = json.loads(content)
            if not isinstance(text, dict) or text.get("format") != _FORMAT:
                raise InputError(f"'{folder}' holds no sharded graph: its {MANIFEST} is of something else.")
            if text.get("number") != _NUMBER:
                raise InputError(
                    f"'{folder}' has the format number {text.get('number')!r}, and this version of tautcut reads "
                    f"{_NUMBER}. Shard the graph again."
                )
            found = cls(
                path=folder,
                whole=_record(Whole, text["whole"]),
                hierarchy=tuple(_count(one) for one in text["hierarchy"]),
                parts=tuple(_record(PartFacts, one) for one in text["parts"]),
                digest=hashlib.sha256(content).hexdigest(),
                has_weights=_flag(text["has_weights"]),
                has_masses=_flag(text["has_masses"]),
                id_kind=text["id_kind"],
            )
            found._check_sums()
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise _torn(folder, f"its {MANIFEST} makes no sense ({type(error).__name__}: {error})"[:200]) from error
        return found

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    @property
    def halo_share(self) -> float:
        """The ghosts of all parts together, as a share of all vertices."""
        return sum(one.n_ghosts for one in self.parts) / self.whole.n_vertices

    @property
    def halo_shares(self) -> tuple[float, ...]:
        """The halo share of each level of the hierarchy: the ghosts of other nodes, and those inside nodes."""
        between = sum(one.n_foreign for one in self.parts) / self.whole.n_vertices
        return (between,) if len(self.hierarchy) == 1 else (between, self.halo_share - between)

    def part(self, number: int) -> Shard:
        """A part, its arrays memory-mapped and read-only; what all parts have alike is made up.

        Its sizes, types and the range of its indices are checked, so that a damaged file is an InputError.
        """
        facts, folder = self.parts[number], _folder(self.path, number)
        arrays: dict[str, Array] = {
            name: _mapped(folder / f"{name}.npy", dtype, size) for name, (dtype, size) in self._files(facts).items()
        }
        arrays.setdefault("weights", np.ones(facts.n_entries))
        arrays.setdefault("masses", np.ones(facts.n_own))
        _check_part(arrays, facts, self.whole, folder)
        return Shard(number=number, n_boundary=facts.n_boundary, whole=self.whole, **arrays)

    def ids(self, number: int) -> Array | None:
        """The users' ids of a part's own vertices, in the order of `Shard.vertices`; None where these are the ids."""
        facts, folder = self.parts[number], _folder(self.path, number)
        if self.id_kind is None:
            return None
        if self.id_kind == "texts":
            return _texts(folder / "ids.parquet", facts.n_own)
        return _mapped(folder / "ids.npy", None, facts.n_own)

    def _files(self, facts: PartFacts) -> dict[str, tuple[DTypeLike, int]]:
        """The type and size of each file of a part."""
        files: dict[str, tuple[DTypeLike, int]] = {
            "vertices": (np.int64, facts.n_own),
            "ghosts": (np.int64, facts.n_ghosts),
            "ghost_ptr": (np.int64, self.n_parts + 1),
            "indptr": (np.int64, facts.n_own + 1),
            "indices": (np.int32, facts.n_entries),
            "sent": (np.int32, facts.n_sent),
            "sent_ptr": (np.int64, self.n_parts + 1),
        }
        if self.has_weights:
            files["weights"] = (np.float64, facts.n_entries)
        if self.has_masses:
            files["masses"] = (np.float64, facts.n_own)
        return files

    def _check_sums(self) -> None:
        """Refuse a manifest that contradicts itself."""
        whole, parts = self.whole, self.parts
        sums = {
            "hierarchy": (math.prod(self.hierarchy), len(parts)),
            "number of parts": (whole.n_parts, len(parts)),
            "vertices": (sum(one.n_own for one in parts), whole.n_vertices),
            "edges": (sum(one.n_entries for one in parts), 2 * whole.n_edges),
            "ghosts": (sum(one.n_sent for one in parts), sum(one.n_ghosts for one in parts)),
        }
        for what, (here, there) in sums.items():
            if here != there:
                raise _torn(self.path, f"its {MANIFEST} contradicts itself: {what}, {here} and {there}")
        is_sane = bool(parts) and whole.n_vertices > 0 and self.id_kind in (None, "numbers", "texts")
        if not is_sane or any(one.n_boundary > one.n_own or one.n_foreign > one.n_ghosts for one in parts):
            raise _torn(self.path, f"its {MANIFEST} makes no sense")
        units = (whole.total_mass, whole.weight_unit, whole.mass_unit)
        if not all(math.isfinite(one) and one > 0 for one in units):
            raise _torn(self.path, f"its {MANIFEST} has masses or weights that are none")


def is_sharded(path: AnyPath) -> bool:
    """Whether there is a folder of a sharded graph, whole or torn: by its name, or by its manifest."""
    folder = Path(path)
    if not folder.is_dir():
        return False
    if folder.suffix == SUFFIX:
        return True
    try:
        with (folder / MANIFEST).open("rb") as file:
            return _FORMAT.encode() in file.read(200)
    except OSError:
        return False


# ---------------------------------------------------------------- writing


class ShardWriter:
    """Fills the folder of a sharded graph, part by part; made by :func:`writing_shards`."""

    def __init__(self, folder: Path, shown: Path) -> None:
        self.folder = folder  # where it is filled
        self._shown = shown  # as it will be called, and is called in errors
        self._facts: dict[int, PartFacts] = {}

    def working_folder(self) -> Path:
        """A folder for temporary files, which whoever asks for it removes."""
        folder = self.folder / "temporary"
        folder.mkdir()
        return folder

    def part(self, number: int) -> PartWriter:
        """A writer of the files of one part."""
        folder = _folder(self.folder, number)
        folder.mkdir()
        return PartWriter(folder, _folder(self._shown, number))

    def finish_part(self, number: int, writer: PartWriter, *, n_boundary: int, n_foreign: int) -> None:
        """Keep what the manifest will say of a part whose files are written."""
        sizes = writer.sizes
        self._facts[number] = PartFacts(
            n_own=sizes["vertices"], n_boundary=n_boundary, n_ghosts=sizes["ghosts"], n_foreign=n_foreign,
            n_entries=sizes["indices"], n_sent=sizes["sent"], digest=writer.digest,
        )  # fmt: skip

    def finish(
        self, whole: Whole, hierarchy: tuple[int, ...], *, id_kind: str | None, has_weights: bool, has_masses: bool
    ) -> None:
        """Write the manifest, when all parts are there."""
        content = {
            "format": _FORMAT, "number": _NUMBER, "tautcut": __version__, "whole": asdict(whole),
            "hierarchy": list(hierarchy), "has_weights": has_weights, "has_masses": has_masses, "id_kind": id_kind,
            "parts": [asdict(self._facts[number]) for number in range(whole.n_parts)],
        }  # fmt: skip
        path = self.folder / MANIFEST
        with naming(self._shown / MANIFEST):
            path.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
            flush_to_disk(path)


class PartWriter:
    """Writes the files of one part, each at once or in pieces, and takes their digest."""

    def __init__(self, folder: Path, shown: Path) -> None:
        self._folder, self._shown = folder, shown
        self.sizes: dict[str, int] = {}
        self._digests: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """Of all files."""
        told = "".join(f"{name} {one};" for name, one in sorted(self._digests.items()))
        return hashlib.sha256(told.encode()).hexdigest()

    def save(self, name: str, array: Array) -> None:
        """Write an array."""
        with self.pieces(name, array.dtype, array.size) as append:
            for one in _blocks(array):
                append(one)

    @contextmanager
    def pieces(self, name: str, dtype: DTypeLike, size: int) -> Iterator[Callable[[Array], None]]:
        """A function that writes the pieces of an array, one after another."""
        path, hashed, kind = self._folder / f"{name}.npy", hashlib.sha256(), np.dtype(dtype)
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (size,)}
        with naming(self._shown / path.name):
            with path.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)

                def append(piece: Array) -> None:
                    content = np.ascontiguousarray(piece, dtype=kind).view(np.uint8).data
                    hashed.update(content)
                    file.write(content)

                yield append
            flush_to_disk(path)
        self.sizes[name], self._digests[name] = size, hashed.hexdigest()

    def save_ids(self, ids: Array) -> None:
        """Write the users' ids: whole numbers, or texts."""
        if ids.dtype.kind in "iu":
            self.save("ids", ids)
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self._folder / "ids.parquet"
        with naming(self._shown / path.name):
            pq.write_table(pa.table({"id": pa.array(ids.tolist(), pa.large_string())}), path)
            flush_to_disk(path)
        self._digests["ids"] = hashlib.sha256("\0".join(ids.tolist()).encode()).hexdigest()


@contextmanager
def writing_shards(path: AnyPath) -> Iterator[ShardWriter]:
    """A writer of the folder `path`, which is there when all went well, and nothing of it when not."""
    final = new_folder(path)
    with building(final) as part:
        yield ShardWriter(part, final)


def new_folder(path: AnyPath) -> Path:
    """The path, if a sharded graph can be written there; nothing is ever overwritten."""
    final = Path(path)
    if final.suffix != SUFFIX:
        raise InputError(f"'{final}' cannot be written: the name of a sharded graph must end in {SUFFIX}.")
    if os.path.lexists(final):
        raise InputError(f"'{final}' is there already, and is not overwritten. Choose another name, or remove it.")
    if not final.parent.is_dir():
        raise InputError(f"'{final}' cannot be written: there is no folder '{final.parent}'. Create it first.")
    if not os.access(final.parent, os.W_OK | os.X_OK):
        raise InputError(f"'{final}' cannot be written: '{final.parent}' is read-only. Choose another folder.")
    return final


# ---------------------------------------------------------------- reading


def _folder(path: Path, number: int) -> Path:
    return path / f"part-{number:05d}"


def _manifest(folder: Path) -> bytes:
    """The bytes of the manifest."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"'{folder}' {what}; a sharded graph is a folder. Make one by 'tautcut shard'.")
    try:
        _check_plain(folder / MANIFEST, _LARGEST_MANIFEST)
        return (folder / MANIFEST).read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"'{folder}' is no sharded graph: it has no {MANIFEST}. Make one by 'tautcut shard'."
        ) from error


def _check_plain(path: Path, most: int | None = None) -> None:
    """Refuse what is no ordinary file: a link could lead anywhere, a pipe never end."""
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"'{path}' is no ordinary file. A sharded graph has no links in it: copy what it leads to.")
    if most is not None and about.st_size > most:
        raise InputError(f"'{path}' is too large to be a manifest: {about.st_size:,} bytes.")


def _mapped(path: Path, dtype: DTypeLike | None, size: int) -> Array:
    """The array of a file, memory-mapped, if it has this size and type; None is any type of whole numbers."""
    try:
        _check_plain(path)
        with path.open("rb") as file:
            head = _HEAD.match(file.read(_LARGEST_HEAD))
    except FileNotFoundError as error:
        raise _torn(path.parent.parent, f"there is no '{path.parent.name}/{path.name}'") from error
    if head is None:
        raise _torn(path.parent.parent, f"'{path.parent.name}/{path.name}' is no .npy file of numbers in a row")
    found, shape, offset = np.dtype(head["type"].decode()), (int(head["size"]),), head.end()
    wanted = "whole numbers" if dtype is None else str(np.dtype(dtype))
    is_typed = found in (np.int64, np.uint64) if dtype is None else found == dtype
    if not is_typed or shape != (size,) or path.stat().st_size != offset + size * found.itemsize:
        raise _torn(
            path.parent.parent,
            f"'{path.parent.name}/{path.name}' holds {found} of shape {shape} in {path.stat().st_size:,} bytes, not "
            f"{wanted} of shape ({size},)",
        )
    if size == 0:  # which cannot be mapped
        return np.empty(0, dtype=found)
    return np.asarray(np.memmap(path, dtype=found, mode="r", offset=offset, shape=shape))


def _texts(path: Path, size: int) -> Array:
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = f"'{path.parent.name}/{path.name}'"
    try:
        _check_plain(path)
        column = pq.read_table(path, columns=["id"]).column("id")
    except FileNotFoundError as error:
        raise _torn(path.parent.parent, f"there is no {name}") from error
    except (pa.ArrowException, OSError, KeyError) as error:
        raise _torn(path.parent.parent, f"{name} cannot be read") from error
    if (
        len(column) != size
        or column.null_count
        or not (pa.types.is_large_string(column.type) or pa.types.is_string(column.type))
    ):
        raise _torn(path.parent.parent, f"{name} holds {len(column)} of {column.type}, not {size} texts")
    texts = np.empty(size, dtype=object)
    texts[:] = column.to_pylist()
    return texts


def _check_part(arrays: dict[str, Array], facts: PartFacts, whole: Whole, folder: Path) -> None:
    """Refuse pointers and indices that lead out of the arrays: compiled code follows them without looking."""
    n_local = facts.n_own + facts.n_ghosts
    pointers = {"indptr": facts.n_entries, "ghost_ptr": facts.n_ghosts, "sent_ptr": facts.n_sent}
    for name, end in pointers.items():
        array = arrays[name]
        is_rising = all(bool((np.diff(one) >= 0).all()) for one in _blocks(array, overlap=1))
        if array[0] != 0 or array[-1] != end or not is_rising:
            raise _torn(folder.parent, f"'{folder.name}/{name}.npy' does not rise from 0 to {end}")
    limits = {
        "indices": n_local, "sent": facts.n_own, "vertices": whole.n_vertices, "ghosts": whole.n_vertices,
    }  # fmt: skip
    for name, limit in limits.items():
        for one in _blocks(arrays[name]):
            if one.min() < 0 or one.max() >= limit:
                raise _torn(folder.parent, f"'{folder.name}/{name}.npy' holds numbers beyond 0 to {limit - 1}")
    for name in ("weights", "masses"):
        for one in _blocks(arrays[name]):
            if not (one.min() > 0 and one.max() < np.inf):
                raise _torn(folder.parent, f"'{folder.name}/{name}.npy' holds what is no number > 0")


def _blocks(array: Array, overlap: int = 0) -> Iterator[Array]:
    for start in range(0, array.size, _BLOCK):
        yield array[start : start + _BLOCK + overlap]


def _torn(folder: Path, why: str) -> InputError:
    return InputError(f"'{folder}' is damaged: {why}. Shard the graph again.")


def _record(kind: Any, content: dict[str, Any]) -> Any:
    """A record of the manifest, each of its fields of the type that it is declared to have."""
    read: dict[Any, Callable[[object], object]] = {"int": _count, "float": _number, "bool": _flag, "str": str}
    return kind(**{field.name: read[field.type](content[field.name]) for field in fields(kind)})


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise ValueError(f"{value!r} is no count")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value
