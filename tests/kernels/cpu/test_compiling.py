"""Compiled kernels: kept on disk where that is possible, and still there where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import tautcut.kernels.cpu.compiling as compiling

SCRIPT = """
import numpy as np
from tautcut import Graph
from tautcut.kernels.cpu.layout import is_scattered, permuted
path = Graph.from_edges([(i, i + 1) for i in range(5)])
print(permuted(path, np.array([5, 0, 4, 1, 3, 2])).indices.tolist(), is_scattered(path, 2**20))
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The files of compiled kernels, in a folder of the test's own."""
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiling._warn_once.cache_clear()
    return lambda: sorted(file for file in tmp_path.rglob("*") if file.is_file())


def doubled():
    """A kernel as another process would have it, and whether it was found on disk."""
    double = compiling.compiled(_double)
    assert double(21) == 42
    return bool(double.stats.cache_hits)


def _double(x):
    return 2 * x


def test_a_kernel_is_compiled_once(kept):
    assert [doubled(), doubled()] == [False, True]
    assert [file.suffix for file in kept()] == [".nbc"]


def test_who_is_first_in_a_folder_is_told_so_and_nobody_else(kept):
    assert [compiling.is_first_here(name) for name in ("small", "small", "large")] == [True, False, True]
    assert {file.suffix for file in kept()} == {".nbc"}


def test_nobody_is_first_where_nothing_can_be_kept(kept, monkeypatch):
    def full(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "open", full)
    assert not compiling.is_first_here("small")


DAMAGE = {
    "empty": lambda raw: b"",
    "half": lambda raw: raw[: len(raw) // 2],
    "a bit flipped": lambda raw: raw[:-400] + bytes([raw[-400] ^ 1]) + raw[-399:],
    "garbage": lambda raw: b"garbage" * 100,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_kernel_is_compiled_again_and_mended(kept, damage):
    doubled()
    (file,) = kept()
    file.write_bytes(damage(file.read_bytes()))
    assert [doubled(), doubled()] == [False, True]


def test_a_kernel_that_cannot_be_linked_is_compiled_again(kept, monkeypatch, caplog):
    doubled()
    monkeypatch.setattr(compiling._Shelf, "load", lambda self, key: ("not", "a", "kernel"))
    assert not doubled()
    assert "cannot be used, and is compiled again" in caplog.text


def test_a_folder_in_the_place_of_a_kernel_does_no_harm(kept):
    doubled()
    (file,) = kept()
    file.unlink()
    file.mkdir()
    assert not doubled()
    assert list(kept()) == []


def test_a_full_disk_keeps_nothing_and_is_told_once(kept, monkeypatch, caplog):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiling, "write_whole", full)
    assert [doubled(), doubled()] == [False, False]
    assert caplog.text.count("No space left on device") == 1
    assert kept() == []


def test_a_change_in_another_file_of_kernels_compiles_again(kept, monkeypatch):
    doubled()
    monkeypatch.setattr(compiling, "_sources", lambda: b"other code")
    assert not doubled()


def test_kernels_can_be_forgotten(kept):
    doubled()
    compiling.compiled(_double)._cache.flush()
    assert kept() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_what_another_thread_compiles():
    lock, compiles, done = compiling.global_compiler_lock, threading.Event(), threading.Event()

    def compile_() -> None:
        with lock:
            compiles.set()
            threading.Event().wait(0.2)
            done.set()

    thread = threading.Thread(target=compile_)
    thread.start()
    compiles.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 and later, on forks beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if done.is_set() and lock._lock.acquire(timeout=20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()


def test_without_a_place_for_the_cache_kernels_are_compiled_in_memory(monkeypatch, caplog):
    def homeless(function):
        raise RuntimeError("cannot cache function: no locator available")

    compiling._warn_once.cache_clear()
    monkeypatch.setattr(compiling, "_Cache", homeless)
    double = compiling.compiled(lambda x: 2 * x)
    assert double(21) == 42
    assert "no writable folder" in caplog.text


def test_processes_that_compile_at_once_do_not_spoil_the_cache_and_a_later_one_compiles_nothing(tmp_path: Path):
    def kept() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}

    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    answers = {process.communicate()[0] for process in several}
    before = kept()
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    assert answers == {again.stdout} == {"[2, 3, 0, 4, 1, 5, 2, 5, 3, 4] True\n"}
    assert kept() == before != {}


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # importing it raises ImportError
import numpy as np
from tautcut import Graph, Problem
from tautcut.errors import EngineUnavailableError
from tautcut.search.driver import Plan, best_of_starts
problem = Problem(Graph.from_edges([(i, i + 1) for i in range(5)]), 2)
init = np.linspace([1.0, 0.0], [0.2, 0.8], 6)
plan = Plan(init=init, search="none", device="reference")
print(best_of_starts(problem, plan, rng=np.random.default_rng(0)).partition.labels.tolist())
for plan in (Plan(init=init, device="reference"), Plan(init=init, search="none")):
    try:
        best_of_starts(problem, plan, rng=np.random.default_rng(0))
    except EngineUnavailableError as error:
        print(error)
"""


def test_without_numba_the_solver_runs_and_the_rest_says_what_is_missing():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[0, 0, 0, 1, 1, 1]",
        "the search needs numba: install it, or choose search='none'.",
        "the cpu engine needs numba: install it, or choose device='reference'",
    ]


def test_a_working_folder_that_is_gone_does_not_matter(tmp_path):
    code = (
        "import os, sys\n"
        "from tautcut.kernels.cpu import compiling\n"
        "gone = sys.argv[1]; os.mkdir(gone); os.chdir(gone); os.rmdir(gone)\n"
        "def one_more(x): return x + 1\n"
        "print(compiling.compiled(one_more)(2), os.getcwd())\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, script, tmp_path / "gone"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout == f"3 {os.sep}\n", ran.stderr
