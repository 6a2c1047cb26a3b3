"""Odd files and options through the command line. A case is a file (mutated, crafted, renamed, packed, no file at all)
and arguments; whatever they are, the command ends in 0 or, with one sentence, in 2, writes what was asked for and
nothing else, and touches no other file. Commands run in this process, which an audit hook watches.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import functools
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np

from hostile.crafted import CANARY, CRAFTED, canary
from hostile.mutations import mutated, words
from hostile.sandbox import ANSWERED, REFUSED, TRACEBACK, Finding, Limits
from hostile.specimens import SPECIMENS, SUFFIXES, TEXTS

LIMITS = Limits(seconds=60, memory=3 * 2**30)
WAYS = {"mutated": 42, "crafted": 25, "odd": 3, "renamed": 5, "valid": 20, "packed": 5}
PACKERS = {".gz": lambda raw: gzip.compress(raw, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress}
COMMANDS = {"cluster": 6, "classify": 3, "graph": 3, "suggest": 1, "next": 2, "shard": 2}
UNGROUPED = ("graph", "shard")  # commands that look for no partition, and take no options about it
TABLES = (".csv", ".csv", ".tsv", ".json", ".npy", ".parquet")
GRAPHS = (".npz", ".mtx", ".edges", ".graphml", ".graph")
HAS_LABELS = (".csv", ".tsv", ".parquet", ".graphml", ".xlsx", ".h5ad")  # in a column named label
LABELLINGS = (
    "p{i},a", "{i},{c}", "n{i},{c}", "c{i},{c}", "{i}\t{c}", "{i},{i}", "{i},", "{i},nan", "{i},1e400", "{i}", ",",
    "{i},{c},{c}", "'{i},=1",
)  # fmt: skip
LINKS = (
    "p{i},p{j}",
    "{i},{j}",
    "n{i},n{j}",
    "c{i},c{j}",
    "{i}\t{j}",
    "{i},{c}",
    "{i},",
    "{i}",
    "{i},{j},{i}",
    ",",
    "x",
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COMPLAINTS = re.compile(
    r"\b\w+Warning\b|divide by zero|invalid value|overflow encountered|underflow encountered|Traceback"
)


@dataclass(frozen=True)
class Option:
    """An option of a command, how often it is drawn, and its values."""

    name: str
    share: float
    values: tuple[str, ...]

    def drawn(self, draw: Random) -> list[str]:
        return [self.name, draw.choice(self.values)] if draw.random() < self.share else []


# Options that are right, so that the file and not an option decides.
TAME = (
    Option("--weights", 0.2, ("self-tuning", "gaussian")),
    Option("--metric", 0.1, ("cosine",)),
    Option("-n", 0.3, ("1", "3", "5")),
    Option("--scale", 0.2, ("auto", "standard", "robust", "none")),
    Option("--missing", 0.3, ("error", "drop", "median")),
    Option("--na", 0.05, ("?", "7")),
    Option("--smooth", 0.1, ("1", "4", "30")),
)
WILD_FIT = (
    Option("--class-prior", 0.15, (
        "0.5,0.5", "0.9,0.1", "1,0", "nan,nan", "0.5", "", ",", "1e-300,1", "0.999999,0.000001", "-1,2", "inf,inf",
        "0.5;0.5",
    )),
    Option("--image", 0.1, ("2x2", "4x1", "0x0", "²x2", "2x2x2", "x", "-1x-4", "1x4", "٢x٢", "99999999999x1")),
    Option("--search", 0.15, ("none", "thorough", "short", "x")),
    Option("--device", 0.05, ("cuda", "auto", "reference", "x")),
)  # fmt: skip
WILD_GROUPING = (Option("--balance", 0.1, ("volume", "volume", "size", "x", "")),)
WILD = (
    Option("--as", 0.15, ("features", "graph", "graph", "x", "")),
    Option("--columns", 0.1, ("f0,f1", "f*", "[", "[a-", "*", "", ",", "id", "label", "\x00", "0", "f0\nf1")),
    Option("--keep", 0.1, ("id", "label", "f0", "nope", "", "*", "[", "\x1b[31m")),
    Option("--without", 0.1, ("f0", "f*", "*", "nope", "", "label", "[!")),
    Option("--missing", 0.15, ("error", "drop", "median", "x", "")),
    Option("--na", 0.1, ("?", "7", "", "nan", "\x00", "4.0")),
    Option("--scale", 0.15, ("auto", "standard", "robust", "none", "x", "")),
    Option("--memory", 0.1, ("1", "0", "-1", "x", "", "nan", "inf", "1e400", "64MB", "100M", "2GB", "2GiB", "1.5GB")),
    Option("--id-column", 0.07, ("id", "f0", "label", "nope", "")),
    Option("--mass-column", 0.1, ("f0", "f1", "id", "label", "mass", "masses", "y", "nope", "", "*", "\x00")),
    Option("--array", 0.12, (
        "X", "only", "y", "data", "obsm/X_pca", "obsp/connectivities", "layers/x", "obs/label", "../X", "/X", "",
        "obsm/../X", "uns", "obsm/",
    )),
    Option("-n", 0.2, ("1", "3", "35", "36", "1000", "0", "-1", "x")),
    Option("--weights", 0.2, ("self-tuning", "gaussian", "binary", "x")),
    Option("--metric", 0.15, ("cosine", "euclidean", "x")),
    Option("--method", 0.1, ("exact", "approximate", "x")),
    Option("--smooth", 0.1, ("1", "5", "36", "1000000", "0", "-1", "2.5", "x", "")),
    Option("--seed", 0.15, ("0", "1", "-1", "4294967296", "18446744073709551616", "1" + "0" * 40, "x")),
    Option("--text", 0.05, ("f0", "name", "id", "label", "x", "")),
    Option("--pictures", 0.05, ("f0", "name", "x", "")),
    Option("--features", 0.03, (".", "none.npy", "none.csv", "/dev/null", "")),
)  # fmt: skip
WILD_NUMBERS = ("2", "2", "2", "2", "3", "1", "36", "35", "0", "-1", "1000000", "2.5", "x", "auto", "auto")


@dataclass(frozen=True)
class Case:
    """What a user might type: arguments, and the file among them."""

    way: str
    suffix: str
    path: Path
    arguments: tuple[str, ...]


# ---------------------------------------------------------------- making a case


def made(number: int, folder: Path) -> Case:
    """The files of a case, in the folder, and its arguments."""
    draw = Random(f"cli {number}")
    way = draw.choices(list(WAYS), list(WAYS.values()))[0]
    suffix = draw.choice(SUFFIXES)
    if way == "odd":
        path = odd_path(draw, folder, suffix)
    else:
        content = content_of(draw, way, suffix, folder)
        if way == "renamed":
            suffix = draw.choice((*SUFFIXES, ".xls", ".ods", ".data"))
        packing = draw.choice(list(PACKERS)) if way == "packed" else ""
        path = folder / f"in{suffix}{packing}"
        path.write_bytes(packed(content, packing, draw))
    arguments = tame(draw, path, suffix) if draw.random() < 0.7 else wild(draw, path, suffix)
    return Case(way, suffix, path, tuple(arguments))


def content_of(draw: Random, way: str, suffix: str, folder: Path) -> bytes:
    if way == "crafted":
        return draw.choice(CRAFTED[suffix])(draw, folder)
    content = SPECIMENS[suffix](np.random.default_rng(draw.randrange(1000)))
    return mutated(content, draw, is_text=suffix in TEXTS) if way == "mutated" else content


def packed(content: bytes, packing: str, draw: Random) -> bytes:
    """The content compressed; damaged afterwards now and then, or many times larger than it looks."""
    if not packing:
        return content
    bomb = PACKERS[packing](b"1,2,3\n" * 20_000_000) if draw.random() < 0.1 else None
    content = bomb or PACKERS[packing](content)
    return mutated(content, draw, is_text=False) if draw.random() < 0.4 else content


def odd_path(draw: Random, folder: Path, suffix: str) -> Path:
    """A path that is no plain file."""
    path = folder / f"odd{suffix}"
    targets = (
        "/dev/zero", str(path), str(folder / "nothere"), "/dev/full", "/proc/self/environ", "/proc/self/mem",
        "/dev/urandom",
    )  # fmt: skip
    what = draw.choice(["folder", "pipe", "long", *targets])
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "long":
        return path.with_name("x" * 300 + suffix)
    else:
        path.symlink_to(what)
    return path


def tame(draw: Random, path: Path, suffix: str) -> list[str]:
    command = draw.choices(list(COMMANDS), list(COMMANDS.values()))[0]
    arguments = [command, path.name]
    if command == "cluster":
        arguments += ["-k", draw.choice(["2", "3", "5"])]
    if command == "classify" and suffix in (*HAS_LABELS, ".npz"):
        arguments += ["--label-column", "y" if suffix == ".npz" else "label"]
    elif command == "classify":
        arguments += ["--labels", labelling(path.parent / "labels.csv", "id,label\n1,a\n2,b\n")]
    if command in ("cluster", "classify"):
        tables = (*TABLES, ".h5ad") if suffix == ".h5ad" else TABLES
        arguments += ["--out", "out" + draw.choice(tables)] if draw.random() < 0.8 else []
        arguments += ["--report", "page.html"] if draw.random() < 0.4 else []
    if command == "graph" and draw.random() < 0.7:
        arguments += ["--out", "graph" + draw.choice(GRAPHS)]
    if command == "shard":
        arguments += ["--parts", draw.choice(["1", "2", "3", "2x2"]), "--out", "parts.shards"]
    if command == "suggest":
        arguments += ["--max", "4"]
    if command == "next":
        arguments += ["--n-points", draw.choice(["1", "3"])]
        arguments += ["--labels", labelling(path.parent / "labels.csv", "id,label\n1,a\n2,b\n")] * (draw.random() < 0.3)
        arguments += ["--out", "ask.csv"] if draw.random() < 0.5 else []
    if command not in UNGROUPED:
        arguments += ["--balance", "volume"] if draw.random() < 0.15 else []
        arguments += ["--must-link", labelling(path.parent / "links.csv", "1,2\n3,5\n")] if draw.random() < 0.1 else []
    arguments += [word for option in TAME for word in option.drawn(draw)]
    return arguments + ["--json"] * (draw.random() < 0.3)


def wild(draw: Random, path: Path, suffix: str) -> list[str]:
    command = draw.choices(list(COMMANDS), list(COMMANDS.values()))[0]
    arguments = [command, path.name]
    if command == "cluster":
        arguments += ["-k", draw.choice(WILD_NUMBERS)]
    if command == "classify":
        names = ("label", "label", "y", "f0", "nope", "")
        arguments += ["--label-column", draw.choice(names)] if draw.random() < 0.6 else []
        arguments += ["--labels", odd_labelling(draw, path.parent)] if draw.random() < 0.4 else []
        arguments += ["--unknown", draw.choice(["a", "", "?", "nan", "\x1b[0m"])] if draw.random() < 0.15 else []
    if command in ("cluster", "classify"):
        tables = (*TABLES, ".h5ad", ".xyz", "")
        arguments += ["--out", odd_out(draw, path, "out" + draw.choice(tables))] if draw.random() < 0.7 else []
        arguments += ["--report", draw.choice(["r.html", "r.html", "r.htm", "r.pdf"])] if draw.random() < 0.35 else []
        arguments += [word for option in WILD_FIT for word in option.drawn(draw)]
    if command == "next":
        arguments += ["--n-points", draw.choice(WILD_NUMBERS)]
        arguments += ["--label-column", draw.choice(("label", "y", "nope"))] if draw.random() < 0.3 else []
        arguments += ["--labels", odd_labelling(draw, path.parent)] if draw.random() < 0.4 else []
        arguments += ["--out", odd_out(draw, path, draw.choice(["ask.csv", "ask.tsv", "ask.json"]))]
    if command == "graph" and draw.random() < 0.6:
        arguments += ["--out", odd_out(draw, path, "graph" + draw.choice((*GRAPHS, ".csv")))]
    if command == "shard":
        arguments += ["--parts", draw.choice((*WILD_NUMBERS, "2x2", "1x1x2", "x2", "0x2", "9999x9999", "٢"))]
        arguments += ["--out", odd_out(draw, path, draw.choice(["parts.shards", "parts", ".shards"]))]
        arguments += ["--n-vertices", draw.choice(WILD_NUMBERS)] if draw.random() < 0.2 else []
    if command not in UNGROUPED:
        arguments += ["--must-link", odd_links(draw, path.parent)] if draw.random() < 0.15 else []
        arguments += [word for option in WILD_GROUPING for word in option.drawn(draw)]
    if command == "suggest" or "auto" in arguments:
        limits = [["--max", one] for one in ("3", "4", "2", "100", "0", "36")] + [["--min", "3", "--max", "2"]]
        arguments += draw.choice(limits)
    arguments += [word for option in WILD for word in option.drawn(draw)]
    return arguments + ["--json"] * (draw.random() < 0.3) + ["--quiet"] * (draw.random() < 0.2)


def odd_out(draw: Random, path: Path, usual: str) -> str:
    """Where output should go: the usual place, or over the input, or nowhere."""
    return draw.choice([*[usual] * 12, path.name, "labels.csv", f"nothere/{usual}", "."])


def odd_labelling(draw: Random, folder: Path) -> str:
    form = draw.choice(LABELLINGS)
    text = "".join(form.format(i=i, c="ab"[i % 2]) + "\n" for i in range(1, 9))
    return labelling(
        folder / f"labels{draw.choice(['.csv', '.tsv', '.txt'])}", words(text, draw) if draw.random() < 0.3 else text
    )


def odd_links(draw: Random, folder: Path) -> str:
    form = draw.choice(LINKS)
    text = "".join(form.format(i=i, j=i + 1, c="ab"[i % 2]) + "\n" for i in range(1, 9))
    path = folder / f"links{draw.choice(['.csv', '.tsv', '.txt', '.json'])}"
    head = draw.choice(["", "", "id,group\n", "group,id\n", "a,b\n", "id,group,more\n"])
    return labelling(path, head + (words(text, draw) if draw.random() < 0.3 else text))


def labelling(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return path.name


# ---------------------------------------------------------------- running and judging it


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, or the error that a user would see as a traceback."""

    code: Any
    out: str
    err: str
    error: BaseException | None = None


def run(arguments: Sequence[str]) -> Ending:
    from tautcut.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as end:
            return Ending(end.code, out.getvalue(), err.getvalue())
        except BaseException as error:  # noqa: BLE001 - whatever it is, a user would see it
            return Ending(None, out.getvalue(), err.getvalue(), error)


def examine(number: int, folder: Path) -> Finding:
    """What is wrong about the case of this number, after running it in the folder."""
    canary(folder)
    case = made(number, folder)
    before = Files(folder)
    with watched() as events:
        ending = run(case.arguments)
    problems = [
        *problems_of_ending(ending),
        *problems_of_streams(case, ending),
        *before.problems(case, ending),
        *(f"executed or opened: {event}" for event in events),
    ]
    said = [line for line in ending.err.splitlines() if line.startswith("tautcut: ")]
    about = {
        "way": case.way, "suffix": case.suffix, "arguments": case.arguments, "code": ending.code,
        "size": case.path.stat().st_size if os.path.isfile(case.path) else None, "said": "".join(said)[:300],
    }  # fmt: skip
    if ending.error is not None:
        about["traceback"] = "".join(traceback.format_exception(ending.error))[-2500:]
    return Finding(ANSWERED if ending.code == 0 else REFUSED, tuple(problems), about)


def problems_of_ending(ending: Ending) -> Iterator[str]:
    if ending.error is not None:
        yield f"{TRACEBACK}: {told(ending.error)}"
    elif ending.code not in (0, 2):
        yield f"exit code {ending.code}"
    elif ending.code == 2:
        n_sentences = sum(line.startswith("tautcut: ") for line in ending.err.splitlines())
        if n_sentences != 1:
            yield f"{n_sentences} sentences with exit code 2"


def told(error: BaseException) -> str:
    """The error and the innermost line of tautcut that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/tautcut/" in frame.filename and "/tests/" not in frame.filename]
    places = [f"{Path(at.filename).name}:{at.lineno} {at.name}" for at in own or frames]
    return " at ".join([type(error).__name__, *places[-1:]])


def problems_of_streams(case: Case, ending: Ending) -> Iterator[str]:
    for name, text in (("output", ending.out), ("error", ending.err)):
        if _CONTROLS.search(text.replace("\r\n", "\n")):
            yield f"control characters on standard {name}"
        if CANARY in text:
            yield f"the canary on standard {name}"
        if complaint := _COMPLAINTS.search(text):
            yield f"'{complaint.group()}' on standard {name}"
    if ending.code == 0 and "--json" in case.arguments:
        try:
            json.loads(ending.out, parse_constant=_no_constant)
        except ValueError as error:
            yield f"standard output is no JSON: {error}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class Files:
    """The files of a folder as they were: what they held, and which were read since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content = {path.name: _digest(path) for path in folder.iterdir()}
        for path in folder.iterdir():
            if path.is_file() and not path.is_symlink():
                os.utime(path, (0, path.stat().st_mtime))  # an access shows, except where a disk records none

    def problems(self, case: Case, ending: Ending) -> Iterator[str]:
        """What is wrong about the files that are there now."""
        named = {*case.arguments, case.path.name}
        for path in self.folder.iterdir():
            is_plain = path.is_file() and not path.is_symlink()
            if is_plain and path.name in self.content and path.name not in named and path.stat().st_atime > 0:
                yield f"'{path.name}' was read, which nobody named"
        for name, digest in self.content.items():
            if _digest(self.folder / name) != digest:
                yield f"'{name}' was changed"
        for path in sorted(set(self.folder.iterdir())):
            if path.name in self.content:
                continue
            if ending.code != 0:
                yield f"exit code {ending.code}, but '{path.name}' was written"
            elif path.name not in named and not path.name.endswith("-tautcut.csv"):
                yield f"'{path.name}' was written, which nobody asked for"
            elif problem := problem_of_output(path):
                yield f"'{path.name}': {problem}"


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if not path.is_file():
        return "no file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def problem_of_output(path: Path) -> str | None:
    """What is wrong about a file that was written, or a folder of shards."""
    if path.is_dir():
        return problem_of_shards(path)
    raw = path.read_bytes()
    if CANARY.encode() in raw or np.full(3, 424242.0).tobytes() in raw:
        return "it holds what is in another file"
    try:
        if path.suffix in (".csv", ".tsv"):
            return problem_of_table(raw.decode("utf-8"), "," if path.suffix == ".csv" else "\t")
        if path.suffix == ".json":
            json.loads(raw, parse_constant=_no_constant)
        if path.suffix == ".npy":
            np.load(path, allow_pickle=False)
        if path.suffix == ".html" and not (b"Content-Security-Policy" in raw and raw.rstrip().endswith(b"</html>")):
            return "a page without a policy or an end"
    except (ValueError, csv.Error) as error:
        return repr(error)
    return None


def problem_of_shards(path: Path) -> str | None:
    from tautcut import ShardedGraph
    from tautcut.errors import InputError

    held = [one for one in path.rglob("*") if one.is_file()]
    if any(CANARY.encode() in one.read_bytes() for one in held):
        return "it holds what is in another file"
    try:
        graph = ShardedGraph.open(path)
        parts = [graph.part(number) for number in range(graph.n_parts)]
    except InputError as error:
        return repr(error)
    own = np.sort(np.concatenate([part.vertices for part in parts]))
    return None if np.array_equal(own, np.arange(graph.whole.n_vertices)) else "its parts are not the whole"


def problem_of_table(text: str, separator: str) -> str | None:
    csv.field_size_limit(2**30)  # a name of any length is one
    head, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    if not rows or {len(row) for row in rows} != {len(head)}:
        return "an uneven table"
    for row in [head, *rows]:
        if any(re.match(r"[=+@\t\r]|-(?!\d+$)", cell) for cell in row[:2]):
            return f"a formula in {row[:2]}"
    numbers = [float(cell) for row in rows for cell in row[2:] if cell]  # none for a row that was left out
    return None if all(0 <= number <= 1 for number in numbers) else "confidence outside [0, 1]"


# ---------------------------------------------------------------- what is executed

_EXECUTING = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "urllib.Request")
_OWN = (sys.executable, "git", "uname")  # a reader's child, the commit of a record, the platform
_PICKLED = ("posix", "os", "nt", "subprocess", "sys", "runpy", "shutil")
_events: list[str] = []
_is_watching = False


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """What is executed or connected to in here, told by Python's audit events.

    For a process of its own: a hook stays, and threads that begin together under a tracer then fail at times (CPython
    asks the hook while one of them sets its trace function, and refuses the other).
    """
    global _is_watching
    _listen()
    _events.clear()
    _is_watching = True
    try:
        yield _events
    finally:
        _is_watching = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _is_watching:
        return
    is_own = bool(arguments) and arguments[0] in _OWN
    if (event in _EXECUTING and not is_own) or (event == "pickle.find_class" and str(arguments[0]) in _PICKLED):
        _events.append(f"{event} {arguments!r}"[:200])


@functools.cache
def _listen() -> None:
    sys.addaudithook(_audit)
