"""The page of a run in a browser: it draws itself without a complaint, hover and the choice of a cluster work with
mouse and keyboard, and hostile names stay text. Screenshots are kept in build/report.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strategies import noisy_start, planted_graph
from tautcut.algorithm.results import Step
from tautcut.algorithm.solver import solve
from tautcut.problem import Problem
from tautcut.report.page import write_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SCREENSHOTS = Path(__file__).parents[2] / "build" / "report"
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
}
N_BLOCKS, BLOCK = 12, 20
N = N_BLOCKS * BLOCK
CENTRE = 7  # the vertex in the middle of the map
HOSTILE = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser was found: none of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page with all there can be on it, a plain one, one of classes, two of other runs, one with hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    truth = np.repeat(np.arange(N_BLOCKS), BLOCK)
    problem = Problem(planted_graph(N_BLOCKS, BLOCK, seed=0), N_BLOCKS)
    result = solve(problem, noisy_start(truth, N_BLOCKS, seed=0), device="reference")

    def run_from(energy: float) -> tuple[Step, ...]:
        steps = ((0, energy, 0.9), (5, 1.0, 0.7), (10, 0.6, 0.5))
        return tuple(replace(result.history[0], iterations=i, relaxed_energy=E, energy=P) for i, E, P in steps)

    angle = 2 * np.pi * np.arange(N) / N
    ring = np.column_stack([np.cos(angle), np.sin(angle)])  # N is a multiple of four: the ring fills its square
    ring[CENTRE] = 0.0
    images = np.random.default_rng(0).integers(0, 256, (N, 8, 8), dtype=np.uint8)
    ids = [f"point-{i:03d}" for i in range(N)]
    return {
        "full": write_page(folder / "full.html", result, ids=ids, images=images, coordinates=ring),
        "plain": write_page(folder / "plain.html", result),
        "steep": write_page(folder / "steep.html", replace(result, history=run_from(1234.0))),
        "classes": write_page(
            folder / "classes.html", replace(result, problem=Problem(problem.graph, N_BLOCKS, labels=truth))
        ),
        "even": write_page(folder / "even.html", replace(result, history=run_from(1.2))),
        "hostile": write_page(
            folder / "hostile.html", result, ids=[HOSTILE] * N, names=[HOSTILE] * N_BLOCKS, settings={HOSTILE: HOSTILE},
            features=np.random.default_rng(0).random((N, 3)), feature_names=[HOSTILE] * 3, coordinates=ring,
        ),
    }  # fmt: skip


class Opened:
    """A page in the browser, with everything it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, screen: str = "light") -> None:
        self.context = browser.new_context(**SCREENS[screen])
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def hover_centre(self) -> None:
        canvas = self.page.locator("#canvas")
        canvas.evaluate("(node) => node.scrollIntoView({ block: 'center' })")
        box = canvas.bounding_box()
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.settle()

    def chosen(self) -> list[str]:
        """The names of the pressed chips."""
        return [text.strip() for text in self.page.locator(".chip[aria-pressed=true]").all_inner_texts()]


@pytest.fixture
def open_page(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    """Opens pages; at the end, none of them may have complained or asked for anything but itself."""
    opened: list[Opened] = []

    def open_one(name: str, screen: str = "light") -> Opened:
        opened.append(Opened(browser, files[name], screen))
        return opened[-1]

    yield open_one
    for one in opened:
        one.context.close()
        assert one.complaints == []
        assert [url for url in one.requests if not url.startswith("data:image/png")][1:] == []


@pytest.mark.parametrize(
    ("name", "screen"), [("full", "light"), ("full", "dark"), ("full", "phone"), ("plain", "light")]
)
def test_it_draws_itself_on_every_screen(open_page, name, screen):
    page = open_page(name, screen).page
    assert page.title() == f"{N_BLOCKS} clusters of {N} points · tautcut"
    assert page.locator("#clusters-table tbody tr").count() == N_BLOCKS
    assert page.locator("#between-table tbody td").count() == N_BLOCKS**2
    assert page.locator("#profiles figure").count() == N_BLOCKS
    assert page.locator("#history svg path.curve").count() == 2
    assert page.locator("#findings > li").count() > 3
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    drawn = "() => new Set(document.getElementById('canvas').getContext('2d').getImageData(0, 0, 300, 300).data).size"
    assert page.evaluate(drawn) > 10
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}-{screen}.png", full_page=True)


@pytest.mark.parametrize(("name", "is_cut_off"), [("steep", True), ("even", False)])
def test_a_start_far_above_the_rest_is_cut_off_and_told(open_page, name, is_cut_off):
    page = open_page(name).page
    assert page.locator("#history svg text", has_text="from 1,234").count() == is_cut_off
    rounded = page.locator("#history svg path.curve.hard").evaluate("(node) => node.getBBox().height")
    assert rounded > 50  # pixels


def test_with_labels_every_word_is_of_classes(open_page):
    page = open_page("classes").page
    assert page.title() == f"{N_BLOCKS} classes of {N} points · tautcut"
    page.locator(".chip").nth(3).click()
    words = " ".join(page.locator("header, #legend, #said, main section:not(#graph)").all_inner_texts())
    assert "of class 2 on the map" in words
    labels = page.locator("[aria-label]").evaluate_all("(all) => all.map((node) => node.getAttribute('aria-label'))")
    assert not re.findall(r"\bclusters?\b", f"{words} {labels}", flags=re.IGNORECASE)


def test_hover_shows_id_cluster_and_confidence(open_page):
    opened = open_page("full")
    tip = opened.page.locator("#tip")
    assert tip.is_hidden()
    opened.hover_centre()
    name, cluster, sure = tip.inner_text().splitlines()
    assert name == f"point-{CENTRE:03d}"
    assert cluster.startswith("Cluster ")
    assert 0 <= float(sure.removeprefix("Confidence ")) <= 1
    opened.page.mouse.move(0, 0)
    opened.settle()
    assert tip.is_hidden()


def test_a_chosen_cluster_is_highlighted_everywhere_and_escape_shows_all(open_page):
    opened = open_page("full")
    page = opened.page
    page.locator(".chip", has_text="11").click()
    assert opened.chosen() == ["11"]
    assert page.locator("#clusters-table tr.is-chosen").inner_text().split()[0] == "11"
    assert page.locator("#clusters-table tr.is-dim").count() == N_BLOCKS - 1
    assert page.locator("#between-table td.is-chosen").count() == 2 * N_BLOCKS - 1
    assert page.locator("#examples .card.is-chosen").count() == 1
    assert page.locator("#profiles figure.is-chosen").count() == 1
    assert "of cluster 11" in page.locator("#found").inner_text()
    page.keyboard.press("Escape")
    assert opened.chosen() == ["All clusters"]
    assert page.locator(".is-dim, .is-chosen").count() == 0


def test_the_map_the_table_and_the_heat_map_choose_clusters_too(open_page):
    opened = open_page("full")
    opened.hover_centre()
    named = opened.page.locator("#tip").inner_text().splitlines()[1].removeprefix("Cluster ")
    opened.page.mouse.down()
    opened.page.mouse.up()
    assert opened.chosen() == [named]
    opened.page.locator("#clusters-table tbody tr").nth(3).click()
    assert opened.chosen() == ["3"]
    opened.page.locator("#between-table tbody th").nth(5).click()
    assert opened.chosen() == ["5"]


def test_everything_is_reached_by_keyboard(open_page):
    opened = open_page("full")
    page = opened.page
    page.locator(".chip").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert opened.chosen() == ["1"]
    focused = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(focused) == "solid"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")  # the toolbar is one stop
    assert page.evaluate("document.activeElement.id") == "canvas"
    page.keyboard.press("ArrowRight")
    opened.settle()
    first = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowLeft")
    opened.settle()
    assert page.locator("#tip").inner_text() != first
    page.keyboard.press("Enter")
    assert len(opened.chosen()) == 1
    assert opened.chosen() != ["All clusters"]
    for key in ("+", "+", "-", "0"):
        page.keyboard.press(key)
    opened.settle()


def test_a_point_is_found_by_its_id(open_page):
    opened = open_page("full")
    page = opened.page
    page.locator("#find").fill(f"int-{N - 1}")
    assert page.locator("#points tbody tr").count() == 1
    page.locator("#points tbody button").click()
    opened.settle()
    assert page.locator("#tip").inner_text().splitlines()[0] == f"point-{N - 1}"
    page.locator("#doubtful-table button").first.click()
    opened.settle()
    assert (
        page.locator("#tip").inner_text().splitlines()[0] == page.locator("#doubtful-table button").first.inner_text()
    )


def test_light_and_dark_can_be_switched(open_page):
    page = open_page("plain", "dark").page
    background = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.locator("#theme").click()
    assert page.evaluate(background) != dark
    page.locator("#theme").click()
    assert page.evaluate(background) == dark


def test_it_prints(open_page):
    assert open_page("full").page.pdf(format="A4").startswith(b"%PDF")


def test_hostile_names_are_text(open_page):
    opened = open_page("hostile")
    page = opened.page
    shown = page.locator("#clusters-table tbody th").first.inner_text()
    assert shown.startswith("<img src=x onerror=")
    opened.hover_centre()
    assert page.locator("#tip").inner_text().startswith("<img src=x")
    page.locator(".chip").nth(1).click()
    page.locator("#find").fill("<img")
    opened.settle()
    assert page.locator("#points tbody tr").count() > 0
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert page.evaluate("typeof window.hacked") == "undefined"


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser, files):
    opened = Opened(browser, files["plain"])
    opened.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
        }"""
    )
    assert opened.page.evaluate("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in text for text in opened.complaints)
    opened.context.close()
