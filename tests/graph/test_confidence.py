"""The confidence of a vertex, by hand and whatever the graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import graphs
from tautcut.errors import InputError
from tautcut.graph import Graph
from tautcut.graph.confidence import confidence


def test_confidence_by_hand():
    # Vertex 2 has neighbours 1 (weight 3, cluster 0) and 3 (weight 1, cluster 1) and counts itself with weight 2.
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], [1.0, 3.0, 1.0], n_vertices=5)
    margins = confidence(graph, [0, 0, 0, 1, 2], 3)
    assert margins.tolist() == pytest.approx([1.0, 1.0, (5 - 1) / 6, 0.0, 0.0])


@given(graphs(), st.data())
def test_confidence_lies_in_0_1_and_ignores_units_and_names(graph, data):
    labels = data.draw(st.lists(st.integers(0, 2), min_size=graph.n_vertices, max_size=graph.n_vertices))
    R = min(3, graph.n_vertices)
    labels = np.minimum(labels, R - 1)
    margins = confidence(graph, labels, R)
    assert np.all((margins >= 0) & (margins <= 1))
    assert np.all(margins[np.diff(graph.indptr) == 0] == 0)
    scaled = Graph(graph.indptr, graph.indices, graph.weights * 8)
    np.testing.assert_allclose(confidence(scaled, R - 1 - labels, R), margins)


def test_one_cluster_is_certain_and_bad_labels_are_refused():
    triangle = Graph.from_edges([(0, 1), (1, 2), (0, 2)])
    assert confidence(triangle, [0, 0, 0], 1).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(InputError, match="labels must lie in 0 … 1; found 2"):
        confidence(triangle, [0, 1, 2], 2)
