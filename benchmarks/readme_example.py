"""Renews the numbers and the picture of the README's example: runs its fits, keeps their records, draws the picture of
the demo, and writes the output block from the records. It takes no arguments; run it whenever the defaults have
changed. `claims.py` writes the README's other block by the same means.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from tautcut import MTVClassifier, MTVClustering
from tautcut.records import RunRecord, append_record, run_estimator

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RECORDS = ROOT / "docs" / "results" / "readme.jsonl"
PICTURE = ROOT / "docs" / "images" / "digits.png"

N_KNOWN = 50  # labels that the example gives the classifier: those of the first images


def run_example() -> list[RunRecord]:
    """The records of the README's two fits, timed."""
    X, y = load_digits(return_X_y=True)
    known = np.where(np.arange(len(y)) < N_KNOWN, y, -1)
    cluster, classify = MTVClustering(n_clusters=10, random_state=0), MTVClassifier(random_state=0)
    _, clustering = run_estimator(cluster, X, data="digits", truth=y, warm_up=True)
    model, classification = run_estimator(classify, X, known, data="digits", truth=y, warm_up=True)
    accuracy = float(np.mean(model.transduction_ == y))
    return [clustering, replace(classification, measures={"accuracy": accuracy})]


def draw_picture() -> None:
    """The picture that `make demo` draws."""
    command = [sys.executable, "-m", "tautcut", "demo", "--seed", "0", "--quiet", "--out", str(PICTURE)]
    subprocess.run(command, check=True)


def replace_records(records: list[RunRecord]) -> None:
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for record in records:
        append_record(part, record)
    os.replace(part, RECORDS)


def output_block(records: list[RunRecord]) -> str:
    """What the example prints, and how long its two fits took."""
    clustering, classification = records
    cpus, platform = clustering.machine["cpus"], clustering.machine["platform"]
    lines = [
        "```text",
        f"no labels: purity {clustering.purity:.1%}. {classification.n_labelled} labels: "
        f"{classification.measures['accuracy']:.1%} of all images are right.",
        "```",
        "",
        f"The two fits took {clustering.seconds:.1f} s and {classification.seconds:.1f} s "
        f"({platform}, {cpus} cores; kernels already compiled).",
    ]
    return "\n".join(lines)


def marks(name: str) -> tuple[str, str]:
    """The comments between which the block of that name stands in the README."""
    return f"<!-- {name}: written from recorded runs, see benchmarks/ -->", f"<!-- /{name} -->"


def with_block(readme: str, name: str, block: str) -> str:
    """The README with another block between the two marks of that name."""
    begin, end = marks(name)
    before, rest = readme.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{block}\n{end}{after}"


def write_block(name: str, block: str) -> None:
    """Put the block into the README."""
    README.write_text(with_block(README.read_text(encoding="utf-8"), name, block), encoding="utf-8")
    print(block)


def main() -> None:
    records = run_example()
    replace_records(records)
    draw_picture()
    write_block("output", output_block(records))


if __name__ == "__main__":
    main()
