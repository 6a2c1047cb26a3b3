"""A few fixed kills, and every step of every kind of output failing in turn; `make test-faults` tries many more."""

from __future__ import annotations

import os

import pytest

from hostile import faults

if not os.path.exists("/proc/self/status"):
    pytest.skip("the moments of kills are read from /proc", allow_module_level=True)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    faults.make_inputs(folder)
    return folder


@pytest.mark.parametrize("number", [3, 8, 12])
def test_a_kill_leaves_outputs_whole_or_as_they_were(inputs, number, monkeypatch):
    monkeypatch.setattr(faults, "OBEYED", 30.0)  # a machine that runs tests may be busy
    assert faults.kill(number, inputs)["wrong"] == []


@pytest.fixture(scope="module")
def writers(tmp_path_factory):
    return faults.make_writers(tmp_path_factory.mktemp("writers"))


@pytest.mark.parametrize(
    "suffix",
    [
        ".csv",
        ".tsv",
        ".json",
        ".npy",
        ".parquet",
        ".h5ad",
        ".npz",
        ".mtx",
        ".edges",
        ".graphml",
        ".graph",
        ".html",
        ".png",
    ],
)
def test_an_output_of_which_a_step_fails_is_as_it_was(writers, tmp_path, suffix):
    found = list(faults.faults_of(writers[suffix], tmp_path / f"out{suffix}"))
    assert len(found) == len(faults.STEPS) + len(faults.CUTS)
    assert [one for one in found if one["wrong"]] == []
