"""Several ranks on one machine: torchrun's agent, which starts a process for each and watches them; when one is lost,
all are started again. It owns how the agent is asked, and when that is worth trying; the ranks go on from a checkpoint.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tautcut.interrupts import SIGNALS
from tautcut.kernels.devices import thread_count

# Variables that tell ranks how often they were started before, and whether to print what they found.
ATTEMPT = "TAUTCUT_ATTEMPT"
SILENT = "TAUTCUT_SILENT"

_ATTEMPTS = 4
_LOOKS = 0.1  # seconds between looks whether all ranks are there
_GRACE = 30  # seconds that ranks which were interrupted have to write what they have

#: The rank that was lost, and its exit code: negative where it was a signal.
Loss = tuple[int, int]


def launch(n_ranks: int, words: Sequence[str], *, hopeless: int, is_silent: bool = False) -> Loss | None:
    """Run `tautcut` with these words as so many ranks, until all have ended; which was lost, if any was.

    Ranks that are lost are started again, a few times; not where one ended with the code `hopeless`: it would again.
    """
    # Without this the agent keeps the addresses of ranks itself, those of the dead too, and ranks that are started
    # again look for each other there: of five kills four were not recovered from. So rank 0 keeps them.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    os.environ.setdefault("NUMBA_NUM_THREADS", str(max(1, thread_count() // n_ranks)))
    os.environ.setdefault("OMP_NUM_THREADS", os.environ["NUMBA_NUM_THREADS"])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what it would say is said by us
    lost = None
    os.environ[SILENT] = str(int(is_silent))
    for attempt in range(_ATTEMPTS):
        os.environ[ATTEMPT] = str(attempt)
        lost = _attempted(n_ranks, words)
        if lost is None or lost[1] == hopeless:
            break
    del os.environ[ATTEMPT], os.environ[SILENT]
    return lost


def _attempted(n_ranks: int, words: Sequence[str]) -> Loss | None:
    # The agent unpickles what it finds in its store: so that is a private file, and not a port that others reach.
    with _handlers_kept(), tempfile.TemporaryDirectory() as private:
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=n_ranks, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
            rdzv_endpoint=os.path.join(private, "store"), rdzv_configs={"store_type": "file"}, local_addr="localhost",
            max_restarts=0, monitor_interval=_LOOKS,
        )  # fmt: skip
        if hasattr(config, "shutdown_timeout"):  # older versions of torch have their own
            config.shutdown_timeout = _GRACE
        try:
            elastic_launch(config, sys.executable)("-P", "-m", "tautcut", *words)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            return int(rank), int(failure.exitcode)
        except SignalException as interrupt:
            raise KeyboardInterrupt from interrupt
    return None


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """The agent has its own way with signals, and leaves it behind."""
    before = {one: signal.getsignal(one) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
