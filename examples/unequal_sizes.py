"""Clusters of unequal size: what `class_prior` changes when one group is much larger than the others."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tautcut import MTVClustering, purity

SHARES = (0.7, 0.15, 0.15)


def main(path: Path) -> None:
    """Draw one large and two small groups as they are, as found by default, and with the shares given."""
    X, truth = groups(1000, np.random.default_rng(0))
    model = MTVClustering(3, random_state=0)
    found = {
        "as drawn": truth,
        "class_prior=None": model.fit_predict(X),
        f"class_prior={SHARES}": model.set_params(class_prior=SHARES).fit_predict(X),
    }

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for axes, (name, labels) in zip(figure.subplots(1, 3), found.items(), strict=True):
        sizes = ", ".join(str(size) for size in np.bincount(labels))
        axes.scatter(X[:, 0], X[:, 1], c=labels, cmap="tab10", vmax=9, s=5)
        axes.set_title(f"{name}\nsizes {sizes}; purity {purity(labels, truth):.1%}", size=10)
        axes.set_aspect("equal")
        axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(path)


def groups(n_points, rng):
    """A broad group in the middle and a small one on either side, not quite apart."""
    truth = np.repeat([0, 1, 2], np.round(np.array(SHARES) * n_points).astype(int))
    centres, spreads = np.array([[0.0, 0.0], [4.3, 0.0], [-4.3, 0.0]]), np.array([1.6, 0.6, 0.6])
    return centres[truth] + spreads[truth, None] * rng.normal(size=(truth.size, 2)), truth


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/unequal_sizes.png"))
