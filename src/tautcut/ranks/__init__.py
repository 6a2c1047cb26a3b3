"""Graphs that are divided among many processes: parts on disk, and runs over all of them."""
