"""The sandbox tells apart what can happen to a case, survives all of it, and keeps what is needed to look at it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from hostile.campaign import Campaign, grouped, row_of
from hostile.sandbox import ANSWERED, BROKEN, CRASH, HANG, REFUSED, TRACEBACK, Finding, Limits, Sandbox, Verdict

LIMITS = Limits(seconds=1.0, memory=2**28)


def odd_case(number: int, folder: Path) -> Finding:
    """What happens depends on the number."""
    (folder / "input.txt").write_text(f"case {number}")
    if number == 1:
        os.abort()
    if number == 2:
        time.sleep(60)
    if number == 3:
        return Finding(REFUSED, (f"{TRACEBACK}: ValueError at tables.py:7 read",))
    if number == 4:
        return Finding(ANSWERED, ("'in.csv' was changed",))
    if number == 5:
        try:
            bytearray(2**30)
        except MemoryError:
            return Finding(REFUSED, (), {"said": "too large"})
    return Finding(ANSWERED)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, Verdict], Path]:
    kept = tmp_path_factory.mktemp("kept")
    with Sandbox("odd", "hostile.test_sandbox:odd_case", LIMITS, kept=kept) as sandbox:
        return {verdict.number: verdict for verdict in sandbox.run([0, 2, 1, 3, 4, 5, 6])}, kept


def test_what_happened_is_told_apart_and_the_next_case_runs_all_the_same(verdicts):
    outcomes = {number: verdict.outcome for number, verdict in verdicts[0].items()}
    assert outcomes == {0: ANSWERED, 1: CRASH, 2: HANG, 3: TRACEBACK, 4: BROKEN, 5: REFUSED, 6: ANSWERED}


def test_a_dead_child_leaves_its_stack(verdicts):
    assert "odd_case" in verdicts[0][1].about["stack"]
    assert "odd_case" in verdicts[0][2].about["stack"]


def test_failing_cases_are_kept_and_others_are_not(verdicts):
    kept = verdicts[1]
    assert sorted(path.name for path in kept.iterdir()) == ["odd-1", "odd-2", "odd-3", "odd-4"]
    for number in (1, 2, 3, 4):
        assert (kept / f"odd-{number}" / "files" / "input.txt").read_text() == f"case {number}"
        assert json.loads((kept / f"odd-{number}" / "verdict.json").read_text())["number"] == number


def test_a_campaign_counts_and_groups(verdicts):
    campaign = Campaign("odd", 0, 1, seconds=2.0)
    for verdict in verdicts[0].values():
        campaign._count(verdict)
    assert row_of(campaign.record())[:9] == ["odd", "7", "3.5", "2", "1", "1", "1", "1", "1"]
    assert list(grouped(campaign.failed))[-1] == "broken promise: '…' was changed"
    assert all(len(some) == 1 for some in grouped(campaign.failed).values())
