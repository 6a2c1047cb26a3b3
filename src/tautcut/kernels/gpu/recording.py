"""Many launches as one: work on the GPU, recorded once as a CUDA graph and repeated by one call of the host."""

from __future__ import annotations

from collections.abc import Callable

import torch


def recorded(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same work as one launch of the host's, a CUDA graph that has not run yet; without a GPU, the work itself."""
    if device.type != "cuda":
        return work
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    torch.cuda.synchronize(device)
    with torch.cuda.stream(stream):
        graph.capture_begin()
        work()
        graph.capture_end()
    replay: Callable[[], None] = graph.replay
    return replay
