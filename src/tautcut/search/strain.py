"""Whether the balance of (P) or the graph decided a partition. `strain_of` loosens the balance, merges and splits the
clusters of a finished run, and says how much less would be cut, by clusters of which shares. It never changes the
answer of a run, and knows no true labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.graph.findings import Finding
from tautcut.kernels.cpu.coarsening import Level, contract_matching, finest_level, induced, weights_between
from tautcut.kernels.cpu.moves import bisect, descend
from tautcut.problem import Partition, Problem, cuts

# Decision 0032 has the measurements behind these three.
LOOSENED = 0.4  # share of its peak at which a denominator of (P) is capped: clusters of 0.4 to 1 N/R count alike
SMALLEST = 0.2  # of the expected size: no cluster of the looser partition is smaller
NOTICEABLE = 0.08  # a looser partition costs this much less before anybody is told

_COARSEST = 60  # vertices per cluster at which coarsening stops, as in the search
_HEAVIEST_SHARE = 0.05  # of a cluster: no coarse vertex weighs more
_MAX_LEVELS = 30
_SEAMS = (10, 30)  # bisections of a cluster, of which the cheapest counts: the fewest and the most,
_ALL_SEAMS = 60  # and of all clusters together, between these bounds
_PAIRS = 6  # of clusters with most between them, that are merged on trial
_SPLIT = 20  # clusters that are split on trial, the largest: the likeliest to be more than one
_ROUNDS = 10  # of merging and splitting at most: the time is bounded, whatever the number of clusters
_WORK = 20_000_000  # directed edges of all bisections: where clusters cannot be coarsened, the time is bounded too
_TRIED = 6  # merge–splits that are refined, the most promising ones, in each round
_CHANGED = 0.25  # share of a cluster and its likest looser one that differs, from which on it strains
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Strain:
    """What the balance of (P) costs a partition; `finding` puts it in words, where there is something to say.

    Attributes
    ----------
    fall : float
        The share of its cost by which a partition under a looser balance is cheaper, from 0 to 1.
    less_cut : float
        The share of the edge weight between clusters that would not be cut then.
    labels : ndarray of shape (n_vertices,)
        That looser partition; the partition itself where none is cheaper.
    shares : ndarray of shape (n_clusters,)
        The shares of its clusters, the largest first: what `class_prior` would be.
    clusters : ndarray of bool, shape (n_clusters,)
        Which clusters strain: they would grow, shrink, be joined or be divided. None, unless `is_strained`.
    """

    fall: float
    less_cut: float
    labels: IntArray
    shares: FloatArray
    clusters: BoolArray

    @property
    def is_strained(self) -> bool:
        """Whether the balance, rather than the graph, set the sizes of some clusters."""
        return self.fall >= NOTICEABLE

    @property
    def prior(self) -> list[float]:
        """The shares with as few digits as tell them apart; they sum to 1, as `class_prior` must."""
        digits = 1 + len(str(self.shares.size))
        prior = self.shares.round(digits)
        prior[0] += 1 - prior.sum()
        return [float(share) for share in prior.round(digits)]

    @property
    def finding(self) -> Finding | None:
        """What it means and what to do, as sentences; none where nothing strains."""
        if not self.is_strained:
            return None
        n = int(self.clusters.sum())
        value = {"n_strained": n, "fall": round(self.fall, 4), "less_cut": round(self.less_cut, 4)}
        meaning = (
            f"{n} of the {self.clusters.size} clusters {'strains' if n == 1 else 'strain'} against the sizes that were "
            f"expected: with other sizes, {self.less_cut:.0%} less would be cut."
        )
        shares = ",".join(f"{share:g}" for share in self.prior)
        advice = (
            f"If groups so uneven are plausible, run again with the shares {shares} as class_prior "
            "(--class-prior on the command line) and compare; if yours are of like size, keep these."
        )
        return Finding("balance", value, "warning", meaning, advice)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and sentences; without the labels."""
        found = self.finding
        return {
            "is_strained": self.is_strained, "fall": self.fall, "less_cut": self.less_cut, "shares": self.prior,
            "clusters": np.flatnonzero(self.clusters).tolist(), "finding": None if found is None else str(found),
        }  # fmt: skip


def strain_of(result: Result) -> Strain:
    """How far the clusters of a finished run strain against the balance of (P).

    Under a looser balance a cluster costs Cut / min{λ|A|, |Aᶜ|, c}, where c is 0.4 of the peak of the denominator:
    sizes between 0.4 and 1 + 0.6 (R − 1) times the expected one are free. Clusters are merged and split while that
    lowers the sum. With given labels nothing strains: they, and `class_prior`, say what the classes are. A run that was
    interrupted is not judged.
    """
    (problem, _), partition = result.problem.in_means(of_weights=False), result.partition
    is_judged = not problem.has_labels and problem.n_clusters > 1 and result.status is not Status.INTERRUPTED
    if not is_judged or not 0 < partition.energy < np.inf:
        return _none(partition)
    loose = _LooseBalance(problem)
    settled = loose.settled(partition.labels)  # what moves alone gain is no strain, but a search that ended early
    labels = loose.improved(settled.labels, rng=np.random.default_rng(0))
    cut, masses = cuts(problem.graph, labels, problem.n_clusters), problem.partition(labels).masses
    fall = 1 - loose.cost(cut, masses) / max(settled.cost, np.finfo(np.float64).tiny)
    less_cut = 1 - float(cut.sum() / cuts(problem.graph, partition.labels, problem.n_clusters).sum())
    if fall <= _ROUNDING or less_cut <= 0:
        return _none(partition)
    has_changed = _changed(partition.labels, labels, problem.n_clusters)
    shares = np.sort(masses)[::-1] / problem.total_mass
    return Strain(fall, less_cut, labels, shares, has_changed & (fall >= NOTICEABLE))


def _none(partition: Partition) -> Strain:
    shares = np.sort(partition.masses)[::-1] / partition.masses.sum()
    return Strain(0.0, 0.0, partition.labels, shares, np.zeros(partition.sizes.size, dtype=bool))


def _changed(labels: IntArray, looser: IntArray, R: int) -> BoolArray:
    """Which clusters have no counterpart in the looser partition: |A ∩ B| / |A ∪ B| is low for all B."""
    common = np.bincount(labels * R + looser, minlength=R * R).reshape(R, R)
    union = common.sum(axis=1, keepdims=True) + common.sum(axis=0) - common
    return np.asarray((common / np.maximum(union, 1)).max(axis=1) < 1 - _CHANGED)


@dataclass(frozen=True, eq=False)
class _Found:
    """A partition of a level, with what it costs under the looser balance."""

    labels: IntArray
    cut: FloatArray
    masses: FloatArray
    cost: float


@dataclass(frozen=True, eq=False)
class _Seam:
    """One side of a cheap bisection, the masses of both sides, and the cuts of both in the whole graph."""

    side: IntArray
    masses: FloatArray
    cut: FloatArray


class _LooseBalance:
    """The looser energy of one problem, and merging and splitting by it on a coarsening of the graph."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._lam = problem, problem.lam
        whole = problem.total_mass
        self._cap = LOOSENED * whole * self._lam / (1 + self._lam)
        self._smallest = np.maximum(np.floor(SMALLEST * whole / (1 + self._lam)), 1.0)
        self._finest = finest_level(problem.graph, problem.is_labelled)
        self._work = _WORK  # what is left of it

    def cost(self, cut: FloatArray, masses: FloatArray) -> float:
        """Σ_r Cut_r / min{λ_r m(A_r), m(A_rᶜ), c_r}."""
        balance = np.minimum(np.minimum(self._lam * masses, masses.sum() - masses), self._cap)
        return float((cut / np.maximum(balance, np.finfo(np.float64).tiny)).sum())

    def improved(self, labels: IntArray, *, rng: np.random.Generator) -> IntArray:
        """The partition after merge–splits on a coarse level, kept where they cost less, and moves on all levels."""
        levels: list[tuple[Level, IntArray]] = []
        level = self._finest
        heaviest = max(2.0, _HEAVIEST_SHARE * self._problem.total_mass / self._problem.n_clusters)
        for _ in range(_MAX_LEVELS):
            if level.n_vertices <= _COARSEST * self._problem.n_clusters:
                break
            coarse, parent = contract_matching(level, labels, heaviest=heaviest, rng=rng)
            if coarse.n_vertices > 0.95 * level.n_vertices:
                break
            inherited = np.empty(coarse.n_vertices, dtype=np.int64)
            inherited[parent] = labels
            labels = inherited
            levels.append((level, parent))
            level = coarse
        labels = self._merged_and_split(level, labels, rng)
        for level, parent in reversed(levels):
            labels = self._descend(level, labels[parent]).labels
        return labels

    def settled(self, labels: IntArray) -> _Found:
        """The partition after moves that lower (P) itself, with its looser cost."""
        return self._descend(self._finest, labels, plateau=1.0)

    def _descend(self, level: Level, labels: IntArray, *, plateau: float = LOOSENED) -> _Found:
        moved, cut, masses = descend(level, labels, self._lam, self._smallest, plateau=plateau)
        return _Found(moved, cut, masses, self.cost(cut, masses))

    def _merged_and_split(self, level: Level, labels: IntArray, rng: np.random.Generator) -> IntArray:
        """The labels after the best merge–split of each round, until none helps."""
        best = self._descend(level, labels)
        for _ in range(_ROUNDS):
            tried = sorted(self._merge_splits(level, best, rng), key=lambda one: one[0])[:_TRIED]
            refined = [self._descend(level, made) for cost, made in tried if cost < best.cost]
            fit = [one for one in refined if (one.masses >= self._smallest).all()]
            challenger = min(fit, key=lambda one: one.cost, default=best)
            if challenger.cost >= best.cost * (1 - _ROUNDING):
                break
            best = challenger
        return best.labels

    def _merge_splits(self, level: Level, found: _Found, rng: np.random.Generator) -> Iterator[tuple[float, IntArray]]:
        """Partitions with two clusters merged and one split, each with its cost before any vertex moves."""
        R = self._problem.n_clusters
        between = weights_between(level, found.labels, R)
        pairs = sorted(combinations(range(R), 2), key=lambda pair: -between[pair])[:_PAIRS]
        largest = np.argsort(-found.masses, kind="stable")[:_SPLIT].tolist()
        seams = {x: self._seam(level, np.flatnonzero(found.labels == x), rng) for x in largest}
        for a, b in pairs:
            others = ((x, seam) for x, seam in seams.items() if x not in (a, b))
            union = self._seam(level, np.flatnonzero(np.isin(found.labels, (a, b))), rng)
            for x, seam in (*others, (a, union)):
                if seam is None:
                    continue
                cut, masses = found.cut.copy(), found.masses.copy()
                cut[a] += cut[b] - 2 * between[a, b]
                masses[a] += masses[b]
                cut[[x, b]], masses[[x, b]] = seam.cut, seam.masses
                labels = np.where(found.labels == b, a, found.labels)
                labels[seam.side] = b
                yield self.cost(cut, masses), labels

    def _seam(self, level: Level, members: IntArray, rng: np.random.Generator) -> _Seam | None:
        """The cheapest of some bisections of these vertices; none if every one leaves a side that is too small."""
        if members.size < 2:
            return None
        inside, masses = induced(level, members), level.masses[members]
        best: _Seam | None = None
        for _ in range(int(np.clip(_ALL_SEAMS // self._problem.n_clusters, *_SEAMS))):
            self._work -= inside.indices.size
            if self._work < 0:
                break
            is_side = bisect(inside, rng=rng)
            halves = np.array([masses[~is_side].sum(), masses[is_side].sum()])
            if halves.min() < self._smallest.min():
                continue
            three = np.full(level.n_vertices, 2, dtype=np.int64)
            three[members] = is_side
            cut = weights_between(level, three, 3)[:2].sum(axis=1)
            if best is None or self._pair_cost(cut, halves) < self._pair_cost(best.cut, best.masses):
                best = _Seam(members[is_side], halves, cut)
        return best

    def _pair_cost(self, cut: FloatArray, masses: FloatArray) -> float:
        """What two clusters of these masses cost, of the mean λ."""
        lam, cap = self._lam.mean(), self._cap.mean()
        balance = np.minimum(np.minimum(lam * masses, self._problem.total_mass - masses), cap)
        return float((cut / balance).sum())
