"""The lists of runs are the paper's, and every method leaves a record."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rings import CLASS_SIZE, N_CLASSES, SPECS, recorded, rings_in_place_of_the_papers
from tautcut.algorithm.stopping import Status
from tautcut.datasets import PAPER_NAMES
from tautcut.errors import InputError
from tautcut.paper import protocol, published
from tautcut.paper.protocol import RunSpec
from tautcut.records import RunRecord


@pytest.fixture
def rings(monkeypatch):
    """The rings in place of the paper's data sets."""
    yield from rings_in_place_of_the_papers(monkeypatch)


def test_table1_is_the_papers_protocol():
    specs = protocol.table1()
    cells = Counter((spec.data, spec.method) for spec in specs)
    assert list(dict.fromkeys(spec.data for spec in specs)) == list(PAPER_NAMES)
    assert {method for _, method in cells} == {"NCC-TV", "1SPEC", "LSD", "NMFR", "MTV", "tautcut"}
    for (data, method), count in cells.items():
        with_starts = 4 if (data, method) == ("mnist", "NMFR") else 31
        assert count == (with_starts if method in ("LSD", "NMFR", "MTV") else 1)
    mtv = [spec for spec in specs if (spec.data, spec.method) == ("mnist", "MTV")]
    assert Counter((spec.start, spec.max_iter) for spec in mtv) == {("a", 10_000): 1, ("b", 2_000): 30}
    assert len({spec.key for spec in specs}) == len(specs)


def test_table2_is_the_papers_protocol():
    specs = protocol.table2()
    assert Counter((spec.method, spec.labels) for spec in specs if spec.data == "mnist") == {
        (method, labels): 10 for method in ("MTV", "tautcut") for labels in ("1", "1%", "2.5%", "5%", "10%")
    }
    assert len({spec.key for spec in specs}) == len(specs)


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_quick_is_a_part_of_every_cell(table):
    full, quick = protocol.TABLES[table](), protocol.TABLES[table](is_quick=True)
    cells = Counter((spec.data, spec.method, spec.labels) for spec in quick)
    assert set(cells) == {(spec.data, spec.method, spec.labels) for spec in full}
    assert max(cells.values()) == (4 if table == "table1" else 3)
    assert sum(spec.cost for spec in quick) < 0.35 * sum(spec.cost for spec in full)


def test_a_key_is_for_ever():
    """Records are found by it: a key that changes makes finished runs disappear."""
    spec = RunSpec("table2", "mnist", "tautcut", "labels", 3, 2000, "2.5%", 7)
    assert spec.key == "table2 / mnist / tautcut / 2.5% labels / start labels 3 / 2000 iterations / seed 7"
    assert RunSpec("table1", "20news", "1SPEC", "own").key == (
        "table1 / 20news / 1SPEC / no labels / start own 0 / own limit / seed 0"
    )


def test_starts_depend_on_the_seed_and_the_trial_alone(rings):
    spec = RunSpec("table1", "rings", "MTV", "b", 1, 10)
    start = protocol.start_of(spec)
    protocol.start_of(replace(spec, trial=0))
    protocol._start_makers.cache_clear()
    assert (protocol.start_of(replace(spec, method="LSD", max_iter=99)) == start).all()
    assert (protocol.start_of(replace(spec, trial=2)) != start).any()
    assert (protocol.start_of(replace(spec, seed=1)) != start).any()
    indicator = protocol.start_of(replace(spec, start="a"))
    assert set(np.unique(indicator)) == {0.0, 1.0}
    assert indicator[start.argmax(axis=0), np.arange(N_CLASSES)].all(), "each seed lies in its NCut cluster"


def test_drawn_labels_are_shares_of_each_class(rings):
    for labels, count in {"1": 1, "1%": 1, "2.5%": 1, "5%": 2, "10%": 3}.items():
        spec = RunSpec("table2", "rings", "MTV", "labels", 0, 10, labels)
        y = protocol.drawn_labels(spec, rings.truth)
        assert np.bincount(y[y >= 0]).tolist() == [count] * N_CLASSES
        assert (y[y >= 0] == rings.truth[y >= 0]).all()
        assert (y == protocol.drawn_labels(replace(spec, method="tautcut"), rings.truth)).all()
        assert (y != protocol.drawn_labels(replace(spec, trial=1), rings.truth)).any()


@pytest.mark.parametrize("method", list(protocol.METHODS["table1"]))
def test_every_method_of_table1_leaves_a_record(rings, method):
    start, max_iter = ("b", 60) if method in protocol.WITH_STARTS else ("own", None)
    record = protocol.record_of(RunSpec("table1", "rings", method, start, 2, max_iter, seed=4))
    assert (record.data, record.method, record.seed, record.n_labelled) == ("rings", method, 4, 0)
    assert sum(record.sizes) == len(record.sizes) * CLASS_SIZE == rings.graph.n_vertices
    assert record.purity == 1.0
    assert record.energy == pytest.approx(N_CLASSES * 4 / (2 * CLASS_SIZE))
    assert record.settings["spec"]["trial"] == 2
    assert record.settings["graph"] == {"n_vertices": 90, "n_edges": 456, "note": rings.note}
    assert record.machine["threads"] >= 1
    assert RunRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("method", list(protocol.METHODS["table2"]))
def test_every_method_of_table2_leaves_a_record(rings, method):
    record = protocol.record_of(RunSpec("table2", "rings", method, "labels", 0, 200, "10%"))
    assert (record.n_labelled, record.purity, record.measures["accuracy_unlabelled"]) == (9, 1.0, 1.0)


def test_a_run_that_fails_says_why(rings, monkeypatch):
    def broken(spec, data):
        raise InputError("this cannot be.")

    monkeypatch.setitem(protocol.METHODS["table1"], "LSD", broken)
    record = protocol.record_of(RunSpec("table1", "rings", "LSD", "a", 0, 10))
    assert (record.status, record.sizes, record.purity) == ("Failed: this cannot be.", (), None)
    assert (record.data, record.method) == ("rings", "LSD")


def test_an_interrupted_run_leaves_no_record(rings, monkeypatch):
    def cut_short(spec, data):
        return recorded(spec, status=str(Status.INTERRUPTED))

    monkeypatch.setitem(protocol.METHODS["table1"], "MTV", cut_short)
    with pytest.raises(KeyboardInterrupt):
        protocol.record_of(SPECS[0])


def test_the_papers_figures_cover_its_columns():
    assert all(tuple(cells) == PAPER_NAMES for cells in (*published.TABLE1.values(), *published.TABLE2.values()))
    assert published.TABLE1["MTV"]["pendigits"] == 89.06
    assert published.TABLE2["2.5%"]["20news"] == (67.61, 42)
