"""The evidence that runs leave: one `RunRecord`, one line of JSON, for each run. `records` owns the records and what
they say of machine and versions, `runs` makes one timed run. This package changes no result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tautcut.records.records import PACKAGES, RunRecord, append_record, circumstances, plain_setting, read_records

if TYPE_CHECKING:
    from tautcut.records.runs import draw_labels, run_estimator

__all__ = [
    "PACKAGES",
    "RunRecord",
    "append_record",
    "circumstances",
    "draw_labels",
    "plain_setting",
    "read_records",
    "run_estimator",
]


def __getattr__(name: str) -> Any:
    """The rest, on first use: records can be written where scikit-learn is not installed."""
    if name not in __all__:
        raise AttributeError(f"module 'tautcut.records' has no attribute {name!r}")
    from tautcut.records import runs

    return getattr(runs, name)
