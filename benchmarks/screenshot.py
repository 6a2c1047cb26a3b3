"""Renews the README's picture of the report page: clusters scikit-learn's digits by the command line, opens the page in
a headless Chromium, and puts two parts of it side by side. It needs playwright and a Chromium; it takes no arguments.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_digits

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTH, HEIGHT = 1000, 1330  # of each part, in pixels of the screen
COLOURS = 256  # of the picture: enough for a page that has few


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shots = photographed(report_in(Path(folder)))
    sheet = Image.new("RGB", (2 * WIDTH, HEIGHT), "white")
    for number, shot in enumerate(shots):
        sheet.paste(shot, (number * WIDTH, 0))
    sheet.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


def report_in(folder: Path) -> Path:
    """The page of `tautcut cluster` on the digits, as the first tutorial makes it."""
    digits = load_digits()
    header = ",".join(digits.feature_names)
    np.savetxt(folder / "digits.csv", digits.data, delimiter=",", fmt="%g", header=header, comments="")
    command = ["cluster", "digits.csv", "--n-clusters", "10", "--image", "8x8", "--report", "digits.html", "--quiet"]
    subprocess.run([sys.executable, "-m", "tautcut", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "digits.html"


def photographed(page: Path) -> list[Image.Image]:
    """The top of the page with its map, and the part from the clusters' examples on."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise SystemExit(f"no browser was found: none of {', '.join(BROWSERS)}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        opened.goto(page.as_uri())
        opened.wait_for_timeout(1000)  # until everything is drawn
        shots = [photograph(opened, 0), photograph(opened, top_of(opened, "Examples"))]
        browser.close()
    return shots


def top_of(page: Page, heading: str) -> float:
    box = page.get_by_role("heading", name=heading, exact=True).bounding_box()
    assert box is not None
    return box["y"] - 40


def photograph(page: Page, top: float) -> Image.Image:
    clip = {"x": 0, "y": top, "width": WIDTH, "height": HEIGHT}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")


if __name__ == "__main__":
    main()
