"""The tables of the reproduction, from records alone: which run of a cell is chosen and by what, the paper's number
beside it, and how the cell was run, as Markdown, LaTeX and CSV. It runs nothing, and types no number other than the
paper's.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import inf
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

from tautcut.paper import published
from tautcut.paper.protocol import LABELS, METHODS, PAPER_BUDGET, PAPER_TRIALS, WITH_STARTS
from tautcut.records import RunRecord
from tautcut.writing import write_whole

LOWEST_P, TRUE_PURITY, ONLY_RUN = "lowest (P)", "true purity", "only run"
NONE = "–"


@dataclass(frozen=True)
class TableRow:
    """One line of a table: the run that was chosen from a cell, and how the cell was run. The CSV has these fields."""

    table: str
    data: str
    method: str
    labels: str  # known of each class: "" for none, "1" for one, "2.5%" for a share
    chosen_by: str  # what singles the run out from the others of its cell
    purity: float | None  # per cent; None where no run ended
    paper: float | None  # per cent; None where the paper has no figure to compare with
    difference: float | None  # ours less the paper's
    energy: float | None  # (P); None where it is infinite
    smallest: int  # cluster of the chosen run
    largest: int
    n_empty: int
    seconds: float  # mean of the cell's runs
    paper_seconds: float | None
    accuracy: float | None  # on the vertices without a label, per cent: mean over the trials
    accuracy_deviation: float | None
    n_runs: int  # that ended
    n_paper_runs: int
    n_failed: int
    n_runs_with_empty: int
    iterations: str  # how many were allowed
    remark: str  # why runs failed


# How the cell of a column is written, by the column's name.
Columns: TypeAlias = dict[str, Callable[[TableRow], str]]


@dataclass(frozen=True)
class TextTable:
    """Cells as they are read, under a title, with a note below."""

    title: str
    head: Sequence[str]
    body: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Document:
    """A whole report: the paper's table with ours, then each data set; and on what the runs were made."""

    title: str
    introduction: str
    tables: list[TextTable]
    circumstances: list[str]


# ---------------------------------------------------------------- records → rows


def rows_of(table: str, records: Sequence[RunRecord]) -> list[TableRow]:
    """The rows of "table1" or "table2", in the order of the paper's columns; cells without a record have none."""
    rows = []
    for data, labels, method in product(_data_of(records), LABELS if table == "table2" else ("",), METHODS[table]):
        place = (data, labels, method)
        cell = [one for one in records if (one.data, one.settings["spec"]["labels"], one.method) == place]
        rows += [_row(table, cell, chosen_by) for chosen_by in _choices(table, method) if cell]
    return rows


def _choices(table: str, method: str) -> tuple[str, ...]:
    """How a run is chosen: by (P), without labels; and by the truth too, for the two rivals that the paper ranks so."""
    if table == "table1" and method not in WITH_STARTS:
        return (ONLY_RUN,)
    return (TRUE_PURITY, LOWEST_P) if method in ("LSD", "NMFR") else (LOWEST_P,)


def _row(table: str, cell: list[RunRecord], chosen_by: str) -> TableRow:
    first = cell[0]
    ended = [record for record in cell if record.sizes]
    chosen = _chosen(ended, chosen_by)
    purity = None if chosen is None or chosen.purity is None else 100 * chosen.purity
    paper, paper_seconds = _published(table, first, chosen_by)
    right = [100 * record.measures["accuracy_unlabelled"] for record in ended if table == "table2"]
    sizes = chosen.sizes if chosen is not None else (0,)
    n_starts = 1 + PAPER_BUDGET.trials if first.method in WITH_STARTS else 1
    return TableRow(
        table, first.data, first.method, first.settings["spec"]["labels"], chosen_by,
        purity=purity, paper=paper, difference=None if purity is None or paper is None else purity - paper,
        energy=chosen.energy if chosen is not None else None,
        smallest=min(sizes), largest=max(sizes), n_empty=sizes.count(0) if chosen is not None else 0,
        seconds=mean(record.seconds for record in ended) if ended else 0.0, paper_seconds=paper_seconds,
        accuracy=mean(right) if right else None, accuracy_deviation=stdev(right) if len(right) > 1 else None,
        n_runs=len(ended), n_paper_runs=PAPER_TRIALS if table == "table2" else n_starts,
        n_failed=len(cell) - len(ended), n_runs_with_empty=sum(0 in record.sizes for record in ended),
        iterations=_iterations(cell),
        remark=" ".join(_unique(record.status for record in cell if not record.sizes)),
    )  # fmt: skip


def _chosen(ended: list[RunRecord], chosen_by: str) -> RunRecord | None:
    """The run of highest purity, or of lowest (P); ties keep the first."""
    if chosen_by == TRUE_PURITY:
        return max(ended, key=lambda record: record.purity or 0.0, default=None)
    return min(ended, key=lambda record: inf if record.energy is None else record.energy, default=None)


def _published(table: str, record: RunRecord, chosen_by: str) -> tuple[float | None, float | None]:
    """The paper's purity and seconds, where it chose a run in the same way; tautcut stands beside the paper's MTV."""
    method = "MTV" if record.method == "tautcut" else record.method
    if table == "table2":
        return published.TABLE2[record.settings["spec"]["labels"]].get(record.data, (None, None))
    if method in ("LSD", "NMFR") and chosen_by != TRUE_PURITY:
        return None, None
    return published.TABLE1[method].get(record.data), None


def _iterations(cell: list[RunRecord]) -> str:
    """What was allowed from each kind of start: "(a) 10,000, (b) 2,000"; nothing where the method stops by itself."""
    specs = [record.settings["spec"] for record in cell]
    limits = _unique((spec["start"], spec["max_iter"]) for spec in specs)
    known = [(start, limit) for start, limit in limits if limit is not None]
    return ", ".join(f"({start}) {limit:,}" if start in ("a", "b") else f"{limit:,}" for start, limit in known)


# ---------------------------------------------------------------- rows → a document


def document_of(table: str, records: Sequence[RunRecord]) -> Document:
    """The report of "table1" or "table2", in words."""
    rows = rows_of(table, records)
    head = [name for name in _COLUMNS if name not in _ABSENT[table]]
    texts = [_overview(rows, _data_of(records))]
    for name in _data_of(records):
        mine = [row for row in rows if row.data == name]
        texts.append(_table(name, mine, head, _COLUMNS, note=_note(records, name)))
    return Document(_TITLES[table], _INTRODUCTIONS[table], texts, _circumstances(records))


_TITLES = {"table1": "Table 1: no labels", "table2": "Table 2: few labels"}
_INTRODUCTIONS = {
    "table1": (
        f"Paper: {published.SOURCE}. LSD, NMFR and MTV (Algorithm 1 as printed) run from the same starts: (a) the NCut "
        "indicator and (b) one vertex of each NCut cluster, drawn at random and diffused; LSD and NMFR from these plus "
        "0.2. The paper reports MTV's run of lowest (P), chosen without the true labels, but for LSD and NMFR the run "
        "of highest true purity; the rows that say “lowest (P)” choose without labels for them too. tautcut is one run "
        "of MTVClustering with its defaults, beside the paper's MTV. (P) is the balanced cut with λ = R − 1, lower is "
        "better; ∞ is a run with an empty cluster. NCC-TV values cuts in the whole graph (decision 0018). Seconds are "
        "the mean of a cell's runs: of LSD, NMFR and MTV from a start that is there (and LSD's scale c, which its "
        "starts share), of the others from the graph."
    ),
    "table2": (
        f"Paper: {published.SOURCE}; its seconds are of MATLAB code. In each trial the labels are drawn anew, one of "
        "each class or a share of each class, and propagated by (I + L)⁻¹. MTV is Algorithm 1 as printed, tautcut "
        "MTVClassifier with its defaults; both are given the same labels. Purity is that of the trial of lowest (P), "
        "over all vertices, as in the paper. Accuracy is the share of right labels among the vertices whose label was "
        "not given, mean and standard deviation over the trials. Seconds are the mean, from the graph. The rows of "
        "tautcut stand beside the paper's MTV."
    ),
}


def _overview(rows: list[TableRow], data: list[str]) -> TextTable:
    """A column for each data set, as in the paper."""
    lines: dict[str, dict[str, TableRow]] = {}
    for row in sorted(rows, key=lambda row: LABELS.index(row.labels) if row.labels else 0):
        lines.setdefault(_name(row), {})[row.data] = row
    body = [line for name, mine in lines.items() for line in _three_lines(name, mine, data)]
    return TextTable("Purity in per cent, beside the paper's", ["", *data], body)


def _three_lines(name: str, mine: dict[str, TableRow], data: list[str]) -> list[tuple[str, ...]]:
    """Ours, the paper's and the difference; ours alone where the paper has none."""

    def line(title: str, text: Callable[[TableRow], str]) -> tuple[str, ...]:
        return (title, *(text(mine[one]) if one in mine else NONE for one in data))

    ours = line(f"{name}: ours", lambda row: _number(row.purity))
    if all(row.paper is None for row in mine.values()):
        return [ours]
    source = "paper's MTV" if name.endswith("tautcut") else "paper"
    paper = line(f"{name}: {source}", lambda row: _number(row.paper))
    return [paper, ours, line(f"{name}: difference", lambda row: _number(row.difference, "+.2f"))]


def _table(title: str, rows: Iterable[TableRow], head: Sequence[str], columns: Columns, note: str = "") -> TextTable:
    """A line for each row, with a cell for each column that the head names."""
    return TextTable(title, head, [[columns[name](row) for name in head] for row in rows], note)


def brief(rows: Iterable[TableRow], data: str) -> TextTable:
    """The rows of one data set in a form that fits a terminal: what came out, without how it was run."""
    mine = [row for row in rows if row.data == data]
    last = "accuracy" if any(row.labels for row in mine) else "runs"
    head = ("method", "purity %", "paper %", "diff.", "(P)", "empty", "s/run", last)
    return _table(data, mine, head, _COLUMNS | _BRIEF)


def _name(row: TableRow) -> str:
    if row.labels:
        return f"{_labels(row.labels)}, {row.method}"
    return row.method if row.chosen_by == ONLY_RUN else f"{row.method}, {row.chosen_by}"


def _count(row: TableRow) -> str:
    """How many runs ended, of how many in the paper where they are fewer."""
    return str(row.n_runs) if row.n_runs == row.n_paper_runs else f"{row.n_runs} of {row.n_paper_runs}"


def _number(value: float | None, form: str = ".2f") -> str:
    return NONE if value is None else format(round(value, 2) + 0.0, form)  # + 0.0: never "-0.00"


def _if_ended(text: Callable[[TableRow], str]) -> Callable[[TableRow], str]:
    """The text where any run ended."""
    return lambda row: text(row) if row.n_runs else NONE


def _empty(row: TableRow) -> str:
    """In the chosen run; and in how many runs there were any."""
    some = f" (in {row.n_runs_with_empty} of {row.n_runs} runs some)" if row.n_runs_with_empty else ""
    return f"{row.n_empty}{some}"


def _accuracy(row: TableRow) -> str:
    spread = "" if row.accuracy_deviation is None else f" ± {row.accuracy_deviation:.2f}"
    return _number(row.accuracy) + spread


def _runs(row: TableRow) -> str:
    """How many starts or trials, of how many in the paper where they are fewer, with how many iterations; failures."""
    if row.n_paper_runs == 1:
        return "1 run" if row.n_runs else row.remark
    noun = "trials" if row.labels else "starts"
    told = f"{_count(row)} {noun}, {row.iterations} iterations"
    return told + (f"; {row.n_failed} failed. {row.remark}" if row.n_failed else "")


def _labels(labels: str) -> str:
    return "1 per class" if labels == "1" else f"{labels[:-1]} %"


_COLUMNS: Columns = {
    "labels": lambda row: _labels(row.labels),
    "method": lambda row: row.method,
    "chosen by": lambda row: row.chosen_by,
    "purity %": lambda row: _number(row.purity),
    "paper %": lambda row: _number(row.paper),
    "difference": lambda row: _number(row.difference, "+.2f"),
    "accuracy % on the others": _accuracy,
    "(P)": _if_ended(lambda row: "∞" if row.energy is None else f"{row.energy:.4f}"),
    "cluster sizes": _if_ended(lambda row: f"{row.smallest:,} to {row.largest:,}"),
    "empty clusters": _if_ended(_empty),
    "seconds per run": _if_ended(lambda row: f"{row.seconds:.2f}"),
    "paper's": lambda row: _number(row.paper_seconds, "g"),
    "runs": _runs,
}
_BRIEF: Columns = {
    "method": _name,
    "diff.": _COLUMNS["difference"],
    "empty": lambda row: str(row.n_empty),
    "s/run": _COLUMNS["seconds per run"],
    "accuracy": lambda row: _number(row.accuracy),
    "runs": _count,
}
_ABSENT = {"table1": ("labels", "accuracy % on the others", "paper's"), "table2": ("chosen by",)}  # of the columns


def _data_of(records: Iterable[RunRecord]) -> list[str]:
    """The data sets that have records, in the order of the paper's columns; others after them."""
    names = _unique(record.data for record in records)
    columns = list(published.TABLE1["MTV"])
    return [name for name in columns if name in names] + [name for name in names if name not in columns]


def _note(records: Sequence[RunRecord], data: str) -> str:
    """How the graph differs from the paper's, and its size, as the records say."""
    one = [record for record in records if record.data == data][-1].settings["graph"]
    return f"{one['n_vertices']:,} vertices, {one['n_edges']:,} edges. {one['note']}".strip()


def _circumstances(records: Sequence[RunRecord]) -> list[str]:
    """On what and with what the runs were made; several versions of the code are named as such."""
    if not records:
        return []
    machines = _unique(
        f"{record.machine['platform']}, {record.machine['cpus']} cores, {record.machine.get('jobs', 1)} runs at a "
        f"time with {record.machine.get('threads', record.machine['cpus'])} threads each"
        for record in records
    )
    versions = _unique(", ".join(f"{name} {one}" for name, one in record.versions.items()) for record in records)
    commits = _unique(record.commit or "unknown" for record in records)
    mixed = " (runs of several versions of the code)" if len(commits) > 1 else ""
    seeds = ", ".join(map(str, _unique(record.seed for record in records)))
    return [
        f"{len(records)} runs, seed {seeds}, the last at {max(record.created for record in records)}",
        f"machine: {'; '.join(machines)}",
        f"versions: {'; '.join(versions)}",
        f"commit: {', '.join(commits)}{mixed}",
    ]


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


# ---------------------------------------------------------------- a document → files


def write_tables(folder: Path, stem: str, table: str, records: Sequence[RunRecord]) -> list[Path]:
    """Write stem.md, stem.tex and stem.csv into the folder, each whole or not at all; where they are."""
    document = document_of(table, records)
    texts = {"md": markdown(document), "tex": latex(document), "csv": comma_separated(rows_of(table, records))}
    for suffix, text in texts.items():
        write_whole(folder / f"{stem}.{suffix}", text)
    return [folder / f"{stem}.{suffix}" for suffix in texts]


def markdown(document: Document) -> str:
    """The document as Markdown."""
    parts = [f"# {document.title}", document.introduction]
    for table in document.tables:
        parts += [f"## {table.title}", _markdown_table(table), table.note]
    parts.append("\n".join(f"- {line}" for line in document.circumstances))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(table: TextTable) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(table.head), "|" + "---|" * len(table.head), *map(line, table.body)])


def latex(document: Document) -> str:
    """The document as LaTeX floats, to be taken into a paper by `input`; it needs no package."""
    floats = [_latex_table(f"{document.title}. {one.title}. {one.note}", one) for one in document.tables]
    comments = ["% " + text.replace("\n", " ") for text in (document.introduction, *document.circumstances)]
    return "\n\n".join([comments[0], *floats, "\n".join(comments[1:])]) + "\n"


def _latex_table(caption: str, table: TextTable) -> str:
    def line(cells: Iterable[str]) -> str:
        return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

    columns = "l" + "r" * (len(table.head) - 1)
    opening = [r"\begin{table}", r"\centering\footnotesize", rf"\caption{{{caption.strip().translate(_LATEX)}}}"]
    head = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", line(table.head), r"\hline"]
    return "\n".join([*opening, *head, *map(line, table.body), r"\hline", r"\end{tabular}", r"\end{table}"])


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_",
        "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$", "∞": r"$\infty$",
        "±": r"$\pm$", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "λ": r"$\lambda$", "σ": r"$\sigma$",
        "“": "``", "”": "''", "’": "'", "\n": " ",
    }
)  # fmt: skip


def comma_separated(rows: Sequence[TableRow]) -> str:
    """The rows as they are, with full numbers; an empty field is None."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(TableRow.__dataclass_fields__))
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()
