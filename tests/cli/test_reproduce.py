"""The paper's tables: the lists of runs, campaigns that survive being killed, tables that say what the records say."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tautcut import Graph, records
from tautcut.algorithm.stopping import Status
from tautcut.cli import main
from tautcut.datasets import PAPER_NAMES, LabelledGraph
from tautcut.errors import InputError
from tautcut.paper import campaign, protocol, published, tables
from tautcut.paper.campaign import execute, finished, key_of, remaining
from tautcut.paper.protocol import RunSpec
from tautcut.records import RunRecord, append_record, read_records

N_CLASSES, CLASS_SIZE = 3, 30


@pytest.fixture(scope="module")
def rings():
    """Three rings of 30 vertices with many chords, and two edges from ring to ring."""
    i = np.arange(N_CLASSES * CLASS_SIZE)
    first = i // CLASS_SIZE * CLASS_SIZE
    inner = [(i, first + (i + step) % CLASS_SIZE) for step in (1, 3, 7, 10, 12)]
    ends = np.arange(N_CLASSES) * CLASS_SIZE
    outer = [(ends + step, (ends + CLASS_SIZE + step) % i.size) for step in (0, 7)]
    edges = np.hstack([*inner, *outer]).T
    return LabelledGraph("rings", Graph.from_edges(edges), i // CLASS_SIZE, "Three rings & a note of 100 % truth.")


@pytest.fixture
def registry(rings, monkeypatch):
    """The rings in place of the paper's data sets."""
    monkeypatch.setattr(protocol, "PAPER_NAMES", ("rings",))
    monkeypatch.setattr(protocol, "paper_graph", lambda name: {"rings": rings}[name])
    for cached in (protocol.labelled_graph, protocol._start_makers, protocol._lsd_scale):
        cached.cache_clear()
    yield
    for cached in (protocol.labelled_graph, protocol._start_makers, protocol._lsd_scale):
        cached.cache_clear()


def recorded(spec: RunSpec, **values) -> RunRecord:
    """What a run of this spec might have left."""
    return RunRecord(
        **{
            "data": spec.data, "method": spec.method, "seed": spec.seed, "n_labelled": 0, "energy": 0.5, "purity": 0.9,
            "seconds": 1.0, "sizes": (40, 50), "n_iter": 7, "status": "Done.", "versions": {"tautcut": "1"},
            "commit": "c" * 40, "machine": {"cpus": 2, "platform": "Linux"}, "created": "2026-01-01T00:00:00+00:00",
            "measures": {"accuracy_unlabelled": 0.8},
            "settings": {
                "spec": {name: getattr(spec, name) for name in RunSpec.__dataclass_fields__},
                "graph": {"n_vertices": 90, "n_edges": 1234, "note": "A note, 5 % & more_or_less."},
            },
            **values,
        }
    )  # fmt: skip


SPECS = [RunSpec("table1", "rings", "MTV", "b", trial, 10) for trial in range(8)]


# ---------------------------------------------------------------- the campaign


def test_a_campaign_goes_on_where_it_was_interrupted(tmp_path):
    path, ran = tmp_path / "deep" / "runs.jsonl", []

    def interrupted(spec):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(spec.key)
        return recorded(spec)

    with pytest.raises(KeyboardInterrupt):
        execute(SPECS, path, run=interrupted)
    assert [key_of(record) for record in read_records(path)] == ran
    assert remaining(SPECS, path) == SPECS[3:]

    heard = []
    execute(SPECS, path, run=lambda spec: ran.append(spec.key) or recorded(spec), on_record=heard.append)
    assert ran == [spec.key for spec in SPECS]
    assert finished(SPECS, path) == read_records(path)
    assert heard == read_records(path)[3:]

    execute(SPECS, path, run=None)  # nothing is left to run


def test_a_failed_run_is_tried_again(tmp_path):
    path = tmp_path / "runs.jsonl"
    execute(SPECS[:2], path, run=lambda spec: recorded(spec, sizes=(), purity=None, status="Failed: for now."))
    assert remaining(SPECS[:2], path) == SPECS[:2]
    execute(SPECS[:2], path, run=recorded)
    assert [record.status for record in finished(SPECS[:2], path)] == ["Done.", "Done."]


def test_what_a_crash_tore_is_cut_off_and_run_again(tmp_path):
    path = tmp_path / "runs.jsonl"
    execute(SPECS[:2], path, run=recorded)
    path.write_bytes(path.read_bytes()[:-20])
    execute(SPECS[:3], path, run=recorded)
    assert [key_of(record) for record in read_records(path)] == [spec.key for spec in SPECS[:3]]  # without a warning


def test_a_fresh_campaign_sets_its_old_records_aside(tmp_path):
    path = tmp_path / "runs.jsonl"
    execute(SPECS[:3], path, run=recorded)
    execute(SPECS[:2], path, run=lambda spec: recorded(spec, purity=0.1), is_fresh=True)
    assert [record.purity for record in finished(SPECS, path)] == [0.1, 0.1, 0.9]
    assert len(read_records(path)) == 3
    old = read_records(tmp_path / "runs-old.jsonl")
    assert [(key_of(record), record.purity) for record in old] == [(spec.key, 0.9) for spec in SPECS[:2]]


def test_records_of_other_campaigns_are_left_alone(tmp_path):
    path = tmp_path / "runs.jsonl"
    append_record(path, recorded(SPECS[0]))  # without a key
    execute(SPECS[:1], path, run=recorded)
    execute([replace(SPECS[0], seed=1)], path, run=recorded)
    assert len(read_records(path)) == 3
    assert [record.seed for record in finished(SPECS, path)] == [0]


@pytest.mark.parametrize("jobs", [0, -2, True])
def test_jobs_are_checked_before_anything_is_written(tmp_path, jobs):
    with pytest.raises(InputError, match="jobs must be a whole number"):
        execute(SPECS, tmp_path / "deep" / "runs.jsonl", run=recorded, jobs=jobs)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import json, os, random, signal, sys, time
from contextlib import suppress
from pathlib import Path
from tautcut.paper.campaign import execute, key_of
from tautcut.paper.protocol import RunSpec
from tautcut.records.records import RunRecord, circumstances, read_records

path, jobs, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
specs = [RunSpec("table1", "rings", "MTV", "b", trial, 10) for trial in range(60)]
around = circumstances()

def run(spec):
    time.sleep(0.003)
    return RunRecord(data="rings", method="MTV", settings={"ballast": "x" * 5000}, seed=0, n_labelled=0, energy=1.0,
                     purity=1.0, seconds=0.0, sizes=(1,), n_iter=1, status="Done.", **around)

def child():
    os.setpgid(0, 0)
    try:
        execute(specs, path, run=run, jobs=jobs)
        os._exit(0)
    finally:
        os._exit(1)

def end_workers(pid):
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # they would wait for work for minutes

before, random_ = b"", random.Random(jobs)
for _ in range(rounds):
    size = path.stat().st_size if path.exists() else 0
    pid = os.fork()
    if pid == 0:
        child()
    for _ in range(3000):  # until it has written something
        time.sleep(0.01)
        if path.exists() and path.stat().st_size > size:
            break
    time.sleep(random_.uniform(0, 0.04))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    now = path.read_bytes()
    assert len(now) > len(before) and now.startswith(before), "a record was lost"
    before = now
    end_workers(pid)
partial = len(read_records(path))
pid = os.fork()
if pid == 0:
    child()
assert os.waitpid(pid, 0)[1] == 0
end_workers(pid)
assert path.read_bytes().startswith(before)
keys = [key_of(record) for record in read_records(path)]
print(json.dumps([partial, sorted(keys) == sorted(spec.key for spec in specs)]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the campaign is forked, to be killed without importing it again")
@pytest.mark.parametrize(("jobs", "rounds"), [(1, 6), (2, 1)])
def test_a_killed_campaign_loses_doubles_and_tears_nothing(tmp_path, jobs, rounds):
    command = [sys.executable, "-W", "error", "-c", KILLED, str(tmp_path / "runs.jsonl"), str(jobs), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    partial, is_complete = json.loads(done.stdout)
    assert 0 < partial < 60, "it was not killed on the way"
    assert is_complete


def test_a_worker_that_is_killed_is_one_sentence(tmp_path):
    def killed(spec):
        os.kill(os.getpid(), 9)

    with pytest.raises(campaign.TautcutError, match="worker process ended by force"):
        execute(SPECS, tmp_path / "runs.jsonl", run=killed, jobs=2)


# ---------------------------------------------------------------- the protocol


def test_table1_is_the_papers_protocol():
    specs = protocol.table1()
    cells = Counter((spec.data, spec.method) for spec in specs)
    assert list(dict.fromkeys(spec.data for spec in specs)) == list(PAPER_NAMES)
    assert {method for _, method in cells} == {"NCC-TV", "1SPEC", "LSD", "NMFR", "MTV", "tautcut"}
    for (data, method), count in cells.items():
        with_starts = 4 if (data, method) == ("mnist", "NMFR") else 31
        assert count == (with_starts if method in ("LSD", "NMFR", "MTV") else 1)
    mtv = [spec for spec in specs if (spec.data, spec.method) == ("mnist", "MTV")]
    assert Counter((spec.start, spec.max_iter) for spec in mtv) == {("a", 10_000): 1, ("b", 2_000): 30}
    assert len({spec.key for spec in specs}) == len(specs)


def test_table2_is_the_papers_protocol():
    specs = protocol.table2()
    assert Counter((spec.method, spec.labels) for spec in specs if spec.data == "mnist") == {
        (method, labels): 10 for method in ("MTV", "tautcut") for labels in ("1", "1%", "2.5%", "5%", "10%")
    }
    assert len({spec.key for spec in specs}) == len(specs)


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_quick_is_a_part_of_every_cell(table):
    full, quick = protocol.TABLES[table](), protocol.TABLES[table](is_quick=True)
    cells = Counter((spec.data, spec.method, spec.labels) for spec in quick)
    assert set(cells) == {(spec.data, spec.method, spec.labels) for spec in full}
    assert max(cells.values()) == (4 if table == "table1" else 3)
    assert sum(spec.cost for spec in quick) < 0.35 * sum(spec.cost for spec in full)


def test_a_key_is_for_ever():
    """Records are found by it: a key that changes makes finished runs disappear."""
    spec = RunSpec("table2", "mnist", "tautcut", "labels", 3, 2000, "2.5%", 7)
    assert spec.key == "table2 / mnist / tautcut / 2.5% labels / start labels 3 / 2000 iterations / seed 7"
    assert RunSpec("table1", "20news", "1SPEC", "own").key == (
        "table1 / 20news / 1SPEC / no labels / start own 0 / own limit / seed 0"
    )


def test_starts_depend_on_the_seed_and_the_trial_alone(registry):
    spec = RunSpec("table1", "rings", "MTV", "b", 1, 10)
    start = protocol.start_of(spec)
    protocol.start_of(replace(spec, trial=0))
    protocol._start_makers.cache_clear()
    assert (protocol.start_of(replace(spec, method="LSD", max_iter=99)) == start).all()
    assert (protocol.start_of(replace(spec, trial=2)) != start).any()
    assert (protocol.start_of(replace(spec, seed=1)) != start).any()
    indicator = protocol.start_of(replace(spec, start="a"))
    assert set(np.unique(indicator)) == {0.0, 1.0}
    assert indicator[start.argmax(axis=0), np.arange(N_CLASSES)].all(), "each seed lies in its NCut cluster"


def test_known_labels_are_shares_of_each_class(rings):
    for labels, count in {"1": 1, "1%": 1, "2.5%": 1, "5%": 2, "10%": 3}.items():
        spec = RunSpec("table2", "rings", "MTV", "labels", 0, 10, labels)
        y = protocol.drawn_labels(spec, rings.truth)
        assert np.bincount(y[y >= 0]).tolist() == [count] * N_CLASSES
        assert (y[y >= 0] == rings.truth[y >= 0]).all()
        assert (y == protocol.drawn_labels(replace(spec, method="tautcut"), rings.truth)).all()
        assert (y != protocol.drawn_labels(replace(spec, trial=1), rings.truth)).any()
    with pytest.raises(InputError, match="share must lie above 0"):
        records.draw_labels(rings.truth, share=0.0, rng=np.random.default_rng(0))


@pytest.mark.parametrize("method", list(protocol.METHODS["table1"]))
def test_every_method_of_table1_leaves_a_record(registry, rings, method):
    start, max_iter = ("b", 60) if method in protocol.WITH_STARTS else ("own", None)
    record = protocol.record_of(RunSpec("table1", "rings", method, start, 2, max_iter, seed=4))
    assert (record.data, record.method, record.seed, record.n_labelled) == ("rings", method, 4, 0)
    assert sum(record.sizes) == len(record.sizes) * CLASS_SIZE == rings.graph.n_vertices
    assert record.purity == 1.0
    assert record.energy == pytest.approx(N_CLASSES * 4 / (2 * CLASS_SIZE))
    assert record.settings["spec"]["trial"] == 2
    assert record.settings["graph"] == {"n_vertices": 90, "n_edges": 456, "note": rings.note}
    assert record.machine["threads"] >= 1
    assert RunRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("method", list(protocol.METHODS["table2"]))
def test_every_method_of_table2_leaves_a_record(registry, method):
    record = protocol.record_of(RunSpec("table2", "rings", method, "labels", 0, 200, "10%"))
    assert (record.n_labelled, record.purity, record.measures["accuracy_unlabelled"]) == (9, 1.0, 1.0)


def test_a_run_that_fails_says_why(registry, monkeypatch):
    def broken(spec, data):
        raise InputError("this cannot be.")

    monkeypatch.setitem(protocol.METHODS["table1"], "LSD", broken)
    record = protocol.record_of(RunSpec("table1", "rings", "LSD", "a", 0, 10))
    assert (record.status, record.sizes, record.purity) == ("Failed: this cannot be.", (), None)
    assert (record.data, record.method) == ("rings", "LSD")


def test_an_interrupted_run_leaves_no_record(registry, monkeypatch):
    def cut_short(spec, data):
        return recorded(spec, status=str(Status.INTERRUPTED))

    monkeypatch.setitem(protocol.METHODS["table1"], "MTV", cut_short)
    with pytest.raises(KeyboardInterrupt):
        protocol.record_of(SPECS[0])


def test_the_papers_figures_cover_its_columns():
    assert all(tuple(cells) == PAPER_NAMES for cells in (*published.TABLE1.values(), *published.TABLE2.values()))
    assert published.TABLE1["MTV"]["pendigits"] == 89.06
    assert published.TABLE2["2.5%"]["20news"] == (67.61, 42)


# ---------------------------------------------------------------- the tables


@pytest.fixture
def records1():
    """LSD on MNIST: the highest purity and the lowest (P) are two runs, and a third has an empty cluster."""

    def one(method, start, trial, max_iter, **values):
        return recorded(RunSpec("table1", "mnist", method, start, trial, max_iter), **values)

    return [
        one("LSD", "a", 0, 10_000, purity=0.91234, energy=0.61, sizes=(10, 80), seconds=2.0),
        one("LSD", "b", 0, 2_000, purity=0.80001, energy=0.60, sizes=(30, 60), seconds=3.0),
        one("LSD", "b", 1, 2_000, purity=0.5, energy=None, sizes=(0, 90), seconds=10.0),
        one("NMFR", "a", 0, 1_000, purity=0.75, energy=0.7),
        *[one("NMFR", "b", trial, 1_000, purity=0.7, energy=0.65 + trial) for trial in range(3)],
        one("1SPEC", "own", 0, None, purity=None, energy=None, sizes=(), status="Failed: no luck."),
        one("tautcut", "own", 0, None, purity=0.98, energy=0.4396),
        recorded(RunSpec("table1", "optdigits", "MTV", "a", 0, 10_000), purity=0.9829, energy=0.3502),
    ]


def test_table1_chooses_by_the_truth_and_without_it(records1):
    rows = {(row.data, row.method, row.chosen_by): row for row in tables.rows_of("table1", records1)}
    assert list(dict.fromkeys(data for data, *_ in rows)) == ["optdigits", "mnist"], "the order of the paper"
    best, lowest = rows["mnist", "LSD", "true purity"], rows["mnist", "LSD", "lowest (P)"]
    assert (best.purity, best.energy, best.smallest, best.largest) == (pytest.approx(91.234), 0.61, 10, 80)
    assert best.difference == pytest.approx(91.234 - 95.67)
    assert (lowest.purity, lowest.energy, lowest.n_empty) == (pytest.approx(80.001), 0.60, 0)
    assert (lowest.paper, lowest.difference) == (None, None), "the paper chose otherwise"
    assert (best.seconds, best.n_runs, best.n_paper_runs, best.n_runs_with_empty) == (5.0, 3, 31, 1)
    ours = rows["mnist", "tautcut", "only run"]
    assert (ours.paper, ours.n_paper_runs) == (97.60, 1)
    assert rows["optdigits", "MTV", "lowest (P)"].difference == pytest.approx(0.0)


def test_markdown_says_what_the_records_say(records1):
    text = tables.markdown(tables.document_of("table1", records1))
    lines = {line for line in text.splitlines() if line.startswith("|")}
    assert "| LSD, true purity: paper | – | 95.67 |" in lines
    assert "| LSD, true purity: ours | – | 91.23 |" in lines
    assert "| LSD, true purity: difference | – | -4.44 |" in lines
    assert "| LSD, lowest (P): ours | – | 80.00 |" in lines
    assert (
        "| LSD | lowest (P) | 80.00 | – | – | 0.6000 | 30 to 60 | 0 (in 1 of 3 runs some) | 5.00 | "
        "3 of 31 starts, (a) 10,000, (b) 2,000 iterations |"
    ) in lines
    assert any(line.endswith("4 of 31 starts, (a) 1,000, (b) 1,000 iterations |") for line in lines)
    assert any(line.startswith("| 1SPEC |") and line.endswith("| Failed: no luck. |") for line in lines)
    assert any(line.startswith("| tautcut |") and line.endswith("| 1 run |") for line in lines)
    assert "90 vertices, 1,234 edges. A note, 5 % & more_or_less." in text
    assert "9 runs" not in text
    assert f"{len(records1)} runs, seed 0" in text


def test_runs_by_several_versions_are_said(records1):
    assert "several versions" not in tables.markdown(tables.document_of("table1", records1))
    mixed = [*records1[1:], replace(records1[0], commit="d" * 40)]
    assert "(runs of several versions of the code)" in tables.markdown(tables.document_of("table1", mixed))


def test_an_infinite_energy_is_shown(records1):
    assert "| ∞ |" in tables.markdown(tables.document_of("table1", records1[2:3]))


@pytest.fixture
def records2():
    return [
        recorded(
            RunSpec("table2", "mnist", method, "labels", trial, 2_000, labels), purity=0.97 + trial / 100,
            energy=0.5 - trial / 10, seconds=1.0 + trial, measures={"accuracy_unlabelled": 0.90 + trial / 50},
        )
        for labels in ("1", "10%") for method in ("MTV", "tautcut") for trial in range(3)
    ]  # fmt: skip


def test_table2_means_and_choices(records2):
    rows = tables.rows_of("table2", records2)
    assert [(row.labels, row.method) for row in rows] == [
        ("1", "MTV"), ("1", "tautcut"), ("10%", "MTV"), ("10%", "tautcut"),
    ]  # fmt: skip
    first = rows[0]
    assert (first.purity, first.energy) == (pytest.approx(99.0), pytest.approx(0.3))
    assert (first.paper, first.paper_seconds, first.seconds) == (97.53, 98, 2.0)
    assert (first.accuracy, first.accuracy_deviation) == (pytest.approx(92.0), pytest.approx(2.0))
    text = tables.markdown(tables.document_of("table2", records2))
    assert (
        "| 1 per class | MTV | 99.00 | 97.53 | +1.47 | 92.00 ± 2.00 | 0.3000 | 40 to 50 | 0 | 2.00 | 98 | "
        "3 of 10 trials, 2,000 iterations |"
    ) in text
    assert "| 10 %, tautcut: difference | +0.95 |" in text


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_csv_reads_back(table, request):
    rows = tables.rows_of(table, request.getfixturevalue(f"records{table[-1]}"))
    read = list(csv.DictReader(io.StringIO(tables.comma_separated(rows), newline="")))
    assert len(read) == len(rows)
    for line, row in zip(read, rows, strict=True):
        assert line["data"] == row.data
        assert (float(line["purity"]) if line["purity"] else None) == row.purity
        assert (float(line["energy"]) if line["energy"] else None) == row.energy
        assert int(line["n_runs"]) == row.n_runs


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_latex_is_well_formed(table, request):
    text = tables.latex(tables.document_of(table, request.getfixturevalue(f"records{table[-1]}")))
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert body.isascii()
    assert not re.search(r"(?<!\\)[%#_^~]", body)
    assert len(re.findall(r"(?<!\\)\$", body)) % 2 == 0
    assert len(re.findall(r"(?<!\\)\{", body)) == len(re.findall(r"(?<!\\)\}", body))
    floats = re.findall(r"\\begin\{table\}.*?\\end\{table\}", body, re.S)
    assert len(floats) == body.count(r"\begin{table}") == body.count(r"\end{tabular}")
    assert r"5 \% \& more\_or\_less" in body
    for one in floats:
        columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", one).group(1)
        lines = [line for line in one.splitlines() if line.endswith(r"\\")]
        assert len(lines) > 1
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(columns)}


def test_tables_without_records_are_empty(tmp_path):
    files = tables.write_tables(tmp_path, "table1", "table1", [])
    assert [path.name for path in files] == ["table1.md", "table1.tex", "table1.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table1.csv", "table1.md", "table1.tex"]


# ---------------------------------------------------------------- the command


def command(capsys, *arguments):
    """Exit code, standard output and standard error of `tautcut reproduce`."""
    with pytest.raises(SystemExit) as exit_:
        main(["reproduce", *arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


def test_table1_from_the_command_line(registry, tmp_path, capsys, monkeypatch):
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


def test_a_part_is_run_and_the_whole_is_shown(registry, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    command(capsys, "table2", "--quick", "--methods", "mtv", "--out", str(tmp_path), "--quiet")
    code, _, err = command(capsys, "table2", "--quick", "--methods", "tautcut", "--out", str(tmp_path), "--quiet")
    assert (code, err) == (0, "")
    content = list(csv.DictReader((tmp_path / "table2-quick.csv").read_text().splitlines()))
    assert len(content) == 10
    assert len(read_records(tmp_path / "table2-quick.jsonl")) == 30


def test_lines_of_progress_where_there_is_no_terminal(registry, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    err = command(capsys, "table2", "--quick", "--methods", "mtv", "--out", str(tmp_path))[2]
    assert err.count("rings MTV") == 15
    assert "rings MTV, 2.5% labels, 1: purity 90.00%, (P) 0.5000, 1.0 s" in err


def test_a_bar_on_a_terminal(registry, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(protocol, "record_of", recorded)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    code, _, err = command(capsys, "table1", "--quick", "--methods", "mtv", "--out", str(tmp_path))
    assert code == 0
    assert "4 of 4 runs" in err


def test_records_of_another_version_count_and_are_said(registry, tmp_path, capsys, monkeypatch):
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


def test_jobs_and_folders_are_checked(registry, tmp_path, capsys):
    code, _, err = command(capsys, "table1", "--quiet", "--jobs", "0", "--out", str(tmp_path / "new"))
    assert (code, err.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    code, _, err = command(capsys, "table1", "--quiet", "--out", str(tmp_path / "file"))
    assert (code, err) == (2, f"tautcut: --out must be a folder; '{tmp_path / 'file'}' is a file.\n")


def test_a_data_set_that_is_not_there_is_said_before_anything_runs(registry, tmp_path, capsys, monkeypatch):
    def missing(name):
        raise InputError(f"{name}.npz is not there; put it into a folder and name it in TAUTCUT_DATA.")

    monkeypatch.setattr(protocol, "paper_graph", missing)
    monkeypatch.setattr(protocol, "record_of", None)
    code, _, err = command(capsys, "table1", "--quiet", "--out", str(tmp_path / "new"))
    assert (code, err) == (2, "tautcut: rings.npz is not there; put it into a folder and name it in TAUTCUT_DATA.\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_says_how_to_go_on(registry, tmp_path, capsys, monkeypatch):
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
