"""Clusters and classes of the cells of an AnnData object, with scanpy's manners: the graph is found where scanpy puts
it, labels and their confidence go to `obs`, settings and energy to `uns`, and clusters are numbered by size. This
module reads the graph or the features and stores what an estimator found. It computes nothing itself, and never
imports anndata or scanpy: the user's object is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from tautcut.arrays import Array, BoolArray, SparseMatrix
from tautcut.checks import RandomState, vertex_masses
from tautcut.errors import InputError
from tautcut.estimators import MTVClassifier, MTVClustering
from tautcut.formats.schema import GRAPH, KEY, PCA, about_run, entries

AnnData: TypeAlias = Any  # anndata has no types
Model: TypeAlias = MTVClustering | MTVClassifier


@dataclass(frozen=True, eq=False)
class _Input:
    """The graph or the features of the cells, the estimator's word for which it is, and where it was found."""

    X: Any
    affinity: Literal["knn", "precomputed"]
    source: dict[str, Any]

    def of(self, cells: BoolArray) -> Any:
        """The same for some of the cells: their part of the graph, or their features."""
        return self.X[cells][:, cells] if self.affinity == "precomputed" else self.X[cells]


def cluster(
    adata: AnnData,
    n_clusters: int,
    *,
    restrict_to: tuple[str, Sequence[str]] | None = None,
    random_state: RandomState = 0,
    key_added: str = KEY,
    adjacency: Any = None,
    use_weights: bool = True,
    neighbors_key: str | None = None,
    obsp: str | None = None,
    use_rep: str | None = None,
    n_neighbors: int = 10,
    masses_key: str | None = None,
    balance: Literal["size", "volume"] = "size",
    class_prior: ArrayLike | None = None,
    n_init: int | Literal["auto"] = "auto",
    search: Literal["short", "thorough", "none"] = "short",
    min_cluster_size: int | None = None,
    copy: bool = False,
    verbose: bool = False,
) -> AnnData | None:
    """Cluster the cells by Multiclass Total Variation: :class:`tautcut.MTVClustering` on an AnnData object.

    It is called as `scanpy.tl.leiden` is, with a number of clusters where Leiden takes a resolution.

    Parameters
    ----------
    adata : AnnData
        The cells; results are written into it.
    n_clusters : int
        How many clusters to look for.
    restrict_to : (str, sequence of str), optional
        Cluster some cells only: those for which `adata.obs` has one of these categories in this column. The others
        keep their category of that column; the clusters of ("leiden", ["3", "5"]) are called "3-5,0", "3-5,1", ….
    random_state : int, Generator, RandomState or None, default 0
        Seeds everything that is drawn; a whole number makes the result repeatable.
    key_added : str, default "tautcut"
        The name under which the results are stored; with `restrict_to`, "tautcut_R" by default.
    adjacency : sparse matrix of shape (n_obs, n_obs), optional
        Use this graph.
    use_weights : bool, default True
        Whether the weights of the graph count. If not, each edge counts 1.
    neighbors_key : str, optional
        Use the graph that `scanpy.pp.neighbors` stored under this key.
    obsp : str, optional
        Use the graph `adata.obsp[obsp]`.
    use_rep : str, optional
        Build the nearest-neighbour graph of `adata.obsm[use_rep]`, or of `adata.X` for "X". With none of these four,
        the first that is there is used of `obsp["connectivities"]`, `obsm["X_pca"]` and `X`; `uns` says which.
    n_neighbors : int, default 10
        How many neighbours each cell is joined to, where the graph is built from features.
    masses_key : str, optional
        `adata.obs[masses_key]` holds how much each cell counts in the size of its cluster, a number > 0: how many cells
        it stands for, say, if it is a metacell.
    balance, class_prior, n_init, search, min_cluster_size, verbose
        As for :class:`tautcut.MTVClustering`.
    copy : bool, default False
        Leave `adata` alone and return a copy with the results.

    Returns
    -------
    AnnData or None
        The copy, if one was asked for. Written into it, or into `adata`, are

        - `obs[key_added]`: the clusters "0", "1", …, categorical, the largest first;
        - `obs[key_added + "_confidence"]`: how firmly the neighbours of a cell agree on its cluster, from 0 to 1; NaN
          for cells that were not clustered;
        - `uns[key_added]`: `params`, `energy`, `relaxed_energy`, `status`, `n_iter`, `version`, `seed` if
          `random_state` is a number, and `masses`, those of the clusters in their order, if cells have any.

        The command line writes the same into a .h5ad file, with the clusters as :class:`tautcut.MTVClustering` numbers
        them.

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
    given = _input_of(adata, use_rep, obsp=obsp, neighbors_key=neighbors_key, adjacency=adjacency, weighted=use_weights)
    chosen = None if restrict_to is None else _restricted(adata, *restrict_to)
    masses = _masses_of(adata, masses_key)
    if masses is not None and chosen is not None:
        masses = masses[chosen.cells]
    model = MTVClustering(
        n_clusters, affinity=given.affinity, n_neighbors=n_neighbors, balance=balance, class_prior=class_prior,
        n_init=n_init, search=search, min_cluster_size=min_cluster_size, verbose=verbose, random_state=random_state,
    ).fit(given.X if chosen is None else given.of(chosen.cells), sample_weight=masses)  # fmt: skip
    sizes = model.result_.partition.sizes
    order, rank = np.argsort(-sizes, kind="stable"), np.empty_like(sizes)
    rank[order] = np.arange(sizes.size)
    codes, names = rank[model.labels_], np.arange(sizes.size).astype(np.str_)
    target = adata.copy() if copy else adata
    source = {**given.source, **({} if masses_key is None else {"masses_key": masses_key})}
    if chosen is None:
        _store(target, key_added, model, source, order, codes=codes, names=names, confidence=model.confidence_)
        return target if copy else None
    codes, names = chosen.renamed(codes, names)
    confidence = np.full(codes.size, np.nan)
    confidence[chosen.cells] = model.confidence_
    key, source = f"{KEY}_R" if key_added == KEY else key_added, {**source, **chosen.params}
    _store(target, key, model, source, order, codes=codes, names=names, confidence=confidence)
    return target if copy else None


def classify(
    adata: AnnData,
    labels_key: str,
    *,
    unknown: str | None = None,
    random_state: RandomState = 0,
    key_added: str = KEY,
    adjacency: Any = None,
    use_weights: bool = True,
    neighbors_key: str | None = None,
    obsp: str | None = None,
    use_rep: str | None = None,
    n_neighbors: int = 10,
    masses_key: str | None = None,
    balance: Literal["size", "volume"] = "size",
    class_prior: ArrayLike | Literal["auto"] | None = "auto",
    search: Literal["short", "thorough", "none"] = "short",
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
    random_state, key_added, adjacency, use_weights, neighbors_key, obsp, use_rep, n_neighbors, masses_key, balance, \
search, copy, verbose
        As for :func:`cluster`.
    class_prior
        As for :class:`tautcut.MTVClassifier`.

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
    given = _input_of(adata, use_rep, obsp=obsp, neighbors_key=neighbors_key, adjacency=adjacency, weighted=use_weights)
    labels = _labels_of(adata, labels_key, unknown)
    model = MTVClassifier(
        affinity=given.affinity, n_neighbors=n_neighbors, balance=balance, class_prior=class_prior, search=search,
        verbose=verbose, random_state=random_state,
    ).fit(given.X, labels, sample_weight=_masses_of(adata, masses_key))  # fmt: skip
    target = adata.copy() if copy else adata
    codes, source = model.result_.partition.labels, {**given.source, "labels_key": labels_key}
    source |= {} if masses_key is None else {"masses_key": masses_key}
    order = np.arange(model.classes_.size)
    _store(target, key_added, model, source, order, codes=codes, names=model.classes_, confidence=model.confidence_)
    return target if copy else None


def _input_of(
    adata: AnnData, use_rep: str | None, *, obsp: str | None, neighbors_key: str | None, adjacency: Any, weighted: bool
) -> _Input:
    """What was asked for; else the first that is there of the graph of scanpy, its PCA, and X."""
    missing = [name for name in ("obs", "obsm", "obsp", "uns", "X") if not hasattr(adata, name)]
    if missing:
        raise InputError(f"adata must be an AnnData object; found {type(adata).__name__!r} without {missing[0]}.")
    asked = {"use_rep": use_rep, "obsp": obsp, "neighbors_key": neighbors_key, "adjacency": adjacency}
    named = [name for name, value in asked.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"give one of {', '.join(asked)}, not {' and '.join(named)}: they name different graphs.")
    if adjacency is not None:
        return _Input(_graph(adjacency, adata, "adjacency", weighted), "precomputed", {"adjacency": "given"})
    if neighbors_key is not None:
        stored = _entry(adata.uns, "uns", neighbors_key)
        obsp = str(stored.get("connectivities_key", GRAPH) if hasattr(stored, "get") else GRAPH)
    if not named:
        obsp = GRAPH if GRAPH in adata.obsp else None
        use_rep = PCA if PCA in adata.obsm else "X"
    if obsp is not None:
        source = {"obsp": obsp, "use_weights": weighted}
        return _Input(_graph(_entry(adata.obsp, "obsp", obsp), adata, obsp, weighted), "precomputed", source)
    features: Any = adata.X if use_rep == "X" else _entry(adata.obsm, "obsm", str(use_rep))
    if features is None:
        raise InputError("adata has no X, no neighbour graph and no X_pca. Name the features by use_rep.")
    return _Input(features if sp.issparse(features) else np.asarray(features), "knn", {"use_rep": str(use_rep)})


def _graph(matrix: Any, adata: AnnData, name: str, weighted: bool) -> SparseMatrix:
    """The weights of a graph of all cells, or 1 for each edge."""
    W = sp.csr_matrix(matrix, dtype=np.float64)
    if W.shape != (adata.n_obs, adata.n_obs):
        raise InputError(f"{name} must be a graph of the {adata.n_obs} cells; found a matrix of shape {W.shape}.")
    return W if weighted else W.sign()


@dataclass(frozen=True, eq=False)
class _Restriction:
    """The cells of some categories of a column; the others keep theirs."""

    key: str
    categories: tuple[str, ...]
    column: Any  # of pandas, as text
    cells: BoolArray

    @property
    def params(self) -> dict[str, Any]:
        """What `uns` is told of it."""
        return {"restrict_key": self.key, "restrict_categories": list(self.categories)}

    def renamed(self, codes: Array, names: Array) -> tuple[Array, Array]:
        """The code and the names of all categories: in place of those restricted to, the clusters found among them."""
        found = [f"{'-'.join(self.categories)},{name}" for name in names.tolist()]
        groups = self.column.to_numpy(dtype=object, copy=True)
        groups[self.cells] = np.array(found, dtype=object)[codes]
        before = self._in_order()
        place = min(before.index(one) for one in self.categories)
        all_names = [*before[:place], *found, *(one for one in before[place:] if one not in self.categories)]
        number = {name: code for code, name in enumerate(all_names)}
        return np.array([number.get(group, -1) for group in groups.tolist()]), np.array(all_names)

    def _in_order(self) -> list[str]:
        """The categories of the column in their order; of a plain column, sorted."""
        is_categorical = hasattr(self.column, "cat")
        return [str(one) for one in (self.column.cat.categories if is_categorical else sorted(self.column.unique()))]


def _restricted(adata: AnnData, key: str, categories: Sequence[str]) -> _Restriction:
    column = _entry(adata.obs, "obs", key)
    column = column.cat.rename_categories(str) if hasattr(column, "cat") else column.astype(str)
    wanted = (categories,) if isinstance(categories, str) else tuple(map(str, categories))
    there = column.unique().tolist()
    absent = [one for one in wanted if one not in there]
    if absent or not wanted:
        what = f"has no cell of {absent[0]!r}" if absent else "needs a category"
        raise InputError(f"restrict_to {what} in obs[{key!r}]; it has {', '.join(map(repr, there[:8]))}.")
    return _Restriction(key, wanted, column, np.asarray(column.isin(wanted), dtype=bool))


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


def _masses_of(adata: AnnData, key: str | None) -> Array | None:
    """The masses of the cells, if a column of them is named."""
    if key is None:
        return None
    column = _entry(adata.obs, "obs", key)

    def place(cell: int) -> str:
        return f"for cell {str(adata.obs_names[cell])!r}"

    return vertex_masses(column.to_numpy(), adata.n_obs, name=f"obs[{key!r}]", place=place)


def _store(
    adata: AnnData, key: str, model: Model, source: dict[str, Any], order: Array, *, codes: Array, names: Array,
    confidence: Array,
) -> None:  # fmt: skip
    """Write the results; `codes` number the `names`, which become the categories, and −1 is no category.

    `order` has the clusters as they are numbered now.
    """
    about = about_run(
        params=source | model.get_params(), energy=model.energy_, relaxed_energy=model.relaxed_energy_,
        status=model.result_.outcome, n_iter=model.n_iter_, seed=model.random_state,
        masses=model.result_.partition.masses[order] if model.graph_.has_masses else None,
    )  # fmt: skip
    added = entries(key, codes=codes, classes=names, confidence=confidence, about=about)
    for part, values in added.items():
        for name, value in values.items():
            getattr(adata, part)[name] = value
