"""`tautcut shard`: from a graph, features or lists of edges to a folder of parts, for graphs that one machine is too
small for. It reads, hands over to `ranks`, and says what came of it; no algorithm lives here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tautcut._version import __version__
from tautcut.cli import shell
from tautcut.cli.options import Common, Source, expanded
from tautcut.errors import InputError
from tautcut.interrupts import apart

if TYPE_CHECKING:
    from tautcut.algorithm.observers import ProgressBar
    from tautcut.ranks import ShardedGraph

_MOST_PARTS = 100_000  # whose folders have names of five digits
_LARGE_HALO = 1.0  # ghosts for each vertex from which on exchanging rows takes longer than working on them


@expanded
def shard(
    *,
    parts: Annotated[str, typer.Option(metavar="N|NxM", help="How many parts; 8x8 is 8 parts for each of 8 machines.")],
    out: Annotated[Path, typer.Option(help="The folder to make; its name ends in .shards.")],
    source: Source,
    common: Common,
) -> None:
    """Divide a graph into parts on disk, one for each process that will work on it."""
    with shell.exit_codes():
        shell.check_seed(common.seed)
        hierarchy = _hierarchy(parts)
        source.refuse_auto_smoothing("shard")
        with source.memory_limited(), common.bar() as bar:
            made = apart(lambda: _sharded(source, hierarchy, out, common, bar))
        _tell(made, common)


def _sharded(
    source: Source, hierarchy: tuple[int, ...], out: Path, common: Common, bar: ProgressBar | None
) -> ShardedGraph:
    import numpy as np

    from tautcut.ranks.edges import edge_files
    from tautcut.ranks.files import new_folder
    from tautcut.ranks.sharding import shard_edges, shard_graph

    new_folder(out)
    tell = bar.show if bar is not None else (lambda name, done, total: None)
    rng = np.random.default_rng(common.seed)
    edges = None if source.kind == "features" else edge_files([source.file])
    if edges is not None:
        common.say(f"'{source.file}' holds {edges.n_rows:,} edges.")
        return shard_edges(edges, hierarchy, out, rng=rng, tell=tell)
    data = source.read()
    graph, _ = source.graph_of(data, common, bar=bar)
    return shard_graph(graph, hierarchy, out, ids=data.ids, rng=rng, tell=tell)


def _tell(made: ShardedGraph, common: Common) -> None:
    """Say how the parts came out, and warn of a large halo."""
    if common.as_json:
        shell.print_json(_about(made, common.seed))
    else:
        shell.show(f"{made.n_parts} parts of {made.whole.n_vertices:,} vertices and {made.whole.n_edges:,} edges.")
        shell.show(f"Halo: {made.halo_share:.3f} ghosts for each vertex.")
        shell.show(f"Shards: {made.path}")
    if made.halo_share > _LARGE_HALO:
        common.say(
            f"Warning: each vertex is a ghost {made.halo_share:.2f} times in the mean, so that processes will spend "
            "much time on exchanging rows. Take fewer parts, or divide by machines first, as 8x8."
        )


def _about(made: ShardedGraph, seed: int) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "command": "shard", "version": __version__, "seed": seed, "out": str(made.path), "digest": made.digest,
        "n_vertices": made.whole.n_vertices, "n_edges": made.whole.n_edges, "n_parts": made.n_parts,
        "hierarchy": list(made.hierarchy), "halo_share": made.halo_share, "parts": [asdict(one) for one in made.parts],
    }  # fmt: skip


def _hierarchy(parts: str) -> tuple[int, ...]:
    """The numbers of 8 or 8x8."""
    found = re.fullmatch(r"(\d{1,7})(?:[x×](\d{1,7}))?", parts.strip())
    numbers = tuple(int(one) for one in found.groups() if one is not None) if found else (0,)
    if min(numbers) < 1:
        raise InputError(f"--parts must be a number ≥ 1, as 8, or two, as 8x8; found {parts!r}.")
    n_parts = numbers[0] * (numbers[1] if len(numbers) > 1 else 1)
    if n_parts > _MOST_PARTS:
        raise InputError(f"--parts must not be more than {_MOST_PARTS:,}; found {parts!r}, {n_parts:,}.")
    return numbers
