"""What is minimised, where the vertices are divided among ranks: `DividedProblem` is `Problem` seen from one of them.
Its partitions have the labels of the rank's own vertices, and the energy (P) of the whole graph.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.checks import UNLABELLED, cluster_count
from tautcut.problem import Partition, balanced_terms, lam_vector, median_mass

if TYPE_CHECKING:
    from tautcut.kernels.ranks.halo import Halo


class DividedProblem:
    """Minimise (P) over the vertices of all ranks; `labels` are those of the rank's own that are fixed, −1 elsewhere.

    All ranks call its methods together.
    """

    def __init__(
        self, halo: Halo, n_clusters: int, lam: ArrayLike | None = None, labels: IntArray | None = None
    ) -> None:
        self.halo, self.shard, whole = halo, halo.shard, halo.shard.whole
        self.n_clusters = cluster_count(n_clusters, whole.n_vertices)
        self.lam = lam_vector(lam, self.n_clusters)
        self.labels = np.full(self.shard.n_own, UNLABELLED, dtype=np.int64) if labels is None else labels
        self.total_mass = whole.total_mass

    @cached_property
    def is_labelled(self) -> BoolArray:
        return np.asarray(self.labels != UNLABELLED)

    @cached_property
    def median_mass(self) -> FloatArray:
        return median_mass(self.total_mass, self.lam)

    def partition(self, labels: IntArray) -> Partition:
        """The partition of these labels of the rank's own vertices."""
        return self.measured(labels, self.halo.world.total(self.own_cuts(self.halo.extended(labels))))

    def own_cuts(self, labels: IntArray) -> FloatArray:
        """What the rank's own vertices add to Cut(A_r, A_rᶜ) of each cluster; `labels` are those of the ghosts too."""
        shard = self.shard
        own = np.repeat(labels[: shard.n_own], np.diff(shard.indptr))
        crosses = own != labels[shard.indices]
        return np.bincount(own[crosses], shard.weights[crosses], self.n_clusters).astype(np.float64)

    def measured(self, labels: IntArray, cut: FloatArray) -> Partition:
        """The partition of labels whose cuts, over all ranks, are known."""
        R = self.n_clusters
        sizes = np.bincount(labels, minlength=R).astype(np.float64)
        own_masses = np.bincount(labels, self.shard.masses, R).astype(np.float64)
        sizes, masses = self.halo.world.total(np.stack([sizes, own_masses]))
        return Partition(labels, balanced_terms(cut, masses, self.lam), sizes.astype(np.int64), masses)
