"""Estimators scale nothing; they say where a few columns carry the distances, and are silent everywhere else."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tautcut import MTVClassifier, MTVClustering, knn_graph
from tautcut.errors import GraphWarning

pytestmark = pytest.mark.usefixtures("light_search")

WINE = load_wine(as_frame=True)


def test_the_column_that_decides_is_named() -> None:
    for X, name in ((WINE.data, r"\('proline'\)"), (WINE.data.to_numpy(), r"\(12\)")):
        with pytest.warns(GraphWarning, match=rf"1 of 13 columns {name} carries 99.8 % .* Scale X first"):
            model = MTVClustering(3, random_state=0).fit(X)
        assert model.graph_.n_edges == knn_graph(WINE.data.to_numpy(), 10).n_edges  # nothing was scaled
    with pytest.warns(GraphWarning, match="proline"):
        MTVClassifier(random_state=0).fit(WINE.data, np.where(np.arange(178) % 20, -1, WINE.target))


def test_no_warning_where_there_is_nothing_to_say() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(StandardScaler(), MTVClustering(3, random_state=0)).fit(WINE.data)
        MTVClustering(10, random_state=0).fit(load_digits().data[:500])
        MTVClustering(3, metric="cosine", random_state=0).fit(WINE.data)
        MTVClustering(3, affinity="precomputed", random_state=0).fit(knn_graph(WINE.data, 10))


def test_the_page_says_it_too(tmp_path) -> None:
    with pytest.warns(GraphWarning):
        model = MTVClustering(3, random_state=0).fit(WINE.data)
    text = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "carries 99.8 % of the squared distances" in text
