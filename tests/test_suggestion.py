"""The suggested number of clusters on planted graphs, and the curve behind it."""

from __future__ import annotations

import json

import networkx
import numpy as np
import pytest

from strategies import planted_graph, random_graph
from tautcut import suggestion
from tautcut.algorithm.observers import Progress
from tautcut.errors import InputError, InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.metrics import ari
from tautcut.problem import Problem, balanced_cut_energy
from tautcut.search import links
from tautcut.suggestion import CurvePoint, Suggestion, suggest_n_clusters

pytestmark = pytest.mark.usefixtures("light_search")

SIZE = 30  # of each block
FOUR = planted_graph(4, SIZE, seed=0)


@pytest.fixture(scope="module")
def four() -> Suggestion:
    return suggest_n_clusters(FOUR, range(2, 7), random_state=0)


def test_planted_blocks_are_counted(four):
    assert four.n_clusters == 4
    assert four.is_complete
    assert "4 clusters stand out" in four.reason


@pytest.mark.no_cover
@pytest.mark.parametrize("n_blocks", [2, 6])
def test_other_planted_blocks_are_counted(n_blocks):
    graph = planted_graph(n_blocks, 50, seed=n_blocks)
    assert suggest_n_clusters(graph, [2, 3, 6, 7], random_state=1).n_clusters == n_blocks


def test_the_curve_is_what_it_says(four):
    assert [point.n_clusters for point in four.curve] == [2, 3, 4, 5, 6]
    assert max(four.curve[:-1], key=lambda point: point.score).n_clusters == four.n_clusters
    planted = np.repeat(np.arange(4), SIZE)
    point = four.curve[2]
    assert point.energy == pytest.approx(balanced_cut_energy(FOUR, planted))
    assert point.stability == 1
    inside = [FOUR.to_scipy()[planted == r][:, planted == r].sum() for r in range(4)]
    assert point.leakage == pytest.approx(1 - np.min(inside / np.bincount(planted, FOUR.degrees)))
    unit = 0.05 * max(other.leakage for other in four.curve)
    assert point.score == pytest.approx((four.curve[3].leakage + unit) / (point.leakage + unit))
    assert np.isnan(four.curve[-1].score)
    assert point[:4] == (4, point.energy, point.stability, point.modularity)


@pytest.mark.parametrize("n_pieces", [3, 4])
def test_pieces_are_counted(n_pieces):
    ring = np.array([(i, (i + step) % 20) for i in range(20) for step in (1, 2, 3)])
    pieces = Graph.from_edges(np.vstack([ring + 20 * piece for piece in range(n_pieces)]))
    assert suggest_n_clusters(pieces, range(2, 6), random_state=0).n_clusters == n_pieces


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "graph",
    [networkx.path_graph(120), networkx.gnm_random_graph(60, 300, seed=0)],
    ids=["path", "random"],
)
def test_no_number_stands_out_without_clusters(graph):
    found = suggest_n_clusters(Graph.from_any(graph), range(2, 6), random_state=0)
    assert found.reason.startswith("No number of clusters stands out")
    assert [point.score for point in found.curve[:-1]] == [0, 0, 0]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_shares_give_the_modularity_of_networkx(is_weighted):
    graph = random_graph(40, 120, seed=1, is_weighted=is_weighted, n_isolated=2)
    labels = np.random.default_rng(0).integers(0, 3, 40)
    clusters = [set(np.flatnonzero(labels == r).tolist()) for r in range(3)]
    expected = networkx.community.modularity(networkx.from_scipy_sparse_array(graph.to_scipy()), clusters)
    shares, cut = suggestion._shares(graph, labels, 3)
    assert (shares - cut - shares**2).sum() == pytest.approx(expected)


def test_a_point_is_the_better_of_two_runs_and_how_far_they_agree(monkeypatch):
    graph = random_graph(40, 120, seed=1)
    problem, rng = Problem(graph, 3), np.random.default_rng(0)
    first, second = (problem.partition(rng.integers(0, 3, 40)) for _ in range(2))
    assert first.energy != second.energy
    better = min(first, second, key=lambda partition: partition.energy)
    clusters = [set(np.flatnonzero(better.labels == r).tolist()) for r in range(3)]
    network = networkx.from_scipy_sparse_array(graph.to_scipy())
    leaving = [networkx.cut_size(network, one) / networkx.volume(network, one) for one in clusters]
    for order in ([first, second], [second, first]):
        runs = iter(order)
        monkeypatch.setattr(suggestion, "quick_partition", lambda problem, groups, *, rng, runs=runs: next(runs))
        point = suggestion._point(problem, rng)
        assert (point.n_clusters, point.energy) == (3, better.energy)
        assert point.stability == pytest.approx(ari(first.labels, second.labels))
        assert point.stability < 0.5
        assert point.modularity == pytest.approx(networkx.community.modularity(network, clusters))
        assert point.leakage == pytest.approx(max(leaving))


@pytest.mark.no_cover
def test_the_same_seed_gives_the_same_curve(four):
    assert str(suggest_n_clusters(FOUR, range(2, 7), random_state=0)) == str(four)


def test_a_candidate_does_not_depend_on_those_after_it(four):
    found = suggest_n_clusters(FOUR, [2, 3], random_state=0)
    assert [point[:5] for point in found.curve] == [point[:5] for point in four.curve[:2]]


def test_text_and_json(four):
    plain = json.loads(json.dumps(four.to_dict(), allow_nan=False))
    assert plain["n_clusters"] == 4
    assert plain["curve"][2]["score"] == pytest.approx(four.curve[2].score)
    assert plain["curve"][-1]["score"] is None
    lines = str(four).splitlines()
    assert len(lines) == 1 + 5 + 1
    assert [line.split()[0] for line in lines if line.endswith("*")] == ["4"]
    assert lines[-1] == four.reason


def test_an_infinite_energy_is_none_in_json():
    point = CurvePoint(3, np.inf, 1.0, 0.5)
    assert Suggestion(3, (point,), "").to_dict()["curve"][0]["energy"] is None


def told(*curve: tuple[int, float, float]) -> Suggestion:
    """The suggestion for candidates with these energies and leakages."""
    points = tuple(CurvePoint(R, energy, 1.0, 0.5, leakage) for R, energy, leakage in curve)
    return suggestion._suggestion(points, is_complete=True)


def test_the_largest_jump_of_the_leakage_is_suggested():
    found = told((2, 1.0, 0.02), (3, 2.0, 0.05), (4, 4.0, 0.2), (5, 6.0, 0.3))
    assert found.n_clusters == 3
    assert "3 clusters stand out: 5.0% of the edge weight of the worst one leaves it, and 20.0% with 4" in found.reason
    assert found.reason.endswith("The next best is 2.")


def test_a_jump_counts_only_where_the_mean_term_rises():
    assert told((2, 1.0, 0.02), (3, 1.5, 0.2), (4, 4.0, 0.3), (5, 6.0, 0.31)).n_clusters == 3
    assert told((2, 1.0, 0.02), (3, 1.56, 0.2), (4, 1.0, 0.3)).reason.startswith("No number")  # 4 % are no rise
    assert told((2, 1.0, 0.02), (3, 1.59, 0.2), (4, 1.0, 0.3)).n_clusters == 2
    found = told((2, 1.0, 0.02), (3, 1.5, 0.2), (4, 2.0, 0.3))
    assert found.reason.startswith("No number of clusters stands out")
    assert found.reason.endswith("2 is a guess.")


def test_close_numbers_are_named():
    assert "Close behind: 2." in told((2, 1.0, 0.05), (3, 2.0, 0.1), (4, 4.0, 0.21)).reason


def test_a_cluster_that_loses_half_of_its_weight_is_not_praised():
    found = told((2, 1.0, 0.5), (3, 2.0, 0.9), (4, 8.0, 1.0))
    assert [point.score for point in found.curve[:-1]] == [0, 0]
    assert found.reason.startswith("No number of clusters stands out: whatever the number, some cluster loses half")
    assert found.n_clusters == 2  # the guess that loses least
    assert told((2, 1.0, 0.9), (3, 2.0, 0.49), (4, 8.0, 1.0)).n_clusters == 3


def test_a_guess_loses_less_than_half_where_one_can():
    assert told((2, 1.0, 0.6), (3, 1.0, 0.4), (4, 1.0, 0.41)).n_clusters == 3


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "network",
    [
        networkx.star_graph(30),
        networkx.complete_graph(12),
        networkx.complete_bipartite_graph(6, 6),
        networkx.davis_southern_women_graph(),
        networkx.les_miserables_graph(),
        networkx.petersen_graph(),
        networkx.cycle_graph(12),
        networkx.gnm_random_graph(50, 80, seed=3),
    ],
    ids=["star", "clique", "bipartite", "women", "miserables", "petersen", "cycle", "sparse"],
)
def test_no_cluster_is_praised_that_loses_half_of_its_weight(network):
    graph = Graph.from_any(networkx.convert_node_labels_to_integers(network))
    found = suggest_n_clusters(graph, range(2, 9), random_state=0)
    point = next(one for one in found.curve if one.n_clusters == found.n_clusters)
    assert found.reason.startswith("No number") or point.leakage < 0.5


def test_a_cluster_without_any_weight_counts_as_one_that_loses_all():
    graph = random_graph(40, 120, seed=1, n_isolated=5)
    isolated = graph.degrees == 0
    problem = Problem(graph, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suggestion, "quick_partition", lambda problem, groups, *, rng: problem.partition(isolated * 1))
        assert suggestion._point(problem, np.random.default_rng(0)).leakage == 1


def test_cuts_that_cost_nothing():
    assert told((2, 0.0, 0.0), (3, 0.0, 0.0), (4, 0.5, 0.1), (5, 1.0, 0.2)).n_clusters == 3


def test_an_empty_cluster_is_a_rise_and_two_are_none():
    assert told((2, 1.0, 0.1), (3, np.inf, 0.1), (4, np.inf, 0.2)).n_clusters == 2


def test_a_single_candidate():
    assert told((3, 1.0, 0.1)).reason.startswith("3 was the only candidate")


def test_observers_see_every_candidate_and_can_stop():
    seen: list[Progress] = []

    def stop_after_two(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 2

    found = suggest_n_clusters(FOUR, range(2, 7), random_state=0, observers=[stop_after_two])
    assert [(step.iterations, step.max_iter, step.phase) for step in seen] == [(1, 5, "suggest"), (2, 5, "suggest")]
    assert [step.energy for step in seen] == [point.energy for point in found.curve]
    assert [step.best_energy for step in seen] == [found.curve[0].energy, min(point.energy for point in found.curve)]
    assert [point.n_clusters for point in found.curve] == [2, 3]
    assert not found.is_complete
    assert "Not all candidates were tried." in found.reason


def test_an_interrupt_returns_what_is_there(monkeypatch, four):
    search, calls = links.best_of_starts, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return search(*arguments, **options)

    monkeypatch.setattr(links, "best_of_starts", interrupted)
    with pytest.warns(InterruptedRunWarning, match="candidates done so far"):
        found = suggest_n_clusters(FOUR, range(2, 7), random_state=0)
    assert [point[:5] for point in found.curve] == [point[:5] for point in four.curve[:2]]
    assert not found.is_complete


def test_a_run_that_an_interrupt_cut_short_does_not_count(monkeypatch):
    search = links.best_of_starts

    def cut_short(problem, plan, *, rng):
        def press(progress: Progress) -> None:
            if problem.n_clusters == 3:
                raise KeyboardInterrupt

        return search(problem, plan, rng=rng, observers=[press])

    monkeypatch.setattr(links, "best_of_starts", cut_short)
    with pytest.warns(InterruptedRunWarning, match="candidates done so far") as caught:
        found = suggest_n_clusters(FOUR, [2, 3, 4], random_state=0)
    assert len(caught) == 1
    assert [point.n_clusters for point in found.curve] == [2]


def test_an_interrupt_before_the_first_candidate_is_passed_on(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(links, "best_of_starts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        suggest_n_clusters(FOUR, [2])


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "candidates is empty"),
        ([1, 2], "between 2 and the 120 vertices; found 1"),
        ([2, 500], "between 2 and the 120 vertices; found 500"),
        ([2.5], "n_clusters must be a whole number"),
    ],
)
def test_bad_candidates_are_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        suggest_n_clusters(FOUR, candidates)


def test_a_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="without edges"):
        suggest_n_clusters(Graph.from_any(np.zeros((4, 4))), [2])


def test_as_many_clusters_as_vertices():
    triangle = Graph.from_edges([(0, 1), (1, 2), (0, 2)])
    curve = suggest_n_clusters(triangle, [2, 3], random_state=0).curve
    assert [(point.n_clusters, point.energy) for point in curve] == [(2, 4.0), (3, 3.0)]


def test_candidates_are_taken_in_order_and_once():
    triangle = Graph.from_edges([(0, 1), (1, 2), (0, 2)])
    curve = suggest_n_clusters(triangle, [3, 2, 3], random_state=0).curve
    assert [point.n_clusters for point in curve] == [2, 3]


# ---------------------------------------------------------------- masses and links


@pytest.mark.no_cover
def test_equal_masses_change_nothing(four):
    tenfold = suggest_n_clusters(FOUR.with_masses(np.full(FOUR.n_vertices, 16.0)), range(2, 7), random_state=0)
    assert tenfold.n_clusters == four.n_clusters
    for one, other in zip(four.curve, tenfold.curve, strict=True):
        assert other.energy == pytest.approx(one.energy / 16)  # (P) is a weight over a mass
        assert other[2:5] == one[2:5]


def test_uneven_masses_are_those_of_the_curve():
    masses = np.repeat([1.0, 2.0, 3.0, 4.0], SIZE)
    weighed = suggest_n_clusters(FOUR.with_masses(masses), [3, 4], random_state=0)
    planted = np.repeat(np.arange(4), SIZE)
    assert weighed.curve[1].energy == pytest.approx(balanced_cut_energy(FOUR, planted, masses=masses))
    assert json.loads(json.dumps(weighed.to_dict()))["n_clusters"] == weighed.n_clusters


def test_linked_vertices_stay_together():
    planted = np.repeat(np.arange(4), SIZE)
    across = [(0, SIZE), (2 * SIZE, 3 * SIZE)]  # the first block with the second, the third with the fourth
    free = suggest_n_clusters(FOUR, [4, 5], random_state=0)
    linked = suggest_n_clusters(FOUR, [4, 5], must_link=across, random_state=0)
    assert free.curve[0].energy == pytest.approx(balanced_cut_energy(FOUR, planted))
    assert linked.curve[0].energy > free.curve[0].energy
    inside = suggest_n_clusters(FOUR, [4, 5], must_link=[range(10), range(SIZE, SIZE + 10)], random_state=0)
    assert inside.curve[0].energy == pytest.approx(free.curve[0].energy)
    assert inside.curve[0].leakage == pytest.approx(free.curve[0].leakage)  # of all edges, those of groups too


def test_no_more_clusters_than_groups_are_tried():
    path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    with pytest.raises(InputError, match="between 2 and the 3 groups of vertices that stay together; found 4"):
        suggest_n_clusters(path, [2, 4], must_link=[(0, 1)])
