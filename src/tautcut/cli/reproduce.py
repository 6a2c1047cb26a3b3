"""`tautcut reproduce`: the paper's tables and figures, as campaigns that can be interrupted and go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from tautcut.cli import shell
from tautcut.cli.options import expanded, split_by_commas
from tautcut.cli.shell import QuietOption, SeedOption
from tautcut.errors import InputError

if TYPE_CHECKING:
    from tautcut.paper.protocol import RunSpec
    from tautcut.paper.tables import TextTable
    from tautcut.records import RunRecord

RESULTS = Path("results")
DIGITS = ("optdigits", "pendigits", "mnist")

app = typer.Typer(help="Repeat the paper's tables and figures.")

OutOption = Annotated[Path, Option(help="The folder for records, tables and pictures.")]
FigureJsonOption = Annotated[bool, Option("--json", help="Print the numbers as JSON.")]


@dataclass(frozen=True)
class TableOptions:
    """What can be asked of a table; both tables have the same options."""

    data: Annotated[
        list[str] | None, Option(help="Only this data set; several by commas or by repeating the option.")
    ] = None
    methods: Annotated[
        list[str] | None, Option(help="Only this method; several by commas or by repeating the option.")
    ] = None
    quick: Annotated[bool, Option("--quick", help="Fewer starts and iterations; the table says how many.")] = False
    jobs: Annotated[int, Option(help="Runs at a time, in processes that share the cores; -1: one per core.")] = 1
    out: OutOption = RESULTS
    seed: SeedOption = 0
    fresh: Annotated[bool, Option("--fresh", help="Put earlier records of these runs aside; run them again.")] = False
    as_json: Annotated[bool, Option("--json", help="Print the rows as JSON.")] = False
    quiet: QuietOption = False

    def records(self, table: str) -> Path:
        """The file of the records; the files of the table bear its name."""
        return self.out / f"{table}{'-quick' if self.quick else ''}.jsonl"


@app.callback(invoke_without_command=True)
def start_reproduce(context: typer.Context) -> None:
    """Repeat the paper's tables and figures."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def _add_table(table: str, what: str) -> None:
    """A command for a table of the paper."""

    @app.command(table, help=what)
    @expanded
    def reproduce(*, options: TableOptions) -> None:
        reproduce_table(table, options)


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

        _show_figure(figures.figure1(), draw_figure1, out / "figure1", as_json)


@app.command("figure2")
def figure2(
    data: Annotated[str, Option(help=f"One of {', '.join(DIGITS)}; the paper's is the first.")] = DIGITS[0],
    quick: Annotated[bool, Option("--quick", help="One start in place of five.")] = False,
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
        _show_figure(numbers, draw_figure2, out / "figure2", as_json)


def _show_figure(numbers: Any, draw: Callable[[Any, Path], Sequence[Path]], path: Path, as_json: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [str(file) for file in draw(numbers, path)]
    if as_json:
        shell.print_json({"figure": asdict(numbers), "files": files})
    else:
        shell.show(f"Pictures, and their numbers: {', '.join(files)}")


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder; '{out}' is a file.")


def reproduce_table(table: str, options: TableOptions) -> None:
    """Make the runs that have no record yet, then write and show the table of all records."""
    path = options.records(table)
    with shell.exit_codes(lambda: _how_to_resume(path, options.fresh)):
        shell.check_seed(options.seed)
        _check_folder(options.out)
        say = shell.silent if options.quiet else shell.say
        say("Loading ...")
        from tautcut.paper import campaign, protocol
        from tautcut.records import circumstances

        every = protocol.TABLES[table](seed=options.seed, is_quick=options.quick)
        names = _chosen("--data", options.data, [spec.data for spec in every])
        methods = _chosen("--methods", options.methods, [spec.method for spec in every])
        wanted = [spec for spec in every if spec.data in names and spec.method in methods]
        todo = wanted if options.fresh else campaign.remaining(wanted, path)
        for name in dict.fromkeys(spec.data for spec in todo):
            protocol.labelled_graph(name)  # a data set that is not there is said before anything runs
        there = len(wanted) - len(todo)
        say(f"{len(todo)} runs to do" + (f"; {there} are in {path} already." if there else "."))
        commit = circumstances()["commit"]
        n_others = sum(record.commit != commit for record in campaign.finished(wanted, path))
        if n_others and not options.fresh:
            say(f"{n_others} of them are by another version of the code; --fresh repeats them.")
        with _progress(todo, is_shown=not (options.quiet or options.as_json)) as listen:
            campaign.execute(
                wanted, path, run=protocol.record_of, jobs=options.jobs, is_fresh=options.fresh, on_record=listen
            )
        _show_table(table, campaign.finished(every, path), names, path, as_json=options.as_json)


def _chosen(option: str, asked: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The names asked for, in the order and spelling of those known; all of them if none is named."""
    known = list(dict.fromkeys(known))
    if not asked:
        return known
    names = {name.casefold() for name in split_by_commas(asked)}
    unknown = sorted(names - {name.casefold() for name in known})
    if unknown:
        raise InputError(f"{option} must be among {', '.join(known)}; found '{unknown[0]}'.")
    return [name for name in known if name.casefold() in names]


@contextmanager
def _progress(todo: list[RunSpec], *, is_shown: bool) -> Iterator[Callable[[RunRecord], None]]:
    """What is told of each record: a bar on a terminal, else a line for each run, else nothing."""
    if not is_shown or not todo:
        yield lambda record: None
        return
    if not sys.stderr.isatty():
        yield lambda record: shell.say(_in_a_line(record))
        return
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


def _show_table(table: str, records: list[RunRecord], names: list[str], path: Path, *, as_json: bool) -> None:
    """Write the files of the whole table beside its records; print what was asked for."""
    from tautcut.paper import tables

    files = tables.write_tables(path.parent, path.stem, table, records)
    rows = [row for row in tables.rows_of(table, records) if row.data in names]
    if as_json:
        shell.print_json({"rows": [asdict(row) for row in rows], "files": [str(file) for file in (path, *files)]})
        return
    for name in names:
        _print_brief(tables.brief(rows, name))
    shell.show(f"How each cell was run, and how the graphs differ from the paper's: {files[0]}")
    shell.show(f"Other files: {', '.join(str(file) for file in (*files[1:], path))}")


def _print_brief(table: TextTable) -> None:
    from rich import box
    from rich.table import Column

    head = (Column(table.head[0], no_wrap=True), *table.head[1:])
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}
    shell.print_table(head, table.body, title=table.title, title_justify="left", **look)


def _how_to_resume(path: Path, is_fresh: bool) -> str:
    if not path.exists():
        return "nothing was written"
    which = "the same command without --fresh" if is_fresh else "the same command"
    return f"what was done is in {path}; {which} goes on from there"
