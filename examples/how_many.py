"""Choosing n_clusters: energy, stability and score over a range, where they are clear and where they are not."""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import make_blobs

from tautcut import knn_graph
from tautcut.datasets.synthetic import four_moons
from tautcut.suggestion import suggest_n_clusters

CANDIDATES = range(2, 9)


def main(path: Path) -> None:
    """Draw the curves for five round groups and for four long ones."""
    centres = [(0, 0), (4, 0), (2, 3.5), (6, 3.5), (8, 0)]
    sets = {
        "five round groups": make_blobs(500, centers=centres, cluster_std=0.7, random_state=0)[0],
        "four moons": four_moons(125, random_state=0)[0],
    }
    figure = Figure(figsize=(8, 6), layout="constrained")
    for column, (name, X) in zip(figure.subplots(3, 2, sharex=True).T, sets.items(), strict=True):
        suggestion = suggest_n_clusters(knn_graph(X, 10), CANDIDATES, random_state=0)
        print(f"{name}\n{suggestion}")
        column[0].set_title(f"{name}: {suggestion.n_clusters} suggested", size=11)
        for axes, value in zip(column, ("energy", "stability", "score"), strict=True):
            axes.plot(CANDIDATES, [getattr(point, value) for point in suggestion.curve], "o-", color="#1f5f8b")
            axes.axvline(suggestion.n_clusters, color="#bbbbbb", linestyle="--", zorder=0)
            axes.set_ylabel(value)
    figure.supxlabel("n_clusters", size=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/how_many.png"))
