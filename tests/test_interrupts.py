"""Work apart from the main thread: its answer, its errors, and an interrupt that does not wait for it."""

from __future__ import annotations

import contextvars
import signal
import threading

import pytest

from tautcut.interrupts import apart


def interrupt_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_the_answer_comes_from_another_thread():
    assert apart(threading.current_thread) is not threading.main_thread()


def test_off_the_main_thread_nothing_is_moved():
    found = []

    def work() -> None:
        found.append(apart(threading.current_thread) is threading.current_thread())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_errors_come_back_as_they_are(error):
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        apart(fail)
    assert raised.value is error


def test_the_context_comes_along():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    assert apart(variable.get) == 7


def test_an_interrupt_does_not_wait_for_the_work():
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        interrupt_main_thread()
        release.wait(60)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        apart(work)
    assert not ended.is_set()
    release.set()


def test_work_that_can_be_asked_to_stop_answers_all_the_same():
    stop = threading.Event()

    def work() -> str:
        interrupt_main_thread()
        stop.wait(60)
        return "what there is"

    assert apart(work, stop.set) == "what there is"


def test_work_that_does_not_listen_is_left_behind():
    release, asked = threading.Event(), threading.Event()

    def work() -> None:
        interrupt_main_thread()
        release.wait(60)

    with pytest.raises(KeyboardInterrupt):
        apart(work, asked.set)
    assert asked.is_set()
    release.set()
