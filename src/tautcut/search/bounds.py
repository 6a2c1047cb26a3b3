"""How small a cluster may be where the user has not said: a quarter of its expected size, and less where clusters that
are smaller stand so much apart that partitions with them cost less than half. Nothing here looks at true labels.
"""

from __future__ import annotations

from dataclasses import replace

from tautcut.kernels import devices
from tautcut.search.cycles import VCycles, can_run
from tautcut.search.pieces import packed_pieces
from tautcut.search.plan import Task

_CHILDREN = 10  # of each partition that a glance compares
_WORTH = 0.5  # of (P) with the usual bounds: partitions with smaller clusters have to cost less (decision 0072)


def with_bounds(task: Task) -> Task:
    """The task, with lower bounds on its clusters where small ones stand apart.

    It is asked of the graph alone, before the search draws anything: all seeds have the same bounds.
    """
    lower = replace(task, keeps_small=True)
    if not _is_open(task) or not (lower.smallest < task.smallest).any():
        return task
    if packed_pieces(task.problem, task.smallest) is not None:
        return task
    if packed_pieces(task.problem, lower.smallest) is not None:
        return lower
    if not _can_glance(task):
        return task
    free = _cycles(lower).glance()
    if (free.masses >= task.smallest).all():
        return task
    return lower if free.energy < _WORTH * _cycles(task).glance().energy else task


def _is_open(task: Task) -> bool:
    """Whether a search without labels makes starts of its own, by whatever name, and nobody said how small."""
    plan = task.plan
    is_own = isinstance(plan.init, str) and plan.init in ("auto", "multilevel") and plan.algorithm == "fast"
    return is_own and task.effort.start_factor > 0 and task.problem.numerator == "tv" and plan.min_cluster_size is None


def _can_glance(task: Task) -> bool:
    """Whether V-cycles run here: where a GPU searches, on small graphs alone."""
    return can_run() and (task.is_small or not devices.runs_on_gpu(task.problem, task.plan.device))


def _cycles(task: Task) -> VCycles:
    return VCycles(task.levels, task.smallest, _CHILDREN)
