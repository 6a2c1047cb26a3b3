"""Smooth in, sharp out: Algorithm 1 starts from the eigenvector of spectral clustering and ends in a step."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from sklearn.manifold import spectral_embedding

from tautcut import Problem, StopRule, knn_graph, purity, solve


def main(path: Path) -> None:
    """Colour two moons by the eigenvector and by what total variation makes of it, and sort both."""
    X, truth = make_moons(800, noise=0.1, random_state=0)
    graph = knn_graph(X, 10)
    eigenvector = rescaled(spectral_embedding(graph.to_scipy(), n_components=1, random_state=0)[:, 0])
    membership = rescaled(relaxed(graph, np.c_[eigenvector, 1 - eigenvector])[:, 0])

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    panels = {"spectral: the second eigenvector": eigenvector, "total variation: the first membership": membership}
    for (points, curve), (name, f) in zip(figure.subplots(2, 2, height_ratios=(3, 2)).T, panels.items(), strict=True):
        points.scatter(X[:, 0], X[:, 1], c=f, cmap="coolwarm", s=8)
        points.set_title(f"{name}\npurity when cut at 0.5: {purity(f > 0.5, truth):.1%}", size=11)
        points.set_aspect("equal")
        points.axis("off")
        curve.plot(np.sort(f)[::-1], color="#1f5f8b", linewidth=2)
        curve.set_xlabel("vertices, highest value first")
        curve.set_ylabel("rescaled to [0, 1]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(path)


def relaxed(graph, start):
    """The last F of Algorithm 1; the F of the best partition seen comes earlier, and is smoother."""
    result = solve(Problem(graph, start.shape[1]), start, stop=StopRule(max_iter=5000))
    print(f"{result.n_iter} iterations. {result.status}")
    return result.last_memberships


def rescaled(f):
    """The values of f, stretched to [0, 1]."""
    return (f - f.min()) / np.ptp(f)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/sharpness.png"))
