"""The edges of the estimators: very few and very many clusters, tiny and degenerate graphs, duplicates,
weights of wildly different scale, and many seeds. Each ends by itself, with all clusters and their energy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from strategies import planted_graph
from tautcut import Graph, MTVClassifier, MTVClustering, balanced_cut_energy
from tautcut.algorithm.stopping import Status

# Half of these graphs fall into pieces on purpose; the warnings have tests of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::tautcut.errors.GraphWarning"),
    pytest.mark.usefixtures("light_search"),
]

SEARCHES = ("none", "short")


def path(n: int) -> Graph:
    return Graph.from_edges([(i, i + 1) for i in range(n - 1)])


def star(n: int) -> Graph:
    return Graph.from_edges([(0, i) for i in range(1, n)])


def complete(n: int) -> Graph:
    return Graph.from_edges([(i, j) for i in range(n) for j in range(i)])


def fitted(W: Any, n_clusters: int, **knobs: Any) -> MTVClustering:
    knobs = {"affinity": "precomputed", "n_init": 1, "random_state": 0, **knobs}
    return MTVClustering(n_clusters, **knobs).fit(W)


def check(model: MTVClustering, W: Any, n_clusters: int) -> None:
    """All clusters are there, the energy is theirs, and the memberships agree."""
    sizes = np.bincount(model.labels_, minlength=n_clusters)
    assert sizes.size == n_clusters
    assert sizes.min() >= 1
    assert model.energy_ == pytest.approx(balanced_cut_energy(W, model.labels_), rel=1e-6)
    np.testing.assert_array_equal(model.memberships_.argmax(axis=1), model.labels_)
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1, atol=1e-5)


GRAPHS = {
    "path": path(12),
    "star": star(12),
    "complete": complete(12),
    "edgeless": Graph.from_edges([], n_vertices=12),
    "edge": Graph.from_edges([(3, 7)], n_vertices=12),
    "pairs": Graph.from_edges([(2 * i, 2 * i + 1) for i in range(6)]),
    "triangle": Graph.from_edges([(0, 1), (1, 2), (0, 2)], n_vertices=12),
    "two stars": Graph.from_edges([(0, i) for i in range(1, 6)] + [(6, i) for i in range(7, 12)]),
    "wild": Graph.from_edges([(i, i + 1) for i in range(11)], 10.0 ** np.linspace(-12, 12, 11)),
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("n_clusters", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("name", GRAPHS)
def test_degenerate_graphs_and_every_number_of_clusters(name: str, n_clusters: int, search: str) -> None:
    graph = GRAPHS[name]
    check(fitted(graph, n_clusters, search=search), graph, n_clusters)


@pytest.mark.parametrize("name", GRAPHS)
def test_degenerate_graphs_and_the_defaults(name: str) -> None:
    check(fitted(GRAPHS[name], 3, n_init="auto"), GRAPHS[name], 3)


@pytest.mark.parametrize("init", ["ncut-seeds", "ncut"])
@pytest.mark.parametrize("name", GRAPHS)
def test_degenerate_graphs_and_the_other_starts(name: str, init: str) -> None:
    graph = GRAPHS[name]
    check(fitted(graph, 3, init=init, n_init=2), graph, 3)


@pytest.mark.parametrize("name", GRAPHS)
def test_noise_leaves_no_cluster_empty(name: str) -> None:
    for seed in range(3):
        check(fitted(GRAPHS[name], 12, init="random", search="none", random_state=seed), GRAPHS[name], 12)


@pytest.mark.parametrize("n_vertices", [1, 2, 3])
def test_tiny_graphs(n_vertices: int) -> None:
    edges = [(i, j) for i in range(n_vertices) for j in range(i)]
    for graph in (
        Graph.from_edges(edges, n_vertices=n_vertices),
        Graph.from_edges([], n_vertices=n_vertices),
    ):
        for n_clusters in range(1, n_vertices + 1):
            check(fitted(graph, n_clusters), graph, n_clusters)


@pytest.mark.parametrize("n_points", [2, 3])
def test_tiny_sets_of_points(n_points: int) -> None:
    X = np.arange(n_points, dtype=float)[:, None]
    for n_clusters in range(1, n_points + 1):
        model = MTVClustering(n_clusters, n_neighbors=1, random_state=0).fit(X)
        assert set(model.labels_) == set(range(n_clusters))
        assert model.predict(X).shape == (n_points,)


def test_one_cluster_is_everything_and_cuts_nothing() -> None:
    for init in ("multilevel", "ncut-seeds", "ncut", "random"):
        model = fitted(GRAPHS["path"], 1, init=init)
        assert set(model.labels_) == {0}
        assert model.energy_ == 0
        np.testing.assert_array_equal(model.memberships_, np.ones((12, 1)))


def test_as_many_clusters_as_vertices_is_each_alone() -> None:
    model = fitted(GRAPHS["star"], 12)
    assert sorted(model.labels_) == list(range(12))


def test_a_path_is_cut_in_the_middle() -> None:
    for seed in range(10):
        model = fitted(path(12), 2, random_state=seed)
        np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(12) < 6)


def test_pieces_are_never_cut_when_there_are_enough() -> None:
    for n_clusters in (2, 3, 6):
        assert fitted(GRAPHS["pairs"], n_clusters).energy_ == 0


@pytest.mark.parametrize("search", SEARCHES)
def test_every_seed_gives_every_cluster(search: str) -> None:
    graph = planted_graph(3, 6, seed=1)
    for seed in range(100 if search == "none" else 40):
        check(fitted(graph, 3, random_state=seed, search=search), graph, 3)


@pytest.mark.parametrize("name", ["star", "path"])
def test_every_seed_gives_every_cluster_of_an_awkward_graph(name: str) -> None:
    for seed in range(20):
        check(fitted(GRAPHS[name], 3, random_state=seed), GRAPHS[name], 3)


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_every_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tame = planted_graph(3, 8, seed=seed).to_scipy()
    upper = sp.triu(tame).tocoo()
    weights = 10.0 ** rng.uniform(-12, 12, upper.nnz)
    graph = Graph.from_edges(np.c_[upper.row, upper.col], weights, n_vertices=24)
    for search in SEARCHES:
        check(fitted(graph, 3, search=search, random_state=seed), graph, 3)


@pytest.mark.parametrize("scale", [1e-310, 1e-150, 1e-12, 1e12, 1e150])
def test_the_unit_of_the_weights_does_not_matter(scale: float) -> None:
    W = planted_graph(3, 8, seed=0, is_weighted=True).to_scipy()
    model, scaled = fitted(W, 3), fitted(W * scale, 3)
    pairs = set(zip(model.labels_.tolist(), scaled.labels_.tolist(), strict=True))
    assert len(pairs) == 3  # the same clusters; rounding may name them in another order
    assert scaled.energy_ == pytest.approx(scale * model.energy_, rel=1e-6)


def test_duplicate_points_share_a_cluster_where_they_can() -> None:
    X = np.repeat(np.arange(4.0)[:, None] ** 2, 10, axis=0)
    model = MTVClustering(4, n_neighbors=5, random_state=0).fit(X)
    assert model.energy_ == 0
    for start in range(0, 40, 10):
        assert len(set(model.labels_[start : start + 10])) == 1


def test_one_point_many_times_is_still_cut() -> None:
    model = MTVClustering(3, n_neighbors=4, random_state=0).fit(np.ones((15, 2)))
    assert set(model.labels_) == {0, 1, 2}


@pytest.mark.parametrize("name", GRAPHS)
def test_labels_on_degenerate_graphs(name: str) -> None:
    y = np.full(12, -1)
    y[[0, 3, 7]] = 2, 0, 1
    model = MTVClassifier(affinity="precomputed", random_state=0).fit(GRAPHS[name], y)
    np.testing.assert_array_equal(model.transduction_[[0, 3, 7]], [2, 0, 1])
    assert set(model.transduction_) == {0, 1, 2}
    np.testing.assert_array_equal(model.memberships_.argmax(axis=1), model.transduction_)
    assert model.energy_ == pytest.approx(
        balanced_cut_energy(GRAPHS[name], model.transduction_, model.result_.problem.lam), rel=1e-6
    )


def test_the_smallest_budget_ends() -> None:
    for init in ("multilevel", "ncut-seeds"):
        model = fitted(GRAPHS["path"], 3, init=init, max_iter=1, tol=0.0)
        check(model, GRAPHS["path"], 3)


def test_no_tolerance_ends_by_the_budget() -> None:
    model = fitted(planted_graph(3, 6, seed=1), 3, tol=0.0, max_iter=300, search="none", algorithm="paper")
    assert model.status_ is Status.BUDGET_SPENT
    assert model.n_iter_ == 300
    assert set(model.labels_) == {0, 1, 2}


# ---------------------------------------------------------------- numbers of any size


@pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e300])
def test_memberships_of_new_points_sum_to_one_whatever_the_unit(unit):
    model = MTVClustering(2, affinity="precomputed", random_state=0).fit(path(12))
    S = unit * np.array([[1.0] * 12, [0.0] * 12, [3.0] + [0.0] * 11, [1e8, *[1.0] * 11]])
    shares = model.transform(S)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    assert shares[1].tolist() == [0.5, 0.5]


def test_points_that_coincide_are_warned_of():
    from tautcut.errors import GraphWarning

    with pytest.warns(GraphWarning, match="duplicates"):
        MTVClustering(2, random_state=0).fit(np.full((60, 3), 3.0))


@pytest.mark.parametrize("unit", [5e-324, 1e300])
@pytest.mark.parametrize("spread", [1.0, 1e8])
def test_labels_of_extreme_weights_give_probabilities(unit, spread):
    edges = [(i, i + 1) for i in range(9)]
    weights = unit * np.where(np.arange(9) % 2, 1.0, max(1.0, spread / (1e8 if unit > 1 else 1.0)))
    model = MTVClassifier(affinity="precomputed", random_state=0).fit(
        Graph.from_edges(edges, weights), [0, *[-1] * 8, 1]
    )
    np.testing.assert_allclose(model.result_.probabilities.sum(axis=1), 1.0)


def test_a_start_of_huge_numbers_is_projected():
    start = np.zeros((12, 3))
    start[:4, 0], start[4:8, 1], start[8:, 2], start[0, 1] = 1e308, 1e308, 1e308, -1e308
    model = MTVClustering(3, affinity="precomputed", init=start, search="none", random_state=0).fit(path(12))
    assert np.isfinite(model.memberships_).all()


def test_the_energy_of_a_wide_kernel_is_that_of_the_labels():
    from sklearn.datasets import load_wine
    from sklearn.metrics.pairwise import rbf_kernel

    W = rbf_kernel(load_wine().data[::3], gamma=1)
    np.fill_diagonal(W, 0)
    model = MTVClustering(3, affinity="precomputed", random_state=1).fit(W)
    assert model.energy_ == pytest.approx(balanced_cut_energy(W, model.labels_), rel=1e-9)
    assert model.energy_ >= 0
