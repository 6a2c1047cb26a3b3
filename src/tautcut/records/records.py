"""The evidence that a run leaves: one `RunRecord`, one line of JSON, written so that a crash costs at most the line it
struck. It runs nothing and times nothing.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from errno import ENOSPC
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import Any

from tautcut._version import __version__
from tautcut.errors import InputError
from tautcut.writing import naming

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class RunRecord:
    """One line of evidence: what was run, what came out, on what.

    Attributes
    ----------
    data, method : str
        The names of the data set and of the estimator.
    settings : dict
        The parameters of the estimator, without the seed.
    seed : int
        The `random_state` of the run.
    n_labelled : int
        Points whose label was given; 0 for clustering.
    energy : float or None
        (P); None where it is infinite because a cluster is empty.
    purity : float or None
        Over all points, the labelled ones included; None where the truth is not known.
    seconds : float
        Of `fit`, the graph included.
    sizes : tuple of int
        Points in each cluster.
    n_iter : int
        Iterations of the method; for tautcut, inner iterations of Algorithm 1.
    status : str
        Why the run stopped.
    versions : dict
        Of Python, tautcut and what it computes with.
    commit : str or None
        Of the checkout that tautcut was run from, with "-dirty" if files in it had changed; None elsewhere.
    machine : dict
        The number of processors, the platform, and what else an experiment says of it.
    created : str
        When the run ended, UTC.
    measures : dict
        Whatever else an experiment measured, by name.
    masses : tuple of float
        The mass of each cluster; empty where no masses were given, and then not written.
    """

    data: str
    method: str
    settings: dict[str, Any]
    seed: int
    n_labelled: int
    energy: float | None
    purity: float | None
    seconds: float
    sizes: tuple[int, ...]
    n_iter: int
    status: str
    versions: dict[str, str]
    commit: str | None
    machine: dict[str, Any]
    created: str
    measures: dict[str, float] = field(default_factory=dict)
    masses: tuple[float, ...] = field(default_factory=tuple)

    def to_json(self) -> str:
        """The record as one line of JSON, without the line's end."""
        content = {name: value for name, value in asdict(self).items() if name != "masses" or value}
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> RunRecord:
        """The record that `to_json` wrote."""
        content = json.loads(line)
        names = {one.name for one in fields(cls)}
        needed = {one.name for one in fields(cls) if one.default_factory is MISSING}
        if not isinstance(content, dict) or not needed <= set(content) <= names:
            found = sorted(content) if isinstance(content, dict) else content
            raise InputError(f"a run record has the fields {', '.join(sorted(names))}; found {found}.")
        return cls(**{**content, "sizes": tuple(content["sizes"]), "masses": tuple(content.get("masses", ()))})


def plain_setting(value: Any) -> Any:
    """A setting as JSON can hold it: an array as a list, a matrix by its shape alone, and by its text what JSON lacks.

    Examples
    --------
    >>> import numpy as np
    >>> plain_setting({"prior": np.array([0.5, 0.5]), "start": np.eye(3), "limit": float("inf")})
    {'prior': [0.5, 0.5], 'start': 'array of shape (3, 3)', 'limit': 'inf'}
    """
    if len(getattr(value, "shape", ())) > 1:
        return f"array of shape {value.shape}"
    if hasattr(value, "tolist"):
        return plain_setting(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain_setting(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_setting(one) for one in value]
    is_plain = value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
    return value if is_plain else str(value)


def append_record(path: str | os.PathLike[str], record: RunRecord) -> None:
    """Add the record to a file of JSON lines, in one write that is on disk on return; else the file is as it was."""
    line = (record.to_json() + "\n").encode()
    is_new = not Path(path).exists()
    with naming(path), Path(path).open("ab+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line  # the line before was torn by a crash; do not tear this one too
        try:
            if file.write(line) < len(line):  # a disk that fills up takes what fits, and fails at the next write only
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                file.truncate(size)
                if is_new:
                    os.unlink(path)
            raise


def cut_torn_line(path: str | os.PathLike[str]) -> None:
    """Cut off the end of the file that a crash left without a line's end, if there is such an end."""
    if Path(path).exists():
        content = Path(path).read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)


def read_records(path: str | os.PathLike[str]) -> list[RunRecord]:
    """The records of a file of JSON lines. A line torn by a crash is left out with a warning."""
    records = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line:
            continue
        try:
            records.append(RunRecord.from_json(line))
        except json.JSONDecodeError:
            warnings.warn(f"line {number} of {path} is not complete and was left out.", UserWarning, stacklevel=2)
    return records


def circumstances() -> dict[str, Any]:
    """What a record says of the place and the time: versions, commit, machine, created."""
    computed_with = {name: metadata.version(name) for name in PACKAGES}
    return {
        "versions": {"python": platform.python_version(), "tautcut": __version__, **computed_with},
        "commit": _commit(),
        "machine": {"cpus": os.cpu_count(), "platform": f"{platform.system()} {platform.machine()}"},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """The commit of the checkout that holds this package; None if git does not track it."""
    here = Path(__file__).resolve().parent
    if _git(here, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return _git(here, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(directory: Path, *arguments: str) -> str | None:
    """What git answers, or None where it cannot."""
    command = ["git", "-C", str(directory), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
