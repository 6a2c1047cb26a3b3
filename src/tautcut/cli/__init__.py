"""The command line: a shell over the library, and the only place that prints. Results go to standard output,
status lines and errors to standard error. Exit 0: done; 2: bad input, in one sentence; 130: interrupted (143: by
SIGTERM, 129: by SIGHUP).
Heavy imports wait until a command needs them, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from tautcut._version import __version__
from tautcut.cli import commands, demo, label, reproduce, sharded, shards, shell
from tautcut.cli.shell import BAD_INPUT, INTERRUPTED
from tautcut.interrupts import first_signal, listening
from tautcut.writing import is_under_way

# The base of typer's complaints about options; where it is imported from depends on typer's version.
_UsageError: Any = typer.BadParameter.__bases__[0]

app = typer.Typer(
    help="Cluster and classify the vertices of a similarity graph by Multiclass Total Variation.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for command in (
    demo.demo, commands.cluster, commands.classify, commands.graph, commands.suggest, label.label, shards.shard,
    sharded.gather,
):  # fmt: skip
    app.command()(command)
app.command("next")(commands.next_points)
app.add_typer(reproduce.app, name="reproduce")


def program() -> NoReturn:
    """Run the command line as a process, and end it: by an interrupt with the number of the signal in its code."""
    shell.mend_streams()
    with listening(shell.leave, is_under_way):
        try:
            main()
        except SystemExit as end:
            is_interrupted = end.code == INTERRUPTED and first_signal()
            shell.end(128 + first_signal() if is_interrupted else int(end.code or 0))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; the arguments are those of the process unless given."""
    try:
        code = app(args=arguments, prog_name="tautcut", standalone_mode=False)
    except _UsageError as error:
        typer.echo(f"tautcut: {error.format_message()}", err=True)
        code = BAD_INPUT
    sys.exit(code or 0)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """The options that stand before a command."""
    if version:
        typer.echo(f"tautcut {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit
