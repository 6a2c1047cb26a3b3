"""The layout of a graph for a GPU: every edge has its own slot, whatever the lengths of the rows. And masses whose sums
are exact.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from gpu_or_interpreter import torch
from strategies import graphs, random_graph
from tautcut.graph import Graph
from tautcut.kernels.gpu import layout as layout_module
from tautcut.kernels.gpu.layout import Csr, Layout, exactly_summed, extent_of, layout_of, tensor_of


def laid_out(graph: Graph, near: np.ndarray | None = None, **sizes: int) -> Layout:
    here = torch.device("cpu")
    weights = None if graph.is_unweighted else tensor_of(graph.weights, here)
    csr = Csr(tensor_of(graph.indptr, here), tensor_of(graph.indices, here), weights)
    return layout_of(csr, near=None if near is None else tensor_of(near, here), **sizes)


def edges_of(layout: Layout) -> list[tuple[int, int, float]]:
    """(vertex, neighbour, weight) of every slot that holds an edge, read as the programs read it."""
    found = []
    for block in range(layout.n_blocks):
        is_long = block >= layout.n_short_blocks
        for step in range(int(layout.offsets[block]), int(layout.offsets[block + 1])):
            for lane in range(layout.lanes):
                slot = step * layout.lanes + lane
                row = int(layout.owners[block]) if is_long else block * layout.lanes + lane
                end = int(layout.neighbors[slot])
                if is_long or row < layout.n_short:
                    if end != row:
                        weight = 1.0 if layout.weights is None else float(layout.weights[slot])
                        found.append((int(layout.order[row]), int(layout.order[end]), weight))
                else:
                    assert end == layout.n_short - 1  # a lane without a row: nothing differs along it
    return sorted(found)


def edges_of_graph(graph: Graph) -> list[tuple[int, int, float]]:
    rows = np.repeat(np.arange(graph.n_vertices), np.diff(graph.indptr))
    weights = graph.weights.astype(np.float32)
    return sorted(zip(rows.tolist(), graph.indices.tolist(), weights.tolist(), strict=True))


@given(
    graphs(max_vertices=12), st.sampled_from([2, 4, 8]), st.sampled_from([1, 2]), st.sampled_from([0, 2, 64]),
    st.sampled_from([0, 4, 64]),
)  # fmt: skip
def test_every_edge_has_its_slot(graph: Graph, lanes: int, unroll: int, longest: int, hub: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_module, "LONG_ROW", longest)
        patch.setattr(layout_module, "HUB_ROW", hub)
        patch.setattr(layout_module, "PIECE", 4)
        layout = laid_out(graph, lanes=lanes, unroll=unroll)
        foreseen = extent_of(np.diff(graph.indptr), lanes=lanes, unroll=unroll)
    assert foreseen == (layout.n_slots, layout.n_blocks, layout.n_pieces)
    assert edges_of(layout) == edges_of_graph(graph)
    assert layout.n_hubs == (np.diff(graph.indptr) > max(longest, hub)).sum()
    assert sorted(layout.order.tolist()) == list(range(graph.n_vertices))
    assert (np.diff(layout.offsets.numpy()) % unroll == 0).all()


def test_no_block_of_a_hub_is_longer_than_a_piece():
    """A star: its centre is the last row, in as many blocks as it takes; one edge fewer, and it has one block."""
    for n_leaves, n_blocks in ((2048, 1), (2049, 5), (100_000, 196)):
        star = Graph.from_edges(np.column_stack([np.zeros(n_leaves, dtype=np.int64), np.arange(1, n_leaves + 1)]))
        layout = laid_out(star, lanes=8, unroll=2)
        assert layout.order[-1] == 0
        assert layout.n_hubs == (n_blocks > 1)
        assert int((layout.owners == n_leaves).sum()) == n_blocks
        lengths = np.diff(layout.offsets.numpy())[layout.n_whole_blocks :] * layout.lanes
        assert (lengths <= layout_module.PIECE).all()


def test_rows_of_like_length_share_a_block():
    graph = random_graph(3000, 12_000, seed=0, is_weighted=False, n_isolated=0)
    layout = laid_out(graph, lanes=8, unroll=2)
    assert extent_of(np.diff(graph.indptr), lanes=8, unroll=2).n_slots == layout.n_slots
    assert layout.n_slots <= 1.1 * graph.indices.size  # in the graph's own order it would be 1.6 times as many


def test_vertices_that_belong_together_lie_side_by_side():
    graph = random_graph(200, 600, seed=0, is_weighted=True, n_isolated=0)
    groups = np.random.default_rng(0).integers(0, 4, 200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_module, "WINDOW", 8)
        layout = laid_out(graph, lanes=4, unroll=2, near=groups)
    assert (np.diff(groups[layout.order]) != 0).sum() < 4 + 200 // 8
    assert edges_of(layout) == edges_of_graph(graph)


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=60))
def test_sums_of_masses_are_exact_in_any_order(drawn: list[float]):
    masses = np.array(drawn) / np.mean(drawn)
    rounded, grain = exactly_summed(masses)
    assert (rounded > 0).all()
    assert np.abs(rounded - masses).max() <= masses.sum() * 2.0**-51
    exact = float(sum(map(Fraction, rounded.tolist())))
    assert rounded.sum() == rounded[np.random.default_rng(0).permutation(rounded.size)].sum() == exact
    assert exact / grain == int(exact / grain) < 2**53


def test_masses_of_millions_are_exact_too():
    masses = 10 ** np.random.default_rng(0).uniform(-3, 3, 1 << 20)
    masses /= masses.mean()
    rounded, grain = exactly_summed(masses)
    assert rounded.sum() == np.cumsum(rounded)[-1] == (rounded / grain).astype(np.int64).sum() * grain
    assert np.allclose(rounded, masses, rtol=0, atol=grain / 2)
