"""What runs on an NVIDIA GPU, by torch and Triton: `layout` of the graph, the `programs`, `medians` and `decisions` of
Algorithm 1 on `tables` in the GPU's memory, the `batch` that launches them, the `engine`, the `piece` of a rank of many
with its `tallies`, and what surrounds them there (`spectral`, `moves`, `nearest`, `walks`). The only place that knows
torch, but for `ranks`, where it carries messages.
"""

DEVICE = "cuda"  # torch's name for the GPU, wherever a tensor is made
