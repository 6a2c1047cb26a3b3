"""Children of a partition on a coarse level: two clusters are merged and a large one is split along a seam, again and
again, and what lowers (P) is kept. The whole loop is compiled: a child takes a fraction of a millisecond, and threads
that come back to Python for each would wait for its lock (decision 0067). The draws come from the seed alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.kernels.cpu.annealing import generator, uniform
from tautcut.kernels.cpu.coarsening import Level, induced_edges, row_sums, weights_between
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.moves import SMALLEST_SIDES, SMOOTHINGS, descend_alone, is_wide, lowest_cut, smoothed

_CHEAPEST = 0.3  # the chance that the pair whose union is cheapest is merged, if no cheaper one was


def best_child(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *, plateau: float, n_children: int, seed: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The last of so many children that was kept, or the partition itself: labels, cuts, masses.

    Each child is one of the last that was kept, after moves as `moves.descend` makes them, and is kept if its (P) is
    lower and no cluster below `smallest`.
    """
    first = np.array(labels, dtype=np.int64)
    found: tuple[IntArray, FloatArray, FloatArray] = _best_child(
        level, first, lam, smallest, float(plateau), is_wide(level), int(n_children), int(seed)
    )
    return found


@compiled
def _best_child(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, plateau: float, is_afresh: bool,
    n_children: int, seed: int,
) -> tuple[IntArray, FloatArray, FloatArray]:  # fmt: skip
    random = generator(seed)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    descend_alone(level, labels, cut, masses, lam, smallest, plateau, is_afresh)
    energy, between = _energy(cut, masses, lam), weights_between(level, labels, lam.size)
    for _ in range(n_children):
        child = _child(level, labels, cut, masses, between, lam, random)
        child_cut, child_masses = np.zeros(lam.size), np.zeros(lam.size)
        descend_alone(level, child, child_cut, child_masses, lam, smallest, plateau, is_afresh)
        child_energy = _energy(child_cut, child_masses, lam)
        if child_energy < energy and (child_masses >= smallest).all():
            labels, cut, masses, energy = child, child_cut, child_masses, child_energy
            between = weights_between(level, labels, lam.size)
    return labels, cut, masses


def best_regrouped(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, *,
    plateau: float, n_children: int, seed: int, apart: float,
) -> IntArray | None:  # fmt: skip
    """The labels of the lowest of so many children, even if it is not lower, whose clusters are others.

    They are others where more than the mass `apart` lies `mass_apart`. None if no child's are, or all of those have a
    cluster below `smallest`.
    """
    labels = np.array(labels, dtype=np.int64)
    is_found = _best_regrouped(
        level, labels, lam, smallest, float(plateau), is_wide(level), int(n_children), int(seed), float(apart)
    )
    return labels if is_found else None


@compiled
def _best_regrouped(
    level: Level, labels: IntArray, lam: FloatArray, smallest: FloatArray, plateau: float, is_afresh: bool,
    n_children: int, seed: int, apart: float,
) -> bool:  # fmt: skip
    """Overwrites labels; whether there is such a child."""
    random = generator(seed)
    cut, masses = np.zeros(lam.size), np.zeros(lam.size)
    child_cut, child_masses = np.zeros(lam.size), np.zeros(lam.size)
    parent, lowest = labels.copy(), np.inf
    descend_alone(level, parent, cut, masses, lam, smallest, plateau, is_afresh)
    between = weights_between(level, parent, lam.size)
    for _ in range(n_children):
        child = _child(level, parent, cut, masses, between, lam, random)
        descend_alone(level, child, child_cut, child_masses, lam, smallest, plateau, is_afresh)
        energy = _energy(child_cut, child_masses, lam)
        is_other = mass_apart(level.masses, parent, child, lam.size) > apart
        if is_other and energy < lowest and (child_masses >= smallest).all():
            labels[:], lowest = child, energy
    return lowest < np.inf


@compiled
def mass_apart(masses: FloatArray, labels: IntArray, others: IntArray, n_clusters: int) -> float:
    """The mass in which the clusters of two partitions differ, whatever they are called.

    It is what lies outside the largest part that each of the `others` has in common with one of the first.
    """
    common = np.zeros((n_clusters, n_clusters))
    for i in range(labels.size):
        common[others[i], labels[i]] += masses[i]
    apart = float(masses.sum())
    for r in range(n_clusters):
        apart -= float(common[r].max())
    return apart


@compiled
def _energy(cut: FloatArray, masses: FloatArray, lam: FloatArray) -> float:
    """(P) of clusters with these cuts and masses, as `problem.balanced_terms` has it."""
    R = masses.size
    after = np.zeros(R)
    for r in range(R - 2, -1, -1):
        after[r] = after[r + 1] + masses[r + 1]
    energy, before = 0.0, 0.0
    for r in range(R):
        balance = min(lam[r] * masses[r], before + after[r])
        energy += cut[r] / balance if balance > 0 else np.inf
        before += masses[r]
    return energy


@compiled
def _child(
    level: Level, labels: IntArray, cut: FloatArray, masses: FloatArray, between: FloatArray, lam: FloatArray,
    random: Any,
) -> IntArray:  # fmt: skip
    """Labels in which two clusters are one, and another is two."""
    a, b = _pair_to_merge(cut, masses, between, lam, random)
    large = _cluster_to_split(masses, a, b, random)
    child = labels.copy()
    members = np.empty(labels.size, np.int64)
    n_members = 0
    for i in range(labels.size):
        if child[i] == b:
            child[i] = a
        if child[i] == large:
            members[n_members] = i
            n_members += 1
    if n_members > 1:
        _split(level, child, members[:n_members], b, random)
    return child


@compiled
def _pair_to_merge(
    cut: FloatArray, masses: FloatArray, between: FloatArray, lam: FloatArray, random: Any
) -> tuple[int, int]:
    """The pair whose union raises (P) least, more often than any other; the dearer a pair, the more seldom."""
    R, whole = masses.size, masses.sum()
    rank = int(np.log(1.0 - uniform(random)) / np.log(1.0 - _CHEAPEST))
    n_kept = min(rank + 1, R * (R - 1) // 2)
    kept, pairs = np.full(n_kept, np.inf), np.zeros((n_kept, 2), np.int64)  # the cheapest so far, in their order
    pairs[:, 1] = 1
    terms = np.zeros(R)  # an empty cluster costs nothing, whatever it is merged with
    for r in range(R):
        balance = min(lam[r] * masses[r], whole - masses[r])
        if balance > 0:
            terms[r] = cut[r] / balance
    for a in range(R):
        for b in range(a + 1, R):
            joint = masses[a] + masses[b]
            room = max(min(min(lam[a], lam[b]) * joint, whole - joint), 1.0)
            change = (cut[a] + cut[b] - 2 * between[a, b]) / room - terms[a] - terms[b]
            at = n_kept
            while at > 0 and change < kept[at - 1]:
                at -= 1
            if at < n_kept:
                for k in range(n_kept - 1, at, -1):
                    kept[k], pairs[k, 0], pairs[k, 1] = kept[k - 1], pairs[k - 1, 0], pairs[k - 1, 1]
                kept[at], pairs[at, 0], pairs[at, 1] = change, a, b
    return pairs[-1, 0], pairs[-1, 1]


@compiled
def _cluster_to_split(masses: FloatArray, a: int, b: int, random: Any) -> int:
    """A cluster, with a chance in proportion to the square of its mass, once a has taken b in."""
    whole = (masses * masses).sum() + 2.0 * masses[a] * masses[b]
    left, large = uniform(random) * whole, a
    for r in range(masses.size):
        if r != b:
            mass = masses[a] + masses[b] if r == a else masses[r]
            left -= mass * mass
            if left < 0:
                large = r
                break
    return large


@compiled
def _split(level: Level, labels: IntArray, members: IntArray, other: int, random: Any) -> None:
    """Give the members on one side of a seam, as in `moves.bisect`, to the other cluster."""
    n = members.size
    place, masses, is_fixed = np.full(level.masses.size, -1, np.int64), np.empty(n), np.empty(n, np.bool_)
    for k in range(n):  # to index by arrays would take seconds to compile
        place[members[k]], masses[k], is_fixed[k] = k, level.masses[members[k]], level.is_fixed[members[k]]
    indptr, indices, weights, rating = induced_edges(level, members, place)
    part = Level(indptr, indices, weights, rating, row_sums(indptr, weights), masses, is_fixed)
    share = SMALLEST_SIDES[0] + uniform(random) * (SMALLEST_SIDES[1] - SMALLEST_SIDES[0])
    noise = np.empty(n)
    for k in range(n):
        noise[k] = uniform(random) - 0.5
    order = np.argsort(smoothed(part, noise, SMOOTHINGS), kind="mergesort")
    for k in range(lowest_cut(part, order, share)):
        labels[members[order[k]]] = other
