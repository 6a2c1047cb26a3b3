"""A session: what it knows follows from the journal alone, each answer counts once, and any number can be undone."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from labelling_samples import N_PICTURES, draw_pictures, session_of
from tautcut.errors import InputError
from tautcut.labelling.answers import RefusedError, checked_class, keys_of
from tautcut.labelling.refits import as_text
from tautcut.labelling.session import CHECK_EVERY, MAPPED, Session, _sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return draw_pictures(tmp_path / "pictures")


def fitted(session: Session, right: bool = True) -> None:
    """What a process would answer: the even ones are dark, the odd ones bright."""
    n = session.things.graph.n_vertices
    labels = np.arange(n) % 2 if right else 1 - np.arange(n) % 2
    session._answered({
        "kind": np.array("fit"), "revision": np.array(session.state()["revision"]), "seconds": np.array(0.1),
        "classes": as_text(["bright", "dark"]), "labels": 1 - labels, "confidence": np.full(n, 0.9),
        "energy": np.array(1.0), "suspicious": as_text([[3, 0.2, "dark"]]), "is_settled": np.array(True),
        "accuracy": as_text({"value": 0.9, "low": 0.8, "high": 0.97, "n_checked": 3}),
    })  # fmt: skip


def known(session: Session) -> dict[str, Any]:
    """All that follows from the answers."""
    state = session.state()
    parts = ("revision", "n_labelled", "n_skipped", "classes", "can_undo")
    return {name: state[name] for name in parts} | {"given": session.given()}


def test_answers_are_there_after_a_restart(folder: Path) -> None:
    with session_of(folder, classes=["dark"]) as session:
        session.answer("1", [0, 2], "dark")
        session.answer("2", [1], "bright")
        session.answer("3", [5], None, skip=True)
        before = known(session)
    assert before["n_labelled"] == 3
    assert [one["name"] for one in before["classes"]] == ["dark", "bright"]
    with session_of(folder, classes=["dark"]) as session:
        assert known(session) == before


def test_the_same_id_counts_once(folder: Path) -> None:
    with session_of(folder) as session:
        assert session.answer("1", [0], "dark") == session.answer("1", [0], "dark") == 1
        assert session.answer("1", [1], "bright") == 1
        assert session.given() == (["p0.png"], ["dark"])
        session.answer("2", [1], "bright")
        assert session.undo("3") == (3, 1)
        assert session.undo("3") == (3, None)
        assert session.given() == (["p0.png"], ["dark"])


def test_any_sequence_of_answers_can_be_undone_step_by_step(folder: Path) -> None:
    draw = random.Random(0)
    with session_of(folder) as session:
        seen = [known(session)]
        for number in range(40):
            things = draw.sample(range(N_PICTURES), draw.randint(1, 4))
            label = draw.choice(["dark", "bright", "grey", None])
            session.answer(f"a{number}", things, label, skip=label is None)
            seen.append(known(session))
        for number in reversed(range(40)):
            session.undo(f"u{number}")
            now = known(session)
            for part in ("n_labelled", "n_skipped", "classes", "given", "can_undo"):
                assert now[part] == seen[number][part], (number, part)
        with pytest.raises(RefusedError, match="nothing to undo"):
            session.undo("once more")
        last = known(session)
    with session_of(folder) as session:
        assert known(session) == last


def test_two_sessions_do_not_share_a_journal(folder: Path) -> None:
    with session_of(folder), pytest.raises(InputError, match=f"process {os.getpid()}"):
        session_of(folder)


def test_a_full_disk_refuses_the_answer_and_counts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session_of(folder) as session:
        session.answer("1", [0], "dark")
        before = known(session)

        def full(file: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(RefusedError, match="does not count: No space left"):
                session.answer("2", [1], "bright")
        assert known(session) == before
        session.answer("2", [1], "bright")
        after = known(session)
    with session_of(folder) as session:
        assert known(session) == after


@pytest.mark.parametrize(
    ("things", "label", "skip"),
    [
        ([], "a", False), ([N_PICTURES], "a", False), ([-1], "a", False), ([0.5], "a", False), ([True], "a", False),
        ("0", "a", False), (None, "a", False), ([0], None, False), ([0], "a", True), ([0], 5, False), ([0], "", False),
        ([0], " \t ", False), ([0], "a\nb", False), ([0], "a\x00", False), ([0], "x" * 201, False), ([0], "-1", False),
        ([0], "NaN", False), ([0], "?", False), ([0], "\ud800", False), (["0"], "a", False), ([0] * 1001, "a", False),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(folder: Path, things: Any, label: Any, skip: bool) -> None:
    with session_of(folder) as session:
        with pytest.raises(RefusedError):
            session.answer("1", things, label, skip=skip)
        assert session.state()["revision"] == 0
        assert len(session.journal.path.read_bytes().splitlines()) == 1


@pytest.mark.parametrize("id_", [None, 5, "", "x" * 201, ["a"]])
def test_an_answer_needs_an_id(folder: Path, id_: Any) -> None:
    with session_of(folder) as session, pytest.raises(RefusedError, match="needs an id"):
        session.answer(id_, [0], "dark")


def test_names_of_classes_are_one_line_of_text() -> None:
    assert checked_class("  Katze 🐈 <b>\u202e ") == "Katze 🐈 <b>\u202e"
    assert checked_class("=1+1") == "=1+1"


def test_added_pictures_keep_the_labels_of_the_others(folder: Path) -> None:
    with session_of(folder) as session:
        session.answer("1", [0], "dark")
        session.answer("2", [11], "bright")
    Image.new("L", (6, 6)).save(folder / "a first one.png")
    (folder / "p3.png").unlink()
    with session_of(folder) as session:
        assert session.things.names[0] == "a first one.png"
        assert session.given() == (["p0.png", "p11.png"], ["dark", "bright"])


def test_labels_of_pictures_that_are_gone_stay_in_the_journal(folder: Path) -> None:
    with session_of(folder) as session:
        session.answer("1", [0, 2, 4], "dark")
    kept = (folder / "p2.png").read_bytes()
    (folder / "p2.png").unlink()
    with session_of(folder) as session:
        assert session.state()["n_labelled"] == 2
        assert "1 labelled things are no longer there" in session.notes[0]
        session.answer("2", [0], "bright")
    (folder / "p2.png").write_bytes(kept)
    with session_of(folder) as session:
        assert dict(zip(*session.given(), strict=True)) == {"p0.png": "bright", "p2.png": "dark", "p4.png": "dark"}


def test_the_journal_of_other_things_of_the_same_names_is_refused(folder: Path) -> None:
    with session_of(folder) as session:
        session.answer("1", [0, 1, 2], "dark")
    shutil.rmtree(folder)
    folder.mkdir()
    rng = np.random.default_rng(7)
    for number in range(N_PICTURES):
        Image.fromarray(rng.integers(0, 255, (6, 6), dtype=np.uint8)).save(folder / f"p{number}.png")
    with pytest.raises(InputError, match="other things than"):
        session_of(folder)


@pytest.mark.parametrize(
    "line", [{"id": 5}, {"id": "a", "do": "paint"}, {"id": "a", "do": "answer", "things": "p", "label": "x"},
             {"id": "a", "do": "answer", "things": ["p"], "label": 7}, {"id": "a", "do": "class"}]
)  # fmt: skip
def test_a_line_that_no_session_wrote_is_refused(folder: Path, line: dict[str, Any]) -> None:
    with session_of(folder) as session:
        session.answer("1", [0], "dark")
        path = session.journal.path
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(InputError, match=r"line 3 of .* is no answer"):
        session_of(folder)


def test_every_thing_is_asked_about_once(folder: Path) -> None:
    (folder / "no picture.png").write_text("<script>")
    with session_of(folder) as session:
        session._queue = [(5, "because"), (7, "because"), (5, "because")]
        asked = []
        while (question := session.question())["thing"] is not None:
            assert question["thing"]["index"] not in asked
            assert not {one["index"] for one in question["similar"]}.intersection(asked)
            asked.append(question["thing"]["index"])
            is_skipped = len(asked) % 3 == 0
            session.answer(f"{len(asked)}", asked[-1:], None if is_skipped else "dark", skip=is_skipped)
        assert sorted(asked) == list(range(N_PICTURES + 1))
        last = session.things.names[asked[-1]]
        assert last == "no picture.png"  # which is asked about last
        assert "skipped: 8" in question["why"]


def test_a_question_can_be_put_off(folder: Path) -> None:
    with session_of(folder) as session:
        first = session.question()["thing"]["index"]
        second = session.question({first})["thing"]["index"]
        assert first != second
        assert session.question(set(range(N_PICTURES)))["thing"] is None


class Idle:
    """A process that works for the page, and has nothing to do."""

    is_busy = False

    def ask(self, *asked: Any) -> None: ...

    def close(self) -> None: ...


def test_a_page_that_can_wait_gets_the_question_that_was_chosen_by_every_answer(folder: Path) -> None:
    chosen = {"kind": np.array("next"), "vertices": np.array([5]), "reasons": as_text(["It tells most."])}
    with session_of(folder) as session, ThreadPoolExecutor(1) as pool:
        session._workers = {"fit": Idle(), "choose": Idle()}  # type: ignore[dict-item]
        asked = pool.submit(session.question, patience=30.0)
        session._answered(chosen | {"revision": np.array(-1)})
        assert asked.result()["why"] == "It tells most."
        session.answer("1", [session.things.number["p5.png"]], "dark")
        asked = pool.submit(session.question, patience=30.0)
        session._answered(chosen | {"vertices": np.array([7]), "revision": np.array(session.state()["revision"])})
        assert asked.result()["thing"]["name"] == "p7.png"
        assert session.question()["thing"]["name"] == "p7.png"


def test_a_class_that_is_called_like_a_key_has_that_key() -> None:
    digits = [str(digit) for digit in (3, 0, 8, 1, 9)]
    assert keys_of(digits) == dict(zip(digits, digits, strict=True))
    assert keys_of(["cat", "dog", "B"]) == {"cat": "1", "dog": "2", "B": "b"}
    many = keys_of([f"class {k}" for k in range(60)])
    assert len(set(many.values())) == len(many) > 20
    assert not set(many.values()) & set("nsugrm")  # what the page itself hears


def test_one_question_in_five_is_a_check_and_shows_no_guess(folder: Path) -> None:
    with session_of(folder) as session:
        n_checks = 0
        for number in range(15):
            question = session.question()
            assert question["is_check"] == (number % CHECK_EVERY == CHECK_EVERY - 1)
            shown = [question["thing"], *question["similar"]]
            assert all((one["guess"] is None) == (question["is_check"] or number == 0) for one in shown)
            index = question["thing"]["index"]
            if question["is_check"]:
                n_checks += 1
                assert session.looked_at(index)["thing"]["guess"] is None
            label = "dark" if index % 2 == 0 else "bright"
            session.answer(str(number), [index], label, is_check=question["is_check"])
            fitted(session, right=number < 10)
        assert n_checks == 3
        request = session.request()
        assert request is not None
        assert request["checks"].tolist() == [2, 1]  # the last was guessed wrongly
        session.undo("back")
        assert session.request()["checks"].tolist() == [2, 0]  # type: ignore[index]
    with session_of(folder) as session:
        assert session.request()["checks"].tolist() == [2, 0]  # type: ignore[index]


def test_a_check_that_nobody_was_asked_is_none(folder: Path) -> None:
    with session_of(folder) as session:
        session.answer("0", [1], "bright")
        fitted(session)
        session.answer("1", [0], "dark", is_check=True)
        assert session.request()["checks"].tolist() == [0, 0]  # type: ignore[index]


def test_the_state_tells_what_the_fit_found(folder: Path) -> None:
    with session_of(folder) as session:
        session.answer("1", [3], "bright")
        fitted(session)
        state = session.state()
        assert state["fit"]["revision"] == 1
        assert {one["name"]: one["n_predicted"] for one in state["classes"]} == {"bright": N_PICTURES // 2}
        vertex = session.things.names.index("p3.png")
        assert state["suspicious"] == [
            {"index": vertex, "name": "p3.png", "label": "bright", "guess": "dark", "quality": 0.2}
        ]  # fmt: skip
        assert session.thing(0)["guess"] == {"class": "dark", "confidence": 0.9}
        session.undo("2")
        assert session.state()["fit"]["revision"] is None  # nothing is labelled any more


def test_a_map_holds_every_labelled_point(folder: Path) -> None:
    with session_of(folder) as session:
        assert session.map() is None
        session._answered({
            "kind": np.array("map"), "revision": np.array(0), "coordinates": np.zeros((N_PICTURES, 2))
        })  # fmt: skip
        session.answer("1", [4], "dark")
        found = session.map()
        assert found is not None
        assert found["class"][4] == 0
        assert sum(found["is_labelled"]) == 1
    with session_of(folder) as session:
        assert session.things.kept_map() is not None
    is_always = np.zeros(3 * MAPPED, dtype=bool)
    is_always[-7:] = True
    sample = _sample(3 * MAPPED, is_always, MAPPED)
    assert sample.size == MAPPED
    assert set(range(3 * MAPPED - 7, 3 * MAPPED)) <= set(sample.tolist())


def test_known_labels_are_taken_once(folder: Path) -> None:
    known_ones = {"p0.png": "dark", "p1.png": "bright", "p4.png": "dark"}
    with session_of(folder, known=known_ones) as session:
        session.answer("mine", [0], "bright")
    with session_of(folder, known=known_ones) as session:
        assert dict(zip(*session.given(), strict=True)) == {**known_ones, "p0.png": "bright"}
