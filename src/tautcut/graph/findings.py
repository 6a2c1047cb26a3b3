"""What can be said of a graph: a `Finding` is one thing measured on it, in words, and a `Diagnosis` is all of them.
This module owns how they are told; `diagnostics` measures them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["info", "warning"]
Origin = Literal["features", "graph"]


@dataclass(frozen=True)
class Finding:
    """One thing measured on a graph.

    Attributes
    ----------
    name : str
    value : dict of str to number
        What was measured; shares lie in [0, 1].
    severity : {"info", "warning"}
        A warning says that a run on this graph is likely to disappoint.
    meaning : str
        What it means for clustering, as a sentence.
    advice : str
        What to do, as a sentence; empty where there is nothing to do.
    """

    name: str
    value: dict[str, float | int]
    severity: Severity
    meaning: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.meaning} {self.advice}".rstrip()


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; `str(diagnosis)` is readable text."""

    n_vertices: int
    n_edges: int
    n_clusters: int | None
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings to show before a run that will disappoint."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, numbers and strings."""
        return {**asdict(self), "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        asked = "" if self.n_clusters is None else f", asked for {self.n_clusters} clusters"
        head = f"{self.n_vertices:,} vertices and {self.n_edges:,} edges{asked}"
        marks = {"info": "  ", "warning": "! "}
        return "\n".join([head, *(marks[finding.severity] + str(finding) for finding in self.findings)])


def possible(origin: Origin | None, always: str, for_features: str) -> str:
    """Advice on what can be changed: how features are made into a graph only where there are, or may be, features."""
    return f"{always}." if origin == "graph" else f"{always}{for_features}."


def percent(share: float) -> str:
    """A share in words: 7 %, 0.3 %."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
