"""Records survive the way to a file and back, and say what was run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from tautcut import balanced_cut_energy, knn_graph
from tautcut.algorithm.stopping import Status
from tautcut.baselines import LSD
from tautcut.errors import InputError
from tautcut.estimators import MTVClassifier, MTVClustering
from tautcut.metrics import purity
from tautcut.records import (
    RunRecord,
    append_record,
    draw_labels,
    plain_setting,
    read_records,
    records,
    run_estimator,
    runs,
)

pytestmark = pytest.mark.usefixtures("light_search")


@pytest.fixture(scope="module")
def blobs():
    """Points of three clouds, and a truth that is wrong about a twentieth of them."""
    rng = np.random.default_rng(3)
    cloud = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 2)) + 3.0 * cloud[:, None], np.where(np.arange(60) % 20 == 7, (cloud + 1) % 3, cloud)


@pytest.fixture(scope="module")
def fitted(blobs):
    X, truth = blobs
    model = MTVClustering(3, n_neighbors=12, device="reference", random_state=5)
    return model, *run_estimator(model, X, data="blobs", truth=truth, warm_up=True)


@pytest.fixture
def record(fitted):
    return fitted[2]


def test_a_record_says_what_was_run_and_what_came_out(blobs, fitted):
    given, model, record = fitted
    assert (record.data, record.method, record.seed, record.n_labelled) == ("blobs", "MTVClustering", 5, 0)
    assert record.settings["n_neighbors"] == 12
    assert not {"random_state", "verbose"} & set(record.settings)
    assert record.energy == model.energy_
    assert 0.9 < record.purity == purity(model.labels_, blobs[1]) < 1
    assert record.sizes == tuple(np.bincount(model.labels_))
    assert (record.status, record.n_iter) == (str(model.status_), model.n_iter_)
    assert record.n_iter > 0
    assert record.seconds > 0
    assert not hasattr(given, "labels_"), "the given model must stay as it was"


def test_a_record_says_on_what_it_was_run(record):
    assert set(record.versions) == {"python", "tautcut", "numpy", "scipy", "numba", "scikit-learn"}
    assert record.versions["numpy"] == np.__version__
    assert record.machine["cpus"] >= 1
    assert datetime.fromisoformat(record.created).tzinfo == UTC
    assert record.commit is None or len(record.commit.removesuffix("-dirty")) == 40


def test_classification_counts_the_labels(blobs):
    X, truth = blobs
    y = draw_labels(truth, per_class=2, rng=np.random.default_rng(0))
    model, record = run_estimator(
        MTVClassifier(n_neighbors=12, device="reference", random_state=0), X, y, data="blobs", truth=truth
    )
    assert record.n_labelled == 6
    assert record.method == "MTVClassifier"
    assert sum(record.sizes) == 60
    assert (model.transduction_[y >= 0] == y[y >= 0]).all()


def test_a_rival_is_measured_as_we_are(blobs):
    graph = knn_graph(blobs[0], 8)
    model = LSD(3, max_iter=30, random_state=4)
    record = runs.run_baseline(model, graph, data="blobs", truth=blobs[1])
    assert (record.data, record.method, record.seed, record.n_labelled) == ("blobs", "LSD", 4, 0)
    assert record.settings == {"n_clusters": 3, "init": None, "max_iter": 30, "scale": "auto"}
    assert record.energy == pytest.approx(balanced_cut_energy(graph, model.labels_))
    assert record.purity == purity(model.labels_, blobs[1]) < 1
    assert record.sizes == tuple(np.bincount(model.labels_, minlength=3))
    assert (record.n_iter, record.measures) == (30, {"objective": model.objective_})


def test_an_empty_cluster_has_its_place_among_the_sizes_and_no_energy(blobs):
    start = np.full((60, 3), 0.2)
    start[:30, 0] = start[30:, 2] = 1.2
    start[:, 1] = 0.0  # and a zero stays zero
    model = LSD(3, init=start, max_iter=30, random_state=0)
    record = runs.run_baseline(model, knn_graph(blobs[0], 8), data="blobs", truth=blobs[1])
    assert record.sizes == ((model.labels_ == 0).sum(), 0, (model.labels_ == 2).sum())
    assert record.energy is None
    assert RunRecord.from_json(record.to_json()) == record


def test_without_the_truth_there_is_no_purity(blobs):
    model = MTVClustering(3, n_neighbors=12, device="reference", random_state=5)
    assert run_estimator(model, blobs[0], data="blobs")[1].purity is None


def test_a_run_that_cannot_be_repeated_is_refused(blobs):
    with pytest.raises(InputError, match=r"random_state must be a whole number.*None"):
        run_estimator(MTVClustering(3), blobs[0], data="blobs")


def test_the_warm_up_is_off_the_clock(blobs, monkeypatch):
    events = []
    fit = MTVClustering.fit

    def tick():
        events.append("tick")
        return float(len(events))

    def watched_fit(self, X, y=None):
        events.append(f"fit {self.max_iter} {self.n_init}")
        return fit(self, X, y)

    monkeypatch.setattr(runs.time, "perf_counter", tick)
    monkeypatch.setattr(MTVClustering, "fit", watched_fit)
    model = MTVClustering(3, n_neighbors=12, device="reference", max_iter=50, random_state=0)
    record = run_estimator(model, blobs[0], data="blobs", warm_up=True)[1]
    assert events == ["fit 1 1", "tick", "fit 50 auto", "tick"]
    assert record.seconds == 2.0  # the clock said 2 and 4


def test_an_interrupted_warm_up_interrupts_the_run(blobs, monkeypatch):
    fit = MTVClustering.fit

    def interrupted_fit(self, X, y=None):
        fit(self, X)
        self.result_ = replace(self.result_, status=Status.INTERRUPTED)
        return self

    monkeypatch.setattr(MTVClustering, "fit", interrupted_fit)
    with pytest.raises(KeyboardInterrupt):
        run_estimator(MTVClustering(3, random_state=0), blobs[0], data="blobs", warm_up=True)


def test_settings_that_are_arrays_are_recorded(blobs):
    X = blobs[0]
    model = MTVClustering(
        3, n_neighbors=12, init=np.eye(3)[np.arange(60) % 3], class_prior=np.full(3, 1 / 3),
        device="reference", max_iter=3, search="none", random_state=np.int64(2),
    )  # fmt: skip
    record = run_estimator(model, X, data="blobs")[1]
    assert record.settings["init"] == "array of shape (60, 3)"
    assert record.settings["class_prior"] == [1 / 3] * 3
    assert RunRecord.from_json(record.to_json()) == record


def test_an_infinite_energy_is_still_json(blobs, monkeypatch):
    fit = MTVClustering.fit

    def fit_with_an_empty_cluster(self, X, y=None):
        fit(self, X)
        partition = self.result_.problem.partition(np.arange(60) % 2)
        self.result_ = replace(self.result_, partition=partition)
        return self

    monkeypatch.setattr(MTVClustering, "fit", fit_with_an_empty_cluster)
    model = MTVClustering(3, n_neighbors=12, device="reference", max_iter=3, search="none", random_state=0)
    written = run_estimator(model, blobs[0], data="blobs")[1]
    assert written.energy is None
    assert written.sizes == (30, 30, 0)
    assert json.loads(written.to_json())["energy"] is None


def test_a_record_is_one_line_that_reads_back(record):
    assert "\n" not in record.to_json()
    assert RunRecord.from_json(record.to_json()) == record
    with pytest.raises(FrozenInstanceError):
        record.energy = 0.0


def test_records_are_appended_in_order(record, tmp_path):
    path = tmp_path / "runs.jsonl"
    records = [replace(record, seed=seed) for seed in range(3)]
    for one in records:
        append_record(path, one)
    assert read_records(path) == records
    assert path.read_bytes().count(b"\n") == 3


def test_a_record_is_on_disk_when_it_is_written(record, tmp_path, monkeypatch):
    path, synced = tmp_path / "runs.jsonl", []
    monkeypatch.setattr(records.os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    append_record(path, record)
    assert synced == [path.stat().st_size] != [0]


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_torn_line_is_left_out_and_harms_no_other(record, tmp_path, kept):
    path = tmp_path / "runs.jsonl"
    append_record(path, record)
    with path.open("a", encoding="utf-8") as file:
        file.write(record.to_json()[:kept])
    with pytest.warns(UserWarning, match=r"line 2 of .*runs\.jsonl is not complete"):
        assert read_records(path) == [record]
    append_record(path, record)
    with pytest.warns(UserWarning, match="line 2"):
        assert read_records(path) == [record, record]


def test_records_are_written_without_scikit_learn(record, tmp_path):
    code = (
        "import sys; sys.modules['sklearn'] = None; from pathlib import Path\n"
        "from tautcut.records import RunRecord, append_record, circumstances, plain_setting, read_records\n"
        "append_record(sys.argv[1], RunRecord.from_json(Path(sys.argv[2]).read_text()))"
    )
    (tmp_path / "one.json").write_text(record.to_json())
    subprocess.run([sys.executable, "-c", code, tmp_path / "runs.jsonl", tmp_path / "one.json"], check=True)
    assert read_records(tmp_path / "runs.jsonl") == [record]


@pytest.mark.parametrize(
    ("setting", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.array([1, 2]), [1, 2]),
        (np.zeros((4, 2)), "array of shape (4, 2)"),
        (float("nan"), "nan"),
        ({1: (None, True)}, {"1": [None, True]}),
        (Status.CONVERGED, str(Status.CONVERGED)),
    ],
)
def test_every_setting_becomes_json(setting, plain):
    assert json.loads(json.dumps(plain_setting(setting), allow_nan=False)) == plain


@pytest.mark.parametrize("line", ["[1]", '{"data": "blobs"}', '{"colour": "red"}'])
def test_json_that_is_no_record_is_an_error(line):
    with pytest.raises(InputError, match="a run record has the fields"):
        RunRecord.from_json(line)


def test_a_record_with_a_field_too_many_is_an_error(record):
    with pytest.raises(InputError, match=r"a run record has the fields .*found .*'colour'"):
        RunRecord.from_json(json.dumps({**json.loads(record.to_json()), "colour": "red"}))


def test_drawn_labels_are_true_and_as_many_as_asked_for(blobs):
    truth = blobs[1]
    y = draw_labels(truth, per_class=3, rng=np.random.default_rng(1))
    assert (y[y >= 0] == truth[y >= 0]).all()
    assert np.bincount(y[y >= 0]).tolist() == [3, 3, 3]
    assert (y == draw_labels(truth, per_class=3, rng=np.random.default_rng(1))).all()
    with pytest.raises(InputError, match="per_class=21 is more than the 20 points of class 0"):
        draw_labels(truth, per_class=21, rng=np.random.default_rng(1))
    with pytest.raises(InputError, match="share must lie above 0"):
        draw_labels(truth, share=0.0, rng=np.random.default_rng(0))


def test_outside_a_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "__file__", str(tmp_path / "records.py"))
    assert records._commit() is None


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert records._commit() is None


@pytest.mark.parametrize("before", [None, b'{"whole": 1}\n', b'{"torn'])
@pytest.mark.parametrize("name", ["fsync", "write"])
def test_an_append_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch, before, name):
    path = tmp_path / "runs.jsonl"
    if before is not None:
        path.write_bytes(before)

    def fails(*given):
        raise OSError(28, "No space left on device")

    if name == "fsync":
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match=r"runs\.jsonl"):
            append_record(path, Line())
    else:  # the system itself refuses the last byte: what fits is written, and taken back
        faults = pytest.importorskip("hostile.faults")
        with (
            faults.full_after(len(before or b"") + len(Line().to_json())),
            pytest.raises(OSError, match=r"runs\.jsonl"),
        ):
            append_record(path, Line())
    assert (path.read_bytes() if path.exists() else None) == before


class Line:
    """What a file of records needs of a record."""

    def to_json(self) -> str:
        return '{"content": "' + "x" * 500 + '"}'


def test_a_record_has_masses_once_there_are_any(record):
    graph = knn_graph(np.random.default_rng(0).normal(size=(60, 2)), 6)
    masses = np.arange(1.0, 61.0)
    model = MTVClustering(3, affinity="precomputed", device="reference", random_state=5)
    fitted, weighed = run_estimator(model, graph.with_masses(masses), data="a cloud")
    assert weighed.masses == tuple(np.bincount(fitted.labels_, masses, 3))
    assert RunRecord.from_json(weighed.to_json()) == weighed
    assert record.masses == ()
    assert "masses" not in json.loads(record.to_json())
    assert RunRecord.from_json(record.to_json()) == record
