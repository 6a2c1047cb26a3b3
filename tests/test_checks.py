"""Each check of an argument: what it takes, in which form it returns it, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tautcut import checks
from tautcut.errors import InputError

NOT_WHOLE = [0, -3, 1.0, 2.5, "2", None, True, np.True_, np.float64(3), [2], np.array([2])]


@pytest.mark.parametrize("value", [1, 7, np.int8(7), np.uint64(7), np.array(7)])
def test_whole_numbers_come_back_as_ints(value: Any) -> None:
    number = checks.whole_number("count", value)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="count must be a whole number ≥ 1; found") as refusal:
        checks.whole_number("count", value)
    assert repr(value) in str(refusal.value)


def test_the_least_whole_number_and_the_alternative_are_named() -> None:
    assert checks.whole_number("seed", 0, least=0) == 0
    with pytest.raises(InputError, match="dimension must be a whole number ≥ 2, or 'auto'; found 1"):
        checks.whole_number("dimension", 1, least=2, otherwise=", or 'auto'")


@pytest.mark.parametrize("value", [1, 0.25, np.float32(0.25), np.int64(3), Fraction(1, 3)])
def test_positive_numbers_come_back_as_floats(value: Any) -> None:
    number = checks.positive_number("step", value)
    assert type(number) is float
    assert number == float(value)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, 1j, "1", None, True, np.True_, [1.0]], ids=repr)
def test_what_is_no_positive_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="step must be a finite number > 0; found"):
        checks.positive_number("step", value)


def test_zero_and_the_bound_are_taken_as_asked() -> None:
    assert checks.positive_number("noise", 0, or_zero=True) == 0.0
    with pytest.raises(InputError, match="noise must be a finite number ≥ 0; found False"):
        checks.positive_number("noise", False, or_zero=True)
    assert checks.positive_number("alpha", 0.9, below=1) == 0.9
    with pytest.raises(InputError, match='alpha must be a finite number > 0 and < 1, or "auto"; found 1'):
        checks.positive_number("alpha", 1, below=1, otherwise=', or "auto"')


def test_a_name_is_taken_out_of_its_list() -> None:
    assert checks.one_of("metric", "cosine", ("euclidean", "cosine")) == "cosine"


@pytest.mark.parametrize("value", ["Cosine", "", None, 0, ["cosine"], np.array(["cosine", "cosine"])], ids=repr)
def test_other_names_are_refused_with_the_list(value: Any) -> None:
    with pytest.raises(InputError, match="metric must be one of euclidean, cosine, or a function; found"):
        checks.one_of("metric", value, ("euclidean", "cosine"), otherwise=", or a function")


def test_real_numbers_are_told_by_their_dtype() -> None:
    for real in (bool, np.int8, np.uint64, np.float16, np.float64):
        checks.real_dtype("W", np.dtype(real))
    for other in (np.complex128, object, "U3", "M8[s]"):
        with pytest.raises(InputError, match=r"W must hold real numbers; found dtype .*\. Convert it to float64"):
            checks.real_dtype("W", np.dtype(other))


def test_clusters_are_at_most_the_vertices() -> None:
    assert checks.cluster_count(np.int32(5), 5) == 5
    assert checks.cluster_count(5) == 5
    with pytest.raises(InputError, match="n_clusters=6 is more than the 5 vertices"):
        checks.cluster_count(6, 5)


def test_neighbors_are_at_most_those_there_are() -> None:
    assert checks.neighbor_count(np.int64(4), 5, most=4) == 4
    with pytest.raises(InputError, match="n_neighbors=5 is too large for 5 points: at most 4"):
        checks.neighbor_count(5, 5, most=4)


@pytest.mark.parametrize("labels", [[0, 2, 1], (0.0, 2.0, 1.0), np.array([0, 2, 1], dtype=np.uint8)], ids=repr)
def test_labels_come_back_as_whole_numbers(labels: Any) -> None:
    for checked in (
        checks.whole_labels(labels, 3),
        checks.hard_labels(labels, 3, 3),
        checks.fixed_labels(labels, 3, 3),
    ):
        assert checked.dtype == np.int64
        assert checked.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 1], r"one per vertex; found shape \(2,\)"),
        ([[0, 1, 2]], r"found shape \(1, 3\)"),
        ([0.5, 1, 2], "whole numbers; found"),
        ([np.nan, 1, 2], "whole numbers; found"),
        (["a", "b", "c"], "whole numbers; found"),
        ([None, 1, 2], "whole numbers; found"),
    ],
)
def test_what_are_no_labels_is_refused(labels: Any, words: str) -> None:
    for check in (checks.hard_labels, checks.fixed_labels):
        with pytest.raises(InputError, match=words):
            check(labels, 3, 3)


def test_only_fixed_labels_may_be_unknown() -> None:
    assert checks.fixed_labels([-1, 1, -1], 3, 2).tolist() == [-1, 1, -1]
    assert checks.fixed_labels(None, 3, 2).tolist() == [-1, -1, -1]
    with pytest.raises(InputError, match="0 … 1, or be −1 where unknown; found -2"):
        checks.fixed_labels([-2, 0, 1], 3, 2)
    with pytest.raises(InputError, match="0 … 1; found -1"):
        checks.hard_labels([-1, 0, 1], 3, 2)
    for check in (checks.hard_labels, checks.fixed_labels):
        with pytest.raises(InputError, match=r"0 … 1.*found 2"):
            check([0, 2, 1], 3, 2)


def test_fixed_labels_are_a_copy() -> None:
    given = np.array([0, 1, -1])
    checks.fixed_labels(given, 3, 2)[:] = 0
    assert given.tolist() == [0, 1, -1]


def test_a_seed_gives_the_same_generator_and_a_generator_is_kept() -> None:
    assert checks.generator(3).random() == checks.generator(np.int64(3)).random()
    rng = np.random.default_rng(0)
    assert checks.generator(rng) is rng
    old = [checks.generator(np.random.RandomState(5)).random() for _ in range(2)]
    assert old[0] == old[1]
    assert checks.generator(None).random() != checks.generator(None).random()


@pytest.mark.parametrize("state", [-1, 1.5, "seed"], ids=repr)
def test_what_seeds_nothing_is_refused(state: Any) -> None:
    with pytest.raises(InputError, match="random_state must be None, a whole number ≥ 0 or a generator; found"):
        checks.generator(state)


def test_a_mass_that_is_all_there_is_cannot_be_balanced() -> None:
    with pytest.raises(InputError, match=r"leave nothing to balance: 1e\+300 at vertex 1 is more than"):
        checks.vertex_masses([1.0, 1e300, 1.0], 3)
    assert checks.vertex_masses([1.0, 1e11, 1.0], 3).tolist() == [1.0, 1e11, 1.0]
    assert checks.vertex_masses([1e300], 1).tolist() == [1e300]
    assert checks.vertex_masses([1e-300, 1e300, 1e300], 3).size == 3
    with pytest.raises(InputError, match="too large"):
        checks.vertex_masses([1, 10**400], 2)
