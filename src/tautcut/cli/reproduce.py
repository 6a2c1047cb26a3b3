"""`tautcut reproduce`: the paper's tables and figures, as campaigns that can be interrupted and go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tautcut.cli import shell
from tautcut.cli.shell import QuietOption, SeedOption
from tautcut.errors import InputError

if TYPE_CHECKING:
    from tautcut.paper.figures import Figure1, Figure2
    from tautcut.paper.protocol import RunSpec
    from tautcut.paper.tables import TableRow
    from tautcut.records import RunRecord

RESULTS = Path("results")
DIGITS = ("optdigits", "pendigits", "mnist")

app = typer.Typer(help="Repeat the paper's tables and figures.")

DataOption = Annotated[
    list[str] | None, typer.Option(help="Only this data set; several by commas or by repeating the option.")
]
MethodsOption = Annotated[
    list[str] | None, typer.Option(help="Only this method; several by commas or by repeating the option.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Fewer starts and iterations; the table says how many.")]
JobsOption = Annotated[int, typer.Option(help="Runs at a time, in processes that share the cores; -1: one per core.")]
OutOption = Annotated[Path, typer.Option(help="The folder for records, tables and pictures.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Put earlier records of these runs aside; run them again.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")]
FigureJsonOption = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]


@dataclass(frozen=True)
class TableRequest:
    """What was asked of a table on the command line."""

    table: str
    data: list[str] | None
    methods: list[str] | None
    is_quick: bool
    jobs: int
    out: Path
    seed: int
    is_fresh: bool
    as_json: bool
    is_quiet: bool

    @property
    def stem(self) -> str:
        return f"{self.table}-quick" if self.is_quick else self.table

    @property
    def records(self) -> Path:
        return self.out / f"{self.stem}.jsonl"


@app.callback(invoke_without_command=True)
def start_reproduce(context: typer.Context) -> None:
    """Repeat the paper's tables and figures."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def _add_table(table: str, what: str) -> None:
    """A command for a table of the paper; both tables have the same options."""

    @app.command(table, help=what)
    def reproduce(
        data: DataOption = None,
        methods: MethodsOption = None,
        quick: QuickOption = False,
        jobs: JobsOption = 1,
        out: OutOption = RESULTS,
        seed: SeedOption = 0,
        fresh: FreshOption = False,
        as_json: JsonOption = False,
        quiet: QuietOption = False,
    ) -> None:
        reproduce_table(TableRequest(table, data, methods, quick, jobs, out, seed, fresh, as_json, quiet))


_add_table("table1", "Without labels: NCC-TV, 1SPEC, LSD, NMFR and MTV as the paper runs them, and tautcut by itself.")
_add_table("table2", "With few labels: MTV as the paper runs it, and tautcut by itself.")


@app.command("figure1")
def figure1(out: OutOption = RESULTS, as_json: FigureJsonOption = False, quiet: QuietOption = False) -> None:
    """The line of 20 vertices: total variation finds the cut, the spectral relaxation a smooth version of it."""
    with shell.exit_codes():
        _check_folder(out)
        (shell.silent if quiet else shell.say)("Solving both relaxations on a line of 20 vertices ...")
        from tautcut.paper import figures
        from tautcut.paper.pictures import draw_figure1

        numbers = figures.figure1()
        _show_figure(numbers, draw_figure1(numbers, _in_folder(out, "figure1")), as_json)


@app.command("figure2")
def figure2(
    data: Annotated[str, typer.Option(help=f"One of {', '.join(DIGITS)}; the paper's is the first.")] = DIGITS[0],
    quick: Annotated[bool, typer.Option("--quick", help="One start in place of five.")] = False,
    out: OutOption = RESULTS,
    seed: SeedOption = 0,
    as_json: FigureJsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The function of the cluster of 4s over the 4s and 9s, sorted, by MTV and by LSD."""
    with shell.exit_codes():
        shell.check_seed(seed)
        _check_folder(out)
        (name,) = _chosen("--data", [data], DIGITS)
        say = shell.silent if quiet else shell.say
        say("Loading ...")
        from tautcut.paper import figures, protocol
        from tautcut.paper.pictures import draw_figure2

        one = protocol.labelled_graph(name)
        n_starts = 1 if quick else 5
        say(f"Clustering {one.graph.n_vertices} vertices by MTV and by LSD; starts of each: {n_starts} ...")
        numbers = figures.figure2(one.graph, one.truth, data=name, n_starts=n_starts, random_state=seed)
        _show_figure(numbers, draw_figure2(numbers, _in_folder(out, "figure2")), as_json)


def _show_figure(numbers: Figure1 | Figure2, files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        content = {"figure": asdict(numbers), "files": [str(path) for path in files]}
        typer.echo(json.dumps(content, indent=2))
    else:
        typer.echo(f"Pictures, and their numbers: {', '.join(str(path) for path in files)}")


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder; '{out}' is a file.")


def _in_folder(out: Path, name: str) -> Path:
    """The path of a new file in the folder, which is made if it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    return out / name


def reproduce_table(request: TableRequest) -> None:
    """Make the runs that have no record yet, then write and show the table of all records."""
    with shell.exit_codes(lambda: _how_to_resume(request)):
        shell.check_seed(request.seed)
        _check_folder(request.out)
        say = shell.silent if request.is_quiet else shell.say
        say("Loading ...")
        from tautcut.paper import campaign, protocol

        every = protocol.TABLES[request.table](seed=request.seed, is_quick=request.is_quick)
        names = _chosen("--data", request.data, [spec.data for spec in every])
        methods = _chosen("--methods", request.methods, [spec.method for spec in every])
        wanted = [spec for spec in every if spec.data in names and spec.method in methods]
        todo = wanted if request.is_fresh else campaign.remaining(wanted, request.records)
        for name in dict.fromkeys(spec.data for spec in todo):
            protocol.labelled_graph(name)  # a data set that is not there is said before anything runs
        _say_what_is_there(request, wanted, todo, say)
        with _progress(todo, is_shown=not (request.is_quiet or request.as_json)) as listen:
            campaign.execute(
                wanted, request.records, run=protocol.record_of, jobs=request.jobs, is_fresh=request.is_fresh,
                on_record=listen,
            )  # fmt: skip
        _show_table(request, campaign.finished(every, request.records), names)


def _chosen(option: str, asked: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The names asked for, in the order and spelling of those known; all of them if none is named."""
    known = list(dict.fromkeys(known))
    if not asked:
        return known
    names = {name.strip().casefold() for one in asked for name in one.split(",") if name.strip()}
    unknown = sorted(names - {name.casefold() for name in known})
    if unknown:
        raise InputError(f"{option} must be among {', '.join(known)}; found '{unknown[0]}'.")
    return [name for name in known if name.casefold() in names]


def _say_what_is_there(
    request: TableRequest, wanted: list[RunSpec], todo: list[RunSpec], say: Callable[[str], None]
) -> None:
    from tautcut.paper import campaign
    from tautcut.records import circumstances

    there = len(wanted) - len(todo)
    say(f"{len(todo)} runs to do" + (f"; {there} are in {request.records} already." if there else "."))
    commit = circumstances()["commit"]
    others = [one for one in campaign.finished(wanted, request.records) if one.commit != commit]
    if others and not request.is_fresh:
        say(f"{len(others)} of them are by another version of the code; --fresh repeats them.")


@contextmanager
def _progress(todo: list[RunSpec], *, is_shown: bool) -> Iterator[Callable[[RunRecord], None]]:
    """What is told of each record: a bar on a terminal, else a line for each run, else nothing."""
    if not is_shown or not todo:
        yield lambda record: None
    elif not sys.stderr.isatty():
        yield lambda record: shell.say(_in_a_line(record))
    else:
        with _bar(todo) as listen:
            yield listen


@contextmanager
def _bar(todo: list[RunSpec]) -> Iterator[Callable[[RunRecord], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from tautcut.paper.campaign import key_of

    costs = {spec.key: spec.cost for spec in todo}
    columns: list[Any] = [TextColumn("{task.fields[done]} of {task.fields[runs]} runs"), BarColumn(bar_width=20)]
    columns += [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.description}")]
    hour = 3600.0  # runs are long and few: the speed is that of the whole campaign
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=24 * hour) as bars:
        task = bars.add_task("", total=sum(costs.values()), done=0, runs=len(todo))
        done = iter(range(1, len(todo) + 1))

        def listen(record: RunRecord) -> None:
            cost = costs[key_of(record) or ""]
            bars.update(task, advance=cost, done=next(done), description=f"{record.data} {record.method}")

        yield listen


def _in_a_line(record: RunRecord) -> str:
    spec = record.settings["spec"]
    which = f"{spec['labels']} labels" if spec["labels"] else f"start {spec['start']}"
    run = f"{record.data} {record.method}, {which}, {spec['trial']}"
    if record.purity is None:
        return f"{run}: {record.status}"
    energy = "infinite" if record.energy is None else f"{record.energy:.4f}"
    return f"{run}: purity {record.purity:.2%}, (P) {energy}, {record.seconds:.1f} s"


def _show_table(request: TableRequest, records: list[RunRecord], names: list[str]) -> None:
    """Write the files of the whole table; print what was asked for."""
    from tautcut.paper import tables

    files = tables.write_tables(request.out, request.stem, request.table, records)
    rows = [row for row in tables.rows_of(request.table, records) if row.data in names]
    if request.as_json:
        content = {"rows": [asdict(row) for row in rows], "files": [str(path) for path in (request.records, *files)]}
        typer.echo(json.dumps(content, indent=2))
        return
    for name in names:
        _print_brief(name, [row for row in rows if row.data == name])
    typer.echo(f"How each cell was run, and how the graphs differ from the paper's: {files[0]}")
    typer.echo(f"Other files: {', '.join(str(path) for path in (*files[1:], request.records))}")


def _print_brief(name: str, rows: list[TableRow]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from tautcut.paper.tables import brief

    content = brief(rows)
    table = Table(*content.head, title=name, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[0].no_wrap = True
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.justify = "right"
    for cells in content.body:
        table.add_row(*cells)
    Console().print(table)


def _how_to_resume(request: TableRequest) -> str:
    if not request.records.exists():
        return "nothing was written"
    which = "the same command without --fresh" if request.is_fresh else "the same command"
    return f"what was done is in {request.records}; {which} goes on from there"
