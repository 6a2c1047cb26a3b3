"""Work apart from the main thread: its answer, its errors, and an interrupt that does not wait for it."""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
import threading

import pytest

from tautcut.interrupts import SIGNALS, answering, apart, first_signal, listening, obey


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


# ---------------------------------------------------------------- a program that listens


class Leaver:
    """Stands for the end of the process."""

    def __init__(self) -> None:
        self.number, self.left = 0, threading.Event()

    def __call__(self, number: int) -> None:
        self.number = number
        self.left.set()


def send(number: int) -> None:
    signal.pthread_kill(threading.main_thread().ident, number)


def await_signal() -> None:
    while not first_signal():
        pass


@pytest.fixture
def leaver():
    return Leaver()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_listening_program_is_interrupted_only_where_it_can_be(leaver, number):
    with listening(leaver):
        send(number)
        await_signal()  # and nothing is raised
        assert first_signal() == number
        with pytest.raises(KeyboardInterrupt):
            obey()
        obey()  # once
    assert first_signal() == 0


def test_work_apart_obeys(leaver):
    release = threading.Event()
    with listening(leaver):
        with pytest.raises(KeyboardInterrupt):
            apart(lambda: (send(signal.SIGTERM), release.wait(60)))
        release.set()
    assert not leaver.number


def test_the_second_signal_leaves_at_once(leaver):
    with listening(leaver, is_writing=lambda: True):
        send(signal.SIGTERM)
        await_signal()
        send(signal.SIGINT)
        assert leaver.left.wait(60)
    assert leaver.number == signal.SIGTERM


def test_a_signal_that_nobody_obeys_ends_the_program(leaver, monkeypatch):
    monkeypatch.setattr("tautcut.interrupts._PATIENCE", 0.01)
    with listening(leaver):
        send(signal.SIGINT)
        assert leaver.left.wait(60)


def test_what_is_being_written_is_waited_for(leaver, monkeypatch):
    monkeypatch.setattr("tautcut.interrupts._PATIENCE", 0.0)
    looks = []

    def is_writing() -> bool:
        looks.append(leaver.left.is_set())
        return len(looks) < 4

    with listening(leaver, is_writing):
        send(signal.SIGINT)
        assert leaver.left.wait(60)
    assert looks == [False] * 4


def test_a_best_so_far_is_waited_for(leaver, monkeypatch):
    monkeypatch.setattr("tautcut.interrupts._PATIENCE", 0.3)
    stop = threading.Event()
    with listening(leaver):
        assert apart(lambda: (send(signal.SIGINT), stop.wait(60)), stop.set) == (None, True)
        assert not leaver.left.wait(0.4)


def test_a_signal_is_answered_at_once(leaver):
    said = threading.Event()
    with listening(leaver):
        with answering(said.set):
            send(signal.SIGINT)
            assert said.wait(60)
        assert not leaver.number


def test_a_signal_that_is_ignored_stays_so(leaver):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening(leaver):
            send(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_afterwards_signals_are_as_they_were(leaver):
    before = [signal.getsignal(one) for one in SIGNALS]
    with listening(leaver):
        pass
    assert [signal.getsignal(one) for one in SIGNALS] == before
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes between two instructions
        send(signal.SIGINT)
        threading.Event().wait(60)


ORPHAN = """
import os, sys, time
from tautcut.interrupts import end_with_parent
child = os.fork()
if child == 0:
    end_with_parent(os.getppid())
    print(os.getpid(), flush=True)
    time.sleep(60)
    print("outlived", flush=True)
os.read(0, 1)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_ends_with_its_parent():
    process = subprocess.Popen([sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline()
    said, _ = process.communicate("x")  # the parent ends; the pipe is closed when the child has, too
    assert said == ""
