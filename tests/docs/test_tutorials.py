"""Every block of the tutorials runs, in the order of the page and without a warning; their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tautcut.cli import main
from tutorials import ROOT, TUTORIALS, run_page

pytestmark = pytest.mark.usefixtures("light_search")

PAGES = sorted(TUTORIALS.glob("*.md"))
ELSEWHERE = {"many-machines"}  # where torch is: test_many_machines.py
NEEDS = {
    "from-anndata": ["anndata"], "few-labels": ["networkx", "pandas"], "start": ["networkx"], "labelling": ["PIL"],
}  # fmt: skip


def run_command(words: Sequence[str]) -> None:
    """As the command line would run it, with success."""
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert left.value.code == 0, words


@pytest.mark.parametrize("page", [one for one in PAGES if one.stem not in ELSEWHERE], ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(page.stem, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = run_page(page, run_command)
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
