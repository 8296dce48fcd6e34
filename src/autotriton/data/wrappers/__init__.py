"""Functions of a given name and signature, described in words, each with a Triton answer: a second source of pairs.

Other tasks fix their sizes and bake scalars in; a function here takes any shape, scalars at run time, an optional `dim`
and an optional `out`.
"""

from autotriton.data.wrappers.generating import Wrapper, again, drafts, wrapper

__all__ = ["Wrapper", "again", "drafts", "wrapper"]
