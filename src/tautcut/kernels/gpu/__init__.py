"""What runs on an NVIDIA GPU, by torch and Triton: `layout` of the graph, `programs`, the `engine` that launches them,
and what surrounds Algorithm 1 there (`spectral`, `moves`, `nearest`). The only place that knows torch.
"""
