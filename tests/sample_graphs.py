"""Graphs and starts that several tests share, drawn from a seed. They need NumPy alone: a machine with a GPU
may not have hypothesis.
"""

from __future__ import annotations

import numpy as np

from tautcut.graph import Graph


def random_graph(n_vertices: int, n_edges: int, *, seed: int, is_weighted: bool = False, n_isolated: int = 0) -> Graph:
    """About `n_edges` edges between random vertices; the last `n_isolated` vertices have none."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, n_vertices - n_isolated, (n_edges, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    weights = rng.uniform(0.2, 3.0, len(pairs)) if is_weighted else None
    return Graph.from_edges(pairs, weights, n_vertices=n_vertices)


def planted_graph(n_blocks: int, size: int, *, seed: int, is_weighted: bool = False) -> Graph:
    """Blocks of `size` vertices, dense inside and sparsely joined; each block is connected."""
    rng = np.random.default_rng(seed)
    n = n_blocks * size
    block = np.repeat(np.arange(n_blocks), size)
    inside = block[:, None] == block
    keep = np.triu(rng.random((n, n)) < np.where(inside, 8 / size, 1.5 / n), 1)
    ring = np.array([(b * size + i, b * size + (i + 1) % size) for b in range(n_blocks) for i in range(size)])
    pairs = np.unique(np.sort(np.vstack([np.argwhere(keep), ring]), axis=1), axis=0)
    weights = rng.uniform(0.5, 2.0, len(pairs)) if is_weighted else None
    return Graph.from_edges(pairs, weights, n_vertices=n)


def soft_start(n_vertices: int, n_clusters: int, *, seed: int) -> np.ndarray:
    """A generic point of the simplex in each row."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_clusters), n_vertices)


def noisy_start(labels: np.ndarray, n_clusters: int, *, seed: int, trust: float = 0.5) -> np.ndarray:
    """A labelling softened by noise: the start that a poor partitioner would give."""
    noise = soft_start(labels.size, n_clusters, seed=seed)
    return trust * np.eye(n_clusters)[labels] + (1 - trust) * noise
