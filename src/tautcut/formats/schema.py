"""Where results stand among the cells of an AnnData object, in memory or in a .h5ad file: the names that follow from a
key, the categories, and what is told of the run. `tautcut.anndata` and the writer of labels both fill it. It reads and
writes nothing, and does not import anndata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tautcut._version import __version__
from tautcut.arrays import Array

KEY = "tautcut"
GRAPH, PCA = "connectivities", "X_pca"  # where scanpy puts its graph, in obsp, and its features, in obsm


def about_run(
    *, params: Mapping[str, Any], energy: float, relaxed_energy: float, status: object, n_iter: int,
    seed: object = None, masses: Array | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What is told of a run: the seed only if it is a number, the masses of clusters only if there are any."""
    about: dict[str, Any] = {
        "params": dict(params), "energy": float(energy), "relaxed_energy": float(relaxed_energy),
        "status": str(status), "n_iter": int(n_iter), "version": __version__,
    } | ({} if masses is None else {"masses": masses.tolist()})  # fmt: skip
    return about | {"seed": int(seed)} if isinstance(seed, int | np.integer) else about


def entries(
    key: str, *, codes: Array, classes: Array, confidence: Array, about: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What to store, by the part of the object and by the name in it.

    `codes` number the `classes`, whose names become the categories; of `about`, what a file can hold is kept.
    """
    from pandas import Categorical, Index  # anndata brings it

    names = Index([str(one) for one in classes.tolist()])
    return {
        "obs": {key: Categorical.from_codes(codes, categories=names), f"{key}_confidence": confidence},
        "uns": {key: _storable(about)},
    }


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and words as they are, lists of them as arrays, mappings alike; all else is left out."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            kept[name] = _storable(value)
        elif isinstance(value, int | float | str | np.number):
            kept[name] = value
        elif isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1:
            kept[name] = np.asarray(value)
    return kept
