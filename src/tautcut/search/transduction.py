"""From a few given labels to all of them: how the labels spread over the graph, the class shares that this suggests,
the balanced cut with the labels fixed, and a last pass in which they weigh on the boundary between the classes. It
looks at no label but those given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from tautcut.algorithm.observers import Observer
from tautcut.algorithm.results import Result
from tautcut.algorithm.stopping import Status
from tautcut.arrays import BoolArray, FloatArray, IntArray
from tautcut.checks import one_of
from tautcut.errors import InterruptedRunWarning
from tautcut.graph import Graph
from tautcut.graph.laplacian import harmonic, walk_from_labels
from tautcut.interrupts import apart
from tautcut.kernels import devices
from tautcut.kernels.cpu import compiling
from tautcut.kernels.cpu.background import above_background
from tautcut.kernels.cpu.moves import settle
from tautcut.problem import Problem, cuts, lam_of_prior
from tautcut.search.certainty import class_probabilities, labels_per_class
from tautcut.search.driver import agreeing_memberships, best_of_starts
from tautcut.search.plan import Plan, Task

_BACKGROUND_ROUNDS = 10
_HIGHEST_BACKGROUND = 1.0 - 1e-3
# Decision 0024 has the measurements behind these.
_BY_CHANCE = 0.23  # distance from equal shares that an estimate may have by chance,
_LABELS_TELL = 0.12  # over this power of the labels of a class times the share of the edge weight between classes:
_CLEAREST = 0.01  # which counts as so much more: the clearest graphs mislead as pendigits does, where it is 0.01
_MANY = 15  # labels of a class, times the root of that share, from which on the evidence is enough
_PLENTY = 10  # labels of a class from which on the evidence is believed by itself,
_LEAST_SURPRISE = 0.2  # if it is so far from equal shares, and further than chance would have it: one over their root
_HEMMED_IN = 0.03  # of an equal share, over the labels of the class: one that spread no further was stopped at once
_STRENGTH = 1.5  # of the evidence of many labels, in the vertex's own degree (decision 0025)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the labels say of every vertex, of shape (n_vertices, n_classes).

    The harmonic extension u of the labels, above its background: with few labels u is nearly constant away from them,
    at a level b_r that says where the labels of class r lie and nothing about the vertex. b_r is the median of u_r
    over the vertices that are not nearest to r, and the evidence is (u_r − b_r) / (1 − b_r). `nearest` is the class of
    the largest value.
    """

    graph: Graph
    values: FloatArray
    nearest: IntArray
    is_reached: BoolArray
    labels: IntArray

    @classmethod
    def of_labels(cls, graph: Graph, labels: IntArray, n_classes: int, *, tol: float = 1e-2) -> Evidence:
        """The evidence of these labels, −1 where unknown; `tol` is that of `harmonic`."""
        U = harmonic(graph, labels, n_classes, tol=tol, solver=devices.gradient_solver())
        raised = above_background if compiling.is_available() else _above_background
        values, nearest = raised(U, _BACKGROUND_ROUNDS, _HIGHEST_BACKGROUND)
        return cls(graph, values, nearest, (U[:, :1] != U).any(axis=1), labels)

    @property
    def n_classes(self) -> int:
        return int(self.values.shape[1])

    def shares(self) -> FloatArray:
        """The share of the mass that each class holds, or equal shares where the labels are too few to tell.

        There are two estimates, that of the evidence and that of a walk which begins at the labels. What the walk's
        distance from equal shares and what both have in common of it come to in the mean has to exceed chance, or
        labels in plenty have to be plain by themselves. With few labels on a noisy graph the smaller of both is taken
        of each class, else the evidence. Where a class is left next to nothing the labels failed to spread. On a noisy
        graph small classes are taken for smaller still: edges between classes even every estimate out (decision 0024).
        """
        R, equal = self.n_classes, np.full(self.n_classes, 1.0 / self.n_classes)
        per_class = labels_per_class(self.labels, R)
        nearest = np.where(self.labels >= 0, self.labels, self.nearest)
        noise = cuts(self.graph, nearest, R).sum() / max(self.graph.degrees.sum(), 1e-300)
        by_chance = _BY_CHANCE / (per_class * (noise + _CLEAREST)) ** _LABELS_TELL
        told = self._masses_of(nearest, self.is_reached)
        surprise = np.abs(told - equal).sum()
        if surprise <= by_chance:
            return equal
        walked = self._walked_shares()
        distance = (np.abs(walked - equal).sum() + _in_common(told - equal, walked - equal)) / 2.0
        are_many = per_class >= _MANY * np.sqrt(noise)
        is_plain = per_class >= _PLENTY and surprise > max(per_class**-0.5, _LEAST_SURPRISE)
        least = _HEMMED_IN / per_class / R
        if (distance <= by_chance and not is_plain) or np.maximum(told, walked).min() < least:
            return equal
        shares = np.maximum(told if are_many else np.minimum(told, walked), least)
        shares *= np.minimum(R * shares, 1.0) ** np.sqrt(noise)
        return np.asarray(shares / shares.sum())

    def _walked_shares(self) -> FloatArray:
        """The shares by the class whose labels' walk comes by most often."""
        walk = walk_from_labels(self.graph, self.labels, self.n_classes, solver=devices.gradient_solver())
        return self._masses_of(walk.argmax(axis=1), walk.max(axis=1) > 0.0)  # it may end before the last vertices

    def _masses_of(self, classes: IntArray, is_reached: BoolArray) -> FloatArray:
        """The share of each class in the mass of the vertices that have a label or are reached by one."""
        is_known = self.labels >= 0
        counts = is_reached | is_known
        held = np.where(is_known, self.labels, classes)[counts]
        masses = np.bincount(held, self.graph.masses[counts], self.n_classes).astype(np.float64)
        return np.asarray(masses / masses.sum())


def _in_common(one: FloatArray, other: FloatArray) -> float:
    """How far both deviate to the same side, summed over the classes."""
    return float(np.minimum(np.abs(one), np.abs(other))[one * other > 0].sum())


def transduce(
    graph: Graph, labels: IntArray, n_classes: int, *, class_prior: ArrayLike | str | None, plan: Plan,
    rng: np.random.Generator, observers: Iterable[Observer] = (), unsmoothed: Graph | None = None,
) -> Result:  # fmt: skip
    """A class for every vertex; `class_prior` is as `MTVClassifier` has it.

    Where `graph` is that of a walk, `unsmoothed` is the one that was walked on: labels weigh on the boundary by what
    they say in either of them, because a walk blurs what is near to a label (decision 0025).
    """
    if isinstance(class_prior, str):
        one_of("class_prior", class_prior, ("auto",), otherwise=", shares that sum to 1, or None")
    plan.foresee_memory(graph, n_classes)
    evidence = Evidence.of_labels(graph, labels, n_classes)
    heard = evidence
    if unsmoothed is not None:
        nearby = Evidence.of_labels(unsmoothed, labels, n_classes)
        values = np.maximum(evidence.values, nearby.values)
        heard = replace(evidence, values=values, nearest=values.argmax(axis=1))
    shares = evidence.shares() if isinstance(class_prior, str) else class_prior
    problem = Problem(graph, n_classes, lam_of_prior(shares, n_classes), labels)
    result = best_of_starts(problem, plan, rng=rng, observers=observers)
    task = Task(problem, plan)
    if task.effort.is_refined and compiling.is_available() and result.status is not Status.INTERRUPTED:
        refined = partial(heed, result, heard, task.smallest)
        try:
            result = apart(refined)
        except KeyboardInterrupt:  # while it was compiled, say: what was found before is whole
            result = result.changed(status=Status.INTERRUPTED)
            warnings.warn(str(result.status), InterruptedRunWarning, stacklevel=2)
    found, is_even = result.partition.labels, np.allclose(problem.shares, 1.0 / n_classes)
    # The labels make the one start, and the last pass leaves its energy: starts have nothing to agree on.
    return result.changed(
        probabilities=lambda: class_probabilities(
            graph, found, labels, np.maximum(evidence.values, 0.0), is_even=is_even
        ),
        agreement=None,
    )  # fmt: skip


def heed(result: Result, evidence: Evidence, smallest: FloatArray) -> Result:
    """The partition after a descent of its cut with one more vertex per class, joined to all by the evidence.

    The balanced cut alone leaves a label alone in a sea of another class where going round it is cheap. The fewer the
    labels, the weaker the pull: a single one that no other confirms has none. A class that is large enough stays so, or
    nothing is moved.
    """
    problem, partition = result.problem, result.partition
    strength = _STRENGTH * (1.0 - 1.0 / labels_per_class(evidence.labels, evidence.n_classes))
    if not strength:  # the bare cut would overrule the balance
        return result
    graph, _ = problem.graph.in_mean_weights()  # huge weights times evidence would overflow
    pull = strength * graph.degrees[:, None] * np.maximum(evidence.values, 0.0)
    labels = settle(graph, partition.labels, pull, problem.is_labelled)
    settled = problem.partition(labels)
    if ((settled.masses < smallest) & (partition.masses >= smallest)).any():
        return result
    return result.changed(partition=settled, memberships=lambda: agreeing_memberships(result.memberships, labels))


def _above_background(U: FloatArray, n_rounds: int, ceiling: float) -> tuple[FloatArray, IntArray]:
    """As `above_background`, without a compiler."""
    values, nearest = U, U.argmax(axis=1)
    for _ in range(n_rounds):
        rest = [U[nearest != r, r] for r in range(U.shape[1])]
        background = np.array([np.clip(np.median(one), 0.0, ceiling) if one.size else 0.0 for one in rest])
        values = (U - background) / (1.0 - background)
        before, nearest = nearest, values.argmax(axis=1)
        if np.array_equal(before, nearest):
            break
    return values, nearest
