"""The page of a run in a browser: it draws itself without a complaint, hover and the choice of a cluster work with
mouse and keyboard, and hostile names stay text. Screenshots are kept in build/report.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chromium
from strategies import noisy_start, planted_graph
from tautcut.algorithm.results import Result, Step
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import Status
from tautcut.graph import Graph
from tautcut.problem import Problem
from tautcut.report import content
from tautcut.report.page import write_page

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
    with chromium.started() as one:
        yield one


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
    columns = {
        "kind": np.array(["ant", "bee", "cicada"])[truth % 3],
        "length": np.linspace(1, 9, N),
        "note": [f"found under stone {i}" for i in range(N)],
    }
    few = result_of(Problem(planted_graph(2, 60, seed=0), 2), np.r_[np.zeros(30, int), np.ones(90, int)])
    weighed = Problem(problem.graph.with_masses(1.0 + np.arange(N)), N_BLOCKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "MAP_POINTS", 60)  # of 120
        sampled = write_page(folder / "sampled.html", few, ids=[f"name-{i:03d}" for i in range(120)])
    return {
        "full": write_page(
            folder / "full.html", result, ids=ids, images=images, coordinates=ring, columns=columns
        ),
        "sampled": sampled,
        "strained": write_page(folder / "strained.html", strained()),
        "plain": write_page(folder / "plain.html", result),
        "heavy": write_page(folder / "heavy.html", result_of(weighed, result.partition.labels)),
        "steep": write_page(folder / "steep.html", replace(result, history=run_from(1234.0))),
        "classes": write_page(
            folder / "classes.html", replace(result, problem=Problem(problem.graph, N_BLOCKS, labels=truth))
        ),
        "even": write_page(folder / "even.html", replace(result, history=run_from(1.2))),
        "hostile": write_page(
            folder / "hostile.html", result, ids=[HOSTILE] * N, names=[HOSTILE] * N_BLOCKS, settings={HOSTILE: HOSTILE},
            features=np.random.default_rng(0).random((N, 3)), feature_names=[HOSTILE] * 3, coordinates=ring,
            columns={HOSTILE: [HOSTILE] * N, f"{HOSTILE}2": [f"{HOSTILE}{i}" for i in range(N)]},
        ),
    }  # fmt: skip


def result_of(problem: Problem, labels: Any) -> Result:
    partition = problem.partition(labels)
    F = np.eye(problem.n_clusters)[partition.labels]
    return Result(problem, partition, F, partition.energy, Status.TRIVIAL, (), F)


def strained() -> Result:
    """A block of 80 that is cut in two, and a block of 20 joined to one of the halves."""
    truth = np.repeat([0, 1], [80, 20])
    chance = np.where(truth[:, None] == truth, 0.4, 0.01)
    W = np.triu(np.random.default_rng(0).random((100, 100)) < chance, 1)
    problem = Problem(Graph.from_any((W + W.T).astype(float)), 2)
    return result_of(problem, np.r_[np.arange(80) % 2, np.ones(20, int)])


class Opened:
    """A page in the browser, with everything it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, screen: str = "light") -> None:
        self.context = browser.new_context(**SCREENS[screen], accept_downloads=True)
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

    def downloaded(self, button: str) -> bytes:
        """The file that a button leaves."""
        with self.page.expect_download() as coming:
            self.page.locator(button).click()
        return Path(coming.value.path()).read_bytes()

    def tip(self) -> list[str]:
        self.settle()
        return [line for line in self.page.locator("#tip").inner_text().splitlines() if line.strip()]

    def colours(self) -> int:
        """How many colours the map has."""
        self.settle()
        return self.page.evaluate(
            """() => {
                const canvas = document.getElementById("canvas");
                const copy = new OffscreenCanvas(canvas.width, canvas.height);
                const context = copy.getContext("2d", { willReadFrequently: true });
                context.drawImage(canvas, 0, 0);
                const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
                return new Set(new Uint32Array(data.buffer)).size;
            }"""
        )

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
        assert [url for url in one.requests if not url.startswith(("data:image/png", "blob:"))][1:] == []


@pytest.mark.parametrize(
    ("name", "screen"), [("full", "light"), ("full", "dark"), ("full", "phone"), ("plain", "light")]
)
def test_it_draws_itself_on_every_screen(open_page, name, screen):
    page = open_page(name, screen).page
    assert page.title() == f"{N_BLOCKS} clusters of {N} points · tautcut"
    assert page.locator("#clusters-table tbody tr").count() == N_BLOCKS
    assert page.locator("#between-table tbody td").count() == N_BLOCKS**2
    assert page.locator("#histograms figure").count() == N_BLOCKS
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


def test_masses_have_columns_of_their_own(open_page):
    heads = "() => [...document.querySelectorAll('#clusters-table thead th')].map((one) => one.textContent)"
    assert "Mass" not in " ".join(open_page("plain").page.evaluate(heads))
    page = open_page("heavy").page
    shown = " ".join(page.evaluate(heads))
    assert "Mass" in shown
    assert "Share of mass" in shown
    assert "28,920" in page.locator("#clusters-table tfoot").inner_text()  # 1 + 2 + … + 240
    assert "mass of its own points" in page.locator("#clusters-caption").inner_text()


def test_with_labels_every_word_is_of_classes(open_page):
    page = open_page("classes").page
    assert page.title() == f"{N_BLOCKS} classes of {N} points · tautcut"
    page.locator(".chip").nth(3).click()
    words = " ".join(page.locator("header, #legend, #said, main section:not(#graph)").all_inner_texts())
    assert "of class 2" in words
    labels = page.locator("[aria-label]").evaluate_all("(all) => all.map((node) => node.getAttribute('aria-label'))")
    assert not re.findall(r"\bclusters?\b", f"{words} {labels}", flags=re.IGNORECASE)


def test_hover_shows_id_cluster_and_confidence(open_page):
    opened = open_page("full")
    tip = opened.page.locator("#tip")
    assert tip.is_hidden()
    opened.hover_centre()
    name, cluster, sure, *values = opened.tip()
    assert values == ["kind", "ant", "length", "1.234", "note", f"found under stone {CENTRE}"]
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
    assert page.locator("#histograms figure.is-chosen").count() == 1
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
    stops = []
    for _ in range(7):  # the toolbar of clusters is one stop
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.id"))
    assert stops == ["colour", "edges", "select", "zoom-in", "zoom-out", "zoom-reset", "canvas"]
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


def test_every_point_is_found_drawn_or_not_whatever_cluster_is_chosen(open_page):
    opened = open_page("sampled")
    page = opened.page
    assert "60 of 120 points are drawn" in page.locator("#map-caption").inner_text()
    assert page.locator("#found").inner_text().startswith("120 points")
    page.locator(".chip").nth(1).click()
    assert page.locator("#found").inner_text().startswith("30 points of cluster 0")
    for vertex in range(120):  # half of them are not on the map, and most are in the other cluster
        page.locator("#find").fill(f"name-{vertex:03d}")
        assert page.locator("#points tbody button").all_inner_texts() == [f"name-{vertex:03d}"]
    page.locator("#points tbody button").click()
    assert opened.tip()[:2] == ["name-119", "Cluster 1"]


def test_a_row_is_found_by_its_text(open_page):
    page = open_page("full").page
    page.locator("#find").fill("under stone 17")
    found = page.locator("#points tbody button").all_inner_texts()
    assert sorted(found) == ["point-017", *(f"point-{i}" for i in range(170, 180))]
    page.locator("#find").fill("BEE")
    assert page.locator("#found").inner_text().startswith("80 points found among all")


def test_the_tooltip_shows_the_picture_of_its_point(open_page, browser):
    opened = open_page("full")
    opened.hover_centre()
    opened.page.wait_for_function("() => document.querySelector('#tip .picture') !== null")
    opened.settle()
    seen = opened.page.locator("#tip .picture").evaluate(
        "(node) => [...node.getContext('2d').getImageData(0, 0, 8, 8).data].filter((_, k) => k % 4 === 0)"
    )
    images = np.random.default_rng(0).integers(0, 256, (N, 8, 8), dtype=np.uint8)
    np.testing.assert_allclose(seen, images[CENTRE].ravel(), atol=2)


def test_the_map_is_coloured_by_a_column(open_page):
    opened = open_page("full")
    page = opened.page
    scale = page.locator("#scale")
    assert scale.is_hidden()
    assert page.locator("#colour option").all_inner_texts() == ["Cluster", "Confidence", "kind", "length"]
    by_cluster = opened.colours()
    page.locator("#colour").select_option("kind")
    assert scale.inner_text().split() == ["ant", "bee", "cicada"]
    by_kind = opened.colours()
    page.locator("#colour").select_option("length")
    assert opened.colours() > by_kind
    assert scale.inner_text().split()[-1] == "length"
    page.locator("#colour").select_option("Confidence")
    assert scale.inner_text().split() == ["0", "1", "confidence"]
    page.locator("#colour").select_option("Cluster")
    assert scale.is_hidden()
    assert opened.colours() == by_cluster


def test_clusters_are_counted_against_a_column_and_named_after_it(open_page):
    opened = open_page("full")
    page = opened.page
    assert page.locator("#cross-link").is_visible()
    rows = page.locator("#cross-table tbody tr")
    assert rows.count() == N_BLOCKS
    numbers = [[int(n) for n in text.replace("·", "0").split()[1:]] for text in rows.all_inner_texts()]
    assert np.sum(numbers, axis=0).tolist() == [80, 80, 80]
    page.locator("#cross-name").click()
    names = [text.strip() for text in page.locator(".chip").all_inner_texts()[1:]]
    assert {name.split()[0] for name in names} == {"ant", "bee", "cicada"}
    assert len(set(names)) == N_BLOCKS


def test_without_columns_there_is_nothing_to_count_against(open_page):
    page = open_page("plain").page
    assert page.locator("#cross").is_hidden()
    assert page.locator("#cross-link").is_hidden()


def test_a_name_is_seen_everywhere_and_kept_in_the_saved_page(open_page, browser, tmp_path):
    opened = open_page("full")
    page = opened.page
    page.locator("#clusters-table .rename").nth(2).click()
    page.keyboard.type(HOSTILE[:40])
    page.keyboard.press("Enter")
    page.locator("#clusters-table .rename").nth(4).click()
    page.keyboard.type("never mind")
    page.keyboard.press("Escape")
    page.locator("#clusters-table .rename").nth(5).click()
    page.keyboard.type("lions")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "rename"
    saved = tmp_path / "saved.html"
    saved.write_bytes(opened.downloaded("#save"))
    again = Opened(browser, saved)
    for one in (page, again.page):
        names = [text.strip() for text in one.locator(".chip").all_inner_texts()[1:]]
        assert names[2] == HOSTILE[:40].strip()
        assert (names[4], names[5]) == ("4", "lions")
        for place in ("#clusters-table", "#between-table", "#examples", "#histograms", "#cross-table"):
            assert "lions" in one.locator(place).inner_text()
        assert one.locator("#clusters-table tbody tr").count() == N_BLOCKS
    assert again.page.evaluate("typeof window.hacked") == "undefined"
    again.page.locator("#clusters-table .rename").nth(5).click()
    again.page.keyboard.press("Delete")
    again.page.keyboard.press("Enter")
    assert again.page.locator(".chip").nth(6).inner_text().strip() == "5"  # an empty name is its label again
    assert again.complaints == []
    again.context.close()


def rows_of(exported: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(exported.decode("utf-8-sig"))))


def test_what_is_listed_can_be_taken_away(open_page):
    opened = open_page("full")
    page = opened.page
    page.locator("#clusters-table .rename").nth(3).click()
    page.keyboard.type('=cmd, "x"')
    page.locator(".chip").nth(4).click()  # leaving the field keeps the name, and the click counts
    assert opened.chosen() == ['=cmd, "x"']
    head, *rows = rows_of(opened.downloaded("#export"))
    assert head == ["row", "id", "label", "name", "confidence"]
    assert len(rows) == int(page.locator("#clusters-table tbody tr").nth(3).locator(".value").inner_text())
    assert all(row[1] == f"point-{int(row[0]):03d}" and row[2:4] == ["3", '\'=cmd, "x"'] for row in rows)
    assert all(0 <= float(row[4]) <= 1 for row in rows)
    page.locator("#find").fill("point-01")
    assert [row[0] for row in rows_of(opened.downloaded("#export"))[1:]] == [str(i) for i in range(10, 20)]


@pytest.mark.parametrize("how", ["button", "shift"])
def test_a_rectangle_selects_points(open_page, how):
    opened = open_page("full")
    page = opened.page
    opened.hover_centre()
    box = page.locator("#canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if how == "button":
        page.locator("#select").click()
    else:
        page.keyboard.down("Shift")
    page.mouse.move(x - 30, y - 30)
    page.mouse.down()
    page.mouse.move(x + 30, y + 30)
    page.mouse.up()
    assert page.locator("#found").inner_text() == "1 point in the rectangle."
    assert [row[1] for row in rows_of(opened.downloaded("#export"))[1:]] == [f"point-{CENTRE:03d}"]
    page.keyboard.up("Shift")
    page.keyboard.press("Escape")
    assert page.locator("#found").inner_text().startswith(f"{N} points")


def test_clusters_that_strain_are_called_out(open_page):
    page = open_page("strained").page
    assert "strain against the sizes" in page.locator("#callout").inner_text()
    assert "class_prior" in page.locator("#callout").inner_text()
    assert page.locator("#clusters-table .tag").count() > 0
    assert open_page("full").page.locator("#callout").is_hidden()


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
    page.locator("#colour").select_option(index=2)
    page.locator("#cross-name").click()
    opened.settle()
    assert page.locator("#cross-table th").nth(1).inner_text().startswith("<img src=x")
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
