"""The command line: the demo, its exit codes, and that a mistake costs one sentence and leaves no file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import tautcut
from tautcut import records
from tautcut.algorithm.stopping import Status
from tautcut.cli import app, main
from tautcut.cli.demo import _print_table
from tautcut.records import RunRecord

pytestmark = pytest.mark.usefixtures("light_search")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One run of the demo for the tests that look at what it says: its JSON and its picture."""
    picture = tmp_path_factory.mktemp("demo") / "digits.png"
    result = CliRunner().invoke(app, ["demo", "--json", "--seed", "1", "--out", str(picture)])
    return result, picture


def test_json_is_all_of_standard_output(demo):
    result, picture = demo
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    records = [RunRecord.from_json(json.dumps(run)) for run in content["runs"]]
    assert [(record.method, record.n_labelled) for record in records] == [
        ("MTVClustering", 0),
        ("MTVClassifier", 10),
    ]
    assert all(record.seed == 1 and sum(record.sizes) == 1797 for record in records)
    assert all(record.purity > 0.8 for record in records)
    assert content["picture"] == str(picture)


def test_the_picture_is_there_and_alone(demo):
    picture = demo[1]
    assert list(picture.parent.iterdir()) == [picture]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_progress_goes_to_standard_error(demo):
    assert "compiles the kernels" in demo[0].stderr
    assert "Clustering 1797 images" in demo[0].stderr


def test_the_table(demo, capsys):
    clustering, classification = (RunRecord.from_json(json.dumps(run)) for run in json.loads(demo[0].stdout)["runs"])
    _print_table({"no labels": clustering, "labels": classification})
    table = capsys.readouterr().out
    for words in ("clusters", "sizes", "energy (P)", "purity", "seconds", "no labels"):
        assert words in table
    assert f"{clustering.energy:.4f}" in table
    assert f"{classification.purity:.2%}" in table
    for size in clustering.sizes:
        assert str(size) in table


def test_quiet_prints_the_table_and_no_progress(demo, monkeypatch, tmp_path):
    run = RunRecord.from_json(json.dumps(json.loads(demo[0].stdout)["runs"][0]))
    model = _StandIn()
    monkeypatch.setattr(records, "run_estimator", lambda *given, **named: (model, run))
    result = CliRunner().invoke(app, ["demo", "--quiet", "--out", str(tmp_path / "digits.png")])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "energy (P)" in result.stdout
    assert result.stdout.rstrip().endswith("digits.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "missing/digits.png"], "no folder 'missing'"),
        (["--out", "digits.txt"], "must end in .png"),
        (["--out", "."], "must end in .png"),
        (["--seed", "-1"], "--seed must be a whole number ≥ 0; found -1"),
        (["--seed", "one"], "--seed"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(["demo", "--quiet", *arguments])
    out, err = capsys.readouterr()
    assert exit_.value.code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("tautcut: ")
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_failing_disk_is_one_sentence_too(monkeypatch, tmp_path):
    def full(*given, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "run_estimator", full)
    result = CliRunner().invoke(app, ["demo", "--quiet", "--out", str(tmp_path / "digits.png")])
    assert result.exit_code == 2
    assert result.stderr == "tautcut: No space left on device. Free some space, or write elsewhere.\n"


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch, tmp_path):
    def broken(*given, **named):
        raise ZeroDivisionError

    monkeypatch.setattr(records, "run_estimator", broken)
    result = CliRunner().invoke(app, ["demo", "--quiet", "--out", str(tmp_path / "digits.png")])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("is_caught_by_the_solver", [False, True])
def test_interruption_writes_nothing(monkeypatch, tmp_path, is_caught_by_the_solver):
    def interrupted(*given, **named):
        if is_caught_by_the_solver:
            return _StandIn(Status.INTERRUPTED), None
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "run_estimator", interrupted)
    result = CliRunner().invoke(app, ["demo", "--quiet", "--out", str(tmp_path / "digits.png")])
    assert result.exit_code == 130
    assert result.stderr == "tautcut: interrupted; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_version_and_help(capsys):
    for arguments, words in (
        (["--version"], f"tautcut {tautcut.__version__}"),
        ([], "demo"),
        (["--help"], "demo"),
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
        assert words in capsys.readouterr().out


COMMANDS = [
    "demo",
    "cluster",
    "classify",
    "next",
    "graph",
    "suggest",
    "reproduce",
    "reproduce table1",
    "reproduce figure2",
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_help(capsys, command, option):
    with pytest.raises(SystemExit) as exit_:
        main([*command.split(), option])
    assert exit_.value.code == 0
    assert "Usage: tautcut" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands_and_options(shell):
    words = {
        "bash": {"COMP_WORDS": "tautcut cl", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "tautcut cl"},
        "fish": {"_TYPER_COMPLETE_ARGS": "tautcut cl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    asked = {**os.environ, "_TAUTCUT_COMPLETE": f"complete_{shell}", **words}
    command = [sys.executable, "-m", "tautcut"]
    found = subprocess.run(command, capture_output=True, text=True, env=asked, check=False).stdout
    assert "cluster" in found
    assert "classify" in found
    assert "suggest" not in found
    command = [sys.executable, "-m", "tautcut", "--show-completion", shell]
    told = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # or it is the shell that runs the tests
    script = subprocess.run(command, capture_output=True, text=True, env=told, check=False).stdout
    assert "_TAUTCUT_COMPLETE" in script


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [["graph", "path.edges"], ["graph", "path.edges", "--json"]])
def test_a_full_standard_output_is_named(tmp_path, arguments):
    (tmp_path / "path.edges").write_text("".join(f"{i}\t{i + 1}\n" for i in range(20)))
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "tautcut", *arguments, "--quiet"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr == (
        "tautcut: 'standard output': No space left on device. Free some space, or write elsewhere.\n"
    )


def test_a_process_of_its_own(tmp_path):
    """From outside: exit code, one line, no file."""
    command = [sys.executable, "-m", "tautcut", "demo", "--quiet", "--out", "missing/digits.png"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1
    assert process.stderr.startswith("tautcut: ")
    assert list(tmp_path.iterdir()) == []


def test_asking_for_help_loads_nothing_heavy():
    code = "import sys, tautcut.cli; print({'sklearn', 'matplotlib', 'numba', 'numpy'} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"


class _StandIn:
    """What the demo needs of a fitted model."""

    def __init__(self, status: Status = Status.CONVERGED) -> None:
        import numpy as np

        self.result_ = SimpleNamespace(status=status)
        self.labels_ = np.arange(1797) % 10
        self.energy_ = 0.5
        self.transform = lambda X: np.full((len(X), 10), 0.1)
