"""Work that threads share: every part is done once, at the same time, whoever does it; and nobody waits for ever."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tautcut.kernels.cpu import crew as crews
from tautcut.kernels.cpu.compiling import compiled
from tautcut.kernels.cpu.crew import Crew, begin, finish, take
from tautcut.kernels.cpu.sharing import affordable_threads, even_shares, share

N_CHUNKS = 500


@compiled
def _work(me: int, words: np.ndarray, seen: np.ndarray, by: np.ndarray) -> None:
    command = begin(words, me)
    while command > 0:
        chunk = take(words)
        while chunk < seen.size:
            seen[chunk] += command
            by[chunk] = me
            for _ in range(2000):  # so that others have time to come
                by[chunk] = (by[chunk] * 3 + 1 - by[chunk] * 2) - 1
            chunk = take(words)
        command = finish(words, me)


def test_threads_run_at_the_same_time():
    everyone, seen = threading.Barrier(3, timeout=20), []

    def part(first: int, last: int) -> None:
        everyone.wait()
        seen.append((first, last))

    share(part, [0, 4, 5, 9])
    assert sorted(seen) == [(0, 4), (4, 5), (5, 9)]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_any_share_is_raised_when_all_are_done(failing):
    seen = []

    def part(first: int, last: int) -> None:
        seen.append(first)
        if first == failing:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        share(part, [0, 1, 2])
    assert sorted(seen) == [0, 1]


def test_whoever_shares_does_what_nobody_else_begins():
    """More callers than threads: each ends by its own means."""
    seen = []
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(share, lambda a, b: seen.append((a, b)), [0, 1, 2, 3]) for _ in range(40)]:
            done.result(timeout=20)
    assert len(seen) == 120


def test_few_edges_feed_one_thread(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    assert affordable_threads(99, 100) == 1
    assert affordable_threads(250, 100) == 2
    assert affordable_threads(10_000, 100) == 4
    assert even_shares(np.arange(11)).tolist() == [0, 10]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_a_crew_does_every_chunk_of_every_pass_once(n_threads):
    crew = Crew(n_threads)
    seen, by = np.zeros(N_CHUNKS, np.int64), np.zeros(N_CHUNKS, np.int64)
    for _ in range(50):
        crew.run(1, _work, seen, by)
        crew.run(2, _work, seen, by)
    assert (seen == 150).all()
    assert by.max() < n_threads


def test_those_who_have_left_are_called_again():
    crew = Crew(3)
    seen, by = np.zeros(N_CHUNKS, np.int64), np.zeros(N_CHUNKS, np.int64)
    slots = crew.words[crews._SLOTS + crews._APART :: crews._APART]
    for _ in range(2):
        crew.run(1, _work, seen, by)
        for _ in range(2000):  # until both have come and, with nothing to do, left
            if (slots == crews._GONE).all():
                break
            threading.Event().wait(0.01)
        assert (slots == crews._GONE).all()
    assert (seen == 2).all()


def test_a_crew_of_another_process_is_forgotten():
    """After a fork nobody is there, whatever the words say."""
    crew = Crew(2)
    seen, by = np.zeros(N_CHUNKS, np.int64), np.zeros(N_CHUNKS, np.int64)
    crew.words[crews._SLOTS :] = crews._WAITING
    crew._process = os.getpid() + 1
    crew.run(1, _work, seen, by)
    assert (seen == 1).all()
