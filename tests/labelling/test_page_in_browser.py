"""The labelling page in a browser, on the real server in a process of its own: a person with a keyboard labels digits,
takes answers back, makes classes, loses the connection and the server, and loses no answer. Names stay text, whatever
they hold. Screenshots are kept in build/labelling.
"""

from __future__ import annotations

import csv
import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chromium

pytest.importorskip("starlette", reason="the extra 'label' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'label' is not installed")
Image = pytest.importorskip("PIL.Image", reason="the extra 'label' is not installed")

SCREENSHOTS = Path(__file__).parents[2] / "build" / "labelling"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MARKUP = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
BIDI = "abc\u202egnp.exe"
HOSTILE = (
    "<img src=x onerror='window.hacked=1'>.png", 'quotes " and \' and `${1}`.png', f"{BIDI}.png", f"{'long' * 55}.png",
    "two\nlines.png", "&amp; %2e%2e.png",
)  # fmt: skip
N_ODD = 48  # digits in the folder with hostile names


# ---------------------------------------------------------------- a server, and a person at its page


class Server:
    """`tautcut label` in a process of its own."""

    def __init__(self, things: Path, *options: str) -> None:
        self.command = [sys.executable, "-m", "tautcut", "label", str(things), "--no-browser", *options]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("http://127.0.0.1:"):
                self.address = line.strip()
                return
        raise AssertionError(f"the server did not start: {self.process.communicate()[1]}")

    @property
    def port(self) -> str:
        return self.address.split(":")[2].split("/")[0]

    def end(self, by: int = signal.SIGINT) -> None:
        """End it: by Ctrl-C, or by SIGKILL as a power cut would."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        self.process.communicate(timeout=30)


def told(what: dict[str, Any], route: Any) -> None:
    """Answers a request of the page in the server's place."""
    route.fulfill(json=what)


class Person:
    """Someone at the page, with a keyboard; everything that the page complained of is kept."""

    def __init__(self, browser: Any, address: str, **screen: Any) -> None:
        settings = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", "accept_downloads": True}
        self.context = browser.new_context(**settings | screen)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: dialog.accept())
        self.open(address)

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.wait(
            "() => document.querySelector('#stage .face, #stage .ended') && !document.querySelector('#stage .ended')"
        )

    def wait(self, condition: str, argument: Any = None) -> None:
        self.page.wait_for_function(condition, arg=argument, timeout=60_000)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def asked(self) -> str:
        """The name of the thing on show."""
        return self.page.locator("#stage .thing-name").first.get_attribute("title")

    def keys(self) -> dict[str, str]:
        """The key that each class shows."""
        return self.page.evaluate(
            "() => Object.fromEntries([...document.querySelectorAll('.class')].filter((n) => n.querySelector('kbd'))"
            ".map((n) => [n.dataset.name, n.querySelector('kbd').textContent]))"
        )

    def name_class(self, name: str) -> None:
        if not self.page.locator("#making").is_visible():
            self.press("n")
        self.page.keyboard.insert_text(name)
        self.press("Enter")

    def label(self, name: str) -> None:
        """Give the thing on show this class, by its key if it has one."""
        if self.page.locator("#making").is_visible() and self.keys():
            self.press("Escape")
        key = self.keys().get(name)
        if key is None:
            self.name_class(name)
        else:
            self.press(key)

    def until_saved(self) -> None:
        self.wait("() => document.getElementById('saved').textContent === 'All saved'")

    def until_classified(self) -> None:
        """Wait until the classification knows every answer."""
        self.until_saved()
        state = self.state()
        while state["fit"]["revision"] != state["revision"]:
            assert state["fit"]["problem"] is None, state["fit"]["problem"]
            self.page.wait_for_timeout(50)
            state = self.state()

    def until_ready(self) -> None:
        """Wait until the question that comes next was chosen by every answer."""
        self.until_saved()
        revision = self.state()["revision"]
        self.wait("(known) => Number(document.getElementById('question').dataset.knows) >= known", revision)

    def state(self) -> dict[str, Any]:
        return self.page.evaluate("async () => (await fetch('/api/state')).json()")

    def taken_away(self, name: str) -> str:
        with self.page.expect_download() as coming:
            self.page.locator(f"#exports a[download='{name}']").click()
        return Path(coming.value.path()).read_text(encoding="utf-8-sig")

    def labels(self) -> dict[str, str]:
        """What known.csv holds."""
        return {row[0]: row[1] for row in list(csv.reader(io.StringIO(self.taken_away("known.csv"))))[1:]}

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def leave(self) -> None:
        self.context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as one:
        yield one


def write_digits(folder: Path, names: list[str]) -> list[str]:
    """The first of scikit-learn's digits as pictures under these names, and the word of each."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    folder.mkdir()
    for name, image in zip(names, digits.images, strict=False):
        Image.fromarray(np.round(image * 255 / 16).astype(np.uint8)).save(folder / name, format="PNG")
    return [WORDS[digit] for digit in digits.target[: len(names)]]


@dataclass
class Labelled:
    """A session in which thirty digits were labelled: what the person saw and took away."""

    server: Server
    folder: Path
    truth: dict[str, str]
    given: dict[str, str] = field(default_factory=dict)
    known: str = ""
    classes: str = ""
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def labelled(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labelled]:
    folder = tmp_path_factory.mktemp("all") / "digits"
    names = [f"digit-{i:04d}.png" for i in range(1797)]
    truth = dict(zip(names, write_digits(folder, names), strict=True))
    done = Labelled(Server(folder), folder, truth)
    try:
        label_thirty(Person(browser, done.server.address), done)
        yield done
    finally:
        done.server.end()


def label_thirty(person: Person, done: Labelled) -> None:
    """Label what is asked, as the truth says, and take the files away."""
    for _ in range(30):
        name = person.asked()
        assert name not in done.given
        done.given[name] = done.truth[name]
        person.label(done.truth[name])
        person.until_ready()  # as someone of ordinary speed would find it
    person.wait("() => document.getElementById('progress').textContent.startsWith('30 of 1,797')")
    person.wait("() => document.getElementById('fit').textContent.includes('up to date')")
    person.screenshot("thirty")
    done.known, done.classes = person.taken_away("known.csv"), person.taken_away("classes.csv")
    done.complaints = person.complaints
    person.leave()


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server on a few digits with hostile names, one of which is no picture, and the truth."""
    folder = tmp_path_factory.mktemp("odd") / "odd"
    names = [*HOSTILE, *(f"{i:02d}.png" for i in range(len(HOSTILE), N_ODD))]
    truth = dict(zip(names, write_digits(folder, names), strict=True))
    (folder / "not-a-picture.png").write_text("<svg onload='window.hacked=1'>")
    server = Server(folder, "--classes", ",".join(WORDS))
    try:
        yield server, truth
    finally:
        server.end()


@pytest.fixture
def sit_down(browser: Any) -> Iterator[Callable[..., Person]]:
    """Opens the page; at the end, no page may have complained."""
    persons: list[Person] = []

    def at(server: Server, **screen: Any) -> Person:
        persons.append(Person(browser, server.address, **screen))
        return persons[-1]

    yield at
    for person in persons:
        person.leave()
        assert [text for text in person.complaints if "net::ERR" not in text] == []


# ---------------------------------------------------------------- thirty digits


def test_thirty_digits_by_keyboard_end_at_93_per_cent(labelled):
    assert len(labelled.given) == 30
    rows = list(csv.DictReader(io.StringIO(labelled.classes)))
    assert len(rows) == 1797
    right = np.mean([row["label"] == labelled.truth[row["id"]] for row in rows])
    assert right >= 0.93, f"{right:.3f}"


def test_known_csv_is_what_was_given_and_classify_reproduces_the_classification(labelled, tmp_path):
    rows = list(csv.reader(io.StringIO(labelled.known)))[1:]
    assert {row[0]: row[1] for row in rows} == labelled.given
    (tmp_path / "known.csv").write_text(labelled.known, encoding="utf-8")
    command = ["classify", str(labelled.folder), "--labels", "known.csv", "--out", "again.csv", "--quiet"]
    subprocess.run([sys.executable, "-m", "tautcut", *command], cwd=tmp_path, check=True)
    assert (tmp_path / "again.csv").read_text(encoding="utf-8-sig") == labelled.classes


def test_nothing_was_complained_of(labelled):
    assert labelled.complaints == []  # the policy forbids what the page does not need, and the page needs no more


def test_killed_and_started_again_it_goes_on_with_every_label(labelled, sit_down):
    labelled.server.end(signal.SIGKILL)
    labelled.server.start()
    person = sit_down(labelled.server)
    person.wait("() => document.getElementById('progress').textContent.startsWith('30 of 1,797')")
    assert person.labels() == labelled.given
    assert person.asked() not in labelled.given
    person.press("u")
    person.wait("(name) => document.querySelector('#stage .thing-name').title === name", list(labelled.given)[-1])
    person.label(labelled.given[person.asked()])
    person.until_saved()
    assert person.labels() == labelled.given


# ---------------------------------------------------------------- answers, one by one


def test_a_key_labels_and_undo_brings_the_thing_back(odd, sit_down):
    person = sit_down(odd[0])
    first, before = person.asked(), person.labels()
    person.press(person.keys()["three"])
    assert person.asked() != first  # at once, whatever the server does
    person.until_saved()
    assert person.labels() == before | {first: "three"}
    person.press("u")
    assert person.asked() == first
    person.until_saved()
    assert person.labels() == before
    person.press(person.keys()["four"])
    person.press("Control+z")
    assert person.asked() == first
    person.until_saved()
    assert person.labels() == before


def test_skipping_asks_another_and_can_be_undone(odd, sit_down):
    person = sit_down(odd[0])
    asked = [person.asked()]
    for key in ("Space", "s"):
        person.press(key)
        asked.append(person.asked())
    assert len(set(asked)) == 3
    person.until_saved()
    assert "2 skipped" in person.text("#progress") or person.state()["n_skipped"] == 2
    person.press("u", "u")
    person.until_saved()
    assert person.state()["n_skipped"] == 0
    assert person.asked() == asked[0]


def test_a_key_that_is_held_down_is_one_answer(odd, sit_down):
    person = sit_down(odd[0])
    before = person.state()["revision"]
    key = person.keys()["one"]
    for _ in range(5):
        person.page.keyboard.down(key)  # from the second on, it repeats
    person.page.keyboard.up(key)
    person.until_saved()
    assert person.state()["revision"] == before + 1
    person.press("u")
    person.until_saved()


def test_a_new_class_is_made_on_the_fly_and_typing_presses_no_key(odd, sit_down):
    person = sit_down(odd[0])
    before, first = person.labels(), person.asked()
    person.press("n")
    person.page.keyboard.type("1 sun u")
    assert person.asked() == first
    person.press("Enter")
    person.until_saved()
    assert person.labels() == before | {first: "1 sun u"}
    person.wait("() => document.querySelector('.class[data-name=\"1 sun u\"] kbd') !== null")
    person.press("n", "Escape")
    assert not person.page.locator("#making").is_visible()
    person.press("n", "Enter")
    assert "needs a name" in person.text("#new-note")
    person.press("Escape", "u")
    person.until_saved()
    assert person.labels() == before


def test_hostile_names_of_classes_stay_text(odd, sit_down):
    person = sit_down(odd[0])
    given = {}
    for name in (MARKUP, BIDI, "x" * 200, "a \"quoted\", 'one'; =1+1"):
        given[person.asked()] = name
        person.name_class(name)
        person.until_saved()
    person.page.reload()
    for name in given.values():
        person.wait("(name) => [...document.querySelectorAll('.class')].some((n) => n.dataset.name === name)", name)
    assert person.page.evaluate("window.hacked") is None
    assert person.page.locator("#classes img, #classes script, #recent img").count() == 0
    assert person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert given.items() <= person.labels().items()
    for _ in given:
        person.press("u")
        person.until_saved()


def test_what_cannot_be_a_class_is_refused_with_a_sentence(odd, sit_down):
    person = sit_down(odd[0])
    before = person.state()["revision"]
    for name in ("x" * 201, "a\u0007b"):
        person.press("n")
        person.page.locator("#new-name").evaluate("(node, text) => { node.value = text; }", name)
        person.press("Enter")
        assert person.text("#new-note")
        person.press("Escape")
    assert person.state()["revision"] == before


def test_hostile_names_of_things_stay_text_and_no_picture_is_told(odd, sit_down):
    server, truth = odd
    person = sit_down(server)
    found = all_things(person)
    assert {thing["name"] for thing in found} == {*truth, "not-a-picture.png"}
    for name in (*HOSTILE, "not-a-picture.png"):
        index = next(thing["index"] for thing in found if thing["name"] == name)
        question = {"thing": found[index], "similar": [], "is_check": False, "why": name}
        person.page.route("**/api/question*", partial(told, question))
        person.page.reload()
        person.wait("(name) => document.querySelector('#stage .thing-name')?.title === name", name.replace("\n", "⏎"))
        person.page.unroute("**/api/question*")
        assert person.page.evaluate("window.hacked") is None
        assert person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if name == "not-a-picture.png":
            assert "not an image" in person.text("#stage")
            assert person.page.locator("#stage img").count() == 0
        else:
            person.wait("() => document.querySelector('#stage img')?.naturalWidth === 8")


def test_the_connection_is_lost_and_comes_back(odd, sit_down):
    person = sit_down(odd[0])
    before, given = person.labels(), {}
    person.wait("() => !document.hidden")
    person.page.route("**/api/**", lambda route: route.abort())
    for _ in range(2):  # the one on show, and the one that is ready
        given[person.asked()] = "two"
        person.press(person.keys()["two"])
    person.wait("() => !document.getElementById('trouble').hidden")
    assert "2 answers not saved yet" in person.text("#saved")
    assert person.page.locator("#recent .is-saved").count() == 0
    person.page.unroute("**/api/**")
    person.until_saved()
    person.wait("() => document.getElementById('trouble').hidden")
    assert person.labels() == before | given
    person.press("u", "u")
    person.until_saved()
    assert person.labels() == before


def test_an_answer_whose_acknowledgement_was_lost_counts_once(odd, sit_down):
    person = sit_down(odd[0])
    revision, thing = person.state()["revision"], person.asked()
    sent: list[str] = []

    def lose(route: Any) -> None:
        sent.append(route.request.post_data_json["id"])
        if len(sent) > 2:
            return route.continue_()
        route.fetch()  # the server takes it, and the page never hears of it
        return route.abort()

    person.page.route("**/api/answers*", lose)
    person.press(person.keys()["six"])
    person.until_saved()
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert person.state()["revision"] == revision + 1
    assert person.labels()[thing] == "six"
    person.press("u")
    person.until_saved()


def test_answers_that_wait_survive_a_reload(odd, sit_down):
    person = sit_down(odd[0])
    thing = person.asked()
    person.page.route("**/api/answers*", lambda route: route.abort())
    person.press(person.keys()["five"])
    person.wait("() => !document.getElementById('trouble').hidden")
    person.page.reload()
    person.wait("() => document.getElementById('saved').textContent.includes('not saved yet')")
    person.page.unroute("**/api/answers*")
    person.until_saved()
    assert person.labels()[thing] == "five"
    person.press("u")
    person.until_saved()


def test_what_the_server_refuses_is_told_and_asked_again(odd, sit_down):
    person = sit_down(odd[0])
    thing = person.asked()
    refusal = {"status": 400, "json": {"error": "the disk is full."}}
    person.page.route("**/api/answers*", lambda route: route.fulfill(**refusal))
    person.press(person.keys()["five"])
    person.wait("() => !document.getElementById('notice').hidden")
    assert "the disk is full." in person.text("#notice")
    assert person.asked() == thing
    person.complaints = [text for text in person.complaints if "400" not in text]  # the browser's own note
    assert person.page.locator("#recent .is-refused").count() == 1


def all_things(person: Person) -> list[dict[str, Any]]:
    return person.page.evaluate(
        "(n) => Promise.all(Array.from({ length: n }, async (_, i) =>"
        " (await (await fetch(`/api/things/${i}`)).json()).thing))",
        person.state()["n_things"],
    )


ANSWER = """async ([things, label]) => fetch("/api/answers", {
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ id: crypto.randomUUID(), things, label, is_check: false }) })"""
NUMBER_OF = """async (name) => { for (let i = 0; ; i++) {
  const { thing } = await (await fetch(`/api/things/${i}`)).json(); if (thing.name === name) return i; } }"""


def test_undo_after_another_tab_answered_says_whose_answer_it_was(odd, sit_down):
    person = sit_down(odd[0])
    before, mine = person.labels(), person.asked()
    person.press(person.keys()["one"])
    person.until_saved()
    theirs = next(name for name in odd[1] if name not in {*before, mine, person.asked()} and "\n" not in name)
    person.page.evaluate(ANSWER, [[person.page.evaluate(NUMBER_OF, theirs)], "two"])
    person.press("u")
    person.wait("() => document.getElementById('notice').textContent.includes('another tab')")
    assert person.asked() == theirs
    assert person.labels() == before | {mine: "one"}
    person.press("u")
    person.until_saved()
    assert person.labels() == before


def test_two_tabs_ask_their_own_questions_and_tell_of_each_other(odd, sit_down):
    one = sit_down(odd[0])
    page = one.page
    other = one.context.new_page()
    other.goto(odd[0].address)
    other.wait_for_selector("#stage .face")
    shown = [tab.locator("#stage .thing-name").first.get_attribute("title") for tab in (page, other)]
    assert shown[0] != shown[1]
    other.evaluate(ANSWER, [[other.evaluate(NUMBER_OF, shown[0])], "nine"])
    page.wait_for_function("() => document.getElementById('notice').textContent.includes('nine')", timeout=20_000)
    assert one.asked() == shown[0]  # it stays, and can be changed
    page.keyboard.press("Space")
    assert one.asked() != shown[0]
    one.until_saved()
    assert one.labels()[shown[0]] == "nine"
    other.close()
    one.press("u")
    one.wait("async () => !(await (await fetch('/export/known.csv')).text()).includes('nine')")


# ---------------------------------------------------------------- the grid, the map, review


def test_a_grid_labels_all_that_are_in(odd, sit_down):
    person = sit_down(odd[0])
    before = person.labels()
    while person.text("#why").startswith("random check"):
        person.press("Space")
    person.press("g")
    tiles = person.page.locator(".tile")
    assert tiles.count() > 3
    assert tiles.count() == person.page.locator(".tile[aria-checked=true]").count()
    person.screenshot("grid")
    person.press("ArrowRight", "ArrowRight", "Space")
    out = tiles.nth(1).get_attribute("aria-label")
    assert tiles.nth(1).get_attribute("aria-checked") == "false"
    tiles.nth(2).click()
    rest = [tiles.nth(k).get_attribute("aria-label") for k in range(tiles.count()) if k not in (1, 2)]
    person.press(person.keys()["eight"])
    person.until_saved()
    given = {name: label for name, label in person.labels().items() if name not in before}
    assert {name.replace("\n", "⏎") for name in given} == set(rest)
    assert set(given.values()) == {"eight"}
    assert out not in given
    person.press("-")
    assert person.page.locator(".tile[aria-checked=true]").count() == 0
    person.press("+", "g")
    assert person.page.locator(".tile").count() == 0
    person.press("u")
    person.until_saved()
    assert person.labels() == before


def test_the_map_can_be_walked_by_keys_and_asks_for_a_point(odd, sit_down):
    person = sit_down(odd[0])
    person.wait("() => document.getElementById('canvas').getAttribute('aria-label')?.startsWith('Map of')")
    person.wait("() => !document.getElementById('map-note').textContent.includes('being drawn')")
    person.press("m", "ArrowRight", "ArrowDown")
    person.wait("() => document.querySelector('#tip b bdi') !== null")
    name = person.text("#tip b").strip()
    person.press("Enter")
    person.wait("(name) => document.querySelector('#stage .thing-name').title === name", name)
    assert "map" in person.text("#why")
    person.press("Escape")
    assert person.asked() != name


def test_labels_under_review_are_kept_or_changed(odd, sit_down):
    person = sit_down(odd[0])
    thing = person.asked()
    person.press(person.keys()["one"])
    person.until_saved()
    index = person.page.evaluate(NUMBER_OF, thing)
    state = person.state()
    state["suspicious"] = [{"index": index, "name": thing, "label": "one", "guess": "seven", "quality": 0.1}]
    person.page.route("**/api/state", partial(told, state))
    person.wait("() => document.getElementById('review').textContent.includes('Review 1')")
    person.press("r")
    person.wait("() => document.getElementById('asked').textContent === 'Is this right?'")
    assert person.asked() == thing
    assert "seven" in person.text("#why")
    person.press("Space")  # it stays
    assert person.asked() != thing
    person.press("r")
    person.wait("() => document.getElementById('asked').textContent === 'Is this right?'")
    person.press("Enter")  # what its neighbours say
    person.until_saved()
    assert person.labels()[thing] == "seven"
    person.page.unroute("**/api/state")
    person.press("u", "u")
    person.until_saved()


def test_a_check_says_so_and_hides_the_guess_which_labels_a_whole_grid_otherwise(odd, sit_down):
    person = sit_down(odd[0])
    before = person.labels()
    free = [thing for thing in all_things(person) if thing["label"] is None][:3]
    free = [thing | {"guess": {"class": "one", "confidence": 0.9}} for thing in free]
    for is_check in (True, False):
        question = {"thing": free[0], "similar": free[1:], "is_check": is_check, "why": "because"}
        person.page.route("**/api/question*", partial(told, question))
        person.page.reload()
        person.wait("() => document.querySelector('#stage .thing-name') !== null")
        assert ("random check" in person.text("#why")) == is_check
        assert person.page.locator(".class.is-guess").count() == (0 if is_check else 1)
        assert person.page.locator("#accept").is_visible() != is_check
        person.press("g")
        assert person.page.locator(".tile").count() == (0 if is_check else 3)  # a check is asked alone
        person.page.unroute("**/api/question*")
    assert "Label 3 as" in person.text("#accept")
    person.press("Enter")
    person.until_saved()
    assert person.labels() == before | {thing["name"]: "one" for thing in free}
    person.press("u")
    person.until_saved()


def test_the_end_and_a_server_that_was_started_again_are_told(odd, sit_down):
    person = sit_down(odd[0])
    nothing = {"thing": None, "similar": [], "is_check": False, "why": "All are labelled."}
    person.page.route("**/api/question*", partial(told, nothing))
    person.page.reload()
    person.wait("() => document.getElementById('stage').textContent === 'All are labelled.'")
    person.press("1", "Enter", "Space", "g", "n")  # there is nothing to answer
    assert person.page.locator("#recent li").count() == 0
    person.page.route("**/api/state", lambda route: route.fulfill(status=403, json={"error": "the token is missing."}))
    person.wait("() => document.getElementById('trouble').textContent.includes('open the address')")
    person.complaints = [text for text in person.complaints if "403" not in text]  # the browser's own note


def test_a_disagreement_is_told_with_its_points(odd, sit_down):
    person = sit_down(odd[0])
    state = person.state()
    state["disagreement"] = {"sentence": "These labels disagree with the clusters.", "things": [3, 5]}
    person.page.route("**/api/state", partial(told, state))
    person.wait("() => !document.getElementById('disagreement').hidden")
    person.page.locator("#decide").click()
    person.wait("() => document.getElementById('why').textContent.includes('decides')")
    person.press("Escape")
    assert "decides" not in person.text("#why")


# ---------------------------------------------------------------- screens and hands


def test_a_phone_needs_no_sideways_scrolling(odd, sit_down):
    person = sit_down(odd[0], viewport={"width": 360, "height": 740}, has_touch=True, color_scheme="dark")
    person.screenshot("phone")
    assert person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    first = person.asked()
    box = person.page.locator(".class").first.bounding_box()
    assert box["height"] >= 40  # a finger hits it
    assert box["y"] + box["height"] <= 740  # without scrolling down
    person.page.locator(".class").first.tap()
    assert person.asked() != first
    person.press("g")
    assert person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    person.press("g", "u")
    person.until_saved()


def test_dark_is_dark_and_can_be_switched(odd, sit_down):
    person = sit_down(odd[0], color_scheme="dark", reduced_motion="reduce")
    lightness = "() => Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    assert person.page.evaluate(lightness) < 60
    assert person.page.evaluate("getComputedStyle(document.querySelector('#stage > *')).animationName") == "none"
    person.screenshot("dark")
    person.page.locator("#theme").click()
    assert person.page.evaluate(lightness) > 200


def test_everything_is_reached_with_the_keyboard_alone(odd, sit_down):
    person = sit_down(odd[0])
    person.press("?")
    assert person.page.locator("#help").is_visible()
    first = person.asked()
    person.press("1")  # a dialog is open: no answer
    assert person.asked() == first
    person.press("Escape")
    reached, seen = set(), set()
    for _ in range(60):
        person.press("Tab")
        at = person.page.evaluate(
            "() => { const n = document.activeElement; const s = getComputedStyle(n);"
            " return [n.id || n.dataset.name || n.getAttribute('href') || n.tagName, s.outlineStyle]; }"
        )
        reached.add(at[0])
        seen.add(at[1])
        if at[0] == "BODY":
            break
    assert {"skip", "new", "grid", "canvas", "help-button", "theme", "one", "/export/known.csv"} <= reached
    assert "solid" in seen  # what has the focus is outlined
    person.page.locator(".class[data-name=two]").focus()
    person.press("Enter")  # a button that has the focus is pressed
    assert person.asked() != first
    assert "two" in person.text("#said") or "two" in (person.page.locator("#said").text_content() or "")
    person.press("u")
    person.until_saved()


def test_the_space_key_skips_after_a_click_on_a_class(odd, sit_down):
    person = sit_down(odd[0])
    person.page.locator(".class[data-name=two]").click()
    person.until_saved()
    before = person.labels()
    person.press("Space")
    person.until_saved()
    assert person.labels() == before
    person.press("u", "u")
    person.until_saved()


def test_many_classes_are_found_by_their_names(odd, sit_down):
    person = sit_down(odd[0])
    thing = person.asked()
    person.press("/")
    person.page.keyboard.type("sev")
    assert person.page.locator(".class").count() == 1
    assert person.asked() == thing
    person.press("Enter")
    person.until_saved()
    assert person.labels()[thing] == "seven"
    assert person.page.locator(".class").count() >= 10
    person.press("u")
    person.until_saved()


# ---------------------------------------------------------------- other things than pictures


def test_texts_are_read_numbers_are_listed_and_a_name_alone_is_told_with_its_links(odd, sit_down):
    person = sit_down(odd[0])
    plain = {"image": None, "text": None, "values": None, "label": None, "guess": None, "index": 1}
    values = [["width", "3.5"], [MARKUP, MARKUP], *([f"column {k}", str(k)] for k in range(300))]
    text = f"The red x met a u.\nIt was <b>red</b>. {MARKUP} \u202eright to left"
    linked = {**plain, "index": 2, "name": MARKUP, "label": "one"}
    for other in ({"name": "n1", "text": text}, {"name": "row 1", "values": values}, {"name": "Valjean"}):
        thing = plain | other
        question = {"thing": thing, "similar": [linked], "is_check": False, "why": ""}
        person.page.route("**/api/question*", partial(told, question))
        person.page.reload()
        person.wait("() => document.querySelector('#stage .face') !== null")
        person.page.unroute("**/api/question*")
        assert person.page.evaluate("window.hacked") is None
        assert person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if thing["text"] is not None:
            assert person.text("#stage .words").replace("\r", "") == text
            person.screenshot("text")
        elif thing["values"] is not None:
            assert "further columns" in person.text("#stage .values")
            person.screenshot("numbers")
        else:
            assert "Valjean" in person.text("#stage .words")
            assert MARKUP in person.text("#stage .beside")
