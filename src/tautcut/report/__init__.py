"""What a person looks at: figures of a partition, tables of records, the page of a run. This package owns matplotlib,
and its files appear whole or not at all. It computes no partition and times nothing.
"""

from __future__ import annotations

from tautcut.report.figures import check_picture_path, draw_clusters

__all__ = ["check_picture_path", "draw_clusters"]
