"""Interrupts that are heard at once, and never in the middle of something. Python raises KeyboardInterrupt on the main
thread alone, between its own instructions: a compiled loop makes it wait, and in the middle of a compiler or an import
it can come out as any error. So `apart` does such work on a thread of its own, while the main thread waits and listens;
and a program that is `listening` gets no interrupt but there (decision 0037). A process that works for another ends
with it. This module knows no algorithm.
"""

from __future__ import annotations

import contextvars
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

Answer = TypeVar("Answer")

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP

_GRACE = 0.3  # seconds that work which was asked to stop has to end by itself, with all that it knows
_LISTEN = 0.05  # seconds between looks
_PATIENCE = 1.0  # seconds in which an interrupt has to be obeyed, before the process is left as it is
_WATCH = 0.5  # seconds between looks whether the parent is there


@dataclass
class _Heard:
    """What a listening program has heard; all of it is written by the thread that listens, or under the GIL."""

    leave: Callable[[int], None]
    is_writing: Callable[[], bool]
    first: int = 0  # the signal that came first; 0 before
    is_pending: bool = False  # it waits for a place where it can be obeyed
    is_answered: bool = False  # it was obeyed by work that keeps its best so far, which may take its time
    answers: list[Callable[[], None]] = field(default_factory=list)  # who is told at once


_heard: _Heard | None = None  # that of the one program that listens


# ---------------------------------------------------------------- work that can be left


def apart(work: Callable[[], Answer], ask_to_stop: Callable[[], None] | None = None) -> Answer:
    """work(), done on a thread of its own if this is the main thread; an interrupt does not wait for it.

    On an interrupt `ask_to_stop` is called, and work that ends soon is answered as if nothing had happened. If there is
    nobody to ask, or the work goes on, KeyboardInterrupt is raised here; what the thread still does is lost, and must
    do no harm.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # no interrupt is ever raised here
    answer: futures.Future[Answer] = futures.Future()

    def carry_out() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again, on the thread that waits
            answer.set_exception(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(carry_out,), name="tautcut", daemon=True)
    try:
        obey()
        thread.start()
        while not answer.done():
            futures.wait([answer], timeout=_LISTEN)
            obey()
    except KeyboardInterrupt:
        if ask_to_stop is None:
            raise
        if _heard is not None:
            _heard.is_answered = True
        ask_to_stop()
        if not futures.wait([answer], timeout=_GRACE).done:
            raise
    return answer.result()


def obey() -> None:
    """Raise KeyboardInterrupt if a signal waits to be obeyed; a listening program hears none elsewhere."""
    if _heard is not None and _heard.is_pending:
        _heard.is_pending = False
        raise KeyboardInterrupt


# ---------------------------------------------------------------- a program that listens


@contextmanager
def listening(leave: Callable[[int], None], is_writing: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """In here SIGINT, SIGTERM and SIGHUP raise nothing by themselves: `apart` and `obey` do.

    They are heard by a thread that only listens, whatever the main thread does. The second one, and the first if
    nobody obeys it for a second, ends the process by `leave(number of the first signal)`; but what `is_writing`, and a
    best so far that will be written, is waited for. Signals that the process was started to ignore stay ignored.
    """
    global _heard
    mouth, ear = socket.socketpair()
    mouth.setblocking(False)
    handled = [one for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, lambda *_: None) for one in handled}
    old_mouth = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    _heard = _Heard(leave, is_writing)
    threading.Thread(target=_listen, args=(ear, _heard), name="tautcut-listens", daemon=True).start()
    try:
        yield
    finally:
        _heard = None
        signal.set_wakeup_fd(old_mouth)
        for one, handler in before.items():
            signal.signal(one, handler)
        mouth.close()  # the thread ends


def first_signal() -> int:
    """The number of the signal that the listening program has heard first; 0 where none has come."""
    return 0 if _heard is None else _heard.first


@contextmanager
def answering(say: Callable[[], None]) -> Iterator[None]:
    """A signal in here is answered by say(), at once: obeying it takes a moment."""
    if _heard is None:
        yield
        return
    _heard.answers.append(say)
    try:
        yield
    finally:
        _heard.answers.remove(say)


@contextmanager
def heeding(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """A signal in here is obeyed by ask_to_stop(), at once: the work then ends by itself, and may take its time."""

    def ask() -> None:
        if _heard is not None:
            _heard.is_answered, _heard.is_pending = True, False
        ask_to_stop()

    with answering(ask):
        yield


def _listen(ear: socket.socket, heard: _Heard) -> None:
    """Hear signals until nobody sends any: one that comes while the other is awaited leaves at once."""
    with ear, suppress(OSError):
        number = _next_signal(ear)
        if not number:
            return
        heard.first = number
        heard.is_pending = True
        for say in list(heard.answers):
            say()
        limit = time.monotonic() + _PATIENCE
        while time.monotonic() < limit or heard.is_answered or heard.is_writing():
            ear.settimeout(_LISTEN)
            with suppress(TimeoutError):
                if not _next_signal(ear):
                    return
                break
        heard.leave(number)


def _next_signal(ear: socket.socket) -> int:
    """The number of the next signal that counts; 0 at the end."""
    while (byte := ear.recv(1)) and byte[0] not in SIGNALS:
        pass
    return byte[0] if byte else 0


# ---------------------------------------------------------------- a process that works for another


def end_with_parent(parent: int) -> None:
    """From here on this process ends, within a second, when its parent does, and leaves Ctrl-C to it.

    The terminal sends an interrupt to every process; that of the parent decides what becomes of this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outlive_never(parent)


def outlive_never(parent: int) -> None:
    """From here on this process ends, within a second, when its parent does."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    if sys.platform != "win32":  # where a process never learns that its parent has ended
        threading.Thread(target=watch, name="tautcut-watches", daemon=True).start()
