"""Renews the pictures of the two pages. `report`: clusters scikit-learn's digits by the command line, opens the page in
a headless Chromium, and puts two parts of it side by side. `label`: starts `tautcut label` on the same digits as
pictures, and labels as many as one would in a minute. It needs playwright and a Chromium; by default it renews both.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.datasets import load_digits

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTH, HEIGHT = 1000, 1330  # of each part of the report, in pixels of the screen
LABEL_WIDTH, LABEL_HEIGHT = 1280, 960
N_LABELS = 33  # so that the next question is no check, and shows a proposal
COLOURS = 256  # of a picture: enough for a page that has few
PICTURES = ("report", "label")


def main() -> None:
    names = sys.argv[1:] or PICTURES
    for name in names:
        if name not in PICTURES:
            raise SystemExit(f"{name} is no picture: name {' or '.join(PICTURES)}, or none for both")
    with tempfile.TemporaryDirectory() as folder, browser() as one:
        if "report" in names:
            save("report.png", picture_of_report(one, report_in(Path(folder))))
        if "label" in names:
            save("label.png", picture_of_labelling(one, Path(folder)))


def save(name: str, picture: Image.Image) -> None:
    path = IMAGES / name
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


@contextmanager
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise SystemExit(f"no browser was found: none of {', '.join(BROWSERS)}")
    with sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


# ---------------------------------------------------------------- the report


def report_in(folder: Path) -> Path:
    """The page of `tautcut cluster` on the digits, as the first tutorial makes it."""
    digits = load_digits()
    header = ",".join(digits.feature_names)
    np.savetxt(folder / "digits.csv", digits.data, delimiter=",", fmt="%g", header=header, comments="")
    command = ["cluster", "digits.csv", "--n-clusters", "10", "--image", "8x8", "--report", "digits.html", "--quiet"]
    subprocess.run([sys.executable, "-m", "tautcut", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "digits.html"


def picture_of_report(browser: Browser, page: Path) -> Image.Image:
    """The top of the page with its map, and beside it the part from the clusters' examples on."""
    opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    opened.goto(page.as_uri())
    opened.wait_for_timeout(1000)  # until everything is drawn
    sheet = Image.new("RGB", (2 * WIDTH, HEIGHT), "white")
    for number, top in enumerate((0, top_of(opened, "Examples"))):
        sheet.paste(photograph(opened, top, WIDTH, HEIGHT), (number * WIDTH, 0))
    opened.close()
    return sheet


def top_of(page: Page, heading: str) -> float:
    box = page.get_by_role("heading", name=heading, exact=True).bounding_box()
    assert box is not None
    return box["y"] - 40


def photograph(page: Page, top: float, width: int, height: int) -> Image.Image:
    clip = {"x": 0, "y": top, "width": width, "height": height}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")


# ---------------------------------------------------------------- labelling


def picture_of_labelling(browser: Browser, folder: Path) -> Image.Image:
    """The labelling page after a minute's work."""
    digits = load_digits()
    things = folder / "digits"
    things.mkdir()
    for number, image in enumerate(digits.images):
        Image.fromarray(np.round(image * 255 / 16).astype(np.uint8)).save(things / f"{number:04d}.png")
    with labelling(things) as address:
        page = browser.new_page(viewport={"width": LABEL_WIDTH, "height": LABEL_HEIGHT}, color_scheme="light")
        page.goto(address)
        for _ in range(N_LABELS):
            answer(page, digits.target)
        page.wait_for_function("() => document.getElementById('fit').textContent.includes('up to date')")
        page.wait_for_timeout(1500)  # until the map is drawn
        picture = photograph(page, 0, LABEL_WIDTH, LABEL_HEIGHT)
        page.close()
    return picture


@contextmanager
def labelling(things: Path) -> Iterator[str]:
    """The address of `tautcut label` on these things."""
    command = [
        sys.executable,
        "-m",
        "tautcut",
        "label",
        str(things),
        "--classes",
        "0,1,2,3,4,5,6,7,8,9",
        "--no-browser",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(line.strip() for line in server.stdout if line.startswith("http"))
        finally:
            server.send_signal(signal.SIGINT)


def answer(page: Page, truth: np.ndarray) -> None:
    """Press the key of the digit on show, and look at what becomes of it."""
    shown = page.wait_for_selector("#stage .thing-name")
    assert shown is not None
    page.keyboard.press(str(truth[int(shown.inner_text()[:4])]))
    page.wait_for_function("() => document.getElementById('saved').textContent === 'All saved'")
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
