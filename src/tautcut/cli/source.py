"""What a command reads, and how it becomes a graph: the options of the input, as a record that does what they say."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tautcut._version import __version__
from tautcut.cli.options import Common, split_by_commas
from tautcut.errors import InputError
from tautcut.memory import limited

if TYPE_CHECKING:
    from tautcut.algorithm.observers import ProgressBar
    from tautcut.formats import Data
    from tautcut.formats.pictures import PixelMaker
    from tautcut.graph import Graph
    from tautcut.graph.columns import Scaling
    from tautcut.graph.findings import Diagnosis
    from tautcut.neighbors import NeighborReport

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt])(i?))?b?", re.IGNORECASE)


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


def _bytes(text: str) -> int:
    """A size such as 500MB or 1.5 GiB, in bytes."""
    found = _SIZE.fullmatch(text.strip())
    if not found or float(found[1]) <= 0:
        raise InputError(f"--memory must be a size, as 500MB or 4GB; found {text!r}.")
    unit, power = (1024 if found[3] else 1000), "kmgt".find(found[2].lower()) + 1 if found[2] else 0
    return int(float(found[1]) * unit**power)
