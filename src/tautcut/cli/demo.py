"""The demo: scikit-learn's digits, clustered without labels and classified with one per class."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tautcut.cli import shell
from tautcut.cli.shell import QuietOption, SeedOption

if TYPE_CHECKING:
    from tautcut.records import RunRecord
    from tautcut.records.runs import Model

N_DIGITS = 10
PICTURE = Path("tautcut-demo.png")


def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture of the clusters.")] = PICTURE,
    seed: SeedOption = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records of the runs as JSON.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Cluster 1797 images of digits, without labels and with one label per class."""
    with shell.exit_codes():
        shell.check_seed(seed)
        say = shell.silent if quiet else shell.say
        has_bar = not (quiet or as_json) and sys.stdout.isatty()
        say("Loading ...")
        import numpy as np
        from sklearn.datasets import load_digits

        from tautcut.estimators import MTVClassifier, MTVClustering
        from tautcut.records import draw_labels
        from tautcut.report import check_picture_path, draw_clusters

        check_picture_path(out)
        digits: Any = load_digits()
        say("Preparing: the first run on a machine compiles the kernels, which can take a minute.")
        say(f"Clustering {len(digits.data)} images without labels ...")
        model, clustering = _run(MTVClustering(N_DIGITS, random_state=seed, verbose=has_bar), digits, None)
        say(f"Classifying them from {N_DIGITS} labels, one per class ...")
        labels = draw_labels(digits.target, rng=np.random.default_rng(seed))
        _, classification = _run(MTVClassifier(random_state=seed, verbose=has_bar), digits, labels)
        certainty = model.transform(digits.data).max(axis=1)  # of its neighbours: F itself is flat inside a cluster
        picture = draw_clusters(
            out, digits.images, labels=model.labels_, certainty=certainty, energy=model.energy_,
            truth=digits.target, subject="images of digits, found without labels",
        )  # fmt: skip
        if as_json:
            runs = [asdict(clustering), asdict(classification)]
            shell.print_json({"runs": runs, "picture": str(picture)})
        else:
            _print_table({"no labels": clustering, "one label\nper class": classification})
            shell.show(f"Picture of the clusters: {picture}")


def _run(model: Model, digits: Any, labels: Any) -> tuple[Model, RunRecord]:
    """The fitted model and its record. Where Ctrl-C cut the fit short, the demo ends: half a result would mislead."""
    from tautcut import records
    from tautcut.algorithm.stopping import Status

    X, truth = digits.data, digits.target
    fitted, record = records.run_estimator(model, X, labels, data="digits", truth=truth, warm_up=True)
    if fitted.result_.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return fitted, record


def _print_table(records: dict[str, RunRecord]) -> None:
    """A line for each record, under the name of its mode."""
    rows = []
    for mode, record in records.items():
        sizes = sorted(record.sizes, reverse=True)
        halves = (sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :])
        listed = "\n".join(" ".join(f"{size:3d}" for size in half) for half in halves)
        energy = "infinite" if record.energy is None else f"{record.energy:.4f}"
        purity = "unknown" if record.purity is None else f"{record.purity:.2%}"
        rows.append((mode, str(len(sizes)), listed, energy, purity, f"{record.seconds:.2f}"))
    shell.print_table(("mode", "clusters", "sizes", "energy (P)", "purity", "seconds"), rows)
