"""Which labels to doubt: the images of digits whose neighbours disagree, and how often the doubtful are mistaken."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from tautcut import MTVClustering

EDGES = (0, 0.25, 0.5, 0.75, 1)
GROUPS = ("0 to 0.25", "to 0.5", "to 0.75", "below 1", "1")


def main(path: Path) -> None:
    """Draw the least confident images, and the share of mistakes at each level of confidence."""
    digits = load_digits()
    model = MTVClustering(10, random_state=0).fit(digits.data)
    sure = model.confidence_
    # A cluster is named by the majority of its images; an image of another digit is a mistake.
    majority = np.array([np.bincount(digits.target[model.labels_ == r]).argmax() for r in range(10)])
    is_wrong = majority[model.labels_] != digits.target
    group = np.searchsorted(EDGES, sure, side="right") - 1

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2)
    left.suptitle("the least confident images: cluster, and digit", size=11)
    for axes, image in zip(left.subplots(3, 6).flat, np.argsort(sure, kind="stable"), strict=False):
        axes.imshow(digits.images[image], cmap="gray_r")
        colour = "#d1422f" if is_wrong[image] else "black"
        axes.set_title(f"{majority[model.labels_[image]]}, {digits.target[image]}", size=9, color=colour)
        axes.axis("off")
    axes = right.subplots()
    for number, name in enumerate(GROUPS):
        members = is_wrong[group == number]
        bar = axes.bar(name, members.mean() if members.size else 0, color="#1f5f8b")
        axes.bar_label(bar, [f"of {members.size}"], size=9)
    axes.set_xlabel("confidence")
    axes.set_ylabel("share of mistakes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/confidence.png"))
