"""Triton kernels of the decoder."""
