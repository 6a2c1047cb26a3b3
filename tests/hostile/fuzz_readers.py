"""Mutated files through the readers alone: quick, many, and aimed at the C libraries behind them. Whatever a file is,
`formats.read` gives what fits together or refuses it in a sentence, keeps to the memory it may take, and leaves the
file as it was.
"""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from random import Random

import numpy as np

from hostile.crafted import CRAFTED
from hostile.fuzz_cli import PACKERS, told
from hostile.mutations import mutated
from hostile.sandbox import ANSWERED, REFUSED, TRACEBACK, Finding, Limits, forget_peak, peak_since
from hostile.specimens import SPECIMENS, TEXTS
from tautcut import formats, memory
from tautcut.errors import TautcutError
from tautcut.formats import Data
from tautcut.graph import Graph

LIMITS = Limits(seconds=60, memory=2 * 2**30)
BINARY = (
    ".h5ad",
    ".parquet",
    ".mtx",
    ".npz",
    ".npy",
    ".graphml",
    ".csv",
    ".graph",
)  # what C libraries read, and tables
OTHERS = (".xlsx", ".gml", ".gexf", ".edgelist", ".tsv", ".txt", ".dat", ".edges")
BUDGET = 256  # megabytes that reading may take, in one case of four
TIMES_BUDGET, TIMES_SIZE = 2, 64  # what is a small multiple of the budget, and of the size of the file
MASS_COLUMNS = {".npz": "masses", ".h5ad": "label", **dict.fromkeys((".graphml", ".gml", ".gexf"), "mass")}
LABEL_COLUMNS = {".npz": "y", ".gml": "label", ".gexf": "label"}


def made(number: int, folder: Path) -> Path:
    """The file of a case: crafted in one of ten, mutated in all."""
    draw = Random(f"readers {number}")
    suffix = draw.choice(BINARY if draw.random() < 0.75 else OTHERS)
    if draw.random() < 0.1:
        content = draw.choice(CRAFTED[suffix])(draw, folder)
    else:
        content = SPECIMENS[suffix](np.random.default_rng(draw.randrange(1000)))
    packing = draw.choice(list(PACKERS)) if draw.random() < 0.03 else ""
    content = mutated(content, draw, is_text=suffix in TEXTS)
    path = folder / f"in{suffix}{packing}"
    path.write_bytes(PACKERS[packing](content) if packing else content)
    return path


def examine(number: int, folder: Path) -> Finding:
    """What is wrong about reading the file of this number."""
    path = made(number, folder)
    draw = Random(f"how it is read {number}")
    suffix = formats.inner_suffix(path)
    is_limited = draw.random() < 0.25
    raw = path.read_bytes()
    about = {"suffix": path.suffix, "size": len(raw), "is_limited": is_limited}
    before = forget_peak()
    with warnings.catch_warnings(record=True) as seen, memory.limited(BUDGET * 2**20 if is_limited else None):
        warnings.simplefilter("always")
        try:
            data = formats.read(
                path,
                label_column=LABEL_COLUMNS.get(suffix, "label") if draw.random() < 0.3 else None,
                mass_column=MASS_COLUMNS.get(suffix, "f0") if draw.random() < 0.15 else None,
                kind=draw.choice([None, None, None, "graph", "features"]),
                missing=draw.choice(["error", "error", "drop", "median"]),
            )
            outcome, problems = ANSWERED, problems_of(data)
        except TautcutError as error:
            outcome, problems = REFUSED, [] if str(error) else ["refused without a word"]
            about["said"] = str(error)[:150]
        except Exception as error:  # noqa: BLE001 - whatever it is, it should have been a TautcutError
            outcome, problems = REFUSED, [f"{TRACEBACK}: {told(error)}"]
            about["traceback"] = traceback.format_exc()[-2500:]
    if is_limited and peak_since(before) > TIMES_BUDGET * BUDGET + TIMES_SIZE * len(raw) / 2**20:
        problems.append(f"{peak_since(before):.0f} MB for a file of {len(raw)} bytes and a budget of {BUDGET} MB")
    problems += [f"{one.category.__name__}: {str(one.message)[:80]}" for one in seen]
    if path.read_bytes() != raw:
        problems.append("the file was changed")
    return Finding(outcome, tuple(problems), about)


def problems_of(data: Data) -> list[str]:
    """What does not fit together in what was read."""
    is_graph = isinstance(data.content, Graph)
    n = data.content.n_vertices if isinstance(data.content, Graph) else data.content.shape[0]
    values = data.content.weights if isinstance(data.content, Graph) else getattr(data.content, "data", data.content)
    problems = []
    if len(data.ids) != n:
        problems.append(f"{len(data.ids)} ids of {n} rows")
    if data.labels is not None and len(data.labels) != n:
        problems.append(f"{len(data.labels)} labels of {n} rows")
    if not is_graph and data.names is not None and len(data.names) != data.content.shape[1]:
        problems.append(f"{len(data.names)} names of {data.content.shape[1]} columns")
    masses = data.content.masses if isinstance(data.content, Graph) else data.masses
    if masses is not None and (len(masses) != n or not (np.isfinite(masses) & (masses > 0)).all()):
        problems.append("masses that are none")
    if not np.isfinite(np.asarray(values, dtype=float)).all():
        problems.append("values that are not finite")
    for name, column in data.others().items():
        if len(column) != n:
            problems.append(f"column {name!r} has {len(column)} rows of {n}")
    return problems
