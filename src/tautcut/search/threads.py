"""Work of a search done several at a time: the compiled loops run outside Python's lock. The order of the answers is
that of the work, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Thread
from typing import TypeVar

from tautcut.kernels import devices

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_threads(
    function: Callable[[Item], Answer], items: Sequence[Item], *, least: int = 2
) -> Iterator[Answer]:  # fmt: skip
    """function(item) for each item, in order, several at a time: the compiled loops run outside Python's lock.

    With fewer threads than `least`, one after the other.
    """
    n_threads = min(devices.thread_count(), len(items))
    if n_threads < 2 or devices.thread_count() < least:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def meanwhile(function: Callable[[], Answer]) -> Callable[[], Answer]:
    """A function that returns function(), begun now if there are more threads than the two of the starts, or else when
    it is asked for.
    """
    if devices.thread_count() < 3:
        return cache(function)
    answer: Future[Answer] = Future()

    def carry_out() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised again, where it is asked for
            answer.set_exception(error)

    Thread(target=carry_out, name="tautcut-meanwhile", daemon=True).start()
    return answer.result
