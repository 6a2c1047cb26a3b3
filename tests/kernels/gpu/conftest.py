"""Triton's interpreter without what it need not do twice. It prepares the whole language at each call of a function:
here once in a launch for the functions of a module. And coverage looks at every call inside it, which takes twice as
long for it: here it watches the first launches of a program with the same constants, which decide what of it is run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

WATCHED = 2  # launches


@pytest.fixture(scope="session", autouse=True)
def brisk_interpreter() -> Iterator[None]:
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    launch, launches = interpreter.GridExecutor.__call__, Counter[Any]()
    call, prepared = interpreter.InterpretedFunction.__call__, set[int]()

    def launch_watched_at_first(self: Any, *arguments: Any, **options: Any) -> None:
        given = dict(zip(self.arg_names, arguments, strict=False)) | options
        kind = self.fn, *(str(given.get(name)) for name in self.constexprs)
        launches[kind] += 1
        prepared.clear()
        watcher = sys.gettrace()
        if launches[kind] > WATCHED:
            sys.settrace(None)
        try:
            launch(self, *arguments, **options)
        finally:
            sys.settrace(watcher)

    def call_prepared(self: Any, *arguments: Any, **options: Any) -> Any:
        module = id(self.fn.__globals__)
        if module in prepared:
            return self.rewrite()(*arguments, **options)
        prepared.add(module)
        return call(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.GridExecutor, "__call__", launch_watched_at_first)
        patch.setattr(interpreter.InterpretedFunction, "__call__", call_prepared)
        yield
