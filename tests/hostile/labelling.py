"""Kills of the labelling page: the server is killed at random moments while two tabs answer as fast as they can, and
started again on the same journal. What must hold: every answer that was acknowledged is there, the last one of each
thing counts, and one that was sent again counts once.

    python tests/hostile/labelling.py --kills 100 [--record]
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from tautcut.records import RunRecord, append_record, circumstances

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "results" / "fuzz.jsonl"  # beside those of the fuzzers
_N = 60  # things
_SPAN = 1.5  # seconds after it began to listen in which a server is killed
_EARLY = 0.15  # of the kills come before it listens
_STARTING = 120  # seconds that a start may take, on a machine that is busy


@dataclass
class Tab:
    """A tab that labels things of its own, one after the other; `labels` are the acknowledged ones."""

    number: int
    labels: dict[int, str] = field(default_factory=dict)
    n_acknowledged: int = 0
    n_again: int = 0
    pending: dict[str, Any] | None = None  # sent, and not acknowledged
    slowest: float = 0.0

    def label_on(self, server: Server, ends: threading.Event) -> None:
        """Answer until the server is gone; what it did not acknowledge is sent again to the next."""
        with suppress(OSError, http.client.HTTPException):
            while not ends.is_set():
                if self.pending is None:
                    count = self.n_acknowledged
                    thing = self.number + 2 * (count * 7 % (_N // 2))
                    self.pending = {"id": f"{self.number}-{count}", "things": [thing], "label": f"class {count % 5}"}
                else:
                    self.n_again += 1
                began = time.monotonic()
                status, _ = server.post("/api/answers", self.pending)
                self.slowest = max(self.slowest, time.monotonic() - began)
                if status != 200:
                    raise AssertionError(f"an answer was refused: {status}")
                self.labels[self.pending["things"][0]] = self.pending["label"]
                self.n_acknowledged += 1
                self.pending = None


class Server:
    """`tautcut label` on a folder, as a process."""

    def __init__(self, folder: Path) -> None:
        with (folder / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tautcut", "label", "things.npy", "--no-browser", "--quiet"], cwd=folder,
                stdout=subprocess.PIPE, stderr=said, text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell may have it ignore
            )  # fmt: skip
        self.address = ""

    def await_address(self) -> None:
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise AssertionError(f"it did not start: exit {self.process.wait()}")

    def post(self, path: str, content: Any) -> tuple[int, bytes]:
        return self._ask("POST", path, json.dumps(content))

    def get(self, path: str) -> bytes:
        return self._ask("GET", path, None)[1]

    def _ask(self, method: str, path: str, body: str | None) -> tuple[int, bytes]:
        where = urlsplit(self.address)
        token = parse_qs(where.query)["token"][0]
        headers = {"Cookie": f"tautcut-{where.port}={token}", "Origin": f"http://{where.netloc}"}
        connection = http.client.HTTPConnection("127.0.0.1", where.port, timeout=60)
        try:
            connection.request(method, path, body, headers | {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def killed_again_and_again(folder: Path, first: int, n_kills: int) -> tuple[Counter[str], list[str]]:
    """Kill the server so often; what happened, and what is wrong about it."""
    np.save(folder / "things.npy", np.random.default_rng(0).normal(size=(_N, 4)))
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    tabs = [Tab(0), Tab(1)]
    for number in range(first, first + n_kills):
        draw = random.Random(number)
        server = Server(folder)
        if draw.random() < _EARLY:
            time.sleep(draw.uniform(0.0, 2.0))
            tally["kill before it listened, or just after"] += 1
        else:
            server.await_address()
            wrong += _differences(server, tabs, number)
            _label_for(draw.uniform(0.0, _SPAN), server, tabs)
            tally["kill while two tabs answered"] += 1
        server.kill()
    server = Server(folder)
    server.await_address()
    wrong += _differences(server, tabs, first + n_kills)
    server.process.send_signal(signal.SIGINT)
    try:
        server.process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        server.kill()
    if server.process.returncode:
        wrong.append(f"Ctrl-C ended it with {server.process.returncode}")
    said = (folder / "said.txt").read_text(errors="replace")
    if "Traceback" in said:
        wrong.append(f"traceback: {said.strip().splitlines()[-1]}")
    tally["answer acknowledged"] = sum(tab.n_acknowledged for tab in tabs)
    tally["answer sent again"] = sum(tab.n_again for tab in tabs)
    tally["acknowledged answer lost"] = len(wrong)
    return tally, wrong


def _label_for(seconds: float, server: Server, tabs: list[Tab]) -> None:
    """Let the tabs answer for a while, and kill the server under them."""
    ends = threading.Event()
    threads = [threading.Thread(target=tab.label_on, args=(server, ends)) for tab in tabs]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    server.process.kill()
    ends.set()
    for thread in threads:
        thread.join()


def _differences(server: Server, tabs: list[Tab], number: int) -> list[str]:
    """Where the labels that the server has are not those that it acknowledged; one that was only sent may be there."""
    rows = csv.DictReader(server.get("/export/known.csv").decode().splitlines())
    there = {int(row["id"]): row["label"] for row in rows}
    wrong = []
    for tab in tabs:
        sent = {} if tab.pending is None else {tab.pending["things"][0]: tab.pending["label"]}
        for thing, label in tab.labels.items():
            if there.get(thing) not in (label, sent.get(thing, label)):
                wrong.append(f"before kill {number}: {thing} is {there.get(thing)!r} and not {label!r}")
    n_counted = json.loads(server.get("/api/state"))["revision"]
    n_sent = sum(tab.n_acknowledged + (tab.pending is not None) for tab in tabs)
    if not sum(tab.n_acknowledged for tab in tabs) <= n_counted <= n_sent:
        wrong.append(f"before kill {number}: {n_counted} answers count, of {n_sent} that were sent")
    return wrong


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--first", type=int, default=0, help="the number of the first kill")
    options.add_argument("--record", action="store_true", help="keep the counts for docs/security.md")
    asked = options.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        tally, wrong = killed_again_and_again(Path(place), asked.first, asked.kills)
    sys.stdout.write("".join(f"{count:5d}  {what}\n" for what, count in sorted(tally.items())))
    sys.stdout.write("".join(f"WRONG {one}\n" for one in wrong))
    if asked.record:
        measures = {what: float(count) for what, count in tally.items()}
        status = "something is wrong" if wrong else "nothing is wrong"
        append_record(RECORDS, RunRecord(
            "label", "faults", {"first": asked.first}, asked.first, 0, None, None, time.monotonic() - begun, (),
            asked.kills, status, **circumstances(), measures=measures,
        ))  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
