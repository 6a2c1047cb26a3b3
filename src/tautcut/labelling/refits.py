"""Processes that work for the page, so that it never waits: what is asked of one, how it is told, and who waits for
the answer. A process is given the graph once, and then answers requests, a frame of plain arrays each way; nothing is
pickled. What a request means is known to `workshop`; what to ask, and what becomes of the answers, to the session.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import Array
from tautcut.graph import Graph

Frame = dict[str, Array]

SETTLE, HURRY = "settle", "hurry"  # what can be left for another request, and the request to leave it
_LENGTH = struct.Struct("<Q")


class Worker:
    """A process that answers one request after the other; `on_answer` is called with each, on a thread of its own.

    Of several requests of a kind that wait, the newest counts: what was asked while the process was busy is worked off
    together. `on_end` is told why, where the process ends by itself. A process gives way to those of less `niceness`.
    """

    def __init__(
        self, graph: Graph, on_answer: Callable[[Frame], None], on_end: Callable[[str], None], *,
        niceness: int = 0,
    ) -> None:  # fmt: skip
        self._graph, self._on_answer, self._on_end, self._niceness = graph, on_answer, on_end, niceness
        self._waiting: dict[str, Callable[[], Frame | None]] = {}
        self._changed, self._writing = threading.Condition(), threading.Lock()
        self._is_closed, self._number = False, 0
        self._at: str | None = None  # the kind of the request that it is at
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="tautcut-worker", daemon=True)
        self._thread.start()

    def ask(self, kind: str, request: Callable[[], Frame | None]) -> None:
        """Have the process answer what request() says, once it has answered what it is at; None is no request.

        What is only tidied up meanwhile is left for it.
        """
        with self._changed:
            self._waiting[kind] = request
            self._changed.notify_all()
            is_in_the_way = self._at == SETTLE and kind != SETTLE
            process, number = self._process, self._number
        if is_in_the_way and process is not None and process.stdin is not None:
            with self._writing, suppress(OSError, ValueError):
                send(process.stdin, {"kind": np.array(HURRY), "number": np.array(number)})

    @property
    def is_busy(self) -> bool:
        with self._changed:
            return self._at is not None or bool(self._waiting)

    def close(self) -> None:
        """End the process; what it is at is lost."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._process is not None:
            self._process.kill()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            with self._started() as process:
                self._process = process
                assert process.stdin is not None  # for the type checker: both are pipes
                assert process.stdout is not None
                with self._writing:
                    send(process.stdin, frame_of(self._graph) | {"niceness": np.array(self._niceness)})
                while (request := self._next()) is not None:
                    with self._writing:
                        send(process.stdin, request)
                    answer = receive(process.stdout)
                    if answer is None:
                        break
                    with self._changed:
                        self._at = None
                    self._on_answer(answer)
                process.kill()
        except OSError as error:
            self._ended(f"it could not be started or asked: {error.strerror}")
        else:
            self._ended("its process has ended; memory may have run out")

    def _ended(self, why: str) -> None:
        with self._changed:
            self._at = None
            self._waiting.clear()
            is_wanted = not self._is_closed
        if is_wanted:
            self._on_end(why)

    def _next(self) -> Frame | None:
        """The next request, once there is one; None at the end."""
        frame = None
        while frame is None:
            with self._changed:
                self._at = None
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return None
                self._number += 1
                self._at = next((kind for kind in self._waiting if kind != SETTLE), SETTLE)
                request, kind, number = self._waiting.pop(self._at), self._at, self._number
            frame = request()
        return {"kind": np.array(kind), "number": np.array(number), **frame}

    def _started(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, sys.path))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tautcut.labelling.workshop", str(os.getpid())], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip


def text_of(frame: Frame, name: str) -> Any:
    """What a frame holds as JSON."""
    return json.loads(str(frame[name]))


def as_text(value: Any) -> Array:
    """A value as JSON, for a frame."""
    return np.array(json.dumps(value))


def frame_of(graph: Graph) -> Frame:
    """The graph as arrays."""
    masses = {"masses": graph.masses} if graph.has_masses else {}
    return {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.weights, **masses}


def graph_of(frame: Frame) -> Graph:
    """The graph that was sent."""
    n = len(frame["indptr"]) - 1
    graph = Graph.from_any(sp.csr_matrix((frame["weights"], frame["indices"], frame["indptr"]), shape=(n, n)))
    return graph.with_masses(frame["masses"]) if "masses" in frame else graph


def send(pipe: IO[bytes], frame: Frame) -> None:
    """Write a frame to the other process."""
    content = io.BytesIO()
    parts: dict[str, Any] = dict(frame)
    np.savez(content, **parts)
    pipe.write(_LENGTH.pack(content.tell()))
    pipe.write(content.getbuffer())
    pipe.flush()


def receive(pipe: IO[bytes]) -> Frame | None:
    """The next frame; None where there is none, or it is cut short."""
    size = pipe.read(_LENGTH.size)
    if len(size) < _LENGTH.size:
        return None
    content = pipe.read(_LENGTH.unpack(size)[0])
    if len(content) < _LENGTH.unpack(size)[0]:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
