"""From one process to many: whether this one is a rank, and a run over the parts of a sharded graph from a process that
is none. Python's way in to what `tautcut cluster X.shards` does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from tautcut.errors import EngineUnavailableError, InputError, PeerFailedError, RankLostError
from tautcut.ranks.checkpoints import in_use, is_run_folder
from tautcut.ranks.files import ShardedGraph
from tautcut.ranks.results import ShardedLabels
from tautcut.search.plan import Plan
from tautcut.writing import AnyPath

TIMEOUT = 300.0  # seconds that a rank may leave the others without an answer
CHECKPOINT = 60.0  # seconds between checkpoints

SAID = 2  # the exit code of a rank that has said what is wrong: it would be wrong again
LOST = 75  # and of one that has lost another: the system's code for what may succeed when it is tried again


def is_rank() -> bool:
    """Whether this process was started as a rank of many, by torchrun or whoever sets the same variables."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_restarted() -> bool:
    """Whether the ranks were started again after one was lost: then they go on, whether asked to or not."""
    from tautcut.kernels.ranks.launching import ATTEMPT

    return any(int(os.environ.get(name, "0")) > 0 for name in ("TORCHELASTIC_RESTART_COUNT", ATTEMPT))


def is_silent() -> bool:
    """Whether this rank was started by a program that prints what was found itself, or does not."""
    from tautcut.kernels.ranks.launching import SILENT

    return os.environ.get(SILENT) == "1"


def require_torch() -> None:
    """Say what is missing where there is no torch.distributed."""
    try:
        import tautcut.kernels.ranks.world  # noqa: F401 - looked for, not used
    except ImportError as error:
        raise EngineUnavailableError(
            "a sharded graph needs torch: install it, e.g. by pip install 'tautcut[distributed]'."
        ) from error


def run_ranks(
    graph: ShardedGraph, words: Sequence[str], out: Path, n_ranks: int | None, *, is_silent: bool = False
) -> ShardedLabels:
    """Run the command of these words as one rank for each part, on this machine; the labels that it leaves."""
    if n_ranks is not None and n_ranks != graph.n_parts:
        raise InputError(
            f"--ranks is {n_ranks}, and '{graph.path}' has {graph.n_parts} parts. Leave it out, or shard the graph "
            f"again with --parts {n_ranks}."
        )
    from tautcut.kernels.ranks.launching import launch

    lost = launch(graph.n_parts, words, hopeless=SAID, is_silent=is_silent)
    if lost is not None:
        rank, code = lost
        if code == SAID:
            raise PeerFailedError(f"rank {rank} could not go on, and has said why.")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        raise RankLostError(f"rank {rank} {how}. The same command with --resume goes on from the last checkpoint.")
    return ShardedLabels.open(out)


def cluster_shards(
    shards: AnyPath | ShardedGraph,
    n_clusters: int,
    *,
    out: AnyPath,
    ranks: int | None = None,
    class_prior: ArrayLike | None = None,
    search: str = "short",
    device: str = "cpu",
    dtype: str = "float32",
    random_state: int = 0,
    resume: bool = False,
    timeout: float = TIMEOUT,
    checkpoint: float = CHECKPOINT,
) -> ShardedLabels:
    """Cluster the vertices of a sharded graph, by a process for each of its parts.

    Called in an ordinary process, it starts the processes on this machine. Called in each process of a script that
    torchrun has started, on however many machines, it is one of them.

    Parameters
    ----------
    shards : path or ShardedGraph
        What `tautcut shard` has made.
    n_clusters : int
        How many clusters there are to be.
    out : path
        The folder that the labels go to, and the checkpoints on the way: of all machines the same.
    ranks : int, optional
        How many processes there are to be: as many as the graph has parts.
    class_prior : array-like of shape (n_clusters,), optional
        The expected share of each cluster; 1 / n_clusters each by default.
    search : {"short", "thorough", "none"}
        How long to look for a start on the coarse graph.
    device : {"cpu", "cuda"}
        Where each process computes: "cuda" is a GPU each.
    dtype : {"float32", "float64", "mixed"}
        The precision of the iterations.
    random_state : int
        Draws the start.
    resume : bool
        Go on from the last checkpoint in `out`, if there is one.
    timeout : float
        Seconds that a process may leave the others without an answer.
    checkpoint : float
        Seconds between checkpoints.

    Returns
    -------
    ShardedLabels
        The labels, a file for each part, with their energy.
    """
    require_torch()
    graph = shards if isinstance(shards, ShardedGraph) else ShardedGraph.open(shards)
    folder = Path(out)
    if not is_rank():
        words = [
            "cluster", str(graph.path), "-k", str(n_clusters), "--out", str(folder), "--search", search, "--device",
            device, "--dtype", dtype, "--seed", str(random_state), "--timeout", str(timeout), "--checkpoint",
            str(checkpoint), "--quiet", *(["--resume"] if resume else []), *_prior_words(class_prior),
        ]  # fmt: skip
        if is_run_folder(folder) and not resume:
            raise InputError(in_use(folder, "Set resume=True to go on"))
        return run_ranks(graph, words, folder, ranks, is_silent=True)
    from tautcut.ranks.run import Asked, run_on_rank

    asked = Asked(
        n_clusters, Plan(search=search, device=device, dtype=dtype), random_state, class_prior,
        checkpoint_every=checkpoint,
    )  # fmt: skip
    run_on_rank(graph, asked, folder, resume=resume or is_restarted(), timeout=timeout)
    return ShardedLabels.open(folder)


def _prior_words(class_prior: Any) -> list[str]:
    return [] if class_prior is None else ["--class-prior", ",".join(repr(float(one)) for one in class_prior)]
