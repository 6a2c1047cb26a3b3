"""Purity, matched accuracy, NMI and ARI against their definitions."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

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


@given(LABELINGS)
@settings(deadline=None)
def test_ari_counts_pairs_and_corrects_for_chance(pairs):
    together = [(a == c, b == d) for (a, b), (c, d) in combinations(pairs, 2)]
    both = sum(x and y for x, y in together)
    inside, same = (sum(pair[k] for pair in together) for k in (0, 1))
    expected, largest = inside * same / max(len(together), 1), (inside + same) / 2
    assert ari(*zip(*pairs, strict=True)) == pytest.approx(
        1.0 if largest == expected else (both - expected) / (largest - expected)
    )


@given(LABELINGS)
@settings(deadline=None)
def test_nmi_is_the_information_over_the_mean_entropy(pairs):
    def entropy(values: list[object]) -> float:
        shares = np.array(list(Counter(values).values())) / len(values)
        return float(-(shares * np.log(shares)).sum())

    labels, truth = zip(*pairs, strict=True)
    mean = (entropy(labels) + entropy(truth)) / 2
    information = entropy(labels) + entropy(truth) - entropy(pairs)
    assert nmi(labels, truth) == pytest.approx(information / mean if mean > 0 else 1.0, abs=1e-9)


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
