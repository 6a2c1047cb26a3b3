"""Labels as users give them, as numbers of their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tautcut.errors import InputError
from tautcut.targets import encode_labels, in_order


def test_encoding_keeps_the_places() -> None:
    classes, codes = encode_labels(np.array(["b", None, "a", "b", float("nan")], dtype=object), 5)
    np.testing.assert_array_equal(classes, ["a", "b"])
    np.testing.assert_array_equal(codes, [1, -1, 0, 1, -1])


@pytest.mark.parametrize("unknown", [[None] * 3, [-1] * 3, [float("nan")] * 3, [""] * 3, np.full(3, "")])
def test_all_may_be_unknown_where_that_is_said(unknown: Any) -> None:
    classes, codes = encode_labels(unknown, 3, or_none=True)
    assert classes.size == 0
    assert codes.tolist() == [-1] * 3
    with pytest.raises(InputError, match="no labelled point"):
        encode_labels(unknown, 3)


def test_a_dict_is_put_in_order() -> None:
    assert in_order({"b": 1}, ["a", "b"]).tolist() == [None, 1]
    with pytest.raises(InputError, match="'c', which is no vertex"):
        in_order({"c": 1}, ["a", "b"])
    with pytest.raises(InputError, match="more than one vertex"):
        in_order({"a": 1}, ["a", "a"])
