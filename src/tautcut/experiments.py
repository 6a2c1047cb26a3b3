"""Runs of an experiment and the evidence they leave: one `RunRecord`, one JSON line, for each run. This
module is the only place that times anything; what it times is `fit`, with the graph. It changes no result.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import time
import warnings
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from tautcut import __version__
from tautcut.errors import InputError
from tautcut.estimators import MTVClassifier, MTVClustering
from tautcut.metrics import purity
from tautcut.problem import UNLABELLED, IntArray
from tautcut.stopping import Status

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")

Model = TypeVar("Model", MTVClustering, MTVClassifier)


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
    status : str
        Why the run stopped.
    versions : dict
        Of Python, tautcut and what it computes with.
    commit : str or None
        Of the checkout that tautcut was run from, with "-dirty" if files in it had changed; None elsewhere.
    machine : dict
    created : str
        When the run ended, UTC.
    measures : dict
        Whatever else an experiment measured, by name.
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

    def to_json(self) -> str:
        """The record as one line of JSON, without the line's end."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> RunRecord:
        """The record that `to_json` wrote."""
        content = json.loads(line)
        names = {one.name for one in fields(cls)}
        needed = {one.name for one in fields(cls) if one.default_factory is MISSING}
        if not isinstance(content, dict) or not needed <= set(content) <= names:
            found = sorted(content) if isinstance(content, dict) else content
            raise InputError(f"a run record has the fields {', '.join(sorted(names))}; found {found}.")
        return cls(**{**content, "sizes": tuple(content["sizes"])})


def append_record(path: str | os.PathLike[str], record: RunRecord) -> None:
    """Add the record to a file of JSON lines, in one write that is on disk on return."""
    line = (record.to_json() + "\n").encode()
    with Path(path).open("ab+", buffering=0) as file:
        if file.seek(0, os.SEEK_END) and _last_byte(file) != b"\n":
            line = b"\n" + line  # the line before was torn by a crash; do not tear this one too
        file.write(line)
        os.fsync(file.fileno())


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


def run_clustering(
    model: MTVClustering, X: Any, *, data: str, truth: ArrayLike | None = None, warm_up: bool = False
) -> tuple[MTVClustering, RunRecord]:
    """A fitted copy of the model, and the record of its fit.

    Parameters
    ----------
    model : MTVClustering
        Left as it is. Its `random_state` is a number, so that the run can be repeated.
    X : array-like or graph
    data : str
        The name of the data set, for the record.
    truth : array-like of shape (n_samples,), optional
        For the purity; the model never sees it.
    warm_up : bool
        Compile the kernels off the clock, by a fit of one iteration.
    """
    fitted, seconds = _timed_fit(model, X, None, warm_up=warm_up)
    return fitted, _record(fitted, fitted.labels_, data=data, truth=truth, seconds=seconds)


def run_classification(
    model: MTVClassifier,
    X: Any,
    y: ArrayLike,
    *,
    data: str,
    truth: ArrayLike | None = None,
    warm_up: bool = False,
) -> tuple[MTVClassifier, RunRecord]:
    """A fitted copy of the model, and the record of its fit on the labels y (−1: unknown).

    The other parameters are those of `run_clustering`.
    """
    fitted, seconds = _timed_fit(model, X, y, warm_up=warm_up)
    n_labelled = int((np.asarray(y) != UNLABELLED).sum())
    labels = fitted.transduction_
    return fitted, _record(fitted, labels, data=data, truth=truth, seconds=seconds, n_labelled=n_labelled)


def draw_labels(truth: ArrayLike, *, per_class: int = 1, rng: np.random.Generator) -> IntArray:
    """The labels of `per_class` points of each class, drawn without replacement, and −1 for all others."""
    classes = np.asarray(truth)
    labels = np.full(classes.size, UNLABELLED, dtype=np.int64)
    for value in np.unique(classes):
        members = np.flatnonzero(classes == value)
        if members.size < per_class:
            raise InputError(f"per_class={per_class} is more than the {members.size} points of class {value}.")
        labels[rng.choice(members, per_class, replace=False)] = value
    return labels


def _timed_fit(model: Model, X: Any, y: ArrayLike | None, *, warm_up: bool) -> tuple[Model, float]:
    if isinstance(model.random_state, bool) or not isinstance(model.random_state, int | np.integer):
        found = model.random_state
        raise InputError(f"random_state must be a whole number, to repeat the run by; found {found!r}.")
    if warm_up:
        _fit_briefly(clone(model), X, y)
    fitted: Model = clone(model)
    began = time.perf_counter()
    fitted.fit(X, y)
    return fitted, time.perf_counter() - began


def _fit_briefly(model: Model, X: Any, y: ArrayLike | None) -> None:
    """One iteration of one start: it runs every kernel once. Whatever it warns of, the real fit will say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=1, n_init=1, verbose=False).fit(X, y)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt


def _record(
    model: MTVClustering | MTVClassifier,
    labels: Any,
    *,
    data: str,
    truth: ArrayLike | None,
    seconds: float,
    n_labelled: int = 0,
) -> RunRecord:
    settings = model.get_params()
    seed = int(settings.pop("random_state"))
    return RunRecord(
        data=data,
        method=type(model).__name__,
        settings={name: _plain(value) for name, value in settings.items() if name != "verbose"},
        seed=seed,
        n_labelled=n_labelled,
        energy=float(model.energy_) if math.isfinite(model.energy_) else None,
        purity=None if truth is None else purity(labels, truth),
        seconds=round(seconds, 4),
        sizes=_sizes(model, labels),
        n_iter=int(model.n_iter_),
        status=str(model.status_),
        **circumstances(),
    )


def circumstances() -> dict[str, Any]:
    """What a record says of the place and the time: versions, commit, machine, created."""
    return {
        "versions": _versions(),
        "commit": _commit(),
        "machine": {"cpus": os.cpu_count(), "platform": f"{platform.system()} {platform.machine()}"},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _sizes(model: MTVClustering | MTVClassifier, labels: Any) -> tuple[int, ...]:
    """Points in each cluster, in the order of the memberships' columns; an empty cluster has 0."""
    names = model.classes_ if isinstance(model, MTVClassifier) else range(model.n_clusters)
    return tuple(int((labels == name).sum()) for name in names)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; a start given as a matrix by its shape alone."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    return array.tolist() if array.ndim < 2 else f"array of shape {array.shape}"


def _versions() -> dict[str, str]:
    computed_with = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "tautcut": __version__, **computed_with}


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


def _last_byte(file: Any) -> Any:
    file.seek(-1, os.SEEK_END)
    return file.read(1)
