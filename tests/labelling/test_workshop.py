"""What works for the page: a fit by the labels, from where the last ended only where that cannot mislead, and again
from the labels alone; and exports that are what `tautcut classify` would write.
"""

from __future__ import annotations

import csv
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from labelling_samples import draw_pictures, things_of
from tautcut import Graph, MTVClassifier, knn_graph
from tautcut.cli import app
from tautcut.errors import InputError
from tautcut.labelling import exports
from tautcut.labelling.journal import Journal
from tautcut.labelling.refits import SETTLE, Frame, Worker, as_text, text_of
from tautcut.labelling.session import Session
from tautcut.labelling.workshop import Workshop

pytestmark = pytest.mark.usefixtures("light_search")


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, Any]:
    X, y = load_digits(return_X_y=True)
    return knn_graph(X[:500], 10), y[:500]


def request_of(labels: dict[int, str], kind: str = "fit", revision: int = 1, **more: Any) -> Frame:
    vertices = sorted(labels)
    return {
        "kind": np.array(kind), "revision": np.array(revision), "number": np.array(revision), "seed": np.array(0),
        "labelled": np.array(vertices, dtype=np.int64), "labels": as_text([labels[one] for one in vertices]),
        "checks": np.array([0, 0]), **more,
    }  # fmt: skip


def labels_of(y: Any, count: int) -> dict[int, str]:
    return {int(one): str(y[one]) for one in range(count)}


def found(answer: Frame) -> list[str]:
    return np.array(text_of(answer, "classes"))[answer["labels"]].tolist()


def by_classifier(graph: Graph, labels: dict[int, str]) -> list[str]:
    known = np.full(graph.n_vertices, None, dtype=object)
    known[list(labels)] = [int(one) for one in labels.values()]
    return MTVClassifier(affinity="precomputed", random_state=0).fit(graph, known).transduction_.astype(str).tolist()


def test_the_first_fit_and_a_settled_one_are_those_of_the_classifier(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    workshop, labels = Workshop(graph), labels_of(y, 30)
    first = workshop.answer(request_of(labels))
    assert bool(first["is_settled"])
    assert found(first) == by_classifier(graph, labels)
    rest = [one for one in range(30, 500) if found(first)[one] == str(y[one])]
    more = labels | {one: str(y[one]) for one in rest[:5]}  # as it was guessed
    second = workshop.answer(request_of(more, revision=2))
    assert not bool(second["is_settled"])
    settled = workshop.answer(request_of(more, SETTLE, revision=3))
    assert bool(settled["is_settled"])
    assert found(settled) == by_classifier(graph, more)
    assert set(text_of(settled, "accuracy")) == {"value", "low", "high", "n_checked"}


def test_a_label_that_contradicts_the_last_fit_begins_anew(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    workshop, labels = Workshop(graph), labels_of(y, 30)
    first = workshop.answer(request_of(labels))
    wrong = {one: "3" if str(y[one]) != "3" else "5" for one in range(100, 101)}
    assert found(first)[100] != wrong[100]
    for changed in (labels | wrong, {one: labels[one] for one in range(29)}, labels | {0: "new class"}):
        again = workshop.answer(request_of(changed, revision=2))
        assert bool(again["is_settled"]), changed.keys() - labels.keys()
        workshop.answer(request_of(labels, revision=3))


def test_the_next_fit_starts_from_the_lower_energy(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    workshop, labels = Workshop(graph), labels_of(y, 30)
    first = workshop.answer(request_of(labels))
    agreeing = labels | {one: found(first)[one] for one in (200, 201)}
    warm = workshop.answer(request_of(agreeing, revision=2))
    cold = workshop.answer(request_of(agreeing, SETTLE, revision=3))
    known = np.full(graph.n_vertices, None, dtype=object)
    known[list(agreeing)] = [int(one) for one in agreeing.values()]
    problem = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, known).result_.problem
    assert workshop._last is not None
    start = problem.partition(workshop._last.labels).energy
    assert start <= min(float(warm["energy"]), float(cold["energy"]))


def test_no_two_fits_in_a_row_start_from_the_last(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    workshop, labels = Workshop(graph), labels_of(y, 30)
    first = found(workshop.answer(request_of(labels)))
    settled = []
    for number in range(4):
        labels |= {200 + number: first[200 + number]}
        settled.append(bool(workshop.answer(request_of(labels, revision=number))["is_settled"]))
    assert settled == [False, True, False, True]


def test_settling_is_left_when_something_else_is_asked(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    workshop = Workshop(graph)
    workshop.hurried = 7
    assert "is_left" in workshop.answer(request_of(labels_of(y, 30), SETTLE, revision=7))
    assert "labels" in workshop.answer(request_of(labels_of(y, 30), SETTLE, revision=8))


def test_labels_that_their_neighbours_contradict_are_told(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    labels = labels_of(y, 100)
    labels[7] = "2" if y[7] != 2 else "3"
    rows = text_of(Workshop(graph).answer(request_of(labels)), "suspicious")
    told = {vertex: (quality, guess) for vertex, quality, guess in rows}
    assert told[7][0] < 0.5
    assert told[7][1] == str(y[7])
    assert len(told) < 20


def test_classes_are_called_as_the_person_calls_them(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    labels = {vertex: f"0{label}" for vertex, label in labels_of(y, 60).items()}
    assert text_of(Workshop(graph).answer(request_of(labels)), "classes") == [f"0{digit}" for digit in range(10)]


def test_plenty_of_labels_are_not_doubted_and_nothing_is_fitted_for_it(
    digits: tuple[Graph, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, y = digits
    monkeypatch.delattr(Workshop, "_fitted")
    assert "values" not in Workshop(graph).answer(request_of(labels_of(y, 100), "doubt"))


def test_questions_map_and_doubts(digits: tuple[Graph, Any]) -> None:
    graph, y = digits
    workshop = Workshop(graph)
    codes = np.full(graph.n_vertices, -1)
    codes[:5] = y[:5]
    asked = workshop.answer(request_of({}, "next", codes=codes, n_points=np.array(9)))
    assert len(set(asked["vertices"].tolist())) == 9
    assert asked["vertices"].min() >= 5
    assert all(one.endswith(".") for one in text_of(asked, "reasons"))
    all_known = workshop.answer(request_of({}, "next", codes=np.zeros(graph.n_vertices), n_points=np.array(9)))
    assert all_known["vertices"].size == 0
    assert workshop.answer(request_of({}, "map"))["coordinates"].shape == (500, 2)
    doubt = workshop.answer(request_of({0: "a", 1: "b"}, "doubt"))
    assert doubt["values"].shape == (3,)
    assert "problem" in workshop.answer(request_of({}))  # without a label


def test_a_process_answers_and_says_when_it_is_gone() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)])
    answers: list[Any] = []
    came = threading.Event()

    def take(answer: Any) -> None:
        answers.append(answer)
        came.set()

    worker = Worker(graph, take, take, niceness=10)
    try:
        worker.ask("fit", lambda: None)  # nothing to ask after all
        worker.ask("map", lambda: request_of({}, "map", revision=5))
        assert came.wait(60)
        assert int(answers[0]["revision"]) == 5
        assert not worker.is_busy
        came.clear()
        assert worker._process is not None
        worker._process.kill()
        worker.ask("map", lambda: request_of({}, "map"))
        assert came.wait(60)
        assert "process has ended" in answers[1] or "could not be" in answers[1]
    finally:
        worker.close()


# ---------------------------------------------------------------- exports


def written_by_classify(source: Path, session: Session, tmp_path: Path, *options: str) -> str:
    (tmp_path / "known.csv").write_bytes(exports.known_csv(session))
    out = tmp_path / "again.csv"
    command = ["classify", str(source), "--labels", str(tmp_path / "known.csv"), "--out", str(out), "-n", "4", *options]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    return out.read_text()


def test_what_is_exported_is_what_classify_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    (folder / "fake.png").write_text("<script>")
    (folder / "'=1+1.png").write_bytes((folder / "p0.png").read_bytes())
    for odd in (" blank.png", "a\nb.png", 'a"b,c.png', "\u202eü.png"):
        (folder / odd).write_bytes((folder / "p0.png").read_bytes())
    labels = {
        "p0.png": "=dark", "p1.png": "bright", "fake.png": "=dark", "'=1+1.png": "=dark", " blank.png": "+ ü",
        "a\nb.png": "=dark", 'a"b,c.png': "=dark", "\u202eü.png": "=dark",
    }  # fmt: skip
    _export_here(monkeypatch)
    with Session(things_of(folder), Journal(tmp_path / "labels.jsonl", {})) as session:
        for number, (name, label) in enumerate(labels.items()):
            session.answer(f"{number}", [session.things.number[name]], label)
        content = exports.export(session, "classes.csv", {}).decode()
        assert content == written_by_classify(folder, session, tmp_path)
        rows = {row["id"]: row["label"] for row in csv.DictReader(content.splitlines())}
        assert rows["fake.png"] == ""  # it could not be compared
        assert rows["p3.png"] == "bright"
        page = exports.export(session, "report.html", {"command": "classify"})
        assert b"<!doctype html>" in page
        assert exports.export(session, "classes.parquet", {}).startswith(b"PAR1")
        with pytest.raises(InputError, match=r"\.h5ad"):
            exports.export(session, "classes.h5ad", {})


def test_cells_get_a_copy_of_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anndata = pytest.importorskip("anndata")
    _export_here(monkeypatch)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(12, 3)), rng.normal(size=(12, 3)) + 9])
    cells = anndata.AnnData(X)
    cells.obs_names = [f"cell {number}" for number in range(24)]
    cells.write_h5ad(tmp_path / "cells.h5ad")
    with Session(things_of(tmp_path / "cells.h5ad"), Journal(tmp_path / "labels.jsonl", {})) as session:
        session.answer("1", [0], "left")
        session.answer("2", [20], "right")
        (tmp_path / "copy.h5ad").write_bytes(exports.export(session, "classes.h5ad", {}))
    stored = anndata.read_h5ad(tmp_path / "copy.h5ad")
    assert stored.obs["tautcut"].tolist() == ["left"] * 12 + ["right"] * 12


def _export_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make exports in this process: that another can is tested once."""

    def ask(graph: Graph, request: Frame) -> None:
        frame = {"kind": np.array("export"), "number": np.array(1), **request}
        answer = Workshop(graph).answer(frame)
        if "problem" in answer:
            raise InputError(str(answer["problem"]))

    monkeypatch.setattr(exports, "_ask", ask)
