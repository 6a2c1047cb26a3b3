"""Cells in, clusters and classes written into the AnnData object as scanpy does, and through a file and back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tautcut import MTVClassifier, MTVClustering, knn_graph
from tautcut.anndata import classify, cluster
from tautcut.errors import InputError

pytestmark = pytest.mark.usefixtures("light_search")

anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")

KINDS = np.repeat(["B", "NK", "T"], 30)


def points() -> np.ndarray:
    centres = np.array([[0.0, 0], [4, 0], [2, 3]])
    return np.repeat(centres, 30, axis=0) + np.random.default_rng(0).normal(scale=0.8, size=(90, 2))


PCA = points()


def cells(*, has_pca: bool = True, has_graph: bool = True) -> Any:
    """90 cells; X is noise, so that only the graph and the PCA know the kinds."""
    noise = np.random.default_rng(1).normal(size=(90, 5)).astype(np.float32)
    adata = anndata.AnnData(noise, obs=pandas.DataFrame(index=[f"cell{i}" for i in range(90)]))
    if has_pca:
        adata.obsm["X_pca"] = PCA
    if has_graph:
        adata.obsp["connectivities"] = knn_graph(PCA, 7).to_scipy().astype(np.float32)
    return adata


def with_labels(column: Any, **knobs: Any) -> Any:
    adata = cells(**knobs)
    adata.obs["known"] = column
    return adata


def few(unknown: Any = None) -> list[Any]:
    return [kind if i % 30 < 3 else unknown for i, kind in enumerate(KINDS.tolist())]


# ---------------------------------------------------------------- clustering


def test_what_is_written_is_what_the_estimator_finds() -> None:
    adata = cells()
    assert cluster(adata, 3) is None
    model = MTVClustering(3, affinity="precomputed", random_state=0).fit(adata.obsp["connectivities"])
    column = adata.obs["tautcut"]
    assert len(set(zip(column.tolist(), model.labels_.tolist(), strict=True))) == 3  # other numbers, the same clusters
    assert isinstance(column.dtype, pandas.CategoricalDtype)
    assert column.cat.categories.tolist() == ["0", "1", "2"]
    np.testing.assert_array_equal(adata.obs["tautcut_confidence"], model.confidence_)
    assert set(adata.obsm) == {"X_pca"}
    assert adata.uns["tautcut"]["energy"] == model.energy_
    assert adata.uns["tautcut"]["status"] == model.result_.outcome
    assert adata.uns["tautcut"]["params"]["obsp"] == "connectivities"
    assert adata.uns["tautcut"]["params"]["n_clusters"] == 3


def test_confidence_is_one_inside_a_cluster_and_less_at_its_border() -> None:
    adata = cells()
    cluster(adata, 3)
    confidence, labels = adata.obs["tautcut_confidence"].to_numpy(), adata.obs["tautcut"].cat.codes.to_numpy()
    W = adata.obsp["connectivities"].tocsr()
    is_inside = np.array([set(labels[W[i].indices]) == {labels[i]} for i in range(90)])
    assert 0 < is_inside.sum() < 90
    np.testing.assert_allclose(confidence[is_inside], 1)
    assert (confidence[~is_inside] < 1).all()
    assert confidence.min() >= 0


@pytest.mark.parametrize(
    ("has_graph", "has_pca", "source"),
    [(True, True, {"obsp": "connectivities"}), (False, True, {"use_rep": "X_pca"}), (False, False, {"use_rep": "X"})],
)
def test_the_graph_comes_before_the_pca_and_that_before_x(has_graph: bool, has_pca: bool, source: Any) -> None:
    adata = cells(has_pca=has_pca, has_graph=has_graph)
    cluster(adata, 3)
    params = adata.uns["tautcut"]["params"]
    assert {name: params[name] for name in ("obsp", "use_rep") if name in params} == source
    assert params["affinity"] == ("precomputed" if has_graph else "knn")


def test_what_is_named_is_what_is_used() -> None:
    adata = cells()
    adata.obsp["other"] = knn_graph(adata.X, 6).to_scipy()
    cluster(adata, 3, obsp="other", key_added="graph")
    cluster(adata, 3, use_rep="X", n_neighbors=6, key_added="features")
    assert adata.uns["graph"]["energy"] == adata.uns["features"]["energy"]
    cluster(adata, 3, use_rep="X_pca", n_neighbors=7, key_added="pca")
    cluster(adata, 3)
    assert adata.uns["pca"]["energy"] == adata.uns["tautcut"]["energy"] != adata.uns["graph"]["energy"]


def test_sparse_features_are_features() -> None:
    adata = cells(has_graph=False)
    adata.X = sp.csr_matrix(adata.X)
    cluster(adata, 3, use_rep="X", key_added="sparse")
    assert adata.obs["sparse"].nunique() == 3


def test_a_copy_leaves_the_original_alone() -> None:
    adata = cells()
    out = cluster(adata, 3, copy=True)
    assert "tautcut" in out.obs
    assert out.obs_names.equals(adata.obs_names)
    assert not {"tautcut", "tautcut_confidence"} & set(adata.obs)
    assert not adata.uns
    assert set(adata.obsm) == {"X_pca"}


def test_a_second_run_replaces_the_first() -> None:
    adata = cells()
    cluster(adata, 3)
    cluster(adata, 2)
    assert adata.obs["tautcut"].cat.categories.tolist() == ["0", "1"]


def test_settings_reach_the_estimator() -> None:
    adata = cells()
    cluster(adata, 3, class_prior=[0.5, 0.3, 0.2], search="none", n_init=1, min_cluster_size=2, random_state=5)
    params = adata.uns["tautcut"]["params"]
    assert (params["search"], params["n_init"], params["min_cluster_size"], params["random_state"]) == ("none", 1, 2, 5)
    np.testing.assert_array_equal(params["class_prior"], [0.5, 0.3, 0.2])


def test_a_file_keeps_every_result(tmp_path: Any) -> None:
    adata = with_labels(few())
    cluster(adata, 3, class_prior=[0.4, 0.3, 0.3])
    classify(adata, "known", key_added="kind")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for key in ("tautcut", "kind"):
        assert back.obs[key].tolist() == adata.obs[key].tolist()
        np.testing.assert_array_equal(back.obs[f"{key}_confidence"], adata.obs[f"{key}_confidence"])
        assert back.uns[key]["energy"] == adata.uns[key]["energy"]
        assert set(back.uns[key]["params"]) == set(adata.uns[key]["params"])


# ---------------------------------------------------------------- as scanpy does


def uneven() -> Any:
    """90 cells whose kinds have 15, 30 and 45 cells, in that order."""
    adata = cells(has_graph=False)
    centres = np.repeat([[0.0, 0], [4.5, 0], [2.25, 3.9]], [15, 30, 45], axis=0)
    adata.obsm["X_pca"] = centres + np.random.default_rng(0).normal(scale=0.8, size=(90, 2))
    adata.obsp["connectivities"] = knn_graph(adata.obsm["X_pca"], 18, weights="self-tuning").to_scipy()
    return adata


def test_clusters_are_numbered_by_size() -> None:
    adata = uneven()
    for seed in range(4):
        cluster(adata, 3, random_state=seed)
        counts = adata.obs["tautcut"].value_counts()
        assert {name: int(counts[name]) for name in ("0", "1", "2")} == {"0": 45, "1": 30, "2": 15}


def test_a_graph_is_found_by_the_key_of_its_neighbors_or_given() -> None:
    adata = cells()
    adata.obsp["mine_connectivities"] = adata.obsp.pop("connectivities")
    adata.uns["mine"] = {"connectivities_key": "mine_connectivities", "distances_key": "mine_distances"}
    cluster(adata, 3, neighbors_key="mine", key_added="by_key")
    cluster(adata, 3, obsp="mine_connectivities", key_added="by_name")
    cluster(adata, 3, adjacency=adata.obsp["mine_connectivities"], key_added="given")
    assert adata.obs["by_key"].tolist() == adata.obs["by_name"].tolist() == adata.obs["given"].tolist()
    assert adata.uns["by_key"]["params"]["obsp"] == "mine_connectivities"
    assert adata.uns["given"]["params"]["adjacency"] == "given"
    classify(with_labels(few()), "known", adjacency=adata.obsp["mine_connectivities"])
    with pytest.raises(InputError, match="uns has no 'other'"):
        cluster(adata, 3, neighbors_key="other")
    with pytest.raises(InputError, match="graph of the 90 cells"):
        cluster(adata, 3, adjacency=sp.eye(5))


def test_weights_count_unless_they_should_not() -> None:
    adata = uneven()
    W = adata.obsp["connectivities"]
    cluster(adata, 3, use_weights=False)
    binary = MTVClustering(3, affinity="precomputed", random_state=0).fit((W > 0).astype(float))
    assert adata.uns["tautcut"]["energy"] == binary.energy_
    cluster(adata, 3)
    assert adata.uns["tautcut"]["energy"] != binary.energy_


@pytest.mark.parametrize("source", [{}, {"use_rep": "X_pca"}])
def test_some_categories_are_clustered_and_the_others_kept(source: Any) -> None:
    adata = cells()
    adata.obsp["connectivities"] = knn_graph(PCA, 14).to_scipy()  # dense enough for a part of it to be connected
    adata.obs["kind"] = pandas.Categorical(KINDS, categories=["T", "NK", "B"])
    cluster(adata, 2, restrict_to=("kind", ["NK", "B"]), **source)
    found = adata.obs["tautcut_R"]
    assert found.cat.categories.tolist() == ["T", "NK-B,0", "NK-B,1"]
    assert (found[KINDS == "T"] == "T").all()
    assert set(found[KINDS != "T"]) == {"NK-B,0", "NK-B,1"}
    assert adata.obs["tautcut_R_confidence"].isna().tolist() == (KINDS == "T").tolist()
    part = adata[KINDS != "T"].copy()
    cluster(part, 2, **source)
    assert [name.removeprefix("NK-B,") for name in found[KINDS != "T"]] == part.obs["tautcut"].tolist()
    cluster(adata, 2, restrict_to=("tautcut_R", ["T"]), key_added="finer", **source)
    assert set(adata.obs["finer"].cat.categories) == {"T,0", "T,1", "NK-B,0", "NK-B,1"}
    with pytest.raises(InputError, match=r"no cell of 'B cell'.*'NK'"):
        cluster(adata, 2, restrict_to=("kind", ["B cell"]))


def test_cells_without_a_category_have_none_afterwards() -> None:
    adata = cells()
    adata.obs["kind"] = pandas.Categorical([None, *KINDS[1:]])
    cluster(adata, 2, restrict_to=("kind", ["NK", "T"]), use_rep="X_pca")
    assert adata.obs["tautcut_R"].isna().tolist() == [True] + [False] * 89


def test_beside_scanpy_itself(tmp_path: Any) -> None:
    """The graph, the columns and the names are those of sc.tl.leiden, as far as both have them."""
    scanpy = pytest.importorskip("scanpy")
    import inspect

    adata = uneven()
    del adata.obsp["connectivities"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scanpy, about its own dependencies
        # UMAP's weights would take a minute to compile, and are not what is tested.
        scanpy.pp.neighbors(adata, n_neighbors=20, use_rep="X_pca", method="gauss")
        scanpy.pp.neighbors(adata, n_neighbors=18, use_rep="X_pca", method="gauss", key_added="other")
        scanpy.tl.leiden(adata, 0.3, flavor="igraph", n_iterations=2, directed=False)
    ours, theirs = inspect.signature(cluster).parameters, inspect.signature(scanpy.tl.leiden).parameters
    shared = {"restrict_to", "random_state", "adjacency", "use_weights", "neighbors_key", "obsp", "copy"}
    assert shared <= set(ours) & set(theirs)
    assert all(ours[name].default == theirs[name].default and ours[name].kind == theirs[name].kind for name in shared)
    cluster(adata, 3)
    assert len(set(zip(adata.obs["leiden"], adata.obs["tautcut"], strict=True))) == 3  # three clear groups
    assert adata.obs["tautcut"].dtype == adata.obs["leiden"].dtype  # the same categories
    cluster(adata, 3, neighbors_key="other", key_added="other_tautcut")
    assert adata.uns["other_tautcut"]["params"]["obsp"] == adata.uns["other"]["connectivities_key"]
    restriction = ("tautcut", ["0", "1"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scanpy.tl.leiden(adata, 0.3, restrict_to=restriction, flavor="igraph", n_iterations=2, directed=False)
    cluster(adata, 2, restrict_to=restriction)
    assert set(adata.obs["leiden_R"]) == set(adata.obs["tautcut_R"]) == {"0-1,0", "0-1,1", "2"}
    assert len(set(zip(adata.obs["leiden_R"], adata.obs["tautcut_R"], strict=True))) == 3
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert back.obs["tautcut_R"].cat.categories.tolist() == ["0-1,0", "0-1,1", "2"]


# ---------------------------------------------------------------- few labels


@pytest.mark.parametrize(
    "column",
    [few(), few(np.nan), pandas.Categorical(few()), pandas.array(few(), dtype="string")],
    ids=["none", "nan", "categorical", "string"],
)
def test_missing_labels_are_filled_and_known_ones_kept(column: Any) -> None:
    adata = with_labels(column)
    assert classify(adata, "known", key_added="kind") is None
    found = adata.obs["kind"]
    assert found.cat.categories.tolist() == ["B", "NK", "T"]
    assert (found == KINDS).mean() > 0.9
    is_known = np.arange(90) % 30 < 3
    assert (found[is_known] == KINDS[is_known]).all()
    assert adata.uns["kind"]["params"]["labels_key"] == "known"


def test_a_word_may_stand_for_unknown() -> None:
    adata = with_labels(pandas.Categorical(few("Unknown")))
    classify(adata, "known", unknown="Unknown")
    assert adata.obs["tautcut"].cat.categories.tolist() == ["B", "NK", "T"]
    classify(adata, "known", key_added="four")
    assert "Unknown" in adata.obs["four"].cat.categories


def test_numbers_become_the_words_that_scanpy_has_for_groups() -> None:
    numbers = [{"B": 2, "NK": 10, "T": 30}.get(kind, -1) for kind in few("")]
    adata = with_labels(numbers)
    out = classify(adata, "known", copy=True)
    assert out.obs["tautcut"].cat.categories.tolist() == ["2", "10", "30"]
    model = MTVClassifier(affinity="precomputed", random_state=0).fit(adata.obsp["connectivities"], numbers)
    assert out.obs["tautcut"].tolist() == [str(label) for label in model.transduction_]
    assert "tautcut" not in adata.obs


# ---------------------------------------------------------------- what is refused


def test_what_is_not_there_is_named_with_what_is() -> None:
    adata = with_labels(few())
    with pytest.raises(InputError, match=r"obsm has no 'X_umap'.*'X_pca'"):
        cluster(adata, 3, use_rep="X_umap")
    with pytest.raises(InputError, match=r"obsp has no 'distances'.*'connectivities'"):
        cluster(adata, 3, obsp="distances")
    with pytest.raises(InputError, match=r"obs has no 'kind'.*'known'"):
        classify(adata, "kind")
    with pytest.raises(InputError, match="empty"):
        cluster(cells(has_graph=False), 3, obsp="connectivities")


def test_two_sources_none_and_no_cells_are_refused() -> None:
    with pytest.raises(InputError, match="not use_rep and obsp"):
        cluster(cells(), 3, use_rep="X_pca", obsp="connectivities")
    with pytest.raises(InputError, match="no X"):
        cluster(anndata.AnnData(obs=pandas.DataFrame(index=["a", "b"])), 2)
    with pytest.raises(InputError, match="'ndarray'"):
        cluster(PCA, 3)
    with pytest.raises(InputError, match="no labelled point"):
        classify(with_labels([None] * 90), "known")


def test_a_failure_writes_nothing() -> None:
    adata = cells()
    with pytest.raises(InputError):
        cluster(adata, 91)
    assert not adata.uns
    assert "tautcut" not in adata.obs


# ---------------------------------------------------------------- the command line writes the same


def kinds_of(element: Any) -> Any:
    """How an element of a file is encoded, and the kinds of its numbers, without their values."""
    encoding = element.attrs["encoding-type"]
    if hasattr(element, "keys") and encoding != "string-array":
        return encoding, {name: kinds_of(element[name]) for name in element if name != "params"}
    return encoding, element.dtype.kind, element.ndim


@pytest.mark.parametrize("has_labels", [False, True])
def test_the_command_line_leaves_the_same_in_a_file(tmp_path: Any, has_labels: bool) -> None:
    import h5py

    from tautcut.cli import main

    adata = with_labels(few(), has_graph=False)
    source, ours, theirs = (tmp_path / name for name in ("cells.h5ad", "ours.h5ad", "theirs.h5ad"))
    adata.write_h5ad(source)
    if has_labels:
        classify(adata, "known", search="none")
        options = ["classify", str(source), "--label-column", "known"]
    else:
        cluster(adata, 3, search="none", class_prior=[0.3, 0.3, 0.4])
        options = ["cluster", str(source), "-k", "3", "--class-prior", "0.3,0.3,0.4"]
    adata.write_h5ad(theirs)
    with pytest.raises(SystemExit) as end:
        main([*options, "--search", "none", "--quiet", "--out", str(ours)])
    assert end.value.code == 0
    with h5py.File(ours) as a, h5py.File(theirs) as b:
        assert list(a["obs"].attrs["column-order"]) == list(b["obs"].attrs["column-order"])
        for name in ("obs/tautcut", "obs/tautcut_confidence", "uns/tautcut"):
            assert kinds_of(a[name]) == kinds_of(b[name])
        params, others = a["uns/tautcut/params"], b["uns/tautcut/params"]
        shared = {"n_neighbors", "search"} | (set() if has_labels else {"n_clusters", "class_prior"})
        assert shared <= set(params) & set(others)
        assert {name: kinds_of(params[name]) for name in shared} == {name: kinds_of(others[name]) for name in shared}
        for name in ("energy", "relaxed_energy", "n_iter", "seed"):
            assert a[f"uns/tautcut/{name}"][()] == b[f"uns/tautcut/{name}"][()]


# ---------------------------------------------------------------- masses


def test_cells_count_as_much_as_their_masses() -> None:
    adata = cells()
    adata.obs["n_cells"] = masses = np.where(KINDS == "B", 4, 1)
    cluster(adata, 3, masses_key="n_cells")
    model = MTVClustering(3, affinity="precomputed", random_state=0)
    model.fit(adata.obsp["connectivities"], sample_weight=masses)
    assert adata.uns["tautcut"]["energy"] == model.energy_
    assert adata.uns["tautcut"]["params"]["masses_key"] == "n_cells"
    found = [float(masses[(adata.obs["tautcut"] == name).to_numpy()].sum()) for name in "012"]
    assert adata.uns["tautcut"]["masses"].tolist() == found
    plain = cells()
    cluster(plain, 3)
    assert "masses" not in plain.uns["tautcut"]
    assert plain.uns["tautcut"]["energy"] != model.energy_


def test_masses_of_restricted_cells_and_of_classes() -> None:
    adata = with_labels(few())
    adata.obs["kind"], adata.obs["w"] = KINDS, np.arange(1.0, 91.0)
    cluster(adata, 2, restrict_to=("kind", ["B", "T"]), masses_key="w")
    total = adata.obs["w"][adata.obs["kind"] != "NK"].sum()
    assert adata.uns["tautcut_R"]["masses"].sum() == total
    classify(adata, "known", masses_key="w")
    by_class = adata.obs.groupby("tautcut", observed=False)["w"].sum()
    np.testing.assert_allclose(adata.uns["tautcut"]["masses"], by_class)


def test_cells_are_balanced_by_volume() -> None:
    adata = cells()
    cluster(adata, 3, balance="volume")
    model = MTVClustering(3, affinity="precomputed", balance="volume", random_state=0)
    assert adata.uns["tautcut"]["energy"] == model.fit(adata.obsp["connectivities"]).energy_


@pytest.mark.parametrize(("bad", "words"), [(0, "found 0.0 for cell 'cell1'"), (None, "found nan for cell 'cell1'")])
def test_bad_masses_of_cells_are_named(bad: Any, words: str) -> None:
    adata = cells()
    adata.obs["w"] = [1.0, bad, *[1.0] * 88]
    with pytest.raises(InputError, match=words):
        cluster(adata, 3, masses_key="w")
    with pytest.raises(InputError, match="no 'nope'"):
        cluster(adata, 3, masses_key="nope")
