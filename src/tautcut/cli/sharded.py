"""`cluster` and `classify` of a sharded graph, by many processes, and `tautcut gather`, which joins the labels that
they leave. A process that torchrun has started is a rank; another starts the ranks itself. What they do is decided in
`ranks`; here is what is asked for and what is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from tautcut._version import __version__
from tautcut.cli import shell
from tautcut.cli.options import Common, FitOptions, Grouping, expanded
from tautcut.cli.source import Source
from tautcut.errors import InputError, PeerFailedError, RankLostError
from tautcut.interrupts import apart, heeding, outlive_never

if TYPE_CHECKING:
    from tautcut.ranks import ShardedGraph
    from tautcut.ranks.results import ShardedLabels
    from tautcut.ranks.run import Asked, Known

_GATHERED = (".npy", ".parquet", ".csv", ".tsv", ".json")


@dataclass(frozen=True)
class Ranks:
    """How a sharded graph is worked on by many processes."""

    ranks: Annotated[
        int | None,
        Option(help="Of a sharded graph: this many processes here, one for each part; if absent, as many as it has."),
    ] = None
    resume: Annotated[bool, Option("--resume", help="Of a sharded graph: go on from the last checkpoint in --out.")] = (
        False
    )
    checkpoint: Annotated[float, Option(metavar="SECONDS", help="Of a sharded graph: between checkpoints.")] = 60.0
    timeout: Annotated[
        float, Option(metavar="SECONDS", help="Of a sharded graph: that a process may leave the others waiting.")
    ] = 300.0
    dtype: Annotated[
        str, Option(metavar="float32|mixed|float64", help="Of a sharded graph: the precision of the iterations.")
    ] = "float32"
    verbose: Annotated[
        bool, Option("--verbose", help="Of a sharded graph: every step, and the time on the wire and waiting.")
    ] = False

    def are_meant(self, file: Path) -> bool:
        """Whether the file is a sharded graph; options for one are refused with any other."""
        from tautcut.ranks.files import is_sharded

        if is_sharded(file):
            return True
        asked = {"--ranks": self.ranks is not None, "--resume": self.resume, "--verbose": self.verbose}
        for name, is_given in asked.items():
            if is_given:
                raise InputError(f"{name} is for a sharded graph, and '{file}' is none. Make one by 'tautcut shard'.")
        return False


@dataclass(frozen=True)
class ShardedCommand:
    """A command on a sharded graph, with all its options."""

    name: str
    source: Source
    fit: FitOptions
    grouping: Grouping
    many: Ranks
    common: Common

    def cluster(self, n_clusters: int) -> None:
        """Cluster, as a rank or by starting all ranks; the labels go to the folder --out."""
        if not n_clusters:
            raise InputError("-k auto is not for a sharded graph: name a number, or shard a sample and ask 'suggest'.")
        from tautcut.checks import cluster_count

        graph, out = self._checked()
        cluster_count(n_clusters, graph.whole.n_vertices)
        asked = self._asked(n_clusters, self.fit.settings.get("class_prior"), None)
        self._run(graph, asked, out, ["-k", str(n_clusters)])

    def classify(self, labels: Path | None, unknown: Sequence[str]) -> None:
        """Classify from a table of labels, as a rank or by starting all ranks."""
        if labels is None:
            raise InputError("the known labels of a sharded graph are a table of id and label: give --labels.")
        import numpy as np

        from tautcut.formats import read_known
        from tautcut.ranks.run import Known

        graph, out = self._checked()
        ids, known = read_known(labels, unknown)
        if not ids:
            raise InputError(f"'{labels}' has no known label. Give one for each class.")
        classes, codes = np.unique(known, return_inverse=True)
        prior = self.fit.settings.get("class_prior", "auto")
        asked = self._asked(len(classes), prior, tuple(classes.tolist()))
        words = ["--labels", str(labels), *(word for one in unknown for word in ("--unknown", one))]
        self._run(graph, asked, out, words, Known(ids, codes))

    def _checked(self) -> tuple[ShardedGraph, Path]:
        """The graph and the folder for its labels; what a sharded graph has no use for is refused."""
        from tautcut.ranks.files import ShardedGraph
        from tautcut.ranks.launch import require_torch

        unused = {
            "--report": self.fit.report, "--image": self.fit.image, "--must-link": self.grouping.must_link,
            "--balance": None if self.grouping.balance == "size" else self.grouping.balance,
            "--smooth": self.source.smooth, "--mass-column": self.source.mass_column,
        }  # fmt: skip
        for name, given in unused.items():
            if given is not None:
                raise InputError(
                    f"{name} is not for a sharded graph. Leave it out, or see to it before 'tautcut shard'."
                )
        graph = ShardedGraph.open(self.source.file)
        out = self.fit.out or Path(f"{self.source.file.stem}-labels")
        if out.exists() and not out.is_dir():
            raise InputError(
                f"'{out}' is a file, and the labels of a sharded graph go to a folder. Choose another name."
            )
        apart(require_torch)
        return graph, out

    def _asked(self, n_clusters: int, class_prior: Any, classes: tuple[Any, ...] | None) -> Asked:
        from tautcut.checks import one_of
        from tautcut.kernels.devices import DTYPES
        from tautcut.problem import lam_of_prior
        from tautcut.ranks.run import Asked
        from tautcut.search.plan import Plan

        one_of("--dtype", self.many.dtype, DTYPES)
        for name, value in (("--timeout", self.many.timeout), ("--checkpoint", self.many.checkpoint)):
            if not value > 0:
                raise InputError(f"{name} must be a positive number of seconds; found {value:g}.")
        if class_prior is not None and not isinstance(class_prior, str):
            lam_of_prior(class_prior, n_clusters)
        plan = Plan(search=self.fit.search, device=self.fit.device, dtype=self.many.dtype)
        return Asked(n_clusters, plan, self.common.seed, class_prior, classes, self.many.checkpoint)

    def _run(
        self, graph: ShardedGraph, asked: Asked, out: Path, words: Sequence[str],
        known: Known | None = None,
    ) -> None:  # fmt: skip
        from tautcut.ranks.launch import is_rank

        if is_rank():
            self._run_as_rank(graph, asked, out, known)
        else:
            self._start_ranks(graph, asked, out, words)

    def _start_ranks(self, graph: ShardedGraph, asked: Asked, out: Path, words: Sequence[str]) -> None:
        """Start a rank for each part, and wait for them; rank 0 prints what was found."""
        from tautcut.ranks.checkpoints import in_use, is_finished, is_run_folder
        from tautcut.ranks.launch import run_ranks
        from tautcut.ranks.run import foresee_memory

        for rank in range(graph.n_parts):
            foresee_memory(graph, rank, asked, n_here=graph.n_parts)
        if is_run_folder(out) and not self.many.resume:
            raise InputError(in_use(out, "Add --resume to go on"))
        self.common.say(f"Starting {graph.n_parts} ranks ...")
        told = [self.name, str(graph.path), "--out", str(out), *words, *self._words()]
        try:
            with heeding(lambda: None):  # torchrun's agent passes signals on
                run_ranks(graph, told, out, self.many.ranks)
        except PeerFailedError as error:
            raise typer.Exit(shell.BAD_INPUT) from error
        except KeyboardInterrupt:
            if not is_finished(out):
                raise
            raise typer.Exit(shell.INTERRUPTED) from None

    def _words(self) -> list[str]:
        """The options that every rank is given."""
        many, fit, common = self.many, self.fit, self.common
        flags = {
            "--resume": many.resume, "--verbose": many.verbose, "--quiet": common.quiet, "--json": common.as_json,
        }  # fmt: skip
        values = {
            "--seed": common.seed, "--search": fit.search, "--device": fit.device, "--dtype": many.dtype,
            "--timeout": many.timeout, "--checkpoint": many.checkpoint, "--class-prior": fit.class_prior,
            "--memory": self.source.memory,
        }  # fmt: skip
        given = [word for name, value in values.items() if value is not None for word in (name, str(value))]
        return [*given, *(name for name, is_given in flags.items() if is_given)]

    def _run_as_rank(self, graph: ShardedGraph, asked: Asked, out: Path, known: Known | None) -> None:
        """Run as one of many; what goes wrong is said by the rank where it did."""
        import os

        from tautcut.ranks.launch import LOST, SAID, is_restarted, is_silent
        from tautcut.ranks.results import ShardedLabels
        from tautcut.ranks.run import run_on_rank

        worlds: list[Any] = []

        def ask_to_stop() -> None:
            for world in worlds:
                world.wants_to_stop = True

        outlive_never(os.getppid())
        try:
            with heeding(ask_to_stop), self.common.warnings_said():
                run_on_rank(
                    graph, asked, out, resume=self.many.resume or is_restarted(), timeout=self.many.timeout,
                    say=self.common.say, detail=self.common.say if self.many.verbose else None, known=known,
                    joined=worlds.append,
                )  # fmt: skip
        except PeerFailedError as error:
            raise typer.Exit(SAID) from error
        except RankLostError as error:
            shell.say(f"tautcut: {error}")
            raise typer.Exit(LOST) from error
        if worlds[0].rank == 0 and not is_silent():
            self._tell(ShardedLabels.open(out))

    def _tell(self, found: ShardedLabels) -> None:
        """What was found, and where it is."""
        from tautcut.algorithm.stopping import Status

        if self.common.as_json:
            shell.print_json({
                "command": self.name, "version": __version__, "seed": self.common.seed,
                "input": {"file": str(self.source.file)}, "out": str(found.path), **found.facts,
            })  # fmt: skip
        else:
            names = range(len(found.sizes)) if found.classes is None else found.classes
            rows = ((shell.printable(str(name)), str(size)) for name, size in zip(names, found.sizes, strict=True))
            shell.print_table(("cluster" if found.classes is None else "class", "size"), rows)
            shell.show(f"Energy (P): {found.energy:.6g}. {found.status}")
            shell.show(f"Labels: {found.path}, which 'tautcut gather' joins.")
        if found.status is Status.INTERRUPTED:
            raise typer.Exit(shell.INTERRUPTED)


@expanded
def gather(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What cluster or classify of a sharded graph left.")],
    out: Annotated[Path, typer.Option(help="Where all labels go: .npy (an array of labels) .parquet .csv .tsv .json")],
    common: Common,
) -> None:
    """Join the labels of the parts of a sharded graph to one file, in the order of its vertices."""
    with shell.exit_codes():
        found, n = apart(lambda: _gathered(folder, out))
        if common.as_json:
            shell.print_json({
                "command": "gather", "version": __version__, "input": {"file": str(folder)}, "out": str(out), "n": n,
                "energy": found.energy,
            })  # fmt: skip
        else:
            shell.show(f"Labels of {n:,} vertices: {out}")


def _gathered(folder: Path, out: Path) -> tuple[ShardedLabels, int]:
    import io

    import numpy as np

    from tautcut import formats
    from tautcut.ranks.results import ShardedLabels
    from tautcut.writing import writable, write_whole

    writable(out, _GATHERED)
    found = ShardedLabels.open(folder)
    ids, labels, confidence = found.joined()
    if out.suffix.lower() == ".npy":
        content = io.BytesIO()
        np.save(content, labels if labels.dtype != object else labels.astype(str), allow_pickle=False)
        write_whole(out, content.getvalue())
    else:
        classes = np.arange(len(found.sizes)) if found.classes is None else np.asarray(found.classes)
        about = {"energy": found.energy, "status": str(found.status), "n_iter": found.n_iter}
        formats.write_labels(out, formats.Labelling(ids, labels, confidence, classes, about), source=folder)
    return found, len(labels)
