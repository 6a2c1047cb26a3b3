"""Renews the numbers and the picture of the README: runs the demo, keeps its records and its picture, and
writes the output block from the records. It takes no arguments; run it whenever the defaults have changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tautcut.records import RunRecord, append_record

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RECORDS = ROOT / "docs" / "results" / "readme.jsonl"
PICTURE = ROOT / "docs" / "images" / "digits.png"

BEGIN, END = "<!-- output: benchmarks/readme_example.py writes this block -->", "<!-- /output -->"


def run_demo() -> list[RunRecord]:
    """The records of the demo with seed 0: the runs of the README's example, timed."""
    command = [sys.executable, "-m", "tautcut.cli", "demo", "--seed", "0", "--json", "--out", str(PICTURE)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [RunRecord.from_json(json.dumps(run)) for run in json.loads(answer.stdout)["runs"]]


def replace_records(records: list[RunRecord]) -> None:
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for record in records:
        append_record(part, record)
    os.replace(part, RECORDS)


def output_block(records: list[RunRecord]) -> str:
    """What the example prints, and how long its two runs took."""
    clustering, classification = records
    cpus, platform = clustering.machine["cpus"], clustering.machine["platform"]
    lines = [
        "```text",
        f"no labels: energy {clustering.energy:.4f}, purity {clustering.purity:.1%}",
        f"one label per class: energy {classification.energy:.4f}, purity {classification.purity:.1%}",
        "```",
        "",
        f"The two fits took {clustering.seconds:.1f} s and {classification.seconds:.1f} s "
        f"({platform}, {cpus} cores; kernels already compiled).",
    ]
    return "\n".join(lines)


def with_block(readme: str, block: str) -> str:
    """The README with another block between its two markers."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def main() -> None:
    records = run_demo()
    replace_records(records)
    README.write_text(with_block(README.read_text(encoding="utf-8"), output_block(records)), encoding="utf-8")
    print(output_block(records))


if __name__ == "__main__":
    main()
