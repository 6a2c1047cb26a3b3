"""Frames of pandas and polars, pipelines, grid searches and clones: the estimators among the tools of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tautcut import MTVClassifier, MTVClustering, knn_graph
from tautcut.errors import InputError

pytestmark = pytest.mark.usefixtures("light_search")

pandas = pytest.importorskip("pandas")

NAMES = ["height", "width", "depth"]
BLOCKS = np.repeat([0, 1, 2], 30)


def blobs() -> np.ndarray:
    centres = np.array([[0.0, 0, 0], [4, 0, 1], [2, 3, 0]])
    return centres[BLOCKS] + np.random.default_rng(0).normal(scale=0.9, size=(BLOCKS.size, 3))


X = blobs()


def few(known: int = 8) -> np.ndarray:
    """−1 but for the first of each block."""
    return np.where(np.arange(BLOCKS.size) % 30 < known, BLOCKS, -1)


def pandas_frame() -> Any:
    return pandas.DataFrame(X, columns=NAMES)


def polars_frame() -> Any:
    return pytest.importorskip("polars").DataFrame(X, schema=NAMES)


FRAMES = pytest.mark.parametrize("make", [pandas_frame, polars_frame])


def clustering(**knobs: Any) -> MTVClustering:
    return MTVClustering(**{"n_clusters": 3, "n_init": 1, "random_state": 0, **knobs})


# ---------------------------------------------------------------- frames


@FRAMES
def test_a_frame_gives_what_its_array_gives_and_keeps_its_names(make: Any) -> None:
    frame, model = make(), clustering().fit(make())
    np.testing.assert_array_equal(model.labels_, clustering().fit(X).labels_)
    np.testing.assert_array_equal(model.feature_names_in_, NAMES)
    np.testing.assert_array_equal(model.predict(frame), clustering().fit(X).predict(X))
    fitted = MTVClassifier(random_state=0).fit(frame, few())
    np.testing.assert_array_equal(fitted.feature_names_in_, NAMES)
    np.testing.assert_array_equal(
        fitted.predict_proba(frame), MTVClassifier(random_state=0).fit(X, few()).predict_proba(X)
    )


@FRAMES
def test_columns_in_another_order_are_refused(make: Any) -> None:
    model = clustering().fit(make())
    with pytest.raises(ValueError, match="same order"):
        model.predict(make()[NAMES[::-1]])


def test_an_array_after_a_frame_forgets_the_names() -> None:
    model = clustering().fit(pandas_frame())
    assert not hasattr(model.fit(X), "feature_names_in_")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_memberships_come_as_the_frame_that_is_asked_for(library: str) -> None:
    module = pytest.importorskip(library)
    model = clustering().set_output(transform=library)
    out = model.fit_transform(pandas_frame())
    assert isinstance(out, module.DataFrame)
    assert list(out.columns) == model.get_feature_names_out().tolist() == [f"mtvclustering{r}" for r in range(3)]
    np.testing.assert_array_equal(np.asarray(out), clustering().fit(X).transform(X))


def test_a_square_frame_is_a_graph_and_its_index_names_the_vertices() -> None:
    names = [f"p{i}" for i in range(len(X))]
    W = pandas.DataFrame(knn_graph(X, 8).to_scipy().toarray(), index=names, columns=names)
    model = clustering(affinity="precomputed").fit(W)
    assert list(model.labels_by_node()) == names
    np.testing.assert_array_equal(model.labels_, clustering(affinity="precomputed").fit(W.to_numpy()).labels_)


def test_a_square_polars_frame_is_a_graph() -> None:
    polars = pytest.importorskip("polars")
    W = knn_graph(X, 8).to_scipy().toarray()
    model = clustering(affinity="precomputed").fit(polars.DataFrame(W))
    np.testing.assert_array_equal(model.labels_, clustering(affinity="precomputed").fit(W).labels_)


def test_rows_of_an_indexed_frame_are_labelled_and_returned_by_their_index() -> None:
    frame = pandas_frame().set_index(pandas.Index([f"p{i}" for i in range(len(X))]))
    model = MTVClassifier(random_state=0).fit(frame, {"p0": "x", "p30": "y", "p60": "z"})
    found = model.labels_by_node()
    assert list(found) == list(frame.index)
    assert (found["p0"], found["p30"], found["p60"]) == ("x", "y", "z")


def test_labels_may_be_a_polars_series_with_missing_values() -> None:
    polars = pytest.importorskip("polars")
    expected = MTVClassifier(random_state=0).fit(X, few())
    numbers = [None if label == -1 else int(label) for label in few()]
    model = MTVClassifier(random_state=0).fit(polars_frame(), polars.Series(numbers))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.classes_.dtype.kind == "i"
    np.testing.assert_array_equal(model.transduction_, expected.transduction_)
    words = polars.Series([None if label is None else f"class {label}" for label in numbers], dtype=polars.Categorical)
    assert MTVClassifier(random_state=0).fit(X, words).classes_.tolist() == ["class 0", "class 1", "class 2"]


def test_a_frame_of_words_is_refused_with_the_word() -> None:
    frame = pandas_frame().assign(colour="red")
    with pytest.raises(ValueError, match="red"):
        clustering().fit(frame)


# ---------------------------------------------------------------- pipelines, grid searches, clones


@FRAMES
def test_names_pass_through_a_pipeline(make: Any) -> None:
    scaled = make_column_transformer((StandardScaler(), NAMES[:2]), verbose_feature_names_out=False)
    pipeline = make_pipeline(scaled, clustering()).set_output(transform="pandas")
    out = pipeline.fit_transform(make())
    assert list(out.columns) == pipeline.get_feature_names_out().tolist() == [f"mtvclustering{r}" for r in range(3)]
    assert pipeline[-1].feature_names_in_.tolist() == NAMES[:2]
    twin = clone(pipeline)
    assert not hasattr(twin[-1], "labels_")
    pandas.testing.assert_frame_equal(twin.fit_transform(make()), out)


def test_a_grid_over_a_clustering_finds_the_number_of_blocks() -> None:
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), clustering()),
        {"mtvclustering__n_clusters": [2, 3], "mtvclustering__n_neighbors": [6, 10]},
        scoring="adjusted_rand_score",
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(pandas_frame(), BLOCKS)
    assert grid.best_params_["mtvclustering__n_clusters"] == 3
    assert grid.feature_names_in_.tolist() == NAMES
    assert grid.predict(pandas_frame()).shape == BLOCKS.shape


def test_a_grid_over_a_classifier_needs_no_label_of_the_others() -> None:
    model = MTVClassifier(random_state=0)
    grid = GridSearchCV(model, {"n_neighbors": [4, 8]}, cv=4, error_score="raise").fit(X, few())
    assert grid.best_score_ > 0.8  # at most 8 in 30 if unknown labels counted as wrong
    np.testing.assert_array_equal(grid.best_estimator_.classes_, [0, 1, 2])
    assert not hasattr(clone(grid.best_estimator_), "classes_")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_graph_is_split_by_rows_and_columns(form: Any) -> None:
    distance = np.linalg.norm(X[:, None] - X, axis=2)
    W = form(np.exp(-(distance**2)))
    scores = cross_val_score(
        MTVClassifier(affinity="precomputed", random_state=0), W, BLOCKS, cv=3, error_score="raise"
    )
    assert scores.min() > 0.8


def test_score_leaves_out_what_is_unknown() -> None:
    model = MTVClassifier(random_state=0).fit(X, few())
    y = np.where(np.arange(BLOCKS.size) % 3 == 0, BLOCKS, -1)
    right = model.predict(X) == BLOCKS
    assert model.score(X, y) == pytest.approx(right[::3].mean())
    assert model.score(X, BLOCKS) == pytest.approx(right.mean())
    assert model.score(X, np.where(y < 0, None, y)) == model.score(X, y)
    weights = np.arange(1.0, BLOCKS.size + 1)
    assert model.score(X, y, weights) == pytest.approx(np.average(right[::3], weights=weights[::3]))
    with pytest.raises(InputError, match="no labelled point"):
        model.score(X, np.full(BLOCKS.size, -1))
    with pytest.raises(ValueError, match="inconsistent"):
        model.score(X, y[:-1])
