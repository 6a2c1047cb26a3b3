"""Cases in a child process that may crash, hang or eat memory, each in a folder of its own. The sandbox owns the child,
its limits and the folders; what a case is and what is wrong about it is known to the fuzzer alone (decision 0041).
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

TESTS = Path(__file__).resolve().parents[1]

ANSWERED, REFUSED = "answered", "refused"  # both are fine
TRACEBACK, CRASH, HANG, BROKEN = "traceback", "crash", "hang", "broken promise"
FAILURES = (TRACEBACK, CRASH, HANG, BROKEN)

_TO_BEGIN = 120.0  # seconds in which a child has to be ready: it imports the fuzzer
_READY = "ready"
_STACK_SHOWN = 6_000  # characters
_KEPT_AT_MOST = 50_000_000  # bytes of a file that is kept


@dataclass(frozen=True)
class Limits:
    """What a case may take: seconds, and bytes of address space beyond what the child has when it begins."""

    seconds: float = 60.0
    memory: int = 3 * 2**30


@dataclass(frozen=True)
class Finding:
    """What a fuzzer says of a case: what came of it, what is wrong, and what helps to understand it."""

    outcome: str
    problems: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What came of a case; `outcome` is one of the six words above."""

    fuzzer: str
    number: int
    outcome: str
    problems: tuple[str, ...]
    about: dict[str, Any]
    seconds: float
    peak_mb: float = 0.0

    @property
    def has_failed(self) -> bool:
        return self.outcome in FAILURES

    @property
    def case(self) -> str:
        """The name by which it is run again."""
        return f"{self.fuzzer}:{self.number}"

    def __str__(self) -> str:
        return f"{self.case} {self.outcome}: {'; '.join(self.problems)}"

    def to_json(self) -> str:
        """One line of JSON, without the line's end."""
        return json.dumps(asdict(self), default=str)


class Sandbox:
    """Runs the cases of one fuzzer, one after the other, in a child that is replaced when it dies.

    Parameters
    ----------
    fuzzer : the name that verdicts have.
    target : "module:function" of a function from (number, folder) to a Finding.
    limits : what a case may take.
    kept : the folder for the folders of cases that fail; they are removed without one.
    """

    def __init__(self, fuzzer: str, target: str, limits: Limits, *, kept: Path | None = None) -> None:
        self.fuzzer, self.target, self.limits, self.kept = fuzzer, target, limits, kept
        self._child: subprocess.Popen[str] | None = None
        self._room = tempfile.TemporaryDirectory(prefix="tautcut-hostile-")
        self._stack = Path(self._room.name) / "stack"  # what the child says on standard error

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_child()
        self._room.cleanup()

    def run(self, numbers: Iterable[int]) -> Iterator[Verdict]:
        """A verdict for each number."""
        for number in numbers:
            verdict = self._run_one(number, self.limits.seconds)
            if verdict.outcome == HANG:  # or the machine is busy: once more, with more time
                verdict = self._run_one(number, 2 * self.limits.seconds)
            yield verdict

    def failures(self, numbers: Iterable[int]) -> list[str]:
        """The verdicts of the cases that failed, in words."""
        return [str(verdict) for verdict in self.run(numbers) if verdict.has_failed]

    def _run_one(self, number: int, seconds: float) -> Verdict:
        folder = Path(self._room.name) / "case"
        folder.mkdir()
        child = self._child
        if child is None or child.poll() is not None:
            child = self._start()
        began = time.monotonic()
        assert child.stdin is not None
        child.stdin.write(json.dumps([number, str(folder)]) + "\n")
        child.stdin.flush()
        answer = _answer(child, seconds)
        if answer:
            verdict = Verdict(self.fuzzer, number, **json.loads(answer))
        else:
            verdict = self._of_dead_child(child, number, time.monotonic() - began, is_hanging=answer is None)
        self._clear(folder, verdict)
        return verdict

    def _of_dead_child(self, child: subprocess.Popen[str], number: int, seconds: float, *, is_hanging: bool) -> Verdict:
        if is_hanging:
            child.send_signal(signal.SIGUSR1)  # faulthandler writes the stacks of all threads
            time.sleep(0.5)
        else:
            child.wait()
        self._end_child()
        said = self._stack.read_text(errors="replace")
        stack = said.split("\nExtension modules: ")[0][-_STACK_SHOWN:]
        if is_hanging:
            problem = f"no answer, in {_own_frame(stack)}"
        else:
            problem = f"the process ended with {child.returncode}, in {_own_frame(stack)}"
        return Verdict(self.fuzzer, number, HANG if is_hanging else CRASH, (problem,), {"stack": stack}, seconds)

    def _start(self) -> subprocess.Popen[str]:
        self._end_child()
        python_path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
        with self._stack.open("w") as stack:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "hostile.sandbox", self.target, str(self.limits.memory)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stack, text=True,
                env={**os.environ, "PYTHONPATH": python_path}, start_new_session=True,  # Ctrl-C is for the campaign
            )  # fmt: skip
        if _answer(self._child, _TO_BEGIN) != f"{_READY}\n":
            said = self._stack.read_text(errors="replace")
            raise RuntimeError(f"the child of the fuzzer {self.fuzzer!r} does not begin: {said[-_STACK_SHOWN:]}")
        return self._child

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()

    def _clear(self, folder: Path, verdict: Verdict) -> None:
        if verdict.has_failed and self.kept is not None:
            where = self.kept / verdict.case.replace(":", "-")
            shutil.rmtree(where, ignore_errors=True)
            shutil.copytree(folder, where / "files", symlinks=True, ignore=_not_kept)
            (where / "verdict.json").write_text(json.dumps(asdict(verdict), indent=2, default=str) + "\n")
        shutil.rmtree(folder)


def _answer(child: subprocess.Popen[str], seconds: float) -> str | None:
    """The next line of the child; none of it if the child has died, None if it says nothing for so long."""
    assert child.stdout is not None
    has_answer, _, _ = select.select([child.stdout], [], [], seconds)
    return child.stdout.readline() if has_answer else None


def _own_frame(stack: str) -> str:
    """The innermost line of tautcut in a stack of faulthandler; the last line of all where it shows none."""
    frames = [line.strip() for line in stack.splitlines() if line.startswith('  File "')]
    own = [frame for frame in frames if "/src/tautcut/" in frame or "site-packages/tautcut/" in frame]
    own = [f'File "{frame[frame.rindex("/tautcut/") + 1 :]}' for frame in own]  # wherever it is on this machine
    return own[0] if own else (stack.splitlines() or ["no Python code"])[-1].strip()


def _not_kept(folder: str, names: list[str]) -> set[str]:
    """Whatever is no plain file, link or folder of a reasonable size."""
    paths = {name: Path(folder) / name for name in names}
    return {
        name
        for name, path in paths.items()
        if not path.is_symlink() and not path.is_dir() and not (path.is_file() and path.stat().st_size <= _KEPT_AT_MOST)
    }


# ---------------------------------------------------------------- in the child


def _serve(target: str, memory: int) -> None:
    """Answer each case on standard input with a verdict on standard output, until there is no more.

    Standard error is what is shown of a child that dies: the stack of a crash, or an error of the fuzzer's own.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    module, _, function = target.partition(":")
    examine: Callable[[int, Path], Finding] = getattr(import_module(module), function)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    answers.write(f"{_READY}\n")
    answers.flush()
    for line in sys.stdin:
        number, folder = json.loads(line)
        os.chdir(folder)
        before, began = forget_peak(), time.monotonic()
        finding = examine(number, Path(folder))
        seconds = round(time.monotonic() - began, 3)
        os.chdir("/")
        outcome = _failure(finding.problems) if finding.problems else finding.outcome
        answer = {**asdict(replace(finding, outcome=outcome)), "seconds": seconds, "peak_mb": peak_since(before)}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


def _failure(problems: tuple[str, ...]) -> str:
    return TRACEBACK if any(one.startswith(TRACEBACK) for one in problems) else BROKEN


def forget_peak() -> float:
    """Begin to measure the most memory anew; the megabytes that are in use now."""
    with suppress(OSError):  # it is the peak of all cases then
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def peak_since(before: float) -> float:
    """The most megabytes in use beyond those before, since the peak was forgotten."""
    return round(_memory("VmHWM") - before)


def _memory(name: str) -> float:
    """Megabytes, of what /proc says of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
