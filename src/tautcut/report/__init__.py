"""What a person looks at: the page of a run, and pictures of its clusters. `content` and `columns` measure and choose
what the page shows, `layout` draws its map, `page` writes it, `figures` draws pictures with matplotlib, and `summary`
is a fitted model in a notebook. Files appear whole or not at all. This package changes no partition.
"""

from __future__ import annotations

from tautcut.report.figures import check_picture_path, draw_clusters

__all__ = ["check_picture_path", "draw_clusters"]
