"""Clusters and classes of the cells of an AnnData object, written into it as scanpy does: labels in `obs`, memberships
in `obsm`, settings and energy in `uns`. This module reads the graph or the features and stores what an estimator
found. It computes nothing itself, and never imports anndata: the user's object is enough.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import Array
from tautcut.checks import RandomState
from tautcut.errors import InputError
from tautcut.estimators import MTVClassifier, MTVClustering
from tautcut.formats.schema import GRAPH, KEY, PCA, about_run, entries

AnnData: TypeAlias = Any  # anndata has no types
Model: TypeAlias = MTVClustering | MTVClassifier


def cluster(
    adata: AnnData,
    n_clusters: int,
    *,
    use_rep: str | None = None,
    obsp: str | None = None,
    n_neighbors: int = 10,
    class_prior: ArrayLike | None = None,
    n_init: int | Literal["auto"] = "auto",
    search: Literal["short", "thorough", "none"] = "short",
    min_cluster_size: int | None = None,
    random_state: RandomState = 0,
    key_added: str = KEY,
    copy: bool = False,
    verbose: bool = False,
) -> AnnData | None:
    """Cluster the cells by Multiclass Total Variation: :class:`tautcut.MTVClustering` on an AnnData object.

    Parameters
    ----------
    adata : AnnData
        The cells; results are written into it.
    n_clusters : int
        How many clusters to look for.
    use_rep : str, optional
        Build the nearest-neighbour graph of `adata.obsm[use_rep]`, or of `adata.X` for "X".
    obsp : str, optional
        Use the graph `adata.obsp[obsp]`. With neither of the two, the first of these that is there is used:
        `obsp["connectivities"]`, `obsm["X_pca"]`, `X`; `uns` says which.
    n_neighbors : int, default 10
        How many neighbours each cell is joined to, where the graph is built from features.
    class_prior, n_init, search, min_cluster_size, verbose
        As for :class:`tautcut.MTVClustering`.
    random_state : int, Generator, RandomState or None, default 0
        Seeds everything that is drawn; a whole number makes the result repeatable.
    key_added : str, default "tautcut"
        The name under which the results are stored.
    copy : bool, default False
        Leave `adata` alone and return a copy with the results.

    Returns
    -------
    AnnData or None
        The copy, if one was asked for. Written into it, or into `adata`, are

        - `obs[key_added]`: the clusters "0", "1", …, categorical;
        - `obs[key_added + "_confidence"]`: how firmly the neighbours of a cell agree on its cluster, from 0 to 1;
        - `obsm["X_" + key_added + "_memberships"]`: soft memberships, a column for each category;
        - `uns[key_added]`: `params`, `energy`, `relaxed_energy`, `status`, `n_iter`, `version`, and `seed` if
          `random_state` is a number.

        The command line writes the same into a .h5ad file.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> import tautcut.anndata
    >>> angle = np.linspace(0, 6, 60)
    >>> adata = anndata.AnnData(np.c_[np.cos(angle), np.sin(angle)])
    >>> tautcut.anndata.cluster(adata, n_clusters=3)
    >>> list(adata.obs["tautcut"].cat.categories)
    ['0', '1', '2']
    """
    X, affinity, source = _input_of(adata, use_rep, obsp)
    model = MTVClustering(
        n_clusters, affinity=affinity, n_neighbors=n_neighbors, class_prior=class_prior, n_init=n_init,
        search=search, min_cluster_size=min_cluster_size, verbose=verbose, random_state=random_state,
    ).fit(X)  # fmt: skip
    target = adata.copy() if copy else adata
    _store(target, key_added, model, source, codes=model.labels_, names=np.arange(model.memberships_.shape[1]))
    return target if copy else None


def classify(
    adata: AnnData,
    labels_key: str,
    *,
    unknown: str | None = None,
    use_rep: str | None = None,
    obsp: str | None = None,
    n_neighbors: int = 10,
    class_prior: ArrayLike | None = None,
    search: Literal["short", "thorough", "none"] = "short",
    random_state: RandomState = 0,
    key_added: str = KEY,
    copy: bool = False,
    verbose: bool = False,
) -> AnnData | None:
    """Label every cell from a few labelled ones: :class:`tautcut.MTVClassifier` on an AnnData object.

    Parameters
    ----------
    adata : AnnData
        The cells; results are written into it.
    labels_key : str
        `adata.obs[labels_key]` holds the labels; missing values are unknown, and so is −1 among numbers.
    unknown : str, optional
        A value that also means an unknown label, such as "Unknown".
    use_rep, obsp, n_neighbors, class_prior, search, random_state, key_added, copy, verbose
        As for :func:`cluster`.

    Returns
    -------
    AnnData or None
        As :func:`cluster`; the categories are the labels, as strings, and known labels are kept.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> import tautcut.anndata
    >>> angle = np.linspace(0, 3, 60)
    >>> adata = anndata.AnnData(np.c_[np.cos(angle), np.sin(angle)])
    >>> adata.obs["known"] = ["left"] + [None] * 58 + ["right"]
    >>> tautcut.anndata.classify(adata, "known")
    >>> adata.obs["tautcut"].value_counts().to_dict()
    {'left': 30, 'right': 30}
    """
    X, affinity, source = _input_of(adata, use_rep, obsp)
    labels = _labels_of(adata, labels_key, unknown)
    model = MTVClassifier(
        affinity=affinity, n_neighbors=n_neighbors, class_prior=class_prior, search=search, verbose=verbose,
        random_state=random_state,
    ).fit(X, labels)  # fmt: skip
    target = adata.copy() if copy else adata
    codes = np.searchsorted(model.classes_, model.transduction_)
    _store(target, key_added, model, {**source, "labels_key": labels_key}, codes=codes, names=model.classes_)
    return target if copy else None


def _input_of(
    adata: AnnData, use_rep: str | None, obsp: str | None
) -> tuple[Any, Literal["knn", "precomputed"], dict[str, str]]:
    """The graph or the features, the estimator's word for which it is, and where it was found."""
    missing = [name for name in ("obs", "obsm", "obsp", "uns", "X") if not hasattr(adata, name)]
    if missing:
        raise InputError(f"adata must be an AnnData object; found {type(adata).__name__!r} without {missing[0]}.")
    if use_rep is not None and obsp is not None:
        raise InputError(f"give use_rep or obsp, not both; found use_rep={use_rep!r} and obsp={obsp!r}.")
    if use_rep is None and obsp is None:
        obsp = GRAPH if GRAPH in adata.obsp else None
        use_rep = PCA if PCA in adata.obsm else "X"
    if obsp is not None:
        return _entry(adata.obsp, "obsp", obsp), "precomputed", {"obsp": obsp}
    features = adata.X if use_rep == "X" else _entry(adata.obsm, "obsm", str(use_rep))
    if features is None:
        raise InputError("adata has no X, no neighbour graph and no X_pca. Name the features by use_rep.")
    return features, "knn", {"use_rep": str(use_rep)}


def _entry(mapping: Any, name: str, key: str) -> Any:
    if key not in mapping:
        there = ", ".join(map(repr, mapping)) or "empty"
        raise InputError(f"adata.{name} has no {key!r}; it is {there}. Name what is there, or compute it first.")
    return mapping[key]


def _labels_of(adata: AnnData, key: str, unknown: str | None) -> Array:
    """The labels of the cells, None where one is unknown."""
    column = _entry(adata.obs, "obs", key)
    pairs = zip(column.tolist(), column.isna(), strict=True)
    return np.array([None if is_missing or label == unknown else label for label, is_missing in pairs], dtype=object)


def _store(adata: AnnData, key: str, model: Model, source: dict[str, str], *, codes: Array, names: Array) -> None:
    """Write the results; `codes` number the `names`, which become the categories."""
    about = about_run(
        params=source | model.get_params(), energy=model.energy_, relaxed_energy=model.relaxed_energy_,
        status=model.status_, n_iter=model.n_iter_, seed=model.random_state,
    )  # fmt: skip
    added = entries(
        key, codes=codes, classes=names, confidence=model.confidence_, memberships=model.memberships_, about=about
    )  # fmt: skip
    for part, values in added.items():
        for name, value in values.items():
            getattr(adata, part)[name] = value
