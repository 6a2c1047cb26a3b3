"""What the whole suite stands on, however it was started. One hypothesis profile: the same examples on every machine,
few enough to be quick; a machine with a GPU may not have hypothesis, and the tests that are meant for it do without.
And signals that are heard: a shell has what it runs in the background ignore them, and tests that interrupt would wait.
And a compiler that is not watched: coverage looks at every call inside Numba, which takes half as long again for it.
Files that take long begin first, so that no worker is left with one at the end; and coverage, under which Python takes
twice as long, does not watch those that ask once more, at length, of lines that the tests of a room run too, and of a
test with many parameters the first two cases alone.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
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


TESTS = Path(__file__).parent
# By CPU time, the longest first; the others, of less than ten seconds each, follow in their order.
LONGEST = (
    "labelling/test_page_in_browser.py", "search/test_small.py", "cli/test_commands.py", "docs/test_tutorials.py",
    "test_suggestion.py", "report/test_page_in_browser.py", "hostile/test_fuzz_estimators.py",
    "search/test_generations.py", "kernels/cpu/test_parity.py", "docs/test_examples.py",
    "kernels/cpu/test_compiling.py", "estimators/test_clustering.py", "baselines/test_ncc_tv.py",
    "search/test_links.py", "cli/test_label.py", "cli/test_masses.py", "search/test_driver.py", "search/test_layout.py",
    "search/test_clarity.py", "test_memory.py", "estimators/test_sklearn_checks.py", "hostile/test_fuzz_cli.py",
    "hostile/test_pages.py", "estimators/test_edges.py", "ranks/processes/test_runs.py",
    "ranks/processes/test_survival.py", "kernels/ranks/test_parity.py", "kernels/gpu/test_engine.py",
    "kernels/gpu/test_batch.py", "docs/test_many_machines.py", "kernels/gpu/test_fits.py",
)  # fmt: skip
# Theorems, examples and oracles: whole runs, whose every step has its own test in its room.
UNWATCHED = (
    "docs/test_examples.py", "docs/test_tutorials.py", "estimators/test_edges.py", "estimators/test_sklearn_checks.py",
    "search/test_small.py", "theory",
)  # fmt: skip
WATCHED_CASES = 2  # of a test with parameters,
ALL_WATCHED = ("formats", "graph", "ranks")  # but for rooms where every case is another line


def pytest_configure(config: pytest.Config) -> None:
    gone = [name for name in (*LONGEST, *UNWATCHED) if not (TESTS / name).exists()]
    if gone:
        raise pytest.UsageError(f"tests/conftest.py names files that are not there: {', '.join(gone)}. Mend its lists.")
    config.addinivalue_line("markers", "no_cover: coverage does not watch this test.")  # pytest-cov's, where it is


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {TESTS / name: rank for rank, name in enumerate(LONGEST)}
    unwatched = {TESTS / name for name in UNWATCHED}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    n_cases = Counter[str]()
    for item in items:
        test = item.nodeid.partition("[")[0]
        n_cases[test] += 1
        is_repeated = n_cases[test] > WATCHED_CASES and item.path.parent.name not in ALL_WATCHED
        if is_repeated or not unwatched.isdisjoint((item.path, *item.path.parents)):
            item.add_marker(pytest.mark.no_cover)


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
