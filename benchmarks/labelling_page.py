"""How soon the labelling page answers: a person is simulated on the real server, with 5,000 and 70,000 images. Every
key press is timed, while fits run and while none does; so is the time from an answer to a classification that knows it,
and the start. And whether fits that start from the last one are as good as those that start from the labels alone.
Records go to docs/results/labelling-page.jsonl; labelling-page.md is written from them.

    TAUTCUT_DATA=folder-of-the-data-sets python benchmarks/labelling_page.py [page] [starts] ["starts:mnist, all"]
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from render import table

from tautcut import MTVClassifier, knn_graph
from tautcut.datasets import load
from tautcut.labelling.refits import as_text
from tautcut.labelling.workshop import Workshop
from tautcut.records import RunRecord, append_record, circumstances, read_records

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "labelling-page.jsonl"

SIZES = (5000, 70_000)
ANSWERS = 40  # at the pace of a quick person, while fits run
PACE = 0.5  # seconds between them
WAITED = 8  # answers that are given while nothing runs, and waited for
STARTED = {"optdigits": None, "pendigits": None, "mnist": 5000, "mnist, all": None}  # and how many rows are taken
STEPS = (20, *([1] * 8), 5, 5, 10, 20)  # labels that come together
FEWER_STEPS = (20, 1, 20)  # where a fit takes seconds


# ---------------------------------------------------------------- the page


class Page:
    """The server as a process, and who talks to it."""

    def __init__(self, path: Path) -> None:
        began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tautcut", "label", str(path), "--no-browser", "--quiet"], stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        where = urlsplit(self.process.stdout.readline().strip())
        self.start = time.monotonic() - began
        token = parse_qs(where.query)["token"][0]
        self.connection = http.client.HTTPConnection("127.0.0.1", where.port)
        own = {"Cookie": f"tautcut-{where.port}={token}", "Origin": f"http://{where.netloc}"}
        self.headers = {**own, "Content-Type": "application/json"}

    def ask(self, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content)
        self.connection.request("GET" if content is None else "POST", path, body, self.headers)
        answer = self.connection.getresponse()
        read = answer.read()
        assert answer.status == 200, read
        return json.loads(read)

    def await_fit(self, revision: int, *, is_settled: bool = False) -> float:
        """Seconds until the classification knows that answer, or nothing is left to do."""
        began = time.monotonic()
        while True:
            fit = self.ask("/api/state")["fit"]
            if (fit["revision"] or 0) >= revision and not (is_settled and fit["is_running"]):
                return time.monotonic() - began
            time.sleep(0.02)

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def pages() -> Iterator[RunRecord]:
    mnist = load("mnist")
    X, truth = mnist.X.reshape(len(mnist.truth), -1), np.asarray(mnist.truth)
    for size in SIZES:
        rows = np.sort(np.random.default_rng(0).choice(len(truth), size, replace=False))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "images.npy"
            np.save(path, (X[rows].reshape(-1, 28, 28) * (255 if X.max() <= 1 else 1)).astype(np.uint8))
            yield labelled(path, truth[rows])


def labelled(path: Path, truth: Any) -> RunRecord:
    """A session of a simulated person on one array of images."""
    load_before = os.getloadavg()[0]
    first = Page(path)
    first.close()
    page = Page(path)
    acks, running, waits = [], [], []
    question = page.ask("/api/question")
    time.sleep(5)  # until the processes have been loaded
    for number in range(ANSWERS + WAITED):
        is_waited = number >= ANSWERS
        if is_waited:
            page.await_fit(number, is_settled=True)
        index = question["thing"]["index"]
        given = {"id": f"{number}", "things": [index], "label": str(truth[index]), "is_check": question["is_check"]}
        is_running = page.ask("/api/state")["fit"]["is_running"]
        began = time.monotonic()
        answer = page.ask("/api/answers", given)
        acks.append(time.monotonic() - began)
        running.append(is_running)
        question = answer["question"]
        if is_waited:
            waits.append(page.await_fit(answer["revision"]))
        else:
            time.sleep(max(0.0, began + PACE - time.monotonic()))
    page.await_fit(ANSWERS + WAITED, is_settled=True)
    state = page.ask("/api/state")
    page.close()
    beside = [ack for ack, is_running in zip(acks, running, strict=True) if is_running]
    measures = {
        "n": len(truth), "first_start": first.start, "second_start": page.start,
        "ack_median": statistics.median(acks), "ack_max": max(acks), "ack_beside_fit_max": max(beside, default=0.0),
        "n_beside_fit": len(beside), "fit_median": statistics.median(waits), "fit_max": max(waits),
        "fit_seconds": state["fit"]["seconds"], "load_before": load_before, "load_after": os.getloadavg()[0],
        "n_over_50_ms": sum(ack > 0.05 for ack in acks), "n_acks": len(acks), "cores": len(os.sched_getaffinity(0)),
    }  # fmt: skip
    return RunRecord(
        f"mnist, {len(truth):,}", "page", {"pace": PACE}, 0, ANSWERS + WAITED, None, None,
        statistics.median(waits), (), 0, "answered", **circumstances(),
        measures={name: float(value) for name, value in measures.items()},
    )  # fmt: skip


# ---------------------------------------------------------------- where fits start


def starts(only: str = "") -> Iterator[RunRecord]:
    """Labels that come a few at a time: fits from the labels alone, from the last always, and as the page has them."""
    for name, size in STARTED.items():
        if only not in ("", name):
            continue
        data = load(name.partition(",")[0])
        X, truth = data.X, np.asarray(data.truth)
        X = X.reshape(len(truth), -1)
        rng = np.random.default_rng(1)
        if size is not None:
            rows = np.sort(rng.choice(len(truth), size, replace=False))
            X, truth = X[rows], truth[rows]
        graph = knn_graph(X, 10, random_state=0)
        workshop, last = Workshop(graph), None
        known = np.full(len(truth), None, dtype=object)
        for step, count in enumerate(STEPS if len(truth) < 20_000 else FEWER_STEPS):
            free = np.flatnonzero([one is None for one in known])
            for vertex in rng.choice(free, count, replace=False).tolist():
                known[vertex] = int(truth[vertex])
            cold, cold_seconds, cold_cpu = timed(graph, known, "auto")
            same = last is not None and np.array_equal(last.classes_, cold.classes_)
            warm, warm_seconds, warm_cpu = timed(
                graph, known, last.memberships_ if last is not None and same else "auto"
            )
            last = warm
            shown = workshop.answer(request_of(known, step))
            labels = np.array([int(one) for one in json.loads(str(shown["classes"]))])[shown["labels"]]
            measures = {
                "n_new": count, "cold": cold.energy_, "warm": warm.energy_, "page": float(shown["energy"]),
                "cold_right": np.mean(cold.transduction_ == truth), "warm_right": np.mean(warm.transduction_ == truth),
                "page_right": np.mean(labels == truth), "cold_seconds": cold_seconds, "warm_seconds": warm_seconds,
                "page_seconds": float(shown["seconds"]), "is_from_last": not bool(shown["is_settled"]),
                "cold_cpu": cold_cpu, "warm_cpu": warm_cpu,
            }  # fmt: skip
            yield RunRecord(
                name, "starts", {"n_new": count}, 1, int(sum(one is not None for one in known)),
                float(shown["energy"]), measures["page_right"], float(shown["seconds"]), (), step, "fitted",
                **circumstances(), measures={key: float(value) for key, value in measures.items()},
            )  # fmt: skip


def timed(graph: Any, known: Any, init: Any) -> tuple[MTVClassifier, float, float]:
    """The fit, its seconds, and those of all threads on the processor, which others do not lengthen."""
    began, worked = time.monotonic(), time.process_time()
    model = MTVClassifier(affinity="precomputed", random_state=0, init=init).fit(graph, known)
    return model, time.monotonic() - began, time.process_time() - worked


def request_of(known: Any, revision: int) -> dict[str, Any]:
    labelled = [vertex for vertex, one in enumerate(known.tolist()) if one is not None]
    return {
        "kind": np.array("fit"), "number": np.array(revision), "revision": np.array(revision), "seed": np.array(0),
        "labelled": np.array(labelled), "labels": as_text([str(known[one]) for one in labelled]),
        "checks": np.array([0, 0]),
    }  # fmt: skip


# ---------------------------------------------------------------- what is written


def main(parts: list[str]) -> None:
    """Run the parts that are named; records of others are kept."""
    asked = [part.partition(":")[::2] for part in parts]
    old = [
        record
        for record in (read_records(RECORDS) if RECORDS.exists() else [])
        if not any(record.method == name and only in ("", record.data) for name, only in asked)
    ]
    part = RECORDS.with_name(RECORDS.name + ".part")
    part.unlink(missing_ok=True)
    for record in old:
        append_record(part, record)
    for name, only in asked:
        for record in starts(only) if name == "starts" else pages():
            append_record(part, record)
            print(record.data, record.n_labelled, record.measures, flush=True)
    os.replace(part, RECORDS)
    RECORDS.with_suffix(".md").write_text(page_of(read_records(RECORDS)), encoding="utf-8")


def page_of(records: list[RunRecord]) -> str:
    answered = [one for one in records if one.method == "page"]
    head = ["data", "cores", "start, s", "again, s", "key press, ms", "slowest, ms", "over 50 ms", "new classes, s",
            "slowest, s", "load"]  # fmt: skip
    rows = [
        [
            one.data, f"{one.measures['cores']:.0f}",
            f"{one.measures['first_start']:.1f}", f"{one.measures['second_start']:.1f}",
            f"{1000 * one.measures['ack_median']:.1f}", f"{1000 * one.measures['ack_max']:.1f}",
            f"{one.measures['n_over_50_ms']:.0f} of {one.measures['n_acks']:.0f}",
            f"{one.measures['fit_median']:.2f}", f"{one.measures['fit_max']:.2f}",
            f"{one.measures['load_before']:.1f} to {one.measures['load_after']:.1f}",
        ]
        for one in answered
    ]  # fmt: skip
    about = (
        "Written by `benchmarks/labelling_page.py` from `labelling-page.jsonl`, not by hand. A simulated person on the "
        f"real server: {ANSWERS} answers, {PACE} s apart, while fits run, then {WAITED} that are given while nothing "
        "runs and waited for. Cores are those that all processes were bound to; the load is how many processes wanted "
        "to run, on average over a minute, before and after."
    )
    compared = (
        "The same labels, a few more at each step: (P) and the share of right labels of fits that start from the "
        "labels alone, of fits that always start from the last one, and of those that the page shows while answers "
        "come without a pause: from the last one only where the new labels agree with it, and never twice in a row "
        "([decision 0049](../decisions/0049-a-fit-goes-on-where-it-cannot-mislead.md))."
    )
    parts = ["# The labelling page", about, table(head, rows), "## Where fits start", compared]
    steps = [one for one in records if one.method == "starts"]
    head = ["data", "labels", "new", "(P), labels", "(P), last", "(P), page", "right, labels", "right, last",
            "right, page", "page started from", "processor, s: labels", "last"]  # fmt: skip
    lines = [
        [
            one.data, str(one.n_labelled), f"{one.measures['n_new']:.0f}",
            *(f"{one.measures[name]:.4f}" for name in ("cold", "warm", "page")),
            *(f"{one.measures[f'{name}_right']:.1%}" for name in ("cold", "warm", "page")),
            "the last" if one.measures["is_from_last"] else "the labels",
            *(f"{one.measures[name]:.1f}" if name in one.measures else "" for name in ("cold_cpu", "warm_cpu")),
        ]
        for one in steps
    ]  # fmt: skip
    return "\n\n".join([*parts, table(head, lines)]) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:] or ["page", "starts"])
