"""The program as a process: it does not wait at its end for threads that an interrupt has left behind."""

from __future__ import annotations

import os
import sys

import pytest

import tautcut.cli
from tautcut import __main__ as program


class Left(Exception):  # noqa: N818 - stands for the end of the process
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

    return end_by


def test_an_interrupted_command_leaves_at_once(ends):
    ends(SystemExit(130))
    with pytest.raises(Left, match="130"):
        program.main()


@pytest.mark.parametrize("code", [0, 2])
def test_other_ends_are_those_of_python(ends, code):
    ends(SystemExit(code))
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == code


def test_an_interrupt_before_a_command_has_begun_is_one_sentence(ends, capsys):
    ends(KeyboardInterrupt())
    with pytest.raises(Left, match="130"):
        program.main()
    assert capsys.readouterr().err == "tautcut: interrupted; nothing was written.\n"


def test_output_that_nobody_reads_does_not_keep_the_process(ends, monkeypatch):
    class Closed:
        def flush(self) -> None:
            raise BrokenPipeError

    ends(SystemExit(130))
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(Left, match="130"):
        program.main()
