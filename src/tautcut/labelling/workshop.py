"""The process that works for the page: fits of the classifier to the labels so far, the next questions, the map, what
is taken away. It has the graph, and what one request leaves for the next; it never sees what is labelled, nor a file
but the one that it is told to write. It ends with the process that asks.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tautcut.acquisition import Acquisition
from tautcut.algorithm.observers import Observer
from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.checks import UNLABELLED
from tautcut.errors import TautcutError
from tautcut.estimators import MTVClassifier
from tautcut.formats import known_labels
from tautcut.graph import Graph
from tautcut.interrupts import end_with_parent
from tautcut.labelling.refits import HURRY, SETTLE, Frame, as_text, graph_of, receive, send, text_of
from tautcut.search.certainty import estimated_accuracy, labels_per_class
from tautcut.search.disagreement import FEW
from tautcut.targets import encode_labels

_SUSPICIOUS = 0.5  # of a label's edge weight goes to its own class, at least, where it is beyond doubt
_MOST_SUSPICIOUS = 100


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What a fit leaves for the next one: the labels that it knew, and what it found."""

    names: list[str]
    given: IntArray
    labels: IntArray
    memberships: FloatArray

    def bears(self, names: list[str], given: IntArray) -> bool:
        """Whether it agrees with labels that only add to those it knew; a start from it cannot mislead then."""
        is_known = self.given >= 0
        return (
            self.names == names
            and bool((given[is_known] == self.given[is_known]).all())
            and bool((self.labels == given)[given >= 0].all())
        )


class Workshop:
    """What a worker does: it has the graph, and what one request leaves for the next."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.hurried = 0  # the number of the newest request that is to be left for another
        self._last: _Fitted | None = None
        self._is_settled = False  # whether the last fit was from the labels alone
        self._choosers: dict[int, Acquisition] = {}

    def answer(self, request: Frame) -> Frame:
        """The answer to a request; a mistake is told in a sentence."""
        kind = str(request["kind"])
        jobs = {"fit": self.fit, SETTLE: self.settle, "next": self.next, "map": self.map, "doubt": self.doubt}
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = (jobs | {"export": self.export})[kind](request)
        except (TautcutError, MemoryError, ValueError, ArithmeticError, OSError) as error:
            answer = {"problem": np.array(str(error) or type(error).__name__)}
        seconds = time.perf_counter() - began
        return {**answer, "kind": np.array(kind), "revision": request["revision"], "seconds": np.array(seconds)}

    def fit(self, request: Frame) -> Frame:
        """The classification by the labels so far: from where the last one ended, if that agrees with them.

        Never twice in a row, so that what a start from the labels alone would find is not missed for long
        (decision 0049).
        """
        names, given = _encoded(request, self.graph.n_vertices)
        last = self._last
        goes_on = last is not None and self._is_settled and last.bears(names, given)
        model = self._fitted(given, last.memberships if last is not None and goes_on else "auto", request)
        return self._told(model, names, request, is_settled=not goes_on)

    def settle(self, request: Frame) -> Frame:
        """The classification by the labels and the seed alone, as `tautcut classify` makes it; left when asked to."""
        number = int(request["number"])
        names, given = _encoded(request, self.graph.n_vertices)
        model = self._fitted(given, "auto", request, lambda _: self.hurried >= number)
        if self.hurried >= number:
            return {"is_left": np.array(True)}
        return self._told(model, names, request, is_settled=True)

    def _fitted(self, given: IntArray, init: Any, request: Frame, observer: Observer | bool = False) -> MTVClassifier:
        seed = int(request["seed"])
        return MTVClassifier(affinity="precomputed", random_state=seed, init=init, verbose=observer).fit(
            self.graph, given
        )  # fmt: skip

    def _told(self, model: MTVClassifier, names: list[str], request: Frame, *, is_settled: bool) -> Frame:
        """What the page is told of a fit; it is where the next one starts, unless one before has a lower energy."""
        result, last = model.result_, self._last
        given = result.problem.labels
        self._is_settled = is_settled
        is_worse = (
            last is not None
            and last.bears(names, given)
            and result.problem.partition(last.labels).energy < result.partition.energy
        )
        if last is None or not is_worse:
            self._last = _Fitted(names, given, result.partition.labels, model.memberships_)
        else:
            self._last = replace(last, given=given)
        n_right, n_wrong = request["checks"].tolist()
        accuracy = estimated_accuracy(result, n_right=n_right, n_wrong=n_wrong)
        called = _called(request, model)
        return {
            "classes": as_text(called), "labels": result.partition.labels, "confidence": model.confidence_,
            "energy": np.array(model.energy_), "suspicious": as_text(self._suspicious(model, called)),
            "accuracy": as_text(accuracy.to_dict()), "is_settled": np.array(is_settled),
        }  # fmt: skip

    def doubt(self, request: Frame) -> Frame:
        """How far the labels disagree with the clusters of the graph."""
        names, given = _encoded(request, self.graph.n_vertices)
        is_plain = labels_per_class(given, len(names)) >= FEW  # which needs no fit to be seen
        found = None if is_plain else self._fitted(given, "auto", request).disagreement_
        if found is None:
            return {}
        values = np.array([found.energy, found.free_energy, found.undecided])
        return {"values": values, "points": found.points}

    def _suspicious(self, model: MTVClassifier, called: list[str]) -> list[list[Any]]:
        """Vertex, quality and the class that most of its edges lead to, of labels that their neighbours contradict."""
        quality, labels = model.label_quality_, model.result_.partition.labels
        found = np.flatnonzero(quality < _SUSPICIOUS)
        found = found[np.argsort(quality[found], kind="stable")][:_MOST_SUSPICIOUS]
        rows = []
        for vertex in found.tolist():
            row = slice(self.graph.indptr[vertex], self.graph.indptr[vertex + 1])
            shares = np.bincount(labels[self.graph.indices[row]], self.graph.weights[row], model.classes_.size)
            shares[labels[vertex]] = -1.0
            rows.append([vertex, float(quality[vertex]), called[int(shares.argmax())]])
        return rows

    def next(self, request: Frame) -> Frame:
        """The vertices to ask about next, the most telling first."""
        seed = int(request["seed"])
        if seed not in self._choosers:
            self._choosers[seed] = Acquisition(self.graph, rng=np.random.default_rng(seed))
        codes = request["codes"]
        n_points = min(int(request["n_points"]), int((codes < 0).sum()))
        asked = self._choosers[seed].questions(codes, n_points) if n_points else []
        reasons = as_text([f"{one.reason[:1].upper()}{one.reason[1:]}." for one in asked])
        return {"vertices": np.array([one.vertex for one in asked], dtype=np.int64), "reasons": reasons}

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
    """The labels as `tautcut classify` reads them from a table; None where there is none."""
    known = np.full(n_vertices, None, dtype=object)
    known[request["labelled"]] = known_labels(text_of(request, "labels"))
    return known


def _called(request: Frame, model: MTVClassifier) -> list[str]:
    """What a person calls the classes of a fit: "03" is the number 3 where all labels are whole numbers."""
    codes = model.result_.partition.labels[request["labelled"]].tolist()
    spoken = dict(zip(reversed(codes), reversed(text_of(request, "labels")), strict=True))
    return [spoken[code] for code in range(model.classes_.size)]


def _encoded(request: Frame, n_vertices: int) -> tuple[list[str], IntArray]:
    """The classes as texts, in their order, and the number of each label; −1 where there is none."""
    few = known_labels(text_of(request, "labels"))
    classes, codes = encode_labels(few, few.size)
    given = np.full(n_vertices, UNLABELLED, dtype=np.int64)
    given[request["labelled"]] = codes
    return [str(one) for one in classes.tolist()], given


def main(parent: int) -> None:
    """Answer requests from standard input until it ends; end with the process that asks, and leave Ctrl-C to it."""
    end_with_parent(parent)
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    first = receive(asked)
    if first is None:
        return
    if hasattr(os, "nice"):
        os.nice(int(first["niceness"]))
    workshop = Workshop(graph_of(first))
    requests: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()

    def listen() -> None:
        while (frame := receive(asked)) is not None:
            if str(frame["kind"]) == HURRY:
                workshop.hurried = max(workshop.hurried, int(frame["number"]))
            else:
                requests.put(frame)
        requests.put(None)

    threading.Thread(target=listen, name="tautcut-listens", daemon=True).start()
    with suppress(BrokenPipeError):
        while (request := requests.get()) is not None:
            send(answers, workshop.answer(request))


if __name__ == "__main__":
    main(int(sys.argv[1]))
