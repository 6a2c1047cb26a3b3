"""The paper's experiments, repeated: `protocol` lists the runs of its tables, `campaign` executes them and survives an
interruption, `published` holds what the paper reports, `tables` puts both side by side, `figures` and `pictures` make
Figures 1 and 2. It uses the library as a user would, and changes no result.
"""
