"""The arithmetic on arrays of length N or M: one `protocol`, several engines (`reference`, `cpu`, `gpu`), and
`devices`, which makes the engine of a name. A kernels object is bound to one problem and one precision, owns the layout
of its arrays, and decides nothing: the solver calls, the kernels compute. A batch on a GPU is the exception: it takes
the solver's decisions itself, and `batch` says which (decision 0020).
"""
