"""What Numba compiles for the processor: `engine`, the passes of Algorithm 1; `rows`, their SIMD registers; `moves`,
single-vertex moves and coarsening for the search. The only place that knows Numba; it decides nothing.
"""
