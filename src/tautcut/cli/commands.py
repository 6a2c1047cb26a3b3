"""`tautcut cluster`, `classify`, `graph` and `suggest`: from a file to labels, diagnostics or a number of clusters.
Each reads, hands over to the library, and writes or prints what came back; what is decided on the way is said on
standard error. No algorithm and no format lives here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tautcut._version import __version__
from tautcut.cli import shell
from tautcut.cli.finished import FinishedRun, print_json
from tautcut.cli.shell import QuietOption
from tautcut.errors import GraphWarning, InputError

if TYPE_CHECKING:
    from tautcut.arrays import Array
    from tautcut.estimators import MTVClassifier, MTVClustering
    from tautcut.formats import Data
    from tautcut.graph import Graph
    from tautcut.graph.diagnostics import Diagnosis
    from tautcut.graph.neighbors import NeighborReport

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Features or a graph: .csv .tsv .txt .parquet .npy .npz .mtx .edges .graphml .graph (METIS) .h5ad.",
    ),
]
ClustersOption = Annotated[int, typer.Option("--n-clusters", "-k", help="How many clusters; see 'tautcut suggest'.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Where the labels go, with confidence and memberships: .csv .tsv .parquet .json .npy, or .h5ad for a copy "
        "of the input with them. By default FILE's name with -tautcut.csv, in the current folder.",
    ),
]
ReportOption = Annotated[Path | None, typer.Option(help="Also write a page to look at: .html.")]
KindOption = Annotated[
    str | None, typer.Option("--as", metavar="features|graph", help="What FILE holds, if its content misleads.")
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Features by name or pattern (pixel*); several by commas or by repeating. All numbers if absent."
    ),
]
IdOption = Annotated[str | None, typer.Option(help="The column of ids; found by its name or content if absent.")]
LabelColumnOption = Annotated[
    str | None, typer.Option(help="The known labels are this column (array, attribute) of FILE; others are left empty.")
]
ArrayOption = Annotated[
    str | None, typer.Option(help="Which array of a .npz (X) or .h5ad (obsp/connectivities, obsm/X_pca, X).")
]
NeighborsOption = Annotated[int, typer.Option("--n-neighbors", "-n", help="Neighbours of each point, for features.")]
MetricOption = Annotated[str, typer.Option(metavar="euclidean|cosine", help="The distance between points.")]
WeightsOption = Annotated[str, typer.Option(metavar="binary|self-tuning|gaussian", help="Weights of the edges.")]
MethodOption = Annotated[
    str, typer.Option(metavar="auto|exact|approximate", help="How to find neighbours; auto is exact if that is quick.")
]
SearchOption = Annotated[str, typer.Option(metavar="short|thorough|none", help="How long to look for better cuts.")]
DeviceOption = Annotated[
    str, typer.Option(metavar="cpu|cuda|auto", help="Where to compute: cuda is an NVIDIA GPU, and needs torch.")
]
PriorOption = Annotated[
    str | None, typer.Option(metavar="SHARES", help="Expected share of each cluster, as 0.5,0.3,0.2; equal if absent.")
]
ImageOption = Annotated[
    str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Rows are pictures of this size: the report shows them.")
]
SeedOption = Annotated[int, typer.Option(help="Draws the starts.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object in place of text.")]


@dataclass(frozen=True)
class Source:
    """The input of a command: a file, what to read of it, and how features become a graph."""

    file: Path
    kind: str | None = None
    columns: list[str] | None = None
    id_column: str | None = None
    label_column: str | None = None
    array: str | None = None
    n_neighbors: int = 10
    metric: str = "euclidean"
    weights: str = "binary"
    method: str = "auto"
    device: str = "cpu"

    def read(self) -> Data:
        from tautcut import formats

        columns = None if self.columns is None else _split(self.columns)
        return formats.read(
            self.file, kind=self.kind, columns=columns, id_column=self.id_column, label_column=self.label_column,
            array=self.array,
        )  # fmt: skip

    def graph_of(self, data: Data, seed: int, *, is_quiet: bool) -> tuple[Graph, NeighborReport | None]:
        """The graph that the file holds; or that of the nearest neighbours, and how they were found."""
        from tautcut.graph import Graph
        from tautcut.graph.neighbors import neighbor_graph
        from tautcut.kernels.devices import exact_finder

        say = shell.silent if is_quiet else shell.say
        say(f"'{self.file}' holds {data.summary}{self._hint(data)}. {' '.join(data.notes)}".rstrip())
        if isinstance(data.content, Graph):
            return data.content, None
        ways: dict[str, Any] = {"metric": self.metric, "weights": self.weights, "method": self.method}
        with _warnings_said(say), _neighbor_bar(is_quiet) as progress:
            graph, report = neighbor_graph(
                data.content, self.n_neighbors, random_state=seed, progress=progress,
                finder=exact_finder(self.device), **ways,
            )  # fmt: skip
        say(f"Joined to a graph of {graph.n_edges:,} edges: {report}")
        return graph, report

    def _hint(self, data: Data) -> str:
        """How to overrule what the content decided, where that makes sense."""
        is_free = self.kind is None and self.file.suffix.lower() not in (".edges", ".graphml", ".graph")
        return " (--as features overrules)" if is_free and data.kind == "graph" else ""

    def about(
        self, command: str, data: Data, seed: int, settings: dict[str, Any], report: NeighborReport | None
    ) -> dict[str, Any]:
        """What the JSON object of every command begins with."""
        held = {"file": str(self.file), "kind": data.kind, "n": len(data.ids), "notes": list(data.notes)}
        settings = self._settings(report is not None) | settings
        return {
            "command": command,
            "version": __version__,
            "input": held,
            "neighbors": None if report is None else asdict(report),
            "settings": settings,
            "seed": seed,
        }

    def _settings(self, has_features: bool) -> dict[str, Any]:
        """The options on what is read, where given, and on how features are joined."""
        given = {
            "as": self.kind,
            "columns": self.columns,
            "id_column": self.id_column,
            "label_column": self.label_column,
            "array": self.array,
        }
        ways = {name: getattr(self, name) for name in ("n_neighbors", "metric", "weights", "method")}
        return {name: value for name, value in given.items() if value is not None} | (ways if has_features else {})


@dataclass(frozen=True)
class Target:
    """What a command leaves: labels, perhaps a report, and words or JSON."""

    out: Path
    report: Path | None
    as_json: bool

    @classmethod
    def checked(cls, out: Path | None, report: Path | None, as_json: bool, source: Path) -> Target:
        """Refuse what could not be written, before anything is computed."""
        from tautcut import formats
        from tautcut.writing import writable

        formats.check_source(source)
        out = formats.check_label_path(out or Path(f"{source.stem}-tautcut.csv"), source)
        if report is not None:
            writable(report, (".html", ".htm"), source=source)
        return cls(out, report, as_json)

    def leave(self, run: FinishedRun, written: list[Path]) -> None:
        """Write labels and report, and print what was found; after Ctrl-C say so and exit as interrupted."""
        from tautcut.algorithm.stopping import Status

        run.write_labels(self.out)
        written.append(self.out)
        if self.report is not None:
            run.write_report(self.report)
            written.append(self.report)
        (run.print_json if self.as_json else run.print_table)(self.out, self.report)
        if run.result.status is Status.INTERRUPTED:
            shell.say(f"tautcut: interrupted; the best partition so far is in {self.out}.")
            raise typer.Exit(shell.INTERRUPTED)


def cluster(
    file: FileArgument,
    n_clusters: ClustersOption,
    out: OutOption = None,
    report: ReportOption = None,
    kind: KindOption = None,
    columns: ColumnsOption = None,
    id_column: IdOption = None,
    array: ArrayOption = None,
    n_neighbors: NeighborsOption = 10,
    metric: MetricOption = "euclidean",
    weights: WeightsOption = "binary",
    method: MethodOption = "auto",
    search: SearchOption = "short",
    device: DeviceOption = "cpu",
    class_prior: PriorOption = None,
    image: ImageOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cluster the rows of a table, or the vertices of a graph.

    Labels, confidence and memberships go to --out. Ctrl-C ends the run early: the best clusters so far are written.
    """
    source = Source(file, kind, columns, id_column, None, array, n_neighbors, metric, weights, method, device)
    with _command(seed, search) as written:
        target = Target.checked(out, report, as_json, file)
        say = shell.silent if quiet else shell.say
        settings: dict[str, Any] = {"search": search, "device": device, "class_prior": _shares(class_prior)}
        data = source.read()
        images = _images(data, image)
        graph, neighbors = source.graph_of(data, seed, is_quiet=quiet)
        diagnosis = _diagnosed(graph, n_clusters, say)
        from tautcut.estimators import MTVClustering

        model = MTVClustering(
            n_clusters, affinity="precomputed", random_state=seed, verbose=_has_bar(quiet), **settings
        )  # fmt: skip
        say("Clustering; the first run on a machine compiles for up to a minute ...")
        _fit(model, graph, None, say)
        about = source.about("cluster", data, seed, {"n_clusters": n_clusters, **settings, "image": image}, neighbors)
        target.leave(FinishedRun(model, about, file, data, images, diagnosis), written)


def classify(
    file: FileArgument,
    labels: Annotated[Path | None, typer.Option(help="A table of id and label: .csv .tsv .txt.")] = None,
    label_column: LabelColumnOption = None,
    out: OutOption = None,
    report: ReportOption = None,
    kind: KindOption = None,
    columns: ColumnsOption = None,
    id_column: IdOption = None,
    array: ArrayOption = None,
    n_neighbors: NeighborsOption = 10,
    metric: MetricOption = "euclidean",
    weights: WeightsOption = "binary",
    method: MethodOption = "auto",
    search: SearchOption = "short",
    device: DeviceOption = "cpu",
    class_prior: PriorOption = None,
    image: ImageOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Label every row or vertex from a few labels, which are kept.

    The known labels are in --labels or --label-column; empty, −1 and NaN are unknown.
    """
    source = Source(file, kind, columns, id_column, label_column, array, n_neighbors, metric, weights, method, device)
    with _command(seed, search) as written:
        target = Target.checked(out, report, as_json, file)
        say = shell.silent if quiet else shell.say
        if (labels is None) == (label_column is None):
            raise InputError("the known labels are missing or given twice: give either --labels or --label-column.")
        settings: dict[str, Any] = {"search": search, "device": device, "class_prior": _shares(class_prior)}
        data = source.read()
        images, known = _images(data, image), _known(data, labels)
        graph, neighbors = source.graph_of(data, seed, is_quiet=quiet)
        from tautcut.checks import UNLABELLED
        from tautcut.estimators import MTVClassifier

        given = [label for label in known.tolist() if label not in (None, UNLABELLED)]
        n_classes = len(set(given))
        diagnosis = _diagnosed(graph, max(n_classes, 1), say)
        model = MTVClassifier(affinity="precomputed", random_state=seed, verbose=_has_bar(quiet), **settings)
        if n_classes == 1:
            say(f"Warning: every known label is {given[0]}, so every row gets it. Give labels of each class.")
        say(f"Classifying from {len(given)} labels of {n_classes} classes ...")
        _fit(model, graph, known, say)
        about = source.about(
            "classify", data, seed, {"labels": None if labels is None else str(labels), **settings, "image": image},
            neighbors,
        )  # fmt: skip
        target.leave(FinishedRun(model, about, file, data, images, diagnosis), written)


def graph(
    file: FileArgument,
    n_clusters: Annotated[
        int | None, typer.Option("--n-clusters", "-k", help="Also judge the graph for this many clusters.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write the graph: .npz .mtx .edges .graphml or .graph (METIS).")
    ] = None,
    kind: KindOption = None,
    columns: ColumnsOption = None,
    id_column: IdOption = None,
    array: ArrayOption = None,
    n_neighbors: NeighborsOption = 10,
    metric: MetricOption = "euclidean",
    weights: WeightsOption = "binary",
    method: MethodOption = "auto",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Examine the graph of a file, and say what it means for clustering."""
    source = Source(file, kind, columns, id_column, None, array, n_neighbors, metric, weights, method)
    with _command(seed) as written:
        from tautcut import formats
        from tautcut.graph.diagnostics import diagnose
        from tautcut.writing import writable

        formats.check_source(file)
        if out is not None:
            writable(out, formats.GRAPH_SUFFIXES, source=file)
        data = source.read()
        made, neighbors = source.graph_of(data, seed, is_quiet=quiet)
        diagnosis = diagnose(made, n_clusters)
        if out is not None:
            formats.write_graph(out, made, data.ids)
            written.append(out)
        if as_json:
            about = source.about("graph", data, seed, {"n_clusters": n_clusters}, neighbors)
            print_json(about | {"diagnosis": diagnosis.to_dict(), "out": None if out is None else str(out)})
            return
        typer.echo(str(diagnosis))
        if out is not None:
            typer.echo(f"Graph: {out}")


def suggest(
    file: FileArgument,
    smallest: Annotated[int, typer.Option("--min", help="The fewest clusters to try.")] = 2,
    largest: Annotated[int, typer.Option("--max", help="The most clusters to try.")] = 15,
    kind: KindOption = None,
    columns: ColumnsOption = None,
    id_column: IdOption = None,
    array: ArrayOption = None,
    n_neighbors: NeighborsOption = 10,
    metric: MetricOption = "euclidean",
    weights: WeightsOption = "binary",
    method: MethodOption = "auto",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Suggest how many clusters a file has: the number after which clusters without a seam have to be split."""
    source = Source(file, kind, columns, id_column, None, array, n_neighbors, metric, weights, method)
    with _command(seed):
        if not 1 <= smallest <= largest:
            raise InputError(f"--min must be from 1 to --max; found {smallest} and {largest}.")
        say = shell.silent if quiet else shell.say
        data = source.read()
        made, neighbors = source.graph_of(data, seed, is_quiet=quiet)
        from tautcut.suggestion import suggest_n_clusters

        say(f"Clustering into {smallest} to {largest} clusters ...")
        with _warnings_said(say, is_graph_known=True), _bars(quiet) as observers:
            found = suggest_n_clusters(made, range(smallest, largest + 1), random_state=seed, observers=observers)
        if as_json:
            about = source.about("suggest", data, seed, {"min": smallest, "max": largest}, neighbors)
            print_json(about | {"suggestion": found.to_dict()})
        else:
            typer.echo(str(found))
        if not found.is_complete:
            shell.say("tautcut: interrupted; the suggestion is from the numbers of clusters done by then.")
            raise typer.Exit(shell.INTERRUPTED)


# ---------------------------------------------------------------- parts of a command


@contextmanager
def _command(seed: int, search: str | None = None) -> Iterator[list[Path]]:
    """Exit codes around a command; what it writes is listed for whoever interrupts it."""
    written: list[Path] = []

    def what_is_left() -> str:
        return f"written: {', '.join(map(str, written))}" if written else "nothing was written"

    with shell.exit_codes(what_is_left):
        shell.check_seed(seed)
        if search is not None:
            from tautcut.search.plan import Plan

            Plan(search=search)
        yield written


def _split(names: list[str]) -> list[str]:
    return [name.strip() for one in names for name in one.split(",") if name.strip()]


def _shares(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise InputError(f"--class-prior must be numbers, as 0.5,0.3,0.2; found {text!r}.") from None


def _images(data: Data, size: str | None) -> Array | None:
    """The rows as pictures, if they are said or known to be."""
    import numpy as np

    shape = data.image_shape
    if size is not None:
        sides = size.lower().split("x")
        if len(sides) != 2 or not all(side.isdecimal() for side in sides):
            raise InputError(f"--image must be a height and a width, as 28x28; found {size!r}.")
        shape = int(sides[0]), int(sides[1])
    if shape is None:
        return None
    if not isinstance(data.content, np.ndarray) or data.content.shape[1] != shape[0] * shape[1]:
        raise InputError(f"--image {shape[0]}x{shape[1]} does not fit; the file holds {data.summary}.")
    return data.content.reshape(-1, *shape)


def _known(data: Data, labels: Path | None) -> Array:
    """The known labels, None where there is none."""
    from tautcut import formats

    if labels is not None:
        return formats.read_labels(labels, data.ids)
    if data.labels is None:
        raise InputError("this file has no column of labels; give them in a file of their own, by --labels.")
    return formats.known_labels(data.labels)


def _diagnosed(graph: Graph, n_clusters: int, say: Callable[[str], None]) -> Diagnosis:
    """What the graph is like; warnings are said before the run that they are about."""
    from tautcut.checks import cluster_count
    from tautcut.graph.diagnostics import diagnose

    diagnosis = diagnose(graph, cluster_count(n_clusters))
    for finding in diagnosis.warnings:
        say(f"Warning: {finding.meaning} {finding.advice}".rstrip())
    return diagnosis


def _fit(model: MTVClustering | MTVClassifier, graph: Graph, known: Array | None, say: Callable[[str], None]) -> None:
    """Fit the model; what is worth knowing of the graph has been said."""
    with _warnings_said(say, is_graph_known=True):
        model.fit(graph, known)


def _has_bar(is_quiet: bool) -> bool:
    return not is_quiet and sys.stderr.isatty()


@contextmanager
def _bars(is_quiet: bool) -> Iterator[list[Any]]:
    if not _has_bar(is_quiet):
        yield []
        return
    from tautcut.algorithm.observers import ProgressBar

    with ProgressBar() as bar:
        yield [bar]


@contextmanager
def _neighbor_bar(is_quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar for the search of neighbours, where there is a terminal to draw it on."""
    if not _has_bar(is_quiet):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("neighbors", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def _warnings_said(say: Callable[[str], None], *, is_graph_known: bool = False) -> Iterator[None]:
    """Warnings of the library become lines on standard error; those on the graph may have been said already."""

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        say(f"Warning: {message}")

    with warnings.catch_warnings():
        if is_graph_known:
            warnings.simplefilter("ignore", GraphWarning)
        warnings.showwarning = show
        yield
