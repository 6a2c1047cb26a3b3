"""Real processes for tests: programs started by torchrun, as many ranks as wanted, over gloo on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def environment() -> dict[str, str]:
    """The variables of a rank: one thread each, and the package that is tested."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent / "src")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def torchrun(n_ranks: int, *words: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a module or a script as so many ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_ranks), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(), check=False)
