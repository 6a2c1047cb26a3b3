"""How much memory there is, and a sentence instead of a crash where more would be needed. It owns the budget that
readers and fits keep to; what needs how much is known where it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tautcut.errors import NotEnoughMemoryError

_READING_SHARE = 0.5  # of what is free: the other half is for the work that follows
_CONTROL_GROUP = Path("/sys/fs/cgroup")  # of a container: a limit that the system's own figures do not show

_limit: int | None = None  # of the whole process: a search runs in a thread of its own, and keeps to it too


@contextmanager
def limited(n_bytes: int | None) -> Iterator[None]:
    """In here readers and fits may take so much; None leaves it to what is free."""
    global _limit
    before, _limit = _limit, n_bytes
    try:
        yield
    finally:
        _limit = before


def free() -> int:
    """The bytes that this process may still take: of the machine, its container and its own limit the least."""
    return int(max(0, min(psutil.virtual_memory().available, _left_in_container(), _left_in_process())))


def for_reading() -> int:
    """The bytes that the contents of a file may take."""
    return int(_READING_SHARE * free()) if _limit is None else _limit


def for_work() -> int:
    """The bytes that a graph, a search or a report may take."""
    return free() if _limit is None else _limit


def peak() -> int:
    """The most bytes that this process has held at once; 0 where the system does not tell."""
    try:  # getrusage counts in Linux what the process held that started this one
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return _peak_elsewhere()


def foresee(need: float, room: int, what: str, fix: str) -> None:
    """Refuse what would need more bytes than there is room for.

    Parameters
    ----------
    need, room : bytes.
    what : what they are needed for, as the sentence begins: "The neighbours of 70,000 points".
    fix : a sentence that says what can be done about it.
    """
    if need > room:
        raise NotEnoughMemoryError(f"{what} would take {_told(need)} of memory, and {_told(room)} are to be had. {fix}")


def reserve() -> None:
    """Have NumPy's linear algebra take its working memory now: OpenBLAS ends the process where it gets none later."""
    import numpy as np

    square = np.ones((256, 256))  # large enough not to be multiplied without it
    square @ square


def _told(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes >= 2**27 else f"{n_bytes / 2**20:,.1f} MiB"


def _peak_elsewhere() -> int:
    """The peak where there is no /proc: macOS counts in bytes, Windows by another name."""
    try:
        import resource
    except ImportError:
        return int(getattr(psutil.Process().memory_info(), "peak_wset", 0))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _left_in_container() -> float:
    try:
        limit, used = ((_CONTROL_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return int(limit) - int(used)
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return float("inf")


def _left_in_process() -> float:
    try:
        import resource  # not on Windows
    except ImportError:
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else limit - psutil.Process().memory_info().vms
