"""From starts to the best partition: `plan` says how long to search, `starts` and `partitioners` make F⁰, `driver` is
the one outline of a search, `population` what it keeps, `multilevel` and `generations` the two searchers, one for the
processor and one for a GPU. Nothing here looks at true labels.
"""
