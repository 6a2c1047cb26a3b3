"""What the whole suite stands on, however it was started. One hypothesis profile: the same examples on every machine,
few enough to be quick; a machine with a GPU may not have hypothesis, and the tests that are meant for it do without.
And signals that are heard: a shell has what it runs in the background ignore them, and tests that interrupt would wait.
And a compiler that is not watched: coverage looks at every call inside Numba, which takes half as long again for it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

for _name, _handler in (
    ("SIGINT", signal.default_int_handler),
    ("SIGTERM", signal.SIG_DFL),
    ("SIGHUP", signal.SIG_DFL),
):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass
else:
    settings.register_profile(
        "tautcut",
        deadline=None,  # the first call of a kernel compiles it
        derandomize=True,
        max_examples=30,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("tautcut")

try:
    from numba.core import event
except ImportError:
    pass
else:

    class Unwatched(event.Listener, threading.local):  # type: ignore[misc]
        """Takes a thread's trace function away while it compiles, or links what was compiled before."""

        def __init__(self) -> None:
            self.taken: list[Any] = []  # compilations are nested

        def on_start(self, event: Any) -> None:
            self.taken.append(sys.gettrace())
            sys.settrace(None)

        def on_end(self, event: Any) -> None:
            sys.settrace(self.taken.pop())

    event.register("numba:compiler_lock", Unwatched())


@pytest.fixture(scope="module")
def light_search() -> Iterator[None]:
    """A default search of small graphs that looks less far, for modules that ask what is done with an answer, and not
    how good it is: `pytestmark = pytest.mark.usefixtures("light_search")`. Processes of their own search as ever.
    """
    from tautcut.search import plan, small

    effort = replace(plan.EFFORTS["short"], children=8, small_children=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(plan.EFFORTS, "short", effort)
        patch.setattr(small, "_STARTS", 3)
        yield
