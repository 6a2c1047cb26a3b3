"""From starts to the best partition: `plan` says how long to search, `starts` and `partitioners` make F⁰, `driver` is
the one outline of a search, `population` what it keeps, `cycles` and `annealing` improve partitions, and `small`,
`multilevel` and `generations` are the searchers: of small graphs, of the processor and of a GPU. Nothing here looks at
true labels.
"""
