"""Every example of the gallery runs without a screen and without a warning, and leaves the picture that it names."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib.image import imread

pytestmark = pytest.mark.usefixtures("light_search")

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 6


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_ends_in_its_picture(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("networkx", "pandas"):
        if f"import {package}" in script.read_text(encoding="utf-8") and not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    matplotlib.use("Agg")
    picture = tmp_path / "new folder" / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(script), str(picture)])
    runpy.run_path(str(script), run_name="__main__")
    pixels = imread(picture)
    assert min(pixels.shape[:2]) > 150
    assert pixels[..., :3].std() > 0.02  # not an empty sheet
    assert picture.stat().st_size < 400_000


def test_without_an_argument_the_picture_goes_to_the_build_folder() -> None:
    for script in SCRIPTS:
        assert f'Path("build/examples/{script.stem}.png")' in script.read_text(encoding="utf-8")
