"""Nearest neighbours on the GPU: exact where points are few, and nearly so by trees and neighbours' neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_or_interpreter import DEVICE
from tautcut.kernels.gpu import nearest
from tautcut.kernels.gpu.nearest import FoundOnGpu, nearest_on_gpu

K = 8


def points(n: int = 2500, d: int = 6) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(5, d))
    return centres[rng.integers(0, 5, n)] + rng.normal(size=(n, d))


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few points count as many, and share leaves of 64."""
    monkeypatch.setattr(nearest, "_FEW_PAIRS", 0.0)
    monkeypatch.setattr(nearest, "_LEAF", 64)


def exactly(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :K]
    return indices, np.take_along_axis(squared, indices, axis=1)


def found(X: np.ndarray, seed: int = 0) -> FoundOnGpu:
    return nearest_on_gpu(X, K, device=DEVICE, seed=seed)


@pytest.mark.usefixtures("many")
def test_nearly_all_are_found_and_the_estimate_is_honest():
    X = points()
    ours, (indices, squared) = found(X), exactly(X)
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(ours.indices, indices, strict=True)])
    assert recall >= 0.97
    assert ours.n_sampled >= 500
    assert ours.recall == pytest.approx(recall, abs=0.02)
    is_right = (ours.indices == indices).all(axis=1)
    assert np.allclose(ours.squared[is_right], squared[is_right], rtol=1e-5)
    assert (np.diff(ours.squared, axis=1) >= 0).all()
    assert all(np.unique(row).size == K for row in ours.indices)
    assert (ours.indices != np.arange(len(X))[:, None]).all()


@pytest.mark.usefixtures("many")
def test_a_seed_fixes_what_is_found():
    X = points(1500)
    first, again, other = found(X, 1), found(X, 1), found(X, 2)
    assert np.array_equal(first.indices, again.indices)
    assert not np.array_equal(first.indices, other.indices)


@pytest.mark.usefixtures("many")
def test_ties_go_to_the_lower_index_and_copies_are_neighbours():
    X = np.repeat(np.arange(400.0)[:, None] * [1.0, 0.0], 3, axis=0)  # each point three times, on a line
    ours = found(X)
    assert np.array_equal(ours.indices[0, :5], [1, 2, 3, 4, 5])
    assert np.array_equal(ours.squared[0, :5], [0, 0, 1, 1, 1])


@pytest.mark.usefixtures("many")
def test_all_are_compared_where_too_few_were_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nearest, "_ROUNDS", 1)
    X = np.random.default_rng(0).normal(size=(1500, 40))  # noise: trees do not help
    ours = found(X)
    assert ours.recall == 1.0
    assert ours.n_sampled == 0
    assert np.array_equal(ours.indices, exactly(X)[0])


@pytest.mark.usefixtures("many")
def test_all_are_compared_where_that_is_asked_for():
    X = points(600)
    ours = nearest_on_gpu(X, K, device=DEVICE, is_exact=True)
    assert (ours.recall, ours.n_sampled) == (1.0, 0)
    assert np.array_equal(ours.indices, exactly(X)[0])


def test_few_points_are_all_compared():
    X = points(300)
    ours = found(X)
    assert (ours.recall, ours.n_sampled) == (1.0, 0)
    assert np.array_equal(ours.indices, exactly(X)[0])
