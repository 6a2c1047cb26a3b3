"""The program as a process: its code tells how it ended, and it does not wait at its end for threads left behind."""

from __future__ import annotations

import os
import signal
import sys

import pytest

import tautcut.cli
from tautcut import __main__ as program
from tautcut import interrupts


class Left(BaseException):
    """The process was left with this code."""


@pytest.fixture
def ends(monkeypatch):
    """Make the command line end so, and the process raise `Left` where it would end at once."""

    def leave(code: int) -> None:
        raise Left(code)

    def end_by(error: BaseException) -> None:
        def run() -> None:
            raise error

        monkeypatch.setattr(os, "_exit", leave)
        monkeypatch.setattr(tautcut.cli, "main", run)
        monkeypatch.setattr(tautcut.cli.shell, "mend_streams", lambda: None)  # pytest's are its own

    before = {one: signal.getsignal(one) for one in interrupts.SIGNALS}
    yield end_by
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("code", [0, 2, 130])
def test_the_process_ends_at_once_with_the_code_of_the_command(ends, code):
    ends(SystemExit(code))
    with pytest.raises(Left, match=f"^{code}$"):
        program.main()


def test_a_mistake_of_ours_is_python_s_to_tell(ends):
    ends(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        program.main()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_a_command_has_begun_is_one_sentence(ends, capfd, number, code):
    ends(SystemExit(0))
    with pytest.raises(Left, match=str(code)):
        program._leave(number, None)
    assert capfd.readouterr().err == "tautcut: interrupted; nothing was written.\n"


def test_output_that_nobody_reads_does_not_keep_the_process(ends, monkeypatch):
    class Closed:
        def flush(self) -> None:
            raise BrokenPipeError

    ends(SystemExit(130))
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(Left, match="130"):
        program.main()
