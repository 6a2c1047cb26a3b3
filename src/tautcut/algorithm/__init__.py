"""Algorithm 1: `solver`, the one loop over outer steps; `prox`, the inner loop of each; `stopping`, when and why a run
ends; `batch`, many starts side by side; `results` and `observers`, what a run leaves and shows. It owns every decision
of a run; the arithmetic is the kernels'. It never makes a start and never searches.
"""
