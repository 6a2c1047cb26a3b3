"""How kernels are compiled: by Numba, outside Python's lock, cached on disk where a disk can be written. The cache is
written to a temporary file and moved, so processes that compile at the same time do no harm. Where Numba is not
installed, what it would compile can be imported and not called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tautcut.errors import EngineUnavailableError

try:
    from numba import njit
except ImportError:  # the other engines do without
    njit = None

logger = logging.getLogger("tautcut")


def is_available() -> bool:
    """Whether there is anything to compile with."""
    return njit is not None


def compiled(function: Callable[..., Any]) -> Any:
    """The function compiled at its first call; kept on disk, or in memory alone where no cache folder is writable."""
    if njit is None:
        return _needs_numba
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Numba found no place for its cache
        logger.warning("no writable folder for compiled kernels: they are compiled in each process")
        return njit(nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of compiled functions, pasted into each that calls it, where a call would cost more than what it does."""
    return _needs_numba if njit is None else njit(nogil=True, inline="always")(function)


def absorbed(function: Callable[..., Any]) -> Any:
    """A part of compiled functions, worked into each that calls it by LLVM: quicker to compile than `inlined`."""
    return _needs_numba if njit is None else njit(nogil=True, forceinline=True)(function)


def _needs_numba(*_: object) -> Any:
    raise EngineUnavailableError("the search needs numba: install it, or choose search='none'.")
