"""`tautcut cluster`, `classify`, `graph` and `suggest`: from a file to labels, diagnostics or a number of clusters.
Each reads, hands over to the library, and writes or prints what came back; what is decided on the way is said on
standard error. No algorithm and no format lives here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tautcut.cli import shell
from tautcut.cli.finished import FinishedRun
from tautcut.cli.options import Common, FitOptions, Source, expanded
from tautcut.errors import InputError

if TYPE_CHECKING:
    from tautcut.arrays import Array
    from tautcut.formats import Data
    from tautcut.graph import Graph
    from tautcut.graph.diagnostics import Diagnosis


@expanded
def cluster(
    *,
    n_clusters: Annotated[int, typer.Option("--n-clusters", "-k", help="How many clusters; see 'tautcut suggest'.")],
    fit: FitOptions,
    source: Source,
    common: Common,
) -> None:
    """Cluster the rows of a table, or the vertices of a graph.

    Labels, confidence and memberships go to --out. Ctrl-C ends the run early: the best clusters so far are written.
    """
    with _command(common.seed) as written:
        out, settings = fit.checked_out(source.file), fit.settings
        data = source.read()
        images = fit.images(data)
        graph, neighbors = source.graph_of(data, common, fit.device)
        diagnosis = _diagnosed(source, graph, data, n_clusters, common)
        from tautcut.estimators import MTVClustering

        model = MTVClustering(
            n_clusters, affinity="precomputed", random_state=common.seed, verbose=common.has_bar, **settings
        )  # fmt: skip
        common.say("Clustering; the first run on a machine compiles for up to a minute ...")
        with common.warnings_said(is_graph_known=True):
            model.fit(graph)
        settings = {"n_clusters": n_clusters, **settings, "image": fit.image}
        about = source.about("cluster", data, common.seed, settings, neighbors)
        run = FinishedRun(model, about, source.file, data, images, diagnosis)
        run.leave(out, fit.report, written, as_json=common.as_json)


@expanded
def classify(
    *,
    labels: Annotated[Path | None, typer.Option(help="A table of id and label: .csv .tsv .txt.")] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="The known labels are this column (array, attribute) of FILE; others are left empty."),
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word for an unknown label, besides empty, −1, NA and ?; repeatable."),
    ] = None,
    fit: FitOptions,
    source: Source,
    common: Common,
) -> None:
    """Label every row or vertex from a few labels, which are kept.

    The known labels are in --labels or --label-column; empty, −1, NaN, NA, ? and every --unknown WORD are unknown.
    """
    with _command(common.seed) as written:
        out, settings = fit.checked_out(source.file), fit.settings
        if (labels is None) == (label_column is None):
            raise InputError("the known labels are missing or given twice: give either --labels or --label-column.")
        data = source.read(label_column)
        images, known = fit.images(data), _known(data, labels, unknown or (), common)
        graph, neighbors = source.graph_of(data, common, fit.device)
        from tautcut.checks import UNLABELLED
        from tautcut.estimators import MTVClassifier

        given = [label for label in known.tolist() if label not in (None, UNLABELLED)]
        n_classes = len(set(given))
        diagnosis = _diagnosed(source, graph, data, max(n_classes, 1), common)
        model = MTVClassifier(affinity="precomputed", random_state=common.seed, verbose=common.has_bar, **settings)
        if n_classes == 1:
            common.say(f"Warning: every known label is {given[0]}, so every row gets it. Give labels of each class.")
        common.say(f"Classifying from {len(given)} labels of {n_classes} classes ...")
        with common.warnings_said(is_graph_known=True):
            model.fit(graph, known)
        named = {"labels": None if labels is None else str(labels), "label_column": label_column, "unknown": unknown}
        about = source.about("classify", data, common.seed, {**named, **settings, "image": fit.image}, neighbors)
        run = FinishedRun(model, about, source.file, data, images, diagnosis)
        run.leave(out, fit.report, written, as_json=common.as_json)


@expanded
def graph(
    *,
    n_clusters: Annotated[
        int | None, typer.Option("--n-clusters", "-k", help="Also judge the graph for this many clusters.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write the graph: .npz .mtx .edges .graphml or .graph (METIS).")
    ] = None,
    source: Source,
    common: Common,
) -> None:
    """Examine the graph of a file, and say what it means for clustering."""
    with _command(common.seed) as written:
        from tautcut import formats
        from tautcut.writing import writable

        formats.check_source(source.file)
        if out is not None:
            writable(out, formats.GRAPH_SUFFIXES, source=source.file)
        data = source.read()
        made, neighbors = source.graph_of(data, common)
        diagnosis = source.diagnose(made, data, n_clusters)
        if out is not None:
            formats.write_graph(out, made, data.ids)
            written.append(out)
        if common.as_json:
            about = source.about("graph", data, common.seed, {"n_clusters": n_clusters}, neighbors)
            shell.print_json(about | {"diagnosis": diagnosis.to_dict(), "out": None if out is None else str(out)})
            return
        typer.echo(str(diagnosis))
        if out is not None:
            typer.echo(f"Graph: {out}")


@expanded
def suggest(
    *,
    smallest: Annotated[int, typer.Option("--min", help="The fewest clusters to try.")] = 2,
    largest: Annotated[int, typer.Option("--max", help="The most clusters to try.")] = 15,
    source: Source,
    common: Common,
) -> None:
    """Suggest how many clusters a file has: the number after which clusters without a seam have to be split."""
    with _command(common.seed):
        if not 1 <= smallest <= largest:
            raise InputError(f"--min must be from 1 to --max; found {smallest} and {largest}.")
        data = source.read()
        made, neighbors = source.graph_of(data, common)
        from tautcut.algorithm.observers import ProgressBar
        from tautcut.suggestion import suggest_n_clusters

        common.say(f"Clustering into {smallest} to {largest} clusters ...")
        with common.warnings_said(is_graph_known=True), ExitStack() as stack:
            bars = [stack.enter_context(ProgressBar())] if common.has_bar else []
            found = suggest_n_clusters(made, range(smallest, largest + 1), random_state=common.seed, observers=bars)
        if common.as_json:
            about = source.about("suggest", data, common.seed, {"min": smallest, "max": largest}, neighbors)
            shell.print_json(about | {"suggestion": found.to_dict()})
        else:
            typer.echo(str(found))
        if not found.is_complete:
            shell.say("tautcut: interrupted; the suggestion is from the numbers of clusters done by then.")
            raise typer.Exit(shell.INTERRUPTED)


@contextmanager
def _command(seed: int) -> Iterator[list[Path]]:
    """Exit codes around a command; what it writes is listed for whoever interrupts it."""
    written: list[Path] = []

    def what_is_left() -> str:
        return f"written: {', '.join(map(str, written))}" if written else "nothing was written"

    with shell.exit_codes(what_is_left):
        shell.check_seed(seed)
        yield written


def _known(data: Data, labels: Path | None, unknown: Sequence[str], common: Common) -> Array:
    """The known labels, None where there is none; one has to be unknown."""
    import numpy as np

    from tautcut import formats

    if labels is not None:
        known = formats.read_labels(labels, data.all_ids, unknown)
        known = known if data.dropped is None else np.delete(known, data.dropped)
    elif data.labels is None:
        raise InputError("this file has no column of labels; give them in a file of their own, by --labels.")
    else:
        known = formats.known_labels(data.labels.tolist(), unknown)
    word = formats.placeholder_among(known)
    hint = "" if word is None else f" If {word!r} means that a label is unknown, say --unknown {word!r}."
    if all(label is not None for label in known.tolist()):
        n_classes = len(set(known.tolist()))
        raise InputError(
            f"every row already has a label, of {n_classes} classes: nothing is left to classify. Leave the labels "
            f"that are to be found empty.{hint}"
        )
    if hint:
        common.say(f"Warning: {word!r} is taken as a class.{hint}")
    return known


def _diagnosed(source: Source, graph: Graph, data: Data, n_clusters: int, common: Common) -> Diagnosis:
    """What the graph is like; warnings are said before the run that they are about."""
    from tautcut.checks import cluster_count

    diagnosis = source.diagnose(graph, data, cluster_count(n_clusters))
    for finding in diagnosis.warnings:
        if finding.name == "columns":
            continue  # said when the graph was made
        common.say(f"Warning: {finding.meaning} {finding.advice}".rstrip())
    return diagnosis
