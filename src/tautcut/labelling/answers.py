"""What a person answers: what can be an answer or the name of a class, what follows from one answer after another, and
the key of each class. It neither writes nor asks anything.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from tautcut.errors import InputError
from tautcut.formats.labels import UNKNOWN
from tautcut.labelling.journal import Entry

LONGEST_NAME = 200  # letters of a class
_LONGEST_ID = 200
_KEYS = "123456789abcdefhijklopqtvwxyz"  # of classes; other letters are the page's own


class RefusedError(InputError):
    """An answer that cannot be taken; nothing has changed."""


@dataclass
class Answers:
    """What follows from the entries of a journal, one after another."""

    labels: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    classes: list[str] = field(default_factory=list)
    done: list[Entry] = field(default_factory=list)  # what can be undone
    ids: set[str] = field(default_factory=set)
    revision: int = 0
    checks: dict[str, bool] = field(default_factory=dict)  # whether the prediction of a thing was right

    def take(self, entry: Entry) -> None:
        """Take one more entry into account."""
        self.revision += 1
        self.ids.add(entry["id"])
        if entry["do"] == "class":
            if entry["label"] not in self.classes:
                self.classes.append(entry["label"])
        elif entry["do"] == "answer":
            self._label(entry)
        elif self.done:
            self._undo(self.done.pop())

    def _label(self, entry: Entry) -> None:
        names, label = entry["things"], entry["label"]
        before = [[name, self.labels.get(name), name in self.skipped, self.checks.get(name)] for name in names]
        is_new = label is not None and label not in self.classes
        self.done.append({"before": before, "made": label if is_new else None, "things": names})
        if is_new:
            self.classes.append(label)
        for name in names:
            self.checks.pop(name, None)
            if label is None:
                self.labels.pop(name, None)
                self.skipped.add(name)
            else:
                self.labels[name] = label
                self.skipped.discard(name)
        for name, guess in entry.get("checks", {}).items():
            self.checks[name] = guess == label

    def _undo(self, done: Entry) -> None:
        for name, label, is_skipped, check in done["before"]:
            self.labels.pop(name, None) if label is None else self.labels.__setitem__(name, label)
            (self.skipped.add if is_skipped else self.skipped.discard)(name)
            self.checks.pop(name, None) if check is None else self.checks.__setitem__(name, check)
        if done["made"] is not None and done["made"] not in self.labels.values():
            self.classes.remove(done["made"])


def keys_of(classes: Sequence[str]) -> dict[str, str]:
    """The key of each class, while there are keys: its own name where that is one, so that "3" is the key of 3.

    A class keeps its key when others follow it.
    """
    keys: dict[str, str] = {}
    for name in classes:
        free = [key for key in _KEYS if key not in keys.values()]
        own = name.casefold()
        if own in free or (own == "0" and own not in keys.values()):
            keys[name] = own
        elif free:
            keys[name] = free[0]
    return keys


def checked_class(name: object) -> str:
    """The name of a class, if it can be one: `tautcut classify` has to read it as a label again."""
    if not isinstance(name, str):
        raise RefusedError("the name of a class must be text.")
    name = unicodedata.normalize("NFC", name.strip())
    if not 1 <= len(name) <= LONGEST_NAME:
        raise RefusedError(f"the name of a class has 1 to {LONGEST_NAME} letters; found {len(name)}.")
    if any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in name):
        raise RefusedError("the name of a class has no control characters, and is one line.")
    if name.casefold() in UNKNOWN:
        raise RefusedError(f"{name!r} means that a label is unknown, and cannot be a class. Choose another word.")
    return name


def checked_id(id_: object) -> str:
    """The id of an answer, by which it counts once."""
    if not isinstance(id_, str) or not 1 <= len(id_) <= _LONGEST_ID:
        raise RefusedError(f"an answer needs an id: a text of 1 to {_LONGEST_ID} letters, its own.")
    return id_


def is_sound(entry: Entry) -> bool:
    """Whether a line of a journal is one that a session has written."""
    label, things, checks = entry.get("label"), entry.get("things"), entry.get("checks", {})
    if not isinstance(entry.get("id"), str) or entry.get("do") not in ("answer", "undo", "class"):
        return False
    if entry["do"] == "undo":
        return True
    if entry["do"] == "class":
        return isinstance(label, str)
    is_labelled = label is None or isinstance(label, str)
    is_list = isinstance(things, list) and all(isinstance(one, str) for one in things)
    return is_labelled and is_list and isinstance(checks, dict)
