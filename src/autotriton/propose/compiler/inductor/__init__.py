"""The inductor engine: Inductor's kernels, cut out of its wrapper into a file that stands alone.

Private torch interfaces are used in this package only, and in the files of it that run in a child process:
`capture.py`, `program.py`, `trace.py`, `decompositions.py` and `fake_cuda.py`. The rest works on text
and trees and imports no torch.
"""
