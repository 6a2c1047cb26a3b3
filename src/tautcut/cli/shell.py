"""What every command shares: exit codes, messages on standard error, and the checks of common options. It owns how
mistakes and Ctrl-C are told; it knows no command.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from typing import Annotated, Any, NoReturn

import typer

from tautcut import interrupts
from tautcut.errors import EngineUnavailableError, InputError, InterruptedRunWarning, TautcutError
from tautcut.writing import give_up

BAD_INPUT = 2
INTERRUPTED = 130  # what a shell reports of a command ended by Ctrl-C

_REMEDIES = {
    errno.ENOSPC: ("Free some space, or write elsewhere.",),
    errno.EDQUOT: ("Free some space, or write elsewhere.",),
    errno.EFBIG: ("Write elsewhere.",),
    errno.EACCES: ("Change its permissions, or choose another file.",),
    errno.EROFS: ("Write elsewhere.",),
    errno.ENOENT: ("Check its name.",),
    errno.ENOMEM: ("Close other programs, or take a machine with more memory.",),
}
_SAYING = 0.3  # seconds that a last sentence has, where nobody may be reading

SeedOption = Annotated[int, typer.Option(help="Draws the starts and the labels.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


@contextmanager
def exit_codes(what_is_left: Callable[[], str] = lambda: "nothing was written") -> Iterator[None]:
    """Turn the user's mistakes and Ctrl-C into a sentence and an exit code; other errors pass."""
    global _what_is_left
    _what_is_left = what_is_left
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedRunWarning)  # said below, once
            yield
    except BrokenPipeError:
        raise  # the reader of our output left; typer ends quietly
    except TautcutError as error:
        # A library that memory was too short to load counts as missing where it is asked for.
        lack = _exhausted(error.__cause__) if isinstance(error, EngineUnavailableError) else None
        say(f"tautcut: {lack or error}")
        raise typer.Exit(BAD_INPUT) from error
    except OSError as error:
        say(f"tautcut: {_told(error)}")
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        say(f"tautcut: interrupted; {what_is_left()}.")
        raise typer.Exit(INTERRUPTED) from interrupt
    except (MemoryError, RecursionError, RuntimeError, ImportError) as error:
        sentence = _exhausted(error)
        if sentence is None:
            raise
        say(f"tautcut: {sentence}")
        raise typer.Exit(BAD_INPUT) from None  # without the frames that fill the memory
    finally:
        _what_is_left = None


_what_is_left: Callable[[], str] | None = None  # what an interrupt leaves of the command that runs


def _exhausted(error: BaseException | None) -> str | None:
    """The sentence where memory or the stack has run out, in whatever words a library says so; None elsewhere."""
    words = str(error)
    if isinstance(error, RecursionError):
        return "what the file holds is nested too deeply. Flatten it."
    # C++ libraries raise RuntimeError; so does a thread that cannot be started. A library that cannot be mapped is an
    # ImportError.
    if isinstance(error, MemoryError) or any(sign in words for sign in _NO_MEMORY):
        words = next(iter(words.splitlines()), "").rstrip(".")
        detail = f" ({words})" if words else ""
        return f"memory ran out{detail}. Close other programs, take less data, or a machine with more memory."
    return None


_NO_MEMORY = ("bad_alloc", "bad allocation", "out of memory", "annot allocate memory", "can't start new thread",
              "failed to map segment", "Unable to allocate", "lloc failed", "llocation failed")  # fmt: skip


def leave(number: int) -> NoReturn:
    """End the process by the signal of this number, whatever its threads do: nothing is left half-written."""
    give_up()
    left = "" if _what_is_left is None else f"; {_what_is_left()}"
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # which a bar has hidden
    last = threading.Thread(target=say, args=(f"{cursor}tautcut: interrupted{left}.",), daemon=True)
    last.start()
    last.join(_SAYING)
    os._exit(128 + number)


def end(code: int) -> NoReturn:
    """End the process without waiting for its threads: what they still compute is wanted by nobody."""
    give_up()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def mend_streams() -> None:
    """Standard streams that can be written to: a closed one leads nowhere, and what a terminal lacks is spelt out.

    Where one is closed, its number would else be given to the next file that is opened, and whatever a library says
    would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - the interpreter's own until its end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _told(error: OSError) -> str:
    """The error with the file that it is about, and what to do where that is known."""
    reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
    about = reason if error.filename is None else f"'{error.filename}': {reason}"
    return " ".join([f"{about}.", *_REMEDIES.get(error.errno or 0, ())])


@contextmanager
def acknowledged() -> Iterator[None]:
    """Ctrl-C in here is answered in a line, at once, because obeying it takes a moment."""
    line = "tautcut: stopping; what is there is kept. Ctrl-C again leaves at once."
    with interrupts.answering(lambda: say(line)):
        yield


def check_seed(seed: int) -> None:
    """A seed is a whole number ≥ 0."""
    if seed < 0:
        raise InputError(f"--seed must be a whole number ≥ 0; found {seed}.")


def say(message: str) -> None:
    """A line on standard error; that nobody reads it stops no work."""
    try:
        typer.echo(message, err=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the interpreter's own until its end


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
