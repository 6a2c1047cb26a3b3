"""The options that commands share, as records: `Common` for all, `Grouping` and `Candidates` for clusters, `FitOptions`
for the fit; what is read has a module of its own, `source`. Each record does what its options say; `expanded` lets
typer see the fields of records as options.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Option

from tautcut.cli import shell
from tautcut.errors import GraphWarning, InputError
from tautcut.interrupts import apart

if TYPE_CHECKING:
    from tautcut.algorithm.observers import ProgressBar
    from tautcut.arrays import Array
    from tautcut.formats import Data
    from tautcut.graph import Graph
    from tautcut.suggestion import Suggestion


_FEWEST = 2  # clusters that are tried, where a number is suggested
_RANGE = 13  # how many more are tried


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: where a parameter is a record, there are the fields of the record."""
    own = _parameters(command)
    records: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}

    @wraps(command)
    def call(**given: Any) -> None:
        made = {
            name: record(**{one.name: given.pop(one.name) for one in _parameters(record)})
            for name, record in records.items()
        }
        command(**given, **made)

    shown = [field for one in own for field in (_parameters(one.annotation) if one.name in records else [one])]
    call.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    return call


def _parameters(of: Callable[..., Any]) -> list[Parameter]:
    types = get_type_hints(of, include_extras=True)
    own = signature(of).parameters.values()
    return [one.replace(kind=Parameter.KEYWORD_ONLY, annotation=types[one.name]) for one in own]


@dataclass(frozen=True)
class Common:
    """What every command takes: a seed, and how much it says."""

    seed: Annotated[int, Option(help="Draws the starts.")] = 0
    as_json: Annotated[bool, Option("--json", help="Print one JSON object in place of text.")] = False
    quiet: shell.QuietOption = False

    def say(self, message: str) -> None:
        """A line on standard error, unless asked to be quiet."""
        if not self.quiet:
            shell.say(message)

    @property
    def has_bar(self) -> bool:
        return not self.quiet and sys.stderr.isatty()

    @contextmanager
    def bar(self, device: str = "cpu") -> Iterator[ProgressBar | None]:
        """Bars and a clock on standard error, where there is a terminal to draw them on."""
        if not self.has_bar:
            yield None
            return
        from tautcut.algorithm.observers import ProgressBar

        with ProgressBar(apart(lambda: _resolved(device))) as bar:
            yield bar

    @contextmanager
    def warnings_said(self, *, is_graph_known: bool = False) -> Iterator[None]:
        """Warnings of the library become lines on standard error; those on the graph may have been said already."""
        with warnings.catch_warnings():
            if is_graph_known:
                warnings.simplefilter("ignore", GraphWarning)
            warnings.showwarning = lambda message, *place, **more: self.say(f"Warning: {message}")
            yield


@dataclass(frozen=True)
class Grouping:
    """What the size of a cluster is, and which rows stay together."""

    balance: Annotated[
        str,
        Option(
            metavar="size|volume",
            help="The size of a cluster: its rows, or their masses; or its volume, the edge weight at its rows.",
        ),
    ] = "size"
    must_link: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Rows that stay together: a table with their ids in a line, or of id and group: .csv .tsv .txt.",
        ),
    ] = None

    def check(self) -> None:
        """Refuse a balance that there is not, before anything is read."""
        from tautcut.checks import one_of

        one_of("--balance", self.balance, ("size", "volume"))

    def settings(self, data: Data) -> dict[str, Any]:
        """The parameters of the estimator, with the rows that stay together by their numbers."""
        links = {} if self.must_link is None else {"must_link": self.links(data)}
        return ({} if self.balance == "size" else {"balance": self.balance}) | links

    def links(self, data: Data) -> list[list[int]] | None:
        """The groups of rows that stay together; those that were left out have no part in it."""
        from tautcut.formats import read_links

        if self.must_link is None:
            return None
        groups = read_links(self.must_link, data.all_ids)
        if data.dropped is None:
            return groups
        left_out = set(data.dropped.tolist())
        number = {place: at for at, place in enumerate(one for one in range(len(data.all_ids)) if one not in left_out)}
        return [[number[place] for place in group if place in number] for group in groups]

    @property
    def told(self) -> dict[str, Any]:
        """What is said of it, to repeat the run with."""
        links = None if self.must_link is None else str(self.must_link)
        given = {"balance": None if self.balance == "size" else self.balance, "must_link": links}
        return {name: value for name, value in given.items() if value is not None}

    def weighed(self, graph: Graph) -> Graph:
        """The graph whose masses are what clusters are balanced by."""
        return graph.by_volume() if self.balance == "volume" else graph


@dataclass(frozen=True)
class Candidates:
    """Which numbers of clusters are tried, where one is to be suggested."""

    smallest: Annotated[
        int | None, Option("--min", help="The fewest clusters to try, where a number is suggested; 2 if absent.")
    ] = None
    largest: Annotated[int | None, Option("--max", help="The most clusters to try; 13 more than --min if absent.")] = (
        None
    )

    def asked(self, n_clusters: str) -> int:
        """The number of clusters that was asked for; 0 for "auto"."""
        if n_clusters == "auto":
            self.within()
            return 0
        if self.smallest is not None or self.largest is not None:
            raise InputError(f"--min and --max are for -k auto; found -k {n_clusters} beside them. Leave them out.")
        try:
            number = int(n_clusters)
        except ValueError:
            number = 0
        if number < 1:
            raise InputError(f"--n-clusters must be a whole number ≥ 1, or auto; found {n_clusters!r}.")
        return number

    def suggested(
        self, graph: Graph, common: Common, bar: ProgressBar | None, links: list[list[int]] | None = None
    ) -> Suggestion:
        """The number of clusters that the graph speaks for, with its reason; groups in `links` stay together."""
        smallest, largest = self.within(n_apart(graph, links))
        suggestion = apart(_suggestion)
        common.say(f"Clustering into {smallest} to {largest} clusters ...")
        if bar:
            bar.show("suggest 1", 0, largest - smallest + 1)
        with common.warnings_said(is_graph_known=True), shell.acknowledged():
            found: Suggestion = suggestion.suggest_n_clusters(
                graph, range(smallest, largest + 1), must_link=links, random_state=common.seed,
                observers=[bar] if bar else [],
            )  # fmt: skip
        return found

    def within(self, n_vertices: int = sys.maxsize) -> tuple[int, int]:
        """The range that was asked for; by default no more clusters than so many vertices can be compared by."""
        smallest = _FEWEST if self.smallest is None else self.smallest
        largest = self.largest
        if largest is None:
            largest = max(smallest, min(smallest + _RANGE, n_vertices - 1))
        if not 1 <= smallest <= largest:
            raise InputError(f"--min must be from 1 to --max; found {smallest} and {largest}.")
        return smallest, largest


def n_apart(graph: Graph, links: list[list[int]] | None) -> int:
    """How many clusters there can be where groups of rows stay together."""
    if links is None:
        return graph.n_vertices
    from tautcut.search.links import linked_groups

    return int(linked_groups(links, {i: i for i in range(graph.n_vertices)}).max()) + 1


def _resolved(device: str) -> str:
    from tautcut.kernels.devices import resolved

    return resolved(device)


def _suggestion() -> ModuleType:
    """The room of suggestions, which takes a moment to load."""
    from tautcut import suggestion

    return suggestion


@dataclass(frozen=True)
class FitOptions:
    """How a partition is looked for, and which files it goes to."""

    out: Annotated[
        Path | None,
        Option(
            help="Where the labels go, with their confidence: .csv .tsv .parquet .json .npy, or .h5ad for a "
            "copy of the input with them. By default FILE's name with -tautcut.csv, in the current folder."
        ),
    ] = None
    report: Annotated[Path | None, Option(help="Also write a page to look at: .html.")] = None
    search: Annotated[str, Option(metavar="short|thorough|none", help="How long to look for better cuts.")] = "short"
    device: Annotated[
        str, Option(metavar="cpu|cuda|auto", help="Where to compute: cuda is an NVIDIA GPU, and needs torch.")
    ] = "cpu"
    class_prior: Annotated[
        str | None,
        Option(
            metavar="SHARES",
            help="Expected share of each cluster, as 0.5,0.3,0.2; if absent, equal or, for classes, estimated.",
        ),
    ] = None
    image: Annotated[
        str | None, Option(metavar="HEIGHTxWIDTH", help="Rows are pictures of this size: the report shows them.")
    ] = None

    def checked_out(self, source: Path, *others: Path | None) -> Path:
        """Where the labels go: neither they nor the report to a file that is read, the source or one of the `others`.

        What could not be written, or searched by, is refused before anything is computed.
        """
        from tautcut import formats
        from tautcut.search.plan import Plan
        from tautcut.writing import check_apart, writable

        Plan(search=self.search)
        formats.check_source(source)
        out = formats.check_label_path(self.out or Path(f"{formats.stem(source)}-tautcut.csv"), source)
        if self.report is not None:
            writable(self.report, (".html", ".htm"))
        check_apart([out, self.report], [source, *others])
        return out

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of the estimator; without shares it has its own way with them."""
        shares = {} if self.class_prior is None else {"class_prior": _shares(self.class_prior)}
        return {"search": self.search, "device": self.device, **shares}

    def images(self, data: Data) -> Array | None:
        """The rows as pictures, if they are said or known to be."""
        import numpy as np

        shape = data.image_shape
        if self.image is not None:
            sides = self.image.lower().split("x")
            if len(sides) != 2 or not all(side.isdecimal() for side in sides):
                raise InputError(f"--image must be a height and a width, as 28x28; found {self.image!r}.")
            shape = int(sides[0]), int(sides[1])
        if shape is None:
            return None
        if not isinstance(data.content, np.ndarray) or data.content.shape[1] != shape[0] * shape[1]:
            raise InputError(f"--image {shape[0]}x{shape[1]} does not fit; the file holds {data.summary}.")
        return data.content.reshape(-1, *shape)


def split_by_commas(names: Iterable[str]) -> list[str]:
    """The names of an option that can be repeated, and can hold several."""
    return [name.strip() for one in names for name in one.split(",") if name.strip()]


def _shares(text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise InputError(f"--class-prior must be numbers, as 0.5,0.3,0.2; found {text!r}.") from None
