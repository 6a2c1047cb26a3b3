"""`tautcut label` as a process: what it says, what it refuses, and that a kill loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hostile.labelling import Server, killed_again_and_again
from labelling_samples import draw_pictures
from tautcut.cli import app
from tautcut.labelling import server as room
from tautcut.labelling.journal import Journal


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["label", *map(str, arguments), "--no-browser"])
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()[-1]) > 20
    return done.stderr


def test_three_kills_lose_no_answer(tmp_path: Path) -> None:
    tally, wrong = killed_again_and_again(tmp_path, 4, 3)
    assert wrong == []
    assert tally["answer acknowledged"] > 0
    said = (tmp_path / "said.txt").read_text()
    assert "labels are in" in said
    assert "The same command goes on from there." in said
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".lock", ".part")]


def test_a_page_from_a_folder_to_a_classification(tmp_path: Path) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    (tmp_path / "few.csv").write_text("id,label\np0.png,dark\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "tautcut", "label", str(folder), "--labels", str(tmp_path / "few.csv"), "--classes",
         "dark,bright", "--no-browser", "--json", "-n", "4"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    told = "".join(iter(process.stdout.readline, "}\n")) + "}"
    server = Server.__new__(Server)
    server.process, server.address = process, json.loads(told)["address"]
    try:
        assert json.loads(told)["kind"] == "image"
        assert server.post("/api/answers", {"id": "1", "things": [1], "label": "bright"})[0] == 200
        state = json.loads(server.get("/api/state"))
        assert [(one["name"], one["n_labelled"]) for one in state["classes"]] == [("dark", 1), ("bright", 1)]
        rows = server.get("/export/classes.csv").decode().splitlines()
        assert rows[3].startswith("p2.png,dark")
        assert rows[4].startswith("p3.png,bright")
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "2 labels are in" in said


def test_what_cannot_be_labelled_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "without pictures" in refused(tmp_path / "empty")
    assert "does not exist" in refused(tmp_path / "none.csv")
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(30, 2)))
    assert "cannot be a journal" in refused(tmp_path / "a.npy", "--journal", tmp_path / "no" / "a.jsonl")
    assert "not an id" in refused(tmp_path / "a.npy", "--labels", _table(tmp_path, "id,label\n77,x\n"))
    assert "unknown, and cannot be a class" in refused(tmp_path / "a.npy", "--classes", "cat,NaN")
    assert "--smooth auto is for" in refused(tmp_path / "a.npy", "--smooth", "auto")
    assert "cannot be used" in refused(tmp_path / "a.npy", "--port", "99999")
    with room.bound(0) as taken:
        assert "cannot be used" in refused(tmp_path / "a.npy", "--port", taken.getsockname()[1])
    with Journal(tmp_path / "a.npy.labels.jsonl", {}):
        assert "being labelled already" in refused(tmp_path / "a.npy")


def _table(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "known.csv"
    path.write_text(content)
    return path


def test_without_its_packages_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("tautcut.labelling.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("tautcut.labelling.server", raising=False)
    assert "pip install 'tautcut[label]'" in refused(tmp_path)
