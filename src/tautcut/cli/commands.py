"""`tautcut cluster`, `classify`, `next`, `graph` and `suggest`: from a file to labels, questions or words on the graph.
Each reads, hands over to the library, and writes or prints what came back; what is decided on the way is said on
standard error. No algorithm and no format lives here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tautcut.cli import shell
from tautcut.cli.finished import FinishedRun
from tautcut.cli.options import Candidates, Common, FitOptions, Grouping, expanded, n_apart
from tautcut.cli.sharded import Ranks, ShardedCommand
from tautcut.cli.source import AskedSource, Source
from tautcut.errors import InputError
from tautcut.interrupts import apart

if TYPE_CHECKING:
    from tautcut.acquisition import Question
    from tautcut.arrays import Array
    from tautcut.formats import Data
    from tautcut.graph import Graph
    from tautcut.graph.findings import Diagnosis
    from tautcut.neighbors import NeighborReport


@expanded
def cluster(
    *,
    n_clusters: Annotated[
        str, typer.Option("--n-clusters", "-k", metavar="NUMBER|auto", help="How many clusters; auto asks 'suggest'.")
    ],
    candidates: Candidates,
    fit: FitOptions,
    grouping: Grouping,
    many: Ranks,
    source: Source,
    common: Common,
) -> None:
    """Cluster the rows of a table, the vertices of a graph, or those of a sharded graph by many processes.

    Labels and their confidence go to --out. Ctrl-C ends the run early: the best clusters so far are written.
    """
    with _command(common.seed, source) as written:
        settings, asked = fit.settings, candidates.asked(n_clusters)
        grouping.check()
        if many.are_meant(source.file):
            ShardedCommand("cluster", source, fit, grouping, many, common).cluster(asked)
            return
        with common.bar(fit.device) as bar:

            def prepare() -> tuple[Path, Data, Array | None, dict[str, Any], Graph, NeighborReport | None]:
                out, data = fit.checked_out(source.file, grouping.must_link), source.read()
                images, grouped = fit.images(data), grouping.settings(data)
                return out, data, images, grouped, *source.graph_of(data, common, fit.device, bar)

            out, data, images, grouped, graph, neighbors = apart(prepare)
            links = grouped.get("must_link")
            found = None if asked else candidates.suggested(grouping.weighed(graph), common, bar, links)
            number = found.n_clusters if found else asked
            if found:
                if not found.is_complete:
                    raise KeyboardInterrupt
                common.say(f"Taking {number} clusters: {found.reason}")
            diagnosis = apart(lambda: _diagnosed(source, grouping.weighed(graph), data, number, common))
            model = apart(_estimators).MTVClustering(
                number, affinity="precomputed", random_state=common.seed, verbose=bar or False,
                smoothing="auto" if source.is_smoothed_if_clear else None, **settings, **grouped,
            )  # fmt: skip
            common.say("Clustering; the first run on a machine compiles for up to a minute ...")
            with common.warnings_said(is_graph_known=True), shell.acknowledged():
                model.fit(graph)
            if source.is_smoothed_if_clear and model.smoothing_ is None:
                common.say("The walk's graph does not show clear clusters: the graph was cut as it is.")
            elif source.is_smoothed_if_clear:
                common.say(f"The walk's graph of {model.smoothing_} neighbours shows clear clusters, and was cut.")
                diagnosis = source.diagnose(model.graph_, data, number, smoothing=model.smoothing_)
        settings = {"n_clusters": number, **settings, **grouping.told, "image": fit.image}
        about = source.about("cluster", data, common.seed, settings, neighbors)
        if found:
            about["suggestion"] = found.to_dict()
        run = FinishedRun(model, about, source.file, data, images, diagnosis)
        run.leave(out, fit.report, written, as_json=common.as_json)


@expanded
def classify(
    *,
    labels: Annotated[Path | None, typer.Option(help="A table of id and label: .csv .tsv .txt .parquet.")] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="The known labels are this column (array, attribute) of FILE; others are left empty."),
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word for an unknown label, besides empty, −1, NA and ?; repeatable."),
    ] = None,
    fit: FitOptions,
    grouping: Grouping,
    many: Ranks,
    source: Source,
    common: Common,
) -> None:
    """Label every row or vertex from a few labels, which are kept.

    The known labels are in --labels or --label-column; empty, −1, NaN, NA, ? and every --unknown WORD are unknown.
    """
    with _command(common.seed, source) as written:
        settings = fit.settings
        source.refuse_auto_smoothing("classify")
        if (labels is None) == (label_column is None):
            raise InputError("the known labels are missing or given twice: give either --labels or --label-column.")
        grouping.check()
        if many.are_meant(source.file):
            ShardedCommand("classify", source, fit, grouping, many, common).classify(labels, unknown or ())
            return
        with common.bar(fit.device) as bar:

            def prepare() -> tuple[Path, Data, Array | None, dict[str, Any], Array, Graph, NeighborReport | None]:
                out = fit.checked_out(source.file, labels, grouping.must_link)
                data = source.read(label_column)
                images, known = fit.images(data), _known(data, labels, unknown or (), common)
                grouped = grouping.settings(data)
                return out, data, images, grouped, known, *source.graph_of(data, common, fit.device, bar)

            out, data, images, grouped, known, graph, neighbors = apart(prepare)
            from tautcut.checks import UNLABELLED

            given = [label for label in known.tolist() if label not in (None, UNLABELLED)]
            n_classes = len(set(given))
            diagnosis = apart(lambda: _diagnosed(source, grouping.weighed(graph), data, max(n_classes, 1), common))
            model = apart(_estimators).MTVClassifier(
                affinity="precomputed", random_state=common.seed, verbose=bar or False, **settings, **grouped
            )  # fmt: skip
            if n_classes == 1:
                common.say(
                    f"Warning: every known label is {given[0]}, so every row gets it. Give labels of each class."
                )
            common.say(f"Classifying from {len(given)} labels of {n_classes} classes ...")
            with common.warnings_said(is_graph_known=True), shell.acknowledged():
                model.fit(graph, known)
        named = {"labels": None if labels is None else str(labels), "label_column": label_column, "unknown": unknown}
        told = {**named, **settings, **grouping.told, "image": fit.image}
        about = source.about("classify", data, common.seed, told, neighbors)
        run = FinishedRun(model, about, source.file, data, images, diagnosis)
        run.leave(out, fit.report, written, as_json=common.as_json)


@expanded
def next_points(
    *,
    n_points: Annotated[int, typer.Option("--n-points", "-n", help="How many rows to ask for.")] = 10,
    labels: Annotated[
        Path | None, typer.Option(help="The labels so far: a table of id and label, .csv .tsv .txt; none if absent.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="The labels so far are this column (array, attribute) of FILE.")
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word for an unknown label, besides empty, −1, NA and ?; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write a table to fill in, with the labels so far: the next --labels. .csv .tsv"),
    ] = None,
    grouping: Grouping,
    source: AskedSource,
    common: Common,
) -> None:
    """Name the rows or vertices to label next, the most telling first.

    Without labels it is a first choice: the middle of each cluster. Rows are called by their ids.
    """
    with _command(common.seed, source) as written:
        grouping.check()
        source.refuse_auto_smoothing("next")
        if labels is not None and label_column is not None:
            raise InputError("the labels so far are given twice: give either --labels or --label-column.")
        with common.bar() as bar:

            def prepare() -> tuple[Data, Array, list[list[int]] | None, Graph, NeighborReport | None]:
                from tautcut import formats
                from tautcut.writing import check_apart, writable

                formats.check_source(source.file)
                if out is not None:
                    writable(out, formats.QUESTION_SUFFIXES, source=source.file)
                    check_apart([out], [source.file, labels, grouping.must_link])
                data = source.read(label_column)
                known = _known_so_far(data, labels, unknown or (), common)
                return data, known, grouping.links(data), *source.graph_of(data, common, bar=bar)

            data, known, links, made, neighbors = apart(prepare)
            questions = apart(lambda: _questions(grouping.weighed(made), known, links, n_points, common.seed))
        if out is not None:
            from tautcut.formats import write_questions

            write_questions(out, data.ids, known, [one.vertex for one in questions])
            written.append(out)
        ids = [shell.plain(data.ids[one.vertex]) for one in questions]
        if common.as_json:
            named = {"labels": None if labels is None else str(labels), "label_column": label_column}
            told = {"n_points": n_points, **named, "unknown": unknown, **grouping.told}
            about = source.about("next", data, common.seed, told, neighbors)
            asked = [
                {"id": id_, "row": one.vertex, "doubt": one.doubt, "reason": one.reason}
                for id_, one in zip(ids, questions, strict=True)
            ]
            shell.print_json(about | {"next": asked, "out": None if out is None else str(out)})
            return
        width = max(len("id"), *(len(shell.printable(str(id_))) for id_ in ids))
        shell.show(f"{'id':<{width}}  why")
        for id_, one in zip(ids, questions, strict=True):
            shell.show(f"{shell.printable(str(id_)):<{width}}  {one.reason}")
        if out is not None:
            shell.show(f"Table to fill in: {out}")


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
    with _command(common.seed, source) as written:
        source.refuse_auto_smoothing("graph")
        with common.bar() as bar:

            def prepare() -> tuple[Data, Graph, NeighborReport | None, Diagnosis]:
                from tautcut import formats
                from tautcut.writing import writable

                formats.check_source(source.file)
                if out is not None:
                    writable(out, formats.GRAPH_SUFFIXES, source=source.file)
                data = source.read()
                made, neighbors = source.graph_of(data, common, bar=bar)
                return data, made, neighbors, source.diagnose(made, data, n_clusters)

            data, made, neighbors, diagnosis = apart(prepare)
        if out is not None:
            from tautcut.formats import write_graph

            with common.warnings_said():
                write_graph(out, made, data.ids)
            written.append(out)
        if common.as_json:
            about = source.about("graph", data, common.seed, {"n_clusters": n_clusters}, neighbors)
            shell.print_json(about | {"diagnosis": diagnosis.to_dict(), "out": None if out is None else str(out)})
            return
        shell.show(str(diagnosis))
        if out is not None:
            shell.show(f"Graph: {out}")


@expanded
def suggest(
    *,
    candidates: Candidates,
    grouping: Grouping,
    source: Source,
    common: Common,
) -> None:
    """Suggest how many clusters a file has: the number after which clusters without a seam have to be split."""
    with _command(common.seed, source):
        candidates.within()
        grouping.check()
        source.refuse_auto_smoothing("suggest")
        with common.bar() as bar:

            def prepare() -> tuple[Data, list[list[int]] | None, Graph, NeighborReport | None]:
                data = source.read()
                return data, grouping.links(data), *source.graph_of(data, common, bar=bar)

            data, links, made, neighbors = apart(prepare)
            found = candidates.suggested(grouping.weighed(made), common, bar, links)
        if common.as_json:
            asked = dict(zip(("min", "max"), candidates.within(n_apart(made, links)), strict=True))
            about = source.about("suggest", data, common.seed, asked | grouping.told, neighbors)
            shell.print_json(about | {"suggestion": found.to_dict()})
        else:
            shell.show(str(found))
        if not found.is_complete:
            shell.say("tautcut: interrupted; the suggestion is from the numbers of clusters done by then.")
            raise typer.Exit(shell.INTERRUPTED)


def _estimators() -> ModuleType:
    """The room of the estimators, which takes a moment to load."""
    from tautcut import estimators

    return estimators


@contextmanager
def _command(seed: int, source: Source) -> Iterator[list[Path]]:
    """Exit codes and a limit of memory around a command; what it writes is listed for whoever interrupts it."""
    written: list[Path] = []

    def what_is_left() -> str:
        return f"written: {', '.join(map(str, written))}" if written else "nothing was written"

    with shell.exit_codes(what_is_left):
        shell.check_seed(seed)
        with source.memory_limited():
            yield written


def _questions(graph: Graph, known: Array, links: list[list[int]] | None, n_points: int, seed: int) -> list[Question]:
    """What to ask next, where rows in `links` share a label."""
    import numpy as np

    from tautcut.acquisition import Acquisition
    from tautcut.search.links import linked_groups
    from tautcut.targets import encode_labels

    groups = None if links is None else linked_groups(links, {i: i for i in range(graph.n_vertices)})
    codes = encode_labels(known, graph.n_vertices, or_none=True)[1]
    return Acquisition(graph, rng=np.random.default_rng(seed), groups=groups).questions(codes, n_points)


def _known_so_far(data: Data, labels: Path | None, unknown: Sequence[str], common: Common) -> Array:
    """The labels there are, None where there is none: none at all where neither a file nor a column has them."""
    import numpy as np

    if labels is None and data.labels is None:
        return np.full(len(data.ids), None, dtype=object)
    known = _read_known(data, labels, unknown, or_none=True)
    _say_of_placeholder(known, common)
    return known


def _known(data: Data, labels: Path | None, unknown: Sequence[str], common: Common) -> Array:
    """The known labels, None where there is none; one has to be unknown."""
    known = _read_known(data, labels, unknown)
    if all(label is not None for label in known.tolist()):
        n_classes = len(set(known.tolist()))
        raise InputError(
            f"every row already has a label, of {n_classes} classes: nothing is left to classify. Leave the labels "
            f"that are to be found empty.{_hint_of_placeholder(known)}"
        )
    _say_of_placeholder(known, common)
    return known


def _read_known(data: Data, labels: Path | None, unknown: Sequence[str], *, or_none: bool = False) -> Array:
    """The labels of the file or the column."""
    import numpy as np

    from tautcut import formats

    if labels is None and data.labels is None:
        raise InputError("this file has no column of labels; give them in a file of their own, by --labels.")
    if labels is None:
        return formats.known_labels(cast("Array", data.labels).tolist(), unknown, or_none=or_none)
    known = formats.read_labels(labels, data.all_ids, unknown, or_none=or_none)
    return known if data.dropped is None else np.delete(known, data.dropped)


def _say_of_placeholder(known: Array, common: Common) -> None:
    from tautcut.formats import placeholder_among

    hint = _hint_of_placeholder(known)
    if hint:
        common.say(f"Warning: {placeholder_among(known)!r} is taken as a class.{hint}")


def _hint_of_placeholder(known: Array) -> str:
    """What to do about a class whose name says that it is none; empty if there is no such class."""
    from tautcut.formats import placeholder_among

    word = placeholder_among(known)
    return "" if word is None else f" If {word!r} means that a label is unknown, say --unknown {word!r}."


def _diagnosed(source: Source, graph: Graph, data: Data, n_clusters: int, common: Common) -> Diagnosis:
    """What the graph is like; warnings are said before the run that they are about."""
    from tautcut.checks import cluster_count

    diagnosis = source.diagnose(graph, data, cluster_count(n_clusters))
    for finding in diagnosis.warnings:
        if finding.name == "columns":
            continue  # said when the graph was made
        common.say(f"Warning: {finding.meaning} {finding.advice}".rstrip())
    return diagnosis
