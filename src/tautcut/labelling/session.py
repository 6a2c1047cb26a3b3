"""A labelling session: what has been answered, what is asked next, and what the classifier makes of it. Every answer
goes through the journal first, and what a session knows follows from the journal alone, so that one that is killed goes
on where it was. Fits and questions come from processes of their own; an answer waits for none of them. No HTTP here.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InputError
from tautcut.labelling.answers import Answers, RefusedError, checked_class, checked_id, is_sound, keys_of
from tautcut.labelling.journal import Entry, Journal
from tautcut.labelling.refits import SETTLE, Frame, Worker, as_text, text_of
from tautcut.labelling.things import Things

Json = dict[str, Any]

CHECK_EVERY = 5  # questions: one of so many is drawn at random, to estimate the accuracy
SIMILAR = 11  # things beside the one that is asked about
MAPPED = 5000  # points of the map
PREPARED = 20  # questions at a time, so that they last while the next are chosen
MOST_AT_ONCE = 1000  # things in one answer
_DOUBTED_AGAIN = 1.5  # times as many labels, until it is asked again whether they disagree with the graph
_ENOUGH = 0.95  # of the labels are right, surely: then one may stop
_FEW_CHECKS = 10
_NICENESS = {"fit": 0, "choose": 5, "doubt": 10}  # a fit is waited for; questions were prepared before


@dataclass(frozen=True, eq=False)
class Fit:
    """What the classifier made of the answers up to a revision; arrays are of vertices."""

    revision: int
    classes: list[str]
    labels: IntArray
    confidence: FloatArray
    suspicious: list[list[Any]]
    energy: float
    seconds: float
    counts: dict[str, int]
    accuracy: Json
    is_settled: bool


class Session:
    """A session on things with a journal. Use as a context, or close it: its processes end with it.

    Parameters
    ----------
    things : Things
    journal : Journal
    seed : int
        Of the fits, and of what is drawn at random.
    classes : sequence of str
        Classes that are offered from the start.
    known : dict of str to str
        Labels by name that are known already; taken into the journal once.
    """

    def __init__(
        self, things: Things, journal: Journal, *, seed: int = 0, classes: Sequence[str] = (),
        known: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.things, self.journal, self.seed = things, journal, seed
        self.notes: list[str] = []
        self._lock = threading.RLock()
        self._answers = Answers()
        self._fit: Fit | None = None
        self._problem: str | None = None
        self._queue: list[tuple[int, str]] = []  # vertices, and why they are asked about
        self._known_to_queue = -2  # the revision that these were chosen by
        self._has_news = threading.Condition(self._lock)
        self._coordinates: FloatArray | None = None
        self._doubts: Json | None = None
        self._n_doubted = 0
        self._workers: dict[str, Worker] = {}
        self._checks_asked: set[int] = set()
        self._check_belongs(journal)
        for entry in journal.entries:
            self._answers.take(entry)
        for name in classes:
            if checked_class(name) not in self._answers.classes:
                self.add_class(f"classes:{name}", name)
        if known:
            self._take_known(known)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin to fit, to choose questions and to draw the map."""
        for name in ("fit", "choose"):
            self._workers[name] = self._worker(_NICENESS[name])
        self._refresh()
        coordinates = self.things.kept_map()
        if coordinates is not None:
            self._coordinates = coordinates
        else:
            self._workers["choose"].ask("map", lambda: {"revision": np.array(0)})

    def close(self) -> None:
        """End the processes, and let others write the journal."""
        for worker in self._workers.values():
            worker.close()
        with self._lock:  # not in the middle of an answer
            self.journal.close()

    # ------------------------------------------------------------ answers

    def answer(
        self, id_: str, things: Sequence[int], label: str | None, *, skip: bool = False, is_check: bool = False
    ) -> int:
        """Take an answer, journalled when this returns; the revision after it. The same id counts once."""
        id_ = checked_id(id_)
        indices = self._checked_things(things)
        if skip == (label is not None):
            raise RefusedError("an answer has a label, or skips: give one of them.")
        name = None if label is None else checked_class(label)
        with self._lock:
            if id_ in self._answers.ids:
                return self._answers.revision
            names = [self.things.names[index] for index in indices]
            entry: Entry = {
                "do": "answer", "id": id_, "things": names, "label": name,
                "marks": [self.things.mark(index) for index in indices],
            }  # fmt: skip
            checks = self._checks_of(indices) if is_check and name is not None else {}
            if checks:
                entry["checks"] = checks
            self._take(entry)
            self._checks_asked.difference_update(indices)
            return self._answers.revision

    def undo(self, id_: str) -> tuple[int, int | None]:
        """Take the last answer back that has not been; the revision after it, and the thing that it was about."""
        id_ = checked_id(id_)
        with self._lock:
            if id_ in self._answers.ids:
                return self._answers.revision, None
            if not self._answers.done:
                raise RefusedError("there is nothing to undo.")
            names = self._answers.done[-1]["things"]
            self._take({"do": "undo", "id": id_})
            return self._answers.revision, next((self.things.number[n] for n in names if n in self.things.number), None)

    def add_class(self, id_: str, name: str) -> int:
        """Offer a class that has no label yet; the revision after it."""
        id_, name = checked_id(id_), checked_class(name)
        with self._lock:
            if id_ not in self._answers.ids and name not in self._answers.classes:
                self._take({"do": "class", "id": id_, "label": name})
            return self._answers.revision

    def _take(self, entry: Entry) -> None:
        """Journal an entry, and only then take it into account."""
        entry["time"] = round(time.time(), 3)
        try:
            self.journal.append(entry)
        except OSError as error:
            raise RefusedError(
                f"the answer could not be written and does not count: {error.strerror}. Make room for "
                f"'{self.journal.path}', and answer again."
            ) from error
        self._answers.take(entry)
        self._refresh()

    def _checked_things(self, things: Sequence[int]) -> list[int]:
        n = len(self.things.names)
        if not isinstance(things, list | tuple) or not 0 < len(things) <= MOST_AT_ONCE:
            raise RefusedError(f"things must be a list of 1 to {MOST_AT_ONCE} numbers.")
        for one in things:
            if type(one) is not int or not 0 <= one < n:
                raise RefusedError(f"there is no thing {str(one)[:40]!r}: they are numbered from 0 to {n - 1}.")
        return list(dict.fromkeys(things))

    def _checks_of(self, indices: Collection[int]) -> dict[str, str]:
        """What was predicted of the things in an answer that were asked about at random."""
        fit, found = self._fit, {}
        for index in self._checks_asked.intersection(indices):
            name, vertex = self.things.names[index], int(self.things.vertices[index])
            if fit is not None and vertex >= 0 and name not in self._answers.labels:
                found[name] = fit.classes[int(fit.labels[vertex])]
        return found

    def _take_known(self, known: dict[str, str]) -> None:
        """Labels of a table, as answers, once: the table is known by its content."""
        digest = hashlib.sha256(json.dumps(sorted(known.items())).encode()).hexdigest()[:16]
        by_label: dict[str, list[str]] = {}
        for name, label in known.items():
            by_label.setdefault(checked_class(label), []).append(name)
        for label, names in by_label.items():
            for start in range(0, len(names), MOST_AT_ONCE):
                some = names[start : start + MOST_AT_ONCE]
                id_ = f"table:{digest}:{label[:80]}:{start}"
                if id_ not in self._answers.ids:
                    marks = [self.things.mark(self.things.number[name]) for name in some]
                    self._take({"do": "answer", "id": id_, "things": some, "label": label, "marks": marks})

    def _check_belongs(self, journal: Journal) -> None:
        """Refuse the journal of other data: most of what it labels has to be there, and to be the same."""
        marked: dict[str, str] = {}
        for number, entry in enumerate(journal.entries, 2):
            if not is_sound(entry):
                raise InputError(f"line {number} of '{journal.path}' is no answer. Correct or delete it.")
            marked.update(zip(entry.get("things", ()), entry.get("marks", ()), strict=False))
        there = {name: mark for name, mark in marked.items() if name in self.things.number}
        same = [name for name, mark in there.items() if self.things.mark(self.things.number[name]) == mark]
        if marked and 2 * len(same) < len(marked):
            told = journal.head.get("title")
            raise InputError(
                f"'{journal.path}' labels other things than '{self.things.source}' holds: of its {len(marked):,} "
                f"things {len(same):,} are the same here. It was begun for {told!r}. Name another by --journal."
            )
        gone, changed = len(marked) - len(there), len(there) - len(same)
        if gone:
            self.notes.append(f"{gone:,} labelled things are no longer there; their labels are kept in the journal.")
        if changed:
            self.notes.append(f"{changed:,} labelled things have changed since; they keep their labels.")

    # ------------------------------------------------------------ questions

    def question(self, skip: Collection[int] = (), *, patience: float = 0.0) -> Json:
        """What to ask next, and things like it; waits so many seconds at most for the choice by every answer."""
        with self._has_news:
            if self._workers:
                self._has_news.wait_for(self._has_chosen, patience)
            labels, skipped = self._answers.labels, self._answers.skipped

            def is_free(index: int) -> bool:
                name = self.things.names[index]
                return index not in skip and name not in labels and name not in skipped

            index, is_check, why = self._chosen(is_free)
            if index is None:
                return {"thing": None, "similar": [], "is_check": False, "why": why}
            if is_check:
                self._checks_asked.add(index)
            similar = self.things.similar(index, SIMILAR, is_free)
            return {
                "thing": self.thing(index, hides_guess=is_check),
                "similar": [self.thing(one, hides_guess=is_check) for one in similar],
                "is_check": is_check, "why": why,
            }  # fmt: skip

    def _has_chosen(self) -> bool:
        """Whether the next questions were chosen by every answer there is."""
        return self._known_to_queue >= (self._answers.revision if self._answers.labels else -1)

    def _chosen(self, is_free: Callable[[int], bool]) -> tuple[int | None, bool, str]:
        """A thing to ask about, whether it is a check, and why this one."""
        number = self._answers.revision
        if self._fit is not None and number % CHECK_EVERY == CHECK_EVERY - 1:
            drawn = self._drawn(number, is_free)
            if drawn is not None:
                return drawn, True, "Drawn at random, to estimate how many guesses are right."
        for vertex, reason in self._queue:
            index = int(self.things.of_vertices[vertex])
            if is_free(index):
                return index, False, reason
        drawn = self._drawn(number, is_free)
        if drawn is not None:
            return drawn, False, "Drawn at random, while better questions are being chosen."
        for index in np.flatnonzero(self.things.vertices < 0).tolist():
            if is_free(index):
                return index, False, "It could not be compared with the others."
        n_skipped = len(self._answers.skipped)
        return None, False, f"All are labelled, or skipped: {n_skipped:,}." if n_skipped else "All are labelled."

    def _drawn(self, number: int, is_free: Callable[[int], bool]) -> int | None:
        """A free thing, drawn at random by the seed and the number of the question."""
        order = self.things.of_vertices
        rng = np.random.default_rng([self.seed, number, 1])
        for at in rng.integers(0, order.size, 32).tolist() if order.size else ():
            if is_free(int(order[at])):
                return int(order[at])
        free = [int(one) for one in order.tolist() if is_free(int(one))]
        return free[int(rng.integers(len(free)))] if free else None

    def thing(self, index: int, *, hides_guess: bool = False) -> Json:
        """What the page shows of a thing."""
        name, vertex, fit = self.things.names[index], int(self.things.vertices[index]), self._fit
        guess = None
        if fit is not None and vertex >= 0 and not hides_guess:
            guess = {"class": fit.classes[int(fit.labels[vertex])], "confidence": float(fit.confidence[vertex])}
        return {
            "index": index, "name": name,
            "image": f"/things/{index}/image" if self.things.has_image(index) else None,
            "text": self.things.text(index), "values": self.things.values(index),
            "label": self._answers.labels.get(name), "guess": guess,
        }  # fmt: skip

    def looked_at(self, index: int) -> Json:
        """A thing, and those like it."""
        self._checked_things([index])
        with self._lock:
            hides = index in self._checks_asked
            near = self.things.similar(index, SIMILAR, lambda one: True)
            return {"thing": self.thing(index, hides_guess=hides), "similar": [self.thing(one) for one in near]}

    def asked_again(self, index: int) -> Json:
        """The question about a thing whose answer was taken back."""
        with self._lock:
            names = self._answers.labels
            near = self.things.similar(index, SIMILAR, lambda one: self.things.names[one] not in names)
            is_check = index in self._checks_asked
            return {
                "thing": self.thing(index, hides_guess=is_check),
                "similar": [self.thing(one, hides_guess=is_check) for one in near],
                "is_check": is_check, "why": "Its answer was taken back.",
            }  # fmt: skip

    # ------------------------------------------------------------ what is known

    def state(self) -> Json:
        """Where the session stands."""
        with self._lock:
            answers, fit = self._answers, self._fit
            labels = self._labels()
            counts = Counter(labels.values())
            keys = keys_of(answers.classes)
            predicted: dict[str, int] = {} if fit is None else fit.counts
            return {
                "revision": answers.revision, "title": self.things.title, "kind": self.things.kind,
                "n_things": len(self.things.names), "n_labelled": len(labels),
                "n_skipped": sum(name in self.things.number for name in answers.skipped),
                "classes": [
                    {
                        "name": name, "key": keys.get(name), "n_labelled": counts[name],
                        "n_predicted": None if fit is None else predicted.get(name, 0),
                    }
                    for name in answers.classes
                ],
                "can_undo": bool(answers.done),
                "fit": self._told_fit(),
                "disagreement": self._doubts,
                "suspicious": self._suspicious(labels),
                "notes": self.notes,
            }  # fmt: skip

    def _labels(self) -> dict[str, str]:
        """The labels of things that are there."""
        number = self.things.number
        return {name: label for name, label in self._answers.labels.items() if name in number}

    def _told_fit(self) -> Json:
        fit, worker = self._fit, self._workers.get("fit")
        return {
            "revision": None if fit is None else fit.revision,
            "is_running": worker is not None and worker.is_busy,
            "seconds": None if fit is None else round(fit.seconds, 3),
            "accuracy": None if fit is None else fit.accuracy, "advice": None if fit is None else _advice(fit),
            "problem": self._problem,
        }  # fmt: skip

    def _suspicious(self, labels: dict[str, str]) -> list[Json]:
        found = []
        for vertex, quality, guess in [] if self._fit is None else self._fit.suspicious:
            index = int(self.things.of_vertices[vertex])
            name = self.things.names[index]
            if name in labels and labels[name] != guess:
                found.append(
                    {"index": index, "name": name, "label": labels[name], "guess": guess, "quality": quality}
                )  # fmt: skip
        return found

    def map(self) -> Json | None:
        """Where things lie on the map, and their classes; None while it is being drawn."""
        with self._lock:
            if self._coordinates is None:
                return None
            fit, n = self._fit, self.things.graph.n_vertices
            labels = self._labels()
            code = {name: number for number, name in enumerate(self._answers.classes)}
            classes = np.full(n, -1)
            if fit is not None:
                classes = np.array([code.get(name, -1) for name in fit.classes])[fit.labels]
            is_labelled = np.zeros(n, dtype=bool)
            for name, label in labels.items():
                vertex = int(self.things.vertices[self.things.number[name]])
                if vertex >= 0:
                    is_labelled[vertex], classes[vertex] = True, code[label]
            shown = _sample(n, is_labelled, MAPPED)
            at = self._coordinates[shown]
            return {
                "x": np.round(at[:, 0], 4).tolist(), "y": np.round(at[:, 1], 4).tolist(),
                "index": self.things.of_vertices[shown].tolist(), "class": classes[shown].tolist(),
                "is_labelled": is_labelled[shown].astype(int).tolist(),
            }  # fmt: skip

    def given(self) -> tuple[list[str], list[str]]:
        """The names that are labelled, in the order of the things, and their labels."""
        with self._lock:
            labels = self._labels()
            names = [name for name in self.things.names if name in labels] if labels else []
            return names, [labels[name] for name in names]

    # ------------------------------------------------------------ the processes that work meanwhile

    def request(self) -> Frame | None:
        """What a fit is asked for: the labels so far by vertex, the seed and the revision; None without a label."""
        with self._lock:
            labels, revision = dict(self._answers.labels), self._answers.revision
            n_right = sum(self._answers.checks.values())
            checks = [n_right, len(self._answers.checks) - n_right]
        at = {int(self.things.vertices[self.things.number[name]]): label for name, label in labels.items()
              if name in self.things.number}  # fmt: skip
        at.pop(-1, None)
        if not at:
            return None
        vertices = sorted(at)
        return {
            "labelled": np.array(vertices, dtype=np.int64), "labels": as_text([at[vertex] for vertex in vertices]),
            "seed": np.array(self.seed), "revision": np.array(revision), "checks": np.array(checks),
        }  # fmt: skip

    def _next_request(self) -> Frame:
        """What the questions are asked for: the class of each vertex, and how many."""
        request = self.request()
        codes = np.full(self.things.graph.n_vertices, -1)
        if request is not None:
            labels = text_of(request, "labels")
            number = {name: code for code, name in enumerate(sorted(set(labels)))}
            codes[request["labelled"]] = [number[name] for name in labels]
        # A number of labels that are asked together changes every ten: what is cut for one can be used again.
        n_points = PREPARED - (codes >= 0).sum() % (PREPARED // 2) + min(len(self._answers.skipped), PREPARED)
        revision = np.array(-1) if request is None else request["revision"]
        return {"codes": codes, "n_points": n_points, "seed": np.array(self.seed), "revision": revision}

    def _refresh(self) -> None:
        """Have the classification and the questions follow the answers."""
        if not self._answers.labels:
            self._fit = None
        if self._workers:
            self._workers["fit"].ask("fit", self.request)
            self._workers["choose"].ask("next", self._next_request)

    def _answered(self, answer: Frame) -> None:
        """Take what a process has found."""
        kind = str(answer["kind"])
        with self._lock:
            if "problem" in answer:
                self._problem = str(answer["problem"])
            elif kind in ("fit", SETTLE):
                self._take_fit(answer)
            elif kind == "doubt":
                self._take_doubts(answer)
            elif kind == "next":
                self._queue = list(zip(answer["vertices"].tolist(), text_of(answer, "reasons"), strict=True))
            elif kind == "map":
                self._coordinates = answer["coordinates"]
            if kind == "next":
                self._known_to_queue = int(answer["revision"])
                self._has_news.notify_all()
        if kind == "map" and "problem" not in answer:
            self.things.keep_map(answer["coordinates"])

    def _take_fit(self, answer: Frame) -> None:
        """Show what a fit found; one that began from the last is settled from the labels alone when there is time."""
        if "is_left" in answer or not self._answers.labels:
            return
        self._problem = None
        classes = text_of(answer, "classes")
        counts = np.bincount(answer["labels"], minlength=len(classes)).tolist()
        fit = self._fit = Fit(
            int(answer["revision"]), classes, answer["labels"], answer["confidence"], text_of(answer, "suspicious"),
            float(answer["energy"]), float(answer["seconds"]), dict(zip(classes, counts, strict=True)),
            text_of(answer, "accuracy"), bool(answer["is_settled"]),
        )  # fmt: skip
        if not fit.is_settled and "fit" in self._workers:
            self._workers["fit"].ask(SETTLE, self.request)
        n_labels = len(self._answers.labels)
        if len(classes) > 1 and n_labels >= _DOUBTED_AGAIN * self._n_doubted and "fit" in self._workers:
            self._n_doubted = n_labels
            if "doubt" not in self._workers:
                self._workers["doubt"] = self._worker(_NICENESS["doubt"])
            self._workers["doubt"].ask("doubt", self.request)

    def _take_doubts(self, answer: Frame) -> None:
        """What the graph's own clusters say of the labels, in words."""
        from tautcut.search.disagreement import Disagreement

        self._doubts = None
        if "values" not in answer:
            return
        energy, free, undecided = answer["values"].tolist()
        names = [self.things.names[index] for index in self.things.of_vertices.tolist()]
        finding = Disagreement(energy, free, undecided, answer["points"]).finding(names)
        if finding is not None:
            things = self.things.of_vertices[answer["points"]].tolist()
            self._doubts = {"sentence": f"{finding.meaning} {finding.advice}", "things": things}

    def _worker(self, niceness: int) -> Worker:
        return Worker(self.things.graph, self._answered, self._worker_ended, niceness=niceness)

    def _worker_ended(self, why: str) -> None:
        with self._lock:
            self._problem = f"A process that works for the page is gone: {why}. Labels are kept; start it again."


def _advice(fit: Fit) -> str:
    """Whether to go on."""
    accuracy = fit.accuracy
    if accuracy["low"] >= _ENOUGH:
        return f"{accuracy['low']:.0%} or more of the others are right, by the checks: enough for most purposes."
    if accuracy["n_checked"] < _FEW_CHECKS:
        return "The estimate rests on few checks yet: one question in five is one."
    return "Go on: further labels help where the classifier is unsure."


def _sample(n: int, is_always: Any, most: int) -> IntArray:
    """Numbers below n: all of those that are always in, and others drawn at random, the same each time."""
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n)
    room = max(0, most - int(is_always.sum()))
    is_in = is_always.copy()
    is_in[order[~is_always[order]][:room]] = True
    return np.flatnonzero(is_in)
