"""`MTVClassifier` as a user meets it: kinds of labels, known labels kept, new points, and scikit-learn."""

from __future__ import annotations

import pickle
from typing import Any

import igraph
import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from strategies import planted_graph
from tautcut import Graph, MTVClassifier, balanced_cut_energy, walk_graph
from tautcut.algorithm.stopping import Status
from tautcut.errors import GraphWarning, InputError
from tautcut.problem import lam_of_prior
from tautcut.search import transduction

R = 3
SIZE = 20
BLOCKS = np.repeat(np.arange(R), SIZE)
NAMES = np.array(["ash", "birch", "cedar"])[BLOCKS]
LABELLED = np.array([0, 5, 23, 31, 44, 58])  # two in each block


def blobs(seed: int = 0) -> np.ndarray:
    """Three clouds that touch, so that their nearest-neighbour graph is connected."""
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 4.0]])
    return centres[BLOCKS] + np.random.default_rng(seed).normal(size=(BLOCKS.size, 2))


X = blobs()
GRAPH = planted_graph(R, SIZE, seed=0, is_weighted=True)


def few(truth: np.ndarray, unknown: Any = -1, at: np.ndarray = LABELLED) -> np.ndarray:
    """`truth` at the labelled vertices and `unknown` elsewhere."""
    y = np.full(truth.size, unknown, dtype=object if unknown is None else None)
    y[at] = truth[at]
    return y


def classifier(**knobs: Any) -> MTVClassifier:
    return MTVClassifier(**{"n_neighbors": 10, "random_state": 0, **knobs})


def on_graph(**knobs: Any) -> MTVClassifier:
    return classifier(**{"affinity": "precomputed", **knobs})


# ---------------------------------------------------------------- what it stores


@pytest.mark.parametrize("search", ["none", "short"])
def test_what_a_fit_stores_fits_together(search: str) -> None:
    model = on_graph(search=search).fit(GRAPH, few(BLOCKS))
    F = model.memberships_
    codes = np.searchsorted(model.classes_, model.transduction_)
    assert F.shape == (GRAPH.n_vertices, R)
    assert F.min() >= 0
    np.testing.assert_allclose(F.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(F.argmax(axis=1), codes)
    np.testing.assert_array_equal(F[LABELLED], np.eye(R)[BLOCKS[LABELLED]])
    assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, codes))
    assert isinstance(model.status_, Status)
    assert model.history_[-1].iterations == model.n_iter_ >= 1
    assert model.graph_ is GRAPH


def test_smoothing_cuts_the_graph_of_the_walk() -> None:
    model = on_graph(smoothing=8).fit(GRAPH, few(BLOCKS))
    np.testing.assert_array_equal(model.graph_.indices, walk_graph(GRAPH, 8).indices)
    np.testing.assert_array_equal(model.transduction_, BLOCKS)


@pytest.mark.parametrize("knobs", [{}, {"must_link": [(0, 1), (25, 26)]}], ids=["free", "linked"])
def test_labels_of_a_smoothed_graph_weigh_by_what_they_say_in_either(
    monkeypatch: pytest.MonkeyPatch, knobs: dict[str, Any]
) -> None:
    heard, heed = [], transduction.heed

    def listening(result: Any, evidence: Any, smallest: Any) -> Any:
        heard.append((result.problem, evidence))
        return heed(result, evidence, smallest)

    monkeypatch.setattr(transduction, "heed", listening)
    on_graph(**knobs).fit(GRAPH, few(BLOCKS))
    on_graph(smoothing=8, **knobs).fit(GRAPH, few(BLOCKS))
    (plain, before), (smoothed, either) = heard
    after = transduction.Evidence.of_labels(smoothed.graph, plain.labels, R)
    assert plain.graph.n_edges != smoothed.graph.n_edges
    np.testing.assert_array_equal(either.values, np.maximum(before.values, after.values))
    assert (before.values > after.values).any()
    assert (after.values > before.values).any()


def test_a_smoothed_fit_takes_copies_too() -> None:
    model = classifier(smoothing=30, duplicates="merge").fit(np.r_[X, X[:9]], few(np.r_[BLOCKS, BLOCKS[:9]]))
    assert (model.transduction_ == np.r_[BLOCKS, BLOCKS[:9]]).mean() > 0.9


def test_the_planted_blocks_are_found_from_two_labels_each() -> None:
    np.testing.assert_array_equal(on_graph().fit(GRAPH, few(BLOCKS)).transduction_, BLOCKS)


@pytest.mark.parametrize("search", ["none", "short"])
def test_known_labels_are_kept_even_where_they_are_wrong(search: str) -> None:
    y = few((BLOCKS + 1) % R, at=np.array([3]))
    y[[10, 30, 50]] = 0, 1, 2
    model = on_graph(search=search).fit(GRAPH, y)
    np.testing.assert_array_equal(model.transduction_[y >= 0], y[y >= 0])
    assert model.transduction_[3] == 1
    assert (model.transduction_ == BLOCKS).mean() > 0.9


@pytest.mark.parametrize("init", ["ncut-seeds", "ncut", "random"])
def test_with_labels_every_named_start_is_the_same(init: str) -> None:
    default = on_graph().fit(GRAPH, few(BLOCKS))
    np.testing.assert_array_equal(on_graph(init=init).fit(GRAPH, few(BLOCKS)).memberships_, default.memberships_)


def test_an_array_is_a_start_that_the_labels_overrule() -> None:
    start = np.eye(R)[(BLOCKS + 1) % R]
    model = on_graph(init=start).fit(GRAPH, few(BLOCKS))
    np.testing.assert_array_equal(model.transduction_[LABELLED], BLOCKS[LABELLED])


def test_the_same_seed_gives_the_same_fit_and_other_seeds_run() -> None:
    y = few(BLOCKS)
    a, b = (on_graph(random_state=5, n_init=2).fit(GRAPH, y) for _ in range(2))
    np.testing.assert_array_equal(a.memberships_, b.memberships_)
    for seed in (1, 2**33, None):
        np.testing.assert_array_equal(
            on_graph(random_state=seed).fit(GRAPH, y).transduction_[LABELLED], BLOCKS[LABELLED]
        )


def test_class_prior_sets_lambda_in_the_order_of_the_classes() -> None:
    prior = [0.5, 0.3, 0.2]
    model = on_graph(class_prior=prior).fit(GRAPH, few(NAMES, None))
    codes = np.searchsorted(model.classes_, model.transduction_)
    assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, codes, lam_of_prior(prior, R)))


def test_class_prior_of_another_length_counts_the_classes_seen() -> None:
    with pytest.raises(InputError, match=r"class_prior.* 3 "):
        on_graph(class_prior=[0.5, 0.5]).fit(GRAPH, few(BLOCKS))


# ---------------------------------------------------------------- kinds of labels


@pytest.mark.parametrize(
    ("truth", "unknown"),
    [
        (BLOCKS, -1),
        (BLOCKS, None),
        (BLOCKS.astype(float), np.nan),
        (BLOCKS.astype(float), -1.0),
        (BLOCKS.astype(np.int8), -1),
        (7 * BLOCKS - 20, -1),
        (NAMES, None),
        (NAMES.astype(object), np.nan),
        (BLOCKS.astype(object), np.nan),
    ],
    ids=["int", "none", "nan", "float", "int8", "negative", "strings", "strings-nan", "objects"],
)
def test_every_kind_of_label_and_of_unknown(truth: np.ndarray, unknown: Any) -> None:
    y = few(truth, None) if truth.dtype == object else few(truth, unknown)
    if truth.dtype == object:
        y[[value is None for value in y]] = unknown
    model = on_graph().fit(GRAPH, y)
    np.testing.assert_array_equal(model.classes_, np.unique(truth.tolist()))
    np.testing.assert_array_equal(model.transduction_, truth)
    assert model.transduction_.dtype == model.classes_.dtype


def test_labels_may_be_lists_series_and_missing_values_of_pandas() -> None:
    expected = on_graph().fit(GRAPH, few(BLOCKS)).transduction_
    frame = pandas.Series(few(BLOCKS, None), dtype="Int64")
    assert frame.isna().sum() == 54
    categories = pandas.Series(few(NAMES, None), dtype="category")
    np.testing.assert_array_equal(on_graph().fit(GRAPH, few(BLOCKS).tolist()).transduction_, expected)
    np.testing.assert_array_equal(on_graph().fit(GRAPH, frame).transduction_, expected)
    np.testing.assert_array_equal(on_graph().fit(GRAPH, categories).transduction_, NAMES)


def test_booleans_are_classes() -> None:
    path = Graph.from_edges([(i, i + 1) for i in range(9)])
    y = np.full(10, None)
    y[0], y[9] = False, True
    model = on_graph().fit(path, y)
    np.testing.assert_array_equal(model.classes_, [False, True])
    np.testing.assert_array_equal(model.transduction_, np.arange(10) >= 5)


def test_a_single_class_is_everywhere() -> None:
    for knobs in ({}, {"search": "none"}):
        model = on_graph(**knobs).fit(GRAPH, few(np.full(60, 4)))
        np.testing.assert_array_equal(model.transduction_, np.full(60, 4))
        np.testing.assert_array_equal(model.memberships_, np.ones((60, 1)))
        assert model.energy_ == 0


def test_a_single_label_per_class_is_enough() -> None:
    model = on_graph().fit(GRAPH, few(BLOCKS, at=np.array([0, 23, 44])))
    np.testing.assert_array_equal(model.transduction_, BLOCKS)


def test_many_classes_with_a_single_label_each_are_no_regression() -> None:
    path = Graph.from_edges([(i, i + 1) for i in range(59)])
    y = np.full(60, -1)
    y[::2] = np.arange(30)
    model = on_graph(device="reference", max_iter=50, search="none").fit(path, y)
    np.testing.assert_array_equal(model.transduction_[::2], np.arange(30))


def test_everything_labelled_is_everything_kept() -> None:
    truth = np.random.default_rng(0).integers(0, R, 60)
    model = on_graph().fit(GRAPH, truth)
    np.testing.assert_array_equal(model.transduction_, truth)
    np.testing.assert_array_equal(model.memberships_, np.eye(R)[truth])
    assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, truth))
    assert model.status_ is Status.TRIVIAL
    assert model.n_iter_ == 0


def test_only_one_vertex_is_free() -> None:
    y = BLOCKS.copy()
    y[30] = -1
    np.testing.assert_array_equal(on_graph().fit(GRAPH, y).transduction_, BLOCKS)


def test_a_column_of_labels_is_a_warning() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = on_graph().fit(GRAPH, few(BLOCKS)[:, None])
    np.testing.assert_array_equal(model.transduction_, BLOCKS)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, "requires y to be passed"),
        (np.full(60, -1), "no labelled point"),
        (np.full(60, np.nan), "no labelled point"),
        (np.full(60, None), "no labelled point"),
        (BLOCKS[:10], r"inconsistent numbers of samples: \[10, 60\]"),
        (np.zeros((60, 2)), r"\(60, 2\)"),
        (np.linspace(0, 1, 60) + 0.5, "must be whole numbers; found 0.5 in y"),
        (np.where(BLOCKS == 1, np.inf, BLOCKS), "must be whole numbers; found inf in y"),
        (np.array(["a", 1] * 30, dtype=object), "strings"),
        (np.zeros(60, dtype=complex) + 1j, "label type"),
    ],
    ids=["missing", "-1", "nan", "none", "short", "two", "continuous", "inf", "mixed", "complex"],
)
def test_labels_that_are_none_are_refused(y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        on_graph().fit(GRAPH, y)


# ---------------------------------------------------------------- what it takes


def test_every_form_of_the_same_graph_gives_the_same_labels() -> None:
    W = GRAPH.to_scipy()
    upper = sp.triu(W).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    as_igraph = igraph.Graph(n=60, edges=edges)
    as_igraph.es["weight"] = upper.data.tolist()
    forms = [W, W.tocsc(), W.tocoo(), W.tolil(), W.todok(), sp.csr_array(W), W.toarray()]
    expected = on_graph().fit(GRAPH, few(BLOCKS)).memberships_
    for form in [*forms, networkx.from_scipy_sparse_array(W), as_igraph]:
        np.testing.assert_array_equal(on_graph().fit(form, few(BLOCKS)).memberships_, expected)


def test_a_piece_without_labels_and_isolated_vertices_are_labelled_too() -> None:
    W = sp.block_diag([GRAPH.to_scipy(), planted_graph(1, 10, seed=3).to_scipy(), sp.csr_matrix((3, 3))])
    y = np.r_[few(BLOCKS), np.full(13, -1)]
    with pytest.warns(GraphWarning) as seen:
        model = on_graph().fit(W, y)
    said = " ".join(str(warning.message) for warning in seen)
    assert "3 of the 73 vertices are isolated" in said
    assert "2 components" in said
    np.testing.assert_array_equal(model.transduction_[:60], BLOCKS)
    assert set(model.transduction_) == set(range(R))
    np.testing.assert_array_equal(model.memberships_.argmax(axis=1), model.transduction_)


# ---------------------------------------------------------------- new points


def test_new_points_take_the_class_around_them() -> None:
    model = classifier().fit(X, few(NAMES, None))
    far = np.array([[-3.0, -3.0], [8.0, -3.0], [2.5, 9.0]])
    np.testing.assert_array_equal(model.predict(far), ["ash", "birch", "cedar"])
    assert model.score(X, NAMES) > 0.9
    assert (model.transduction_ == NAMES).mean() > 0.9


def test_predict_proba_is_the_mean_of_the_neighbors_probabilities() -> None:
    model = classifier(n_neighbors=5).fit(X, few(NAMES, None))
    new = np.array([[0.3, 0.2], [2.4, 2.0]])
    nearest = np.linalg.norm(new[:, None] - X, axis=2).argsort(axis=1)[:, :5]
    probabilities = model.predict_proba(new)
    np.testing.assert_allclose(probabilities, model.result_.probabilities[nearest].mean(axis=1))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(model.predict(new), model.classes_[probabilities.argmax(axis=1)])


def test_with_a_precomputed_graph_predict_takes_similarities() -> None:
    model = on_graph().fit(GRAPH, few(NAMES, None))
    S = np.zeros((2, 60))
    S[0, LABELLED[:2]] = 0.5, 2.0
    S[1, LABELLED[4]] = 1.0
    np.testing.assert_array_equal(model.predict(S), ["ash", "cedar"])
    np.testing.assert_array_equal(model.predict(sp.csc_matrix(S)), ["ash", "cedar"])
    np.testing.assert_array_equal(model.predict_proba(S), np.eye(R)[[0, 2]])
    assert model.score(S, ["ash", "ash"]) == 0.5


def test_a_point_like_no_other_has_even_memberships() -> None:
    model = on_graph().fit(GRAPH, few(BLOCKS))
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 60))), np.full((1, R), 1 / R))


def test_predict_before_fit_says_so() -> None:
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(classifier(), method)(X)


# ---------------------------------------------------------------- in scikit-learn


def test_clones_and_copies_agree() -> None:
    model = classifier(class_prior=[0.2, 0.3, 0.5], n_init=2).fit(X, few(NAMES, None))
    twin = clone(model)
    assert not hasattr(twin, "classes_")
    assert twin.get_params() == model.get_params()
    np.testing.assert_array_equal(twin.fit(X, few(NAMES, None)).transduction_, model.transduction_)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))


def test_a_data_frame_gives_feature_names() -> None:
    frame = pandas.DataFrame(X, columns=["height", "width"])
    model = classifier().fit(frame, few(BLOCKS))
    np.testing.assert_array_equal(model.feature_names_in_, ["height", "width"])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["width", "height"]])


@pytest.mark.filterwarnings("ignore::tautcut.errors.GraphWarning")
def test_cross_validation_chooses_a_parameter() -> None:
    search = GridSearchCV(classifier(search="none"), {"n_neighbors": [39, 5]}, cv=3, error_score="raise")
    search.fit(X, few(BLOCKS, at=np.arange(60)[::3]))
    assert search.best_params_ == {"n_neighbors": 5}
    assert search.best_score_ > max(0.8, search.cv_results_["mean_test_score"][0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("affinity", "rbf"),
        ("init", "magic"),
        ("algorithm", "quick"),
        ("search", "long"),
        ("device", "abacus"),
        ("dtype", "int8"),
        ("n_init", 0),
        ("min_cluster_size", -2),
    ],
)
def test_an_unknown_option_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name) as raised:
        on_graph(**{name: value}).fit(GRAPH, few(BLOCKS))
    assert str(value) in str(raised.value)


def test_a_bar_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    model = on_graph(verbose=True).fit(GRAPH, few(BLOCKS))
    assert "best cut" in capsys.readouterr().err
    np.testing.assert_array_equal(model.transduction_, BLOCKS)


@pytest.mark.parametrize("blank", ["", " "])
def test_an_empty_string_is_unknown(blank: str) -> None:
    known = few(NAMES.astype(object), None)
    expected = classifier().fit(X, known).transduction_
    words = ["" if one is None else one for one in known.tolist()]
    for y in (np.array(words), words, np.array(words, dtype=object), [one or blank for one in words]):
        model = classifier().fit(X, y)
        assert model.classes_.tolist() == ["ash", "birch", "cedar"]
        assert model.transduction_.tolist() == expected.tolist()
    with pytest.raises(InputError, match=r"every label is −1, None, NaN or empty"):
        classifier().fit(X, [blank] * X.shape[0])


@pytest.mark.parametrize("unknown", [-1, None, float("nan"), ""])
def test_a_list_of_words_may_have_any_mark_of_the_unknown(unknown: Any) -> None:
    y = [NAMES[i] if i in LABELLED else unknown for i in range(NAMES.size)]
    assert classifier().fit(X, y).classes_.tolist() == ["ash", "birch", "cedar"]


def test_a_list_of_numbers_may_have_empty_strings() -> None:
    y = [int(BLOCKS[i]) if i in LABELLED else "" for i in range(BLOCKS.size)]
    assert classifier().fit(X, y).classes_.tolist() == [0, 1, 2]
