"""Compiles the kernels that most tests use, into the cache that `make test` empties: otherwise its workers would both
begin by compiling them. Nothing is tested here.
"""

from __future__ import annotations

from sklearn.datasets import load_digits

from tautcut import MTVClassifier, MTVClustering


def main() -> None:
    X, y = load_digits(return_X_y=True)
    y[10:] = -1
    for model in (
        MTVClustering(3, random_state=0),
        MTVClustering(10, init="multilevel", random_state=0),
        MTVClustering(3, weights="self-tuning", random_state=0),
        MTVClassifier(random_state=0),
        MTVClustering(3, dtype="float64", random_state=0),
    ):
        model.fit(X[:600], y[:600])


if __name__ == "__main__":  # a search for doctests imports it
    main()
