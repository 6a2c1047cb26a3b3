"""Work that is begun before it is asked for: its answer, or its error, comes where it is asked for, and once."""

from __future__ import annotations

import pytest

from tautcut.search.threads import meanwhile


@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_what_is_done_meanwhile_is_done_once(n_threads, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", n_threads)
    calls = []
    answer = meanwhile(lambda: calls.append(1) or "done")
    assert [answer(), answer()] == ["done", "done"]
    assert calls == [1]


@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_its_error_is_raised_where_it_is_asked_for(n_threads, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", n_threads)
    answer = meanwhile(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        answer()
