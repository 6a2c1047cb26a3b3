"""Many processes, each of which works on one part of a graph: `world`, what they tell each other (torch.distributed
lives here alone); `halo`, the rows that parts exchange; `engine`, a rank of many as an engine of Algorithm 1; `piece`,
its part on one device; `launching`, several ranks on one machine. What is searched for, and what is kept on disk, is
decided elsewhere.
"""
