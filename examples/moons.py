"""Four moons in a space of 100 dimensions, cut by spectral clustering and by tautcut on the same graph."""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.cluster import SpectralClustering

from tautcut import MTVClustering, balanced_cut_energy, knn_graph, purity
from tautcut.datasets.synthetic import four_moons


def main(path: Path) -> None:
    """Draw the moons three times: as they are, and as the two methods divide them."""
    X, truth = four_moons(300, random_state=0)
    graph = knn_graph(X, 10)
    spectral = SpectralClustering(4, affinity="precomputed", random_state=0)
    found = {
        "the four moons": truth,
        "spectral clustering": spectral.fit_predict(graph.to_scipy()),
        "tautcut": MTVClustering(4, affinity="precomputed", random_state=0).fit_predict(graph),
    }

    figure = Figure(figsize=(11, 3), layout="constrained")
    for axes, (name, labels) in zip(figure.subplots(1, 3), found.items(), strict=True):
        energy = balanced_cut_energy(graph, labels)
        axes.scatter(X[:, 0], X[:, 1], c=labels, cmap="tab10", vmax=9, s=3)
        axes.set_title(f"{name}\nenergy {energy:.4f}, purity {purity(labels, truth):.1%}", size=10)
        axes.set_aspect("equal")
        axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/moons.png"))
