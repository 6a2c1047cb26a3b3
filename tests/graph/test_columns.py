"""Columns and distances: which columns carry them, when they differ too widely, and what scaling does about it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from tautcut.errors import InputError
from tautcut.graph.columns import Scaling, carriers, levelled, scaling


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


def test_shares_are_those_of_the_squared_distances(rng):
    X = rng.standard_normal((60, 4)) * [1, 30, 2, 5]
    squares = np.square(X[:, None] - X[None]).sum(axis=(0, 1))
    found = carriers(X)
    order = np.argsort(-squares)
    assert found.columns == tuple(order[: len(found.columns)].tolist())
    assert found.largest == pytest.approx(squares.max() / squares.sum())
    assert found.share == pytest.approx(squares[order][: len(found.columns)].sum() / squares.sum())


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_units_that_do_not_go_together(load):
    data = load()
    found = carriers(data.data)
    assert found.are_too_few
    assert scaling(data.data, "auto").how == "standard"
    assert not carriers(StandardScaler().fit_transform(data.data)).are_too_few


def test_the_column_that_carries_wine_is_named():
    wine = load_wine()
    sentence = carriers(wine.data).sentence(wine.feature_names)
    assert sentence == "1 of 13 columns ('proline') carries 99.8 % of the squared distances"
    assert carriers(wine.data).sentence(None).startswith("1 of 13 columns (12) carries")


def alike(rng):
    digits = load_digits().data
    return {
        "iris": load_iris().data,
        "pixels": digits,
        "bytes": (digits * 15).astype(np.uint8),
        "principal components": PCA(60).fit_transform(digits),
        "noise": rng.standard_normal((50, 3)),
        "answers from 1 to 5": rng.integers(1, 6, (50, 10)),
        "indicators": (rng.random((50, 20)) < 0.1).astype(float),
        "one column": rng.standard_normal((50, 1)),
        "one that varies": np.c_[rng.standard_normal(50), np.ones((50, 5))],
        "sparse": sp.csr_matrix(load_wine().data),
        "counts": rng.poisson([20, 10, 5, 2, 1, 0.5, 0.2, 0.1], (80, 8)),
    }


def test_no_alarm_where_columns_share_a_unit(rng):
    for name, X in alike(rng).items():
        found = carriers(X)
        assert found is not None
        assert not found.are_too_few, name
        assert scaling(X, "auto").how == "none", name
        assert scaling(X, "auto").apply(X) is X


def test_nothing_to_carry():
    assert carriers(np.ones((5, 3))) is None
    assert scaling(np.ones((5, 3)), "auto").how == "none"
    assert np.array_equal(scaling(np.ones((5, 3)), "standard").apply(np.ones((5, 3))), np.zeros((5, 3)))


def test_standard_is_sklearns(rng):
    X = rng.standard_normal((40, 3)) * [1, 100, 0.01] + 5
    assert np.allclose(scaling(X, "standard").apply(X), StandardScaler().fit_transform(X))


def test_robust_keeps_its_unit_beside_an_outlier(rng):
    X = rng.standard_normal((400, 2))
    X[0, 0] = 1e6
    scaled = scaling(X, "robust").apply(X)
    assert np.allclose(np.subtract(*np.percentile(scaled, [75, 25], axis=0)), 1.349)
    assert np.median(scaled, axis=0) == pytest.approx(0)
    assert scaling(X, "standard").apply(X)[1:, 0].std() < 1e-3


@pytest.mark.parametrize("how", ["standard", "robust"])
def test_two_values_come_to_lie_half_a_unit_apart(rng, how):
    X = np.c_[rng.standard_normal(40) * 100, np.arange(40) % 2, 7.0 * (np.arange(40) < 3)]
    scaled = scaling(X, how).apply(X)
    assert np.ptp(scaled[:, 1:], axis=0) == pytest.approx([0.5, 0.5])


def test_a_sparse_matrix_stays_sparse():
    X = sp.csr_matrix([[0, 10.0], [1, 0], [0, 30]])
    scaled = scaling(X, "standard").apply(X)
    assert scaled.nnz == X.nnz
    assert np.allclose(scaled.toarray(), X.toarray() / X.toarray().std(axis=0))


def test_an_unknown_way_is_refused():
    with pytest.raises(InputError, match="scale must be one of auto, standard, robust, none; found 'minmax'"):
        scaling(np.eye(3), "minmax")


@given(st.floats(1e-290, 1e290), st.integers(0, 5))
def test_neither_a_unit_for_all_nor_the_order_of_rows_matters(unit, seed):
    X = np.random.default_rng(seed).standard_normal((30, 4)) * [1, 5, 50, 1]
    found, other = carriers(X), carriers(X[::-1] * unit)
    assert found.columns == other.columns
    assert found.share == pytest.approx(other.share)
    assert found.are_too_few == other.are_too_few
    assert np.allclose(scaling(X, "standard").apply(X), scaling(X * unit, "standard").apply(X * unit))


@pytest.mark.parametrize("unit", [1e-320, 1.0, 1e200, 1e308])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_levelled_columns_are_exact_and_of_ordinary_size(unit, kind):
    X = unit * np.array([[0.0, 1.0, -0.5], [0.0, 0.25, 1.5]])
    level, exponents = levelled(kind(X))
    dense = level if isinstance(level, np.ndarray) else level.toarray()
    np.testing.assert_array_equal(np.ldexp(dense, exponents), X)
    assert np.abs(dense).max() <= 1.0


@pytest.mark.parametrize("how", ["standard", "robust"])
@pytest.mark.filterwarnings("error")
def test_the_widest_columns_there_are_have_a_finite_unit(how):
    widest = np.finfo(np.float64).max
    X = np.column_stack([np.resize([-widest, widest], 9), np.linspace(-1, 1, 9) * widest, np.arange(9.0)])
    found = scaling(X, how)
    assert np.isfinite(found.units).all()
    assert (found.units[:2] > 0.1 * widest).all()
    assert np.isfinite(found.apply(X)).all()
    smaller = X / 2.0**600  # the unit of two values is more than a number holds, and the largest one instead
    assert np.allclose(scaling(smaller, how).apply(smaller)[:, 1:], found.apply(X)[:, 1:])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_a_number_too_far_away_to_be_scaled_is_named(make):
    X = np.zeros((9, 2))
    X[:, 0], X[:, 1] = 1e-320 * np.arange(1, 10), np.arange(9)
    X[3, 0] = 7.0
    units = Scaling("robust", np.zeros(2), np.array([1e-320, 1.0]))
    with pytest.raises(InputError, match="7 in column 0 is too far from the others to be scaled"):
        units.apply(make(X))
