"""Graph: what is accepted, what is refused and how, and what every graph guarantees."""

from __future__ import annotations

import copy
import importlib

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tautcut.errors import InputError
from tautcut.graph import Graph

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]
TRIANGLE = np.array([[0.0, 2.0, 0.5, 0.0], [2.0, 0.0, 1.0, 0.0], [0.5, 1.0, 0.0, 0.0], [0.0] * 4])


def similarities() -> st.SearchStrategy[np.ndarray]:
    """Symmetric, non-negative matrices with zeros and a diagonal."""
    entries = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
    squares = st.integers(1, 7).flatmap(lambda n: hnp.arrays(np.float64, (n, n), elements=entries))
    return squares.map(lambda a: np.triu(a) + np.triu(a, 1).T)


def off_diagonal(W: np.ndarray) -> np.ndarray:
    return W * ~np.eye(len(W), dtype=bool)


@given(similarities())
@settings(deadline=None)
def test_a_graph_is_its_matrix_without_the_diagonal(W):
    before = W.copy()
    graph = Graph.from_any(W)
    assert np.array_equal(graph.to_scipy().toarray(), off_diagonal(W))
    assert np.array_equal(W, before)
    assert graph.n_vertices == len(W)
    assert graph.n_edges == np.count_nonzero(np.triu(W, 1))
    np.testing.assert_allclose(graph.degrees, off_diagonal(W).sum(axis=1))


@given(similarities())
@settings(deadline=None)
def test_csr_is_canonical(W):
    graph = Graph.from_any(sp.coo_matrix(W))
    assert (graph.indptr.dtype, graph.indices.dtype, graph.weights.dtype) == (np.int64, np.int32, np.float64)
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    assert np.all(np.diff(rows * graph.n_vertices + graph.indices) > 0)
    assert np.all(rows != graph.indices)
    assert np.all(graph.weights > 0)


@given(similarities(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_edges_in_any_order_and_direction_give_the_same_graph(W, random):
    i, j = np.nonzero(np.triu(W, 1))
    edges = [random.choice([(a, b), (b, a)]) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    edges += edges[:2]
    random.shuffle(edges)
    weights = [W[a, b] for a, b in edges]
    graph = Graph.from_edges(np.array(edges, dtype=int).reshape(-1, 2), weights, n_vertices=len(W))
    assert np.array_equal(graph.to_scipy().toarray(), off_diagonal(W))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("container", [sp.coo_matrix, sp.coo_array])
def test_every_sparse_format(form, container):
    W = container(TRIANGLE).asformat(form)
    before = W.copy()
    assert np.array_equal(Graph.from_any(W).to_scipy().toarray(), TRIANGLE)
    assert np.array_equal(W.toarray(), before.toarray())
    assert W.dtype == before.dtype


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_every_real_dtype(dtype):
    W = (TRIANGLE > 0).astype(dtype)
    for obj in (W, sp.csr_matrix(W)):
        graph = Graph.from_any(obj)
        assert graph.is_unweighted
        assert graph.n_edges == 3


def test_nested_lists_and_data_frames():
    pandas = importlib.import_module("pandas")
    for obj in (TRIANGLE.tolist(), pandas.DataFrame(TRIANGLE)):
        assert np.array_equal(Graph.from_any(obj).to_scipy().toarray(), TRIANGLE)


def test_duplicates_are_summed_and_booleans_stay_one():
    at = ([0, 0, 1, 1], [1, 1, 0, 0])
    assert Graph.from_any(sp.coo_matrix(([1, 2, 3, 0], at), shape=(2, 2))).weights.tolist() == [3, 3]
    assert Graph.from_any(sp.coo_matrix((np.ones(4, bool), at), shape=(2, 2))).weights.tolist() == [1, 1]
    unsorted = sp.csr_matrix(([1.0, 2.0, 1.0, 2.0], [2, 1, 0, 0], [0, 2, 3, 4]), shape=(3, 3))
    with pytest.raises(InputError, match="symmetric"):
        Graph.from_any(unsorted)


def test_stored_zeros_are_no_edges():
    at = ([0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0])
    graph = Graph.from_any(sp.csr_matrix(([3.0, 3.0, 0.0, 0.0, 0.0, 0.0], at), shape=(3, 3)))
    assert (graph.n_edges, graph.indices.tolist(), graph.components()[0]) == (1, [1, 0], 2)
    assert Graph.from_edges([(0, 1), (1, 2)], [2.0, 0.0]).n_edges == 1


def test_the_callers_matrix_is_left_unsorted():
    W = sp.csr_matrix(([1.0, 2.0, 2.0, 1.0], [2, 1, 0, 0], [0, 2, 3, 4]), shape=(3, 3))
    graph = Graph.from_any(W)
    assert W.indices.tolist() == [2, 1, 0, 0]
    assert graph.indices.tolist() == [1, 2, 0, 0]
    assert graph.weights.tolist() == [2, 1, 2, 1]


def test_later_changes_of_the_matrix_do_not_reach_the_graph():
    W = sp.csr_matrix(TRIANGLE)
    graph = Graph.from_any(W)
    W.data[:] = 9.0
    graph.to_scipy().data[:] = 9.0
    assert np.array_equal(graph.to_scipy().toarray(), TRIANGLE)


def test_the_diagonal_is_ignored_whatever_it_holds():
    W = TRIANGLE.copy()
    np.fill_diagonal(W, [np.inf, np.nan, -1.0, 5.0])
    assert np.array_equal(Graph.from_any(W).to_scipy().toarray(), TRIANGLE)


def test_rounding_is_averaged_out():
    W = TRIANGLE.copy()
    W[0, 1] *= 1 + 1e-9
    A = Graph.from_any(W).to_scipy().toarray()
    assert np.array_equal(A, A.T)
    assert W[1, 0] < A[0, 1] < W[0, 1]


def changed(i: int, j: int, value: float, *, both: bool = True) -> np.ndarray:
    W = TRIANGLE.copy()
    W[i, j] = value
    if both:
        W[j, i] = value
    return W


BAD = [
    (changed(0, 2, np.nan), r"nan on edge \(0, 2\)"),
    (changed(1, 2, np.inf), r"inf on edge \(1, 2\)"),
    (changed(1, 2, -np.inf), r"-inf on edge \(1, 2\)"),
    (changed(1, 2, -0.5), r"weights must be ≥ 0; found -0.5 on edge \(1, 2\). Clip or shift W."),
    (changed(2, 3, 1e308) + changed(0, 1, 1e308), "overflows"),
    (changed(1, 0, 3.0, both=False), r"symmetric; W\[0, 1\] = 2.0 but W\[1, 0\] = 3.0.*maximum\(W"),
    (changed(2, 3, 1.0, both=False), r"symmetric; W\[2, 3\] = 1.0 but W\[3, 2\] = 0.0"),
    (changed(1, 0, 2.0 * (1 + 1e-5), both=False), "symmetric"),
    (TRIANGLE[:, :3], r"square matrix; found shape \(4, 3\)"),
    (np.ones((0, 0)), "at least one vertex"),
    (TRIANGLE + 0j, "dtype complex128"),
]


@pytest.mark.parametrize(("W", "message"), BAD)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_bad_matrices_are_refused(W, message, convert):
    with pytest.raises(InputError, match=message):
        Graph.from_any(convert(W))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (np.ones(3), r"square.*\(3,\)"),
        (np.ones((2, 2, 2)), r"square.*\(2, 2, 2\)"),
        (np.float64(3.0), r"square.*\(\)"),
        ([[1, 2], [3]], "regular"),
        (TRIANGLE.astype(object), "dtype object"),
        ([["a", "b"], ["b", "a"]], "real numbers"),
        ("graph", "'str'"),
        (None, "'NoneType'"),
        ({0: [1]}, "'dict'"),
    ],
)
def test_other_objects_are_refused(obj, message):
    with pytest.raises(InputError, match=message):
        Graph.from_any(obj)


def test_a_malformed_sparse_matrix_is_refused():
    W = sp.csr_matrix(TRIANGLE)
    W.indices[0] = 99
    with pytest.raises(InputError, match="malformed"):
        Graph.from_any(W)


def test_edges_count_once_and_loops_are_dropped():
    graph = Graph.from_edges([(0, 1), (1, 0), (0, 1), (2, 2), (1, 2)])
    assert (graph.n_vertices, graph.n_edges, graph.is_unweighted) == (3, 2, True)
    assert Graph.from_edges([], n_vertices=2).n_edges == 0
    assert Graph.from_edges([(3, 3)]).n_vertices == 4


@pytest.mark.parametrize(
    ("edges", "weights", "n_vertices", "message"),
    [
        ([(0, 1), (1, 0)], [1.0, 2.0], None, r"edge \(0, 1\).*1.0 and 2.0"),
        ([(0, 1), (1, 2)], [1.0], None, r"\(2,\), not \(1,\)"),
        ([(0, 1)], [-1.0], None, "found -1.0"),
        ([(0, 1), (1, 0)], [np.nan, 1.0], None, "nan"),
        ([(0, 1), (1, 0)], [np.inf, np.inf], None, "found inf"),
        ([(0, 1)], ["a"], None, "real numbers"),
        ([(0, -1)], None, None, "found -1"),
        ([(0, 5)], None, 5, "vertex 5 .* n_vertices=5"),
        ([(0.0, 1.0)], None, None, "float64"),
        ([(0, 1, 2)], None, None, r"\(1, 3\)"),
        ([(0, 1), (2,)], None, None, r"\(m, 2\)"),
        ([], None, None, "at least one vertex"),
        ([(0, 1)], None, 2.5, "2.5"),
        ([(0, 1)], None, True, "True"),
    ],
)
def test_bad_edges_are_refused(edges, weights, n_vertices, message):
    with pytest.raises(InputError, match=message):
        Graph.from_edges(edges, weights, n_vertices=n_vertices)


def test_networkx_graphs():
    nx = pytest.importorskip("networkx")
    G = nx.Graph()
    G.add_nodes_from(["c", "a", "b", "lonely"])
    G.add_edge("a", "c", weight=2.0)
    G.add_edge("a", "b")
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = 2.0
    expected[1, 2] = expected[2, 1] = 1.0
    assert np.array_equal(Graph.from_any(G).to_scipy().toarray(), expected)
    assert np.array_equal(Graph.from_any(nx.DiGraph(G)).to_scipy().toarray(), expected)
    assert Graph.from_any(nx.MultiGraph([(0, 1), (0, 1)])).weights.tolist() == [2, 2]
    assert Graph.from_any(nx.empty_graph(3)).n_vertices == 3
    with pytest.raises(InputError, match=r"symmetric.*to_undirected"):
        Graph.from_any(nx.DiGraph([(0, 1)]))
    with pytest.raises(InputError, match="at least one vertex"):
        Graph.from_any(nx.Graph())
    with pytest.raises(InputError, match="weight"):
        Graph.from_any(nx.Graph([(0, 1, {"weight": "heavy"})]))


def test_igraph_graphs():
    igraph = pytest.importorskip("igraph")
    G = igraph.Graph(n=4, edges=[(0, 1), (1, 2), (2, 2)])
    assert Graph.from_any(G).n_edges == 2
    G.es["weight"] = [2.0, 3.0, 9.0]
    assert Graph.from_any(G).weights.tolist() == [2, 2, 3, 3]
    assert Graph.from_any(igraph.Graph(n=2, edges=[(0, 1), (0, 1)])).weights.tolist() == [2, 2]
    assert Graph.from_any(igraph.Graph(n=2, edges=[(0, 1), (1, 0)], directed=True)).n_edges == 1
    assert Graph.from_any(igraph.Graph(n=3)).n_edges == 0
    with pytest.raises(InputError, match=r"symmetric.*as_undirected"):
        Graph.from_any(igraph.Graph(n=2, edges=[(0, 1)], directed=True))


def test_a_graph_is_frozen_and_so_are_its_copies():
    graph = Graph.from_any(TRIANGLE)
    assert Graph.from_any(graph) is graph
    pickle = importlib.import_module("pickle")
    graph.components()
    for same in (graph, copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert np.array_equal(same.to_scipy().toarray(), TRIANGLE)
        for array in (same.indptr, same.indices, same.weights, same.degrees, same.components()[1]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
        with pytest.raises(AttributeError):
            same.weights = np.ones(6)


def test_the_constructor_leaves_the_given_arrays_writable():
    weights = np.ones(2)
    graph = Graph(np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32), weights)
    assert weights.flags.writeable
    assert not graph.weights.flags.writeable


def test_components_and_isolated_vertices():
    graph = Graph.from_edges([(0, 1), (2, 3)], n_vertices=5)
    count, labels = graph.components()
    assert count == 3
    assert labels[0] == labels[1] != labels[2] == labels[3]
    assert labels[4] not in labels[:4]
    assert graph.degrees.tolist() == [1, 1, 1, 1, 0]
    assert Graph.from_any([[0.0]]).components()[0] == 1


def test_repr_and_is_unweighted():
    assert repr(Graph.from_any(TRIANGLE)) == "Graph(n_vertices=4, n_edges=3)"
    assert not Graph.from_any(TRIANGLE).is_unweighted
    assert Graph.from_any(TRIANGLE > 0).is_unweighted


# ---------------------------------------------------------------- the unit of the weights


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**600, 2.0**-1000, 3.0, 0.1, 1e-12, 1e150])
def test_a_common_factor_leaves_the_same_graph(factor):
    W = np.triu(np.random.default_rng(0).random((12, 12)), 1)
    plain, _ = Graph.from_any(W + W.T).in_mean_weights()
    scaled, unit = Graph.from_any((W + W.T) * factor).in_mean_weights()
    np.testing.assert_array_equal(scaled.weights, plain.weights)
    assert unit == pytest.approx(factor * W[W > 0].mean())


@pytest.mark.parametrize("factor", [3.0, 1e-12, 0.1, 5e-324, 1e300])
def test_a_constant_weight_is_the_binary_graph(factor):
    scaled, unit = Graph.from_edges([(0, 1), (1, 2), (2, 3)], [factor] * 3).in_mean_weights()
    assert scaled.is_unweighted
    assert unit == factor


def test_no_weight_vanishes_beside_others():
    scaled, _ = Graph.from_edges([(0, 1), (1, 2), (2, 3)], [1e-320, 1.0, 1e300]).in_mean_weights()
    assert (scaled.weights > 0).all()
    assert np.isfinite(scaled.weights).all()


def test_hubs_do_not_matter_for_the_order_of_their_neighbors(monkeypatch):
    module = importlib.import_module("tautcut.graph.graph")
    monkeypatch.setattr(module, "_HUB", 10)
    shuffled = np.random.default_rng(0).permutation(60)
    path = [(shuffled[i], shuffled[i + 1]) for i in range(59)]
    W = Graph.from_edges([*path, *((60, i) for i in range(60))]).to_scipy()
    place = np.argsort(module.local_order(W))
    assert sorted(place.tolist()) == list(range(61))
    assert all(abs(place[i] - place[j]) <= 2 for i, j in path)


# ---------------------------------------------------------------- masses of graph objects


def test_the_attribute_mass_of_vertices_is_their_mass():
    import igraph
    import networkx as nx

    G = nx.path_graph(["c", "a", "b"])
    assert not Graph.from_any(G).has_masses
    nx.set_node_attributes(G, {"a": 2, "b": np.float32(0.5), "c": 3.0}, "mass")
    assert Graph.from_any(G).masses.tolist() == [3.0, 2.0, 0.5]
    H = igraph.Graph([(0, 1), (1, 2)])
    assert not Graph.from_any(H).has_masses
    H.vs["mass"] = [3, 2, 0.5]
    assert Graph.from_any(H).masses.tolist() == [3.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("bad", "words"),
    [(None, "there is none"), (0, "found 0.0"), (-1, "found -1.0"), (np.nan, "found nan"), ("2", "found '2'"),
     (np.inf, "found inf"), (10**400, "too large")],
)  # fmt: skip
@pytest.mark.parametrize("package", ["networkx", "igraph"])
def test_bad_masses_of_graph_objects_name_the_vertex(package, bad, words):
    import igraph
    import networkx as nx

    G: object
    if package == "networkx":
        G = nx.path_graph(3)
        nx.set_node_attributes(G, {0: 1.0, 1: bad, 2: 1.0}, "mass")
        if bad is None:
            del G.nodes[1]["mass"]
    else:
        G = igraph.Graph([(0, 1), (1, 2)])
        G.vs["mass"] = [1.0, bad, 1.0]
    with pytest.raises(InputError, match=words) as error:
        Graph.from_any(G)
    assert "vertex 1" in str(error.value) or bad == 10**400
