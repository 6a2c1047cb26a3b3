"""Starts as joblib tasks: worker processes and a dask cluster find what one process finds."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest

from strategies import planted_graph
from tautcut import MTVClustering

GRAPH = planted_graph(3, 40, seed=0)
SETTINGS = {"n_clusters": 3, "affinity": "precomputed", "n_init": 3, "random_state": 0}


@pytest.mark.parametrize("search", ["none", "short"])
def test_loky_workers_find_the_same_labels(search: str) -> None:
    alone = MTVClustering(**SETTINGS, search=search).fit(GRAPH)
    with joblib.parallel_config("loky"):
        together = MTVClustering(**SETTINGS, search=search, n_jobs=2).fit(GRAPH)
    assert np.array_equal(alone.labels_, together.labels_)


@pytest.mark.filterwarnings("ignore")  # dask's own
def test_a_dask_cluster_finds_the_same_labels() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed = pytest.importorskip("distributed")
        alone = MTVClustering(**SETTINGS, search="none").fit(GRAPH)
        with (
            distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None),
            joblib.parallel_config("dask"),
        ):
            together = MTVClustering(**SETTINGS, search="none", n_jobs=2).fit(GRAPH)
    assert np.array_equal(alone.labels_, together.labels_)
