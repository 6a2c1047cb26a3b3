"""The README's example prints what the README says, and its numbers are those of the recorded run."""

from __future__ import annotations

import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tautcut.records import read_records

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "benchmarks" / "readme_example.py"))


def test_the_example_prints_what_the_readme_says():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output, "run benchmarks/readme_example.py"


def test_the_numbers_are_those_of_the_record(script):
    block = script["output_block"](read_records(ROOT / "docs" / "results" / "readme.jsonl"))
    assert script["with_block"](README, block) == README


def test_another_record_changes_the_block_alone(script):
    changed = script["with_block"](README, "another block")
    before, after = README.split(script["BEGIN"])[0], README.split(script["END"])[1]
    assert changed == f"{before}{script['BEGIN']}\nanother block\n{script['END']}{after}"


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_picture_is_small_enough_for_a_page():
    assert (ROOT / "docs" / "images" / "digits.png").stat().st_size < 300_000
