"""A scikit-learn pipeline on a data frame: wines scaled and clustered, the clusters against the cultivars."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from sklearn.metrics.cluster import contingency_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tautcut import MTVClustering


def main(path: Path) -> None:
    """Draw how the wines of each cultivar fall into the clusters, and what each cluster is like."""
    wine = load_wine(as_frame=True)
    pipeline = make_pipeline(StandardScaler(), MTVClustering(3, random_state=0)).set_output(transform="pandas")
    labels = pipeline.fit_predict(wine.data)
    scaled = pipeline[0].transform(wine.data)
    profile = scaled.groupby(labels).mean()

    figure = Figure(figsize=(10, 4), layout="constrained")
    table, heat = figure.subplots(1, 2, width_ratios=(1, 2.6))
    counts = contingency_matrix(wine.target, labels)
    table.imshow(counts, cmap="Blues")
    for (row, column), count in np.ndenumerate(counts):
        table.text(column, row, count, ha="center", va="center", color="white" if count > counts.max() / 2 else "black")
    table.set_yticks(range(3), wine.target_names)
    table.set_xticks(range(3))
    table.set_xlabel("cluster")
    drawn = heat.imshow(profile, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
    heat.set_xticks(range(profile.shape[1]), profile.columns, rotation=60, ha="right", size=8)
    heat.set_yticks(range(3))
    heat.set_ylabel("cluster")
    figure.colorbar(drawn, ax=heat, label="mean, standardised")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/pipeline.png"))
