"""What every command shares: exit codes, messages on standard error, and the checks of common options. It owns how
mistakes and Ctrl-C are told; it knows no command.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Annotated, Any

import typer

from tautcut.errors import InputError, InterruptedRunWarning, TautcutError

BAD_INPUT = 2
INTERRUPTED = 130  # what a shell reports of a command ended by Ctrl-C

_REMEDIES = {
    errno.ENOSPC: ("Free some space, or write elsewhere.",),
    errno.EDQUOT: ("Free some space, or write elsewhere.",),
    errno.EFBIG: ("Write elsewhere.",),
    errno.EACCES: ("Change its permissions, or choose another file.",),
    errno.EROFS: ("Write elsewhere.",),
    errno.ENOENT: ("Check its name.",),
}

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
    except TautcutError as error:
        say(f"tautcut: {error}")
        raise typer.Exit(BAD_INPUT) from error
    except OSError as error:
        say(f"tautcut: {_told(error)}")
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        say(f"tautcut: interrupted; {what_is_left()}.")
        raise typer.Exit(INTERRUPTED) from interrupt


def _told(error: OSError) -> str:
    """The error with the file that it is about, and what to do where that is known."""
    reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
    about = reason if error.filename is None else f"'{error.filename}': {reason}"
    return " ".join([f"{about}.", *_REMEDIES.get(error.errno or 0, ())])


@contextmanager
def acknowledged(is_held: bool = False) -> Iterator[threading.Event]:
    """Ctrl-C in here is answered in a line, at once, because obeying it takes a moment.

    It raises KeyboardInterrupt. Held, the first one only sets the event, so that what is being written is finished.
    """
    pressed = threading.Event()

    def answer(number: int, frame: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        say("tautcut: stopping; what is there is kept. Ctrl-C again leaves at once.")
        if not is_held:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield pressed  # no signal comes here, or it is to be ignored, as in the background of a shell
        return
    signal.signal(signal.SIGINT, answer)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


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
    with _on_standard_output():
        Console().print(table)


def show(text: str) -> None:
    """A line on standard output."""
    with _on_standard_output():
        typer.echo(text)


@contextmanager
def _on_standard_output() -> Iterator[None]:
    """A failing write in here names standard output, where nothing more is written then, not at the end either."""
    from tautcut.writing import naming

    try:
        with naming("standard output"):
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter's own until its end
        raise


def print_json(content: dict[str, Any]) -> None:
    """One object on standard output, without infinities."""
    show(json.dumps(plain(content), indent=2, allow_nan=False))


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
