"""Faults: commands that are killed or interrupted at any moment, and outputs of which every step fails in turn. A case
is a number, and the same number makes the same case. What must hold: an output is whole, or as it was; no traceback; a
signal is obeyed soon and told by the exit code; nothing is left behind that the next run does not sweep.

    python tests/hostile/faults.py --kills 100 --log build/faults.jsonl [--record]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tautcut import writing
from tautcut.records import RunRecord, append_record, circumstances

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "results" / "fuzz.jsonl"  # beside those of the fuzzers
OLD = "of an earlier run\n"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OBEYED = 2.0  # seconds in which a signal has to be obeyed
_SPAN = 7.0  # seconds of a command in which it is hit; most take less
_N = 3000  # vertices of the ring: little to cluster, something to write


# ---------------------------------------------------------------- kills


def make_inputs(folder: Path) -> None:
    """Points, a graph and a few labels."""
    rng = np.random.default_rng(0)
    np.save(folder / "points.npy", np.concatenate([rng.normal(size=(120, 8)) + 6 * k for k in range(4)]))
    edges = (f"v{i} v{(i + step) % _N}\n" for i in range(_N) for step in (1, 2, 3))
    (folder / "ring.edges").write_text("".join(edges))
    (folder / "few.csv").write_text("id,label\n0,a\n130,b\n250,c\n370,d\n")


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("cluster", "points.npy", "-k", "4", "--out", "out.csv", "--report", "page.html"),
    ("classify", "points.npy", "--labels", "few.csv", "--out", "out.json", "--report", "page.html"),
    ("cluster", "ring.edges", "-k", "3", "--out", "out.csv", "--report", "page.html", "--search", "none"),
    ("suggest", "points.npy", "--max", "5"),
    ("graph", "ring.edges", "--out", "out.graphml"),
    ("cluster", "points.npy", "-k", "auto", "--max", "5", "--out", "out.parquet"),
)


def kill(number: int, inputs: Path) -> dict[str, Any]:
    """Hit one command by one signal at one moment; what came of it, with what is wrong about that."""
    draw = random.Random(number)
    command, sent = draw.choice(COMMANDS), draw.choice(SIGNALS)
    has_old, is_aimed, moment = draw.random() < 0.5, draw.random() < 0.5, draw.uniform(0.0, _SPAN)
    delay = draw.uniform(0.0, 0.05)
    folder = Path(tempfile.mkdtemp(prefix=f"kill-{number}-"))
    try:
        shutil.copytree(inputs, folder, dirs_exist_ok=True)
        outputs = [folder / word for word in command if word.split(".")[0] in ("out", "page")]
        if has_old:
            for path in outputs:
                path.write_text(OLD)
        process = subprocess.Popen(
            [sys.executable, "-m", "tautcut", *command], cwd=folder, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_hear_all,
        )  # fmt: skip
        _await_moment(process, folder, moment, delay, is_aimed=is_aimed and bool(outputs))
        is_hit, began = process.poll() is None, time.monotonic()
        if is_hit:
            process.send_signal(sent)
        try:
            _, said = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        took = time.monotonic() - began
        left = [path.name for path in folder.glob("*.part")] + [path.name for path in folder.glob(".*.part")]
        wrong = _judged(process.returncode, said, sent if is_hit else None, took)
        wrong += [f"{path.name} is torn" for path in outputs if not _is_whole(path, has_old=has_old)]
        if left and not (is_hit and sent == signal.SIGKILL):
            wrong.append(f"{left} was left")
        writing.write_whole(folder / "next.txt", "")  # as the next run would write there
        wrong += [f"{path.name} was not swept" for path in folder.glob(".*.part")]
        return {
            "case": number, "command": command[0], "signal": signal.Signals(sent).name if is_hit else None,
            "aimed": is_aimed, "moment": round(moment, 2), "exit": process.returncode, "seconds": round(took, 2),
            "parts": len(left), "wrong": wrong, "said": said.strip().splitlines()[-1:],
        }  # fmt: skip
    finally:
        shutil.rmtree(folder)


def _hear_all() -> None:
    """Ignore no signal, though this process may have been started to: by `nohup`, or in the background."""
    for one in set(SIGNALS) - {signal.SIGKILL}:
        signal.signal(one, signal.SIG_DFL)


def _await_moment(process: subprocess.Popen[str], folder: Path, moment: float, delay: float, *, is_aimed: bool) -> None:
    """Wait until Python has loaded the program, and then: for the moment, or, aimed, until something is written."""
    while process.poll() is None and not _listens(process.pid):
        time.sleep(0.002)
    limit = time.monotonic() + (60 if is_aimed else moment)
    while process.poll() is None and time.monotonic() < limit:
        if is_aimed and any(name.endswith(".part") for name in os.listdir(folder)):
            time.sleep(delay)
            return
        time.sleep(0.0005 if is_aimed else 0.01)


def _listens(pid: int) -> bool:
    """Whether the process handles SIGTERM: before, a signal is Python's own affair."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _judged(code: int, said: str, sent: int | None, took: float) -> list[str]:
    wrong = []
    allowed = {0} if sent is None else {0, -sent if sent == signal.SIGKILL else 128 + sent}
    if code not in allowed:
        wrong.append(f"exit {code}")
    if "Traceback" in said or "Exception ignored" in said:
        wrong.append(f"traceback: {said.strip().splitlines()[-1]}")
    if sent is not None and took > OBEYED:
        wrong.append(f"obeyed after {took:.1f} s")
    return wrong


def _is_whole(path: Path, *, has_old: bool) -> bool:
    """Whether an output is absent or complete, or what it was before."""
    if not path.exists():
        return not has_old
    content = path.read_bytes()
    if content == OLD.encode():
        return has_old
    ends = {".csv": b"\n", ".html": b"</html>", ".json": b"}", ".graphml": b"</graphml>", ".parquet": b"PAR1"}
    return content.rstrip(b" \n" if path.suffix != ".csv" else b"").endswith(ends[path.suffix]) and (
        path.suffix != ".csv" or content.count(b"\n") in (481, _N + 1)
    )


# ---------------------------------------------------------------- outputs of which a step fails

STEPS = ("open", "fsync", "replace")
CUTS = (0.0, 0.3, 0.99)  # the share of the bytes after which the disk is full


def make_writers(folder: Path) -> dict[str, Callable[[Path], object]]:
    """What writes each kind of output, by its suffix; `folder` is for what they need."""
    from tautcut import MTVClustering, formats
    from tautcut.report import draw_clusters

    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 4)), rng.normal(size=(30, 4)) + 2])
    model = MTVClustering(2, n_neighbors=5, random_state=0, search="none").fit(X)
    ids, confidence = np.array([f"p{i}" for i in range(60)]), np.ones(60, dtype=np.float32)
    found = formats.Labelling(ids, model.labels_, confidence, np.arange(2), {"energy": 1.0}, None)
    np.save(folder / "in.npy", X)
    writers: dict[str, Callable[[Path], object]] = {
        suffix: partial(_write_labels, found, folder / "in.npy")
        for suffix in (".csv", ".tsv", ".json", ".npy", ".parquet")
    }
    try:
        import anndata
    except ImportError:
        pass  # and nothing of it can be written
    else:
        anndata.AnnData(X).write_h5ad(folder / "in.h5ad")
        writers[".h5ad"] = partial(_write_labels, found, folder / "in.h5ad")
    for suffix in formats.GRAPH_SUFFIXES:
        writers[suffix] = lambda path: formats.write_graph(path, model.graph_, ids)
    writers[".html"] = model.report
    pictures = X.reshape(60, 2, 2)
    writers[".png"] = partial(
        draw_clusters, images=pictures, labels=model.labels_, certainty=confidence, energy=1.0, subject="points"
    )  # fmt: skip
    return writers


def _write_labels(found: Any, source: Path, path: Path) -> None:
    from tautcut import formats

    formats.write_labels(path, found, source=source)


def faults_of(write: Callable[[Path], object], path: Path) -> Iterator[dict[str, Any]]:
    """Every step of the output fails in turn; each with what is wrong about what that left."""
    write(path)
    size = path.stat().st_size
    faults = {step: partial(_failing, step) for step in STEPS}
    faults |= {f"full after {cut:.0%}": partial(full_after, int(cut * size)) for cut in CUTS}
    for name, fault in faults.items():
        path.write_text(OLD)
        wrong = []
        try:
            with fault():
                write(path)
            wrong.append("nothing was said")
        except OSError as error:
            if error.filename != str(path):
                wrong.append(f"names {error.filename!r}")
        if path.read_text(errors="replace") != OLD:
            wrong.append("the earlier file is gone")
        wrong += [f"{one.name} was left" for one in path.parent.glob(".*.part")]
        yield {"case": path.suffix, "fault": name, "wrong": wrong}


@contextmanager
def _failing(step: str) -> Iterator[None]:
    """The first call of this function of `os` about an output fails, as on a disk that cannot be written."""
    real = getattr(os, step)

    def fails(path: Any, *given: Any, **named: Any) -> Any:
        if step != "fsync" and not str(path).endswith(".part"):
            return real(path, *given, **named)
        raise OSError(5, "Input/output error")

    setattr(os, step, fails)
    try:
        yield
    finally:
        setattr(os, step, real)


@contextmanager
def full_after(n_bytes: int) -> Iterator[None]:
    """No file can grow beyond so many bytes; the system itself refuses, whatever library writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# ---------------------------------------------------------------- all of it


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--first", type=int, default=0, help="the number of the first kill")
    options.add_argument("--log", type=Path, default=Path("build/faults.jsonl"))
    options.add_argument("--record", action="store_true", help="keep the counts for docs/security.md")
    asked = options.parse_args()
    begun = time.monotonic()
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, asked.log.open("w") as log:
        inputs, outputs = Path(place, "inputs"), Path(place, "outputs")
        inputs.mkdir()
        outputs.mkdir()
        make_inputs(inputs)
        cases = (kill(number, inputs) for number in range(asked.first, asked.first + asked.kills))
        for one in cases:
            tally[f"kill by {one['signal']}" if one["signal"] else "ended before the signal"] += 1
            tally["kill that left a part, swept by the next run"] += bool(one["parts"])
            tally["WRONG"] += _noted(one, log)
        for suffix, write in make_writers(Path(place)).items():
            for one in faults_of(write, outputs / f"out{suffix}"):
                tally["step of an output that failed"] += 1
                tally["WRONG"] += _noted(one, log)
    sys.stdout.write("".join(f"{count:5d}  {what}\n" for what, count in sorted(tally.items())))
    if asked.record:
        append_record(RECORDS, _record(tally, asked.first, asked.kills, time.monotonic() - begun))
    return 1 if tally["WRONG"] else 0


def _record(tally: Counter[str], first: int, n_kills: int, seconds: float) -> RunRecord:
    return RunRecord(
        "faults", "faults", {"first": first}, first, 0, None, None, seconds, (), n_kills,
        "something is wrong" if tally["WRONG"] else "nothing is wrong", **circumstances(),
        measures={what: float(count) for what, count in tally.items()},
    )  # fmt: skip


def _noted(one: dict[str, Any], log: Any) -> bool:
    log.write(json.dumps(one) + "\n")
    log.flush()
    if one["wrong"]:
        sys.stdout.write(f"WRONG {json.dumps(one)}\n")
    return bool(one["wrong"])


if __name__ == "__main__":
    sys.exit(main())
