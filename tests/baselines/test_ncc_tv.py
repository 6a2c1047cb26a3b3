"""The two-class Cheeger cut and the recursion that NCC-TV and 1SPEC share, and NCC-TV itself."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.base import clone
from sklearn.datasets import load_digits

from strategies import graphs, planted_graph, random_graph
from tautcut import Graph, knn_graph, purity
from tautcut.baselines import NCCTV, OneSpectral
from tautcut.baselines.cheeger import (
    Cluster,
    DualAscent,
    Recursion,
    Relaxation,
    cut_in_two,
    incidence,
    multicut_value,
    second_eigenvector,
)
from tautcut.baselines.ncc_tv import SteepestDescent
from tautcut.errors import InputError

BOWTIE = Graph.from_edges([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])
WEIGHTS = ("normalised", "ratio")
LAMS = st.sampled_from([0.25, 0.7, 1.0, 3.0])


def theta_of(graph: Graph, weights: str) -> np.ndarray:
    return np.array(graph.degrees) if weights == "normalised" else np.ones(graph.n_vertices)


def relaxation_of(graph: Graph, weights: str, lam: float = 1.0) -> Relaxation:
    return Relaxation(graph.to_scipy(), theta_of(graph, weights), lam)


def whole(graph: Graph, weights: str = "normalised", lam: float = 1.0) -> Cluster:
    n = graph.n_vertices
    return Cluster(np.arange(n), graph.to_scipy(), theta_of(graph, weights), np.zeros(n), lam)


def cheeger(graph: Graph, inside: np.ndarray, weights: str, lam: float = 1.0) -> float:
    """Cut(A) / min{λθ(A), θ(Aᶜ)}, from the definition."""
    W, theta = graph.to_scipy().toarray(), theta_of(graph, weights)
    return float(W[inside][:, ~inside].sum() / min(lam * theta[inside].sum(), theta[~inside].sum()))


def tied_functions(n: int) -> st.SearchStrategy[np.ndarray]:
    """Functions with many equal values, none constant."""
    values = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.3, 1.0]), min_size=n, max_size=n)
    return values.map(np.array).filter(lambda f: np.ptp(f) > 0)


@st.composite
def relaxed(draw: st.DrawFn) -> tuple[Graph, str, float, np.ndarray]:
    graph = draw(graphs(is_connected=True))
    return graph, draw(st.sampled_from(WEIGHTS)), draw(LAMS), draw(tied_functions(graph.n_vertices))


# ------------------------------------------------------------ the relaxation


@given(graphs())
def test_k_is_the_weighted_difference_along_each_edge(graph):
    f = np.random.default_rng(0).standard_normal(graph.n_vertices)
    W = graph.to_scipy().toarray()
    K = incidence(graph.to_scipy())
    assert K.shape == (graph.n_edges, graph.n_vertices)
    assert np.abs(K @ f).sum() == pytest.approx((W * np.abs(f[:, None] - f)).sum() / 2)


@given(relaxed())
def test_the_relaxation_is_exact_on_indicators(case):
    graph, weights, lam, f = case
    relaxation = relaxation_of(graph, weights, lam)
    inside = f == f.max()
    E = relaxation.energy(relaxation.centred(inside.astype(float)))
    assert pytest.approx(cheeger(graph, inside, weights, lam)) == E


@given(relaxed())
def test_the_median_minimises_the_balance(case):
    graph, weights, lam, f = case
    relaxation = relaxation_of(graph, weights, lam)
    best = relaxation.balance(relaxation.centred(f))
    assert best <= min(relaxation.balance(f - value) for value in np.unique(f)) + 1e-12
    assert (relaxation.centred(f) == 0).any()


@given(relaxed(), st.data())
def test_the_subgradient_supports_the_balance_and_sums_to_zero(case, data):
    graph, weights, lam, f = case
    other = data.draw(tied_functions(graph.n_vertices))
    relaxation = relaxation_of(graph, weights, lam)
    f = relaxation.centred(f)
    v = relaxation.subgradient(f)
    assert v.sum() == pytest.approx(0, abs=1e-9)
    assert v @ f == pytest.approx(relaxation.balance(f))
    assert relaxation.balance(relaxation.centred(other)) >= v @ other - 1e-9


@given(relaxed())
def test_shifts_scales_and_signs_do_not_change_the_energy(case):
    graph, weights, _, f = case
    relaxation = relaxation_of(graph, weights)
    E = relaxation.energy(relaxation.centred(f))
    assert relaxation.energy(relaxation.centred(3 * f + 1)) == pytest.approx(E)
    assert relaxation.energy(relaxation.centred(-f)) == pytest.approx(E)


@given(relaxed(), st.floats(0.05, 3.0))
def test_the_dual_iteration_converges_as_fast_as_proved(case, radius):
    graph, _, _, target = case
    K = incidence(graph.to_scipy())
    exact = lsq_linear(K.T.toarray(), target, (-radius, radius), method="bvls", tol=1e-14)
    lipschitz = 2 * (graph.to_scipy().toarray() ** 2).sum(axis=1).max()
    dual, k = DualAscent(K), 200
    dual.aim(target, radius)
    u = dual.run(k)
    assert u @ u / 2 - exact.cost <= 2 * lipschitz * (exact.x @ exact.x) / (k + 1) ** 2 + 1e-9
    dual.aim(target, radius)  # the dual is kept, and a plain gradient step from it cannot be worse
    assert np.linalg.norm(dual.run(1)) <= np.linalg.norm(u) + 1e-12


# ------------------------------------------------------------ cuts and components


@given(relaxed())
def test_the_sweep_finds_the_best_level_set(case):
    graph, weights, lam, f = case
    value, inside = whole(graph, weights, lam).sweep(f)
    assert value == pytest.approx(min(cheeger(graph, f > t, weights, lam) for t in np.unique(f)[:-1]))
    assert value == pytest.approx(cheeger(graph, inside, weights, lam))
    assert f[inside].min() > f[~inside].max()


@pytest.mark.parametrize("n_vertices", [40, 400])  # dense, and by iteration
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_second_eigenvector_is_one(n_vertices, weights):
    graph = planted_graph(2, n_vertices // 2, seed=1, is_weighted=True)
    cluster = whole(graph, weights)
    f, theta = second_eigenvector(cluster), cluster.theta
    W = graph.to_scipy()
    Lf = graph.degrees * f - W @ f
    omega = f @ Lf / (f @ (theta * f))
    scale = np.diag(1 / np.sqrt(theta))
    exact = np.linalg.eigvalsh(scale @ (np.diag(graph.degrees) - W.toarray()) @ scale)[1]
    assert omega == pytest.approx(exact, rel=1e-6)
    assert np.linalg.norm(Lf - omega * theta * f) <= 1e-3 * omega * np.linalg.norm(theta * f)
    assert theta @ f == pytest.approx(0, abs=1e-6 * np.linalg.norm(theta * f))


def test_components_are_dealt_out_evenly_and_for_nothing():
    sizes = [5, 4, 3, 2]  # 5 + 2 against 4 + 3
    first = np.cumsum([0, *sizes])
    edges = [edge for a, s in zip(first, sizes, strict=False) for edge in combinations(range(a, a + s), 2)]
    cluster = whole(Graph.from_edges(edges, n_vertices=14), "ratio")
    split = cut_in_two(cluster, lambda part: pytest.fail("nothing is to be solved"))
    assert (split.value, split.n_iter) == (0.0, 0)
    assert {side.size for side in split.sides} == {7}


# ------------------------------------------------------------ the descent


@given(relaxed(), st.sampled_from([0.05, 1.0, 20.0]))
def test_steepest_descent_never_raises_the_energy(case, step):
    graph, weights, lam, f = case
    relaxation = relaxation_of(graph, weights, lam)
    iterates = list(SteepestDescent(step=step, max_inner=500, max_outer=30).run(relaxation, f))
    energies = [iterate.energy for iterate in iterates]
    assert all(after < before for before, after in pairwise(energies[:-1]))  # the last may have found nothing
    assert energies[-1] <= energies[-2]
    for f, E, _ in iterates:
        assert relaxation.energy(f) == pytest.approx(E)
        assert relaxation.median(f) == 0
        assert np.linalg.norm(f) == pytest.approx(1)


def test_an_exact_step_fulfils_the_descent_inequality():
    graph, step = planted_graph(2, 30, seed=3), 0.1
    relaxation = relaxation_of(graph, "ratio")
    f = relaxation.centred(np.random.default_rng(0).standard_normal(60))
    f /= np.linalg.norm(f)
    E = relaxation.energy(f)
    dual = DualAscent(relaxation.K)
    dual.aim(f + step * relaxation.subgradient(f), step / E)
    u = dual.run(5000)
    h = relaxation.centred(u)
    drop = E - relaxation.energy(h)
    assert drop >= (E / relaxation.balance(h)) * np.sum((u - f) ** 2) / step - 1e-9
    assert drop > 0


@pytest.mark.parametrize(("weights", "best", "critical"), [("ratio", 1 / 3, 1.0), ("normalised", 1 / 7, 0.5)])
def test_the_bowtie_has_its_known_energies(weights, best, critical):
    relaxation = relaxation_of(BOWTIE, weights)
    assert relaxation.energy(relaxation.centred(np.array([1.0, 1, 0, 0, 0, 0]))) == pytest.approx(critical)
    for method in (NCCTV, OneSpectral):
        model = method(2, weights=weights).fit(BOWTIE)
        assert model.objective_ == pytest.approx(best)
        assert model.labels_[:3].tolist() == [model.labels_[0]] * 3 != model.labels_[3:].tolist()


def test_random_starts_end_at_critical_points_of_the_bowtie():
    values = [NCCTV(2, weights="ratio", init="random", random_state=s).fit(BOWTIE).objective_ for s in range(20)]
    assert set(np.round(values, 6)) <= {round(1 / 3, 6), 1.0}
    assert np.isclose(values, 1 / 3).sum() >= 10


# ------------------------------------------------------------ the recursion


@pytest.mark.parametrize("method", [NCCTV, OneSpectral])
@pytest.mark.parametrize(("weights", "value"), [("ratio", 0.0548), ("normalised", 0.00388)])
def test_four_and_nine_of_digits_have_a_known_best_cut(method, weights, value):
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, (4, 9))
    model = method(2, weights=weights).fit(knn_graph(X[keep], 10))
    assert model.objective_ == pytest.approx(value, rel=2e-3)
    assert purity(model.labels_, y[keep]) > 0.9


def test_planted_blocks_are_found_by_every_variant():
    graph, truth = planted_graph(5, 30, seed=0), np.repeat(np.arange(5), 30)
    models = [NCCTV(5, weights=weights, asymmetric=a) for weights in WEIGHTS for a in (False, True)]
    for model in [*models, NCCTV(5, step=0.05), NCCTV(5, scope="graph"), NCCTV(5, init="random", random_state=0)]:
        labels = model.fit(graph).labels_
        assert labels.dtype == np.int64
        assert purity(labels, truth) == 1
        assert model.n_iter_ > 0


def test_an_asymmetric_cut_takes_off_a_share():
    """Three equal blocks on a line: the symmetric cut may halve the graph, the asymmetric one takes a third."""
    graph = Graph.from_edges([(i, i + 1) for i in range(29)])
    halves = np.bincount(NCCTV(2, weights="ratio").fit_predict(graph))
    thirds = np.bincount(NCCTV(3, weights="ratio", asymmetric=True).fit_predict(graph))
    assert sorted(halves) == [15, 15]
    assert sorted(thirds) == [10, 10, 10]


def test_cuts_are_cached_between_levels():
    seen: list[int] = []

    def solve(cluster: Cluster) -> tuple[np.ndarray, int]:
        seen.append(cluster.vertices.size)
        return second_eigenvector(cluster), 1

    labels, n_iter = Recursion("ratio", is_global=False).run(planted_graph(4, 20, seed=0), 4, solve)
    assert seen == [80, *seen[1:]]
    assert len(seen) == n_iter == 2 * 4 - 3
    assert np.bincount(labels).tolist() == [20] * 4


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_cuts_valued_in_the_whole_graph_keep_its_objective_low(seed):
    graph = random_graph(30, 70, seed=seed)
    inside, across = (NCCTV(4, weights="ratio", scope=scope).fit(graph) for scope in ("cluster", "graph"))
    assert across.objective_ < 0.8 * inside.objective_


AWKWARD = {
    "edgeless": Graph.from_any(sp.csr_matrix((7, 7))),
    "one edge, isolated vertices": Graph.from_edges([(1, 2)], n_vertices=7),
    "two triangles": Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]),
    "path": Graph.from_edges([(i, i + 1) for i in range(7)]),
    "star": Graph.from_edges([(0, i) for i in range(1, 8)]),
    "complete": Graph.from_any(np.ones((6, 6))),
    "large star": Graph.from_edges([(0, i) for i in range(1, 80)]),
    "a pair": Graph.from_edges([(0, 1)]),
    "weights far apart": Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)], [1e-150, 1e150, 1e-9, 1.0]),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("method", [NCCTV, OneSpectral])
def test_awkward_graphs_give_as_many_clusters_as_asked_for(name, weights, method):
    graph = AWKWARD[name]
    n = graph.n_vertices
    for R in sorted({1, 2, min(3, n), n if n < 20 else 4}):
        variants = [{}, {"asymmetric": True}, {"scope": "graph"}] if method is NCCTV else [{}]
        for options in variants:
            model = method(R, weights=weights, **options).fit(graph)
            assert np.unique(model.labels_).tolist() == list(range(R))
            assert np.isfinite(model.objective_)
            assert model.objective_ == multicut_value(graph, model.labels_, weights)
            assert model.objective_ > 0 or graph.components()[0] >= R


@given(graphs(), st.sampled_from(WEIGHTS), st.data())
def test_any_graph_is_cut_along_its_components_first(graph, weights, data):
    n_components, component = graph.components()
    R = data.draw(st.integers(1, graph.n_vertices))
    for method in (NCCTV(R, weights=weights, max_inner=200), OneSpectral(R, weights=weights)):
        labels = method.fit(graph).labels_
        assert np.unique(labels).tolist() == list(range(R))
        if n_components >= R:
            assert all(np.unique(labels[component == c]).size == 1 for c in range(n_components))
            assert method.objective_ == 0


@pytest.mark.parametrize("method", [NCCTV, OneSpectral])
def test_the_unit_of_the_weights_does_not_matter(method):
    graph = planted_graph(3, 20, seed=2, is_weighted=True)
    scaled = Graph.from_any(graph.to_scipy() * 2.0**40)
    model, other = (method(4, weights="ratio").fit(g) for g in (graph, scaled))
    assert np.array_equal(model.labels_, other.labels_)
    assert other.objective_ == pytest.approx(2.0**40 * model.objective_)


def test_fits_are_reproducible_and_parameters_kept():
    graph = planted_graph(3, 20, seed=4)
    model = NCCTV(3, init="random", random_state=7)
    first, second = clone(model).fit(graph), model.fit(graph.to_scipy())
    assert np.array_equal(first.labels_, second.labels_)
    assert model.get_params()["random_state"] == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "volume"}, "weights must be one of normalised, ratio; found 'volume'"),
        ({"scope": "edge"}, "scope must be one of cluster, graph; found 'edge'"),
        ({"init": "zeros"}, "init must be one of eigenvector, random; found 'zeros'"),
        ({"step": 0.0}, "step must be a finite number > 0; found 0.0"),
        ({"tol": -1.0}, "tol must be a finite number ≥ 0; found -1.0"),
        ({"tol": float("nan")}, "tol must be a finite number ≥ 0; found nan"),
        ({"max_outer": 0}, "max_outer must be a whole number ≥ 1; found 0"),
        ({"max_inner": 2.5}, "max_inner must be a whole number ≥ 1; found 2.5"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(InputError, match=message):
        NCCTV(2, **options).fit(BOWTIE)
