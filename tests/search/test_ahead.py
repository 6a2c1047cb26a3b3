"""Kernels compiled ahead: they are those that a search calls, and a search needs none of it."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from strategies import planted_graph
from tautcut.kernels.cpu import annealing, children, compiling, passes, pockets, tabu
from tautcut.problem import Problem
from tautcut.search import ahead, partitioners
from tautcut.search.driver import best_of_starts
from tautcut.search.plan import Plan, Task

WORDS = ("3", "float32", "1", "1")
TASK = Task(Problem(planted_graph(3, 40, seed=0), 3), Plan())


def kinds_compiled():
    """For how many kinds of arguments each of the largest kernels is there."""
    kernels = (
        annealing._anneal, tabu._walk_on_a_short_border, children._best_child, pockets.pocket_partition,
        passes.passes_for(3, True, False, "float32").work,
    )  # fmt: skip
    return [len(kernel.signatures) for kernel in kernels]


def test_a_search_calls_what_was_compiled_ahead_and_compiles_none_of_it_again():
    for part in ("cycles", "annealing", "engine", "labels"):
        ahead._compile(part, WORDS)
    before = kinds_compiled()
    assert min(before) > 0
    best_of_starts(TASK.problem, TASK.plan, rng=np.random.default_rng(0))
    assert kinds_compiled() == before


@pytest.mark.parametrize("words", [("5", "float64", "0", "0"), ("400", "float32", "1", "1")])
def test_any_search_is_compiled_for(words):
    for part in ("annealing", "engine"):
        ahead._compile(part, words)
    assert tabu._walk_on_a_long_border.signatures or words[2] == "1"


@pytest.fixture
def first(monkeypatch):
    """What a first search asks of other processes, of which there are none; and what it compiles itself."""
    begun: list[str] = []
    monkeypatch.setattr(compiling, "is_first_here", lambda name: True)
    monkeypatch.setattr(ahead, "_helper", lambda parts, words: begun.append(parts))
    monkeypatch.setattr(ahead, "_compile", lambda part, words: begun.append(part))
    return begun


def test_each_part_is_compiled_once(first):
    ahead.compile_side_by_side(TASK)
    assert sorted(first) == ["annealing", "cycles", "engine,labels"]


@pytest.mark.parametrize("plan", [Plan(search="none"), Plan(device="reference")], ids=["no search", "reference"])
def test_what_calls_no_such_kernels_has_none_compiled(first, plan):
    ahead.compile_side_by_side(Task(TASK.problem, plan))
    assert not first


def test_without_a_partitioner_a_search_goes_on_as_it_can(first, monkeypatch):
    monkeypatch.setattr(partitioners, "is_available", lambda: False)
    ahead.compile_side_by_side(TASK)
    assert not first


def test_a_second_search_finds_them_there(first, monkeypatch):
    monkeypatch.setattr(compiling, "is_first_here", lambda name: False)
    ahead.compile_side_by_side(TASK)
    assert not first


def test_another_process_compiles_and_is_waited_for():
    helper = ahead._helper("annealing", list(WORDS))
    assert helper.stdout.read() == b""
    helper.stdout.close()
    assert helper.wait() == 0


def test_where_no_process_can_be_started_there_is_none(monkeypatch):
    monkeypatch.setattr(sys, "executable", os.devnull)
    assert ahead._helper("annealing", list(WORDS)) is None
