"""Images without a label: ten clusters of handwritten digits, each by its most and its least certain members."""

import sys
from pathlib import Path

from sklearn.datasets import load_digits

from tautcut import MTVClustering, purity
from tautcut.report import draw_clusters


def main(path: Path) -> None:
    """Cluster scikit-learn's digits and draw a row of images for each cluster."""
    digits = load_digits()
    model = MTVClustering(n_clusters=10, random_state=0).fit(digits.data)
    print(f"energy {model.energy_:.4f}, purity {purity(model.labels_, digits.target):.1%}. {model.status_}")

    path.parent.mkdir(parents=True, exist_ok=True)
    draw_clusters(
        path,
        digits.images,
        labels=model.labels_,
        certainty=model.transform(digits.data).max(axis=1),
        energy=model.energy_,
        truth=digits.target,  # only to name the rows and to frame the mistakes
        subject="images of digits, found without labels",
    )
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/digits.png"))
