"""What a run leaves behind: `Result`, the partition and how it was found, and `Step`, one line of its history. It
decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from tautcut.algorithm.stopping import Status
from tautcut.arrays import FloatArray, RealArray
from tautcut.graph.confidence import confidence
from tautcut.problem import Partition, Problem


@dataclass(frozen=True)
class Step:
    """One line of a run's history."""

    outer: int
    iterations: int
    relaxed_energy: float
    energy: float
    is_descent: bool


@dataclass(frozen=True)
class Agreement:
    """How many of the starts of a search ended at the energy of its answer; `str` of it is a sentence.

    Attributes
    ----------
    n_starts : int
        How many starts there were.
    n_best : int
        How many of them ended at that energy, up to a millionth of it, before any were combined.
    is_proved : bool
        Whether all partitions were compared, or no edge is cut, so that none has a lower energy.
    """

    n_starts: int
    n_best: int
    is_proved: bool = False

    def __str__(self) -> str:
        if self.is_proved:
            return "It is the minimum: no partition whose clusters are large enough has a lower energy."
        if self.n_starts == 1:
            return "There was one start, so that nothing tells whether others would end lower."
        how = "" if self.n_best else "; it was found by going on from them"
        return f"{self.n_best} of {self.n_starts} starts ended at this energy{how}."


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found: the best partition, the F it was read from, why the run stopped, and how it went.

    Attributes
    ----------
    problem : Problem
        What was minimised, with its graph.
    partition : Partition
        The best one seen.
    memberships : ndarray of shape (n_vertices, n_clusters)
        The F that the partition was read from; its rows lie on the simplex.
    relaxed_energy : float
        Σ_r E(f_r) of the last F.
    status : Status
        Why the run stopped, as a sentence.
    history : tuple of Step
        A line for each outer step, the start's first.
    last_memberships : ndarray of shape (n_vertices, n_clusters)
        The last F, the one that Algorithm 1 ended with; it may be sharper than `memberships`, and no better. From a
        GPU it comes in single precision.
    probabilities : ndarray of shape (n_vertices, n_clusters), or None
        The chance of each class at each vertex, where labels were given; see `tautcut.search.certainty`.
    agreement : Agreement or None
        How many starts ended at this energy; None where there was no search over starts.
    """

    problem: Problem
    partition: Partition
    memberships: FloatArray
    relaxed_energy: float
    status: Status
    history: tuple[Step, ...]
    last_memberships: RealArray
    probabilities: FloatArray | None = None
    agreement: Agreement | None = None

    def changed(self, **changes: Any) -> Result:
        """The same with these changes, as `dataclasses.replace`; but nothing is fetched for it."""
        return Result(**{field.name: self.__dict__[field.name] for field in fields(self)} | changes)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {name: getattr(self, name) for name in _FETCHED}

    @property
    def outcome(self) -> str:
        """Why the run stopped, and how many starts agree: what a user is told."""
        return str(self.status) if self.agreement is None else f"{self.status} {self.agreement}"

    @property
    def n_iter(self) -> int:
        """Inner iterations done."""
        return self.history[-1].iterations if self.history else 0

    @cached_property
    def confidence(self) -> FloatArray:
        """How sure each vertex's label is, from 0 to 1, shape (n_vertices,); computed once.

        The chance that it is right, where labels were given; without any, how firmly its neighbours agree on it.
        """
        if self.probabilities is not None:
            return np.asarray(self.probabilities[np.arange(self.problem.n_vertices), self.partition.labels])
        return confidence(self.problem.graph, self.partition.labels, self.problem.n_clusters)


class _Fetched:
    """A field that may be given as a function without arguments: what it returns takes its place once it is asked for.

    An array of N×R is slow to come by, from a GPU or from what labels say of each vertex, and few ask for it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, result: Any, owner: type) -> Any:
        if result is None:
            return self
        value = result.__dict__[self._name]
        if callable(value):
            value = result.__dict__[self._name] = value()
        return value

    def __set__(self, result: Any, value: Any) -> None:
        result.__dict__[self._name] = value


_FETCHED = ("memberships", "last_memberships", "probabilities")
for _name in _FETCHED:
    setattr(Result, _name, _Fetched(_name))
