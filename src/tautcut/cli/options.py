"""The options that commands share, as records: `Common` for all, `Source` for what is read, `FitOptions` for the fit.
Each record does what its options say; `expanded` lets typer see the fields of records as options.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Argument, Option

from tautcut._version import __version__
from tautcut.cli import shell
from tautcut.errors import GraphWarning, InputError
from tautcut.interrupts import apart
from tautcut.memory import limited

if TYPE_CHECKING:
    from tautcut.algorithm.observers import ProgressBar
    from tautcut.arrays import Array
    from tautcut.formats import Data
    from tautcut.formats.pictures import PixelMaker
    from tautcut.graph import Graph
    from tautcut.graph.columns import Scaling
    from tautcut.graph.diagnostics import Diagnosis
    from tautcut.neighbors import NeighborReport
    from tautcut.suggestion import Suggestion


_FEWEST = 2  # clusters that are tried, where a number is suggested
_RANGE = 13  # how many more are tried
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt])(i?))?b?", re.IGNORECASE)


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
class Source:
    """The input of a command: a file, what to read of it, and how features become a graph."""

    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="Features or a graph: .csv .tsv .txt .xlsx .parquet .npy .npz .mtx .edges .edgelist .graphml .gml "
            ".gexf .graph (METIS) .h5ad, or one of these with .gz .bz2 .xz; or a folder of pictures.",
        ),
    ]
    kind: Annotated[
        str | None, Option("--as", metavar="features|graph", help="What FILE holds, if its content misleads.")
    ] = None
    columns: Annotated[
        list[str] | None,
        Option(help="Features by name or pattern (pixel*); several by commas or by repeating. All numbers if absent."),
    ] = None
    keep: Annotated[
        list[str] | None, Option(metavar="COLUMN", help="A feature, though it looks like a key or a label; repeatable.")
    ] = None
    without: Annotated[list[str] | None, Option(metavar="COLUMN", help="Never a feature; repeatable.")] = None
    missing: Annotated[
        str,
        Option(
            metavar="error|drop|median",
            help="Missing values (empty, NA, ?, ...): refuse them, leave their rows without a label, or fill them in.",
        ),
    ] = "error"
    na: Annotated[
        list[str] | None, Option("--na", metavar="WORD", help="Another word for a missing value; repeatable.")
    ] = None
    scale: Annotated[
        str,
        Option(
            metavar="auto|standard|robust|none",
            help="Scale the columns of features; auto does where a few would carry all of the distances.",
        ),
    ] = "auto"
    id_column: Annotated[str | None, Option(help="The column of ids; found by its name or content if absent.")] = None
    mass_column: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="The column (array, node attribute) of masses: how much each row counts in the size of a cluster.",
        ),
    ] = None
    array: Annotated[
        str | None, Option(help="Which array of a .npz (X) or .h5ad (obsp/connectivities, obsm/X_pca, X).")
    ] = None
    text: Annotated[
        str | None, Option(metavar="COLUMN", help="Compare rows by the words of their texts in this column.")
    ] = None
    pictures: Annotated[
        str | None, Option(metavar="COLUMN", help="Compare rows by the pictures that this column names, beside FILE.")
    ] = None
    features: Annotated[
        Path | None, Option(metavar="FILE", help="Compare rows by this .npy instead, a row each: an embedding, say.")
    ] = None
    memory: Annotated[
        str | None,
        Option(
            metavar="SIZE", help="The most memory to take, as 4GB; for reading FILE half of what is free if absent."
        ),
    ] = None
    n_neighbors: Annotated[int, Option("--n-neighbors", "-n", help="Neighbours of each point, for features.")] = 10
    metric: Annotated[str, Option(metavar="euclidean|cosine", help="The distance between points.")] = "euclidean"
    weights: Annotated[str, Option(metavar="binary|self-tuning|gaussian", help="Weights of the edges.")] = "binary"
    method: Annotated[
        str, Option(metavar="auto|exact|approximate", help="How to find neighbours; auto is exact if that is quick.")
    ] = "auto"

    smooth: Annotated[
        str | None,
        Option(
            metavar="K|auto",
            help="Join each point to the K nearest under a random walk on the graph, and use that graph; 30 is a good "
            "middle where the graph is noisy. 'cluster' can choose by itself whether to: auto.",
        ),
    ] = None

    def read(self, label_column: str | None = None, *, is_open: bool = False, pixels: PixelMaker | None = None) -> Data:
        """What the file holds, and how its features are to be scaled.

        `is_open` lets the content of a table decide whether rows are texts or pictures, and `pixels` makes theirs.
        """
        from tautcut import formats
        from tautcut.memory import reserve
        from tautcut.ranks.files import is_sharded

        if is_sharded(self.file):
            raise InputError(f"'{self.file}' is a sharded graph, which 'cluster' and 'classify' alone work on.")
        reserve()
        _ = self.smoothing  # refused, if it is none, before anything is read
        ways: dict[str, Any] = {"missing": self.missing, "missing_words": self.na or ()}
        data = formats.read(
            self.file, kind=self.kind, columns=None if self.columns is None else split_by_commas(self.columns),
            id_column=self.id_column, label_column=label_column, mass_column=self.mass_column, array=self.array,
            keep=split_by_commas(self.keep or ()), without=split_by_commas(self.without or ()),
            text_column=self.text, picture_column=self.pictures, features=self.features, is_open=is_open,
            pixels=pixels, **ways,
        )  # fmt: skip
        return replace(data, scaling=self._scaling(data))

    @property
    def smoothing(self) -> int | None:
        """How many neighbours the graph is smoothed to before it is used; none where a fit is to decide."""
        from tautcut.checks import whole_number

        if self.smooth is None or self.is_smoothed_if_clear:
            return None
        try:
            asked: object = int(self.smooth)
        except ValueError:
            asked = self.smooth
        return whole_number("--smooth", asked, otherwise=" or auto")

    @property
    def is_smoothed_if_clear(self) -> bool:
        return self.smooth == "auto"

    def refuse_auto_smoothing(self, command: str) -> None:
        """Only 'cluster' has clusters to judge a walk's graph by."""
        if self.is_smoothed_if_clear:
            raise InputError(f"--smooth auto is for 'cluster'; {command} takes a number, as --smooth 30, or none.")

    def memory_limited(self) -> AbstractContextManager[None]:
        """In here no more memory is taken than was allowed."""
        return limited(None if self.memory is None else _bytes(self.memory))

    def _scaling(self, data: Data) -> Scaling | None:
        """How features are scaled; pictures, and what is compared by direction, only if asked."""
        from tautcut.checks import one_of
        from tautcut.graph.columns import SCALES, scaling

        how = one_of("--scale", self.scale, SCALES)
        if data.kind == "graph":
            if how in ("standard", "robust"):
                raise InputError(
                    f"--scale {how} is for features, and '{self.file}' holds {data.summary}. Leave it out."
                )
            return None
        is_one_unit = self.metric == "cosine" or data.image_shape is not None or data.is_of_one_unit
        content: Any = data.content
        return scaling(content, "none" if how == "auto" and is_one_unit else how)

    def graph_of(
        self, data: Data, common: Common, device: str = "cpu", bar: ProgressBar | None = None
    ) -> tuple[Graph, NeighborReport | None]:
        """The graph of the file, or that of the nearest neighbours and how they were found; smoothed if asked."""
        from tautcut.graph import Graph

        common.say(f"'{self.file}' holds {data.summary}{self._hint(data)}. {' '.join(data.notes)}".rstrip())
        if isinstance(data.content, Graph):
            graph, report = data.content, None
        else:
            graph, report = self._neighbors_of(data, common, device, bar)
        if self.smoothing is not None:
            from tautcut.walk import walk_graph

            progress = None if bar is None else partial(bar.show, "smooth")
            graph = walk_graph(graph, self.smoothing, device=device, progress=progress)
            common.say(f"Smoothed to a graph of {graph.n_edges:,} edges: {self.smooth} nearest under a random walk.")
        return graph, report

    def _neighbors_of(
        self, data: Data, common: Common, device: str, bar: ProgressBar | None
    ) -> tuple[Graph, NeighborReport]:
        """The graph of the nearest neighbours of features, and how they were found."""
        from tautcut.kernels.devices import neighbor_finder
        from tautcut.neighbors import neighbor_graph

        if data.scaling is not None:
            self._say_scaling(data.scaling, data.names, common)
        ways: dict[str, Any] = {"metric": self.metric, "weights": self.weights, "method": self.method}
        progress = None if bar is None else partial(bar.show, "neighbors")
        with common.warnings_said():
            graph, report = neighbor_graph(
                data.compared, self.n_neighbors, random_state=common.seed, progress=progress,
                finder=neighbor_finder(device), **ways,
            )  # fmt: skip
        common.say(f"Joined to a graph of {graph.n_edges:,} edges: {report}")
        return (graph if data.masses is None else graph.with_masses(data.masses)), report

    def _say_scaling(self, used: Scaling, names: tuple[str, ...] | None, common: Common) -> None:
        """That columns are scaled, and why; or that they should be."""
        found, unit = used.carriers, "quartiles" if used.how == "robust" else "standard deviations"
        if used.how == "none":
            if found is not None and found.are_too_few and self.metric == "euclidean":
                common.say(
                    f"Warning: {found.sentence(names)}; the others hardly count. Take --scale standard, or auto."
                )
        elif self.scale == "auto" and found is not None:
            why = f"because {found.sentence(names)} as they are. --scale none leaves them so."
            common.say(f"Columns are scaled by their {unit}, {why}")
        else:
            common.say(f"Columns are scaled by their {unit}.")

    def diagnose(self, graph: Graph, data: Data, n_clusters: int | None, *, smoothing: int | None = None) -> Diagnosis:
        """What the graph is like, and the columns it was made from; `smoothing` is what a fit decided, if it did."""
        from tautcut.graph.diagnostics import diagnose

        is_by_length = data.kind == "features" and self.metric == "euclidean"
        features = data.compared if is_by_length else None
        return diagnose(
            graph, n_clusters, features=features, names=data.names, made_from=data.kind,
            smoothing=self.smoothing if smoothing is None else smoothing,
        )  # fmt: skip

    def _hint(self, data: Data) -> str:
        """How to overrule what the content decided, where that makes sense."""
        from tautcut.formats import inner_suffix

        graphs = (".edges", ".edgelist", ".graphml", ".gml", ".gexf", ".graph")
        is_free = self.kind is None and inner_suffix(self.file) not in graphs
        return " (--as features overrules)" if is_free and data.kind == "graph" else ""

    def about(
        self, command: str, data: Data, seed: int, settings: dict[str, Any], report: NeighborReport | None
    ) -> dict[str, Any]:
        """What the JSON object of every command begins with."""
        read = {
            "as": self.kind, "columns": self.columns, "keep": self.keep, "without": self.without, "na": self.na,
            "missing": None if self.missing == "error" else self.missing, "id_column": self.id_column,
            "mass_column": self.mass_column, "array": self.array, "smooth": self.smoothing or self.smooth,
            "text": self.text, "pictures": self.pictures,
            "features": None if self.features is None else str(self.features),
        }  # fmt: skip
        joined = {name: getattr(self, name) for name in ("n_neighbors", "metric", "weights", "method")}
        if data.scaling is not None:
            joined["scale"] = data.scaling.how
        given = {name: value for name, value in read.items() if value is not None}
        return {
            "command": command,
            "version": __version__,
            "input": {
                "file": str(self.file), "kind": data.kind, "n": len(data.ids), "notes": list(data.notes),
                "left_out": 0 if data.dropped is None else len(data.dropped),
            },
            "scaling": None if data.scaling is None else data.scaling.to_dict(data.names),
            "neighbors": None if report is None else asdict(report),
            "settings": given | ({} if report is None else joined) | settings,
            "seed": seed,
        }  # fmt: skip


@dataclass(frozen=True)
class AskedSource(Source):
    """The input of a command whose -n is the number of points that it names."""

    n_neighbors: Annotated[int, Option("--n-neighbors", help="Neighbours of each point, for features.")] = 10


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


def _bytes(text: str) -> int:
    """A size such as 500MB or 1.5 GiB, in bytes."""
    found = _SIZE.fullmatch(text.strip())
    if not found or float(found[1]) <= 0:
        raise InputError(f"--memory must be a size, as 500MB or 4GB; found {text!r}.")
    unit, power = (1024 if found[3] else 1000), "kmgt".find(found[2].lower()) + 1 if found[2] else 0
    return int(float(found[1]) * unit**power)


def _shares(text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise InputError(f"--class-prior must be numbers, as 0.5,0.3,0.2; found {text!r}.") from None
