"""Work of a search done several at a time: the compiled loops run outside Python's lock. The order of the answers is
that of the work, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tautcut.kernels import devices

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_threads(function: Callable[[Item], Answer], items: Sequence[Item]) -> Iterator[Answer]:
    """function(item) for each item, in order, several at a time: the compiled loops run outside Python's lock."""
    n_threads = min(devices.thread_count(), len(items))
    if n_threads < 2:
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
