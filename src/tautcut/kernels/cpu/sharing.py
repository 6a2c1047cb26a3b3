"""Compiled work on a range, shared by threads: a small team of this process's own, which waits between one piece of
work and the next. It owns how work is handed over, and how few threads a short piece can feed; what is shared is cut
the same way at any number of threads by those who ask, so that no bit depends on it (decision 0009).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np

from tautcut.arrays import IntArray
from tautcut.kernels.devices import thread_count

_CHUNKS = 64  # pieces of the vertex range; a constant, so that sums have the same bits at any number of threads
_VERTEX_COST = 4  # a vertex costs a pass about as much as this many of its edges; chunks are cut to equal work
_LEAST_SHARE = 50_000  # directed edges for each thread, at 20 ns: waking one through Python takes up to 0.1 ms
LIGHT = 4  # times as many where an edge takes 2 to 5 ns


class _Job(NamedTuple):
    """One share of a piece of work; how it ended goes to `done`: None, or what it raised."""

    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: SimpleQueue[BaseException | None]

    def carry_out(self) -> None:
        try:
            self.work(*self.arguments)
        except BaseException as error:  # noqa: BLE001 - raised again, on the thread that shares
            self.done.put(error)
        else:
            self.done.put(None)


class Team:
    """Threads that wait for jobs. They are never ended: idle, they cost nothing, and they end with the process."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[_Job] = SimpleQueue()
        self._size, self._lock = 0, Lock()

    def grow(self, size: int) -> None:
        """See to it that there are so many threads at least."""
        with self._lock:
            for number in range(self._size, size):
                Thread(target=self._serve, name=f"tautcut-{number}", daemon=True).start()
            self._size = max(self._size, size)

    def hand_over(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> SimpleQueue[BaseException | None]:
        """Have work(*arguments) done by a thread, when one is free; how it ended comes out of what is returned."""
        done = SimpleQueue[BaseException | None]()
        self.inbox.put(_Job(work, arguments, done))
        return done

    def _serve(self) -> None:
        for job in iter(self.inbox.get, None):
            job.carry_out()
            del job  # or its arrays would live until the next


@lru_cache(maxsize=1)
def _team(process: int) -> Team:
    """The team of this process: threads do not survive a fork."""
    return Team()


def affordable_threads(work: int, least: int) -> int:
    """How many threads to share so much work by, when each should have `least` of it."""
    return max(1, min(thread_count(), work // least))


def even_shares(indptr: IntArray, *, lightness: int = 1) -> IntArray:
    """Where to cut vertices for as many threads as their edges can feed, so that each thread has about as many.

    The lighter the work on an edge, the more of them it takes to feed a thread: so many times as many.
    """
    n_threads = affordable_threads(int(indptr[-1]), lightness * _LEAST_SHARE)
    places = np.searchsorted(indptr, np.linspace(0, indptr[-1], n_threads + 1))
    places[0], places[-1] = 0, indptr.size - 1
    return places


def chunk_bounds(indptr: IntArray) -> IntArray:
    """Cut the vertices into at most `_CHUNKS` runs of about equal work, the same at any number of threads."""
    n = indptr.size - 1
    work = indptr + _VERTEX_COST * np.arange(n + 1)
    n_chunks = min(_CHUNKS, n)
    bounds = np.searchsorted(work, np.linspace(0, work[-1], n_chunks + 1))
    bounds[0], bounds[-1] = 0, n
    return bounds.astype(np.int64)


def share(work: Callable[..., Any], places: IntArray | list[int], *arguments: Any) -> None:
    """work(begin, end, *arguments) for each two places that follow each other, at the same time.

    Whoever calls takes the first share, and then any that no other thread has begun: it never waits for a thread that
    is busy elsewhere, so work that is shared may be done on several threads at once.
    """
    ranges = [(int(begin), int(end)) for begin, end in pairwise(places)]
    if len(ranges) == 1:
        work(*ranges[0], *arguments)
        return
    team, done = _team(os.getpid()), SimpleQueue[BaseException | None]()
    team.grow(len(ranges) - 1)
    for begin, end in ranges[1:]:
        team.inbox.put(_Job(work, (begin, end, *arguments), done))
    errors: list[BaseException | None] = []
    try:
        work(*ranges[0], *arguments)
    finally:
        for _ in ranges[1:]:
            if done.empty():
                _help(team)
            errors.append(done.get())
    for error in errors:
        if error is not None:
            raise error


def _help(team: Team) -> None:
    """Do a job that nobody has begun, if there is one."""
    try:
        job = team.inbox.get_nowait()
    except Empty:
        return
    job.carry_out()
