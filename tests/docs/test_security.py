"""The page on security has the counts of recorded campaigns and leads somewhere; the lock file has a hash for all that
pyproject.toml asks for, and names no place to get it from.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from hostile.__main__ import BEGIN, END, block, recorded

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")


def test_the_counts_are_those_of_the_records() -> None:
    assert PAGE.split(BEGIN)[1].split(END)[0].strip() == block(recorded())


def test_links_lead_somewhere() -> None:
    reporting = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for folder, text in ((ROOT / "docs", PAGE), (ROOT, reporting)):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
        assert links
        assert [link for link in links if not (folder / link).exists()] == []


def test_every_locked_package_has_a_hash() -> None:
    packages = re.split(r"\n(?=\w)", LOCK)[1:]
    assert len(packages) > 50
    assert [one.split()[0] for one in packages if "--hash=sha256:" not in one] == []


def test_the_lock_names_no_place() -> None:
    assert not re.search(r"https?:|file:|^--?\w", LOCK, flags=re.MULTILINE)


def test_what_is_asked_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(one for name in ("formats", "test", "lint", "build") for one in extras[name])]
    names = {re.split(r"[\[<>=; ]", one)[0] for one in asked} - {"tautcut"}
    locked = set(re.findall(r"^([\w.-]+)==", LOCK, flags=re.MULTILINE))
    assert names - locked == set()
