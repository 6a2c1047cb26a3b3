"""`MTVClustering` as a user meets it: what it takes, stores and says, and how it lives in scikit-learn."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import igraph
import joblib
import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from strategies import noisy_start, planted_graph, random_graph
from tautcut import Graph, MTVClustering, balanced_cut_energy, knn_graph, walk_graph
from tautcut.algorithm.solver import solve
from tautcut.algorithm.stopping import Status, StopRule
from tautcut.errors import GraphWarning, InputError
from tautcut.problem import Problem, lam_of_prior
from tautcut.search.driver import agreeing_memberships

pytestmark = pytest.mark.usefixtures("light_search")

R = 3
SIZE = 20
BLOCKS = np.repeat(np.arange(R), SIZE)


def blobs(seed: int = 0) -> np.ndarray:
    """Three clouds that touch, so that their nearest-neighbour graph is connected."""
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 4.0]])
    return centres[BLOCKS] + np.random.default_rng(seed).normal(size=(BLOCKS.size, 2))


X = blobs()
GRAPH = planted_graph(R, SIZE, seed=0, is_weighted=True)


def clustering(**knobs: Any) -> MTVClustering:
    return MTVClustering(**{"n_clusters": R, "n_neighbors": 10, "n_init": 1, "random_state": 0, **knobs})


def on_graph(**knobs: Any) -> MTVClustering:
    return clustering(**{"affinity": "precomputed", **knobs})


def same_clusters(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two labellings differ by the names of the clusters only."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


def sparse_formats() -> list[Any]:
    W = GRAPH.to_scipy()
    formats = [W.asformat(name) for name in ("csr", "csc", "coo", "lil", "dok", "bsr")]
    return [*formats, sp.csr_array(W), sp.coo_array(W)]


def as_networkx() -> networkx.Graph:
    return networkx.from_scipy_sparse_array(GRAPH.to_scipy())


def as_igraph() -> igraph.Graph:
    upper = sp.triu(GRAPH.to_scipy()).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    built = igraph.Graph(n=GRAPH.n_vertices, edges=edges)
    built.es["weight"] = upper.data.tolist()
    return built


# ---------------------------------------------------------------- what it stores


@pytest.mark.parametrize("search", ["none", "short"])
@pytest.mark.parametrize("init", ["multilevel", "ncut-seeds", "ncut", "random"])
def test_what_a_fit_stores_fits_together(init: str, search: str) -> None:
    model = on_graph(init=init, search=search, n_init=2).fit(GRAPH)
    F = model.memberships_
    assert model.labels_.shape == (GRAPH.n_vertices,)
    assert F.shape == (GRAPH.n_vertices, R)
    assert F.min() >= 0
    np.testing.assert_allclose(F.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(F.argmax(axis=1), model.labels_)
    assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, model.labels_))
    assert isinstance(model.status_, Status)
    assert model.history_[-1].iterations == model.n_iter_ >= 1
    assert np.isfinite(model.relaxed_energy_)
    assert model.graph_ is GRAPH
    assert model.n_features_in_ == GRAPH.n_vertices


@pytest.mark.parametrize("n_init", ["auto", 1])
def test_the_planted_blocks_are_found(n_init: Any) -> None:
    assert same_clusters(on_graph(n_init=n_init).fit_predict(GRAPH), BLOCKS)


def test_features_become_their_nearest_neighbor_graph() -> None:
    model = clustering().fit(X)
    assert model.graph_.n_vertices == len(X)
    assert model.energy_ == pytest.approx(balanced_cut_energy(model.graph_, model.labels_))
    precomputed = on_graph().fit(model.graph_)
    np.testing.assert_array_equal(model.labels_, precomputed.labels_)


def test_smoothing_cuts_the_graph_of_the_walk() -> None:
    model = clustering(smoothing=12).fit(X)
    walked = walk_graph(knn_graph(X, model.n_neighbors), 12)
    np.testing.assert_array_equal(model.graph_.indices, walked.indices)
    np.testing.assert_array_equal(model.labels_, on_graph().fit(walked).labels_)
    np.testing.assert_array_equal(model.labels_, on_graph(smoothing=12).fit(knn_graph(X, 10)).labels_)
    assert model.predict(X).shape == (len(X),)


def test_automatic_smoothing_keeps_a_walk_that_shows_clusters_and_no_other() -> None:
    clear, vague = planted_graph(3, 40, seed=1), random_graph(120, 500, seed=1)
    for graph, smoothing in ((clear, 30), (vague, None)):
        chosen = on_graph(n_clusters=3, smoothing="auto").fit(graph)
        assert chosen.smoothing_ == smoothing
        assert np.array_equal(chosen.labels_, on_graph(n_clusters=3, smoothing=smoothing).fit(graph).labels_)
        assert chosen.energy_ == balanced_cut_energy(chosen.graph_, chosen.labels_)


@pytest.mark.parametrize("smoothing", [0, -3, 2.5, True, "maybe"])
def test_a_smoothing_that_is_none_is_refused(smoothing: Any) -> None:
    with pytest.raises(InputError, match='smoothing must be a whole number ≥ 1, "auto" or None; found'):
        clustering(smoothing=smoothing).fit(X)


def test_the_page_says_that_the_graph_was_smoothed(tmp_path: Path) -> None:
    page = clustering(smoothing=12).fit(X).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "12 nearest to it under a random walk" in page
    assert '"smoothing":12' in page.replace(" ", "")


def test_sparse_features_give_what_dense_ones_give() -> None:
    np.testing.assert_array_equal(clustering().fit_predict(sp.csr_matrix(X)), clustering().fit_predict(X))


def test_inputs_are_left_alone() -> None:
    W = GRAPH.to_scipy().tocoo()
    before = W.copy()
    features = X.copy()
    on_graph().fit(W)
    clustering().fit(features).predict(features)
    np.testing.assert_array_equal(W.data, before.data)
    np.testing.assert_array_equal(W.row, before.row)
    np.testing.assert_array_equal(features, X)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_engine_and_precision_finds_the_blocks(device: str, dtype: str) -> None:
    assert same_clusters(on_graph(device=device, dtype=dtype).fit_predict(GRAPH), BLOCKS)


def test_both_algorithms_find_the_blocks() -> None:
    for algorithm in ("fast", "paper"):
        assert same_clusters(on_graph(algorithm=algorithm, search="none").fit_predict(GRAPH), BLOCKS)


@pytest.mark.parametrize(
    "engine",
    [{"device": "reference"}, {"device": "cpu", "dtype": "float32"}, {"device": "cpu", "dtype": "float64"}],
    ids=str,
)
@pytest.mark.parametrize("limits", [{"tol": 0.0, "max_iter": 12}, {"tol": 0.05, "max_iter": 2000}], ids=str)
def test_the_paper_without_a_search_is_algorithm_1_bit_for_bit(engine: dict[str, str], limits: dict[str, Any]) -> None:
    """Every knob of a run reaches the solver: start, prior, engine, precision and both limits."""
    prior, start = [0.5, 0.3, 0.2], noisy_start(BLOCKS, R, seed=1, trust=0.2)
    model = on_graph(init=start, algorithm="paper", search="none", class_prior=prior, **engine, **limits).fit(GRAPH)
    expected = solve(Problem(GRAPH, R, lam_of_prior(prior, R)), start, stop=StopRule(**limits), **engine)
    np.testing.assert_array_equal(model.memberships_, expected.memberships)
    np.testing.assert_array_equal(model.labels_, expected.partition.labels)
    assert model.history_ == expected.history
    assert (model.energy_, model.relaxed_energy_) == (expected.partition.energy, expected.relaxed_energy)
    assert (model.status_, model.n_iter_) == (expected.status, expected.n_iter)
    assert model.status_ is (Status.CONVERGED if limits["tol"] else Status.BUDGET_SPENT)


def test_the_fast_algorithm_stops_where_the_partition_has_settled() -> None:
    for algorithm, status in (("fast", Status.SETTLED), ("paper", Status.BUDGET_SPENT)):
        model = on_graph(init="random", search="none", algorithm=algorithm, tol=0.0, max_iter=300).fit(GRAPH)
        assert model.status_ is status


def test_more_starts_and_a_search_find_less_to_cut() -> None:
    """On one iteration from noise, so that the knobs and not the algorithm decide."""
    brief = {"init": "random", "max_iter": 1}
    one, eight = (on_graph(search="none", n_init=n, **brief).fit(GRAPH).energy_ for n in (1, 8))
    searched = on_graph(search="short", n_init=1, **brief).fit(GRAPH).energy_
    ncut = on_graph(search="none", n_init=1, **{**brief, "init": "ncut"}).fit(GRAPH).energy_
    assert searched < eight < one
    assert ncut < one


def test_agreeing_memberships_keep_the_simplex_and_follow_the_labels() -> None:
    F = np.array([[0.2, 0.5, 0.3], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]])
    labels = np.array([0, 1, 2, 2])
    agreeing = agreeing_memberships(F, labels)
    np.testing.assert_array_equal(agreeing.argmax(axis=1), labels)
    np.testing.assert_allclose(agreeing.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(agreeing[0], [0.5, 0.2, 0.3])
    np.testing.assert_array_equal(agreeing[2], F[2])
    np.testing.assert_array_equal(F[0], [0.2, 0.5, 0.3])


# ---------------------------------------------------------------- what it takes


def test_every_form_of_the_same_graph_gives_the_same_labels() -> None:
    forms = [
        GRAPH,
        GRAPH.to_scipy().toarray(),
        GRAPH.to_scipy().toarray().tolist(),
        as_networkx(),
        as_igraph(),
    ]
    expected = on_graph().fit(GRAPH)
    for form in [*forms, *sparse_formats()]:
        model = on_graph().fit(form)
        np.testing.assert_array_equal(model.labels_, expected.labels_, err_msg=str(type(form)))
        assert model.energy_ == expected.energy_


def test_one_array_of_memberships_is_a_start() -> None:
    start = np.eye(R)[BLOCKS] * 0.6 + 0.4 / R
    np.testing.assert_array_equal(on_graph(init=start, search="none").fit_predict(GRAPH), BLOCKS)
    np.testing.assert_array_equal(on_graph(init=start.tolist(), search="none").fit_predict(GRAPH), BLOCKS)


def test_class_prior_sets_lambda() -> None:
    prior = [0.5, 0.3, 0.2]
    model = on_graph(class_prior=prior).fit(GRAPH)
    assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, model.labels_, lam_of_prior(prior, R)))


def test_class_prior_shapes_the_sizes() -> None:
    path = Graph.from_edges([(i, i + 1) for i in range(59)])
    model = on_graph(n_clusters=2, class_prior=[0.75, 0.25]).fit(path)
    np.testing.assert_array_equal(np.bincount(model.labels_), [45, 15])


def test_min_cluster_size_holds() -> None:
    """Two cliques of 20 and one of 6 in a row: three clusters are the cliques, unless that is too small."""
    first = np.repeat([0, 20, 40], [20, 20, 6])
    inside = [(i, j) for i in range(46) for j in range(i) if first[i] == first[j]]
    graph = Graph.from_edges([*inside, (0, 20), (21, 40)])
    for smallest, sizes in ((None, [6, 20, 20]), (6, [6, 20, 20]), (7, None), (12, None)):
        found = sorted(np.bincount(on_graph(min_cluster_size=smallest).fit(graph).labels_, minlength=R))
        assert found == sizes if sizes else found[0] >= smallest


def test_more_neighbors_than_points_is_a_warning_and_the_complete_graph() -> None:
    with pytest.warns(GraphWarning, match=r"n_neighbors=100 .* 59"):
        model = clustering(n_neighbors=100).fit(X)
    assert model.graph_.n_edges == 60 * 59 // 2
    assert set(model.labels_) == set(range(R))
    with pytest.warns(GraphWarning, match="n_neighbors=100"):
        assert model.predict(X).shape == (60,)


def test_exactly_all_other_points_as_neighbors_is_no_warning() -> None:
    assert clustering(n_neighbors=59).fit(X).graph_.n_edges == 60 * 59 // 2


# ---------------------------------------------------------------- seeds


def test_the_same_seed_gives_the_same_fit() -> None:
    for init in ("multilevel", "ncut-seeds", "random"):
        a, b = (on_graph(init=init, n_init=2, random_state=7).fit(GRAPH) for _ in range(2))
        np.testing.assert_array_equal(a.labels_, b.labels_)
        np.testing.assert_array_equal(a.memberships_, b.memberships_)


@pytest.mark.parametrize("state", [None, 0, 3, 2**40, np.int64(5), np.random.default_rng(0), np.random.RandomState(0)])
def test_every_kind_of_random_state_runs(state: Any) -> None:
    assert set(on_graph(random_state=state).fit_predict(GRAPH)) == set(range(R))


def test_another_seed_is_another_fit() -> None:
    def fitted(state: Any) -> np.ndarray:
        return on_graph(init="random", search="none", max_iter=2, random_state=state).fit(GRAPH).memberships_

    assert not np.array_equal(fitted(0), fitted(1))
    assert not np.array_equal(fitted(None), fitted(None))
    np.testing.assert_array_equal(fitted(5), fitted(np.int64(5)))
    np.testing.assert_array_equal(fitted(5), fitted(np.random.default_rng(5)))


def test_a_random_state_of_the_old_kind_is_reproducible() -> None:
    a, b = (on_graph(random_state=np.random.RandomState(3)).fit(GRAPH).memberships_ for _ in range(2))
    np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- new points


def test_new_points_take_the_cluster_around_them() -> None:
    model = clustering().fit(X)
    predicted = model.predict(X)
    assert (predicted == model.labels_).mean() > 0.9
    far = np.array([[-3.0, -3.0], [8.0, -3.0], [2.5, 9.0]])
    np.testing.assert_array_equal(model.predict(far), [model.labels_[r == BLOCKS][0] for r in range(R)])


def test_transform_is_the_mean_of_the_neighbors_memberships() -> None:
    model = clustering(n_neighbors=5).fit(X)
    new = np.array([[0.3, 0.2], [2.4, 2.0]])
    nearest = np.linalg.norm(new[:, None] - X, axis=2).argsort(axis=1)[:, :5]
    np.testing.assert_allclose(model.transform(new), model.memberships_[nearest].mean(axis=1))
    np.testing.assert_array_equal(model.predict(new), model.transform(new).argmax(axis=1))
    np.testing.assert_array_equal(model.transform(sp.csr_matrix(new)), model.transform(new))


def test_with_a_precomputed_graph_similarities_weight_the_mean() -> None:
    model = on_graph().fit(GRAPH)
    S = np.zeros((3, GRAPH.n_vertices))
    S[0, [0, 1]] = 1.0, 3.0
    S[1, 45] = 0.5
    F = model.memberships_
    expected = np.array([(F[0] + 3 * F[1]) / 4, F[45], np.full(R, 1 / R)])
    np.testing.assert_allclose(model.transform(S), expected)
    np.testing.assert_allclose(model.transform(sp.coo_matrix(S)), expected)
    np.testing.assert_array_equal(model.predict(S[:2]), model.labels_[[0, 45]])


@pytest.mark.parametrize(
    ("value", "named"), [(np.nan, "nan"), (np.inf, "inf"), (-0.25, "-0.25")], ids=["nan", "inf", "negative"]
)
def test_similarities_that_are_none_are_refused(value: float, named: str) -> None:
    S = np.ones((2, GRAPH.n_vertices))
    S[1, 4] = value
    with pytest.raises(InputError, match=named):
        on_graph().fit(GRAPH).predict(S)


def test_similarities_to_other_than_the_training_points_are_refused() -> None:
    with pytest.raises(InputError, match=r"60.*59"):
        on_graph().fit(GRAPH).predict(np.ones((2, 59)))


def test_new_points_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="3 features"):
        clustering().fit(X).predict(np.ones((2, 3)))


def test_predict_before_fit_says_so() -> None:
    for affinity in ("knn", "precomputed"):
        for method in ("predict", "transform"):
            with pytest.raises(NotFittedError):
                getattr(clustering(affinity=affinity), method)(X)


# ---------------------------------------------------------------- in scikit-learn


def test_parameters_are_kept_as_given_and_can_be_set() -> None:
    prior = [0.2, 0.3, 0.5]
    model = clustering(class_prior=prior, init="ncut", n_jobs=2)
    params = model.get_params()
    assert params["class_prior"] is prior
    assert params["n_clusters"] == R
    assert params["init"] == "ncut"
    assert model.set_params(n_clusters=2, class_prior=None) is model
    assert model.get_params()["n_clusters"] == 2
    with pytest.raises(ValueError, match="speed"):
        model.set_params(speed=3)


def test_the_constructor_refuses_an_unknown_option() -> None:
    with pytest.raises(TypeError, match="speed"):
        MTVClustering(3, speed="high")


def test_fit_changes_no_parameter_and_a_clone_fits_alike() -> None:
    model = on_graph(class_prior=[0.2, 0.3, 0.5])
    before = copy.deepcopy(model.get_params())
    model.fit(GRAPH)
    assert model.get_params() == before
    twin = clone(model)
    assert not hasattr(twin, "labels_")
    np.testing.assert_array_equal(twin.fit(GRAPH).labels_, model.labels_)


def test_a_fitted_model_survives_pickling(tmp_path: Any) -> None:
    for model, new in ((clustering().fit(X), X[:5] + 0.1), (on_graph().fit(GRAPH), np.eye(60)[:5])):
        joblib.dump(model, tmp_path / "model.joblib")
        for twin in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
            np.testing.assert_array_equal(twin.labels_, model.labels_)
            np.testing.assert_array_equal(twin.transform(new), model.transform(new))
            assert twin.status_ is model.status_
            assert twin.history_ == model.history_
            np.testing.assert_array_equal(twin.graph_.indices, model.graph_.indices)


def test_a_data_frame_gives_feature_names_and_set_output_a_data_frame() -> None:
    frame = pandas.DataFrame(X, columns=["height", "width"], index=[f"p{i}" for i in range(len(X))])
    model = clustering().set_output(transform="pandas").fit(frame)
    np.testing.assert_array_equal(model.feature_names_in_, ["height", "width"])
    np.testing.assert_array_equal(model.get_feature_names_out(), [f"mtvclustering{r}" for r in range(R)])
    out = model.transform(frame.iloc[:4])
    assert isinstance(out, pandas.DataFrame)
    assert list(out.columns) == [f"mtvclustering{r}" for r in range(R)]
    assert list(out.index) == ["p0", "p1", "p2", "p3"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"width": "depth"}))


def test_in_a_pipeline_it_is_a_step_like_any_other() -> None:
    pipeline = make_pipeline(StandardScaler(), clustering())
    labels = pipeline.fit_predict(X)
    assert set(labels) == set(range(R))
    assert pipeline.fit_transform(X).shape == (len(X), R)
    assert pipeline.predict(X[:3]).shape == (3,)


def test_fit_predict_and_fit_transform_are_fit_and_then_the_rest() -> None:
    model = clustering()
    np.testing.assert_array_equal(model.fit_predict(X), model.labels_)
    np.testing.assert_array_equal(model.fit_transform(X), clustering().fit(X).transform(X))


def test_a_second_fit_forgets_the_first() -> None:
    model = clustering().fit(X)
    model.set_params(n_clusters=2).fit(X[:40])
    assert model.memberships_.shape == (40, 2)
    assert model.transform(X).shape == (60, 2)
    assert len(model.get_feature_names_out()) == 2


def test_y_is_ignored() -> None:
    np.testing.assert_array_equal(clustering().fit(X, BLOCKS).labels_, clustering().fit(X).labels_)


# ---------------------------------------------------------------- what it says


def test_pieces_and_isolated_vertices_are_counted_in_warnings() -> None:
    W = GRAPH.to_scipy()
    with pytest.warns(GraphWarning, match="2 components"):
        on_graph().fit(sp.block_diag([W, W]))
    with pytest.warns(GraphWarning, match=r"5 of the 65 vertices are isolated") as seen:
        on_graph().fit(sp.block_diag([W, sp.csr_matrix((5, 5))]))
    assert len(seen) == 1
    with pytest.warns(GraphWarning) as seen:
        on_graph().fit(sp.block_diag([W, W, W, sp.csr_matrix((4, 4))]))
    assert [w for w in seen if "4 of the 184" in str(w.message)]
    assert [w for w in seen if "3 components" in str(w.message)]


def test_a_warning_points_at_the_line_of_the_caller() -> None:
    with pytest.warns(GraphWarning) as seen:
        on_graph(n_clusters=2).fit(sp.block_diag([GRAPH.to_scipy()] * 2))
    assert seen[0].filename == __file__


def test_two_pieces_are_cut_for_nothing() -> None:
    with pytest.warns(GraphWarning, match="2 components"):
        model = on_graph(n_clusters=2).fit(sp.block_diag([GRAPH.to_scipy()] * 2))
    assert model.energy_ == 0
    assert same_clusters(model.labels_, np.repeat([0, 1], 60))


BAD_OPTIONS = [
    {"affinity": "rbf"}, {"init": "magic"}, {"algorithm": "quick"}, {"search": "long"}, {"device": "abacus"},
    {"dtype": "float16"}, {"n_clusters": 0}, {"n_clusters": -3}, {"n_clusters": 2.5}, {"n_clusters": 61},
    {"n_clusters": True}, {"n_clusters": "3"}, {"n_init": 0}, {"n_init": 1.5}, {"max_iter": 0}, {"tol": -1.0},
    {"min_cluster_size": 0}, {"min_cluster_size": 21}, {"class_prior": [0.5, 0.4, 0.4]},
    {"class_prior": [0.5, 0.5]}, {"class_prior": [1.2, 0.2, -0.4]}, {"class_prior": "even"},
    {"random_state": -4}, {"random_state": "seed"},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_an_unknown_option_value_is_named(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(InputError) as raised:
        on_graph(**options).fit(GRAPH)
    message = str(raised.value)
    assert name in message
    expected = [str(number) for number in value] if isinstance(value, list) else [str(value)]
    assert all(part in message for part in expected)


@pytest.mark.parametrize("n_neighbors", [0, -1, 2.5, True, "many"])
def test_an_impossible_number_of_neighbors_is_named(n_neighbors: Any) -> None:
    with pytest.raises(InputError, match="n_neighbors") as raised:
        clustering(n_neighbors=n_neighbors).fit(X)
    assert str(n_neighbors) in str(raised.value)


@pytest.mark.parametrize(
    "start", [np.ones((60, 2)), np.ones((59, 3)), np.ones(60), None], ids=["narrow", "short", "flat", "none"]
)
def test_a_start_of_another_shape_is_refused(start: Any) -> None:
    with pytest.raises(InputError, match=r"\(60, 3\)"):
        on_graph(init=start).fit(GRAPH)


def test_a_start_with_nan_is_refused() -> None:
    start = np.full((60, 3), 0.5)
    start[3, 1] = np.nan
    with pytest.raises(InputError, match="nan"):
        on_graph(init=start).fit(GRAPH)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    broken = X.copy()
    broken[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clustering().fit(broken)


def test_a_thing_that_is_no_graph_is_refused_by_its_type() -> None:
    with pytest.raises(InputError, match="'dict'"):
        on_graph().fit({"a": 1})


def test_a_bar_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = on_graph(verbose=True, n_init=2).fit(GRAPH)
    assert "best cut" in capsys.readouterr().err
    np.testing.assert_array_equal(shown.labels_, on_graph(n_init=2).fit(GRAPH).labels_)
    on_graph().fit(GRAPH)
    assert capsys.readouterr() == ("", "")


def test_an_observer_can_take_the_place_of_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    shown = on_graph(verbose=seen.append, n_init=2).fit(GRAPH)
    assert {"starts", "solve"} <= {progress.phase for progress in seen}
    assert capsys.readouterr() == ("", "")
    np.testing.assert_array_equal(shown.labels_, on_graph(n_init=2).fit(GRAPH).labels_)
    assert on_graph(verbose=lambda progress: True, n_init=2).fit(GRAPH).status_ is Status.STOPPED


def test_iterations_stay_within_their_budget() -> None:
    for budget in (1, 7):
        model = on_graph(max_iter=budget, search="none", init="random").fit(GRAPH)
        assert 1 <= model.n_iter_ <= budget
        assert model.energy_ == pytest.approx(balanced_cut_energy(GRAPH, model.labels_))


def test_every_setting_of_the_grid_gives_all_clusters() -> None:
    grid = {"algorithm": ["fast", "paper"], "search": ["none", "thorough"], "init": ["multilevel", "ncut"]}
    for knobs in ParameterGrid(grid):
        labels = on_graph(**knobs).fit_predict(GRAPH)
        assert set(labels) == set(range(R)), knobs
