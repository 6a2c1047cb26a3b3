"""What a finished `cluster` or `classify` leaves: a file of labels, a report, and a table or a JSON object on standard
output. It computes nothing but the confidence of each label.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tautcut.cli import shell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tautcut.algorithm.results import Result
    from tautcut.estimators import MTVClassifier, MTVClustering
    from tautcut.formats import Data, Labelling
    from tautcut.graph.diagnostics import Diagnosis


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished run: what went in, and what came out."""

    about: dict[str, Any]
    file: Path
    data: Data
    images: NDArray[Any] | None
    diagnosis: Diagnosis
    result: Result
    classes: list[Any]

    @cached_property
    def labelling(self) -> Labelling:
        """A label for each vertex, with its confidence."""
        import numpy as np

        from tautcut.formats import Labelling, about_run
        from tautcut.graph.diagnostics import confidence

        names, result = np.array(self.classes), self.result
        about = about_run(
            params=self._settings, energy=result.partition.energy, relaxed_energy=result.relaxed_energy,
            status=result.status, n_iter=result.n_iter, seed=self.about["seed"],
        )  # fmt: skip
        certainty = confidence(result.problem.graph, result.partition.labels, names.size)
        return Labelling(self.data.ids, names[result.partition.labels], certainty, result.memberships, names, about)

    def write_labels(self, path: Path) -> None:
        """Write the labels to a file, or into a copy of the input."""
        from tautcut import formats

        formats.write_labels(path, self.labelling, source=self.file)

    def write_report(self, path: Path) -> None:
        """Write the page to look at."""
        from tautcut.report.page import write_page

        features = None if self.data.kind == "graph" else self.data.content
        write_page(
            path, self.result, ids=self.data.ids, features=features, feature_names=self.data.names, images=self.images,
            diagnosis=self.diagnosis, settings=self._settings, names=self.classes,
        )  # fmt: skip

    @property
    def _settings(self) -> dict[str, Any]:
        """What to repeat the run with."""
        return {"command": self.about["command"], "file": self.file.name, "seed": self.about["seed"]} | {
            name: value for name, value in self.about["settings"].items() if value is not None
        }

    def print_json(self, out: Path, report: Path | None) -> None:
        """One object on standard output."""
        clusters = [
            {"label": name, "size": size, "term": term, "confidence": sure}
            for name, size, term, sure in self._clusters()
        ]
        print_json(
            self.about | {
                "n_clusters": len(self.classes),
                "energy": self.result.partition.energy,
                "relaxed_energy": self.result.relaxed_energy,
                "status": str(self.result.status),
                "n_iter": self.result.n_iter,
                "clusters": clusters,
                "diagnosis": self.diagnosis.to_dict(),
                "out": str(out),
                "report": None if report is None else str(report),
            }
        )  # fmt: skip

    def print_table(self, out: Path, report: Path | None) -> None:
        """A line for each cluster, the energy, and where the files are."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        what = "class" if self.about["command"] == "classify" else "cluster"
        table = Table(what, "size", "term of (P)", "confidence", box=box.SIMPLE_HEAD)
        for column in table.columns[1:]:
            column.justify = "right"
        for name, size, term, sure in self._clusters():
            table.add_row(Text(shell.printable(str(name))), str(size), f"{term:.4g}", f"{sure:.2f}")
        Console().print(table)
        typer.echo(f"Energy (P): {self.result.partition.energy:.6g}. {self.result.status}")
        typer.echo(f"Labels: {out}" + ("" if report is None else f"\nReport: {report}"))

    def _clusters(self) -> Iterator[tuple[Any, int, float, float]]:
        """Name, size, term of the energy and mean confidence of each cluster."""
        import numpy as np

        found = self.result.partition
        means = np.bincount(found.labels, self.labelling.confidence, len(self.classes)) / np.maximum(found.sizes, 1)
        return zip(self.classes, found.sizes.tolist(), found.terms.tolist(), means.tolist(), strict=True)


def result_of(
    model: MTVClustering | MTVClassifier, codes: NDArray[Any], n_clusters: int, known: NDArray[Any] | None
) -> Result:
    """What an estimator found, as the solver's record."""
    from tautcut.algorithm.results import Result
    from tautcut.problem import Problem, lam_of_prior

    problem = Problem(model.graph_, n_clusters, lam_of_prior(model.class_prior, n_clusters), known)
    found = problem.partition(codes)
    return Result(
        problem, found, model.memberships_, model.relaxed_energy_, model.status_, model.history_, model.memberships_
    )


def print_json(content: dict[str, Any]) -> None:
    """One object on standard output, without infinities."""
    typer.echo(json.dumps(shell.plain(content), indent=2, allow_nan=False))
