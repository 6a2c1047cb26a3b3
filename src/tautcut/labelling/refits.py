"""Processes that work for the page, so that it never waits: one fits the classifier to the labels so far, one chooses
the next questions and draws the map, one makes what is taken away. Each is given the graph once and then answers
requests, a frame of plain arrays each way; nothing is pickled. A thread here waits for the answers. What to ask, and
what becomes of the answers, is decided by the session.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import TautcutError
from tautcut.formats import known_labels
from tautcut.graph import Graph
from tautcut.interrupts import end_with_parent

Frame = dict[str, Array]

_LENGTH = struct.Struct("<Q")
_SUSPICIOUS = 0.5  # of a label's edge weight goes to its own class, at least, where it is beyond doubt
_MOST_SUSPICIOUS = 100


class Worker:
    """A process that answers requests in their order; `on_answer` is called with each, on a thread of its own.

    `pending` is the newest request that has not been sent: a newer one of the same kind takes its place, so that
    answers that came while the process was busy are worked off together.
    """

    def __init__(self, graph: Graph, on_answer: Callable[[Frame], None], on_end: Callable[[str], None]) -> None:
        self._graph, self._on_answer, self._on_end = graph, on_answer, on_end
        self._pending: dict[str, Callable[[], Frame | None]] = {}
        self._wake = threading.Condition()
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._is_busy = False
        self._thread = threading.Thread(target=self._run, name="tautcut-worker", daemon=True)
        self._thread.start()

    def ask(self, kind: str, request: Callable[[], Frame | None]) -> None:
        """Have the process answer what request() says, once it has answered what it is at; None is no request."""
        with self._wake:
            self._pending[kind] = request
            self._wake.notify()

    @property
    def is_busy(self) -> bool:
        with self._wake:
            return self._is_busy or bool(self._pending)

    def close(self) -> None:
        """End the process; what it is at is lost."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        if self._process is not None:
            self._process.kill()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            with self._started() as process:
                self._process = process
                assert process.stdin is not None  # for the type checker: both are pipes
                assert process.stdout is not None
                _send(process.stdin, _frame_of(self._graph))
                while (request := self._next()) is not None:
                    _send(process.stdin, request)
                    answer = _receive(process.stdout)
                    if answer is None:
                        break
                    with self._wake:
                        self._is_busy = False
                    self._on_answer(answer)
        except OSError as error:
            self._end(f"it could not be started or asked: {error.strerror}")
            return
        if not self._is_closed:
            self._end("its process has ended; memory may have run out")

    def _end(self, why: str) -> None:
        with self._wake:
            self._is_busy = False
            self._pending.clear()
            is_wanted = not self._is_closed
        if is_wanted:
            self._on_end(why)

    def _next(self) -> Frame | None:
        while True:
            with self._wake:
                self._is_busy = False
                while not self._pending and not self._is_closed:
                    self._wake.wait()
                if self._is_closed:
                    return None
                self._is_busy = True
                kind = next(iter(self._pending))
                request = self._pending.pop(kind)
            frame = request()
            if frame is not None:
                return {"kind": np.array(kind), **frame}

    def _started(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, sys.path))
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip


def text_of(frame: Frame, name: str) -> Any:
    """What a frame holds as JSON."""
    return json.loads(str(frame[name]))


def as_text(value: Any) -> Array:
    """A value as JSON, for a frame."""
    return np.array(json.dumps(value))


def _frame_of(graph: Graph) -> Frame:
    masses = {"masses": graph.masses} if graph.has_masses else {}
    return {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.weights, **masses}


def _graph_of(frame: Frame) -> Graph:
    n = len(frame["indptr"]) - 1
    graph = Graph.from_any(sp.csr_matrix((frame["weights"], frame["indices"], frame["indptr"]), shape=(n, n)))
    return graph.with_masses(frame["masses"]) if "masses" in frame else graph


def _send(pipe: IO[bytes], frame: Frame) -> None:
    content = io.BytesIO()
    parts: dict[str, Any] = dict(frame)
    np.savez(content, **parts)
    pipe.write(_LENGTH.pack(content.tell()))
    pipe.write(content.getbuffer())
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Frame | None:
    """The next frame; None where there is none, or it is cut short."""
    size = pipe.read(_LENGTH.size)
    if len(size) < _LENGTH.size:
        return None
    content = pipe.read(_LENGTH.unpack(size)[0])
    if len(content) < _LENGTH.unpack(size)[0]:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


# ---------------------------------------------------------------- in the other process


class Workshop:
    """What a worker does: it has the graph, and what one request leaves for the next."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._last: tuple[list[str], FloatArray] | None = None
        self._choosers: dict[int, Any] = {}

    def answer(self, request: Frame) -> Frame:
        """The answer to a request; a mistake is told in a sentence."""
        kind = str(request["kind"])
        job = {"fit": self.fit, "next": self.next, "map": self.map, "export": self.export}[kind]
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = job(request)
        except (TautcutError, MemoryError, ValueError, ArithmeticError, OSError) as error:
            answer = {"problem": np.array(str(error) or type(error).__name__)}
        seconds = time.perf_counter() - began
        return {**answer, "kind": np.array(kind), "revision": request["revision"], "seconds": np.array(seconds)}

    def fit(self, request: Frame) -> Frame:
        """The classification by the labels so far, from where the last one ended."""
        from tautcut.estimators import MTVClassifier

        known = _known(request, self.graph.n_vertices)
        names = [str(one) for one in np.unique([one for one in known.tolist() if one is not None]).tolist()]
        model = MTVClassifier(affinity="precomputed", random_state=int(request["seed"]), init=self._start(names))
        model.fit(self.graph, known)
        names = [str(one) for one in model.classes_.tolist()]
        self._last = names, model.memberships_
        return {
            "classes": as_text(names), "labels": model.result_.partition.labels, "confidence": model.confidence_,
            "energy": np.array(model.energy_), "suspicious": as_text(self._suspicious(model)),
        }  # fmt: skip

    def _start(self, names: list[str]) -> Any:
        """The last F, if it is of the same classes; a class that is new begins anew (decision 0049)."""
        return self._last[1] if self._last is not None and self._last[0] == names else "auto"

    def _suspicious(self, model: Any) -> list[list[Any]]:
        """Vertex, quality and the class that most of its edges lead to, of labels that their neighbours contradict."""
        quality, labels = model.label_quality_, model.result_.partition.labels
        found = np.flatnonzero(quality < _SUSPICIOUS)
        found = found[np.argsort(quality[found], kind="stable")][:_MOST_SUSPICIOUS]
        rows = []
        for vertex in found.tolist():
            row = slice(self.graph.indptr[vertex], self.graph.indptr[vertex + 1])
            shares = np.bincount(labels[self.graph.indices[row]], self.graph.weights[row], model.classes_.size)
            shares[labels[vertex]] = -1.0
            rows.append([vertex, float(quality[vertex]), str(model.classes_[int(shares.argmax())])])
        return rows

    def next(self, request: Frame) -> Frame:
        """The vertices to ask about next, the most telling first."""
        seed = int(request["seed"])
        if seed not in self._choosers:
            self._choosers[seed] = _chooser(self.graph, seed)
        codes = request["codes"]
        n_points = min(int(request["n_points"]), int((codes < 0).sum()))
        return {"vertices": self._choosers[seed].next(codes, n_points)}

    def map(self, request: Frame) -> Frame:
        """Where each vertex lies on a map."""
        from tautcut.report.layout import map_coordinates

        return {"coordinates": map_coordinates(self.graph)}

    def export(self, request: Frame) -> Frame:
        """Files of the classification, fitted as `tautcut classify` would."""
        from tautcut.labelling.exports import write_classification

        write_classification(self.graph, _known(request, self.graph.n_vertices), request, text_of(request, "about"))
        return {}


def _known(request: Frame, n_vertices: int) -> Array:
    """The labels as `tautcut classify` reads them from a table."""
    texts = [""] * n_vertices
    for vertex, label in zip(request["labelled"].tolist(), text_of(request, "labels"), strict=True):
        texts[vertex] = label
    return known_labels(texts)


class _AtRandom:
    """Questions in a random order."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def next(self, codes: IntArray, n_points: int) -> IntArray:
        free = np.flatnonzero(codes < 0)
        return np.random.default_rng([self._seed, len(codes) - free.size]).permutation(free)[:n_points]


def _chooser(graph: Graph, seed: int) -> Any:
    try:
        from tautcut.acquisition import Acquisition  # type: ignore[import-not-found]
    except ImportError:
        return _AtRandom(seed)
    return Acquisition(graph, rng=np.random.default_rng(seed))


def main(parent: int) -> None:
    """Answer requests from standard input until it ends; end with the process that asks, and leave Ctrl-C to it."""
    end_with_parent(parent)
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    graph = _receive(asked)
    if graph is None:
        return
    workshop = Workshop(_graph_of(graph))
    with contextlib.suppress(BrokenPipeError):
        while (request := _receive(asked)) is not None:
            _send(answers, workshop.answer(request))


if __name__ == "__main__":
    main(int(sys.argv[1]))
