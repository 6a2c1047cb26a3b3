"""The accuracy that is estimated without the truth."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tautcut import MTVClassifier, knn_graph
from tautcut.search.certainty import estimated_accuracy, held_back


@pytest.fixture(scope="module")
def digits():
    X, truth = load_digits(return_X_y=True)
    return knn_graph(X[:900], 10), truth[:900]


@pytest.fixture(scope="module")
def model(digits):
    graph, truth = digits
    known = np.where(np.arange(truth.size) < 50, truth, -1)
    return MTVClassifier(affinity="precomputed", random_state=0).fit(graph, known)


def test_the_interval_holds_the_accuracy_of_digits(digits, model):
    truth, found = digits[1], model.estimate_accuracy()
    right = (model.transduction_ == truth)[50:].mean()
    assert 0 < found.low < found.value < found.high < 1
    assert found.low <= right <= found.high
    assert found.n_checked == 50
    assert f"{found.value:.0%}" in str(found)


def test_random_checks_move_the_estimate_and_narrow_it(model):
    alone = estimated_accuracy(model.result_)
    assert alone.value == pytest.approx(model.confidence_[50:].mean())
    confirmed, refuted = (estimated_accuracy(model.result_, n_right=right, n_wrong=200 - right) for right in (200, 100))
    assert refuted.value < alone.value < confirmed.value
    assert confirmed.high - confirmed.low < alone.high - alone.low
    assert confirmed.n_checked == 200
    many = estimated_accuracy(model.result_, n_right=70_000, n_wrong=30_000)
    assert many.value == pytest.approx(0.7, abs=0.005), "in the end the checks decide alone"


def test_more_labels_narrow_it(digits):
    graph, truth = digits
    widths = []
    for n in (20, 200):
        known = np.where(np.arange(truth.size) < n, truth, -1)
        found = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, known).estimate_accuracy()
        widths.append(found.high - found.low)
    assert widths[1] < widths[0]


def test_where_all_is_known_nothing_is_in_doubt(digits):
    graph, truth = digits
    found = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, truth).estimate_accuracy()
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_a_single_class_is_finite(digits):
    graph, _ = digits
    found = MTVClassifier(affinity="precomputed", random_state=0).fit(graph, {0: "only"}).estimate_accuracy()
    assert np.isfinite([found.value, found.low, found.high]).all()


def test_held_back_labels_leave_one_to_every_class_and_are_asked_for_once():
    given = np.array([0, 0, 0, 1, 1, 2, -1, -1])
    parts = list(held_back(given, None, 2))
    asked = sum(((few < 0) & (given >= 0)).astype(int) for few in parts)
    np.testing.assert_array_equal(asked, [1, 1, 1, 1, 1, 0, 0, 0])
    assert all(set(few[few >= 0]) == {0, 1, 2} for few in parts)


def test_a_group_is_held_back_as_a_whole():
    given, groups = np.array([0, 0, 0, 1, 1, -1]), np.array([0, 0, 1, 2, 3, 3])
    for few in held_back(given, groups, 2):
        assert (few[0] < 0) == (few[1] < 0)
    alone = np.array([0, 0, 0, 1, 2, 3])
    assert all((few[:3] == 0).all() for few in held_back(given, alone, 2)), "one group is all that class 0 has"
