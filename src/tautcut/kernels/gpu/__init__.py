"""The engine of an NVIDIA GPU: PyTorch holds the arrays, Triton runs the programs."""
