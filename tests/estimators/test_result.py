"""What an estimator keeps and hands on: the whole result, the confidence, the page; and how it makes its graph."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs

from tautcut import MTVClassifier, MTVClustering, Problem, knn_graph
from tautcut.errors import InputError
from tautcut.estimators import shared
from tautcut.graph.confidence import confidence
from tautcut.neighbors import nearest

pytestmark = pytest.mark.usefixtures("light_search")

X, TRUTH = make_blobs(150, 4, centers=3, cluster_std=3.5, random_state=1)  # near enough to be one component
FEW = np.where(np.arange(150) % 10 == 0, TRUTH, -1)
NAMES = np.array(["setosa", "versicolor", "virginica"], dtype=object)


@pytest.fixture(scope="module")
def clustering() -> MTVClustering:
    return MTVClustering(3, random_state=0).fit(X)


@pytest.fixture(scope="module")
def classifier() -> MTVClassifier:
    known = np.where(FEW >= 0, NAMES[TRUTH], None)
    return MTVClassifier(random_state=0).fit(X, known)


def test_the_result_is_what_the_attributes_say(clustering: MTVClustering):
    result = clustering.result_
    assert result.problem.graph is clustering.graph_
    np.testing.assert_array_equal(result.partition.labels, clustering.labels_)
    np.testing.assert_array_equal(result.memberships, clustering.memberships_)
    np.testing.assert_array_equal(result.memberships.argmax(axis=1), clustering.labels_)
    assert (
        result.partition.energy
        == clustering.energy_
        == Problem(clustering.graph_, 3).partition(result.partition.labels).energy
    )
    assert (result.status, result.history, result.n_iter) == (
        clustering.status_,
        clustering.history_,
        clustering.n_iter_,
    )
    assert result.last_memberships.shape == (150, 3)


def test_the_result_of_a_classifier_holds_the_labels_given(classifier: MTVClassifier):
    problem = classifier.result_.problem
    assert problem.has_labels
    np.testing.assert_array_equal(problem.labels, FEW)
    np.testing.assert_array_equal(classifier.classes_[classifier.result_.partition.labels], classifier.transduction_)


def test_confidence_is_that_of_the_labels_and_computed_once(clustering: MTVClustering):
    np.testing.assert_array_equal(clustering.confidence_, confidence(clustering.graph_, clustering.labels_, 3))
    assert clustering.confidence_ is clustering.result_.confidence


@pytest.mark.parametrize(
    "settings", [{"metric": "cosine"}, {"weights": "self-tuning"}, {"weights": "gaussian", "metric": "cosine"}]
)
def test_the_graph_is_the_one_asked_for(settings: dict[str, Any]):
    model = MTVClustering(3, n_neighbors=7, random_state=0, **settings).fit(X)
    expected = knn_graph(X, 7, **settings)
    np.testing.assert_array_equal(model.graph_.indices, expected.indices)
    np.testing.assert_array_equal(model.graph_.weights, expected.weights)
    plain = knn_graph(X, 7)
    assert model.graph_.indices.size != plain.indices.size or not np.array_equal(model.graph_.weights, plain.weights)


def test_new_points_are_compared_by_the_same_metric():
    rng = np.random.default_rng(0)
    new = X[::7] * rng.uniform(0.1, 10, (X[::7].shape[0], 1))  # the same directions, other lengths
    cosine = MTVClustering(3, metric="cosine", random_state=0).fit(X)
    near, _ = nearest(X, new, 10, metric="cosine")
    np.testing.assert_allclose(cosine.transform(new), cosine.memberships_[near].mean(axis=1))
    assert not np.array_equal(near, nearest(X, new, 10)[0])


@pytest.mark.parametrize("name", ["metric", "weights"])
def test_an_unknown_metric_or_weight_is_named(name: str):
    with pytest.raises(InputError, match=f"{name}.*'taxicab'"):
        MTVClustering(3, **{name: "taxicab"}).fit(X)


def test_the_seed_fixes_approximate_neighbours_too(monkeypatch: pytest.MonkeyPatch):
    """Only the approximate search draws; it is given the same numbers by the same seed, and the starts lose none."""
    drawn: list[float] = []
    original = shared.neighbor_graph

    def spy(features: Any, k: int, *, random_state: np.random.Generator, **more: Any) -> Any:
        drawn.append(float(random_state.random()))
        return original(features, k, random_state=random_state, **more)

    plain = MTVClustering(3, random_state=5).fit(X)
    monkeypatch.setattr(shared, "neighbor_graph", spy)
    for random_state in (5, 5, np.random.default_rng(5), 6):
        model = MTVClustering(3, random_state=random_state).fit(X)
        if random_state != 6:
            np.testing.assert_array_equal(model.labels_, plain.labels_)
    assert drawn[0] == drawn[1] == drawn[2] == np.random.default_rng(5).random() != drawn[3]


# ---------------------------------------------------------------- the page


def content(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_the_page_shows_the_result(clustering: MTVClustering, tmp_path: Path):
    page = clustering.report(tmp_path / "page.html")
    told = content(page)
    assert [cluster["size"] for cluster in told["clusters"]] == clustering.result_.partition.sizes.tolist()
    assert "MTVClustering" in json.dumps(told)


def test_the_page_names_classes_points_and_columns(tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        X, columns=["sepal_l", "sepal_w", "petal_l", "petal_w"], index=[f"flower {i}" for i in range(150)]
    )
    known = np.where(FEW >= 0, NAMES[TRUTH], None)
    model = MTVClassifier(random_state=0).fit(frame, known)
    told = json.dumps(content(model.report(tmp_path / "page.html")))
    for text in ("versicolor", "petal_w", "flower 1"):
        assert text in told


def test_a_page_of_a_graph_needs_no_features(tmp_path: Path):
    model = MTVClustering(3, affinity="precomputed", random_state=0).fit(knn_graph(X, 10))
    assert content(model.report(tmp_path / "page.html"))["clusters"]


def test_only_a_fitted_model_has_a_page(tmp_path: Path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        MTVClustering(3).report(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    assert not hasattr(MTVClustering(3), "confidence_")


def test_settings_on_the_page_repeat_the_run(clustering: MTVClustering, tmp_path: Path):
    start = np.random.default_rng(0).dirichlet(np.ones(3), 150)
    model = MTVClustering(3, init=start, n_init=1, search="none", random_state=0).fit(X)
    assert model._changed_params() == {
        "model": "MTVClustering", "n_clusters": 3, "init": "array of shape (150, 3)", "n_init": 1, "search": "none",
        "random_state": 0,
    }  # fmt: skip
    assert clone(clustering)._changed_params() == {"model": "MTVClustering", "n_clusters": 3, "random_state": 0}
