"""Campaigns go on where they were interrupted, and survive being killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from rings import SPECS, recorded
from tautcut.errors import InputError
from tautcut.paper import campaign
from tautcut.paper.campaign import execute, finished, key_of, remaining
from tautcut.records import append_record, read_records


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
import psutil
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

def await_end(pid):
    # the workers end with their parent
    for _ in range(100):
        if not any(is_alive(one, pid) for one in psutil.process_iter()):
            return
        time.sleep(0.1)
    raise AssertionError("a worker has outlived its parent")

def is_alive(process, group):
    with suppress(ProcessLookupError, psutil.Error):
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    return False

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
    await_end(pid)
partial = len(read_records(path))
pid = os.fork()
if pid == 0:
    child()
assert os.waitpid(pid, 0)[1] == 0
await_end(pid)
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
