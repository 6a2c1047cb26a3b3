"""The labels that a run over many ranks has left: a folder with a file for each part, and a manifest. `ShardedLabels`
reads it, and joins the parts where a machine has room for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautcut.algorithm.stopping import Status
from tautcut.arrays import Array, IntArray
from tautcut.errors import InputError
from tautcut.ranks.checkpoints import DONE, MANIFEST, read_manifest
from tautcut.writing import AnyPath

LABELS = "labels-{:05d}.parquet"


@dataclass(frozen=True, eq=False)
class ShardedLabels:
    """The labels of a sharded graph, a file for each part.

    Attributes
    ----------
    path : Path
        The folder.
    energy : float
        (P) of the partition.
    sizes : tuple of int
        The vertices in each cluster.
    status : Status
        Why the run stopped.
    n_iter : int
        Inner iterations of Algorithm 1.
    classes : tuple or None
        The names of the clusters, where labels were given.
    facts : mapping
        All that is known of the run: seconds of each stage, shares of the time on the wire and waiting, ...
    """

    path: Path
    facts: Mapping[str, Any]
    n_parts: int

    @classmethod
    def open(cls, path: AnyPath) -> ShardedLabels:
        """The labels in a folder; InputError where there are none, or not yet."""
        folder = Path(path)
        content = read_manifest(folder) if folder.is_dir() else None
        if content is None:
            raise InputError(f"'{folder}' holds no labels of a sharded graph: it has no {MANIFEST}.")
        done = [one for one in content["checkpoints"] if one.get("stage") == DONE]
        if not done:
            raise InputError(f"the run that writes to '{folder}' has not come to its end. Go on with --resume.")
        return cls(folder, done[0]["facts"], int(content["run"]["ranks"]))

    @property
    def energy(self) -> float:
        return float(self.facts["energy"])

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.facts["sizes"])

    @property
    def status(self) -> Status:
        return Status[self.facts["status"]]

    @property
    def n_iter(self) -> int:
        return int(self.facts["n_iter"])

    @property
    def classes(self) -> tuple[Any, ...] | None:
        names = self.facts["classes"]
        return None if names is None else tuple(names)

    def tables(self) -> Iterator[Any]:
        """The table of each part, by pyarrow: vertex, id where the graph has its own, label and confidence."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for number in range(self.n_parts):
            path = self.path / LABELS.format(number)
            try:
                yield pq.read_table(path)
            except FileNotFoundError as error:
                raise InputError(f"'{path}' is missing: not all labels of the run are here. Copy them all.") from error
            except pa.ArrowInvalid as error:
                raise InputError(f"'{path}' is damaged ({error}). Run again.") from error

    def joined(self) -> tuple[Array, Array, Array]:
        """Ids, labels and confidence of all vertices, in the order of the graph."""
        n = int(self.facts["n_vertices"])
        ids: Array | None = None
        labels: Array | None = None
        confidence, n_seen = np.full(n, np.nan), 0
        for table in self.tables():
            try:
                places: IntArray = table["vertex"].to_numpy()
                found = table["label"].to_numpy(zero_copy_only=False)
                if labels is None:
                    labels = np.empty(n, found.dtype)
                labels[places] = found
                confidence[places] = table["confidence"].to_numpy()
                if "id" in table.column_names:
                    own = table["id"].to_numpy(zero_copy_only=False)
                    ids = np.empty(n, own.dtype) if ids is None else ids
                    ids[places] = own
            except (KeyError, IndexError, ValueError) as error:
                raise InputError(f"the labels in '{self.path}' do not fit together ({error}). Run again.") from error
            n_seen += len(places)
        if n_seen != n or labels is None:
            raise InputError(f"'{self.path}' has labels of {n_seen:,} vertices, and the graph {n:,}. Run again.")
        return np.arange(n) if ids is None else ids, labels, confidence
