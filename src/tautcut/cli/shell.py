"""What every command shares: exit codes, messages on standard error, and the checks of common options. It owns how
mistakes and Ctrl-C are told; it knows no command.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Annotated, Any

import typer

from tautcut.errors import InputError, InterruptedRunWarning, TautcutError

BAD_INPUT = 2
INTERRUPTED = 130  # what a shell reports of a command ended by Ctrl-C

SeedOption = Annotated[int, typer.Option(help="Draws the starts and the labels.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


@contextmanager
def exit_codes(what_is_left: Callable[[], str] = lambda: "nothing was written") -> Iterator[None]:
    """Turn the user's mistakes and Ctrl-C into a sentence and an exit code; other errors pass."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedRunWarning)  # said below, once
            yield
    except BrokenPipeError:
        raise  # the reader of our output left; typer ends quietly
    except (TautcutError, OSError) as error:
        typer.echo(f"tautcut: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        typer.echo(f"tautcut: interrupted; {what_is_left()}.", err=True)
        raise typer.Exit(INTERRUPTED) from interrupt


def check_seed(seed: int) -> None:
    """A seed is a whole number ≥ 0."""
    if seed < 0:
        raise InputError(f"--seed must be a whole number ≥ 0; found {seed}.")


def say(message: str) -> None:
    """A line on standard error."""
    typer.echo(message, err=True)


def silent(message: str) -> None:
    """Say nothing."""


def print_table(head: Iterable[Any], rows: Iterable[Iterable[Any]], **style: Any) -> None:
    """A table on standard output; all but its first column stand to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*head, **style)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_json(content: dict[str, Any]) -> None:
    """One object on standard output, without infinities."""
    typer.echo(json.dumps(plain(content), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The same as what JSON knows: NumPy's numbers and arrays become Python's, infinity and NaN become None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def printable(text: str) -> str:
    """Text from a file, without what could steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
