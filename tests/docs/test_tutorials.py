"""Every block of the tutorials runs, in the order of the page and without a warning; their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tautcut.cli import main

pytestmark = pytest.mark.usefixtures("light_search")

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NEEDS = {
    "from-anndata": ["anndata"], "few-labels": ["networkx", "pandas"], "start": ["networkx"], "labelling": ["PIL"],
}  # fmt: skip
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_commands(text: str) -> None:
    """Each line as the command line would run it, all of them with success."""
    for line in text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "tautcut", line
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(page.stem, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} <= {"python", "sh", "text"}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, page.name, "exec"), names)
        elif kind == "sh":
            run_commands(text)
    if page.stem == "labelling":  # what the person of the page is promised
        known, truth = names["known"], names["truth"]
        model = names["MTVClassifier"](affinity="precomputed", random_state=0).fit(names["graph"], known)
        assert (model.transduction_ == truth)[known < 0].mean() > 0.93
        assert names["after"] > names["before"] + 0.05


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    examples = {script.stem for script in (ROOT / "examples").glob("*.py")}
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    for link in links:
        if link.startswith("../gallery/"):  # made when the site is built
            assert Path(link).stem in examples, link
        else:
            assert (page.parent / link).exists(), link
    assert links
