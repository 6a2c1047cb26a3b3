"""Choosing n_neighbors: too few tear the graph apart, too many blur it; in between it matters little."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from tautcut import MTVClustering, knn_graph, purity

NEIGHBORS = (2, 3, 5, 10, 20, 40)


def main(path: Path) -> None:
    """Draw purity and components of the digits' graph against n_neighbors."""
    X, y = load_digits(return_X_y=True)
    graphs = [knn_graph(X, k) for k in NEIGHBORS]
    n_components = [graph.components()[0] for graph in graphs]
    # A graph in pieces is clustered all the same, with a warning; the largest piece is shown here.
    purities = [purity_of_largest_piece(graph, y) for graph in graphs]

    figure = Figure(figsize=(6.5, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    upper.plot(NEIGHBORS, purities, "o-", color="#1f5f8b")
    upper.set_ylabel("purity of the largest piece")
    upper.set_title(f"{len(y)} digits in ten clusters", size=11)
    lower.plot(NEIGHBORS, n_components, "o-", color="#8b3d1f")
    lower.set_ylabel("pieces")
    lower.yaxis.get_major_locator().set_params(integer=True)
    lower.set_xlabel("n_neighbors")
    lower.set_xscale("log")
    lower.set_xticks(NEIGHBORS, [str(k) for k in NEIGHBORS])
    lower.minorticks_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(path)


def purity_of_largest_piece(graph, y):
    """Purity of ten clusters in the largest component of the graph."""
    _, component = graph.components()
    inside = np.flatnonzero(component == np.bincount(component).argmax())
    W = graph.to_scipy()[inside][:, inside]
    labels = MTVClustering(10, affinity="precomputed", n_init=2, random_state=0).fit_predict(W)
    return purity(labels, y[inside])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/neighbours.png"))
