"""The compiler proposer: a Triton file without any language model."""

from autotriton.propose.compiler.proposer import CompilerProposer

__all__ = ["CompilerProposer"]
