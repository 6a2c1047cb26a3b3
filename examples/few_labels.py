"""How many labels are enough: digits classified from one to twenty labels of each class, beside label spreading."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from tautcut import MTVClassifier
from tautcut.records import draw_labels

PER_CLASS = (1, 2, 5, 10, 20)
DRAWS = 3


def main(path: Path) -> None:
    """Draw the accuracy on the unlabelled images against the number of labels."""
    X, y = load_digits(return_X_y=True)
    methods = {
        "tautcut": MTVClassifier(random_state=0),
        "label spreading": LabelSpreading(kernel="knn", n_neighbors=10, max_iter=200),
    }
    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.subplots()
    for (name, model), style in zip(methods.items(), ("o-", "s--"), strict=True):
        scores = np.array([[score(model, X, y, n, draw) for draw in range(DRAWS)] for n in PER_CLASS])
        axes.plot(PER_CLASS, scores.mean(axis=1), style, label=name)
        axes.fill_between(PER_CLASS, scores.min(axis=1), scores.max(axis=1), alpha=0.15)
    axes.set_xscale("log")
    axes.set_xticks(PER_CLASS, [str(n) for n in PER_CLASS])
    axes.minorticks_off()
    axes.set_xlabel("labels of each class")
    axes.set_ylabel("accuracy on the other images")
    axes.set_title(f"{len(y)} digits; mean and range of {DRAWS} draws of the labels", size=11)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(path)


def score(model, X, y, n_labels, draw):
    """The accuracy on the images whose label was not given."""
    known = draw_labels(y, per_class=n_labels, rng=np.random.default_rng(draw))
    found = model.fit(X, known).transduction_
    return (found == y)[known == -1].mean()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/few_labels.png"))
