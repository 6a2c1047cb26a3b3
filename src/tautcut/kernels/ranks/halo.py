"""The rows that a part of a graph needs from others, one exchange at a time: `Halo` knows what is sent where, and
nothing of what it means.
"""

from __future__ import annotations

import numpy as np
import torch

from tautcut.arrays import Array
from tautcut.graph.shard import Shard
from tautcut.kernels.ranks.world import Pending, World


class Halo:
    """The ghosts of one part, and who has them."""

    def __init__(self, shard: Shard, world: World) -> None:
        self.shard, self.world = shard, world

    def of(self, values: Array) -> Array:
        """The values of the ghosts, from those of the part's own vertices: numbers, or rows of them."""
        room = np.empty((self.shard.ghosts.size, *values.shape[1:]), values.dtype)
        outgoing = torch.from_numpy(values[np.asarray(self.shard.sent)])
        self.send(outgoing, torch.from_numpy(room)).wait()
        return room

    def send(self, outgoing: torch.Tensor, incoming: torch.Tensor) -> Pending:
        """Send rows, one for each entry of `Shard.sent`, and receive one for each ghost; `wait` for them."""
        return self.world.exchange(outgoing, self.shard.sent_ptr, incoming, self.shard.ghost_ptr)

    def extended(self, values: Array) -> Array:
        """The values of the part's own vertices, and then of its ghosts."""
        return np.concatenate([values, self.of(values)])
