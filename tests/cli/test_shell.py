"""What every command shares: streams that are closed, full or narrow, memory that runs out, and how a process ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tautcut.cli import shell
from tautcut.errors import EngineUnavailableError

SMALL = "id,a,b\n" + "".join(f"p{i},{i % 7},{i}\n" for i in range(40))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.csv").write_text(SMALL)
    return tmp_path


def in_bash(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m tautcut"
    return subprocess.run(
        ["bash", "-c", line.replace("tautcut", program, 1)], capture_output=True, check=False, text=True,
        errors="replace", env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    "streams", ["2>&-", ">&-", "<&- >&- 2>&-", "2>/dev/full", "2>&1 | true; exit ${PIPESTATUS[0]}"]
)
def test_streams_that_nobody_reads_stop_no_work(folder, streams):
    done = in_bash(f"tautcut graph small.csv --out graph.npz {streams}")
    assert done.returncode == (1 if "true" in streams else 0)  # a broken pipe of standard output is told by the code
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["graph.npz", "small.csv"]
    assert (folder / "graph.npz").read_bytes()[:2] == b"PK"  # and nothing that was said is in it


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_result_that_cannot_be_printed_is_an_error(folder):
    done = in_bash("tautcut graph small.csv --quiet > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "tautcut: 'standard output': No space left on device. Free some space, or write elsewhere.\n"


def test_words_that_a_terminal_lacks_are_spelt_out(folder):
    Path("few.csv").write_text("id,label\np0,кот\np39,пёс\n", encoding="utf-8")
    line = "tautcut classify small.csv --labels few.csv --search none --n-neighbors 3"
    done = in_bash(line, PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "\\u043a\\u043e\\u0442" in done.stdout
    assert "кот" in Path("small-tautcut.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "memory ran out. "),
        (MemoryError("Unable to allocate 2.00 GiB."), "memory ran out (Unable to allocate 2.00 GiB). "),
        (RuntimeError("Error: std::bad_alloc"), "memory ran out (Error: std::bad_alloc). "),
        (RuntimeError("can't start new thread"), "memory ran out (can't start new thread). "),
        (ImportError("lib.so: failed to map segment from shared object"), "memory ran out (lib.so: failed"),
        (RecursionError("maximum recursion depth exceeded"), "what the file holds is nested too deeply."),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "Cannot allocate memory. Close other programs"),
    ],
)
def test_memory_that_runs_out_is_a_sentence(capsys, error, words):
    with pytest.raises(typer.Exit) as end, shell.exit_codes():
        raise error
    assert end.value.exit_code == 2
    assert capsys.readouterr().err.startswith(f"tautcut: {words}")


def test_a_library_that_memory_was_too_short_for_is_not_called_missing(capsys):
    with pytest.raises(typer.Exit), shell.exit_codes():
        raise EngineUnavailableError("needs faiss") from ImportError("failed to map segment from shared object")
    assert capsys.readouterr().err.startswith("tautcut: memory ran out (failed to map")
    with pytest.raises(typer.Exit), shell.exit_codes():
        raise EngineUnavailableError("needs faiss") from ImportError("No module named faiss")
    assert capsys.readouterr().err == "tautcut: needs faiss\n"


@pytest.mark.parametrize("error", [RuntimeError("ours"), ImportError("ours")])
def test_other_errors_are_ours(error):
    with pytest.raises(type(error), match="ours"), shell.exit_codes():
        raise error


def test_a_cursor_that_a_bar_has_hidden_is_shown_again(monkeypatch, capsys):
    monkeypatch.setattr(os, "_exit", lambda code: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shell.leave(2)
    assert capsys.readouterr().err == "\x1b[?25htautcut: interrupted.\n"
