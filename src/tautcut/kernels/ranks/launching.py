"""Several ranks on one machine: torchrun's agent, which starts a process for each, and starts all of them again when
one is lost. It owns how the agent is asked, and how its complaints become a sentence.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tautcut.kernels.devices import thread_count

_RESTARTS = 3
_LOOKS = 0.1  # seconds between looks whether all ranks are there
_GRACE = 60  # seconds that ranks which were interrupted have to write what they have

#: The rank that was lost, and its exit code: negative where it was a signal.
Loss = tuple[int, int]


def launch(n_ranks: int, words: Sequence[str]) -> Loss | None:
    """Run `tautcut` with these words as so many ranks, until all have ended; which was lost, if any was."""
    # The agent keeps the ranks' addresses itself by default, and after a rank is killed those of the dead are still in
    # it: of five kills four were not recovered from. With this, rank 0 keeps them, and a new start begins with none.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    os.environ.setdefault("NUMBA_NUM_THREADS", str(max(1, thread_count() // n_ranks)))
    os.environ.setdefault("OMP_NUM_THREADS", os.environ["NUMBA_NUM_THREADS"])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what it would say is said by us
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=n_ranks, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", local_addr="localhost", max_restarts=_RESTARTS, monitor_interval=_LOOKS,
    )  # fmt: skip
    if hasattr(config, "shutdown_timeout"):  # since torch 2.10
        config.shutdown_timeout = _GRACE
    try:
        elastic_launch(config, sys.executable)("-m", "tautcut", *words)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        return int(rank), int(failure.exitcode)
    except SignalException as interrupt:
        raise KeyboardInterrupt from interrupt
    return None
