"""The templates engine: readable kernels with sizes taken from the tensors, wired up from the exported graph.

`export.py` gets the graph, `plan.py` groups its operators, one file per kernel family writes the text, `file.py` puts
the file together. Everything here runs in the capturing child process.
"""
