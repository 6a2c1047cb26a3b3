"""1SPEC: the two-class Cheeger cut by the inverse power method for the 1-Laplacian, applied recursively. This module
owns the inverse power method; the model, the sweep and the recursion are those of `cheeger`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tautcut.arrays import FloatArray
from tautcut.baselines.cheeger import CheegerClusterer, Cluster, DualAscent, Iterate, Relaxation, second_eigenvector
from tautcut.graph import Graph

_MAX_OUTER = 100
_FIRST_LIMIT = 40  # inner iterations of an outer step; doubled whenever it fails,
_LAST_LIMIT = 800  # up to this
_VANISHED = 1e-14  # relative norm at which u is zero, and f an eigenvector of the 1-Laplacian


class OneSpectral(CheegerClusterer):
    """Cluster by recursive two-class Cheeger cuts, min Cut(A) / min{θ(A), θ(Aᶜ)}, by 1-spectral clustering.

    The inverse power method lowers the exact relaxation T(f) / B(f), T the total variation and
    B(f) = Σ_i θ_i |f_i − med(f)|, from the best level set of the second eigenvector of the Laplacian. At each level
    every cluster is cut tentatively, and the cut kept is the one after which max_r Cut(A_r) / θ(A_r) is lowest, with
    the cuts and degrees of the whole graph.

    Parameters
    ----------
    n_clusters, weights, random_state
        As for `CheegerClusterer`, which has the attributes too; nothing is drawn.

    Notes
    -----
    A disconnected cluster is cut along its components or inside the largest of them, not inside each.

    References
    ----------
    M. Hein, T. Bühler: An inverse power method for nonlinear eigenproblems with applications in 1-spectral clustering
    and sparse PCA. NIPS 2010.

    Examples
    --------
    >>> from tautcut import Graph
    >>> from tautcut.baselines import OneSpectral
    >>> bowtie = Graph.from_edges([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])
    >>> model = OneSpectral(n_clusters=2, weights="ratio").fit(bowtie)
    >>> round(model.objective_, 6)
    0.333333
    """

    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        def descend(cluster: Cluster, relaxation: Relaxation) -> Iterator[Iterate]:
            return inverse_power(relaxation, _level_set_start(cluster))

        self._recurse(graph, n_clusters, descend, is_global=True)


def inverse_power(relaxation: Relaxation, start: FloatArray) -> Iterator[Iterate]:
    """The start, then f after every attempt to lower E, successful or not.

    One attempt is f ← argmin T(u) − E(f) ⟨u, v⟩ over ‖u‖₂ ≤ 1, v ∈ ∂B(f), centred. Any u of negative value lowers E, so
    few inner iterations are made at first, and twice as many after each failure.
    """
    dual, limit, n_iter = DualAscent(relaxation.K), _FIRST_LIMIT, 0
    f = relaxation.centred(start)
    E, v = relaxation.energy(f), relaxation.subgradient(f)
    yield Iterate(f, E, n_iter)
    dual.aim(v, 1.0 / E)
    for _ in range(_MAX_OUTER):
        u = dual.run(limit)
        n_iter += limit
        scale = float(np.linalg.norm(u))
        if scale <= _VANISHED * np.linalg.norm(v):
            yield Iterate(f, E, n_iter)
            return
        u = relaxation.centred(u / scale)
        E_next = relaxation.energy(u)
        if E_next < E:
            f, E, v = u, E_next, relaxation.subgradient(u)
            dual.aim(v, 1.0 / E)
        else:
            limit *= 2
        yield Iterate(f, E, n_iter)
        if limit > _LAST_LIMIT:
            return


def _level_set_start(cluster: Cluster) -> FloatArray:
    """The smaller side of the best cut along the second eigenvector, as an indicator divided by its size."""
    _, is_upper = cluster.sweep(second_eigenvector(cluster))
    smaller = is_upper if 2 * is_upper.sum() <= is_upper.size else ~is_upper
    return np.asarray(smaller / smaller.sum())
