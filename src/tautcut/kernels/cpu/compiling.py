"""How kernels are compiled: by Numba, outside Python's lock, and kept on disk where a disk can be written. What is on
disk is never needed (decision 0038): a file that is missing, torn or damaged is compiled again, and a full disk keeps
nothing. Where Numba is not installed, what it would compile can be imported and not called.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tautcut.errors import EngineUnavailableError
from tautcut.writing import write_whole

try:
    import numba
    from numba import njit
    from numba.core.caching import FunctionCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from numba.core.serialize import dumps
except ImportError:  # the other engines do without
    njit, FunctionCache = None, object

logger = logging.getLogger("tautcut")

_DIGEST = hashlib.sha256().digest_size


def is_available() -> bool:
    """Whether there is anything to compile with."""
    return njit is not None


def compiled(function: Callable[..., Any]) -> Any:
    """The function compiled at its first call; kept on disk, or in memory alone where no cache folder is writable."""
    if njit is None:
        return _needs_numba
    dispatcher = njit(nogil=True)(function)
    try:
        dispatcher._cache = _Cache(function)  # what `enable_caching` does, with a cache that can do without its files
    except (RuntimeError, OSError):  # Numba found no place for it
        _warn_once("no writable folder for compiled kernels: they are compiled in each process")
    return dispatcher


def inlined(function: Callable[..., Any]) -> Any:
    """A part of compiled functions, pasted into each that calls it, where a call would cost more than what it does."""
    return _needs_numba if njit is None else njit(nogil=True, inline="always")(function)


def bare(function: Callable[..., Any]) -> Any:
    """A part of compiled functions that makes no arrays: no references are counted to those that it is given.

    Numba would count them wherever a field of a record is looked at: two thirds of the time of an annealing.
    """
    return _needs_numba if njit is None else njit(nogil=True, _nrt=False)(function)


def absorbed(function: Callable[..., Any]) -> Any:
    """As `bare`, worked into each function that calls it by LLVM: quicker to compile than `inlined`."""
    return _needs_numba if njit is None else njit(nogil=True, forceinline=True, _nrt=False)(function)


def summing(function: Callable[..., Any]) -> Any:
    """As `absorbed`, and its sums may be taken in any order: then a loop along a row fills SIMD registers."""
    if njit is None:
        return _needs_numba
    return njit(nogil=True, forceinline=True, fastmath={"reassoc", "contract", "nsz", "arcp"})(function)


def is_first_here(name: str) -> bool:
    """Whether this process is the first one of this version and processor to ask so in the folder of compiled kernels;
    never where nothing can be kept.
    """
    if njit is None:
        return False
    version = repr((numba.__version__, _sources(), cpu_target.target_context.codegen().magic_tuple()))
    file = f"{name}.{hashlib.sha256(version.encode()).hexdigest()[:16]}.nbc"
    try:
        folder = Path(_Cache(is_first_here).cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        os.close(os.open(folder / file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except (RuntimeError, OSError):  # as in `compiled`, or another process was first
        return False
    return True


def _needs_numba(*_: object) -> Any:
    raise EngineUnavailableError("the search needs numba: install it, or choose search='none'.")


class _Cache(FunctionCache):
    """Numba's cache of one function, in files of ours; whatever goes wrong with them, the function is compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Shelf(Path(self._cache_path), self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _stand_somewhere()
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - Numba unpickles and links what a file holds: any error can come
            _warn_once(f"a compiled kernel in '{self.cache_path}' cannot be used, and is compiled again: {error}")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except (OSError, pickle.PickleError) as error:
            reason = getattr(error, "strerror", None) or error
            _warn_once(f"compiled kernels cannot be kept in '{self.cache_path}', and are compiled each time: {reason}")


class _Shelf:
    """Files of compiled code, one for each kernel and kind of arguments, which say whether they are whole.

    Numba's own keep an index beside them, which processes that compile at the same time can tear from its files, and
    trust what they hold: a bit that has flipped is run as code.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self._folder, self._base = folder, base

    def load(self, key: Any) -> Any:
        """What `save` has kept under the key; None where there is nothing, or nothing whole."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        digest, packed = content[:_DIGEST], content[_DIGEST:]
        return pickle.loads(packed) if hashlib.sha256(packed).digest() == digest else None

    def save(self, key: Any, data: Any) -> None:
        """Keep the data under the key."""
        packed = dumps(data)
        write_whole(self._file(key), hashlib.sha256(packed).digest() + packed)

    def flush(self) -> None:
        """Forget everything about the function."""
        for file in self._folder.glob(f"{self._base}.*.nbc"):
            file.unlink(missing_ok=True)

    def _file(self, key: Any) -> Path:
        name = hashlib.sha256(repr((numba.__version__, _sources(), key)).encode()).hexdigest()[:16]
        return self._folder / f"{self._base}.{name}.nbc"


def _stand_somewhere() -> None:
    """Leave a working folder that is gone, as under a worker that outlives it: Numba fails where there is none."""
    try:
        os.getcwd()
    except OSError:
        os.chdir(os.sep)


@cache
def _warn_once(message: str) -> None:
    """The message in the log, once: there are many kernels, and what troubles one troubles all."""
    logger.warning(message)


@cache
def _sources() -> bytes:
    """A digest of all kernels: a kernel is compiled again where one that it calls has changed, in whatever file."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


if njit is not None and hasattr(os, "register_at_fork"):
    # A process that is forked while a thread compiles would wait for that thread, which it has not, for ever.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
