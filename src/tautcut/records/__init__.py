"""Experiments and the evidence they leave: one `RunRecord`, one line of JSON, for each run. `records` owns the records,
`runs` one timed run, `protocol` the paper's lists of runs, `campaign` their execution, `published` what the paper
reports, `figures` the numbers of its figures. This package is the only place that times anything; it changes no result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tautcut.records.records import PACKAGES, RunRecord, append_record, circumstances, read_records

if TYPE_CHECKING:
    from tautcut.records.runs import Model, draw_labels, run_classification, run_clustering

__all__ = [
    "PACKAGES",
    "Model",
    "RunRecord",
    "append_record",
    "circumstances",
    "draw_labels",
    "read_records",
    "run_classification",
    "run_clustering",
]


def __getattr__(name: str) -> Any:
    """The rest, on first use: records can be written where scikit-learn is not installed."""
    if name not in __all__:
        raise AttributeError(f"module 'tautcut.records' has no attribute {name!r}")
    from tautcut.records import runs

    return getattr(runs, name)
