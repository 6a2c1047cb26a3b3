"""Fixed numbers of the command line's fuzzer, and that its judge sees what it should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile import fuzz_cli
from hostile.crafted import CANARY
from hostile.fuzz_cli import Case, Ending, Files
from hostile.fuzzers import sandbox_of
from hostile.sandbox import TESTS, Sandbox

BLOCK, LAST = 25, 50


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with sandbox_of("cli") as one:
        yield one


@pytest.mark.parametrize("first", range(0, LAST, BLOCK))
def test_whatever_is_typed_ends_in_an_answer_or_a_sentence(sandbox, first):
    assert sandbox.failures(range(first, first + BLOCK)) == []


@pytest.mark.parametrize("number", range(0, 1000, 25))
def test_the_same_number_makes_the_same_case(number, tmp_path):
    def made() -> tuple[tuple[str, ...], dict[str, str]]:
        folder = tmp_path / "case"  # of the same name, which a crafted file may hold
        folder.mkdir()
        case = fuzz_cli.made(number, folder)
        content = Files(folder).content
        shutil.rmtree(folder)
        return case.arguments, content

    assert made() == made()


@pytest.mark.parametrize(
    ("ending", "problem"),
    [
        (Ending(0, "", ""), None),
        (Ending(2, "", "tautcut: 'in.csv' is empty. Fill it.\n"), None),
        (Ending(None, "", "", ValueError("x")), "traceback"),
        (Ending(1, "", ""), "exit code 1"),
        (Ending(-11, "", ""), "exit code -11"),
        (Ending(2, "", ""), "0 sentences"),
        (Ending(2, "", "tautcut: a.\ntautcut: b.\n"), "2 sentences"),
        (Ending(0, "", "x.py:7: RuntimeWarning: overflow"), "RuntimeWarning"),
        (Ending(0, "\x1b[31m", ""), "control characters on standard output"),
        (Ending(0, "", CANARY), "canary"),
    ],
)
def test_endings_are_judged(ending, problem):
    case = Case("valid", ".csv", Path("in.csv"), ("graph", "in.csv"))
    found = [*fuzz_cli.problems_of_ending(ending), *fuzz_cli.problems_of_streams(case, ending)]
    assert [problem in one for one in found] == ([] if problem is None else [True])


GOOD = "id,label,confidence\np1,0,0.5\n"


@pytest.mark.parametrize(
    ("written", "code", "problem"),
    [
        ({}, 2, None),
        ({"out.csv": GOOD}, 0, None),
        ({"out.csv": GOOD}, 2, "was written"),
        ({"out.csv": GOOD.replace("p1", "=1+1")}, 0, "a formula"),
        ({"out.csv": GOOD.replace("0.5", "1.5")}, 0, "outside [0, 1]"),
        ({"out.csv": GOOD + "p2\n"}, 0, "an uneven table"),
        ({"out.csv": GOOD.replace("p1", CANARY)}, 0, "what is in another file"),
        ({"out.csv": GOOD, ".out.csv.part": ""}, 0, "nobody asked for"),
        ({"in.csv": "other"}, 0, "'in.csv' was changed"),
        ({"secret.h5": "other"}, 0, "'secret.h5' was changed"),
    ],
)
def test_files_are_judged(tmp_path, written, code, problem):
    for name in ("in.csv", "secret.h5"):
        (tmp_path / name).write_text("before")
    case = Case("valid", ".csv", tmp_path / "in.csv", ("cluster", "in.csv", "--out", "out.csv"))
    before = Files(tmp_path)
    for name, content in written.items():
        (tmp_path / name).write_text(content)
    found = list(before.problems(case, Ending(code, "", "")))
    assert [problem in one for one in found] == ([] if problem is None else [True])


def test_a_file_that_nobody_named_is_not_read(tmp_path):
    (tmp_path / "secret.h5").write_text("before")
    case = Case("valid", ".csv", tmp_path / "in.csv", ("cluster", "in.csv"))
    before = Files(tmp_path)
    (tmp_path / "secret.h5").read_text()
    if (tmp_path / "secret.h5").stat().st_atime == 0:
        pytest.skip("this disk records no access")
    assert list(before.problems(case, Ending(2, "", ""))) == ["'secret.h5' was read, which nobody named"]


def test_a_command_that_is_executed_is_seen():
    code = """
import os
from hostile import fuzz_cli
with fuzz_cli.watched() as events:
    os.system("exit 0")
print(events)
"""
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "os.system" in done.stdout


def test_what_watches_a_case_stays_out_of_the_tests_own_process():
    """A hook is never taken away, and under coverage it lets threads that begin together fail."""
    assert fuzz_cli._listen.cache_info().currsize == 0
