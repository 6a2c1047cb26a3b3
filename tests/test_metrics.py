"""Purity, matched accuracy, NMI and ARI against their definitions."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautcut.errors import InputError
from tautcut.metrics import accuracy, ari, nmi, purity

LABELINGS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(LABELINGS)
@settings(deadline=None)
def test_purity_and_accuracy_by_definition(pairs):
    labels, truth = map(np.array, zip(*pairs, strict=True))
    majority = sum(max(np.sum(truth[labels == r] == c) for c in range(4)) for r in set(labels.tolist()))
    matched = max(np.sum(np.array(p)[labels] == truth) for p in permutations(range(4)))
    assert purity(labels, truth) == pytest.approx(majority / len(pairs))
    assert accuracy(labels, truth) == pytest.approx(matched / len(pairs))
    assert accuracy(labels, truth) <= purity(labels, truth)


@given(LABELINGS, st.permutations(range(4)))
@settings(deadline=None)
def test_renaming_clusters_changes_nothing(pairs, names):
    labels, truth = map(np.array, zip(*pairs, strict=True))
    renamed = np.array(names)[labels]
    for score in (purity, accuracy, nmi, ari):
        assert score(renamed, truth) == pytest.approx(score(labels, truth))


def test_a_perfect_partition_scores_one():
    for score in (purity, accuracy, nmi, ari):
        assert score([2, 2, 0, 0, 1], ["a", "a", "b", "b", "c"]) == pytest.approx(1.0)


def test_accuracy_with_more_clusters_than_classes():
    labels, truth = [0, 0, 1, 1], [7, 7, 7, 7]
    assert purity(labels, truth) == 1.0
    assert accuracy(labels, truth) == 0.5


def test_labels_of_any_kind():
    objects = np.array([None, "x", 3, None], dtype=object)
    assert purity(objects, [True, False, False, True]) == 1.0
    assert accuracy(objects, objects) == 1.0
    assert ari(objects, objects) == pytest.approx(1.0)


@pytest.mark.parametrize("score", [purity, accuracy, nmi, ari])
@pytest.mark.parametrize(
    ("labels", "truth", "message"),
    [([0, 1], [0], r"\(2,\) and \(1,\)"), ([], [], "empty"), ([[0], [1]], [[0], [1]], "1-D")],
)
def test_bad_labels_are_refused(score, labels, truth, message):
    with pytest.raises(InputError, match=message):
        score(labels, truth)
