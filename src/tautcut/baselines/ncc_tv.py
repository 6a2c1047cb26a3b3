"""NCC-TV: the two-class Cheeger cut by steepest descent on its total-variation relaxation, applied recursively. This
module owns the descent; the model, the sweep and the recursion are those of `cheeger`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tautcut.arrays import FloatArray
from tautcut.baselines.cheeger import CheegerClusterer, Cluster, DualAscent, Iterate, Relaxation, second_eigenvector
from tautcut.checks import one_of, positive_number, whole_number
from tautcut.graph import Graph

SCOPES = ("cluster", "graph")
INITS = ("eigenvector", "random")

_CHECK_EVERY = 20  # inner iterations between two looks at the descent inequality
_SLACK = 0.99  # ϑ of the descent inequality; an exact proximal map fulfils it with 1


@dataclass(eq=False, repr=False, kw_only=True)
class NCCTV(CheegerClusterer):
    """Cluster by recursive two-class Cheeger cuts, min Cut(A) / min{θ(A), θ(Aᶜ)}, by steepest descent.

    The descent is on the exact relaxation T(f) / B(f), T the total variation and B(f) = Σ_i θ_i |f_i − med(f)|. At each
    level every cluster is cut tentatively, on the graph that it induces, and the cut of the lowest value is kept.

    Parameters
    ----------
    n_clusters, weights, random_state
        As for `CheegerClusterer`, which has the attributes too; only `init="random"` draws.
    scope : {"cluster", "graph"}, default "cluster"
        Where a cut is valued: inside the cluster that it cuts, or in the whole graph, as `OneSpectral` does.
    init : {"eigenvector", "random"}, default "eigenvector"
        Where each descent begins: the second eigenvector of the Laplacian, or noise.
    step : float, default 1.0
        Time step c of the descent. Any c > 0 descends; 1 is the authors', and long.
    tol : float, default 1e-6
        A descent ends when the energy falls by less than this fraction of itself.
    max_outer : int, default 100
        Outer steps of one descent.
    max_inner : int, default 2000
        Inner iterations of one outer step.
    asymmetric : bool, default False
        Cut off pieces of share 1/R: min{λθ(A), θ(Aᶜ)} with λ = R θ(C)/θ(V) − 1 in cluster C.

    References
    ----------
    X. Bresson, T. Laurent, D. Uminsky, J. H. von Brecht: Convergence and energy landscape for Cheeger cut clustering.
    NIPS 2012.

    Examples
    --------
    >>> from tautcut import Graph
    >>> from tautcut.baselines import NCCTV
    >>> bowtie = Graph.from_edges([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])
    >>> model = NCCTV(n_clusters=2, weights="ratio").fit(bowtie)
    >>> round(model.objective_, 6)
    0.333333
    """

    scope: str = "cluster"
    init: str = "eigenvector"
    step: float = 1.0
    tol: float = 1e-6
    max_outer: int = 100
    max_inner: int = 2000
    asymmetric: bool = False

    def _cluster(self, graph: Graph, n_clusters: int, rng: np.random.Generator) -> None:
        one_of("scope", self.scope, SCOPES)
        one_of("init", self.init, INITS)
        descent = SteepestDescent(self.step, self.tol, self.max_outer, self.max_inner)

        def descend(cluster: Cluster, relaxation: Relaxation) -> Iterator[Iterate]:
            is_random = self.init == "random"
            start = rng.standard_normal(cluster.vertices.size) if is_random else _eigenvector_start(cluster)
            return descent.run(relaxation, start)

        self._recurse(graph, n_clusters, descend, is_global=self.scope == "graph", is_asymmetric=self.asymmetric)


@dataclass(frozen=True)
class SteepestDescent:
    """The descent on E(f), and when it ends; the parameters are those of `NCCTV`."""

    step: float = 1.0
    tol: float = 1e-6
    max_outer: int = 100
    max_inner: int = 2000

    def __post_init__(self) -> None:
        positive_number("step", self.step)
        positive_number("tol", self.tol, or_zero=True)
        whole_number("max_outer", self.max_outer)
        whole_number("max_inner", self.max_inner)

    def run(self, relaxation: Relaxation, start: FloatArray) -> Iterator[Iterate]:
        """The start, then f after every outer step; E falls strictly, unless at the last.

        One step is f ← h / ‖h‖, h the centred minimiser of T(u) + (E/2c) ‖u − (f + c v)‖² with v ∈ ∂B(f).
        """
        dual = DualAscent(relaxation.K)
        now = Iterate(_normalised(relaxation.centred(start)), np.inf, 0)
        now = now._replace(energy=relaxation.energy(now.f))
        yield now
        for _ in range(self.max_outer):
            before, now = now, self._advance(relaxation, dual, now)
            yield now
            if before.energy - now.energy <= self.tol * before.energy:
                return

    def _advance(self, relaxation: Relaxation, dual: DualAscent, now: Iterate) -> Iterate:
        """One outer step, solved until the descent inequality E(f) ≥ E(h) + ϑ (E(f)/B(h)) ‖h − f‖²/c holds."""
        f, E, n_iter = now
        dual.aim(f + self.step * relaxation.subgradient(f), self.step / E)
        for _ in range(0, self.max_inner, _CHECK_EVERY):
            u = dual.run(_CHECK_EVERY)
            n_iter += _CHECK_EVERY
            h = relaxation.centred(u)
            E_next = relaxation.energy(h)
            if (E - E_next) * relaxation.balance(h) >= _SLACK * E * float(np.sum((u - f) ** 2)) / self.step:
                break
        return Iterate(_normalised(h), E_next, n_iter) if E_next < E else Iterate(f, E, n_iter)


def _eigenvector_start(cluster: Cluster) -> FloatArray:
    """The second eigenvector, with the sign whose level sets are better; the sign matters if λ ≠ 1."""
    f = second_eigenvector(cluster)
    return -f if cluster.sweep(-f)[0] < cluster.sweep(f)[0] else f


def _normalised(f: FloatArray) -> FloatArray:
    return np.asarray(f / np.linalg.norm(f))
