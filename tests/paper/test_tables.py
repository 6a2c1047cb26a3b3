"""Tables say what the records say, in Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from rings import recorded
from tautcut.paper import tables
from tautcut.paper.protocol import RunSpec


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
