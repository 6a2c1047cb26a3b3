"""AnnData's .h5ad files: the graph in `obsp`, or features in `obsm` or X, read element by element without loading the
rest; and a copy of such a file with results added. It reads only encodings that it knows, and only what there is room
for; a file that reaches into another one, by a link or by data that lie elsewhere, is refused whole.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut import memory
from tautcut.arrays import Array, FloatArray
from tautcut.errors import InputError
from tautcut.formats import schema
from tautcut.formats.arrays import checked
from tautcut.formats.base import Data, Selection, decided, foresee, optional, reading
from tautcut.formats.masses import masses_of_texts
from tautcut.formats.tables import as_texts

GRAPH, PCA, X = f"obsp/{schema.GRAPH}", f"obsm/{schema.PCA}", "X"

_MATRICES = ("array", "csr_matrix", "csc_matrix")
_COLUMNS = ("array", "string-array", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")
_PER_TEXT = 100  # bytes that a text takes in memory beside its letters
_MOST_PACKED = 1032  # bytes that a byte of zlib can unpack to
_HEAP = b"GCOL\x01\0\0\0"  # begins a heap of texts
_HEAP_ENTRY = struct.Struct("<H6xQ")  # the number of a text, 0 for what is free, and its size
_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])  # to a text, as HDF5 stores it


def read_h5ad(path: Path, selection: Selection) -> Data:
    """The graph or the features of the cells, named as in the file; ids are the names of the cells."""
    if selection.columns is not None or selection.id_column is not None:
        raise InputError(f"'{path}' is an AnnData file; choose one of its arrays, such as {PCA}, not columns.")
    h5py = optional("h5py", "reading .h5ad")
    with reading(path, "an AnnData file"), h5py.File(path, "r") as file:
        _refuse_elsewhere(file, path)
        _check_heaps(file, path)
        name = _array_name(file, selection, path)
        matrix = _matrix(file, name, path)
        ids = as_texts(_column(file, _index(file, "obs"), path))
        names = _gene_names(file, name, path)
        labels = None if selection.label_column is None else _labels(file, selection.label_column, path)
        masses = None if selection.mass_column is None else _masses(file, selection.mass_column, ids, path)
        others = {one: _labels(file, one, path) for one in _categories(file) if one != selection.label_column}
    if matrix.ndim != 2:
        raise InputError(f"{name!r} of '{path}' must hold a row for each cell; found shape {matrix.shape}.")
    if len(ids) != matrix.shape[0]:
        raise InputError(f"'{path}' is damaged: {name} has {matrix.shape[0]} rows for {len(ids)} cells.")
    if names is not None and len(names) != matrix.shape[1]:
        raise InputError(f"'{path}' is damaged: {name} has {matrix.shape[1]} columns for {len(names)} genes.")
    kind = "graph" if name.startswith("obsp/") else selection.kind or "features"
    said = () if masses is None else (f"Masses are the column {selection.mass_column!r} of obs.",)
    notes = (f"Taken from {name}.", *said)
    data = Data(checked(matrix, path), ids, notes, names, labels, others=lambda: others, masses=masses)
    return decided(data, kind)


def write_h5ad(path: Path, source: Path, added: Mapping[str, Mapping[str, Any]]) -> None:
    """A copy of the source with more in it, given as by :func:`tautcut.formats.schema.entries`."""
    h5py = optional("h5py", "writing .h5ad")
    write = optional("anndata.io", "writing .h5ad").write_elem
    shutil.copyfile(source, path)
    with warnings.catch_warnings(), reading(source, "an AnnData file"), h5py.File(path, "r+") as file:
        warnings.simplefilter("ignore")  # of anndata, about its own future
        _refuse_elsewhere(file, source)
        _check_heaps(file, source)
        columns = list(dict.fromkeys([*_column_names(file), *added["obs"]]))
        for part, values in added.items():
            for name, value in values.items():
                write(file.require_group(part), name, value)
        file["obs"].attrs["column-order"] = np.array(columns, dtype=h5py.string_dtype())


def _refuse_elsewhere(file: Any, path: Path) -> None:
    """Refuse a file that holds a link that is no hard one, or data that lie in another file: all that HDF5 follows
    without being asked, when such a file is read or a copy of it is written to.
    """
    h5py = optional("h5py", "reading .h5ad")
    seen, left = set(), [(b"", file["/"].id)]
    while left:
        above, group = left.pop()
        for name in group:
            where = above + b"/" + name
            if group.links.get_info(name).type != h5py.h5l.TYPE_HARD:
                raise _elsewhere(path, where, "is a link to somewhere else")
            one = h5py.h5o.open(group, name)
            address = h5py.h5o.get_info(one).addr
            if address in seen:  # groups can hold each other
                continue
            seen.add(address)
            if isinstance(one, h5py.h5g.GroupID):
                left.append((where, one))
            elif isinstance(one, h5py.h5d.DatasetID):
                made = one.get_create_plist()
                if made.get_external_count() or made.get_layout() == h5py.h5d.VIRTUAL:
                    raise _elsewhere(path, where, "lies in another file")


def _check_heaps(file: Any, path: Path) -> None:
    """Refuse a file with a heap of texts in which HDF5 would look for the next one for ever."""
    if file.id.get_create_plist().get_sizes() != (8, 8):
        raise InputError(f"'{path}' has addresses of an unusual size. Write it again with anndata.")
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
        heap = content.find(_HEAP)
        while heap >= 0:
            end = min(len(content), heap + int.from_bytes(content[heap + 8 : heap + 16], "little"))
            at = heap + 16
            while at + _HEAP_ENTRY.size <= end:
                number, size = _HEAP_ENTRY.unpack_from(content, at)
                step = (size if number == 0 else _HEAP_ENTRY.size + (size + 7) // 8 * 8) % 2**64
                if not step:
                    raise InputError(f"'{path}' is damaged: a heap of texts at byte {heap} has no end. Write it again.")
                at += step
            heap = content.find(_HEAP, heap + len(_HEAP))


def _elsewhere(path: Path, where: bytes, what: str) -> InputError:
    name = where[1:80].decode("utf-8", "replace")
    return InputError(f"'{path}' is refused: {name!r} {what}. Copy the data into the file.")


def _array_name(file: Any, selection: Selection, path: Path) -> str:
    """The array asked for, else the first that is there."""
    if selection.array is not None:
        name = selection.array.strip("/")
        if not name.startswith(("obsp/", "obsm/", "layers/")) and name != X:
            raise InputError(f"the array must be X or in obsm, obsp or layers, such as {PCA}; found {name!r}.")
        return name
    order = {"graph": (GRAPH,), "features": (PCA, X)}.get(selection.kind or "", (GRAPH, PCA, X))
    name = next((one for one in order if one in file), "")
    if not name:
        raise InputError(f"'{path}' holds none of {', '.join(order)}. Compute one of them, or name another array.")
    return name


def _encoding(file: Any, name: str, known: tuple[str, ...], path: Path) -> str:
    """How an element is encoded, if that is known."""
    if name not in file:
        raise InputError(f"'{path}' holds no {name!r}. Name an array that is there.")
    encoding = str(file[name].attrs.get("encoding-type", "none"))
    if encoding not in known:
        raise InputError(
            f"{name!r} of '{path}' is encoded as {encoding[:40]!r}, not as {', '.join(known)}. "
            "Write the file again with a newer anndata."
        )
    return encoding


def _matrix(file: Any, name: str, path: Path) -> Any:
    """An array of numbers, or a sparse matrix."""
    encoding = _encoding(file, name, _MATRICES, path)
    if encoding == "array":
        return _values(file, name, "biuf", path)
    shape = tuple(int(side) for side in file[name].attrs["shape"])
    data, indices, indptr = (
        _values(file, f"{name}/{part}", kinds, path)
        for part, kinds in (("data", "biuf"), ("indices", "iu"), ("indptr", "iu"))
    )
    return getattr(sp, encoding)((data, indices, indptr), shape=shape)


def _column(file: Any, name: str, path: Path) -> list[str]:
    """A column of `obs` or `var` as text, empty where a value is missing."""
    encoding = _encoding(file, name, _COLUMNS, path)
    if encoding == "categorical":
        codes = _values(file, f"{name}/codes", "iu", path)
        texts = [*_column(file, f"{name}/categories", path), ""]  # −1 is no category
        if codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < len(texts) - 1:
            raise InputError(f"'{path}' is damaged: {name!r} has no category {codes.max()}. Write it again.")
        foresee(8 * codes.size, f"'{path}', {codes.size:,} texts,")
        return [texts[code] for code in codes.tolist()]
    if encoding.startswith("nullable"):
        values = _flat(file, f"{name}/values", path)
        mask = _values(file, f"{name}/mask", "b", path)
        return ["" if is_missing else value for value, is_missing in zip(values, mask.tolist(), strict=True)]
    return _flat(file, name, path)


def _flat(file: Any, name: str, path: Path) -> list[str]:
    """A dataset of one dimension as texts, empty for NaN."""
    dataset = _dataset(file, name, path)
    if len(dataset.shape) != 1:
        raise InputError(f"'{path}' is damaged: {name!r} has shape {dataset.shape}, not one value for each row.")
    if dataset.dtype.kind in "OS":
        return [text for block in _texts(dataset, path) for text in block]
    values = _values(file, name, "biuf", path)
    foresee(_PER_TEXT * values.size, f"'{path}', {values.size:,} texts,")
    return ["" if value != value else str(value) for value in values.tolist()]  # NaN differs


def _values(file: Any, name: str, kinds: str, path: Path) -> Array:
    """A dataset of numbers of these kinds, if there is room for it."""
    dataset = _dataset(file, name, path)
    if dataset.dtype.kind not in kinds:
        raise InputError(f"'{path}' must hold numbers in {name!r}; found {str(dataset.dtype)[:40]}. Write it again.")
    foresee(2 * prod(dataset.shape) * dataset.dtype.itemsize, f"{name!r} of '{path}', of shape {dataset.shape},")
    values: Array = dataset[()]
    return values


def _dataset(file: Any, name: str, path: Path) -> Any:
    """The dataset of that name, if it has a shape, and if no part of it can unpack to more than there is room for."""
    h5py = optional("h5py", "reading .h5ad")
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        raise InputError(f"'{path}' is damaged: it holds no array {name!r}. Write it again.")
    if dataset.chunks is not None:
        foresee(2 * _block_size(dataset), f"A block of {name!r} of '{path}'")
        if dataset.compression == "gzip":
            _check_packed(dataset, path)
    return dataset


def _check_packed(dataset: Any, path: Path) -> None:
    """Refuse blocks that unpack to more than they should: HDF5 would unpack them whole before it looks."""
    expected = _block_size(dataset)
    for block in _blocks(dataset):
        if block.size * _MOST_PACKED > memory.for_reading():
            packed = dataset.id.read_direct_chunk(block.chunk_offset)[1]
            if not block.filter_mask and len(zlib.decompressobj().decompress(packed, expected + 1)) > expected:
                raise InputError(f"'{path}' is refused: a block of {dataset.name!r} unpacks to more than it says.")


def _block_size(dataset: Any) -> int:
    """The bytes of a block once it is unpacked."""
    size = _REFERENCE.itemsize if dataset.dtype.kind == "O" else dataset.dtype.itemsize
    return prod((*dataset.chunks, int(size)))


def _blocks(dataset: Any) -> Iterator[Any]:
    return (dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks()))


def _texts(dataset: Any, path: Path) -> Iterator[list[str]]:
    """The texts of a dataset, in blocks that fit in memory whatever they hold."""
    n, size = len(dataset), path.stat().st_size
    strings = dataset.asstr()
    letters = n * dataset.dtype.itemsize if dataset.dtype.kind == "S" else _n_letters(dataset, path)
    foresee(_PER_TEXT * n + 2 * (letters or 0), f"{dataset.name!r} of '{path}', {n:,} texts,")
    step = n if letters is not None else max(1, memory.for_reading() // (2 * size))  # no text is longer than the file
    taken = 0
    for start in range(0, n, max(1, step)):
        block = strings[start : start + step].tolist()
        taken += sum(map(len, block))
        foresee(_PER_TEXT * n + 2 * taken, f"{dataset.name!r} of '{path}', {n:,} texts,")
        yield block


def _n_letters(dataset: Any, path: Path) -> int | None:
    """The lengths of all texts together, from what refers to them; None where that is stored in an unusual way.

    Many may refer to the same long one, and HDF5 gives each a copy.
    """
    if dataset.compression not in (None, "gzip") or dataset.shuffle or dataset.fletcher32:
        return None
    if dataset.chunks is None:
        offset = dataset.id.get_offset()
        if offset is None:
            return 0  # nothing was ever written
        with path.open("rb") as file:
            file.seek(offset)
            return _sum_of_lengths(file.read(len(dataset) * _REFERENCE.itemsize))
    raw = (dataset.id.read_direct_chunk(block.chunk_offset)[1] for block in _blocks(dataset))
    most, is_packed = _block_size(dataset), dataset.compression is not None
    return sum(_sum_of_lengths(zlib.decompressobj().decompress(one, most) if is_packed else one) for one in raw)


def _sum_of_lengths(raw: bytes) -> int:
    whole = len(raw) // _REFERENCE.itemsize * _REFERENCE.itemsize
    return int(np.frombuffer(raw[:whole], _REFERENCE)["length"].astype(np.int64).sum())


def _index(file: Any, axis: str) -> str:
    """Where the names of the cells ("obs") or of the genes ("var") are."""
    return f"{axis}/{file[axis].attrs['_index']}"


def _gene_names(file: Any, array: str, path: Path) -> tuple[str, ...] | None:
    """What the columns of X and of layers are called; those of other arrays have no names."""
    if not array.startswith((X, "layers/")) or "var" not in file:
        return None
    return tuple(_column(file, _index(file, "var"), path))


def _column_names(file: Any) -> list[str]:
    return [str(name) for name in file["obs"].attrs["column-order"]]


def _categories(file: Any) -> list[str]:
    """The columns of `obs` that hold categories: what clusters are compared with."""
    kinds = {one: file[f"obs/{one}"].attrs.get("encoding-type") for one in _column_names(file) if f"obs/{one}" in file}
    return [one for one, kind in kinds.items() if kind == "categorical"]


def _masses(file: Any, name: str, ids: Array, path: Path) -> FloatArray:
    """A column of `obs` as masses, NaN where a value is missing."""
    texts = _labels(file, name, path).tolist()
    if len(texts) != len(ids):
        raise InputError(f"'{path}' is damaged: obs/{name} has {len(texts)} rows for {len(ids)} cells.")
    return masses_of_texts(texts, ids.tolist(), path)


def _labels(file: Any, name: str, path: Path) -> Array:
    """A column of `obs` as text, empty where a value is missing."""
    if name not in _column_names(file):
        raise InputError(
            f"'{path}' has no column {name!r} in obs. Name one of {', '.join(map(repr, _column_names(file)[:8]))}."
        )
    return as_texts(_column(file, f"obs/{name}", path))
