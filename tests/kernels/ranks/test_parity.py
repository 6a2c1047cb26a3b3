"""A rank of many against the float64 reference: the same F after 50 iterations, the same decisions on all ranks, and
duals that are opposite bit for bit at the two ends of an edge. The ranks are processes that torchrun starts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kernels.ranks.parity import CASES
from torchrun import torchrun

PROGRAM = str(Path(__file__).with_name("parity.py"))


@pytest.fixture(scope="module", params=[1, 2, 3, 4], ids=lambda n: f"{n} ranks")
def ran(request, tmp_path_factory):
    """The folder that so many ranks have filled."""
    folder = tmp_path_factory.mktemp("parity")
    done = torchrun(request.param, PROGRAM, str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, request.param


@pytest.fixture(params=list(CASES))
def figures(request, ran):
    folder, _ = ran
    return next(one for one in json.loads((folder / "figures.json").read_text()) if one["case"] == request.param)


def test_F_is_that_of_the_reference(figures):
    assert figures["F"] < 1e-9
    assert figures["labels"] == 0
    assert figures["lipschitz"] < 1e-12


def test_all_ranks_decide_alike(figures):
    iterations, tau, energy = figures["decisions"]
    assert iterations == [figures["iterations"]]
    assert len(tau) == len(energy) == 1


def test_ghosts_have_their_owners_bits(figures):
    assert figures["F_bar"] == 0.0


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_duals_are_opposite_bit_for_bit_between_ranks(ran, number):
    folder, n_ranks = ran
    files = [np.load(folder / f"{number}-{rank}.npz") for rank in range(n_ranks)]
    here, there, P = (np.concatenate([file[name] for file in files]) for name in ("here", "there", "P"))
    case = CASES[list(CASES)[number]]
    n_busy = n_ranks - case.leaves_one_empty
    assert (here.size > 0) == (n_busy > 1 and not case.is_apart)
    one_way, other_way = np.lexsort((there, here)), np.lexsort((here, there))
    assert np.array_equal(here[one_way], there[other_way])
    assert np.array_equal(P[one_way], -P[other_way])
