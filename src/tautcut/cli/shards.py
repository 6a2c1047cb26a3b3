"""`tautcut shard`: from a graph, features or lists of edges to a folder of parts, for graphs that one machine is too
small for. It reads, hands over to `ranks`, and says what came of it; no algorithm lives here.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tautcut._version import __version__
from tautcut.cli import shell
from tautcut.cli.options import Common, expanded
from tautcut.cli.source import Source
from tautcut.errors import InputError
from tautcut.interrupts import apart

if TYPE_CHECKING:
    from tautcut.algorithm.observers import ProgressBar
    from tautcut.ranks import ShardedGraph

_MOST_PARTS = 100_000  # whose folders have names of five digits
_LARGE_HALO = 1.0  # ghosts for each vertex, from which on exchanging rows may take longer than working on them
_SHOWN = 16  # parts that a line is shown for


@dataclass(frozen=True)
class Inputs(Source):
    """The input of a command that takes many files."""

    file: Annotated[  # type: ignore[assignment]
        list[Path],
        Argument(
            metavar="INPUT",
            help="Lists of edges in .parquet, of any size: files, or folders of them. Or one file of a graph or of "
            "features, as 'cluster' takes it.",
        ),
    ]
    n_neighbors: Annotated[
        int, Option("--n-neighbors", "--neighbors", "-n", help="Neighbours of each point, for features.")
    ] = 10

    @property
    def only(self) -> Source:
        """The one file, as other commands take it."""
        if len(self.file) > 1:
            odd = next((one for one in self.file if one.suffix.lower() != ".parquet"), self.file[0])
            raise InputError(
                f"several inputs are lists of edges in .parquet; found '{odd}'. Give one file, or convert."
            )
        return Source(**{one.name: getattr(self, one.name) for one in fields(Source)} | {"file": self.file[0]})


@expanded
def shard(
    *,
    parts: Annotated[str, Option(metavar="N|NxM", help="How many parts; 8x8 is 8 for each of 8 machines.")],
    out: Annotated[Path, Option(help="The folder to make; its name ends in .shards.")],
    n_vertices: Annotated[
        int | None, Option(help="Of lists of edges: vertices are 0 to this less one, though some have no edge.")
    ] = None,
    inputs: Inputs,
    common: Common,
) -> None:
    """Divide a graph into parts on disk, one for each process that will work on it.

    Lists of edges may be larger than memory: they are sorted on disk, beside --out, within --memory. An edge is listed
    once or in both directions; columns are named source, target and weight, or are the first two or three.
    """
    with shell.exit_codes():
        shell.check_seed(common.seed)
        hierarchy = _hierarchy(parts)
        inputs.refuse_auto_smoothing("shard")
        with inputs.memory_limited(), common.bar() as bar:
            made = apart(lambda: _sharded(inputs, hierarchy, out, n_vertices, common, bar))
        _tell(made, common)


def _sharded(
    inputs: Inputs, hierarchy: tuple[int, ...], out: Path, n_vertices: int | None, common: Common,
    bar: ProgressBar | None,
) -> ShardedGraph:  # fmt: skip
    import numpy as np

    from tautcut.checks import one_of, whole_number
    from tautcut.formats.base import KINDS
    from tautcut.ranks.edge_files import edge_files
    from tautcut.ranks.files import new_folder
    from tautcut.ranks.sharding import shard_edges, shard_graph

    new_folder(out)
    if inputs.kind is not None:
        one_of("--as", inputs.kind, KINDS)
    if n_vertices is not None:
        whole_number("--n-vertices", n_vertices)
    tell = bar.show if bar is not None else (lambda name, done, total: None)
    rng = np.random.default_rng(common.seed)
    edges = None if inputs.kind == "features" else edge_files(inputs.file, is_certain=inputs.kind == "graph")
    if edges is not None:
        what = f"'{inputs.file[0]}'" if len(inputs.file) == 1 else f"{len(inputs.file):,} inputs"
        common.say(f"{what}: {edges.n_rows:,} edges in {len(edges.paths):,} files of .parquet.")
        return shard_edges(edges, hierarchy, out, n_vertices=n_vertices, rng=rng, tell=tell)
    source = inputs.only
    if n_vertices is not None:
        raise InputError(f"--n-vertices is for lists of edges in .parquet; '{source.file}' is none. Leave it out.")
    data = source.read()
    graph, _ = source.graph_of(data, common, bar=bar)
    return shard_graph(graph, hierarchy, out, ids=data.ids, rng=rng, tell=tell)


def _tell(made: ShardedGraph, common: Common) -> None:
    """Say how the parts came out, and warn of a large halo."""
    if common.as_json:
        shell.print_json(_about(made, common.seed))
    else:
        _show(made)
    if made.halo_share > _LARGE_HALO:
        common.say(
            f"Warning: each vertex is a ghost {made.halo_share:.2f} times in the mean: processes may spend more time "
            "on exchanging rows than on working on them. Take fewer parts, or divide by machines first, as 8x8."
        )


def _show(made: ShardedGraph) -> None:
    from rich import box

    whole = made.whole
    rows = [
        (str(number), f"{one.n_own:,}", f"{one.n_own / whole.n_vertices:.1%}", f"{one.n_entries:,}",
         f"{one.n_entries / max(1, 2 * whole.n_edges):.1%}", f"{one.n_ghosts:,}")
        for number, one in enumerate(made.parts[:_SHOWN])
    ]  # fmt: skip
    shell.print_table(("part", "vertices", "share", "directed edges", "share", "ghosts"), rows, box=box.SIMPLE_HEAD)
    if made.n_parts > _SHOWN:
        shell.show(f"… and {made.n_parts - _SHOWN:,} more parts.")
    shell.show(f"{made.n_parts:,} parts of {whole.n_vertices:,} vertices and {whole.n_edges:,} edges.")
    levels = ""
    if len(made.hierarchy) > 1:
        levels = " ({:.3f} between nodes, {:.3f} inside them)".format(*made.halo_shares)
    shell.show(f"Halo: {made.halo_share:.3f} ghosts for each vertex{levels}.")
    shell.show(f"Shards: {made.path}")


def _about(made: ShardedGraph, seed: int) -> dict[str, Any]:
    return {
        "command": "shard", "version": __version__, "seed": seed, "out": str(made.path), "digest": made.digest,
        "n_vertices": made.whole.n_vertices, "n_edges": made.whole.n_edges, "n_parts": made.n_parts,
        "hierarchy": list(made.hierarchy), "halo_share": made.halo_share, "halo_shares": list(made.halo_shares),
        "parts": [
            asdict(one) | {"share": one.n_own / made.whole.n_vertices} for one in made.parts
        ],
    }  # fmt: skip


def _hierarchy(parts: str) -> tuple[int, ...]:
    """The numbers of 8 or 8x8."""
    found = re.fullmatch(r"(\d{1,7})(?:[x×](\d{1,7}))?", parts.strip(), re.ASCII)
    numbers = tuple(int(one) for one in found.groups() if one is not None) if found else (0,)
    if min(numbers) < 1:
        raise InputError(f"--parts must be a number ≥ 1, as 8, or two, as 8x8; found {parts!r}.")
    n_parts = numbers[0] * (numbers[1] if len(numbers) > 1 else 1)
    if n_parts > _MOST_PARTS:
        raise InputError(f"--parts must not be more than {_MOST_PARTS:,}; found {parts!r}, {n_parts:,}.")
    return numbers
