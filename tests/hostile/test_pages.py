"""Hostile names through the command line into the page and the tables: as ids, columns, classes and names of files.
In a browser none of them makes an element, runs, or asks for anything; in a table none is a formula.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chromium
from tautcut.cli import main

pytestmark = pytest.mark.usefixtures("light_search")

RUN = "window.hacked=1"
NAMES = (
    f"</script><script>{RUN}</script>", f"<img src=x onerror={RUN}>", f"<svg onload={RUN}>", f"javascript:{RUN}",
    f"'\"><script>{RUN}</script>", "<!--", "-->", "<!--<script>", "]]>", f"</style><script>{RUN}</script>",
    f"</title><script>{RUN}</script>", f"\u2028{RUN}//", f"\u2029{RUN}//", f"${{{RUN}}}",
    f"{{{{constructor.constructor('{RUN}')()}}}}", "@@DATA@@", "@@SCRIPT@@", "@@POLICY@@", "@@STYLE@@", "__proto__",
    "constructor", "toString", "hasOwnProperty", "\\u003cscript\\u003e", "\\", '\\"', f'"}};{RUN};//', f"';{RUN};//",
    f"`;{RUN};//", "&lt;script&gt;", f"&#60;img src=x onerror={RUN}&#62;", f"%3Cscript%3E{RUN}%3C/script%3E",
    "\u202ereversed", "\u200b", "a" * 50_000, f"<iframe src=javascript:{RUN}>", f"<a href='javascript:{RUN}'>x</a>",
    "<base href='http://127.0.0.1:9/'>", "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<form action=http://127.0.0.1:9/><input type=submit>", "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    f"data:text/html,<script>{RUN}</script>", f"<math><mtext><script>{RUN}</script>", "\x1b]0;title\x07",
    "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", '=HYPERLINK("http://x")', "  =1+1", "\u00a0=1+1", "＝1+1",
    "%0A=1+1", "|calc", ";=1+1", "\ufeff=1+1",
)  # fmt: skip
FILES = ("<img src=x onerror=window.hacked=1>.csv", "$(touch EXECUTED).csv", "-rf.csv", "a\nb.csv")
CLASSES = 14  # in a table
PRESSED = ("#zoom-in", "#theme", ".chip", "#points button", "tr", "button.link")
STATE = """() => ({
    hacked: typeof window.hacked,
    scripts: document.scripts.length,
    made: [...document.querySelectorAll("img:not(.thumb),svg[onload],iframe,base,form,link,object,embed,math")].length,
    links: [...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((h) => !h.startsWith("#")),
    handlers: [...document.querySelectorAll("*")].filter((n) => [...n.attributes].some((a) => a.name.startsWith("on")))
        .length,
    drawn: document.querySelectorAll("#clusters-table tr").length > 1,
})"""
HANDLER = """() => {
    const button = document.createElement("button");
    button.setAttribute("onclick", "window.hacked = 2");
    document.body.append(button);
    button.click();
    return typeof window.hacked;
}"""


def write_table(path: Path, *, columns: Sequence[str], ids: Sequence[str], classes: Sequence[str] = ()) -> None:
    rng, n = np.random.default_rng(0), len(ids)
    X = rng.normal(size=(n, len(columns))) + 6.0 * (np.arange(n) % 2)[:, None]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *columns, *["label"] * bool(classes)])
        for i, row in enumerate(X.round(3).tolist()):
            writer.writerow([ids[i], *row, *classes[i : i + 1]])


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--search", "none"])
    assert left.value.code == 0, arguments


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with hostile names, and the pages and tables that the command line makes of them."""
    where = tmp_path_factory.mktemp("pages")
    columns, plain = [name[:1000] for name in NAMES], [f"p{i}" for i in range(len(NAMES))]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        write_table(Path("ids.csv"), columns=columns, ids=NAMES)
        run("cluster", "ids.csv", "-k", "2", "--out", "ids-out.csv", "--report", "ids.html")
        for first in range(0, len(NAMES), CLASSES):
            some = NAMES[first : first + CLASSES]
            classes = [some[i // 2 % len(some)] if i % 2 == 0 else "" for i in range(len(NAMES))]
            write_table(Path("classes.csv"), columns=["x", "y"], ids=plain, classes=classes)
            for suffix in (".csv", ".tsv"):
                out, page = f"classes{first}-out{suffix}", f"classes{first}.html"
                run("classify", "classes.csv", "--label-column", "label", "--out", out, "--report", page)
        for number, name in enumerate(FILES):
            write_table(Path(name), columns=["x", "y"], ids=plain)
            run("cluster", f"./{name}", "-k", "2", "--out", "file-out.csv", "--report", f"file{number}.html")
    return where


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as one:
        yield one


def test_no_cell_is_a_formula(folder):
    tables = sorted([*folder.glob("*-out.csv"), *folder.glob("*-out.tsv")])
    assert len(tables) > 5
    for path in tables:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="," if path.suffix == ".csv" else "\t"))
        assert [row for row in rows if any(re.match(r"[=+\-@\t\r]", cell) for cell in row[:2])] == []


def test_no_name_of_a_file_is_executed(folder):
    assert not (folder / "EXECUTED").exists()


def test_no_name_is_more_than_text_in_a_page(folder, browser):
    for path in sorted(folder.glob("*.html")):
        context = browser.new_context()
        page = context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message, said=complaints: said.append(message.text))
        page.on("pageerror", lambda error, said=complaints: said.append(str(error)))
        page.on("dialog", lambda dialog, said=complaints: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request, urls=asked: urls.append(request.url))
        page.goto(path.as_uri())
        for selector in PRESSED:
            for node in page.locator(selector).all()[:3]:
                node.evaluate("(node) => node.click()")
        page.locator("#find").fill("<img")
        state = page.evaluate(STATE)
        assert state == {"hacked": "undefined", "scripts": 2, "made": 0, "links": [], "handlers": 0, "drawn": True}
        assert complaints == []
        assert [url for url in asked[1:] if not url.startswith(("data:image/png", "blob:"))] == []
        assert page.evaluate(HANDLER) == "undefined"  # the policy stops what got in all the same
        context.close()
