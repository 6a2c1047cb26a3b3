"""scikit-learn's own checks of an estimator, on both of ours. What cannot apply is an xfail with its reason,
strict as all of them are in this suite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from tautcut import MTVClassifier, MTVClustering

# The checks fit blobs so far apart that their nearest-neighbour graph has several components.
pytestmark = pytest.mark.filterwarnings("ignore::tautcut.errors.GraphWarning")

COPIES = (
    "it repeats rows, and copies are one another's nearest neighbours, where a weight leaves the graph as it is; with "
    'duplicates="merge" the two are equal (test_masses.py)'
)
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data": COPIES,
    "check_sample_weight_equivalence_on_sparse_data": COPIES,
}
CANNOT_APPLY = {
    "MTVClustering": EQUIVALENCE,
    "MTVClassifier": EQUIVALENCE
    | {
        "check_classifiers_classes": (
            "one of its targets has the classes −1 and 1; here −1 means that the label is unknown, "
            "as in scikit-learn's own semi-supervised module"
        ),
        "check_non_transformer_estimators_n_iter": (
            "it labels every point and asks for n_iter_ ≥ 1; with every label fixed nothing is iterated"
        ),
    },
}


def reasons(estimator: BaseEstimator) -> dict[str, str]:
    return CANNOT_APPLY[type(estimator).__name__]


@parametrize_with_checks(
    [MTVClustering(n_clusters=3, n_neighbors=5, n_init=1), MTVClassifier(n_neighbors=5)],
    expected_failed_checks=reasons,
)
def test_scikit_learn_check(estimator: BaseEstimator, check: Callable[[Any], None]) -> None:
    check(estimator)
