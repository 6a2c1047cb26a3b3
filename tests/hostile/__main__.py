"""Fresh cases for the fuzzers, or one case again: `make fuzz ARGS="--minutes 30"`, `make fuzz ARGS="--case cli:123"`.
Failing cases are kept in build/fuzz, every verdict is a line of build/fuzz/log.jsonl. With --record a campaign is
appended to docs/results/fuzz.jsonl and the counts of docs/security.md are written anew; --page does only that.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from hostile.campaign import HEAD, Campaign, row_of, summary
from hostile.fuzzers import FUZZERS, sandbox_of
from tautcut.records import RunRecord, append_record, read_records

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "fuzz"
RECORDS = ROOT / "docs" / "results" / "fuzz.jsonl"
PAGE = ROOT / "docs" / "security.md"
KILLS = {
    "faults": "Kills and failing outputs (`make test-faults`)",
    "label": "Kills of the labelling page (`make test-label-kills`)",
}
BEGIN, END = "<!-- fuzz: written from docs/results/fuzz.jsonl by `make fuzz` -->", "<!-- /fuzz -->"
FRESH = 1_000_000  # below are the fixed numbers of the suite
_TOLD_EVERY = 15.0  # seconds


def main() -> int:
    options = parsed()
    if options.page:
        write_page()
        return 0
    KEPT.mkdir(parents=True, exist_ok=True)
    if options.case:
        return run_again(options.case)
    names = options.only.split(",") if options.only else list(FUZZERS)
    first = secrets.randbelow(10**9) + FRESH if options.first is None else options.first
    say(f"Cases from number {first} on, {options.workers} at a time; failing ones are kept in {KEPT}.")
    campaigns = []
    try:
        for name in names:
            campaigns.append(Campaign(name, first, options.workers))
            run(campaigns[-1], n_cases=options.cases, seconds=60 * options.minutes / len(names))
    except KeyboardInterrupt:
        say("Stopped.")
    say(summary(campaigns, table))
    if options.record:
        for campaign in campaigns:
            record = campaign.record()
            append_record(RECORDS, replace(record, commit=options.commit or record.commit))
        write_page()
    return int(any(campaign.failed for campaign in campaigns))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="for all fuzzers together")
    parser.add_argument("--cases", type=int, help="at most so many for each fuzzer")
    parser.add_argument("--first", type=int, help="the first number; drawn if absent")
    parser.add_argument("--only", help=f"some of {','.join(FUZZERS)}")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", metavar="FUZZER:NUMBER", help="run this case again, and show all that is known of it")
    parser.add_argument("--record", action="store_true", help="keep the counts as evidence")
    parser.add_argument("--commit", help="what to record as the commit, where the folder is no checkout")
    parser.add_argument("--page", action="store_true", help="write the counts of docs/security.md anew")
    return parser.parse_args()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run_again(case: str) -> int:
    fuzzer, _, number = case.partition(":")
    with sandbox_of(fuzzer, kept=KEPT) as sandbox:
        (verdict,) = sandbox.run([int(number)])
    for name, value in asdict(verdict).items():
        say(f"{name}: {json.dumps(value, indent=2, default=str, ensure_ascii=False)}".replace("\\n", "\n"))
    return int(verdict.has_failed)


def run(campaign: Campaign, *, n_cases: int | None, seconds: float) -> None:
    begun = told = time.monotonic()
    with (KEPT / "log.jsonl").open("a", encoding="utf-8") as log:
        for verdict in campaign.run(n_cases=n_cases, seconds=seconds, folder=KEPT):
            log.write(verdict.to_json() + "\n")
            if verdict.has_failed:
                say(str(verdict))
            if time.monotonic() > told + _TOLD_EVERY:
                told = time.monotonic()
                counts = ", ".join(f"{number} {outcome}" for outcome, number in campaign.counts.items())
                say(f"{campaign.fuzzer}: {campaign.n_cases} cases in {told - begun:.0f} s: {counts}")


def table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def write_page() -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n" + block(recorded()) + "\n" + END + after, encoding="utf-8")


def recorded() -> list[RunRecord]:
    """What the page tells; kills of ranks have no cases to count."""
    found = read_records(RECORDS) if RECORDS.exists() else []
    return [one for one in found if one.method != "kills of ranks"]


def block(records: list[RunRecord]) -> str:
    """The last campaign of each fuzzer, as a table, and the last kills."""
    if not records:
        return "No campaign is recorded yet."
    last = {record.data: record for record in records}
    kills = [last.pop(name) for name in KILLS if name in last]
    days = sorted({record.created[:10] for record in last.values()})
    commits = sorted({(record.commit or "unknown")[:12] for record in last.values()})
    told = f"Recorded {' and '.join(days)}, at commit {' and '.join(commits)}:"
    found = [f"- `{record.data}`: {record.status}" for record in last.values() if record.status != "nothing failed"]
    parts = [told, table(HEAD, [row_of(record) for record in last.values()]), "\n".join(found)]
    return "\n\n".join([*filter(None, parts), *map(told_of, kills)])


def told_of(kills: RunRecord) -> str:
    """The counts of kills."""
    counts = "; ".join(f"{what.replace('WRONG', 'wrong')}: {count:.0f}" for what, count in kills.measures.items())
    return f"{KILLS[kills.data]}, at commit {(kills.commit or 'unknown')[:12]}: {counts}."


if __name__ == "__main__":
    sys.exit(main())
