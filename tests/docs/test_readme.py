"""The README's example prints what the README says, its numbers are those of recorded runs, and its links and pictures
are there.
"""

from __future__ import annotations

import ast
import io
import re
import runpy
import tomllib
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tautcut import __version__
from tautcut.records import read_records

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "readme_example.py"))


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return runpy.run_path(str(ROOT / "benchmarks" / "claims.py"))


def test_the_example_prints_what_the_readme_says() -> None:
    (output,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(CODE, "README.md", "exec"), {})
    assert printed.getvalue() == output, "run benchmarks/readme_example.py"


def test_the_example_needs_nothing_but_the_public_names() -> None:
    imported = {
        name.module if isinstance(name, ast.ImportFrom) else name.names[0].name
        for name in ast.walk(ast.parse(CODE))
        if isinstance(name, ast.Import | ast.ImportFrom)
    }
    assert imported == {"numpy", "sklearn.datasets", "tautcut"}


def test_the_numbers_of_the_example_are_those_of_the_record(example: dict[str, Any]) -> None:
    block = example["output_block"](read_records(RESULTS / "readme.jsonl"))
    assert example["with_block"](README, "output", block) == README, "run benchmarks/readme_example.py"


def test_the_numbers_of_the_claims_are_those_of_the_records(claims: dict[str, Any], example: dict[str, Any]) -> None:
    records = read_records(RESULTS / "claims.jsonl")
    assert (RESULTS / "claims.md").read_text(encoding="utf-8") == claims["page"](records)
    block = claims["readme_block"](records)
    assert example["with_block"](README, "claims", block) == README, "run benchmarks/claims.py"


@pytest.mark.parametrize("name", ["output", "claims"])
def test_another_record_changes_the_block_alone(example: dict[str, Any], name: str) -> None:
    begin, end = example["marks"](name)
    changed = example["with_block"](README, name, "another block")
    before, after = README.split(begin)[0], README.split(end)[1]
    assert changed == f"{before}{begin}\nanother block\n{end}{after}"


def test_what_the_text_says_of_the_claims_is_so() -> None:
    """The README's words: few wrong labels do little harm, random or not; their neighbours contradict them."""
    ours = [record.measures for record in read_records(RESULTS / "claims.jsonl") if record.method == "MTVClassifier"]
    clean = [one["accuracy"] for one in ours if one.get("wrong_share") == 0]
    for is_systematic in (0.0, 1.0):
        noisy = [one for one in ours if one.get("wrong_share") and one["is_systematic"] == is_systematic]
        assert all(one["mended"] == 0 for one in noisy)
        noisy = [one for one in noisy if one["wrong_share"] <= 0.2]
        assert sum(one["accuracy"] for one in noisy) / len(noisy) > sum(clean) / len(clean) - 0.02
        assert sum(one["wrong_doubted"] for one in noisy) / len(noisy) > 0.95
        assert sum(one["right_doubted"] for one in noisy) / len(noisy) < 0.1


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", README)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", ["digits", "report"])
def test_pictures_are_small_enough_for_a_page(name: str) -> None:
    assert f"docs/images/{name}.png" in README
    assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size < 300_000


def test_the_citation_names_this_version_and_is_shipped() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "/CITATION.cff" in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
