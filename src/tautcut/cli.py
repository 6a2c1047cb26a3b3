"""The command line: a shell over the library, and the only place that prints. Results go to standard output,
status lines and errors to standard error. Exit 0: done; 2: bad input, in one sentence; 130: interrupted.
Heavy imports wait until a command needs them, so that `--help` is quick.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tautcut import __version__
from tautcut.errors import InputError, InterruptedRunWarning, TautcutError

if TYPE_CHECKING:
    from tautcut.estimators import MTVClassifier, MTVClustering
    from tautcut.experiments import RunRecord

N_DIGITS = 10
PICTURE = Path("tautcut-demo.png")
BAD_INPUT, INTERRUPTED = 2, 130

# The base of typer's complaints about options; where it is imported from depends on typer's version.
_UsageError: Any = typer.BadParameter.__bases__[0]

app = typer.Typer(
    help="Cluster and classify the vertices of a similarity graph by Multiclass Total Variation.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; the arguments are those of the process unless given."""
    try:
        code = app(args=arguments, prog_name="tautcut", standalone_mode=False)
    except _UsageError as error:
        typer.echo(f"tautcut: {error.format_message()}", err=True)
        code = BAD_INPUT
    sys.exit(code or 0)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """The options that stand before a command."""
    if version:
        typer.echo(f"tautcut {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture of the clusters.")] = PICTURE,
    seed: Annotated[int, typer.Option(help="Draws the starts and the labels.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records of the runs as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Cluster 1797 images of digits, without labels and with one label per class."""
    with _exit_codes():
        _check_seed(seed)
        say = _silent if quiet else _say
        has_bar = not (quiet or as_json) and sys.stdout.isatty()
        say("Loading ...")
        from tautcut.report import check_picture_path, draw_clusters

        check_picture_path(out)
        digits = _load_digits()
        model, clustering = _cluster_digits(digits, seed, has_bar, say)
        _, classification = _classify_digits(digits, seed, has_bar, say)
        certainty = model.transform(digits.data).max(axis=1)  # of its neighbours: F itself is flat inside a cluster
        picture = draw_clusters(
            out, digits.images, labels=model.labels_, certainty=certainty, energy=model.energy_,
            truth=digits.target, subject="images of digits, found without labels",
        )  # fmt: skip
        if as_json:
            runs = [asdict(clustering), asdict(classification)]
            typer.echo(json.dumps({"runs": runs, "picture": str(picture)}, indent=2))
        else:
            _print_table({"no labels": clustering, "one label\nper class": classification})
            typer.echo(f"Picture of the clusters: {picture}")


def _load_digits() -> Any:
    from sklearn.datasets import load_digits

    return load_digits()


def _cluster_digits(
    digits: Any, seed: int, has_bar: bool, say: Callable[[str], None]
) -> tuple[MTVClustering, RunRecord]:
    from tautcut.estimators import MTVClustering
    from tautcut.experiments import run_clustering

    say("Preparing: the first run on a machine compiles the kernels, which can take a minute.")
    say(f"Clustering {len(digits.data)} images without labels ...")
    model = MTVClustering(N_DIGITS, random_state=seed, verbose=has_bar)
    fitted, record = run_clustering(model, digits.data, data="digits", truth=digits.target, warm_up=True)
    _check_uninterrupted(fitted)
    return fitted, record


def _classify_digits(
    digits: Any, seed: int, has_bar: bool, say: Callable[[str], None]
) -> tuple[MTVClassifier, RunRecord]:
    import numpy as np

    from tautcut.estimators import MTVClassifier
    from tautcut.experiments import draw_labels, run_classification

    say(f"Classifying them from {N_DIGITS} labels, one per class ...")
    labels = draw_labels(digits.target, rng=np.random.default_rng(seed))
    model = MTVClassifier(random_state=seed, verbose=has_bar)
    fitted, record = run_classification(model, digits.data, labels, data="digits", truth=digits.target, warm_up=True)
    _check_uninterrupted(fitted)
    return fitted, record


def _print_table(records: dict[str, RunRecord]) -> None:
    """A line for each record, under the name of its mode."""
    from rich.console import Console
    from rich.table import Table

    table = Table("mode", "clusters", "sizes", "energy (P)", "purity", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for mode, record in records.items():
        sizes = sorted(record.sizes, reverse=True)
        halves = (sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :])
        table.add_row(
            mode,
            str(len(sizes)),
            "\n".join(" ".join(f"{size:3d}" for size in half) for half in halves),
            "infinite" if record.energy is None else f"{record.energy:.4f}",
            "unknown" if record.purity is None else f"{record.purity:.2%}",
            f"{record.seconds:.2f}",
        )
    Console().print(table)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn the user's mistakes and Ctrl-C into a sentence and an exit code; other errors pass."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedRunWarning)  # said below, once
            yield
    except BrokenPipeError:
        raise  # the reader of our output left; typer ends quietly
    except (TautcutError, OSError) as error:
        typer.echo(f"tautcut: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        typer.echo("tautcut: interrupted; nothing was written.", err=True)
        raise typer.Exit(INTERRUPTED) from interrupt


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"--seed must be a whole number ≥ 0; found {seed}.")


def _check_uninterrupted(model: MTVClustering | MTVClassifier) -> None:
    """Ctrl-C gives the best partition so far; a demo of it would mislead, so it ends."""
    from tautcut.stopping import Status

    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt


def _say(message: str) -> None:
    typer.echo(message, err=True)


def _silent(message: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    main()
