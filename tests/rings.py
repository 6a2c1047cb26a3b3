"""The paper's experiments in small: three rings in place of its data sets, and records as runs might leave them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tautcut.datasets import LabelledGraph
from tautcut.graph import Graph
from tautcut.paper import protocol
from tautcut.paper.protocol import RunSpec
from tautcut.records import RunRecord

N_CLASSES, CLASS_SIZE = 3, 30
SPECS = [RunSpec("table1", "rings", "MTV", "b", trial, 10) for trial in range(8)]


def three_rings() -> LabelledGraph:
    """Three rings of 30 vertices with many chords, and two edges from ring to ring."""
    i = np.arange(N_CLASSES * CLASS_SIZE)
    first = i // CLASS_SIZE * CLASS_SIZE
    inner = [(i, first + (i + step) % CLASS_SIZE) for step in (1, 3, 7, 10, 12)]
    ends = np.arange(N_CLASSES) * CLASS_SIZE
    outer = [(ends + step, (ends + CLASS_SIZE + step) % i.size) for step in (0, 7)]
    edges = np.hstack([*inner, *outer]).T
    return LabelledGraph("rings", Graph.from_edges(edges), i // CLASS_SIZE, "Three rings & a note of 100 % truth.")


def rings_in_place_of_the_papers(monkeypatch: pytest.MonkeyPatch) -> Iterator[LabelledGraph]:
    """The body of a fixture: while it lasts, the rings are the only data set that the protocol knows."""
    rings = three_rings()
    cached = (protocol.labelled_graph, protocol._start_makers, protocol._lsd_scale)
    monkeypatch.setattr(protocol, "PAPER_NAMES", ("rings",))
    monkeypatch.setattr(protocol, "paper_graph", {"rings": rings}.__getitem__)
    for one in cached:
        one.cache_clear()
    yield rings
    for one in cached:
        one.cache_clear()


def recorded(spec: RunSpec, **values: Any) -> RunRecord:
    """What a run of this spec might have left."""
    return RunRecord(
        **{
            "data": spec.data, "method": spec.method, "seed": spec.seed, "n_labelled": 0, "energy": 0.5, "purity": 0.9,
            "seconds": 1.0, "sizes": (40, 50), "n_iter": 7, "status": "Done.", "versions": {"tautcut": "1"},
            "commit": "c" * 40, "machine": {"cpus": 2, "platform": "Linux"}, "created": "2026-01-01T00:00:00+00:00",
            "measures": {"accuracy_unlabelled": 0.8},
            "settings": {
                "spec": {name: getattr(spec, name) for name in RunSpec.__dataclass_fields__},
                "graph": {"n_vertices": 90, "n_edges": 1234, "note": "A note, 5 % & more_or_less."},
            },
            **values,
        }
    )  # fmt: skip
