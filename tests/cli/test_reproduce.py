"""`tautcut reproduce`: tables and figures from the command line, in parts, interrupted, and with mistakes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from rings import recorded, rings_in_place_of_the_papers
from tautcut.cli import main
from tautcut.datasets import LabelledGraph
from tautcut.errors import InputError
from tautcut.paper import protocol
from tautcut.records import read_records


@pytest.fixture
def rings(monkeypatch):
    """The rings in place of the paper's data sets."""
    yield from rings_in_place_of_the_papers(monkeypatch)


def command(capsys, *arguments):
    """Exit code, standard output and standard error of `tautcut reproduce`."""
    with pytest.raises(SystemExit) as exit_:
        main(["reproduce", *arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


def test_table1_from_the_command_line(rings, tmp_path, capsys, monkeypatch):
    code, out, err = command(capsys, "table1", "--quick", "--json", "--out", str(tmp_path / "results"))
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert [row["method"] for row in rows] == ["NCC-TV", "1SPEC", "LSD", "LSD", "NMFR", "NMFR", "MTV", "tautcut"]
    assert all(row["purity"] == 100.0 for row in rows if row["chosen_by"] != "lowest (P)")
    assert {row["n_runs"] for row in rows} == {1, 4}
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "table1-quick.csv", "table1-quick.jsonl", "table1-quick.md", "table1-quick.tex",
    ]  # fmt: skip
    assert "15 runs to do." in err

    monkeypatch.setattr(protocol, "record_of", None)  # all is there
    again = command(capsys, "table1", "--quick", "--data", "RINGS", "--out", str(tmp_path / "results"))
    assert again[0] == 0
    assert "0 runs to do; 15 are in" in again[2]
    assert "tautcut" in again[1]
    assert "table1-quick.md" in again[1]


def test_a_part_is_run_and_the_whole_is_shown(rings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    command(capsys, "table2", "--quick", "--methods", "mtv", "--out", str(tmp_path), "--quiet")
    code, _, err = command(capsys, "table2", "--quick", "--methods", "tautcut", "--out", str(tmp_path), "--quiet")
    assert (code, err) == (0, "")
    content = list(csv.DictReader((tmp_path / "table2-quick.csv").read_text().splitlines()))
    assert len(content) == 10
    assert len(read_records(tmp_path / "table2-quick.jsonl")) == 30


def test_lines_of_progress_where_there_is_no_terminal(rings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    err = command(capsys, "table2", "--quick", "--methods", "mtv", "--out", str(tmp_path))[2]
    assert err.count("rings MTV") == 15
    assert "rings MTV, 2.5% labels, 1: purity 90.00%, (P) 0.5000, 1.0 s" in err


def test_a_bar_on_a_terminal(rings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    code, _, err = command(capsys, "table1", "--quick", "--methods", "mtv", "--out", str(tmp_path))
    assert code == 0
    assert "4 of 4 runs" in err


def test_records_of_another_version_count_and_are_said(rings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    arguments = ("table1", "--quick", "--methods", "mtv", "--out", str(tmp_path))
    command(capsys, *arguments)
    assert "4 of them are by another version of the code; --fresh repeats them." in command(capsys, *arguments)[2]
    assert "4 runs to do.\n" in command(capsys, *arguments, "--fresh")[2]
    assert len(read_records(tmp_path / "table1-quick-old.jsonl")) == 4
    assert len(read_records(tmp_path / "table1-quick.jsonl")) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table1", "--data", "mnits"], "--data must be among 4moons, webkb4,"),
        (["table1", "--data", "mnist,mnits"], "found 'mnits'"),
        (["table2", "--methods", "lsd"], "--methods must be among MTV, tautcut; found 'lsd'"),
        (["table1", "--seed", "-1"], "--seed must be a whole number ≥ 0"),
        (["table1", "--jobs", "many"], "--jobs"),
        (["table3"], "table3"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(capsys, *arguments, *(["--quiet"] if arguments != ["table3"] else []))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_jobs_and_folders_are_checked(rings, tmp_path, capsys):
    code, _, err = command(capsys, "table1", "--quiet", "--jobs", "0", "--out", str(tmp_path / "new"))
    assert (code, err.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    code, _, err = command(capsys, "table1", "--quiet", "--out", str(tmp_path / "file"))
    assert (code, err) == (2, f"tautcut: --out must be a folder; '{tmp_path / 'file'}' is a file.\n")


def test_a_data_set_that_is_not_there_is_said_before_anything_runs(rings, tmp_path, capsys, monkeypatch):
    def missing(name):
        raise InputError(f"{name}.npz is not there; put it into a folder and name it in TAUTCUT_DATA.")

    monkeypatch.setattr(protocol, "paper_graph", missing)
    monkeypatch.setattr(protocol, "record_of", None)
    code, _, err = command(capsys, "table1", "--quiet", "--out", str(tmp_path / "new"))
    assert (code, err) == (2, "tautcut: rings.npz is not there; put it into a folder and name it in TAUTCUT_DATA.\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_says_how_to_go_on(rings, tmp_path, capsys, monkeypatch):
    def interrupted(spec):
        if spec.method == "LSD":
            raise KeyboardInterrupt
        return recorded(spec)

    monkeypatch.setattr(protocol, "record_of", interrupted)
    code, _, err = command(capsys, "table1", "--quick", "--quiet", "--out", str(tmp_path))
    path = tmp_path / "table1-quick.jsonl"
    assert code == 130
    assert err == f"tautcut: interrupted; what was done is in {path}; the same command goes on from there.\n"
    assert [record.method for record in read_records(path)] == ["NCC-TV", "1SPEC"]


def test_reproduce_alone_is_its_help(capsys):
    code, out, _ = command(capsys)
    assert code == 0
    assert "table1" in out


def test_figure1_from_the_command_line(tmp_path, capsys):
    code, out, err = command(capsys, "figure1", "--json", "--quiet", "--out", str(tmp_path / "new"))
    assert (code, err) == (0, "")
    content = json.loads(out)
    assert len(content["figure"]["edges"]) == 19
    assert sorted(content["files"]) == sorted(str(path) for path in (tmp_path / "new").iterdir())


def test_figure2_from_the_command_line(rings, tmp_path, capsys, monkeypatch):
    digits = LabelledGraph("rings", rings.graph, np.array([4, 9, 0])[rings.truth], "")
    monkeypatch.setattr(protocol, "labelled_graph", {"pendigits": digits}.get)
    code, out, _ = command(capsys, "figure2", "--data", "pendigits", "--quick", "--out", str(tmp_path))
    assert code == 0
    assert all(str(path) in out for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "figure2.json").read_text())["data"] == "pendigits"
    code, _, err = command(capsys, "figure2", "--data", "webkb4", "--quiet", "--out", str(tmp_path))
    assert (code, err) == (2, "tautcut: --data must be among optdigits, pendigits, mnist; found 'webkb4'.\n")
