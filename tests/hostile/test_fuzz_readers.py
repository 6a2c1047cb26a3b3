"""Fixed numbers of the readers' fuzzer, and that what it starts from can be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hostile import fuzz_readers
from hostile.fuzzers import sandbox_of
from hostile.sandbox import Sandbox
from hostile.specimens import SPECIMENS
from tautcut import formats

BLOCK, LAST = 100, 400
FOUND = [7019190]  # numbers that once failed: a Parquet file over whose columns Arrow ends the process


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with sandbox_of("readers") as one:
        yield one


@pytest.mark.parametrize("first", range(0, LAST, BLOCK))
def test_whatever_a_file_holds_it_is_read_or_refused(sandbox, first):
    assert sandbox.failures(range(first, first + BLOCK)) == []


def test_what_once_failed_is_read_or_refused(sandbox):
    assert sandbox.failures(FOUND) == []


@pytest.mark.parametrize("suffix", SPECIMENS)
def test_well_formed_files_are_read(suffix, tmp_path):
    path = tmp_path / f"in{suffix}"
    for seed in range(5):
        path.write_bytes(SPECIMENS[suffix](np.random.default_rng(seed)))
        assert fuzz_readers.problems_of(formats.read(path, missing="median")) == []


def test_the_same_number_makes_the_same_file(tmp_path):
    for number in range(60):
        assert fuzz_readers.made(number, tmp_path).read_bytes() == fuzz_readers.made(number, tmp_path).read_bytes()
