"""The pages of the API: every parameter and every attribute that they show says in words what it is."""

from __future__ import annotations

import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWN = [
    name
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+$|\Z)", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^(\S[^\n]*)\n((?:(?:    [^\n]*)?\n)*)", re.MULTILINE)
FEWEST_WORDS = 2  # "R." is no description


def shown_object(name: str) -> Any:
    """The module, class or function of that dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def documented(found: Any) -> list[Any]:
    """The object itself, and the public methods of a class or the public names of a module."""
    if inspect.ismodule(found):
        return [one for name in found.__all__ for one in documented(getattr(found, name)) if callable(one)]
    if not inspect.isclass(found):
        return [found]
    members = inspect.getmembers(found, inspect.isfunction)
    return [found, *(value for name, value in members if not name.startswith("_") and _is_ours(value))]


def _is_ours(member: Any) -> bool:
    return bool(member.__module__.startswith("tautcut."))


def entries(docstring: str) -> list[tuple[str, str]]:
    """The heads and the bodies of what the sections list."""
    text = inspect.cleandoc(docstring) + "\n"
    return [entry for _, section in SECTION.findall(text) for entry in ENTRY.findall(section)]


def undescribed(docstring: str) -> list[str]:
    return [head for head, body in entries(docstring) if len(textwrap.dedent(body).split()) < FEWEST_WORDS]


@pytest.mark.parametrize("name", SHOWN)
def test_every_parameter_says_what_it_is(name: str) -> None:
    objects = documented(shown_object(name))
    assert objects
    missing = {one.__qualname__: heads for one in objects if (heads := undescribed(one.__doc__ or ""))}
    assert missing == {}
    assert [one.__qualname__ for one in objects if not one.__doc__] == []


def test_an_entry_without_words_is_seen() -> None:
    bare = "A thing.\n\nParameters\n----------\nn : int\n    R.\nm : int\nk : int\n    How many.\n\nReturns\n-------\n"
    assert undescribed(bare) == ["n : int", "m : int"]


def test_the_estimators_name_every_parameter() -> None:
    for name in ("MTVClustering", "MTVClassifier"):
        estimator = getattr(import_module("tautcut"), name)
        named = {one.strip() for head, _ in entries(estimator.__doc__) for one in head.split(" : ")[0].split(",")}
        assert set(inspect.signature(estimator).parameters) <= named, name
