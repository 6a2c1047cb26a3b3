"""What runs on an NVIDIA GPU, by torch and Triton: `layout` of the graph, the `programs`, `medians` and `decisions` of
Algorithm 1 on `tables` in the GPU's memory, the `batch` that launches them, the `engine`, and what surrounds it there
(`spectral`, `moves`, `nearest`, `walks`). The only place that knows torch.
"""

DEVICE = "cuda"  # torch's name for the GPU, wherever a tensor is made
