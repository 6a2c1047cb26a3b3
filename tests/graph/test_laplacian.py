"""The normalised cut and the diffusion: identities, invariances, published purities, awkward graphs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackNoConvergence

import tautcut.graph.laplacian as module
from tautcut.graph import Graph
from tautcut.graph.laplacian import centrality_within, diffuse, laplacian, normalised_cut

FloatArray = npt.NDArray[np.float64]
LabelArray = npt.NDArray[np.int64]


def random_graph(n: int, *, density: float = 0.1, seed: int = 0, weighted: bool = True) -> Graph:
    """A random graph on n vertices; sparse ones are disconnected and have isolated vertices."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, k=1)
    W = upper * rng.uniform(0.1, 2.0, (n, n)) if weighted else upper.astype(np.float64)
    return Graph.from_any(sp.csr_matrix(W + W.T))


def scaled(graph: Graph, factor: float) -> Graph:
    return Graph.from_any(graph.to_scipy() * factor)


def path(n: int) -> Graph:
    return Graph.from_edges(np.column_stack([np.arange(n - 1), np.arange(1, n)]))


def star(n: int) -> Graph:
    return Graph.from_edges(np.column_stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)]))


def complete(n: int) -> Graph:
    return Graph.from_any(np.ones((n, n)) - np.eye(n))


def cycle(n: int) -> Graph:
    return Graph.from_edges(np.column_stack([np.arange(n), (np.arange(n) + 1) % n]))


def edgeless(n: int) -> Graph:
    return Graph.from_any(sp.csr_matrix((n, n)))


def ncut(graph: Graph, n_clusters: int, seed: int = 0) -> LabelArray:
    return normalised_cut(graph, n_clusters, rng=np.random.default_rng(seed))


def planted() -> tuple[Graph, LabelArray]:
    """Three dense groups of 100 vertices with few edges between them."""
    truth = np.repeat([0, 1, 2], 100)
    chance = np.where(truth[:, None] == truth, 0.3, 0.002)
    upper = np.triu(np.random.default_rng(9).random((300, 300)) < chance, k=1)
    return Graph.from_any((upper | upper.T).astype(np.float64)), truth


def is_same_partition(labels: LabelArray, other: LabelArray) -> bool:
    pairs = np.unique(np.column_stack([labels, other]), axis=0)
    return len(pairs) == len(np.unique(labels)) == len(np.unique(other))


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, LabelArray]:
    datasets = pytest.importorskip("sklearn.datasets")
    neighbors = pytest.importorskip("sklearn.neighbors")
    X, y = datasets.load_digits(return_X_y=True)
    W = neighbors.kneighbors_graph(X, 10)
    return Graph.from_any(W.maximum(W.T)), y


# The Laplacian


@given(n=st.integers(1, 30), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_laplacian_is_degrees_minus_weights(n: int, seed: int) -> None:
    graph = random_graph(n, seed=seed)
    W = graph.to_scipy().toarray()
    L = laplacian(graph).toarray()
    np.testing.assert_allclose(L, np.diag(W.sum(axis=1)) - W, atol=1e-14)
    np.testing.assert_allclose(L @ np.ones(n), 0.0, atol=1e-12)


def test_laplacian_keeps_the_unit_of_the_weights() -> None:
    graph = random_graph(20, seed=1)
    difference = laplacian(scaled(graph, 4.0)) - 4.0 * laplacian(graph)
    assert abs(difference).max() == 0.0


# The diffusion


@given(n=st.integers(1, 40), columns=st.integers(1, 5), density=st.floats(0.0, 0.5), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_diffusion_is_the_dense_solution(n: int, columns: int, density: float, seed: int) -> None:
    graph = random_graph(n, density=density, seed=seed)
    B = np.random.default_rng(seed).standard_normal((n, columns))
    mean = graph.weights.mean() if graph.n_edges else 1.0
    exact = np.linalg.solve(np.eye(n) + laplacian(graph).toarray() / mean, B)
    X = diffuse(graph, B, tol=1e-10, max_iter=200)
    np.testing.assert_allclose(X, exact, atol=1e-8)


@given(n=st.integers(2, 60), density=st.floats(0.0, 0.3), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_diffusion_keeps_column_sums_and_signs(n: int, density: float, seed: int) -> None:
    graph = random_graph(n, density=density, seed=seed)
    B = np.random.default_rng(seed).random((n, 3))
    X = diffuse(graph, B, max_iter=200)
    slack = 1e-6 * np.linalg.norm(B, axis=0)  # (I + L)^-1 has norm 1, so the error is below tol ‖b‖
    assert np.all(np.abs(X.sum(axis=0) - B.sum(axis=0)) <= np.sqrt(n) * slack)
    assert np.all(X.min(axis=0) >= -slack)
    assert np.all(X.max(axis=0) <= B.max(axis=0) + slack)


def test_default_diffusion_reaches_its_tolerance(digits: tuple[Graph, LabelArray]) -> None:
    graph, _ = digits
    B = np.eye(graph.n_vertices)[:, :10]
    X = diffuse(graph, B)
    residual = B - X - laplacian(graph) @ X
    assert np.linalg.norm(residual, axis=0).max() <= 1e-6 * (1 + 1e-6)


def test_columns_of_a_diffusion_are_independent() -> None:
    graph = random_graph(50, density=0.1, seed=3)
    easy, hard = np.ones(50), np.eye(50)[0]
    B = np.column_stack([easy, hard, np.zeros(50), 1e6 * hard])
    together = diffuse(graph, B)
    alone = np.column_stack([diffuse(graph, column[:, None])[:, 0] for column in B.T])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-14)
    assert np.all(together[:, 2] == 0.0)


def test_a_constant_column_of_a_diffusion_stays() -> None:
    X = diffuse(path(30), np.full((30, 1), 2.5), tol=1e-12, max_iter=100)
    np.testing.assert_allclose(X, 2.5, rtol=1e-10)


def test_isolated_vertices_keep_their_value_exactly() -> None:
    graph = Graph.from_edges(np.array([[0, 1], [1, 2]]), n_vertices=5)
    B = np.random.default_rng(0).standard_normal((5, 2))
    assert np.array_equal(diffuse(graph, B)[3:], B[3:])
    assert np.array_equal(diffuse(edgeless(5), B), B)


@pytest.mark.parametrize("factor", [1e-300, 1e-9, 0.37, 1e6, 1e300])
def test_diffusion_does_not_depend_on_the_unit_of_the_weights(factor: float) -> None:
    graph = random_graph(50, seed=4)
    B = np.random.default_rng(0).random((50, 3))
    np.testing.assert_allclose(diffuse(scaled(graph, factor), B), diffuse(graph, B), rtol=1e-9)


def test_diffusion_stops_at_max_iter_and_leaves_its_input_alone() -> None:
    graph = path(400)
    B = np.asfortranarray(np.eye(400)[:, :2])
    before = B.copy()
    coarse, fine = diffuse(graph, B, tol=1e-14, max_iter=1), diffuse(graph, B, tol=1e-14, max_iter=100)
    assert np.array_equal(B, before)
    assert np.count_nonzero(coarse[:, 0]) <= 4 < np.count_nonzero(fine[:, 0])
    np.testing.assert_array_equal(diffuse(graph, B, max_iter=0), B / (1.0 + graph.degrees[:, None]))


# The normalised cut


@pytest.mark.parametrize("seed", range(10))
def test_exact_components_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 90, size=6)
    blocks = [random_graph(int(n), density=0.6, seed=seed + i).to_scipy() for i, n in enumerate(sizes)]
    order = rng.permutation(int(sizes.sum()))
    graph = Graph.from_any(sp.csr_matrix(sp.block_diag(blocks, format="csr")[order][:, order]))
    truth = np.repeat(np.arange(6), sizes)[order]
    assert is_same_partition(ncut(graph, 6, seed), truth)


def test_identical_large_components_are_found() -> None:
    block = random_graph(250, density=0.1, seed=5).to_scipy()
    graph = Graph.from_any(sp.csr_matrix(sp.block_diag([block] * 4)))
    assert is_same_partition(ncut(graph, 4), np.repeat(np.arange(4), 250))


def test_purity_on_digits_is_the_published_one(digits: tuple[Graph, LabelArray]) -> None:
    graph, truth = digits
    labels = ncut(graph, 10)
    purity = sum(np.bincount(truth[labels == r]).max() for r in np.unique(labels)) / truth.size
    assert purity == pytest.approx(0.886, abs=0.02)


def test_procrustes_value_never_increases(digits: tuple[Graph, LabelArray]) -> None:
    graph, _ = digits
    for seed in range(5):
        rng = np.random.default_rng(seed)
        V = module._embed(graph, 10, rng)
        Q = module._initial_rotation(V, rng)
        values = []
        for _ in range(20):
            _, value, Q = module._procrustes_round(V, Q)
            np.testing.assert_allclose(Q @ Q.T, np.eye(10), atol=1e-10)
            values.append(value)
        assert np.all(np.diff(values) <= 1e-9 * graph.n_vertices)
        assert values[-1] < values[0]


def test_embedding_spans_the_leading_eigenvectors() -> None:
    graph, _ = planted()
    W = graph.to_scipy().toarray() + 0.5 * np.eye(graph.n_vertices)
    scale = 1.0 / np.sqrt(graph.degrees + 1.0)
    U = np.linalg.eigh(scale[:, None] * W * scale)[1][:, -3:]
    V = scale[:, None] * U
    embedding = module._embed(graph, 3, np.random.default_rng(0))
    np.testing.assert_allclose(embedding @ embedding.T, V @ V.T, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-300, 1e-9, 0.25, 1e6, 1e300])
def test_cut_does_not_depend_on_the_unit_of_the_weights(factor: float) -> None:
    graph = random_graph(150, density=0.05, seed=6)
    assert is_same_partition(ncut(scaled(graph, factor), 4), ncut(graph, 4))


def test_negligible_weights_are_dropped() -> None:
    W = sp.lil_matrix(sp.block_diag([np.ones((8, 8)), np.ones((8, 8))]))
    W[0, 8] = W[8, 0] = 1e-9
    graph = Graph.from_any(sp.csr_matrix(W))
    assert graph.components()[0] == 1
    assert is_same_partition(ncut(graph, 2), np.repeat([0, 1], 8))


def test_same_seed_same_labels(digits: tuple[Graph, LabelArray]) -> None:
    for graph in (digits[0], cycle(260), random_graph(260, density=0.004)):
        assert np.array_equal(ncut(graph, 5, seed=7), ncut(graph, 5, seed=7))


@pytest.mark.skipif(not module._EIGSH_TAKES_RNG, reason="before SciPy 1.17 ARPACK draws from its own stream")
def test_same_seed_same_labels_where_the_krylov_space_is_exhausted() -> None:
    for graph in (complete(260), star(260)):
        assert np.array_equal(ncut(graph, 5, seed=7), ncut(graph, 5, seed=7))


AWKWARD = {
    "one vertex": (edgeless(1), [1]),
    "no edges": (edgeless(300), [1, 2, 7, 300]),
    "complete": (complete(12), [1, 2, 5, 11, 12]),
    "large complete": (complete(260), [1, 2, 5]),
    "star": (star(12), [1, 2, 5, 11, 12]),
    "large star": (star(250), [1, 2, 5, 120]),
    "path": (path(12), [1, 2, 11, 12]),
    "large cycle": (cycle(600), [1, 2, 5]),
    "isolated vertices": (Graph.from_edges(np.array([[0, 1], [2, 3]]), n_vertices=40), [1, 2, 3, 39, 40]),
    "disconnected": (random_graph(210, density=0.004, seed=8), [1, 2, 10, 210]),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_graphs_give_labels_in_range(name: str) -> None:
    graph, counts = AWKWARD[name]
    for n_clusters in counts:
        labels = ncut(graph, n_clusters)
        assert labels.shape == (graph.n_vertices,)
        assert labels.dtype == np.int64
        assert 0 <= labels.min() <= labels.max() < n_clusters


def test_as_many_clusters_as_vertices_separates_all() -> None:
    for graph in (complete(9), path(9), edgeless(9)):
        assert np.unique(ncut(graph, 9)).size == 9


def test_vertices_beyond_the_leading_eigenvectors_get_label_zero() -> None:
    W = np.kron(np.diag([1.0, 1.0, 0.0]), np.ones((5, 5)))
    labels = ncut(Graph.from_any(W), 2)
    assert is_same_partition(labels[:10], np.repeat([0, 1], 5))
    assert labels[10:].tolist() == [0] * 5


@pytest.mark.parametrize("rescue_size", [0, 2000])
def test_cut_survives_an_eigensolver_that_does_not_converge(monkeypatch: pytest.MonkeyPatch, rescue_size: int) -> None:
    calls = []

    def fail(*args: object, **options: object) -> None:
        calls.append(args)
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(module, "eigsh", fail)
    monkeypatch.setattr(module, "_DENSE_RESCUE_SIZE", rescue_size)
    graph, truth = planted()
    labels = ncut(graph, 3)
    assert len(calls) == 2
    assert is_same_partition(labels, truth)


@pytest.mark.parametrize("is_told", [True, False])
def test_the_whole_spectrum_is_taken_where_lapack_fails_on_a_part(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    graph, eigh = random_graph(60, density=0.3, seed=3), module.scipy.linalg.eigh
    expected = normalised_cut(graph, 4, rng=np.random.default_rng(0))

    def frail(matrix: FloatArray, **how: object) -> object:
        if "subset_by_index" in how and is_told:
            raise np.linalg.LinAlgError("Internal Error.")
        return (np.empty(0), np.empty((len(matrix), 0))) if "subset_by_index" in how else eigh(matrix, **how)

    monkeypatch.setattr(module.scipy.linalg, "eigh", frail)
    assert (normalised_cut(graph, 4, rng=np.random.default_rng(0)) == expected).all()


# ---------------------------------------------------------------- the middle of parts


def test_centrality_is_a_power_of_the_walk_within_parts() -> None:
    rng = np.random.default_rng(0)
    W = np.triu(rng.random((20, 20)) * (rng.random((20, 20)) < 0.4), 1)
    W, parts = W + W.T, rng.integers(0, 3, 20)
    scale = np.diag(W.sum(axis=1) ** -0.5)
    walk = np.eye(20) + scale @ (W * (parts[:, None] == parts)) @ scale
    expected = np.linalg.matrix_power(walk, 10) @ np.ones(20)
    np.testing.assert_allclose(centrality_within(Graph.from_any(W), parts), expected)
    np.testing.assert_allclose(centrality_within(Graph.from_any(1e9 * W), parts), expected)


def test_the_hub_of_each_star_is_its_middle_and_a_vertex_alone_is_its_own() -> None:
    stars = Graph.from_edges([(0, i) for i in range(1, 5)] + [(5, i) for i in range(6, 9)] + [(4, 6)], n_vertices=10)
    parts = np.repeat([0, 1, 2], [5, 4, 1])
    found = centrality_within(stars, parts)
    assert [np.where(parts == r, found, 0).argmax() for r in range(3)] == [0, 5, 9]
    assert found[9] == 1
