"""What a user's `random_state` stands for."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from tautcut.errors import InputError

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator; a number always gives the same one, a generator is used as it is."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be None, a whole number ≥ 0 or a generator; found {random_state!r}."
        ) from error
