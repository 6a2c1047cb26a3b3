"""Threads that stay with a piece of work while it goes on, pass after pass: they wait inside compiled code, where a
word in memory tells them to begin, because waking a thread through Python's lock costs more than a short pass does
(decision 0055). It owns the words, who waits for whom, and for how long; what a pass computes, and in which chunks, is
its own.

A pass is a compiled function `work(me, words, …)` of this form, which main and crew run alike:

    command = begin(words, me)
    while command > 0:
        chunk = take(words)
        while chunk < n_chunks:
            …
            chunk = take(words)
        command = finish(words, me)

Chunks go to whoever is free, so none may depend on who takes it, and nobody waits for a thread that has not come.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from tautcut.arrays import IntArray
from tautcut.kernels.cpu.compiling import compiled, is_available
from tautcut.kernels.cpu.sharing import Team

if is_available():
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

_APART = 8  # words of a cache line: each that several threads write has its own
_COUNTER, _COMMAND, _SIZE = 0, _APART, 2 * _APART  # of chunks taken; what to do; how many may work
NUMBERS = 3 * _APART  # whatever the pass is told besides, so many whole numbers at most:
_ROOM = 2 * _APART
_SLOTS = NUMBERS + _ROOM  # from here on, one for each who may work, main's own unused
_WAITING, _GONE, _JOINING = 0, -1, -2  # in a slot; a command is positive
# Looks at a word that others will change: with a pause in between, for which a core's other thread is thankful; then
# letting others have the core in between, as long as main is likely to be back soon; then, asleep in between, until one
# who waits for a command leaves.
_SPINS = 1000
_YIELDS = 300
_NAPS = 200
_NAP = 50  # microseconds
_X86: tuple[str, list[int]] = ("llvm.x86.sse2.pause", [])  # what tells a core that its thread is waiting
_ARM: tuple[str, list[int]] = ("llvm.aarch64.hint", [1])
_HINTS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}

# ---------------------------------------------------------------- words that several threads read and write


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The address of a word: the first two arguments are the array and the place in it."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [context.cast(builder, args[1], signature.args[1], types.intp)])


if is_available():

    @intrinsic
    def _peek(typing_context: Any, words: Any, place: Any) -> Any:
        """The word, and all that was written before it was."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load_atomic(_pointer(context, builder, signature, args), "acquire", 8)

        return types.int64(words, place), generate

    @intrinsic
    def _put(typing_context: Any, words: Any, place: Any, value: Any) -> Any:
        """Write the word, after all that was written before."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = context.cast(builder, args[2], signature.args[2], types.int64)
            builder.store_atomic(value, _pointer(context, builder, signature, args), "release", 8)
            return context.get_dummy_value()

        return types.void(words, place, value), generate

    @intrinsic
    def _exchange(typing_context: Any, words: Any, place: Any, old: Any, new: Any) -> Any:
        """Whether the word was `old`; then it is `new`."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [context.cast(builder, args[k], signature.args[k], types.int64) for k in (2, 3)]
            pointer = _pointer(context, builder, signature, args)
            return builder.extract_value(builder.cmpxchg(pointer, *values, "acq_rel", "acquire"), 1)

        return types.boolean(words, place, old, new), generate

    @intrinsic
    def _count(typing_context: Any, words: Any, place: Any) -> Any:
        """The word, which is then one more."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            one = ir.Constant(ir.IntType(64), 1)
            return builder.atomic_rmw("add", _pointer(context, builder, signature, args), one, "acq_rel")

        return types.int64(words, place), generate

    @intrinsic
    def _pause(typing_context: Any) -> Any:
        """Leave the core to its other thread for some dozens of cycles, where two share one."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            name, numbers = _HINTS.get(platform.machine().lower(), ("", []))
            if name:
                kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)] * len(numbers))
                hint = cgutils.get_or_insert_function(builder.module, kind, name)
                builder.call(hint, [ir.Constant(ir.IntType(32), number) for number in numbers])
            return context.get_dummy_value()

        return types.void(), generate

    @intrinsic
    def _yield_core(typing_context: Any) -> Any:
        """Let another thread run, if one waits for this core."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
            return context.get_dummy_value()

        return types.void(), generate

    @intrinsic
    def _nap(typing_context: Any) -> Any:
        """Sleep a moment: the system's shortest, on Windows."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            name, length = ("Sleep", 1) if sys.platform == "win32" else ("usleep", _NAP)
            kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            builder.call(function, [ir.Constant(ir.IntType(32), length)])
            return context.get_dummy_value()

        return types.void(), generate


# ---------------------------------------------------------------- what a pass calls


@compiled
def take(words: IntArray) -> int:
    """The number of a chunk that nobody has taken yet; past the last, one that is not there."""
    return int(_count(words, _COUNTER))


@compiled
def begin(words: IntArray, me: int) -> int:
    """What to do first: main (0) tells those who wait; the others wait to be told, or leave (0)."""
    if me == 0:
        command = int(words[_COMMAND])
        for other in range(1, words[_SIZE]):
            _exchange(words, _SLOTS + _APART * other, _WAITING, command)
        return command
    _put(words, _SLOTS + _APART * me, _WAITING)
    return int(_next_command(words, me))


@compiled
def finish(words: IntArray, me: int) -> int:
    """What to do next: main waits until nobody is at work, and is done (0); the others are told, or leave (0)."""
    if me > 0:
        _put(words, _SLOTS + _APART * me, _WAITING)
        return int(_next_command(words, me))
    for other in range(1, words[_SIZE]):
        look = 0
        while _peek(words, _SLOTS + _APART * other) > 0:
            _wait(look)
            look += 1
    return 0


@compiled
def _next_command(words: IntArray, me: int) -> int:
    slot = _SLOTS + _APART * me
    for look in range(_SPINS + _YIELDS + _NAPS):
        command = _peek(words, slot)
        if command > 0:
            return int(command)
        _wait(look)
    if _exchange(words, slot, _WAITING, _GONE):
        return 0
    return int(_peek(words, slot))  # told at the last moment


@compiled
def _wait(look: int) -> None:
    """Wait a little before the next look, after so many."""
    if look >= _SPINS + _YIELDS:
        _nap()
    elif look >= _SPINS:
        _yield_core()
    else:
        _pause()


# ---------------------------------------------------------------- who asks


class Crew:
    """Those who may work on one piece of work; its arrays stay the same from pass to pass."""

    def __init__(self, n_threads: int) -> None:
        self.words = np.zeros(_SLOTS + _APART * n_threads, np.int64)
        self.words[_SIZE] = n_threads
        self._n_threads, self._process = n_threads, 0

    @property
    def numbers(self) -> IntArray:
        """What the pass is told besides its command, at `words[NUMBERS + k]`."""
        return self.words[NUMBERS : NUMBERS + _ROOM]

    def run(self, command: int, work: Any, *arguments: Any, first: int = 0) -> None:
        """Run the pass of this command, from the first chunk on, with whoever of the crew is there; those who have left
        are called again.
        """
        if self._process != os.getpid():  # threads do not survive a fork
            self.words[_SLOTS:], self._process = _GONE, os.getpid()
        self.words[_COUNTER], self.words[_COMMAND] = first, command
        if self._n_threads > 1:
            self._call(work, arguments)
        work(0, self.words, *arguments)

    def _call(self, work: Any, arguments: tuple[Any, ...]) -> None:
        slots = self.words[_SLOTS + _APART :: _APART]
        gone = np.flatnonzero(slots == _GONE)
        if gone.size:
            slots[gone] = _JOINING
            team = _team(os.getpid())
            team.grow(self._n_threads - 1)
            for one in gone.tolist():
                team.hand_over(work, (one + 1, self.words, *arguments))


@lru_cache(maxsize=1)
def _team(process: int) -> Team:
    """The threads that crews of this process are made of: others than those that share single passes."""
    return Team()
