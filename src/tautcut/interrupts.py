"""Ctrl-C that is heard at once. Python raises an interrupt on the main thread alone, and only between its own
instructions: a compiled loop makes it wait, and in the middle of a compiler or an import it can come out as any error.
So `apart` does such work on a thread of its own, while the main thread waits and listens. It knows no algorithm.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

Answer = TypeVar("Answer")

_GRACE = 0.3  # seconds that work which was asked to stop has to end by itself, with all that it knows
_LISTEN = 0.2  # seconds between looks, for systems where nothing but a timeout lets an interrupt through


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
        thread.start()
        while not answer.done():
            futures.wait([answer], timeout=_LISTEN)
    except KeyboardInterrupt:
        if ask_to_stop is None:
            raise
        ask_to_stop()
        if not futures.wait([answer], timeout=_GRACE).done:
            raise
    return answer.result()
