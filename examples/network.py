"""A networkx graph: the karate club by its friendships alone, and again with the side of its two leaders known."""

import sys
from pathlib import Path

import networkx
from matplotlib.figure import Figure

from tautcut import MTVClassifier, MTVClustering

LEADERS = (0, 33)


def main(path: Path) -> None:
    """Draw the club twice; a ring marks a member who went to the other side when the club split."""
    G = networkx.karate_club_graph()
    went = dict(G.nodes(data="club"))
    clusters = MTVClustering(2, affinity="precomputed", random_state=0).fit(G).labels_by_node()
    known = {leader: went[leader] for leader in LEADERS}
    sides = MTVClassifier(affinity="precomputed", random_state=0).fit(G, known).labels_by_node()

    name_of = {clusters[leader]: went[leader] for leader in LEADERS}  # clusters have no names of their own
    found = {
        "two clusters, no labels": {member: name_of[cluster] for member, cluster in clusters.items()},
        "two members labelled": sides,
    }
    layout = networkx.spring_layout(G, seed=3)
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    for axes, (name, side) in zip(figure.subplots(1, 2), found.items(), strict=True):
        other = [member for member in G if side[member] != went[member]]
        colours = ["#1f77b4" if side[member] == went[LEADERS[0]] else "#d2691e" for member in G]
        rings = ["black" if member in other else "none" for member in G]
        networkx.draw_networkx_edges(G, layout, ax=axes, edge_color="#cccccc")
        networkx.draw_networkx_nodes(G, layout, ax=axes, node_color=colours, edgecolors=rings, linewidths=2)
        networkx.draw_networkx_labels(G, layout, ax=axes, font_size=8, font_color="white")
        axes.set_title(f"{name}\nwent to the other side: {', '.join(map(str, other)) or 'nobody'}", size=11)
        axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path("build/examples/network.png"))
