"""Do two versions of the code give the same labels, bit for bit? Each default fit and each fit of Algorithm 1 as
printed, without labels and with one per class, on five data sets and three seeds, leaves the digest of its labels.

`python benchmarks/digests.py --out new.jsonl` records them, `--against old.jsonl` also prints a table of what differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphs
import numpy as np
from sklearn.datasets import load_digits

from tautcut import MTVClassifier, MTVClustering, datasets
from tautcut.records import circumstances, draw_labels

DATA = ("digits", "optdigits", "pendigits", "20news", "mnist")
MODES: dict[str, dict[str, Any]] = {"default": {}, "as printed": {"algorithm": "paper", "search": "none"}}


def load(name: str) -> tuple[Any, np.ndarray, str]:
    """What is fitted, the truth that labels are drawn from, and how it becomes a graph."""
    if name == "digits":
        return *load_digits(return_X_y=True), "knn"
    if name in ("20news", "mnist"):
        published = datasets.load_graph(name)
        return published.graph, published.truth, "precomputed"
    data = datasets.load(name)
    return data.X, data.truth, "knn"


def fits(names: list[str], n_seeds: int) -> Iterator[dict[str, Any]]:
    for name in names:
        X, truth, affinity = load(name)
        for mode, options in MODES.items():
            for seed in range(n_seeds):
                common = {"affinity": affinity, "random_state": seed, **options}
                began = time.perf_counter()
                model = MTVClustering(int(truth.max()) + 1, **common).fit(X)
                yield entry(f"{name}, no labels, {mode}, seed {seed}", model, model.labels_, began)
                known = draw_labels(truth, per_class=1, rng=np.random.default_rng(seed))
                began = time.perf_counter()
                model = MTVClassifier(**common).fit(X, known)
                yield entry(f"{name}, one label per class, {mode}, seed {seed}", model, model.transduction_, began)


def entry(fit: str, model: Any, labels: np.ndarray, began: float) -> dict[str, Any]:
    digest = hashlib.sha256(np.ascontiguousarray(labels, dtype=np.int64).tobytes()).hexdigest()[:16]
    seconds = round(time.perf_counter() - began, 3)
    return {"fit": fit, "digest": digest, "energy": model.energy_, "seconds": seconds}


def read(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["fit"]: line for line in lines if "fit" in line}


def table(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> str:
    """A row for each fit: the digests, and (P) where they differ."""
    rows = ["| fit | before | after | (P) before | (P) after |", "|---|---|---|---|---|"]
    for fit, one in new.items():
        other = old.get(fit, {"digest": "none", "energy": float("nan")})
        after = "the same" if one["digest"] == other["digest"] else one["digest"]
        rows.append(f"| {fit} | {other['digest']} | {after} | {other['energy']:.6f} | {one['energy']:.6f} |")
    n_same = sum(one["digest"] == old.get(fit, {}).get("digest") for fit, one in new.items())
    return "\n".join([*rows, "", f"{n_same} of {len(new)} fits give the same labels."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=graphs.ROOT / "build" / "digests.jsonl")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", encoding="utf-8") as file:
        file.write(json.dumps(circumstances()) + "\n")
        for one in fits(arguments.data, arguments.seeds):
            file.write(json.dumps(one) + "\n")
            file.flush()
            print(one)
    if arguments.against is not None:
        print(table(read(arguments.against), read(arguments.out)))


if __name__ == "__main__":
    main()
