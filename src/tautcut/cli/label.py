"""`tautcut label`: from a folder of things to a page on which they are labelled, until Ctrl-C. It reads, starts the
session and its server, and says where they are; what happens on the page is the room `labelling`.
"""

from __future__ import annotations

import secrets
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tautcut.cli import shell
from tautcut.cli.options import Common, expanded, split_by_commas
from tautcut.cli.source import Source
from tautcut.errors import EngineUnavailableError, InputError
from tautcut.interrupts import apart

if TYPE_CHECKING:
    from tautcut.algorithm.observers import ProgressBar
    from tautcut.labelling.session import Session
    from tautcut.labelling.things import Things

_IN_GRAPH = ("n_neighbors", "metric", "weights", "method", "smooth")  # settings that a graph depends on


@expanded
def label(
    *,
    labels: Annotated[Path | None, typer.Option(help="Labels that are known already: a table of id and label.")] = None,
    classes: Annotated[
        list[str] | None, typer.Option(help="Classes to offer; several by commas or by repeating. More can be added.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Where answers are kept; beside FILE, as NAME.labels.jsonl, if absent.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port of the page; one that is free if absent.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    source: Source,
    common: Common,
) -> None:
    """Label things on a local page: a folder of pictures, or the rows of a table, an array or a graph.

    The page asks for the most telling ones, and classifies the others meanwhile. Ctrl-C ends it; every answer is kept,
    and the same command goes on.
    """
    with shell.exit_codes(), source.memory_limited():
        shell.check_seed(common.seed)
        source.refuse_auto_smoothing("label")
        server = apart(_server_room)
        with server.bound(port) as listening:
            with common.bar() as bar:
                things = apart(lambda: _things(source, common, bar))
            with apart(lambda: _session(things, labels, classes or (), journal, common)) as session:
                port, token, ticket = listening.getsockname()[1], *(secrets.token_urlsafe(24) for _ in range(2))
                settings = source.about("label", things.data, common.seed, {}, None)["settings"]
                told = {"command": "classify", "file": source.file.name, "seed": common.seed} | settings
                page = server.application(session, port=port, token=token, ticket=ticket, settings=told)
                session.start()
                address = f"http://127.0.0.1:{port}/?token="
                _tell(address + token, session, common)
                _serve(server.server_of(page), listening, None if no_browser else address + ticket)
                labels_kept = f"{session.state()['n_labelled']:,} labels are in {session.journal.path}"
        shell.say(f"tautcut: ended; {labels_kept}. The same command goes on from there.")


def _tell(address: str, session: Session, common: Common) -> None:
    """Say where the page is, and where answers are kept."""
    if common.as_json:
        told = {"command": "label", "address": address, "journal": str(session.journal.path)}
        shell.print_json(told | {"n_things": len(session.things.names), "kind": session.things.kind})
    else:
        shell.show(address)
    for note in session.notes:
        common.say(note)
    common.say(f"Answers are kept in {session.journal.path}. Ctrl-C ends.")


def _serve(serving: Any, listening: Any, opened: str | None) -> None:
    """Serve until an interrupt; a browser is sent to the address that is to be opened."""
    if opened is not None:
        threading.Thread(target=_open, args=(opened,), daemon=True).start()

    def stop() -> None:
        serving.should_exit = True

    try:
        apart(lambda: serving.run(sockets=[listening]), stop)
    except KeyboardInterrupt:
        serving.force_exit = True


def _open(address: str) -> None:
    """Have the user's browser open the page; one that would take over the terminal is left alone."""
    with suppress(webbrowser.Error, OSError):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(address)


def _server_room() -> Any:
    """The room of the server, which takes a moment to load, and may not be installed."""
    try:
        from tautcut.labelling import server
    except ImportError as error:
        raise EngineUnavailableError(
            f"'tautcut label' needs the package {error.name}, which is not installed: pip install 'tautcut[label]'."
        ) from error
    return server


def _things(source: Source, common: Common, bar: ProgressBar | None) -> Things:
    """What is to be labelled, with its graph, from what was kept of an earlier start where that is the same."""
    from tautcut.labelling.things import Kept, Things

    kept = Kept(source.file)
    progress = None if bar is None else (lambda done, total: bar.show("pictures", done, total))
    data = source.read(is_open=True, pixels=kept.pixels(progress))
    settings = {name: getattr(source, name) for name in _IN_GRAPH}
    if settings["method"] != "exact":
        settings["seed"] = common.seed  # draws what is approximate
    graph, is_made = kept.graph(data, settings, lambda: source.graph_of(data, common, bar=bar)[0])
    if not is_made:
        common.say(
            f"'{source.file}' holds {data.summary}. {' '.join(data.notes)} Its graph was kept by an earlier start."
        )
    if kept.problem is not None:
        common.say(kept.problem)
    return Things(source.file, data, graph, kept)


def _session(
    things: Things, labels: Path | None, classes: list[str] | tuple[str, ...], journal: Path | None, common: Common
) -> Session:
    """The session of the journal, with what is known already."""
    from tautcut.formats import read_labels
    from tautcut.labelling.journal import Journal
    from tautcut.labelling.session import Session

    source = things.source.resolve()
    path = source.with_name(f"{source.name}.labels.jsonl") if journal is None else journal
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"'{path}' cannot be a journal: it is a folder, or its folder is not there. Name a file.")
    known = {}
    if labels is not None:
        given = read_labels(labels, things.data.all_ids).tolist()
        known = {name: str(one) for name, one in zip(things.names, given, strict=True) if one is not None}
    head = {"title": things.title, "kind": things.kind, "n_things": len(things.names)}
    opened = Journal(path, head)
    try:
        return Session(things, opened, seed=common.seed, classes=split_by_commas(classes), known=known)
    except BaseException:
        opened.close()
        raise
