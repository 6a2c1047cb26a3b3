"""What every format shares: the record of what a file held, what was asked of it, and the sentences for files that
cannot be read. It knows no format.
"""

from __future__ import annotations

import csv
import errno
import lzma
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from xml.etree.ElementTree import ParseError

import numpy as np

from tautcut import memory
from tautcut.arrays import Array, Features, FloatArray, IntArray, TextArray
from tautcut.checks import real_dtype
from tautcut.errors import InputError, NotEnoughMemoryError
from tautcut.graph import Graph
from tautcut.graph.adapters import ROUNDING
from tautcut.graph.columns import Scaling

Missing: TypeAlias = Literal["error", "drop", "median"]

KINDS = ("features", "graph")
MISSING_WAYS: tuple[Missing, ...] = get_args(Missing)

# What the readers of other packages raise about a damaged file; those of the second line are no ValueErrors. Arrow has
# its own besides, and is loaded only where it is needed.
_DAMAGED = (
    ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError,
    ParseError, SyntaxError, csv.Error, lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip

# Bytes that what a file lists takes from its text to the graph, measured (decision 0035). What a graph takes that is
# made of a matrix in memory, `Graph` foresees itself.
_PER_VERTEX = 40
_PER_ENTRY = 130
# So many rows or columns may be empty; more only beside a hundredth as many entries. A line in a file can declare
# billions of them, and all that follows would work on nothing.
_HARMLESS_SIDE = 2**22
_SIDE_PER_ENTRY = 100
_BLOCK = 2**22  # entries of a dense matrix that are compared at a time
# A machine that has no room left, for a copy of the file that is written meanwhile too, says nothing about the file.
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)


@dataclass(frozen=True, eq=False)
class Data:
    """What a file held.

    Attributes
    ----------
    content : Graph, or ndarray or csr_matrix of shape (n, n_features)
    ids : ndarray of integers or strings, shape (n,)
        The file's own names of its rows or vertices. Arrays have none and are numbered from 0; Matrix Market and METIS
        files number from 1.
    notes : tuple of str
        What was decided on the way, a sentence each.
    names : tuple of str, optional
        Of the features.
    labels : ndarray of str, shape (n,), optional
        The label column that was asked for.
    image_shape : (height, width), optional
        If each row is a picture.
    others : callable
        The columns that are no features, by name: labels, texts. Read when they are asked for.
    place : callable
        Where a row of the features stands in the file, in words: "line 7".
    dropped : ndarray of int, optional
        The rows of the file, counted from 0, that were left out because a value is missing; all else is of the others.
    dropped_ids : ndarray of shape (n_dropped,), optional
    scaling : Scaling, optional
        What is done to features before they are compared.
    masses : ndarray of float64, shape (n,), optional
        How much each row or vertex counts in the size of a cluster, if the file says so; a graph has them too.
    files : sequence of Path or None, optional
        The pictures that the rows are, those left out among them; None where there is no such file.
    texts : sequence of str, optional
        The texts that the rows are, those left out among them.
    is_of_one_unit : bool
        Whether all features are measured alike, as pixels and words are, so that scaling them would mislead.
    """

    content: Graph | Features
    ids: Array
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    labels: TextArray | None = None
    image_shape: tuple[int, int] | None = None
    others: Callable[[], Mapping[str, Array]] = dict
    place: Callable[[int], str] = "row {}".format
    dropped: IntArray | None = None
    dropped_ids: Array | None = None
    scaling: Scaling | None = None
    masses: FloatArray | None = None
    files: Sequence[Path | None] | None = None
    texts: Sequence[str] | None = None
    is_of_one_unit: bool = False

    @property
    def compared(self) -> Any:
        """The features as they are compared, scaled if that was decided; None for a graph."""
        if isinstance(self.content, Graph):
            return None
        return self.content if self.scaling is None else self.scaling.apply(self.content)

    @property
    def all_ids(self) -> Array:
        """The ids of every row of the file, those that were left out among them."""
        return self.ids if self.dropped_ids is None else self.spread(self.ids, self.dropped_ids)

    def spread(self, values: Array, others: Any) -> Array:
        """One value for each row of the file: `values` where it was used, `others` where it was left out."""
        if self.dropped is None:
            return values
        n = len(values) + len(self.dropped)
        is_dropped = np.zeros(n, dtype=bool)
        is_dropped[self.dropped] = True
        spread = np.empty((n, *values.shape[1:]), dtype=np.result_type(values, np.asarray(others)))
        spread[~is_dropped], spread[is_dropped] = values, others
        return spread

    @property
    def kind(self) -> Literal["features", "graph"]:
        return "graph" if isinstance(self.content, Graph) else "features"

    @property
    def summary(self) -> str:
        if isinstance(self.content, Graph):
            return f"a graph of {self.content.n_vertices:,} vertices and {self.content.n_edges:,} edges"
        return f"features, {self.content.shape[0]:,} rows × {self.content.shape[1]:,} columns"


@dataclass(frozen=True)
class Selection:
    """What was asked of a file: see :func:`tautcut.formats.read`."""

    kind: str | None = None
    columns: tuple[str, ...] | None = None
    id_column: str | None = None
    label_column: str | None = None
    array: str | None = None
    keep: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    missing: Missing = "error"
    missing_words: tuple[str, ...] = ()
    mass_column: str | None = None
    text_column: str | None = None
    picture_column: str | None = None
    is_open: bool = False
    brought: Features | None = None
    folder: Path = Path()
    pixels: Callable[[Sequence[Path | None]], Any] | None = None


def decided(data: Data, kind: str | None) -> Data:
    """The matrix that was read as features or as a graph: what was asked for, else what its content says."""
    matrix: Any = data.content
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InputError(f"the file holds no numbers: its shape is {matrix.shape}. Give at least one row and column.")
    why = "" if kind is not None else _why_graph(matrix)
    if (kind == "graph" or why) and isinstance(matrix, np.ndarray) and np.isnan(matrix).any():
        raise InputError("the weights of a graph cannot be missing; found an empty cell or NaN. Give 0 for no edge.")
    if kind == "graph" or why:
        said = (f"Taken for similarities, not distances, because {why}.",) if why else ()
        notes = (*data.notes, *said)
        return Data(
            Graph.from_any(matrix), data.ids, notes, labels=data.labels, others=data.others, masses=data.masses
        )  # fmt: skip
    return data


def _why_graph(matrix: Features) -> str:
    """Why the matrix looks like the weights of a graph; empty if it does not."""
    if matrix.shape[0] != matrix.shape[1]:
        return ""
    if isinstance(matrix, np.ndarray):
        is_graph = not matrix.diagonal().any() and all(_are_weights(matrix, rows) for rows in _row_blocks(matrix))
        return "the matrix is square, symmetric and non-negative, with a zero diagonal" if is_graph else ""
    gap = abs(matrix - matrix.T)
    is_symmetric = gap.nnz == 0 or float(gap.max()) <= ROUNDING * float(abs(matrix).max())
    return "the matrix is sparse, square and symmetric" if is_symmetric else ""


def _are_weights(matrix: Array, rows: slice) -> bool:
    """Whether some rows of a square matrix are non-negative, and equal to its columns."""
    own, mirror = matrix[rows], matrix[:, rows].T
    return bool((own >= 0).all()) and np.allclose(own, mirror, rtol=ROUNDING, atol=0)


def _row_blocks(matrix: Array) -> Iterator[slice]:
    step = max(1, _BLOCK // matrix.shape[1])
    return (slice(start, start + step) for start in range(0, len(matrix), step))


def foresee_graph(n_vertices: int, n_entries: int, *, more: float = 0) -> None:
    """Refuse to read a graph for which there is no room; an edge is two entries, and `more` is read with them."""
    need = _PER_VERTEX * n_vertices + _PER_ENTRY * n_entries + more
    foresee(need, f"A graph of {n_vertices:,} vertices and {n_entries // 2:,} edges")


def refuse_hollow(shape: tuple[int, ...], n_entries: int, path: Path) -> None:
    """Refuse a sparse matrix with billions of rows or columns and next to nothing in them."""
    most = max(_HARMLESS_SIDE, _SIDE_PER_ENTRY * n_entries)
    if max(shape) > most:
        sides = " × ".join(f"{side:,}" for side in shape)
        raise InputError(
            f"'{path}' declares {sides} rows and columns and holds {n_entries:,} entries. Leave out the empty ones, "
            f"so that there are {most:,} at most."
        )


def foresee(need: float, what: str) -> None:
    """Refuse what a file would need more memory for than there is; `what` begins the sentence."""
    memory.foresee(need, memory.for_reading(), what, "Allow more by --memory, or give less.")


def real(array: Any, path: Path) -> Array:
    """The array, if it holds real numbers; half precision and booleans become what others can compute with."""
    values: Array = np.asarray(array)
    real_dtype(f"'{path}'", values.dtype)
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    return values.astype(np.float32) if values.dtype == np.float16 else values


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn what other packages say about a damaged file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' is not {what}: byte {error.start} is no text. Save it as UTF-8.") from error
    except MemoryError as error:
        raise NotEnoughMemoryError(
            f"'{path}' needs more memory than there is: {first_line(error)}. Give less, or use a larger machine."
        ) from error
    except damaged() as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        raise InputError(
            f"'{path}' cannot be read as {what}: {first_line(error)}. Check that it is whole and its suffix right."
        ) from error


def damaged() -> tuple[type[Exception], ...]:
    """What the readers of other packages raise about a damaged file."""
    arrow = sys.modules.get("pyarrow")
    return _DAMAGED if arrow is None else (*_DAMAGED, arrow.ArrowException)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, printable and short."""
    lines = str(error).strip().splitlines() or [""]
    text = "".join(c if c.isprintable() else "?" for c in lines[0][:200]).rstrip(". ")
    return text or type(error).__name__


def optional(module: str, what: str) -> Any:
    """A module that only some formats need; a sentence if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(
            f"{what} needs the package {package}, which is not installed: pip install 'tautcut[formats]'."
        ) from error
