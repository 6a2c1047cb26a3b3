"""What a finished `cluster` or `classify` leaves: a file of labels, a report, and a table or a JSON object on standard
output. Everything is the fitted model's; nothing is computed here but means over clusters.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tautcut.cli import shell
from tautcut.interrupts import apart, obey

if TYPE_CHECKING:
    from tautcut.algorithm.results import Result
    from tautcut.arrays import Array
    from tautcut.estimators import MTVClassifier, MTVClustering
    from tautcut.formats import Data
    from tautcut.graph.findings import Diagnosis
    from tautcut.search.disagreement import Disagreement


# What the table of clusters shows: the heads of its columns, and how their numbers are written.
_SHOWN = {
    "size": ("size", "{}"), "mass": ("mass", "{:.6g}"), "term": ("term of (P)", "{:.4g}"),
    "confidence": ("confidence", "{:.2f}"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A fitted model, what it was fitted on, and what its user is told `about` the run."""

    model: MTVClustering | MTVClassifier
    about: dict[str, Any]
    file: Path
    data: Data
    images: Array | None
    diagnosis: Diagnosis

    @property
    def result(self) -> Result:
        return self.model.result_

    @cached_property
    def names(self) -> Array:
        """What the clusters are called: their numbers, or the classes."""
        import numpy as np

        return np.asarray(getattr(self.model, "classes_", np.arange(self.result.problem.n_clusters)))

    def leave(self, out: Path, report: Path | None, written: list[Path], *, as_json: bool) -> None:
        """Write labels and report, and print what was found; after Ctrl-C say so and exit as interrupted."""
        from tautcut.algorithm.stopping import Status

        with shell.acknowledged():
            self.write_labels(out)
        written.append(out)
        is_cut_short = self.result.status is Status.INTERRUPTED
        if not is_cut_short:
            obey()
        if report is not None and not is_cut_short:
            apart(lambda: self.write_report(report))
            written.append(report)
        (self.print_json if as_json else self.print_table)(out, report if report in written else None)
        if is_cut_short:
            without = "" if report is None else "; the report was left out"
            shell.say(f"tautcut: interrupted; the best partition so far is in {out}{without}.")
            raise typer.Exit(shell.INTERRUPTED)

    def write_report(self, path: Path) -> None:
        """Write the page to look at."""
        self.model.report(
            path, ids=self.data.ids, features=None if self.data.kind == "graph" else self.data.content,
            feature_names=self.data.names, images=self.images, columns=self.data.others(), diagnosis=self.diagnosis,
            settings=self._settings,
        )  # fmt: skip

    def write_labels(self, path: Path) -> None:
        """Write the labels to a file, or into a copy of the input."""
        from tautcut import formats

        result = self.result
        about = formats.about_run(
            params=self._settings, energy=result.partition.energy, relaxed_energy=result.relaxed_energy,
            status=result.outcome, n_iter=result.n_iter, seed=self.about["seed"],
            masses=result.partition.masses if result.problem.graph.has_masses else None,
        )  # fmt: skip
        labels = self.names[result.partition.labels]
        quality = getattr(self.model, "label_quality_", None)
        found = formats.Labelling(self.data.ids, labels, result.confidence, self.names, about, quality)
        formats.write_labels(path, found.over(self.data), source=self.file)

    @property
    def _settings(self) -> dict[str, Any]:
        """What to repeat the run with."""
        return {"command": self.about["command"], "file": self.file.name, "seed": self.about["seed"]} | {
            name: value for name, value in self.about["settings"].items() if value is not None
        }

    def print_json(self, out: Path, report: Path | None) -> None:
        """One object on standard output."""
        shell.print_json(
            self.about | {
                "n_clusters": self.names.size,
                "energy": self.result.partition.energy,
                "relaxed_energy": self.result.relaxed_energy,
                "status": str(self.result.status),
                "agreement": None if self.result.agreement is None else asdict(self.result.agreement),
                "n_iter": self.result.n_iter,
                "clusters": self._clusters(),
                "strain": self.model.strain_.to_dict(),
                **({} if self._disagreement is None else {"disagreement": self._disagreement.to_dict(self.data.ids)}),
                "diagnosis": self.diagnosis.to_dict(),
                "out": str(out),
                "report": None if report is None else str(report),
            }
        )  # fmt: skip

    def print_table(self, out: Path, report: Path | None) -> None:
        """A line for each cluster, the energy, and where the files are."""
        from rich import box
        from rich.text import Text

        what = "class" if self.result.problem.has_labels else "cluster"
        clusters = self._clusters()
        shown = {name: one for name, one in _SHOWN.items() if name in clusters[0]}
        rows = (
            (Text(shell.printable(str(one["label"]))), *(form.format(one[name]) for name, (_, form) in shown.items()))
            for one in clusters
        )
        shell.print_table((what, *(head for head, _ in shown.values())), rows, box=box.SIMPLE_HEAD)
        if "suggestion" in self.about:
            shell.show(f"{self.names.size} clusters were suggested: {self.about['suggestion']['reason']}")
        shell.show(f"Energy (P): {self.result.partition.energy:.6g}. {self.result.outcome}")
        disagreement = None if self._disagreement is None else self._disagreement.finding(self.data.ids)
        for finding in (self.model.strain_.finding, disagreement):
            if finding is not None:
                shell.show(shell.printable(f"{finding.meaning} {finding.advice}"))
        shell.show(f"Labels: {out}" + ("" if report is None else f"\nReport: {report}"))

    @property
    def _disagreement(self) -> Disagreement | None:
        """How far given labels lead away from the graph's own clusters; None without labels."""
        return getattr(self.model, "disagreement_", None)

    def _clusters(self) -> list[dict[str, Any]]:
        """Label, size, mass if there are any, term of the energy and mean confidence of each cluster."""
        import numpy as np

        found = self.result.partition
        means = np.bincount(found.labels, self.result.confidence, self.names.size) / np.maximum(found.sizes, 1)
        masses = {"mass": found.masses} if self.result.problem.graph.has_masses else {}
        columns = {"label": self.names, "size": found.sizes, **masses, "term": found.terms, "confidence": means}
        lines = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, line, strict=True)) for line in lines]
