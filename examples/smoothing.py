"""A noisy graph before and after smoothing: where the lowest cut mixes digits, a random walk tells them apart."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits

from tautcut import MTVClustering, purity


def main(path: Path) -> None:
    """Count the digits of each cluster, on the graph of nearest neighbours and on that of the walk."""
    X, y = load_digits(return_X_y=True)
    models = {
        "the 10 nearest neighbours": MTVClustering(10, random_state=0).fit(X),
        "smoothed: the 30 nearest under a walk on it": MTVClustering(10, smoothing=30, random_state=0).fit(X),
    }
    figure = Figure(figsize=(9.5, 5), layout="constrained")
    for axes, (name, model) in zip(figure.subplots(1, 2), models.items(), strict=True):
        counts = np.zeros((10, 10), dtype=int)
        np.add.at(counts, (y, model.labels_), 1)
        counts = counts[:, linear_sum_assignment(-counts)[1]]
        axes.imshow(counts, cmap="Blues")
        for digit, cluster in np.argwhere(counts > 0):
            shade = "white" if counts[digit, cluster] > 90 else "#c0392b" if digit != cluster else "black"
            axes.text(cluster, digit, counts[digit, cluster], ha="center", va="center", color=shade, size=8)
        axes.set_title(f"{name}\npurity {purity(model.labels_, y):.1%}", size=11)
        axes.set(xlabel="cluster", ylabel="digit", xticks=range(10), yticks=range(10))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/smoothing.png"))
